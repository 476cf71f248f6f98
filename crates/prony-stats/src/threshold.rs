//! Thresholds held against what was measured: at the end of a load, and while it runs.
//!
//! Pure; what a threshold is, and how it is written, is in [`prony_model::threshold`]. Invariant: what could not be measured
//! did not hold, and a load is never stopped early by a value that may still come right by its end.

use crate::Histogram;
use prony_model::threshold::{Comparison, Measure, Threshold, ThresholdResult};
use prony_model::{ErrorCounts, Latency, LoadProgress, LoadResult, Nanos};

/// Counted time before a threshold may end a load. A guess: a percentile of the first moments says nothing.
const GRACE: Nanos = Nanos(2_000_000_000);

/// Measures every threshold on a finished load, in their order.
pub fn evaluate(thresholds: &[Threshold], result: &LoadResult) -> Vec<ThresholdResult> {
    if thresholds.is_empty() {
        return Vec::new();
    }
    let (latency, lag) = (histogram(&result.latency), histogram(&result.schedule_lag));
    let sight = Sight::of(result, &latency, &lag);
    thresholds.iter().map(|t| sight.judge(t)).collect()
}

/// One measure of a finished load, in its unit; none when there is nothing to measure.
pub fn measure(measure: Measure, result: &LoadResult) -> Option<f64> {
    Sight::of(result, &histogram(&result.latency), &histogram(&result.schedule_lag)).measure(measure)
}

/// Watches a running load, to end it as soon as a threshold is broken for good or has not held since the grace time.
///
/// Not watched: the schedule lag, of which a running load tells no histogram, the bandwidth, of which it tells nothing, and
/// counts that must still be reached.
pub struct EarlyStop {
    watched: Vec<Threshold>,
    warmup: Nanos,
    latency: Histogram,
}

impl EarlyStop {
    /// Watches those of `thresholds` that can be told before the end, of a load with this warm-up.
    pub fn new(thresholds: &[Threshold], warmup: Nanos) -> Self {
        let watched = thresholds.iter().filter(|t| told_early(t)).cloned().collect();
        Self { watched, warmup, latency: Histogram::new() }
    }

    /// Takes the next progress of the load, none left out. The first threshold that is broken, if one is: stop the load.
    pub fn observe(&mut self, progress: &LoadProgress) -> Option<ThresholdResult> {
        if self.watched.is_empty() || progress.warming_up {
            return None;
        }
        self.latency.merge(&histogram(&progress.latency));
        let counted = progress.elapsed.since(self.warmup);
        if counted < GRACE {
            return None;
        }
        let sight = Sight {
            latency: &self.latency,
            lag: &Histogram::new(),
            completed: progress.completed,
            errors: &progress.errors,
            bytes_in: None,
            seconds: counted.as_secs_f64(),
        };
        self.watched.iter().map(|t| sight.judge(t)).find(|seen| !seen.held)
    }
}

fn told_early(threshold: &Threshold) -> bool {
    match (threshold.measure, threshold.comparison) {
        (Measure::LagQuantile(_) | Measure::Bandwidth, _) => false,
        (Measure::Count, Comparison::Above | Comparison::AtLeast | Comparison::Equal) => false,
        (
            Measure::Quantile(_)
            | Measure::Mean
            | Measure::Max
            | Measure::Errors
            | Measure::Checks
            | Measure::Rate
            | Measure::Count,
            _,
        ) => true,
    }
}

/// A latency without a readable histogram is one without values.
fn histogram(latency: &Latency) -> Histogram {
    Histogram::from_hdr_v2(&latency.hdr_v2).unwrap_or_default()
}

/// What a threshold can see of a load.
struct Sight<'a> {
    latency: &'a Histogram,
    lag: &'a Histogram,
    completed: u64,
    errors: &'a ErrorCounts,
    /// Not told while a load runs.
    bytes_in: Option<u64>,
    seconds: f64,
}

impl<'a> Sight<'a> {
    fn of(result: &'a LoadResult, latency: &'a Histogram, lag: &'a Histogram) -> Self {
        Self {
            latency,
            lag,
            completed: result.completed,
            errors: &result.errors,
            bytes_in: Some(result.bytes_in),
            seconds: result.duration_s,
        }
    }

    fn judge(&self, threshold: &Threshold) -> ThresholdResult {
        let measured = self.measure(threshold.measure);
        ThresholdResult {
            threshold: threshold.clone(),
            measured,
            unit: threshold.measure.unit().to_string(),
            held: measured.is_some_and(|value| threshold.comparison.holds(value, threshold.limit)),
        }
    }

    /// The value in the measure's unit; none when there is nothing to measure.
    fn measure(&self, measure: Measure) -> Option<f64> {
        let some = |histogram: &Histogram, value: f64| (histogram.count() > 0).then_some(value);
        match measure {
            Measure::Quantile(q) => some(self.latency, self.latency.quantile_us(q)),
            Measure::Mean => some(self.latency, self.latency.mean_us()),
            Measure::Max => some(self.latency, self.latency.max_us()),
            Measure::LagQuantile(q) => some(self.lag, self.lag.quantile_us(q)),
            Measure::Errors => self.error_share(),
            Measure::Checks => (self.completed > 0).then(|| 1.0 - self.errors.check as f64 / self.completed as f64),
            Measure::Rate => (self.seconds > 0.0).then(|| self.good() as f64 / self.seconds),
            Measure::Bandwidth => self.bytes_in.filter(|_| self.seconds > 0.0).map(|n| n as f64 * 8.0 / self.seconds),
            Measure::Count => Some(self.good() as f64),
        }
    }

