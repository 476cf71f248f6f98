//! Rows that were measured before: a score takes hours, and one that was stopped goes on where it was.
//!
//! A file of JSON lines. Invariant: a row is in the file before the next case begins. What failed, and a line that was cut off
//! in the middle, is measured again.

use super::FaultsArgs;
use super::score::{Outcome, Row};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What was asked; a row answers only the same question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    case: String,
    repeat: u32,
    seed: u64,
    healthy: bool,
    passive: bool,
    loads: bool,
}

impl Question {
    /// Of a case in its so manieth repeat.
    pub fn new(case: &str, repeat: u32, args: &FaultsArgs) -> Self {
        Self {
            case: case.to_string(),
            repeat,
            seed: args.seed,
            healthy: args.healthy,
            passive: args.passive,
            loads: !args.no_loads,
        }
    }

    /// Seed of the magnitudes that are drawn for it, whatever else is asked and wherever its folder is.
    pub fn drawn_by(&self) -> u64 {
        let begun = self.seed.wrapping_add(u64::from(self.repeat) << 32);
        let name = self.case.rsplit('/').next().unwrap_or(&self.case);
        name.bytes().fold(begun, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    asked: Question,
    row: Row,
}

/// The file, and what it held.
pub struct Kept {
    path: PathBuf,
    lines: Vec<Line>,
}

impl Kept {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.with_context(|| path.display().to_string())?,
        };
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let lines = lines.filter(|line| !matches!(line.row.outcome, Outcome::Failed(_))).collect();
        Ok(Self { path: path.to_path_buf(), lines })
    }

    /// The row of a question that was answered before.
    pub fn take(&mut self, asked: &Question) -> Option<Row> {
        let at = self.lines.iter().position(|line| line.asked == *asked)?;
        Some(self.lines.swap_remove(at).row)
    }

    /// Adds a row to the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&self, asked: Question, row: Row) -> anyhow::Result<Row> {
        let line = Line { asked, row };
        // The line break first: it ends a line that was cut off.
        let text = format!("\n{}", serde_json::to_string(&line)?);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| self.path.display().to_string())?;
        Ok(line.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::score::Truth;

    fn question(case: &str, repeat: u32) -> Question {
        Question { case: case.to_string(), repeat, seed: 1, healthy: false, passive: false, loads: true }
    }

    #[test]
    fn what_was_measured_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let row = |outcome| Row::new("quota".to_string(), &Truth::default(), outcome);
        let mut kept = Kept::open(&path).unwrap();
        assert!(kept.take(&question("quota", 1)).is_none());
        kept.add(question("quota", 1), row(Outcome::Wrong)).unwrap();
        kept.add(question("quota", 2), row(Outcome::Right)).unwrap();
        // Killed while it wrote.
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        kept.add(question("quota", 3), row(Outcome::Failed("no root".to_string()))).unwrap();
        kept.add(question("quota", 4), row(Outcome::Right)).unwrap();

        let mut kept = Kept::open(&path).unwrap();
        assert!(kept.take(&Question { passive: true, ..question("quota", 1) }).is_none());
        let outcomes = [1, 2, 3, 4].map(|repeat| kept.take(&question("quota", repeat)).map(|row| row.outcome));
        assert_eq!(outcomes, [Some(Outcome::Wrong), None, None, Some(Outcome::Right)]);
    }

    #[test]
    fn magnitudes_do_not_depend_on_the_other_cases() {
        let draws = [question("a", 1), question("b", 1), question("a", 2)].map(|q| q.drawn_by());
        assert!(draws[0] != draws[1] && draws[0] != draws[2], "{draws:?}");
        assert_eq!(question("faults/a", 1).drawn_by(), draws[0]);
    }
}
