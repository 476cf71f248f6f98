//! A case that stands by scripts: `up` prints what was built, `fix` takes the fault away, `down` removes everything.

use super::STEP_MAX;
use super::case::Stand;
use super::program::{last_line, run_limited};
use super::stack_file;
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A case, its folder, and where its stack file and its scripts' output go.
pub struct Scripts {
    name: String,
    folder: PathBuf,
    scratch: PathBuf,
}

impl Scripts {
    pub fn new(name: &str, folder: &Path, scratch: &Path) -> Self {
        Self { name: name.to_string(), folder: folder.to_path_buf(), scratch: scratch.to_path_buf() }
    }

    fn stack(&self) -> PathBuf {
        self.scratch.join(format!("{}.toml", self.name))
    }

    /// Runs `up`, `fix` or `down` and returns what it printed.
    fn verb(&self, verb: &str, args: &[&str]) -> anyhow::Result<String> {
        let mut command = verb_command(&self.folder, verb);
        command.args(args).env("FAULTS_RUN", self.scratch.join("run"));
        let output = self.scratch.join(format!("{}.{verb}", self.name));
        let ended = run_limited(command, &output, STEP_MAX)?;
        match ended.status {
            Some(Some(0)) => Ok(ended.stdout),
            Some(code) => bail!("`{verb}` ended with {code:?}: {}", last_line(&ended.stderr)),
            None => bail!("`{verb}` did not end within {} s", STEP_MAX.as_secs()),
        }
    }
}

impl Stand for Scripts {
    fn up(&mut self, healthy: bool) -> anyhow::Result<Result<PathBuf, String>> {
        let up = self.verb("up", if healthy { &["--healthy"] } else { &[] })?;
        let info: Value = serde_json::from_str(&up).context("what `up` printed")?;
        let text = match stack_file::write(&self.name, &info)? {
            Ok(text) => text,
            Err(reason) => return Ok(Err(reason)),
        };
        let stack = self.stack();
        std::fs::write(&stack, text).with_context(|| stack.display().to_string())?;
        Ok(Ok(stack))
    }

    fn mend(&mut self, _cause: &str) -> anyhow::Result<PathBuf> {
        self.verb("fix", &[])?;
        Ok(self.stack())
    }

    fn down(&mut self) -> anyhow::Result<()> {
        self.verb("down", &[]).map(drop)
    }

    fn magnitudes(&self) -> String {
        String::new()
    }
}

/// `up`, `fix` and `down` are links to an executable. A checkout without links has files that hold the link's target instead;
/// then the program behind it is called as that executable would call it.
fn verb_command(case: &Path, verb: &str) -> Command {
    let file = case.join(verb);
    if std::fs::metadata(&file).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0) {
        return Command::new(file);
    }
    let mut command = Command::new("python3");
    command.arg(case.join("../../lib.py")).arg(verb).arg(case);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_without_links_works() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("up"), "../../entry").unwrap();
        assert_eq!(verb_command(folder.path(), "up").get_program(), "python3");
    }
}
