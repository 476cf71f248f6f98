//! Writes a record while the run goes on.
//!
//! What is handed in waits in memory until `flush`, which puts it into the file in one transaction. A flush that fails
//! changes nothing: the file keeps what it had, and what waits goes on waiting.

use crate::block::{self, Moment};
use crate::error::RecordError;
use crate::schema;
use prony_model::metric::{self, MetricKind};
use prony_model::{Event, Run, Sample, Stacks, Trial};
use rusqlite::{Connection, Transaction, params};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Moments of a host that are folded into one block: 2 minutes at 1 Hz. Measured on an hour of ten hosts
/// (`cargo test -p prony-record -- --ignored full_hour --nocapture`): 60 makes the file 9 % larger, 240 makes it 2 % smaller.
const MOMENTS_PER_BLOCK: usize = 120;
/// How long a flush waits for a reader of the same file. A guess: short, because the load must not wait for a viewer;
/// what could not be written waits for the next flush.
const FLUSH_PATIENCE: Duration = Duration::from_millis(100);
/// How long the last flush waits for a reader. A guess.
const FINISH_PATIENCE: Duration = Duration::from_secs(10);

/// An open record.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    db: Connection,
    hosts: BTreeMap<String, HostSeries>,
    series_count: u32,
    /// Trials that the file has or that wait.
    trials_known: BTreeSet<u32>,
    /// How many of the run's stacks the file has or wait.
    stacks_known: usize,
    /// Values that the file has, by key.
    meta_written: BTreeMap<&'static str, String>,
    waiting: Waiting,
}

/// What goes into the next transaction, besides samples.
#[derive(Debug, Default)]
struct Waiting {
    meta: BTreeMap<&'static str, String>,
    trials: BTreeMap<u32, String>,
    events: Vec<(u64, String)>,
    stacks: Vec<Stacks>,
    series: Vec<SeriesRow>,
}

#[derive(Debug)]
struct SeriesRow {
    id: u32,
    host: String,
    metric: String,
    item: String,
}

/// Series of one host: numbers by metric and item, and the moments that are not yet in a block.
#[derive(Debug, Default)]
struct HostSeries {
    ids: BTreeMap<String, BTreeMap<String, u32>>,
    moments: Vec<Moment>,
    /// How many of the moments are in the tail table.
    in_tail: usize,
}

impl Writer {
    /// Makes the file and writes what is known of the run at its start.
    ///
    /// # Errors
    /// When the file exists, cannot be made, or cannot be written to.
    pub fn create(path: &Path, run: &Run) -> Result<Self, RecordError> {
        let created = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
        created.map_err(|source| RecordError::Create { path: path.to_path_buf(), source })?;
        Self::begin(path, run).inspect_err(|_| {
            // Half a record helps nobody, and would be in the way of the next try. If it cannot be removed, so be it.
            drop(std::fs::remove_file(path));
        })
    }

