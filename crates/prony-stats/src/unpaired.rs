//! Is B different from A when their trials have no partners: two recorded runs, each with trials of its own time.
//!
//! Weaker than `paired`: what drifted between the runs stays in the effect, and the interval does not know of it.
//! Invariant: swapping A and B mirrors the result.

use crate::paired::{Failures, newcombe, pooled};
use crate::student;
use prony_model::Effect;

/// Fewer trials on a side give no interval, as for pairs: with 2 and 2 t is 4.3.
pub const TRIALS_MIN: usize = 3;

/// The relative effect of B against A on a positive quantity: the difference of mean logarithms with Welch's interval,
/// carried back by exp(x) - 1. None for fewer than 3 trials on a side, or when a value is not a positive number.
///
/// Logarithms as in Bland, Altman 1996, "Transforming data", BMJ 312; see `student::welch`.
pub fn compare(metric: &str, a: &[f64], b: &[f64]) -> Option<Effect> {
    let usable = |values: &[f64]| values.len() >= TRIALS_MIN && values.iter().all(|v| v.is_finite() && *v > 0.0);
    if !usable(a) || !usable(b) {
        return None;
    }
    let logs = |values: &[f64]| values.iter().map(|v| v.ln()).collect::<Vec<f64>>();
    let (a, b) = (logs(a), logs(b));
    let (interval, p) = student::welch(&a, &b)?;
    let geometric_mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    Some(Effect {
        metric: metric.to_string(),
        a: geometric_mean(&a),
        b: geometric_mean(&b),
        effect: interval.center.exp_m1(),
        low: interval.low.exp_m1(),
        high: interval.high.exp_m1(),
        detectable: interval.detectable.exp_m1(),
        p,
        pairs: a.len().min(b.len()) as u32,
        by_speed: None,
    })
}

/// The *absolute* effect of B against A on an error share. The interval is the wider, at each end, of Welch's over trials and
/// Newcombe's over all requests; why stands at `paired::compare_share`.
/// None for fewer than 3 trials on a side, or when a trial has no requests.
pub fn compare_share(metric: &str, a: &[Failures], b: &[Failures]) -> Option<Effect> {
    let usable = |trials: &[Failures]| trials.len() >= TRIALS_MIN && trials.iter().all(|f| f.total > 0);
    if !usable(a) || !usable(b) {
        return None;
    }
    let share = |f: &Failures| f.errors.min(f.total) as f64 / f.total as f64;
    let shares = |trials: &[Failures]| trials.iter().map(share).collect::<Vec<f64>>();
    let (spread, p) = student::welch(&shares(a), &shares(b))?;
    let (all_a, all_b) = (pooled(a.iter()), pooled(b.iter()));
    let (counted_low, counted_high) = newcombe(all_a, all_b);
    Some(Effect {
        metric: metric.to_string(),
        a: share(&all_a),
        b: share(&all_b),
        effect: spread.center,
        low: spread.low.min(counted_low),
        high: spread.high.max(counted_high),
        detectable: spread.detectable,
        p,
        pairs: a.len().min(b.len()) as u32,
        by_speed: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn values(random: &mut Random, n: usize, mean: f64, spread: f64) -> Vec<f64> {
        (0..n).map(|_| random.normal(mean, spread).exp()).collect()
    }

    #[test]
    fn nothing_is_said_about_too_few_or_none() {
        assert_eq!(compare("x", &[1.0, 2.0], &[1.0; 9]), None);
        assert_eq!(compare("x", &[1.0, 2.0, 0.0], &[1.0; 9]), None);
        let (none, some) = (Failures::default(), Failures { errors: 1, total: 10 });
        assert_eq!(compare_share("x", &[some, some, none], &[some; 3]), None);
        let effect =
            compare_share("x", &[Failures { errors: 0, total: 20_000 }; 3], &[Failures { errors: 0, total: 9_000 }; 4]);
        let effect = effect.unwrap();
        assert!(effect.effect == 0.0 && effect.p == 1.0 && effect.high > 0.0 && effect.high < 1e-3, "{effect:?}");
    }

    #[test]
    fn alarms_without_a_difference_are_as_rare_as_promised() {
        for (n_a, n_b, spread_b) in [(8, 8, 0.02), (5, 14, 0.06), (14, 5, 0.06)] {
            let alarms = (0..2000).filter(|seed| {
                let mut random = Random::new(*seed);
                let (a, b) = (values(&mut random, n_a, 9.0, 0.02), values(&mut random, n_b, 9.0, spread_b));
                let effect = compare("good_per_s", &a, &b).unwrap();
                effect.low > 0.0 || effect.high < 0.0
            });
            // Binomial, 2000 times 0.05: 100 +- 3.3 * 9.7; Welch's degrees of freedom are an approximation.
            let alarms = alarms.count();
            assert!((66..=136).contains(&alarms), "{n_a} {n_b}: {alarms}");
        }
    }

    #[test]
    fn the_detectable_effect_is_mostly_detected() {
        let run = |seed: u64, shift: f64| {
            let mut random = Random::new(seed);
            let (a, b) = (values(&mut random, 8, 9.0, 0.02), values(&mut random, 12, 9.0 + shift, 0.03));
            compare("good_per_s", &a, &b).unwrap()
        };
        let detectable = (0..1000).map(|seed| run(seed, 0.0).detectable.ln_1p()).sum::<f64>() / 1000.0;
        let found = (0..1000).filter(|seed| run(*seed, detectable).low > 0.0).count();
        assert!((740..=860).contains(&found), "{found}");
    }

    proptest! {
        #[test]
        fn swapping_mirrors(a in vec(1.0f64..1e6, 3..12), b in vec(1.0f64..1e6, 3..12)) {
            let (one, two) = (compare("x", &a, &b).unwrap(), compare("x", &b, &a).unwrap());
            prop_assert!((one.low.ln_1p() + two.high.ln_1p()).abs() < 1e-6);
            prop_assert!((one.effect.ln_1p() + two.effect.ln_1p()).abs() < 1e-6 && (one.p - two.p).abs() < 1e-9);
            prop_assert!((one.p < 0.05) == (one.low > 0.0 || one.high < 0.0) || (one.p - 0.05).abs() < 1e-6);
        }

        /// Both sides times the same factor: nothing changes. One side times a factor: the effect moves by it.
        #[test]
        fn scale_and_shift(a in vec(1.0f64..1e3, 3..9), b in vec(1.0f64..1e3, 3..9), factor in 0.1f64..10.0) {
            let by = |values: &[f64]| values.iter().map(|v| v * factor).collect::<Vec<f64>>();
            let one = compare("x", &a, &b).unwrap();
            let both = compare("x", &by(&a), &by(&b)).unwrap();
            prop_assert!((one.effect.ln_1p() - both.effect.ln_1p()).abs() < 1e-9 && (one.p - both.p).abs() < 1e-9);
            let only_b = compare("x", &a, &by(&b)).unwrap();
            prop_assert!((only_b.low.ln_1p() - one.low.ln_1p() - factor.ln()).abs() < 1e-6);
        }
    }
}
