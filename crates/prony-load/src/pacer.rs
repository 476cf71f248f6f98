//! When requests begin: at once when a connection is free (closed loop), or on a schedule (open loop).
//!
//! It reads no clock and holds no queue. Invariant: the schedule of an open loop does not depend on the answers. Requests that
//! wait for a connection take no memory: the schedule is simply drawn later, with the same intended times.

use prony_model::Arrivals;
use prony_stats::random::Random;

/// Decides when requests begin. Times are nanoseconds on the monotonic clock.
pub trait Pacer {
    /// Whether requests follow a schedule, so that intended and actual times differ.
    const SCHEDULED: bool;

    /// Takes the next request if it may begin at `now`: its intended time.
    fn take(&mut self, now: u64) -> Option<u64>;

    /// When the next request may begin, for a connection that is free.
    fn next(&self) -> u64;
}

/// Closed loop: a request begins as soon as a connection is free.
pub struct Closed;

impl Pacer for Closed {
    const SCHEDULED: bool = false;

    #[inline]
    fn take(&mut self, now: u64) -> Option<u64> {
        Some(now)
    }

    #[inline]
    fn next(&self) -> u64 {
        0
    }
}

/// Open loop: requests begin at their times, whatever the answers do.
pub struct Open {
    epoch_ns: u64,
    /// Time of the next arrival since `epoch_ns`. A float counts nanoseconds exactly for 100 days.
    next_ns: f64,
    gap_ns: f64,
    /// Number of evenly spaced arrivals so far: multiplied, not summed, so that no error builds up.
    arrivals: u64,
    offset_ns: f64,
    random: Option<Random>,
}

impl Open {
    /// One thread's part of the schedule: `per_s` arrivals per second from `epoch_ns` on. `phase` (0 to 1) shifts evenly
    /// spaced arrivals by that part of a gap, so that the threads together are evenly spaced too. Independent
    /// streams of several threads add up to a Poisson stream by themselves.
    pub fn new(arrivals: Arrivals, per_s: f64, epoch_ns: u64, phase: f64, seed: u64) -> Self {
        let gap_ns = 1e9 / per_s;
        let mut open = Self { epoch_ns, next_ns: 0.0, gap_ns, arrivals: 0, offset_ns: phase * gap_ns, random: None };
        match arrivals {
            Arrivals::Constant => open.next_ns = open.offset_ns,
            Arrivals::Poisson => {
                open.random = Some(Random::new(seed));
                open.advance();
            }
        }
        open
    }

    #[inline]
    fn advance(&mut self) {
        self.arrivals += 1;
        match &mut self.random {
            None => self.next_ns = self.offset_ns + self.arrivals as f64 * self.gap_ns,
            Some(random) => self.next_ns += random.exponential(self.gap_ns),
        }
    }
}

impl Pacer for Open {
    const SCHEDULED: bool = true;

    #[inline]
    fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next();
        if due > now {
            return None;
        }
        self.advance();
        Some(due)
    }

    #[inline]
    fn next(&self) -> u64 {
        self.epoch_ns + self.next_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn times(mut pacer: Open, until: u64) -> Vec<u64> {
        std::iter::from_fn(|| pacer.take(until)).collect()
    }

    #[test]
    fn constant_arrivals_are_even_over_all_threads() {
        let part = |phase| times(Open::new(Arrivals::Constant, 500.0, SECOND, phase, 1), 2 * SECOND - 1);
        let mut all = [part(0.0), part(0.5)].concat();
        all.sort_unstable();
        assert_eq!(all.len(), 1000);
        assert_eq!((all[0], all[1] - all[0], all[999] - all[998]), (SECOND, 1_000_000, 1_000_000));
    }

    #[test]
    fn an_awkward_rate_does_not_drift() {
        let all = times(Open::new(Arrivals::Constant, 70_001.0, 0, 0.0, 1), 100 * SECOND - 1);
        assert_eq!(all.len(), 7_000_100);
    }

    #[test]
    fn the_schedule_does_not_depend_on_when_it_is_asked() {
        let mut late = Open::new(Arrivals::Poisson, 1000.0, 0, 0.0, 7);
        let mut prompt = Open::new(Arrivals::Poisson, 1000.0, 0, 0.0, 7);
        for _ in 0..1000 {
            let due = prompt.next();
            assert_eq!(prompt.take(due.saturating_sub(1)), None, "not before its time");
            assert_eq!(prompt.take(due), late.take(SECOND * 60));
        }
    }

    /// Gaps of a Poisson process are exponential: Kolmogorov-Smirnov distance below its 0.1 % critical value 1.95 / sqrt(n)
    /// (Massey 1951), a count within 4 sigma, and no correlation of one gap with the next.
    #[test]
    fn poisson_gaps_are_exponential_and_independent() {
        let rate = 10_000.0;
        let all = times(Open::new(Arrivals::Poisson, rate, 0, 0.0, 42), 10 * SECOND);
        let count = all.len() as f64;
        assert!((count - 100_000.0).abs() < 4.0 * 100_000f64.sqrt(), "{count}");
        let gaps: Vec<f64> = all.windows(2).map(|w| (w[1] - w[0]) as f64 * rate / 1e9).collect();
        let mut sorted = gaps.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let distance = sorted.iter().enumerate().map(|(i, x)| ((1.0 - (-x).exp()) - (i as f64 + 0.5) / n).abs());
        assert!(distance.fold(0.0, f64::max) < 1.95 / n.sqrt());
        let lagged: f64 = gaps.windows(2).map(|w| (w[0] - 1.0) * (w[1] - 1.0)).sum::<f64>() / n;
        assert!(lagged.abs() < 4.0 / n.sqrt(), "correlation {lagged}");
    }
}
