//! Latency distributions: histograms merged, then read off; percentiles are never averaged.

use super::headline::operating_point;
use super::{LatencyCurve, LatencyPoint};
use crate::number;
use prony_model::run::{Arm, Level, Purpose, Run, Trial};
use prony_model::{Latency, LoadResult};
use prony_stats::{Histogram, merge_latencies};

/// The operating point, in open loop by both clocks, and both arms of the proof. A histogram that cannot be read leaves its curve out.
pub(super) fn curves(run: &Run) -> Vec<LatencyCurve> {
    let trials: Vec<&Trial> = operating_point(run).into_iter().collect();
    let is_limit = run.level(Level::At).is_some() || run.limit.is_some();
    let operating = if is_limit { "at the limit" } else { "under load" };
    let arm = |arm: Arm| {
        let of_arm = |t: &&Trial| matches!(t.purpose, Purpose::Proof { arm: of, .. } if of == arm);
        run.trials.iter().filter(of_arm).collect::<Vec<_>>()
    };
    // In closed loop a request is due when it is sent.
    let sent: Vec<&Trial> = trials.iter().copied().filter(|t| t.plan.is_open_loop()).collect();
    let due = if sent.is_empty() { operating.to_string() } else { format!("{operating}, since it was due") };
    let of_sent = curve("sent", &format!("{operating}, since it was sent"), &sent, |result| &result.latency_actual);
    let of_due = |kind, name: &str, trials: &[&Trial]| curve(kind, name, trials, |result| &result.latency);
    let curves = [
        of_due("at", &due, &trials),
        of_sent,
        of_due("a", "proof, A: as found", &arm(Arm::A)),
        of_due("b", "proof, B: with the change", &arm(Arm::B)),
    ];
    curves.into_iter().flatten().collect()
}

fn curve(kind: &str, name: &str, trials: &[&Trial], of: fn(&LoadResult) -> &Latency) -> Option<LatencyCurve> {
    let latencies: Vec<_> = trials.iter().map(|t| of(&t.result)).collect();
    let merged = merge_latencies(&latencies).ok().filter(|l| l.count > 0)?;
    let histogram = Histogram::from_hdr_v2(&merged.hdr_v2).ok()?;
    // Beyond 1 - 1/count there is only the largest value, over and over; at 0 there is one value, the luckiest.
    let last = 100.0 * (1.0 - 1.0 / merged.count as f64);
    let points =
        histogram.percentile_points().into_iter().filter(|(percentile, _)| *percentile > 0.0 && *percentile <= last);
    let usual =
        [merged.p50_us, merged.p75_us, merged.p90_us, merged.p99_us, merged.p999_us, merged.p9999_us, merged.max_us];
    Some(LatencyCurve {
        name: name.to_string(),
        kind: kind.to_string(),
        count: merged.count,
        points: points.map(|(p, us)| LatencyPoint { quantile: p / 100.0, latency_us: us }).collect(),
        usual: usual.map(number::micros).to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{LoadPlan, Rate, Window};

    fn latency(us: u64) -> Latency {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|n| histogram.record_ns(n * us * 1000));
        histogram.to_latency()
    }

    #[test]
    fn an_open_loop_is_told_by_both_clocks() {
        let names = |rate: Option<f64>| {
            let plan = LoadPlan { rate: rate.map(Rate), ..LoadPlan::to("http://a/") };
            let result = LoadResult { latency: latency(20), latency_actual: latency(10), ..LoadResult::default() };
            let trial = Trial { id: 0, purpose: Purpose::Load, plan, window: Window::default(), result };
            let curves = curves(&Run { trials: vec![trial], ..Run::default() });
            curves.into_iter().map(|c| format!("{} {}: {}", c.kind, c.name, c.usual[0])).collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["at under load: 1.00 ms"]);
        assert_eq!(
            names(Some(10.0)),
            ["at under load, since it was due: 1.00 ms", "sent under load, since it was sent: 500 us"]
        );
    }
}
