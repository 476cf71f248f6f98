//! What a person sees on stderr while a run is under way.

use prony_model::{Event, Gap};
use prony_report::number::rate;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};

/// Longest line about a missing fact. A guess: most terminals are this wide; the report has every word.
const GAP_CHARS: usize = 100;

/// Writes events as lines; on a terminal a running trial is shown on one line that is overwritten.
pub(crate) struct Progress {
    terminal: bool,
    quiet: bool,
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

impl Progress {
    /// Progress on stderr, or none; with the interval of a search, or without.
    pub fn new(quiet: bool, intervals: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            terminal,
            quiet,
            intervals,
            interval: String::new(),
            label: String::new(),
            left: String::new(),
            told: BTreeSet::new(),
        }
    }

    /// How far an experiment is: shown with every trial from here on.
    pub fn set_left(&mut self, left: String) {
        self.left = left;
    }

    /// Shows one event. A note is shown even when progress is not wanted.
    pub fn show(&mut self, event: &Event) {
        if self.quiet && !matches!(event, Event::Note { .. }) {
            return;
        }
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
        let (closing, time) = if self.intervals { closing(event) } else { Default::default() };
        let changed = !closing.is_empty() && !self.interval.starts_with(&closing);
        self.interval = format!("{closing}{time}");
        if self.terminal || !changed { Ok(()) } else { writeln!(err, "           {}", self.interval) }
    }

    fn wipe(&self) -> &'static str {
        if self.terminal { "\r\x1b[K" } else { "" }
    }
}

/// The interval of a search in words, and the time it took; empty for other events.
fn closing(event: &Event) -> (String, String) {
    let Event::Narrowed { answer, low, high, unit, trials, spent_s, budget_s } = event else {
        return Default::default();
    };
    let interval = match (low, high) {
        (Some(low), Some(high)) => {
            let width =
                if *high > 0.0 { format!(", width {:.1} %", (high - low) / high * 100.0) } else { String::new() };
            format!("{} to {}{unit}{width}", rate(*low), rate(*high))
        }
        (Some(low), None) => format!("at least {}{unit}", rate(*low)),
        (None, Some(high)) => format!("below {}{unit}", rate(*high)),
        (None, None) => "not yet known".to_string(),
    };
    (format!("{answer} {interval}"), format!(", {trials} trials, {spent_s:.0} of {budget_s:.0} s"))
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
        let line = |low, high| closing(&event(low, high)).0;
        assert_eq!(line(Some(23_900.0), Some(24_500.0)), "limit 23,900 to 24,500/s, width 2.4 %");
        assert_eq!(line(Some(800.0), None), "limit at least 800/s");
        assert_eq!(line(None, None), "limit not yet known");
        let mut shown = Vec::new();
        let mut log = Progress { terminal: false, ..Progress::new(false, true) };
        for high in [24_500.0, 24_500.0, 24_300.0] {
            log.narrowed(&event(Some(23_900.0), Some(high)), &mut shown).unwrap();
        }
        let text = String::from_utf8(shown).unwrap();
        assert_eq!(text.lines().count(), 2, "a line only when it has changed: {text}");
        let mut shown = Vec::new();
        Progress::new(false, false).narrowed(&event(None, None), &mut shown).unwrap();
        assert!(shown.is_empty());
    }

    #[test]
    fn a_long_gap_takes_one_line() {
        assert_eq!(gap_line(&Gap::new("x", "lb", "short")), "not seen: x of lb: short");
        let line = gap_line(&Gap::new("x", "lb", "\u{e4}".repeat(300)));
        assert_eq!(line.chars().count(), GAP_CHARS + "... (more in the report)".len());
    }
}
