//! The result in one sentence, and the key figures beside it.
//!
//! Invariant: a rate that the generator limited is never given as the stack's, but as "at least".

use super::load::{load_text, note};
use super::stack::objective;
use super::{Figure, Headline, Tone, diagnosis, limit, positive, proof};
use crate::{names, number};
use prony_model::Nanos;
use prony_model::diagnosis::{Confidence, Verdict, told_change};
use prony_model::proof::{Proof, ProofVerdict};
use prony_model::run::{Level, Purpose, Run, RunEnd, Trial};
use prony_model::stack::Slo;
use prony_stats::prove::{SOONNESS, same_within};

pub(super) fn of(run: &Run) -> Headline {
    let verdict = run.diagnosis.as_ref().map(|d| &d.verdict);
    let searched = run.limit.as_ref().filter(|limit| limit.trials > 0);
    let mut proven = run.proof.as_ref().map(|proof| (sentence_of_proof(proof), proof::tone(proof.verdict)));
    let (sentence, tone) = match (verdict, searched, operating_point(run)) {
        (Some(verdict), _, _) => sentence_of_verdict(run, verdict),
        (None, Some(found), _) => (limit::sentence(run, found), limit::tone(found.verdict)),
        (None, None, Some(trial)) => (sentence_of_load(run, trial), Tone::Plain),
        (None, None, None) => proven.take().unwrap_or_else(|| ("Nothing was measured.".to_string(), Tone::Warn)),
    };
    let tone = match &run.end {
        RunEnd::Done => tone,
        RunEnd::Failed { .. } => Tone::Bad,
        RunEnd::Open | RunEnd::Interrupted => Tone::Warn,
    };
    Headline { sentence, support: proven.map(|(support, _)| support), tone, figures: figures(run) }
}

/// The trials of the load curve, the levels among them.
fn of_curve(run: &Run) -> impl Iterator<Item = &Trial> {
    let is_of_curve = |t: &&Trial| matches!(t.purpose, Purpose::Curve | Purpose::Level { .. });
    run.trials.iter().filter(is_of_curve).filter(|t| !run.is_superseded(t))
}

/// The trial whose figures stand for the stack: at the limit, or where a search confirmed it, else the last plain load, else the best
/// of the curve.
pub(crate) fn operating_point(run: &Run) -> Option<&Trial> {
    let confirmed = || {
        let tested = run.limit.as_ref()?.saturation.as_ref()?.tested.as_ref()?;
        let is_there =
            |t: &&Trial| t.plan.rate.map(|r| r.0) == tested.rate_per_s && t.plan.connections == tested.connections;
        of_curve(run).filter(is_there).last()
    };
    let plain = || run.trials.iter().rev().find(|t| t.purpose == Purpose::Load);
    let curve = || of_curve(run).max_by(|a, b| a.result.good_per_s.total_cmp(&b.result.good_per_s));
    run.level(Level::At).or_else(confirmed).or_else(plain).or_else(curve)
}

fn sentence_of_verdict(run: &Run, verdict: &Verdict) -> (String, Tone) {
    let title = names::cause(&verdict.cause);
    match verdict.cause.as_str() {
        "" | "inconclusive" => ("What limits this stack could not be told.".to_string(), Tone::Warn),
        "none" => (format!("{title}."), Tone::Good),
        _ if verdict.hop.is_empty() => (format!("{title}."), Tone::Plain),
        _ => {
            let alone = run.stack.host.len() <= 1;
            (if alone { format!("{title}.") } else { format!("{title}, at {}.", verdict.hop) }, Tone::Plain)
        }
    }
}

fn sentence_of_load(run: &Run, trial: &Trial) -> String {
    let result = &trial.result;
    let target = run.stack.title();
    if result.completed == 0 {
        return format!("No request to {target} was answered ({} failed).", number::count(result.errors.total()));
    }
    let rate = number::rate(result.good_per_s);
    if result.generator_limited() {
        return format!("{target} answers at least {rate} requests per second; the generator was the limit.");
    }
    let valid = if result.gates.iter().all(|g| g.held) { "" } else { " The figure is not valid." };
    format!("{target} answered {rate} requests per second.{valid}")
}

fn sentence_of_proof(proof: &Proof) -> String {
    let what = if proof.knob.is_some() { "The remedy" } else { "B (the same as A)" };
    let (low, high) = (number::change(proof.effect.low), number::change(proof.effect.high));
    let interval = format!("95 % interval {low} to {high}");
    let size = |effect: f64| number::change(effect.abs()).replace('+', "");
    let by = size(proof.effect.effect);
    let (gains, costs) = match proof.effect.metric.as_str() {
        SOONNESS => (format!("{what} makes answers {by} faster"), format!("{what} makes answers {by} slower")),
        _ => (format!("{what} gains {by} throughput"), format!("{what} costs {by} throughput")),
    };
    match proof.verdict {
        ProofVerdict::Better => format!("{gains}: proven, {interval}."),
        ProofVerdict::Worse => format!("{costs}: proven, {interval}."),
        ProofVerdict::NoDifference => {
            let d = number::percent(same_within(proof.effect.low, proof.effect.high));
            format!("{what} makes no difference that matters: the same within {d}, {interval}.")
        }
        ProofVerdict::GuardBroken => {
            let broken: Vec<String> =
                proof.guards.iter().filter(|g| !g.held).map(|g| names::effect(&g.effect.metric)).collect();
            format!("{gains} ({interval}), but not without harm: {}.", broken.join(", "))
        }
        ProofVerdict::Inconclusive => format!("Whether the remedy helps could not be told: {interval}."),
    }
}

