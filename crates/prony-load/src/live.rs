//! What a thread tells while it runs, and what it used: for a live screen and for the account of the generator's cost.
//!
//! It decides nothing. Invariant: a thread is asked at most once per look, and one that is not asked does no work for it.

use crate::sys;
use crate::tally::{Counted, Tally};
use prony_model::ErrorCounts;
use prony_model::load::ThreadUse;
use prony_stats::histogram::Histogram;
use std::fs::File;
use std::io::Read as _;
use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Room for three numbers of 64 bits and the spaces between them.
const SCHEDSTAT_BYTES: usize = 64;
/// A look for work that finds none takes a microsecond. One that took longer was interrupted, and the rest was not spent by
/// this thread. A guess.
const LOOK_NS_MAX: u64 = 5_000;

/// What a thread has counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// Requests of the counted time that were due by then, begun or not.
    pub intended: u64,
    /// See [`Tally`].
    pub sent: u64,
    /// See [`Tally`].
    pub completed: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Connections open now.
    pub connections: u64,
    /// See [`Tally`].
    pub errors: ErrorCounts,
    /// CPU time of the thread since it started, without that of looking again and again for want of work, in microseconds.
    pub cpu_us: f64,
}

/// What a thread adds to its counts when it tells.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Requests of the counted time that were due by now, begun or not.
    pub intended: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Connections open.
    pub connections: u64,
    /// CPU time of looking again and again for want of work, in microseconds.
    pub spun_us: f64,
}

/// Latencies and schedule lags of some time.
#[derive(Debug, Default)]
pub struct Durations {
    /// Latency; from the intended time if there is one.
    pub latency: Histogram,
    /// Schedule lag; empty in closed loop.
    pub lag: Histogram,
}

impl Durations {
    /// Adds those of another time.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.lag.merge(&other.lag);
    }

    /// Forgets all and keeps the memory.
    pub fn clear(&mut self) {
        self.latency.clear();
        self.lag.clear();
    }
}

/// Where a thread leaves what it counted, when somebody asks.
///
/// The histograms change hands: the thread gives away its full ones for empty ones. A copy would hold up the requests that
/// are due meanwhile; measured with `examples/load.rs` at 150,000/s, copies four times per second brought the schedule lag
/// at p99 from 18 us to 200 us.
#[derive(Debug, Default)]
pub struct Published {
    asked: AtomicBool,
    told: Mutex<Told>,
}

/// What a thread told.
#[derive(Debug, Default)]
struct Told {
    /// None: nothing yet.
    snapshot: Option<Snapshot>,
    /// Since the last look.
    fresh: Durations,
    /// Before the last look.
    seen: Durations,
}

impl Published {
    /// Asks the thread to tell; it does within some milliseconds.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// What the thread told last, and its times since the last look, which are added to `times`. None: nothing yet.
    pub fn look(&self, times: &mut Durations) -> Option<Snapshot> {
        let mut told = self.told.lock().ok()?;
        let Told { snapshot, fresh, seen } = &mut *told;
        times.merge(fresh);
        seen.merge(fresh);
        fresh.clear();
        *snapshot
    }

    /// Tells, if asked, what `now` gives. `scheduled`: requests had intended times.
    pub fn tell(&self, tally: &mut Tally, scheduled: bool, now: impl FnOnce(&Tally) -> Now) {
        if !self.asked.swap(false, Ordering::Relaxed) {
            return;
        }
        let Ok(mut told) = self.told.try_lock() else { return self.ask() };
        let (user_us, system_us) = sys::thread_cpu_us();
        let Now { intended, in_flight, connections, spun_us } = now(tally);
        told.snapshot = Some(Snapshot {
            at_ns: sys::clock_ns(),
            intended,
            sent: tally.sent,
            completed: tally.completed,
            in_flight,
            connections,
            errors: tally.errors,
            cpu_us: (user_us + system_us - spun_us).max(0.0),
        });
        // Should nobody have looked since, the thread goes on with what it told then: nothing is lost.
        mem::swap(&mut told.fresh.latency, tally.latency_told(scheduled));
        mem::swap(&mut told.fresh.lag, &mut tally.lag);
    }

    /// Gives a tally back what its thread has told.
    pub fn give_back(&self, tally: &mut Tally, scheduled: bool) {
        let Told { fresh, seen, .. } = self.told.lock().map(|mut told| mem::take(&mut *told)).unwrap_or_default();
        for times in [fresh, seen] {
            tally.latency_told(scheduled).merge(&times.latency);
            tally.lag.merge(&times.lag);
        }
    }
}

/// CPU time of the calling thread between the edges of the counted time.
#[derive(Default)]
pub struct Usage {
    first: Option<Reading>,
    last: Option<Reading>,
    spun_ns: u64,
}

/// What the calling thread has used since it started.
#[derive(Clone, Copy)]
struct Reading {
    at_ns: u64,
    user_us: f64,
    system_us: f64,
    waited_us: Option<f64>,
    spun_us: f64,
}

