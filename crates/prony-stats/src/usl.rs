//! How throughput grows with parallelism, and what it would be further out: the universal scalability law.
//!
//! X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)). Gunther 1993, "A simple capacity model of massively parallel
//! transaction systems", CMG; Gunther 2007, "Guerrilla Capacity Planning", ch. 4-6. lambda is the throughput of one, sigma the
//! share that is serial (queueing for one thing), kappa the cost of every pair that must agree (crosstalk).
//! It says nothing of causes. Invariant: when every throughput is k times as high, so is lambda, and sigma and kappa stay.

use crate::Random;

/// Different N below which the three parameters are not told apart. Gunther 2007, 5.5 asks for half a dozen; 4 leave one to spare.
const LOADS_MIN: usize = 4;
/// Pseudo-samples of the bootstrap. Efron, Tibshirani 1993, "An introduction to the bootstrap", 14.3: 1000 for a 95 % interval.
const SAMPLES: usize = 1000;
/// Ends of a 95 % interval.
const TAILS: (f64, f64) = (0.025, 0.975);
/// Rounds of reweighting. A guess: the weights are fixed to four digits after three.
const ROUNDS: usize = 5;
/// Spread below which a fit counts as exact, relative: the rounding of a throughput of one in a million.
const SPREAD_MIN: f64 = 1e-9;

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate itself.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end; infinite when nothing bounds it.
    pub high: f64,
}

/// The three parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parameters {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl Parameters {
    fn throughput(self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// N* = sqrt((1 - sigma) / kappa); infinite without crosstalk, and at least 1.
    fn peak(self) -> f64 {
        if self.kappa <= 0.0 { f64::INFINITY } else { ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0) }
    }
}

/// A fitted law.
#[derive(Clone, Debug, PartialEq)]
pub struct Usl {
    fitted: Parameters,
    pseudo: Vec<Parameters>,
    /// Throughput of one, per second.
    pub lambda: Estimate,
    /// Serial share.
    pub sigma: Estimate,
    /// Crosstalk.
    pub kappa: Estimate,
    /// N at which throughput is highest; infinite where it only levels off.
    pub peak: Estimate,
    /// Spread of one trial around the law, relative.
    pub spread: f64,
}

impl Usl {
    /// Throughput at `n` with its 95 % interval, if the law goes on as it went within the data.
    pub fn at(&self, n: f64) -> Estimate {
        estimate(&self.fitted, &self.pseudo, |p| p.throughput(n))
    }
}

/// Fits the law to trials (N, throughput), one number per trial; the order does not matter. None below 4 different N, below 5
/// trials, or with an N below 1 or a throughput that is not above 0.
///
/// N / X is linear in 1/lambda, sigma/lambda, kappa/lambda (Gunther 2007, 5.5): least squares of relative errors (Carroll,
/// Ruppert 1988, "Transformation and weighting in regression", 2.1), with sigma and kappa at least 0. The intervals are those
/// of a parametric bootstrap (Efron, Tibshirani 1993, 6.5), whose spread is drawn anew each time from
/// s^2 (n - 3) / chi^2: few trials know their own spread badly, and this gives a linear model Student's t intervals (Gelman
/// et al. 2013, "Bayesian data analysis", 14.2).
pub fn fit(trials: &[(f64, f64)], seed: u64) -> Option<Usl> {
    let usable = |(n, x): &(f64, f64)| *n >= 1.0 && n.is_finite() && *x > 0.0 && x.is_finite();
    let mut loads: Vec<f64> = trials.iter().map(|t| t.0).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let degrees = trials.len().checked_sub(3).filter(|d| *d > 1)?;
    if loads.len() < LOADS_MIN || !trials.iter().all(usable) {
        return None;
    }
    // Measured in units of its own mean, a throughput of one in a million and one of a million are the same sums.
    let scale = trials.iter().map(|t| t.1).sum::<f64>() / trials.len() as f64;
    let scaled: Vec<(f64, f64)> = trials.iter().map(|(n, x)| (*n, x / scale)).collect();
    let fitted = least_squares(&scaled)?;
    let squares: f64 = scaled.iter().map(|(n, x)| (x / fitted.throughput(*n)).ln().powi(2)).sum();
    let spread = (squares / degrees as f64).sqrt();
    let mut random = Random::new(seed);
    let pseudo = (0..SAMPLES).filter_map(|_| {
        let chi_square: f64 = (0..degrees).map(|_| random.normal(0.0, 1.0).powi(2)).sum();
        let drawn = spread * (degrees as f64 / chi_square.max(f64::MIN_POSITIVE)).sqrt();
        let noisy = |(n, _): &(f64, f64)| (*n, fitted.throughput(*n) * random.normal(0.0, drawn).exp());
        let sample: Vec<(f64, f64)> = scaled.iter().map(noisy).collect();
        if spread < SPREAD_MIN { Some(fitted) } else { least_squares(&sample) }
    });
    let rescaled = |p: Parameters| Parameters { lambda: p.lambda * scale, ..p };
    let pseudo: Vec<Parameters> = pseudo.map(rescaled).collect();
    let fitted = rescaled(fitted);
    let of = |value: fn(&Parameters) -> f64| estimate(&fitted, &pseudo, value);
    let (lambda, sigma, kappa) = (of(|p| p.lambda), of(|p| p.sigma), of(|p| p.kappa));
    let peak = of(|p| p.peak());
    Some(Usl { lambda, sigma, kappa, peak, spread, fitted, pseudo })
}

