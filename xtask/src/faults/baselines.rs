//! Two simple methods on the same run, to be held beside the diagnosis: alarms with fixed thresholds, and the correlation of every
//! counter with latency.
//!
//! They are what people have without prony, made as strong as they can be while they stay what they are: they see every fact that
//! prony recorded, at every level of load. Neither intervenes.

use super::score::{Outcome, Truth, judge};
use prony_model::{Level, Metric, MetricKind, Purpose, Run, SeriesSet, Window, metric as m};

/// What a method names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    pub cause: String,
    pub hop: String,
}

impl Named {
    pub fn judged(&self, truth: &Truth, healthy: bool) -> Option<Outcome> {
        Some(judge(truth, &self.cause, &self.hop, healthy))
    }
}

/// A fixed threshold on one figure of one host.
struct Alarm {
    cause: &'static str,
    /// The figure at the workload as written.
    figure: fn(&Seen<'_>) -> Option<f64>,
    /// From where on it rings.
    border: f64,
}

/// Thresholds as monitoring tools ship them; the marks are those of the catalogue of causes: ND netdata, PCP its pmie rules,
/// CO coroot, KE kerno.
const ALARMS: &[Alarm] = &[
    // ND: > 1/s
    Alarm { cause: "accept-queue-full", figure: |s| s.sum(&m::TCP_LISTEN_OVERFLOWS), border: 1.0 },
    Alarm { cause: "syn-queue-full", figure: |s| s.sum(&m::TCP_SYN_QUEUE_DROPS), border: 1.0 },
    // KE: 2 % of segments
    Alarm {
        cause: "packet-loss",
        figure: |s| Some(s.sum(&m::TCP_RETRANSMITS)? / s.sum(&m::TCP_ORIGINAL_SENT)?.max(1.0)),
        border: 0.02,
    },
    // ND: usage above 95 % of the limit
    Alarm {
        cause: "cpu-quota-throttled",
        figure: |s| Some(s.sum(&m::CGROUP_USAGE)? / s.sum(&m::CGROUP_QUOTA)?),
        border: 0.95,
    },
    // ND: 95 % of a process's descriptors
    Alarm {
        cause: "file-descriptors-exhausted",
        figure: |s| Some(s.sum(&m::PROC_DESCRIPTORS)? / s.sum(&m::PROC_DESCRIPTOR_LIMIT)?),
        border: 0.95,
    },
    // ND: 10 per second; here per run
    Alarm { cause: "softnet-backlog-drops", figure: |s| s.sum(&m::SOFTNET_DROPPED), border: 10.0 },
    Alarm { cause: "softirq-budget-squeezed", figure: |s| s.sum(&m::SOFTNET_SQUEEZED), border: 10.0 },
    // ND: 98 % of the time
    Alarm { cause: "disk-saturated", figure: |s| s.sum(&m::DISK_BUSY), border: 0.98 },
    // ND: 10 %
    Alarm { cause: "cpu-stolen", figure: |s| s.cpu_share(&m::CPU_STEAL), border: 0.10 },
    // PCP: busy above 70 % and the kernel above 75 % of it
    Alarm {
        cause: "cpu-saturated-kernel",
        figure: |s| {
            let kernel = s.cpu_share(&m::CPU_SYSTEM)? + s.cpu_share(&m::CPU_SOFTIRQ).unwrap_or(0.0);
            let busy = 1.0 - s.cpu_share(&m::CPU_IDLE)?;
            (busy > 0.7 && kernel / busy > 0.75).then_some(busy)
        },
        border: 0.7,
    },
    // ND: 85 %
    Alarm { cause: "cpu-saturated-user", figure: |s| Some(1.0 - s.cpu_share(&m::CPU_IDLE)?), border: 0.85 },
];

/// Counters and the cause that a person reads from each.
const READINGS: &[(&Metric, &str)] = &[
    (&m::CPU_USER, "cpu-saturated-user"),
    (&m::CPU_SYSTEM, "cpu-saturated-kernel"),
    (&m::CPU_SOFTIRQ, "cpu-saturated-kernel"),
    (&m::CPU_STEAL, "cpu-stolen"),
    (&m::CPU_IOWAIT, "disk-saturated"),
    (&m::PROC_RUN_DELAY, "run-queue-wait"),
    (&m::PROC_WRITES, "access-log-unbuffered"),
    (&m::CGROUP_THROTTLED_TIME, "cpu-quota-throttled"),
    (&m::IF_TX_BYTES, "bandwidth-bound"),
    (&m::QDISC_BACKLOG, "bandwidth-bound"),
    (&m::TCP_ACTIVE_OPENS, "upstream-keepalive-off"),
    (&m::TCP_PASSIVE_OPENS, "client-connections-short"),
    (&m::TCP_RETRANSMITS, "packet-loss"),
    (&m::TCP_LISTEN_OVERFLOWS, "accept-queue-full"),
    (&m::TCP_SYN_QUEUE_DROPS, "syn-queue-full"),
    (&m::SOCK_TIME_WAIT, "ephemeral-ports-exhausted"),
    (&m::CONN_IN_BUSY, "slow-upstream"),
    (&m::LISTEN_QUEUE, "accept-queue-full"),
    (&m::SOFTNET_STEERED, "packet-steering-overspread"),
    (&m::PSI_IO_SOME, "disk-saturated"),
    (&m::PSI_MEMORY_SOME, "memory-pressure"),
    (&m::DISK_FLUSHES, "commit-disk-wait"),
    (&m::ERROR_LOG_LINES, "log-flood"),
];

/// The alarm that is furthest over its threshold at any serving host, `none` when none rings.
pub fn by_threshold(run: &Run) -> Named {
    let Some(at) = run.level(Level::At) else { return Named::default() };
    let mut most = (1.0, named("none", ""));
    for host in run.stack.path() {
        let seen = Seen { run, host, window: at.window };
        for alarm in ALARMS {
            let over = (alarm.figure)(&seen).map_or(0.0, |figure| figure / alarm.border);
            if over >= most.0 {
                most = (over, named(alarm.cause, host));
            }
        }
    }
    most.1
}

/// The counter of a serving host whose rank goes with that of the p99 over all levels of load; among equals the one that grew most.
pub fn by_correlation(run: &Run) -> Named {
    let scored = run.trials.iter().filter(|t| matches!(t.purpose, Purpose::Level { .. } | Purpose::Curve));
    let trials: Vec<_> = scored.filter(|t| t.result.completed > 0).collect();
    let latency: Vec<f64> = trials.iter().map(|t| t.result.latency.p99_us).collect();
    let mut most = ((0.0, 0.0), named("none", ""));
    for host in run.stack.path() {
        for (metric, cause) in READINGS {
            let values: Option<Vec<f64>> =
                trials.iter().map(|t| Seen { run, host, window: t.window }.sum(metric)).collect();
            let Some(values) = values else { continue };
            let (least, greatest) =
                (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max));
            let growth = (greatest - least) / (greatest + least).max(f64::MIN_POSITIVE);
            let score = (spearman(&values, &latency).unwrap_or(0.0), growth);
            if score > most.0 {
                most = (score, named(cause, host));
            }
        }
    }
    most.1
}

