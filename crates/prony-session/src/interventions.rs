//! The order of an intervention's trials, and what they add up to.
//!
//! Each round has one trial as found and one for each intervention, in random order; so suspect and control share their
//! baseline, and drift of the machine hits all alike.

use crate::effort::Effort;
use crate::levels::{order, timed};
use crate::machine::Command;
use prony_model::run::Arm;
use prony_model::{InterventionKind, LoadPlan, Nanos, Purpose, Run, Trial};
use prony_stats::random::Random;
use std::collections::{BTreeSet, VecDeque};

/// A removal reloads a server, which takes as long as a trial: fewer pairs (a guess).
const REMOVAL_PAIRS: u32 = 5;

/// Which interventions are under way and which could not be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rounds {
    given_up: BTreeSet<usize>,
}

impl Rounds {
    /// An intervention could not be done: its remaining trials are dropped.
    pub(crate) fn give_up(&mut self, index: usize, queue: &mut VecDeque<Command>) {
        self.given_up.insert(index);
        let mut skipping = true; // the trial and the restore that belong to the failed command come first
        queue.retain(|command| {
            let of_it = match command {
                Command::Intervene { index: i } => *i == index,
                Command::Trial(t) => {
                    matches!(t.purpose, Purpose::Intervention { index: i, arm: Arm::B, .. } if i as usize == index)
                }
                Command::Restore => skipping,
                Command::Listen | Command::Survey | Command::Turn(_) | Command::Keep | Command::Finish => false,
            };
            skipping = of_it;
            !of_it
        });
    }
}

/// All commands of the interventions of a run.
pub(crate) fn plan(run: &Run, base: &LoadPlan, effort: &Effort, seed: u64) -> VecDeque<Command> {
    let mut random = Random::new(seed);
    let mut queue = VecDeque::new();
    if run.interventions.is_empty() {
        return queue;
    }
    for pair in 0..effort.pairs {
        let mut arms: Vec<Option<usize>> = std::iter::once(None)
            .chain(
                (0..run.interventions.len()).filter(|i| pair < pairs_of(&run.interventions[*i].what, effort)).map(Some),
            )
            .collect();
        random.shuffle(&mut arms);
        for arm in arms {
            queue.extend(trial(run, base, effort, pair, arm));
        }
    }
    queue
}

fn pairs_of(what: &InterventionKind, effort: &Effort) -> u32 {
    match what {
        InterventionKind::Removal { .. } => effort.pairs.min(REMOVAL_PAIRS),
        InterventionKind::Cpu | InterventionKind::LinkRate { .. } | InterventionKind::Concurrency => effort.pairs,
    }
}

/// The commands of one trial: as found (`None`), or with intervention `index`.
fn trial(run: &Run, base: &LoadPlan, effort: &Effort, pair: u32, index: Option<usize>) -> Vec<Command> {
    // The workload may have a rate; an intervention needs a closed loop, whose throughput follows the slowest part.
    let plan = LoadPlan { rate: None, ..timed(base, effort.settle, effort.intervention) };
    let Some(index) = index else {
        return vec![order(
            Purpose::Intervention { index: 0, pair, arm: Arm::A },
            plan,
            &format!("pair {}: as found", pair + 1),
        )];
    };
    let planned = &run.interventions[index];
    let purpose = Purpose::Intervention { index: index as u32, pair, arm: Arm::B };
    let label = format!("pair {}: {}", pair + 1, what_is_done(&planned.what, &planned.target, planned.dose));
    match planned.what {
        InterventionKind::Concurrency => {
            let connections = (f64::from(plan.connections) * (1.0 + planned.dose)).round() as u32;
            vec![order(purpose, LoadPlan { connections, ..plan }, &label)]
        }
        InterventionKind::Removal { .. } => {
            let plan = LoadPlan { warmup: Nanos(plan.warmup.0 * 2), ..plan };
            vec![Command::Intervene { index }, order(purpose, plan, &label), Command::Restore]
        }
        InterventionKind::Cpu | InterventionKind::LinkRate { .. } => {
            vec![Command::Intervene { index }, order(purpose, plan, &label), Command::Restore]
        }
    }
}

fn what_is_done(what: &InterventionKind, target: &str, dose: f64) -> String {
    let percent = dose * 100.0;
    match what {
        InterventionKind::Cpu => format!("CPU of {target} {percent:.0} % slower"),
        InterventionKind::LinkRate { interface, .. } => format!("{interface} of {target} {percent:.0} % slower"),
        InterventionKind::Concurrency => format!("{percent:.0} % more connections"),
        InterventionKind::Removal { knob } => format!("{} = {} at {target}", knob.id, knob.value),
    }
}

/// Turns the pairs into elasticities with intervals. An intervention that could not be done stays without.
pub(crate) fn conclude(run: &mut Run, rounds: &Rounds) {
    for index in 0..run.interventions.len() {
        let pairs = pairs(run, index);
        let planned = &mut run.interventions[index];
        planned.pairs = pairs.len() as u32;
        if rounds.given_up.contains(&index) {
            continue;
        }
        let found = match planned.what {
            InterventionKind::Cpu | InterventionKind::LinkRate { .. } => {
                prony_stats::elasticity::estimate(&pairs, planned.dose).map(|e| (e.estimate, e.low, e.high))
            }
            InterventionKind::Concurrency => {
                prony_stats::elasticity::growth(&pairs, planned.dose).map(|e| (e.estimate, e.low, e.high))
            }
            InterventionKind::Removal { .. } => {
                prony_stats::paired::compare("good_per_s", &pairs).map(|e| (e.effect, e.low, e.high))
            }
        };
        if let Some((estimate, low, high)) = found {
            (planned.elasticity, planned.low, planned.high) = (Some(estimate), Some(low), Some(high));
        }
    }
}

/// (as found, with intervention) good requests per second of each complete pair.
fn pairs(run: &Run, index: usize) -> Vec<(f64, f64)> {
    let complete = |t: &&Trial| !t.result.interrupted && t.result.good_per_s > 0.0;
    let as_found = |pair: u32| {
        let purpose = Purpose::Intervention { index: 0, pair, arm: Arm::A };
        run.trials.iter().find(|t| t.purpose == purpose).filter(complete)
    };
    let with = run.trials.iter().filter(complete).filter_map(|t| {
        let Purpose::Intervention { index: of, pair, arm: Arm::B } = t.purpose else { return None };
        (of as usize == index).then_some((pair, t.result.good_per_s))
    });
    with.filter_map(|(pair, good_per_s)| Some((as_found(pair)?.result.good_per_s, good_per_s))).collect()
}
