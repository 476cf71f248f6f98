//! The stack as a drawing, what each host is, and the commands that repeat the run.

use super::headline::operating_point;
use super::load::load_text;
use super::{CommandView, Fact, HostFacts, StackNode, StackView, hops};
use crate::{names, number};
use prony_model::run::Run;
use prony_model::stack::Slo;
use prony_model::{Host, LoadPlan};
use std::collections::BTreeMap;

pub(super) fn of(run: &Run) -> StackView {
    let stack = &run.stack;
    let work = &stack.workload;
    let plan = operating_point(run).map(|t| &t.plan);
    let connections = plan.map_or(work.connections, |p| p.connections);
    let rate = plan.map_or(work.rate, |p| p.rate).map(|r| r.0);
    StackView {
        name: stack.name.clone(),
        entry: stack.entry.clone(),
        workload: load_text(connections, rate),
        objective: stack.slo.as_ref().map(objective).unwrap_or_default(),
        nodes: nodes(run),
    }
}

pub(super) fn objective(slo: &Slo) -> String {
    let p50 = slo.p50.map(|n| format!("p50 within {}", number::micros(n.as_us_f64())));
    let p99 = slo.p99.map(|n| format!("p99 within {}", number::micros(n.as_us_f64())));
    let errors = slo.errors.map(|s| format!("at most {} failed", number::percent(s.0)));
    [p50, p99, errors].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn nodes(run: &Run) -> Vec<StackNode> {
    let path = run.stack.path();
    let generator = run.stack.generator();
    let depths = depths(run, &path);
    let entries: Vec<String> = depths.iter().filter(|(_, d)| **d == 1).map(|(name, _)| (*name).to_string()).collect();
    let mut out = Vec::new();
    match generator {
        Some((name, host)) => out.push(node(run, name, host, 0, entries)),
        None => out.push(unseen("clients", "not part of the stack file", 0, entries)),
    }
    for name in &path {
        let Some(host) = run.stack.host.get(*name) else { continue };
        out.push(node(run, name, host, depths.get(name).copied().unwrap_or(1), host.calls.clone()));
    }
    for name in run.stack.beside_path() {
        let Some(host) = run.stack.host.get(name) else { continue };
        out.push(node(run, name, host, 1, host.calls.clone()));
    }
    if path.is_empty() && !run.stack.entry.is_empty() {
        let target = authority(&run.stack.entry).to_string();
        if let Some(first) = out.first_mut() {
            first.calls = vec![target.clone()];
        }
        out.push(unseen(&target, "seen only from outside", 1, vec![]));
    }
    out
}

/// Column of each host on the path: one more than the nearest caller; hosts nobody calls stand next to the generator.
fn depths<'a>(run: &'a Run, path: &[&'a str]) -> BTreeMap<&'a str, u32> {
    let mut depths: BTreeMap<&str, u32> = BTreeMap::new();
    for name in path {
        let nearest = run.stack.callers(name).into_iter().filter_map(|c| depths.get(c)).min().copied();
        depths.insert(name, nearest.unwrap_or(0) + 1);
    }
    depths
}

fn node(run: &Run, name: &str, host: &Host, depth: u32, calls: Vec<String>) -> StackNode {
    let software = names::software(host.software);
    let role = names::role(host.role);
    let at = String::from(host.at.clone());
    let cpus = host.cpus.as_ref().map(|list| {
        let plural = if list.as_slice().len() > 1 { "CPUs" } else { "CPU" };
        format!("{plural} {list}")
    });
    StackNode {
        name: name.to_string(),
        role: if software.is_empty() { role.to_string() } else { format!("{role}, {software}") },
        place: cpus.map_or(at.clone(), |cpus| format!("{cpus}, {at}")),
        depth,
        calls,
        limits: run.diagnosis.as_ref().is_some_and(|d| d.verdict.hop == name),
        observed: run.series.iter().any(|(key, _)| key.host == name),
        hop: hops::of(run, name, host),
    }
}

fn unseen(name: &str, role: &str, depth: u32, calls: Vec<String>) -> StackNode {
    StackNode {
        name: name.to_string(),
        role: role.to_string(),
        place: String::new(),
        depth,
        calls,
        limits: false,
        observed: false,
        hop: None,
    }
}

/// `10.77.0.2:8080` of `http://10.77.0.2:8080/1k`.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or(rest)
}

pub(super) fn inventory(run: &Run) -> Vec<HostFacts> {
    let facts = |facts: &BTreeMap<String, String>| {
        facts.iter().map(|(name, value)| Fact { name: name.clone(), value: value.clone() }).collect()
    };
    run.inventory.iter().map(|i| HostFacts { host: i.host.clone(), facts: facts(&i.facts) }).collect()
}

/// The whole run again; its record read again; the load alone, by prony and by wrk, so that a colleague can check it with
/// a tool that is not ours.
pub(super) fn commands(run: &Run) -> Vec<CommandView> {
    let mut out = Vec::new();
    let mut push = |what: &str, command: String| out.push(CommandView { what: what.to_string(), command });
    if !run.command.is_empty() {
        push("The whole run", run.command.clone());
    }
    if run.diagnosis.is_some() && !run.id.is_empty() {
        push(
            "The diagnosis, from the record, without load and without root",
            format!("prony diagnose --from {}", quote(&run.id)),
        );
    }
    if let Some(trial) = operating_point(run) {
        push("The load alone", load_command("prony load", &trial.plan));
        if trial.plan.rate.is_none() && trial.plan.body.is_empty() && trial.plan.method == "GET" && trial.plan.keepalive
        {
            push("The load alone, by wrk", load_command("wrk", &trial.plan));
        }
    }
    if !run.id.is_empty() {
        push("This report as data", format!("prony report {} --format json", quote(&run.id)));
    }
    out
}

/// A command line with the flags that wrk, wrk2 and `prony load` share.
fn load_command(tool: &str, plan: &LoadPlan) -> String {
    let mut words = vec![tool.to_string()];
    // wrk wants a thread count of its own and runs two by default.
    if tool == "wrk" || plan.threads > 0 {
        words.push(format!("-t {}", plan.threads.max(1).min(plan.connections.max(1))));
    }
    words.push(format!("-c {}", plan.connections));
    // wrk reads whole seconds only.
    words.push(format!("-d {}s", plan.duration.as_secs_f64().ceil().max(1.0)));
    if let Some(rate) = plan.rate {
        words.push(format!("-R {}", rate.0));
    }
    for (name, value) in &plan.headers {
        words.push(format!("-H {}", quote(&format!("{name}: {value}"))));
    }
    words.push("--latency".to_string());
    words.push(quote(&plan.url));
    words.join(" ")
}

/// Quotes a word for a POSIX shell when it needs it.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quote("http://10.77.0.2:8080/1k"), "http://10.77.0.2:8080/1k");
        assert_eq!(quote("http://h/?a=b&c"), "'http://h/?a=b&c'");
        assert_eq!(quote("it's"), r"'it'\''s'");
    }

    #[test]
    fn the_target_of_a_url() {
        assert_eq!(authority("http://10.77.0.2:8080/1k"), "10.77.0.2:8080");
        assert_eq!(authority("http://host?x"), "host");
    }
}
