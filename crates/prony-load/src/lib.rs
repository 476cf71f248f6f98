//! Drives requests: pacer x protocol x stop rule, one loop; records intended and actual send time.
//!
//! [`run`] is called on a thread of the network namespace that the load shall come from; the threads it starts inherit that.
//! This crate enters no namespace, reads no file and prints nothing. Invariants: a load ends at its time whatever the server
//! does; memory is bounded by the plan, not by what the server sends; what the generator could not do is counted apart from
//! what the stack could not do.

pub mod error;
pub mod gates;
pub mod null_server;
pub mod plan;
pub mod target;

mod engine;
mod pacer;
mod request;
mod response;
mod sys;
mod tally;

pub use error::LoadError;
pub use plan::plan_from;
pub use target::{Target, check_url, guard, is_own, is_private, resolve};

use engine::{Outcome, Published, Script, Worker};
use pacer::{Closed, Open, Pacer};
use prony_model::load::{LoadPlan, LoadResult};
use prony_model::{Latency, Nanos};
use request::{Choice, Requests};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tally::{Counted, Tally};

/// How often the caller hears of progress. A guess: smooth to the eye, nothing to the CPU.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
/// How often the caller's stop flag is looked at. A guess: a person does not notice 20 ms.
const STOP_EVERY: Duration = Duration::from_millis(20);
/// A server that refuses for this long is not about to come up. A guess, as in the issue: 1 s.
const REFUSED_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the first connection. A guess: one retransmitted SYN (1 s, then 2 s; RFC 6298) may still get through.
const FIRST_CONNECT_MAX: Duration = Duration::from_secs(4);
/// Threads need this long to start and allocate before the schedule begins. Measured on this kind of machine: below 1 ms per thread.
const START_NS: u64 = 5_000_000;
/// Descriptors that the process needs besides connections. A guess: recorder, probes and pipes need some dozens.
const DESCRIPTORS_ELSEWHERE: u64 = 256;

/// How far a load is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time since the load began, warm-up included.
    pub elapsed: Nanos,
    /// Warm-up and counted time together.
    pub total: Nanos,
    /// Complete responses so far in the counted time.
    pub completed: u64,
    /// Failed requests so far in the counted time.
    pub failed: u64,
}

/// Applies a load and waits for its end: at most warm-up, duration and half a second after the first connection. `stop` ends it
/// early, and what was measured is returned as `interrupted`. `progress` is called on this thread, four times a second.
///
/// # Errors
/// When the load cannot begin: a URL, plan or name that is wrong, nobody who listens, too few descriptors. Failures of
/// requests are counted in the result instead.
pub fn run(plan: &LoadPlan, stop: &AtomicBool, progress: &(dyn Fn(Progress) + Sync)) -> Result<LoadResult, LoadError> {
    let target = check_url(&plan.url)?;
    check_plan(plan)?;
    let requests = Requests::render(plan, &target)?;
    let threads = thread_count(plan);
    let own_table = own_table_needed(plan.connections, threads)?;
    let Some(address) = reachable(&resolve(&target)?, plan, stop)? else {
        return Ok(LoadResult { interrupted: true, ..LoadResult::default() });
    };
    let per_connection = if plan.keepalive { plan.requests_per_connection.unwrap_or(u32::MAX) } else { 1 };
    let script = Script { address, requests, timeout_ns: plan.timeout.0, requests_per_connection: per_connection };
    let epoch_ns = sys::clock_ns() + START_NS;
    let start_ns = epoch_ns + plan.warmup.0;
    let counted = Counted { start_ns, end_ns: start_ns + plan.duration.0 };
    let crew = Crew { plan, script: &script, threads, epoch_ns, counted, own_table };
    let outcomes = crew.work(stop, progress)?;
    Ok(result_of(plan, &outcomes))
}

fn check_plan(plan: &LoadPlan) -> Result<(), LoadError> {
    let wrong = |item: &str, why: &str| Err(LoadError::Plan { item: item.to_string(), why: why.to_string() });
    if plan.connections == 0 {
        return wrong("connections", "0 can send nothing: use at least one");
    }
    if plan.duration.0 == 0 || plan.timeout.0 == 0 {
        return wrong("duration", "duration and timeout must be longer than 0");
    }
    if plan.rate.is_some_and(|r| !r.0.is_finite() || r.0 <= 0.0) {
        return wrong("rate", "a rate of 0 sends nothing: write more, or leave it out for a closed loop");
    }
    if plan.requests_per_connection == Some(0) {
        return wrong("requests_per_connection", "0 would send nothing: write 1 or more");
    }
    Ok(())
}

