//! Interventions as a report shows them: one by one, and as throughput against the dose of each resource.
//!
//! Effects follow from the elasticities that the run holds; no trial is read again. Placebos and removals have no dose.

use super::diagnosis::knob_text;
use super::finite;
use crate::number;
use crate::typed::view;
use prony_model::Run;
use prony_model::diagnosis::{Intervention, InterventionKind};
use prony_stats::elasticity::{effect, through_origin};

view! {
    /// One intervention and what it showed.
    pub struct InterventionView {
        /// Host.
        pub target: String,
        /// What was done, in words.
        pub what: String,
        /// Negative control: nothing is expected to happen.
        pub control: bool,
        /// True: the numbers are a relative gain (removal). False: they are an elasticity.
        pub is_gain: bool,
        /// Elasticity or gain.
        pub value: Option<f64>,
        /// Lower end of the 95 % interval.
        pub low: Option<f64>,
        /// Upper end.
        pub high: Option<f64>,
        /// Value and interval as text.
        pub text: String,
        /// How to read it.
        pub reading: String,
        /// Pairs of trials.
        pub pairs: u32,
    }

    /// Throughput against the dose of one resource.
    pub struct DoseCurve {
        /// The resource, in words.
        pub resource: String,
        /// Negative control: nothing is expected to happen.
        pub control: bool,
        /// True: the resource was raised, as connections are. False: it was made slower.
        pub raises: bool,
        /// The elasticity that fits all doses.
        pub elasticity: f64,
        /// Each dose, in the order they were given.
        pub points: Vec<DosePoint>,
    }

    /// What one dose showed.
    pub struct DosePoint {
        /// Share by which the resource was made slower or raised.
        pub dose: f64,
        /// Relative change of throughput.
        pub effect: f64,
        /// Lower end of its 95 % interval.
        pub low: Option<f64>,
        /// Upper end.
        pub high: Option<f64>,
        /// Pairs of trials.
        pub pairs: u32,
    }
}

pub(super) fn interventions(run: &Run) -> Vec<InterventionView> {
    all(run).iter().map(intervention).collect()
}

/// Those that were done, of the run or, when it has none, of the diagnosis.
fn all(run: &Run) -> &[Intervention] {
    let of_diagnosis = run.diagnosis.as_ref().map(|d| d.interventions.as_slice()).unwrap_or_default();
    if run.interventions.iter().any(|i| i.elasticity.is_some()) { &run.interventions } else { of_diagnosis }
}

fn intervention(i: &Intervention) -> InterventionView {
    let is_gain = i.what.shows_gain();
    let (value, low, high) = (i.elasticity.and_then(finite), i.low.and_then(finite), i.high.and_then(finite));
    let one = |v: f64| if is_gain { number::change(v) } else { format!("{v:.2}") };
    let text = match (value, low, high) {
        (Some(value), Some(low), Some(high)) => format!("{} ({} to {})", one(value), one(low), one(high)),
        (Some(value), None, _) | (Some(value), _, None) => format!("{} (no interval)", one(value)),
        (None, _, _) => "not done".to_string(),
    };
    let tails = [("p99", i.p99), ("p99.9", i.p999)].into_iter().filter_map(|(name, p)| {
        let (value, low, high) = (p?.value?, p?.low?, p?.high?);
        Some(format!(
            "; latency at {name} {} ({} to {})",
            number::change(value),
            number::change(low),
            number::change(high)
        ))
    });
    let text = answers(i).to_string() + &text + &tails.collect::<String>();
    InterventionView {
        target: i.target.clone(),
        what: doing(i),
        control: i.control,
        is_gain,
        value,
        low,
        high,
        text,
        reading: reading(i, is_gain, low, high).to_string() + at_equal_speed(i),
        pairs: i.pairs,
    }
}

/// What answers, where it is not throughput; nothing where it is.
fn answers(i: &Intervention) -> &'static str {
    match (i.at_rate, &i.what) {
        (_, InterventionKind::LowerRate) => "mean latency ",
        (true, what) if what.shows_gain() => "answered sooner ",
        (true, _) => "speed of answers ",
        (false, _) => "",
    }
}

