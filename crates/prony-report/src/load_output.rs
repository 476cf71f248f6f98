//! What a load gave, in the forms that people and other tools read: wrk's text, JSON, CSV, HdrHistogram's two texts,
//! Prometheus and OTLP.
//!
//! Nothing is measured or written to disk here. Invariant: every form is made of the same [`LoadOutput`], and what was not
//! seen is left out or left empty, never 0.

mod hdr_log;
mod intervals;
mod metrics;
mod otlp;
mod prometheus;
mod quantiles;

use crate::number;
use prony_model::{LoadPlan, LoadResult, ThresholdResult};
use serde::Serialize;
use std::path::Path;

/// A load and what became of it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LoadOutput<'a> {
    /// What was asked for.
    pub plan: &'a LoadPlan,
    /// What came back.
    pub result: &'a LoadResult,
    /// What it had to hold, and whether it did.
    pub thresholds: &'a [ThresholdResult],
}

/// Forms of a file that holds a load's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One object, `prony.load/1`.
    Json,
    /// A line per interval of about a second.
    Csv,
    /// HdrHistogram's quantile distribution, as its plotter reads it.
    Hgrm,
    /// HdrHistogram's interval log.
    HdrLog,
    /// Prometheus' text exposition.
    Prometheus,
}

/// File name extensions, and what each is.
const EXTENSIONS: &[(&str, Format)] = &[
    ("json", Format::Json),
    ("csv", Format::Csv),
    ("hgrm", Format::Hgrm),
    ("hdrlog", Format::HdrLog),
    ("hlog", Format::HdrLog),
    ("prom", Format::Prometheus),
];

impl Format {
    /// Whether it tells the counted time in stretches.
    pub fn needs_intervals(self) -> bool {
        match self {
            Self::Csv | Self::HdrLog => true,
            Self::Json | Self::Hgrm | Self::Prometheus => false,
        }
    }

    /// The form that a file's name asks for by its extension.
    ///
    /// # Errors
    /// A sentence that names the extensions there are.
    pub fn of(path: &Path) -> Result<Self, String> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let known = EXTENSIONS.iter().find(|(name, _)| *name == extension);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<String> = EXTENSIONS.iter().map(|(name, _)| format!(".{name}")).collect();
            let name = path.display();
            format!("`{name}` does not say by its extension what to write: use one of {}", names.join(", "))
        })
    }
}

impl LoadOutput<'_> {
    /// The text of a file in this form; it ends with a line end.
    pub fn export(&self, format: Format) -> String {
        match format {
            Format::Json => self.json() + "\n",
            Format::Csv => intervals::csv(self.result),
            Format::Hgrm => quantiles::hgrm(&self.result.latency),
            Format::HdrLog => hdr_log::log(self),
            Format::Prometheus => prometheus::page(&metrics::families(self)),
        }
    }

    /// One object, `prony.load/1`: the plan, the result, and the thresholds.
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            schema: &'static str,
            #[serde(flatten)]
            output: &'a LoadOutput<'a>,
        }
        let document = Document { schema: "prony.load/1", output: self };
        serde_json::to_string_pretty(&document).expect("plans and results hold only strings and finite numbers")
    }

    /// The body of an OTLP/HTTP request in JSON: `ExportMetricsServiceRequest`.
    pub fn otlp(&self) -> String {
        otlp::body(self, &metrics::families(self))
    }

    /// wrk's block, and a line per threshold. `latency` adds the distribution, as wrk's `--latency` does.
    pub fn text(&self, latency: bool) -> String {
        let mut out = crate::text::load_block(self.plan, self.result, latency);
        if !self.thresholds.is_empty() {
            out.push_str("Thresholds:\n");
        }
        for seen in self.thresholds {
            let held = if seen.held { "held" } else { "broken" };
            let measured = seen.measured.map_or("nothing to measure".to_string(), |v| number::with_unit(v, &seen.unit));
            out.push_str(&format!("  {held:<7} {:<20} {measured}\n", seen.threshold.to_string()));
        }
        out
    }
}

#[cfg(test)]
mod sample;

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn format(name: &str) -> String {
        Format::of(Path::new(name)).map_or_else(|error| error, |format| format!("{format:?}"))
    }

    #[test]
    fn a_files_name_says_its_form() {
        let names = ["a.json", "/x/y.CSV", "a.b.hgrm", "a.hdrlog", "a.hlog", "a.prom"];
        assert_eq!(names.map(format), ["Json", "Csv", "Hgrm", "HdrLog", "HdrLog", "Prometheus"]);
        for name in ["out", "out.txt", ".csv", ""] {
            let want = ".json, .csv, .hgrm, .hdrlog, .hlog, .prom";
            assert!(format(name).ends_with(want), "{}", format(name));
        }
    }

    #[test]
    fn json_is_one_object_with_a_schema() {
        let seen = sample::with(|output| serde_json::from_str::<serde_json::Value>(&output.json()).unwrap());
        assert_eq!(seen["schema"], "prony.load/1");
        assert_eq!(seen["plan"]["connections"], 8);
        assert_eq!(seen["result"]["completed"], 300);
        let threshold = serde_json::json!({
            "threshold": "p(95)<20ms", "measured": 100_000.0, "unit": "us", "held": false
        });
        assert_eq!(seen["thresholds"][0], threshold);
        let result: LoadResult = serde_json::from_value(seen["result"].clone()).unwrap();
        sample::with(|output| assert_eq!(&result, output.result, "nothing is lost on the way"));
    }

    #[test]
    fn thresholds_follow_the_block() {
        let lines = |want: Expect| {
            let text = sample::with(|output| output.text(false));
            want.assert_eq(&text[text.find("Thresholds").unwrap()..]);
        };
        lines(expect![[r#"
            Thresholds:
              broken  p(95)<20ms           100 ms
              held    errors<5%            2 %
              held    rate>50              74.50 /s
              held    count>=200           298
              broken  lag_p99<1ms          nothing to measure
        "#]]);
    }
}
