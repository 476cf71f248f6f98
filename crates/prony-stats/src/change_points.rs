//! Where a series of runs changes: E-divisive splits it, a t-test says which splits stay.
//!
//! Matteson, James 2014, "A nonparametric approach for multiple change point analysis of multivariate data", JASA 109, with the
//! two changes of Fleming and others 2023, "Hunter: using change point detection to
//! hunt for performance regressions", ICPE 23: a t-test instead of random permutations, so that the same series always gives
//! the same answer without any seed; and windows, so that a change does not get lost in a long history.
//! Runs are taken as independent of each other. Invariant: adding a constant to every value, or multiplying values and
//! `change_min` by the same factor, changes no place.

use crate::student;

/// How a series is searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Values that are looked at together; windows overlap by half.
    pub window: usize,
    /// A change stays when the t-test gives less than this.
    pub p_max: f64,
    /// A change stays when the means differ by at least this, on the scale of the values.
    pub change_min: f64,
}

/// As published (Fleming et al. 2023, 4): 50 runs.
pub const WINDOW: usize = 50;
/// As published: 0.001.
pub const P_MAX: f64 = 0.001;
/// As published: changes below 5 % are not reported.
pub const CHANGE_MIN: f64 = 0.05;
/// While splitting, a split with up to this many times `p_max` is kept for the moment: it may get clearer when its neighbours
/// are known. As in the published program.
const WEAK: f64 = 10.0;
/// Fewer values than this on a side of a split have no spread of their own.
const SIDE_MIN: usize = 2;

/// A place from which on the mean is another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Mean of the stretch before, back to the previous change.
    pub from: f64,
    /// Mean of the stretch after, up to the next change.
    pub to: f64,
    /// p of the t-test between the two stretches. It was chosen among many places, so it is smaller than it looks.
    pub p: f64,
}

/// The change points of a series in order of time. Values that are not finite make it empty.
pub fn change_points(values: &[f64], search: &Search) -> Vec<ChangePoint> {
    if values.iter().any(|v| !v.is_finite()) {
        return Vec::new();
    }
    let mut places = weak_places(values, search);
    loop {
        let found = describe(values, &places);
        let Some(weakest) = weakest(&found, search) else { return found };
        places.remove(weakest);
    }
}

