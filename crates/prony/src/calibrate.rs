//! `prony calibrate`: the most that one generator thread can do on this machine.
//!
//! The generator loads a null server on loopback, once per cell of a table. It changes nothing on the machine but
//! `calibration.json` in the state folder. What later loads make of that is in [`ceiling`]. Invariant: a cell that could not
//! be measured is a gap with its reason, and the others are written all the same.

mod ceiling;
mod strangers;
mod table;

pub(crate) use ceiling::{Machine, headroom};

use crate::Exit;
use crate::cli::CalibrateArgs;
use crate::output::print;
use anyhow::{Context, Result, ensure};
use ceiling::{Calibration, Cell, SCHEMA, Shape};
use prony_load::null_server::{NullAnswer, NullServer, NullSpeech};
use prony_model::tls::TlsPlan;
use prony_model::{CpuList, Gap, LoadPlan, LoadResult, Nanos, Utc};
use prony_report::number;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use strangers::Ticks;
use table::Row;

/// Every cell is measured that often, and the cheapest counts: a stranger on the CPU only ever adds cost. The rounds go
/// over the whole table, so that one stranger does not meet both measurements of a cell.
const ROUNDS: usize = 2;
/// Not counted at the beginning of each load, while connections open. A guess: 1024 handshakes on loopback take some 30 ms.
const WARMUP: Nanos = Nanos(100_000_000);
/// How often a log is told how far it is. A guess.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// `prony calibrate`.
pub(crate) fn run(args: &CalibrateArgs) -> Result<Exit> {
    let cpus = Cpus::choose(args.cpu);
    let rows = table::rows();
    let each_s = args.each.as_secs_f64() + WARMUP.as_secs_f64();
    let mut progress = Progress::new(ROUNDS * rows.len(), each_s);
    progress.begin(&cpus);
    let before = Ticks::read();
    let mut best: Vec<Option<Result<Cell>>> = rows.iter().map(|_| None).collect();
    for _ in 0..ROUNDS {
        for (row, best) in rows.iter().zip(&mut best) {
            progress.next(row);
            let measured = measure(*row, &cpus, args.each);
            *best = Some(match best.take() {
                None => measured,
                Some(before) => cheaper(before, measured),
            });
        }
    }
    progress.end();
    let others = Ticks::read().zip(before).and_then(|(after, before)| after.others_since(before));
    let mut calibration = Calibration {
        schema: SCHEMA.to_string(),
        made_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
        machine: Machine::this(),
        others_busy: others,
        cells: Vec::new(),
        gaps: Vec::new(),
    };
    for (row, measured) in rows.iter().zip(best) {
        match measured.context("each cell is measured at least once")? {
            Ok(cell) => calibration.cells.push(cell),
            Err(why) => calibration.gaps.push(Gap::new(row.text(), "", format!("{why:#}"))),
        }
    }
    ensure!(!calibration.cells.is_empty(), "nothing could be measured: {}", first_reason(&calibration.gaps));
    let path = Calibration::path();
    calibration.write(&path)?;
    if args.json {
        print(&serde_json::to_string_pretty(&calibration)?);
    } else {
        print(&page(&calibration));
        print(&format!("\nwritten to {}", path.display()));
    }
    Ok(Exit::Done)
}

fn cheaper(a: Result<Cell>, b: Result<Cell>) -> Result<Cell> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok(if b.cpu_us < a.cpu_us { b } else { a }),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(why), Err(_)) => Err(why),
    }
}

fn first_reason(gaps: &[Gap]) -> &str {
    gaps.first().map_or("no cell", |gap| &gap.reason)
}

/// Where the two sides run.
struct Cpus {
    generator: u32,
    /// None: there is only one CPU, which both share.
    server: Option<u32>,
}

impl Cpus {
    /// The last CPU that this process may use, or the one named; the server gets the first other one.
    fn choose(named: Option<u32>) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed: CpuList = list.and_then(|l| l.trim().parse().ok()).unwrap_or_else(|| std::iter::once(0).collect());
        let generator = named.or(allowed.as_slice().last().copied()).unwrap_or(0);
        Self { generator, server: allowed.as_slice().iter().copied().find(|cpu| *cpu != generator) }
    }

    fn server_text(&self) -> String {
        self.server.map_or("on the same CPU, the only one".to_string(), |cpu| format!("on CPU {cpu}"))
    }
}

/// How far it is, on stderr: one line that is written over on a terminal, else a line now and then.
struct Progress {
    all: usize,
    done: usize,
    each_s: f64,
    terminal: bool,
    told: Instant,
}

impl Progress {
    fn new(all: usize, each_s: f64) -> Self {
        Self { all, done: 0, each_s, terminal: std::io::stderr().is_terminal(), told: Instant::now() }
    }

    fn begin(&self, cpus: &Cpus) {
        eprintln!(
            "one generator thread on CPU {} against a null server {}: {:.0} s; best when nothing else runs",
            cpus.generator,
            cpus.server_text(),
            self.left_s()
        );
    }

    fn left_s(&self) -> f64 {
        (self.all - self.done) as f64 * self.each_s
    }

