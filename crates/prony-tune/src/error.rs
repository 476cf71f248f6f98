//! What can go wrong while a knob is turned. Every error says what was seen, where, and what to do next.

use prony_nginx::ConfigError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a knob was not read, not turned or not put back. Unless the text says otherwise nothing was left changed.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// Read, write, lock, ...
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The value is not one that this knob takes.
    #[error("{knob}: `{value}` is not {want}")]
    Value {
        /// Name of the knob.
        knob: String,
        /// What was given.
        value: String,
        /// What would be right.
        want: String,
    },
    /// prony does not turn this, whatever the value.
    #[error("{knob}: prony does not set this to `{value}`: {why}")]
    Denied {
        /// Name of the knob.
        knob: String,
        /// What was given.
        value: String,
        /// The reason.
        why: String,
    },
    /// A running daemon sets the same value.
    #[error("{knob} is turned by {owner} too (pid {pid}), which would fight over it; {next}")]
    Owned {
        /// Name of the knob.
        knob: String,
        /// Name of the daemon's process.
        owner: &'static str,
        /// Its pid.
        pid: u32,
        /// How to let it rest.
        next: &'static str,
    },
    /// Something that the knob needs is not there.
    #[error("{what}; {next}")]
    Missing {
        /// What was looked for and not found.
        what: String,
        /// What the user can do.
        next: String,
    },
    /// The knob already has the value, so turning it would prove nothing.
    #[error("{knob} is `{value}` already: nothing to turn")]
    Unchanged {
        /// Name of the knob.
        knob: String,
        /// The present value.
        value: String,
    },
    /// A server's configuration has something that this knob cannot rewrite.
    #[error("{}:{line}: {message}", file.display())]
    Config {
        /// Which file.
        file: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is there, and what to do.
        message: String,
    },
    /// nginx itself refuses a configuration.
    #[error("nginx rejects the configuration: {message}\n  repeat with: {command}")]
    Rejected {
        /// nginx's own words, with file and line.
        message: String,
        /// The command that shows it again.
        command: String,
    },
    /// The value was written, but the system does not show it. It has been put back.
    #[error("{knob}: wrote `{wanted}`, but the system shows `{seen}`")]
    NoEffect {
        /// Name of the knob.
        knob: String,
        /// What was asked for.
        wanted: String,
        /// What was read back.
        seen: String,
    },
    /// Another prony changed the same thing and has not put it back.
    #[error("{target} is changed by another run of prony ({}); {}", journal.display(), if *alive { "wait until it ends" } else { "it was killed: run `prony undo` first" })]
    Busy {
        /// What both want to change.
        target: String,
        /// The other's journal.
        journal: PathBuf,
        /// Whether it still runs.
        alive: bool,
    },
    /// A command that prony ran failed.
    #[error("`{command}` failed: {message}")]
    Tool {
        /// The command line.
        command: String,
        /// What it said.
        message: String,
    },
    /// A journal has a line, not the last one, that cannot be read.
    #[error("{}:{line}: this is no journal entry ({why}); put the lines above it back by hand, then remove the file", journal.display())]
    Damaged {
        /// Which journal.
        journal: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What the parser said.
        why: String,
    },
    /// Applying failed, and so did putting back. The journal still holds the entry.
    #[error("{first}\n  and it could not be put back: {second}\n  run `prony undo` when that is mended")]
    Stuck {
        /// Why applying failed.
        first: Box<TuneError>,
        /// Why undoing failed.
        second: String,
    },
}

fn hint(source: &io::Error) -> &'static str {
    let next = [
        (io::ErrorKind::PermissionDenied, "; run as root"),
        (io::ErrorKind::ReadOnlyFilesystem, "; remount it writable, or run prony where it is"),
        (io::ErrorKind::StorageFull, "; free some space first"),
    ];
    next.into_iter().find(|(kind, _)| *kind == source.kind()).map_or("", |(_, hint)| hint)
}

impl From<ConfigError> for TuneError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Unread { path, source } => Self::Io { doing: "read", path, source },
            ConfigError::Syntax { file, line, message } => Self::Config { file, line, message },
        }
    }
}

impl TuneError {
    /// For `map_err` at a file operation.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn missing(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Missing { what: what.into(), next: next.into() }
    }

    pub(crate) fn value(knob: impl Into<String>, value: &str, want: impl Into<String>) -> Self {
        Self::Value { knob: knob.into(), value: value.to_string(), want: want.into() }
    }
}
