//! What a calibration says of a load: how much of the generator's ceiling it used.
//!
//! It measures nothing. Invariant: a ceiling names the cell that it comes from, and there is none for a load that no cell
//! resembles, or that was calibrated on another machine, kernel or version.

use anyhow::{Context, Result};
use prony_model::{Gap, LoadPlan, LoadResult, Protocol};
use prony_report::number;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Names the form of the file, so that another version does not misread it.
pub(super) const SCHEMA: &str = "prony.calibration/2";

/// What `calibration.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// When.
    pub made_unix_ms: u64,
    /// Where.
    pub machine: Machine,
    /// Share of all CPUs that other programs used meanwhile; none: it could not be read.
    pub others_busy: Option<f64>,
    /// What was measured.
    pub cells: Vec<Cell>,
    /// What could not be.
    pub gaps: Vec<Gap>,
}

/// What a calibration holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// `model name` of /proc/cpuinfo; machines without one tell `unknown`.
    pub cpu: String,
    /// Processors in /proc/cpuinfo.
    pub cpus: usize,
    /// /proc/sys/kernel/osrelease.
    pub kernel: String,
    /// Version of prony: another one may cost more or less.
    pub prony: String,
}

impl Machine {
    /// The one we run on.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
        Self {
            cpu: model.unwrap_or("unknown").to_string(),
            cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            prony: env!("CARGO_PKG_VERSION").to_string(),
        }
    }

    /// What differs from the machine of a calibration; none: nothing.
    fn differs_from(&self, calibrated: &Self) -> Option<String> {
        let pairs = [
            ("CPU", &calibrated.cpu, &self.cpu),
            ("kernel", &calibrated.kernel, &self.kernel),
            ("prony", &calibrated.prony, &self.prony),
        ];
        let other = pairs.into_iter().find(|(_, then, now)| then != now);
        let text = other.map(|(what, then, now)| format!("{what} was {then}, is {now}"));
        text.or_else(|| (self.cpus != calibrated.cpus).then(|| format!("{} CPUs were {}", self.cpus, calibrated.cpus)))
    }
}

/// What the cost of a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// Connections of one thread.
    pub connections: u32,
    /// Whether a connection serves more than one request.
    pub keepalive: bool,
    /// What is spoken.
    pub protocol: Protocol,
    /// Requests in flight on one connection.
    pub depth: u32,
    /// Whether it is secured.
    pub tls: bool,
    /// Bytes received per answer, head included.
    pub response_bytes: f64,
}

impl Shape {
    /// Of a load, per thread. None: it is of a kind that is not calibrated.
    fn of(plan: &LoadPlan, result: &LoadResult) -> Option<Self> {
        let threads = u32::try_from(result.threads.len()).ok().filter(|n| *n > 0)?;
        (plan.script.is_none() && result.completed > 0).then(|| Self {
            connections: plan.connections.div_ceil(threads),
            keepalive: plan.keepalive && plan.requests_per_connection != Some(1),
            protocol: plan.protocol,
            depth: plan.depth,
            tls: plan.url.starts_with("https:"),
            response_bytes: result.bytes_in as f64 / result.completed as f64,
        })
    }

    /// How far another one of the same kind is: doublings of size and of connections, and four times those of depth, which
    /// change the cost most (a table of `prony calibrate` on two CPUs of a Xeon: a request of 16 in flight at once cost an
    /// eighth, one with 1,000 times the bytes four times as much). None: another kind.
    fn distance(&self, other: &Self) -> Option<f64> {
        let same = self.keepalive == other.keepalive && self.tls == other.tls && self.protocol == other.protocol;
        let doublings = |a: f64, b: f64| (a.max(1.0) / b.max(1.0)).log2().abs();
        same.then(|| {
            const OF_DEPTH: f64 = 4.0;
            doublings(self.response_bytes, other.response_bytes)
                + doublings(f64::from(self.connections), f64::from(other.connections))
                + OF_DEPTH * doublings(f64::from(self.depth), f64::from(other.depth))
        })
    }

    /// Like `HTTP/1.1, 128 connections, kept`.
    pub fn text(&self) -> String {
        format!("{}, {}", self.speech_text(), self.connections_text())
    }

