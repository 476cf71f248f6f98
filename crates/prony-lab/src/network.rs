//! The network of a lab: a namespace per host, a switch in a namespace of its own, links with rate and loss.
//!
//! Two labs with the same addresses never meet, because each has its own switch. Rate is a token bucket on the host's
//! interface, so it limits what the host sends; loss is dropped in the switch, in both directions, where no host counts
//! it.

use crate::error::file;
use crate::plan::{Plan, PlannedHost};
use crate::state::{State, Thing};
use crate::sys;
use crate::tool;
use crate::traces::{Ground, SWITCH, netns_name, port_name};
use crate::{LabError, LabId};
use prony_model::Nanos;
use prony_tool::{ETHTOOL, IP, NFT, TC};

/// Name of every host's interface.
pub(crate) const INTERFACE: &str = "eth0";

/// Bytes that a rated link sends at once: must hold the largest packet; tc(8) tbf advises rate / HZ. A guess for <= 100
/// mbit.
const BURST: &str = "32kb";

/// Longest queue of a rated link, in time. A guess: deep enough that 64 connections with small answers wait instead of
/// losing packets, so that the planted defect is the rate alone.
const QUEUE: Nanos = Nanos(400_000_000);

/// Makes the switch and all hosts.
pub(crate) fn make(ground: &Ground, id: &LabId, plan: &Plan, state: &mut State) -> Result<(), LabError> {
    namespace(id, SWITCH, state)?;
    let switch = netns_name(id, SWITCH);
    tool::run(IP, &["-n", &switch, "-batch", "-"], "link add br0 type bridge\nlink set br0 up\n")?;
    for host in &plan.hosts {
        namespace(id, &host.name, state)?;
        link(id, host)?;
        sysctls(ground, id, host)?;
        steering(id, host)?;
    }
    loss(id, plan)
}

fn namespace(id: &LabId, host: &str, state: &mut State) -> Result<(), LabError> {
    let name = netns_name(id, host);
    state.add(Thing::Namespace(name.clone()))?;
    tool::run(IP, &["netns", "add", &name], "")
}

fn link(id: &LabId, host: &PlannedHost) -> Result<(), LabError> {
    let (own, switch, port) = (netns_name(id, &host.name), netns_name(id, SWITCH), port_name(&host.name));
    let steps = format!(
        "link set lo up\n\
         link add {INTERFACE} type veth peer name {port} netns {switch}\n\
         addr add {}/24 dev {INTERFACE}\n\
         link set {INTERFACE} up\n",
        host.addr
    );
    tool::run(IP, &["-n", &own, "-batch", "-"], &steps)?;
    tool::run(IP, &["-n", &switch, "link", "set", &port, "master", "br0", "up"], "")?;
    if let Some(rate) = host.lab.link.rate {
        let rate = format!("{}bit", rate.0.round());
        let queue = format!("{}us", host.lab.link.queue.unwrap_or(QUEUE).0 / 1_000);
        let bucket =
            ["qdisc", "add", "dev", INTERFACE, "root", "tbf", "rate", &rate, "burst", BURST, "latency", &queue];
        tool::run(TC, &[&["-n", own.as_str()], bucket.as_slice()].concat(), "")?;
    }
    if let Some(on) = host.lab.link.offloads {
        let ethtool = tool::find(ETHTOOL, "a link without offloads")?;
        let state = if on { "on" } else { "off" };
        for (netns, interface) in [(&own, INTERFACE), (&switch, port.as_str())] {
            let program = ethtool.to_string_lossy();
            let features = ["-K", interface, "gro", state, "gso", state, "tso", state];
            tool::run(IP, &[&["netns", "exec", netns.as_str(), &program], features.as_slice()].concat(), "")?;
        }
    }
    Ok(())
}

fn sysctls(ground: &Ground, id: &LabId, host: &PlannedHost) -> Result<(), LabError> {
    let netns = ground.netns_path(id, &host.name);
    for (name, value) in &host.lab.sysctl {
        if !name.starts_with("net.") || name.contains(['/', ' ']) {
            let reason = format!("sysctl `{name}` of host `{}` does not belong to a network namespace", host.name);
            return Err(LabError::Stack { stack: host.name.clone(), reason });
        }
        let path = std::path::PathBuf::from(format!("/proc/sys/{}", name.replace('.', "/")));
        // /proc/sys/net shows the namespace of the thread that opens it.
        let written = file("enter", &netns, sys::in_netns(&netns, || std::fs::write(&path, value)))?;
        file("write (in the host's namespace)", &path, written)?;
    }
    Ok(())
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

fn loss(id: &LabId, plan: &Plan) -> Result<(), LabError> {
    let mut rules = String::new();
    for host in &plan.hosts {
        let Some(loss) = host.lab.link.loss else { continue };
        let (port, of_million) = (port_name(&host.name), (loss.0 * 1e6).round() as u64);
        for side in ["iifname", "oifname"] {
            rules += &format!("  {side} \"{port}\" numgen random mod 1000000 < {of_million} counter drop\n");
        }
    }
    if rules.is_empty() {
        return Ok(());
    }
    let table =
        format!("table bridge prony {{\n chain lossy {{\n  type filter hook forward priority 0\n{rules} }}\n}}\n");
    tool::run(
        IP,
        &["netns", "exec", &netns_name(id, SWITCH), &tool::find(NFT, "a link with loss")?.to_string_lossy(), "-f", "-"],
        &table,
    )
}
