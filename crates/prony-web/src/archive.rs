//! The folder of runs: what each file holds, read anew when the file has changed.
//!
//! It keeps nothing on disk. Runs are asked for by their id, and an id is only ever compared with those that were read: no path
//! is made of it. Invariant: a file that cannot be read is named with its reason, and hides no other.

use crate::refusal::Refusal;
use crate::tags;
use prony_record::RecordError;
use prony_report::view::RunSummary;
use prony_stats::history::PastRun;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// Below the folder of runs: a folder for each experiment that was started here.
const STARTED: &str = "experiments";

/// Runs of a folder and, below it, of the experiments that were started here.
pub(crate) struct Archive {
    folder: PathBuf,
    known: Mutex<BTreeMap<PathBuf, Arc<Known>>>,
}

/// A file as it was read.
pub(crate) struct Known {
    pub path: PathBuf,
    stamp: Stamp,
    /// What a list shows of it, or why it cannot be read.
    read: Result<RunSummary, String>,
    past: OnceLock<Result<PastRun, String>>,
}

/// Tells whether a record or its tags were written since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    bytes: u64,
    written: Option<SystemTime>,
    tagged: Option<SystemTime>,
}

impl Stamp {
    /// None: there is no such file any more.
    pub fn of(record: &Path) -> Option<Self> {
        let file = std::fs::metadata(record).ok().filter(std::fs::Metadata::is_file)?;
        let tagged = std::fs::metadata(tags::file(record)).and_then(|tags| tags.modified()).ok();
        Some(Self { bytes: file.len(), written: file.modified().ok(), tagged })
    }
}

/// What a folder holds.
#[derive(Default)]
pub(crate) struct Listing {
    /// The newest first.
    pub runs: Vec<Arc<Known>>,
    /// Why files are not among them.
    pub unreadable: Vec<String>,
}

impl Known {
    fn read(path: &Path, stamp: Stamp) -> Self {
        let read = prony_record::outline(path).map(|run| RunSummary::of(&run, tags::read(path)));
        Self { path: path.to_path_buf(), stamp, read: read.map_err(|e| e.to_string()), past: OnceLock::new() }
    }

    /// None when it cannot be read.
    pub fn summary(&self) -> Option<&RunSummary> {
        self.read.as_ref().ok()
    }

    /// What a history needs of it, read once.
    pub fn past(&self) -> Result<PastRun, String> {
        let read = || prony_record::read(&self.path).map(|run| PastRun::of(&run)).map_err(|e| e.to_string());
        self.past.get_or_init(read).clone()
    }
}

impl Archive {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, known: Mutex::default() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the folders of started experiments are.
    pub fn started(&self) -> PathBuf {
        self.folder.join(STARTED)
    }

    /// The runs of the folder itself.
    pub fn runs(&self) -> Result<Listing, Refusal> {
        self.look(&self.folder).map_err(|e| Refusal::failed(format!("cannot list {}: {e}", self.folder.display())))
    }

    /// The runs of a started experiment; none when there is no such folder.
    pub fn runs_of(&self, job: &str) -> Listing {
        self.look(&self.started().join(job)).unwrap_or_default()
    }

    /// The run with this id.
    pub fn find(&self, id: &str) -> Result<Arc<Known>, Refusal> {
        let is_it = |known: &Arc<Known>| known.summary().is_some_and(|run| run.id == id);
        if let Some(found) = self.runs()?.runs.into_iter().find(is_it) {
            return Ok(found);
        }
        let jobs = crate::jobs::folders(&self.started());
        let found = jobs.iter().find_map(|job| self.runs_of(job).runs.into_iter().find(is_it));
        found.ok_or_else(|| Refusal::missing(format!("there is no run `{id}` in {}", self.folder.display())))
    }

    fn look(&self, folder: &Path) -> io::Result<Listing> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            paths.push(entry?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == prony_record::EXTENSION));
        paths.sort();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|path, _| path.parent() != Some(folder) || paths.binary_search(path).is_ok());
        let mut listing = Listing::default();
        let mut ids = BTreeSet::new();
        let stamped: Vec<(PathBuf, Stamp)> =
            paths.into_iter().filter_map(|path| Stamp::of(&path).map(|stamp| (path, stamp))).collect();
        let is_known = |(path, stamp): &&(PathBuf, Stamp)| known.get(path).is_some_and(|seen| seen.stamp == *stamp);
        let changed: Vec<&(PathBuf, Stamp)> = stamped.iter().filter(|file| !is_known(file)).collect();
        known.extend(read_all(&changed).into_iter().map(|seen| (seen.path.clone(), Arc::new(seen))));
        for (path, _) in &stamped {
            let Some(seen) = known.get(path) else { continue };
            match &seen.read {
                Ok(run) if ids.insert(run.id.clone()) => listing.runs.push(Arc::clone(seen)),
                Ok(run) => {
                    let text = format!("{}: left out, another file holds run {} too", seen.path.display(), run.id);
                    listing.unreadable.push(text);
                }
                Err(reason) => listing.unreadable.push(reason.clone()),
            }
        }
        listing.runs.sort_by(|a, b| newer(b.summary()).cmp(&newer(a.summary())));
        Ok(listing)
    }
}

