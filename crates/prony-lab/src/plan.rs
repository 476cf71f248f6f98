//! What a stack asks of a lab, checked before anything is made.
//!
//! Sees a stack and the CPUs that are online; makes nothing. Invariant: names in a plan are safe as parts of paths,
//! namespace names and interface names.

use crate::LabError;
use crate::traces::SWITCH;
use prony_model::lab::{LabHost, LabServer, Link, Overlay, ServerKind};
use prony_model::{CpuList, Role, Software, Stack};
use std::net::Ipv4Addr;

/// The one port that web servers of a lab listen on.
pub(crate) const PORT: u16 = 80;

/// The port that a kind of server listens on.
pub(crate) fn port(kind: ServerKind) -> u16 {
    store(kind).map_or(PORT, |store| store.port)
}

/// How a database or a cache is reached.
pub(crate) struct Store {
    pub port: u16,
    /// From its own host.
    pub dsn: &'static str,
}

/// None for what speaks HTTP, and for no server.
pub(crate) fn store(kind: ServerKind) -> Option<Store> {
    match kind {
        ServerKind::NginxProxy
        | ServerKind::NginxFiles
        | ServerKind::HaproxyDelay
        | ServerKind::HaproxyProxy
        | ServerKind::HttpdFiles
        | ServerKind::NodeFiles
        | ServerKind::JvmFiles
        | ServerKind::JettyFiles
        | ServerKind::ChainApp
        | ServerKind::None => None,
        ServerKind::Postgres => Some(Store { port: 5432, dsn: "postgresql://app@127.0.0.1/app" }),
        ServerKind::Redis => Some(Store { port: 6379, dsn: "redis://127.0.0.1:6379" }),
    }
}

/// Longest host name: a switch port is called `p-NAME`, and Linux allows 15 bytes (IFNAMSIZ - 1).
const NAME_MAX: usize = 13;

/// A stack as a lab will build it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub hosts: Vec<PlannedHost>,
    /// Host that the entry URL leads to.
    pub entry_host: String,
    /// Path and query of the entry URL.
    pub entry_path: String,
    /// What packets are wrapped in.
    pub overlay: Overlay,
    /// Whether a switch joins the hosts.
    pub has_switch: bool,
}

/// One host of the plan.
#[derive(Clone, Debug)]
pub(crate) struct PlannedHost {
    pub name: String,
    pub addr: Ipv4Addr,
    pub more_addrs: Vec<Ipv4Addr>,
    pub cpus: CpuList,
    /// The hosts it calls, once for each of their addresses.
    pub upstreams: Vec<Upstream>,
    /// A host that waits for its answers: one that calls it, or the generator.
    pub asked_from: String,
    pub lab: LabHost,
}

/// A host that another one calls.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub addr: Ipv4Addr,
    pub kind: Option<ServerKind>,
}

impl PlannedHost {
    /// Its addresses, that of the stack file first.
    pub fn addrs(&self) -> impl Iterator<Item = &Ipv4Addr> {
        std::iter::once(&self.addr).chain(&self.more_addrs)
    }

    /// The server and its software; none on the generator's host, and on one that only has an address.
    pub fn server(&self) -> Option<(&LabServer, Software)> {
        let server = self.lab.server.as_ref().filter(|server| server.kind != ServerKind::None);
        server.map(|server| (server, software(server.kind)))
    }
}

fn software(kind: ServerKind) -> Software {
    match kind {
        ServerKind::NginxProxy | ServerKind::NginxFiles => Software::Nginx,
        ServerKind::HaproxyDelay | ServerKind::HaproxyProxy => Software::Haproxy,
        ServerKind::Postgres => Software::Postgres,
        ServerKind::Redis => Software::Redis,
        ServerKind::HttpdFiles
        | ServerKind::NodeFiles
        | ServerKind::JvmFiles
        | ServerKind::JettyFiles
        | ServerKind::ChainApp
        | ServerKind::None => Software::Other,
    }
}

