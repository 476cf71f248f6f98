//! What can go wrong with a lab, each with the next step for the person who reads it.

use std::path::{Path, PathBuf};

/// Why a lab could not be brought up, listed or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The stack cannot be built as it is written.
    #[error("stack `{stack}`: {reason}")]
    Stack {
        /// Name of the stack.
        stack: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Namespaces and control groups need root.
    #[error("a lab needs root, for network namespaces and control groups: run prony with sudo")]
    NotRoot,
    /// A program is missing.
    #[error("`{tool}` is not installed, and {wanted_by} needs it: apt-get install {package}")]
    ToolMissing {
        /// The program.
        tool: String,
        /// Who needs it.
        wanted_by: String,
        /// Debian package that has it.
        package: String,
    },
    /// Files that prony does not bring are missing.
    #[error("{what} is not there ({looked}), and {wanted_by} needs it: {next}")]
    FilesMissing {
        /// What.
        what: String,
        /// Where it was looked for.
        looked: PathBuf,
        /// Who needs it.
        wanted_by: String,
        /// How to get it.
        next: String,
    },
    /// The kernel cannot do it, so nothing on this machine helps.
    #[error("this kernel has no {what}, and {wanted_by} needs it ({said})")]
    KernelLacks {
        /// What.
        what: String,
        /// Who needs it.
        wanted_by: String,
        /// What the kernel said.
        said: String,
    },
    /// The machine has no control group that accounts and limits CPU.
    #[error(
        "no control group hierarchy with `{controller}` is mounted: a lab accounts and limits CPU by it ({looked})"
    )]
    NoCgroup {
        /// Controller that was looked for.
        controller: String,
        /// Where it was looked for.
        looked: String,
    },
    /// A program that builds the network failed.
    #[error("{command}: {reason}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        reason: String,
    },
    /// A file or a kernel setting could not be read or written.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    File {
        /// `read`, `write`, `create`, `remove`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A server did not start.
    #[error("{server} on host `{host}` did not start: {reason}\n{log}")]
    ServerFailed {
        /// Host in the stack.
        host: String,
        /// Server software.
        server: String,
        /// How it ended.
        reason: String,
        /// The end of its logs.
        log: String,
    },
    /// A server started but gives no answer.
    #[error("{server} on host `{host}` gave no good answer to {asked}: {last}\n{log}")]
    NoAnswer {
        /// Host in the stack.
        host: String,
        /// Server software.
        server: String,
        /// URL, and the host that asked.
        asked: String,
        /// The last answer or error, and how long it was waited for.
        last: String,
        /// The end of its logs.
        log: String,
    },
    /// The lab is being built by a process that lives.
    #[error("lab {id} is being built by process {pid}: stop that first")]
    BeingBuilt {
        /// Which lab.
        id: String,
        /// Who builds it.
        pid: u32,
    },
    /// Something of the lab would not go away.
    #[error("lab {id} is not completely down: {left}. Find what holds it, then take it down again")]
    NotGone {
        /// Which lab.
        id: String,
        /// What is still there.
        left: String,
    },
    /// Building failed, and so did taking down what had been built.
    #[error("{cause}\nand then: {then}")]
    AndThen {
        /// Why building failed.
        cause: Box<LabError>,
        /// Why taking down failed.
        then: Box<LabError>,
    },
    /// Text that is no lab id.
    #[error("`{0}` is no lab id: those are 4 hexadecimal digits, see `prony lab ls`")]
    NoId(String),
}

/// Adds the path and the action to an error of a file operation.
pub(crate) fn file<T>(action: &'static str, path: &Path, result: std::io::Result<T>) -> Result<T, LabError> {
    result.map_err(|source| LabError::File { action, path: path.to_path_buf(), source })
}
