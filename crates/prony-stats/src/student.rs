//! Means with intervals by Student's t. One value per trial or pair goes in; never seconds inside a trial, which
//! are not independent (Laaber, Leitner 2018, "An evaluation of open source software microbenchmark suites").

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Quantile that bounds a two-sided 95 % interval.
pub(crate) const TWO_SIDED_95: f64 = 0.975;
/// Power at which the smallest detectable effect is stated. Cohen 1988, "Statistical power analysis", 2.4: the convention.
const POWER: f64 = 0.8;

/// A location with its 95 % interval, on the scale of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) center: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Smallest shift that as many values with this spread would show with 80 % power.
    pub(crate) detectable: f64,
}

/// A location with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Location {
    pub(crate) center: f64,
    pub(crate) standard_error: f64,
    /// Of Student's t.
    pub(crate) degrees: f64,
}

impl Interval {
    fn around(location: Location) -> Self {
        let Location { center, standard_error, degrees } = location;
        let t = quantile(TWO_SIDED_95, degrees);
        let detectable = (t + quantile(POWER, degrees)) * standard_error;
        Self { center, low: center - t * standard_error, high: center + t * standard_error, detectable }
    }
}

/// Quantile `q` of Student's t with that many degrees of freedom.
pub(crate) fn quantile(q: f64, degrees: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive").inverse_cdf(q)
}

/// Mean +- t s / sqrt(n), with the smallest detectable shift (t_.975 + t_.80) s / sqrt(n). None below 2 values.
///
/// Student 1908, "The probable error of a mean"; the detectable shift as in Bloom 1995, "Minimum detectable effects".
pub(crate) fn mean(values: &[f64]) -> Option<Interval> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let center = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - center).powi(2)).sum::<f64>() / (n - 1.0);
    Some(Interval::around(Location { center, standard_error: (variance / n).sqrt(), degrees: n - 1.0 }))
}

/// Where one more value would lie: mean +- t s sqrt(1 + 1/n). None below 2 values.
///
/// Hahn, Meeker 1991, "Statistical intervals", 4.7: the 95 % prediction interval.
pub(crate) fn one_more(values: &[f64]) -> Option<Interval> {
    let mean = mean(values)?;
    // The half-width of the mean is t s / sqrt(n).
    let half_width = (mean.high - mean.center) * (values.len() as f64 + 1.0).sqrt();
    Some(Interval { low: mean.center - half_width, high: mean.center + half_width, ..mean })
}

/// Mean without the `cut` smallest and `cut` largest values, with an interval from their winsorised variance.
///
/// Tukey, McLaughlin 1963, "Less vulnerable confidence and significance procedures for location based on a single
/// sample", Sankhya A 25: se = sqrt(SSD_w / (h (h - 1))) with h = n - 2 cut values left, and h - 1 degrees of freedom.
/// None when fewer than 2 values are left.
pub(crate) fn trimmed(values: &[f64], cut: usize) -> Option<Location> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let left = sorted.get(cut..sorted.len().checked_sub(cut)?).filter(|left| left.len() >= 2)?;
    let h = left.len() as f64;
    let center = left.iter().sum::<f64>() / h;
    let (least, most) = (left[0], left[left.len() - 1]);
    let winsorised = || sorted.iter().map(|v| v.clamp(least, most));
    let winsorised_mean = winsorised().sum::<f64>() / sorted.len() as f64;
    let squares = winsorised().map(|v| (v - winsorised_mean).powi(2)).sum::<f64>();
    Some(Location { center, standard_error: (squares / (h * (h - 1.0))).sqrt(), degrees: h - 1.0 })
}

/// The 95 % interval of [`trimmed`].
pub(crate) fn trimmed_mean(values: &[f64], cut: usize) -> Option<Interval> {
    trimmed(values, cut).map(Interval::around)
}

/// Mean and variance (n - 1) of at least two values.
pub(crate) fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    Some((mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)))
}

/// Two-sided p of a difference that is `difference / standard_error` away from 0.
pub(crate) fn two_sided_p(difference: f64, standard_error: f64, degrees: f64) -> f64 {
    if difference == 0.0 {
        return 1.0;
    }
    let t = difference.abs() / standard_error;
    if !t.is_finite() {
        return 0.0;
    }
    let below = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive").cdf(-t);
    (2.0 * below).min(1.0)
}

