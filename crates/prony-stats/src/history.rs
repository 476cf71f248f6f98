//! Where the figures of many runs change: one series per stack, load and metric, one number per run.
//!
//! How a change is found stands in `change_points`. Invariant: a series holds only runs of one stack and one load.

use crate::change_points::{CHANGE_MIN, ChangePoint, P_MAX, Search, WINDOW, change_points};
use crate::loads::{LoadGroup, groups};
use crate::prove::ERROR_SHARE_MARGIN;
use prony_model::Run;
use prony_model::comparison::{ComparedMetric, History, HistoryChange, HistorySeries, SCHEMA};

/// Fewer runs are no series: with 3 and 3 values a t-test reaches p = 0.001 at a step of 7.0 standard deviations, with 4 and 4
/// at 4.2 (quantiles of Student's t with 4 and 6 degrees of freedom: 8.61 and 5.96). A guess at where looking makes sense.
pub const RUNS_MIN: usize = 6;

/// What a history keeps of a run.
#[derive(Clone, Debug)]
pub struct PastRun {
    id: String,
    started_unix_ms: u64,
    stack: String,
    loads: Vec<LoadGroup>,
}

impl PastRun {
    /// The figures of a run, without its series.
    pub fn of(run: &Run) -> Self {
        let (id, started_unix_ms) = (run.id.clone(), run.started_unix_ms);
        Self { id, started_unix_ms, stack: run.stack.title().to_string(), loads: groups(run) }
    }
}

/// The history of these runs. `notes` say what was left out before; the series may be none.
pub fn history(runs: Vec<PastRun>, mut notes: Vec<String>) -> History {
    let read = runs.len() as u32;
    let (series, short) = series(runs);
    if short > 0 {
        notes.push(format!("{short} loads stand in fewer than {RUNS_MIN} runs and were left out"));
    }
    notes.push(
        "E-divisive with a t-test at p < 0.001 over windows of 50 runs; changes below 5 % (errors: 0.1 points) are not told. Runs \
         are taken as independent, so a slow drift may show as a step"
            .to_string(),
    );
    History { schema: SCHEMA.to_string(), mode: "history".to_string(), runs: read, series, notes }
}

/// Runs of one stack that have one load; never empty.
type Members<'a> = Vec<(&'a PastRun, &'a LoadGroup)>;

/// Every series of at least [`RUNS_MIN`] runs, with its change points, and how many were too short.
fn series(mut runs: Vec<PastRun>) -> (Vec<HistorySeries>, usize) {
    runs.sort_by(|a, b| (a.started_unix_ms, &a.id).cmp(&(b.started_unix_ms, &b.id)));
    let mut known: Vec<Members<'_>> = Vec::new();
    for (run, load) in runs.iter().flat_map(|run| run.loads.iter().map(move |load| (run, load))) {
        match known.iter_mut().find(|members| members[0].0.stack == run.stack && members[0].1.matches(load)) {
            Some(members) => members.push((run, load)),
            None => known.push(vec![(run, load)]),
        }
    }
    let all = known.len();
    known.retain(|members| members.len() >= RUNS_MIN);
    let short = all - known.len();
    let of_metric = |members: &Members<'_>, metric| {
        let values: Vec<(&PastRun, f64)> =
            members.iter().filter_map(|(run, load)| Some((*run, load.mean(metric)?))).collect();
        (values.len() >= RUNS_MIN).then(|| one(metric, &members[0], &values))
    };
    let found = known
        .iter()
        .flat_map(|members| ComparedMetric::ALL.into_iter().filter_map(move |metric| of_metric(members, metric)));
    (found.collect(), short)
}

fn one(metric: ComparedMetric, first: &(&PastRun, &LoadGroup), runs: &[(&PastRun, f64)]) -> HistorySeries {
    let values: Vec<f64> = runs.iter().map(|(_, value)| *value).collect();
    // Ratios become differences of logarithms; a share may be 0 and is taken as it is.
    let (scaled, change_min) = if metric.is_ratio() {
        (values.iter().map(|v| v.ln()).collect(), CHANGE_MIN.ln_1p())
    } else {
        (values.clone(), ERROR_SHARE_MARGIN)
    };
    let search = Search { window: WINDOW, p_max: P_MAX, change_min };
    let changes = change_points(&scaled, &search).into_iter().map(|point| change(metric, &point, runs[point.index].0));
    HistorySeries {
        label: format!("{}: {}", first.0.stack, first.1.label()),
        metric,
        runs: runs.iter().map(|(run, _)| run.id.clone()).collect(),
        values,
        changes: changes.collect(),
    }
}

fn change(metric: ComparedMetric, point: &ChangePoint, run: &PastRun) -> HistoryChange {
    let (from, to, change) = if metric.is_ratio() {
        (point.from.exp(), point.to.exp(), (point.to - point.from).exp_m1())
    } else {
        (point.from, point.to, point.to - point.from)
    };
    HistoryChange {
        run: run.id.clone(),
        index: point.index as u32,
        started_unix_ms: run.started_unix_ms,
        from,
        to,
        change,
        p: point.p,
        worse: (change > 0.0) != metric.more_is_better(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use prony_model::{LoadPlan, LoadResult, Purpose, Stack, Trial, Window};

    /// Runs of one trial each; from `at` on they are slower by a tenth.
    fn history(n: u64, at: u64) -> Vec<PastRun> {
        let run = |i: u64| {
            let good_per_s = Random::new(i).normal(9.0, 0.01).exp() * if i < at { 1.0 } else { 0.9 };
            let result = LoadResult { good_per_s, completed: 10_000, ..LoadResult::default() };
            let (plan, window) = (LoadPlan::to("http://a/"), Window::default());
            let trials = vec![Trial { id: 0, purpose: Purpose::Load, plan, window, result }];
            let stack = Stack { name: "shop".into(), ..Stack::default() };
            PastRun::of(&Run { id: format!("run-{i:03}"), started_unix_ms: i, stack, trials, ..Run::default() })
        };
        (0..n).map(run).collect()
    }

    #[test]
    fn the_run_that_is_slower_is_named_whatever_the_order_of_files() {
        let mut runs = history(30, 18);
        Random::new(3).shuffle(&mut runs);
        let (series, short) = series(runs);
        assert_eq!(short, 0);
        let rps = &series[0];
        assert_eq!(
            (rps.label.as_str(), rps.metric, rps.runs.len()),
            ("shop: load, 1 connections", ComparedMetric::Rps, 30)
        );
        assert_eq!(rps.changes.len(), 1);
        let change = &rps.changes[0];
        assert_eq!((change.run.as_str(), change.index, change.worse), ("run-018", 18, true));
        assert!((change.change + 0.1).abs() < 0.02 && change.to < change.from, "{change:?}");
        assert_eq!(series.len(), 2, "rps and errors; there were no latencies and no CPU");
        assert_eq!(series[1].changes, []);
    }

    #[test]
    fn few_runs_are_no_series() {
        let (series, short) = series(history(5, 2));
        assert_eq!((series.len(), short), (0, 1));
    }
}
