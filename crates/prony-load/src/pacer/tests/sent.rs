//! Arrivals as a server sees them: a real load in open loop, held against the schedule that was asked for.
//!
//! What a load intends is exact on any machine. What it sends is late by what the machine takes to wake a thread; that is
//! judged only where the kernel says that nobody else was on the CPUs. Invariant: whether a machine is too busy is never told
//! by how late the requests were, or a pacer that is late would excuse itself.

use super::*;
use crate::live::waited_us;
use crate::{run, sys};
use prony_model::LoadResult;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;

const CONNECTIONS: u32 = 16;
/// Requests per second: low, so that the time to wake a thread (some 50 us in a virtual machine) is small against the gaps.
const RATE: f64 = 500.0;
/// Gaps enough to see a rate that is 15 % off, or waits rounded to a millisecond.
const DURATION: Nanos = Nanos(3 * SECOND);
/// Largest share of the time that the generator's thread, or those of the server together, may have waited for a CPU. A guess:
/// 20 us for each request.
const WAITED_SHARE_MAX: f64 = 20e-6 * RATE;
/// Strict for a test that runs often: by chance it fails once in 10,000 runs, and has a second try.
const P_MIN: f64 = 1e-4;

/// What a server saw: when each request came, and how long its threads waited for a CPU.
#[derive(Default)]
struct Seen {
    arrivals_ns: Vec<u64>,
    waited_us: f64,
}

/// A load, and how its server saw it.
struct Sent {
    plan: LoadPlan,
    result: LoadResult,
    seen: Seen,
}

/// A server that answers at once, and notes. It ends with the process.
fn start(seen: &Arc<Mutex<Seen>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = Arc::clone(&seen);
            thread::spawn(move || serve(stream, &seen));
        }
    });
    port
}

