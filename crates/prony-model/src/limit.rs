//! What `prony limit` found: two answers with their intervals, the load curve, and how the stack bears overload.
//!
//! Words only: the search is in `prony-stats`, the session builds this. Invariant: what was not measured is none or an empty
//! list, and no number is infinite (JSON has no infinity).

use crate::threshold::Threshold;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a search for the limit ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitVerdict {
    /// Every question has its interval, as narrow as asked for.
    Found,
    /// There are intervals, but the budget ended before they were narrow enough.
    Wide,
    /// No load held the objective.
    NothingHolds,
    /// The generator was the limit: what is said of the stack is a lower bound.
    GeneratorLimited,
    /// Too many trials were not steady: this stack, or this machine, has no limit that could be told.
    Unsteady,
    /// The server stopped answering in mid-search and did not come back.
    Died,
    /// The server stopped answering and came back, again and again.
    Flapping,
    /// No request succeeded.
    NothingServed,
    /// The search did not come to its end.
    #[default]
    Open,
}

impl LimitVerdict {
    /// As it is written in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Wide => "wide",
            Self::NothingHolds => "nothing-holds",
            Self::GeneratorLimited => "generator-limited",
            Self::Unsteady => "unsteady",
            Self::Died => "died",
            Self::Flapping => "flapping",
            Self::NothingServed => "nothing-served",
            Self::Open => "open",
        }
    }
}

/// A load that was really put on the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestedLoad {
    /// Connections.
    pub connections: u32,
    /// Requests per second in open loop; none: closed loop.
    pub rate_per_s: Option<f64>,
}

/// One of the two answers, in good requests per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitAnswer {
    /// Lower end of the interval.
    pub low_per_s: f64,
    /// Best estimate.
    pub estimate_per_s: f64,
    /// Upper end.
    pub high_per_s: f64,
    /// Share of such searches whose interval holds the truth.
    pub confidence: f64,
    /// Where it was confirmed: saturation was carried there, or the objective held there. None when no tested load did.
    pub tested: Option<TestedLoad>,
    /// Whether the interval is as narrow as asked for.
    pub narrow: bool,
    /// The objective held as far as the stack carries anything: the answer is that of saturation.
    #[serde(default)]
    pub held_to_saturation: bool,
    /// Trials run for it, those left out among them.
    pub trials: u32,
    /// Seconds they took.
    pub seconds: f64,
}

/// Saturation at one speed of the machine: the mean of its speeds during the trials. On a shared machine that speed moves, and the plain
/// interval has to hold that too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AtOneSpeed {
    /// Lower end of the interval.
    pub low_per_s: f64,
    /// Best estimate.
    pub estimate_per_s: f64,
    /// Upper end.
    pub high_per_s: f64,
    /// What a piece of the yardstick's work takes at that speed, in microseconds of CPU time.
    pub piece_us: f64,
    /// By how much that moved between the trials: its standard deviation, as a share of it.
    pub moved: f64,
    /// Logarithm of the rate per logarithm of the time of a piece.
    pub slope: f64,
    /// Share of the spread of the trials (variance) that went with it.
    pub explained: f64,
}

/// One trial of the search, and what was known after it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitStep {
    /// Number of the trial.
    pub trial: u32,
    /// What it was for, in words.
    pub why: String,
    /// Whether it only chose where to try next: a rung of the ladder, or a short trial far from the border.
    pub chooses: bool,
    /// What was put on the stack.
    pub load: TestedLoad,
    /// Good requests per second.
    pub good_per_s: f64,
    /// Whether the objective held; none in closed loop.
    pub held: Option<bool>,
    /// Whether it counts: it was steady, and the generator was not the limit.
    pub counts: bool,
    /// Lower end of the interval of its answer after it: of saturation in closed loop, of the limit within the objective in open loop.
    /// None while there was no interval.
    pub low_per_s: Option<f64>,
    /// Upper end.
    pub high_per_s: Option<f64>,
}

/// All trials at one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// The load.
    pub load: TestedLoad,
    /// Trials that count.
    pub trials: u32,
    /// Good requests per second: the geometric mean of the trials.
    pub good_per_s: f64,
    /// Median latency of all their requests together, in microseconds; none when nothing was answered.
    pub p50_us: Option<f64>,
    /// See `p50_us`.
    pub p90_us: Option<f64>,
    /// See `p50_us`.
    pub p99_us: Option<f64>,
    /// See `p50_us`.
    pub p999_us: Option<f64>,
    /// Share of requests that failed.
    pub error_share: f64,
    /// CPU time per request of each host's own processes, in microseconds; hosts that could not be read are left out.
    pub cpu_us_per_request: BTreeMap<String, f64>,
    /// CPU time per request of the generator, in microseconds.
    pub generator_us_per_request: Option<f64>,
    /// Whether the generator was the limit in one of the trials.
    pub generator_limited: bool,
}

