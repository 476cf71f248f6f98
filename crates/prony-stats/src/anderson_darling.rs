//! Does a sample come from a distribution that is fully known? The test of Anderson and Darling.
//!
//! Case 0 only: nothing of the distribution was estimated from the sample. Of the common tests of fit it looks hardest at the
//! tails, which is where a schedule of arrivals goes wrong. Invariant: an answer needs a value, and every value counts.

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AndersonDarling {
    /// The statistic A squared. Its limits for a large sample (Stephens 1974, "EDF statistics for goodness of fit and some
    /// comparisons", JASA 69, table 1, case 0): 10 % 1.933, 5 % 2.492, 1 % 3.857.
    pub a_squared: f64,
    /// Chance that a sample of the distribution gives this much or more.
    pub p_value: f64,
}

/// Tests values against the exponential distribution of this mean: the gaps of a Poisson process of a known rate. None
/// without values, when one is negative or no number, or when the mean is not above 0.
///
/// A value of 0, as the rounding of a clock makes it, counts as the smallest number above it.
pub fn exponential(values: &[f64], mean: f64) -> Option<AndersonDarling> {
    let usable = !values.is_empty() && mean > 0.0 && values.iter().all(|v| v.is_finite() && *v >= 0.0);
    usable.then(|| {
        let mut sorted: Vec<f64> = values.iter().map(|v| (v / mean).max(f64::MIN_POSITIVE)).collect();
        sorted.sort_by(f64::total_cmp);
        // ln F and ln(1 - F) of F(x) = 1 - exp(-x), without the cancellation of 1 - F.
        let ln_below = |x: f64| (-(-x).exp_m1()).ln();
        let ln_above = |x: f64| -x;
        of_sorted(&sorted, ln_below, ln_above)
    })
}

/// A^2 = -n - sum_i (2i - 1) / n * (ln F(x_i) + ln(1 - F(x_(n+1-i)))): Anderson, Darling 1954, "A test of goodness of fit",
/// JASA 49.
fn of_sorted(sorted: &[f64], ln_below: impl Fn(f64) -> f64, ln_above: impl Fn(f64) -> f64) -> AndersonDarling {
    let n = sorted.len() as f64;
    let pairs = sorted.iter().zip(sorted.iter().rev());
    let sum: f64 = (0u64..).zip(pairs).map(|(i, (x, y))| (2 * i + 1) as f64 / n * (ln_below(*x) + ln_above(*y))).sum();
    let a_squared = -n - sum;
    AndersonDarling { a_squared, p_value: (1.0 - distribution(n, a_squared)).clamp(0.0, 1.0) }
}

/// Beyond this the limiting distribution is 1 to the last bit; the fit below is not made for it.
const A_SQUARED_MAX: f64 = 32.0;

/// Chance that A^2 of `n` values stays below `z`, with an error below 0.001: the limit for many values and its correction
/// for few, as fitted by Marsaglia, Marsaglia 2004, "Evaluating the Anderson-Darling distribution", J. Stat. Software 9(2).
fn distribution(n: f64, z: f64) -> f64 {
    if z <= 0.0 {
        return 0.0;
    }
    if z > A_SQUARED_MAX {
        return 1.0;
    }
    let x = limit(z);
    let low = 0.01265 + 0.1757 / n;
    let correction = if x > 0.8 {
        polynomial(x, &[-130.2137, 745.2337, -1705.091, 1950.646, -1116.360, 255.7844]) / n
    } else if x > low {
        let y = (x - low) / (0.8 - low);
        let fit = polynomial(y, &[-0.000_226_33, 6.54034, -14.6538, 14.458, -8.259, 1.91864]);
        fit * (0.04213 + 0.01365 / n) / n
    } else {
        let y = x / low;
        y.sqrt() * (1.0 - y) * (49.0 * y - 102.0) * (0.0037 / (n * n) + 0.00078 / n + 0.00006) / n
    };
    x + correction
}

/// The same for infinitely many values; error below 0.000002 up to z = 2, below 0.0000008 beyond (same source).
fn limit(z: f64) -> f64 {
    if z < 2.0 {
        let fit = polynomial(z, &[2.00012, 0.247105, -0.0649821, 0.0347962, -0.0116720, 0.00168691]);
        (-1.2337141 / z).exp() / z.sqrt() * fit
    } else {
        (-polynomial(z, &[1.0776, -2.30695, 0.43424, -0.082433, 0.008056, -0.0003146]).exp()).exp()
    }
}

/// Coefficients from the constant one upwards.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn critical_values_are_those_of_the_table() {
        // Stephens 1974, case 0, n large; his values for small levels are rounded, by up to 0.0003 of the level.
        for (a_squared, level) in [(1.933, 0.10), (2.492, 0.05), (3.070, 0.025), (3.857, 0.01)] {
            let p = 1.0 - distribution(1e9, a_squared);
            assert!((p - level).abs() < 0.0005, "A2 {a_squared}: {p}, not {level}");
        }
    }

    #[test]
    fn the_statistic_is_that_of_the_formula() {
        // Two values at F = 1/4 and 3/4: -2 - (2 ln 1/4 + 6 ln 3/4) / 2.
        let values = [-(0.75f64.ln()), -(0.25f64.ln())];
        let want = -2.0 - (2.0 * 0.25f64.ln() + 6.0 * 0.75f64.ln()) / 2.0;
        assert!((exponential(&values, 1.0).unwrap().a_squared - want).abs() < 1e-12);
        let scaled: Vec<f64> = values.iter().map(|v| v * 7.0).collect();
        assert!((exponential(&scaled, 7.0).unwrap().a_squared - want).abs() < 1e-12);
    }

    #[test]
    fn p_values_of_true_samples_are_even() {
        // Binomial bands of 4 standard errors over 2000 experiments, for small and larger samples.
        for n in [5, 50, 500] {
            let p_values: Vec<f64> = (0..2000)
                .map(|seed| {
                    let mut random = Random::new(seed);
                    let values: Vec<f64> = (0..n).map(|_| random.exponential(3.0)).collect();
                    exponential(&values, 3.0).unwrap().p_value
                })
                .collect();
            for level in [0.01, 0.05, 0.25, 0.5, 0.9] {
                let share = p_values.iter().filter(|p| **p < level).count() as f64 / 2000.0;
                let band = 4.0 * (level * (1.0 - level) / 2000.0f64).sqrt();
                assert!((share - level).abs() < band, "n = {n}: {share} of p-values are below {level}");
            }
        }
    }

    #[test]
    fn other_distributions_are_found_out() {
        let mut random = Random::new(4);
        let mut sample = |draw: &dyn Fn(&mut Random) -> f64| -> f64 {
            let values: Vec<f64> = (0..2000).map(|_| draw(&mut random)).collect();
            exponential(&values, 1.0).unwrap().p_value
        };
        assert!(sample(&|r| r.exponential(1.0)) > 0.001);
        assert!(sample(&|r| r.exponential(1.2)) < 1e-6, "a wrong mean");
        assert!(sample(&|r| 2.0 * r.uniform()) < 1e-6, "even, with the right mean");
        assert!(sample(&|_| 1.0) < 1e-6, "a clock");
    }

    #[test]
    fn nothing_is_said_about_nothing() {
        assert_eq!(exponential(&[], 1.0), None);
        assert_eq!(exponential(&[1.0], 0.0), None);
        assert_eq!(exponential(&[-1.0], 1.0), None);
        assert_eq!(exponential(&[f64::NAN], 1.0), None);
        assert!(exponential(&[0.0, 1.0], 1.0).unwrap().a_squared.is_finite());
    }
}
