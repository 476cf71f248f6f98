//! Metrics as Prometheus' text exposition, version 0.0.4: for the textfile collector of node_exporter and for a Pushgateway.
//!
//! Names follow OpenTelemetry's rule: dots become `_`, then the unit, then `_total` for a counter. Durations are classic
//! histograms in seconds. Invariant: a family's lines stand together, after its HELP and TYPE.

use super::metrics::{BOUNDS_US, Data, Distribution, Family, Point, Unit};

/// The page.
pub(super) fn page(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let name = name(family);
        let kind = match &family.data {
            Data::Counter(_) => "counter",
            Data::Gauge(_) => "gauge",
            Data::Histogram(_) => "histogram",
        };
        out.push_str(&format!("# HELP {name} {}.\n# TYPE {name} {kind}\n", family.help));
        match &family.data {
            Data::Counter(points) | Data::Gauge(points) => out.extend(points.iter().map(|p| sample(&name, p))),
            Data::Histogram(distribution) => out.push_str(&buckets(&name, distribution)),
        }
    }
    out
}

fn name(family: &Family) -> String {
    let unit = match family.unit {
        Unit::Seconds => "_seconds",
        Unit::Bytes => "_bytes",
        Unit::Count => "",
    };
    let total = if matches!(family.data, Data::Counter(_)) { "_total" } else { "" };
    format!("{}{unit}{total}", family.name.replace('.', "_"))
}

fn sample(name: &str, point: &Point) -> String {
    match &point.label {
        None => format!("{name} {}\n", point.value),
        Some((label, value)) => format!("{name}{{{label}=\"{}\"}} {}\n", escaped(value), point.value),
    }
}

fn buckets(name: &str, distribution: &Distribution) -> String {
    let bucket = |(bound_us, count): (&f64, &u64)| format!("{name}_bucket{{le=\"{}\"}} {count}\n", bound_us / 1e6);
    let mut out: String = BOUNDS_US.iter().zip(&distribution.up_to).map(bucket).collect();
    let (count, sum_s) = (distribution.count, distribution.sum_s);
    out.push_str(&format!("{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum_s}\n{name}_count {count}\n"));
    out
}

