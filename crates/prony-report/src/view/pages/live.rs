//! A run while it goes on: what was found so far, and what happened.
//!
//! It needs no series, so that looking once a second costs little. Invariant: each view is the whole state, so that a page which
//! missed one has missed nothing.

use super::super::{ReportData, Tone};
use crate::number;
use crate::text::Closing;
use crate::typed::view;
use prony_model::{Event, Run};

view! {
    /// A run while it goes on.
    pub struct LiveView {
        /// What was found so far; without the timeline, the inventory and the commands, which come with the report.
        pub report: ReportData,
        /// What happened, the newest last.
        pub happened: Vec<HappenedView>,
    }

    /// Something that happened during a run.
    pub struct HappenedView {
        /// Seconds since the start of the run.
        pub at_s: f64,
        /// What, in a line.
        pub text: String,
        /// How it is meant.
        pub tone: Tone,
    }
}

/// Lines that a page gets. A guess: more than a screen.
const LINES_MAX: usize = 100;

impl LiveView {
    /// Of a run as it was recorded so far, with its events and the nanoseconds since its start at which they happened.
    pub fn of(run: &Run, events: &[(u64, Event)]) -> Self {
        let report = ReportData { inventory: Vec::new(), commands: Vec::new(), ..ReportData::of(run) };
        let mut happened: Vec<HappenedView> =
            events.iter().rev().filter_map(|(at_ns, event)| line(*at_ns, event)).take(LINES_MAX).collect();
        happened.reverse();
        Self { report, happened }
    }
}

/// None for what the sections of the report show.
fn line(at_ns: u64, event: &Event) -> Option<HappenedView> {
    let (text, tone) = match event {
        Event::Stage { name, detail } => (format!("{name}: {detail}"), Tone::Plain),
        Event::TrialDone { id, good_per_s, p99_us, errors } => {
            let failed = if *errors > 0 { format!(", {} failed", number::count(*errors)) } else { String::new() };
            let (rate, p99) = (number::rate(*good_per_s), number::micros(*p99_us));
            (format!("trial {id}: {rate}/s, p99 {p99}{failed}"), if *errors > 0 { Tone::Warn } else { Tone::Plain })
        }
        Event::Narrowed { .. } => (Closing::of(event)?.interval, Tone::Plain),
        Event::Note { text } => (text.clone(), Tone::Warn),
        Event::TrialStarted { .. } | Event::CellDone { .. } | Event::Missing { .. } => return None,
    };
    Some(HappenedView { at_s: (at_ns / 1_000_000) as f64 / 1e3, text, tone })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Gap;

    #[test]
    fn the_newest_lines_come_last_and_gaps_are_told_elsewhere() {
        let mut events = vec![(0, Event::Missing { gap: Gap::new("x", "lb", "y") })];
        let done = |id: u32| Event::TrialDone { id, good_per_s: 1234.0, p99_us: 2500.0, errors: u64::from(id == 199) };
        events.extend((0..200).map(|id| (u64::from(id) * 1_500_000_000, done(id))));
        let live = LiveView::of(&Run::default(), &events);
        assert_eq!(live.happened.len(), LINES_MAX);
        let last = live.happened.last().unwrap();
        assert_eq!((last.at_s, last.tone), (298.5, Tone::Warn));
        assert_eq!(last.text, "trial 199: 1,234/s, p99 2.50 ms, 1 failed");
    }
}
