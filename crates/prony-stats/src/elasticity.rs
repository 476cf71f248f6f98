//! Does throughput follow a resource that is made a little worse? Elasticity from pairs of trials.
//!
//! The sole bottleneck has elasticity 1, a free resource 0. One pair that a stranger disturbed does not spoil the result.

use crate::speed;
use crate::student;

/// Below this many usable pairs there is no estimate.
const PAIRS_MIN: usize = 3;
/// Share of pairs left out at each end; at least one from 5 pairs on. 20 % is the customary choice:
/// Wilcox 2012, "Introduction to Robust Estimation and Hypothesis Testing", 3.3.
const TRIM: f64 = 0.2;
/// From this many pairs on one is left out at each end. With fewer, too little is left for an interval.
const PAIRS_TO_TRIM: usize = 5;

/// An elasticity with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elasticity {
    /// d ln X / d ln resource.
    pub estimate: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Pairs that were usable.
    pub pairs: u32,
    /// Share of the spread between pairs that the machine's own speed explained, and that was taken out; none when it was not.
    pub by_speed: Option<f64>,
}

/// A trial as found and one with something turned, which ran side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Throughput as found.
    pub x0: f64,
    /// Throughput with it.
    pub xs: f64,
    /// What a piece of the yardstick's work took in each; none when it was not measured.
    pub pieces: Option<(f64, f64)>,
}

/// Elasticity of throughput to a resource that was slowed by the share `dose`: ln(xs / x0) / ln(1 - dose) for each pair, at equal
/// speed of the machine where that moved (`speed::allow_for`). None unless 0 < dose < 1 and at least 3 pairs have both throughputs
/// above 0; pairs that have not are left out, and the count in the result says so.
///
/// The form follows from throughput being homogeneous of degree 1 in all rates of a closed network (Euler's theorem; for
/// queueing networks: Suri, "Robustness of queuing network formulas", JACM 30, 1983). The location is the 20 % trimmed
/// mean with the interval of Tukey and McLaughlin (see `student::trimmed_mean`), because one pair disturbed by a stranger
/// may be off by ten times the dose: the interval of Wilcoxon's test (Hodges-Lehmann) reaches the most extreme value
/// until there are 9 pairs, and a plain t interval always does.
pub fn estimate(pairs: &[Pair], dose: f64) -> Option<Elasticity> {
    (dose > 0.0 && dose < 1.0).then(|| robust(pairs, (-dose).ln_1p()))?
}

/// Elasticity of throughput to something that was raised by the share `raise` (connections): ln(xs / x0) / ln(1 + raise).
/// See [`estimate`].
pub fn growth(pairs: &[Pair], raise: f64) -> Option<Elasticity> {
    (raise > 0.0 && raise.is_finite()).then(|| robust(pairs, raise.ln_1p()))?
}

/// The elasticity that fits what several doses of one resource showed: the line through the origin of least squares in logarithms.
/// `doses`: logarithm of what was left of the resource (or of what it was raised to), and the elasticity seen there. None
/// without a dose.
pub fn through_origin(doses: &[(f64, f64)]) -> Option<f64> {
    let weight: f64 = doses.iter().map(|(log, _)| log * log).sum();
    (weight > 0.0).then(|| doses.iter().map(|(log, elasticity)| log * log * elasticity).sum::<f64>() / weight)
}

/// Relative change of throughput by an elasticity, when the logarithm of the resource changes by `log_change`.
pub fn effect(elasticity: f64, log_change: f64) -> f64 {
    (elasticity * log_change).exp_m1()
}

