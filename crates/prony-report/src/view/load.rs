//! Trials as rows, and the load curve.
//!
//! A figure that the generator limited carries that in its note, always.

use super::interventions::doing;
use super::{CurvePoint, LevelName, TrialRow, finite, positive};
use crate::{names, number};
use prony_model::LoadResult;
use prony_model::run::{Level, Purpose, Run, Trial};

pub(super) fn level_name(level: Level) -> LevelName {
    match level {
        Level::Below => LevelName::Below,
        Level::At => LevelName::At,
        Level::Beyond => LevelName::Beyond,
    }
}

/// Host whose CPU time per request stands beside the curve: the one that the verdict names, else the entry of the path.
pub(super) fn cpu_host(run: &Run) -> Option<String> {
    let named = run.diagnosis.as_ref().map(|d| d.verdict.hop.as_str()).filter(|hop| run.stack.host.contains_key(*hop));
    let host = named.or_else(|| run.stack.path().first().copied())?;
    let seen = run.trials.iter().any(|t| run.process_cpus(host, t.window).is_some());
    seen.then(|| host.to_string())
}

/// Every trial of the curve, open loop by rate before closed loop by connections.
pub(super) fn curve(run: &Run, cpu_host: Option<&str>) -> Vec<CurvePoint> {
    let mut points: Vec<CurvePoint> = run
        .trials
        .iter()
        .filter(|trial| !run.is_superseded(trial))
        .filter_map(|trial| {
            let (level, label) = match &trial.purpose {
                Purpose::Level { level } => (Some(level_name(*level)), names::level(*level).to_string()),
                Purpose::Curve => (None, String::new()),
                Purpose::Warmup
                | Purpose::Inspect
                | Purpose::Intervention { .. }
                | Purpose::Proof { .. }
                | Purpose::Cell { .. }
                | Purpose::Load => return None,
            };
            Some(point(run, trial, level, label, cpu_host))
        })
        .collect();
    let load = |p: &CurvePoint| (p.rate_per_s.is_none(), p.rate_per_s.unwrap_or(f64::from(p.connections)));
    points.sort_by(|a, b| {
        let ((a_closed, a_load), (b_closed, b_load)) = (load(a), load(b));
        a_closed.cmp(&b_closed).then(a_load.total_cmp(&b_load))
    });
    points
}

fn point(run: &Run, trial: &Trial, level: Option<LevelName>, label: String, cpu_host: Option<&str>) -> CurvePoint {
    let result = &trial.result;
    CurvePoint {
        trial: trial.id,
        level,
        label,
        connections: trial.plan.connections,
        rate_per_s: trial.plan.rate.and_then(|r| finite(r.0)),
        good_per_s: finite(result.good_per_s),
        p50_us: latency(result, result.latency.p50_us),
        p99_us: latency(result, result.latency.p99_us),
        error_share: finite(result.error_share()),
        cpu_us_per_request: cpu_host.and_then(|host| run.cpu_us_per_request(host, trial)),
        note: note(result),
    }
}

/// A quantile, if any request was timed.
pub(super) fn latency(result: &LoadResult, us: f64) -> Option<f64> {
    if result.latency.count == 0 { None } else { finite(us) }
}

/// Why a result is a lower bound or not valid; empty when it is valid.
pub(crate) fn note(result: &LoadResult) -> String {
    let failed = |limits: bool| {
        let held_not = result.gates.iter().filter(move |g| !g.held && g.generator_limited == limits);
        held_not.map(|g| format!("{}: {}", g.name, g.detail)).collect::<Vec<_>>().join("; ")
    };
    let mut notes = Vec::new();
    if result.interrupted {
        notes.push("interrupted".to_string());
    }
    if result.generator_limited() {
        notes.push(format!("at least (generator-limited: {})", failed(true)));
    }
    let invalid = failed(false);
    if !invalid.is_empty() {
        notes.push(format!("not valid: {invalid}"));
    }
    notes.join("; ")
}

pub(super) fn trials(run: &Run) -> Vec<TrialRow> {
    run.trials.iter().map(|trial| row(run, trial)).collect()
}

fn row(run: &Run, trial: &Trial) -> TrialRow {
    let result = &trial.result;
    TrialRow {
        id: trial.id,
        purpose: purpose(run, &trial.purpose),
        at_s: trial.window.from_ns as f64 / 1e9,
        duration_s: finite(result.duration_s).unwrap_or_default(),
        connections: trial.plan.connections,
        rate_per_s: trial.plan.rate.and_then(|r| finite(r.0)),
        good_per_s: finite(result.good_per_s),
        p50_us: latency(result, result.latency.p50_us),
        p99_us: latency(result, result.latency.p99_us),
        errors: result.errors.total(),
        generator_us_per_request: result.generator_cpu_us_per_request().and_then(positive),
        note: note(result),
    }
}

pub(super) fn purpose(run: &Run, purpose: &Purpose) -> String {
    match purpose {
        Purpose::Warmup => "warm-up, not scored".to_string(),
        Purpose::Level { level } => names::level(*level).to_string(),
        Purpose::Inspect => "close looks, not scored".to_string(),
        Purpose::Intervention { index, pair, arm } => {
            let what = run.interventions.get(*index as usize).map_or_else(|| format!("intervention {index}"), doing);
            format!("{what}: pair {}, {}", pair + 1, names::arm(*arm))
        }
        Purpose::Proof { block, arm } => format!("proof: block {}, {}", block + 1, names::arm(*arm)),
        Purpose::Curve => "load curve".to_string(),
        Purpose::Load => "load".to_string(),
        Purpose::Cell { cell, repeat } => format!("experiment: cell {}, repeat {}", cell + 1, repeat + 1),
    }
}

/// The load in words: `128 connections, closed loop` or `5,000 requests/s over 64 connections, open loop`.
pub(super) fn load_text(connections: u32, rate_per_s: Option<f64>) -> String {
    let connections = number::count(u64::from(connections));
    match rate_per_s {
        Some(rate) => format!("{} requests/s over {connections} connections, open loop", number::rate(rate)),
        None => format!("{connections} connections, closed loop"),
    }
}