/// What a person calls the software.
pub(crate) fn software_name(software: Software) -> &'static str {
    match software {
        Software::Nginx => "nginx",
        Software::Haproxy => "haproxy",
        Software::Postgres => "postgres",
        Software::Redis => "redis",
        Software::Other => "the server",
    }
}

impl Plan {
    /// Checks a stack.
    ///
    /// # Errors
    /// It has no `[lab]` section, or asks for something that cannot be built.
    pub fn of(stack: &Stack, online: &CpuList) -> Result<Self, LabError> {
        Self::try_of(stack, online).map_err(|reason| LabError::Stack { stack: stack.name.clone(), reason })
    }

    fn try_of(stack: &Stack, online: &CpuList) -> Result<Self, String> {
        let lab = stack.lab.as_ref().ok_or("it has no [lab] section, so there is nothing to bring up")?;
        let has_switch = lab.has_switch();
        let generator = stack.generator().map(|(name, _)| name).ok_or("no host has role = \"generator\"")?;
        let addrs_of = |name: &str| -> Result<Vec<Ipv4Addr>, String> {
            let host = lab.host.get(name).ok_or(format!("host `{name}` has no [lab.host.{name}] with its addr"))?;
            let wrong = |_| format!("`lab.host.{name}.addr` is `{}`: write an IPv4 address, like 10.77.0.2", host.addr);
            addresses(name, host.addr.parse().map_err(wrong)?, host.addresses.unwrap_or(1))
        };
        let mut hosts: Vec<PlannedHost> = Vec::new();
        for (name, host) in &stack.host {
            check_name(name)?;
            let mut addrs = addrs_of(name)?;
            check_addrs(name, &addrs, &hosts)?;
            let cpus = host.cpus.as_ref().unwrap_or(online).clone();
            if let Some(cpu) = cpus.as_slice().iter().find(|cpu| !online.contains(**cpu)) {
                return Err(format!("host `{name}` wants CPU {cpu}; this machine has {online}"));
            }
            let lab = lab.host.get(name).cloned().unwrap_or_default();
            check_server(name, host.role, &lab, host.calls.is_empty())?;
            check_link(name, &lab.link, has_switch)?;
            let asked_from = stack.callers(name).first().map_or(generator, |caller| caller).to_string();
            let kind_of = |name: &str| stack.lab.as_ref()?.host.get(name)?.server.as_ref().map(|server| server.kind);
            let mut upstreams = Vec::new();
            for called in &host.calls {
                let kind = kind_of(called);
                upstreams.extend(addrs_of(called)?.into_iter().map(|addr| Upstream { addr, kind }));
            }
            check_stores(name, &lab, &upstreams)?;
            // The first is `addr` itself, which every host has.
            let addr = addrs.remove(0);
            hosts.push(PlannedHost { name: name.clone(), addr, more_addrs: addrs, cpus, upstreams, asked_from, lab });
        }
        if !has_switch && hosts.len() != 2 {
            return Err(format!(
                "`lab.switch` is false, so there are two hosts with one cable; here are {}",
                hosts.len()
            ));
        }
        let (entry_host, entry_path) = entry(&stack.entry, &hosts)?;
        Ok(Self { hosts, entry_host, entry_path, overlay: lab.overlay(), has_switch })
    }
}

/// So many addresses, one after the other.
fn addresses(name: &str, first: Ipv4Addr, count: u32) -> Result<Vec<Ipv4Addr>, String> {
    let last = u32::from(first.octets()[3]) + count.saturating_sub(1);
    if count == 0 || last > 254 {
        return Err(format!(
            "`lab.host.{name}.addresses` is {count}: from {first} on there are 1 to {} in its /24",
            255 - u32::from(first.octets()[3])
        ));
    }
    Ok((0..count).map(|more| Ipv4Addr::from(u32::from(first) + more)).collect())
}

fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(good) {
        return Err(format!("`{name}` cannot be a lab host: names have 1 to {NAME_MAX} characters of a-z, 0-9 and _"));
    }
    if name == SWITCH {
        return Err(format!("`{SWITCH}` cannot be a lab host: the lab's switch has that name"));
    }
    Ok(())
}