    fn begin(path: &Path, run: &Run) -> Result<Self, RecordError> {
        let mut writer = Self {
            path: path.to_path_buf(),
            db: schema::create(path).map_err(|source| RecordError::write(path, source))?,
            hosts: BTreeMap::new(),
            series_count: 0,
            trials_known: BTreeSet::new(),
            stacks_known: 0,
            meta_written: BTreeMap::new(),
            waiting: Waiting::default(),
        };
        writer.update(run)?;
        writer.flush()?;
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what was read from one host at one moment. Moments of a host come in order of time. Writes nothing yet.
    pub fn sample(&mut self, sample: &Sample) {
        if !self.hosts.contains_key(&sample.host) {
            self.hosts.insert(sample.host.clone(), HostSeries::default());
        }
        let host = self.hosts.get_mut(&sample.host).expect("it was inserted above");
        let mut values = Vec::with_capacity(sample.values.len());
        for (metric, item, value) in &sample.values {
            let known = host.ids.get(metric).and_then(|items| items.get(item)).copied();
            let id = known.unwrap_or_else(|| {
                let id = self.series_count;
                self.series_count += 1;
                host.ids.entry(metric.clone()).or_default().insert(item.clone(), id);
                let (host, metric, item) = (sample.host.clone(), metric.clone(), item.clone());
                self.waiting.series.push(SeriesRow { id, host, metric, item });
                id
            });
            values.push((id, *value));
        }
        host.moments.push(Moment { at_ns: sample.at_ns, values });
    }

    /// Adds a trial, or replaces the one with the same number. Writes nothing yet.
    ///
    /// # Errors
    /// When it holds a number that is not finite.
    pub fn trial(&mut self, trial: &Trial) -> Result<(), RecordError> {
        let text = self.json(&format!("trial {}", trial.id), trial)?;
        self.trials_known.insert(trial.id);
        self.waiting.trials.insert(trial.id, text);
        Ok(())
    }

    /// Adds an event. Writes nothing yet.
    ///
    /// # Errors
    /// When it holds a number that is not finite.
    pub fn event(&mut self, at_ns: u64, event: &Event) -> Result<(), RecordError> {
        let text = self.json("an event", event)?;
        self.waiting.events.push((at_ns, text));
        Ok(())
    }

    /// Takes over every field of the run but its series, and those of its trials that were never handed to
    /// [`Self::trial`]. Only what changed will be written; nothing is written yet.
    ///
    /// # Errors
    /// When the run holds a number that is not finite.
    pub fn update(&mut self, run: &Run) -> Result<(), RecordError> {
        for (key, text) in self.meta(run)? {
            if self.meta_written.get(key) == Some(&text) {
                self.waiting.meta.remove(key);
            } else {
                self.waiting.meta.insert(key, text);
            }
        }
        for trial in run.trials.iter().filter(|trial| !self.trials_known.contains(&trial.id)).collect::<Vec<_>>() {
            self.trial(trial)?;
        }
        self.waiting.stacks.extend(run.stacks.iter().skip(self.stacks_known).cloned());
        self.stacks_known = self.stacks_known.max(run.stacks.len());
        Ok(())
    }

    /// Writes what waits, in one transaction. Called about once a second; a kill loses what came after the last call.
    /// When someone reads the file at this very moment, everything waits for the next call.
    ///
    /// # Errors
    /// When the disk is full or the file cannot be written to. Nothing that waits is lost: the next call tries again.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        match self.commit(MOMENTS_PER_BLOCK, FLUSH_PATIENCE) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(()),
            other => other.map_err(|source| RecordError::write(&self.path, source)),
        }
    }

    /// Writes the final state of the run, folds all series into blocks, syncs and closes the file.
    ///
    /// # Errors
    /// As [`Self::update`] and [`Self::flush`]; and when a reader blocks the file for 10 seconds.
    pub fn finish(mut self, run: &Run) -> Result<(), RecordError> {
        self.update(run)?;
        let finished =
            self.db.execute_batch("PRAGMA synchronous = FULL").and_then(|()| self.commit(1, FINISH_PATIENCE));
        let finished = finished.and_then(|()| self.give_back_pages());
        finished.map_err(|source| RecordError::write(&self.path, source))?;
        self.db.close().map_err(|(_, source)| RecordError::write(&self.path, source))
    }

    /// Frees the pages that the tail table no longer needs. The statement frees one page each time it is stepped.
    fn give_back_pages(&self) -> rusqlite::Result<()> {
        let mut vacuum = self.db.prepare("PRAGMA incremental_vacuum")?;
        let mut pages = vacuum.query([])?;
        while pages.next()?.is_some() {}
        Ok(())
    }

    /// One transaction; memory changes only after it succeeded. Hosts with `fold_from` moments or more get a block.
    fn commit(&mut self, fold_from: usize, patience: Duration) -> rusqlite::Result<()> {
        self.db.busy_timeout(patience)?;
        let transaction = self.db.transaction()?;
        self.waiting.write(&transaction)?;
        for (name, host) in &self.hosts {
            host.write(name, fold_from, &transaction)?;
        }
        transaction.commit()?;
        let written = std::mem::take(&mut self.waiting);
        self.meta_written.extend(written.meta);
        for host in self.hosts.values_mut() {
            if host.moments.len() >= fold_from {
                host.moments.clear();
            }
            host.in_tail = host.moments.len();
        }
        Ok(())
    }

    /// Every field of a run but trials, series and stacks, as JSON. A new field makes this fail to compile until it stands here.
    fn meta(&self, run: &Run) -> Result<Vec<(&'static str, String)>, RecordError> {
        let Run {
            id,
            version,
            command,
            started_unix_ms,
            stack,
            inventory,
            trials: _,
            series: _,
            stacks: _,
            gaps,
            interventions,
            diagnosis,
            changes,
            proof,
            limit,
            cost,
            end,
        } = run;
        Ok(vec![
            ("id", self.json("id", id)?),
            ("version", self.json("version", version)?),
            ("command", self.json("command", command)?),
            ("started_unix_ms", self.json("started_unix_ms", started_unix_ms)?),
            ("stack", self.json("stack", stack)?),
            ("inventory", self.json("inventory", inventory)?),
            ("gaps", self.json("gaps", gaps)?),
            ("interventions", self.json("interventions", interventions)?),
            ("diagnosis", self.json("diagnosis", diagnosis)?),
            ("changes", self.json("changes", changes)?),
            ("proof", self.json("proof", proof)?),
            ("limit", self.json("limit", limit)?),
            ("cost", self.json("cost", cost)?),
            ("end", self.json("end", end)?),
        ])
    }

    /// JSON that can be read back. JSON has no infinity: serde writes null, and the whole record would be unreadable later.
    fn json<T: Serialize + DeserializeOwned>(&self, item: &str, value: &T) -> Result<String, RecordError> {
        let text = serde_json::to_string(value).and_then(|text| serde_json::from_str::<T>(&text).map(|_| text));
        text.map_err(|source| RecordError::NotRecordable { path: self.path.clone(), item: item.to_string(), source })
    }
}

