//! Load curves: where more load stops bringing more throughput, and how sure that is.
//!
//! None is an answer: a curve that is straight, or still rising at its end, has no knee.

use crate::Random;

/// How far the curve must fall behind a straight line after the knee, in mean steps of load. Satopaa et al. name 1 for
/// offline data.
const SENSITIVITY: f64 = 1.0;
/// A knee is looked for from this many loads on. A guess.
const POINTS_MIN: usize = 4;
/// Curves drawn for the interval. Efron, Tibshirani 1993, "An introduction to the bootstrap", 14.3: 1000 for 95 %.
const CURVES: usize = 1000;
/// Share of the drawn curves that must have a knee before one is named. A guess, as strict as the interval itself.
const KNEE_SHARE_MIN: f64 = 0.95;

/// The knee of a load curve: a measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Load, in the unit of the points.
    pub load: f64,
    /// Throughput there.
    pub rate: f64,
}

/// The knee of a concave curve of (load, throughput); the order of points does not matter.
///
/// Kneedle: Satopaa, Albrecht, Irwin, Raghavan 2011, "Finding a 'kneedle' in a haystack", without smoothing: scale both
/// axes to 0..1, D = y - x; a local maximum of D is a knee when D later falls below it by S mean steps of x before it
/// rises above it again. The strongest one is returned.
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    let mut sorted: Vec<(f64, f64)> = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted.dedup_by(|a, b| a.0 == b.0);
    if sorted.len() < POINTS_MIN {
        return None;
    }
    let (least_x, most_x) = (sorted[0].0, sorted[sorted.len() - 1].0);
    let least_y = sorted.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let most_y = sorted.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
    if most_y <= least_y {
        return None;
    }
    let ahead = |(x, y): &(f64, f64)| (y - least_y) / (most_y - least_y) - (x - least_x) / (most_x - least_x);
    let ahead: Vec<f64> = sorted.iter().map(ahead).collect();
    let drop = SENSITIVITY / (sorted.len() - 1) as f64;
    let strongest = (1..ahead.len() - 1)
        .filter(|i| ahead[*i] >= ahead[i - 1] && ahead[*i] >= ahead[i + 1])
        .filter(|i| falls_before_rising(&ahead[*i..], drop))
        .max_by(|a, b| ahead[*a].total_cmp(&ahead[*b]))?;
    Some(Knee { load: sorted[strongest].0, rate: sorted[strongest].1 })
}

/// A knee with what it is worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneeFound {
    /// The knee of the mean curve.
    pub knee: Knee,
    /// Lower end of the 95 % interval of its load; none when no load was tried twice: then the noise is not known.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// The knee of trials (load, throughput), each load tried once or more, with a 95 % interval of its load. None when the mean
/// curve has no knee, or when fewer than 95 % of the curves have one that the noise of the trials makes as likely.
///
/// A bootstrap of residuals over trials (Efron, Tibshirani 1993, 9.4): each trial's log-ratio to the mean of its load, widened by
/// sqrt(n / (n - 1)) for the mean that was taken from it, goes into one pool, from which every trial is drawn anew. Trials
/// of one load alone are too few to draw from.
pub fn knee_of_trials(trials: &[(f64, f64)], seed: u64) -> Option<KneeFound> {
    let loads = by_load(trials);
    let mean_curve: Vec<(f64, f64)> = loads.iter().map(|(load, logs)| (*load, mean(logs).exp())).collect();
    let found = knee(&mean_curve)?;
    let pool: Vec<f64> =
        loads.iter().filter(|(_, logs)| logs.len() > 1).flat_map(|(_, logs)| residuals(logs)).collect();
    if pool.is_empty() {
        return Some(KneeFound { knee: found, low: None, high: None });
    }
    let mut random = Random::new(seed);
    let mut drawn: Vec<f64> = Vec::with_capacity(CURVES);
    for _ in 0..CURVES {
        let draw = |(load, logs): &(f64, Vec<f64>)| {
            let noise: f64 = logs.iter().map(|_| pool[random.below(pool.len() as u64) as usize]).sum();
            (*load, (mean(logs) + noise / logs.len() as f64).exp())
        };
        let curve: Vec<(f64, f64)> = loads.iter().map(draw).collect();
        drawn.extend(knee(&curve).map(|knee| knee.load));
    }
    if (drawn.len() as f64) < KNEE_SHARE_MIN * CURVES as f64 {
        return None;
    }
    drawn.sort_by(f64::total_cmp);
    let at = |q: f64| drawn.get((q * (drawn.len() - 1) as f64).round() as usize).copied();
    Some(KneeFound { knee: found, low: at(0.025), high: at(0.975) })
}

