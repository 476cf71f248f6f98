//! The verdict of an interleaved A/B experiment: better, worse, the same within d, a guard broken, or inconclusive.
//!
//! The order of trials is made in `order`, effects in `paired`; this file only decides and says why.
//! Invariant: without guards, swapping A and B swaps better and worse and changes nothing else.

use crate::paired::{self, Failures};
use prony_model::proof::Guard;
use prony_model::run::Arm;
use prony_model::{Effect, Knob, LoadResult, Proof, ProofVerdict};
use std::collections::BTreeMap;

/// A change of throughput of less than this, up or down, is none that matters: when the interval holds 0 and lies within, the
/// verdict is "the same within d". A guess: what change detection reports by default (Hunter, MongoDB: 5 %).
pub const SAME_MAX: f64 = 0.05;
/// How much worse p99 may get, relative. A guess.
pub(crate) const P99_MARGIN: f64 = 0.10;
/// How much higher the error share may get, absolute: 0.1 percentage points. A guess.
pub(crate) const ERROR_SHARE_MARGIN: f64 = 0.001;
/// How much dearer a request may get in CPU time, relative. A guess; CPU per request at one load repeats within 2 %.
pub(crate) const CPU_MARGIN: f64 = 0.05;

/// Metric of the effect on throughput.
pub const THROUGHPUT: &str = "good_per_s";
/// Metric of the effect at a rate that is carried.
pub const SOONNESS: &str = "soonness_per_s";

/// The numbers that one trial gives to statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialNumbers {
    /// Good requests per second.
    pub good_per_s: f64,
    /// How soon requests were answered, 1 / mean latency, per second, where a rate was asked and carried; none where throughput tells.
    pub soonness_per_s: Option<f64>,
    /// 99th percentile of latency in microseconds.
    pub p99_us: f64,
    /// Failed requests.
    pub errors: u64,
    /// Requests that ended, failed or not.
    pub total: u64,
    /// CPU time of the changed host per request in microseconds; none when it was not read.
    pub cpu_us_per_request: Option<f64>,
    /// What a piece of the yardstick's work took meanwhile, in microseconds; none when it was not measured.
    pub piece_us: Option<f64>,
}

impl TrialNumbers {
    /// From the result of a load, and what hosts showed meanwhile: the CPU time per request of the changed one, and what a piece of
    /// the yardstick's work took, if these were read.
    pub fn of(result: &LoadResult, cpu_us_per_request: Option<f64>, piece_us: Option<f64>) -> Self {
        let errors = result.errors;
        Self {
            good_per_s: result.good_per_s,
            soonness_per_s: None,
            p99_us: result.latency.p99_us,
            errors: errors.total(),
            total: result.completed + (errors.total() - errors.status),
            cpu_us_per_request,
            piece_us,
        }
    }

    /// What a change is to raise: how soon requests are answered where that is told, else throughput.
    pub fn compared_per_s(&self) -> f64 {
        self.soonness_per_s.unwrap_or(self.good_per_s)
    }
}

