//! Latency histograms: record, merge, summarise, write as text, read back.
//!
//! This file does not time anything; it is handed nanoseconds.
//! Invariant: percentiles of several histograms come from merging them, never from averaging percentiles.

mod output;

pub use output::QuantileRow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use prony_model::Latency;

/// Smallest difference that is kept apart at the short end, in nanoseconds (HdrHistogram rounds it down to 64 ns).
/// 100 ns keeps three digits from 64 us upwards; 1 us would lump 20 us and 20.5 us, 2.5 % apart, into one.
const LOWEST_NS: u64 = 100;
/// Longest latency that is told apart, in nanoseconds: 60 s, as in wrk; longer ones count as this.
const HIGHEST_NS: u64 = 60_000_000_000;
/// Significant digits: errors of a quantile stay below 0.1 %. The customary value of HdrHistogram users (wrk2).
const DIGITS: u8 = 3;
/// Steps of the percentile plot. A guess: enough that the eye sees a curve.
const PLOT_STEPS: u32 = 50;
/// Decades of `1 - quantile` that the percentile plot covers: five end at 99.999 %.
const PLOT_DECADES: f64 = 5.0;

/// A histogram of durations. About 170 KB; made once, then recorded into without allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    hdr: Hdr<u64>,
}

/// Why a text is no histogram.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// The text is not base64.
    #[error("histogram text is not base64 ({0}): was it cut or edited?")]
    NotBase64(#[from] base64::DecodeError),
    /// The bytes are not HdrHistogram V2.
    #[error("histogram bytes are not in HdrHistogram V2 format ({0}): was the text cut or edited?")]
    NotV2(#[from] hdrhistogram::serialization::DeserializeError),
    /// The histogram holds values that this one cannot.
    #[error("histogram holds a value above 60 s: it was not written by prony")]
    TooLong,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let hdr = Hdr::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS).expect("the bounds are constants that fit");
        Self { hdr }
    }

    /// Records one duration in nanoseconds; above 60 s it counts as 60 s. Does not allocate.
    #[inline]
    pub fn record_ns(&mut self, duration_ns: u64) {
        self.hdr.saturating_record(duration_ns.min(HIGHEST_NS));
    }

    /// Adds every value of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.hdr.add(&other.hdr).expect("both have the same bounds");
    }

    /// Takes away every value of `other`, a part of what was recorded here.
    ///
    /// # Panics
    /// When `other` has a value that this one has not.
    pub fn subtract(&mut self, other: &Self) {
        self.hdr.subtract(&other.hdr).expect("the other is a part of this one");
    }

    /// Forgets every value and keeps the memory.
    pub fn clear(&mut self) {
        self.hdr.reset();
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.hdr.len()
    }

    /// The value in microseconds that a share `q` of all values does not exceed; 0 when there are none.
    ///
    /// The rank is `ceil(q * count)`, and the upper end of its bucket is given (HdrHistogram, `getValueAtPercentile`).
    pub fn quantile_us(&self, q: f64) -> f64 {
        us(self.hdr.value_at_quantile(q))
    }

    /// (percentile, microseconds) for a latency-percentile plot: even steps of log10(1 - quantile), from 0 to 99.999.
    ///
    /// The axis is that of HdrHistogram's plots (hdrhistogram.github.io/HdrHistogram/plotFiles.html). Empty without values.
    pub fn percentile_points(&self) -> Vec<(f64, f64)> {
        if self.count() == 0 {
            return Vec::new();
        }
        let quantile = |step: u32| 1.0 - 10f64.powf(-PLOT_DECADES * f64::from(step) / f64::from(PLOT_STEPS));
        (0..=PLOT_STEPS).map(quantile).map(|q| (100.0 * q, self.quantile_us(q))).collect()
    }

    /// The summary, with the histogram itself inside. Empty (all 0, no text) without values.
    pub fn to_latency(&self) -> Latency {
        if self.count() == 0 {
            return Latency::default();
        }
        Latency {
            count: self.count(),
            mean_us: self.hdr.mean() / 1e3,
            stdev_us: self.hdr.stdev() / 1e3,
            p50_us: self.quantile_us(0.5),
            p75_us: self.quantile_us(0.75),
            p90_us: self.quantile_us(0.9),
            p99_us: self.quantile_us(0.99),
            p999_us: self.quantile_us(0.999),
            p9999_us: self.quantile_us(0.9999),
            max_us: us(self.hdr.max()),
            hdr_v2: self.to_hdr_v2(),
        }
    }

    /// The histogram as text: HdrHistogram V2 format (not deflated), in base64. Values are nanoseconds.
    pub fn to_hdr_v2(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.hdr, &mut bytes)
            .expect("counts stay below 2^63, and a Vec takes all bytes");
        BASE64.encode(bytes)
    }

    /// Reads what [`Self::to_hdr_v2`] wrote; the empty text is an empty histogram.
    ///
    /// # Errors
    /// When the text is not base64, not V2 format, or holds values that no histogram of prony holds.
    pub fn from_hdr_v2(text: &str) -> Result<Self, HistogramError> {
        let mut histogram = Self::new();
        if !text.is_empty() {
            let bytes = BASE64.decode(text)?;
            let hdr: Hdr<u64> = Deserializer::new().deserialize(&mut bytes.as_slice())?;
            histogram.hdr.add(&hdr).map_err(|_| HistogramError::TooLong)?;
        }
        Ok(histogram)
    }
}

