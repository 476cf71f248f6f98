//! The network of a lab: a namespace per host, a switch in a namespace of its own, and links that do to packets what the lab says.
//!
//! Two labs with the same addresses never meet, because each has its own switch. Rate is a token bucket at the end that
//! sends; loss is dropped in the switch, where no host counts it; delay is netem where the kernel has it, and else a process
//! (see `wire`). Invariant: what holds packets up stands between the host and the switch, never in the host's own interface.

use crate::error::file;
use crate::plan::{Plan, PlannedHost};
use crate::state::{State, Thing};
use crate::sys;
use crate::tool;
use crate::traces::{Ground, SWITCH, netns_name, port_name};
use crate::wire;
use crate::{LabError, LabId};
use prony_model::Nanos;
use prony_model::lab::{Direction, Overlay};
use prony_tool::{BRIDGE, ETHTOOL, IP, NFT, TC};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Name of every host's interface.
pub(crate) const INTERFACE: &str = "eth0";
/// Names of the interfaces that wrap packets.
const VXLAN_INTERFACE: &str = "vxlan0";
const IPIP_INTERFACE: &str = "ipip0";
/// Number of the overlay (VNI), and its port: IANA's (RFC 7348, 8).
const OVERLAY_ID: &str = "77";
const OVERLAY_PORT: &str = "4789";

/// What a rated link sends at once, in KiB: must hold the largest packet; tc(8) tbf advises rate / HZ. A guess for <= 100
/// mbit.
const BURST_KIB: u32 = 32;

/// Longest queue of a rated link, in time. A guess: deep enough that 64 connections with small answers wait instead of
/// losing packets, so that the planted defect is the rate alone.
const QUEUE: Nanos = Nanos(400_000_000);

/// Packets that netem holds at once: its default of 1000 is 24 Mbit/s over 500 ms of delay. A guess.
const HELD_PACKETS: &str = "50000";

/// Makes the switch, all hosts, and what is between them.
pub(crate) fn make(ground: &Ground, id: &LabId, plan: &Plan, state: &mut State) -> Result<(), LabError> {
    if plan.has_switch {
        namespace(id, SWITCH, state)?;
        let bridge = "link add br0 type bridge\nlink set br0 up\n";
        tool::run(IP, &["-n", &netns_name(id, SWITCH), "-batch", "-"], bridge)?;
        no_bridge_filter(ground, id)?;
    }
    for host in &plan.hosts {
        namespace(id, &host.name, state)?;
    }
    let delays = plan.hosts.iter().any(|host| host.lab.link.is_delayed());
    let netem = delays && has_netem(id);
    match plan.has_switch {
        true => plan.hosts.iter().try_for_each(|host| to_switch(ground, id, host, netem, state))?,
        false => cable(id, plan)?,
    }
    for host in &plan.hosts {
        let own = netns_name(id, &host.name);
        addresses(id, plan, host)?;
        offloads(id, plan, host)?;
        shape(&own, INTERFACE, &host.lab.link.sending(), netem)?;
        if plan.has_switch {
            shape(&netns_name(id, SWITCH), &port_name(&host.name), &host.lab.link.receiving(), netem)?;
        }
        sysctls(ground, id, host)?;
        steering(id, host)?;
        filter(id, host)?;
    }
    Ok(())
}

fn namespace(id: &LabId, host: &str, state: &mut State) -> Result<(), LabError> {
    let name = netns_name(id, host);
    state.add(Thing::Namespace(name.clone()))?;
    tool::run(IP, &["netns", "add", &name], "")
}

/// Whether the kernel has netem: found out by using it, where nobody notices.
fn has_netem(id: &LabId) -> bool {
    let probe = ["-n", &netns_name(id, SWITCH), "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"];
    tool::run(TC, &probe, "").is_ok()
}

