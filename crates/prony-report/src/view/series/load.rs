//! What clients asked and saw over time: each trial as a stretch of its own.
//!
//! Between trials nothing was measured, so the lines stop there.

use super::{BandKind, BandView, ChartKind, ChartUnit, ChartView, LineView, seconds, short};
use crate::view::load::{latency, purpose};
use prony_model::Run;
use prony_model::run::{Purpose, Trial};
use std::collections::BTreeMap;

/// Trials shorter than this have too few whole seconds for a line of their own. A guess.
const EACH_SECOND_MIN: usize = 3;

pub(super) fn bands(run: &Run) -> Vec<BandView> {
    let band = |trial: &&Trial| BandView {
        trial: trial.id,
        kind: kind(&trial.purpose),
        label: purpose(run, &trial.purpose),
        from_s: seconds(trial.window.from_ns),
        to_s: seconds(trial.window.to_ns),
    };
    in_order(run).iter().map(band).collect()
}

fn kind(purpose: &Purpose) -> BandKind {
    match purpose {
        Purpose::Warmup => BandKind::Warmup,
        Purpose::Level { .. } => BandKind::Level,
        Purpose::Inspect => BandKind::Inspect,
        Purpose::Intervention { .. } => BandKind::Intervention,
        Purpose::Proof { .. } => BandKind::Proof,
        Purpose::Curve => BandKind::Curve,
        Purpose::Load => BandKind::Load,
        Purpose::Cell { .. } => BandKind::Cell,
    }
}

pub(super) fn in_order(run: &Run) -> Vec<&Trial> {
    let mut trials: Vec<&Trial> = run.trials.iter().filter(|t| t.window.to_ns > t.window.from_ns).collect();
    trials.sort_by_key(|trial| trial.window.from_ns);
    trials
}

pub(super) fn charts(run: &Run) -> Vec<ChartView> {
    let trials = in_order(run);
    let throughput = |t: &Trial| [short(t.result.good_per_s), t.plan.rate.and_then(|rate| short(rate.0)), None];
    let quantiles = |t: &Trial| {
        let of = |us| latency(&t.result, us).filter(|us| *us > 0.0).and_then(short);
        [of(t.result.latency.p50_us), of(t.result.latency.p99_us), of(t.result.latency.p999_us)]
    };
    let mut rows = stretches(&trials, throughput);
    trials.iter().for_each(|trial| each_second(trial, &mut rows));
    vec![
        chart(ChartKind::Throughput, ChartUnit::PerSecond, ["good, mean of the trial", "asked", "each second"], rows),
        chart(ChartKind::Latency, ChartUnit::Micros, ["p50", "p99", "p99.9"], stretches(&trials, quantiles)),
    ]
    .into_iter()
    .filter(|chart| !chart.lines.is_empty())
    .collect()
}

type Rows = BTreeMap<u64, [Option<f64>; 3]>;

/// A value from the begin of each trial to its end, and none behind it.
fn stretches(trials: &[&Trial], value: impl Fn(&Trial) -> [Option<f64>; 3]) -> Rows {
    let ends = |trial: &&Trial| {
        let (window, value) = (trial.window, value(trial));
        [(window.from_ns, value), (window.to_ns, value), (window.to_ns + 1_000_000, [None; 3])]
    };
    trials.iter().flat_map(ends).collect()
}

/// Answers in each whole second, in the middle of that second.
fn each_second(trial: &Trial, rows: &mut Rows) {
    let answers = &trial.result.per_second;
    if answers.len() < EACH_SECOND_MIN {
        return;
    }
    let Some([good, asked, _]) = rows.get(&trial.window.from_ns).copied() else { return };
    for (second, count) in answers.iter().enumerate() {
        let at_ns = trial.window.from_ns + second as u64 * 1_000_000_000 + 500_000_000;
        if at_ns < trial.window.to_ns {
            rows.insert(at_ns, [good, asked, short(*count as f64)]);
        }
    }
}

fn chart(kind: ChartKind, unit: ChartUnit, names: [&str; 3], rows: Rows) -> ChartView {
    let line = |(i, name): (usize, &str)| LineView {
        name: name.to_string(),
        values: rows.values().map(|values| values[i]).collect(),
    };
    let lines = names.into_iter().enumerate().map(line);
    let lines = lines.filter(|line| line.values.iter().any(Option::is_some)).collect();
    let at_s = rows.keys().map(|at_ns| seconds(*at_ns)).collect();
    ChartView { kind, host: String::new(), item: String::new(), unit, at_s, lines, zero: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{LoadPlan, LoadResult, Rate, Window};

    #[test]
    fn lines_stop_between_trials() {
        let trial = |id: u32, from_s: u64, seconds: u64, rate: Option<Rate>| Trial {
            id,
            purpose: Purpose::Load,
            plan: LoadPlan { rate, ..LoadPlan::to("http://10.0.0.2/") },
            window: Window { from_ns: from_s * 1_000_000_000, to_ns: (from_s + seconds) * 1_000_000_000 },
            result: LoadResult { good_per_s: 100.0, per_second: vec![99; seconds as usize], ..LoadResult::default() },
        };
        let run = Run { trials: vec![trial(1, 10, 1, Some(Rate(120.0))), trial(0, 1, 3, None)], ..Run::default() };
        let charts = charts(&run);
        assert_eq!(charts.len(), 1, "no request was timed, so there is no latency");
        let named = |name: &str| charts[0].lines.iter().find(|line| line.name == name).unwrap().values.clone();
        assert_eq!(charts[0].at_s, [1.0, 1.5, 2.5, 3.5, 4.0, 4.001, 10.0, 11.0, 11.001]);
        let (good, some) = (Some(100.0), Some(99.0));
        assert_eq!(named("good, mean of the trial"), [good, good, good, good, good, None, good, good, None]);
        assert_eq!(named("each second"), [None, some, some, some, None, None, None, None, None]);
        assert_eq!(named("asked")[6..], [Some(120.0), Some(120.0), None]);
        assert_eq!(bands(&run).iter().map(|b| b.trial).collect::<Vec<_>>(), [0, 1], "in order of time");
    }
}