/// As many as the plan says; 0: one per CPU named, or per CPU of this thread. Never more than connections.
fn thread_count(plan: &LoadPlan) -> u32 {
    let wanted = match (plan.threads, plan.cpus.len()) {
        (0, 0) => thread::available_parallelism().map_or(1, |n| n.get() as u32),
        (0, cpus) => cpus as u32,
        (threads, _) => threads,
    };
    wanted.clamp(1, plan.connections)
}

/// Whether each thread needs a table of descriptors of its own, because one is too small for all connections.
fn own_table_needed(connections: u32, threads: u32) -> Result<bool, LoadError> {
    let all = u64::from(connections) + DESCRIPTORS_ELSEWHERE;
    let limit = sys::descriptor_limit(all);
    let need = u64::from(connections.div_ceil(threads)) + DESCRIPTORS_ELSEWHERE;
    if all <= limit {
        Ok(false)
    } else if need <= limit {
        Ok(true)
    } else {
        Err(LoadError::Descriptors { connections, threads, need, limit })
    }
}

/// The first address that accepts a connection. One is made and closed, so that a server that is not there is an error and not a
/// load of failures. None: stopped meanwhile. A generator out of ports or descriptors passes: its load will count that.
fn reachable(addresses: &[SocketAddr], plan: &LoadPlan, stop: &AtomicBool) -> Result<Option<SocketAddr>, LoadError> {
    let begun = Instant::now();
    let wait = FIRST_CONNECT_MAX.min(plan.timeout.into());
    loop {
        let mut last = None;
        for address in addresses {
            match TcpStream::connect_timeout(address, wait) {
                Ok(_) => return Ok(Some(*address)),
                Err(e) if matches!(e.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::EMFILE | libc::ENFILE)) => {
                    return Ok(Some(*address));
                }
                Err(error) => last = Some((*address, error)),
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (address, error) = last.expect("resolve() gives at least one address");
        if error.kind() != ErrorKind::ConnectionRefused {
            return Err(LoadError::Unreachable { address, why: error.to_string() });
        }
        if begun.elapsed() >= REFUSED_MAX {
            return Err(LoadError::Refused { address });
        }
        thread::sleep(STOP_EVERY);
    }
}

/// The threads of one load.
struct Crew<'a> {
    plan: &'a LoadPlan,
    script: &'a Script,
    threads: u32,
    epoch_ns: u64,
    counted: Counted,
    own_table: bool,
}

