//! The answer to "is B different from A?", metric by metric: from interleaved blocks, or from two recorded runs.
//!
//! Which trials belong together is found in `loads` and `prove`, effects in `paired` and `unpaired`; this file puts them side by
//! side, corrects for several questions and judges gates. Invariant: swapping A and B turns better into worse and back.

pub mod differences;
mod records;

pub use records::{NothingInCommon, notes_on, of_records};

use crate::holm;
use crate::loads::{LoadGroup, Seen, groups};
use crate::paired::{self, Failures};
use crate::prove::{
    CPU_MARGIN, ERROR_SHARE_MARGIN, P99_MARGIN, SAME_MAX, SOONNESS, direction, pair_up, percent, pieces, points,
    same_within,
};
use crate::unpaired::{self, TRIALS_MIN};
use prony_model::comparison::{
    Answer, ChangeGate, ChangeInterval, ComparedMetric, GateResult, MatchedLoad, MetricChange,
};
use prony_model::run::Arm;
use prony_model::{Effect, ProofVerdict, Purpose, Run};

/// A difference is claimed only when its corrected p is at most this: what an interval of 95 % says of one question.
const ALPHA: f64 = 0.05;
/// Fewer loads in common give no interval by pairs of loads.
const LOADS_MIN: usize = 3;

/// How much of a metric's change still counts as the same. Margins as those of the guards of a proof.
const fn same_max(metric: ComparedMetric) -> f64 {
    match metric {
        ComparedMetric::Rps => SAME_MAX,
        ComparedMetric::P50 | ComparedMetric::P99 => P99_MARGIN,
        ComparedMetric::Errors => ERROR_SHARE_MARGIN,
        ComparedMetric::Cpu => CPU_MARGIN,
    }
}

/// The answer of a proof that was just run: its own verdict, with guards, and every metric from the pairs of its blocks.
/// None when the run holds no proof.
pub fn interleaved(run: &Run, question: &str) -> Option<Answer> {
    let proof = run.proof.as_ref()?;
    let trials = blocks(run);
    let pairs = pair_up(&trials);
    let limited = |arm| mostly_limited(trials.iter().filter(|t| t.1 == arm).map(|t| t.2));
    Some(Answer {
        question: question.to_string(),
        verdict: proof.verdict,
        summary: proof.summary.clone(),
        primary: if proof.effect.metric == SOONNESS { ComparedMetric::P99 } else { ComparedMetric::Rps },
        design: format!("{} pairs of neighbours in randomised blocks", pairs.len()),
        metrics: ComparedMetric::ALL.into_iter().filter_map(|metric| of_pairs(metric, &pairs)).collect(),
        gates: Vec::new(),
        loads: Vec::new(),
        generator_limited: limited(Arm::A) || limited(Arm::B),
        doubtful: doubtful(trials.iter().map(|t| t.2)),
    })
}

/// The trials of a proof in the order they ran: (block, arm, numbers).
pub fn blocks(run: &Run) -> Vec<(u32, Arm, Seen)> {
    let of = |t: &prony_model::Trial| match t.purpose {
        Purpose::Proof { block, arm } => Some((block, arm, Seen::of(run, t))),
        Purpose::Warmup
        | Purpose::Level { .. }
        | Purpose::Inspect
        | Purpose::Intervention { .. }
        | Purpose::Curve
        | Purpose::Load
        | Purpose::Cell { .. } => None,
    };
    run.trials.iter().filter_map(of).collect()
}

