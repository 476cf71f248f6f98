//! What other tools do: bisect the rate, one trial each, and believe every trial.
//!
//! So search Nighthawk and mutilate. Invariant: it sees the same stacks, with the same noise, as the search it stands beside.

use prony_model::Rate;
use prony_stats::search::{Load, Options, Probe, Why};
use prony_stats::simulated::{Session, Stack};

/// Connections of the first trial, which finds the highest rate to begin with.
const CONNECTIONS: u32 = 64;
/// The bisection begins with this multiple of what that trial carried.
const TOP: f64 = 1.2;
/// A rate is carried when this share of it is answered.
const CARRIED: f64 = 0.99;

/// Where a bisection ended.
pub(super) struct Bisected {
    pub(super) low_per_s: f64,
    pub(super) high_per_s: f64,
    pub(super) trials: usize,
    pub(super) seconds: f64,
}

/// Bisects to the width of `options` with trials of its full length: for the objective, or for the highest rate carried.
pub(super) fn bisect(stack: Stack, options: Options, slo: bool, seed: u64) -> Bisected {
    let mut session = Session::new(stack, seed);
    let mut trial = |load: Load, seconds: f64| session.run(Probe { load, seconds, why: Why::Bracket, again: false });
    let first = trial(Load::Connections(CONNECTIONS), options.full_s);
    let seconds = if slo { options.open_full_s } else { options.full_s };
    let mut found = Bisected { low_per_s: 0.0, high_per_s: TOP * first.good_per_s, trials: 1, seconds: first.spent_s };
    while found.high_per_s - found.low_per_s > options.width * found.high_per_s {
        let rate = (found.low_per_s + found.high_per_s) / 2.0;
        let seen = trial(Load::Rate(Rate(rate)), seconds);
        let good = if slo { seen.good == Some(true) } else { seen.good_per_s >= CARRIED * rate };
        if good {
            found.low_per_s = rate;
        } else {
            found.high_per_s = rate;
        }
        found.trials += 1;
        found.seconds += seen.spent_s;
    }
    found
}
