//! What the machine's own speed did to trials, taken out of them.
//!
//! Partners in a pair run one after the other, and on a shared machine the second may meet another speed than the first; so may repeats of
//! one trial. A piece of work that nothing of the stack touches was timed meanwhile; what goes with it is the machine, the rest is the stack,
//! or what was turned. Invariant: whether anything is taken out depends on the speeds alone, never on what was measured; so the intervals
//! keep their promise.

use crate::student;

/// Where the logarithm of the speed differs by less between partners (standard deviation), the machine is quiet, and taking out what is
/// hardly there would only widen the interval. A guess: on a shared machine it is 0.05 to 0.08 in trials of 0.8 s.
const MOVED_MIN: f64 = 0.03;
/// With a smaller p the speeds of A and B differ by more than chance, so what was turned changed them. Not 0.05: where both arms met
/// another speed by chance is where the plain interval is wrong, and leaving these cases to it would double its errors (seen: the
/// test below covers 89 % then).
const TURNED_P: f64 = 0.001;
/// Fewer trials or pairs cannot tell a relation from chance. A guess.
pub(crate) const VALUES_MIN: usize = 6;

/// Logarithms, or differences of them, without what the machine's speed did to them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allowed {
    /// One per trial or pair, in order. They spread so much that the usual interval of their mean has the right width.
    pub(crate) values: Vec<f64>,
    /// Share of the spread that the speed explained; 0 when it explained none.
    pub(crate) explained: f64,
    /// By how much a value rises with the logarithm of what a piece took.
    pub(crate) slope: f64,
}

/// Takes the machine's speed out of repeats of one trial: what each would have shown at the mean speed of all. `values` are logarithms of
/// rates, `pieces` what a piece of work took in each trial, in any unit. None when there are fewer than `least` (at least 3), when a piece
/// was not timed, or when the speed hardly moved.
pub(crate) fn at_one_speed(values: &[f64], pieces: &[f64], least: usize) -> Option<Allowed> {
    let timed = |piece: &f64| *piece > 0.0 && piece.is_finite();
    if values.len() < least.max(3) || pieces.len() != values.len() || !pieces.iter().all(timed) {
        return None;
    }
    let logs: Vec<f64> = pieces.iter().map(|piece| piece.ln()).collect();
    let (mean, variance) = student::moments(&logs)?;
    let speeds: Vec<f64> = logs.iter().map(|piece| piece - mean).collect();
    if variance.sqrt() < MOVED_MIN { None } else { without(values, &speeds) }
}

/// Takes the machine's speed out of differences of logarithms. `pieces`: what a piece of work took in both trials of each pair, in
/// any unit. None when there are fewer than 6 pairs, when a piece was not timed, when the speed hardly moved, or when what was turned
/// changed the speed itself: then the speed is no stranger to the effect.
///
/// d_i = tau + beta x_i + e_i with x_i the difference of the logarithms of the pieces; tau is the effect at equal speed. Covariates
/// that the treatment does not touch: Deng, Xu, Kohavi, Walker 2013, "Improving the sensitivity of online controlled experiments by
/// utilizing pre-experiment data" (CUPED), WSDM. The slope is the median of the slopes between pairs, which one disturbed
/// pair does not tilt: Sen 1968, "Estimates of the regression coefficient based on Kendall's tau", JASA 63. The variance of an
/// intercept is s^2 (1/n + mean(x)^2 / Sxx) with n - 2 degrees of freedom (Draper, Smith 1998, "Applied regression analysis", 1.4).
pub(crate) fn allow_for(differences: &[f64], pieces: &[(f64, f64)]) -> Option<Allowed> {
    let timed = |(a, b): &(f64, f64)| *a > 0.0 && *b > 0.0 && a.is_finite() && b.is_finite();
    if differences.len() < VALUES_MIN || pieces.len() != differences.len() || !pieces.iter().all(timed) {
        return None;
    }
    let speeds: Vec<f64> = pieces.iter().map(|(a, b)| (b / a).ln()).collect();
    let n = speeds.len() as f64;
    let (turned, variance) = student::moments(&speeds)?;
    let moved = variance.sqrt();
    if moved < MOVED_MIN || student::two_sided_p(turned, moved / n.sqrt(), n - 1.0) < TURNED_P {
        return None;
    }
    without(differences, &speeds)
}

