//! How often a dear reader runs: at most at its period, and less often when it turns out to be dear. Reads no clock.

/// A dear reader may take this share of one CPU. From the target that observing costs at most 1 % of throughput, for
/// five hosts on one machine: a walk over the kernel's table of sockets takes 0.45 ms on a machine with 24 GB, however
/// few there are (thread CPU time, development build), so it runs about four times per second.
const CPU_SHARE_MAX: f64 = 0.002;
/// However dear, a reader runs this often, so that every trial sees it.
const PERIOD_MAX_NS: u64 = 5_000_000_000;

/// Decides when a reader is due.
#[derive(Clone, Debug)]
pub(crate) struct Cadence {
    period_ns: u64,
    next_ns: Option<u64>,
}

impl Cadence {
    /// Every `period_ns`; 0 for every sample.
    pub(crate) fn every(period_ns: u64) -> Self {
        Self { period_ns, next_ns: None }
    }

    /// Whether the reader is due. The first time it always is.
    pub(crate) fn due(&self, at_ns: u64) -> bool {
        self.next_ns.is_none_or(|next| at_ns >= next)
    }

    /// Notes that it ran and took that much CPU time. Gives the time until the next run in nanoseconds.
    pub(crate) fn ran(&mut self, at_ns: u64, cpu_ns: u64) -> u64 {
        let affordable = (cpu_ns as f64 / CPU_SHARE_MAX) as u64;
        let wait = self.period_ns.max(affordable.min(PERIOD_MAX_NS));
        // Samples come a little early or late; a tenth of the period must not cost a whole sample.
        self.next_ns = Some(at_ns.saturating_add(wait - wait / 10));
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_reader_runs_less_often() {
        let mut cadence = Cadence::every(0);
        assert!(cadence.due(0));
        assert_eq!(cadence.ran(0, 1_000_000), 500_000_000);
        assert!(!cadence.due(400_000_000));
        assert!(cadence.due(500_000_000));
        assert_eq!(cadence.ran(0, 1_000_000_000), PERIOD_MAX_NS);
        assert_eq!(Cadence::every(1_000_000_000).ran(0, 10), 1_000_000_000);
    }
}
