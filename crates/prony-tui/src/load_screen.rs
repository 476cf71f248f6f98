//! The live screen of a load: a state machine that sees progress and draws itself, or tells itself in lines.
//!
//! No IO and no clock; time is what the progress says. Invariant: whatever the size, the most important parts are shown whole,
//! and a part that does not fit is left out whole.

use crate::course::Course;
use crate::load_line;
use crate::load_rows::Rows;
use crate::look::Look;
use crate::parts::{self, Part};
use prony_model::{LoadPlan, LoadProgress};
use ratatui::Frame;
use ratatui::text::Line;

/// Rows of a chart at least, and at most where there is room. Guesses: two rows have 16 levels, eight fill a tall screen.
const CHART_ROWS: [usize; 2] = [2, 8];

/// A load, as a person watches it.
pub struct LoadScreen {
    plan: LoadPlan,
    look: Look,
    course: Course,
    stopping: bool,
    /// Whole seconds of the load when lines were asked for last; none: never.
    told_s: Option<u64>,
}

impl LoadScreen {
    /// A load that has not begun.
    pub fn new(plan: &LoadPlan, look: Look) -> Self {
        Self { plan: plan.clone(), look, course: Course::new(plan.warmup), stopping: false, told_s: None }
    }

    /// Takes in how the load goes.
    pub fn see(&mut self, progress: &LoadProgress) {
        self.course.see(progress);
    }

    /// The load was told to stop.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Draws over the whole frame.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        parts::draw(frame, &self.rows(area.width.into(), area.height.into()));
    }

    /// The plain lines that are due, for where there is no terminal: first what is loaded and how, then one a second.
    pub fn next_lines(&mut self) -> Vec<String> {
        let seconds = self.course.latest().elapsed.0 / 1_000_000_000;
        let first = self.told_s.is_none().then(|| load_line::first_line(&self.plan));
        let due = self.told_s.replace(seconds).unwrap_or_default() < seconds;
        first.into_iter().chain(due.then(|| load_line::line(&self.plan, &self.course))).collect()
    }

    fn rows(&self, width: usize, height: usize) -> Vec<Line<'static>> {
        let [least, most] = CHART_ROWS;
        let mut parts = self.parts(width, least);
        let spare = height.saturating_sub(parts::height(&parts)) / 2;
        if spare > 0 {
            parts = self.parts(width, (least + spare).min(most));
        }
        parts::fit(parts, height)
    }

    /// From top to bottom.
    fn parts(&self, width: usize, chart: usize) -> Vec<Part> {
        let Self { plan, course, look, stopping, .. } = self;
        let rows = Rows { plan, course, look: *look, width, stopping: *stopping };
        let parts = [
            (7, false, rows.title()),
            (3, false, rows.plan()),
            (13, true, rows.progress()),
            (12, true, rows.rates()),
            (4, true, rows.over_time(chart)),
            (10, true, rows.latency()),
            (2, true, rows.distribution(chart)),
            (8, true, rows.generator()),
            (5, false, rows.schedule()),
            (6, false, rows.connections()),
            (9, false, rows.errors()),
            (11, false, rows.warning()),
            (1, false, rows.help()),
        ];
        parts
            .into_iter()
            .filter(|(.., rows)| !rows.is_empty())
            .map(|(rank, gap, rows)| Part { rank, gap, rows })
            .collect()
    }
}

#[cfg(test)]
#[path = "load_screen_tests.rs"]
mod tests;
