//! A fault case: a name, its truth, and a stand that brings it up, mends it and takes it down.
//!
//! Two forms: a folder with the scripts `up`, `fix`, `down`, and a TOML file that plants a fault in one of prony's labs.

use super::lab_case::LabCase;
use super::score::Truth;
use super::script_case::Scripts;
use anyhow::Context as _;
use prony_stats::random::Random;
use std::path::{Path, PathBuf};

/// One case; what its truth is, or why that cannot be read.
pub struct Case {
    /// With the folder that it is in, as `faults/gzip`: two folders may have a case of one name.
    pub name: String,
    pub truth: Result<Truth, String>,
    form: Form,
}

enum Form {
    Scripts(PathBuf),
    Lab(Box<LabCase>),
}

/// A case with its magnitudes drawn.
pub trait Stand {
    /// Brings it up, with its fault or without, and returns its stack file; the inner error says why the stack format cannot
    /// express it.
    fn up(&mut self, healthy: bool) -> anyhow::Result<Result<PathBuf, String>>;
    /// Takes away just the fault, of several the one that was named as `cause`, and returns the stack file of what then stands.
    fn mend(&mut self, cause: &str) -> anyhow::Result<PathBuf>;
    /// Whether nothing of the fault stays then.
    fn mends_all(&self, _cause: &str) -> bool {
        true
    }
    /// Removes everything, whatever stands.
    fn down(&mut self) -> anyhow::Result<()>;
    /// What was drawn, in words.
    fn magnitudes(&self) -> String;
}

impl Case {
    /// Draws its magnitudes.
    ///
    /// # Errors
    /// What is planted cannot be written.
    pub fn stand(&self, prony: &Path, scratch: &Path, random: &mut Random) -> anyhow::Result<Box<dyn Stand>> {
        Ok(match &self.form {
            Form::Scripts(folder) => Box::new(Scripts::new(&self.name, folder, scratch)),
            Form::Lab(case) => Box::new(case.stand(&self.name, prony, scratch, random)?),
        })
    }
}

/// Every case in a folder.
///
/// # Errors
/// It cannot be listed.
pub fn read_folder(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("{}: no folder of cases; name one with --cases", folder.display()))?;
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    Ok(entries.flatten().filter_map(|entry| read(&entry.path())).collect())
}

fn read(path: &Path) -> Option<Case> {
    let folder = path.parent()?.file_name().unwrap_or_default();
    let name = format!("{}/{}", folder.display(), path.file_stem()?.display());
    if path.join("truth.json").is_file() {
        let truth = read_truth(path).map_err(|e| format!("truth.json: {e:#}"));
        return Some(Case { name, truth, form: Form::Scripts(path.to_path_buf()) });
    }
    if path.extension()? != "toml" {
        return None;
    }
    Some(match LabCase::read(path) {
        Ok(case) => Case { name, truth: Ok(case.truth()), form: Form::Lab(Box::new(case)) },
        Err(e) => Case { name, truth: Err(format!("{e:#}")), form: Form::Scripts(path.to_path_buf()) },
    })
}

fn read_truth(case: &Path) -> anyhow::Result<Truth> {
    Ok(serde_json::from_str(&std::fs::read_to_string(case.join("truth.json"))?)?)
}
