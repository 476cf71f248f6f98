//! Load curves: where more load stops bringing more throughput.
//!
//! None is an answer: a curve that is straight, or still rising at its end, has no knee.

/// How far the curve must fall behind a straight line after the knee, in mean steps of load. Satopaa et al. name 1 for
/// offline data.
const SENSITIVITY: f64 = 1.0;
/// A knee is looked for from this many loads on. A guess.
const POINTS_MIN: usize = 4;

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

    proptest! {
        #[test]
        fn is_one_of_the_points(points in proptest::collection::vec((0.0f64..1e4, 0.0f64..1e4), 0..30)) {
            prop_assert!(knee(&points).is_none_or(|knee| points.contains(&(knee.load, knee.rate))));
        }
    }
}
