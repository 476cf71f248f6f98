//! The proof and the changes as a report shows them.

use super::diagnosis::knob_text;
use super::{ArmName, ChangeView, EffectView, ProofTrial, ProofView, Tone, finite};
use crate::{names, number};
use prony_model::Run;
use prony_model::comparison::Strength;
use prony_model::knob::{Change, ChangeState};
use prony_model::proof::{Effect, Guard, Proof, ProofVerdict};
use prony_model::run::Arm;
use prony_stats::prove::{SOONNESS, same_within};

/// How the verdict of a proof is meant.
pub(crate) fn tone(verdict: ProofVerdict) -> Tone {
    match verdict {
        ProofVerdict::Better => Tone::Good,
        ProofVerdict::Worse => Tone::Bad,
        ProofVerdict::NoDifference => Tone::Plain,
        ProofVerdict::GuardBroken | ProofVerdict::Inconclusive => Tone::Warn,
    }
}

pub(super) fn of(proof: &Proof) -> ProofView {
    let predicted_gain = proof.predicted_gain.and_then(finite);
    ProofView {
        change: proof.knob.as_ref().map(knob_text),
        verdict: serde_json::to_value(proof.verdict)
            .ok()
            .and_then(|v| v.as_str().map(str::to_string))
            .expect("a proof's verdict is written as a string"),
        verdict_title: names::verdict_of(proof.verdict, same_within(proof.effect.low, proof.effect.high)),
        tone: tone(proof.verdict),
        summary: proof.summary.clone(),
        effect: effect(&proof.effect, tone(proof.verdict)),
        guards: proof.guards.iter().map(guard).collect(),
        predicted_gain,
        prediction: predicted_gain.map(|gain| prediction(gain, &proof.effect)),
        worth: proof.worth.as_ref().map(|w| format!("{}: {}", names::strength(w.strength), w.reason)),
        worth_tone: proof.worth.as_ref().map_or(Tone::Plain, |w| strength_tone(w.strength)),
        trials: proof.trials.iter().map(|(arm, x)| ProofTrial { arm: arm_name(*arm), per_s: finite(*x) }).collect(),
        seed: proof.seed.to_string(),
    }
}

/// How it is meant.
pub(crate) fn strength_tone(strength: Strength) -> Tone {
    match strength {
        Strength::Strong => Tone::Good,
        Strength::Unchecked | Strength::Weak => Tone::Warn,
    }
}

fn arm_name(arm: Arm) -> ArmName {
    match arm {
        Arm::A => ArmName::A,
        Arm::B => ArmName::B,
    }
}

/// A relative effect with its interval: `+38.2 % (+35.1 % to +41.4 %)`.
pub(crate) fn interval(effect: &Effect) -> String {
    format!("{} ({} to {})", number::change(effect.effect), number::change(effect.low), number::change(effect.high))
}

/// A value of an effect's metric as text.
fn value(metric: &str, value: f64) -> String {
    match metric {
        "good_per_s" => format!("{}/s", number::rate(value)),
        // The mean latency itself is easier to read.
        SOONNESS => number::micros(1e6 / value),
        "error_share" => number::percent(value),
        other if other.ends_with("_us") || other.contains("_us_") => number::micros(value),
        _ => number::plain(value),
    }
}

fn effect(e: &Effect, tone: Tone) -> EffectView {
    EffectView {
        metric: e.metric.clone(),
        title: names::effect(&e.metric),
        a_text: value(&e.metric, e.a),
        b_text: value(&e.metric, e.b),
        effect: finite(e.effect),
        low: finite(e.low),
        high: finite(e.high),
        text: interval(e),
        detectable: finite(e.detectable),
        p: finite(e.p),
        pairs: e.pairs,
        margin: None,
        state: String::new(),
        tone,
    }
}

fn guard(g: &Guard) -> EffectView {
    let (state, tone) = match (g.held, g.broken) {
        (true, _) => ("held", Tone::Good),
        (false, true) => ("broken", Tone::Bad),
        (false, false) => ("not sure: the interval crosses the margin", Tone::Warn),
    };
    EffectView { margin: finite(g.margin), state: state.to_string(), ..effect(&g.effect, tone) }
}

/// Scores the prediction: inside the interval or not, and by how much it was off.
fn prediction(gain: f64, effect: &Effect) -> String {
    let inside = gain >= effect.low && gain <= effect.high;
    let place = if inside { "inside the interval" } else { "outside the interval" };
    format!("predicted {}, measured {}: {place}", number::change(gain), number::change(effect.effect))
}

pub(super) fn changes(run: &Run) -> Vec<ChangeView> {
    run.changes.iter().map(change).collect()
}

fn change(c: &Change) -> ChangeView {
    let tone = match c.state {
        ChangeState::Undone => Tone::Good,
        ChangeState::Kept => Tone::Plain,
        ChangeState::Applied | ChangeState::Conflict => Tone::Warn,
    };
    ChangeView {
        host: c.knob.host.clone(),
        knob: format!("{}={}", c.knob.id, c.knob.value),
        title: names::knob(&c.knob.id),
        before: c.before.clone(),
        after: c.knob.value.clone(),
        state: names::change_state(c.state).to_string(),
        tone,
        diff: c.diff.clone(),
        permanent: c.permanent.clone(),
    }
}
