//! Where prony keeps runs and undo records on this machine.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// `$PRONY_HOME`, else `/var/lib/prony` for root, else `~/.local/state/prony`.
pub(crate) fn folder() -> PathBuf {
    if let Some(home) = std::env::var_os("PRONY_HOME") {
        return PathBuf::from(home);
    }
    if prony_agent::is_root() {
        return PathBuf::from("/var/lib/prony");
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".local/state"));
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("prony")
}

/// Undo records of changes that are in force.
pub(crate) fn journal() -> PathBuf {
    folder().join("journal")
}

/// Recorded runs; made when missing.
pub(crate) fn runs() -> Result<PathBuf> {
    let runs = folder().join("runs");
    std::fs::create_dir_all(&runs)
        .with_context(|| format!("cannot make {}; name another folder with PRONY_HOME", runs.display()))?;
    Ok(runs)
}

/// Finished cells and results of experiments.
pub(crate) fn experiments() -> PathBuf {
    folder().join("experiments")
}
