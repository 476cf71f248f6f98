//! What a search for the limit found, in words: the sentence, the answers, what else was found, the tables.
//!
//! Invariant: a figure that the generator limited says "at least" wherever it stands.

use super::{
    Figure, LimitAnswerView, LimitAxisPoint, LimitNote, LimitPoint, LimitStepView, LimitView, Tone, finite, positive,
};
use crate::number::{self, NONE};
use prony_model::limit::{
    AtOneSpeed, AxisAnswer, AxisPoint, Bounded, KneePoint, LimitAnswer, LimitReport, LimitStep, LimitVerdict,
    LoadPoint, Overload, TestedLoad, UslFit,
};
use prony_model::run::Run;
use prony_model::threshold::{Measure, Threshold};

/// Share of the spread of trials from which it is said that it goes with the machine's speed. A guess: less is no reason for a wide interval.
const EXPLAINED_SHOWN: f64 = 0.25;
/// Reasons for leaving trials out that are named before the rest is counted.
const LEFT_OUT_SHOWN: usize = 3;

pub(super) fn of(run: &Run, found: &LimitReport) -> LimitView {
    let mut cpu_hosts: Vec<String> =
        run.stack.path().into_iter().map(str::to_string).chain(run.stack.host.keys().cloned()).collect();
    let mut seen = std::collections::BTreeSet::new();
    let read = |host: &String| found.curve.iter().any(|point| point.cpu_us_per_request.contains_key(host));
    cpu_hosts.retain(|host| read(host) && seen.insert(host.clone()));
    let axis = found.axis.as_ref().or(found.stable.as_ref());
    LimitView {
        verdict: found.verdict.word().to_string(),
        tone: tone(found.verdict),
        sentence: sentence(run, found),
        answers: answers(found),
        notes: notes(found),
        curve: found.curve.iter().map(|point| of_point(point, &cpu_hosts)).collect(),
        cpu_hosts,
        axis: axis.map(axis_points).unwrap_or_default(),
        axis_title: axis.map(axis_title).unwrap_or_default(),
        steps: steps(found),
        slo_p99_us: found.slo.iter().find_map(limit_of_p99_us),
        knee_per_s: found.knee.as_ref().and_then(|knee| finite(knee.good_per_s)),
    }
}

pub(super) fn tone(verdict: LimitVerdict) -> Tone {
    match verdict {
        LimitVerdict::Found => Tone::Good,
        LimitVerdict::Wide | LimitVerdict::GeneratorLimited | LimitVerdict::Open => Tone::Warn,
        LimitVerdict::NothingHolds
        | LimitVerdict::Unsteady
        | LimitVerdict::Died
        | LimitVerdict::Flapping
        | LimitVerdict::NothingServed => Tone::Bad,
    }
}

/// The result in a sentence or two.
pub(super) fn sentence(run: &Run, found: &LimitReport) -> String {
    let target = run.stack.title();
    let left_out = found.left_out.len();
    match found.verdict {
        LimitVerdict::Died => {
            let sent = last_load(run).map(|load| format!(", at {load},")).unwrap_or_default();
            format!("{target} stopped answering in mid-search{sent} and did not come back.")
        }
        LimitVerdict::Flapping => {
            format!("{target} stops answering and comes back, again and again: it has no limit that could be told.")
        }
        LimitVerdict::NothingServed => format!("{target} answered no request well."),
        LimitVerdict::Unsteady => format!(
            "The limit of {target} could not be told: {left_out} of {} trials were not steady. Is other work on its hosts?",
            found.trials
        ),
        LimitVerdict::NothingHolds => match &found.axis {
            Some(axis) => format!("{} holds nowhere in {}.", axis.until, range(axis)),
            None => format!("{target} holds {} at no rate.", objective(found)),
        },
        LimitVerdict::GeneratorLimited => match &found.axis {
            Some(axis) => format!("{} The generator was the limit: the border may lie lower.", of_axis(axis)),
            None if found.saturation.is_some() => {
                let unknown = format!("How much of it within {} could not be told", objective(found));
                format!("{} {unknown}: the generator was the limit.", of_load(target, found))
            }
            None => format!(
                "{target} carries at least {} requests per second; the generator was the limit.",
                number::rate(found.at_least_per_s.unwrap_or(0.0))
            ),
        },
        LimitVerdict::Found | LimitVerdict::Wide | LimitVerdict::Open => match &found.axis {
            Some(axis) if found.verdict == LimitVerdict::Wide => {
                format!("{} Not enough trials agree to be sure.", of_axis(axis))
            }
            Some(axis) => of_axis(axis),
            None => of_load(target, found),
        },
    }
}