impl Crew<'_> {
    /// Starts the threads, watches over them, and collects what they bring.
    fn work(&self, stop: &AtomicBool, progress: &(dyn Fn(Progress) + Sync)) -> Result<Vec<Outcome>, LoadError> {
        let halt = AtomicBool::new(false);
        let published: Vec<Published> = (0..self.threads).map(|_| Published::default()).collect();
        thread::scope(|scope| {
            let spawn = |number: u32| {
                let (halt, published) = (&halt, &published[number as usize]);
                let named = thread::Builder::new().name(format!("load-{number}"));
                named.spawn_scoped(scope, move || {
                    let outcome = self.work_alone(number, halt, published);
                    if outcome.is_err() {
                        halt.store(true, Ordering::Relaxed);
                    }
                    outcome
                })
            };
            let mut workers = Vec::new();
            for number in 0..self.threads {
                match spawn(number) {
                    Ok(worker) => workers.push(worker),
                    Err(source) => {
                        halt.store(true, Ordering::Relaxed);
                        return Err(LoadError::System { call: "clone", source, next: "use fewer threads" });
                    }
                }
            }
            let mut told = Instant::now();
            while !workers.iter().all(|w| w.is_finished()) {
                thread::sleep(STOP_EVERY);
                if stop.load(Ordering::Relaxed) {
                    halt.store(true, Ordering::Relaxed);
                }
                if told.elapsed() >= PROGRESS_EVERY {
                    told = Instant::now();
                    progress(self.progress(&published));
                }
            }
            let join = |worker: thread::ScopedJoinHandle<'_, _>| match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            workers.into_iter().map(join).collect()
        })
    }

    fn progress(&self, published: &[Published]) -> Progress {
        let total = Nanos(self.plan.warmup.0 + self.plan.duration.0);
        Progress {
            elapsed: Nanos(sys::clock_ns().saturating_sub(self.epoch_ns)).min(total),
            total,
            completed: published.iter().map(|p| p.completed.load(Ordering::Relaxed)).sum(),
            failed: published.iter().map(|p| p.failed.load(Ordering::Relaxed)).sum(),
        }
    }

    fn work_alone(&self, number: u32, halt: &AtomicBool, published: &Published) -> Result<Outcome, LoadError> {
        let plan = self.plan;
        sys::precise_timers();
        if let Some(cpu) = plan.cpus.get(number as usize % plan.cpus.len().max(1)) {
            let next = "name CPUs that are online and allowed here (`nproc`, `taskset -p $$`)";
            sys::pin(*cpu).map_err(|source| LoadError::System { call: "sched_setaffinity", source, next })?;
        }
        if self.own_table {
            let next = "use fewer connections, or raise `ulimit -n`";
            sys::own_descriptors().map_err(|source| LoadError::System {
                call: "unshare(CLONE_FILES)",
                source,
                next,
            })?;
        }
        let share = |total: u32| total / self.threads + u32::from(number < total % self.threads);
        let connections = share(plan.connections);
        let seed = plan.seed.wrapping_add(u64::from(number) << 32);
        let first = self.script.requests.list.len() * number as usize / self.threads as usize;
        let choice = Choice::new(first, seed);
        match plan.rate {
            None => self.finish(Closed, choice, connections, halt, published),
            Some(rate) => {
                let per_s = rate.0 * f64::from(connections) / f64::from(plan.connections);
                let phase = f64::from(number) / f64::from(self.threads);
                // Arrivals and choices must not follow the same random numbers.
                let pacer = Open::new(plan.arrivals, per_s, self.epoch_ns, phase, !seed);
                self.finish(pacer, choice, connections, halt, published)
            }
        }
    }

    fn finish<P: Pacer>(
        &self,
        pacer: P,
        choice: Choice,
        connections: u32,
        halt: &AtomicBool,
        published: &Published,
    ) -> Result<Outcome, LoadError> {
        let work = || Worker::new(self.script, pacer, choice, connections, self.counted)?.run(halt, published);
        work().map_err(|source: io::Error| LoadError::System {
            call: "epoll_pwait2",
            source,
            next: "prony needs Linux 5.11 or later, and `ulimit -n` must leave room for one descriptor per thread",
        })
    }
}

fn result_of(plan: &LoadPlan, outcomes: &[Outcome]) -> LoadResult {
    let (first, rest) = outcomes.split_first().expect("there is at least one thread");
    let mut counted = first.tally.counted;
    counted.end_ns = outcomes.iter().map(|o| o.tally.counted.end_ns).max().unwrap_or(counted.end_ns);
    let duration_ns = counted.end_ns - counted.start_ns;
    // Buckets are as many as the plan's whole time has; of an interrupted load the rest is empty.
    let mut sum = Tally::new(Counted { end_ns: counted.start_ns + plan.duration.0, ..counted });
    sum.merge(&first.tally);
    rest.iter().for_each(|o| sum.merge(&o.tally));
    let duration_s = duration_ns as f64 / 1e9;
    let per_s = |count: u64| if duration_ns == 0 { 0.0 } else { count as f64 / duration_s };
    let in_second: Vec<u64> = sum.buckets.chunks(10).map(|tenths| tenths.iter().sum()).collect();
    let actual = sum.latency_actual.to_latency();
    let (latency, lag) = match plan.rate {
        None => (actual.clone(), Latency::default()),
        Some(_) => (sum.latency.to_latency(), sum.lag.to_latency()),
    };
    let codes = (0u16..).zip(sum.statuses.iter().copied());
    let mut result = LoadResult {
        counted_from_ns: counted.start_ns,
        duration_s,
        intended: sum.intended,
        sent: sum.sent,
        completed: sum.completed,
        responses_total: sum.responses_total,
        good_per_s: per_s(sum.completed - sum.errors.status),
        completed_per_s: per_s(sum.completed),
        bytes_in: sum.bytes_in,
        bytes_out: sum.bytes_out,
        connections_opened: sum.connections_opened,
        errors: sum.errors,
        statuses: codes.filter(|(_, count)| *count > 0).collect(),
        latency,
        latency_actual: actual,
        schedule_lag: lag,
        per_second: in_second.into_iter().take((duration_ns / 1_000_000_000) as usize).collect(),
        threads: outcomes.iter().map(|o| o.usage).collect(),
        in_flight_mean: if duration_ns == 0 { 0.0 } else { sum.in_flight_ns as f64 / duration_ns as f64 },
        gates: Vec::new(),
        interrupted: outcomes.iter().any(|o| o.interrupted),
    };
    result.gates = gates::check(plan, &result, &sum.buckets);
    result
}
