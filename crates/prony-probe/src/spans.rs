//! Spans in the JSON form of OTLP, a batch of them in each line, as OpenTelemetry's file exporter writes them.
//!
//! A span of kind `SERVER` is a request, one of kind `CLIENT` a call of another host; others say nothing of a hop's time. Sources:
//! OTLP specification 1.5, "JSON Protobuf Encoding" and "File Exporter"; semantic conventions of attributes 1.30. Invariant: a line that
//! is no batch is one request that is not timed.

use crate::log_times::Line;
use serde_json::Value;

/// Names of the attributes that tell whom a client called, the newest first.
const CALLED: [(&str, &str); 2] = [("server.address", "server.port"), ("net.peer.name", "net.peer.port")];

/// The requests and calls of one line.
pub(crate) fn read(line: &str, service: Option<&str>) -> Vec<Option<Line>> {
    let batch: Value = serde_json::from_str(line).unwrap_or_default();
    let Some(resources) = batch["resourceSpans"].as_array() else { return vec![None] };
    let is_of_service = |resource: &&Value| {
        let named = attribute(&resource["resource"], "service.name");
        service.is_none_or(|service| named.as_deref() == Some(service))
    };
    let scopes = resources.iter().filter(is_of_service).filter_map(|resource| resource["scopeSpans"].as_array());
    let spans = scopes.flatten().filter_map(|scope| scope["spans"].as_array()).flatten();
    spans.filter_map(told).map(Some).collect()
}

fn told(span: &Value) -> Option<Line> {
    let [start, end] = ["startTimeUnixNano", "endTimeUnixNano"].map(|name| nanos(&span[name]));
    let seconds = (end?.checked_sub(start?)?) as f64 / 1e9;
    if is_kind(span, 2, "SPAN_KIND_SERVER") {
        return Some(Line { seconds: Some(seconds), upstreams: Vec::new() });
    }
    is_kind(span, 3, "SPAN_KIND_CLIENT").then(|| Line { seconds: None, upstreams: vec![(called(span), seconds)] })
}

fn is_kind(span: &Value, number: u64, name: &str) -> bool {
    span["kind"] == number || span["kind"] == name
}

/// A 64-bit number: the protocol writes it as text, and takes it as a number too.
fn nanos(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Whom a client's span called: its address and port, or the span's own name.
fn called(span: &Value) -> String {
    let named = CALLED.into_iter().find_map(|(address, port)| {
        let address = attribute(span, address)?;
        Some(attribute(span, port).map_or(address.clone(), |port| format!("{address}:{port}")))
    });
    named.unwrap_or_else(|| span["name"].as_str().unwrap_or("calls").to_string())
}

fn attribute(of: &Value, key: &str) -> Option<String> {
    let value = &of["attributes"].as_array()?.iter().find(|attribute| attribute["key"] == key)?["value"];
    let number = || nanos(&value["intValue"]).map(|number| number.to_string());
    value["stringValue"].as_str().map(str::to_string).or_else(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn span(kind: impl Into<Value>, ms: u64, attributes: &[(&str, Value)]) -> Value {
        let attributes: Vec<Value> =
            attributes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        json!({"traceId": "5b8e", "spanId": "eee1", "name": "ask", "kind": kind.into(),
               "startTimeUnixNano": "1795000000000000000",
               "endTimeUnixNano": (1_795_000_000_000_000_000 + ms * 1_000_000).to_string(), "attributes": attributes})
    }

    fn batch(service: &str, spans: &[Value]) -> Value {
        let resource = json!({"attributes": [{"key": "service.name", "value": {"stringValue": service}}]});
        json!({"resource": resource, "scopeSpans": [{"spans": spans}]})
    }

    fn request(ms: f64) -> Option<Line> {
        Some(Line { seconds: Some(ms / 1e3), upstreams: Vec::new() })
    }

    fn call(of: &str, ms: f64) -> Option<Line> {
        Some(Line { seconds: None, upstreams: vec![(of.to_string(), ms / 1e3)] })
    }

    #[test]
    fn servers_spans_are_requests_and_clients_spans_are_calls() {
        let address = ("server.address", json!({"stringValue": "10.77.0.30"}));
        let port = ("server.port", json!({"intValue": "5432"}));
        let old = ("net.peer.name", json!({"stringValue": "cache"}));
        let spans = [
            span(2, 12, &[]),
            span("SPAN_KIND_SERVER", 3, &[]),
            span(3, 5, &[address, port]),
            span("SPAN_KIND_CLIENT", 1, &[old]),
            span(3, 2, &[]),
            span(1, 9, &[]),
        ];
        let line = json!({"resourceSpans": [batch("app", &spans), batch("other", &[span(2, 100, &[])])]}).to_string();
        let of_app = [request(12.0), request(3.0), call("10.77.0.30:5432", 5.0), call("cache", 1.0), call("ask", 2.0)];
        assert_eq!(read(&line, Some("app")), of_app, "a span inside the hop says nothing");
        assert_eq!(read(&line, None).last(), Some(&request(100.0)), "no name: every service");
        assert_eq!(read(&line, Some("nobody")), []);
    }

    #[test]
    fn what_is_no_batch_is_not_timed() {
        let whole = json!({"resourceSpans": [batch("app", &[span(2, 12, &[])])]}).to_string();
        assert_eq!(read(&whole[40..], None), [None], "a line that began before the look");
        assert_eq!(read("{\"resourceMetrics\":[]}", None), [None]);
        let backwards = json!({"kind": 2, "startTimeUnixNano": "2", "endTimeUnixNano": "1"});
        assert_eq!(told(&backwards), None, "a clock that was set back");
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[\\[\\]{}:,\"0-9a-z]{0,60}|\\PC{0,40}") {
            let _ = read(&line, None);
        }
    }
}
