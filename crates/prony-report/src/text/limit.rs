//! What a search for the limit found, for a terminal: the answers, what else was found, the load curve as a table.

use super::{Style, table, wrap};
use crate::number::{self, NONE};
use crate::view::{LimitView, ReportData};
use prony_model::Run;

/// The result of a search for the limit in a sentence or two; empty when there was none.
pub fn limit_sentence(run: &Run) -> String {
    ReportData::of(run).limit.map(|found| found.sentence).unwrap_or_default()
}

/// The answers, notes and tables without the sentence.
pub(super) fn body(found: &LimitView, style: Style) -> String {
    let mut out = String::new();
    for answer in &found.answers {
        let value = format!("{:<18}", answer.value);
        let first = format!("  {:<18}{value}", answer.label);
        let detail = if answer.interval.is_empty() { &answer.note } else { &answer.interval };
        out.push_str(&wrap(&first, detail));
        if !answer.interval.is_empty() {
            out.push_str(&wrap(&format!("  {:<36}", ""), &answer.note));
        }
    }
    for note in &found.notes {
        let lines = wrap(&format!("  {:<18}", note.label), &note.text);
        out.push_str(&style.toned(note.tone, lines.trim_end()));
        out.push('\n');
    }
    out.push_str(&table("Load curve", &curve(found), style));
    out.push_str(&table(&found.axis_title, &axis(found), style));
    out
}

fn curve(found: &LimitView) -> Vec<Vec<String>> {
    if found.curve.is_empty() {
        return Vec::new();
    }
    let head = ["load", "good/s", "p50", "p90", "p99", "p99.9", "failed"].map(str::to_string);
    let hosts = found.cpu_hosts.iter().map(|host| format!("CPU {host}"));
    let mut rows = vec![head.into_iter().chain(hosts).chain(["trials".to_string(), String::new()]).collect::<Vec<_>>()];
    let micros = |us: Option<f64>| us.map_or(NONE.to_string(), number::micros);
    for p in &found.curve {
        let good = p.good_per_s.map_or(NONE.to_string(), number::rate);
        let row = [p.load.clone(), good, micros(p.p50_us), micros(p.p90_us), micros(p.p99_us), micros(p.p999_us)];
        let rest = [p.trials.to_string(), if p.note.is_empty() { String::new() } else { "at least".to_string() }];
        let failed = number::percent(p.error_share);
        rows.push(row.into_iter().chain([failed]).chain(p.cpu_us_per_request.iter().cloned()).chain(rest).collect());
    }
    rows
}

fn axis(found: &LimitView) -> Vec<Vec<String>> {
    if found.axis.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![["value", "held", "measured", "good/s", ""].map(str::to_string).to_vec()];
    for p in &found.axis {
        let good = p.good_per_s.map_or(NONE.to_string(), number::rate);
        let note = if p.note.is_empty() { String::new() } else { "at least".to_string() };
        rows.push(vec![number::count(p.value), p.held.clone(), p.measured.clone(), good, note]);
    }
    rows
}
