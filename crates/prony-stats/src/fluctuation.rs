//! Does throughput fluctuate violently inside trials? For the highest concurrency that is still stable.
//!
//! Not the same as unsteady: a stack that drifts by 6 % is unsteady and not violent. Works on counts of answers in equal
//! stretches of time. Seconds are not independent, so nothing here is an interval: it describes one load.

use crate::steady;

/// Coefficient of variation from which throughput fluctuates violently, counting noise left out. A guess: healthy labs show
/// 1 to 3 % from second to second, and the case that asks for this (10 GbE file server, interrupts throttled too little)
/// swung by more than a third.
const VIOLENT_CV: f64 = 0.10;
/// A lasting change inside a trial from which it is violent, relative to the larger side. A guess: twice the coefficient.
const VIOLENT_CHANGE: f64 = 0.20;

/// How much throughput fluctuated within the trials of one load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fluctuation {
    /// Coefficient of variation from stretch to stretch within a trial, without what counting alone would bring; none
    /// below 3 stretches or without answers.
    pub cv: Option<f64>,
    /// The strongest lasting change inside a trial, relative; none when none was found or there were too few stretches.
    pub change: Option<f64>,
    /// Whether it is violent: a coefficient above 10 %, or a change of 20 % or more. No answers at all are violent, too few
    /// stretches are not.
    pub violent: bool,
}

/// Judges trials of one load, each given as answers per equal stretch of its counted time.
///
/// The coefficient is pooled: squared deviations from each trial's own mean, relative to it, over the degrees of freedom of all
/// (Snedecor, Cochran 1989, "Statistical methods", 6.8). Counts of independent arrivals vary by their square root by themselves
/// (Poisson), so 1 / mean is taken from its square. A lasting change is found
/// by Pettitt's test ([`steady::change_point`]) over the whole trial: its start-up was left out before, by the settling time.
pub fn judge(trials: &[Vec<u64>]) -> Fluctuation {
    let (mut squares, mut counting, mut degrees, mut stretches) = (0.0, 0.0, 0usize, 0usize);
    let (mut change, mut silent) = (None::<f64>, false);
    for counts in trials.iter().filter(|counts| !counts.is_empty()) {
        let values: Vec<f64> = counts.iter().map(|n| *n as f64).collect();
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        stretches += n;
        if mean <= 0.0 {
            silent = true;
            continue;
        }
        squares += values.iter().map(|v| (v / mean - 1.0).powi(2)).sum::<f64>();
        degrees += n - 1;
        counting += (n - 1) as f64 / mean;
        let seen = steady::change_point(&values);
        if seen.is_some_and(|new| change.is_none_or(|old| new.abs() > old.abs())) {
            change = seen;
        }
    }
    let enough = stretches >= 3 && degrees > 0;
    let cv = enough.then(|| ((squares - counting).max(0.0) / degrees as f64).sqrt());
    let violent = silent
        || cv.is_some_and(|cv| cv > VIOLENT_CV)
        || change.is_some_and(|change: f64| change.abs() >= VIOLENT_CHANGE);
    Fluctuation { cv, change, violent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::prelude::*;

    /// A trial of `n` stretches around `level`, each off by this share.
    fn trial(level: impl Fn(usize) -> f64, n: usize, cv: f64, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        (0..n).map(|i| (level(i) * random.normal(1.0, cv).max(0.0)).round() as u64).collect()
    }

    fn violent_in_100(level: impl Fn(usize) -> f64 + Copy, n: usize, cv: f64) -> usize {
        (0..100).filter(|seed| judge(&[trial(level, n, cv, *seed), trial(level, n, cv, seed + 1000)]).violent).count()
    }

    #[test]
    fn calm_is_not_violent_and_violent_is_not_calm() {
        assert_eq!(violent_in_100(|_| 10_000.0, 5, 0.03), 0);
        assert!(violent_in_100(|_| 10_000.0, 5, 0.30) >= 98);
        // The border lies where it says.
        assert!(violent_in_100(|_| 10_000.0, 30, 0.08) <= 5 && violent_in_100(|_| 10_000.0, 30, 0.13) >= 95);
    }

    #[test]
    fn a_stack_that_collapses_half_way_is_violent() {
        assert_eq!(violent_in_100(|i| if i < 10 { 10_000.0 } else { 7_000.0 }, 20, 0.01), 100);
        assert_eq!(violent_in_100(|i| if i < 10 { 10_000.0 } else { 9_300.0 }, 20, 0.01), 0, "unsteady, not violent");
        let found = judge(&[trial(|i| if i < 10 { 10_000.0 } else { 7_000.0 }, 20, 0.01, 1)]);
        assert!((found.change.unwrap() + 0.3).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_low_rate_is_not_called_violent_for_counting() {
        // 25 answers a second vary by a fifth when arrivals are independent.
        let mut random = Random::new(3);
        let mut poisson = || {
            let (mut count, mut time) = (0u64, random.exponential(1.0));
            while time < 25.0 {
                count += 1;
                time += random.exponential(1.0);
            }
            count
        };
        let trials: Vec<Vec<u64>> = (0..6).map(|_| (0..10).map(|_| poisson()).collect()).collect();
        assert!(!judge(&trials).violent, "{:?}", judge(&trials));
    }

    #[test]
    fn trials_at_different_levels_do_not_count_as_fluctuation() {
        let found = judge(&[vec![1000; 5], vec![2000; 5]]);
        assert_eq!(found, Fluctuation { cv: Some(0.0), change: None, violent: false });
    }

    #[test]
    fn silence_is_violent_and_too_little_is_nothing() {
        assert!(judge(&[vec![0, 0, 0]]).violent);
        assert_eq!(judge(&[]), Fluctuation::default());
        assert_eq!(judge(&[vec![7, 900]]), Fluctuation::default());
    }

    proptest! {
        #[test]
        fn the_order_of_trials_does_not_matter(a in proptest::collection::vec(1u64..10_000, 3..20),
                                               b in proptest::collection::vec(1u64..10_000, 3..20)) {
            let (one, other) = (judge(&[a.clone(), b.clone()]), judge(&[b, a]));
            prop_assert_eq!(one.violent, other.violent);
            prop_assert!((one.cv.unwrap() - other.cv.unwrap()).abs() < 1e-9);
        }

        #[test]
        fn more_of_the_same_swing_is_not_calmer(swing in 0.0f64..0.9) {
            let wave = |k: f64| -> Vec<u64> {
                (0..10).map(|i| (1e6 * (1.0 + if i % 2 == 0 { k } else { -k })) as u64).collect()
            };
            let (less, more) = (judge(&[wave(swing)]), judge(&[wave(swing + 0.05)]));
            prop_assert!(less.cv.unwrap() <= more.cv.unwrap() + 1e-9);
            prop_assert!(more.violent || !less.violent);
        }
    }
}
