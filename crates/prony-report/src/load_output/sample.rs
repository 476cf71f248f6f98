//! A small load in open loop, made up: nothing here was measured. For the tests of the forms.

#![allow(clippy::unwrap_used, reason = "a sample that does not stand is a failed test")]

use super::LoadOutput;
use prony_model::load::{Gate, ThreadUse};
use prony_model::{ErrorCounts, Latency, LoadInterval, LoadPlan, LoadResult, Nanos, Rate, ThresholdResult};
use prony_stats::Histogram;

/// 2026-11-20 23:15:01.25 UTC.
pub const BEGAN_UNIX_MS: u64 = 1_795_216_501_250;

/// A latency of these milliseconds.
pub fn latency(values_ms: impl IntoIterator<Item = u64>) -> Latency {
    let mut histogram = Histogram::new();
    values_ms.into_iter().for_each(|ms| histogram.record_ns(ms * 1_000_000));
    histogram.to_latency()
}

/// Three seconds of 100 answers each, of 1 to 100 ms; nobody answers in the last.
pub fn result() -> LoadResult {
    let interval = |n: u64, completed: u64, latency: Latency| LoadInterval {
        from: Nanos(n * 1_000_000_000),
        to: Nanos((n + 1) * 1_000_000_000),
        intended: 101,
        sent: 101,
        completed,
        failed: n,
        latency,
    };
    LoadResult {
        counted_from_unix_ms: BEGAN_UNIX_MS,
        duration_s: 4.0,
        intended: 404,
        sent: 404,
        completed: 300,
        good_per_s: 74.5,
        completed_per_s: 75.0,
        bytes_in: 48_000,
        bytes_out: 30_000,
        connections_opened: 8,
        errors: ErrorCounts { status: 2, timeout: 4, ..ErrorCounts::default() },
        statuses: [(200, 298), (503, 2)].into(),
        latency: latency((0..300).map(|n| 1 + n % 100)),
        latency_actual: latency((0..300).map(|n| 1 + n % 50)),
        schedule_lag: latency([1; 300]),
        per_second: vec![100, 100, 100, 0],
        intervals: (0..4)
            .map(|n| match n {
                3 => interval(n, 0, Latency::default()),
                _ => interval(n, 100, latency(1..=100)),
            })
            .collect(),
        threads: vec![ThreadUse {
            user_us: 100_000.0,
            system_us: 150_000.0,
            wall_us: 4e6,
            waited_us: None,
            spun_us: 0.0,
        }],
        in_flight_mean: 3.75,
        gates: vec![Gate { name: "cpu".into(), held: true, detail: "6 %".into(), generator_limited: true }],
        ..LoadResult::default()
    }
}

/// Calls `f` with the sample.
pub fn with<T>(f: impl FnOnce(&LoadOutput<'_>) -> T) -> T {
    let plan = LoadPlan {
        connections: 8,
        rate: Some(Rate(101.0)),
        duration: Nanos(4_000_000_000),
        ..LoadPlan::to("http://10.77.0.2:8080/a?b=\"c\"")
    };
    let seen = |text: &str, measured, unit: &str, held| ThresholdResult {
        threshold: text.parse().unwrap(),
        measured,
        unit: unit.to_string(),
        held,
    };
    let thresholds = [
        seen("p(95)<20ms", Some(100_000.0), "us", false),
        seen("errors<5%", Some(6.0 / 304.0), "share", true),
        seen("rate>50", Some(74.5), "/s", true),
        seen("count>=200", Some(298.0), "", true),
        seen("lag_p99<1ms", None, "us", false),
    ];
    let result = result();
    f(&LoadOutput { plan: &plan, result: &result, thresholds: &thresholds })
}
