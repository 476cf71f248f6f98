//! Metrics as the JSON body of an OTLP/HTTP request: `ExportMetricsServiceRequest` of opentelemetry-proto 1.x.
//!
//! It sends nothing. The JSON mapping of OTLP wants 64-bit numbers as text, enumerations as numbers, and names in lower camel
//! case (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding").

use super::LoadOutput;
use super::metrics::{BOUNDS_US, Data, Distribution, Family, Point, Unit};
use serde::Serialize;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counted since the start time. What Prometheus and most stores want.
const CUMULATIVE: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    resource_metrics: [ResourceMetrics; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics {
    resource: Resource,
    scope_metrics: [ScopeMetrics; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: Text,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    string_value: String,
}

#[derive(Serialize)]
struct ScopeMetrics {
    scope: Scope,
    metrics: Vec<Metric>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Metric {
    name: &'static str,
    description: String,
    unit: &'static str,
    #[serde(flatten)]
    data: MetricData,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum MetricData {
    Sum(Sum),
    Gauge(Gauge),
    Histogram(Histogram),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sum {
    data_points: Vec<NumberPoint>,
    aggregation_temporality: u8,
    is_monotonic: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gauge {
    data_points: Vec<NumberPoint>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Histogram {
    data_points: [HistogramPoint; 1],
    aggregation_temporality: u8,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NumberPoint {
    attributes: Vec<Attribute>,
    start_time_unix_nano: String,
    time_unix_nano: String,
    #[serde(flatten)]
    value: Number,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Number {
    AsInt(String),
    AsDouble(f64),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistogramPoint {
    start_time_unix_nano: String,
    time_unix_nano: String,
    count: String,
    sum: f64,
    max: f64,
    /// One more than bounds: the last is above the last bound.
    bucket_counts: Vec<String>,
    explicit_bounds: Vec<f64>,
}

/// The body.
pub(super) fn body(output: &LoadOutput<'_>, families: &[Family]) -> String {
    let time = Time::of(output);
    let metrics = families.iter().map(|family| metric(family, &time)).collect();
    let version = env!("CARGO_PKG_VERSION");
    let resource = [("service.name", "prony"), ("service.version", version), ("url.full", output.plan.url.as_str())];
    let request = Request {
        resource_metrics: [ResourceMetrics {
            resource: Resource { attributes: resource.map(|(key, value)| attribute(key, value)).into() },
            scope_metrics: [ScopeMetrics { scope: Scope { name: "prony.load", version }, metrics }],
        }],
    };
    serde_json::to_string(&request).expect("metrics hold only strings and finite numbers")
}

/// The counted time, as the nanoseconds that every point bears.
struct Time {
    start: String,
    end: String,
}

impl Time {
    fn of(output: &LoadOutput<'_>) -> Self {
        let start_ns = output.result.counted_from_unix_ms.saturating_mul(1_000_000);
        let end_ns = start_ns.saturating_add((output.result.duration_s * 1e9) as u64);
        Self { start: start_ns.to_string(), end: end_ns.to_string() }
    }
}

fn attribute(key: &'static str, value: &str) -> Attribute {
    Attribute { key, value: Text { string_value: value.to_string() } }
}

fn metric(family: &Family, time: &Time) -> Metric {
    let unit = match family.unit {
        Unit::Seconds => "s",
        Unit::Bytes => "By",
        Unit::Count => "1",
    };
    let whole = family.unit != Unit::Seconds;
    let data = match &family.data {
        Data::Counter(points) => MetricData::Sum(Sum {
            data_points: points.iter().map(|p| number(p, whole, time)).collect(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        Data::Gauge(points) => {
            MetricData::Gauge(Gauge { data_points: points.iter().map(|p| number(p, false, time)).collect() })
        }
        Data::Histogram(distribution) => MetricData::Histogram(Histogram {
            data_points: [histogram(distribution, time)],
            aggregation_temporality: CUMULATIVE,
        }),
    };
    Metric { name: family.name, description: format!("{}.", family.help), unit, data }
}

fn number(point: &Point, whole: bool, time: &Time) -> NumberPoint {
    NumberPoint {
        attributes: point.label.iter().map(|(key, value)| attribute(key, value)).collect(),
        start_time_unix_nano: time.start.clone(),
        time_unix_nano: time.end.clone(),
        value: if whole { Number::AsInt((point.value as u64).to_string()) } else { Number::AsDouble(point.value) },
    }
}

fn histogram(distribution: &Distribution, time: &Time) -> HistogramPoint {
    let ends = distribution.up_to.iter().copied().chain([distribution.count]);
    let begins = [0].into_iter().chain(distribution.up_to.iter().copied());
    HistogramPoint {
        start_time_unix_nano: time.start.clone(),
        time_unix_nano: time.end.clone(),
        count: distribution.count.to_string(),
        sum: distribution.sum_s,
        max: distribution.max_s,
        bucket_counts: ends.zip(begins).map(|(end, begin)| (end - begin).to_string()).collect(),
        explicit_bounds: BOUNDS_US.iter().map(|us| us / 1e6).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_output::{metrics, sample};
    use serde_json::{Value, json};

    fn seen() -> Value {
        serde_json::from_str(&sample::with(|output| body(output, &metrics::families(output)))).unwrap()
    }

    fn metric<'a>(body: &'a Value, name: &str) -> &'a Value {
        let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        metrics.iter().find(|m| m["name"] == name).unwrap_or_else(|| panic!("no metric {name}"))
    }

    #[test]
    fn a_counter_is_a_cumulative_sum() {
        let want = json!({
            "name": "prony.load.requests.sent",
            "description": "Requests sent within the counted time.",
            "unit": "1",
            "sum": {
                "dataPoints": [{
                    "attributes": [],
                    "startTimeUnixNano": "1795216501250000000",
                    "timeUnixNano": "1795216505250000000",
                    "asInt": "404",
                }],
                "aggregationTemporality": 2,
                "isMonotonic": true,
            },
        });
        assert_eq!(metric(&seen(), "prony.load.requests.sent"), &want);
    }

    #[test]
    fn a_duration_is_a_histogram_whose_buckets_add_up() {
        let body = seen();
        let histogram = &metric(&body, "prony.load.request.duration")["histogram"];
        assert_eq!(histogram["aggregationTemporality"], 2);
        let point = &histogram["dataPoints"][0];
        let counts: Vec<u64> = point["bucketCounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|count| count.as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(counts.len(), point["explicitBounds"].as_array().unwrap().len() + 1);
        assert_eq!(counts.iter().sum::<u64>().to_string(), point["count"].as_str().unwrap());
        assert_eq!(counts[9..13], [30 - 15, 75 - 30, 150 - 75, 300 - 150], "10, 25, 50 and 100 ms");
    }

    #[test]
    fn a_gauge_carries_its_label_and_the_resource_its_name() {
        let body = seen();
        let gauge = &metric(&body, "prony.load.threshold.held")["gauge"]["dataPoints"][0];
        assert_eq!(gauge["attributes"], json!([{ "key": "threshold", "value": { "stringValue": "p(95)<20ms" } }]));
        assert_eq!(gauge["asDouble"], 0.0);
        let resource = &body["resourceMetrics"][0]["resource"]["attributes"];
        assert_eq!(resource[0], json!({ "key": "service.name", "value": { "stringValue": "prony" } }));
    }
}