fn estimate(fitted: &Parameters, pseudo: &[Parameters], value: impl Fn(&Parameters) -> f64) -> Estimate {
    let mut values: Vec<f64> = pseudo.iter().map(&value).collect();
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values.get((q * (values.len() - 1) as f64).round() as usize).copied();
    let own = value(fitted);
    match (values.is_empty(), at(TAILS.0), at(TAILS.1)) {
        (false, Some(low), Some(high)) => Estimate { value: own, low: low.min(own), high: high.max(own) },
        _ => Estimate { value: own, low: own, high: own },
    }
}

/// y = N / X against 1, N - 1 and N (N - 1), weighted by 1 / fitted y; a coefficient that comes out below 0 is left out, and
/// of the fits that remain the one with the smallest error is taken (Lawson, Hanson 1974, "Solving least squares problems",
/// ch. 23: with two bounded unknowns the active set is found by trying all of them).
fn least_squares(trials: &[(f64, f64)]) -> Option<Parameters> {
    let rows: Vec<[f64; 4]> = trials.iter().map(|(n, x)| [1.0, n - 1.0, n * (n - 1.0), n / x]).collect();
    let mut weights: Vec<f64> = rows.iter().map(|row| row[3].recip()).collect();
    let mut best = None;
    for _ in 0..ROUNDS {
        let tried = [[true, true, true], [true, true, false], [true, false, true], [true, false, false]];
        let fits = tried.into_iter().filter_map(|free| solve(&rows, &weights, free));
        let allowed = fits.filter(|c| c[0] > 0.0 && c[1] >= 0.0 && c[2] >= 0.0);
        let with_error = allowed.map(|c| (squared_error(&rows, &weights, c), c));
        let (_, found) = with_error.min_by(|a, b| a.0.total_cmp(&b.0))?;
        weights = rows.iter().map(|row| dot(row, found).recip()).collect();
        best = Some(found);
    }
    best.map(|[a, b, c]| Parameters { lambda: a.recip(), sigma: b / a, kappa: c / a })
}

fn dot(row: &[f64; 4], c: [f64; 3]) -> f64 {
    row[0] * c[0] + row[1] * c[1] + row[2] * c[2]
}

fn squared_error(rows: &[[f64; 4]], weights: &[f64], c: [f64; 3]) -> f64 {
    rows.iter().zip(weights).map(|(row, w)| (w * (row[3] - dot(row, c))).powi(2)).sum()
}

