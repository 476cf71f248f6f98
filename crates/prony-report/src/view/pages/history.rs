//! The history of a stack: one line per load and metric, and the runs at which it changed.
//!
//! Where it changed was found in `prony-stats`. Invariant: a series without a change is there too.

use super::super::series::ChartUnit;
use crate::typed::view;
use crate::{history, names};
use prony_model::comparison::{ComparedMetric, History, HistorySeries};

view! {
    /// Where the figures of many runs change.
    pub struct HistoryView {
        /// Runs that were read.
        pub runs: u32,
        /// One for each load and metric.
        pub series: Vec<HistoryLine>,
        /// What was left out, and how changes are found.
        pub notes: Vec<String>,
    }

    /// One metric at one load over many runs.
    pub struct HistoryLine {
        /// Stack and load, in words.
        pub label: String,
        /// `rps`, `p50`, `p99`, `errors` or `cpu`.
        pub metric: String,
        /// What it is called.
        pub title: String,
        /// Unit of the values.
        pub unit: ChartUnit,
        /// Runs in order of time.
        pub runs: Vec<String>,
        /// A value for each of them.
        pub values: Vec<f64>,
        /// Where it changed.
        pub changes: Vec<HistoryStep>,
    }

    /// A run from which on a metric is another.
    pub struct HistoryStep {
        /// Id of the first run after the change.
        pub run: String,
        /// Its place in the line, from 0.
        pub index: u32,
        /// Mean before.
        pub from: f64,
        /// Mean after.
        pub to: f64,
        /// What changed, in words.
        pub text: String,
        /// Whether it is for the worse.
        pub worse: bool,
    }
}

impl HistoryView {
    /// What a page shows of a history.
    pub fn of(history: &History) -> Self {
        let (runs, notes) = (history.runs, history.notes.clone());
        Self { runs, series: history.series.iter().map(line).collect(), notes }
    }
}

fn line(series: &HistorySeries) -> HistoryLine {
    let steps = series.changes.iter().map(|change| HistoryStep {
        run: change.run.clone(),
        index: change.index,
        from: change.from,
        to: change.to,
        text: history::words(series, change),
        worse: change.worse,
    });
    HistoryLine {
        label: series.label.clone(),
        metric: series.metric.name().to_string(),
        title: names::compared(series.metric),
        unit: unit(series.metric),
        runs: series.runs.clone(),
        values: series.values.clone(),
        changes: steps.collect(),
    }
}

fn unit(metric: ComparedMetric) -> ChartUnit {
    match metric {
        ComparedMetric::Rps => ChartUnit::PerSecond,
        ComparedMetric::P50 | ComparedMetric::P99 | ComparedMetric::Cpu => ChartUnit::Micros,
        ComparedMetric::Errors => ChartUnit::Share,
    }
}
