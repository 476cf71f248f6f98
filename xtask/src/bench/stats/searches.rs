//! The search of the limit on many stacks: how often its interval holds the truth, how wide it is, and what it cost.
//!
//! Beside it the single-shot bisection. Invariant: a search without an interval counts as one that missed.

use super::bisection::bisect;
use super::{holds, in_parallel, share};
use crate::bench::median;
use prony_stats::search::{Answer, Options};
use prony_stats::simulated::{Stack, Trouble, play};
use std::ops::Range;

/// Connections of the workload. Some stacks need more, some fewer.
const CONNECTIONS: u32 = 64;
/// The bars: share of intervals that hold the truth, in per cent; median width; median number of trials.
const COVERED: std::ops::RangeInclusive<f64> = 93.0..=97.0;
const WIDTH_MAX: f64 = 0.03;
const TRIALS_MAX: f64 = 12.0;

/// One answer beside its truth.
#[derive(Clone, Copy)]
struct Outcome {
    trouble: Trouble,
    held: bool,
    /// |estimate / truth - 1|, none without an estimate.
    error: Option<f64>,
    width: Option<f64>,
    trials: usize,
    seconds: f64,
}

impl Outcome {
    fn of(trouble: Trouble, answer: &Answer, truth_per_s: f64) -> Self {
        let interval = answer.interval;
        Self {
            trouble,
            held: interval.is_some_and(|i| i.holds(truth_per_s)),
            error: interval.map(|i| (i.estimate_per_s / truth_per_s - 1.0).abs()),
            width: interval.map(|i| i.width()),
            trials: answer.trials,
            seconds: answer.seconds,
        }
    }

    fn bisected(stack: Stack, slo: bool, seed: u64) -> Self {
        let found = bisect(stack, Options::new(CONNECTIONS, slo), slo, seed);
        let middle_s = found.seconds / 2.0;
        let truth_per_s = if slo { stack.within_slo_per_s(middle_s) } else { stack.saturation_per_s(middle_s) };
        let estimate_per_s = (found.low_per_s + found.high_per_s) / 2.0;
        Self {
            trouble: stack.trouble,
            held: found.low_per_s <= truth_per_s && truth_per_s <= found.high_per_s,
            error: Some((estimate_per_s / truth_per_s - 1.0).abs()),
            width: Some((found.high_per_s - found.low_per_s) / estimate_per_s),
            trials: found.trials,
            seconds: found.seconds,
        }
    }
}

/// The outcomes on one stack: of the search, then of the bisection; saturation first, then the objective.
struct OnStack {
    searched: [Outcome; 2],
    bisected: [Outcome; 2],
}

fn on_stack(seed: u64) -> OnStack {
    let stack = Stack::draw(seed);
    let played = play(stack, Options::new(CONNECTIONS, true), seed);
    let within = played.found.within_slo.expect("an objective was searched for");
    OnStack {
        searched: [
            Outcome::of(stack.trouble, &played.found.saturation, played.saturation_per_s),
            Outcome::of(stack.trouble, &within, played.within_slo_per_s),
        ],
        bisected: [false, true].map(|slo| Outcome::bisected(stack, slo, seed)),
    }
}

pub(super) fn section(seeds: Range<u64>) -> String {
    let all = in_parallel(seeds, on_stack);
    let mut text = String::from(
        "### The limit, with its interval\n\n\
         Truth: what the servers carry, and the rate at which the 99th percentile of the undisturbed queue meets its limit (1.5 to 4 \
         times that of the calm stack, at most 95 % of capacity), by the theory of queues, in the middle of the trials that measured it. \
         In brackets: what the number of searches allows (95 %).\n\n\
         | goal | stacks | interval holds the truth | median width | median error, 95th percentile | median trials | median seconds |\n\
         |---|---|--:|--:|--:|--:|--:|\n",
    );
    for (goal, name) in ["saturation", "within the objective"].into_iter().enumerate() {
        let searched: Vec<Outcome> = all.iter().map(|on| on.searched[goal]).collect();
        text += &row(name, "all", &searched);
        for trouble in Trouble::ALL {
            let some: Vec<Outcome> = searched.iter().copied().filter(|o| o.trouble == trouble).collect();
            text += &row("", trouble.name(), &some);
        }
        let bisected: Vec<Outcome> = all.iter().map(|on| on.bisected[goal]).collect();
        text += &row("", "all, by single-shot bisection", &bisected);
    }
    text += "\n| bar | saturation | holds | within the objective | holds |\n|---|--:|---|--:|---|\n";
    let goals = [0, 1].map(|goal| Summary::of(&all.iter().map(|on| on.searched[goal]).collect::<Vec<_>>()));
    text + &bars(&goals) + "\n"
}