/// Reads files on all CPUs: a folder of thousands is read whole at the first question.
fn read_all(files: &[&(PathBuf, Stamp)]) -> Vec<Known> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let read = |(path, stamp): &&(PathBuf, Stamp)| Known::read(path, stamp.clone());
    std::thread::scope(|scope| {
        let parts = files.chunks(files.len().div_ceil(cpus).max(1));
        let readers: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().map(read).collect::<Vec<_>>())).collect();
        let ended =
            readers.into_iter().map(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.flatten().collect()
    })
}

fn newer(run: Option<&RunSummary>) -> Option<(u64, &str)> {
    run.map(|run| (run.started_unix_ms, run.id.as_str()))
}

/// A record that cannot be read is no mistake of who asked for it.
pub(crate) fn unreadable(error: &RecordError) -> Refusal {
    Refusal::failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{Run, RunEnd, Stack};
    use prony_record::Writer;

    fn run(id: &str, started_unix_ms: u64) -> Run {
        let stack = Stack { name: "shop".into(), ..Stack::default() };
        Run { id: id.into(), started_unix_ms, stack, ..Run::default() }
    }

    fn ids(listing: &Listing) -> Vec<&str> {
        listing.runs.iter().filter_map(|known| Some(known.summary()?.id.as_str())).collect()
    }

    #[test]
    fn the_newest_run_comes_first_and_what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for (name, id, started) in [("a.prony", "one", 1), ("b.prony", "two", 2), ("c.prony", "one", 1)] {
            Writer::create(&file(name), &run(id, started)).unwrap();
        }
        std::fs::write(file("d.prony"), "hello").unwrap();
        std::fs::create_dir(file("e.prony")).unwrap();
        let archive = Archive::new(folder.path().to_path_buf());
        let listing = archive.runs().unwrap();
        assert_eq!(ids(&listing), ["two", "one"]);
        assert_eq!(listing.unreadable.len(), 2, "{:?}", listing.unreadable);
        assert!(listing.unreadable[0].ends_with("c.prony: left out, another file holds run one too"));
        assert!(listing.unreadable[1].contains("d.prony: this is no record of prony"));
    }

    #[test]
    fn a_file_is_read_again_only_when_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut seen) = (folder.path().join("a.prony"), run("one", 1));
        let writer = Writer::create(&path, &seen).unwrap();
        let archive = Archive::new(folder.path().to_path_buf());
        let first = Arc::clone(&archive.runs().unwrap().runs[0]);
        assert!(Arc::ptr_eq(&first, &archive.find("one").unwrap()));
        seen.end = RunEnd::Done;
        seen.command = "x".repeat(10_000);
        writer.finish(&seen).unwrap();
        assert_eq!(archive.find("one").unwrap().summary().unwrap().end, "done");
        tags::write(&path, &["good".to_string()]).unwrap();
        assert_eq!(archive.find("one").unwrap().summary().unwrap().tags, ["good"]);
        std::fs::remove_file(&path).unwrap();
        let gone = archive.find("one").err().unwrap();
        assert!(gone.error.starts_with("there is no run `one` in "), "{}", gone.error);
    }

    #[test]
    fn runs_of_started_experiments_are_found_but_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::new(folder.path().to_path_buf());
        let job = archive.started().join("20261120-231501-1a2b");
        std::fs::create_dir_all(&job).unwrap();
        Writer::create(&job.join("repeat-1.prony"), &run("inner", 1)).unwrap();
        assert!(archive.runs().unwrap().runs.is_empty());
        assert_eq!(ids(&archive.runs_of("20261120-231501-1a2b")), ["inner"]);
        assert!(archive.find("inner").is_ok());
        for outside in ["../inner", "experiments/20261120-231501-1a2b/repeat-1", ""] {
            assert!(archive.find(outside).is_err());
        }
    }
}
