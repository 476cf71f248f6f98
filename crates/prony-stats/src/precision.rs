//! How many pairs an answer needs, from how far those that were made differ.
//!
//! Invariant: it goes by the spread of pairs and not by their mean, except where that is beyond doubt; so the interval of all
//! pairs together keeps its promise.

use crate::paired;
use prony_model::Effect;

/// With a smaller p what was measured is enough, however far pairs differ. So rare is it that it hardly touches the promise of the
/// final interval: Peto and others 1976, "Design and analysis of randomized clinical trials", Br. J. Cancer 34.
const SURE_P: f64 = 0.001;

/// How many pairs would find a change of `detect` (0.05 is 5 %) in 8 of 10 attempts, those of `effect` among them; no more than these
/// when they are enough already.
///
/// The standard error falls with the root of the number of pairs: Stein 1945, "A two-sample test for a linear hypothesis whose power is
/// independent of the variance", Ann. Math. Stat. 16.
pub fn pairs_wanted(effect: &Effect, detect: f64) -> u32 {
    let (found, wanted) = (effect.detectable.ln_1p(), detect.ln_1p());
    if effect.pairs == 0 || found <= wanted || paired::p_by_t(effect) < SURE_P {
        return effect.pairs;
    }
    (f64::from(effect.pairs) * (found / wanted).powi(2)).ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, student};
    use proptest::prelude::*;

    fn effect(differences: &[f64]) -> Effect {
        let found = student::mean(differences).unwrap();
        Effect {
            effect: found.center.exp_m1(),
            low: found.low.exp_m1(),
            high: found.high.exp_m1(),
            detectable: found.detectable.exp_m1(),
            pairs: differences.len() as u32,
            ..Effect::default()
        }
    }

    /// Pairs of this effect and spread, made as a proof makes them: 12, then in fours until they are enough.
    fn proof(seed: u64, tau: f64, spread: f64, detect: f64) -> Effect {
        let mut random = Random::new(seed);
        let mut differences = Vec::new();
        let mut wanted = 12;
        loop {
            while (differences.len() as u32) < wanted {
                differences.extend((0..4).map(|_| random.normal(tau, spread)));
            }
            let found = effect(&differences);
            wanted = pairs_wanted(&found, detect);
            if wanted <= found.pairs {
                return found;
            }
        }
    }

    #[test]
    fn as_many_pairs_as_the_spread_asks_for_and_the_interval_keeps_its_promise() {
        for (tau, spread) in [(0.0, 0.05), (0.0, 0.12), (-0.05, 0.12), (0.1, 0.2)] {
            let all: Vec<Effect> = (0..1000).map(|seed| proof(seed, tau, spread, 0.05)).collect();
            let covered = all.iter().filter(|e| e.low.ln_1p() <= tau && tau <= e.high.ln_1p()).count();
            // Binomial, 1000 times 0.95: 950 +- 3.3 * 6.9. To stop by the spread costs a little of it.
            assert!((920..=973).contains(&covered), "{tau} {spread}: {covered} of 1000");
        }
    }

    #[test]
    fn a_change_of_that_size_is_found_in_eight_of_ten() {
        let found = (0..1000).filter(|seed| proof(*seed, -(0.05f64.ln_1p()), 0.15, 0.05).high < 0.0).count();
        assert!((780..=900).contains(&found), "{found} of 1000");
    }

    #[test]
    fn what_is_beyond_doubt_needs_no_more() {
        let of = |middle: f64| effect(&[middle, middle + 0.3, middle - 0.3, middle + 0.1, middle - 0.1, middle]);
        assert!(pairs_wanted(&of(0.1), 0.05) > 100);
        assert_eq!(pairs_wanted(&of(1.5), 0.05), 6);
        assert_eq!(pairs_wanted(&Effect::default(), 0.05), 0);
        assert_eq!(pairs_wanted(&of(0.1), f64::INFINITY), 6, "nothing is asked");
    }

    proptest! {
        #[test]
        fn less_spread_and_less_asked_need_fewer(seed: u64, spread in 0.01f64..0.3, detect in 0.01f64..0.3) {
            let mut random = Random::new(seed);
            let units: Vec<f64> = (0..10).map(|_| random.normal(0.0, 1.0)).collect();
            let of = |spread: f64, detect| pairs_wanted(&effect(&units.iter().map(|u| u * spread).collect::<Vec<_>>()), detect);
            prop_assert!(of(spread, detect) >= of(spread / 2.0, detect));
            prop_assert!(of(spread, detect) >= of(spread, detect * 2.0));
        }
    }
}