/// Decides from the trials of a proof, given as (block, arm, numbers) in the order they ran.
///
/// In each block the first A is paired with the first B, the second with the second, so that partners ran next to each
/// other; a trial without partner (interrupted run) is left out. Guards are tests of non-inferiority: a guard held when
/// the upper end of the 95 % interval is within its margin, and broke when the lower end is beyond it (Schuirmann 1987,
/// "A comparison of the two one-sided tests procedure and the power approach", J. Pharmacokinet. Biopharm. 15).
/// What is compared is throughput; at a rate that all trials carried, how soon requests are answered, because throughput is then the rate.
/// A guard whose metric was not read in at least 3 pairs is left out. When there is no effect to speak of (fewer than
/// 3 pairs), the verdict is inconclusive and `effect.pairs` is 0: then its other numbers mean nothing.
pub fn verdict(
    knob: Option<Knob>,
    trials: &[(u32, Arm, TrialNumbers)],
    predicted_gain: Option<f64>,
    seed: u64,
) -> Proof {
    let pairs = pair_up(trials);
    let rates: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a.compared_per_s(), b.compared_per_s())).collect();
    let pieces = pieces(&pairs, |numbers| numbers.piece_us);
    let at_rate = trials.iter().any(|(_, _, numbers)| numbers.soonness_per_s.is_some());
    let metric = if at_rate { SOONNESS } else { THROUGHPUT };
    let effect = paired::compare_at_speed(metric, &rates, &pieces);
    let guards = guards(&pairs, &pieces);
    let verdict = effect.as_ref().map_or(ProofVerdict::Inconclusive, |effect| decide(effect, &guards));
    let summary = match &effect {
        Some(effect) => summary(knob.as_ref(), verdict, effect, &guards, predicted_gain),
        None => format!("Inconclusive: {}.", why_no_effect(&rates)),
    };
    let effect = effect.unwrap_or_else(|| Effect { metric: metric.to_string(), ..Effect::default() });
    let trials = trials.iter().map(|(_, arm, numbers)| (*arm, numbers.compared_per_s())).collect();
    Proof { knob, verdict, effect, guards, predicted_gain, summary, seed, worth: None, trials }
}

/// Pairs of neighbours: in each block the first A with the first B, the second with the second.
pub(crate) fn pair_up<T: Clone>(trials: &[(u32, Arm, T)]) -> Vec<(T, T)> {
    let mut blocks: BTreeMap<u32, [Vec<T>; 2]> = BTreeMap::new();
    for (block, arm, numbers) in trials {
        let [a, b] = blocks.entry(*block).or_insert_with(|| [Vec::new(), Vec::new()]);
        match arm {
            Arm::A => a.push(numbers.clone()),
            Arm::B => b.push(numbers.clone()),
        }
    }
    blocks.into_values().flat_map(|[a, b]| a.into_iter().zip(b)).collect()
}

/// What pieces of the yardstick's work took in the trials of each pair; empty when that is not known of all.
pub(crate) fn pieces<T>(pairs: &[(T, T)], piece: fn(&T) -> Option<f64>) -> Vec<(f64, f64)> {
    let all: Option<Vec<(f64, f64)>> = pairs.iter().map(|(a, b)| piece(a).zip(piece(b))).collect();
    all.unwrap_or_default()
}

fn guards(pairs: &[(TrialNumbers, TrialNumbers)], pieces: &[(f64, f64)]) -> Vec<Guard> {
    let p99: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a.p99_us, b.p99_us)).collect();
    let failures = |t: &TrialNumbers| Failures { errors: t.errors, total: t.total };
    let errors: Vec<_> = pairs.iter().map(|(a, b)| (failures(a), failures(b))).collect();
    let cpu: Vec<(f64, f64)> =
        pairs.iter().filter_map(|(a, b)| a.cpu_us_per_request.zip(b.cpu_us_per_request)).collect();
    let guarded = [
        (paired::compare_at_speed("p99_us", &p99, pieces), P99_MARGIN),
        (paired::compare_share("error_share", &errors), ERROR_SHARE_MARGIN),
        (paired::compare_at_speed("cpu_us_per_request", &cpu, pieces), CPU_MARGIN),
    ];
    let guard = |(effect, margin): (Option<Effect>, f64)| {
        effect.map(|effect| Guard { held: effect.high <= margin, broken: effect.low > margin, margin, effect })
    };
    guarded.into_iter().filter_map(guard).collect()
}

fn decide(effect: &Effect, guards: &[Guard]) -> ProofVerdict {
    let verdict = direction(effect.low, effect.high, same_within(effect.low, effect.high), SAME_MAX);
    let harmed = guards.iter().any(|guard| guard.broken);
    if verdict == ProofVerdict::Better && harmed { ProofVerdict::GuardBroken } else { verdict }
}

