//! The journal: what was changed and how to put it back, on disk before the change is made.
//!
//! A folder with one file per run of prony; a file has one JSON record per line, each synced before we go on. The run
//! that owns a file holds a lock on it, which the kernel drops when the run dies: a file that can be locked is a dead
//! run's. Invariant: whatever byte a crash cuts a file at, the complete lines tell all that was begun. A torn last line
//! announces a change that was not made yet, or an end that undo will find again by itself.

use crate::entry::{Entry, Undone};
use crate::error::TuneError;
use crate::{Roots, process};
use prony_model::{Knob, Place};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Names a change within its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EntryId(pub u64);

/// The journal of this run. Its file is removed when everything in it is undone or kept.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    book: Mutex<Book>,
}

/// A line of a journal file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
enum Record {
    /// The first line.
    Journal { version: u32, pid: u32, start_ticks: Option<u64>, boot: String },
    /// A change will be made; here is how to put it back.
    Begin { entry: Box<Entry> },
    /// It was made and took effect.
    Applied { id: EntryId },
    /// It needs no undo any more.
    End { id: EntryId, result: Undone },
}

/// Version of the record format.
const VERSION: u32 = 1;
/// How journal files end.
const EXTENSION: &str = "jsonl";

/// One journal file, locked by us.
#[derive(Debug)]
struct Book {
    path: PathBuf,
    file: File,
    /// Bytes of complete lines; what is behind them is torn.
    length: u64,
    /// Begun and not ended.
    open: BTreeMap<EntryId, Entry>,
    next: u64,
}

impl Journal {
    /// Starts a journal in a folder, which is made when missing.
    pub fn open(dir: &Path) -> Result<Self, TuneError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(dir).map_err(TuneError::io("make journal folder", dir))?;
        let _gate = gate(dir)?;
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis());
        let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = dir.join(format!("{ms:013}-{pid}-{count}.{EXTENSION}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(TuneError::io("make journal", &path))?;
        file.try_lock().map_err(|e| TuneError::io("lock", &path)(io::Error::from(e)))?;
        let mut book = Book { path, file, length: 0, open: BTreeMap::new(), next: 1 };
        let proc = Roots::default().proc;
        let (boot, start_ticks) = (process::boot_id(&proc), process::start_ticks(&proc, pid));
        if let Err(e) = book.append(&Record::Journal { version: VERSION, pid, start_ticks, boot }) {
            fs::remove_file(&book.path).ok();
            return Err(e);
        }
        File::open(dir).and_then(|d| d.sync_all()).map_err(TuneError::io("sync", dir))?;
        Ok(Self { dir: dir.to_path_buf(), book: Mutex::new(book) })
    }

    /// Changes that are neither undone nor kept, in the order to undo them: the newest first.
    pub fn unsettled(&self) -> Vec<(EntryId, Place)> {
        self.book().open.values().rev().map(|e| (e.id, e.place.clone())).collect()
    }

    /// Writes an entry ahead of its change and gives it its number. Refuses what another run has changed and not
    /// undone.
    pub(crate) fn begin(&self, mut entry: Entry) -> Result<Entry, TuneError> {
        let _gate = gate(&self.dir)?;
        let mut book = self.book();
        let wanted = targets(&entry);
        for path in files(&self.dir)?.into_iter().filter(|p| *p != book.path) {
            let (other, alive) = match Book::adopt(&path)? {
                Some(other) => (other.open, false),
                None => (read(&path)?.0, true),
            };
            let taken: Vec<String> = other.values().flat_map(targets).collect();
            if let Some(target) = wanted.iter().find(|t| taken.contains(t)) {
                return Err(TuneError::Busy { target: target.clone(), journal: path, alive });
            }
        }
        entry.id = EntryId(book.next);
        book.append(&Record::Begin { entry: Box::new(entry.clone()) })?;
        book.next += 1;
        book.open.insert(entry.id, entry.clone());
        Ok(entry)
    }

    pub(crate) fn applied(&self, id: EntryId) -> Result<(), TuneError> {
        self.book().append(&Record::Applied { id })
    }

    pub(crate) fn entry(&self, id: EntryId) -> Result<Entry, TuneError> {
        self.book().open.get(&id).cloned().ok_or_else(|| settled(id))
    }

    pub(crate) fn settle(&self, id: EntryId, result: &Undone) -> Result<(), TuneError> {
        self.book().settle(id, result)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A book is changed only after its file was, so a panic elsewhere leaves it whole.
        self.book.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let book = self.book();
        if book.open.is_empty() {
            fs::remove_file(&book.path).ok();
        }
    }
}

/// A change that a run left behind. Open the door of `place`, then call [`PendingEntry::undo`] on a thread inside.
#[derive(Clone, Debug)]
pub struct PendingEntry {
    /// Its number in that run's journal.
    pub id: EntryId,
    /// Which knob was turned to what, on which host.
    pub knob: Knob,
    /// Where.
    pub place: Place,
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What it changed, as text for a person.
    pub diff: String,
    book: Arc<Mutex<Book>>,
}

impl PendingEntry {
    /// Puts it back, see [`crate::undo`]. When the network namespace no longer exists, call it on any thread: what
    /// lived in the namespace is noted as gone, and files are restored all the same.
    pub fn undo(&self, roots: &Roots) -> Result<Undone, TuneError> {
        let entry = self.book().open.get(&self.id).cloned().ok_or_else(|| settled(self.id))?;
        let undone = entry.take_back(roots, true)?;
        self.settle(&undone)?;
        Ok(undone)
    }