    /// What is spoken: like `HTTP/1.1`, or `HTTP/2 over TLS`.
    pub fn speech_text(&self) -> &'static str {
        match (self.protocol, self.tls) {
            (Protocol::Http1, false) => "HTTP/1.1",
            (Protocol::Http1, true) => "HTTP/1.1 over TLS",
            (Protocol::Http2, false) => "HTTP/2",
            (Protocol::Http2, true) => "HTTP/2 over TLS",
        }
    }

    /// How connections are used: like `128 connections, kept`, or `16 connections, 10 streams each`.
    pub fn connections_text(&self) -> String {
        let Self { connections, depth, .. } = self;
        let s = if *connections == 1 { "" } else { "s" };
        let used = match (self.protocol, self.keepalive) {
            (_, false) => "one per request".to_string(),
            (Protocol::Http1, true) if *depth > 1 => format!("{depth} requests in flight each"),
            (Protocol::Http2, true) if *depth > 1 => format!("{depth} streams each"),
            (Protocol::Http1 | Protocol::Http2, true) => "kept".to_string(),
        };
        format!("{connections} connection{s}, {used}")
    }
}

/// One measurement of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// What was loaded.
    #[serde(flatten)]
    pub shape: Shape,
    /// Requests per second.
    pub per_s: f64,
    /// CPU time of the thread per request, in microseconds.
    pub cpu_us: f64,
    /// Share of a CPU that the thread used. Below 0.9 the null server was the limit.
    pub busy: f64,
}

/// The most that the generator can do for a load like this one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ceiling {
    /// The nearest cell.
    pub cell: Cell,
    /// Threads of the load.
    pub threads: usize,
}

impl Ceiling {
    /// Requests per second: one whole CPU per thread at the cell's cost.
    pub fn per_s(&self) -> f64 {
        1e6 / self.cell.cpu_us * self.threads as f64
    }

    /// How much of it a rate is, as lines for people.
    pub fn line(&self, completed_per_s: f64) -> String {
        let s = if self.threads == 1 { "" } else { "s" };
        format!(
            "generator: {:.0} % of its calibrated ceiling: {}/s of {}/s with {} thread{s}\n\
             (nearest cell: {}, answers of {})",
            completed_per_s / self.per_s() * 100.0,
            number::rate(completed_per_s),
            number::rate(self.per_s()),
            self.threads,
            self.cell.shape.text(),
            number::bytes(self.cell.shape.response_bytes)
        )
    }
}

impl Calibration {
    /// `$PRONY_HOME/calibration.json`.
    pub fn path() -> PathBuf {
        crate::home::folder().join("calibration.json")
    }

    /// The calibration of this machine; none: there was none yet.
    ///
    /// # Errors
    /// A file that cannot be read, or is of another form.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let again = || format!("{} is of another version; run `prony calibrate` again", path.display());
        let calibration: Self = serde_json::from_str(&text).with_context(again)?;
        anyhow::ensure!(calibration.schema == SCHEMA, again());
        Ok(Some(calibration))
    }

    /// Writes the file whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let next = || format!("cannot write {}; name another folder with PRONY_HOME", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(next)?;
        }
        let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&unfinished, serde_json::to_string_pretty(self)?).with_context(next)?;
        std::fs::rename(&unfinished, path).with_context(next)
    }

    /// The ceiling for a load, from the nearest cell of its kind; none when there is no such cell.
    pub fn ceiling(&self, plan: &LoadPlan, result: &LoadResult) -> Option<Ceiling> {
        let shape = Shape::of(plan, result)?;
        let near = self.cells.iter().filter_map(|cell| Some((cell.shape.distance(&shape)?, cell)));
        let (_, cell) = near.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        Some(Ceiling { cell: *cell, threads: result.threads.len() })
    }

    fn headroom(&self, machine: &Machine, plan: &LoadPlan, result: &LoadResult) -> String {
        if let Some(what) = machine.differs_from(&self.machine) {
            return format!("generator: calibrated on another machine ({what}); run `prony calibrate` again");
        }
        match self.ceiling(plan, result) {
            Some(ceiling) => ceiling.line(result.completed_per_s),
            None => "generator: no calibrated ceiling for this kind of load (see docs/calibrate.md)".to_string(),
        }
    }
}

