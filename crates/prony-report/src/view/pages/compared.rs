//! Several runs beside each other: their load curves for one drawing, and each held against the first.
//!
//! The comparison itself comes from `prony-stats`. Invariant: a run that cannot be compared says why, and is still drawn.

use super::super::flames::{FlameView, flames};
use super::super::{Figure, LatencyCurve, ReportData, Tone, finite, proof};
use crate::typed::view;
use crate::{comparison, names};
use prony_model::Run;
use prony_model::comparison::{ChangeInterval, Comparison, MetricChange};
use prony_stats::compare::NothingInCommon;

view! {
    /// Several runs beside each other.
    pub struct ComparedView {
        /// The runs; the first is what the others are held against.
        pub runs: Vec<ComparedRun>,
        /// Each of the others against the first.
        pub against: Vec<RunAgainst>,
    }

    /// A run among others.
    pub struct ComparedRun {
        /// Id of the run.
        pub id: String,
        /// The stack: its name, or its entry.
        pub stack: String,
        /// Start, in UTC.
        pub started: String,
        /// The result in one sentence.
        pub sentence: String,
        /// Key figures.
        pub figures: Vec<Figure>,
        /// What it carried at which latency.
        pub loads: Vec<CarriedLoad>,
        /// The latency distribution at the operating point; none when no request was timed.
        pub latency: Option<LatencyCurve>,
    }

    /// A load that a run carried.
    pub struct CarriedLoad {
        /// The load in words.
        pub load: String,
        /// Whether requests arrived at a rate of their own.
        pub open_loop: bool,
        /// Good requests per second.
        pub good_per_s: f64,
        /// Median latency.
        pub p50_us: f64,
        /// 99th percentile.
        pub p99_us: f64,
    }

    /// A run against the first.
    pub struct RunAgainst {
        /// Id of the run.
        pub run: String,
        /// What was found, or why nothing could be compared.
        pub summary: String,
        /// How it is meant.
        pub tone: Tone,
        /// What the verdict is worth, and why; empty when nothing could be compared.
        pub worth: String,
        /// How that is meant.
        pub worth_tone: Tone,
        /// Metric by metric.
        pub changes: Vec<MetricChangeView>,
        /// What else differs between the two.
        pub differences: Vec<String>,
        /// What to know besides.
        pub notes: Vec<String>,
        /// CPU profiles of the hosts that were sampled in both runs, held against the first.
        pub flames: Vec<FlameView>,
    }

    /// How one metric differs.
    pub struct MetricChangeView {
        /// `rps`, `p50`, `p99`, `errors` or `cpu`.
        pub metric: String,
        /// What it is called.
        pub title: String,
        /// Of the first run, as text.
        pub a_text: String,
        /// Of this run.
        pub b_text: String,
        /// Relative change; none for a share, which changes by points.
        pub change: Option<f64>,
        /// Lower end of the 95 % interval.
        pub low: Option<f64>,
        /// Upper end.
        pub high: Option<f64>,
        /// Change and interval as text.
        pub text: String,
        /// Smallest change that would have been found, as text; empty without an interval.
        pub detectable: String,
        /// Trials on both sides, as text.
        pub trials: String,
        /// The verdict in words.
        pub verdict: String,
        /// How it is meant.
        pub tone: Tone,
    }
}

impl ComparedView {
    /// Nothing yet but the run that the others are held against.
    pub fn of(first: &Run) -> Self {
        Self { runs: vec![run_of(first)], against: Vec::new() }
    }

    /// Adds a run, with what was found against the first.
    pub fn add(&mut self, first: &Run, run: &Run, found: &Result<Comparison, NothingInCommon>) {
        self.runs.push(run_of(run));
        let mut flames = flames(run, Some(first));
        flames.retain(|flame| flame.before.is_some());
        self.against.push(match found {
            Ok(comparison) => RunAgainst { flames, ..against(run, comparison) },
            Err(nothing) => RunAgainst {
                flames,
                run: run.id.clone(),
                summary: nothing.to_string(),
                tone: Tone::Warn,
                worth: String::new(),
                worth_tone: Tone::Plain,
                changes: Vec::new(),
                differences: Vec::new(),
                notes: Vec::new(),
            },
        });
    }
}

fn run_of(run: &Run) -> ComparedRun {
    let data = ReportData::of(run);
    ComparedRun {
        id: run.id.clone(),
        stack: run.stack.title().to_string(),
        started: data.run.started.clone(),
        sentence: data.headline.sentence.clone(),
        figures: data.headline.figures.clone(),
        loads: loads(&data),
        latency: data.latency.into_iter().find(|curve| curve.kind == "at"),
    }
}

/// The curve of a search for the limit where there is one, else that of the diagnosis; loads that lack a figure are left out.
fn loads(data: &ReportData) -> Vec<CarriedLoad> {
    let carried = |load: &str, open_loop: bool, good: Option<f64>, p50: Option<f64>, p99: Option<f64>| {
        Some(CarriedLoad { load: load.to_string(), open_loop, good_per_s: good?, p50_us: p50?, p99_us: p99? })
    };
    match &data.limit {
        Some(limit) if !limit.curve.is_empty() => {
            let points = limit.curve.iter();
            points.filter_map(|p| carried(&p.load, p.rate_per_s.is_some(), p.good_per_s, p.p50_us, p.p99_us)).collect()
        }
        Some(_) | None => {
            let points = data.curve.iter();
            points.filter_map(|p| carried(&p.label, p.rate_per_s.is_some(), p.good_per_s, p.p50_us, p.p99_us)).collect()
        }
    }
}

fn against(run: &Run, comparison: &Comparison) -> RunAgainst {
    let answer = comparison.answers.first();
    RunAgainst {
        run: run.id.clone(),
        summary: answer.map(|answer| answer.summary.clone()).unwrap_or_default(),
        tone: answer.map_or(Tone::Plain, |answer| proof::tone(answer.verdict)),
        worth: format!("{}: {}", names::strength(comparison.strength), comparison.strength_reason),
        worth_tone: proof::strength_tone(comparison.strength),
        changes: answer.iter().flat_map(|answer| &answer.metrics).map(change).collect(),
        differences: comparison.differences.iter().map(comparison::difference).collect(),
        notes: comparison.notes.clone(),
        flames: Vec::new(),
    }
}

fn change(m: &MetricChange) -> MetricChangeView {
    let relative = |value: f64| if m.metric.is_ratio() { finite(value) } else { None };
    let detectable =
        |i: &ChangeInterval| comparison::written(m.metric, i.detectable).trim_start_matches('+').to_string();
    MetricChangeView {
        metric: m.metric.name().to_string(),
        title: names::compared(m.metric),
        a_text: comparison::value(m.metric, m.a),
        b_text: comparison::value(m.metric, m.b),
        change: relative(m.change),
        low: m.interval.and_then(|i| relative(i.low)),
        high: m.interval.and_then(|i| relative(i.high)),
        text: comparison::change(m),
        detectable: m.interval.as_ref().map(detectable).unwrap_or_default(),
        trials: format!("{} and {}", m.trials_a, m.trials_b),
        verdict: comparison::verdict(m),
        tone: proof::tone(m.verdict),
    }
}