    /// Answers that were complete, had a status below 400, and passed the checks. Of a running load the counts are read one
    /// after another, so a difference may be a few off, and must not wrap around.
    fn good(&self) -> u64 {
        self.completed.saturating_sub(self.errors.status).saturating_sub(self.errors.check)
    }

    fn error_share(&self) -> Option<f64> {
        let answered_badly = self.errors.status + self.errors.check;
        let ended = (self.completed + self.errors.total()).saturating_sub(answered_badly);
        (ended > 0).then(|| self.errors.total() as f64 / ended as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn latency(values_ms: impl IntoIterator<Item = u64>) -> Latency {
        let mut histogram = Histogram::new();
        values_ms.into_iter().for_each(|ms| histogram.record_ns(ms * 1_000_000));
        histogram.to_latency()
    }

    fn thresholds(texts: &[&str]) -> Vec<Threshold> {
        texts.iter().map(|t| t.parse().unwrap()).collect()
    }

    fn line(seen: &ThresholdResult) -> String {
        let measured = seen.measured.map_or("none".to_string(), |v| format!("{v:.4}"));
        format!("{} {} {measured}{}\n", if seen.held { "held" } else { "broken" }, seen.threshold, seen.unit)
    }

    fn check(result: &LoadResult, texts: &[&str], want: Expect) {
        want.assert_eq(&evaluate(&thresholds(texts), result).iter().map(line).collect::<String>());
    }

    #[test]
    fn every_measure_is_held_against_its_limit() {
        let result = LoadResult {
            duration_s: 10.0,
            completed: 1000,
            errors: ErrorCounts { status: 10, check: 20, timeout: 10, ..Default::default() },
            latency: latency(1..=1000),
            schedule_lag: latency([1, 2, 3]),
            ..LoadResult::default()
        };
        let texts = [
            "p(95)<951ms",
            "p(95)<950ms",
            "p(99.9)<=1s",
            "med<501ms",
            "avg<1ms",
            "max<=1.1s",
            "errors<4%",
            "errors<3.9%",
            "checks>=98%",
            "rate>97",
            "rate>97.1",
            "count>=970",
            "lag_p99<4ms",
        ];
        check(
            &result,
            &texts,
            expect![[r#"
                held p(95)<951ms 950009.8550us
                broken p(95)<950ms 950009.8550us
                held p(99.9)<=1s 999292.9270us
                held med<501ms 500170.7510us
                broken avg<1ms 500500.3103us
                held max<=1.1s 1000341.5030us
                held errors<4% 0.0396share
                broken errors<3.9% 0.0396share
                held checks>=98% 0.9800share
                broken rate>97 97.0000/s
                broken rate>97.1 97.0000/s
                held count>=970 970.0000
                held lag_p99<4ms 3000.3190us
            "#]],
        );
    }

    #[test]
    fn what_was_not_measured_did_not_hold() {
        let texts = ["p(95)<1s", "max<1s", "errors<1%", "checks>0%", "rate<1", "count<1", "lag_p99<1s"];
        check(
            &LoadResult::default(),
            &texts,
            expect![[r#"
            broken p(95)<1s noneus
            broken max<1s noneus
            broken errors<1% noneshare
            broken checks>0% noneshare
            broken rate<1 none/s
            held count<1 0.0000
            broken lag_p99<1s noneus
        "#]],
        );
    }

    fn progress(completed: u64, errors: ErrorCounts, latency: Latency) -> LoadProgress {
        LoadProgress { completed, errors, latency, ..LoadProgress::default() }
    }

    /// When a load of 1 s warm-up is stopped, and by what.
    fn stopped(texts: &[&str], each_s: impl Fn(u64) -> LoadProgress) -> Option<(u64, String)> {
        let mut watch = EarlyStop::new(&thresholds(texts), Nanos(1_000_000_000));
        (1..20).find_map(|s| {
            let mut now = each_s(s);
            (now.elapsed, now.warming_up) = (Nanos(s * 1_000_000_000), s == 1);
            Some((s, line(&watch.observe(&now)?)))
        })
    }

    #[test]
    fn a_load_is_stopped_after_the_grace_time_only() {
        let slow = |_| progress(10, ErrorCounts::default(), latency([500]));
        assert_eq!(stopped(&["max<1s"], slow), None);
        assert_eq!(stopped(&["max<1s", "p(50)<400ms"], slow), Some((3, "broken p(50)<400ms 500170.7510us\n".into())));
        // Slow at the start only: by the grace time the median is right.
        let warms =
            |s| progress(10, ErrorCounts::default(), latency(vec![if s < 3 { 500 } else { 10 }; 1 + s as usize]));
        assert_eq!(stopped(&["p(50)<400ms"], warms), None);
    }

    #[test]
    fn what_may_still_come_right_stops_nothing() {
        let few = |s| progress(s, ErrorCounts::default(), latency([1]));
        assert_eq!(stopped(&["count>=100", "lag_p99<1us"], few), None);
        assert_eq!(stopped(&["count<=5"], few), Some((6, "broken count<=5 6.0000\n".into())));
        assert_eq!(stopped(&["rate>=2"], few).map(|(s, _)| s), Some(3));
        let failing = |s| progress(100, ErrorCounts { read: s, ..Default::default() }, latency([1]));
        assert_eq!(stopped(&["errors<5%"], failing).map(|(s, _)| s), Some(6));
    }
}