/// What the bars are held against.
struct Summary {
    covered: f64,
    width: f64,
    trials: f64,
}

impl Summary {
    fn of(outcomes: &[Outcome]) -> Self {
        let held = outcomes.iter().filter(|o| o.held).count();
        let trials: Vec<f64> = outcomes.iter().map(|o| o.trials as f64).collect();
        let widths: Vec<f64> = outcomes.iter().map(|o| o.width.unwrap_or(f64::INFINITY)).collect();
        Self {
            covered: 100.0 * held as f64 / outcomes.len().max(1) as f64,
            width: median(&widths).unwrap_or(f64::INFINITY),
            trials: median(&trials).unwrap_or(f64::INFINITY),
        }
    }
}

fn bars(goals: &[Summary; 2]) -> String {
    let line = |bar: String, told: &dyn Fn(&Summary) -> (String, bool)| {
        let [(one, held), (two, both)] = [told(&goals[0]), told(&goals[1])];
        format!("| {bar} | {one} | {} | {two} | {} |\n", holds(held), holds(both))
    };
    let covered = format!("{} to {} % of the intervals hold the truth", COVERED.start(), COVERED.end());
    line(covered, &|s| (format!("{:.1} %", s.covered), COVERED.contains(&s.covered)))
        + &line(format!("median width at most {:.0} %", 100.0 * WIDTH_MAX), &|s| {
            (format!("{:.2} %", 100.0 * s.width), s.width <= WIDTH_MAX)
        })
        + &line(format!("median trials at most {TRIALS_MAX}"), &|s| (format!("{}", s.trials), s.trials <= TRIALS_MAX))
}

fn row(goal: &str, stacks: &str, outcomes: &[Outcome]) -> String {
    let held = outcomes.iter().filter(|o| o.held).count();
    let mut errors: Vec<f64> = outcomes.iter().map(|o| o.error.unwrap_or(f64::INFINITY)).collect();
    errors.sort_by(f64::total_cmp);
    let far = errors.get((errors.len() * 95 / 100).min(errors.len().saturating_sub(1))).copied().unwrap_or_default();
    let middle =
        |value: &dyn Fn(&Outcome) -> f64| median(&outcomes.iter().map(value).collect::<Vec<_>>()).unwrap_or(0.0);
    format!(
        "| {goal} | {stacks} ({}) | {} | {:.2} % | {:.2} %, {:.1} % | {} | {:.0} |\n",
        outcomes.len(),
        share(held, outcomes.len()),
        100.0 * middle(&|o| o.width.unwrap_or(f64::INFINITY)),
        100.0 * median(&errors).unwrap_or_default(),
        100.0 * far,
        middle(&|o| o.trials as f64),
        middle(&|o| o.seconds),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_stacks_give_a_table() {
        let text = section(1..3);
        assert_eq!(text.matches("single-shot").count(), 2, "{text}");
        assert!(text.contains("| saturation | all (2) |") && text.contains("median width at most 3 %"), "{text}");
    }

    #[test]
    fn bars_are_held_against_what_was_seen() {
        let good = || Summary { covered: 95.0, width: 0.03, trials: 12.0 };
        assert!(!bars(&[good(), good()]).contains("no"));
        assert_eq!(bars(&[good(), Summary { covered: 92.9, width: 0.031, trials: 12.5 }]).matches("**no**").count(), 3);
    }
}
