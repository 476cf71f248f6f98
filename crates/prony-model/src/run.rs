//! A run: everything recorded by one invocation.

use crate::diagnosis::{Diagnosis, Intervention};
use crate::gap::Gap;
use crate::knob::Change;
use crate::load::{LoadPlan, LoadResult};
use crate::proof::Proof;
use crate::series::SeriesSet;
use crate::stack::Stack;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A stretch of time in nanoseconds since the start of the run, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First moment.
    pub from_ns: u64,
    /// Last moment.
    pub to_ns: u64,
}

impl Window {
    /// Length in seconds.
    pub fn seconds(self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Where a load stands relative to the knee of the load curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// About half of what the stack carries: open loop, so that queues stay short.
    Below,
    /// The workload as the user wrote it. For a closed loop: the limit at that concurrency.
    At,
    /// Twice the connections (closed loop) or more than the limit (open loop).
    Beyond,
}

/// Which of two configurations a trial ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// As found.
    A,
    /// Changed: slowed in an intervention, the remedy in a proof.
    B,
}

/// Why a trial was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Purpose {
    /// Not scored: caches, connections, clocks.
    Warmup,
    /// One level of the load curve, observed.
    Level {
        /// Which.
        level: Level,
    },
    /// Not scored: close looks run meanwhile.
    Inspect,
    /// Half of a pair of an intervention.
    Intervention {
        /// Index into `Run::interventions`.
        index: u32,
        /// Which pair, from 0.
        pair: u32,
        /// Slowed or not.
        arm: Arm,
    },
    /// One trial of a proof.
    Proof {
        /// Block of the randomised order, from 0.
        block: u32,
        /// With or without the remedy.
        arm: Arm,
    },
    /// One trial of the load curve or of a limit search, at a given load.
    Curve,
    /// A plain load that a person asked for.
    Load,
}

/// One measured interval at one configuration and one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number within the run, from 0.
    pub id: u32,
    /// Why it was run.
    pub purpose: Purpose,
    /// What was sent.
    pub plan: LoadPlan,
    /// The counted time.
    pub window: Window,
    /// What came back.
    pub result: LoadResult,
}

/// What one host is: facts that do not change during a run, by name (`cpus`, `kernel`, `nginx.version`, `sysctl.net.core.somaxconn`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Host name in the stack.
    pub host: String,
    /// Facts in order of name.
    pub facts: BTreeMap<String, String>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum RunEnd {
    /// It has not, or it was killed.
    #[default]
    Open,
    /// To its end.
    Done,
    /// By the user.
    Interrupted,
    /// By an error.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// What observing and loading cost on one host at the operating point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCost {
    /// Share of one CPU that observing took; none when it could not be read.
    pub observe_cpu_share: Option<f64>,
    /// CPU time of the host's own processes per request, in microseconds; none when it could not be read.
    pub cpu_us_per_request: Option<f64>,
}

/// What prony itself cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the generator per request at the operating point, in microseconds.
    pub generator_cpu_us_per_request: f64,
    /// Per host.
    pub hosts: BTreeMap<String, HostCost>,
    /// Wall time of the whole run in seconds.
    pub wall_s: f64,
}

/// Everything recorded by one invocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Sortable id: start time and a random part, like `20261120-231501-7f3a`.
    pub id: String,
    /// Version of prony.
    pub version: String,
    /// The command line, as a person would repeat it.
    pub command: String,
    /// Wall clock at the start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The stack as it was understood.
    pub stack: Stack,
    /// What each host is.
    pub inventory: Vec<Inventory>,
    /// Every trial in order.
    pub trials: Vec<Trial>,
    /// Facts over time. Not part of the JSON form: it has a form of its own in the record.
    #[serde(skip)]
    pub series: SeriesSet,
    /// What could not be read.
    pub gaps: Vec<Gap>,
    /// Interventions with their elasticities.
    pub interventions: Vec<Intervention>,
    /// What holds the stack back.
    pub diagnosis: Option<Diagnosis>,
    /// Changes made, undone or kept.
    pub changes: Vec<Change>,
    /// Whether the remedy helped.
    pub proof: Option<Proof>,
    /// What prony itself cost.
    pub cost: Cost,
    /// How it ended.
    pub end: RunEnd,
}

impl Run {
    /// The last trial at a level.
    pub fn level(&self, level: Level) -> Option<&Trial> {
        self.trials.iter().rev().find(|t| t.purpose == Purpose::Level { level })
    }
}
