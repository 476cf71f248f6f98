//! Memory of prony: what an idle connection needs, and whether a long run needs more and more.
//!
//! The servers are processes of their own, whose memory does not count. Invariant: what is told of connections is told only when
//! as many as asked were opened.

use super::servers::Fixture;
use super::{GENERATOR_CPU, sys};
use crate::bench::machine;
use anyhow::{Context as _, ensure};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// As `--only` calls it.
pub const NAME: &str = "memory";
/// User memory that an idle HTTP/1.1 connection may need. The bar: 4 KiB.
const EACH_BYTES_MAX: f64 = 4096.0;
/// What a run may grow by in ten minutes and still be flat. A guess: sixteen pages, because a rare latency touches a page of its
/// histogram for the first time; a leak of a byte per request would be a hundred megabytes.
const GROWTH_KIB_MAX: f64 = 64.0;
/// A shorter run says nothing about that: what it grows by while it settles would count many times.
const FLAT_MINUTES: u32 = 10;
/// Few connections: what the process needs anyway.
const FEW: u32 = 100;
/// Servers, because a port of one takes 28,000 connections from one address and a process here has 20,000 descriptors.
const SERVERS: u32 = 4;
/// Connections of the run that should stay flat.
const BUSY_CONNECTIONS: u32 = 128;
/// A sample per second.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Not looked at: buffers are allocated, pages touched for the first time. A guess.
const SETTLE_SAMPLES: usize = 10;
/// The rest is cut into so many parts of equal length: samples within a part depend on each other, means of parts hardly do.
const PARTS: usize = 12;
/// Student's t for 95 % with two degrees less than there are parts. NIST/SEMATECH e-Handbook 1.3.6.7.2.
const T_95: f64 = 2.228;

/// Many connections that hardly ever carry a request.
struct Crowd {
    connections: u32,
    threads: u32,
    /// So that every connection is opened and carries a request or two.
    rate_per_s: u32,
    seconds: u32,
}

/// The bar: 15,000 on one core; 50,000 in one process, where each thread has descriptors of its own.
const CROWDS: [Crowd; 2] = [
    Crowd { connections: 15_000, threads: 1, rate_per_s: 5_000, seconds: 8 },
    Crowd { connections: 50_000, threads: 3, rate_per_s: 8_000, seconds: 20 },
];

/// Measures, and says it in a table.
pub fn measure(
    engine: &Path,
    null_server: impl Fn() -> anyhow::Result<Fixture>,
    minutes: u32,
) -> anyhow::Result<String> {
    let servers = (0..SERVERS).map(|_| null_server()).collect::<anyhow::Result<Vec<_>>>()?;
    let addresses: Vec<String> = servers.iter().map(|s| format!("127.0.0.1:{}", s.port)).collect();
    let verdict = |holds| if holds { "yes" } else { "**no**" };
    let mut text = format!(
        "## Memory of the generator\n\n`cargo xtask bench load --only memory --minutes {minutes}` on {}.\n\n",
        machine()
    );
    text += "| memory | measured | bar | holds |\n|---|---|--:|---|\n";
    for crowd in &CROWDS {
        let Crowd { connections, threads, .. } = crowd;
        let few = anonymous_kib(engine, &addresses, &Crowd { connections: FEW, ..*crowd })?;
        let many = anonymous_kib(engine, &addresses, crowd)?;
        let each = many.saturating_sub(few) as f64 * 1024.0 / f64::from(connections - FEW);
        text += &format!(
            "| {connections} idle HTTP/1.1 connections, threads: {threads} | {each:.0} bytes each: {many} KiB, and {few} KiB with {FEW} \
             | {EACH_BYTES_MAX:.0} bytes | {} |\n",
            verdict(each <= EACH_BYTES_MAX)
        );
    }
    let samples = run_long(engine, &addresses, minutes)?;
    let growth = Growth::of(&samples).context("the run was too short to tell growth")?;
    let [kib, low, high] = [growth.kib, growth.kib - growth.margin_kib, growth.kib + growth.margin_kib];
    text += &format!(
        "| closed loop of {BUSY_CONNECTIONS} connections for {} s | {} KiB at the end; {kib:+.1} KiB in ten minutes by its slope{} \
         (95 % interval {low:+.1} to {high:+.1}) | {GROWTH_KIB_MAX:.0} KiB | {} |\n",
        minutes * 60,
        samples.last().copied().unwrap_or_default(),
        if minutes < FLAT_MINUTES { ", drawn out from this shorter run" } else { "" },
        if minutes < FLAT_MINUTES { "not judged: use `--minutes 10`" } else { verdict(high <= GROWTH_KIB_MAX) }
    );
    Ok(text)
}

