//! Tables, format number, and how a connection is opened. The text form is `docs/record.md`; both change together.

use crate::error::RecordError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// Records are named `ID.prony`.
pub const EXTENSION: &str = "prony";

/// `PRAGMA application_id`: the letters PRNY. file(1) shows it.
const APPLICATION_ID: i64 = 0x5052_4E59;
/// `PRAGMA user_version`. Grows when a reader of the older format would misread the file.
const FORMAT: i64 = 1;
/// How long a reader waits while the run commits. A guess: a commit takes milliseconds.
const READER_PATIENCE: Duration = Duration::from_secs(5);

/// Everything but series is JSON in a text column, so that the `sqlite3` shell can read it with `json_extract`.
const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE trial (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE event (at_ns INTEGER NOT NULL, value TEXT NOT NULL);
CREATE TABLE series (
  id INTEGER PRIMARY KEY, host TEXT NOT NULL, metric TEXT NOT NULL, item TEXT NOT NULL, kind TEXT, unit TEXT
);
CREATE TABLE block (
  id INTEGER PRIMARY KEY, host TEXT NOT NULL, from_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL, moments INTEGER NOT NULL,
  data BLOB NOT NULL
);
CREATE TABLE tail (id INTEGER PRIMARY KEY, host TEXT NOT NULL, at_ns INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX tail_host ON tail (host);
CREATE TABLE stacks (host TEXT NOT NULL, at_ns INTEGER NOT NULL, samples_per_s INTEGER NOT NULL, data BLOB NOT NULL);
";

/// Opens a fresh file for writing and makes the tables.
///
/// `journal_mode = DELETE`: between commits the file is complete by itself, with nothing beside it; after a kill in the
/// middle of a commit a `-journal` file lies beside it, and the next reader rolls back by it. (A write-ahead log would
/// hold the newest data in a second file after every kill.) `synchronous = OFF`: the kernel keeps what a killed process
/// wrote, and a load test that calls fsync every second would disturb the disk of the stack it measures; the price is
/// that a power cut during a run may cost the record. The last commit is synced (see `Writer::finish`).
pub(crate) fn create(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.execute_batch(&format!(
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF;
         BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; {TABLES} COMMIT;"
    ))?;
    Ok(db)
}

/// Opens a record for reading, also while it is being written.
pub(crate) fn open(path: &Path) -> Result<Connection, RecordError> {
    // SQLite says only "unable to open": ask the kernel for the reason first.
    let opened = std::fs::File::open(path).and_then(|file| file.metadata());
    let metadata = opened.map_err(|source| RecordError::Open { path: path.to_path_buf(), source })?;
    let not_a_record = |reason: &str| RecordError::NotARecord { path: path.to_path_buf(), reason: reason.to_string() };
    if metadata.is_dir() {
        return Err(not_a_record("it is a folder"));
    }
    if metadata.len() == 0 {
        return Err(not_a_record("it is empty"));
    }
    // Read and write, because rolling back a commit that a kill cut short writes; SQLite falls back to reading only.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = |source| RecordError::read(path, source);
    let db = Connection::open_with_flags(path, flags).map_err(read)?;
    db.busy_timeout(READER_PATIENCE).map_err(read)?;
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(read);
    if pragma("application_id")? != APPLICATION_ID {
        return Err(not_a_record("it is a SQLite file of another program"));
    }
    match pragma("user_version")? {
        found if found > FORMAT => Err(RecordError::Newer { path: path.to_path_buf(), found, known: FORMAT }),
        _ => Ok(db),
    }
}
