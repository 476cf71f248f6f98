//! Latency distributions: histograms merged, then read off; percentiles are never averaged.

use super::{LatencyCurve, LatencyPoint};
use crate::number;
use prony_model::run::{Arm, Level, Purpose, Run, Trial};
use prony_stats::{Histogram, merge_latencies};

/// The operating point, and both arms of the proof. A histogram that cannot be read leaves its curve out.
pub(super) fn curves(run: &Run) -> Vec<LatencyCurve> {
    let at: Vec<&Trial> = run.level(Level::At).into_iter().collect();
    let load: Vec<&Trial> = run.trials.iter().rev().find(|t| t.purpose == Purpose::Load).into_iter().collect();
    let arm = |arm: Arm| {
        let of_arm = |t: &&Trial| matches!(t.purpose, Purpose::Proof { arm: of, .. } if of == arm);
        run.trials.iter().filter(of_arm).collect::<Vec<_>>()
    };
    let operating = if at.is_empty() { ("under load", load) } else { ("at the limit", at) };
    [
        ("at", operating.0, operating.1),
        ("a", "proof, A: as found", arm(Arm::A)),
        ("b", "proof, B: with the change", arm(Arm::B)),
    ]
    .into_iter()
    .filter_map(|(kind, name, trials)| curve(kind, name, &trials))
    .collect()
}

fn curve(kind: &str, name: &str, trials: &[&Trial]) -> Option<LatencyCurve> {
    let latencies: Vec<_> = trials.iter().map(|t| &t.result.latency).collect();
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