/// The host's interface, and the port of the switch at its other end.
fn to_switch(ground: &Ground, id: &LabId, host: &PlannedHost, netem: bool, state: &mut State) -> Result<(), LabError> {
    let (own, switch, port) = (netns_name(id, &host.name), netns_name(id, SWITCH), port_name(&host.name));
    if host.lab.link.is_delayed() && !netem {
        wire::start(ground, id, host, state)?;
    } else {
        let queues = queues(host);
        let pair = format!("link add {INTERFACE}{queues} type veth peer name {port}{queues} netns {switch}");
        tool::run(IP, &["-n", &own, "-batch", "-"], &pair)?;
    }
    let mtu = mtu_words(host.lab.link.mtu);
    tool::run(IP, &["-n", &own, "-batch", "-"], &format!("link set lo up\nlink set {INTERFACE}{mtu} up\n"))?;
    let port_mtu = mtu_words(host.lab.link.path_mtu.or(host.lab.link.mtu));
    tool::run(IP, &["-n", &switch, "-batch", "-"], &format!("link set {port}{port_mtu} master br0 up\n"))
}

/// One cable between two hosts.
fn cable(id: &LabId, plan: &Plan) -> Result<(), LabError> {
    let [one, other] = plan.hosts.as_slice() else {
        let reason = format!("a lab without a switch has two hosts, this one has {}", plan.hosts.len());
        return Err(LabError::Stack { stack: id.as_str().to_string(), reason });
    };
    let (near, far) = (netns_name(id, &one.name), netns_name(id, &other.name));
    let (one_queues, other_queues) = (queues(one), queues(other));
    let pair = format!("link add {INTERFACE}{one_queues} type veth peer name {INTERFACE}{other_queues} netns {far}");
    tool::run(IP, &["-n", &near, "-batch", "-"], &pair)?;
    for host in [one, other] {
        let up = format!("link set lo up\nlink set {INTERFACE}{} up\n", mtu_words(host.lab.link.mtu));
        tool::run(IP, &["-n", &netns_name(id, &host.name), "-batch", "-"], &up)?;
    }
    Ok(())
}

fn queues(host: &PlannedHost) -> String {
    host.lab.link.queues.map_or(String::new(), |n| format!(" numtxqueues {n} numrxqueues {n}"))
}

fn mtu_words(bytes: Option<u32>) -> String {
    bytes.map_or(String::new(), |bytes| format!(" mtu {bytes}"))
}

/// The addresses of a host, on its interface or on the one that wraps packets.
fn addresses(id: &LabId, plan: &Plan, host: &PlannedHost) -> Result<(), LabError> {
    let own = netns_name(id, &host.name);
    let add = |on: &str, bits: u32| -> String {
        host.addrs().map(|addr| format!("addr add {addr}/{bits} dev {on}\n")).collect()
    };
    let batch = match plan.overlay {
        Overlay::None => add(INTERFACE, 24),
        Overlay::Vxlan => {
            wrap(id, plan, host)?;
            add(VXLAN_INTERFACE, 24)
        }
        // Nobody is asked who has an address: a route for each says where its packets go.
        Overlay::Ipip => format!("{}{}{}", tunnel(host), add(IPIP_INTERFACE, 32), routes(plan, host)),
    };
    tool::run(IP, &["-n", &own, "-batch", "-"], &batch)
}

/// The interface that wraps packets, if any does.
fn overlay_interface(overlay: Overlay) -> Option<&'static str> {
    match overlay {
        Overlay::None => None,
        Overlay::Vxlan => Some(VXLAN_INTERFACE),
        Overlay::Ipip => Some(IPIP_INTERFACE),
    }
}

/// An interface that puts packets into others of the same kind, one for all hosts.
fn tunnel(host: &PlannedHost) -> String {
    let below = below(host.addr);
    format!(
        "addr add {below}/24 dev {INTERFACE}\n\
         link add {IPIP_INTERFACE} type ipip local {below} dev {INTERFACE}\n\
         link set {IPIP_INTERFACE} up\n"
    )
}

