//! Whether B is different from A: effect, interval, smallest detectable effect, guards.

use crate::knob::Knob;
use serde::{Deserialize, Serialize};

/// An effect of B against A on one metric: relative (0.12 is 12 % more).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// What was compared: `good_per_s`, `soonness_per_s`, `p99_us`, `error_share`, `cpu_us_per_request`.
    pub metric: String,
    /// Geometric mean of A.
    pub a: f64,
    /// Geometric mean of B.
    pub b: f64,
    /// Relative effect; at equal speed of the machine where `by_speed` says so. A and B are as they were seen.
    pub effect: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Smallest effect that this many trials would have found with 80 % power.
    pub detectable: f64,
    /// Two-sided p-value: of the exact sign permutation test for pairs, of Welch's t-test for trials without partners.
    pub p: f64,
    /// Pairs; for trials without partners, those of the smaller side.
    pub pairs: u32,
    /// Share of the spread between pairs that the machine's own speed explained, and that was taken out; none when it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_speed: Option<f64>,
}

/// What a proof concludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProofVerdict {
    /// Throughput is higher (at a rate that is carried: answers are faster), the interval excludes 0, and no guard is broken.
    Better,
    /// Throughput is lower, or answers are slower, the interval excludes 0.
    Worse,
    /// The same within d: the interval holds 0 and lies within the margin that matters; d is its farther end.
    NoDifference,
    /// Throughput is higher, or answers are faster, but a guard (p99, errors, CPU per request) got worse.
    GuardBroken,
    /// The interval is too wide to say.
    #[default]
    Inconclusive,
}

/// A guard metric: it may not get worse by more than its margin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// Effect on the guarded metric.
    pub effect: Effect,
    /// How much worse is still accepted (relative).
    pub margin: f64,
    /// Whether it surely held (upper end of the interval within the margin).
    pub held: bool,
    /// Whether it surely broke (lower end beyond the margin).
    pub broken: bool,
}

/// A proof by interleaved A/B trials in randomised blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// What B turned; none for an A/A run.
    pub knob: Option<Knob>,
    /// Conclusion.
    pub verdict: ProofVerdict,
    /// Effect on throughput; where a rate was asked and carried, on how soon requests are answered (1 / mean latency).
    pub effect: Effect,
    /// Guards.
    pub guards: Vec<Guard>,
    /// Gain that the diagnosis predicted before the proof.
    pub predicted_gain: Option<f64>,
    /// One sentence: what was proven, and how the prediction did.
    pub summary: String,
    /// Seed of the block order.
    pub seed: u64,
    /// What the verdict is worth on this machine; none in records of older versions.
    #[serde(default)]
    pub worth: Option<crate::comparison::Worth>,
    /// What the effect is of, of every trial in the order it ran: (arm, good requests or [`crate::LoadResult::soonness_per_s`] per second).
    pub trials: Vec<(crate::run::Arm, f64)>,
}
