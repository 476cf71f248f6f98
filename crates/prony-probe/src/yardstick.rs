//! The same small piece of work, done on every CPU again and again: what it costs shows how fast the machine is at the moment.
//!
//! On a shared machine the work of a request may cost half as much again from one second to the next, with no time stolen: neighbours
//! share caches and cores. Trials that are compared met different speeds then, and this tells how different. It does not say what is
//! fast. Invariant: one process has at most one yardstick, however many hosts it watches, and its threads end with it.

use crate::facts::Facts;
use crate::sys;
use prony_model::CpuList;
use prony_model::metric::{YARDSTICK_PIECES, YARDSTICK_TIME};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Times that a piece sends a message through a pipe and reads it: mostly the kernel's work, like that of a server. Of all pairs of
/// trials of 2 s whose throughput differed (standard deviation 15 %, a proxy out of CPU), what such pieces cost on all CPUs explained
/// 85 %; a loop of multiplications had told nothing, because its speed did not move.
const MESSAGES: u32 = 64;
/// Bytes of a message.
const MESSAGE_BYTES: usize = 64;
/// Time between two pieces of a CPU. With 50 us for a piece that is 0.2 % of it.
const BETWEEN: Duration = Duration::from_millis(25);
/// A piece that took so many times the least was interrupted: it tells of the interruption. A guess.
const INTERRUPTED: u64 = 5;
/// CPUs with a yardstick at most. A guess: they tell of the machine, and each thread is woken forty times a second.
const CPUS_MAX: usize = 16;

/// Whether this process has one.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The yardstick of this machine.
#[derive(Debug)]
pub(crate) struct Yardstick {
    cpus: Vec<Arc<Told>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What the thread of one CPU has told so far.
#[derive(Debug, Default)]
struct Told {
    cpu: u32,
    pieces: AtomicU64,
    /// CPU time of these pieces.
    time_ns: AtomicU64,
    /// CPU time of the thread, whatever it did.
    thread_ns: AtomicU64,
}

impl Yardstick {
    /// Starts it on the CPUs that this process may use; none when it runs already.
    pub(crate) fn claim(proc: &Path) -> Option<Self> {
        if TAKEN.swap(true, Ordering::Relaxed) {
            return None;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut yardstick = Self { cpus: Vec::new(), stop, threads: Vec::new() };
        for cpu in allowed(proc).as_slice().iter().take(CPUS_MAX) {
            let told = Arc::new(Told { cpu: *cpu, ..Told::default() });
            let (telling, stop) = (Arc::clone(&told), Arc::clone(&yardstick.stop));
            let thread = std::thread::Builder::new().name(format!("prony-yard-{cpu}"));
            // Without its thread a CPU is not told of, like one that it may not use.
            let Ok(thread) = thread.spawn(move || work(&telling, &stop)) else { continue };
            yardstick.threads.push(thread);
            yardstick.cpus.push(told);
        }
        Some(yardstick)
    }

    /// Tells what was done so far. Gives the CPU time that it has cost in nanoseconds.
    pub(crate) fn read(&self, facts: &mut Facts) -> u64 {
        for told in &self.cpus {
            let cpu = told.cpu.to_string();
            facts.put(&YARDSTICK_PIECES, &cpu, told.pieces.load(Ordering::Relaxed) as f64);
            facts.put(&YARDSTICK_TIME, &cpu, told.time_ns.load(Ordering::Relaxed) as f64 / 1e9);
        }
        self.cpus.iter().map(|told| told.thread_ns.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A thread that panicked has told what it had.
            let _ = thread.join();
        }
        TAKEN.store(false, Ordering::Relaxed);
    }
}

/// The CPUs that the process may use.
fn allowed(proc: &Path) -> CpuList {
    let status = std::fs::read_to_string(proc.join("self/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| list.trim().parse().ok()).unwrap_or_default()
}

/// Works on one CPU until it is stopped.
fn work(told: &Told, stop: &AtomicBool) {
    // On another CPU, or without a pipe, it would tell of something else.
    let Ok((mut from, mut to)) = sys::pin_this_thread(told.cpu).and_then(|()| io::pipe()) else { return };
    let mut least_ns = u64::MAX;
    while !stop.load(Ordering::Relaxed) {
        let begun = sys::thread_cpu_ns();
        if piece(&mut from, &mut to).is_err() {
            return;
        }
        let done = sys::thread_cpu_ns();
        let took = done.saturating_sub(begun).max(1);
        least_ns = least_ns.min(took);
        if took < least_ns.saturating_mul(INTERRUPTED) {
            told.time_ns.fetch_add(took, Ordering::Relaxed);
            told.pieces.fetch_add(1, Ordering::Relaxed);
        }
        told.thread_ns.store(done, Ordering::Relaxed);
        std::thread::park_timeout(BETWEEN);
    }
}

fn piece(from: &mut io::PipeReader, to: &mut io::PipeWriter) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    for _ in 0..MESSAGES {
        to.write_all(&message)?;
        from.read_exact(&mut message)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_counted_once_per_process_until_it_ends() {
        let proc = Path::new("/proc");
        let first = Yardstick::claim(proc).unwrap();
        assert!(Yardstick::claim(proc).is_none(), "a second one would cost as much and tell the same");
        let mut facts = Facts::new("lb", 0);
        let told = loop {
            facts.begin(0);
            let cost_ns = first.read(&mut facts);
            let sample = facts.take_samples().remove(0);
            let sum = |metric| sample.values.iter().filter(|v| v.0 == metric).map(|v| v.2).sum::<f64>();
            if sum(YARDSTICK_PIECES.name) >= 3.0 {
                break (sum(YARDSTICK_PIECES.name), sum(YARDSTICK_TIME.name), cost_ns);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let (pieces, seconds, cost_ns) = told;
        assert!(seconds > pieces * 1e-6, "64 messages take longer than a microsecond: {told:?}");
        assert!(cost_ns as f64 / 1e9 >= seconds * 0.99, "its cost is at least that of its pieces: {told:?}");
        drop(first);
        assert!(Yardstick::claim(proc).is_some(), "the next run has its own");
    }

    #[test]
    fn the_cpus_are_those_of_the_process() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("self")).unwrap();
        std::fs::write(folder.path().join("self/status"), "Name:\tprony\nCpus_allowed_list:\t0-1,4\n").unwrap();
        assert_eq!(allowed(folder.path()).as_slice(), [0, 1, 4]);
        assert_eq!(allowed(Path::new("/nonexistent")).as_slice(), [0; 0]);
    }
}