/// How much of its ceiling the generator used, as lines for people. None: it was never calibrated here, or did nothing.
pub(crate) fn headroom(plan: &LoadPlan, result: &LoadResult) -> Option<String> {
    if result.completed == 0 {
        return None;
    }
    match Calibration::read(&Calibration::path()) {
        Ok(None) => None,
        Ok(Some(calibration)) => Some(calibration.headroom(&Machine::this(), plan, result)),
        Err(error) => Some(format!("generator: {error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::load::ThreadUse;

    fn cell(connections: u32, keepalive: bool, response_bytes: f64, cpu_us: f64) -> Cell {
        let shape = Shape { connections, keepalive, protocol: Protocol::Http1, depth: 1, tls: false, response_bytes };
        Cell { shape, per_s: 0.9e6 / cpu_us, cpu_us, busy: 0.9 }
    }

    fn as_http2(cell: Cell) -> Cell {
        Cell { shape: Shape { protocol: Protocol::Http2, depth: 10, tls: true, ..cell.shape }, ..cell }
    }

    fn calibration() -> Calibration {
        let cells = vec![
            cell(16, true, 160.0, 6.0),
            cell(128, true, 160.0, 5.0),
            cell(128, true, 1084.0, 5.5),
            cell(128, true, 16_448.0, 10.0),
            cell(16, false, 1100.0, 25.0),
            as_http2(cell(16, true, 1100.0, 2.0)),
        ];
        Calibration {
            schema: SCHEMA.into(),
            made_unix_ms: 1,
            machine: Machine::this(),
            others_busy: Some(0.01),
            cells,
            gaps: Vec::new(),
        }
    }

    fn load(connections: u32, response_bytes: u64, threads: usize) -> (LoadPlan, LoadResult) {
        let plan = LoadPlan { connections, ..LoadPlan::to("http://127.0.0.1/") };
        let threads = vec![ThreadUse::default(); threads];
        let (completed, bytes_in) = (1000, response_bytes * 1000);
        (plan, LoadResult { completed, bytes_in, threads, completed_per_s: 82_000.0, ..LoadResult::default() })
    }

    fn check(change: impl FnOnce(&mut LoadPlan, &mut LoadResult), want: &str) {
        let (mut plan, mut result) = load(100, 150, 1);
        change(&mut plan, &mut result);
        assert_eq!(calibration().headroom(&Machine::this(), &plan, &result), format!("generator: {want}"));
    }

    #[test]
    fn the_nearest_cell_is_named() {
        check(
            |_, _| {},
            "41 % of its calibrated ceiling: 82,000/s of 200,000/s with 1 thread\n\
             (nearest cell: HTTP/1.1, 128 connections, kept, answers of 160 B)",
        );
        check(
            |_, result| result.bytes_in = 9_000_000,
            "82 % of its calibrated ceiling: 82,000/s of 100,000/s with 1 thread\n\
             (nearest cell: HTTP/1.1, 128 connections, kept, answers of 16.1 KiB)",
        );
        check(
            |plan, result| {
                plan.keepalive = false;
                result.threads.push(ThreadUse::default());
            },
            "102 % of its calibrated ceiling: 82,000/s of 80,000/s with 2 threads\n\
             (nearest cell: HTTP/1.1, 16 connections, one per request, answers of 1,100 B)",
        );
    }

    #[test]
    fn each_protocol_has_its_own_cells() {
        check(
            |plan, _| {
                plan.url = "https://127.0.0.1/".into();
                plan.protocol = Protocol::Http2;
            },
            "16 % of its calibrated ceiling: 82,000/s of 500,000/s with 1 thread\n\
             (nearest cell: HTTP/2 over TLS, 16 connections, 10 streams each, answers of 1,100 B)",
        );
    }

    #[test]
    fn shapes_are_told_in_words() {
        let one = cell(1, true, 1.0, 1.0).shape;
        let piped = Shape { connections: 16, depth: 16, ..one };
        let closed = Shape { keepalive: false, tls: true, connections: 2, ..one };
        assert_eq!(one.text(), "HTTP/1.1, 1 connection, kept");
        assert_eq!(piped.text(), "HTTP/1.1, 16 connections, 16 requests in flight each");
        assert_eq!(closed.text(), "HTTP/1.1 over TLS, 2 connections, one per request");
        assert_eq!(Shape { protocol: Protocol::Http2, ..one }.text(), "HTTP/2, 1 connection, kept");
    }

    #[test]
    fn what_no_cell_resembles_has_no_ceiling() {
        let none = "no calibrated ceiling for this kind of load (see docs/calibrate.md)";
        check(|plan, _| plan.url = "https://127.0.0.1/".into(), none);
        check(|plan, _| plan.protocol = Protocol::Http2, none);
        check(|plan, _| plan.script = Some(Default::default()), none);
        check(|_, result| result.completed = 0, none);
        check(|_, result| result.threads.clear(), none);
    }

    #[test]
    fn another_machine_is_said() {
        let (plan, result) = load(1, 1, 1);
        let other = Machine { kernel: "1.0".into(), ..Machine::this() };
        let line = calibration().headroom(&other, &plan, &result);
        assert!(line.contains("kernel was") && line.contains("is 1.0"), "{line}");
        let more = Machine { cpus: 999, ..Machine::this() };
        assert!(calibration().headroom(&more, &plan, &result).contains("999 CPUs were"));
    }

    #[test]
    fn the_file_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/calibration.json");
        assert_eq!(Calibration::read(&path).unwrap(), None);
        calibration().write(&path).unwrap();
        assert_eq!(Calibration::read(&path).unwrap(), Some(calibration()));
        std::fs::write(&path, "{}").unwrap();
        assert!(Calibration::read(&path).unwrap_err().to_string().contains("run `prony calibrate` again"));
    }
}
