//! `prony calibrate`: the most that one generator thread can do on this machine.
//!
//! The generator loads a null server on loopback, once per cell of a small table. It changes nothing on the machine but
//! `calibration.json` in the state folder. What later loads make of that is in [`ceiling`]. Invariant: a cell that could not
//! be measured is a gap with its reason, and the others are written all the same.

mod ceiling;

pub(crate) use ceiling::headroom;

use crate::Exit;
use crate::cli::CalibrateArgs;
use crate::output::print;
use anyhow::{Context, Result, ensure};
use ceiling::{Calibration, Cell, Machine, SCHEMA, Shape};
use prony_load::null_server::{NullAnswer, NullServer};
use prony_model::{CpuList, Gap, LoadPlan, LoadResult, Nanos, Utc};
use prony_report::number;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bodies of the answers, in bytes: a health check, a small object, a page, an image. A guess at what services send.
const BODY_BYTES: [usize; 4] = [100, 1024, 16 * 1024, 128 * 1024];
/// Connections that are kept. Fewer mean more wakeups, more mean larger batches and colder caches.
const CONNECTIONS: [u32; 4] = [1, 16, 128, 1024];
/// Connections of the cells with a connection per request: its cost hardly depends on their number. A guess.
const CONNECTIONS_CLOSED: [u32; 2] = [16, 128];
/// Body of the answers in those cells.
const BODY_BYTES_CLOSED: usize = 1024;
/// Every cell is measured that often, and the cheapest counts: a stranger on the CPU only ever adds cost.
const ROUNDS: u32 = 2;
/// Not counted at the beginning of each load, while connections open. A guess: 1024 handshakes on loopback take some 30 ms.
const WARMUP: Nanos = Nanos(100_000_000);

/// `prony calibrate`.
pub(crate) fn run(args: &CalibrateArgs) -> Result<Exit> {
    let cpus = Cpus::choose(args.cpu);
    let cells = table();
    let all_s = f64::from(ROUNDS) * cells.len() as f64 * (args.each.as_secs_f64() + WARMUP.as_secs_f64());
    eprintln!(
        "one generator thread on CPU {} against a null server {}: {all_s:.0} s",
        cpus.generator,
        cpus.server_text()
    );
    let mut calibration = Calibration {
        schema: SCHEMA.to_string(),
        made_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
        machine: Machine::this(),
        cells: Vec::new(),
        gaps: Vec::new(),
    };
    for (shape, body_bytes) in cells {
        let tries = (0..ROUNDS).map(|_| measure(shape, body_bytes, &cpus, args.each));
        let cheapest = tries.reduce(|a, b| match (a, b) {
            (Ok(a), Ok(b)) => Ok(if b.cpu_us < a.cpu_us { b } else { a }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(why), Err(_)) => Err(why),
        });
        match cheapest.context("a cell is measured at least once")? {
            Ok(cell) => calibration.cells.push(cell),
            Err(why) => {
                let fact = format!("{}, body of {}", shape.connections_text(), number::bytes(body_bytes as f64));
                calibration.gaps.push(Gap::new(fact, "", format!("{why:#}")));
            }
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

fn first_reason(gaps: &[Gap]) -> &str {
    gaps.first().map_or("no cell", |gap| &gap.reason)
}

/// What is measured, and the body that the null server sends for it.
fn table() -> Vec<(Shape, usize)> {
    let kept = |body| CONNECTIONS.map(|connections| (connections, true, body));
    let closed = CONNECTIONS_CLOSED.map(|connections| (connections, false, BODY_BYTES_CLOSED));
    let rows = BODY_BYTES.into_iter().flat_map(kept).chain(closed);
    // The size of an answer is filled in from what arrives, as it is for a load.
    let cell =
        |(connections, keepalive, body)| (Shape { connections, keepalive, tls: false, response_bytes: 0.0 }, body);
    rows.map(cell).collect()
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

fn measure(shape: Shape, body_bytes: usize, cpus: &Cpus, each: Nanos) -> Result<Cell> {
    let answer = NullAnswer { body_bytes, close: !shape.keepalive };
    let server = NullServer::start(answer, cpus.server).context("the null server does not start")?;
    let plan = LoadPlan {
        connections: shape.connections,
        threads: 1,
        cpus: vec![cpus.generator],
        keepalive: shape.keepalive,
        warmup: WARMUP,
        duration: each,
        ..LoadPlan::to(&server.url())
    };
    let result = prony_load::run(&plan, &AtomicBool::new(false), &|_| {})?;
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

/// The table that a person reads.
fn page(calibration: &Calibration) -> String {
    let Machine { cpu, cpus, kernel, prony } = &calibration.machine;
    let made = Utc::from_unix_ms(calibration.made_unix_ms);
    let mut text =
        format!("{cpus} CPUs of {cpu}, Linux {kernel}, prony {prony}, {made}\nOne generator thread, HTTP/1.1:\n\n");
    text +=
        &format!("  {:<28} {:>10} {:>12} {:>12} {:>6}\n", "connections", "answer", "requests/s", "CPU us/req", "busy");
    for cell in &calibration.cells {
        text += &format!(
            "  {:<28} {:>10} {:>12} {:>12.2} {:>5.0}%\n",
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
    text += "\nThe ceiling of a thread is one whole CPU at that cost. Where the thread was less busy, the null server was the\n";
    text + "limit, and the true ceiling is higher: larger batches are cheaper. TLS and HTTP/2 are not calibrated.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::ErrorCounts;
    use prony_model::load::ThreadUse;

    #[test]
    fn a_real_null_server_gives_a_cell() {
        let cpus = Cpus::choose(None);
        for (connections, keepalive) in [(4, true), (4, false)] {
            let shape = Shape { connections, keepalive, tls: false, response_bytes: 0.0 };
            let cell = measure(shape, 1000, &cpus, Nanos::from_millis(200)).unwrap();
            assert!(cell.per_s > 0.0 && cell.cpu_us > 0.0 && cell.busy > 0.0, "{cell:?}");
            assert!(cell.shape.response_bytes > 1000.0 && cell.shape.response_bytes < 1200.0, "{cell:?}");
        }
    }

    #[test]
    fn what_failed_is_no_cell() {
        let shape = Shape { connections: 1, keepalive: true, tls: false, response_bytes: 0.0 };
        let thread = ThreadUse { user_us: 300.0, system_us: 700.0, wall_us: 2000.0, waited_us: None };
        let good = LoadResult { completed: 100, bytes_in: 5000, threads: vec![thread], ..LoadResult::default() };
        let seen = cell(shape, &good).unwrap();
        assert_eq!((seen.cpu_us, seen.busy, seen.shape.response_bytes), (10.0, 0.5, 50.0));
        let errors = ErrorCounts { read: 1, ..ErrorCounts::default() };
        assert!(cell(shape, &LoadResult { errors, ..good.clone() }).unwrap_err().to_string().starts_with("1 of 101"));
        assert!(cell(shape, &LoadResult { completed: 0, ..good }).is_err());
    }

    #[test]
    fn the_table_takes_twenty_seconds() {
        let one_s = 0.45 + WARMUP.as_secs_f64();
        let all_s = f64::from(ROUNDS) * table().len() as f64 * one_s;
        assert!((15.0..22.0).contains(&all_s), "{all_s}");
    }
}
