//! Experiments that are started here: a `prony run` as a process of its own, with a folder for what it records and says.
//!
//! All that is known of one stands in its folder: `job.json`, what it says while it runs, its result, its records.
//! Invariant: there is never more than one, because two loads disturb each other; and none outlives the server.

use crate::api::{Job, JobState, JobView};
use crate::archive::Archive;
use crate::refusal::Refusal;
use prony_model::{Run, Utc};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Names of the files beside the records.
const ABOUT: &str = "job.json";
const PROGRESS: &str = "progress.log";
const RESULT: &str = "result.txt";

/// How often it is looked whether a process has ended. It runs while something is measured, so it must not disturb.
const TICK: Duration = Duration::from_millis(250);
/// How long an experiment may take to put back what it changed when the server ends. A guess: a lab goes down in seconds.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// What of the progress a page gets. Guesses: a few screens.
const LINES_MAX: usize = 200;
const TAIL_BYTES: u64 = 64 * 1024;

/// Experiments that were started here.
pub(crate) struct Jobs {
    /// Holds a folder for each.
    folder: PathBuf,
    /// This prony.
    program: PathBuf,
    running: Arc<Mutex<Option<Running>>>,
}

struct Running {
    id: String,
    child: Child,
    stopping: bool,
}

/// What is kept of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    file: String,
    name: String,
    quick: bool,
    started_unix_ms: u64,
    /// When it ended; none: it has not, or nobody saw it.
    ended_unix_ms: Option<u64>,
    exit_code: Option<i32>,
}

/// What shall be started.
pub(crate) struct Start {
    pub file: PathBuf,
    pub name: String,
    pub quick: bool,
}

impl Jobs {
    pub fn new(folder: PathBuf, program: PathBuf) -> Self {
        Self { folder, program, running: Arc::default() }
    }

    /// Starts an experiment and gives its id.
    pub fn start(&self, start: &Start) -> Result<String, Refusal> {
        let mut running = locked(&self.running);
        if let Some(other) = running.as_ref() {
            let text =
                format!("experiment {} still runs, and two loads disturb each other: wait, or stop it", other.id);
            return Err(Refusal::conflict(text));
        }
        let started_unix_ms = now_ms();
        let id = Run::id_at(started_unix_ms, std::process::id());
        let folder = self.folder.join(&id);
        let cannot =
            |e: io::Error| Refusal::failed(format!("the experiment cannot be started in {}: {e}", folder.display()));
        std::fs::create_dir_all(&folder).map_err(cannot)?;
        let kept = Kept {
            file: start.file.display().to_string(),
            name: start.name.clone(),
            quick: start.quick,
            started_unix_ms,
            ended_unix_ms: None,
            exit_code: None,
        };
        kept.write(&folder).map_err(cannot)?;
        let mut command = prony_tool::command_that_undoes(&self.program);
        command.arg("run").arg(&start.file).arg("--output").arg(&folder).args(start.quick.then_some("--quick"));
        command.stdin(Stdio::null());
        command.stdout(File::create(folder.join(RESULT)).map_err(cannot)?);
        command.stderr(File::create(folder.join(PROGRESS)).map_err(cannot)?);
        let (tell, told) = channel();
        let keeper = Keeper { id: id.clone(), folder: folder.clone(), kept, running: Arc::clone(&self.running) };
        // The kernel ends the process when the thread that started it ends, so that thread waits for it.
        let thread = thread::Builder::new().name("experiment".to_string());
        thread.spawn(move || keeper.keep(command, &tell)).map_err(cannot)?;
        let spawned = told.recv().unwrap_or_else(|e| Err(io::Error::other(e)));
        let child = spawned.map_err(|e| {
            // A folder without a process would look like one that was cut short.
            drop(std::fs::remove_dir_all(&folder));
            cannot(e)
        })?;
        *running = Some(Running { id: id.clone(), child, stopping: false });
        Ok(id)
    }

    /// Asks an experiment to stop: it ends its trial, puts back what it changed, and keeps its finished cells.
    pub fn stop(&self, id: &str) -> Result<(), Refusal> {
        let mut running = locked(&self.running);
        let now = running.as_mut().filter(|now| now.id == id);
        let Some(now) = now else { return Err(Refusal::conflict(format!("experiment {id} does not run"))) };
        now.stopping = true;
        prony_tool::interrupt(&now.child)
            .map_err(|e| Refusal::failed(format!("experiment {id} cannot be stopped: {e}")))
    }

