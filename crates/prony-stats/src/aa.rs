//! How often A differs from A on this machine, and whether that is as rare as the intervals promise.
//!
//! A comparison of A with A needs nothing but trials of one configuration in the order in which they ran. Every proof
//! holds two: its A trials among themselves, and its B trials among themselves; in each block the two trials of an arm get
//! the names "A" and "B" by chance, just as the order of a real block is left to chance. They are compared as the arms are,
//! at equal speed of the machine where that moved. They cost no time, and they say nothing of what turning the knob itself
//! does to the next trial; and as chance protects them from drift just as it protects the proof, what they can show is
//! noise that an interval by Student's t cannot take. A run that changed nothing holds a third: its verdict.
//! Two or three comparisons notice only a machine that is wrong nearly every time, which is why [`AaCheck::noticed`] is told
//! with every result, and why the comparisons of earlier proofs on the same machine are counted as well.

use crate::Random;
use crate::paired;
use crate::prove::{THROUGHPUT, pair_up, pieces};
use prony_model::comparison::{AaCheck, EarlierAa, Strength, Worth};
use prony_model::run::Arm;
use statrs::function::gamma::ln_gamma;
use std::collections::BTreeMap;

/// Level of one comparison: its interval holds 95 %.
const ALPHA: f64 = 0.05;
/// Sums of binomial terms are right to this: one alarm of one comparison has a probability of 0.05, not a little more.
const ROUNDING: f64 = 1e-9;
/// Power at which [`AaCheck::noticed`] is stated, as for every smallest detectable effect.
const POWER: f64 = 0.8;
/// From so many comparisons on, a machine that is wrong in half of them is noticed with 80 % power (`check(0, 5).noticed` is
/// 0.49); with fewer a verdict is not called strong. A guess at what a person wants to be sure of.
const EXPERIMENTS_MIN: u32 = 5;

/// What is compared of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateAtSpeed {
    /// Good requests per second, or how soon they are answered.
    pub per_s: f64,
    /// What a piece of the yardstick's work took meanwhile, us; none where it was not timed.
    pub piece_us: Option<f64>,
}

/// Comparisons of A with A that the trials of one proof hold, each with whether it found a difference. `trials` are (block,
/// arm, what was seen) in the order they ran; `nothing_changed`: B was no other configuration.
pub fn experiments(trials: &[(u32, Arm, RateAtSpeed)], nothing_changed: bool, seed: u64) -> Vec<bool> {
    let mut random = Random::new(seed);
    let mut found: Vec<bool> =
        [Arm::A, Arm::B].into_iter().filter_map(|arm| differs(&halves(trials, arm, &mut random))).collect();
    if nothing_changed {
        found.extend(differs(&pair_up(trials)));
    }
    found
}

/// The two trials of an arm in each block, in random order.
fn halves(trials: &[(u32, Arm, RateAtSpeed)], arm: Arm, random: &mut Random) -> Vec<(RateAtSpeed, RateAtSpeed)> {
    let mut blocks: BTreeMap<u32, Vec<RateAtSpeed>> = BTreeMap::new();
    for (block, _, seen) in trials.iter().filter(|t| t.1 == arm) {
        blocks.entry(*block).or_default().push(*seen);
    }
    let mut swap = |(a, b)| if random.below(2) == 0 { (a, b) } else { (b, a) };
    blocks.into_values().filter_map(|seen| Some((*seen.first()?, *seen.get(1)?))).map(&mut swap).collect()
}

/// Whether the interval excludes 0; none when there are too few pairs for one.
fn differs(pairs: &[(RateAtSpeed, RateAtSpeed)]) -> Option<bool> {
    let rates: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (a.per_s, b.per_s)).collect();
    let effect = paired::compare_at_speed(THROUGHPUT, &rates, &pieces(pairs, |seen| seen.piece_us))?;
    Some(effect.low > 0.0 || effect.high < 0.0)
}

/// Holds `differ` false alarms of `experiments` comparisons against what chance allows: the most that happens with a
/// probability above 5 % when each comparison errs in 5 % (one-sided binomial test; Clopper, Pearson 1934).
fn check(differ: u32, experiments: u32) -> AaCheck {
    let allowed = (0..=experiments).rev().find(|k| at_least(*k, experiments, ALPHA) > ALPHA + ROUNDING).unwrap_or(0);
    AaCheck { experiments, differ, allowed, noticed: noticed(allowed, experiments) }
}

