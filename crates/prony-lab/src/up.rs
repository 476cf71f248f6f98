//! Building a lab, in the order in which `down` can undo it at any moment.

use crate::error::file;
use crate::plan::Plan;
use crate::state::{Stage, State, Thing, make_folder};
use crate::tool;
use crate::traces::Ground;
use crate::{LabError, LabId, UpLab, cgroup, disk, jetty, kernel, network, ready, server, sys};
use prony_model::lab::Overlay;
use prony_model::{CpuList, Stack};
use prony_tool::{BRIDGE, ETHTOOL, IP, NFT, TC};
use std::path::Path;
use std::time::Duration;

/// Builds the lab of a stack; each server has `answer_within` to give its first answer.
pub(crate) fn up(
    ground: &Ground,
    stack: &Stack,
    answer_within: Duration,
    progress: &dyn Fn(&str),
) -> Result<UpLab, LabError> {
    check(stack)?;
    let plan = Plan::of(stack, &online_cpus()?)?;
    let (id, mut state) = State::claim(ground, &stack.name)?;
    let made = make(ground, &id, &plan, &mut state, progress)
        .and_then(|()| wait_for_answers(ground, &id, &plan, answer_within))
        .and_then(|()| network::lose(&id, &plan))
        .and_then(|()| state.enter(Stage::Up));
    match made {
        Ok(()) => {
            let mounted = disk::of(ground, &id, &plan);
            Ok(UpLab { stack: described(ground, &id, &plan, stack), mounted, id })
        }
        Err(cause) => match crate::down::down(ground, &id) {
            Ok(()) => Err(cause),
            Err(then) => Err(LabError::AndThen { cause: Box::new(cause), then: Box::new(then) }),
        },
    }
}

/// Whether everything is there to build the lab of a stack.
pub(crate) fn check(stack: &Stack) -> Result<(), LabError> {
    let plan = Plan::of(stack, &online_cpus()?)?;
    if !sys::is_root() {
        return Err(LabError::NotRoot);
    }
    check_tools(&plan)
}

fn online_cpus() -> Result<CpuList, LabError> {
    let online = Path::new("/sys/devices/system/cpu/online");
    let cpus = std::fs::read_to_string(online).and_then(|text| text.parse().map_err(std::io::Error::other));
    file("read", online, cpus)
}

fn check_tools(plan: &Plan) -> Result<(), LabError> {
    tool::find(IP, "the network of a lab")?;
    for host in &plan.hosts {
        let wanted_by = format!("host `{}`", host.name);
        if let Some((server, _)) = host.server() {
            tool::find(server::tool(server.kind), &wanted_by)?;
            jetty::check(server.kind, &wanted_by)?;
        }
        let directions = [host.lab.link.sending(), host.lab.link.receiving()];
        if directions.iter().any(|d| d.rate.is_some() || d.is_delayed()) {
            tool::find(TC, &wanted_by)?;
        }
        if host.lab.link.offloads.is_some() {
            tool::find(ETHTOOL, &wanted_by)?;
        }
        if directions.iter().any(|d| d.loss.is_some()) {
            tool::find(NFT, &wanted_by)?;
        }
    }
    match plan.overlay {
        Overlay::None => {}
        Overlay::Vxlan => {
            tool::find(BRIDGE, "the overlay of a lab")?;
            kernel::check_link("vxlan", &["id", "1", "dstport", "4789"], "the overlay of a lab")?;
        }
        Overlay::Ipip => kernel::check_link("ipip", &["local", "127.0.0.1"], "the overlay of a lab")?,
    }
    disk::check(plan)
}

fn make(ground: &Ground, id: &LabId, plan: &Plan, state: &mut State, progress: &dyn Fn(&str)) -> Result<(), LabError> {
    progress(&format!("lab {}: network of {} hosts", id.as_str(), plan.hosts.len()));
    network::make(ground, id, plan, state)?;
    let logs = ground.log_folder(id);
    state.add(Thing::Folder(logs.clone()))?;
    file("create", &logs, make_folder(&logs))?;
    // Those that call nobody first: an application connects to its database when it starts.
    let (callers, callees): (Vec<_>, Vec<_>) = plan.hosts.iter().partition(|h| !h.upstreams.is_empty());
    for host in callees.into_iter().chain(callers).filter(|h| h.server().is_some()) {
        state.add(Thing::Cgroup(cgroup::reference(id, &host.name)))?;
        cgroup::make(ground, id, &host.name)?;
        if let Some(quota) = host.lab.cpu_quota {
            cgroup::set_quota(ground, id, &host.name, quota)?;
        }
        if let Some(mib) = host.lab.memory_mib {
            cgroup::set_memory(ground, id, &host.name, mib)?;
        }
        disk::attach(ground, id, host, state)?;
        progress(&format!("lab {}: starting the server of `{}`", id.as_str(), host.name));
        server::start(ground, id, host, state)?;
        // A database is made by then: that alone would take minutes of a slow disk.
        disk::limit(ground, id, host)?;
        if host.lab.neighbours.is_some() {
            let group = cgroup::neighbours(&host.name);
            state.add(Thing::Cgroup(cgroup::reference(id, &group)))?;
            cgroup::make(ground, id, &group)?;
            server::start_neighbours(ground, id, host)?;
        }
    }
    Ok(())
}

fn wait_for_answers(ground: &Ground, id: &LabId, plan: &Plan, within: Duration) -> Result<(), LabError> {
    // The entry comes last: a proxy answers only when its upstreams do, and the first that fails is named.
    let (entry, behind): (Vec<_>, Vec<_>) = plan.hosts.iter().partition(|h| h.name == plan.entry_host);
    behind.into_iter().chain(entry).try_for_each(|host| ready::wait(ground, id, plan, host, within))
}

fn described(ground: &Ground, id: &LabId, plan: &Plan, stack: &Stack) -> Stack {
    let mut stack = stack.clone();
    for planned in &plan.hosts {
        if let Some(host) = stack.host.get_mut(&planned.name) {
            server::describe(ground, id, planned, host);
        }
    }
    stack
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_root_a_server_that_does_not_answer_is_named() {
        if !sys::is_root() {
            return eprintln!("skipped: labs need root");
        }
        let over = "base = \"proxy.toml\"\nentry = \"http://10.77.0.20/nothing\"\n";
        let mut layers = crate::builtin("proxy").unwrap();
        layers.push(("over.toml".to_string(), over.to_string()));
        let stack = Stack::parse_layers(&layers).unwrap();
        let ground = Ground::of_this_machine();
        let error = up(&ground, &stack, Duration::from_millis(300), &|_| ()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(
                "nginx on host `lb` gave no good answer to http://10.77.0.20/nothing from `client`: status 404 after 300 ms"
            ),
            "{text}"
        );
    }
}
