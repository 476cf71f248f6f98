//! Where a straight line through noisy trials crosses the objective, with its interval.
//!
//! A trial is a point (ln rate, limit / measured). Invariant: multiplying all rates by k moves the border by ln k.

use super::location::surely_widening;
use crate::student;

/// Quantile of Student's t on each side: a little below 0.975. A search that stops when its interval looks narrow stops too soon
/// more often than too late; that the slope is taken for less sure than it is outweighs it. By how much was found on simulated
/// stacks (`cargo xtask bench stats`, other seeds).
const QUANTILE: f64 = 0.9725;
/// Limit / measured beyond this is taken as this: far below the border only its side counts. A guess.
const SHARE_MAX: f64 = 2.0;
/// Points within this many standard deviations of a trial (as a rate) of the border count for the line: the further away,
/// the more latency bends, and the less that matters beside the noise.
const NEAR_SPREADS: f64 = 6.0;
/// But within the first distance, in ln rate, all count, and beyond the second none.
const NEAR: (f64, f64) = (0.04, 0.25);
/// What is known of the slope before any trial: this share of the slope of the line from the border to saturation, where
/// limit / measured is 0, give or take the other share. For M/M/1 the share is exactly 1 (Kleinrock 1975, "Queueing Systems" 1,
/// 3.2); for M/M/c with up to 16 servers, whose 99th percentile is 1.5 to 4 times that of the calm queue, it is 0.4 to 1.
const SLOPE: (f64, f64) = (0.7, 0.15);
/// Fewer points have no line with an interval.
const POINTS_MIN: usize = 4;
/// Points whose distance from the line is beyond this many robust standard deviations are outliers. A guess: of a normal
/// sample of ten, measured by the median distance, one in a hundred has such a point.
const OUTLIER: f64 = 10.0;
/// The median distance of normal values is 0.6745 standard deviations.
const NORMAL_MAD: f64 = 1.4826;

/// One trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) ln_rate: f64,
    /// limit / measured of the worst metric: 1 at the border, above 1 when the objective held.
    pub(super) share: f64,
    /// Relative to a full trial.
    pub(super) weight: f64,
}

/// ln of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Border {
    pub(super) low: f64,
    pub(super) estimate: f64,
    pub(super) high: f64,
    /// Standard deviation of one full trial, as a shift of ln rate.
    pub(super) spread: f64,
    /// Of limit / measured over ln rate: negative.
    pub(super) slope: f64,
}

impl Border {
    /// Relative width of the interval of the rate.
    pub(super) fn width(&self) -> f64 {
        (self.high - self.estimate).exp() - (self.low - self.estimate).exp()
    }
}

/// limit / measured, from ln(measured / limit).
pub(super) fn share(margin: f64) -> f64 {
    (-margin).exp().min(SHARE_MAX)
}

/// The border and its interval, from the points near `around` (ln rate) and then near what these say, with saturation at
/// `top` (ln rate); none of too few points.
pub(super) fn fit(points: &[Point], around: f64, top: f64) -> Option<Border> {
    let (mut center, mut near) = (around, NEAR.1);
    let mut found = None;
    for _ in 0..4 {
        let within: Vec<Point> = points.iter().copied().filter(|p| (p.ln_rate - center).abs() <= near).collect();
        let usual = -1.0 / (top - center).max(NEAR.0 / 2.0);
        let Some(border) = without_outliers(&within, usual).and_then(|kept| line(&kept, usual)) else { break };
        center = border.estimate.clamp(center - near, center + near);
        near = (NEAR_SPREADS * border.spread).clamp(NEAR.0, NEAR.1);
        found = Some(border);
    }
    found
}

/// Points that do not lie far off a line with the usual slope, as the others do (Hampel 1974, "The influence curve and its
/// role in robust estimation", JASA 69). Where the slope is another, all are further off, and none is left out.
fn without_outliers(points: &[Point], usual_slope: f64) -> Option<Vec<Point>> {
    let off: Vec<f64> = points.iter().map(|p| p.share - SLOPE.0 * usual_slope * p.ln_rate).collect();
    let middle = median(&off)?;
    let far: Vec<f64> = off.iter().map(|o| (o - middle).abs()).collect();
    let scale = NORMAL_MAD * median(&far)?;
    let keep = |(far, point): (f64, &Point)| (scale <= 0.0 || far <= OUTLIER * scale).then_some(*point);
    Some(far.iter().copied().zip(points).filter_map(keep).collect())
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Weighted least squares, with what is known of the slope as one more observation of it (Theil, Goldberger 1961, "On pure and
/// mixed statistical estimation in economics", Int. Econ. Rev. 2). The border is where the line crosses 1; its standard error
/// is that of a calibration, by the delta method (Draper, Smith 1998, "Applied Regression Analysis", 3.2). Trials stand on both
/// sides of the border, so that an error of the slope hardly moves it, and Fieller's exact set, which is unbounded when the
/// slope is not sure, is not needed.
fn line(points: &[Point], usual_slope: f64) -> Option<Border> {
    if points.len() < POINTS_MIN {
        return None;
    }
    let weight: f64 = points.iter().map(|p| p.weight).sum();
    let mean = |value: &dyn Fn(&Point) -> f64| points.iter().map(|p| p.weight * value(p)).sum::<f64>() / weight;
    let (x, y) = (mean(&|p| p.ln_rate), mean(&|p| p.share));
    let sxx: f64 = points.iter().map(|p| p.weight * (p.ln_rate - x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| p.weight * (p.ln_rate - x) * (p.share - y)).sum();
    let degrees = points.len() as f64 - 2.0;
    let residuals =
        |slope: f64| points.iter().map(move |p| p.share - y - slope * (p.ln_rate - x)).collect::<Vec<f64>>();
    let variance_of =
        |residuals: &[f64]| points.iter().zip(residuals).map(|(p, r)| p.weight * r * r).sum::<f64>() / degrees;
    let plain = if sxx > 0.0 { sxy / sxx } else { 0.0 };
    let noise = variance_of(&residuals(plain)).max(f64::MIN_POSITIVE);
    let (seen, known) = (sxx / noise, (SLOPE.1 * usual_slope).powi(-2));
    let slope = (seen * plain + known * SLOPE.0 * usual_slope) / (seen + known);
    if !(slope < 0.0 && slope.is_finite()) {
        return None;
    }
    let residuals = residuals(slope);
    let variance = variance_of(&residuals);
    let distance = -(y - 1.0) / slope;
    let error = (variance / weight + distance.powi(2) / (seen + known)).sqrt() / -slope;
    let half_width = student::quantile(QUANTILE, degrees) * error * surely_widening(&residuals);
    let estimate = x + distance;
    Some(Border {
        low: estimate - half_width,
        estimate,
        high: estimate + half_width,
        spread: variance.sqrt() / -slope,
        slope,
    })
}
