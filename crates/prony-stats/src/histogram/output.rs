//! What the file formats of others ask of a histogram: rows of quantiles, counts below bounds, the deflated text.
//!
//! It writes no file and knows no format's columns. Invariant: nothing here changes a histogram.

use super::{BASE64, Histogram, us};
use base64::Engine as _;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// Rows in each half of the distance to 100 %: the default of HdrHistogram's `outputPercentileDistribution`.
const TICKS_PER_HALF: u32 = 5;

/// One row of a quantile distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantileRow {
    /// The value in microseconds that the quantile does not exceed.
    pub value_us: f64,
    /// The quantile, from 0 to 1; the last row has 1.
    pub quantile: f64,
    /// Values up to this one.
    pub count: u64,
}

impl Histogram {
    /// The mean in microseconds; 0 without values.
    pub fn mean_us(&self) -> f64 {
        self.hdr.mean() / 1e3
    }

    /// The standard deviation in microseconds; 0 without values.
    pub fn stdev_us(&self) -> f64 {
        self.hdr.stdev() / 1e3
    }

    /// The largest value in microseconds; 0 without values.
    pub fn max_us(&self) -> f64 {
        us(self.hdr.max())
    }

    /// Buckets that HdrHistogram divides the range of values into, each twice as wide as the one before.
    pub fn buckets(&self) -> u8 {
        self.hdr.buckets()
    }

    /// Quantiles in steps that halve with each halving of the distance to 100 %, as HdrHistogram's own texts have them
    /// (`AbstractHistogram.outputPercentileDistribution`). Empty without values.
    pub fn quantile_rows(&self) -> Vec<QuantileRow> {
        let mut count = 0;
        let rows = self.hdr.iter_quantiles(TICKS_PER_HALF).map(|step| {
            count += step.count_since_last_iteration();
            QuantileRow { value_us: us(step.value_iterated_to()), quantile: step.quantile_iterated_to(), count }
        });
        if self.count() == 0 { Vec::new() } else { rows.collect() }
    }

    /// How many values are at most each bound. `bounds_us` rise. A value within 0.1 % of a bound may count on either side:
    /// the histogram holds no more digits.
    pub fn counts_up_to_us(&self, bounds_us: &[f64]) -> Vec<u64> {
        let mut counts = vec![0; bounds_us.len()];
        for step in self.hdr.iter_recorded() {
            let middle_us = us(self.hdr.median_equivalent(step.value_iterated_to()));
            let first = bounds_us.partition_point(|bound| *bound < middle_us);
            counts[first..].iter_mut().for_each(|count| *count += step.count_at_value());
        }
        counts
    }

    /// The histogram as an interval log holds it: HdrHistogram V2 format, deflated, in base64. Values are nanoseconds.
    pub fn to_hdr_v2_deflated(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.hdr, &mut bytes)
            .expect("counts stay below 2^63, and a Vec takes all bytes");
        BASE64.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of(values_ns: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values_ns.into_iter().for_each(|v| histogram.record_ns(v));
        histogram
    }

    #[test]
    fn rows_of_the_numbers_to_a_thousand() {
        let rows = of((1..=1000).map(|ms| ms * 1_000_000)).quantile_rows();
        let near = |q: f64| rows.iter().find(|r| r.quantile >= q).copied().unwrap();
        assert!(rows.iter().all(|r| (0.0..0.002).contains(&(r.count as f64 / 1e3 - r.quantile))), "{rows:?}");
        assert!((near(0.5).value_us / 500_000.0 - 1.0).abs() < 1e-3, "{rows:?}");
        assert_eq!((rows[0].quantile, rows[0].count), (0.0, 1));
        let last = rows.last().unwrap();
        assert_eq!((last.quantile, last.count), (1.0, 1000));
        assert_eq!(of([]).quantile_rows(), []);
    }

    #[test]
    fn deflated_text_is_the_same_histogram() {
        let histogram = of([1_000, 20_000, 3_000_000_000]);
        let text = histogram.to_hdr_v2_deflated();
        assert!(text.starts_with("HISTFAAA"), "{text}");
        let read = Histogram::from_hdr_v2(&text).unwrap();
        assert_eq!(read, histogram);
    }

    proptest! {
        #[test]
        fn counts_rise_to_the_whole(values in vec(0u64..=60_000_000_000, 0..200)) {
            let bounds = [10.0, 1e3, 2.5e5, 1e6, 6.1e7];
            let counts = of(values.clone()).counts_up_to_us(&bounds);
            prop_assert!(counts.windows(2).all(|w| w[0] <= w[1]));
            prop_assert_eq!(counts[4], values.len() as u64);
            for (bound, count) in bounds.iter().zip(counts) {
                let within = |slack: f64| values.iter().filter(|v| **v as f64 / 1e3 <= bound * slack).count() as u64;
                prop_assert!(within(0.995) <= count && count <= within(1.005), "{} up to {}", count, bound);
            }
        }
    }
}
