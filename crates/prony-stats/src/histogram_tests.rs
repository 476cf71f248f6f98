//! Merging many histograms, as a load of many threads, trials and machines does: the result is that of one histogram which
//! took every value, whatever the order.
//!
//! Histograms are merged as they travel: as text, which is short where few values are. What two have to do with each other
//! stands in `histogram.rs`.

use crate::{Histogram, Random, merge_latencies};
use prony_model::Latency;
use proptest::prelude::*;

/// More than the trials of any session.
const PARTS: usize = 1000;
/// Cases of each property. A guess: each makes and reads a thousand histograms, which takes a debug build about a second.
const CASES: u32 = 6;
/// Every quantile that is told, the ends, and some between.
const QUANTILES: [f64; 12] = [0.0, 0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0];

/// The histograms of many loads, and one that took all of their values.
struct Parts {
    latencies: Vec<Latency>,
    whole: Histogram,
}

impl Parts {
    /// `values_max`: most values in a part; some have none. `spread`: decades over which latencies lie.
    fn new(seed: u64, values_max: u64, spread: f64) -> Self {
        let mut random = Random::new(seed);
        let mut whole = Histogram::new();
        let mut part = Histogram::new();
        let latencies = (0..PARTS).map(|_| {
            part.clear();
            // Loads differ: each has a typical latency of its own.
            let typical_ns = 10f64.powf(3.0 + spread * random.uniform());
            for _ in 0..random.below(values_max + 1) {
                let latency_ns = random.exponential(typical_ns) as u64;
                part.record_ns(latency_ns);
                whole.record_ns(latency_ns);
            }
            part.to_latency()
        });
        Self { latencies: latencies.collect(), whole }
    }

    fn read(latency: &Latency) -> Histogram {
        Histogram::from_hdr_v2(&latency.hdr_v2).expect("it was just written")
    }

    /// One after the other.
    fn merged(&self) -> Histogram {
        let mut all = Histogram::new();
        self.latencies.iter().for_each(|latency| all.merge(&Self::read(latency)));
        all
    }

    /// Neighbours first, then their sums: as hosts merge their threads, and a controller its hosts.
    fn merged_in_pairs(latencies: &[Latency]) -> Histogram {
        match latencies {
            [] => Histogram::new(),
            [one] => Self::read(one),
            many => {
                let (left, right) = many.split_at(many.len() / 2);
                let mut all = Self::merged_in_pairs(left);
                all.merge(&Self::merged_in_pairs(right));
                all
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn a_thousand_merged_are_one_that_took_all(seed: u64, values_max in 1u64..40, spread in 0.0f64..8.0) {
        let parts = Parts::new(seed, values_max, spread);
        let merged = parts.merged();
        for q in QUANTILES {
            prop_assert_eq!(merged.quantile_us(q), parts.whole.quantile_us(q), "quantile {}", q);
        }
        prop_assert_eq!(merged.count(), parts.whole.count());
        prop_assert_eq!(merged.to_latency(), parts.whole.to_latency(), "mean, deviation and extremes as well");
        prop_assert_eq!(&merged, &parts.whole, "every bucket");
    }

    #[test]
    fn the_order_does_not_matter(seed: u64, values_max in 1u64..40, spread in 0.0f64..8.0) {
        let mut parts = Parts::new(seed, values_max, spread);
        let in_order = parts.merged();
        prop_assert_eq!(&Parts::merged_in_pairs(&parts.latencies), &in_order, "in pairs");
        Random::new(!seed).shuffle(&mut parts.latencies);
        prop_assert_eq!(&parts.merged(), &in_order, "shuffled");
        let listed: Vec<&Latency> = parts.latencies.iter().rev().collect();
        prop_assert_eq!(merge_latencies(&listed).expect("they were just written"), in_order.to_latency(), "backwards");
    }
}

/// What everybody is warned of: the mean of percentiles is not the percentile.
#[test]
fn the_test_would_see_averaged_percentiles() {
    let parts = Parts::new(1, 40, 4.0);
    let filled: Vec<f64> = parts.latencies.iter().filter(|l| l.count > 0).map(|l| l.p99_us).collect();
    let averaged = filled.iter().sum::<f64>() / filled.len() as f64;
    let truth = parts.whole.quantile_us(0.99);
    assert!((averaged / truth - 1.0).abs() > 0.1, "{averaged} and {truth}");
}
