//! A load as metrics: one list of families, which Prometheus and OTLP then write each in its own way.
//!
//! Names are OpenTelemetry's way (`prony.load.request.duration`, unit apart); Prometheus' names follow from them. Invariant:
//! a family without a point is left out, and the points of one family differ in their labels.

use super::LoadOutput;
use prony_model::{ErrorCounts, Latency};
use prony_stats::Histogram;

/// Upper ends of the buckets of a duration, in microseconds: three per decade from 10 us to 10 s, then 30 s and 60 s. A guess;
/// 60 s is where the histograms of a load end.
pub(super) const BOUNDS_US: &[f64] = &[
    10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2.5e3, 5e3, 1e4, 2.5e4, 5e4, 1e5, 2.5e5, 5e5, 1e6, 2.5e6, 5e6, 1e7,
    3e7, 6e7,
];

/// Quantiles that stand beside the histogram, for those who cannot compute them.
const QUANTILES: &[f64] = &[0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0];

/// One metric with its points.
pub(super) struct Family {
    /// With dots, without the unit.
    pub name: &'static str,
    /// What its values count.
    pub unit: Unit,
    /// One sentence without a full stop.
    pub help: &'static str,
    /// Its points.
    pub data: Data,
}

/// What the values of a metric count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

/// Points of a metric.
pub(super) enum Data {
    /// Sums that only grow.
    Counter(Vec<Point>),
    /// Values.
    Gauge(Vec<Point>),
    /// A distribution.
    Histogram(Distribution),
}

/// One value, told from its siblings by its labels.
pub(super) struct Point {
    /// At most one label is needed so far.
    pub label: Option<(&'static str, String)>,
    /// In the unit of its family.
    pub value: f64,
}

/// A distribution of durations.
pub(super) struct Distribution {
    /// For each of [`BOUNDS_US`], how many values are at most that.
    pub up_to: Vec<u64>,
    /// Number of values.
    pub count: u64,
    /// Their sum in seconds, from the mean.
    pub sum_s: f64,
    /// The largest in seconds.
    pub max_s: f64,
}

/// Everything there is to tell of a load.
pub(super) fn families(output: &LoadOutput<'_>) -> Vec<Family> {
    let mut all = counts(output);
    all.extend(durations(output));
    all.extend(validity(output));
    all.retain(|family| match &family.data {
        Data::Counter(points) | Data::Gauge(points) => !points.is_empty(),
        Data::Histogram(distribution) => distribution.count > 0,
    });
    all
}

fn one(value: f64) -> Vec<Point> {
    vec![Point { label: None, value }]
}

fn labelled(name: &'static str, points: impl IntoIterator<Item = (String, f64)>) -> Vec<Point> {
    points.into_iter().map(|(label, value)| Point { label: Some((name, label)), value }).collect()
}

fn counts(output: &LoadOutput<'_>) -> Vec<Family> {
    let result = output.result;
    let counter = |name, unit, help, points| Family { name, unit, help, data: Data::Counter(points) };
    let statuses = result.statuses.iter().map(|(code, count)| (code.to_string(), *count as f64));
    let errors = kinds(&result.errors).map(|(kind, count)| (kind.to_string(), count as f64));
    let bytes = [("receive", result.bytes_in), ("transmit", result.bytes_out)];
    let bytes = bytes.map(|(direction, count)| (direction.to_string(), count as f64));
    let cpu = |share: fn(&prony_model::load::ThreadUse) -> f64| result.threads.iter().map(share).sum::<f64>() / 1e6;
    let cpu = [("user".to_string(), cpu(|t| t.user_us)), ("system".to_string(), cpu(|t| t.system_us))];
    let cpu = cpu.into_iter().filter(|_| !result.threads.is_empty());
    vec![
        counter(
            "prony.load.requests.intended",
            Unit::Count,
            "Requests whose turn came within the counted time",
            one(result.intended as f64),
        ),
        counter(
            "prony.load.requests.sent",
            Unit::Count,
            "Requests sent within the counted time",
            one(result.sent as f64),
        ),
        counter(
            "prony.load.responses",
            Unit::Count,
            "Complete responses within the counted time, by status code",
            labelled("code", statuses),
        ),
        counter(
            "prony.load.errors",
            Unit::Count,
            "Failed requests by kind; those of kind status and check were complete responses",
            labelled("kind", errors),
        ),
        counter("prony.load.transferred", Unit::Bytes, "Bytes on the load's connections", labelled("direction", bytes)),
        counter(
            "prony.load.connections.opened",
            Unit::Count,
            "Connections opened within the counted time",
            one(result.connections_opened as f64),
        ),
        counter("prony.load.cpu.time", Unit::Seconds, "CPU time of the generator's threads", labelled("mode", cpu)),
    ]
}

fn durations(output: &LoadOutput<'_>) -> Vec<Family> {
    let result = output.result;
    let latency = histogram(&result.latency);
    let family = |name, help, data| Family { name, unit: Unit::Seconds, help, data };
    let quantile = |q: &f64| (q.to_string(), latency.quantile_us(*q) / 1e6);
    let quantiles = QUANTILES.iter().map(quantile).filter(|_| latency.count() > 0);
    let mut all = vec![
        family("prony.load.duration", "Counted time of the load", Data::Gauge(one(result.duration_s))),
        family(
            "prony.load.request.duration",
            "Time to the complete response, from the time at which the request was due",
            Data::Histogram(distribution(&latency)),
        ),
        family(
            "prony.load.request.duration.quantile",
            "Quantiles of the request duration, from the whole histogram; 1 is the largest value",
            Data::Gauge(labelled("quantile", quantiles)),
        ),
    ];
    if output.plan.is_open_loop() {
        all.push(family(
            "prony.load.wire.duration",
            "Time to the complete response, from the time at which the request was sent",
            Data::Histogram(distribution(&histogram(&result.latency_actual))),
        ));
        all.push(family(
            "prony.load.schedule.lag",
            "Time from when a request was due until it was sent",
            Data::Histogram(distribution(&histogram(&result.schedule_lag))),
        ));
    }
    all
}

fn validity(output: &LoadOutput<'_>) -> Vec<Family> {
    let result = output.result;
    let gauge = |name, help, points| Family { name, unit: Unit::Count, help, data: Data::Gauge(points) };
    let truth = |yes: bool| f64::from(u8::from(yes));
    let gates = result.gates.iter().map(|gate| (gate.name.clone(), truth(gate.held)));
    let thresholds = output.thresholds.iter().map(|seen| (seen.threshold.to_string(), truth(seen.held)));
    vec![
        gauge(
            "prony.load.requests.in_flight",
            "Requests in flight, as a mean over the counted time",
            one(result.in_flight_mean),
        ),
        gauge(
            "prony.load.valid",
            "1 when every validity gate held and the load ran to its end",
            one(truth(result.is_valid())),
        ),
        gauge("prony.load.gate.held", "1 when the validity gate held", labelled("gate", gates)),
        gauge("prony.load.threshold.held", "1 when the threshold held", distinct(labelled("threshold", thresholds))),
    ]
}

/// A threshold that was given twice is one point.
fn distinct(points: Vec<Point>) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    for point in points {
        if !kept.iter().any(|other| other.label == point.label) {
            kept.push(point);
        }
    }
    kept
}