    /// Leaves it as it is, and forgets it.
    pub fn keep(&self) -> Result<(), TuneError> {
        self.settle(&Undone { state: prony_model::knob::ChangeState::Kept, notes: Vec::new() })
    }

    fn settle(&self, result: &Undone) -> Result<(), TuneError> {
        let mut book = self.book();
        book.settle(self.id, result)?;
        if book.open.is_empty() {
            fs::remove_file(&book.path).map_err(TuneError::io("remove", &book.path))?;
        }
        Ok(())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What runs that have died left changed, in the order to undo it. Journals of living runs are not looked at.
pub fn pending(dir: &Path) -> Result<Vec<PendingEntry>, TuneError> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let _gate = gate(dir)?;
    let mut found = Vec::new();
    for path in files(dir)?.into_iter().rev() {
        let Some(book) = Book::adopt(&path)? else { continue };
        if book.open.is_empty() {
            fs::remove_file(&path).map_err(TuneError::io("remove", &path))?;
            continue;
        }
        let entries: Vec<Entry> = book.open.values().rev().cloned().collect();
        let book = Arc::new(Mutex::new(book));
        found.extend(entries.into_iter().map(|e| PendingEntry {
            id: e.id,
            diff: e.steps.iter().map(crate::step::Step::diff).collect(),
            knob: e.knob,
            place: e.place,
            at_unix_ms: e.at_unix_ms,
            book: Arc::clone(&book),
        }));
    }
    Ok(found)
}

impl Book {
    /// Takes over a file whose run has died; none when it lives.
    fn adopt(path: &Path) -> Result<Option<Self>, TuneError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(TuneError::io("open", path))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if owner_lives(path)? || begun.elapsed() > ORPHAN_LOCK_MAX => {
                    return Ok(None);
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
                Err(TryLockError::Error(e)) => return Err(TuneError::io("lock", path)(e)),
            }
        }
        let (open, length) = read(path)?;
        Ok(Some(Self { path: path.to_path_buf(), file, length, open, next: 0 }))
    }

    fn append(&mut self, record: &Record) -> Result<(), TuneError> {
        let mut line = serde_json::to_vec(record).expect("records hold only strings, numbers and lists");
        line.push(b'\n');
        let written = self
            .file
            .set_len(self.length)
            .and_then(|()| self.file.write_all_at(&line, self.length))
            .and_then(|()| self.file.sync_all());
        if let Err(e) = written {
            // What was written in part is torn; the next append cuts it off, and readers skip it.
            self.file.set_len(self.length).ok();
            return Err(TuneError::io("write journal", &self.path)(e));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    fn settle(&mut self, id: EntryId, result: &Undone) -> Result<(), TuneError> {
        if !self.open.contains_key(&id) {
            return Err(settled(id));
        }
        self.append(&Record::End { id, result: result.clone() })?;
        self.open.remove(&id);
        Ok(())
    }
}

/// How long a child that was forked, but did not yet become `tc` or `nginx -t`, may hold the lock of its dead parent.
/// Found by the kill -9 test; the bound is a guess.
const ORPHAN_LOCK_MAX: Duration = Duration::from_secs(5);

/// Whether the run that wrote the first line of a journal still runs.
fn owner_lives(path: &Path) -> Result<bool, TuneError> {
    let bytes = fs::read(path).map_err(TuneError::io("read", path))?;
    let first = bytes.split_inclusive(|b| *b == b'\n').next().map(serde_json::from_slice);
    Ok(match first {
        Some(Ok(Record::Journal { pid, start_ticks, .. })) => {
            start_ticks.is_some() && process::start_ticks(&Roots::default().proc, pid) == start_ticks
        }
        Some(Ok(Record::Begin { .. } | Record::Applied { .. } | Record::End { .. }) | Err(_)) | None => false,
    })
}

/// Holds everyone else off while files appear, vanish or are compared. Dropped by the kernel when we die.
fn gate(dir: &Path) -> Result<File, TuneError> {
    let path = dir.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(TuneError::io("make", &path))?;
    file.lock().map_err(TuneError::io("lock", &path))?;
    Ok(file)
}

/// Journal files of a folder, oldest first: their names begin with the time.
fn files(dir: &Path) -> Result<Vec<PathBuf>, TuneError> {
    let entries = fs::read_dir(dir).map_err(TuneError::io("list", dir))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == EXTENSION));
    files.sort();
    Ok(files)
}

/// Entries of a file that are begun and not ended, and how many bytes its complete lines have.
fn read(path: &Path) -> Result<(BTreeMap<EntryId, Entry>, u64), TuneError> {
    let bytes = fs::read(path).map_err(TuneError::io("read", path))?;
    let mut open = BTreeMap::new();
    let mut length = 0;
    for (index, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        let record: Record = serde_json::from_slice(line).map_err(|e| TuneError::Damaged {
            journal: path.to_path_buf(),
            line: index + 1,
            why: e.to_string(),
        })?;
        match record {
            Record::Begin { entry } => drop(open.insert(entry.id, *entry)),
            Record::End { id, .. } => drop(open.remove(&id)),
            Record::Journal { .. } | Record::Applied { .. } => {}
        }
        length += line.len() as u64;
    }
    Ok((open, length))
}

fn targets(entry: &Entry) -> Vec<String> {
    let place = String::from(entry.place.clone());
    entry.steps.iter().map(|step| step.target(&place)).collect()
}

fn settled(id: EntryId) -> TuneError {
    TuneError::missing(format!("change {} is not in the journal", id.0), "it was undone or kept already")
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
