//! The page of metrics: every fact that prony may read about a host, from the catalogue in `prony-model`.
//!
//! It describes; what a metric means for a diagnosis stands on the pages of the causes.

use prony_model::MetricKind;
use prony_model::metric::ALL;
use prony_report::names;
use std::fmt::Write as _;

/// The text of `docs/metrics.md`.
pub(super) fn page() -> String {
    let mut out = format!(
        "<!-- {} from crates/prony-model/src/metric.rs. -->\n\n# Metrics\n\n\
         What prony may read about a host. A counter only grows: its differences over time are used. A gauge is a state at one moment.\n\
         A fact that cannot be read is reported as a gap with its reason; it is never 0.\n",
        super::MARK
    );
    let mut family = "";
    for metric in ALL {
        let of = metric.name.split('.').next().unwrap_or(metric.name);
        if of != family {
            family = of;
            write!(out, "\n## {family}\n\n| metric | what it is | kind | unit | one per | read from |\n|---|---|---|---|---|---|\n")
                .expect("writing to a String cannot fail");
        }
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let unit = match metric.unit.symbol() {
            "" => "count",
            symbol => symbol,
        };
        let item = if metric.item.is_empty() { "host" } else { metric.item };
        let source = metric.source.replace('|', "\\|");
        let title = names::metric(metric.name);
        writeln!(out, "| `{}` | {title} | {kind} | {unit} | {item} | {source} |", metric.name)
            .expect("writing to a String cannot fail");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_stands_once() {
        let page = page();
        for metric in ALL {
            assert_eq!(page.matches(&format!("| `{}` |", metric.name)).count(), 1, "{}", metric.name);
        }
        assert!(page.contains("| `cpu.user` | CPU time in user space | counter | s | cpu number | /proc/stat user |"));
    }
}