fn check_addrs(name: &str, addrs: &[Ipv4Addr], before: &[PlannedHost]) -> Result<(), String> {
    for addr in addrs {
        if !addr.is_private() {
            return Err(format!(
                "`lab.host.{name}.addr` {addr} is no private address: use 10.x, 172.16.x or 192.168.x"
            ));
        }
        for (host, known) in before.iter().map(|other| (other.name.as_str(), other.addr)) {
            if known.octets()[..3] != addr.octets()[..3] {
                return Err(format!(
                    "hosts `{host}` ({known}) and `{name}` ({addr}) are not in one /24: a lab has one network"
                ));
            }
        }
        let taken = |other: &&PlannedHost| other.addr == *addr || other.more_addrs.contains(addr);
        if let Some(other) = before.iter().find(taken) {
            return Err(format!("hosts `{}` and `{name}` have the same address {addr}", other.name));
        }
    }
    Ok(())
}

/// Smallest MTU of IPv4 over Ethernet that its hosts must take (RFC 791, 576), and the largest of the kernel's virtual links.
const MTU: std::ops::RangeInclusive<u32> = 576..=65_521;
/// A burst holds the largest packet of Ethernet, and at most what tbf of the kernel counts in (32 bits of bytes, far less here).
const BURST_KIB: std::ops::RangeInclusive<u32> = 2..=65_536;
/// More queues than this are no test of anything here. A guess.
const QUEUES_MAX: u32 = 64;

fn check_link(name: &str, link: &Link, has_switch: bool) -> Result<(), String> {
    let wrong = |message: String| Err(format!("`lab.host.{name}.link`: {message}"));
    for direction in [link.sending(), link.receiving()] {
        let delay = direction.delay.unwrap_or_default();
        if let Some(jitter) = direction.jitter.filter(|jitter| *jitter > delay) {
            return wrong(format!("a jitter of {jitter} needs a `delay` of at least as much, and that is {delay}"));
        }
        if direction.reorder.is_some() && direction.delay.is_none() {
            return wrong("`reorder` needs a `delay`: a packet overtakes those that have one".to_string());
        }
        if let Some(kib) = direction.burst_kib.filter(|kib| !BURST_KIB.contains(kib)) {
            return wrong(format!("`burst_kib` is {kib}: write {} to {}", BURST_KIB.start(), BURST_KIB.end()));
        }
    }
    for (key, mtu) in [("mtu", link.mtu), ("path_mtu", link.path_mtu)] {
        if let Some(mtu) = mtu.filter(|mtu| !MTU.contains(mtu)) {
            return wrong(format!("`{key}` is {mtu}: write {} to {}", MTU.start(), MTU.end()));
        }
    }
    match link.queues {
        Some(queues) if !(1..=QUEUES_MAX).contains(&queues) => {
            return wrong(format!("`queues` is {queues}: write 1 to {QUEUES_MAX}"));
        }
        Some(2..) if link.is_delayed() => return wrong("a link with a `delay` has one queue".to_string()),
        Some(_) | None => {}
    }
    let at_the_switch = !link.receive.is_plain() || link.loss.is_some() || link.is_delayed() || link.path_mtu.is_some();
    if !has_switch && at_the_switch {
        return wrong(
            "`loss`, `delay`, `path_mtu` and `receive` are done at the switch, and `lab.switch` is false".to_string(),
        );
    }
    Ok(())
}

/// An application needs the stores that it is written for.
fn check_stores(name: &str, lab: &LabHost, upstreams: &[Upstream]) -> Result<(), String> {
    if lab.server.as_ref().is_none_or(|s| s.kind != ServerKind::ChainApp) {
        return Ok(());
    }
    for (kind, text) in [(ServerKind::Postgres, "postgres"), (ServerKind::Redis, "redis")] {
        if !upstreams.iter().any(|u| u.kind == Some(kind)) {
            return Err(format!(
                "host `{name}` is a chain-app and calls no {text}: name such a host in `host.{name}.calls`"
            ));
        }
    }
    Ok(())
}

