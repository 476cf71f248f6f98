//! The state file of a lab: who builds it, how far it is, and everything that was made or was about to be.
//!
//! Invariant: a thing is in the file before it is made. Written whole, by rename, so a reader sees the old or the new
//! one.

use crate::error::file;
use crate::traces::{Ground, names_in};
use crate::{LabError, LabId};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How far a lab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Things are being made.
    Building,
    /// Every server answered.
    Up,
    /// Things are being removed.
    GoingDown,
}

/// One thing that a lab makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Thing {
    /// A folder and all in it.
    Folder(PathBuf),
    /// A named network namespace, with the links in it.
    Namespace(String),
    /// The control groups of a host, by the path below each hierarchy.
    Cgroup(String),
    /// The server processes of a host.
    Server(String),
    /// What is mounted there.
    Mount(PathBuf),
}

/// The process that builds a lab. The start time tells it from a later process with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub started_ticks: u64,
}

impl Owner {
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Self { pid, started_ticks: started_ticks(pid).unwrap_or(0) }
    }

    pub fn is_alive(self) -> bool {
        started_ticks(self.pid) == Some(self.started_ticks)
    }
}

fn started_ticks(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // proc(5): the command name, in parentheses, may hold anything; fields are counted after its end. Field 3 comes
    // first.
    text.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// The state file's content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub name: String,
    pub owner: Owner,
    pub stage: Stage,
    pub things: Vec<Thing>,
    #[serde(skip)]
    path: PathBuf,
}

impl State {
    /// Claims an id nobody has, and writes the first state.
    pub fn claim(ground: &Ground, name: &str) -> Result<(LabId, Self), LabError> {
        let owner = Owner::this_process();
        let folder = ground.run.join(staging_name(owner));
        sweep(ground);
        file("create", &folder, make_folder(&folder))?;
        let mut state = Self {
            name: name.to_string(),
            owner,
            stage: Stage::Building,
            things: Vec::new(),
            path: folder.join("state.json"),
        };
        let first = LabId::from_number(owner.pid.wrapping_mul(40503) ^ clock_noise());
        let taken = ground.ids();
        let mut id = first.clone();
        loop {
            let own = ground.lab(&id);
            state.things = vec![Thing::Folder(own.clone())];
            state.write()?;
            // Onto a folder that is not empty, rename fails: so nobody else can have this id.
            if !taken.contains(&id) && std::fs::rename(&folder, &own).is_ok() {
                state.path = own.join("state.json");
                return Ok((id, state));
            }
            id = id.next();
            if id == first {
                let full = std::io::Error::other("no lab id is free: `prony lab ls`");
                return file("create", &own, Err(full));
            }
        }
    }

    /// Reads the state of a lab; none when it has no readable state file.
    pub fn read(ground: &Ground, id: &LabId) -> Option<Self> {
        let path = ground.lab(id).join("state.json");
        let mut state: Self = serde_json::from_str(&std::fs::read_to_string(&path).ok()?).ok()?;
        state.path = path;
        Some(state)
    }

    /// How many servers the lab should have.
    pub fn server_count(&self) -> usize {
        self.things.iter().filter(|t| matches!(t, Thing::Server(_))).count()
    }

    /// Writes down that `thing` is about to be made.
    pub fn add(&mut self, thing: Thing) -> Result<(), LabError> {
        if !self.things.contains(&thing) {
            self.things.push(thing);
        }
        self.write()
    }

    /// Writes down how far the lab is.
    pub fn enter(&mut self, stage: Stage) -> Result<(), LabError> {
        self.stage = stage;
        self.write()
    }

    fn write(&self) -> Result<(), LabError> {
        let new = self.path.with_extension("new");
        let text = serde_json::to_string_pretty(self).expect("strings, numbers and lists always have a JSON form");
        file("write", &new, std::fs::write(&new, text))?;
        file("write", &self.path, std::fs::rename(&new, &self.path))
    }
}

/// A lab's folder before it has an id: it appears under its id together with its first state.
fn staging_name(owner: Owner) -> String {
    let nth = CLAIMS.fetch_add(1, Ordering::Relaxed);
    format!(".new-{}-{}-{nth}", owner.pid, owner.started_ticks)
}

/// Claims made by this process: tells those of its threads apart.
static CLAIMS: AtomicU32 = AtomicU32::new(0);

/// Removes folders of processes that were killed before their lab had an id.
pub(crate) fn sweep(ground: &Ground) {
    for name in names_in(&ground.run) {
        let mut numbers = name.strip_prefix(".new-").into_iter().flat_map(|rest| rest.split('-'));
        let (Some(Ok(pid)), Some(Ok(started_ticks))) = (numbers.next().map(str::parse), numbers.next().map(str::parse))
        else {
            continue;
        };
        if !(Owner { pid, started_ticks }).is_alive() {
            let _swept_by_another = std::fs::remove_dir_all(ground.run.join(&name));
        }
    }
}

/// Makes a folder that must not exist yet. Whoever takes the last lab down removes the empty parents, so they may
/// vanish between being made and being used; then they are made again.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    loop {
        if let Some(parent) = folder.parent() {
            match std::fs::create_dir_all(parent) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                made => made?,
            }
        }
        match std::fs::create_dir(folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            made => return made,
        }
    }
}

fn clock_noise() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|d| d.subsec_nanos() >> 4).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_pid() {
        let me = Owner::this_process();
        assert!(me.is_alive());
        assert!(!Owner { started_ticks: me.started_ticks + 1, ..me }.is_alive());
    }

    #[test]
    fn two_claims_never_get_the_same_id() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join(name);
        let ground =
            Ground { run: at("run"), logs: at("logs"), netns: at("netns"), cgroups: vec![], mounts: at("mountinfo") };
        let killed = at("run/.new-1-18446744073709551615-0");
        std::fs::create_dir_all(&killed).unwrap();
        let (a, _) = State::claim(&ground, "x").unwrap();
        assert!(!killed.exists(), "pid 1 has not started at the end of time");
        let (b, mut state) = State::claim(&ground, "y").unwrap();
        assert_ne!(a, b);
        state.add(Thing::Namespace("prony-1-lb".into())).unwrap();
        let read = State::read(&ground, &b).unwrap();
        assert_eq!((read.name.as_str(), read.stage, read.things), ("y", Stage::Building, state.things));
    }
}
