//! Does a stack come back after an overload? A stack that does not is metastable.
//!
//! Bronson, Aghayev, Charapko, Zhu 2021, "Metastable failures in distributed systems", HotOS: a trigger pushes the system into a
//! state that lasts when the trigger is gone. Here the trigger is the overload, and the state is a lower limit.

use crate::student;

/// What came after an overload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Return {
    /// Lowest that one more trial would have shown before: 97.5 % of trials show more.
    pub before_low: f64,
    /// Whether every trial afterwards was below that, and there were at least two.
    pub metastable: bool,
    /// Whether another trial would tell more: the only one so far was below.
    pub again: bool,
}

/// Judges the trials after an overload by those before it, all at the same load, in good requests per second. None below 3 trials
/// before, or when one of them carried nothing.
///
/// The border is the lower end of the 95 % prediction interval of one more trial, on logarithms. One trial below it may be a
/// disturbance, two in a row are one chance in 1600.
pub fn returned(before: &[f64], after: &[f64]) -> Option<Return> {
    let usable = |rate: &f64| rate.is_finite() && *rate > 0.0;
    if before.len() < 3 || !before.iter().all(usable) {
        return None;
    }
    let logs: Vec<f64> = before.iter().map(|rate| rate.ln()).collect();
    let before_low = student::one_more(&logs)?.low.exp();
    let below = after.iter().filter(|rate| **rate < before_low).count();
    let all = !after.is_empty() && below == after.len();
    Some(Return { before_low, metastable: all && below >= 2, again: all && below < 2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::prelude::*;

    fn trials(n: usize, mean: f64, random: &mut Random) -> Vec<f64> {
        (0..n).map(|_| mean * random.normal(0.0, 0.01).exp()).collect()
    }

    #[test]
    fn a_stack_that_comes_back_is_not_called_metastable() {
        let metastable = (0..1000).filter(|seed| {
            let mut random = Random::new(*seed);
            let before = trials(6, 1000.0, &mut random);
            returned(&before, &trials(2, 1000.0, &mut random)).unwrap().metastable
        });
        // Both are held against the same trials before, so they are a little more often low together.
        assert!(metastable.count() <= 10);
    }

    #[test]
    fn a_lower_limit_is_found() {
        let found = (0..100).filter(|seed| {
            let mut random = Random::new(*seed);
            let before = trials(6, 1000.0, &mut random);
            returned(&before, &trials(2, 930.0, &mut random)).unwrap().metastable
        });
        assert!(found.count() >= 95);
    }

    #[test]
    fn one_low_trial_asks_for_another() {
        let before = [1000.0, 1010.0, 990.0, 1000.0];
        let of = |after: &[f64]| returned(&before, after).map(|r| (r.metastable, r.again));
        assert_eq!(of(&[900.0]), Some((false, true)));
        assert_eq!(of(&[900.0, 1000.0]), Some((false, false)), "it took a while, but it came back");
        assert_eq!(of(&[1000.0]), Some((false, false)));
        assert_eq!(of(&[0.0, 0.0]), Some((true, false)), "it is dead");
        assert_eq!(of(&[]), Some((false, false)));
        assert_eq!(returned(&before[..2], &[900.0]), None);
        assert_eq!(returned(&[1000.0, 0.0, 1000.0], &[900.0]), None);
    }

    proptest! {
        #[test]
        fn the_unit_does_not_matter(k in 1e-3f64..1e6, low in 500.0f64..1100.0) {
            let scaled = |values: &[f64]| -> Vec<f64> { values.iter().map(|v| v * k).collect() };
            let (before, after) = ([1000.0, 1020.0, 985.0, 1003.0, 996.0], [low, low]);
            let (one, other) = (returned(&before, &after).unwrap(), returned(&scaled(&before), &scaled(&after)).unwrap());
            prop_assert!((other.before_low / one.before_low / k - 1.0).abs() < 1e-9);
        }
    }
}
