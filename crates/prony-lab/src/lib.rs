//! Labs: stacks in network namespaces with real servers and emulated links, brought up and taken down by prony itself.
//!
//! A lab is made from the `[lab]` section of a stack file. It outlives the process that made it; [`down`] removes it,
//! also when that process was killed half-way. This crate sends no load and judges nothing.
//! Invariant: everything a lab makes carries the lab's id in its name, and is in the state file before it exists.

mod builtin;
mod cgroup;
mod disk;
mod down;
mod error;
mod jetty;
mod kernel;
mod network;
mod plan;
mod ready;
mod rules;
mod server;
mod state;
mod sys;
mod tool;
mod traces;
mod up;
mod wire;
mod words;

pub use builtin::{Expected, builtin, builtin_names, expected};
pub use disk::Mounted;
pub use error::LabError;

use prony_model::Stack;
use std::path::PathBuf;
use traces::Ground;

/// Which lab: 4 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabId(String);

impl LabId {
    /// Reads an id that a person typed.
    ///
    /// # Errors
    /// It is not 4 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        match text.len() == 4 && text.chars().all(digit) {
            true => Ok(Self(text.to_string())),
            false => Err(LabError::NoId(text.to_string())),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_number(n: u32) -> Self {
        Self(format!("{:04x}", n & 0xffff))
    }

    fn next(&self) -> Self {
        Self::from_number(u32::from_str_radix(&self.0, 16).map_or(0, |n| n + 1))
    }
}

impl std::fmt::Display for LabId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A lab that is up.
#[derive(Clone, Debug)]
pub struct UpLab {
    /// Its id, for [`down`].
    pub id: LabId,
    /// The stack with the place, address, software, configuration, processes, status page and logs of every host filled
    /// in.
    pub stack: Stack,
    /// What was mounted for it.
    pub mounted: Vec<Mounted>,
}

/// How a lab is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A living process is building it.
    Building,
    /// Everything stands and every server runs, whether or not the process that made it lives.
    Up,
    /// Something of it stands that nobody will finish; the text says why.
    LeftOver(String),
}

/// A lab that left traces on this machine.
#[derive(Clone, Debug)]
pub struct LabState {
    /// Its id.
    pub id: LabId,
    /// Name of its stack; empty when the state file is gone.
    pub name: String,
    /// The process that made it; none when the state file is gone.
    pub owner_pid: Option<u32>,
    /// Whether that process lives.
    pub owner_alive: bool,
    /// How it is.
    pub condition: Condition,
    /// Its network namespaces that exist.
    pub namespaces: Vec<String>,
    /// Its server processes that live.
    pub processes: Vec<i32>,
    /// Where something of it is mounted.
    pub mounts: Vec<PathBuf>,
}

/// Brings up the lab of a stack and waits until every server answers. `progress` gets one sentence per step.
///
/// # Errors
/// The stack cannot be built, a program is missing, prony is not root, or a server does not start or answer. Nothing is
/// left behind then.
pub fn up(stack: &Stack, progress: &dyn Fn(&str)) -> Result<UpLab, LabError> {
    up::up(&Ground::of_this_machine(), stack, ready::WAIT_MAX, progress)
}

/// Whether the lab of a stack could be built here, found out without building it.
///
/// # Errors
/// As [`up`], before anything is made.
pub fn check(stack: &Stack) -> Result<(), LabError> {
    up::check(stack)
}

/// Is the cable between a host of a lab and its switch, as the lab that started this process wrote it down in `plan`. Returns
/// when the lab goes down.
///
/// # Errors
/// `plan` is no file of a wire, or this process was not started by a lab.
pub fn be_wire(plan: &std::path::Path) -> Result<(), LabError> {
    wire::run(plan)
}

/// Where a lab keeps its files; it goes away with the lab.
pub fn folder(id: &LabId) -> PathBuf {
    Ground::of_this_machine().lab(id)
}

/// Takes a lab down: processes, namespaces, control groups, what it mounted, files. One that is down already is no error.
///
/// # Errors
/// Another living process is still building it, or something of it would not go away.
pub fn down(id: &LabId) -> Result<(), LabError> {
    if !sys::is_root() {
        return Err(LabError::NotRoot);
    }
    down::down(&Ground::of_this_machine(), id)
}

/// All labs that left any trace on this machine, whoever made them, in order of id.
///
/// # Errors
/// None today; the signature leaves room for a machine that forbids looking.
pub fn list() -> Result<Vec<LabState>, LabError> {
    Ok(down::list(&Ground::of_this_machine()))
}
