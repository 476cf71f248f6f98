//! Taking a lab down, whatever state it is in, and finding labs.
//!
//! Removal goes by names and not by the state file, so it also works when that is gone; of a folder on another disk only
//! the empty folder stays then. The folder with the state goes last: as long as anything stands, the lab is listed.
//! Invariant: taking down twice is the same as once.

use crate::error::file;
use crate::state::{Stage, State, sweep};
use crate::tool;
use crate::traces::Ground;
use crate::{Condition, LabError, LabId, LabState, cgroup, disk, sys};
use prony_tool::IP;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long killed processes may take to go. A guess: a process in an uninterruptible wait on a disk may need seconds.
const GONE_MAX: Duration = Duration::from_secs(5);

pub(crate) fn down(ground: &Ground, id: &LabId) -> Result<(), LabError> {
    let mut elsewhere = Vec::new();
    if let Some(mut state) = State::read(ground, id) {
        if state.stage == Stage::Building && state.owner.pid != std::process::id() && state.owner.is_alive() {
            return Err(LabError::BeingBuilt { id: id.as_str().to_string(), pid: state.owner.pid });
        }
        state.enter(Stage::GoingDown)?;
        elsewhere = disk::folders_elsewhere(&state, id);
    }
    kill_all(ground, id)?;
    for name in ground.namespaces_of(id) {
        tool::run(IP, &["netns", "del", &name], "")?;
    }
    disk::detach(ground, id)?;
    for folder in elsewhere.iter().chain([&ground.log_folder(id), &ground.lab(id)]) {
        remove_folder(folder)?;
    }
    sweep(ground);
    remove_empty_parents(ground);
    Ok(())
}

/// Kills the processes and removes the control groups. In one loop, because a process that was being started when its
/// prony was killed joins its group a moment later; once the group is gone it cannot join, and ends.
fn kill_all(ground: &Ground, id: &LabId) -> Result<(), LabError> {
    let begun = Instant::now();
    loop {
        let groups = ground.cgroups_of(id);
        let pids: Vec<i32> = groups.iter().flat_map(|group| cgroup::pids(group)).collect();
        pids.iter().copied().for_each(sys::kill);
        // A group is busy for some moments after its last process has gone.
        let busy = groups.into_iter().find_map(|group| Some((std::fs::remove_dir(&group).err()?, group)));
        match busy {
            None => return Ok(()),
            Some((e, group)) if begun.elapsed() > GONE_MAX => {
                let left = format!("processes {pids:?} in {}: {e}", group.display());
                return Err(LabError::NotGone { id: id.as_str().to_string(), left });
            }
            Some(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn remove_folder(folder: &Path) -> Result<(), LabError> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => file("remove", folder, Err(e)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes `/run/prony/labs`, `/run/prony` and the same of the logs when the last lab has gone. One that is not empty
/// stays.
fn remove_empty_parents(ground: &Ground) {
    for folder in [&ground.run, &ground.logs] {
        for path in folder.ancestors().take_while(|p| p.ends_with("prony") || p.ends_with("labs")) {
            let _not_empty = std::fs::remove_dir(path);
        }
    }
}

pub(crate) fn list(ground: &Ground) -> Vec<LabState> {
    ground.ids().into_iter().map(|id| state_of(ground, id)).collect()
}

fn state_of(ground: &Ground, id: LabId) -> LabState {
    let state = State::read(ground, &id);
    let namespaces = ground.namespaces_of(&id);
    let servers_wanted = state.as_ref().map_or(0, |s| s.server_count());
    let mut pids: Vec<i32> = Vec::new();
    let (mut hosts_alive, mut wires_ended) = (0, 0);
    for group in ground.cgroups_of(&id).iter().filter(|g| ground.cgroups.first().is_some_and(|h| g.starts_with(h))) {
        let here = cgroup::pids(group);
        hosts_alive += usize::from(!here.is_empty() && !cgroup::is_beside(group));
        wires_ended += usize::from(here.is_empty() && cgroup::is_wire(group));
        pids.extend(here);
    }
    let condition = match &state {
        None => Condition::LeftOver("its state file is gone".to_string()),
        Some(s) => match s.stage {
            Stage::Building if s.owner.is_alive() => Condition::Building,
            Stage::Building => Condition::LeftOver(format!("process {} died while it built the lab", s.owner.pid)),
            Stage::GoingDown => Condition::LeftOver("it was not taken down to the end".to_string()),
            Stage::Up if hosts_alive < servers_wanted => {
                Condition::LeftOver(format!("{} of {servers_wanted} servers have ended", servers_wanted - hosts_alive))
            }
            Stage::Up if wires_ended > 0 => Condition::LeftOver(format!("{wires_ended} links with a delay have ended")),
            Stage::Up => Condition::Up,
        },
    };
    let mounts = ground.mounts_of(&id);
    LabState {
        id,
        name: state.as_ref().map_or_else(String::new, |s| s.name.clone()),
        owner_pid: state.as_ref().map(|s| s.owner.pid),
        owner_alive: state.as_ref().is_some_and(|s| s.owner.is_alive()),
        condition,
        namespaces,
        processes: pids,
        mounts,
    }
}