/// What an intervention does, in words; also the label of its trials.
pub(super) fn doing(i: &Intervention) -> String {
    let dose = number::percent(i.dose);
    match &i.what {
        InterventionKind::Cpu | InterventionKind::LinkRate { .. } => format!("{} {dose} slower", resource(i)),
        InterventionKind::Concurrency | InterventionKind::Rate => format!("{dose} more {}", resource(i)),
        InterventionKind::LowerRate => format!("{dose} fewer requests asked for"),
        InterventionKind::Removal { knob, also } => {
            let more = also.iter().map(|k| format!(", {}", knob_text(k))).collect::<String>();
            format!("remedy applied, {}{more}", knob_text(knob))
        }
        InterventionKind::KeepAlive => "clients keep their connections".to_string(),
        InterventionKind::Placebo => "nothing turned".to_string(),
    }
}

/// What is given doses; empty for what has none.
fn resource(i: &Intervention) -> String {
    match &i.what {
        InterventionKind::Cpu => format!("CPU of {}", i.target),
        InterventionKind::LinkRate { interface, .. } => format!("what {} sends on {interface}", i.target),
        InterventionKind::Concurrency => "connections".to_string(),
        InterventionKind::Rate => "requests asked for".to_string(),
        InterventionKind::LowerRate
        | InterventionKind::Removal { .. }
        | InterventionKind::KeepAlive
        | InterventionKind::Placebo => String::new(),
    }
}

/// What is shown as 0.00 is 0: a limit that the clock holds answers to a thousandth. Half of the last digit.
const ZERO: f64 = 0.005;

/// Says what the interval means, and only what it says by itself: whether it holds 0.
fn reading(i: &Intervention, is_gain: bool, low: Option<f64>, high: Option<f64>) -> &'static str {
    let (Some(low), Some(high)) = (low, high) else {
        return "no interval, so nothing follows from it";
    };
    let holds_zero = low < ZERO && high > -ZERO;
    if i.what == InterventionKind::LowerRate {
        return match (holds_zero, low > 0.0) {
            (true, _) => "requests take as long with fewer of them",
            (false, true) => "requests take less time with fewer of them",
            (false, false) => "requests take more time with fewer of them",
        };
    }
    if i.at_rate && !(is_gain && holds_zero && !i.control) {
        return match (i.control, is_gain, holds_zero) {
            (true, _, true) => "as expected of a control: requests take as long",
            (true, _, false) => "not expected of a control: requests take another time",
            (false, true, _) => "mending it changes how long requests take",
            (false, false, true) => "requests do not visibly take longer with less of it",
            (false, false, false) => "requests take another time with less of it",
        };
    }
    match (i.control, is_gain, holds_zero) {
        (true, _, true) => "as expected of a control: the limit does not follow",
        (true, _, false) => "not expected of a control: the limit moved",
        (false, true, true) => "mending it changes nothing that can be seen",
        (false, true, false) => "mending it moves the limit",
        (false, false, true) => "the limit does not visibly follow",
        (false, false, false) => "the limit follows",
    }
}

/// That the machine's own speed was taken out, when it was.
fn at_equal_speed(i: &Intervention) -> &'static str {
    if i.by_speed.is_some() { "; at equal speed of the machine" } else { "" }
}

/// A curve for each resource, suspects and controls apart; all doses of one lie on one curve. At a rate it is not throughput that answers.
pub(super) fn doses(run: &Run) -> Vec<DoseCurve> {
    let mut found: Vec<(DoseCurve, Vec<(f64, f64)>)> = Vec::new();
    for i in all(run).iter().filter(|i| !i.at_rate) {
        let raises = matches!(i.what, InterventionKind::Concurrency | InterventionKind::Rate);
        let (resource, log) = (resource(i), if raises { i.dose.ln_1p() } else { (-i.dose).ln_1p() });
        let usable = |e: &f64| e.is_finite() && log.is_finite() && log != 0.0 && !resource.is_empty();
        let Some(elasticity) = i.elasticity.filter(usable) else { continue };
        let known = found.iter().position(|(curve, _)| curve.resource == resource && curve.control == i.control);
        let at = known.unwrap_or_else(|| {
            let curve = DoseCurve { resource, control: i.control, raises, elasticity, points: Vec::new() };
            found.push((curve, Vec::new()));
            found.len() - 1
        });
        let (curve, fitted) = &mut found[at];
        curve.points.push(point(i, elasticity, log));
        fitted.push((log, elasticity));
    }
    let fit = |(curve, fitted): (DoseCurve, Vec<_>)| {
        let elasticity = through_origin(&fitted).unwrap_or(curve.elasticity);
        DoseCurve { elasticity, ..curve }
    };
    found.into_iter().map(fit).collect()
}

