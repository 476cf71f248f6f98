//! Series and trials as CSV (RFC 4180), for spreadsheets and data frames.
//!
//! Numbers are written in full, so that reading them back gives the same value; a missing value is an empty field, never 0.

use crate::view::ReportData;
use prony_model::Run;

/// Every series in long format, sorted by host, metric, item and time.
pub fn series(run: &Run) -> String {
    let mut out = String::from("at_s,host,metric,item,value\n");
    for (key, points) in run.series.iter() {
        let (host, metric, item) = (field(&key.host), field(&key.metric), field(&key.item));
        for (at_ns, value) in points.iter().filter(|(_, value)| value.is_finite()) {
            out.push_str(&format!(
                "{}.{:09},{host},{metric},{item},{value}\n",
                at_ns / 1_000_000_000,
                at_ns % 1_000_000_000
            ));
        }
    }
    out
}

/// One line per trial.
pub fn trials(run: &Run) -> String {
    let mut out = String::from(
        "trial,purpose,at_s,duration_s,connections,rate_per_s,good_per_s,p50_us,p99_us,errors,generator_us_per_request,note\n",
    );
    let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
    for t in ReportData::of(run).trials {
        let cells = [
            t.id.to_string(),
            field(&t.purpose),
            t.at_s.to_string(),
            t.duration_s.to_string(),
            t.connections.to_string(),
            number(t.rate_per_s),
            number(t.good_per_s),
            number(t.p50_us),
            number(t.p99_us),
            t.errors.to_string(),
            number(t.generator_us_per_request),
            field(&t.note),
        ];
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

/// Quotes a field when it needs it.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{Sample, metric};

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        let mut run = Run::default();
        let mut sample = Sample { host: "a,b".into(), at_ns: 1_500_000_000, values: vec![] };
        sample.push(&metric::LOOK_WAIT, "say \"no\"", 0.25);
        sample.push(&metric::LOAD_1, "", f64::NAN);
        run.series.add(&sample);
        assert_eq!(
            series(&run),
            "at_s,host,metric,item,value\n1.500000000,\"a,b\",look.wait,\"say \"\"no\"\"\",0.25\n"
        );
    }
}
