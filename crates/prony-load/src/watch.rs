//! How a load goes while it runs: from what its threads have counted so far to what happened since the last look.
//!
//! It asks and adds; it stops nothing. Invariant: nothing is told twice and nothing is left out, so that the intervals of a
//! load add up to its result.

use crate::engine::Outcome;
use crate::live::{Durations, Published, Snapshot};
use crate::sys;
use prony_model::load::{LoadInterval, LoadPlan, LoadProgress};
use prony_model::{ErrorCounts, Nanos};
use prony_stats::histogram::Histogram;

/// Intervals end at whole seconds, as every tool's line per second.
const INTERVAL: Nanos = Nanos(1_000_000_000);

/// Watches one load.
pub struct Watch {
    epoch_ns: u64,
    warmup: Nanos,
    total: Nanos,
    scheduled: bool,
    /// Since the last look.
    times: Durations,
    /// CPU of each thread at the last look: when, and how much it had used in microseconds.
    cpu: Vec<(u64, f64)>,
    intervals: Option<Intervals>,
}

/// Counts over all threads since the counted time began.
#[derive(Clone, Copy, Default)]
struct Totals {
    intended: u64,
    sent: u64,
    completed: u64,
    errors: ErrorCounts,
}

/// The stretches told so far, and where the last one ended.
#[derive(Default)]
struct Intervals {
    /// The counted time as planned.
    duration: Nanos,
    told: Vec<LoadInterval>,
    end: Nanos,
    seen: Totals,
    looked: Nanos,
    /// Since the last one ended.
    latency: Histogram,
}

impl Watch {
    /// Watches a load that begins at `epoch_ns`.
    pub fn new(plan: &LoadPlan, epoch_ns: u64) -> Self {
        Self {
            epoch_ns,
            warmup: plan.warmup,
            total: Nanos(plan.warmup.0 + plan.duration.0),
            scheduled: plan.is_open_loop(),
            times: Durations::default(),
            cpu: Vec::new(),
            intervals: plan.intervals.then(|| Intervals { duration: plan.duration, ..Intervals::default() }),
        }
    }

    /// Takes in what the threads told since the last look, and tells it if somebody listens.
    pub fn look(&mut self, published: &[Published], tell: Option<&(dyn Fn(LoadProgress) + Sync)>) {
        self.times.clear();
        let told: Vec<Snapshot> = published.iter().filter_map(|p| p.look(&mut self.times)).collect();
        let mut totals = Totals::default();
        told.iter().for_each(|snapshot| totals.add_snapshot(snapshot));
        let at_ns = told.iter().map(|s| s.at_ns).max().unwrap_or_else(sys::clock_ns);
        if let Some(intervals) = self.intervals.as_mut().filter(|_| !told.is_empty()) {
            let at = Nanos(at_ns.saturating_sub(self.epoch_ns + self.warmup.0));
            intervals.see(at, totals, &self.times.latency);
        }
        let Some(tell) = tell else { return };
        let elapsed = Nanos(at_ns.saturating_sub(self.epoch_ns)).min(self.total);
        let lag = &self.times.lag;
        tell(LoadProgress {
            elapsed,
            total: self.total,
            warming_up: elapsed < self.warmup,
            intended: totals.intended,
            sent: totals.sent,
            completed: totals.completed,
            in_flight: told.iter().map(|s| s.in_flight).sum(),
            connections: told.iter().map(|s| s.connections).sum(),
            errors: totals.errors,
            latency: self.times.latency.to_latency(),
            lag_us_p99: (self.scheduled && lag.count() > 0).then(|| lag.quantile_us(0.99)),
            cpu: self.cpu_shares(&told),
        });
    }

    /// The intervals of the load, the last one ended by what the threads brought, who have all ended.
    pub fn into_intervals(mut self, published: &[Published], outcomes: &[Outcome]) -> Vec<LoadInterval> {
        let Some(mut intervals) = self.intervals else { return Vec::new() };
        self.times.clear();
        let rest = &mut self.times;
        for published in published {
            published.look(rest);
        }
        let mut totals = Totals::default();
        for outcome in outcomes {
            totals.add_outcome(outcome);
            rest.latency.merge(if self.scheduled { &outcome.tally.latency } else { &outcome.tally.latency_actual });
        }
        let length = outcomes.iter().map(|o| o.tally.counted.end_ns - o.tally.counted.start_ns).max().unwrap_or(0);
        intervals.latency.merge(&rest.latency);
        intervals.end_at(Nanos(length), totals);
        intervals.told
    }