    /// The id of the experiment that runs.
    pub fn running(&self) -> Option<String> {
        locked(&self.running).as_ref().map(|now| now.id.clone())
    }

    /// Ends what runs and waits until it has put back what it changed.
    pub fn end(&self) {
        let begun = Instant::now();
        let asked = self.running().map(|id| self.stop(&id));
        while asked.is_some() && self.running().is_some() {
            if begun.elapsed() >= END_PATIENCE
                && let Some(now) = locked(&self.running).as_mut()
            {
                // What it left changed is in its journal: `prony undo` puts it back.
                drop(now.child.kill());
            }
            thread::sleep(TICK);
        }
    }

    /// Every experiment, the newest first.
    pub fn list(&self) -> Vec<Job> {
        let mut ids = folders(&self.folder);
        ids.reverse();
        ids.iter().filter_map(|id| self.job(id)).collect()
    }

    /// One of them; none when there is none of this id.
    pub fn find(&self, id: &str) -> Result<Job, Refusal> {
        let known = folders(&self.folder).iter().any(|known| known == id);
        let job = known.then(|| self.job(id)).flatten();
        job.ok_or_else(|| Refusal::missing(format!("no experiment `{id}` was started here")))
    }

    /// With what it said and recorded.
    pub fn view(&self, id: &str, archive: &Archive) -> Result<JobView, Refusal> {
        let job = self.find(id)?;
        let folder = self.folder.join(id);
        let runs = archive.runs_of(id).runs.iter().filter_map(|known| known.summary().cloned()).collect();
        let result = if job.state == JobState::Ended { tail(&folder.join(RESULT)) } else { String::new() };
        let progress = tail(&folder.join(PROGRESS));
        let lines: Vec<&str> = progress.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LINES_MAX)..];
        Ok(JobView { job, lines: shown.iter().map(|line| (*line).to_string()).collect(), result, runs })
    }

    fn job(&self, id: &str) -> Option<Job> {
        // Looked at before the file: what ends in between is then told as running, and as ended a moment later.
        let running = locked(&self.running).as_ref().filter(|now| now.id == id).map(|now| now.stopping);
        let Kept { file, name, quick, started_unix_ms, ended_unix_ms, exit_code } = Kept::read(&self.folder.join(id))?;
        let state = match (running, ended_unix_ms) {
            (Some(false), _) => JobState::Running,
            (Some(true), _) => JobState::Stopping,
            (None, Some(_)) => JobState::Ended,
            (None, None) => JobState::CutShort,
        };
        let started = Utc::from_unix_ms(started_unix_ms).to_string();
        Some(Job { id: id.to_string(), file, name, quick, started, started_unix_ms, state, exit_code })
    }
}

/// Names of the folders of started experiments, in order of time.
pub(crate) fn folders(started: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(started).into_iter().flatten().flatten();
    let of_jobs = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = of_jobs.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

impl Kept {
    fn read(folder: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(folder.join(ABOUT)).ok()?).ok()
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        let fresh = tempfile::NamedTempFile::new_in(folder)?;
        std::fs::write(fresh.path(), text)?;
        fresh.persist(folder.join(ABOUT))?;
        Ok(())
    }
}

/// Waits for an experiment and writes down how it ended.
struct Keeper {
    id: String,
    folder: PathBuf,
    kept: Kept,
    running: Arc<Mutex<Option<Running>>>,
}

impl Keeper {
    fn keep(mut self, mut command: std::process::Command, tell: &Sender<io::Result<Child>>) {
        let spawned = command.spawn();
        let begun = spawned.is_ok();
        if tell.send(spawned).is_err() || !begun {
            return;
        }
        // The files that it writes into are its own now.
        drop(command);
        loop {
            thread::sleep(TICK);
            let mut running = locked(&self.running);
            let Some(now) = running.as_mut().filter(|now| now.id == self.id) else { return };
            let code = match now.child.try_wait() {
                Ok(None) => continue,
                Ok(Some(status)) => status.code(),
                Err(_) => None,
            };
            (self.kept.ended_unix_ms, self.kept.exit_code) = (Some(now_ms()), code);
            // A disk that is full makes it look cut short later, which is what it then is.
            drop(self.kept.write(&self.folder));
            *running = None;
            return;
        }
    }
}