/// What the check makes of a verdict from interleaved trials.
fn strength(check: &AaCheck) -> Strength {
    if check.differ > check.allowed {
        Strength::Weak
    } else if check.experiments < EXPERIMENTS_MIN {
        Strength::Unchecked
    } else {
        Strength::Strong
    }
}

/// What a verdict is worth, from the comparisons of A with A just made and those of earlier proofs.
pub fn worth(now: &[bool], earlier: EarlierAa) -> Worth {
    let differ = now.iter().filter(|differs| **differs).count() as u32 + earlier.differ;
    let check = check(differ, now.len() as u32 + earlier.experiments);
    let strength = strength(&check);
    Worth { strength, reason: reason(&check, strength, earlier.proofs), aa: check }
}

fn reason(check: &AaCheck, strength: Strength, proofs: u32) -> String {
    let AaCheck { experiments, differ, allowed, noticed } = *check;
    let from = match proofs {
        0 => String::new(),
        1 => " (those of an earlier proof counted in)".to_string(),
        many => format!(" (those of {many} earlier proofs counted in)"),
    };
    let power = format!(
        "so many comparisons would notice, 8 times in 10, a rate of false alarms of {:.0} % or more",
        noticed * 100.0
    );
    match strength {
        Strength::Strong => format!(
            "trials were interleaved in random order, and on this machine A differs from A in {differ} of {experiments} \
             comparisons{from}; up to {allowed} are chance; {power}"
        ),
        Strength::Unchecked => format!(
            "trials were interleaved in random order, but how often this machine raises a false alarm is hardly known: A differs from \
             A in {differ} of {experiments} comparisons{from}, and {EXPERIMENTS_MIN} are needed; {power}. `prony compare --live STACK \
             --aa 2` makes six more"
        ),
        Strength::Weak => format!(
            "this machine's own A/A differs in {differ} of {experiments} comparisons{from}, where up to {allowed} would be chance. \
             Others work on it, or its speed jumps: make it quiet, or take longer trials (without --quick)"
        ),
    }
}

/// The rate of false alarms of which more than `allowed` are seen with 80 % probability; 1 when no rate is.
fn noticed(allowed: u32, experiments: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // 40 halvings: to 1e-12.
    for _ in 0..40 {
        let rate = (low + high) / 2.0;
        if at_least(allowed + 1, experiments, rate) >= POWER { high = rate } else { low = rate }
    }
    high
}