/// Most anonymous memory that the engine had.
fn anonymous_kib(engine: &Path, addresses: &[String], crowd: &Crowd) -> anyhow::Result<u64> {
    let fields = json!({
        "connect_to": addresses,
        "connections": crowd.connections,
        "threads": crowd.threads,
        "rate": format!("{}/s", crowd.rate_per_s),
        "duration": format!("{}s", crowd.seconds),
    });
    let args = ["http://127.0.0.1/".to_string(), fields.to_string()];
    let output = Command::new(engine).args(&args).output().context("cannot start the engine")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| said.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok());
    let opened = value("connections_opened ").unwrap_or_default();
    let asked = crowd.connections;
    ensure!(
        opened >= u64::from(asked),
        "only {opened} of {asked} connections were opened:\n{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    value("anon_kib ").context("the engine does not tell its memory")
}

/// Anonymous memory of the engine, every second of a run.
fn run_long(engine: &Path, addresses: &[String], minutes: u32) -> anyhow::Result<Vec<u64>> {
    let duration = format!("{}s", minutes * 60);
    let fields = json!({ "connect_to": addresses, "connections": BUSY_CONNECTIONS, "duration": duration });
    let mut command = Command::new("taskset");
    command.args(["-c", GENERATOR_CPU]).arg(engine).args(["http://127.0.0.1/", &fields.to_string()]);
    let child = command.stdout(Stdio::null()).spawn().context("cannot start taskset")?;
    let end = Instant::now() + Duration::from_secs(u64::from(minutes) * 60);
    let mut samples = Vec::new();
    while Instant::now() + SAMPLE_EVERY < end {
        std::thread::sleep(SAMPLE_EVERY);
        samples.extend(anonymous_now_kib(child.id()));
    }
    ensure!(sys::wait(&child).context("cannot wait for the engine")?.ok, "the engine failed");
    Ok(samples)
}

/// By walking the page tables (`/proc/PID/smaps_rollup`, Anonymous): the counter in `status` may be 64 pages off per CPU.
fn anonymous_now_kib(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    text.lines().find_map(|l| l.strip_prefix("Anonymous:"))?.split_whitespace().next()?.parse().ok()
}

/// Slope of memory, as what ten minutes would bring.
#[derive(Clone, Copy, Debug)]
struct Growth {
    kib: f64,
    /// To both sides, at 95 %.
    margin_kib: f64,
}

impl Growth {
    /// Least squares through the means of the parts. None when a part would have no sample.
    fn of(samples: &[u64]) -> Option<Self> {
        let settled = samples.get(SETTLE_SAMPLES..)?;
        let size = settled.len() / PARTS;
        let means: Vec<f64> = settled
            .chunks_exact(size.max(1))
            .take(PARTS)
            .map(|part| part.iter().sum::<u64>() as f64 / part.len() as f64)
            .collect();
        if means.len() < PARTS {
            return None;
        }
        let n = PARTS as f64;
        let (middle, mean) = ((n - 1.0) / 2.0, means.iter().sum::<f64>() / n);
        let off = |number: usize| number as f64 - middle;
        let spread = (0..PARTS).map(|i| off(i).powi(2)).sum::<f64>();
        let slope = means.iter().enumerate().map(|(i, m)| off(i) * (m - mean)).sum::<f64>() / spread;
        let left = means.iter().enumerate().map(|(i, m)| (m - mean - slope * off(i)).powi(2)).sum::<f64>();
        let margin = T_95 * (left / (n - 2.0) / spread).sqrt();
        let parts_in_ten_minutes = 600.0 / (size as f64 * SAMPLE_EVERY.as_secs_f64());
        Some(Self { kib: slope * parts_in_ten_minutes, margin_kib: margin * parts_in_ten_minutes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_ten_minutes() {
        let flat = Growth::of(&[3000; 300]).unwrap();
        assert_eq!((flat.kib, flat.margin_kib), (0.0, 0.0));
        // A KiB every ten seconds, whatever came before it settled.
        let leaking: Vec<u64> = (0..310).map(|s| if s < 10 { 9 } else { 3000 + s / 10 }).collect();
        let growth = Growth::of(&leaking).unwrap();
        assert!((growth.kib - 60.0).abs() < 1.0 && growth.margin_kib < 2.0, "{growth:?}");
        // Up and down: no slope, but room for one.
        let waving: Vec<u64> = (0..310).map(|s| 3000 + s / 24 % 2 * 100).collect();
        let growth = Growth::of(&waving).unwrap();
        assert!(growth.kib.abs() < growth.margin_kib, "{growth:?}");
        assert!(Growth::of(&[3000; 21]).is_none());
    }
}
