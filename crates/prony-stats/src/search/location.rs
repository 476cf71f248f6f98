//! Where repeated trials lie, with an interval that allows for outliers, for trials that resemble their neighbours, and for
//! having stopped when the interval looked narrow.
//!
//! Works on logarithms of rates. Invariant: adding a constant to all values moves the interval by that constant.

use crate::student;

/// Quantile of Student's t on each side: a little below 0.975, because the widening for trials that resemble each other also finds
/// resemblance that is none. By how much was found on simulated stacks (`cargo xtask bench stats`, other seeds).
const QUANTILE: f64 = 0.97;
/// Fewer values have no interval.
const VALUES_MIN: usize = 3;
/// From so many values on the smallest and the largest are set aside.
const TRIM_FROM: usize = 6;
/// Correlation between neighbours is never taken to be higher: beyond it trials are no repetitions.
const CORRELATION_MAX: f64 = 0.6;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Location {
    pub(super) center: f64,
    pub(super) half_width: f64,
}

impl Location {
    pub(super) fn low(&self) -> f64 {
        self.center - self.half_width
    }

    pub(super) fn high(&self) -> f64 {
        self.center + self.half_width
    }

    /// Relative width of the interval of the rate.
    pub(super) fn width(&self) -> f64 {
        self.half_width.exp() - (-self.half_width).exp()
    }
}

/// Trimmed mean (Tukey, McLaughlin 1963, see `student`) of values in the order they were measured, its standard error
/// widened for autocorrelation.
pub(super) fn locate(values: &[f64]) -> Option<Location> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let cut = if values.len() < TRIM_FROM { 0 } else { 1 };
    let found = student::trimmed(values, cut)?;
    let t = student::quantile(QUANTILE, found.degrees);
    Some(Location { center: found.center, half_width: t * found.standard_error * widening(values) })
}

/// How much larger the standard error of a mean is than if values did not resemble their neighbours: sqrt((1 + r) / (1 - r))
/// for an autoregressive process of first order (Zieba, Ramza 2011, "Standard deviation of the mean of autocorrelated
/// observations", Metrol. Meas. Syst. 18). Never below 1.
fn widening(values: &[f64]) -> f64 {
    widened(correlation(values))
}

/// The same with one standard error of the correlation, 1 / sqrt(n), taken off: for few values, where resemblance is mostly chance.
pub(super) fn surely_widening(values: &[f64]) -> f64 {
    widened(correlation(values) - (values.len() as f64).sqrt().recip())
}

fn widened(correlation: f64) -> f64 {
    let r = correlation.clamp(0.0, CORRELATION_MAX);
    ((1.0 + r) / (1.0 - r)).sqrt()
}

/// Correlation of neighbours, with the bias that comes from subtracting the mean taken back: E r = rho - (1 + 4 rho) / n
/// (Marriott, Pope 1954, "Bias in the estimation of autocorrelations", Biometrika 41).
fn correlation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 5 {
        return 0.0;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[1], sorted[sorted.len() - 2]);
    let clipped: Vec<f64> = values.iter().map(|v| v.clamp(least, most)).collect();
    let mean = clipped.iter().sum::<f64>() / n;
    let square: f64 = clipped.iter().map(|v| (v - mean).powi(2)).sum();
    let product: f64 = clipped.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    if square <= 0.0 { 0.0 } else { (product / square + 1.0 / n) / (1.0 - 4.0 / n) }
}
