//! HdrHistogram's interval log, version 1.3: what `HistogramLogProcessor` and HistogramLogAnalyzer read.
//!
//! Histograms hold nanoseconds; the column of maxima is in milliseconds, as `HistogramLogWriter` writes it. Lines without a tag
//! are the latency of each interval; `actual` and `lag` are over the whole counted time and come only in open loop.

use super::LoadOutput;
use prony_model::{Latency, LoadInterval, Nanos, Utc};
use prony_stats::Histogram;

/// The log. A result without intervals gives one that covers the counted time.
pub fn log(output: &LoadOutput<'_>) -> String {
    let result = output.result;
    let began_s = result.counted_from_unix_ms as f64 / 1e3;
    let began = Utc::from_unix_ms(result.counted_from_unix_ms);
    let mut out = format!(
        "#[Written by prony {}: latency in nanoseconds, from the intended time of each request]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {began_s:.3} (seconds since epoch), {began}]\n\
         #[BaseTime: {began_s:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        env!("CARGO_PKG_VERSION")
    );
    let whole = |latency: &Latency| LoadInterval {
        to: Nanos::from_secs_f64(result.duration_s),
        latency: latency.clone(),
        ..LoadInterval::default()
    };
    if output.plan.is_open_loop() {
        out.push_str(&line("Tag=actual,", &whole(&result.latency_actual)));
        out.push_str(&line("Tag=lag,", &whole(&result.schedule_lag)));
    }
    if result.intervals.is_empty() {
        out.push_str(&line("", &whole(&result.latency)));
    } else {
        out.extend(result.intervals.iter().map(|interval| line("", interval)));
    }
    out
}

fn line(tag: &str, interval: &LoadInterval) -> String {
    let histogram = Histogram::from_hdr_v2(&interval.latency.hdr_v2).unwrap_or_default();
    let (from, length) = (interval.from.as_secs_f64(), interval.to.since(interval.from).as_secs_f64());
    let max_ms = histogram.max_us() / 1e3;
    format!("{tag}{from:.3},{length:.3},{max_ms:.3},{}\n", histogram.to_hdr_v2_deflated())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_output::sample;
    use base64::Engine as _;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use std::time::Duration;

    /// What a reader finds: (tag, begin in ms, count, largest in ms).
    fn read(log: &str) -> Vec<(String, u128, u64, u64)> {
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            match entry.unwrap() {
                LogEntry::StartTime(at) | LogEntry::BaseTime(at) => {
                    assert_eq!(at, Duration::from_millis(sample::BEGAN_UNIX_MS));
                }
                LogEntry::Interval(interval) => {
                    let bytes = base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram()).unwrap();
                    let hdr: hdrhistogram::Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                    assert!((interval.max() - hdr.max() as f64 / 1e6).abs() < 1e-3);
                    let tag = interval.tag().map(|t| t.as_str().to_string()).unwrap_or_default();
                    found.push((tag, interval.start_timestamp().as_millis(), hdr.len(), hdr.max() / 1_000_000));
                }
            }
        }
        found
    }

    #[test]
    fn the_crate_reads_it_back() {
        let log = sample::with(log);
        assert!(log.lines().filter(|l| !l.starts_with(['#', '"'])).all(|l| l.contains(",HISTFAAA")), "{log}");
        let whole = |tag: &str, max_ms| (tag.to_string(), 0, 300, max_ms);
        let interval = |from_ms, count, max_ms| (String::new(), from_ms, count, max_ms);
        let want = vec![
            whole("actual", 50),
            whole("lag", 1),
            interval(0, 100, 100),
            interval(1000, 100, 100),
            interval(2000, 100, 100),
            interval(3000, 0, 0),
        ];
        assert_eq!(read(&log), want);
    }

    #[test]
    fn without_intervals_it_is_one() {
        let log = sample::with(|output| {
            let mut result = output.result.clone();
            result.intervals.clear();
            log(&LoadOutput { result: &result, ..*output })
        });
        assert_eq!(read(&log).last().unwrap(), &(String::new(), 0, 300, 100));
        assert!(log.contains("\n0.000,4.000,100."), "{log}");
    }
}