/// The end of a text file, from the begin of a line; empty when it cannot be read.
fn tail(path: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let from = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(if from == 0 { text } else { text.split_once('\n').map(|(_, whole)| whole.to_string()).unwrap_or_default() })
    };
    read().unwrap_or_default()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

fn locked(running: &Mutex<Option<Running>>) -> MutexGuard<'_, Option<Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A program that stands for `prony run FILE --output DIR`.
    fn jobs(folder: &Path, script: &str) -> Jobs {
        let program = folder.join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Jobs::new(folder.join("experiments"), program)
    }

    fn start() -> Start {
        Start { file: PathBuf::from("a.toml"), name: "A".to_string(), quick: true }
    }

    /// Another test that forks at this moment may hold the program open for writing; it lets go a moment later.
    fn begin(jobs: &Jobs) -> String {
        loop {
            match jobs.start(&start()) {
                Ok(id) => return id,
                Err(e) => assert!(e.error.contains("busy"), "{}", e.error),
            }
        }
    }

    fn wait(jobs: &Jobs) {
        while jobs.running().is_some() {
            thread::sleep(TICK);
        }
    }

    #[test]
    fn an_experiment_leaves_what_it_said_and_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = jobs(folder.path(), "echo \"cell 1 done\" >&2; echo \"$1 $2 $3 $5\"; exit 4");
        let id = begin(&jobs);
        wait(&jobs);
        let archive = Archive::new(folder.path().to_path_buf());
        let view = jobs.view(&id, &archive).unwrap();
        assert_eq!((view.job.state, view.job.exit_code), (JobState::Ended, Some(4)));
        assert_eq!(view.lines, ["cell 1 done"]);
        assert_eq!(view.result, "run a.toml --output --quick\n");
        assert_eq!(jobs.list().len(), 1);
        assert!(jobs.find("../experiments").is_err() && jobs.stop(&id).is_err());
    }

    #[test]
    fn there_is_one_at_a_time_and_it_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap 'echo undone; exit 4' INT; echo ready >&2; while :; do sleep 0.05; done";
        let jobs = jobs(folder.path(), script);
        let id = begin(&jobs);
        let second = jobs.start(&start()).err().unwrap();
        assert!(second.error.contains("two loads disturb each other"), "{}", second.error);
        let archive = Archive::new(folder.path().to_path_buf());
        while jobs.view(&id, &archive).unwrap().lines.is_empty() {
            thread::sleep(TICK);
        }
        assert_eq!(jobs.find(&id).unwrap().state, JobState::Running);
        jobs.end();
        let view = jobs.view(&id, &archive).unwrap();
        assert_eq!((view.job.state, view.result.as_str()), (JobState::Ended, "undone\n"));
    }

    #[test]
    fn what_nobody_saw_the_end_of_was_cut_short() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = jobs(folder.path(), "exit 0");
        let id = begin(&jobs);
        wait(&jobs);
        let of_job = folder.path().join("experiments").join(&id);
        let kept = Kept { ended_unix_ms: None, ..Kept::read(&of_job).unwrap() };
        kept.write(&of_job).unwrap();
        assert_eq!(jobs.find(&id).unwrap().state, JobState::CutShort);
    }

    #[test]
    fn a_program_that_cannot_be_started_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = Jobs::new(folder.path().join("experiments"), folder.path().join("nothing"));
        let refused = jobs.start(&start()).err().unwrap();
        assert!(refused.error.starts_with("the experiment cannot be started in "), "{}", refused.error);
        assert!(jobs.running().is_none());
    }

    #[test]
    fn a_tail_begins_with_a_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        std::fs::write(&file, "0123456789\n".repeat(10_000)).unwrap();
        let text = tail(&file);
        assert!(text.len() <= TAIL_BYTES as usize && text.starts_with("0123456789\n"));
        assert_eq!(tail(&folder.path().join("nothing")), "");
    }
}
