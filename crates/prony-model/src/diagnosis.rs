//! What a diagnosis says: finding, evidence, what was excluded, what could not be seen.
//!
//! The JSON form is `prony.diagnosis/1`; its fields are part of the interface and only grow.

use crate::comparison::Difference;
use crate::gap::Gap;
use crate::knob::Knob;
use crate::limit::Bounded;
use crate::run::Cost;
use serde::{Deserialize, Serialize};

/// Schema name of the JSON form.
pub const SCHEMA: &str = "prony.diagnosis/1";

/// Name of a cause, like `upstream-keepalive-off`; `none` and `inconclusive` are verdicts without a cause.
pub type CauseId = String;

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A hint: one kind of evidence.
    #[default]
    Low,
    /// Evidence agrees, but no intervention was possible or its interval is wide.
    Medium,
    /// Structure, deviation, order in time and the response to an intervention agree.
    High,
}

/// Whether a piece of evidence speaks for or against a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceVerdict {
    /// Speaks for it.
    Supports,
    /// Speaks against it.
    Refutes,
}

/// One fact in a chain of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it shows, as a sentence.
    pub claim: String,
    /// Metric or derived quantity, like `tcp.active_opens / request`.
    pub metric: String,
    /// Host it was read on.
    pub host: String,
    /// Value at the level `at`.
    pub value: f64,
    /// Unit of value, baseline and threshold.
    pub unit: String,
    /// The same below the knee; none when it was not read there.
    pub baseline: Option<f64>,
    /// The border between for and against; none for plain facts.
    pub threshold: Option<f64>,
    /// Where the threshold comes from: a command, a citation, or `guess`.
    pub origin: String,
    /// For or against.
    pub verdict: EvidenceVerdict,
}

/// A cause that was checked and ruled out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excluded {
    /// Which cause.
    pub cause: CauseId,
    /// The fact that rules it out, with its figure.
    pub because: String,
}

/// A cause that the evidence allows, with the share of time or capacity that it explains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which cause.
    pub cause: CauseId,
    /// At which host.
    pub hop: String,
    /// Share of the limiting time or capacity it explains, 0 to 1.
    pub score: f64,
}

/// What an intervention does to its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum InterventionKind {
    /// CPU of a host's processes, by a quota with a short period.
    Cpu,
    /// Rate of what a host sends on an interface, in bits per second before the dose.
    LinkRate {
        /// Interface name inside the host.
        interface: String,
        /// What passes without the dose, in bits per second.
        from_bits_per_s: f64,
    },
    /// Connections of the closed loop: more of them, which relieves a stack that only waits.
    Concurrency,
    /// The rate that an open loop asks for: more of it, which a stack with room carries.
    Rate,
    /// The rate that an open loop asks for: less of it, which takes away what requests wait for each other.
    LowerRate,
    /// The suspect is removed by its remedy.
    Removal {
        /// What is turned.
        knob: Knob,
        /// What is turned with it: at siblings with the same fault, and other remedies that only help together. One alone would
        /// leave the stack to what is left.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<Knob>,
    },
    /// Clients keep their connections, which the workload does not ask for.
    KeepAlive,
    /// Nothing: the control of a removal, which no other host's resource is the measure for.
    Placebo,
}

impl InterventionKind {
    /// Whether the suspect is removed rather than made worse.
    pub fn is_removal(&self) -> bool {
        matches!(self, InterventionKind::Removal { .. } | InterventionKind::KeepAlive)
    }

    /// Whether it shows a relative gain instead of an elasticity: nothing was given a dose.
    pub fn shows_gain(&self) -> bool {
        self.is_removal() || *self == InterventionKind::Placebo
    }

    /// The knobs that a removal turns; none of other interventions.
    pub fn knobs(&self) -> Vec<&Knob> {
        match self {
            InterventionKind::Removal { knob, also } => std::iter::once(knob).chain(also).collect(),
            InterventionKind::Cpu
            | InterventionKind::LinkRate { .. }
            | InterventionKind::Concurrency
            | InterventionKind::Rate
            | InterventionKind::LowerRate
            | InterventionKind::KeepAlive
            | InterventionKind::Placebo => Vec::new(),
        }
    }
}

/// An intervention: planned with `pairs` = 0, then with what it showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intervention {
    /// Host that it is done to.
    pub target: String,
    /// What is done.
    #[serde(flatten)]
    pub what: InterventionKind,
    /// True for the negative control: nothing is expected to happen.
    pub control: bool,
    /// True for a further look at what throughput was seen to follow: its remedy for some trials, which tells the gain, or another
    /// dose, which draws the headroom curve. It decides nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub further: bool,
    /// True where the trials keep the rate that the workload asks for. Then it is not throughput that answers, but how soon a request
    /// is answered: 1 / mean latency.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_rate: bool,
    /// Share by which the resource is made worse, or the rate lowered (for concurrency and a higher rate: by which it is raised).
    pub dose: f64,
    /// Elasticity of throughput, for a lower rate of the mean latency; for a removal and a placebo: relative gain. None before it was
    /// done.
    pub elasticity: Option<f64>,
    /// Lower end of the 95 % interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// For a removal: relative change of the latency at p99; a wait of few requests shows there and not in throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Bounded>,
    /// The same at p99.9: a wait of one request in 500 does not show at p99.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<Bounded>,
    /// Pairs of trials.
    pub pairs: u32,
    /// Share of the spread between pairs that the machine's own speed explained, and that was taken out; none when it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_speed: Option<f64>,
}