fn of_load(target: &str, found: &LimitReport) -> String {
    let wide = match found.verdict {
        LimitVerdict::Wide => " The budget ended before the interval was as narrow as asked for.",
        LimitVerdict::Open => " The search did not come to its end.",
        LimitVerdict::Found
        | LimitVerdict::NothingHolds
        | LimitVerdict::GeneratorLimited
        | LimitVerdict::Unsteady
        | LimitVerdict::Died
        | LimitVerdict::Flapping
        | LimitVerdict::NothingServed => "",
    };
    let Some(saturation) = &found.saturation else {
        return format!("The limit of {target} is not known yet: too few trials fitted into the budget.");
    };
    let within = match &found.within_slo {
        Some(answer) if answer.held_to_saturation => format!(", and holds {} all the way", objective(found)),
        Some(answer) => format!(", and {} within {}", number::rate(answer.estimate_per_s), objective(found)),
        None => String::new(),
    };
    let metastable = found.overload.as_ref().is_some_and(|o| o.metastable);
    let metastable = if metastable { " After an overload it carries less than before: it is metastable." } else { "" };
    format!(
        "{target} carries {} requests per second{within}.{metastable}{wide}",
        number::rate(saturation.estimate_per_s)
    )
}

fn of_axis(axis: &AxisAnswer) -> String {
    let at = |value: u64| format!("{} {}", axis.axis, number::count(value));
    match (axis.until.is_empty(), axis.holds_at, axis.fails_at) {
        (true, _, _) => {
            let best = axis.tried.iter().max_by(|a, b| a.good_per_s.total_cmp(&b.good_per_s));
            best.map_or(format!("No value of {} was measured.", axis.axis), |best| {
                format!(
                    "Of {}, {} carried most: {} requests per second.",
                    range(axis),
                    at(best.value),
                    number::rate(best.good_per_s)
                )
            })
        }
        (false, Some(holds), Some(fails)) if axis.rising => {
            format!("{} from {} on; at {} it does not hold.", axis.until, at(holds), number::count(fails))
        }
        (false, Some(holds), Some(fails)) => {
            format!("{} up to {}; at {} it does not hold.", axis.until, at(holds), number::count(fails))
        }
        (false, Some(_), None) => format!("{} everywhere in {}.", axis.until, range(axis)),
        (false, None, _) => format!("{} nowhere in {}.", axis.until, range(axis)),
    }
}

fn range(axis: &AxisAnswer) -> String {
    let value = |point: Option<&AxisPoint>| point.map_or(NONE.to_string(), |p| number::count(p.value));
    format!("{} {} to {}", axis.axis, value(axis.tried.first()), value(axis.tried.last()))
}