    /// The next load begins.
    fn next(&mut self, row: &Row) {
        let line = format!("{:>3} of {}, {:.0} s left: {}", self.done + 1, self.all, self.left_s(), row.text());
        self.done += 1;
        if self.terminal {
            eprint!("\r\x1b[K{line}");
            // A line that cannot be written is lost, not fatal.
            let _ = std::io::stderr().flush();
        } else if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

fn measure(row: Row, cpus: &Cpus, each: Nanos) -> Result<Cell> {
    let Row { shape, body_bytes } = row;
    let answer = NullAnswer { body_bytes, close: !shape.keepalive };
    let speech = NullSpeech { protocol: shape.protocol, secure: shape.tls };
    let server = NullServer::start(answer, speech, cpus.server).context("the null server does not start")?;
    let plan = LoadPlan {
        connections: shape.connections,
        threads: 1,
        cpus: vec![cpus.generator],
        protocol: shape.protocol,
        depth: shape.depth,
        keepalive: shape.keepalive,
        tls: TlsPlan { insecure: true, ..TlsPlan::default() },
        warmup: WARMUP,
        duration: each,
        ..LoadPlan::to(&server.url())
    };
    let result = prony_load::run(&plan, &AtomicBool::new(false), None)?;
    cell(shape, &result)
}

fn cell(shape: Shape, result: &LoadResult) -> Result<Cell> {
    let failed = result.errors.total();
    ensure!(failed == 0, "{failed} of {} requests failed: {:?}", failed + result.completed, result.errors);
    let cpu_us = result.generator_cpu_us_per_request().context("no request was completed")?;
    let wall_us: f64 = result.threads.iter().map(|t| t.wall_us).sum();
    ensure!(cpu_us > 0.0 && wall_us > 0.0, "the load was too short to see its CPU time: use a longer --each");
    Ok(Cell {
        shape: Shape { response_bytes: result.bytes_in as f64 / result.completed as f64, ..shape },
        per_s: result.completed_per_s,
        cpu_us,
        busy: cpu_us * result.completed as f64 / wall_us,
    })
}

/// The table that a person reads, in parts by what is spoken.
fn page(calibration: &Calibration) -> String {
    let Machine { cpu, cpus, kernel, prony } = &calibration.machine;
    let made = Utc::from_unix_ms(calibration.made_unix_ms);
    let mut text = format!("{cpus} CPUs of {cpu}, Linux {kernel}, prony {prony}, {made}\nOne generator thread:\n");
    let mut spoken = "";
    for cell in &calibration.cells {
        if spoken != cell.shape.speech_text() {
            spoken = cell.shape.speech_text();
            let (answer, per_s, cost) = ("answer", "requests/s", "CPU us/req");
            text += &format!("\n  {spoken:<42} {answer:>9} {per_s:>11} {cost:>11}  {:>4}\n", "busy");
        }
        text += &format!(
            "  {:<42} {:>9} {:>11} {:>11.2} {:>5.0}%\n",
            cell.shape.connections_text(),
            number::bytes(cell.shape.response_bytes),
            number::rate(cell.per_s),
            cell.cpu_us,
            cell.busy * 100.0
        );
    }
    for gap in &calibration.gaps {
        text += &format!("  not measured: {gap}\n");
    }
    if let Some(doubt) = strangers::doubt(calibration.others_busy) {
        text += &format!("\n{doubt}\n");
    }
    text += "\nThe ceiling of a thread is one whole CPU at that cost. Where the thread was less busy than 90 %, the null server\n";
    text + "was the limit, and the true ceiling is higher: larger batches are cheaper. Scenarios of steps are not calibrated.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::ErrorCounts;
    use prony_model::load::ThreadUse;

    #[test]
    fn a_real_null_server_gives_a_cell_of_every_kind() {
        let cpus = Cpus::choose(None);
        let mut kinds = table::rows();
        kinds.dedup_by_key(|row| (row.shape.speech_text(), row.shape.keepalive, row.shape.depth));
        assert!(kinds.len() >= 7, "{kinds:?}");
        for row in kinds {
            let few = Row { shape: Shape { connections: 4, ..row.shape }, body_bytes: 1000 };
            let cell = measure(few, &cpus, Nanos::from_millis(200)).unwrap();
            assert!(cell.per_s > 0.0 && cell.cpu_us > 0.0 && cell.busy > 0.0, "{cell:?}");
            assert!(cell.shape.response_bytes > 1000.0 && cell.shape.response_bytes < 3500.0, "{cell:?}");
        }
    }

    #[test]
    fn what_failed_is_no_cell() {
        let shape = table::rows()[0].shape;
        let thread = ThreadUse { user_us: 300.0, system_us: 700.0, wall_us: 2000.0, waited_us: None, spun_us: 0.0 };
        let good = LoadResult { completed: 100, bytes_in: 5000, threads: vec![thread], ..LoadResult::default() };
        let seen = cell(shape, &good).unwrap();
        assert_eq!((seen.cpu_us, seen.busy, seen.shape.response_bytes), (10.0, 0.5, 50.0));
        let errors = ErrorCounts { read: 1, ..ErrorCounts::default() };
        assert!(cell(shape, &LoadResult { errors, ..good.clone() }).unwrap_err().to_string().starts_with("1 of 101"));
        assert!(cell(shape, &LoadResult { completed: 0, ..good }).is_err());
    }

    #[test]
    fn the_cheaper_of_two_counts_and_one_is_enough() {
        let shape = table::rows()[0].shape;
        let of = |cpu_us| Ok(Cell { shape, per_s: 1.0, cpu_us, busy: 1.0 });
        let failed = || Err(anyhow::anyhow!("no"));
        assert_eq!(cheaper(of(3.0), of(2.0)).unwrap().cpu_us, 2.0);
        assert_eq!(cheaper(of(2.0), of(3.0)).unwrap().cpu_us, 2.0);
        assert_eq!(cheaper(failed(), of(3.0)).unwrap().cpu_us, 3.0);
        assert!(cheaper(failed(), failed()).is_err());
    }

    #[test]
    fn the_table_takes_less_than_a_minute() {
        let one_s = 0.45 + WARMUP.as_secs_f64();
        let all_s = ROUNDS as f64 * table::rows().len() as f64 * one_s;
        assert!((25.0..45.0).contains(&all_s), "{all_s}");
    }
}