impl Intervention {
    /// One that is still to be done.
    pub fn planned(target: &str, what: InterventionKind, control: bool, dose: f64) -> Self {
        let target = target.to_string();
        let (elasticity, low, high, p99, p999, by_speed) = (None, None, None, None, None, None);
        let (further, at_rate, pairs) = (false, false, 0);
        Self { target, what, control, further, at_rate, dose, elasticity, low, high, p99, p999, pairs, by_speed }
    }

    /// The same at the rate that the workload asks for.
    pub fn at_rate(self) -> Self {
        Self { at_rate: true, ..self }
    }
}

/// Relative change of the mean latency where requests are answered sooner by a relative gain.
pub fn latency_change(gain: f64) -> f64 {
    -gain / (1.0 + gain)
}

/// A relative gain as it is told: the change of throughput, or, at a rate that is carried, of the mean latency.
pub fn told_change(gain: f64, at_rate: bool) -> f64 {
    if at_rate { latency_change(gain) } else { gain }
}

/// The finding that stands, or `none`, or `inconclusive`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Cause id, `none` (headroom left) or `inconclusive`.
    pub cause: CauseId,
    /// Host; empty when there is none.
    pub hop: String,
    /// How sure.
    pub confidence: Confidence,
    /// Structure, deviation, order in time and the response to an intervention all agree.
    pub grounded: bool,
    /// True where the rate that was asked for is carried. Then shares are of the time that requests take, and gains of how soon they are
    /// answered: 1 / mean latency.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_rate: bool,
    /// Relative gain in throughput that the remedy is predicted to bring; none when it cannot be said.
    pub predicted_gain: Option<f64>,
    /// Lower end of its 95 % interval; none when no intervention told how far throughput follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_gain_low: Option<f64>,
    /// Upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_gain_high: Option<f64>,
    /// One sentence for a person: what limits, where, and by how much.
    pub summary: String,
    /// The four tests of grounding, each with what was seen.
    #[serde(default)]
    pub grounding: Vec<GroundingTest>,
}

/// One of the four tests that make a verdict grounded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroundingTest {
    /// `structure`, `deviation`, `order` or `response`.
    pub test: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was seen.
    pub detail: String,
}

/// A way to mend the cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remedy {
    /// What to do, as a sentence for a person.
    pub advice: String,
    /// The knob that does it, when prony can turn it.
    pub knob: Option<Knob>,
}

/// The answer to: what stops it?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Every cause that the evidence allows, the strongest first.
    pub candidates: Vec<Candidate>,
    /// The chain of evidence of the verdict.
    pub evidence: Vec<Evidence>,
    /// Causes that were ruled out.
    pub excluded: Vec<Excluded>,
    /// What was done to test it.
    pub interventions: Vec<Intervention>,
    /// What could not be seen.
    pub gaps: Vec<Gap>,
    /// Ways to mend it, the first being the one that `prony tune` applies.
    pub remedies: Vec<Remedy>,
    /// What prony itself cost.
    pub cost: Cost,
    /// The way from the symptom to the cause, step by step.
    #[serde(default)]
    pub walk: Vec<WalkStep>,
    /// What is not as in a good run; none when none was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
}

/// One step of the way from the symptom to the cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WalkStep {
    /// `symptom`, `path`, `time split`, `counters`, `closely` or `cause`.
    pub step: String,
    /// What was looked at.
    pub looked_at: String,
    /// What it said, a line each.
    pub said: Vec<String>,
    /// Causes that it ruled out; why stands under `excluded`.
    pub ruled_out: Vec<CauseId>,
}

/// The answer to: what differs from a good run of the same stack?
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// Id of the good run.
    pub run: String,
    /// Good requests per second there, at the workload as written.
    pub good_per_s: f64,
    /// Settings that are not the same: `a` in the good run, `b` now.
    pub settings: Vec<Difference>,
    /// Facts that moved, the greatest change first.
    pub moved: Vec<Moved>,
}

/// A fact that moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Which.
    pub metric: String,
    /// Of which host.
    pub host: String,
    /// Unit of both values.
    pub unit: String,
    /// Mean over the trials of this run.
    pub now: f64,
    /// Mean over those of the good run.
    pub good: f64,
    /// Relative change, lower end of its 95 % interval; none with fewer than three trials on a side.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}