/// mean(b) - mean(a) with its interval and p, without assuming that both spread alike. None below 2 values on a side.
///
/// Welch 1947, "The generalization of Student's problem when several different population variances are involved",
/// Biometrika 34; degrees of freedom after Satterthwaite 1946.
pub(crate) fn welch(a: &[f64], b: &[f64]) -> Option<(Interval, f64)> {
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(a)?, moments(b)?);
    let (share_a, share_b) = (variance_a / a.len() as f64, variance_b / b.len() as f64);
    let squared = share_a + share_b;
    let (n_a, n_b) = (a.len() as f64 - 1.0, b.len() as f64 - 1.0);
    let degrees = squared.powi(2) / (share_a.powi(2) / n_a + share_b.powi(2) / n_b);
    // Without any spread (or one so small that its square is 0) every choice gives the same interval.
    let degrees = if degrees.is_finite() { degrees } else { n_a + n_b };
    let difference = mean_b - mean_a;
    let location = Location { center: difference, standard_error: squared.sqrt(), degrees };
    Some((Interval::around(location), two_sided_p(difference, squared.sqrt(), degrees)))
}

/// p of mean(a) = mean(b) with one variance for both. None below 2 values on a side.
///
/// Student 1908 for two samples, as in Fisher 1925, "Statistical methods for research workers", 24.1.
pub(crate) fn pooled_p(a: &[f64], b: &[f64]) -> Option<f64> {
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(a)?, moments(b)?);
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let degrees = n_a + n_b - 2.0;
    let variance = ((n_a - 1.0) * variance_a + (n_b - 1.0) * variance_b) / degrees;
    Some(two_sided_p(mean_b - mean_a, (variance * (1.0 / n_a + 1.0 / n_b)).sqrt(), degrees))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Share of `experiments` samples of `n` normal values whose interval holds the true location.
    fn coverage(experiments: u64, n: usize, interval: impl Fn(&[f64]) -> Interval) -> f64 {
        let covered = (0..experiments).filter(|seed| {
            let mut random = Random::new(*seed);
            let values: Vec<f64> = (0..n).map(|_| random.normal(0.3, 0.02)).collect();
            let interval = interval(&values);
            interval.low <= 0.3 && 0.3 <= interval.high
        });
        covered.count() as f64 / experiments as f64
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook 1.3.6.7.2.
        for (degrees, want) in [(2.0, 4.303), (5.0, 2.571), (9.0, 2.262), (30.0, 2.042)] {
            assert!((quantile(0.975, degrees) - want).abs() < 1e-3);
        }
        assert!((quantile(0.8, 9.0) - 0.883).abs() < 1e-3);
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        // Binomial band of 95 % over 4000 experiments: +- 3.3 standard errors are 1.1 %.
        for n in [3, 6, 10] {
            let share = coverage(4000, n, |values| mean(values).unwrap());
            assert!((share - 0.95).abs() < 0.0114, "n = {n}: {share}");
        }
    }

    #[test]
    fn the_trimmed_interval_is_not_too_narrow() {
        for (n, cut) in [(5, 1), (6, 1), (8, 1), (10, 2)] {
            let share = coverage(4000, n, |values| trimmed_mean(values, cut).unwrap());
            assert!((0.935..0.985).contains(&share), "n = {n}: {share}");
        }
    }

    #[test]
    fn two_samples_as_by_numerical_integration() {
        // The t density integrated by the trapezoid rule in 200,000 steps, in Python.
        let (a, b) = ([10.0, 11.0, 9.0, 10.5], [12.0, 15.0, 11.0, 13.0, 14.0]);
        let (interval, p) = welch(&a, &b).unwrap();
        assert!((interval.center - 2.875).abs() < 1e-9, "{interval:?}");
        assert!((p - 0.012_057).abs() < 1e-5, "{p}");
        assert!((interval.low - 0.878_88).abs() < 1e-4 && (interval.high - 4.871_12).abs() < 1e-4, "{interval:?}");
        let p = pooled_p(&a, &b).unwrap();
        assert!((p - 0.014_095).abs() < 1e-5, "{p}");
    }

    #[test]
    fn samples_without_spread_differ_or_do_not() {
        assert_eq!((welch(&[1.0; 3], &[1.0; 3]).unwrap().1, pooled_p(&[1.0; 3], &[1.0; 2]).unwrap()), (1.0, 1.0));
        assert_eq!((welch(&[1.0; 3], &[2.0; 3]).unwrap().1, pooled_p(&[1.0; 3], &[2.0; 2]).unwrap()), (0.0, 0.0));
    }

    #[test]
    fn nothing_is_said_about_too_few() {
        assert!(welch(&[1.0], &[1.0, 2.0]).is_none() && pooled_p(&[1.0, 2.0], &[]).is_none());
        assert_eq!(mean(&[1.0]), None);
        assert_eq!(trimmed_mean(&[1.0, 2.0, 3.0], 1), None);
        assert_eq!(trimmed_mean(&[1.0], 1), None);
    }
}
