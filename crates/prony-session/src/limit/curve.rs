//! The load curve of a search: all trials of one load as one point, the knee, and how throughput grows with connections.
//!
//! Percentiles come from merged histograms. Invariant: trials that are not steady are in no point.

use super::axis::geometric_mean;
use super::judge;
use prony_model::limit::{Bounded, KneePoint, LoadPoint, TestedLoad, UslFit};
use prony_model::{Run, Trial};
use prony_stats::search::Validity;
use prony_stats::usl::{self, Estimate};
use prony_stats::{curve, merge_latencies};

/// Closed loop by connections, then open loop by rate.
pub(super) fn points(run: &Run, trials: &[&Trial]) -> Vec<LoadPoint> {
    let mut counted: Vec<&Trial> =
        trials.iter().copied().filter(|t| judge::validity(t, &[]) != Validity::Unsteady).collect();
    let key = |t: &Trial| (t.plan.rate.is_some(), t.plan.rate.map_or(f64::from(t.plan.connections), |rate| rate.0));
    let order = |a: &&Trial, b: &&Trial| key(a).0.cmp(&key(b).0).then(key(a).1.total_cmp(&key(b).1));
    counted.sort_by(order);
    counted.chunk_by(|a, b| key(a) == key(b)).map(|group| point(run, group)).collect()
}

fn point(run: &Run, group: &[&Trial]) -> LoadPoint {
    let latencies: Vec<_> = group.iter().map(|t| &t.result.latency).collect();
    // Histograms that cannot be read leave no latency, rather than a mean of percentiles.
    let merged = merge_latencies(&latencies).unwrap_or_default();
    let latency = |us: f64| (merged.count > 0).then_some(us);
    let sum = |of: fn(&Trial) -> f64| group.iter().map(|t| of(t)).sum::<f64>();
    let failed = sum(|t| t.result.errors.total() as f64);
    let ended = sum(|t| {
        let errors = t.result.errors;
        (t.result.completed + errors.total() - errors.status - errors.check) as f64
    });
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let cpu = |host: &String| {
        let us = mean(group.iter().filter_map(|t| run.cpu_us_per_request(host, t)).collect())?;
        Some((host.clone(), us))
    };
    let generator = run.stack.generator().map(|(name, _)| name.to_string());
    let first = group[0];
    LoadPoint {
        load: TestedLoad { connections: first.plan.connections, rate_per_s: first.plan.rate.map(|rate| rate.0) },
        trials: group.len() as u32,
        good_per_s: geometric_mean(group.iter().map(|t| t.result.good_per_s)),
        p50_us: latency(merged.p50_us),
        p90_us: latency(merged.p90_us),
        p99_us: latency(merged.p99_us),
        p999_us: latency(merged.p999_us),
        error_share: if ended > 0.0 { failed / ended } else { 0.0 },
        cpu_us_per_request: run.stack.host.keys().filter(|h| Some(*h) != generator.as_ref()).filter_map(cpu).collect(),
        generator_us_per_request: mean(group.iter().filter_map(|t| t.result.generator_cpu_us_per_request()).collect()),
        generator_limited: group.iter().any(|t| t.result.generator_limited()),
    }
}

/// (connections, good requests per second) of the steady trials in closed loop. Where the generator was the limit the curve is
/// its own, so those trials are left out.
pub(super) fn closed(trials: &[&Trial]) -> Vec<(f64, f64)> {
    let counts = |t: &&&Trial| t.plan.rate.is_none() && judge::validity(t, &[]) == Validity::Valid;
    trials.iter().filter(counts).map(|t| (f64::from(t.plan.connections), t.result.good_per_s)).collect()
}

/// The knee over connections.
pub(super) fn knee(trials: &[&Trial], seed: u64) -> Option<KneePoint> {
    let found = curve::knee_of_trials(&closed(trials), seed)?;
    Some(KneePoint { connections: found.knee.load, good_per_s: found.knee.rate, low: found.low, high: found.high })
}

/// The law of scalability, fitted to (N, throughput).
pub(super) fn law(axis: &str, growth: &[(f64, f64)], extrapolate: &[u64], seed: u64) -> Option<UslFit> {
    let fit = usl::fit(growth, seed)?;
    Some(UslFit {
        axis: axis.to_string(),
        lambda: bounded(fit.lambda),
        sigma: bounded(fit.sigma),
        kappa: bounded(fit.kappa),
        peak: bounded(fit.peak),
        tried_up_to: growth.iter().map(|g| g.0).fold(0.0, f64::max),
        extrapolated: extrapolate.iter().map(|n| (*n as f64, bounded(fit.at(*n as f64)))).collect(),
    })
}

fn bounded(estimate: Estimate) -> Bounded {
    let finite = |value: f64| value.is_finite().then_some(value);
    Bounded { value: finite(estimate.value), low: finite(estimate.low), high: finite(estimate.high) }
}
