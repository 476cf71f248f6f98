//! `prony network`: what the ways between the hosts of a stack carry, and what that costs the CPUs, before any application runs.
//!
//! Here the ways are found and the result is shown; `legs` measures them. Invariant: a way that could not be measured is a gap
//! with its reason.

mod cost;
mod layers;
mod legs;

use crate::cli::{NetworkArgs, SenderArg};
use crate::measure::{LabGuard, interrupts};
use crate::output::{print, write};
use crate::progress::Progress;
use crate::{BadArgument, Exit, home, origin, source};
use anyhow::Result;
pub(crate) use legs::{Asked, Way, measure};
use prony_agent::Agent;
use prony_load::check_url;
use prony_model::network::{Leg, NetworkReport, SCHEMA, Sender};
use prony_model::{Event, Gap, Nanos, Place, Stack};
use prony_report::network as shown;
use prony_report::text::Style;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shorter measurements say nothing about CPU times, which have ticks of 10 ms. A guess.
const EACH_MIN: Nanos = Nanos::from_millis(300);
/// Longer ones are a mistake. A guess.
const EACH_MAX: Nanos = Nanos::from_millis(600_000);
/// Payload of a datagram: the probes' own size, and the most that UDP over IPv4 takes.
const SIZES: std::ops::RangeInclusive<u32> = 16..=65_507;

/// `prony network`.
pub(crate) fn run(args: &NetworkArgs) -> Result<Exit> {
    let asked = asked(args)?;
    let interrupted = interrupts()?;
    let mut progress = Progress::lines(args.quiet);
    let of = args.stack.clone().unwrap_or_else(|| "the layers of this machine".to_string());
    let mut report = NetworkReport { schema: SCHEMA.to_string(), of, each: asked.each, ..NetworkReport::default() };
    if let Some(name) = &args.stack {
        let stack = source::stack(name)?;
        if stack.host.len() < 2 {
            let text =
                format!("{name} names fewer than two hosts: write a stack file with the hosts and who `calls` whom");
            return Err(BadArgument::error(text));
        }
        on(&stack, "path", &asked, &mut report, &mut progress, &interrupted)?;
    }
    if args.layers {
        for layer in layers::all()? {
            on(&layer.stack, &layer.name, &asked, &mut report, &mut progress, &interrupted)?;
        }
    }
    show(args, &report)?;
    let cut = interrupted.load(Ordering::Relaxed);
    if cut {
        eprintln!("note: interrupted; what was measured is shown");
    }
    Ok(if cut || report.legs.is_empty() { Exit::NotValid } else { Exit::Done })
}

fn asked(args: &NetworkArgs) -> Result<Asked> {
    if !(EACH_MIN..=EACH_MAX).contains(&args.each) {
        return Err(BadArgument::error(format!("--each is {}: write {EACH_MIN} to {EACH_MAX}", args.each)));
    }
    if let Some(wrong) = args.sizes.iter().find(|size| !SIZES.contains(size)) {
        let (least, most) = (SIZES.start(), SIZES.end());
        return Err(BadArgument::error(format!("--sizes has {wrong}: write {least} to {most} bytes of payload")));
    }
    let there = prony_tool::IPERF3.find().is_some();
    let sender = match args.sender {
        SenderArg::Iperf3 if !there => {
            return Err(BadArgument::error(
                "iperf3 is not installed: apt-get install iperf3, or leave out `--sender iperf3`",
            ));
        }
        SenderArg::Iperf3 => Sender::Iperf3,
        SenderArg::Auto if there => Sender::Iperf3,
        SenderArg::Auto | SenderArg::Own => Sender::Own,
    };
    Ok(Asked { each: args.each, sizes: args.sizes.clone(), sender, streams: true })
}

/// Brings the stack up if it is a lab, and measures its ways.
fn on(
    stack: &Stack,
    layer: &str,
    asked: &Asked,
    report: &mut NetworkReport,
    progress: &mut Progress,
    interrupted: &AtomicBool,
) -> Result<()> {
    if interrupted.load(Ordering::Relaxed) {
        return Ok(());
    }
    let lab = stack.lab.is_some().then(|| LabGuard::up(stack, progress)).transpose()?;
    let stack = lab.as_ref().map_or(stack, |lab| &lab.up.stack);
    let agents = prony_session::connect(stack, &home::journal());
    for (name, host) in &stack.host {
        if let Some(cpus) = &host.cpus {
            report.cpus.insert(name.clone(), cpus.to_string());
        }
    }
    let (ways, gaps) = ways(stack, layer);
    report.gaps.extend(gaps);
    for way in &ways {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        if !is_new(way, &report.legs) {
            continue;
        }
        let detail = format!("{}: {} to {}", way.layer, way.from, way.to);
        progress.show(&Event::Stage { name: "network".to_string(), detail });
        let (leg, gaps) = measure(&agents, way, asked, interrupted);
        report.legs.extend(leg);
        report.gaps.extend(gaps);
    }
    drop(agents);
    lab.map_or(Ok(()), LabGuard::down)
}

/// Loopback is the same in every lab of layers.
fn is_new(way: &Way, legs: &[Leg]) -> bool {
    way.from != way.to || !legs.iter().any(|leg| leg.layer == way.layer)
}

