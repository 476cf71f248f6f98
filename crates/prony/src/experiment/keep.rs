//! Finished cells on disk: a line of JSON for each, behind a first line that says what experiment they belong to.
//!
//! Invariant: a cell that is on disk never runs again, and cells of another plan are never mixed in. What `kill -9` cut in the
//! middle of a line is left out.

use super::plan::Planned;
use crate::cli::RunArgs;
use crate::{BadArgument, home, load, measure};
use anyhow::{Context, Result};
use prony_model::experiment::CellSeen;
use prony_model::{Experiment, Stack};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the file in the folder.
const FILE: &str = "cells.jsonl";
const SCHEMA: &str = "prony.experiment.cells/1";

/// The first line.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    schema: String,
    version: String,
    seed: u64,
    experiment: Experiment,
    stack: Stack,
}

/// The cells of an experiment that are finished.
pub(super) struct Keep {
    folder: PathBuf,
    file: File,
    seed: u64,
    seen: Vec<CellSeen>,
}

impl Keep {
    /// Opens the folder that the flags name, or a new one; reads what is finished.
    pub fn open(planned: &Planned, args: &RunArgs) -> Result<Self> {
        let folder = match (&args.output, args.resume) {
            (Some(folder), _) => folder.clone(),
            (None, true) => newest(planned)?,
            (None, false) => home::experiments().join(measure::run_id(measure::now_ms())),
        };
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(FILE);
        if path.exists() { Self::go_on(folder, planned) } else { Self::begin(folder, planned) }
    }

    fn begin(folder: PathBuf, planned: &Planned) -> Result<Self> {
        let seed = load::seed(planned.seed);
        let header = Header {
            schema: SCHEMA.to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
            seed,
            experiment: planned.experiment.clone(),
            stack: planned.stack.clone(),
        };
        let path = folder.join(FILE);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let mut keep = Self { folder, file, seed, seen: Vec::new() };
        keep.line(&serde_json::to_string(&header)?)?;
        Ok(keep)
    }

    fn go_on(folder: PathBuf, planned: &Planned) -> Result<Self> {
        let path = folder.join(FILE);
        let (header, seen, whole) = read(&path)?;
        if let Some(what) = differs(&header, planned) {
            return Err(BadArgument::error(format!(
                "{} holds cells of another plan: {what} is not the same; name another --output, or remove it",
                path.display()
            )));
        }
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let long = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.len();
        // What stands behind the last line was being written when the run was killed. Without it nothing is touched, the time included.
        if long > whole {
            file.set_len(whole).with_context(|| format!("cannot mend {}", path.display()))?;
        }
        Ok(Self { folder, file, seed: header.seed, seen })
    }

    /// Keeps a cell for good.
    pub fn add(&mut self, seen: CellSeen) -> Result<()> {
        self.line(&serde_json::to_string(&seen)?)?;
        self.seen.push(seen);
        Ok(())
    }

    fn line(&mut self, text: &str) -> Result<()> {
        let written = self.file.write_all(format!("{text}\n").as_bytes()).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot keep a finished cell in {}", self.folder.display()))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// When the last cell was kept, in milliseconds since 1970; now where the disk does not say.
    pub fn kept_ms(&self) -> u64 {
        let changed = self.file.metadata().and_then(|file| file.modified()).ok();
        let since = changed.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        since.map_or_else(measure::now_ms, |since| since.as_millis() as u64)
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn seen(&self) -> &[CellSeen] {
        &self.seen
    }

    /// Whether a cell is finished in a repeat.
    pub fn has(&self, cell: u32, repeat: u32) -> bool {
        self.seen.iter().any(|s| (s.cell, s.repeat) == (cell, repeat))
    }

    /// Cells that are still to run, over all repeats.
    pub fn missing(&self, planned: &Planned) -> usize {
        let done: BTreeSet<(u32, u32)> = self.seen.iter().map(|s| (s.cell, s.repeat)).collect();
        planned.all().saturating_sub(done.len())
    }
}

/// The first line, the cells, and how many bytes of the file are whole lines.
fn read(path: &Path) -> Result<(Header, Vec<CellSeen>, u64)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].lines();
    let first = lines.next().with_context(|| format!("{} is empty: remove it", path.display()))?;
    let header = serde_json::from_str(first).with_context(|| format!("{}: line 1 is no plan", path.display()))?;
    let cell = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}: line {} is no cell", path.display(), number + 2))
    };
    let seen = lines.enumerate().map(cell).collect::<Result<Vec<CellSeen>>>()?;
    Ok((header, seen, whole as u64))
}

/// What of a kept plan is not that of now.
fn differs(header: &Header, planned: &Planned) -> Option<&'static str> {
    let without_names = |experiment: &Experiment| Experiment { stack: String::new(), seed: None, ..experiment.clone() };
    if without_names(&header.experiment) != without_names(&planned.experiment) {
        return Some("the experiment");
    }
    if json(&header.stack) != json(&planned.stack) {
        return Some("the stack");
    }
    planned.seed.is_some_and(|seed| seed != header.seed).then_some("the seed")
}

/// As it is written: a database connection never is.
fn json(stack: &Stack) -> Option<serde_json::Value> {
    serde_json::to_value(stack).ok()
}

/// The newest folder with cells of this plan of which some are missing.
fn newest(planned: &Planned) -> Result<PathBuf> {
    let folder = home::experiments();
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    let open = |folder: &PathBuf| {
        let Ok((header, seen, _)) = read(&folder.join(FILE)) else { return false };
        differs(&header, planned).is_none() && seen.len() < planned.all()
    };
    found.into_iter().rev().find(open).ok_or_else(|| {
        BadArgument::error(format!(
            "{} holds no run of this experiment to go on with: leave out --resume",
            folder.display()
        ))
    })
}
