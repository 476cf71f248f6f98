//! The order of a proof's trials, and their numbers.

use crate::effort::Effort;
use crate::levels::{order, timed};
use crate::machine::{Command, arm_label};
use prony_model::run::Arm;
use prony_model::{Knob, LoadPlan, Proof, Purpose, Run, Trial};
use prony_stats::prove::{TrialNumbers, verdict};
use std::collections::VecDeque;

/// Interleaved trials in randomised blocks; the knob is turned and restored in between.
pub(crate) fn plan(knob: Option<&Knob>, base: &LoadPlan, effort: &Effort, seed: u64) -> VecDeque<Command> {
    let mut queue = VecDeque::new();
    let mut now = Arm::A;
    for (block, arm) in prony_stats::order::blocks(effort.blocks, seed) {
        if let Some(knob) = knob.filter(|_| arm != now) {
            queue.push_back(if arm == Arm::B { Command::Turn(knob.clone()) } else { Command::Restore });
        }
        now = arm;
        let label = format!("block {} of {}: {}", block + 1, effort.blocks, arm_label(arm));
        queue.push_back(order(Purpose::Proof { block, arm }, timed(base, effort.settle, effort.proof), &label));
    }
    if now == Arm::B && knob.is_some() {
        queue.push_back(Command::Restore);
    }
    queue
}

/// The verdict on the proof's trials.
pub(crate) fn conclude(run: &Run, knob: Option<Knob>, seed: u64) -> Proof {
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
    verdict(knob, &trials, predicted, seed)
}

fn numbers(run: &Run, hop: Option<&str>, trial: &Trial) -> TrialNumbers {
    let cpu_us = hop.and_then(|hop| run.cpu_us_per_request(hop, trial));
    TrialNumbers::of(&trial.result, cpu_us)
}