fn robust(pairs: &[Pair], log_change: f64) -> Option<Elasticity> {
    let is_usable = |v: f64| v.is_finite() && v > 0.0;
    let usable: Vec<&Pair> = pairs.iter().filter(|pair| is_usable(pair.x0) && is_usable(pair.xs)).collect();
    if usable.len() < PAIRS_MIN {
        return None;
    }
    let differences: Vec<f64> = usable.iter().map(|pair| (pair.xs / pair.x0).ln()).collect();
    let pieces: Option<Vec<(f64, f64)>> = usable.iter().map(|pair| pair.pieces).collect();
    let allowed = speed::allow_for(&differences, &pieces.unwrap_or_default());
    let by_speed = allowed.as_ref().map(|allowed| allowed.explained);
    let differences = allowed.map_or(differences, |allowed| allowed.values);
    let values: Vec<f64> = differences.iter().map(|d| d / log_change).collect();
    let trim = if values.len() < PAIRS_TO_TRIM { 0 } else { (TRIM * values.len() as f64) as usize };
    let interval = student::trimmed_mean(&values, trim)?;
    let pairs = values.len() as u32;
    Some(Elasticity { estimate: interval.center, low: interval.low, high: interval.high, pairs, by_speed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Pairs of trials that spread by 1 %, with a planted elasticity.
    fn planted(elasticity: f64, dose: f64, pairs: usize, seed: u64) -> Vec<Pair> {
        let mut random = Random::new(seed);
        let mut noise = || random.normal(0.0, 0.01).exp();
        (0..pairs).map(|_| pair(1e4 * noise(), 1e4 * (1.0 - dose).powf(elasticity) * noise())).collect()
    }

    fn pair(x0: f64, xs: f64) -> Pair {
        Pair { x0, xs, pieces: None }
    }

    #[test]
    fn finds_what_was_planted_in_spite_of_one_disturbed_pair() {
        for (truth, disturbance) in [(1.0, 0.4), (0.0, 0.4), (1.0, 3.0), (0.3, 0.1)] {
            let covered = (0..300).filter(|seed| {
                let mut pairs = planted(truth, 0.2, 6, *seed);
                pairs[2].xs *= disturbance;
                let found = estimate(&pairs, 0.2).unwrap();
                assert!((found.estimate - truth).abs() < 0.25, "{truth} {disturbance}: {found:?}");
                assert!(found.high - found.low < 1.0, "{found:?}");
                found.low <= truth && truth <= found.high
            });
            let covered = covered.count();
            assert!(covered >= 260, "{truth} {disturbance}: {covered} of 300");
        }
    }

    #[test]
    fn bottleneck_and_control_separate() {
        let (suspect, control) = (planted(1.0, 0.2, 8, 1), planted(0.0, 0.2, 8, 2));
        let (suspect, control) = (estimate(&suspect, 0.2).unwrap(), estimate(&control, 0.2).unwrap());
        assert!(suspect.low > 0.8 && control.high < 0.2, "{suspect:?} {control:?}");
    }

    #[test]
    fn growth_of_a_stack_that_only_waits_is_one() {
        let pairs =
            [(1000.0, 1498.0), (1001.0, 1503.0), (999.0, 1499.0), (1000.0, 1500.0)].map(|(x0, xs)| pair(x0, xs));
        let found = growth(&pairs, 0.5).unwrap();
        assert!((found.estimate - 1.0).abs() < 0.02 && found.pairs == 4, "{found:?}");
    }

    #[test]
    fn a_machine_whose_speed_moves_hides_no_bottleneck() {
        let mut random = Random::new(5);
        let mut trial = |rate: f64| {
            let slow = random.normal(0.0, 0.15);
            (rate * (-1.3 * slow + random.normal(0.0, 0.01)).exp(), 40.0 * slow.exp())
        };
        let both = |_| {
            let ((x0, a), (xs, b)) = (trial(1000.0), trial(900.0));
            Pair { x0, xs, pieces: Some((a, b)) }
        };
        let pairs: Vec<Pair> = (0..14).map(both).collect();
        let untimed: Vec<Pair> = pairs.iter().map(|pair| Pair { pieces: None, ..*pair }).collect();
        let (found, without) = (estimate(&pairs, 0.1).unwrap(), estimate(&untimed, 0.1).unwrap());
        assert!(found.by_speed.unwrap() > 0.9 && found.low > 0.7 && found.high < 1.3, "{found:?}");
        assert!(without.by_speed.is_none() && without.low < 0.5, "{without:?}");
    }

    #[test]
    fn the_greater_dose_weighs_more() {
        let (small, large) = ((0.9f64).ln(), (0.8f64).ln());
        assert!((effect(1.0, large) + 0.2).abs() < 1e-12 && effect(0.0, large) == 0.0);
        assert_eq!(through_origin(&[(large, 0.7)]), Some(0.7));
        let fitted = through_origin(&[(small, 0.4), (large, 1.0)]).unwrap();
        assert!(fitted > 0.85 && fitted < 1.0, "{fitted}");
        assert_eq!(through_origin(&[]), None);
    }

    #[test]
    fn nothing_is_said_without_a_dose_or_pairs() {
        let pairs = planted(1.0, 0.2, 6, 1);
        for dose in [0.0, 1.0, -0.1, f64::NAN] {
            assert_eq!(estimate(&pairs, dose), None);
        }
        assert_eq!(estimate(&pairs[..2], 0.2), None);
        assert_eq!(growth(&pairs, 0.0), None);
        let with_a_dead_trial = [&pairs[..3], &[pair(1000.0, 0.0)]].concat();
        assert_eq!(estimate(&with_a_dead_trial, 0.2).unwrap().pairs, 3);
    }
}