/// Weighted least squares over the columns that are `free`, by the normal equations with Gauss-Jordan and pivoting; none when
/// they are singular. Columns are scaled to length 1 first, because N (N - 1) is millions of times 1.
fn solve(rows: &[[f64; 4]], weights: &[f64], free: [bool; 3]) -> Option<[f64; 3]> {
    let columns: Vec<usize> = (0..3).filter(|i| free[*i]).collect();
    let weighted = |i: usize| rows.iter().zip(weights).map(move |(row, w)| row[i] * w);
    let lengths: Vec<f64> = columns.iter().map(|i| weighted(*i).map(|v| v * v).sum::<f64>().sqrt()).collect();
    let k = columns.len();
    let mut system: Vec<Vec<f64>> = (0..k)
        .map(|i| {
            let inner = |j: usize, length: f64| {
                weighted(columns[i]).zip(weighted(j)).map(|(a, b)| a * b).sum::<f64>() / (lengths[i] * length)
            };
            (0..k).map(|j| inner(columns[j], lengths[j])).chain([inner(3, 1.0)]).collect()
        })
        .collect();
    for pivot in 0..k {
        let largest = (pivot..k).max_by(|a, b| system[*a][pivot].abs().total_cmp(&system[*b][pivot].abs()))?;
        system.swap(pivot, largest);
        // Columns of length 1 that differ by less than this cannot be told apart in double precision.
        if system[pivot][pivot].abs() < 1e-13 {
            return None;
        }
        let row = system[pivot].clone();
        for (_, other) in system.iter_mut().enumerate().filter(|(i, _)| *i != pivot) {
            let factor = other[pivot] / row[pivot];
            other.iter_mut().zip(&row).for_each(|(a, b)| *a -= factor * b);
        }
    }
    let mut out = [0.0; 3];
    for (i, column) in columns.iter().enumerate() {
        out[*column] = system[i][k] / system[i][i] / lengths[i];
    }
    out.iter().all(|v| v.is_finite()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0];

    fn law(lambda: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
        let p = Parameters { lambda, sigma, kappa };
        LOADS.iter().map(|n| (*n, p.throughput(*n))).collect()
    }

    fn near(seen: f64, want: f64, relative: f64) -> bool {
        (seen - want).abs() <= relative * want.abs() + 1e-9
    }

    #[test]
    fn the_example_of_a_published_fit_is_found() {
        // The ray tracer of Gunther 2007, ch. 5, data set `raytracer` of the R package usl, whose documentation fits a peak
        // "just below 450 processors", which with its sigma of 0.05 is a kappa of 5e-6.
        let measured = [(1.0, 20.0), (4.0, 78.0), (8.0, 130.0), (12.0, 170.0), (16.0, 190.0), (20.0, 200.0)];
        let more = [(24.0, 210.0), (28.0, 230.0), (32.0, 260.0), (48.0, 280.0), (64.0, 310.0)];
        let usl = fit(&[&measured[..], &more].concat(), 1).unwrap();
        assert!((0.03..0.07).contains(&usl.sigma.value), "{:?}", usl.sigma);
        assert!(usl.kappa.value < 1e-4 && usl.peak.value > 64.0, "{:?} {:?}", usl.kappa, usl.peak);
        assert!(usl.sigma.low <= 0.05 && 0.05 <= usl.sigma.high, "{:?}", usl.sigma);
    }

    #[test]
    fn a_proxy_that_met_in_a_lock_is_told_to_stop_at_its_plateau() {
        // "A 32-core nginx proxy that stops scaling" (cases from the field, F1): growth in proportion up to few workers, then
        // 4.61, 28.84 and 38.34 % of the samples at 10, 16 and 22 workers of the proxy in the spin part of a lock, and at 22 the
        // CPUs only 86 % busy. What is not spent in the lock is what the workers do: their throughput in units of one worker.
        let in_proportion = [2.0, 4.0, 6.0, 8.0].map(|n| (n, n));
        let recorded =
            [(10.0, 10.0 * (1.0 - 0.0461)), (16.0, 16.0 * (1.0 - 0.2884)), (22.0, 22.0 * (1.0 - 0.3834) * 0.86)];
        let usl = fit(&[&in_proportion[..], &recorded].concat(), 1).unwrap();
        // The investigators: throughput hardly moves from 16 to 22, where growth in proportion would be 37.5 %.
        let growth = usl.at(22.0).value / usl.at(16.0).value;
        assert!((1.0..1.1).contains(&growth), "{growth}");
        // Not one thing for which all queue, but workers that get into each other's way: more of them make it worse.
        assert!(usl.kappa.low > 0.0 && (16.0..32.0).contains(&usl.peak.value), "{:?} {:?}", usl.kappa, usl.peak);
        assert!(usl.at(32.0).value < usl.at(22.0).value);
    }

    #[test]
    fn the_intervals_hold_the_truth_about_as_often_as_they_say() {
        let (sigma, kappa) = (0.05, 0.001);
        let truth = Parameters { lambda: 1000.0, sigma, kappa };
        let mut held = [0; 4];
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let noisy = |(n, x): &(f64, f64)| (*n, x * random.normal(0.0, 0.02).exp());
            let trials: Vec<(f64, f64)> = law(1000.0, sigma, kappa).iter().map(noisy).collect();
            let usl = fit(&trials, seed).unwrap();
            let holds = |e: Estimate, truth: f64| usize::from(e.low <= truth && truth <= e.high);
            held[0] += holds(usl.sigma, sigma);
            held[1] += holds(usl.kappa, kappa);
            held[2] += holds(usl.peak, truth.peak());
            held[3] += holds(usl.at(48.0), truth.throughput(48.0));
        }
        // 95 % of 200 are 190, and the band of three standard errors is +- 9.
        assert!(held.iter().all(|n| (181..=199).contains(n)), "{held:?}");
    }

    #[test]
    fn without_crosstalk_there_is_no_peak() {
        let usl = fit(&law(1000.0, 0.1, 0.0), 1).unwrap();
        assert!(usl.kappa.value < 1e-9 && usl.peak.high > 1e3, "{usl:?}");
    }

    #[test]
    fn too_little_to_tell_is_none() {
        assert_eq!(fit(&law(1000.0, 0.1, 0.0)[..3], 1), None);
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 1.1), (2.0, 2.0), (2.0, 2.1), (3.0, 3.0), (3.0, 3.1)], 1), None);
        assert_eq!(fit(&[(1.0, 1.0), (2.0, 0.0), (3.0, 1.0), (4.0, 2.0), (5.0, 2.0)], 1), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn known_parameters_come_back(lambda in 1.0f64..1e5, sigma in 0.001f64..0.5, kappa in 1e-5f64..0.01) {
            let usl = fit(&law(lambda, sigma, kappa), 1).unwrap();
            prop_assert!(near(usl.lambda.value, lambda, 1e-6), "{usl:?}");
            prop_assert!(near(usl.sigma.value, sigma, 1e-4) && near(usl.kappa.value, kappa, 1e-4), "{usl:?}");
            let truth = Parameters { lambda, sigma, kappa };
            prop_assert!(near(usl.at(100.0).value, truth.throughput(100.0), 1e-4));
        }

        #[test]
        fn the_unit_of_throughput_does_not_matter(k in 1e-3f64..1e6, seed in 0u64..1000) {
            let mut random = Random::new(seed);
            let noisy = |(n, x): (f64, f64)| (n, x * random.normal(0.0, 0.03).exp());
            let trials: Vec<(f64, f64)> = law(1000.0, 0.05, 0.0005).into_iter().map(noisy).collect();
            let times: Vec<(f64, f64)> = trials.iter().map(|(n, x)| (*n, x * k)).collect();
            let (one, other) = (fit(&trials, 7).unwrap(), fit(&times, 7).unwrap());
            prop_assert!(near(other.lambda.value, one.lambda.value * k, 1e-6));
            for (a, b) in [(one.sigma, other.sigma), (one.kappa, other.kappa)] {
                prop_assert!(near(a.value, b.value, 1e-5) && near(a.low, b.low, 1e-4) && near(a.high, b.high, 1e-4));
            }
        }

        #[test]
        fn an_interval_holds_its_estimate(seed in 0u64..200) {
            let mut random = Random::new(seed);
            let trials: Vec<(f64, f64)> =
                law(500.0, 0.2, 0.002).into_iter().map(|(n, x)| (n, x * random.normal(0.0, 0.05).exp())).collect();
            let usl = fit(&trials, seed).unwrap();
            for e in [usl.lambda, usl.sigma, usl.kappa, usl.peak, usl.at(64.0)] {
                prop_assert!(e.low <= e.value && e.value <= e.high, "{e:?}");
            }
        }
    }
}
