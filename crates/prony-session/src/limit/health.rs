//! Is the server still there? After a trial without a single answer the search feels its pulse before it goes on.
//!
//! Invariant: a server that does not answer ends the search within a few seconds, whatever the budget.

use prony_model::limit::LimitVerdict;
use prony_model::{LoadPlan, Nanos, Trial};

/// Pulses without an answer after which the server is given up. A guess: with a second each, a restart has its time.
const SILENCES_MAX: u32 = 3;
/// Times that a server may stop answering and come back. One may be a deploy; a second one is a habit. A guess.
const RETURNS_MAX: u32 = 2;
/// Length of a pulse.
const PULSE: Nanos = Nanos(1_000_000_000);

/// What the search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    /// Go on.
    Fine,
    /// Feel the pulse first.
    Check,
    /// End: dead, or flapping.
    Gone(LimitVerdict),
}

/// What is known of the server's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Health {
    checking: bool,
    /// Whether coming back counts as flapping.
    counts: bool,
    silences: u32,
    returns: u32,
}

impl Health {
    /// A trial had no answer. `counts`: it was not meant to be too much.
    pub(super) fn check(&mut self, counts: bool) {
        (self.checking, self.counts, self.silences) = (true, counts, 0);
    }

    /// What looked like coming back was no absence: the same load has no answer again. It is felt for once more all the same.
    pub(super) fn excuse(&mut self) {
        self.returns = self.returns.saturating_sub(1);
        self.check(false);
    }

    /// A pulse was felt, or not.
    pub(super) fn felt(&mut self, alive: bool) {
        if alive {
            self.checking = false;
            self.returns += u32::from(self.counts);
        } else {
            self.silences += 1;
        }
    }

    pub(super) fn pulse(&self) -> Pulse {
        if self.silences >= SILENCES_MAX {
            Pulse::Gone(LimitVerdict::Died)
        } else if self.returns >= RETURNS_MAX {
            Pulse::Gone(LimitVerdict::Flapping)
        } else if self.checking {
            Pulse::Check
        } else {
            Pulse::Fine
        }
    }
}

/// Whether a trial had no answer although something was asked: a rate may be so low that nothing was.
pub(super) fn is_silent(trial: &Trial) -> bool {
    trial.result.completed == 0 && (!trial.plan.is_open_loop() || trial.result.intended > 0)
}

/// One connection for a second.
pub(super) fn pulse_plan(base: &LoadPlan) -> LoadPlan {
    LoadPlan { connections: 1, rate: None, profile: None, warmup: Nanos(0), duration: PULSE, ..base.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_stays_silent_is_dead() {
        let mut health = Health::default();
        assert_eq!(health.pulse(), Pulse::Fine);
        health.check(true);
        for _ in 0..SILENCES_MAX {
            assert_eq!(health.pulse(), Pulse::Check);
            health.felt(false);
        }
        assert_eq!(health.pulse(), Pulse::Gone(LimitVerdict::Died));
    }

    #[test]
    fn a_server_that_comes_and_goes_flaps() {
        let mut health = Health::default();
        health.check(false);
        health.felt(true);
        assert_eq!(health.pulse(), Pulse::Fine, "an overload is meant to hurt");
        for verdict in [Pulse::Fine, Pulse::Gone(LimitVerdict::Flapping)] {
            health.check(true);
            health.felt(false);
            assert_eq!(health.pulse(), Pulse::Check);
            health.felt(true);
            assert_eq!(health.pulse(), verdict);
        }
    }
}
