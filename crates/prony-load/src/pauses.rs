//! Pauses of the machine, as a thread sees them that never sleeps: the clock went on, and the thread did not.
//!
//! What the thread tells of a request that a pause met is not what users would see. This module finds those requests; it
//! changes no latency. Invariant: without `spin` it sees nothing, because a thread that sleeps cannot tell who kept it.

use prony_model::load;
use prony_stats::histogram::Histogram;

/// A look for work that took longer was interrupted: looking takes a microsecond. The time within which a percentile counts as
/// right in `cargo xtask bench truth`.
const IDLE_NS: u64 = 30_000;
/// The same for a look with a request sent or received, which takes 5 to 20 us over loopback, and 60 us with a connection
/// opened. A guess with room.
const AT_WORK_NS: u64 = 100_000;

/// Compares each look at the clock with the one before.
#[derive(Debug, Default)]
pub struct PauseWatch {
    /// The last look; 0 before the first.
    seen_at: u64,
    /// Whether nothing but looking for work happens until the next look.
    idle: bool,
    /// Whether there may be work left from a pause.
    behind: bool,
    /// Whether work between two looks may take long: a TLS handshake does.
    heavy: bool,
}

impl PauseWatch {
    /// Nothing seen yet.
    pub fn new(heavy: bool) -> Self {
        Self { heavy, ..Self::default() }
    }

    /// The clock was looked at. Gives the pause since the look before, in nanoseconds.
    #[inline]
    pub fn look(&mut self, now: u64) -> Option<u64> {
        let gap = now - if self.seen_at == 0 { now } else { self.seen_at };
        let idle = std::mem::take(&mut self.idle);
        self.seen_at = now;
        let paused = if idle { gap > IDLE_NS } else { !self.heavy && gap > AT_WORK_NS };
        self.behind |= paused;
        paused.then_some(gap)
    }

    /// Nothing will be done until the next look.
    #[inline]
    pub fn rest(&mut self) {
        self.idle = true;
    }

    /// There was no work left.
    #[inline]
    pub fn caught_up(&mut self) {
        self.behind = false;
    }

    /// Whether what is sent and received now may be late because of a pause.
    #[inline]
    pub fn behind(&self) -> bool {
        self.behind
    }
}

/// The pauses of one thread, or of all together, and what they met.
#[derive(Clone, Debug)]
pub struct Pauses {
    count: u64,
    total_ns: u64,
    longest_ns: u64,
    /// Latency of the requests that they met.
    met: Histogram,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { count: 0, total_ns: 0, longest_ns: 0, met: Histogram::new() }
    }
}

impl Pauses {
    /// A pause of this length.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }

    /// A pause met a request of this latency.
    pub fn met(&mut self, latency_ns: u64) {
        self.met.record_ns(latency_ns);
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns += other.total_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.met.merge(&other.met);
    }

    /// As it is told. `all`: the latency of all requests.
    pub fn told(&self, all: &Histogram) -> load::Pauses {
        let mut others = all.clone();
        others.subtract(&self.met);
        load::Pauses {
            count: self.count,
            total_us: self.total_ns as f64 / 1e3,
            longest_us: self.longest_ns as f64 / 1e3,
            requests: self.met.count(),
            latency_without: others.to_latency(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_pause_when_nothing_else_explains_it() {
        let mut watch = PauseWatch::new(false);
        assert_eq!(watch.look(1_000_000), None, "the first look has none before it");
        watch.rest();
        assert_eq!((watch.look(1_029_000), watch.behind()), (None, false));
        watch.rest();
        assert_eq!((watch.look(1_060_000), watch.behind()), (Some(31_000), true));
        assert_eq!(watch.look(1_120_000), None, "60 us of work");
        assert!(watch.behind(), "until there is no work left");
        watch.caught_up();
        assert!(!watch.behind());
        assert_eq!(watch.look(1_221_000), Some(101_000), "no work takes that long");
        let mut watch = PauseWatch::new(true);
        watch.look(1_000_000);
        assert_eq!(watch.look(2_000_000), None, "a handshake may");
    }

    #[test]
    fn what_is_left_is_what_no_pause_met() {
        let (mut all, mut pauses) = (Histogram::new(), Pauses::default());
        for ns in [5_000_000; 999].into_iter().chain([9_000_000]) {
            all.record_ns(ns);
        }
        let mut other = Pauses::default();
        other.add(4_000_000);
        other.met(9_000_000);
        pauses.add(50_000);
        pauses.merge(&other);
        let told = pauses.told(&all);
        assert_eq!((told.count, told.total_us, told.longest_us, told.requests), (2, 4050.0, 4000.0, 1));
        assert_eq!(told.latency_without.count, 999);
        assert!(told.latency_without.max_us < 5_010.0, "{:?}", told.latency_without);
    }
}
