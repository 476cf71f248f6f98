//! The smallest changes that prony makes, each with all that is needed to take it back.
//!
//! A step is written to the journal before it is made. Invariant: `restore` writes only over what `apply` wrote
//! (compare-and-swap), so a step that was never made, half made or already taken back can be restored safely.

mod affinity;
mod config_file;
mod group;
mod kernel_file;
mod offloads;
mod qdisc;

pub use affinity::{Affinity, Bound};
pub use config_file::ConfigFile;
pub use group::{Group, Moved, pids as group_pids};
pub use kernel_file::{Form, KernelFile, Root};
pub use offloads::Offloads;
pub use qdisc::{Bucket, OUR_HANDLE, Qdisc};

use crate::Roots;
use crate::error::TuneError;
use prony_tool::Tool;
use serde::{Deserialize, Serialize};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Step {
    /// A server's configuration file is replaced.
    ConfigFile(ConfigFile),
    /// A value is written to a file of the kernel.
    KernelFile(KernelFile),
    /// A control group is made and processes are moved into it.
    Group(Group),
    /// Threads are bound to CPUs.
    Affinity(Affinity),
    /// The queueing discipline of an interface is replaced.
    Qdisc(Qdisc),
    /// What an interface joins and splits is switched on and off.
    Offloads(Offloads),
}

/// How the system stands to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// As it was before the step.
    Old,
    /// As the step left it.
    New,
    /// Parts are as the step left them, others belong to someone else now; says which.
    Partly(String),
    /// Changed by someone else; says what is there now.
    Foreign(String),
    /// What was changed is gone, and the change with it; says how.
    Gone(String),
}

impl Step {
    /// Compares the system with the step.
    pub fn look(&self, roots: &Roots) -> Result<Look, TuneError> {
        match self {
            Self::ConfigFile(step) => step.look(),
            Self::KernelFile(step) => step.look(roots),
            Self::Group(step) => Ok(step.look(roots)),
            Self::Affinity(step) => Ok(step.look(roots)),
            Self::Qdisc(step) => step.look(),
            Self::Offloads(step) => step.look(),
        }
    }

    /// Makes the change.
    pub fn apply(&self, roots: &Roots) -> Result<(), TuneError> {
        match self {
            Self::ConfigFile(step) => step.apply(),
            Self::KernelFile(step) => step.apply(roots),
            Self::Group(step) => step.apply(roots),
            Self::Affinity(step) => step.apply(roots),
            Self::Qdisc(step) => step.apply(),
            Self::Offloads(step) => step.apply(),
        }
    }

    /// Takes the change back where it still stands.
    pub fn restore(&self, roots: &Roots) -> Result<(), TuneError> {
        match self {
            Self::ConfigFile(step) => step.restore(),
            Self::KernelFile(step) => step.restore(roots),
            Self::Group(step) => step.restore(roots),
            Self::Affinity(step) => step.restore(roots),
            Self::Qdisc(step) => step.restore(),
            Self::Offloads(step) => step.restore(),
        }
    }

    /// Removes what an interrupted `apply` or `restore` may have left beside the thing itself.
    pub fn sweep(&self) {
        match self {
            Self::ConfigFile(step) => step.sweep(),
            Self::KernelFile(_) | Self::Group(_) | Self::Affinity(_) | Self::Qdisc(_) | Self::Offloads(_) => {}
        }
    }

    /// Whether a reboot takes the change back.
    pub fn is_volatile(&self) -> bool {
        match self {
            Self::ConfigFile(_) => false,
            Self::KernelFile(_) | Self::Group(_) | Self::Affinity(_) | Self::Qdisc(_) | Self::Offloads(_) => true,
        }
    }

    /// Whether it lives in one network namespace, and goes with it.
    pub fn is_in_namespace(&self) -> bool {
        match self {
            Self::KernelFile(step) => step.is_in_namespace(),
            Self::Qdisc(_) | Self::Offloads(_) => true,
            Self::ConfigFile(_) | Self::Group(_) | Self::Affinity(_) => false,
        }
    }

    /// What is changed, as a name that two steps share only when they would disturb each other. `place` tells
    /// namespaces apart.
    pub fn target(&self, place: &str) -> String {
        match self {
            Self::ConfigFile(step) => step.path.display().to_string(),
            Self::KernelFile(step) if step.is_in_namespace() => format!("{} of {place}", step.path),
            Self::KernelFile(step) => format!("{:?} {}", step.root, step.path),
            Self::Group(step) => format!("control group {}", step.dir),
            Self::Affinity(step) => {
                format!("CPU affinity of process {}", step.threads.first().map_or(0, |t| t.tid))
            }
            Self::Qdisc(step) => format!("qdisc of {} of {place}", step.interface),
            Self::Offloads(step) => format!("offloads of {} of {place}", step.interface),
        }
    }

    /// The change as text for a person.
    pub fn diff(&self) -> String {
        match self {
            Self::ConfigFile(step) => step.diff(),
            Self::KernelFile(step) => format!("{}: {} -> {}\n", step.path, step.old, step.new),
            Self::Group(step) => step.diff(),
            Self::Affinity(step) => step.diff(),
            Self::Qdisc(step) => step.diff(),
            Self::Offloads(step) => step.diff(),
        }
    }
}

/// What a program of the machine answers.
fn call(tool: Tool, args: &[&str]) -> Result<String, TuneError> {
    let command = format!("{} {}", tool.name, args.join(" "));
    let out = tool
        .command()
        .args(args)
        .output()
        .map_err(|e| TuneError::Tool { command: command.clone(), message: format!("{e}; install {}", tool.package) })?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(TuneError::Tool { command, message: String::from_utf8_lossy(&out.stderr).trim().to_string() })
}