/// A label's value between its quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_output::{metrics, sample};
    use std::collections::BTreeSet;

    /// Reads a page strictly, by the format's own description (prometheus.io/docs/instrumenting/exposition_formats). Gives the
    /// samples as (name, labels, value); an error says which line breaks which rule.
    fn read(page: &str) -> Result<Vec<(String, String, f64)>, String> {
        if !page.ends_with('\n') {
            return Err("the last line does not end".to_string());
        }
        let mut found = Vec::new();
        let (mut family, mut kind) = (String::new(), String::new());
        let (mut families, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for line in page.lines() {
            let wrong = |why: &str| Err(format!("{why}: {line}"));
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split_once(' ').ok_or(format!("no text: {line}"))?.0.to_string();
                kind.clear();
                if !families.insert(family.clone()) {
                    return wrong("the family is not in one piece");
                }
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                match rest.split_once(' ') {
                    Some((name, seen)) if name == family && ["counter", "gauge", "histogram"].contains(&seen) => {
                        kind = seen.to_string();
                    }
                    _ => return wrong("TYPE does not follow its HELP"),
                }
                continue;
            }
            let (name, labels, value) = sample_of(line)?;
            let suffix = name.strip_prefix(&family).ok_or(format!("outside its family: {line}"))?;
            let fits = match kind.as_str() {
                "counter" => suffix.is_empty() && name.ends_with("_total") && value >= 0.0,
                "gauge" => suffix.is_empty() && !name.ends_with("_total"),
                "histogram" => match suffix {
                    "_bucket" => labels.starts_with("le=\""),
                    "_sum" | "_count" => labels.is_empty(),
                    _ => false,
                },
                _ => false,
            };
            if !fits {
                return wrong("not what its TYPE allows");
            }
            if !seen.insert((name.clone(), labels.clone())) {
                return wrong("twice");
            }
            found.push((name, labels, value));
        }
        Ok(found)
    }

    fn sample_of(line: &str) -> Result<(String, String, f64), String> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = line.find(|c| !word(c)).ok_or(format!("no value: {line}"))?;
        let (name, rest) = line.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("no name: {line}"));
        }
        let (labels, rest) = match rest.strip_prefix('{') {
            None => ("", rest),
            Some(inner) => labels_of(inner).ok_or(format!("labels: {line}"))?,
        };
        let value = rest.strip_prefix(' ').and_then(|v| v.parse::<f64>().ok()).filter(|v| v.is_finite());
        Ok((name.to_string(), labels.to_string(), value.ok_or(format!("value: {line}"))?))
    }

    /// One label, which is all that we write: `name="value"}`, then the rest.
    fn labels_of(text: &str) -> Option<(&str, &str)> {
        let (name, quoted) = text.split_once("=\"")?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            return None;
        }
        let mut escaped = false;
        for (at, c) in quoted.char_indices() {
            match (escaped, c) {
                (true, '\\' | '"' | 'n') => escaped = false,
                (true, _) => return None,
                (false, '\\') => escaped = true,
                (false, '"') => {
                    let end = name.len() + 2 + at + 1;
                    return Some((&text[..end], text[end..].strip_prefix('}')?));
                }
                (false, _) => {}
            }
        }
        None
    }

    fn value(samples: &[(String, String, f64)], name: &str, labels: &str) -> Option<f64> {
        samples.iter().find(|(n, l, _)| n == name && l == labels).map(|(_, _, value)| *value)
    }

    #[test]
    fn a_strict_reader_takes_the_page() {
        let page = sample::with(|output| page(&metrics::families(output)));
        let samples = read(&page).unwrap();
        let value = |name: &str, labels: &str| value(&samples, name, labels);
        assert_eq!(value("prony_load_duration_seconds", ""), Some(4.0));
        assert_eq!(value("prony_load_requests_sent_total", ""), Some(404.0));
        assert_eq!(value("prony_load_responses_total", "code=\"503\""), Some(2.0));
        assert_eq!(value("prony_load_errors_total", "kind=\"timeout\""), Some(4.0));
        assert_eq!(value("prony_load_transferred_bytes_total", "direction=\"receive\""), Some(48_000.0));
        assert_eq!(value("prony_load_cpu_time_seconds_total", "mode=\"user\""), Some(0.1));
        assert_eq!(value("prony_load_threshold_held", "threshold=\"p(95)<20ms\""), Some(0.0));
        assert_eq!(value("prony_load_gate_held", "gate=\"cpu\""), Some(1.0));
        let median = value("prony_load_request_duration_quantile_seconds", "quantile=\"0.5\"").unwrap();
        assert!((median - 0.05).abs() < 1e-4, "{median}");
    }

    #[test]
    fn buckets_rise_to_the_count() {
        let page = sample::with(|output| page(&metrics::families(output)));
        let samples = read(&page).unwrap();
        let name = "prony_load_request_duration_seconds";
        let bucket = |le: &str| value(&samples, &format!("{name}_bucket"), &format!("le=\"{le}\""));
        // The sample has three answers at each whole millisecond from 1 to 100.
        assert_eq!([bucket("0.01"), bucket("0.05"), bucket("0.1")], [Some(30.0), Some(150.0), Some(300.0)]);
        assert_eq!([bucket("0.00001"), bucket("60"), bucket("+Inf")], [Some(0.0), Some(300.0), Some(300.0)]);
        assert_eq!(value(&samples, &format!("{name}_count"), ""), Some(300.0));
        let sum = value(&samples, &format!("{name}_sum"), "").unwrap();
        assert!((sum / (3.0 * 5.05) - 1.0).abs() < 1e-3, "{sum}");
        let buckets: Vec<f64> =
            samples.iter().filter(|(n, _, _)| *n == format!("{name}_bucket")).map(|(_, _, v)| *v).collect();
        assert!(buckets.len() == BOUNDS_US.len() + 1 && buckets.windows(2).all(|w| w[0] <= w[1]), "{buckets:?}");
    }

    #[test]
    fn the_reader_is_strict() {
        let head = "# HELP a_total A.\n# TYPE a_total counter\n";
        for (bad, why) in [
            ("a_total 1".to_string(), "the last line does not end"),
            ("a_total 1\n".to_string(), "not what its TYPE allows"),
            (format!("{head}a_total 1\na_total 1\n"), "twice"),
            (format!("{head}a_total -1\n"), "not what its TYPE allows"),
            (format!("{head}a_total NaN\n"), "value"),
            (format!("{head}a_total{{B=\"x\"}} 1\n"), "labels"),
            (format!("{head}a_total{{b=\"\\x\"}} 1\n"), "labels"),
            (format!("{head}{head}"), "the family is not in one piece"),
            ("# HELP a A.\n# TYPE b gauge\n".to_string(), "TYPE does not follow its HELP"),
            ("# HELP a A.\n# TYPE a gauge\na-b 1\n".to_string(), "value"),
        ] {
            let said = read(&bad).unwrap_err();
            let said = if said.starts_with(why) { why } else { said.as_str() };
            assert_eq!(said, why, "{bad}");
        }
    }

    #[test]
    fn labels_are_escaped() {
        let point = Point { label: Some(("url", "a\\b\"c\nd".to_string())), value: 1.0 };
        let line = sample("x", &point);
        assert_eq!(line, "x{url=\"a\\\\b\\\"c\\nd\"} 1\n");
        sample_of(line.trim_end()).unwrap();
    }
}
