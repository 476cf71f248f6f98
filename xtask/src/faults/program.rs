//! Runs a program with a time limit and keeps what it printed.
//!
//! It knows nothing of cases. Invariant: a program whose time is up is interrupted, and killed if that does not help.

use anyhow::Context as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program that was asked to stop may take to put things back. A guess.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How a program ended.
pub struct Ended {
    /// None: its time was up. Some(None): a signal.
    pub status: Option<Option<i32>>,
    /// What it printed.
    pub stdout: String,
    /// What it told.
    pub stderr: String,
}

/// Runs a program with a time limit. Its output goes to files beside `output`, so that it can be read afterwards and a
/// full pipe stops nobody. When its time is up it is interrupted, and killed if that does not help.
pub fn run_limited(mut command: Command, output: &Path, limit: Duration) -> anyhow::Result<Ended> {
    // Not `with_extension`: `up`, `diagnose` and `down` of a case would overwrite each other's output.
    let named = |end: &str| PathBuf::from(format!("{}.{end}", output.display()));
    let (out, err) = (named("out"), named("err"));
    let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
    command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| program)?;
    let begun = Instant::now();
    let mut interrupted = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break if interrupted { None } else { Some(status.code()) };
        }
        if begun.elapsed() > limit && !interrupted {
            interrupted = true;
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().context("kill")?;
        }
        if begun.elapsed() > limit + STOP_MAX {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let read = |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Ended { status, stdout: read(&out)?, stderr: read(&err)? })
}

pub fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(it said nothing)").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let mut sleep = Command::new("sleep");
        sleep.arg("60");
        let ended = run_limited(sleep, &folder.path().join("x"), Duration::from_millis(50)).unwrap();
        assert_eq!(ended.status, None);
    }
}
