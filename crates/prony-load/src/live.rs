//! What a thread tells while it runs, and what it used: for a live screen and for the account of the generator's cost.
//!
//! It decides nothing. Invariant: a thread is asked at most once per look, and one that is not asked does no work for it.

use crate::sys;
use crate::tally::{Counted, Tally};
use prony_model::ErrorCounts;
use prony_model::load::ThreadUse;
use prony_stats::histogram::Histogram;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a thread has counted so far.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// See [`Tally`].
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
    /// Latency since the start; from the intended time if there is one.
    pub latency: Histogram,
    /// Schedule lag since the start; empty in closed loop.
    pub lag: Histogram,
    /// CPU time of the thread since it started, in microseconds.
    pub cpu_us: f64,
}

/// Where a thread leaves what it counted, when somebody asks.
#[derive(Debug, Default)]
pub struct Published {
    asked: AtomicBool,
    latest: Mutex<Option<Box<Snapshot>>>,
}

impl Published {
    /// Asks the thread to tell; it does within some milliseconds.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// What the thread told last; none: nothing yet.
    pub fn latest(&self) -> Option<Box<Snapshot>> {
        self.latest.lock().map(|told| told.clone()).unwrap_or_default()
    }

    /// Tells, if asked. `scheduled`: requests had intended times.
    pub fn tell(&self, tally: &Tally, scheduled: bool, in_flight: u64, connections: u64) {
        if !self.asked.swap(false, Ordering::Relaxed) {
            return;
        }
        let (user_us, system_us) = sys::thread_cpu_us();
        let snapshot = Snapshot {
            at_ns: sys::clock_ns(),
            intended: tally.intended,
            sent: tally.sent,
            completed: tally.completed,
            in_flight,
            connections,
            errors: tally.errors,
            latency: if scheduled { tally.latency.clone() } else { tally.latency_actual.clone() },
            lag: tally.lag.clone(),
            cpu_us: user_us + system_us,
        };
        if let Ok(mut latest) = self.latest.lock() {
            *latest = Some(Box::new(snapshot));
        }
    }
}

/// CPU time of the calling thread between the edges of the counted time.
#[derive(Default)]
pub struct Usage {
    first: Option<(u64, f64, f64)>,
    last: Option<(u64, f64, f64)>,
}

impl Usage {
    /// Called now and then: notes the first moment of the counted time.
    pub fn see(&mut self, now: u64, counted: Counted) {
        if self.first.is_none() && now >= counted.start_ns {
            let (user, system) = sys::thread_cpu_us();
            self.first = Some((now, user, system));
        }
    }

    /// The counted time is over.
    pub fn end(&mut self, now: u64) {
        let (user, system) = sys::thread_cpu_us();
        self.last = Some((now, user, system));
    }

    /// What was used in between; nothing if the counted time never began.
    pub fn total(&self) -> ThreadUse {
        match (self.first, self.last) {
            (Some((from, user_0, system_0)), Some((to, user_1, system_1))) => ThreadUse {
                user_us: user_1 - user_0,
                system_us: system_1 - system_0,
                wall_us: to.saturating_sub(from) as f64 / 1e3,
            },
            (None, _) | (_, None) => ThreadUse::default(),
        }
    }
}
