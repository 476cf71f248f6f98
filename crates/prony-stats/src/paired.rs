//! Is B different from A? Effects from pairs of trials that ran side by side.
//!
//! One number per trial goes in. This file finds effect, interval and p; what they mean is decided in `prove`.
//! Invariant: swapping A and B mirrors the result (log scale for ratios, plain scale for shares).

use crate::Random;
use crate::speed;
use crate::student;
use prony_model::Effect;

/// Below this many pairs an interval says nothing: with 2 pairs t is 12.7.
const PAIRS_MIN: usize = 3;
/// Up to this many pairs every sign pattern is tried (2^20 patterns take milliseconds); above, a random sample of them.
const EXACT_PAIRS_MAX: usize = 20;
/// Sign patterns in the random sample: the standard error of p = 0.05 is then 0.0007.
const SAMPLED_PATTERNS: u32 = 100_000;
/// Sums of signs that differ by less than this share of the largest sum are ties (rounding of f64).
const TIE: f64 = 1e-12;
/// Two-sided 95 % quantile of the normal distribution.
const Z_95: f64 = 1.959_964;

/// The relative effect of B against A on a positive quantity: d_i = ln b_i - ln a_i, effect = exp(mean d) - 1, with the
/// t interval of mean d and the smallest effect detectable with 80 % power, all carried back by exp(x) - 1.
///
/// Ratios of paired measurements on the log scale: Bland, Altman 1996, "Transforming data", BMJ 312; see `student::mean`.
/// None for fewer than 3 pairs, or when a value is not a positive number.
pub fn compare(metric: &str, pairs: &[(f64, f64)]) -> Option<Effect> {
    compare_at_speed(metric, pairs, &[])
}

/// As [`compare`], at equal speed of the machine where that moved. `pieces`: what a piece of the
/// yardstick's work took in both trials of each pair; empty when that was not measured. See `speed::allow_for`.
pub fn compare_at_speed(metric: &str, pairs: &[(f64, f64)], pieces: &[(f64, f64)]) -> Option<Effect> {
    let usable = |v: f64| v.is_finite() && v > 0.0;
    if pairs.len() < PAIRS_MIN || !pairs.iter().all(|(a, b)| usable(*a) && usable(*b)) {
        return None;
    }
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b.ln() - a.ln()).collect();
    let allowed = speed::allow_for(&differences, pieces);
    let by_speed = allowed.as_ref().map(|allowed| allowed.explained);
    let differences = allowed.map_or(differences, |allowed| allowed.values);
    let interval = student::mean(&differences)?;
    let geometric_mean = |logs: f64| (logs / pairs.len() as f64).exp();
    Some(Effect {
        metric: metric.to_string(),
        a: geometric_mean(pairs.iter().map(|(a, _)| a.ln()).sum()),
        b: geometric_mean(pairs.iter().map(|(_, b)| b.ln()).sum()),
        effect: interval.center.exp_m1(),
        low: interval.low.exp_m1(),
        high: interval.high.exp_m1(),
        detectable: interval.detectable.exp_m1(),
        p: sign_permutation_p(&differences),
        pairs: pairs.len() as u32,
        by_speed,
    })
}

/// Two-sided p by Student's t of an effect that [`compare`] found. Unlike the permutation p it is not held up by the number of
/// sign patterns (6 pairs: 0.03 at best), so that it can be corrected for several questions.
pub fn p_by_t(effect: &Effect) -> f64 {
    let degrees = f64::from(effect.pairs.max(2)) - 1.0;
    let half = (effect.high.ln_1p() - effect.low.ln_1p()) / 2.0;
    student::two_sided_p(effect.effect.ln_1p(), half / student::quantile(student::TWO_SIDED_95, degrees), degrees)
}

/// Failed requests out of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Requests that failed.
    pub errors: u64,
    /// Requests that ended, failed or not.
    pub total: u64,
}

/// The *absolute* effect of B against A on an error share (0.001 is 0.1 percentage points more), from (a, b) pairs.
///
/// The interval is the wider, at each end, of two: the t interval of the differences between paired trials, which sees
/// that errors come in bursts; and Newcombe's hybrid score interval of the pooled counts (Newcombe 1998, "Interval
/// estimation for the difference between independent proportions", method 10), which knows that no error among n requests
/// still allows a share of about 3.8 / n. So without any error the effect is 0 within a narrow interval.
/// None for fewer than 3 pairs, or when a trial has no requests.
pub fn compare_share(metric: &str, pairs: &[(Failures, Failures)]) -> Option<Effect> {
    if pairs.len() < PAIRS_MIN || pairs.iter().any(|(a, b)| a.total == 0 || b.total == 0) {
        return None;
    }
    let share = |f: &Failures| f.errors.min(f.total) as f64 / f.total as f64;
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| share(b) - share(a)).collect();
    let spread = student::mean(&differences)?;
    let (a, b) = (pooled(pairs.iter().map(|(a, _)| a)), pooled(pairs.iter().map(|(_, b)| b)));
    let (counted_low, counted_high) = newcombe(a, b);
    Some(Effect {
        metric: metric.to_string(),
        a: share(&a),
        b: share(&b),
        effect: spread.center,
        low: spread.low.min(counted_low),
        high: spread.high.max(counted_high),
        detectable: spread.detectable,
        p: sign_permutation_p(&differences),
        pairs: pairs.len() as u32,
        by_speed: None,
    })
}