/// What an interval says of something of which more is better; `d` is how far it reaches from 0.
///
/// "The same" is a test of equivalence (Schuirmann 1987) at 2.5 % a side, because the interval of 95 % is used.
pub(crate) fn direction(low: f64, high: f64, d: f64, same_max: f64) -> ProofVerdict {
    if low > 0.0 {
        ProofVerdict::Better
    } else if high < 0.0 {
        ProofVerdict::Worse
    } else if d <= same_max {
        ProofVerdict::NoDifference
    } else {
        ProofVerdict::Inconclusive
    }
}

/// The d of "the same within d": the farther end of the interval of a ratio, written as a growth, so that it stays when A and B
/// are swapped (ends of -9.1 % and +10 % are equally far).
pub fn same_within(low: f64, high: f64) -> f64 {
    low.ln_1p().abs().max(high.ln_1p().abs()).exp_m1()
}

fn why_no_effect(rates: &[(f64, f64)]) -> String {
    if rates.iter().any(|(a, b)| *a <= 0.0 || *b <= 0.0) {
        "a trial carried no good request, so there is no ratio".to_string()
    } else {
        format!("{} pairs of trials are too few, an interval needs 3", rates.len())
    }
}

/// One sentence on the effect, one on the guards that did not hold, one on the prediction.
fn summary(
    knob: Option<&Knob>,
    verdict: ProofVerdict,
    effect: &Effect,
    guards: &[Guard],
    predicted_gain: Option<f64>,
) -> String {
    let (what, more) = match effect.metric.as_str() {
        SOONNESS => ("the speed of answers", "Faster answers"),
        _ => ("throughput", "More throughput"),
    };
    let within = percent(same_within(effect.low, effect.high));
    let word = match verdict {
        ProofVerdict::Better => "Better".to_string(),
        ProofVerdict::Worse => "Worse".to_string(),
        ProofVerdict::NoDifference => format!("The same within {}", within.trim_start_matches('+')),
        ProofVerdict::GuardBroken => format!("{more}, but a guard broke"),
        ProofVerdict::Inconclusive => "Inconclusive".to_string(),
    };
    let subject = match knob {
        Some(Knob { host, id, value }) => format!("{id}={value} at {host}"),
        None => "the same configuration again (A/A)".to_string(),
    };
    let mut text = format!(
        "{word}: {subject} changes {what} by {} (95 % interval {} to {}; {} pairs, smallest detectable effect {}).",
        percent(effect.effect),
        percent(effect.low),
        percent(effect.high),
        effect.pairs,
        percent(effect.detectable).trim_start_matches('+'),
    );
    text += &at_equal_speed(effect);
    let not_held = guards.iter().filter(|guard| !guard.held).map(describe).collect::<Vec<_>>();
    if !not_held.is_empty() {
        text += &format!(" Guards: {}.", not_held.join("; "));
    }
    if let Some(predicted) = predicted_gain {
        text += &format!(" {}.", score(predicted, effect));
    }
    text
}

/// That the machine's own speed was taken out, when it was.
pub(crate) fn at_equal_speed(effect: &Effect) -> String {
    let Some(explained) = effect.by_speed else { return String::new() };
    let share = percent(explained);
    format!(
        " At equal speed of the machine, which explains {} of the spread between pairs.",
        share.trim_start_matches('+')
    )
}

fn describe(guard: &Guard) -> String {
    let (name, written): (_, fn(f64) -> String) = match guard.effect.metric.as_str() {
        "p99_us" => ("p99", percent),
        "error_share" => ("error share", points),
        "cpu_us_per_request" => ("CPU per request", percent),
        other => (other, percent),
    };
    let state = if guard.broken { "broke its margin of" } else { "is not shown to stay within" };
    let Effect { effect, low, high, .. } = guard.effect;
    let margin = written(guard.margin);
    format!("{name} {state} {margin} ({}, {} to {})", written(effect), written(low), written(high))
}

