//! The verdict of a comparison: how often it sees a difference that is not there, and one that is.
//!
//! Invariant: arms run interleaved on one stack, so that its noise, its drift and its disturbances are those of a session.

use super::{holds, in_parallel, share};
use prony_model::run::Arm;
use prony_model::{Proof, ProofVerdict};
use prony_stats::order;
use prony_stats::prove::verdict;
use prony_stats::simulated::{Session, Stack};

/// Blocks of a comparison: 8 pairs.
const BLOCKS: u32 = 4;
/// Counted seconds of a trial. Short, because what matters here is the noise between trials.
const SECONDS: f64 = 0.5;
/// Comparisons on each stack: their mean tells what is detectable on it.
const PER_STACK: u64 = 10;
/// The bar.
const FALSE_MAX: f64 = 0.06;
/// At the smallest detectable effect 80 % are found, by its definition; the bar is a guess of what "matches" means.
const POWER: std::ops::RangeInclusive<f64> = 0.75..=0.85;

/// What was seen on one stack.
struct OnStack {
    aa: Vec<Proof>,
    /// What the comparisons above print as the smallest detectable effect, on average.
    planted: f64,
    ab: Vec<Proof>,
}

fn on_stack(seed: u64) -> OnStack {
    let stack = Stack::draw(seed);
    let compare = |gain: f64, seed: u64| {
        let mut session = Session::new(stack, seed);
        let enough = (4.0 * (f64::from(stack.servers) + stack.capacity_per_s * stack.round_trip_s)) as u32;
        let mut run = |(block, arm): (u32, Arm)| {
            let gain = if arm == Arm::B { gain } else { 0.0 };
            (block, arm, session.numbers(enough, SECONDS, gain))
        };
        let trials: Vec<_> = order::blocks(BLOCKS, seed).into_iter().map(&mut run).collect();
        verdict(None, &trials, None, seed)
    };
    let many = |gain: f64, from: u64| (0..PER_STACK).map(|i| compare(gain, from + i)).collect::<Vec<Proof>>();
    let aa = many(0.0, seed * 1000);
    let planted = (aa.iter().map(|proof| proof.effect.detectable.ln_1p()).sum::<f64>() / aa.len() as f64).exp_m1();
    OnStack { ab: many(planted, seed * 1000 + 500), aa, planted }
}

fn finds_a_difference(proof: &Proof) -> bool {
    match proof.verdict {
        ProofVerdict::Better | ProofVerdict::Worse | ProofVerdict::GuardBroken => true,
        ProofVerdict::NoDifference | ProofVerdict::Inconclusive => false,
    }
}

pub(super) fn section(comparisons: u64, seed: u64) -> String {
    let stacks = in_parallel(seed..seed + comparisons.div_ceil(PER_STACK), on_stack);
    let count = |of: &dyn Fn(&OnStack) -> &Vec<Proof>, what: &dyn Fn(&Proof) -> bool| {
        let all: Vec<&Proof> = stacks.iter().flat_map(of).collect();
        (all.iter().filter(|proof| what(proof)).count(), all.len())
    };
    let (wrong, aa) = count(&|on| &on.aa, &finds_a_difference);
    let (found, ab) = count(&|on| &on.ab, &|proof| finds_a_difference(proof) && proof.effect.low > 0.0);
    let (covered, _) = {
        let held =
            |on: &OnStack| on.ab.iter().filter(|p| p.effect.low <= on.planted && on.planted <= p.effect.high).count();
        (stacks.iter().map(held).sum::<usize>(), ab)
    };
    let part = |n: usize, of: usize| n as f64 / of.max(1) as f64;
    let planted: Vec<f64> = stacks.iter().map(|on| on.planted).collect();
    format!(
        "### The verdict of a comparison\n\n\
         {} stacks, on each {PER_STACK} comparisons of it with itself and {PER_STACK} with itself made faster by the smallest detectable effect that the \
         former print (their mean; median over the stacks {:.1} %): 8 pairs of trials in closed loop, in blocks of random order.\n\n\
         | promise | seen, with what the number of comparisons allows | bar | holds |\n|---|--:|--:|---|\n\
         | the same again is called a difference | {} of {aa} | at most {:.0} % | {} |\n\
         | the smallest detectable effect is found | {} of {ab} | {:.0} to {:.0} % | {} |\n\
         | the interval of that effect holds it | {} of {ab} | none |  |\n",
        stacks.len(),
        100.0 * crate::bench::median(&planted).unwrap_or_default(),
        share(wrong, aa),
        100.0 * FALSE_MAX,
        holds(part(wrong, aa) <= FALSE_MAX),
        share(found, ab),
        100.0 * POWER.start(),
        100.0 * POWER.end(),
        holds(POWER.contains(&part(found, ab))),
        share(covered, ab),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_comparisons_give_a_table() {
        let text = section(2 * PER_STACK, 1);
        assert!(text.contains("2 stacks") && text.contains("of 20 | at most 6 %"), "{text}");
    }
}