fn named(cause: &str, hop: &str) -> Named {
    Named { cause: cause.to_string(), hop: hop.to_string() }
}

/// One host in one window.
struct Seen<'a> {
    run: &'a Run,
    host: &'a str,
    window: Window,
}

impl Seen<'_> {
    /// Rate of a counter or mean of a gauge, summed over its items.
    fn sum(&self, metric: &Metric) -> Option<f64> {
        self.run.series.sum(self.host, metric, self.window)
    }

    /// Share of the time of the host's own CPUs.
    fn cpu_share(&self, metric: &Metric) -> Option<f64> {
        debug_assert_eq!(metric.kind, MetricKind::Counter);
        let own = self.run.stack.host.get(self.host)?.cpus.as_ref();
        let mine = |item: &str| own.is_none_or(|cpus| item.parse().is_ok_and(|cpu| cpus.as_slice().contains(&cpu)));
        let items = self.run.series.items(self.host, metric).filter(|(item, _)| mine(item));
        let rates: Vec<f64> = items.filter_map(|(_, points)| SeriesSet::rate(points, self.window)).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }
}

/// Spearman's rank correlation (Spearman 1904): Pearson's of the ranks, ties sharing their mean rank. None when either does not move.
fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let sum = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let both = (sum(&a, &a) * sum(&b, &b)).sqrt();
    (both > 0.0).then(|| sum(&a, &b) / both)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |v: f64| values.iter().filter(|other| **other < v).count() as f64;
    let equal = |v: f64| values.iter().filter(|other| **other == v).count() as f64;
    values.iter().map(|v| below(*v) + (equal(*v) + 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_ties_and_correlate() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 21.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(spearman(&[1.0, 1.0, 1.0], &[3.0, 2.0, 1.0]), None, "what does not move goes with nothing");
    }

    #[test]
    fn an_empty_run_names_nothing() {
        assert_eq!(by_threshold(&Run::default()), Named::default());
        assert_eq!(by_correlation(&Run::default()), named("none", ""));
    }
}
