//! Is a trial in steady state? Where its start-up ends, and whether what is left drifts or jumps.
//!
//! Works on a series of equal intervals, like completed responses per second. It cuts nothing itself.

use crate::{Random, student};

/// Values per batch: MSER-5. White, Cobb, Spratt 2000, "A comparison of five steady-state truncation heuristics".
const BATCH: usize = 5;
/// With fewer batches than this the series is used as it is (MSER of White 1997): a trial of ten seconds has only ten values.
const BATCHES_MIN: usize = 10;
/// Fewer values cannot tell start-up from noise. A guess.
const VALUES_MIN: usize = 10;
/// Changes below this share of the mean do not matter. From the defaults of change detection at MongoDB: Daly et al. 2020,
/// "The use of change point detection to identify software performance regressions", and hunter's `min_magnitude` 5 %.
const CHANGE_MIN: f64 = 0.05;
/// Level of the change-point test. A guess: one false alarm in a hundred trials.
const CHANGE_P_MAX: f64 = 0.01;
/// Random orders tried for it: the standard error of p = 0.01 is then 0.002.
const ORDERS: u32 = 2000;
/// Standard errors between both sides of a change from which it needs no ranks. A guess: with ten values chance brings it once in 300.
const FAR: f64 = 6.0;
/// Fewer values never show a change.
const FAR_VALUES_MIN: usize = 6;
/// Neighbours of a value that may resemble it. A guess: three tenths of a second, what a stranger or the hypervisor takes at once.
const RESEMBLING: usize = 3;

/// What a series looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Values at the start that belong to start-up.
    pub cut: usize,
    /// Whether start-up ended before the middle and what follows neither drifts nor jumps by more than 5 %.
    pub steady: bool,
    /// The strongest change in the kept part, relative to its mean; none when no significant change was found.
    /// Fewer than 6 kept values can never show one.
    pub change: Option<f64>,
}

/// Start-up by MSER-5: of all cuts d up to the middle, the one that minimises sum_{i>d} (y_i - mean_{>d})^2 / (n - d)^2,
/// the squared standard error of what is kept. White 1997, "An effective truncation heuristic for bias reduction in
/// simulation output", Simulation 69; batches of 5 as in White, Cobb, Spratt 2000. A cut at the middle says that start-up
/// has not ended, if the second quarter differs from the rest by 5 % or more and by more than noise explains at the 1 % level
/// (noise alone is cut there now and then).
///
/// Then Pettitt's test for one change in the kept part. None for fewer than 10 values.
pub fn mser5(values: &[f64]) -> Option<Steady> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let size = if values.len() < BATCH * BATCHES_MIN { 1 } else { BATCH };
    let batches: Vec<f64> = values.chunks_exact(size).map(mean).collect();
    let middle = batches.len() / 2;
    let best = (0..=middle).map(|d| (squared_error(&batches[d..]), d)).min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, batches_cut) = best.expect("0 is always tried");
    let cut = batches_cut * size;
    let (start, kept) = values.split_at(cut);
    let second_quarter = &start[start.len() / 2..];
    let unfinished = batches_cut == middle
        && relative_change(second_quarter, kept).abs() >= CHANGE_MIN
        && differs(second_quarter, kept);
    let change = change_point(kept);
    let jumps = change.is_some_and(|change| change.abs() >= CHANGE_MIN);
    Some(Steady { cut, steady: !unfinished && !jumps, change })
}

/// The relative change at the most likely change point, if there is one at the 1 % level. It finds drift as well as jumps.
///
/// Pettitt 1979, "A non-parametric approach to the change-point problem", Applied Statistics 28: with ranks R_i,
/// U_t = 2 (R_1 + ... + R_t) - t (n + 1), K = max |U_t|. Its p comes from random orders of the same values, because
/// Pettitt's formula has no power below 16 values; (hits + 1) / (tried + 1) as in Phipson, Smyth 2010. The seed is fixed.
/// Fewer than 6 values can never show one.
///
/// Values that resemble their neighbours make K larger where nothing changed (Serinaldi, Kilsby 2016, "The importance of
/// prewhitening in change point analysis under persistence", Stoch. Environ. Res. Risk Assess. 30), by the square root of
/// how much larger the variance of their sum is. So K is divided by that before it is held against the random orders. Ranks
/// of few values have an end, however far both sides are apart: what is far beyond the noise is a change as well.
pub fn change_point(values: &[f64]) -> Option<f64> {
    let mut ranks = centred_ranks(values);
    let (strongest, at) = pettitt(&ranks);
    let seen = strongest / resemblance(&around(&ranks, at)).sqrt();
    let mut random = Random::new(values.len() as u64);
    let mut reaches = || {
        random.shuffle(&mut ranks);
        pettitt(&ranks).0 >= seen
    };
    let hits = (0..ORDERS).filter(|_| reaches()).count();
    let p = (hits + 1) as f64 / f64::from(ORDERS + 1);
    (p < CHANGE_P_MAX || is_far_off(values, at)).then(|| relative_change(&values[..at], &values[at..]))
}