/// Logs of the throughputs of each load, loads in order. Trials without an answer have no log, and are left out.
fn by_load(trials: &[(f64, f64)]) -> Vec<(f64, Vec<f64>)> {
    let mut sorted: Vec<(f64, f64)> = trials.iter().copied().filter(|(x, y)| x.is_finite() && *y > 0.0).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut loads: Vec<(f64, Vec<f64>)> = Vec::new();
    for (load, rate) in sorted {
        match loads.last_mut() {
            Some((last, logs)) if *last == load => logs.push(rate.ln()),
            _ => loads.push((load, vec![rate.ln()])),
        }
    }
    loads
}

fn residuals(logs: &[f64]) -> Vec<f64> {
    let (center, n) = (mean(logs), logs.len() as f64);
    logs.iter().map(|log| (log - center) * (n / (n - 1.0)).sqrt()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Whether the values fall below the first by `drop` before one of them exceeds it.
fn falls_before_rising(values: &[f64], drop: f64) -> bool {
    let decided = values.iter().find(|v| **v > values[0] || **v < values[0] - drop);
    decided.is_some_and(|v| *v < values[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve(rate: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (1..=10).map(|step| f64::from(step) * 100.0).map(|load| (load, rate(load))).collect()
    }

    #[test]
    fn finds_where_a_curve_bends() {
        assert_eq!(knee(&curve(|load| load.min(600.0))), Some(Knee { load: 600.0, rate: 600.0 }));
        let collapsing = curve(|load| if load <= 500.0 { load } else { 500.0 - 0.3 * (load - 500.0) });
        assert_eq!(knee(&collapsing), Some(Knee { load: 500.0, rate: 500.0 }));
    }

    #[test]
    fn none_is_an_answer() {
        assert_eq!(knee(&curve(|load| load)), None);
        assert_eq!(knee(&curve(|load| load + 5.0 * (load / 37.0).sin())), None);
        assert_eq!(knee(&curve(|_| 7.0)), None);
        assert_eq!(knee(&curve(|load| load * load)), None, "convex");
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 2.0), (3.0, 2.0)]), None, "too few");
    }

    /// Three trials of each load with that much noise, relative.
    fn trials(rate: impl Fn(f64) -> f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        let three = |(load, rate): (f64, f64)| [(); 3].map(|()| (load, rate * random.normal(0.0, noise).exp()));
        curve(rate).into_iter().flat_map(three).collect()
    }

    #[test]
    fn a_knee_between_two_loads_has_both_in_its_interval() {
        // It bends at 650: which of 600 and 700 is nearer depends on the noise.
        let bend = |load: f64| load.min(650.0);
        let held = (0..100).filter(|seed| {
            let found = knee_of_trials(&trials(bend, 0.02, *seed), *seed);
            found.is_some_and(|f| f.low.is_some_and(|l| l <= 700.0) && f.high.is_some_and(|h| h >= 600.0))
        });
        assert!(held.count() >= 95);
        let calm = knee_of_trials(&trials(|load| load.min(600.0), 0.001, 1), 1).unwrap();
        assert_eq!((calm.low, calm.high), (Some(600.0), Some(600.0)));
    }

    #[test]
    fn noise_makes_no_knee_sure() {
        let named = (0..100).filter(|seed| knee_of_trials(&trials(|load| load, 0.05, *seed), *seed).is_some());
        assert!(named.count() <= 5, "a straight line has none");
    }

    #[test]
    fn one_trial_of_each_load_has_no_interval() {
        let found = knee_of_trials(&curve(|load| load.min(600.0)), 1).unwrap();
        assert_eq!((found.knee.load, found.low, found.high), (600.0, None, None));
    }

    proptest! {
        #[test]
        fn the_interval_is_among_the_loads_and_the_unit_of_throughput_does_not_matter(seed in 0u64..50, k in 1e-3f64..1e3) {
            let one = trials(|load| load.min(500.0), 0.03, seed);
            let other: Vec<(f64, f64)> = one.iter().map(|(load, rate)| (*load, rate * k)).collect();
            let (one, other) = (knee_of_trials(&one, 1).unwrap(), knee_of_trials(&other, 1).unwrap());
            prop_assert_eq!((one.knee.load, one.low, one.high), (other.knee.load, other.low, other.high));
            prop_assert!(one.low.unwrap() >= 100.0 && one.high.unwrap() <= 1000.0 && one.low <= one.high);
        }

        #[test]
        fn is_one_of_the_points(points in proptest::collection::vec((0.0f64..1e4, 0.0f64..1e4), 0..30)) {
            prop_assert!(knee(&points).is_none_or(|knee| points.contains(&(knee.load, knee.rate))));
        }
    }
}
