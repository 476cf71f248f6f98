//! The order of a proof's trials, how many there are, and their numbers.

use crate::effort::Effort;
use crate::levels::{chance, order, timed};
use crate::machine::Command;
use prony_model::comparison::EarlierAa;
use prony_model::run::Arm;
use prony_model::{Gap, Knob, LoadPlan, LoadResult, Nanos, Proof, Purpose, Run, Share, Trial};
use prony_stats::aa;
use prony_stats::precision::pairs_wanted;
use prony_stats::prove::{SAME_MAX, TrialNumbers, verdict};
use std::collections::VecDeque;

/// How exact a proof is to be, and what that may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The smallest change of throughput that is to be found in 8 of 10 attempts.
    pub detect: Share,
    /// Time for the trials of the proof. The blocks that it begins with are made in any case.
    pub budget: Nanos,
}

impl Default for Precision {
    /// The change that matters, in two minutes.
    fn default() -> Self {
        Self { detect: Share(SAME_MAX), budget: Nanos::from_millis(120_000) }
    }
}

/// Answers that a trial's p99 rests on at the least, where that takes no longer than [`LONGEST`]. A guess: it is then the fifth slowest.
const ANSWERS_MIN: f64 = 500.0;
/// How many times the slowest answers a trial lasts at the least. A guess: fewer, and it is a matter of luck how many of them it holds.
const OF_SLOWEST: f64 = 4.0;
/// How many times longer than usual a trial may be. A guess.
const LONGEST: f64 = 3.0;
/// Each block is ABBA or BAAB.
const PAIRS_OF_BLOCK: u32 = 2;

/// Counted time of a trial: as the effort says, longer where answers are few or slow by the newest trial.
fn lasts(run: &Run, effort: &Effort) -> Nanos {
    let Some(seen) = run.trials.iter().rev().find(|t| !matches!(t.purpose, Purpose::Proof { .. })) else {
        return effort.proof;
    };
    let answered_per_s = seen.result.completed_per_s;
    let for_answers_s = if answered_per_s > 0.0 { ANSWERS_MIN / answered_per_s } else { f64::INFINITY };
    let for_slowest_s = seen.result.latency.p99_us / 1e6 * OF_SLOWEST;
    let usual_s = effort.proof.as_secs_f64();
    Nanos((for_answers_s.max(for_slowest_s).clamp(usual_s, usual_s * LONGEST) * 1e9) as u64)
}

/// Interleaved trials in randomised blocks, as many as `effort` says, after those that were made; the knob is turned and restored in between.
/// Both trials of a pair have the same chances.
pub(crate) fn plan(run: &Run, knob: Option<&Knob>, base: &LoadPlan, effort: &Effort, seed: u64) -> VecDeque<Command> {
    let mut queue = VecDeque::new();
    let (mut now, made) = (Arm::A, made(run));
    let (lasts, all) = (lasts(run, effort), made + effort.blocks);
    for (number, (block, arm)) in (0..).zip(prony_stats::order::blocks(effort.blocks, seed ^ u64::from(made))) {
        if let Some(knob) = knob.filter(|_| arm != now) {
            queue.push_back(if arm == Arm::B { Command::Turn(knob.clone()) } else { Command::Restore });
        }
        now = arm;
        let block = made + block;
        let label = format!("block {} of {all}: {}", block + 1, arm_label(arm));
        let plan = chance(timed(base, effort.settle, lasts), made * PAIRS_OF_BLOCK + number / 2);
        queue.push_back(order(Purpose::Proof { block, arm }, plan, &label));
    }
    if now == Arm::B && knob.is_some() {
        queue.push_back(Command::Restore);
    }
    queue
}

/// Blocks that were begun.
fn made(run: &Run) -> u32 {
    run.trials.iter().filter_map(block_of).max().map_or(0, |block| block + 1)
}

fn block_of(trial: &Trial) -> Option<u32> {
    let Purpose::Proof { block, .. } = trial.purpose else { return None };
    Some(block)
}

/// What is to become of a proof whose planned blocks are made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Further {
    /// It says what it was asked.
    Enough,
    /// So many blocks more will tell.
    Blocks(u32),
    /// There is no time to tell; why, and what would help.
    NoTime(Gap),
}