/// For each address of every other host, the address below the overlay that its packets are sent to.
fn routes(plan: &Plan, host: &PlannedHost) -> String {
    let to = |other: &PlannedHost| -> String {
        let (below, from) = (below(other.addr), host.addr);
        let route = |addr| format!("route add {addr}/32 via {below} dev {IPIP_INTERFACE} onlink src {from}\n");
        other.addrs().map(route).collect()
    };
    plan.hosts.iter().filter(|other| other.name != host.name).map(to).collect()
}

/// An interface that wraps packets into those of the interface below it. What it does not know it sends to every host.
fn wrap(id: &LabId, plan: &Plan, host: &PlannedHost) -> Result<(), LabError> {
    let own = netns_name(id, &host.name);
    let below = below(host.addr);
    let steps = format!(
        "addr add {below}/24 dev {INTERFACE}\n\
         link add {VXLAN_INTERFACE} type vxlan id {OVERLAY_ID} local {below} dev {INTERFACE} dstport {OVERLAY_PORT}\n\
         link set {VXLAN_INTERFACE} up\n"
    );
    tool::run(IP, &["-n", &own, "-batch", "-"], &steps)?;
    for other in plan.hosts.iter().filter(|other| other.name != host.name) {
        let to = self::below(other.addr).to_string();
        let everybody = ["fdb", "append", "00:00:00:00:00:00", "dev", VXLAN_INTERFACE, "dst", &to];
        tool::run(BRIDGE, &[&["-n", own.as_str()], everybody.as_slice()].concat(), "")?;
    }
    Ok(())
}

/// The address of a host below the overlay: its last number in a network that no lab of ours uses, or in the one beside it.
fn below(addr: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, last] = addr.octets();
    let third = if [a, b, c] == [172, 31, 255] { 254 } else { 255 };
    Ipv4Addr::new(172, 31, third, last)
}

fn offloads(id: &LabId, plan: &Plan, host: &PlannedHost) -> Result<(), LabError> {
    let Some(on) = host.lab.link.offloads else { return Ok(()) };
    let ethtool = tool::find(ETHTOOL, "a link without offloads")?;
    let (own, switch, port) = (netns_name(id, &host.name), netns_name(id, SWITCH), port_name(&host.name));
    let mut ends = vec![(&own, INTERFACE)];
    if plan.has_switch {
        ends.push((&switch, port.as_str()));
    }
    ends.extend(overlay_interface(plan.overlay).map(|interface| (&own, interface)));
    for (netns, interface) in ends {
        let program = ethtool.to_string_lossy();
        let state = if on { "on" } else { "off" };
        let features = ["-K", interface, "gro", state, "gso", state, "tso", state];
        tool::run(IP, &[&["netns", "exec", netns.as_str(), &program], features.as_slice()].concat(), "")?;
    }
    Ok(())
}

/// What an interface does to the packets that leave through it.
fn shape(netns: &str, interface: &str, direction: &Direction, netem: bool) -> Result<(), LabError> {
    let delayed = netem && direction.is_delayed();
    if delayed {
        tool::run(TC, &words(&["-n", netns, "qdisc", "add", "dev", interface], &held_up(direction)), "")?;
    }
    if let Some(bucket) = bucket(direction, delayed) {
        tool::run(TC, &words(&["-n", netns, "qdisc", "add", "dev", interface], &bucket), "")?;
    }
    Ok(())
}

fn words<'a>(before: &[&'a str], after: &'a [String]) -> Vec<&'a str> {
    before.iter().copied().chain(after.iter().map(String::as_str)).collect()
}

/// netem's own words (tc-netem(8)). Packets under a jitter may overtake each other there; those of our own wire do not.
fn held_up(direction: &Direction) -> Vec<String> {
    let us = |time: Nanos| format!("{}us", time.0 / 1_000);
    let mut line = ["root", "handle", "1:", "netem", "limit", HELD_PACKETS, "delay"].map(str::to_string).to_vec();
    line.push(us(direction.delay.unwrap_or_default()));
    line.extend(direction.jitter.map(us));
    if let Some(share) = direction.reorder {
        line.extend(["reorder".to_string(), share.to_string()]);
    }
    line
}

