//! What one trial says to the search: whether it may count, and how far it is from the objective.
//!
//! Pure. Invariant: a trial in which the stack fell behind the schedule is a trial that failed, not one that is not valid.

use prony_model::threshold::{Comparison, Threshold, ThresholdResult};
use prony_model::{LoadResult, Run, Trial};
use prony_stats::evaluate;
use prony_stats::search::{Observation, Probe, Validity};

/// Largest share of the schedule that may be missing: that of the gate `rate`.
const MISSING_MAX: f64 = 0.005;

/// Share of requests that may lose their connection in closed loop before a trial says more of that than of a limit. A guess.
const CUT_MAX: f64 = 0.01;

/// Largest part of the objective's latency that the 99th percentile of the schedule lag may be. A guess.
const LAG_SHARE_MAX: f64 = 0.1;

/// Name of what breaks when none of the objective's own metrics does.
pub(super) const SCHEDULE: &str =
    "the rate itself: requests of the schedule could not be sent, because all connections were busy";

/// Whether a trial may count.
///
/// Every gate that broke speaks against it: `steady` (MSER-5 and Pettitt on tenths of a second), `little`, counts that do not
/// agree. In open loop beyond what the stack carries the schedule breaks and queues only grow; such a trial is never steady, and
/// it has its answer all the same. A generator that comes late by little beside the objective `slo` makes latency a little worse than it is:
/// that is no reason to have no answer.
pub(super) fn validity(trial: &Trial, slo: &[Threshold]) -> Validity {
    let result = &trial.result;
    if result.generator_limited() && !late_by_little(result, slo) {
        return Validity::GeneratorLimited;
    }
    let of_schedule = |name: &str| name == "rate" || name == "schedule-lag";
    let broken = || result.gates.iter().filter(|gate| !gate.held);
    let behind = trial.plan.is_open_loop() && broken().any(|gate| of_schedule(&gate.name));
    let cut = !trial.plan.is_open_loop() && cut_share(result) > CUT_MAX;
    if !behind && (cut || broken().next().is_some() || result.interrupted) {
        Validity::Unsteady
    } else {
        Validity::Valid
    }
}

/// Whether the schedule lag is all that limited the generator, and a small part of the tightest latency of the objective.
fn late_by_little(result: &LoadResult, slo: &[Threshold]) -> bool {
    let limits = slo.iter().filter(|t| t.measure.is_latency()).map(|t| t.limit);
    let tightest_us = limits.reduce(f64::min);
    let mut limited = result.gates.iter().filter(|gate| !gate.held && gate.generator_limited);
    limited.all(|gate| gate.name == "schedule-lag")
        && tightest_us.is_some_and(|limit_us| result.schedule_lag.p99_us <= LAG_SHARE_MAX * limit_us)
}

/// Share of requests whose connection was refused, reset or closed under them.
pub(super) fn cut_share(result: &LoadResult) -> f64 {
    let cut = result.errors.connect + result.errors.read + result.errors.write;
    cut as f64 / (result.completed + cut).max(1) as f64
}

/// Why a trial is in no answer, in words.
pub(super) fn why_left_out(trial: &Trial) -> String {
    let cut = cut_share(&trial.result);
    let cut = (cut > CUT_MAX).then(|| format!("{:.0} % of requests lost their connection", cut * 100.0));
    let gates = trial.result.gates.iter().filter(|g| !g.held).map(|g| g.detail.clone());
    let reasons: Vec<String> = cut.into_iter().chain(gates).collect();
    if reasons.is_empty() { "it was interrupted".to_string() } else { reasons.join("; ") }
}

/// What the search is told of a trial of a run.
pub(super) fn observation(probe: Probe, run: &Run, trial: &Trial, slo: &[Threshold], spent_s: f64) -> Observation {
    let result = &trial.result;
    let open = trial.plan.is_open_loop();
    let seen = if open { evaluate(slo, result) } else { Vec::new() };
    let missing = missing_share(result);
    let good = open.then(|| missing <= MISSING_MAX && seen.iter().all(|threshold| threshold.held));
    let schedule = open.then(|| (missing / MISSING_MAX).ln());
    let margins = seen.iter().map(margin).chain(schedule).collect();
    let piece_us = run.piece_us_of_path(trial.window);
    Observation {
        probe,
        spent_s,
        good_per_s: result.good_per_s,
        good,
        margins,
        piece_us,
        validity: validity(trial, slo),
    }
}

fn missing_share(result: &LoadResult) -> f64 {
    result.intended.saturating_sub(result.sent) as f64 / result.intended.max(1) as f64
}

