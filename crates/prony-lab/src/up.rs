//! Building a lab, in the order in which `down` can undo it at any moment.

use crate::error::file;
use crate::plan::Plan;
use crate::state::{Stage, State, Thing};
use crate::tool::{IP, NFT, TC};
use crate::traces::Ground;
use crate::{LabError, LabId, UpLab, cgroup, network, ready, server, sys};
use prony_model::Stack;
use std::path::Path;

pub(crate) fn up(ground: &Ground, stack: &Stack, progress: &dyn Fn(&str)) -> Result<UpLab, LabError> {
    let online = Path::new("/sys/devices/system/cpu/online");
    let plan = Plan::of(stack, &file("read", online, std::fs::read_to_string(online))?)?;
    if !sys::is_root() {
        return Err(LabError::NotRoot);
    }
    check_tools(&plan)?;
    let (id, mut state) = State::claim(ground, &stack.name)?;
    match build(ground, &id, &plan, &mut state, progress) {
        Ok(()) => Ok(UpLab { stack: described(ground, &id, &plan, stack), id }),
        Err(cause) => match crate::down::down(ground, &id) {
            Ok(()) => Err(cause),
            Err(then) => Err(LabError::AndThen { cause: Box::new(cause), then: Box::new(then) }),
        },
    }
}

fn check_tools(plan: &Plan) -> Result<(), LabError> {
    IP.find("the network of a lab")?;
    for host in &plan.hosts {
        let wanted_by = format!("host `{}`", host.name);
        if let Some((server, _)) = host.server() {
            server::tool(server.kind).find(&wanted_by)?;
        }
        if host.lab.link.rate.is_some() {
            TC.find(&wanted_by)?;
        }
        if host.lab.link.loss.is_some() {
            NFT.find(&wanted_by)?;
        }
    }
    Ok(())
}

fn build(ground: &Ground, id: &LabId, plan: &Plan, state: &mut State, progress: &dyn Fn(&str)) -> Result<(), LabError> {
    progress(&format!("lab {}: network of {} hosts", id.as_str(), plan.hosts.len()));
    network::make(ground, id, plan, state)?;
    state.add(Thing::Folder(ground.log_folder(id)))?;
    for host in plan.hosts.iter().filter(|h| h.server().is_some()) {
        state.add(Thing::Cgroup(cgroup::reference(id, &host.name)))?;
        cgroup::make(ground, id, &host.name)?;
        if let Some(quota) = host.lab.cpu_quota {
            cgroup::set_quota(ground, id, &host.name, quota)?;
        }
        progress(&format!("lab {}: starting the server of `{}`", id.as_str(), host.name));
        server::start(ground, id, host, state)?;
    }
    // The hosts that nobody of the stack waits for come last: a proxy answers only when its upstreams do.
    let (entry, behind): (Vec<_>, Vec<_>) = plan.hosts.iter().partition(|h| h.name == plan.entry_host);
    for host in behind.into_iter().chain(entry) {
        ready::wait(ground, id, plan, host)?;
    }
    progress(&format!("lab {}: every server answers", id.as_str()));
    state.enter(Stage::Up)
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