/// Two-sided p of the hypothesis that each difference could as well have had the other sign: the share of sign
/// patterns whose sum is at least as far from 0 as the one seen. Exact up to 20 differences.
///
/// Fisher 1935, "The Design of Experiments", 21; for the sample of patterns, (hits + 1) / (tried + 1): Phipson, Smyth
/// 2010, "Permutation p-values should never be zero". Its seed is fixed, so that the same trials give the same p.
fn sign_permutation_p(differences: &[f64]) -> f64 {
    let largest: f64 = differences.iter().map(|d| d.abs()).sum();
    let seen = differences.iter().sum::<f64>().abs() - TIE * largest;
    if differences.len() > EXACT_PAIRS_MAX {
        let mut random = Random::new(differences.len() as u64);
        let mut pattern = || differences.iter().map(|d| if random.below(2) == 0 { *d } else { -d }).sum::<f64>();
        let hits = (0..SAMPLED_PATTERNS).filter(|_| pattern().abs() >= seen).count();
        return (hits + 1) as f64 / f64::from(SAMPLED_PATTERNS + 1);
    }
    // A pattern and its mirror image are equally far from 0: the first sign may stay.
    let Some((first, rest)) = differences.split_first() else { return 1.0 };
    let patterns = 1u32 << rest.len();
    let sum = |pattern: u32| {
        let signed = |(bit, d): (usize, &f64)| if pattern >> bit & 1 == 1 { -d } else { *d };
        first + rest.iter().enumerate().map(signed).sum::<f64>()
    };
    let hits = (0..patterns).filter(|pattern| sum(*pattern).abs() >= seen).count();
    hits as f64 / f64::from(patterns)
}

pub(crate) fn pooled<'a>(failures: impl Iterator<Item = &'a Failures>) -> Failures {
    failures.fold(Failures::default(), |all, f| Failures { errors: all.errors + f.errors, total: all.total + f.total })
}

/// Interval of share(b) - share(a) by method 10 of Newcombe 1998.
pub(crate) fn newcombe(a: Failures, b: Failures) -> (f64, f64) {
    let (a, b) = (wilson(a), wilson(b));
    let difference = b.center - a.center;
    let low = difference - ((b.center - b.low).powi(2) + (a.high - a.center).powi(2)).sqrt();
    let high = difference + ((b.high - b.center).powi(2) + (a.center - a.low).powi(2)).sqrt();
    (low, high)
}

struct Score {
    center: f64,
    low: f64,
    high: f64,
}