/// ln(measured / limit), or the other way round for what must be large: above 0 when it broke.
fn margin(seen: &ThresholdResult) -> f64 {
    let Some(measured) = seen.measured else { return f64::NAN };
    let limit = seen.threshold.limit;
    let (part, whole) = match seen.threshold.comparison {
        Comparison::Below | Comparison::AtMost => (measured, limit),
        Comparison::Above | Comparison::AtLeast => (limit, measured),
        Comparison::Equal => return if seen.held { f64::NEG_INFINITY } else { f64::INFINITY },
    };
    match (part > 0.0, whole > 0.0) {
        (true, true) => (part / whole).ln(),
        (true, false) => f64::INFINITY,
        (false, _) if seen.held => f64::NEG_INFINITY,
        (false, _) => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::load::Gate;
    use prony_model::{ErrorCounts, LoadPlan, Purpose, Rate, Window};
    use prony_stats::search::{Load, Why};

    fn gate(name: &str, generator_limited: bool) -> Gate {
        Gate { name: name.into(), held: false, detail: format!("{name} broke"), generator_limited }
    }

    fn trial(rate: Option<f64>, gates: Vec<Gate>) -> Trial {
        let result = LoadResult {
            intended: 1000,
            sent: 1000,
            completed: 1000,
            duration_s: 1.0,
            errors: ErrorCounts { timeout: 2, ..ErrorCounts::default() },
            gates,
            ..LoadResult::default()
        };
        let plan = LoadPlan { rate: rate.map(Rate), ..LoadPlan::to("http://10.0.0.1/") };
        Trial { id: 0, purpose: Purpose::Curve, plan, window: Window::default(), result }
    }

    #[test]
    fn a_gate_says_what_a_trial_is_worth() {
        let closed = |gates| validity(&trial(None, gates), &[]);
        assert_eq!(closed(vec![]), Validity::Valid);
        assert_eq!(closed(vec![gate("steady", false)]), Validity::Unsteady);
        assert_eq!(closed(vec![gate("little", false)]), Validity::Unsteady);
        assert_eq!(closed(vec![gate("steady", false), gate("cpu", true)]), Validity::GeneratorLimited);
        let open = |gates| validity(&trial(Some(1000.0), gates), &[]);
        assert_eq!(open(vec![gate("steady", false)]), Validity::Unsteady);
        assert_eq!(open(vec![gate("rate", false), gate("steady", false)]), Validity::Valid, "too much is an answer");
        assert_eq!(open(vec![gate("rate", true)]), Validity::GeneratorLimited);
        assert_eq!(
            why_left_out(&trial(None, vec![gate("cpu", true), gate("steady", false)])),
            "cpu broke; steady broke"
        );
    }

    #[test]
    fn a_generator_that_is_late_by_little_still_answers() {
        let slo: Vec<Threshold> = vec!["p99<20ms".parse().unwrap(), "errors<0.1%".parse().unwrap()];
        let of = |lag_us: f64, gates: Vec<Gate>, slo: &[Threshold]| {
            let mut late = trial(Some(1000.0), gates);
            late.result.schedule_lag.p99_us = lag_us;
            validity(&late, slo)
        };
        let lag = || vec![gate("schedule-lag", true)];
        assert_eq!(of(1900.0, lag(), &slo), Validity::Valid);
        assert_eq!(of(2100.0, lag(), &slo), Validity::GeneratorLimited);
        assert_eq!(of(1900.0, lag(), &slo[1..]), Validity::GeneratorLimited, "no latency is asked for");
        assert_eq!(of(1900.0, vec![gate("schedule-lag", true), gate("cpu", true)], &slo), Validity::GeneratorLimited);
    }

    #[test]
    fn margins_say_how_far_the_objective_is() {
        let slo: Vec<Threshold> =
            ["errors<0.1%", "rate>=500", "count==1000", "errors==0%"].map(|t| t.parse().unwrap()).into();
        let probe = Probe { load: Load::Rate(Rate(1000.0)), seconds: 1.0, why: Why::Border, again: false };
        let mut open = trial(Some(1000.0), vec![]);
        let seen = observation(probe, &Run::default(), &open, &slo, 1.5);
        assert_eq!((seen.good, seen.margins.len()), (Some(false), 5));
        let errors = 2.0 / 1002.0;
        assert!((seen.margins[0] - (errors / 0.001f64).ln()).abs() < 1e-9, "{:?}", seen.margins);
        assert!((seen.margins[1] - 0.5f64.ln()).abs() < 1e-9);
        assert_eq!(seen.margins[2..], [f64::NEG_INFINITY, f64::INFINITY, f64::NEG_INFINITY]);
        open.result.errors = ErrorCounts::default();
        let seen = observation(probe, &Run::default(), &open, &slo, 1.5);
        assert_eq!((seen.good, seen.margins[0], seen.margins[3]), (Some(true), f64::NEG_INFINITY, f64::NEG_INFINITY));
        open.result.sent = 990;
        let seen = observation(probe, &Run::default(), &open, &slo, 1.5);
        assert!(seen.good == Some(false) && seen.margins[4] > 0.0, "the schedule was not kept");
        assert_eq!(observation(probe, &Run::default(), &trial(None, vec![]), &slo, 1.5).good, None);
    }
}
