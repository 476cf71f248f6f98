//! A history of runs for a terminal and for a pull request: where figures changed, from what to what.
//!
//! Nothing is judged here. Invariant: a series without a change is told as such, not left out.

use crate::comparison::{value, written};
use crate::markdown::{escape, table};
use crate::text::{Style, wrap};
use crate::view::Tone;
use crate::{names, number};
use prony_model::Utc;
use prony_model::comparison::{History, HistoryChange, HistorySeries};

/// As on the terminal.
pub fn text(history: &History, style: Style) -> String {
    let mut out = format!("{}\n", style.bold(&sentence(history)));
    let mut label = "";
    for series in &history.series {
        if series.label != label {
            label = &series.label;
            out.push_str(&format!("\n{}", wrap("", &format!("{label} ({} runs)", series.runs.len()))));
        }
        if series.changes.is_empty() {
            out.push_str(&format!("  {:<28}no change\n", names::compared(series.metric)));
        }
        for change in &series.changes {
            let tone = if change.worse { Tone::Bad } else { Tone::Good };
            let line = wrap(&format!("  {:<28}", names::compared(series.metric)), &words(series, change));
            out.push_str(&style.toned(tone, line.trim_end()));
            out.push('\n');
        }
    }
    if !history.notes.is_empty() {
        out.push('\n');
        history.notes.iter().for_each(|note| out.push_str(&wrap("  - ", note)));
    }
    out
}

fn sentence(history: &History) -> String {
    let changes: usize = history.series.iter().map(|s| s.changes.len()).sum();
    let changes = match changes {
        0 => "no change".to_string(),
        1 => "1 change".to_string(),
        many => format!("{many} changes"),
    };
    format!("{changes} in {} series of {} runs.", history.series.len(), history.runs)
}

/// A change in words.
pub(crate) fn words(series: &HistorySeries, change: &HistoryChange) -> String {
    let (from, to) = (value(series.metric, change.from), value(series.metric, change.to));
    let by = written(series.metric, change.change);
    let word = if change.worse { "worse" } else { "better" };
    let (run, when, p) = (&change.run, started(change), number::plain(change.p));
    format!("{word} since {run} ({when}): {from} -> {to}, {by}, p = {p}")
}

fn started(change: &HistoryChange) -> String {
    let Utc { year, month, day, hour, minute, .. } = Utc::from_unix_ms(change.started_unix_ms);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// For a pull request or an issue.
pub fn markdown(history: &History) -> String {
    let mut out = format!("## prony compare: {}\n\n", escape(&sentence(history)));
    let rows: Vec<Vec<String>> = history
        .series
        .iter()
        .flat_map(|s| s.changes.iter().map(move |c| vec![s.label.clone(), names::compared(s.metric), words(s, c)]))
        .collect();
    out.push_str(&table(&["load", "metric", "change"], &rows));
    history.notes.iter().for_each(|note| out.push_str(&format!("- {}\n", escape(note))));
    out
}

/// `prony.compare/1` with mode `history`.
pub fn json(history: &History) -> String {
    serde_json::to_string_pretty(history).expect("a history holds strings and numbers only")
}