/// P(K >= k) of n trials with this probability each.
fn at_least(k: u32, n: u32, rate: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    let choose = |k: u32| {
        let (n, k) = (f64::from(n), f64::from(k));
        ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
    };
    let term = |k: u32| (choose(k) + f64::from(k) * rate.ln() + f64::from(n - k) * (-rate).ln_1p()).exp();
    (k..=n).map(term).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order;
    use proptest::prelude::*;

    fn made(
        seed: u64,
        blocks: u32,
        mut rate: impl FnMut(usize, Arm, &mut Random) -> f64,
    ) -> Vec<(u32, Arm, RateAtSpeed)> {
        let mut random = Random::new(seed);
        let order = order::blocks(blocks, seed).into_iter().enumerate();
        order.map(|(i, (block, arm))| (block, arm, untimed(rate(i, arm, &mut random)))).collect()
    }

    fn untimed(per_s: f64) -> RateAtSpeed {
        RateAtSpeed { per_s, piece_us: None }
    }

    #[test]
    fn the_band_is_that_of_the_binomial() {
        // R: qbinom(0.95, n, 0.05) for 1, 5, 10, 20, 100.
        let allowed = [1, 5, 10, 20, 100].map(|n| check(0, n).allowed);
        assert_eq!(allowed, [0, 1, 2, 3, 9]);
        assert!((at_least(2, 10, 0.05) - 0.086_138).abs() < 1e-6);
        assert!((check(0, 1).noticed - 0.8).abs() < 1e-6);
        assert!(check(0, EXPERIMENTS_MIN).noticed < 0.5 && check(0, EXPERIMENTS_MIN - 1).noticed > 0.5);
    }

    #[test]
    fn strength_needs_enough_and_few_alarms() {
        let of = |differ, n| strength(&check(differ, n));
        assert_eq!((of(0, 2), of(2, 2), of(0, 0)), (Strength::Unchecked, Strength::Weak, Strength::Unchecked));
        assert_eq!(
            (of(1, 5), of(2, 5), of(3, 20), of(4, 20)),
            (Strength::Strong, Strength::Weak, Strength::Strong, Strength::Weak)
        );
    }

    #[test]
    fn the_reason_fits_the_strength() {
        let of = |differ, experiments, proofs| worth(&[], EarlierAa { experiments, differ, proofs });
        assert!(of(0, 2, 0).reason.contains("in 0 of 2 comparisons, and 5 are needed"), "{:?}", of(0, 2, 0));
        let strong = of(1, 20, 9);
        assert_eq!(strong.strength, Strength::Strong);
        assert!(
            strong.reason.contains("in 1 of 20 comparisons (those of 9 earlier proofs counted in); up to 3 are chance")
        );
        assert!(of(2, 2, 0).reason.starts_with("this machine's own A/A differs in 2 of 2 comparisons"));
        let now = worth(&[true, false, false], EarlierAa { experiments: 4, differ: 0, proofs: 2 });
        assert_eq!((now.aa.experiments, now.aa.differ, now.strength), (7, 1, Strength::Strong));
    }

    /// The B arm is much faster: that must not count as a false difference.
    #[test]
    fn a_real_difference_between_the_arms_is_no_alarm() {
        let (mut alarms, mut all) = (0, 0);
        for seed in 0..1000 {
            let trials =
                made(seed, 5, |_, arm, random| if arm == Arm::B { 2.0 } else { 1.0 } * random.normal(9.0, 0.02).exp());
            let found = experiments(&trials, false, seed);
            all += found.len();
            alarms += found.iter().filter(|f| **f).count();
        }
        let trials = made(1, 5, |_, arm, _| if arm == Arm::B { 2.0 } else { 1.0 });
        assert_eq!(halves(&trials, Arm::A, &mut Random::new(1)), [(untimed(1.0), untimed(1.0)); 5]);
        assert_eq!(halves(&trials, Arm::B, &mut Random::new(1)), [(untimed(2.0), untimed(2.0)); 5]);
        // Binomial, 2000 times 0.05: 100 +- 3.3 * 9.7.
        assert!(all == 2000 && (68..=132).contains(&alarms), "{alarms} of {all}");
    }

    /// A slow drift sides with nobody, because the order of the two names is left to chance.
    #[test]
    fn a_drift_raises_no_alarm() {
        let alarms = (0..500).flat_map(|seed| {
            let trials = made(seed, 5, |i, _, random| (9.0 - 0.01 * i as f64 + random.normal(0.0, 0.002)).exp());
            experiments(&trials, true, seed)
        });
        // 1500 times at most 0.05; a drift makes the differences alike in size, which makes alarms more common at 2^-4.
        let alarms = alarms.filter(|f| *f).count();
        assert!(alarms <= 150, "{alarms} of 1500");
    }

    /// The second trial of each block of A is always 1 % better, and a machine whose speed moves hides that: not from a comparison at
    /// equal speed.
    #[test]
    fn alike_is_judged_at_equal_speed() {
        let mut random = Random::new(1);
        let pairs: Vec<(RateAtSpeed, RateAtSpeed)> = (0..20)
            .map(|_| {
                let mut seen = |own: f64| {
                    let (speed, own) = (random.normal(0.0, 0.1), own + random.normal(0.0, 0.003));
                    RateAtSpeed { per_s: (9.0 + own - speed).exp(), piece_us: Some((1.0 + speed).exp()) }
                };
                (seen(0.0), seen(0.01))
            })
            .collect();
        let untimed: Vec<(RateAtSpeed, RateAtSpeed)> =
            pairs.iter().map(|(a, b)| (untimed(a.per_s), untimed(b.per_s))).collect();
        assert_eq!((differs(&pairs), differs(&untimed)), (Some(true), Some(false)));
    }

    #[test]
    fn an_interrupted_proof_gives_what_it_has() {
        let trials = made(1, 3, |_, _, random| random.normal(9.0, 0.02).exp());
        assert_eq!(experiments(&trials, false, 1).len(), 2);
        assert_eq!(experiments(&trials, true, 1).len(), 3);
        assert_eq!(experiments(&trials[..8], false, 1).len(), 0);
        assert_eq!(experiments(&[], true, 1).len(), 0);
    }

    proptest! {
        #[test]
        fn more_alarms_never_make_a_verdict_stronger(n in 1u32..60, k in 0u32..59) {
            let rank = |k: u32| strength(&check(k.min(n), n)) as u8;
            prop_assert!(rank(k) <= rank(k + 1));
            prop_assert!(check(0, n + 1).allowed >= check(0, n).allowed);
        }
    }
}