fn point(i: &Intervention, elasticity: f64, log: f64) -> DosePoint {
    let end = |elasticity: Option<f64>| finite(effect(elasticity?, log));
    // What was made slower costs the more throughput, the greater its elasticity.
    let (low, high) = if log < 0.0 { (end(i.high), end(i.low)) } else { (end(i.low), end(i.high)) };
    DosePoint { dose: i.dose, effect: effect(elasticity, log), low, high, pairs: i.pairs }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dosed(target: &str, what: InterventionKind, dose: f64, elasticity: Option<f64>) -> Intervention {
        let (low, high) = (elasticity.map(|e| e - 0.1), elasticity.map(|e| e + 0.1));
        Intervention { elasticity, low, high, pairs: 6, ..Intervention::planned(target, what, target != "lb", dose) }
    }

    #[test]
    fn what_is_shown_as_zero_did_not_move() {
        let control = dosed("s1", InterventionKind::Cpu, 0.2, Some(0.0));
        let read = |low, high| reading(&control, false, Some(low), Some(high));
        assert!(read(-0.004, -0.001).starts_with("as expected") && read(0.001, 0.004).starts_with("as expected"));
        assert!(read(-0.02, -0.006).starts_with("not expected") && read(0.006, 0.02).starts_with("not expected"));
    }

    #[test]
    fn at_a_rate_it_is_the_time_of_requests_that_is_told() {
        let told = |what, control, value| {
            let seen = intervention(&Intervention { control, ..dosed("lb", what, 0.5, Some(value)) }.at_rate());
            format!("{}: {}", seen.text, seen.reading)
        };
        let fewer = |value| told(InterventionKind::LowerRate, false, value);
        assert_eq!(fewer(0.0), "mean latency 0.00 (-0.10 to 0.10): requests take as long with fewer of them");
        assert!(fewer(0.9).ends_with("requests take less time with fewer of them"), "{}", fewer(0.9));
        assert!(fewer(-0.9).ends_with("requests take more time with fewer of them"), "{}", fewer(-0.9));
        let nothing = |value| told(InterventionKind::Placebo, true, value);
        assert!(nothing(0.0).ends_with("as expected of a control: requests take as long"), "{}", nothing(0.0));
        assert!(nothing(0.5).ends_with("not expected of a control: requests take another time"), "{}", nothing(0.5));
        let kept = |value| told(InterventionKind::KeepAlive, false, value);
        let sooner = "answered sooner +50.0 % (+40.0 % to +60.0 %): mending it changes how long requests take";
        assert_eq!(kept(0.5), sooner);
        assert!(kept(0.0).ends_with("mending it changes nothing that can be seen"), "{}", kept(0.0));
        let slower = |value| told(InterventionKind::Cpu, false, value);
        let text = "speed of answers 0.80 (0.70 to 0.90): requests take another time with less of it";
        assert_eq!(slower(0.8), text);
        assert!(slower(0.0).ends_with("requests do not visibly take longer with less of it"), "{}", slower(0.0));
        let fewer = Intervention::planned("lb", InterventionKind::LowerRate, false, 0.5);
        assert_eq!(doing(&fewer), "50 % fewer requests asked for");
    }

    #[test]
    fn every_dose_of_a_resource_lies_on_its_curve() {
        let interventions = vec![
            dosed("lb", InterventionKind::Cpu, 0.2, Some(1.0)),
            dosed("s1", InterventionKind::Cpu, 0.2, Some(0.0)),
            dosed("lb", InterventionKind::Cpu, 0.1, Some(0.7)),
            dosed("lb", InterventionKind::Concurrency, 0.5, Some(0.1)),
            dosed("lb", InterventionKind::Cpu, 0.3, None),
            dosed("s1", InterventionKind::Placebo, 0.0, Some(0.0)),
            dosed("lb", InterventionKind::Cpu, 0.4, Some(2.0)).at_rate(),
        ];
        let curves = doses(&Run { interventions, ..Run::default() });
        let named: Vec<_> = curves.iter().map(|c| (c.resource.as_str(), c.control, c.raises, c.points.len())).collect();
        assert_eq!(
            named,
            [("CPU of lb", false, false, 2), ("CPU of s1", true, false, 1), ("connections", false, true, 1)]
        );
        let suspect = &curves[0];
        assert!(suspect.elasticity > 0.9 && suspect.elasticity < 1.0, "the greater dose weighs more: {suspect:?}");
        let first = &suspect.points[0];
        assert!((first.effect + 0.2).abs() < 1e-12 && first.low < Some(-0.2) && first.high > Some(-0.2), "{first:?}");
        let more = &curves[2].points[0];
        assert!(more.low < Some(more.effect) && more.high > Some(more.effect), "{more:?}");
    }
}