impl Waiting {
    fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let mut meta = transaction.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?, ?)")?;
        for (key, text) in &self.meta {
            meta.execute(params![key, text])?;
        }
        let mut trial = transaction.prepare_cached("INSERT OR REPLACE INTO trial VALUES (?, ?)")?;
        for (id, text) in &self.trials {
            trial.execute(params![id, text])?;
        }
        let mut event = transaction.prepare_cached("INSERT INTO event VALUES (?, ?)")?;
        for (at_ns, text) in &self.events {
            event.execute(params![*at_ns as i64, text])?;
        }
        let mut stacks = transaction.prepare_cached("INSERT INTO stacks VALUES (?, ?, ?, ?)")?;
        for seen in &self.stacks {
            let Stacks { host, at_ns, samples_per_s, stacks: _ } = seen;
            stacks.execute(params![host, *at_ns as i64, samples_per_s, block::encode_text(&seen.text())])?;
        }
        let mut series = transaction.prepare_cached("INSERT INTO series VALUES (?, ?, ?, ?, ?, ?)")?;
        for SeriesRow { id, host, metric, item } in &self.series {
            let known = metric::find(metric);
            let kind = known.map(|known| match known.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
            });
            series.execute(params![id, host, metric, item, kind, known.map(|known| known.unit.symbol())])?;
        }
        Ok(())
    }
}

impl HostSeries {
    fn write(&self, name: &str, fold_from: usize, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        if let (Some(first), Some(last), true) =
            (self.moments.first(), self.moments.last(), self.moments.len() >= fold_from)
        {
            transaction.prepare_cached("DELETE FROM tail WHERE host = ?")?.execute([name])?;
            let mut block = transaction
                .prepare_cached("INSERT INTO block (host, from_ns, to_ns, moments, data) VALUES (?, ?, ?, ?, ?)")?;
            let data = block::encode(&self.moments);
            block.execute(params![name, first.at_ns as i64, last.at_ns as i64, self.moments.len() as i64, data])?;
            return Ok(());
        }
        let mut tail = transaction.prepare_cached("INSERT INTO tail (host, at_ns, data) VALUES (?, ?, ?)")?;
        for moment in &self.moments[self.in_tail..] {
            tail.execute(params![name, moment.at_ns as i64, block::encode_tail(&moment.values)])?;
        }
        Ok(())
    }
}