/// Splits of every window, in order.
fn weak_places(values: &[f64], search: &Search) -> Vec<usize> {
    let window = search.window.max(2 * SIDE_MIN);
    let (mut places, mut start) = (Vec::new(), 0);
    while start + 2 * SIDE_MIN <= values.len() {
        let end = (start + window).min(values.len());
        let mut found = Vec::new();
        divide(values, start, end, WEAK * search.p_max, &mut found);
        found.sort_unstable();
        let last = found.last().copied().unwrap_or(0);
        places.extend(found);
        start = last.max(start + window / 2);
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Splits [start, end) at its best place, and both halves again, as long as the t-test sees a difference.
fn divide(values: &[f64], start: usize, end: usize, p_max: f64, found: &mut Vec<usize>) {
    let Some(at) = best_split(&values[start..end]).map(|at| start + at) else { return };
    let p = student::pooled_p(&values[start..at], &values[at..end]);
    if p.is_some_and(|p| p < p_max) {
        found.push(at);
        divide(values, start, at, p_max, found);
        divide(values, at, end, p_max, found);
    }
}

/// The split with the largest energy distance between its sides, weighted by their sizes: q = mn / (m + n) * (2 E|X - Y| -
/// E|X - X'| - E|Y - Y'|); Matteson, James 2014, (5) to (7) with alpha = 1.
fn best_split(values: &[f64]) -> Option<usize> {
    let n = values.len();
    let between = |i: usize, others: &[f64]| others.iter().map(|v| (v - values[i]).abs()).sum::<f64>();
    // Sums of distances within the left side, within the right side and across, moved along by one value at a time.
    let mut left = 0.0;
    let mut right: f64 = (0..n).map(|i| between(i, &values[i + 1..])).sum();
    let mut across = 0.0;
    let mut best: Option<(f64, usize)> = None;
    for at in 1..n {
        let (to_left, to_right) = (between(at - 1, &values[..at - 1]), between(at - 1, &values[at..]));
        left += to_left;
        right -= to_right;
        across += to_right - to_left;
        let (l, r) = (at as f64, (n - at) as f64);
        if at < SIDE_MIN || n - at < SIDE_MIN {
            continue;
        }
        let within = left / (l * (l - 1.0) / 2.0) + right / (r * (r - 1.0) / 2.0);
        let q = l * r / (l + r) * (2.0 * across / (l * r) - within);
        if best.is_none_or(|(most, _)| q > most) {
            best = Some((q, at));
        }
    }
    best.map(|(_, at)| at)
}

/// Every place with the means on both sides and the p between them.
fn describe(values: &[f64], places: &[usize]) -> Vec<ChangePoint> {
    let ends: Vec<usize> = [&[0], places, &[values.len()]].concat();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let describe = |ends: &[usize]| {
        let (before, after) = (&values[ends[0]..ends[1]], &values[ends[1]..ends[2]]);
        let p = student::pooled_p(before, after).unwrap_or(1.0);
        ChangePoint { index: ends[1], from: mean(before), to: mean(after), p }
    };
    ends.windows(3).map(describe).collect()
}

/// The place to give up next: the one with the largest p above the level, else the smallest change below the minimum.
fn weakest(found: &[ChangePoint], search: &Search) -> Option<usize> {
    let size = |c: &ChangePoint| (c.to - c.from).abs();
    let places = || found.iter().enumerate();
    let unsure = places().filter(|(_, c)| c.p >= search.p_max).max_by(|a, b| a.1.p.total_cmp(&b.1.p));
    let small = || places().filter(|(_, c)| size(c) < search.change_min).min_by(|a, b| size(a.1).total_cmp(&size(b.1)));
    unsure.or_else(small).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const SEARCH: Search = Search { window: WINDOW, p_max: P_MAX, change_min: 0.048_790_164 };

    /// Logarithms of made throughputs: noise of 2 %, and steps of `size` at these places.
    fn series(seed: u64, n: usize, spread: f64, steps: &[(usize, f64)]) -> Vec<f64> {
        let mut random = Random::new(seed);
        let level = |i: usize| steps.iter().filter(|(at, _)| *at <= i).map(|(_, size)| size).sum::<f64>();
        (0..n).map(|i| 9.0 + level(i) + random.normal(0.0, spread)).collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        change_points(values, &SEARCH).iter().map(|c| c.index).collect()
    }

    #[test]
    fn a_step_of_10_percent_is_found_where_it_is() {
        let (mut found, mut sizes) = (0, 0.0);
        for seed in 0..200 {
            let at = 10 + (seed as usize * 7) % 40;
            let changes = change_points(&series(seed, 60, 0.02, &[(at, (0.9f64).ln())]), &SEARCH);
            if let [one] = changes.as_slice() {
                found += usize::from(one.index.abs_diff(at) <= 1);
                sizes += one.to - one.from;
            }
        }
        assert!(found >= 190, "{found} of 200");
        assert!((sizes / 200.0 - (0.9f64).ln()).abs() < 0.01, "{sizes}");
    }

    #[test]
    fn several_steps_in_a_long_history() {
        let steps = [(40, -0.12), (90, 0.2), (150, -0.1)];
        let exact = (0..50).filter(|seed| {
            let found = places(&series(*seed, 200, 0.02, &steps));
            found.len() == 3 && found.iter().zip(steps).all(|(found, (at, _))| found.abs_diff(at) <= 1)
        });
        let exact = exact.count();
        assert!(exact >= 45, "{exact} of 50");
    }

    #[test]
    fn noise_raises_no_alarm() {
        let alarms = |spread: f64| (0..500).filter(|seed| !places(&series(*seed, 60, spread, &[])).is_empty()).count();
        assert_eq!(alarms(0.02), 0, "noise of 2 % makes no step of 5 %");
        // Where the smallest change does not help, p was chosen among many places: more than 0.1 % of series, not more than 5 %.
        let loud = alarms(0.3);
        assert!(loud <= 25, "{loud} of 500");
    }

    #[test]
    fn a_small_step_or_a_single_outlier_is_no_change() {
        assert_eq!(places(&series(1, 60, 0.002, &[(30, 0.03)])), [0usize; 0]);
        let mut values = series(2, 60, 0.01, &[]);
        values[30] -= 0.5;
        assert_eq!(places(&values), [0usize; 0]);
    }

    #[test]
    fn short_or_broken_series_say_nothing() {
        for values in [&[][..], &[1.0], &[1.0, 2.0, 3.0], &[f64::NAN; 20]] {
            assert_eq!(change_points(values, &SEARCH), []);
        }
        assert_eq!(places(&[1.0; 20]), [0usize; 0]);
        assert_eq!(places(&[[1.0; 5], [2.0; 5]].concat()), [5], "without any noise");
    }

    /// The weighted energy distance as it stands in the paper, without any shortcut.
    fn energy(left: &[f64], right: &[f64]) -> f64 {
        let mean = |pairs: Vec<f64>| pairs.iter().sum::<f64>() / pairs.len() as f64;
        let across = left.iter().flat_map(|x| right.iter().map(move |y| (x - y).abs())).collect();
        let within = |side: &[f64]| {
            mean(side.iter().enumerate().flat_map(|(i, x)| side[i + 1..].iter().map(move |y| (x - y).abs())).collect())
        };
        let (l, r) = (left.len() as f64, right.len() as f64);
        l * r / (l + r) * (2.0 * mean(across) - within(left) - within(right))
    }

    proptest! {
        #[test]
        fn the_best_split_is_that_of_the_definition(values in vec(0.0f64..1.0, 4..40)) {
            let at = best_split(&values).unwrap();
            let best = |at: usize| energy(&values[..at], &values[at..]);
            let most = (SIDE_MIN..=values.len() - SIDE_MIN).map(best).fold(f64::MIN, f64::max);
            prop_assert!((best(at) - most).abs() < 1e-9, "{} {most}", best(at));
        }

        #[test]
        fn scale_and_shift_move_no_place(
            values in vec(0.0f64..1.0, 4..70), step in 0.0f64..3.0, shift in -100.0f64..100.0, factor in 1u32..6
        ) {
            let middle = values.len() / 2;
            let values: Vec<f64> = values.iter().enumerate().map(|(i, v)| if i < middle { *v } else { v + step }).collect();
            // Powers of two and of a half keep every sum exact enough to compare places.
            let factor = f64::from(1 << factor);
            let search = Search { change_min: 0.1, ..SEARCH };
            let scaled: Vec<f64> = values.iter().map(|v| v * factor).collect();
            let of_scaled = change_points(&scaled, &Search { change_min: 0.1 * factor, ..search });
            let of_shifted = change_points(&values.iter().map(|v| v + shift).collect::<Vec<f64>>(), &search);
            let places = |found: &[ChangePoint]| found.iter().map(|c| c.index).collect::<Vec<_>>();
            let found = change_points(&values, &search);
            prop_assert_eq!(places(&found), places(&of_scaled));
            prop_assert_eq!(places(&found), places(&of_shifted));
        }

        #[test]
        fn what_is_found_keeps_to_the_rules(values in vec(-1.0f64..1.0, 0..120)) {
            let found = change_points(&values, &SEARCH);
            prop_assert!(found.iter().all(|c| c.p < P_MAX && (c.to - c.from).abs() >= SEARCH.change_min));
            prop_assert!(found.windows(2).all(|w| w[0].index < w[1].index));
        }
    }
}
