//! What the reference server is told to do, and the latencies that follow from it: arithmetic only.
//!
//! Nothing here is measured. Invariant: a percentile is the smallest value that its share of all values does not exceed, taken
//! from all values by rank; nothing is interpolated or put into buckets.

use prony_stats::Random;

/// The percentiles that are compared, as shares.
pub(super) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

/// Values at [`QUANTILES`], in microseconds.
pub(super) type Percentiles = [f64; QUANTILES.len()];

/// How long the server takes for a request, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Service {
    Constant(u64),
    /// By its mean.
    Exponential(u64),
    /// Mostly `short`, with chance `share` `long`.
    Bimodal {
        short: u64,
        long: u64,
        share: f64,
    },
    /// Pareto from `least` on with this exponent, cut off at `most`.
    Pareto {
        least: u64,
        exponent: f64,
        most: u64,
    },
}

impl Service {
    /// So many service times; the same for the same seed.
    pub(super) fn draw(self, count: usize, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut one = || match self {
            Self::Constant(ns) => ns,
            Self::Exponential(mean) => random.exponential(mean as f64) as u64,
            Self::Bimodal { short, long, share } => {
                if random.uniform() < share {
                    long
                } else {
                    short
                }
            }
            // By inversion of the distribution that is left between the two ends (Devroye 1986, II.2).
            Self::Pareto { least, exponent, most } => {
                let kept = 1.0 - (least as f64 / most as f64).powf(exponent);
                (least as f64 * (1.0 - random.uniform() * kept).powf(-1.0 / exponent)) as u64
            }
        };
        (0..count).map(|_| one()).collect()
    }
}

/// Times in which the server sends nothing. Nanoseconds; `epoch_ns` is on the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stalls {
    pub(super) epoch_ns: u64,
    pub(super) first_ns: u64,
    pub(super) every_ns: u64,
    /// 0: no stalls.
    pub(super) length_ns: u64,
}

impl Stalls {
    /// When an answer that is ready at `at` goes out.
    pub(super) fn after(&self, at: u64) -> u64 {
        let Some(since) = at.checked_sub(self.epoch_ns + self.first_ns).filter(|_| self.length_ns > 0) else {
            return at;
        };
        let into = since % self.every_ns;
        if into < self.length_ns { at - into + self.length_ns } else { at }
    }
}

/// A request as the schedule has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Due {
    /// When it should begin.
    pub(super) intended: u64,
    /// When its answer is due.
    pub(super) due: u64,
}

/// The schedule: the i-th request begins at the i-th time and takes the i-th service time, again from the start when they run out.
pub(super) fn follow<'a>(
    intended: impl IntoIterator<Item = u64> + 'a,
    services: &'a [u64],
    stalls: Stalls,
) -> impl Iterator<Item = Due> + 'a {
    let due = move |(intended, service): (u64, &u64)| Due { intended, due: stalls.after(intended + service) };
    intended.into_iter().zip(services.iter().cycle()).map(due)
}

/// `count` times from `first` to `last`, evenly.
pub(super) fn even(first: u64, last: u64, count: usize) -> impl Iterator<Item = u64> {
    let gap = (last - first) as f64 / (count.max(2) - 1) as f64;
    (0..count).map(move |number| first + (number as f64 * gap) as u64)
}

/// Percentiles of values in nanoseconds, by rank `ceil(q n)`; none without values.
pub(super) fn percentiles(mut values_ns: Vec<u64>) -> Option<Percentiles> {
    values_ns.sort_unstable();
    let last = values_ns.len().checked_sub(1)?;
    let rank = |q: f64| (q * values_ns.len() as f64 - 1e-9).ceil() as usize;
    Some(QUANTILES.map(|q| values_ns[rank(q).saturating_sub(1).min(last)] as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_percentile_is_a_value_by_rank() {
        let values: Vec<u64> = (1..=10_000).rev().map(|v| v * 1000).collect();
        assert_eq!(percentiles(values), Some([5000.0, 9000.0, 9900.0, 9990.0, 9999.0]));
        assert_eq!(percentiles(vec![7000]), Some([7.0; 5]));
        assert_eq!(percentiles(Vec::new()), None);
    }

    #[test]
    fn a_stall_holds_back_what_is_due_within_it() {
        let stalls = Stalls { epoch_ns: 1000 * MS, first_ns: 100 * MS, every_ns: 50 * MS, length_ns: 20 * MS };
        let after = |ms: u64| stalls.after(ms * MS) / MS;
        assert_eq!([after(500), after(1099), after(1100), after(1119), after(1120)], [500, 1099, 1120, 1120, 1120]);
        assert_eq!([after(1149), after(1150), after(1170)], [1149, 1170, 1170]);
        assert_eq!(Stalls::default().after(5), 5, "no stalls");
    }

    /// One request per millisecond, 5 ms each, and 200 ms of every 5 s stalled: 4 % of all requests wait, evenly from 0 to 200 ms.
    #[test]
    fn latency_under_stalls_is_that_of_the_closed_form() {
        let stalls = Stalls { epoch_ns: 0, first_ns: 2500 * MS, every_ns: 5000 * MS, length_ns: 200 * MS };
        let services = Service::Constant(5 * MS).draw(1, 1);
        let latencies = follow(even(0, 9999 * MS, 10_000), &services, stalls).map(|d| d.due - d.intended).collect();
        let [p50, p90, p99, p999, p9999] = percentiles(latencies).unwrap();
        assert_eq!((p50, p90), (5000.0, 5000.0));
        for (told, share) in [(p99, 0.01), (p999, 0.001), (p9999, 0.0001)] {
            let want = 5000.0 + 200_000.0 * (1.0 - share / 0.04);
            assert!((told - want).abs() <= 1000.0, "{told} is not {want}: two requests per stall differ by a gap");
        }
    }

    #[test]
    fn service_times_are_as_described() {
        let draw = |service: Service| service.draw(200_000, 3);
        let mean = |values: &[u64]| values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!(draw(Service::Constant(7)).iter().all(|v| *v == 7));
        let exponential = draw(Service::Exponential(5 * MS));
        assert!((mean(&exponential) / 5e6 - 1.0).abs() < 0.01);
        assert!((percentiles(exponential).unwrap()[2] / (5e3 * 100f64.ln()) - 1.0).abs() < 0.02);
        let bimodal = draw(Service::Bimodal { short: MS, long: 20 * MS, share: 0.1 });
        assert!((bimodal.iter().filter(|v| **v == 20 * MS).count() as f64 / 200_000.0 - 0.1).abs() < 0.003);
        let pareto = draw(Service::Pareto { least: MS, exponent: 1.5, most: 1000 * MS });
        assert!(pareto.iter().all(|v| (MS..=1000 * MS).contains(v)));
        let [p50, _, p99, ..] = percentiles(pareto).unwrap();
        // 1 ms (1 - q)^(-1/1.5), as good as uncut there.
        assert!((p50 / 1587.4 - 1.0).abs() < 0.01 && (p99 / 21_544.0 - 1.0).abs() < 0.05, "{p50} {p99}");
        assert_eq!(Service::Exponential(MS).draw(9, 4), Service::Exponential(MS).draw(9, 4));
    }

    #[test]
    fn even_times_reach_from_first_to_last() {
        assert_eq!(even(10, 40, 4).collect::<Vec<_>>(), [10, 20, 30, 40]);
        assert_eq!(even(10, 40, 1).collect::<Vec<_>>(), [10]);
    }
}