/// A token bucket, below netem where that is.
fn bucket(direction: &Direction, below_netem: bool) -> Option<Vec<String>> {
    let rate = format!("{}bit", direction.rate?.0.round());
    let queue = format!("{}us", direction.queue.unwrap_or(QUEUE).0 / 1_000);
    let place = if below_netem { &["parent", "1:1"][..] } else { &["root"][..] };
    let burst = format!("{}kb", direction.burst_kib.unwrap_or(BURST_KIB));
    let bucket = ["tbf", "rate", &rate, "burst", &burst, "latency", &queue];
    Some(place.iter().chain(&bucket).map(|word| (*word).to_string()).collect())
}

fn sysctls(ground: &Ground, id: &LabId, host: &PlannedHost) -> Result<(), LabError> {
    let netns = ground.netns_path(id, &host.name);
    for (name, value) in &host.lab.sysctl {
        if !name.starts_with("net.") || name.contains(['/', ' ']) {
            let reason = format!("sysctl `{name}` of host `{}` does not belong to a network namespace", host.name);
            return Err(LabError::Stack { stack: host.name.clone(), reason });
        }
        set_sysctl(&netns, name, value)?;
    }
    Ok(())
}

/// The switch stands for hardware, which shows no packet to the filters of a kernel: with the default that alone took 5 % of
/// a proxy's CPU time, because who sends pays for it. The setting is the namespace's own (since Linux 5.3).
fn no_bridge_filter(ground: &Ground, id: &LabId) -> Result<(), LabError> {
    let netns = ground.netns_path(id, SWITCH);
    for family in ["iptables", "ip6tables", "arptables"] {
        match set_sysctl(&netns, &format!("net.bridge.bridge-nf-call-{family}"), "0") {
            // A kernel without this filter.
            Err(LabError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => (),
            written => written?,
        }
    }
    Ok(())
}

/// Sets a `net.` sysctl of one namespace.
fn set_sysctl(netns: &Path, name: &str, value: &str) -> Result<(), LabError> {
    let path = PathBuf::from(format!("/proc/sys/{}", name.replace('.', "/")));
    // /proc/sys/net shows the namespace of the thread that opens it.
    let written = file("enter", netns, sys::in_netns(netns, || std::fs::write(&path, value)))?;
    file("write (in the host's namespace)", &path, written)
}

fn steering(id: &LabId, host: &PlannedHost) -> Result<(), LabError> {
    let Some(mask) = &host.lab.rps_cpus else { return Ok(()) };
    if mask.is_empty() || !mask.chars().all(|c| c.is_ascii_hexdigit() || c == ',') {
        let reason = format!("`lab.host.{}.rps_cpus` is `{mask}`: write a hexadecimal mask, like `3`", host.name);
        return Err(LabError::Stack { stack: host.name.clone(), reason });
    }
    // `ip netns exec` mounts a /sys that shows the namespace's interfaces. The mask reaches the shell as a parameter.
    let write =
        format!("for q in /sys/class/net/{INTERFACE}/queues/rx-*/rps_cpus; do echo \"$0\" > $q || exit 1; done");
    tool::run(IP, &["netns", "exec", &netns_name(id, &host.name), "sh", "-c", &write, mask], "")
}

/// Lets links lose packets. Done last: over a link that loses all of them nobody could see that a server answers.
pub(crate) fn lose(id: &LabId, plan: &Plan) -> Result<(), LabError> {
    let mut rules = String::new();
    for host in &plan.hosts {
        let (port, link) = (port_name(&host.name), &host.lab.link);
        for (side, loss) in [("iifname", link.sending().loss), ("oifname", link.receiving().loss)] {
            let Some(loss) = loss else { continue };
            let of_million = (loss.0 * 1e6).round() as u64;
            // nft takes no comparison that always holds.
            let chance = match of_million < 1_000_000 {
                true => format!(" numgen random mod 1000000 < {of_million}"),
                false => String::new(),
            };
            rules += &format!("  {side} \"{port}\"{chance} counter drop\n");
        }
    }
    if rules.is_empty() {
        return Ok(());
    }
    let table =
        format!("table bridge prony {{\n chain lossy {{\n  type filter hook forward priority 0\n{rules} }}\n}}\n");
    nft(&netns_name(id, SWITCH), "a link with loss", &table)
}

/// Rules of a host's packet filter that no packet of the lab fits: their addresses are for documentation (RFC 5737).
fn filter(id: &LabId, host: &PlannedHost) -> Result<(), LabError> {
    let Some(count) = host.lab.filter_rules else { return Ok(()) };
    let rule = |i: u32| format!("  ip saddr 192.0.2.{} tcp dport {} drop\n", i % 254 + 1, 1024 + i % 60_000);
    let rules: String = (0..count).map(rule).collect();
    let table = format!("table ip prony {{\n chain passed {{\n  type filter hook input priority 0\n{rules} }}\n}}\n");
    nft(&netns_name(id, &host.name), "a host with `filter_rules`", &table)
}

fn nft(netns: &str, wanted_by: &str, table: &str) -> Result<(), LabError> {
    tool::run(IP, &["netns", "exec", netns, &tool::find(NFT, wanted_by)?.to_string_lossy(), "-f", "-"], table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Share;

    #[test]
    fn disciplines_are_written_as_tc_wants_them() {
        let plain = Direction { delay: Some(Nanos::from_millis(10)), ..Direction::default() };
        assert_eq!(held_up(&plain).join(" "), "root handle 1: netem limit 50000 delay 10000us");
        let all = Direction {
            rate: "20mbit".parse().ok(),
            jitter: Some(Nanos::from_millis(2)),
            reorder: Some(Share(0.01)),
            ..plain
        };
        assert_eq!(held_up(&all).join(" "), "root handle 1: netem limit 50000 delay 10000us 2000us reorder 1%");
        assert_eq!(
            bucket(&all, true).unwrap().join(" "),
            "parent 1:1 tbf rate 20000000bit burst 32kb latency 400000us"
        );
        let queue = Direction { queue: Some(Nanos::from_millis(5)), burst_kib: Some(4), ..all };
        assert_eq!(bucket(&queue, false).unwrap().join(" "), "root tbf rate 20000000bit burst 4kb latency 5000us");
        assert_eq!(bucket(&plain, false), None);
    }

    #[test]
    fn packets_in_packets_have_a_route_for_each_address() {
        let text = "entry = \"http://10.77.0.20/0\"\n[host.client]\nrole = \"generator\"\n[host.lb]\n[lab]\noverlay = \"ipip\"\n\
                    [lab.host.client]\naddr = \"10.77.0.10\"\n\
                    [lab.host.lb]\naddr = \"10.77.0.20\"\naddresses = 2\nserver = {}\n";
        let stack = prony_model::Stack::parse("t.toml", text).unwrap();
        let plan = Plan::of(&stack, &prony_model::CpuList::from_iter([0])).unwrap();
        assert_eq!(
            routes(&plan, &plan.hosts[0]),
            "route add 10.77.0.20/32 via 172.31.255.20 dev ipip0 onlink src 10.77.0.10\n\
             route add 10.77.0.21/32 via 172.31.255.20 dev ipip0 onlink src 10.77.0.10\n"
        );
        assert!(tunnel(&plan.hosts[1]).contains("link add ipip0 type ipip local 172.31.255.20 dev eth0\n"));
    }

    #[test]
    fn the_network_below_an_overlay_is_another() {
        assert_eq!(below("10.77.0.20".parse().unwrap()).to_string(), "172.31.255.20");
        assert_eq!(below("172.31.255.20".parse().unwrap()).to_string(), "172.31.254.20");
    }
}
