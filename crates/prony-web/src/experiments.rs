//! Experiment files that may be started: those of the folders that the server was given, and no others.
//!
//! Invariant: what a client names is compared with this list; no path is made of it.

use crate::api::ExperimentFile;
use prony_model::Experiment;
use std::path::{Path, PathBuf};

/// The TOML files of a folder, in order of name. A folder that cannot be read has none.
pub(crate) fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml") && path.is_file();
    let mut files: Vec<PathBuf> = entries.filter(is_toml).collect();
    files.sort();
    files
}

/// Every experiment of these folders, with the file that it was read from.
pub(crate) fn list(folders: &[PathBuf]) -> Vec<(PathBuf, ExperimentFile)> {
    let files = folders.iter().flat_map(|folder| toml_files(folder));
    files.map(|file| (file.clone(), read(&file))).collect()
}

fn read(path: &Path) -> ExperimentFile {
    let file = path.display().to_string();
    let parsed = std::fs::read_to_string(path)
        .map_err(|e| format!("{file}: {e}"))
        .and_then(|text| Experiment::parse(&file, &text).map_err(|e| e.to_string()));
    match parsed {
        Ok(experiment) => ExperimentFile {
            file,
            cells: experiment.cells().len() as u32,
            repeats: experiment.repeats,
            asks: experiment.find.words().to_string(),
            name: experiment.name,
            about: experiment.about,
            expectation: experiment.expectation,
            wrong: None,
        },
        Err(wrong) => ExperimentFile {
            file,
            name: String::new(),
            about: String::new(),
            expectation: String::new(),
            asks: String::new(),
            cells: 0,
            repeats: 0,
            wrong: Some(wrong),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiments_of_prony_are_listed_and_a_wrong_one_says_where() {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("wrong.toml"), "name = \"A\"\nstak = \"x\"\n").unwrap();
        std::fs::write(folder.path().join("notes.md"), "").unwrap();
        let all = list(&[ours, folder.path().to_path_buf(), folder.path().join("nothing")]);
        let (wrong, right): (Vec<_>, Vec<_>) = all.iter().partition(|(_, file)| file.wrong.is_some());
        assert!(right.len() >= 5 && right.iter().all(|(_, file)| file.cells > 0 && !file.expectation.is_empty()));
        assert_eq!(wrong.len(), 1);
        let text = wrong[0].1.wrong.as_deref().unwrap();
        assert!(text.contains("wrong.toml:2: ") && text.contains("did you mean `stack`?"), "{text}");
    }
}