/// Score interval of one share (its center is the plain share): Wilson 1927, "Probable inference", JASA 22.
fn wilson(failures: Failures) -> Score {
    let (n, center) = (failures.total as f64, failures.errors.min(failures.total) as f64 / failures.total as f64);
    let z2 = Z_95 * Z_95;
    let middle = (center + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z_95 / (1.0 + z2 / n) * (center * (1.0 - center) / n + z2 / (4.0 * n * n)).sqrt();
    Score { center, low: (middle - half).max(0.0), high: (middle + half).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn failures(errors: u64, total: u64) -> Failures {
        Failures { errors, total }
    }

    #[test]
    fn a_plain_gain() {
        let effect = compare("good_per_s", &[(100.0, 110.0), (100.0, 112.0), (100.0, 108.0), (100.0, 110.0)]).unwrap();
        assert!((effect.effect - 0.1).abs() < 1e-3 && effect.low > 0.07 && effect.high < 0.13, "{effect:?}");
        assert_eq!(effect.p, 0.125, "2 of 16 sign patterns are as extreme");
        assert!((effect.a - 100.0).abs() < 1e-9 && (effect.b - 110.0).abs() < 0.1);
    }

    #[test]
    fn p_and_interval_agree() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let pairs: Vec<(f64, f64)> =
                (0..6).map(|_| (random.normal(9.0, 0.02).exp(), random.normal(9.02, 0.02).exp())).collect();
            let effect = compare("good_per_s", &pairs).unwrap();
            let outside = effect.low > 0.0 || effect.high < 0.0;
            assert_eq!(p_by_t(&effect) < 0.05, outside, "{effect:?}");
        }
        let same = compare("x", &[(2.0, 2.0); 4]).unwrap();
        let apart = compare("x", &[(2.0, 3.0); 4]).unwrap();
        assert_eq!((p_by_t(&same), p_by_t(&apart)), (1.0, 0.0));
    }

    #[test]
    fn nothing_is_said_about_too_few_or_none() {
        assert_eq!(compare("x", &[(1.0, 2.0); 2]), None);
        assert_eq!(compare("x", &[(1.0, 2.0), (0.0, 1.0), (1.0, 1.0)]), None);
        assert_eq!(compare("x", &[(1.0, f64::NAN); 3]), None);
        assert_eq!(compare_share("x", &[(failures(0, 0), failures(0, 9)); 3]), None);
    }

    #[test]
    fn no_errors_are_no_difference() {
        let effect = compare_share("error_share", &[(failures(0, 20_000), failures(0, 21_000)); 4]).unwrap();
        assert_eq!((effect.effect, effect.p), (0.0, 1.0));
        assert!(effect.low < 0.0 && effect.low > -1e-4 && effect.high > 0.0 && effect.high < 1e-4, "{effect:?}");
    }

    #[test]
    fn newcombe_as_published() {
        // Newcombe 1998, Table II, case (a): 56/70 against 48/80, method 10: 0.0524 to 0.3339.
        let (low, high) = newcombe(failures(48, 80), failures(56, 70));
        assert!((low - 0.0524).abs() < 1e-4 && (high - 0.3339).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn one_burst_of_errors_is_no_proof() {
        let calm = (failures(0, 10_000), failures(0, 10_000));
        let effect = compare_share("error_share", &[calm, (failures(0, 10_000), failures(500, 10_000)), calm, calm]);
        assert!(effect.clone().unwrap().low < 0.0, "{effect:?}");
    }

    /// 2000 experiments of 8 pairs without a difference, trials spreading by 2 %.
    #[test]
    fn alarms_without_a_difference_are_as_rare_as_promised() {
        let (mut by_interval, mut by_p) = (0, 0);
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let mut trial = || random.normal(9.0, 0.02).exp();
            let pairs: Vec<(f64, f64)> = (0..8).map(|_| (trial(), trial())).collect();
            let effect = compare("good_per_s", &pairs).unwrap();
            by_interval += u32::from(effect.low > 0.0 || effect.high < 0.0);
            by_p += u32::from(effect.p <= 0.05);
        }
        // Binomial, 2000 times 0.05: 100 +- 3.3 * 9.7.
        assert!((68..=132).contains(&by_interval), "{by_interval}");
        assert!((58..=132).contains(&by_p), "{by_p}: p comes in steps of 1/128, so a little below 0.05");
    }

    /// The promise of `detectable`: an effect of that size is found in 80 of 100 experiments.
    #[test]
    fn the_detectable_effect_is_mostly_detected() {
        let run = |seed: u64, shift: f64| {
            let mut random = Random::new(seed);
            let mut trial = |mean: f64| random.normal(mean, 0.02).exp();
            let pairs: Vec<(f64, f64)> = (0..10).map(|_| (trial(9.0), trial(9.0 + shift))).collect();
            compare("good_per_s", &pairs).unwrap()
        };
        let detectable = (0..1000).map(|seed| run(seed, 0.0).detectable.ln_1p()).sum::<f64>() / 1000.0;
        let found = (0..1000).filter(|seed| run(*seed, detectable).low > 0.0).count();
        assert!((740..=860).contains(&found), "{found}");
    }

    proptest! {
        #[test]
        fn swapping_mirrors(pairs in vec((1.0f64..1e6, 1.0f64..1e6), 3..12)) {
            let swapped: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let (one, two) = (compare("x", &pairs).unwrap(), compare("x", &swapped).unwrap());
            prop_assert!((one.low.ln_1p() + two.high.ln_1p()).abs() < 1e-6);
            prop_assert!((one.effect.ln_1p() + two.effect.ln_1p()).abs() < 1e-6);
            prop_assert!((one.p - two.p).abs() < 1e-9 && one.p > 0.0 && one.p <= 1.0);
            prop_assert!(one.low <= one.effect && one.effect <= one.high);
        }

        #[test]
        fn a_against_itself_holds_zero(a in vec(1.0f64..1e6, 3..25)) {
            let pairs: Vec<(f64, f64)> = a.iter().map(|a| (*a, *a)).collect();
            let effect = compare("x", &pairs).unwrap();
            prop_assert!(effect.low <= 0.0 && effect.high >= 0.0 && effect.p == 1.0);
        }

        #[test]
        fn shares_swap_and_stay_ordered(pairs in vec((0u64..50, 50u64..5000, 0u64..50, 50u64..5000), 3..12)) {
            let pairs: Vec<_> = pairs.iter().map(|(e, t, f, u)| (failures(*e, *t), failures(*f, *u))).collect();
            let swapped: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
            let (one, two) = (compare_share("x", &pairs).unwrap(), compare_share("x", &swapped).unwrap());
            prop_assert!((one.low + two.high).abs() < 1e-9 && one.low <= one.effect && one.effect <= one.high);
        }
    }
}
