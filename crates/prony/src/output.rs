//! Where results go: stdout or a file. Progress goes elsewhere, see `progress.rs`.

use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;

/// Prints a result. A closed pipe (`| head`) is no error.
pub(crate) fn print(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end_matches('\n'));
}

/// Whether a result is to go to stdout, as `-` asks.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a result file, naming it in the error; `-` is stdout.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if is_stdout(path) {
        print(text);
        return Ok(());
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