fn check_server(name: &str, role: Role, lab: &LabHost, calls_nobody: bool) -> Result<(), String> {
    match &lab.server {
        None if role != Role::Generator => Err(format!(
            "host `{name}` has no server: add `server = {{ kind = \"nginx-files\" }}` to [lab.host.{name}]"
        )),
        Some(_) if role == Role::Generator => Err(format!("host `{name}` sends the load, so it can have no server")),
        Some(server) if is_proxy(server.kind) && calls_nobody => {
            Err(format!("host `{name}` is a proxy and calls nobody: name its upstreams in `host.{name}.calls`"))
        }
        Some(server) if server.kind != ServerKind::NginxProxy && has_rules(server) => Err(format!(
            "`domains`, `map_lines` and `regex_rules` of host `{name}` are rules of a `nginx-proxy`, and it is none"
        )),
        _ => Ok(()),
    }
}

fn is_proxy(kind: ServerKind) -> bool {
    matches!(kind, ServerKind::NginxProxy | ServerKind::HaproxyProxy)
}

fn has_rules(server: &LabServer) -> bool {
    [server.domains, server.map_lines, server.regex_rules].iter().any(Option::is_some)
}

/// The host and the path that the entry URL leads to.
fn entry(url: &str, hosts: &[PlannedHost]) -> Result<(String, String), String> {
    let wrong = || {
        let known: Vec<String> = hosts.iter().map(|h| h.addr.to_string()).collect();
        format!(
            "`entry` is `{url}`: write http://ADDRESS/PATH with the address of a lab host ({}); all listen on port {PORT}",
            known.join(", ")
        )
    };
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(a, p)| (a, p));
    let (addr, port) = authority.split_once(':').unwrap_or((authority, "80"));
    let host = hosts.iter().find(|h| h.addr.to_string() == addr && h.lab.server.is_some());
    match (host, port.parse()) {
        (Some(host), Ok(PORT)) => Ok((host.name.clone(), format!("/{path}"))),
        (Some(_) | None, _) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const GOOD: &str = r#"
name = "t"
entry = "http://10.77.0.20/616"
[host.client]
role = "generator"
cpus = "1"
[host.lb]
role = "proxy"
calls = ["s1"]
[host.s1]
[lab.host.client]
addr = "10.77.0.10"
[lab.host.lb]
addr = "10.77.0.20"
server = { kind = "nginx-proxy" }
[lab.host.s1]
addr = "10.77.0.31"
server = { kind = "nginx-files" }
"#;

    fn check(from: &str, to: &str, want: Expect) {
        assert!(GOOD.contains(from), "the test does not change anything");
        let stack = Stack::parse("t.toml", &GOOD.replace(from, to)).unwrap();
        want.assert_eq(&Plan::of(&stack, &CpuList::from_iter([0, 1])).unwrap_err().to_string());
    }

    #[test]
    fn plans_a_good_stack() {
        let plan = Plan::of(&Stack::parse("t.toml", GOOD).unwrap(), &CpuList::from_iter([0, 1])).unwrap();
        assert_eq!((plan.entry_host.as_str(), plan.entry_path.as_str()), ("lb", "/616"));
        let lb = &plan.hosts[1];
        assert_eq!((lb.cpus.as_slice(), lb.upstreams.len(), lb.asked_from.as_str()), (&[0, 1][..], 1, "client"));
        assert_eq!(plan.hosts[2].asked_from, "lb");
        assert!(plan.has_switch && plan.overlay == Overlay::None);
    }

    #[test]
    fn a_server_with_several_addresses_is_called_at_each() {
        let more = GOOD.replace("addr = \"10.77.0.31\"", "addr = \"10.77.0.31\"\naddresses = 3");
        let plan = Plan::of(&Stack::parse("t.toml", &more).unwrap(), &CpuList::from_iter([0, 1])).unwrap();
        let called: Vec<String> = plan.hosts[1].upstreams.iter().map(|u| u.addr.to_string()).collect();
        assert_eq!(called, ["10.77.0.31", "10.77.0.32", "10.77.0.33"]);
        check(
            "addr = \"10.77.0.31\"",
            "addr = \"10.77.0.31\"\naddresses = 250",
            expect!["stack `t`: `lab.host.s1.addresses` is 250: from 10.77.0.31 on there are 1 to 224 in its /24"],
        );
        check(
            "addr = \"10.77.0.31\"",
            "addr = \"10.77.0.18\"\naddresses = 3",
            expect!["stack `t`: hosts `lb` and `s1` have the same address 10.77.0.20"],
        );
    }

    #[test]
    fn says_which_links_cannot_be_built() {
        let link = |text: &str, want: Expect| {
            check("[lab.host.s1]", &format!("[lab.host.s1.link]\n{text}\n[lab.host.s1]"), want)
        };
        link(
            "delay = \"1ms\"\njitter = \"2ms\"",
            expect![
                "stack `t`: `lab.host.s1.link`: a jitter of 2ms needs a `delay` of at least as much, and that is 1ms"
            ],
        );
        link(
            "reorder = \"1%\"",
            expect!["stack `t`: `lab.host.s1.link`: `reorder` needs a `delay`: a packet overtakes those that have one"],
        );
        link("mtu = 60", expect!["stack `t`: `lab.host.s1.link`: `mtu` is 60: write 576 to 65521"]);
        link("path_mtu = 60", expect!["stack `t`: `lab.host.s1.link`: `path_mtu` is 60: write 576 to 65521"]);
        link("burst_kib = 1", expect!["stack `t`: `lab.host.s1.link`: `burst_kib` is 1: write 2 to 65536"]);
        link("receive.burst_kib = 1", expect!["stack `t`: `lab.host.s1.link`: `burst_kib` is 1: write 2 to 65536"]);
        link(
            "queues = 2\ndelay = \"1ms\"",
            expect!["stack `t`: `lab.host.s1.link`: a link with a `delay` has one queue"],
        );
        check(
            "[lab.host.client]",
            "[lab]\nswitch = false\n[lab.host.client]",
            expect!["stack `t`: `lab.switch` is false, so there are two hosts with one cable; here are 3"],
        );
    }

    #[test]
    fn an_application_needs_its_stores() {
        check(
            "server = { kind = \"nginx-files\" }",
            "server = { kind = \"chain-app\" }",
            expect!["stack `t`: host `s1` is a chain-app and calls no postgres: name such a host in `host.s1.calls`"],
        );
    }

    #[test]
    fn says_what_cannot_be_built() {
        check(
            "10.77.0.31",
            "10.77.1.31",
            expect![
                "stack `t`: hosts `client` (10.77.0.10) and `s1` (10.77.1.31) are not in one /24: a lab has one network"
            ],
        );
        check("10.77.0.31", "10.77.0.20", expect!["stack `t`: hosts `lb` and `s1` have the same address 10.77.0.20"]);
        check(
            "10.77.0.31",
            "8.8.8.8",
            expect!["stack `t`: `lab.host.s1.addr` 8.8.8.8 is no private address: use 10.x, 172.16.x or 192.168.x"],
        );
        check("cpus = \"1\"", "cpus = \"7\"", expect!["stack `t`: host `client` wants CPU 7; this machine has 0-1"]);
        check(
            "/616",
            ":8080/616",
            expect![
                "stack `t`: `entry` is `http://10.77.0.20:8080/616`: write http://ADDRESS/PATH with the address of a lab host (10.77.0.10, 10.77.0.20, 10.77.0.31); all listen on port 80"
            ],
        );
        check(
            "calls = [\"s1\"]",
            "",
            expect!["stack `t`: host `lb` is a proxy and calls nobody: name its upstreams in `host.lb.calls`"],
        );
        check(
            "server = { kind = \"nginx-files\" }",
            "",
            expect!["stack `t`: host `s1` has no server: add `server = { kind = \"nginx-files\" }` to [lab.host.s1]"],
        );
        check(
            "[host.s1]",
            "[host.s1]\n[host.\"../x\"]",
            expect!["stack `t`: `../x` cannot be a lab host: names have 1 to 13 characters of a-z, 0-9 and _"],
        );
    }
}