/// One request at a time comes on a connection, and each fits into one read.
fn serve(mut stream: TcpStream, seen: &Mutex<Seen>) {
    let mut request = [0; 1000];
    let mut before_us = waited_us().unwrap_or(0.0);
    while stream.read(&mut request).is_ok_and(|count| count > 0) {
        let now = sys::clock_ns();
        let waited_us = waited_us().unwrap_or(0.0);
        {
            let mut seen = seen.lock().unwrap();
            seen.arrivals_ns.push(now);
            seen.waited_us += waited_us - before_us;
        }
        before_us = waited_us;
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

impl Sent {
    fn by(arrivals: Arrivals, threads: u32, seed: u64) -> Self {
        let noted = Arc::new(Mutex::new(Seen::default()));
        let plan = LoadPlan {
            connections: CONNECTIONS,
            threads,
            rate: Some(Rate(RATE)),
            arrivals,
            warmup: Nanos(0),
            duration: DURATION,
            seed,
            ..LoadPlan::to(&format!("http://127.0.0.1:{}/", start(&noted)))
        };
        let result = run(&plan, &AtomicBool::new(false), None).unwrap();
        let mut seen = std::mem::take(&mut *noted.lock().unwrap());
        seen.arrivals_ns.sort_unstable();
        Self { plan, result, seen }
    }

    /// The times that the threads of this load drew, drawn again: seeds and shares as `crew.rs` deals them out.
    fn intended_ns(&self) -> Vec<u64> {
        let schedule = Schedule::of(&self.plan).unwrap();
        // Without a warm-up the counted time is that of the schedule.
        let begin = self.result.counted_from_ns;
        let of_thread = |part: Part| {
            let seed = !self.plan.seed.wrapping_add(u64::from(part.number) << 32);
            times(Open::new(&schedule, self.plan.arrivals, part, begin, seed), begin + self.plan.duration.0)
        };
        let mut all: Vec<u64> = equal_parts(self.plan.threads).flat_map(of_thread).collect();
        all.sort_unstable();
        all
    }

    /// What holds on any machine: the engine's intended times are those of the schedule, no request left before its own, and
    /// the server saw each that was sent.
    fn check_intended(&self) -> Vec<u64> {
        let intended = self.intended_ns();
        let (result, arrivals) = (&self.result, &self.seen.arrivals_ns);
        assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
        assert_eq!(result.intended, intended.len() as u64, "the engine drew the same times");
        assert_eq!(result.sent, arrivals.len() as u64, "what was sent has arrived");
        // The k-th to arrive is no earlier than the k-th to be due, even if threads overtake each other.
        let early = arrivals.iter().zip(&intended).filter(|(arrival, due)| arrival < due).count();
        assert_eq!(early, 0, "of {} requests so many came before their time", arrivals.len());
        intended
    }

    /// Whether others were on the CPUs, so that nothing can be said of when requests were sent.
    fn was_disturbed(&self) -> bool {
        let of_generator = self.result.threads.iter().filter_map(|t| t.waited_us).fold(0.0, f64::max);
        let waited_us = of_generator.max(self.seen.waited_us);
        waited_us > WAITED_SHARE_MAX * self.plan.duration.0 as f64 / 1e3
    }
}

/// Chance that these times are a Poisson process of that rate since `begin`.
fn chance(begin: u64, times_ns: &[u64]) -> f64 {
    let since = std::iter::once(&begin).chain(times_ns);
    let gaps: Vec<f64> = since.zip(times_ns).map(|(from, to)| (to - from) as f64).collect();
    exponential(&gaps, 1e9 / RATE).unwrap().p_value
}

/// A second try, because a stranger may come by; none of both says why nothing is told.
fn judge(what: &str, sent: impl Fn(u64) -> Sent, fault: impl Fn(&Sent) -> Option<String>) {
    let mut told = Vec::new();
    for seed in [11, 12] {
        let sent = sent(seed);
        if sent.was_disturbed() {
            eprintln!("not tested: others were on the CPUs while {what} were sent");
            continue;
        }
        match fault(&sent) {
            None => return,
            Some(fault) => told.push(fault),
        }
    }
    assert!(told.len() < 2, "{what}: {told:?}");
}

#[test]
fn a_real_load_intends_a_poisson_process() {
    for (threads, seed) in [(1, 1), (2, 2)] {
        let sent = Sent::by(Arrivals::Poisson, threads, seed);
        let intended = sent.check_intended();
        let p = chance(sent.result.counted_from_ns, &intended);
        assert!(p > 0.001, "{threads} threads: p = {p}");
        let asked = RATE * DURATION.as_secs_f64();
        assert!((intended.len() as f64 - asked).abs() < 4.0 * asked.sqrt(), "{} of {asked}", intended.len());
    }
}

#[test]
fn poisson_arrivals_reach_the_server_as_such() {
    let fault = |sent: &Sent| {
        sent.check_intended();
        let p = chance(sent.result.counted_from_ns, &sent.seen.arrivals_ns);
        (p <= P_MIN).then(|| format!("{} arrivals: p = {p}", sent.seen.arrivals_ns.len()))
    };
    judge("Poisson arrivals", |seed| Sent::by(Arrivals::Poisson, 1, seed), fault);
    // The test can fail: even arrivals are no Poisson process.
    let even = Sent::by(Arrivals::Constant, 1, 1);
    assert!(chance(even.result.counted_from_ns, &even.seen.arrivals_ns) < P_MIN);
}

#[test]
fn even_arrivals_reach_the_server_at_the_asked_rate() {
    let fault = |sent: &Sent| {
        let intended = sent.check_intended();
        let asked = RATE * DURATION.as_secs_f64();
        assert!((intended.len() as f64 - asked).abs() <= 1.0, "{} of {asked}", intended.len());
        let (first, last) = (sent.seen.arrivals_ns.first()?, sent.seen.arrivals_ns.last()?);
        let per_s = (sent.seen.arrivals_ns.len() - 1) as f64 / ((last - first) as f64 / 1e9);
        ((per_s / RATE - 1.0).abs() > 0.001).then(|| format!("{per_s} per second"))
    };
    judge("even arrivals", |seed| Sent::by(Arrivals::Constant, 2, seed), fault);
}
