//! What moved against a good run of the same stack: facts per request that are not as they were.
//!
//! It names no cause and ranks by size. Invariant: a fact that moved less than trials of one run differ among themselves is not
//! listed.

use crate::facts::{Hop, Reader};
use prony_model::diagnosis::Moved;
use prony_model::run::Arm;
use prony_model::{Level, Metric, MetricKind, Purpose, Run, Trial, metric};
use prony_stats::unpaired;

/// Relative change from which a fact is listed, by the end of its interval nearest to none. A guess: less explains nothing.
const CHANGE_MIN: f64 = 0.1;
/// Change of a fact that too few trials hold for an interval: twice or half. A guess.
const CHANGE_UNSURE: f64 = 2.0;
/// A counter that stood still in the good run must grow so often per request to be listed. A guess: the borders of most causes
/// lie above it.
const NEW_PER_REQUEST: f64 = 0.001;
/// Facts listed.
const LISTED_MAX: usize = 15;

/// Families of facts that are no facts about the stack under load.
const LEFT_OUT: &[&str] = &["self.", "price.", "load.", "log.size"];

/// The facts of the hosts on the path that moved, the greatest change first. Hosts are matched by name.
pub fn moved(run: &Run, good: &Run) -> Vec<Moved> {
    let mut found: Vec<(f64, Moved)> = Vec::new();
    for name in run.stack.path().into_iter().filter(|name| good.stack.host.contains_key(*name)) {
        let listed = metric::ALL.iter().filter(|m| !LEFT_OUT.iter().any(|family| m.name.starts_with(family)));
        found.extend(listed.filter_map(|m| change(&Hop { run, name }, &Hop { run: good, name }, m)));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, moved)| moved).take(LISTED_MAX).collect()
}

/// How much a fact moved, as a logarithm that is at least as great, and what it was and is.
fn change(now: &Hop<'_>, good: &Hop<'_>, metric: &'static Metric) -> Option<(f64, Moved)> {
    let (new, old) = (values(now, metric), values(good, metric));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (is, was) = (mean(&new), mean(&old));
    let told = |low, high| Moved {
        metric: metric.name.to_string(),
        host: now.name.to_string(),
        unit: unit(metric),
        now: is,
        good: was,
        low,
        high,
    };
    if new.is_empty() || old.is_empty() {
        return None;
    }
    if let Some(effect) = unpaired::compare(metric.name, &old, &new) {
        let nearest = if effect.low > 0.0 { effect.low } else { (1.0 / (1.0 + effect.high)) - 1.0 };
        return (nearest >= CHANGE_MIN).then(|| (nearest.ln_1p(), told(Some(effect.low), Some(effect.high))));
    }
    if was == 0.0 {
        let appeared = metric.kind == MetricKind::Counter && is >= NEW_PER_REQUEST;
        return appeared.then(|| ((1.0 + is / NEW_PER_REQUEST).ln(), told(None, None)));
    }
    let ratio = (is / was).max(was / is);
    (is > 0.0 && ratio.is_finite() && ratio >= CHANGE_UNSURE).then(|| (ratio.ln(), told(None, None)))
}

fn unit(metric: &Metric) -> String {
    match metric.kind {
        MetricKind::Counter => format!("{} / request", metric.unit.symbol()).trim_start().to_string(),
        MetricKind::Gauge => metric.unit.symbol().to_string(),
    }
}

/// One number per trial of the workload as written, with the stack as found.
fn values(hop: &Hop<'_>, metric: &'static Metric) -> Vec<f64> {
    let as_found = |t: &&Trial| {
        t.purpose == Purpose::Level { level: Level::At }
            || matches!(t.purpose, Purpose::Intervention { arm: Arm::A, .. })
    };
    let value = |trial| {
        let reader = Reader { hop: *hop, trial };
        let sum = reader.sum(metric).ok()?;
        match metric.kind {
            MetricKind::Counter => Some(sum / reader.requests().ok()?),
            MetricKind::Gauge => Some(sum),
        }
    };
    hop.run.trials.iter().filter(as_found).filter_map(value).filter(|v| v.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;
    use prony_model::metric::{CONN_IN_BUSY, PROC_WRITES, TCP_ACTIVE_OPENS};

    fn names(moved: &[Moved]) -> Vec<String> {
        moved.iter().map(|m| format!("{} at {}", m.metric, m.host)).collect()
    }

    #[test]
    fn a_run_against_itself_has_not_moved() {
        let run = Lab::healthy().run();
        assert_eq!(moved(&run, &run), []);
    }

    #[test]
    fn what_moved_most_comes_first() {
        let good = Lab::healthy().run();
        let per_request = |lab: Lab, metric, of: f64| {
            let rate = good.level(Level::At).unwrap().result.good_per_s;
            lab.per_second("lb", metric, "", of * rate)
        };
        let now = per_request(per_request(Lab::healthy(), &TCP_ACTIVE_OPENS, 1.0), &PROC_WRITES, 30.0).run();
        let found = moved(&now, &good);
        assert!(names(&found).contains(&"tcp.active_opens at lb".to_string()), "{found:#?}");
        let opens = found.iter().find(|m| m.metric == "tcp.active_opens").unwrap();
        assert!((opens.now - 1.0).abs() < 0.01, "{opens:?}");
        let back = moved(&good, &now);
        assert!(back.iter().all(|m| m.metric != CONN_IN_BUSY.name), "what did not move is not listed: {back:#?}");
    }
}