/// Whether the means on both sides of a change, of two values or more each, are `FAR` standard errors apart.
fn is_far_off(values: &[f64], at: usize) -> bool {
    let n = values.len();
    if n < FAR_VALUES_MIN || at < 2 || at + 2 > n {
        return false;
    }
    let left = around(values, at);
    let noise = squares(&left[0]).min(squares(&left[1]));
    let variance = noise / (n - 2) as f64 * resemblance(&left);
    standard_errors(&values[..at], &values[at..], variance) > FAR
}

/// How many standard errors two means are apart, of values with that variance.
fn standard_errors(before: &[f64], after: &[f64], variance: f64) -> f64 {
    let error = (variance * ((before.len() as f64).recip() + (after.len() as f64).recip())).sqrt();
    (mean(before) - mean(after)).abs() / error
}

/// K and the number of values before the change.
fn pettitt(centred_ranks: &[f64]) -> (f64, usize) {
    let mut sum = 0.0;
    let mut strongest = (0.0, 0);
    for (t, rank) in centred_ranks.iter().enumerate() {
        sum += rank;
        if f64::abs(sum) > strongest.0 {
            strongest = (sum.abs(), t + 1);
        }
    }
    strongest
}

/// 2 R_i - (n + 1) for every value: how many are smaller less how many are larger. Ties get the mean rank.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: &f64| {
        let smaller = sorted.partition_point(|other| other < value);
        let larger = sorted.len() - sorted.partition_point(|other| other <= value);
        smaller as f64 - larger as f64
    };
    values.iter().map(rank).collect()
}

/// Whether the mean of a stretch differs from that of the one after it by more than noise like that of the latter, around a slope
/// that it may have, explains: at the 1 % level of Student's t on both sides.
fn differs(before: &[f64], after: &[f64]) -> bool {
    let (left, degrees) = (around_slope(after), after.len() as f64 - 2.0);
    let variance = squares(&left) / degrees * inflation(&left, 2.0);
    standard_errors(before, after, variance) > student::quantile(1.0 - CHANGE_P_MAX / 2.0, degrees)
}

/// How much larger the variance of a sum of such values is than if none resembled its neighbours, whether they have a step or
/// a slope: what is left around the one or the other resembles its neighbours less.
fn resemblance(left: &[Vec<f64>; 2]) -> f64 {
    inflation(&left[0], 2.0).min(inflation(&left[1], 2.0))
}

/// What is left of the values around a step at `at`, and around a slope.
fn around(values: &[f64], at: usize) -> [Vec<f64>; 2] {
    [around_step(values, at), around_slope(values)]
}

/// 1 + 2 sum_k w_k r_k, with the weights w_k = 1 - k / (m + 1) of Bartlett for m neighbours (Newey, West 1987, Econometrica
/// 55), at least 1. Each of the parameters that were taken off takes a share (1 + 2 sum w_k) / n of it away (Marriott, Pope
/// 1954, Biometrika 41), which is given back.
fn inflation(left: &[f64], parameters: f64) -> f64 {
    let all = squares(left);
    if all <= 0.0 {
        return 1.0;
    }
    let (mut seen, mut weights) = (1.0, 1.0);
    for apart in 1..=RESEMBLING.min(left.len() - 1) {
        let weight = 2.0 * (1.0 - apart as f64 / (RESEMBLING + 1) as f64);
        seen += weight * left.iter().zip(&left[apart..]).map(|(a, b)| a * b).sum::<f64>() / all;
        weights += weight;
    }
    let kept = 1.0 - parameters * weights / left.len() as f64;
    (seen / kept.max(0.5)).max(1.0)
}

/// What is left of the values around the mean of each side.
fn around_step(values: &[f64], at: usize) -> Vec<f64> {
    let around_mean = |side: &[f64]| {
        let level = mean(side);
        side.iter().map(|v| v - level).collect::<Vec<_>>()
    };
    [around_mean(&values[..at]), around_mean(&values[at..])].concat()
}