/// Whether the proof is exact enough.
pub(crate) fn further(run: &Run, proof: &Proof, precision: &Precision) -> Further {
    let done = made(run);
    let wanted = pairs_wanted(&proof.effect, precision.detect.0).div_ceil(PAIRS_OF_BLOCK);
    let mut windows = run.trials.iter().filter(|t| block_of(t).is_some()).map(|t| t.window);
    let (Some(first), more) = (windows.next(), wanted.saturating_sub(done)) else { return Further::Enough };
    let spent_ns = windows.next_back().unwrap_or(first).to_ns.saturating_sub(first.from_ns);
    let block_ns = (spent_ns / u64::from(done)).max(1);
    let fit = u32::try_from(precision.budget.0.saturating_sub(spent_ns) / block_ns).unwrap_or(u32::MAX);
    match (more, more.min(fit)) {
        (0, _) => Further::Enough,
        (_, 0) => Further::NoTime(no_time(proof, precision.detect, f64::from(wanted) * block_ns as f64 / 1e9)),
        (_, blocks) => Further::Blocks(blocks),
    }
}

fn no_time(proof: &Proof, detect: Share, takes_s: f64) -> Gap {
    let host = proof.knob.as_ref().map(|knob| knob.host.clone()).unwrap_or_default();
    let reason = format!(
        "pairs of trials differ so much that finding a change of {detect} takes about {:.0} s: --budget gives the time, --detect asks for less",
        takes_s.ceil()
    );
    Gap::new("proof", host, reason)
}

/// What the diagnosis predicts of throughput, or of how soon requests are answered at a rate that is carried.
pub(crate) fn predicted_gain(run: &Run) -> Option<f64> {
    run.diagnosis.as_ref()?.verdict.predicted_gain
}

/// Whether a rate is asked and both arms of the proof carry it, each over all its trials: short ones end with requests in flight. Then
/// throughput is the rate, and what a change can move is the time of requests.
fn both_carry_the_rate(run: &Run) -> bool {
    let is_carried = |wanted: Arm| {
        let of_arm =
            |t: &&Trial| matches!(t.purpose, Purpose::Proof { arm, .. } if arm == wanted) && !t.result.interrupted;
        let mut all = LoadResult::default();
        for trial in run.trials.iter().filter(of_arm) {
            if trial.plan.rate.is_none() || trial.result.completed == 0 {
                return false;
            }
            all.intended += trial.result.intended;
            all.completed += trial.result.completed;
            all.duration_s += trial.result.duration_s;
        }
        all.completed > 0 && prony_diagnose::is_carried(&all, all.completed as f64 / all.duration_s)
    };
    is_carried(Arm::A) && is_carried(Arm::B)
}

/// The verdict on the proof's trials.
pub(crate) fn conclude(run: &Run, knob: Option<Knob>, seed: u64, earlier: EarlierAa) -> Proof {
    let at_rate = both_carry_the_rate(run);
    // A prediction is of the same: a rate that one arm does not carry is told by throughput.
    let predicts = run.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.verdict.at_rate == at_rate);
    let predicted = predicted_gain(run).filter(|_| predicts && knob.is_some());
    let hop = knob.as_ref().map(|k| k.host.clone()).or_else(|| run.stack.path().first().map(|h| (*h).to_string()));
    let trials: Vec<(u32, Arm, TrialNumbers)> = run
        .trials
        .iter()
        .filter_map(|t| {
            let Purpose::Proof { block, arm } = t.purpose else { return None };
            let soonness_per_s = at_rate.then(|| t.result.soonness_per_s());
            Some((block, arm, TrialNumbers { soonness_per_s, ..numbers(run, hop.as_deref(), t) }))
        })
        .collect();
    let rate = |seen: &TrialNumbers| aa::RateAtSpeed { per_s: seen.compared_per_s(), piece_us: seen.piece_us };
    let rates: Vec<_> = trials.iter().map(|(block, arm, seen)| (*block, *arm, rate(seen))).collect();
    let alike = aa::experiments(&rates, knob.is_none(), seed);
    Proof { worth: Some(aa::worth(&alike, earlier)), ..verdict(knob, &trials, predicted, seed) }
}

fn numbers(run: &Run, hop: Option<&str>, trial: &Trial) -> TrialNumbers {
    let cpu_us = hop.and_then(|hop| run.cpu_us_per_request(hop, trial));
    TrialNumbers::of(&trial.result, cpu_us, hop.and_then(|hop| run.piece_us(hop, trial.window)))
}

