//! The order of trials: random, so that drift and warm-up do not side with one arm, and balanced, so that they cancel.
//!
//! Randomised complete blocks (Fisher 1935, "The Design of Experiments", IV); ABBA against linear drift (Student 1938,
//! "Comparison between balanced and random arrangements of field plots"); for clouds: Abedi, Brecht 2017, "Conducting
//! repeatable experiments in highly variable cloud computing environments" (RMIT).

use crate::Random;
use prony_model::run::Arm;

/// Trials of `blocks` blocks, each ABBA or BAAB, so that a block holds two pairs: (block, arm) in the order to run them.
/// Half of the blocks start with A; with an odd number, chance gives the odd one.
pub fn blocks(blocks: u32, seed: u64) -> Vec<(u32, Arm)> {
    let starts = starts(blocks, seed).into_iter().zip(0..);
    starts.flat_map(|(first, block)| [first, other(first), other(first), first].map(|arm| (block, arm))).collect()
}

/// The first arm of each of `n` blocks: as many A as B, in random order.
fn starts(n: u32, seed: u64) -> Vec<Arm> {
    let mut random = Random::new(seed);
    let even = if random.below(2) == 0 { Arm::A } else { Arm::B };
    let mut starts: Vec<Arm> = (0..n).map(|i| if i % 2 == 0 { even } else { other(even) }).collect();
    random.shuffle(&mut starts);
    starts
}

fn other(arm: Arm) -> Arm {
    match arm {
        Arm::A => Arm::B,
        Arm::B => Arm::A,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn count(trials: &[(u32, Arm)], block: u32, arm: Arm) -> usize {
        trials.iter().filter(|trial| **trial == (block, arm)).count()
    }

    proptest! {
        #[test]
        fn every_block_has_both_arms_and_starts_are_even(n in 0u32..40, seed: u64) {
            let trials = blocks(n, seed);
            prop_assert_eq!(trials.len(), 4 * n as usize);
            for block in 0..n {
                prop_assert_eq!((count(&trials, block, Arm::A), count(&trials, block, Arm::B)), (2, 2));
            }
            let a_first = trials.chunks(4).filter(|block| block[0].1 == Arm::A).count();
            prop_assert!(a_first.abs_diff(n as usize - a_first) <= 1);
            prop_assert!(trials.chunks(4).all(|q| q[0].1 == q[3].1 && q[1].1 == q[2].1 && q[0].1 != q[1].1));
        }
    }

    #[test]
    fn seeds_differ() {
        assert_eq!(blocks(8, 1), blocks(8, 1));
        assert!((2..20).any(|seed| blocks(8, seed) != blocks(8, 1)));
    }
}