/// What is left of the values around a straight line.
fn around_slope(values: &[f64]) -> Vec<f64> {
    let (middle, level) = ((values.len() as f64 - 1.0) / 2.0, mean(values));
    let along = || values.iter().enumerate().map(|(i, v)| (i as f64 - middle, v - level));
    let slope =
        along().map(|(x, y)| x * y).sum::<f64>() / along().map(|(x, _)| x * x).sum::<f64>().max(f64::MIN_POSITIVE);
    along().map(|(x, y)| y - slope * x).collect()
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum()
}

/// How much higher `after` is than `before`, relative to the larger; 0 when one of them is empty.
fn relative_change(before: &[f64], after: &[f64]) -> f64 {
    let (before_mean, after_mean) = (mean(before), mean(after));
    if before.is_empty() || after.is_empty() || before_mean == after_mean {
        return 0.0;
    }
    (after_mean - before_mean) / after_mean.abs().max(before_mean.abs())
}

fn squared_error(kept: &[f64]) -> f64 {
    let center = mean(kept);
    kept.iter().map(|v| (v - center).powi(2)).sum::<f64>() / (kept.len() as f64).powi(2)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noisy(level: impl Fn(usize) -> f64, n: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..n).map(|i| level(i) * random.normal(1.0, 0.02)).collect()
    }

    fn steady_in_100(level: impl Fn(usize) -> f64 + Copy, n: usize) -> usize {
        (0..100).filter(|seed| mser5(&noisy(level, n, *seed)).unwrap().steady).count()
    }

    #[test]
    fn a_constant_load_is_steady() {
        for n in [10, 30, 60, 300] {
            let steady = steady_in_100(|_| 1000.0, n);
            assert!(steady >= 97, "{n} values: {steady}");
        }
        assert_eq!(mser5(&[5.0; 20]), Some(Steady { cut: 0, steady: true, change: None }));
    }

    /// Noise in which each value resembles the one before: an autoregressive process of first order.
    fn resembling(level: impl Fn(usize) -> f64, n: usize, spread: f64, correlation: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let fresh = (1.0 - correlation * correlation).sqrt();
        let mut off = random.normal(0.0, spread);
        let mut next = |i| {
            let value = level(i) * (1.0 + off);
            off = correlation * off + random.normal(0.0, fresh * spread);
            value
        };
        (0..n).map(&mut next).collect()
    }

    #[test]
    fn noise_that_resembles_itself_is_no_change() {
        for correlation in [0.0, 0.3, 0.5] {
            let calm = |seed: &u64| mser5(&resembling(|_| 1000.0, 50, 0.1, correlation, *seed)).unwrap().steady;
            let steady = (0..500).filter(calm).count();
            assert!(steady >= 465, "correlation {correlation}: {steady} of 500");
        }
        // What is larger than such noise is found in it.
        let falls = |i: usize| if i < 25 { 1000.0 } else { 600.0 };
        let steady = (0..200).filter(|seed| mser5(&resembling(falls, 50, 0.1, 0.5, *seed)).unwrap().steady).count();
        assert!(steady <= 10, "{steady} of 200");
    }

    #[test]
    fn start_up_is_cut() {
        let warming = |i: usize| if i < 10 { 500.0 + 50.0 * i as f64 } else { 1000.0 };
        for seed in 0..100 {
            let found = mser5(&noisy(warming, 60, seed)).unwrap();
            assert!(found.steady && (5..=30).contains(&found.cut), "{found:?}");
        }
    }

    #[test]
    fn drift_and_jumps_are_not_steady() {
        assert!(steady_in_100(|i| 1000.0 * (1.0 - 0.004 * i as f64), 60) == 0);
        assert!(steady_in_100(|i| if i < 45 { 1000.0 } else { 800.0 }, 60) <= 1);
        // Ten values are few: noise hides one fall by 30 % in six.
        let steady = [10, 20, 30].map(|n| steady_in_100(|i| 1000.0 * (1.0 - 0.3 * i as f64 / n as f64), n));
        assert!(steady[0] <= 25 && steady[1] <= 8 && steady[2] <= 4, "{steady:?}");
    }

    #[test]
    fn a_small_change_does_not_matter() {
        assert!(steady_in_100(|i| if i < 30 { 1000.0 } else { 980.0 }, 60) >= 95);
    }

    proptest! {
        #[test]
        fn never_cuts_beyond_the_middle(values in proptest::collection::vec(0.0f64..1e6, 0..200)) {
            let found = mser5(&values);
            prop_assert_eq!(found.is_some(), values.len() >= 10);
            prop_assert!(found.is_none_or(|found| found.cut <= values.len() / 2));
        }
    }
}