fn objective(found: &LimitReport) -> String {
    found.slo.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The load of the last trial that asked for more than one connection.
fn last_load(run: &Run) -> Option<String> {
    let trial = run.trials.iter().rev().find(|t| t.plan.connections > 1)?;
    Some(super::load::load_text(trial.plan.connections, trial.plan.rate.map(|r| r.0)))
}

fn answers(found: &LimitReport) -> Vec<LimitAnswerView> {
    let limited = found.verdict == LimitVerdict::GeneratorLimited;
    let mut out = Vec::new();
    match (&found.saturation, found.at_least_per_s.filter(|_| limited)) {
        (None, Some(least)) => out.push(LimitAnswerView {
            label: "limit".to_string(),
            value: format!("at least {}/s", number::rate(least)),
            interval: String::new(),
            note: "generator-limited".to_string(),
            estimate_per_s: None,
            low_per_s: finite(least),
            high_per_s: None,
        }),
        (Some(answer), _) => out.push(of_answer("limit", answer)),
        (None, None) => {}
    }
    if let Some(answer) = &found.within_slo {
        out.push(of_answer("limit within SLO", answer));
    }
    out
}

fn of_answer(label: &str, answer: &LimitAnswer) -> LimitAnswerView {
    let LimitAnswer { low_per_s, estimate_per_s, high_per_s, confidence, tested, .. } = answer;
    let tested = match tested {
        Some(load) => format!("confirmed at {}, ", super::load::load_text(load.connections, load.rate_per_s)),
        None => "not confirmed at any load, ".to_string(),
    };
    let held = if answer.held_to_saturation { "the objective holds up to the limit; " } else { "" };
    LimitAnswerView {
        label: label.to_string(),
        value: format!("{}/s", number::rate(*estimate_per_s)),
        interval: format!(
            "{} to {}, {} confidence",
            number::rate(*low_per_s),
            number::rate(*high_per_s),
            number::percent(*confidence)
        ),
        note: format!("{held}{tested}{} trials, {:.0} s", answer.trials, answer.seconds),
        estimate_per_s: finite(*estimate_per_s),
        low_per_s: finite(*low_per_s),
        high_per_s: finite(*high_per_s),
    }
}

/// The answers as key figures.
pub(super) fn figures(found: &LimitReport) -> Vec<Figure> {
    let tone = tone(found.verdict);
    let figure = |a: LimitAnswerView| {
        let note = [a.interval, a.note].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("; ");
        Figure { label: a.label, value: a.value, note, tone }
    };
    answers(found).into_iter().map(figure).collect()
}

fn notes(found: &LimitReport) -> Vec<LimitNote> {
    let note = |label: &str, text: String, tone: Tone| LimitNote { label: label.to_string(), text, tone };
    let mut out = Vec::new();
    if let Some(binding) = found.binding.as_ref().filter(|_| found.within_slo.is_some()) {
        out.push(note("breaks first", binding.clone(), Tone::Plain));
    }
    let one = found.at_one_speed.as_ref().filter(|one| one.explained >= EXPLAINED_SHOWN);
    out.extend(one.map(|one| note("at one speed", of_one_speed(one), Tone::Plain)));
    if found.axis.is_none() && !found.curve.is_empty() {
        let knee = found.knee.as_ref().map_or(
            "no knee: throughput grows to its end in a straight line, or the noise hides where it bends".to_string(),
            of_knee,
        );
        out.push(note("knee", knee, Tone::Plain));
    }
    out.extend(found.usl.as_ref().map(|law| note("growth", of_law(law), Tone::Plain)));
    if let Some(stable) = &found.stable {
        out.push(note("stable", of_stable(stable), Tone::Plain));
    }
    if let Some(axis) = found.axis.as_ref().filter(|axis| !axis.until.is_empty()) {
        out.push(note("confidence", of_confidence(axis), Tone::Plain));
    }
    if let Some(overload) = &found.overload {
        let tone = if overload.metastable { Tone::Bad } else { Tone::Good };
        out.push(note("overload", of_overload(overload), tone));
    }
    let (spent, budget) = (found.spent_s, found.budget_s);
    let time = format!("{} in {spent:.0} s of {budget:.0} s", found.trials);
    out.push(note("trials", time, Tone::Plain));
    if !found.left_out.is_empty() {
        out.push(note("left out", of_left_out(found), Tone::Warn));
    }
    out
}

fn of_one_speed(one: &AtOneSpeed) -> String {
    format!(
        "{}/s ({} to {}): the machine's own speed moved by {} between these trials, and {} of their spread went with it",
        number::rate(one.estimate_per_s),
        number::rate(one.low_per_s),
        number::rate(one.high_per_s),
        number::percent(one.moved),
        number::percent(one.explained)
    )
}

fn of_knee(knee: &KneePoint) -> String {
    let interval = match (knee.low, knee.high) {
        (Some(low), Some(high)) if low < high => format!("{low:.0} to {high:.0}, 95 % interval"),
        (Some(_), Some(_)) => "at this rung in 95 % of resampled curves".to_string(),
        _ => "no load was tried twice: no interval".to_string(),
    };
    format!("at {:.0} connections, {}/s ({interval})", knee.connections, number::rate(knee.good_per_s))
}

fn of_law(law: &UslFit) -> String {
    let with = |b: &Bounded, text: fn(f64) -> String| {
        let end = |value: Option<f64>| value.map_or("without bound".to_string(), text);
        format!("{} ({} to {})", end(b.value), end(b.low), end(b.high))
    };
    let percent = |share: f64| number::percent(share);
    let peak = match law.peak.value {
        Some(value) if value <= 4.0 * law.tried_up_to => format!("most at {value:.0} {}", law.axis),
        Some(_) | None => "no peak near what was tried".to_string(),
    };
    let beyond: Vec<String> = law
        .extrapolated
        .iter()
        .map(|(n, x)| {
            let end = |value: Option<f64>| value.map_or(NONE.to_string(), number::rate);
            format!("with {n:.0} {}: {} to {}/s, if nothing new appears", law.axis, end(x.low), end(x.high))
        })
        .collect();
    let beyond = if beyond.is_empty() { String::new() } else { format!("; {}", beyond.join("; ")) };
    format!(
        "over {}: serial share {}, crosstalk {}, {peak}{beyond}",
        law.axis,
        with(&law.sigma, percent),
        with(&law.kappa, number::percent)
    )
}

fn of_stable(stable: &AxisAnswer) -> String {
    match (stable.holds_at, stable.fails_at) {
        (Some(holds), Some(fails)) => {
            let sure = number::percent(stable.confidence);
            format!("up to {} connections; not at {} ({sure} confidence)", number::count(holds), number::count(fails))
        }
        (Some(_), None) => format!("everywhere in {}", range(stable)),
        (None, _) => format!("nowhere in {}", range(stable)),
    }
}

fn of_confidence(axis: &AxisAnswer) -> String {
    let at = |value: Option<u64>, held: bool| {
        let point = axis.tried.iter().find(|point| Some(point.value) == value)?;
        let count = if held { point.held } else { point.trials - point.held };
        let verb = if held { "held" } else { "did not hold" };
        Some(format!("at {} it {verb} in {count} of {} trials", number::count(point.value), point.trials))
    };
    let sides: Vec<String> = [at(axis.holds_at, true), at(axis.fails_at, false)].into_iter().flatten().collect();
    format!("{}: {}", number::percent(axis.confidence), sides.join(", "))
}

fn of_overload(overload: &Overload) -> String {
    let after: Vec<String> = overload.after_per_s.iter().map(|rate| number::rate(*rate)).collect();
    let carried = format!(
        "asked for {}/s, it carried {}/s with {} failed",
        number::rate(overload.rate_per_s),
        number::rate(overload.carried_per_s),
        number::percent(overload.error_share)
    );
    let back = match (overload.metastable, after.is_empty()) {
        (_, true) => "whether it comes back was not tried".to_string(),
        (true, false) => {
            format!("afterwards only {}/s: metastable, it does not come back by itself", after.join(" and "))
        }
        (false, false) => format!("afterwards {}/s: it comes back", after.join(" and ")),
    };
    format!("{carried}; {back} (before, at least {}/s)", number::rate(overload.before_low_per_s))
}

fn of_left_out(found: &LimitReport) -> String {
    let shown: Vec<String> = found
        .left_out
        .iter()
        .take(LEFT_OUT_SHOWN)
        .map(|left| format!("trial {}: {}", left.trial, left.reason.split("; ").next().unwrap_or_default()))
        .collect();
    let more = found.left_out.len().saturating_sub(LEFT_OUT_SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{} trials: {}{more}", found.left_out.len(), shown.join("; "))
}

fn of_point(point: &LoadPoint, cpu_hosts: &[String]) -> LimitPoint {
    let load = point.load;
    let cpu = |host: &String| point.cpu_us_per_request.get(host).map_or(NONE.to_string(), |us| number::micros(*us));
    LimitPoint {
        load: load_text(load),
        connections: load.connections,
        rate_per_s: load.rate_per_s.and_then(finite),
        trials: point.trials,
        good_per_s: finite(point.good_per_s),
        p50_us: point.p50_us.and_then(positive),
        p90_us: point.p90_us.and_then(positive),
        p99_us: point.p99_us.and_then(positive),
        p999_us: point.p999_us.and_then(positive),
        error_share: finite(point.error_share).unwrap_or(0.0),
        cpu_us_per_request: cpu_hosts.iter().map(cpu).collect(),
        note: limited(point.generator_limited),
    }
}

/// Trials in closed loop that measured saturation, and trials in open loop; the ladder is a part of the load curve.
fn steps(found: &LimitReport) -> Vec<Vec<LimitStepView>> {
    let of_step = |step: &LimitStep| LimitStepView {
        trial: step.trial,
        text: format!("{}: {}", step.why, load_text(step.load)),
        per_s: finite(step.load.rate_per_s.unwrap_or(step.good_per_s)),
        held: step.held,
        counts: step.counts,
        low_per_s: step.low_per_s.and_then(finite),
        high_per_s: step.high_per_s.and_then(finite),
    };
    let of = |open: bool| {
        let own = found.steps.iter().filter(move |s| s.load.rate_per_s.is_some() == open);
        own.filter(|s| open || !s.chooses).map(of_step).collect::<Vec<_>>()
    };
    [of(false), of(true)].into_iter().filter(|steps| !steps.is_empty()).collect()
}

fn load_text(load: TestedLoad) -> String {
    match load.rate_per_s {
        Some(rate) => format!("{}/s", number::rate(rate)),
        None => format!("{} conn", number::count(u64::from(load.connections))),
    }
}

fn limit_of_p99_us(threshold: &Threshold) -> Option<f64> {
    match threshold.measure {
        Measure::Quantile(q) if (q - 0.99).abs() < 1e-9 => finite(threshold.limit),
        Measure::Quantile(_)
        | Measure::Mean
        | Measure::Max
        | Measure::LagQuantile(_)
        | Measure::Errors
        | Measure::Checks
        | Measure::Rate
        | Measure::Bandwidth
        | Measure::Count => None,
    }
}

fn limited(generator_limited: bool) -> String {
    if generator_limited { "at least (generator-limited)".to_string() } else { String::new() }
}

fn axis_points(answer: &AxisAnswer) -> Vec<LimitAxisPoint> {
    let of_point = |point: &AxisPoint| LimitAxisPoint {
        value: point.value,
        held: if answer.until.is_empty() { String::new() } else { format!("{} of {}", point.held, point.trials) },
        measured: match point.measured {
            Some(value) => number::with_unit(value, &answer.measured),
            None => String::new(),
        },
        good_per_s: finite(point.good_per_s),
        note: limited(point.generator_limited),
    };
    answer.tried.iter().map(of_point).collect()
}

fn axis_title(axis: &AxisAnswer) -> String {
    if axis.until.is_empty() { axis.axis.clone() } else { format!("{}, {}", axis.axis, axis.until) }
}