/// Where more connections stop bringing more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KneePoint {
    /// Connections at the knee.
    pub connections: f64,
    /// Good requests per second there.
    pub good_per_s: f64,
    /// Lower end of the 95 % interval of the connections; none when no load was tried twice.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// A number with its 95 % interval. An end that nothing bounds is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounded {
    /// The estimate; none: without bound.
    pub value: Option<f64>,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// The universal scalability law, fitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UslFit {
    /// What was varied: `connections` or `workers`.
    pub axis: String,
    /// Throughput of one, per second.
    pub lambda: Bounded,
    /// Serial share: queueing for one thing.
    pub sigma: Bounded,
    /// Crosstalk: the cost of every pair that must agree.
    pub kappa: Bounded,
    /// Where throughput is highest; no value when it only levels off.
    pub peak: Bounded,
    /// Largest value that was tried.
    pub tried_up_to: f64,
    /// Values beyond it, with the throughput per second there if nothing new appears.
    pub extrapolated: Vec<(f64, Bounded)>,
}

/// What a search over whole numbers found: the smallest value at which something begins to hold, or the largest at which it
/// still does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AxisAnswer {
    /// What was varied, like `path-size`.
    pub axis: String,
    /// What had to hold, as written.
    pub until: String,
    /// Whether it begins to hold as the value grows (else it ends).
    pub rising: bool,
    /// The value nearest to the border at which it held; none when it held nowhere.
    pub holds_at: Option<u64>,
    /// The value nearest to the border at which it did not hold; none when it held everywhere.
    pub fails_at: Option<u64>,
    /// Confidence that the border lies between the two: one less both chances that a fair coin falls as often on one side as
    /// the trials at that end did.
    pub confidence: f64,
    /// Trials at every value: value, trials in which it held, all that count, mean of what was measured.
    pub tried: Vec<AxisPoint>,
    /// What the condition measures, with its unit: `bandwidth in bit/s`.
    pub measured: String,
}

/// Trials at one value of an axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AxisPoint {
    /// The value.
    pub value: u64,
    /// Trials in which the condition held.
    pub held: u32,
    /// Trials that count.
    pub trials: u32,
    /// Mean of what was measured; none when it could not be.
    pub measured: Option<f64>,
    /// Good requests per second, geometric mean.
    pub good_per_s: f64,
    /// Whether the generator was the limit in at least half of them.
    pub generator_limited: bool,
}

/// The limit after an overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// Rate asked for, in open loop.
    pub rate_per_s: f64,
    /// Good requests per second while it was overloaded.
    pub carried_per_s: f64,
    /// Share of requests that failed then.
    pub error_share: f64,
    /// Good requests per second of each trial at the load of the limit afterwards.
    pub after_per_s: Vec<f64>,
    /// Lowest that one more trial at that load would have shown before (97.5 % of them show more).
    pub before_low_per_s: f64,
    /// Whether the stack carried less afterwards, in every trial: it does not come back by itself.
    pub metastable: bool,
}

/// A trial that is in no answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its number.
    pub trial: u32,
    /// Why.
    pub reason: String,
}

/// Everything that a search for the limit found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitReport {
    /// How it ended.
    pub verdict: LimitVerdict,
    /// Most good requests per second.
    pub saturation: Option<LimitAnswer>,
    /// The same at one speed of the machine; none where that hardly moved or was not measured.
    #[serde(default)]
    pub at_one_speed: Option<AtOneSpeed>,
    /// Most within the objective.
    pub within_slo: Option<LimitAnswer>,
    /// The objective; empty: none was given.
    pub slo: Vec<Threshold>,
    /// What of the objective breaks first.
    pub binding: Option<String>,
    /// Most that a trial carried in which the generator was the limit.
    pub at_least_per_s: Option<f64>,
    /// The load curve: closed loop by connections, then open loop by rate.
    pub curve: Vec<LoadPoint>,
    /// Where more connections stop bringing more; none is an answer.
    pub knee: Option<KneePoint>,
    /// How throughput grows with what was varied.
    pub usl: Option<UslFit>,
    /// Most connections that are stable; none when nobody asked.
    pub stable: Option<AxisAnswer>,
    /// The search over another axis; none when nobody asked.
    pub axis: Option<AxisAnswer>,
    /// The limit after an overload; none when it was not tried.
    pub overload: Option<Overload>,
    /// The trials of the search itself, in the order they ran: how it came to its answers.
    #[serde(default)]
    pub steps: Vec<LimitStep>,
    /// Trials of the search.
    pub trials: u32,
    /// Those of them that are in no answer.
    pub left_out: Vec<LeftOut>,
    /// Seconds that they took.
    pub spent_s: f64,
    /// Seconds that they were allowed to take.
    pub budget_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let report = LimitReport {
            verdict: LimitVerdict::NothingHolds,
            slo: vec!["p99<10ms".parse().unwrap()],
            usl: Some(UslFit { extrapolated: vec![(32.0, Bounded::default())], ..UslFit::default() }),
            ..LimitReport::default()
        };
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<LimitReport>(&text).unwrap(), report);
        assert!(text.contains(&format!("\"{}\"", report.verdict.word())));
    }
}