/// The answer of two recorded runs.
///
/// Trials are matched by purpose and load. Where both runs have at least three trials of one load, these are compared by
/// Welch's t (the load with most trials is taken); else, with at least three loads in common, each load is a pair, which
/// takes the change for the same at every load; else there is a change without an interval, and no verdict.
/// A trial is one number: the interval knows how much trials differ *within* a run, not how much runs differ.
///
/// # Errors
/// When the runs have no load in common.
pub fn recorded(a: &Run, b: &Run, question: &str) -> Result<Answer, NothingInCommon> {
    let (of_a, of_b) = (groups(a), groups(b));
    let matched: Vec<(&LoadGroup, &LoadGroup)> =
        of_a.iter().filter_map(|one| Some((one, of_b.iter().find(|other| one.matches(other))?))).collect();
    if matched.is_empty() {
        let words = |groups: &[LoadGroup]| groups.iter().map(|g| format!("{} ({})", g.label(), g.request())).collect();
        let alike = of_a.iter().flat_map(|a| of_b.iter().filter(|b| a.label() == b.label()).map(move |b| a.differs(b)));
        let differs: std::collections::BTreeSet<&str> = alike.flatten().collect();
        let differs = differs.into_iter().map(str::to_string).collect();
        return Err(NothingInCommon { a: words(&of_a), b: words(&of_b), differs });
    }
    let (design, used) = design(&matched);
    let used_pairs: Vec<(&LoadGroup, &LoadGroup)> = used.iter().map(|i| matched[*i]).collect();
    let metrics: Vec<MetricChange> =
        ComparedMetric::ALL.into_iter().filter_map(|metric| of_groups(metric, &used_pairs)).collect();
    let closed = used_pairs.iter().any(|(group, _)| group.is_closed());
    let limited = |side: fn(&(&LoadGroup, &LoadGroup)) -> Vec<Seen>| mostly_limited(used_pairs.iter().flat_map(side));
    let load = |(i, (a, b)): (usize, &(&LoadGroup, &LoadGroup))| MatchedLoad {
        label: a.label(),
        trials_a: a.trials.len() as u32,
        trials_b: b.trials.len() as u32,
        rps_a: a.mean(ComparedMetric::Rps).unwrap_or(0.0),
        rps_b: b.mean(ComparedMetric::Rps).unwrap_or(0.0),
        used: used.contains(&i),
    };
    Ok(Answer {
        question: question.to_string(),
        verdict: ProofVerdict::Inconclusive,
        summary: String::new(),
        primary: if closed { ComparedMetric::Rps } else { ComparedMetric::P99 },
        design,
        metrics,
        gates: Vec::new(),
        loads: matched.iter().enumerate().map(load).collect(),
        generator_limited: limited(|pair| pair.0.trials.clone()) || limited(|pair| pair.1.trials.clone()),
        doubtful: doubtful(used_pairs.iter().flat_map(|(a, b)| [&a.trials[..], &b.trials].concat())),
    })
}

/// Which of the matched loads are used, and how, in words.
fn design(matched: &[(&LoadGroup, &LoadGroup)]) -> (String, Vec<usize>) {
    let smaller = |i: &usize| matched[*i].0.trials.len().min(matched[*i].1.trials.len());
    // The first of the largest: runs begin with the load that the user wrote.
    let largest = (0..matched.len()).rev().max_by_key(smaller).unwrap_or(0);
    let (a, b) = matched[largest];
    let trials = format!("{} trials of A and {} of B {}", a.trials.len(), b.trials.len(), a.label());
    if smaller(&largest) >= TRIALS_MIN {
        (format!("{trials}, without partners (Welch's t)"), vec![largest])
    } else if matched.len() >= LOADS_MIN {
        (format!("{} loads that both runs have, each a pair", matched.len()), (0..matched.len()).collect())
    } else {
        (format!("{trials}: too few for an interval, which needs {TRIALS_MIN} on each side"), vec![largest])
    }
}

fn mostly_limited(trials: impl Iterator<Item = Seen>) -> bool {
    let (mut limited, mut all) = (0, 0);
    for seen in trials {
        limited += u32::from(seen.generator_limited);
        all += 1;
    }
    2 * limited > all
}

/// How many broke a validity gate, of how many.
fn doubtful(trials: impl Iterator<Item = Seen>) -> (u32, u32) {
    trials.fold((0, 0), |(doubtful, all), seen| (doubtful + u32::from(!seen.valid), all + 1))
}

fn of_pairs(metric: ComparedMetric, pairs: &[(Seen, Seen)]) -> Option<MetricChange> {
    let n = pairs.len() as u32;
    if !metric.is_ratio() {
        let failures: Vec<(Failures, Failures)> = pairs.iter().map(|(a, b)| (a.failures, b.failures)).collect();
        let effect = paired::compare_share(metric.name(), &failures)?;
        return Some(with_interval(metric, &effect, effect.p, (n, n)));
    }
    let values: Option<Vec<(f64, f64)>> = pairs.iter().map(|(a, b)| a.ratio(metric).zip(b.ratio(metric))).collect();
    let pieces = pieces(pairs, |seen| seen.piece_us);
    let effect = paired::compare_at_speed(metric.name(), &values?, &pieces)?;
    Some(with_interval(metric, &effect, paired::p_by_t(&effect), (n, n)))
}