/// The values without what goes with the speeds, which are 0 where nothing is to be taken out. See [`allow_for`].
fn without(values: &[f64], speeds: &[f64]) -> Option<Allowed> {
    let n = speeds.len() as f64;
    let (turned, variance) = student::moments(speeds)?;
    let slope = slope(speeds, values)?;
    let left: Vec<f64> = values.iter().zip(speeds).map(|(d, x)| d - slope * x).collect();
    let ((_, spread), (middle, left_over)) = (student::moments(values)?, student::moments(&left)?);
    let explained = if spread > 0.0 { (1.0 - left_over / spread).max(0.0) } else { 0.0 };
    let by_degrees =
        student::quantile(student::TWO_SIDED_95, n - 2.0) / student::quantile(student::TWO_SIDED_95, n - 1.0);
    let by_intercept = (n - 1.0) / (n - 2.0) * (1.0 + n * turned * turned / (variance * (n - 1.0)));
    let wider = by_degrees * by_intercept.sqrt();
    let values = left.into_iter().map(|d| middle + (d - middle) * wider).collect();
    Some(Allowed { values, explained, slope })
}

/// The median of the slopes between any two points; none when no two differ in x.
fn slope(x: &[f64], y: &[f64]) -> Option<f64> {
    let two = |i: usize| (0..i).map(move |j| (i, j));
    let between = |(i, j): (usize, usize)| (x[i] != x[j]).then(|| (y[i] - y[j]) / (x[i] - x[j]));
    let mut slopes: Vec<f64> = (0..x.len()).flat_map(two).filter_map(between).collect();
    slopes.sort_by(f64::total_cmp);
    let (low, high) = (slopes.get(slopes.len().checked_sub(1)? / 2)?, slopes.get(slopes.len() / 2)?);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Pairs on a machine whose speed moves from trial to trial: the difference of each with an effect planted, and its pieces.
    fn planted(seed: u64, pairs: usize, effect: f64, speed: f64, own: f64) -> (Vec<f64>, Vec<(f64, f64)>) {
        let mut random = Random::new(seed);
        let pair = |_| {
            let (a, b) = (random.normal(0.0, speed), random.normal(0.0, speed));
            let difference = effect - 1.4 * (b - a) + random.normal(0.0, own);
            (difference, ((random.normal(0.0, own / 2.0) + a).exp(), (random.normal(0.0, own / 2.0) + b).exp()))
        };
        (0..pairs).map(pair).unzip()
    }

    #[test]
    fn what_the_speed_did_is_taken_out_and_the_interval_keeps_its_promise() {
        let (mut narrower, mut used) = (0, 0);
        for seed in 0..1000 {
            let (differences, pieces) = planted(seed, 10, 0.05, 0.1, 0.02);
            let plain = student::mean(&differences).unwrap();
            let allowed = allow_for(&differences, &pieces).map(|a| a.values);
            used += u32::from(allowed.is_some());
            let found = student::mean(allowed.as_ref().unwrap_or(&differences)).unwrap();
            narrower += u32::from(found.high - found.low < (plain.high - plain.low) / 2.0);
        }
        assert!(narrower > 950 && used > 950, "{narrower} of {used}");
        for (speed, own) in [(0.1, 0.02), (0.1, 0.1), (0.1, 0.2), (0.03, 0.1), (0.0, 0.1)] {
            let holds = |seed: &u64| {
                let (differences, pieces) = planted(*seed, 10, 0.05, speed, own);
                let allowed = allow_for(&differences, &pieces).map(|a| a.values);
                let found = student::mean(allowed.as_ref().unwrap_or(&differences)).unwrap();
                found.low <= 0.05 && 0.05 <= found.high
            };
            let covered = (0..2000).filter(holds).count();
            // Binomial, 2000 times 0.95: 1900 +- 3.3 * 9.7.
            assert!((1868..=1932).contains(&covered), "{speed} {own}: {covered} of 2000");
        }
    }

    #[test]
    fn a_machine_of_one_speed_is_left_alone() {
        let (differences, pieces) = planted(1, 10, 0.05, 0.005, 0.02);
        assert_eq!(allow_for(&differences, &pieces), None);
        let (_, moved) = planted(1, 10, 0.0, 0.1, 0.0);
        let random = allow_for(&differences, &moved).unwrap();
        assert!(random.explained < 0.5, "a speed that has nothing to do with it: {random:?}");
    }

    #[test]
    fn a_change_that_changes_the_speed_keeps_its_effect() {
        let (differences, mut pieces) = planted(1, 12, -0.2, 0.05, 0.01);
        assert!(allow_for(&differences, &pieces).is_some());
        pieces.iter_mut().for_each(|(_, b)| *b *= 1.2);
        assert_eq!(allow_for(&differences, &pieces), None);
    }

    #[test]
    fn one_disturbed_pair_does_not_tilt_the_slope() {
        let x: Vec<f64> = (0..9).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|x| 2.0 - 1.5 * x).collect();
        y[8] = 40.0;
        assert!((slope(&x, &y).unwrap() + 1.5).abs() < 1e-9);
        assert_eq!(slope(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(slope(&[], &[]), None);
    }

    #[test]
    fn too_few_pairs_or_pieces_are_none() {
        let (differences, pieces) = planted(1, 10, 0.0, 0.1, 0.01);
        assert_eq!(allow_for(&differences[..5], &pieces[..5]), None);
        assert_eq!(allow_for(&differences, &pieces[..9]), None);
        assert_eq!(allow_for(&differences, &[]), None);
        let untimed = [&pieces[..9], &[(0.0, 1.0)]].concat();
        assert_eq!(allow_for(&differences, &untimed), None);
        assert_eq!(allow_for(&[0.1; 10], &pieces).unwrap().explained, 0.0, "no spread, nothing to explain");
    }

    proptest! {
        #[test]
        fn swapping_mirrors(seed in 0u64..1000, pairs in 6usize..16) {
            let (differences, pieces) = planted(seed, pairs, 0.1, 0.1, 0.02);
            let back: Vec<f64> = differences.iter().map(|d| -d).collect();
            let swapped: Vec<(f64, f64)> = pieces.iter().map(|(a, b)| (*b, *a)).collect();
            match (allow_for(&differences, &pieces), allow_for(&back, &swapped)) {
                (Some(one), Some(two)) => {
                    for (a, b) in one.values.iter().zip(&two.values) {
                        prop_assert!((a + b).abs() < 1e-9);
                    }
                }
                (one, two) => prop_assert_eq!(one.is_none(), two.is_none()),
            }
        }

        #[test]
        fn another_unit_of_the_pieces_changes_nothing(pieces in vec((1.0f64..9.0, 1.0f64..9.0), 8), unit in 0.01f64..100.0) {
            let differences: Vec<f64> = pieces.iter().map(|(a, b)| (a / b).ln()).collect();
            let scaled: Vec<(f64, f64)> = pieces.iter().map(|(a, b)| (a * unit, b * unit)).collect();
            let (one, two) = (allow_for(&differences, &pieces), allow_for(&differences, &scaled));
            prop_assert_eq!(one.is_some(), two.is_some());
            if let (Some(one), Some(two)) = (one, two) {
                prop_assert!((one.explained - two.explained).abs() < 1e-6);
            }
        }
    }
}
