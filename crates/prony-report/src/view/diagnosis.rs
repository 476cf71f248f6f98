//! The diagnosis as a report shows it: verdict, evidence, what was excluded, what could not be seen.
//!
//! Order is kept as the diagnosis gives it; gaps alone are grouped, by host and reason.

use super::{
    AgainstView, CandidateView, EvidenceView, ExcludedView, GapView, GroundingView, MovedView, RemedyView, VerdictView,
    WalkView, finite,
};
use crate::comparison::difference;
use crate::{names, number};
use prony_model::diagnosis::{Diagnosis, Evidence, EvidenceVerdict, Moved};
use prony_model::{Gap, Knob, Level, Run};

pub(super) fn verdict(run: &Run) -> Option<VerdictView> {
    let verdict = &run.diagnosis.as_ref()?.verdict;
    let grounding = verdict.grounding.iter().map(|g| GroundingView {
        test: g.test.clone(),
        title: names::grounding(&g.test),
        holds: g.holds,
        detail: g.detail.clone(),
    });
    Some(VerdictView {
        cause: verdict.cause.clone(),
        title: names::cause(&verdict.cause),
        meaning: names::cause_meaning(&verdict.cause).to_string(),
        hop: verdict.hop.clone(),
        confidence: names::confidence(verdict.confidence).to_string(),
        grounded: verdict.grounded,
        predicted_gain: verdict.predicted_gain.and_then(finite),
        predicted_gain_low: verdict.predicted_gain_low.and_then(finite),
        predicted_gain_high: verdict.predicted_gain_high.and_then(finite),
        summary: verdict.summary.clone(),
        grounding: grounding.collect(),
    })
}

fn listed<T, V>(run: &Run, items: impl Fn(&Diagnosis) -> &Vec<T>, view: impl Fn(&T) -> V) -> Vec<V> {
    run.diagnosis.iter().flat_map(items).map(view).collect()
}

pub(super) fn evidence(run: &Run) -> Vec<EvidenceView> {
    listed(run, |d| &d.evidence, evidence_of)
}

fn evidence_of(e: &Evidence) -> EvidenceView {
    let text = |value: f64| number::with_unit(value, &e.unit);
    let (baseline, threshold) = (e.baseline.and_then(finite), e.threshold.and_then(finite));
    EvidenceView {
        claim: e.claim.clone(),
        metric: e.metric.clone(),
        metric_title: names::metric(&e.metric),
        host: e.host.clone(),
        unit: e.unit.clone(),
        value: finite(e.value),
        value_text: text(e.value),
        baseline,
        baseline_text: baseline.map(text),
        threshold,
        threshold_text: threshold.map(text),
        origin: e.origin.clone(),
        supports: e.verdict == EvidenceVerdict::Supports,
    }
}

pub(super) fn candidates(run: &Run) -> Vec<CandidateView> {
    listed(
        run,
        |d| &d.candidates,
        |c| CandidateView {
            cause: c.cause.clone(),
            title: names::cause(&c.cause),
            hop: c.hop.clone(),
            share: finite(c.score),
            share_text: number::percent(c.score),
        },
    )
}

pub(super) fn excluded(run: &Run) -> Vec<ExcludedView> {
    listed(
        run,
        |d| &d.excluded,
        |e| ExcludedView { cause: e.cause.clone(), title: names::cause(&e.cause), because: e.because.clone() },
    )
}

pub(super) fn walk(run: &Run) -> Vec<WalkView> {
    listed(
        run,
        |d| &d.walk,
        |step| WalkView {
            step: step.step.clone(),
            title: names::walk(&step.step),
            looked_at: step.looked_at.clone(),
            said: step.said.clone(),
            ruled_out: step.ruled_out.clone(),
        },
    )
}

pub(super) fn against(run: &Run) -> Option<AgainstView> {
    let against = run.diagnosis.as_ref()?.against.as_ref()?;
    let now = run.level(Level::At).map_or(0.0, |trial| trial.result.good_per_s);
    Some(AgainstView {
        run: against.run.clone(),
        throughput: format!("{} now, {} in the good run", number::rate(now), number::rate(against.good_per_s)),
        settings: against.settings.iter().map(difference).collect(),
        moved: against.moved.iter().map(moved).collect(),
    })
}

fn moved(moved: &Moved) -> MovedView {
    let value = |value: f64| number::with_unit(value, &moved.unit);
    let change = match (moved.low, moved.high) {
        (Some(low), Some(high)) => format!("{} to {}", number::change(low), number::change(high)),
        (_, _) if moved.good == 0.0 => "new".to_string(),
        (_, _) => format!("{}, of too few trials for an interval", number::change(moved.now / moved.good - 1.0)),
    };
    MovedView {
        metric: moved.metric.clone(),
        host: moved.host.clone(),
        good: value(moved.good),
        now: value(moved.now),
        change,
    }
}

pub(super) fn remedies(run: &Run) -> Vec<RemedyView> {
    listed(run, |d| &d.remedies, |r| RemedyView { advice: r.advice.clone(), knob: r.knob.as_ref().map(knob_text) })
}

/// A knob as a person names it: `nginx.access_log=off at lb`.
pub(super) fn knob_text(knob: &Knob) -> String {
    format!("{}={} at {}", knob.id, knob.value, knob.host)
}

/// Gaps of the run and of the diagnosis, each once, grouped by reason: forty metrics of one host that is out of sight are
/// one line to read, and so is one metric that four hosts lack.
pub(super) fn gaps(run: &Run) -> Vec<GapView> {
    let mut out: Vec<GapView> = Vec::new();
    let of_diagnosis = run.diagnosis.iter().flat_map(|d| &d.gaps);
    for Gap { fact, host, reason } in run.gaps.iter().chain(of_diagnosis) {
        match out.iter_mut().find(|g| g.host == *host && g.reason == *reason) {
            Some(group) if group.facts.contains(fact) => {}
            Some(group) => group.facts.push(fact.clone()),
            None => out.push(GapView { host: host.clone(), facts: vec![fact.clone()], reason: reason.clone() }),
        }
    }
    let mut merged: Vec<GapView> = Vec::new();
    for gap in out {
        match merged.iter_mut().find(|m| m.facts == gap.facts && m.reason == gap.reason) {
            Some(group) => group.host = format!("{}, {}", group.host, gap.host),
            None => merged.push(gap),
        }
    }
    merged
}
