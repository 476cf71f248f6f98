//! Reads records, finished or not, also while they are being written.

use crate::block;
use crate::error::RecordError;
use crate::schema::{self, EXTENSION};
use prony_model::{Event, Run, RunEnd, SeriesKey, SeriesSet, Stacks, Trial};
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything in a record.
///
/// # Errors
/// When the file cannot be opened, is no record, is newer than this prony, or is damaged.
pub fn read(path: &Path) -> Result<Run, RecordError> {
    let record = Record::open(path)?;
    let mut run = record.outline()?;
    run.series = record.series()?;
    run.stacks = record.stacks()?;
    Ok(run)
}

/// A record without its series and call stacks, which are nearly all of it: enough to know what was found so far.
///
/// # Errors
/// As [`read`].
pub fn outline(path: &Path) -> Result<Run, RecordError> {
    Record::open(path)?.outline()
}

/// Events of a record, with nanoseconds since the start of the run, in the order they were recorded.
///
/// # Errors
/// As [`read`].
pub fn events(path: &Path) -> Result<Vec<(u64, Event)>, RecordError> {
    let record = Record::open(path)?;
    let rows =
        record.rows("SELECT at_ns, value FROM event ORDER BY rowid", |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
    let parse = |(at_ns, text): (i64, String)| Ok((at_ns as u64, record.parse("an event", &text)?));
    rows.into_iter().map(parse).collect()
}

/// A record in a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The file.
    pub path: PathBuf,
    /// Id of the run.
    pub id: String,
    /// What a person calls the stack.
    pub name: String,
    /// Wall clock at the start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// How the run ended.
    pub end: RunEnd,
}

/// What a folder holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// Records, in order of file name, which is that of time when files are named after run ids.
    pub runs: Vec<Listed>,
    /// Files with the suffix of records that could not be read.
    pub unreadable: Vec<RecordError>,
}

/// The records in a folder: files with the suffix `.prony`.
///
/// # Errors
/// When the folder cannot be read.
pub fn list(folder: &Path) -> Result<Listing, RecordError> {
    let cannot = |source| RecordError::Open { path: folder.to_path_buf(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        paths.push(entry.map_err(cannot)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    paths.sort();
    let mut listing = Listing::default();
    for path in paths {
        match Record::open(&path).and_then(|record| record.meta(&Run::default())) {
            Ok(Run { id, stack, started_unix_ms, end, .. }) => {
                listing.runs.push(Listed { path, id, name: stack.name, started_unix_ms, end });
            }
            Err(error) => listing.unreadable.push(error),
        }
    }
    Ok(listing)
}

/// An open record; everything is read in one transaction, so that it fits together while the run goes on.
struct Record<'a> {
    path: &'a Path,
    db: Connection,
}

impl<'a> Record<'a> {
    fn open(path: &'a Path) -> Result<Self, RecordError> {
        let db = schema::open(path)?;
        db.execute_batch("BEGIN").map_err(|source| RecordError::read(path, source))?;
        Ok(Self { path, db })
    }

    /// The run without trials, series and stacks. Fields that an older prony did not write are taken from `default`.
    fn meta(&self, default: &Run) -> Result<Run, RecordError> {
        let mut fields =
            serde_json::to_value(default).map_err(|e| RecordError::damaged(self.path, "the default run", e))?;
        let rows =
            self.rows("SELECT key, value FROM meta", |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        if rows.is_empty() {
            let reason = "it was killed before anything was written".to_string();
            return Err(RecordError::NotARecord { path: self.path.to_path_buf(), reason });
        }
        for (key, text) in rows {
            fields[&key] = self.parse(&format!("field `{key}`"), &text)?;
        }
        serde_json::from_value(fields).map_err(|error| RecordError::damaged(self.path, "the table meta", error))
    }

    /// The run without series and stacks.
    fn outline(&self) -> Result<Run, RecordError> {
        let mut run = self.meta(&Run::default())?;
        run.trials = self.trials()?;
        Ok(run)
    }

    fn trials(&self) -> Result<Vec<Trial>, RecordError> {
        let rows =
            self.rows("SELECT id, value FROM trial ORDER BY id", |row| Ok((row.get::<_, u32>(0)?, row.get(1)?)))?;
        rows.into_iter().map(|(id, text): (u32, String)| self.parse(&format!("trial {id}"), &text)).collect()
    }

    fn series(&self) -> Result<SeriesSet, RecordError> {
        let key = |row: &Row<'_>| {
            Ok((row.get::<_, u32>(0)?, SeriesKey { host: row.get(1)?, metric: row.get(2)?, item: row.get(3)? }))
        };
        let keys: BTreeMap<u32, SeriesKey> =
            self.rows("SELECT id, host, metric, item FROM series", key)?.into_iter().collect();
        let mut set = SeriesSet::default();
        let mut append = |item: &str, series: u32, points: Vec<(u64, f64)>| {
            let key =
                keys.get(&series).ok_or_else(|| RecordError::damaged(self.path, item, "it names no known series"))?;
            set.append(key.clone(), points);
            Ok(())
        };
        let data = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        for (id, bytes) in self.rows("SELECT id, data FROM block ORDER BY id", data)? {
            let item = format!("block {id}");
            for column in block::decode(&bytes).map_err(|reason| RecordError::damaged(self.path, &item, reason))? {
                append(&item, column.series, column.points)?;
            }
        }
        for (at_ns, bytes) in self.rows("SELECT at_ns, data FROM tail ORDER BY id", data)? {
            let item = format!("the tail row of {at_ns} ns");
            for (series, value) in
                block::decode_tail(&bytes).map_err(|reason| RecordError::damaged(self.path, &item, reason))?
            {
                append(&item, series, vec![(at_ns as u64, value)])?;
            }
        }
        Ok(set)
    }

    /// Call stacks; none in records of a prony that did not take them.
    fn stacks(&self) -> Result<Vec<Stacks>, RecordError> {
        let table = self.rows("SELECT name FROM sqlite_master WHERE name = 'stacks'", |row| row.get::<_, String>(0))?;
        if table.is_empty() {
            return Ok(Vec::new());
        }
        let row = |row: &Row<'_>| {
            let seen = Stacks { host: row.get(0)?, at_ns: row.get::<_, i64>(1)? as u64, ..Stacks::default() };
            Ok((Stacks { samples_per_s: row.get(2)?, ..seen }, row.get::<_, Vec<u8>>(3)?))
        };
        let rows = self.rows("SELECT host, at_ns, samples_per_s, data FROM stacks ORDER BY rowid", row)?;
        let unfold = |(seen, data): (Stacks, Vec<u8>)| {
            let item = format!("the call stacks of {}", seen.host);
            let text = block::decode_text(&data).map_err(|reason| RecordError::damaged(self.path, &item, reason))?;
            Ok(Stacks { stacks: Stacks::parse(&text), ..seen })
        };
        rows.into_iter().map(unfold).collect()
    }

    fn rows<T>(&self, sql: &str, of: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>, RecordError> {
        let read = |source| RecordError::read(self.path, source);
        let mut statement = self.db.prepare(sql).map_err(read)?;
        let rows = statement.query_map([], of).map_err(read)?;
        rows.collect::<rusqlite::Result<Vec<T>>>().map_err(read)
    }

    fn parse<T: DeserializeOwned>(&self, item: &str, text: &str) -> Result<T, RecordError> {
        serde_json::from_str(text).map_err(|error| RecordError::damaged(self.path, item, error))
    }
}