/// How the prediction did: predicted / measured, or that nothing was measured to score it by.
fn score(predicted: f64, effect: &Effect) -> String {
    let measured = format!(
        "Predicted {}, measured {} ({} to {})",
        percent(predicted),
        percent(effect.effect),
        percent(effect.low),
        percent(effect.high)
    );
    if effect.low > 0.0 || effect.high < 0.0 {
        format!("{measured}: ratio {:.2}", predicted / effect.effect)
    } else {
        format!("{measured}: not confirmed")
    }
}

/// 0.4213 is `+42 %`, 0.0123 is `+1.2 %`.
pub(crate) fn percent(share: f64) -> String {
    let value = 100.0 * share;
    if value.abs() < 9.95 { format!("{value:+.1} %") } else { format!("{value:+.0} %") }
}

/// A difference of shares in percentage points.
pub(crate) fn points(share: f64) -> String {
    format!("{:+.2} points", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, order};
    use expect_test::{Expect, expect};
    use prony_model::KnobId;
    use proptest::prelude::*;

    /// What B changes, relative to A; trials spread by `spread`.
    #[derive(Clone, Copy, Default)]
    struct Planted {
        gain: f64,
        p99: f64,
        cpu: f64,
        errors: u64,
        spread: f64,
    }

    fn trials(planted: Planted, blocks: u32, seed: u64) -> Vec<(u32, Arm, TrialNumbers)> {
        let mut random = Random::new(seed);
        let mut around = |value: f64| value * random.normal(0.0, planted.spread).exp();
        let mut run = |(block, arm): (u32, Arm)| {
            let b = if arm == Arm::B { 1.0 } else { 0.0 };
            let numbers = TrialNumbers {
                good_per_s: around(10_000.0 * (1.0 + b * planted.gain)),
                soonness_per_s: None,
                p99_us: around(2000.0 * (1.0 + b * planted.p99)),
                errors: if arm == Arm::B { planted.errors } else { 0 },
                total: 50_000,
                cpu_us_per_request: Some(around(80.0 * (1.0 + b * planted.cpu))),
                piece_us: None,
            };
            (block, arm, numbers)
        };
        order::blocks(blocks, seed).into_iter().map(&mut run).collect()
    }

    fn keepalive() -> Option<Knob> {
        Some(Knob { host: "lb".into(), id: KnobId::NginxUpstreamKeepalive, value: "32".into() })
    }

    fn check(planted: Planted, predicted: Option<f64>, want: Expect) {
        want.assert_eq(&verdict(keepalive(), &trials(planted, 4, 7), predicted, 7).summary);
    }

    #[test]
    fn says_what_was_proven() {
        let quiet = Planted { spread: 0.01, ..Planted::default() };
        check(
            Planted { gain: 0.42, p99: -0.2, ..quiet },
            Some(0.38),
            expect![
                "Better: nginx.upstream_keepalive=32 at lb changes throughput by +42 % (95 % interval +40 % to +44 %; 8 pairs, smallest detectable effect 1.6 %). Predicted +38 %, measured +42 % (+40 % to +44 %): ratio 0.91."
            ],
        );
        check(
            Planted { gain: -0.1, ..quiet },
            None,
            expect![
                "Worse: nginx.upstream_keepalive=32 at lb changes throughput by -10 % (95 % interval -11 % to -9.0 %; 8 pairs, smallest detectable effect 1.6 %)."
            ],
        );
        check(
            quiet,
            Some(0.1),
            expect![
                "The same within 1.2 %: nginx.upstream_keepalive=32 at lb changes throughput by -0.1 % (95 % interval -1.2 % to +1.1 %; 8 pairs, smallest detectable effect 1.6 %). Predicted +10 %, measured -0.1 % (-1.2 % to +1.1 %): not confirmed."
            ],
        );
        check(
            Planted { gain: 0.2, p99: 0.5, cpu: 0.2, errors: 1000, ..quiet },
            None,
            expect![
                "More throughput, but a guard broke: nginx.upstream_keepalive=32 at lb changes throughput by +20 % (95 % interval +19 % to +21 %; 8 pairs, smallest detectable effect 1.6 %). Guards: p99 broke its margin of +10 % (+49 %, +46 % to +52 %); error share broke its margin of +0.10 points (+2.00 points, +1.96 points to +2.04 points); CPU per request broke its margin of +5.0 % (+19 %, +19 % to +20 %)."
            ],
        );
        check(
            Planted { gain: 0.05, spread: 0.2, ..quiet },
            None,
            expect![
                "Inconclusive: nginx.upstream_keepalive=32 at lb changes throughput by +3.3 % (95 % interval -18 % to +30 %; 8 pairs, smallest detectable effect 38 %). Guards: p99 is not shown to stay within +10 % (-15 %, -40 % to +22 %); CPU per request is not shown to stay within +5.0 % (-8.3 %, -21 % to +6.4 %)."
            ],
        );
    }

    #[test]
    fn at_a_rate_that_is_carried_it_is_how_soon_requests_are_answered() {
        let mut at_rate = trials(Planted { gain: 1.2, spread: 0.01, ..Planted::default() }, 4, 7);
        for (_, _, numbers) in &mut at_rate {
            (numbers.soonness_per_s, numbers.good_per_s) = (Some(numbers.good_per_s / 100.0), 500.0);
        }
        let proof = verdict(keepalive(), &at_rate, Some(1.3), 7);
        expect![
            "Better: nginx.upstream_keepalive=32 at lb changes the speed of answers by +120 % (95 % interval +117 % to +122 %; 8 pairs, smallest detectable effect 1.6 %). Predicted +130 %, measured +120 % (+117 % to +122 %): ratio 1.08."
        ]
        .assert_eq(&proof.summary);
        assert_eq!((proof.verdict, proof.effect.metric.as_str()), (ProofVerdict::Better, SOONNESS));
        assert!(proof.trials.iter().all(|(_, seen)| *seen < 300.0), "{:?}", proof.trials);
    }

    #[test]
    fn a_bad_status_is_an_error_and_still_one_request() {
        let errors = prony_model::ErrorCounts { status: 3, timeout: 2, ..Default::default() };
        let numbers = TrialNumbers::of(&LoadResult { completed: 100, errors, ..LoadResult::default() }, None, None);
        assert_eq!((numbers.errors, numbers.total), (5, 102));
    }

    #[test]
    fn verdicts() {
        let of = |planted: Planted| verdict(None, &trials(planted, 4, 3), None, 3).verdict;
        let quiet = Planted { spread: 0.01, ..Planted::default() };
        assert_eq!(of(Planted { gain: 0.1, ..quiet }), ProofVerdict::Better);
        assert_eq!(of(Planted { gain: -0.1, ..quiet }), ProofVerdict::Worse);
        assert_eq!(of(quiet), ProofVerdict::NoDifference);
        assert_eq!(of(Planted { gain: 0.1, cpu: 0.2, ..quiet }), ProofVerdict::GuardBroken);
        assert_eq!(of(Planted { gain: 0.1, errors: 500, ..quiet }), ProofVerdict::GuardBroken);
        assert_eq!(of(Planted { spread: 0.3, ..quiet }), ProofVerdict::Inconclusive);
        let two_pairs = verdict(None, &trials(quiet, 1, 3), None, 3);
        assert_eq!(two_pairs.verdict, ProofVerdict::Inconclusive);
        assert_eq!(two_pairs.effect.pairs, 0);
        assert_eq!(two_pairs.summary, "Inconclusive: 2 pairs of trials are too few, an interval needs 3.");
    }

    #[test]
    fn the_same_again_is_rarely_called_a_difference() {
        let quiet = Planted { spread: 0.015, ..Planted::default() };
        let of = |seed: u64| verdict(None, &trials(quiet, 4, seed), None, seed).verdict;
        let verdicts: Vec<ProofVerdict> = (0..2000).map(of).collect();
        let count = |which: ProofVerdict| verdicts.iter().filter(|v| **v == which).count();
        let (better, worse) = (count(ProofVerdict::Better), count(ProofVerdict::Worse));
        // Binomial, 2000 times 0.05: 100 +- 3.3 * 9.7; each side half of it, 50 +- 3.3 * 7.
        assert!((68..=132).contains(&(better + worse)) && (27..=73).contains(&better), "{better} {worse}");
        assert_eq!(count(ProofVerdict::GuardBroken), 0);
        assert!(count(ProofVerdict::NoDifference) > 1800);
    }

    #[test]
    fn drift_sides_with_nobody() {
        let drifting = |seed: u64| {
            let mut trials = trials(Planted { spread: 0.005, ..Planted::default() }, 4, seed);
            trials.iter_mut().enumerate().for_each(|(i, t)| t.2.good_per_s *= 1.0 - 0.01 * i as f64);
            verdict(None, &trials, None, seed).verdict
        };
        assert!((0..200).filter(|seed| drifting(*seed) != ProofVerdict::NoDifference).count() <= 10);
    }

    #[test]
    fn an_interrupted_block_keeps_its_pairs() {
        let trials = trials(Planted { gain: 0.3, spread: 0.01, ..Planted::default() }, 3, 1);
        assert_eq!(verdict(None, &trials[..9], None, 1).effect.pairs, 4);
        assert_eq!(verdict(None, &trials[..10], None, 1).effect.pairs, 5);
    }

    proptest! {
        /// An interval that is wider around the same place never says more.
        #[test]
        fn a_wider_interval_never_says_more(center in -0.2f64..0.2, half in 0.0f64..0.2, more in 0.0f64..0.2) {
            let of = |half: f64| {
                let (low, high) = ((center - half).exp_m1(), (center + half).exp_m1());
                direction(low, high, same_within(low, high), SAME_MAX)
            };
            let (narrow, wide) = (of(half), of(half + more));
            prop_assert!(wide == narrow || wide == ProofVerdict::Inconclusive
                || (wide == ProofVerdict::NoDifference && narrow != ProofVerdict::Inconclusive));
        }

        /// Verdict and effect stay when every rate is a hundred times as large.
        #[test]
        fn scale_changes_nothing(gain in -0.3f64..0.3, spread in 0.001f64..0.1, seed: u64) {
            let trials = trials(Planted { gain, spread, ..Planted::default() }, 4, seed);
            let mut scaled = trials.clone();
            scaled.iter_mut().for_each(|(_, _, numbers)| numbers.good_per_s *= 100.0);
            let (one, two) = (verdict(None, &trials, None, seed), verdict(None, &scaled, None, seed));
            prop_assert!((one.effect.effect - two.effect.effect).abs() < 1e-9);
            prop_assert!((one.effect.low - two.effect.low).abs() < 1e-9);
        }

        #[test]
        fn swapping_the_arms_swaps_the_verdict(gain in -0.3f64..0.3, spread in 0.001f64..0.1, seed: u64) {
            let trials = trials(Planted { gain, spread, ..Planted::default() }, 4, seed);
            let swap = |arm: Arm| if arm == Arm::A { Arm::B } else { Arm::A };
            let swapped: Vec<_> = trials.iter().map(|(block, arm, numbers)| (*block, swap(*arm), *numbers)).collect();
            let (one, two) = (verdict(None, &trials, None, seed), verdict(None, &swapped, None, seed));
            let mirrored = match one.verdict {
                ProofVerdict::Better | ProofVerdict::GuardBroken => ProofVerdict::Worse,
                ProofVerdict::Worse => ProofVerdict::Better,
                same @ (ProofVerdict::NoDifference | ProofVerdict::Inconclusive) => same,
            };
            let near_border = |p: &Proof| (same_within(p.effect.low, p.effect.high) - SAME_MAX).abs() < 1e-9;
            prop_assert!(two.verdict == mirrored || two.verdict == ProofVerdict::GuardBroken || near_border(&one));
        }
    }
}