/// From one matched load by Welch's t, or from several as pairs; without an interval when there is too little.
fn of_groups(metric: ComparedMetric, matched: &[(&LoadGroup, &LoadGroup)]) -> Option<MetricChange> {
    let count = |side: fn(&(&LoadGroup, &LoadGroup)) -> usize| matched.iter().map(side).sum::<usize>() as u32;
    let trials = (count(|m| m.0.trials.len()), count(|m| m.1.trials.len()));
    let effect = match matched {
        [(a, b)] if metric.is_ratio() => {
            let values = |g: &LoadGroup| g.trials.iter().map(|t| t.ratio(metric)).collect::<Option<Vec<f64>>>();
            unpaired::compare(metric.name(), &values(a)?, &values(b)?).map(|effect| (effect.p, effect))
        }
        [(a, b)] => {
            let failures = |g: &LoadGroup| g.trials.iter().map(|t| t.failures).collect::<Vec<_>>();
            unpaired::compare_share(metric.name(), &failures(a), &failures(b)).map(|effect| (effect.p, effect))
        }
        many if metric.is_ratio() => {
            let means: Option<Vec<(f64, f64)>> = many.iter().map(|(a, b)| a.mean(metric).zip(b.mean(metric))).collect();
            paired::compare(metric.name(), &means?).map(|effect| (paired::p_by_t(&effect), effect))
        }
        many => {
            let all = |g: &LoadGroup| paired::pooled(g.trials.iter().map(|t| &t.failures));
            let failures: Vec<(Failures, Failures)> = many.iter().map(|(a, b)| (all(a), all(b))).collect();
            paired::compare_share(metric.name(), &failures).map(|effect| (effect.p, effect))
        }
    };
    match effect {
        Some((p, effect)) => Some(with_interval(metric, &effect, p, trials)),
        None => {
            let (a, b) = (matched.first()?.0.mean(metric)?, matched.first()?.1.mean(metric)?);
            let change = if metric.is_ratio() { b / a - 1.0 } else { b - a };
            let (trials_a, trials_b) = trials;
            let verdict = ProofVerdict::Inconclusive;
            Some(MetricChange { metric, a, b, change, by_speed: None, interval: None, trials_a, trials_b, verdict })
        }
    }
}

fn with_interval(metric: ComparedMetric, effect: &Effect, p: f64, (trials_a, trials_b): (u32, u32)) -> MetricChange {
    let Effect { a, b, effect: change, low, high, detectable, by_speed, .. } = *effect;
    let interval = Some(ChangeInterval { low, high, detectable, p, p_holm: p });
    let verdict = ProofVerdict::Inconclusive;
    MetricChange { metric, a, b, change, by_speed, interval, trials_a, trials_b, verdict }
}

/// Gives every metric its verdict, corrected for all questions (Holm): what each answer is about is one family over all
/// answers, everything beside it another. Then each answer's own verdict and summary follow.
pub fn conclude(answers: &mut [Answer]) {
    for primary in [true, false] {
        let mut family: Vec<&mut MetricChange> = Vec::new();
        for answer in answers.iter_mut() {
            let asked = answer.primary;
            family.extend(answer.metrics.iter_mut().filter(|m| (m.metric == asked) == primary && m.interval.is_some()));
        }
        let p: Vec<f64> = family.iter().filter_map(|m| m.interval.map(|i| i.p)).collect();
        for (change, p_holm) in family.into_iter().zip(holm::adjusted(&p)) {
            if let Some(interval) = &mut change.interval {
                interval.p_holm = p_holm;
                change.verdict = judge(change.metric, interval);
            }
        }
    }
    let questions = answers.len();
    answers.iter_mut().for_each(|answer| conclude_one(answer, questions));
}

fn judge(metric: ComparedMetric, interval: &ChangeInterval) -> ProofVerdict {
    let ChangeInterval { low, high, p_holm, .. } = *interval;
    let d = if metric.is_ratio() { same_within(low, high) } else { low.abs().max(high.abs()) };
    let (low, high) = if metric.more_is_better() { (low, high) } else { (-high, -low) };
    let verdict = direction(low, high, d, same_max(metric));
    let claimed = matches!(verdict, ProofVerdict::Better | ProofVerdict::Worse);
    match (claimed && p_holm > ALPHA, d <= same_max(metric)) {
        (false, _) => verdict,
        (true, true) => ProofVerdict::NoDifference,
        (true, false) => ProofVerdict::Inconclusive,
    }
}

