//! Fewer points for display: each bucket of time keeps the least and the greatest value, in the order in which they came.
//!
//! It never averages, because a mean hides the moment that matters. Invariant: the least and the greatest value of a line
//! are those of its points.

use super::{LineView, seconds, short};
use std::collections::{BTreeMap, BTreeSet};

/// A line before it is thinned: its name, and points in order of time.
pub(super) type Points = (String, Vec<(u64, f64)>);

/// Buckets of a chart, of two moments each. A guess: a chart is some 900 pixels wide, and 10 hosts have to fit into 8 MB.
const BUCKETS_MAX: u64 = 400;

/// Moments and lines for drawing side by side.
pub(super) fn lines(lines: Vec<Points>) -> (Vec<f64>, Vec<LineView>) {
    let times: BTreeSet<u64> = lines.iter().flat_map(|(_, points)| points.iter().map(|(t, _)| *t)).collect();
    let Some(buckets) = Buckets::over(&times) else {
        let columns = lines.into_iter().map(|(name, points)| {
            let known: BTreeMap<u64, f64> = points.into_iter().collect();
            LineView { name, values: times.iter().map(|t| short(*known.get(t)?)).collect() }
        });
        return (times.iter().map(|t| seconds(*t)).collect(), columns.collect());
    };
    let columns = lines.into_iter().map(|(name, points)| LineView { name, values: buckets.extremes(&points) });
    (buckets.moments(), columns.collect())
}

/// The same for shares that stand on each other: a bucket keeps the moments at which their sum is least and greatest, so
/// that what is drawn on top of each other was there together.
pub(super) fn stack<const N: usize>(names: [&str; N], rows: &[(u64, [f64; N])]) -> (Vec<f64>, Vec<LineView>) {
    let times: BTreeSet<u64> = rows.iter().map(|(t, _)| *t).collect();
    let kept: Vec<(f64, &[f64; N])> = match Buckets::over(&times) {
        None => rows.iter().map(|(t, shares)| (seconds(*t), shares)).collect(),
        Some(buckets) => {
            let sums: Vec<(u64, f64)> = rows.iter().map(|(t, shares)| (*t, shares.iter().sum())).collect();
            buckets.picked(&sums).into_iter().map(|i| (seconds(rows[i].0), &rows[i].1)).collect()
        }
    };
    let line = |(i, name): (usize, &&str)| LineView {
        name: (*name).to_string(),
        // Three digits behind the point are a tenth of a percent.
        values: kept.iter().map(|(_, shares)| Some((shares[i] * 1e3).round() / 1e3)).collect(),
    };
    (kept.iter().map(|(at_s, _)| *at_s).collect(), names.iter().enumerate().map(line).collect())
}

/// Equal stretches of time.
struct Buckets {
    from_ns: u64,
    width_ns: u64,
    count: u64,
}

impl Buckets {
    /// None when every moment can be shown.
    fn over(times: &BTreeSet<u64>) -> Option<Self> {
        let (from_ns, to_ns) = (*times.first()?, *times.last()?);
        let width_ns = (to_ns - from_ns) / BUCKETS_MAX + 1;
        (times.len() as u64 > 2 * BUCKETS_MAX).then_some(Self { from_ns, width_ns, count: BUCKETS_MAX })
    }

    fn moments(&self) -> Vec<f64> {
        let quarter = |i: u64| self.from_ns + self.width_ns * (2 * i + 1) / 4;
        (0..2 * self.count).map(|i| seconds(quarter(i))).collect()
    }

    fn extremes(&self, points: &[(u64, f64)]) -> Vec<Option<f64>> {
        let mut values = vec![None; 2 * self.count as usize];
        for i in self.picked(points) {
            let (at_ns, value) = points[i];
            let first = 2 * ((at_ns - self.from_ns) / self.width_ns) as usize;
            let slot = if values[first].is_none() { first } else { first + 1 };
            values[slot] = short(value);
        }
        values
    }

    /// Which points stay: of each bucket the least and the greatest, in order of time.
    fn picked(&self, points: &[(u64, f64)]) -> Vec<usize> {
        let mut picked = Vec::new();
        let mut from = 0;
        while let Some((first_ns, _)) = points.get(from) {
            let bucket = (first_ns - self.from_ns) / self.width_ns;
            let of_bucket = |(t, _): &&(u64, f64)| (t - self.from_ns) / self.width_ns == bucket;
            let to = from + points[from..].iter().take_while(of_bucket).count();
            let by_value = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
            let (least, greatest) = ((from..to).min_by(by_value), (from..to).max_by(by_value));
            let both = BTreeSet::from_iter(least.into_iter().chain(greatest));
            picked.extend(both);
            from = to;
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(line: &LineView) -> Vec<f64> {
        line.values.iter().flatten().copied().collect()
    }

    fn least_and_greatest(values: &[f64]) -> (f64, f64) {
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = |values: [(u64, f64); 2]| values.map(|(s, v)| (s * 1_000_000_000, v)).to_vec();
        let (at_s, lines) =
            lines(vec![("a".into(), points([(1, 3.0), (2, 4.0)])), ("b".into(), points([(2, 0.5), (4, 12_345.6)]))]);
        assert_eq!(at_s, [1.0, 2.0, 4.0]);
        assert_eq!(lines[0].values, [Some(3.0), Some(4.0), None]);
        assert_eq!(lines[1].values, [None, Some(0.5), Some(12_350.0)], "four digits");
    }

    #[test]
    fn stacked_shares_are_of_one_moment() {
        let rows: Vec<(u64, [f64; 2])> =
            (0..5_000).map(|i| (i * 1_000_000, if i == 777 { [0.9, 0.1] } else { [0.2, 0.3] })).collect();
        let (at_s, lines) = stack(["us", "sy"], &rows);
        assert!(at_s.len() <= 2 * BUCKETS_MAX as usize && lines[0].values.len() == at_s.len());
        let at = at_s.iter().position(|t| *t == 0.777).unwrap();
        assert_eq!((lines[0].values[at], lines[1].values[at]), (Some(0.9), Some(0.1)));
    }

    proptest! {
        #[test]
        fn thinning_keeps_the_least_and_the_greatest(
            steps in prop::collection::vec((1u64..5_000_000_000, -1e6..1e6), 1..3_000),
        ) {
            let mut at_ns = 0;
            // Whole numbers of four digits at most, so that rounding for display changes none.
            let points: Vec<(u64, f64)> = steps.into_iter().map(|(step, value): (u64, f64)| {
                at_ns += step;
                (at_ns, (value / 1e3).round())
            }).collect();
            let values: Vec<f64> = points.iter().map(|(_, v)| *v).collect();
            let (at_s, thinned) = lines(vec![("a".into(), points)]);
            prop_assert!(at_s.len() <= 2 * BUCKETS_MAX as usize && at_s.is_sorted());
            prop_assert_eq!(thinned[0].values.len(), at_s.len());
            prop_assert_eq!(least_and_greatest(&known(&thinned[0])), least_and_greatest(&values));
        }
    }
}
