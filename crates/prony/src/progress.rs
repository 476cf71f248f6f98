//! What a person sees on stderr while a run is under way.

use prony_model::{Event, Gap};
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};

/// Longest line about a missing fact. A guess: most terminals are this wide; the report has every word.
const GAP_CHARS: usize = 100;

/// Writes events as lines; on a terminal a running trial is shown on one line that is overwritten.
pub(crate) struct Progress {
    terminal: bool,
    quiet: bool,
    label: String,
    /// Facts whose absence was told already, on whichever host.
    told: BTreeSet<String>,
}

impl Progress {
    /// Progress on stderr, or none.
    pub fn new(quiet: bool) -> Self {
        Self { terminal: std::io::stderr().is_terminal(), quiet, label: String::new(), told: BTreeSet::new() }
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
                    write!(err, "{}           {label} ({seconds:.1} s) ...", self.wipe())
                } else {
                    Ok(())
                }
            }
            Event::TrialDone { good_per_s, p99_us, errors, .. } => {
                let errors = if *errors > 0 { format!(", {errors} errors") } else { String::new() };
                let (wipe, label) = (self.wipe(), &self.label);
                writeln!(err, "{wipe}           {label:<44} {good_per_s:>9.0}/s  p99 {:>8.2} ms{errors}", p99_us / 1e3)
            }
            Event::Missing { gap } if self.told.insert(gap.fact.clone()) => {
                writeln!(err, "{}           {}", self.wipe(), gap_line(gap))
            }
            Event::Missing { .. } => Ok(()),
        };
        let _ = err.flush();
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
    fn a_long_gap_takes_one_line() {
        assert_eq!(gap_line(&Gap::new("x", "lb", "short")), "not seen: x of lb: short");
        let line = gap_line(&Gap::new("x", "lb", "\u{e4}".repeat(300)));
        assert_eq!(line.chars().count(), GAP_CHARS + "... (more in the report)".len());
    }
}
