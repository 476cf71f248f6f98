//! Progress as lines; on a terminal a running trial is shown on one line that is overwritten.

use prony_model::{Event, Gap};
use prony_report::text::Closing;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};

/// Longest line about a missing fact. A guess: most terminals are this wide; the report has every word.
const GAP_CHARS: usize = 100;

/// Writes events as lines.
pub(super) struct Lines {
    terminal: bool,
    /// Whether the interval of a search is shown as it closes.
    intervals: bool,
    /// The interval as it was shown last.
    interval: String,
    label: String,
    /// How far an experiment is, behind every trial.
    left: String,
    /// Facts whose absence was told already, on whichever host.
    told: BTreeSet<String>,
}

impl Lines {
    /// On stderr; with the interval of a search, or without.
    pub fn new(intervals: bool) -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            intervals,
            interval: String::new(),
            label: String::new(),
            left: String::new(),
            told: BTreeSet::new(),
        }
    }

    pub fn set_left(&mut self, left: String) {
        self.left = left;
    }

    pub fn show(&mut self, event: &Event) {
        let mut err = std::io::stderr().lock();
        // Progress that cannot be written is lost, not fatal.
        let _ = match event {
            Event::Note { text } => writeln!(err, "note: {text}"),
            Event::Stage { name, detail } => writeln!(err, "{}{name:<10} {detail}", self.wipe()),
            Event::TrialStarted { label, seconds, .. } => {
                self.label.clone_from(label);
                if self.terminal {
                    let (interval, left) = (&self.interval, &self.left);
                    write!(err, "{}           {label} ({seconds:.1} s) ...   {interval}{left}", self.wipe())
                } else {
                    Ok(())
                }
            }
            Event::TrialDone { good_per_s, p99_us, errors, .. } => {
                let errors = if *errors > 0 { format!(", {errors} errors") } else { String::new() };
                let (wipe, label, left) = (self.wipe(), &self.label, &self.left);
                let left = if left.is_empty() { String::new() } else { format!("   {left}") };
                let p99_ms = p99_us / 1e3;
                writeln!(err, "{wipe}           {label:<44} {good_per_s:>9.0}/s  p99 {p99_ms:>8.2} ms{errors}{left}")
            }
            Event::Missing { gap } if self.told.insert(gap.fact.clone()) => {
                writeln!(err, "{}           {}", self.wipe(), gap_line(gap))
            }
            Event::Missing { .. } | Event::CellDone { .. } => Ok(()),
            Event::Narrowed { .. } => self.narrowed(event, &mut err),
        };
        let _ = err.flush();
    }

    /// On a terminal the interval stands behind the trial that runs; elsewhere it is a line when it has changed.
    fn narrowed(&mut self, event: &Event, err: &mut impl Write) -> std::io::Result<()> {
        let Some(Closing { interval, time }) = Closing::of(event).filter(|_| self.intervals) else { return Ok(()) };
        let changed = !self.interval.starts_with(&interval);
        self.interval = format!("{interval}, {time}");
        if self.terminal || !changed { Ok(()) } else { writeln!(err, "           {}", self.interval) }
    }

    fn wipe(&self) -> &'static str {
        if self.terminal { "\r\x1b[K" } else { "" }
    }
}

/// A missing fact in one line.
fn gap_line(gap: &Gap) -> String {
    let line = format!("not seen: {gap}");
    match line.char_indices().nth(GAP_CHARS) {
        Some((end, _)) => format!("{}... (more in the report)", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_seen_closing() {
        let event = |low, high| Event::Narrowed {
            answer: "limit".into(),
            low,
            high,
            unit: "/s".into(),
            trials: 9,
            spent_s: 41.3,
            budget_s: 90.0,
        };
        let mut shown = Vec::new();
        let mut log = Lines { terminal: false, ..Lines::new(true) };
        for high in [24_500.0, 24_500.0, 24_300.0] {
            log.narrowed(&event(Some(23_900.0), Some(high)), &mut shown).unwrap();
        }
        let text = String::from_utf8(shown).unwrap();
        assert_eq!(text.lines().count(), 2, "a line only when it has changed: {text}");
        let mut shown = Vec::new();
        Lines::new(false).narrowed(&event(None, None), &mut shown).unwrap();
        assert!(shown.is_empty());
    }

    #[test]
    fn a_long_gap_takes_one_line() {
        assert_eq!(gap_line(&Gap::new("x", "lb", "short")), "not seen: x of lb: short");
        let line = gap_line(&Gap::new("x", "lb", "\u{e4}".repeat(300)));
        assert_eq!(line.chars().count(), GAP_CHARS + "... (more in the report)".len());
    }
}