/// The verdict of an answer: for recorded runs that of what it is about; for a proof its own, unless Holm takes it back.
fn conclude_one(answer: &mut Answer, questions: usize) {
    let Some(primary) = answer.metrics.iter().find(|m| m.metric == answer.primary) else { return };
    if answer.summary.is_empty() {
        answer.verdict = primary.verdict;
        let harmed = |m: &MetricChange| m.verdict == ProofVerdict::Worse && beyond_margin(m);
        if answer.verdict == ProofVerdict::Better && answer.metrics.iter().any(harmed) {
            answer.verdict = ProofVerdict::GuardBroken;
        }
        answer.summary = sentence(answer, primary);
        return;
    }
    let claimed = matches!(answer.verdict, ProofVerdict::Better | ProofVerdict::Worse | ProofVerdict::GuardBroken);
    let p_holm = primary.interval.map_or(1.0, |i| i.p_holm);
    if claimed && p_holm > ALPHA {
        answer.verdict = primary.verdict;
        answer.summary = format!(
            "Not sure any more when it is one of {questions} questions (p = {p_holm:.3} after Holm's correction). Alone: {}",
            answer.summary
        );
    }
}

/// Whether the whole interval lies beyond the margin of a guard.
fn beyond_margin(change: &MetricChange) -> bool {
    let least = change.interval.map_or(0.0, |i| if change.metric.more_is_better() { -i.high } else { i.low });
    least > same_max(change.metric)
}

/// What a recorded comparison says of its main metric, in one sentence.
fn sentence(answer: &Answer, primary: &MetricChange) -> String {
    let name = match primary.metric {
        ComparedMetric::Rps => "throughput",
        ComparedMetric::P50 | ComparedMetric::P99 | ComparedMetric::Errors | ComparedMetric::Cpu => {
            primary.metric.name()
        }
    };
    let change = written(primary.metric, primary.change);
    let Some(ChangeInterval { low, high, detectable, .. }) = primary.interval else {
        return format!(
            "Inconclusive: {name} of B differs by {change}, but {}. Next: runs with more trials of one load, or `prony compare \
             --live STACK --knob NAME=VALUE`.",
            answer.design
        );
    };
    let d = percent(same_within(low, high));
    let word = match answer.verdict {
        ProofVerdict::Better => "Better".to_string(),
        ProofVerdict::Worse => "Worse".to_string(),
        ProofVerdict::NoDifference => format!("The same within {}", d.trim_start_matches('+')),
        ProofVerdict::GuardBroken => "Better, but not without harm".to_string(),
        ProofVerdict::Inconclusive => "Inconclusive".to_string(),
    };
    format!(
        "{word}: {name} of B differs by {change} (95 % interval {} to {}; {}; smallest detectable effect {}).",
        written(primary.metric, low),
        written(primary.metric, high),
        answer.design,
        written(primary.metric, detectable).trim_start_matches('+')
    )
}

/// A change as text: relative, or in percentage points.
fn written(metric: ComparedMetric, change: f64) -> String {
    if metric.is_ratio() { percent(change) } else { points(change) }
}

/// Judges gates on every answer.
pub fn judge_gates(answers: &mut [Answer], gates: &[ChangeGate]) {
    for answer in answers {
        answer.gates = gates.iter().map(|gate| gate_result(gate, &answer.metrics)).collect();
    }
}

fn gate_result(gate: &ChangeGate, metrics: &[MetricChange]) -> GateResult {
    let change = metrics.iter().find(|m| m.metric == gate.metric);
    let interval = change.and_then(|m| m.interval.as_ref());
    let state = gate.judge(interval);
    let seen = match (change, interval) {
        (Some(m), Some(i)) => {
            let [change, low, high] = [m.change, i.low, i.high].map(|v| written(m.metric, v));
            format!("{change}, 95 % interval {low} to {high}")
        }
        (Some(m), None) => format!("{}, without an interval: too few trials", written(m.metric, m.change)),
        (None, _) => format!("{} was not read on both sides", gate.metric.name()),
    };
    GateResult { gate: gate.clone(), state, detail: seen }
}

#[cfg(test)]
mod tests;
