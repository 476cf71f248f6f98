//! The order of a proof's trials, and their numbers.

use crate::effort::Effort;
use crate::levels::{chance, order, timed};
use crate::machine::Command;
use prony_model::comparison::EarlierAa;
use prony_model::run::Arm;
use prony_model::{Knob, LoadPlan, Proof, Purpose, Run, Trial};
use prony_stats::aa;
use prony_stats::prove::{TrialNumbers, verdict};
use std::collections::VecDeque;

/// Interleaved trials in randomised blocks; the knob is turned and restored in between. Both trials of a pair have the same chances.
pub(crate) fn plan(knob: Option<&Knob>, base: &LoadPlan, effort: &Effort, seed: u64) -> VecDeque<Command> {
    let mut queue = VecDeque::new();
    let mut now = Arm::A;
    for (number, (block, arm)) in (0..).zip(prony_stats::order::blocks(effort.blocks, seed)) {
        if let Some(knob) = knob.filter(|_| arm != now) {
            queue.push_back(if arm == Arm::B { Command::Turn(knob.clone()) } else { Command::Restore });
        }
        now = arm;
        let label = format!("block {} of {}: {}", block + 1, effort.blocks, arm_label(arm));
        let plan = chance(timed(base, effort.settle, effort.proof), number / 2);
        queue.push_back(order(Purpose::Proof { block, arm }, plan, &label));
    }
    if now == Arm::B && knob.is_some() {
        queue.push_back(Command::Restore);
    }
    queue
}

/// The verdict on the proof's trials.
pub(crate) fn conclude(run: &Run, knob: Option<Knob>, seed: u64, earlier: EarlierAa) -> Proof {
    let predicted = run.diagnosis.as_ref().and_then(|d| d.verdict.predicted_gain).filter(|_| knob.is_some());
    let hop = knob.as_ref().map(|k| k.host.clone()).or_else(|| run.stack.path().first().map(|h| (*h).to_string()));
    let trials: Vec<(u32, Arm, TrialNumbers)> = run
        .trials
        .iter()
        .filter_map(|t| {
            let Purpose::Proof { block, arm } = t.purpose else { return None };
            Some((block, arm, numbers(run, hop.as_deref(), t)))
        })
        .collect();
    let rates: Vec<(u32, Arm, f64)> = trials.iter().map(|(block, arm, seen)| (*block, *arm, seen.good_per_s)).collect();
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
    use crate::testing::{MadeRun, plan as base};
    use prony_model::{KnobId, ProofVerdict};
    use std::collections::BTreeSet;

    fn knob() -> Knob {
        Knob { host: "lb".into(), id: KnobId::NginxWorkerProcesses, value: "2".into() }
    }

    #[test]
    fn the_knob_is_turned_for_b_and_only_for_b() {
        for seed in 0..50 {
            let (mut turned, mut trials, mut seeds) = (false, Vec::new(), Vec::new());
            for command in plan(Some(&knob()), &base(), &Effort::default(), seed) {
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
        let queue = plan(None, &base(), &Effort::default(), 1);
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
}