impl Usage {
    /// So much time went by in looking again and again while there was nothing to do.
    #[inline]
    pub fn spin(&mut self, ns: u64) {
        self.spun_ns += ns.min(LOOK_NS_MAX);
    }

    /// See [`Usage::spin`]; since the thread started, in microseconds.
    pub fn spun_us(&self) -> f64 {
        self.spun_ns as f64 / 1e3
    }

    /// Called now and then: notes the first moment of the counted time.
    pub fn see(&mut self, now: u64, counted: Counted) {
        if self.first.is_none() && now >= counted.start_ns {
            self.first = Some(self.reading(now));
        }
    }

    /// The counted time is over.
    pub fn end(&mut self, now: u64) {
        self.last = Some(self.reading(now));
    }

    /// What was used in between; nothing if the counted time never began.
    pub fn total(&self) -> ThreadUse {
        match (self.first, self.last) {
            (Some(first), Some(last)) => ThreadUse {
                user_us: last.user_us - first.user_us,
                system_us: last.system_us - first.system_us,
                wall_us: last.at_ns.saturating_sub(first.at_ns) as f64 / 1e3,
                waited_us: last.waited_us.zip(first.waited_us).map(|(last, first)| last - first),
                // Measured by the clock, so the machine's own interrupts are in it, which no thread is charged with.
                spun_us: (last.spun_us - first.spun_us)
                    .min(last.user_us + last.system_us - first.user_us - first.system_us),
            },
            (None, _) | (_, None) => ThreadUse::default(),
        }
    }

    fn reading(&self, now: u64) -> Reading {
        let (user_us, system_us) = sys::thread_cpu_us();
        Reading { at_ns: now, user_us, system_us, waited_us: waited_us(), spun_us: self.spun_us() }
    }
}

/// How long the calling thread was ready to run and did not, since it started, in microseconds; none: the kernel does not tell.
/// Allocates nothing.
pub fn waited_us() -> Option<f64> {
    let mut bytes = [0; SCHEDSTAT_BYTES];
    let count = File::open("/proc/thread-self/schedstat").ok()?.read(&mut bytes).ok()?;
    waited_us_in(std::str::from_utf8(&bytes[..count]).ok()?)
}

/// Three numbers: nanoseconds run, nanoseconds waited for a CPU, and how often it ran (Documentation/scheduler/sched-stats.rst).
fn waited_us_in(schedstat: &str) -> Option<f64> {
    let waited_ns: u64 = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    Some(waited_ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_told_once_and_given_back() {
        let (published, mut times) = (Published::default(), Durations::default());
        let mut tally = Tally::new(Counted { start_ns: 0, end_ns: 1000 });
        let record = |tally: &mut Tally, ns: u64| {
            tally.latency.record_ns(ns);
            tally.lag.record_ns(ns);
        };
        assert!(published.look(&mut times).is_none(), "nothing was told");
        record(&mut tally, 1_000_000);
        published.tell(&mut tally, true, |_| Now::default());
        assert_eq!(tally.latency.count(), 1, "nobody asked");
        let mut looks = Vec::new();
        for ns in [2_000_000, 3_000_000, 4_000_000] {
            published.ask();
            published.tell(&mut tally, true, |_| Now::default());
            record(&mut tally, ns);
            if ns != 3_000_000 {
                times.clear();
                assert!(published.look(&mut times).is_some());
                looks.push((times.latency.count(), times.lag.count()));
            }
        }
        // The second telling found the first looked at; the third found the second not looked at, and went on with it.
        assert_eq!(looks, [(1, 1), (1, 1)]);
        published.give_back(&mut tally, true);
        assert_eq!((tally.latency.count(), tally.lag.count()), (4, 4));
        assert!((tally.latency.max_us() - 4000.0).abs() < 10.0);
        assert_eq!(tally.latency_actual.count(), 0);
    }

    #[test]
    fn the_second_number_is_the_wait() {
        assert_eq!(waited_us_in("91890 44237 2\n"), Some(44.237));
        assert_eq!(waited_us_in("91890\n"), None);
        assert_eq!(waited_us_in(""), None);
    }

    #[test]
    fn use_is_what_lies_between_the_edges() {
        let at = |at_ns, user_us, waited_us| {
            Some(Reading { at_ns, user_us, system_us: 2.0 * user_us, waited_us, spun_us: user_us - 4.0 })
        };
        let usage = Usage { first: at(1000, 5.0, Some(7.0)), last: at(31_000, 9.0, Some(17.0)), spun_ns: 0 };
        let want = ThreadUse { user_us: 4.0, system_us: 8.0, wall_us: 30.0, waited_us: Some(10.0), spun_us: 4.0 };
        assert_eq!(usage.total(), want);
        assert!((want.busy_share() - 18.0 / 30.0).abs() < 1e-12, "spinning is no work");
        let unread = Usage { first: at(1000, 5.0, None), ..usage };
        assert_eq!(unread.total().waited_us, None, "half a reading is none");
        assert_eq!(Usage { first: None, ..usage }.total(), ThreadUse::default());
    }
}