    fn cpu_shares(&mut self, told: &[Snapshot]) -> Vec<f64> {
        let now: Vec<(u64, f64)> = told.iter().map(|s| (s.at_ns, s.cpu_us)).collect();
        let before = std::mem::replace(&mut self.cpu, now);
        let share = |((from, used_0), (to, used)): (&(u64, f64), &(u64, f64))| {
            let wall_us = to.saturating_sub(*from) as f64 / 1e3;
            if wall_us > 0.0 { (used - used_0).max(0.0) / wall_us } else { 0.0 }
        };
        before.iter().zip(&self.cpu).map(share).collect()
    }
}

impl Totals {
    fn add_snapshot(&mut self, snapshot: &Snapshot) {
        self.intended += snapshot.intended;
        self.sent += snapshot.sent;
        self.completed += snapshot.completed;
        self.errors.add(&snapshot.errors);
    }

    fn add_outcome(&mut self, outcome: &Outcome) {
        let tally = &outcome.tally;
        self.intended += tally.intended;
        self.sent += tally.sent;
        self.completed += tally.completed;
        self.errors.add(&tally.errors);
    }
}

impl Intervals {
    /// Ends an interval at `at` (since the counted time began), if no other look will be nearer to the next whole second. The last
    /// interval is left to the end of the load. `latency` is that since the last call.
    fn see(&mut self, at: Nanos, totals: Totals, latency: &Histogram) {
        self.latency.merge(latency);
        let ended = (self.end.0 + INTERVAL.0 / 2) / INTERVAL.0;
        let next = (ended + 1) * INTERVAL.0;
        let looked = std::mem::replace(&mut self.looked, at);
        let halfway_to_the_next_look = at.0 + at.0.saturating_sub(looked.0) / 2;
        if next <= halfway_to_the_next_look && halfway_to_the_next_look < self.duration.0 {
            self.end_at(at, totals);
        }
    }

    /// Ends an interval at `at`, unless nothing of it would be left.
    fn end_at(&mut self, at: Nanos, totals: Totals) {
        if at <= self.end {
            return;
        }
        let seen = std::mem::replace(&mut self.seen, totals);
        self.told.push(LoadInterval {
            from: self.end,
            to: at,
            intended: totals.intended - seen.intended,
            sent: totals.sent - seen.sent,
            completed: totals.completed - seen.completed,
            failed: totals.errors.total() - seen.errors.total(),
            latency: self.latency.to_latency(),
        });
        self.latency.clear();
        self.end = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_add_up_and_hold_only_their_own_latency() {
        let totals = |completed| Totals { completed, sent: completed, intended: completed, ..Totals::default() };
        let mut intervals = Intervals { duration: Nanos::from_millis(1500), ..Intervals::default() };
        for (ms, completed, latency_ns) in [(500, 5, 1_000_000), (1100, 12, 2_000_000), (1400, 20, 9_000_000)] {
            let mut latency = Histogram::new();
            latency.record_ns(latency_ns);
            intervals.see(Nanos::from_millis(ms), totals(completed), &latency);
        }
        intervals.end_at(Nanos::from_millis(1500), totals(20));
        let told: Vec<(u64, u64, u64)> = intervals.told.iter().map(|i| (i.from.0, i.to.0, i.completed)).collect();
        assert_eq!(told, [(0, 1_100_000_000, 12), (1_100_000_000, 1_500_000_000, 8)]);
        assert_eq!(intervals.told.iter().map(|i| i.latency.count).collect::<Vec<_>>(), [2, 1]);
        assert!((intervals.told[1].latency.max_us - 9000.0).abs() < 20.0, "{}", intervals.told[1].latency.max_us);
    }

    #[test]
    fn intervals_end_at_the_look_nearest_to_each_whole_second() {
        let ends = |looks_ms: &[u64]| {
            let mut intervals = Intervals { duration: Nanos::from_millis(5000), ..Intervals::default() };
            for ms in looks_ms {
                intervals.see(Nanos::from_millis(*ms), Totals::default(), &Histogram::new());
            }
            intervals.end_at(Nanos::from_millis(5000), Totals::default());
            intervals.told.iter().map(|interval| interval.to.0 / 1_000_000).collect::<Vec<_>>()
        };
        let short_of_it = ends(&[490, 980, 1475, 1970, 2465, 2960, 3460, 3960, 4460, 4960]);
        assert_eq!(short_of_it, [980, 1970, 2960, 3960, 5000], "the rest is no line of its own");
        assert_eq!(ends(&[510, 1020, 1530, 2040, 2550, 3060, 3570, 4080, 4590]), [1020, 2040, 3060, 4080, 5000]);
        assert_eq!(ends(&[500, 1000, 2700, 3200, 3700, 4200, 4700]), [1000, 2700, 4200, 5000], "a look came late");
    }
}