/// One latency for several trials: their histograms merged.
///
/// # Errors
/// When one of the histograms cannot be read.
pub fn merge_latencies(latencies: &[&Latency]) -> Result<Latency, HistogramError> {
    let mut all = Histogram::new();
    for latency in latencies {
        all.merge(&Histogram::from_hdr_v2(&latency.hdr_v2)?);
    }
    Ok(all.to_latency())
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of(values_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values_ns.iter().for_each(|v| histogram.record_ns(*v));
        histogram
    }

    #[test]
    fn nothing_recorded_is_nothing() {
        let empty = Histogram::new();
        assert_eq!(empty.to_latency(), Latency::default());
        assert_eq!(empty.percentile_points(), []);
        assert_eq!(Histogram::from_hdr_v2("").unwrap(), empty);
    }

    #[test]
    fn too_long_counts_as_a_minute() {
        let latency = of(&[u64::MAX, 1]).to_latency();
        assert_eq!(latency.count, 2);
        assert!((latency.max_us / 60e6 - 1.0).abs() < 1e-3, "{}", latency.max_us);
    }

    #[test]
    fn other_texts_are_errors() {
        let cut = of(&[5000, 7000]).to_hdr_v2();
        for text in ["no base64!", "AAAA", &cut[..cut.len() - 8]] {
            assert!(Histogram::from_hdr_v2(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_plot_goes_from_the_least_to_five_nines() {
        let points = of(&(1..=1000).map(|v| v * 1000).collect::<Vec<_>>()).percentile_points();
        assert_eq!(points.len(), 51);
        assert_eq!(points[0].0, 0.0);
        assert!((points[50].0 - 99.999).abs() < 1e-9);
        assert!((points[50].1 - 1000.0).abs() <= 1.0, "{:?}", points[50]);
    }

    proptest! {
        #[test]
        fn quantiles_never_fall_and_are_close(mut values in vec(0u64..=HIGHEST_NS, 1..200), q in 0.0f64..1.0) {
            let histogram = of(&values);
            let points = histogram.percentile_points();
            prop_assert!(points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let (want, got) = (values[rank - 1] as f64 / 1e3, histogram.quantile_us(q));
            prop_assert!((got - want).abs() <= (1e-3 * want).max(0.064), "{got} is not {want}");
        }

        #[test]
        fn merging_is_recording_all(a in vec(0u64..1 << 34, 0..100), b in vec(0u64..1 << 34, 0..100)) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all = of(&[a.as_slice(), b.as_slice()].concat());
            prop_assert_eq!(&merged, &all);
            let latencies = [of(&a).to_latency(), of(&b).to_latency()];
            prop_assert_eq!(merge_latencies(&[&latencies[0], &latencies[1]]).unwrap(), all.to_latency());
        }

        #[test]
        fn text_and_back_is_the_same(values in vec(any::<u64>(), 0..100)) {
            let histogram = of(&values);
            prop_assert_eq!(Histogram::from_hdr_v2(&histogram.to_hdr_v2()).unwrap(), histogram);
        }

        #[test]
        fn no_text_panics(text in "[A-Za-z0-9+/]{0,80}") {
            drop(Histogram::from_hdr_v2(&text));
        }
    }
}