/// An arm, for the person who watches.
fn arm_label(arm: Arm) -> &'static str {
    match arm {
        Arm::A => "A",
        Arm::B => "B",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::TrialOrder;
    use crate::testing::{MadeRun, plan as base};
    use prony_model::{KnobId, ProofVerdict, Window};
    use std::collections::BTreeSet;

    fn knob() -> Knob {
        Knob { host: "lb".into(), id: KnobId::NginxWorkerProcesses, value: "2".into() }
    }

    #[test]
    fn the_knob_is_turned_for_b_and_only_for_b() {
        for seed in 0..50 {
            let (mut turned, mut trials, mut seeds) = (false, Vec::new(), Vec::new());
            for command in plan(&Run::default(), Some(&knob()), &base(), &Effort::default(), seed) {
                if let Command::Trial(order) = command {
                    let Purpose::Proof { block, arm } = order.purpose else { panic!("{order:?}") };
                    assert_eq!(turned, arm == Arm::B, "seed {seed}, block {block}");
                    trials.push((block, arm));
                    seeds.push(order.plan.seed);
                } else {
                    turned = command == Command::Turn(knob());
                    assert!(turned || command == Command::Restore, "{command:?} is no part of a proof");
                }
            }
            assert!(!turned, "seed {seed}: it is restored at the end");
            assert!(seeds.chunks(2).all(|pair| pair[0] == pair[1]), "a pair has the same chances");
            assert_eq!(seeds.iter().collect::<BTreeSet<_>>().len(), seeds.len() / 2, "each pair has its own");
            for block in 0..Effort::default().blocks {
                let count = |arm| trials.iter().filter(|t| **t == (block, arm)).count();
                assert_eq!((count(Arm::A), count(Arm::B)), (2, 2), "seed {seed}, block {block}");
            }
        }
    }

    #[test]
    fn nothing_is_turned_when_a_is_compared_with_a() {
        let queue = plan(&Run::default(), None, &base(), &Effort::default(), 1);
        assert!(queue.iter().all(|c| matches!(c, Command::Trial(_))));
    }

    #[test]
    fn the_numbers_are_those_of_the_proof_alone() {
        let mut made = MadeRun::of("[host.lb]\n").trial(Purpose::Warmup, 10.0);
        for block in 0..5 {
            for (arm, rate) in [(Arm::A, 1000.0), (Arm::B, 1200.0), (Arm::B, 1201.0), (Arm::A, 1001.0)] {
                made = made.trial(Purpose::Proof { block, arm }, rate);
            }
        }
        let proof = conclude(&made.run, Some(knob()), 1, EarlierAa::default());
        assert_eq!((proof.verdict, proof.trials.len()), (ProofVerdict::Better, 20));
        assert!((proof.effect.effect - 0.2).abs() < 0.01, "{:?}", proof.effect);
    }

    #[test]
    fn at_a_rate_that_is_carried_the_time_of_requests_is_compared() {
        let proof = |completed: u64, rate: Option<prony_model::Rate>, predicted_at_rate: bool| {
            let mut made = MadeRun::of("[host.lb]\n").trial(Purpose::Warmup, 10.0);
            for block in 0..5 {
                for (arm, mean_us) in [(Arm::A, 8000.0), (Arm::B, 4000.0), (Arm::B, 4010.0), (Arm::A, 8010.0)] {
                    made = made.trial(Purpose::Proof { block, arm }, 500.0);
                    let trial = made.run.trials.last_mut().unwrap();
                    trial.plan.rate = rate;
                    (trial.result.intended, trial.result.completed, trial.result.latency.mean_us) =
                        (500, completed, mean_us);
                }
            }
            let mut diagnosis = prony_model::Diagnosis::default();
            (diagnosis.verdict.predicted_gain, diagnosis.verdict.at_rate) = (Some(1.1), predicted_at_rate);
            made.run.diagnosis = Some(diagnosis);
            conclude(&made.run, Some(knob()), 1, EarlierAa::default())
        };
        let asked = Some(prony_model::Rate(500.0));
        let sooner = proof(500, asked, true);
        assert_eq!((sooner.verdict, sooner.effect.metric.as_str()), (ProofVerdict::Better, "soonness_per_s"));
        assert!((sooner.effect.effect - 1.0).abs() < 0.01 && sooner.predicted_gain == Some(1.1), "{sooner:?}");
        assert_eq!(proof(500, asked, false).predicted_gain, None, "it was of throughput");
        for (short, why) in [(proof(450, asked, true), "it is not carried"), (proof(500, None, true), "none is asked")]
        {
            assert_eq!(
                (short.verdict, short.effect.metric.as_str()),
                (ProofVerdict::NoDifference, "good_per_s"),
                "{why}"
            );
            assert_eq!(short.predicted_gain, None, "{why}");
        }
    }

    /// A proof whose pairs differ by this much from each other, in blocks of 8 s.
    fn spread(blocks: u32, spread: f64, gain: f64) -> MadeRun {
        let mut made = MadeRun::of("[host.lb]\n").trial(Purpose::Warmup, 1000.0);
        for block in 0..blocks {
            let up = 1.0 + if block % 2 == 0 { spread } else { -spread };
            for (arm, rate) in
                [(Arm::A, 1000.0), (Arm::B, 1000.0 * gain * up), (Arm::B, 1000.0 * gain / up), (Arm::A, 1000.0)]
            {
                made = made.trial(Purpose::Proof { block, arm }, rate);
                let at_ns = made.run.trials.len() as u64 * 2_000_000_000;
                made.run.trials.last_mut().unwrap().window = Window { from_ns: at_ns, to_ns: at_ns + 2_000_000_000 };
            }
        }
        made
    }

    fn further_of(made: &MadeRun, budget_ms: u64) -> Further {
        let proof = conclude(&made.run, Some(knob()), 1, EarlierAa::default());
        further(&made.run, &proof, &Precision { budget: Nanos::from_millis(budget_ms), ..Precision::default() })
    }

    #[test]
    fn pairs_that_differ_much_are_followed_by_more() {
        assert_eq!(further_of(&spread(6, 0.01, 1.0), 500_000), Further::Enough);
        let Further::Blocks(few) = further_of(&spread(6, 0.1, 1.0), 500_000) else { panic!("10 % tell no 5 %") };
        let Further::Blocks(many) = further_of(&spread(6, 0.2, 1.0), 500_000) else { panic!("20 % tell no 5 %") };
        assert!((4..30).contains(&few) && many > 3 * few, "{few} {many}");
        assert_eq!(further_of(&spread(6, 0.2, 3.0), 500_000), Further::Enough, "three times as fast is beyond doubt");
        assert_eq!(further_of(&spread(6, 0.2, 1.0), 72_000), Further::Blocks(3), "48 s are spent");
        let Further::NoTime(gap) = further_of(&spread(6, 0.2, 1.0), 50_000) else { panic!("there is no time") };
        assert!(gap.reason.contains("a change of 5%") && gap.reason.contains("--budget"), "{gap}");
        assert_eq!(further_of(&MadeRun::of(""), 50_000), Further::Enough);
    }

    #[test]
    fn further_blocks_are_others_and_follow_the_first() {
        let made = spread(6, 0.1, 1.0);
        let orders = |run: &Run, blocks| {
            let queue = plan(run, Some(&knob()), &base(), &Effort { blocks, ..Effort::default() }, 1);
            queue.iter().filter_map(|c| c.trial().cloned()).collect::<Vec<_>>()
        };
        let (first, more) = (orders(&Run::default(), 6), orders(&made.run, 4));
        assert_eq!((more[0].label.split(':').next(), more.len()), (Some("block 7 of 10"), 16));
        let seeds = |all: &[TrialOrder]| all.iter().map(|o| o.plan.seed).collect::<BTreeSet<_>>();
        assert!(seeds(&first).is_disjoint(&seeds(&more)), "chances of their own");
    }

    #[test]
    fn what_is_predicted_of_the_time_of_requests_is_none_of_throughput() {
        let predicted = |at_rate| {
            let mut run = spread(6, 0.01, 1.0).run;
            let verdict = prony_model::Verdict { at_rate, predicted_gain: Some(0.5), ..Default::default() };
            run.diagnosis = Some(prony_model::Diagnosis { verdict, ..Default::default() });
            conclude(&run, Some(knob()), 1, EarlierAa::default()).predicted_gain
        };
        assert_eq!((predicted(false), predicted(true)), (Some(0.5), None));
    }

    #[test]
    fn a_trial_is_long_enough_for_few_and_slow_answers() {
        let of = |rate: f64, p99_us: f64| {
            let mut made = MadeRun::of("[host.lb]\n").trial(Purpose::Warmup, rate);
            let result = &mut made.run.trials[0].result;
            (result.completed_per_s, result.latency.p99_us) = (rate, p99_us);
            lasts(&made.run, &Effort::default()).as_secs_f64()
        };
        assert_eq!([of(10_000.0, 5e3), of(400.0, 5e3), of(10.0, 5e3), of(0.0, 5e3)], [1.0, 1.25, 3.0, 3.0]);
        assert_eq!([of(10_000.0, 5e5), of(10_000.0, 3e6)], [2.0, 3.0]);
        assert_eq!(lasts(&Run::default(), &Effort::default()), Effort::default().proof);
    }
}
