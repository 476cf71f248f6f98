//! What an experiment found: each cell as it was seen, the table, effects and interactions, and what became of what was expected.
//!
//! Words only: the arithmetic is in `prony-stats`. Invariant: what was not measured is none, never 0.

use super::{Claim, Experiment};
use crate::load::ErrorCounts;
use crate::proof::Effect;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema name of the JSON form; fields only get added.
pub const SCHEMA: &str = "prony.experiment/1";

/// One cell in one repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellSeen {
    /// Number of the cell; the number of cells stands for the placebo.
    pub cell: u32,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// What was asked for; none when it could not be found.
    pub value: Option<f64>,
    /// Lower end of the interval of a search; none: a single trial has none.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Why there is no value, or why to doubt it; empty: nothing against it.
    pub note: String,
    /// Whether the generator was the limit: then the value is a lower bound.
    pub generator_limited: bool,
    /// What the load and the hosts showed; of a search, in the trial that carried the most.
    pub load: Option<CellLoad>,
}

/// What the load and the hosts showed in a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellLoad {
    /// Good requests per second.
    pub good_per_s: f64,
    /// Bits of answers per second.
    pub bits_per_s: f64,
    /// Responses, whatever their status.
    pub completed: u64,
    /// Errors by kind.
    pub errors: ErrorCounts,
    /// Share of requests that failed.
    pub error_share: f64,
    /// Latency as a histogram (HdrHistogram V2, base64): percentiles of several trials come from merging.
    pub hdr_v2: String,
    /// 99th percentile of this trial, in microseconds.
    pub p99_us: f64,
    /// Each serving host.
    pub hosts: BTreeMap<String, HostSeen>,
    /// What the CPUs of each host ran, when the experiment asks for a profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hot: BTreeMap<String, HotSeen>,
}

/// What the CPUs of a host ran, sampled under the load of a cell but not in its scored trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotSeen {
    /// Samples of the host's own work.
    pub samples: u64,
    /// Share of them within functions by which the kernel waits for a lock.
    pub locks: f64,
    /// The functions that most samples stood in, the hottest first.
    pub functions: Vec<HotFunction>,
}

/// A function that samples stood in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotFunction {
    /// Its name.
    pub function: String,
    /// Share of the samples that stood in it, calls from it left out.
    pub share: f64,
    /// The most frequent way to it: the process, then calls from the outermost on, itself last.
    pub path: Vec<String>,
}

/// A host during a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSeen {
    /// CPUs that its own processes used.
    pub cpus: Option<f64>,
    /// CPU time of its own processes per request, in microseconds.
    pub cpu_us_per_request: Option<f64>,
    /// Share of its CPUs' time in user code.
    pub user: Option<f64>,
    /// In the kernel, interrupts left out.
    pub system: Option<f64>,
    /// In hard and soft interrupts.
    pub interrupts: Option<f64>,
    /// Idle.
    pub idle: Option<f64>,
}

/// A number with its 95 % interval, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The estimate.
    pub value: f64,
    /// Lower end; none with fewer than three repeats.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// A line of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellRow {
    /// The cell in words.
    pub label: String,
    /// The level of each factor.
    pub levels: Vec<String>,
    /// Whether it is the first cell again.
    pub placebo: bool,
    /// What was asked for: the geometric mean over the repeats.
    pub value: Option<Seen>,
    /// Whether the generator was the limit in at least half of the repeats: then the value is a lower bound.
    pub at_least: bool,
    /// Bits of answers per second.
    pub bits_per_s: Option<f64>,
    /// Median latency of all requests together, in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of all requests together, in microseconds.
    pub p99_us: Option<f64>,
    /// Share of requests that failed.
    pub error_share: Option<f64>,
    /// Each serving host: means over the repeats.
    pub hosts: BTreeMap<String, HostSeen>,
    /// What the CPUs of each host ran: samples summed, shares as means over the repeats.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hot: BTreeMap<String, HotSeen>,
    /// Repeats with a value.
    pub repeats: u32,
    /// Repeats with a note.
    pub doubtful: u32,
    /// Why it cannot run on this machine; none: nothing is known against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

/// What an effect allows to be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// More, for sure.
    More,
    /// Less, for sure.
    Less,
    /// No effect larger than d, which is a result.
    None,
    /// The interval is too wide to say.
    #[default]
    Open,
}

/// What one level does against another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FactorEffect {
    /// Name of the factor; `row` in a design by rows.
    pub factor: String,
    /// Level before.
    pub from: String,
    /// Level after.
    pub to: String,
    /// The effect on the value, over the repeats; none with fewer than three.
    pub effect: Option<Effect>,
    /// p, corrected by Holm for the other effects and interactions.
    pub p_holm: f64,
    /// What may be said.
    pub side: Side,
    /// No effect is larger than this: the farther end of the interval.
    pub within: f64,
    /// Pairs of cells that differ in nothing else.
    pub pairs_of_cells: u32,
}

/// By how much the effect of one factor depends on another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interaction {
    /// Name and level of the one.
    pub one: (String, String),
    /// Name and level of the other.
    pub other: (String, String),
    /// Ratio of the ratios, less one: what the first brings with the second, against what it brings without.
    pub effect: Option<Effect>,
    /// p, corrected by Holm.
    pub p_holm: f64,
    /// What may be said.
    pub side: Side,
    /// No interaction is larger than this.
    pub within: f64,
}

/// The first cell against itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Placebo {
    /// The effect of nothing.
    pub effect: Effect,
    /// Whether this machine sees an effect where there is none.
    pub alarm: bool,
}

/// What became of an expectation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allowed {
    /// The whole interval agrees.
    AsExpected,
    /// The whole interval disagrees.
    NotAsExpected,
    /// The interval allows both, or there is none.
    #[default]
    Open,
}

/// An expectation, held against the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// As it was written.
    pub claim: Claim,
    /// What became of it.
    pub allowed: Allowed,
    /// Expected: in a sentence.
    pub expected: String,
    /// Observed: in a sentence.
    pub observed: String,
    /// Why, as far as the figures say it.
    pub why: String,
}

/// Everything that an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was planned.
    pub experiment: Experiment,
    /// Seed of the order.
    pub seed: u64,
    /// What it ran on.
    pub stack: String,
    /// The host whose CPUs the table shows.
    pub entry: Option<String>,
    /// What a value is, with its unit.
    pub unit: String,
    /// The table, the placebo last.
    pub cells: Vec<CellRow>,
    /// Each level against the first of its factor.
    pub effects: Vec<FactorEffect>,
    /// Of a full design.
    pub interactions: Vec<Interaction>,
    /// The first cell against itself; none when nobody asked, or with fewer than three repeats.
    pub placebo: Option<Placebo>,
    /// What became of what was expected.
    pub claims: Vec<ClaimResult>,
    /// What was observed, a sentence each.
    pub observed: Vec<String>,
    /// What to know besides, a sentence each.
    pub notes: Vec<String>,
    /// Cells that ran, of all.
    pub done: (u32, u32),
}

impl ExperimentResult {
    /// Whether every cell ran.
    pub fn is_complete(&self) -> bool {
        self.done.0 == self.done.1
    }
}