/// Every kind of failure with its count, those without one too: a counter that appears late hides its first growth.
fn kinds(errors: &ErrorCounts) -> [(&'static str, u64); 11] {
    [
        ("connect", errors.connect),
        ("write", errors.write),
        ("read", errors.read),
        ("timeout", errors.timeout),
        ("protocol", errors.protocol),
        ("status", errors.status),
        ("no_local_port", errors.no_local_port),
        ("no_descriptor", errors.no_descriptor),
        ("tls", errors.tls),
        ("deadline", errors.deadline),
        ("check", errors.check),
    ]
}

/// A latency without a readable histogram is one without values.
fn histogram(latency: &Latency) -> Histogram {
    Histogram::from_hdr_v2(&latency.hdr_v2).unwrap_or_default()
}

fn distribution(histogram: &Histogram) -> Distribution {
    Distribution {
        up_to: histogram.counts_up_to_us(BOUNDS_US),
        count: histogram.count(),
        sum_s: histogram.mean_us() / 1e6 * histogram.count() as f64,
        max_s: histogram.max_us() / 1e6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_output::sample;

    #[test]
    fn kinds_are_all_there_are() {
        // Each field counts 1: a kind that is missing here is missing in the sum.
        let mut json = serde_json::to_value(ErrorCounts::default()).unwrap();
        json.as_object_mut().unwrap().values_mut().for_each(|count| *count = 1.into());
        let errors: ErrorCounts = serde_json::from_value(json).unwrap();
        assert_eq!(kinds(&errors).iter().map(|(_, n)| n).sum::<u64>(), errors.total());
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        let names = |open: bool| {
            sample::with(|output| {
                let plan = prony_model::LoadPlan { rate: output.plan.rate.filter(|_| open), ..output.plan.clone() };
                families(&LoadOutput { plan: &plan, ..*output }).iter().map(|f| f.name).collect::<Vec<_>>()
            })
        };
        assert!(names(true).contains(&"prony.load.schedule.lag"));
        assert!(!names(false).contains(&"prony.load.schedule.lag"));
        assert!(names(false).contains(&"prony.load.request.duration"));
    }
}
