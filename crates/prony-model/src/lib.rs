//! The vocabulary of prony: every word of the domain is a type here, and every unit is in a type or in a name.
//!
//! This crate does no IO and reads no clock. It parses text that others have read, and it never decides anything.
//! Invariant: a fact that could not be read is a [`Gap`] with a reason, never 0 and never -1.

pub mod cgroup;
pub mod comparison;
pub mod cpus;
pub mod diagnosis;
pub mod event;
pub mod experiment;
pub mod gap;
pub mod input;
pub mod knob;
pub mod lab;
pub mod limit;
pub mod line_format;
pub mod load;
pub mod metric;
pub mod network;
pub mod profile;
pub mod proof;
pub mod run;
pub mod script;
pub mod series;
pub mod stack;
pub mod stacks;
pub mod threshold;
pub mod tls;
pub mod units;
pub mod utc;
pub mod vary;

pub use cpus::CpuList;
pub use diagnosis::{
    Candidate, CauseId, Confidence, Diagnosis, Evidence, EvidenceVerdict, Excluded, Intervention, InterventionKind,
    Verdict,
};
pub use event::Event;
pub use experiment::Experiment;
pub use gap::Gap;
pub use input::InputError;
pub use knob::{Change, Knob, KnobId, NginxDirective};
pub use limit::{LimitReport, LimitVerdict};
pub use load::{
    Arrivals, ErrorCounts, Latency, LoadInterval, LoadPlan, LoadProgress, LoadResult, Protocol, RequestSpec,
};
pub use metric::{Metric, MetricKind, Unit};
pub use proof::{Effect, Proof, ProofVerdict};
pub use run::{Level, Purpose, Run, RunEnd, Trial, Window};
pub use series::{Sample, SeriesKey, SeriesSet};
pub use stack::{Host, Place, ProcessRef, Role, Software, Stack, Workload};
pub use stacks::Stacks;
pub use threshold::{Threshold, ThresholdResult};
pub use units::{BitRate, Bytes, Nanos, Rate, Share};
pub use utc::Utc;
pub use vary::{Axis, Until, Vary};
