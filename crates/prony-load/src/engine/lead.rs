//! How long before a request is due its thread must wake up.
//!
//! A thread that sleeps until the moment is late by what waking takes: the timer, the interrupt, a CPU that leaves its rest. So it
//! sleeps for less, and looks again and again for the rest. It reads no clock. Invariant: that rest is at most a quarter of the time.

/// It is in time so many times in one that it is late: the 95th percentile of what waking takes. A guess: what is rarer are pauses
/// of the machine, for which no thread can wake early enough.
const IN_TIME: u64 = 19;
/// How much one late wake-up moves the lead; one in time moves it back by a part of that. A guess: from 30 to 60 us in ten of them.
const STEP_NS: u64 = 3_000;
/// Before the first wake-up. Measured on virtual machines of AMD and Intel: 15 to 20 us in the median, 36 to 45 us at p99.
const FIRST_NS: u64 = 30_000;
/// A CPU in its deepest rest needs some 130 us to wake (`/sys/devices/system/cpu/cpu0/cpuidle/state*/latency`, Intel Xeon).
const MOST_NS: u64 = 150_000;
/// Requests are further apart than so many leads, or it is not worth it.
const APART: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Lead {
    ns: u64,
    /// Whether requests are far enough apart.
    wanted: bool,
    /// When the requests were counted, and how many were left to begin.
    counted: Option<(u64, u64)>,
}

impl Default for Lead {
    fn default() -> Self {
        Self { ns: FIRST_NS, wanted: false, counted: None }
    }
}

impl Lead {
    /// How long to sleep where the next request is due in so long; 0: not at all.
    #[inline]
    pub(super) fn sleep_ns(&self, due_in_ns: u64) -> u64 {
        if self.wanted { due_in_ns.saturating_sub(self.ns) } else { due_in_ns }
    }

    /// A sleep ended, so long after it was to end.
    #[inline]
    pub(super) fn woke(&mut self, late_ns: u64) {
        // A walk that is as often driven up as down where one in twenty is later (Robbins, Monro 1951, "A stochastic
        // approximation method", Ann. Math. Statist. 22).
        self.ns = if late_ns > self.ns { self.ns + STEP_NS } else { self.ns - (STEP_NS / IN_TIME).min(self.ns) };
        self.ns = self.ns.min(MOST_NS);
    }

    /// Called now and then: `left` requests are still to begin.
    pub(super) fn look(&mut self, now: u64, left: u64) {
        if let Some((at, before)) = self.counted {
            let begun = before.saturating_sub(left);
            self.wanted = begun * APART * self.ns <= now.saturating_sub(at);
        }
        self.counted = Some((now, left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many requests in 10 ms.
    fn lead(begun: u64) -> Lead {
        let mut lead = Lead::default();
        lead.look(1_000_000, u64::MAX);
        lead.look(11_000_000, u64::MAX - begun);
        lead
    }

    #[test]
    fn a_thread_with_time_wakes_early_and_a_busy_one_does_not() {
        let lead_ns = FIRST_NS;
        let rare = 10_000_000 / (APART * lead_ns);
        assert_eq!(lead(rare).sleep_ns(1_000_000), 1_000_000 - lead_ns);
        assert_eq!(lead(rare).sleep_ns(lead_ns), 0, "looks again and again");
        assert_eq!(lead(rare + 1).sleep_ns(1_000_000), 1_000_000);
        assert_eq!(lead(0).sleep_ns(1_000_000), 1_000_000 - lead_ns);
        assert_eq!(Lead::default().sleep_ns(1_000_000), 1_000_000, "nothing was counted yet");
    }

    #[test]
    fn the_lead_is_what_nearly_all_wake_ups_take() {
        let mut lead = lead(0);
        // Late by 0 to 100 us, evenly: 95 us are enough in 95 of 100.
        let mut leads = Vec::new();
        for n in 0..20_000u64 {
            lead.woke(n * 61 % 101 * 1000);
            leads.push(lead.ns);
        }
        leads.drain(..10_000);
        let mean = leads.iter().sum::<u64>() / leads.len() as u64;
        assert!((88_000..102_000).contains(&mean), "{mean}");
        (0..1000).for_each(|_| lead.woke(1_000_000));
        assert_eq!(lead.ns, MOST_NS);
        (0..100_000).for_each(|_| lead.woke(0));
        assert_eq!(lead.ns, 0);
    }
}