fn figures(run: &Run) -> Vec<Figure> {
    let mut out = Vec::new();
    let figure =
        |label: &str, value: String, note: String, tone: Tone| Figure { label: label.to_string(), value, note, tone };
    if let Some(proof) = &run.proof {
        let (low, high) = (number::change(proof.effect.low), number::change(proof.effect.high));
        let value = number::change(proof.effect.effect);
        out.push(figure(
            "proven effect",
            value,
            format!("{low} to {high}, {} pairs", proof.effect.pairs),
            proof::tone(proof.verdict),
        ));
    }
    match (&run.limit, operating_point(run)) {
        (Some(found), _) => out.extend(limit::figures(found)),
        (None, Some(trial)) => {
            out.extend(figures_of_load(trial));
            out.extend(run.stack.slo.as_ref().and_then(|slo| within(run, slo)));
        }
        (None, None) => {}
    }
    if let Some(verdict) = run.diagnosis.as_ref().map(|d| &d.verdict) {
        let sure = match verdict.confidence {
            Confidence::High => Tone::Good,
            Confidence::Medium => Tone::Plain,
            Confidence::Low => Tone::Warn,
        };
        let (grounded, tone) = if verdict.grounded { ("grounded", Tone::Good) } else { ("not grounded", sure) };
        let holding = verdict.grounding.iter().filter(|g| g.holds).count();
        let tests = match verdict.grounding.len() {
            0 => grounded.to_string(),
            all => format!("{grounded}: {holding} of {all} tests agree"),
        };
        out.push(figure("confidence", names::confidence(verdict.confidence).to_string(), tests, tone));
        if let (Some(gain), None) = (verdict.predicted_gain, &run.proof) {
            let first = run.diagnosis.iter().flat_map(|d| &d.remedies).find_map(|r| r.knob.as_ref());
            // What answers so much sooner takes so much less time.
            let change = |gain: f64| number::change(told_change(gain, verdict.at_rate));
            let name = if verdict.at_rate { "mended latency" } else { "predicted gain" };
            let interval = match (verdict.predicted_gain_low, verdict.predicted_gain_high) {
                (Some(low), Some(high)) if verdict.at_rate => format!("{} to {}", change(high), change(low)),
                (Some(low), Some(high)) => format!("{} to {}", change(low), change(high)),
                (None, _) | (_, None) => "no interval known".to_string(),
            };
            let by = first.map(|knob| format!(", {}", diagnosis::knob_text(knob))).unwrap_or_default();
            out.push(figure(name, change(gain), format!("{interval}{by}"), Tone::Plain));
        }
    }
    out
}

/// The greatest throughput that was seen within the objective. A lower bound, because nobody searched for its end.
fn within(run: &Run, slo: &Slo) -> Option<Figure> {
    let mut tried = of_curve(run).filter(|t| t.result.latency.count > 0).peekable();
    tried.peek()?;
    let fits = |limit: Option<Nanos>, us: f64| limit.is_none_or(|limit| us <= limit.as_us_f64());
    let held = tried.filter(|t| {
        let (result, latency) = (&t.result, &t.result.latency);
        let few_failed = slo.errors.is_none_or(|share| result.error_share() <= share.0);
        fits(slo.p50, latency.p50_us) && fits(slo.p99, latency.p99_us) && few_failed
    });
    let best = held.map(|t| t.result.good_per_s).reduce(f64::max);
    let (value, tone) = match best {
        Some(per_s) => (format!("at least {}/s", number::rate(per_s)), Tone::Plain),
        None => ("none seen".to_string(), Tone::Warn),
    };
    Some(Figure { label: "within the SLO".to_string(), value, note: objective(slo), tone })
}

fn figures_of_load(trial: &Trial) -> Vec<Figure> {
    let result = &trial.result;
    // The value beside it says "at least" already.
    let held = note(result).replacen("at least (generator-limited", "(generator-limited", 1);
    let load = load_text(trial.plan.connections, trial.plan.rate.map(|r| r.0));
    let at_least = if result.generator_limited() { "at least " } else { "" };
    let label = match trial.purpose {
        Purpose::Level { level: Level::At } if trial.plan.rate.is_none() => "limit",
        Purpose::Level { .. }
        | Purpose::Warmup
        | Purpose::Inspect
        | Purpose::Intervention { .. }
        | Purpose::Proof { .. }
        | Purpose::Curve
        | Purpose::Cell { .. }
        | Purpose::Load => "throughput",
    };
    let (shown, tone) = if held.is_empty() { (load, Tone::Plain) } else { (held, Tone::Warn) };
    let mut out = vec![Figure {
        label: label.to_string(),
        value: format!("{at_least}{}/s", number::rate(result.good_per_s)),
        note: shown,
        tone,
    }];
    if let Some(p99) = positive(result.latency.p99_us) {
        let note = format!("p50 {}", number::micros(result.latency.p50_us));
        out.push(Figure { label: "p99 latency".to_string(), value: number::micros(p99), note, tone: Tone::Plain });
    }
    if result.errors.total() > 0 {
        let value = number::percent(result.error_share());
        let note = format!("{} failed", number::count(result.errors.total()));
        out.push(Figure { label: "errors".to_string(), value, note, tone: Tone::Bad });
    }
    out
}