/// The ways of a stack: through the caller's own loopback, then from each host to each that it calls.
fn ways(stack: &Stack, layer: &str) -> (Vec<Way>, Vec<Gap>) {
    let generator = stack.generator().map(|(name, _)| name);
    let entry = stack.path().first().copied();
    let mut ways: Vec<Way> = generator.into_iter().map(loopback).collect();
    let mut gaps = Vec::new();
    for caller in generator.into_iter().chain(stack.path()) {
        let calls = stack.host.get(caller).map(|host| host.calls.as_slice()).unwrap_or_default();
        let called: Vec<&str> = match calls.is_empty() && Some(caller) == generator {
            true => entry.into_iter().collect(),
            false => calls.iter().map(String::as_str).collect(),
        };
        for callee in called {
            match address(stack, callee) {
                Ok(to_addr) => ways.push(Way { to_addr, ..way(stack, layer, caller, callee) }),
                Err(reason) => gaps.push(Gap::new("network", callee, reason)),
            }
        }
    }
    (ways, gaps)
}

fn loopback(host: &str) -> Way {
    let here = Ipv4Addr::LOCALHOST.into();
    let (from, to) = (host.to_string(), host.to_string());
    Way { layer: "loopback".to_string(), from, to, to_addr: here, from_addr: None, set: (String::new(), String::new()) }
}

fn way(stack: &Stack, layer: &str, from: &str, to: &str) -> Way {
    let link = |name: &str| stack.lab.as_ref()?.host.get(name).map(|host| &host.link);
    let directions = |first: &str, second: &str| {
        let sent = link(first).map(|link| link.sending().to_string());
        let received = link(second).map(|link| link.receiving().to_string());
        let words: Vec<String> = [sent, received].into_iter().flatten().filter(|words| !words.is_empty()).collect();
        words.join("; ")
    };
    Way {
        layer: layer.to_string(),
        from: from.to_string(),
        to: to.to_string(),
        to_addr: Ipv4Addr::UNSPECIFIED.into(),
        from_addr: address(stack, from).ok(),
        set: (directions(from, to), directions(to, from)),
    }
}

/// Where a host is on the path.
fn address(stack: &Stack, name: &str) -> Result<IpAddr, String> {
    let unknown = || format!("its address is not known: write `addr` into [host.{name}]");
    let host = stack.host.get(name).ok_or_else(|| "the stack has no such host".to_string())?;
    if let Place::Agent(agent) = &host.at {
        return Err(format!("it is at `agent:{agent}`: this version reaches only hosts of this machine"));
    }
    let of_entry = || match stack.path().first() {
        Some(entry) if *entry == name => check_url(&stack.entry).ok().map(|target| target.host),
        Some(_) | None => None,
    };
    let text = host.addr.clone().or_else(of_entry).ok_or_else(unknown)?;
    text.parse().map_err(|_| format!("`{text}` is no IP address: write one as `addr` into [host.{name}]"))
}

/// What the links of a lab were told to do, and what is measured of that: one leg for each link that does something to packets.
pub(crate) fn of_links(stack: &Stack, each: Nanos) -> (Vec<Leg>, Vec<Gap>) {
    let agents: BTreeMap<String, Box<dyn Agent>> = prony_session::connect(stack, &home::journal());
    let (ways, mut gaps) = ways(stack, "path");
    let mut legs = Vec::new();
    for way in ways.iter().filter(|way| way.set != (String::new(), String::new())) {
        // Bandwidth says something where a rate was set; delay and loss are the probes' to tell.
        let streams = [&way.set.0, &way.set.1].iter().any(|set| set.contains("rate"));
        let asked = Asked { each, sizes: Vec::new(), sender: Sender::Own, streams };
        let (leg, more) = measure(&agents, way, &asked, &AtomicBool::new(false));
        legs.extend(leg);
        gaps.extend(more);
    }
    (legs, gaps)
}

fn show(args: &NetworkArgs, report: &NetworkReport) -> Result<()> {
    let style = if std::io::stdout().is_terminal() { Style::Ansi } else { Style::Plain };
    print(&if args.json { serde_json::to_string_pretty(report)? } else { shown::text(report, style) });
    let page = |path: &PathBuf| write(path, &shown::markdown(report, &origin::of(command(args))));
    args.md.as_ref().map_or(Ok(()), page)
}

/// As somebody would type it again.
fn command(args: &NetworkArgs) -> String {
    let stack = args.stack.iter().map(|stack| format!(" {stack}"));
    let layers = args.layers.then(|| " --layers".to_string());
    let words: String = stack.chain(layers).collect();
    format!("prony network{words} --each {}", args.each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, want: Expect) {
        let (ways, gaps) = ways(&Stack::parse("s.toml", text).unwrap(), "path");
        let way = |w: &Way| format!("{} {} -> {} at {} [{}|{}]\n", w.layer, w.from, w.to, w.to_addr, w.set.0, w.set.1);
        let lines: String = ways.iter().map(way).chain(gaps.iter().map(|gap| format!("gap {gap}\n"))).collect();
        want.assert_eq(&lines);
    }

    #[test]
    fn ways_lead_from_each_caller_to_whom_it_calls() {
        check(
            r#"
entry = "http://10.77.0.20/"
[host.client]
role = "generator"
[host.lb]
calls = ["s1", "s2"]
[host.s1]
addr = "10.77.0.31"
[host.s2]
[lab.host.client.link]
delay = "10ms"
[lab.host.lb.link]
rate = "20mbit"
receive = { loss = "1%" }
"#,
            expect![[r#"
                loopback client -> client at 127.0.0.1 [|]
                path client -> lb at 10.77.0.20 [delay 10ms; loss 1%|rate 20mbit; delay 10ms]
                path lb -> s1 at 10.77.0.31 [rate 20mbit|loss 1%]
                gap network of s2: its address is not known: write `addr` into [host.s2]
            "#]],
        );
    }

    #[test]
    fn every_layer_is_a_lab() {
        let layers = layers::all().unwrap();
        let names: Vec<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names[..2], ["namespaces", "namespaces, offloads off"]);
        assert_eq!(names.len(), 6);
    }
}
