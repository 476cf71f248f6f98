//! A control group of our own, with a quota, and the processes that were moved into it.
//!
//! Restore moves everything out (children born meanwhile too) and removes the group.

use super::Look;
use crate::error::TuneError;
use crate::{Roots, process};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A group, its settings and its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Path below the root of control groups, with the controller's folder: `cpu/faults/lb/prony-lb-12`.
    pub dir: String,
    /// Files within it and what to write, in order.
    pub settings: Vec<(String, String)>,
    /// Who is moved in; the first is the main process.
    pub members: Vec<Moved>,
}

/// A process that is moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Its pid.
    pub pid: u32,
    /// When it started, see [`process::start_ticks`].
    pub start_ticks: u64,
    /// The group it came from, in the same form as `dir`.
    pub from: String,
}

impl Group {
    pub(super) fn look(&self, roots: &Roots) -> Look {
        if roots.cgroup.join(&self.dir).exists() { Look::New } else { Look::Old }
    }

    pub(super) fn apply(&self, roots: &Roots) -> Result<(), TuneError> {
        let dir = roots.cgroup.join(&self.dir);
        fs::create_dir(&dir).map_err(TuneError::io("make control group", &dir))?;
        for (file, value) in &self.settings {
            let file = dir.join(file);
            fs::write(&file, value).map_err(TuneError::io("write", &file))?;
        }
        for member in self.members.iter().filter(|m| m.is_alive(roots)) {
            put(&dir, member.pid)?;
        }
        Ok(())
    }

    pub(super) fn restore(&self, roots: &Roots) -> Result<(), TuneError> {
        let dir = roots.cgroup.join(&self.dir);
        let home = self.members.first().map(|m| m.from.as_str()).unwrap_or_default();
        // A process may fork while it is moved; its child then shows up in the next round.
        for _ in 0..ROUNDS_MAX {
            let inside = pids(&dir)?;
            if inside.is_empty() {
                break;
            }
            for pid in inside {
                let known = self.members.iter().find(|m| m.pid == pid && m.is_alive(roots));
                put(&roots.cgroup.join(known.map_or(home, |m| &m.from)), pid)?;
            }
        }
        fs::remove_dir(&dir).map_err(TuneError::io("remove control group", &dir))
    }

    pub(super) fn diff(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|(file, value)| format!("{file} = {value}")).collect();
        format!("control group {} with {}, holding {} processes\n", self.dir, settings.join(", "), self.members.len())
    }
}

/// Rounds of moving before we give up on a group that keeps forking. A guess.
const ROUNDS_MAX: usize = 20;

impl Moved {
    fn is_alive(&self, roots: &Roots) -> bool {
        process::start_ticks(&roots.proc, self.pid) == Some(self.start_ticks)
    }
}

/// Processes of a group.
pub fn pids(dir: &Path) -> Result<Vec<u32>, TuneError> {
    let file: PathBuf = dir.join("cgroup.procs");
    let text = fs::read_to_string(&file).map_err(TuneError::io("read", &file))?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// Moves a process; one that has ended meanwhile needs no moving.
fn put(dir: &Path, pid: u32) -> Result<(), TuneError> {
    let file = dir.join("cgroup.procs");
    match fs::write(&file, pid.to_string()) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(TuneError::missing(
            format!("control group {} is gone, so process {pid} cannot go back to it", dir.display()),
            format!("make it again, or move the process by hand: echo {pid} > .../cgroup.procs"),
        )),
        other => other.map_err(TuneError::io("write", &file)),
    }
}
