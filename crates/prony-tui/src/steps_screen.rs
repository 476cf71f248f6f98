//! The live screen of a run of many trials: `limit`, `diagnose`, `prove`, `tune`, `run`. What happens now, why, and how long still.
//!
//! A state machine that sees events and draws itself. No IO and no clock: whoever tells an event says when it happened. Invariant:
//! on a small screen the stage, the trial that runs and the answer so far are shown before the trials that are over.

use crate::charts;
use crate::look::Look;
use crate::parts::{self, LABEL, Part};
use crate::texts;
use prony_model::{Event, Nanos};
use prony_report::number;
use prony_report::text::Closing;
use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::collections::BTreeSet;
use std::time::Duration;

/// Columns of the bar of a trial or a budget. A guess: a column for each 5 %.
const BAR: usize = 20;
/// Columns of the throughput and of p99 in a row of the table.
const NUMBER: usize = 12;
/// Rows of the chart. A guess: two rows have 16 levels.
const CHART_ROWS: usize = 2;
/// Notes that are shown, the newest. A guess: what is older was read.
const NOTES: usize = 2;

/// A run of trials, as a person watches it.
pub struct StepsScreen {
    title: String,
    look: Look,
    /// Names in the order in which they came; what follows itself is one.
    stages: Vec<String>,
    why: String,
    /// The trial that runs.
    now: Option<Running>,
    /// Those that are over, the newest last.
    over: Vec<Over>,
    /// What is known of the answer, and how much of its time is spent.
    answer: Option<(Closing, f64)>,
    /// How far an experiment is.
    left: String,
    notes: Vec<String>,
    /// Facts that cannot be read; hosts aside.
    gaps: BTreeSet<String>,
    stopping: bool,
}

struct Running {
    label: String,
    since: Duration,
    seconds: f64,
    left_s: f64,
}

struct Over {
    label: String,
    good_per_s: f64,
    p99_us: f64,
    errors: u64,
}

impl StepsScreen {
    /// A run of which nothing was seen yet. `title` is its command line.
    pub fn new(title: &str, look: Look) -> Self {
        Self {
            title: title.to_string(),
            look,
            stages: Vec::new(),
            why: String::new(),
            now: None,
            over: Vec::new(),
            answer: None,
            left: String::new(),
            notes: Vec::new(),
            gaps: BTreeSet::new(),
            stopping: false,
        }
    }

    /// Takes in what happened `at` after the begin.
    pub fn see(&mut self, event: &Event, at: Duration) {
        match event {
            Event::Stage { name, detail } => {
                if self.stages.last() != Some(name) {
                    self.stages.push(name.clone());
                }
                self.why.clone_from(detail);
                self.now = None;
            }
            Event::TrialStarted { label, seconds, left_s, .. } => {
                self.now = Some(Running { label: label.clone(), since: at, seconds: *seconds, left_s: *left_s });
            }
            Event::TrialDone { good_per_s, p99_us, errors, .. } => {
                let label = self.now.take().map(|now| now.label).unwrap_or_default();
                self.over.push(Over { label, good_per_s: *good_per_s, p99_us: *p99_us, errors: *errors });
            }
            Event::Narrowed { spent_s, budget_s, .. } => {
                self.answer = Closing::of(event).map(|closing| (closing, spent_s / budget_s));
            }
            Event::Note { text } => self.notes.push(text.clone()),
            Event::Missing { gap } => {
                self.gaps.insert(gap.fact.clone());
            }
            Event::CellDone { .. } => {}
        }
    }

    /// Takes in how far an experiment is, in words.
    pub fn set_left(&mut self, left: String) {
        self.left = left;
    }

    /// The run was told to stop.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Draws over the whole frame, as it is `at` after the begin.
    pub fn draw(&self, frame: &mut Frame<'_>, at: Duration) {
        let area = frame.area();
        parts::draw(frame, &self.rows(area.width.into(), area.height.into(), at));
    }

    fn rows(&self, width: usize, height: usize, at: Duration) -> Vec<Line<'static>> {
        let fixed = parts::height(&self.parts(width, 0, at));
        // The head of the table, its gap and at least one row.
        let room = height.saturating_sub(fixed);
        let table = if room >= 3 { (room - 2).min(self.over.len()) } else { 0 };
        parts::fit(self.parts(width, table, at), height)
    }

    /// From top to bottom, with so many rows in the table of trials.
    fn parts(&self, width: usize, table: usize, at: Duration) -> Vec<Part> {
        let parts = [
            (7, false, self.title(width, at)),
            (9, true, self.path(width)),
            (8, false, self.reason(width)),
            (10, true, self.running(width, at)),
            (11, false, self.answer(width)),
            (6, false, self.named("experiment", &self.left, Style::new(), width)),
            (5, false, self.notes(width)),
            (3, true, self.chart(width)),
            (2, true, self.table(table, width)),
            (1, false, self.missing(width)),
            (4, true, self.help()),
        ];
        let shown = parts.into_iter().filter(|(.., rows)| !rows.is_empty());
        shown.map(|(rank, gap, rows)| Part { rank, gap, rows }).collect()
    }

    fn title(&self, width: usize, at: Duration) -> Vec<Line<'static>> {
        let since = texts::duration(Nanos::from_millis(at.as_secs() * 1000));
        let room = width.saturating_sub(since.len() + 3);
        let title = parts::clip(&self.title, room, self.look);
        vec![Line::from(vec![
            Span::styled(format!(" {title}"), self.look.number()),
            Span::styled(parts::right(&since, width.saturating_sub(title.chars().count() + 2)), self.look.label()),
        ])]
    }

    /// The stages so far, the last one bold. Of a long path the begin is left out.
    fn path(&self, width: usize) -> Vec<Line<'static>> {
        let Some((now, before)) = self.stages.split_last() else { return Vec::new() };
        let arrow = " > ";
        let mut room = width.saturating_sub(now.len() + 2);
        let fits = |name: &&String| {
            let fits = name.len() + arrow.len() <= room;
            room = room.saturating_sub(name.len() + arrow.len());
            fits
        };
        let mut shown: Vec<&String> = before.iter().rev().take_while(fits).collect();
        shown.reverse();
        let walked: String = shown.into_iter().map(|name| format!("{name}{arrow}")).collect();
        vec![Line::from(vec![
            Span::styled(format!(" {walked}"), self.look.label()),
            Span::styled(now.clone(), self.look.number().patch(self.look.chart())),
        ])]
    }

    fn reason(&self, width: usize) -> Vec<Line<'static>> {
        let why = if self.stopping { texts::STOPPING_RUN } else { &self.why };
        let style = if self.stopping { self.look.warning() } else { Style::new() };
        let room = width.saturating_sub(1);
        let shown = (!why.is_empty()).then(|| Line::styled(format!(" {}", parts::clip(why, room, self.look)), style));
        shown.into_iter().collect()
    }

    /// The trial that runs, how far it is, and what is planned after it.
    fn running(&self, width: usize, at: Duration) -> Vec<Line<'static>> {
        let Some(now) = &self.now else { return Vec::new() };
        let gone_s = at.saturating_sub(now.since).as_secs_f64();
        // A trial ends when its last answers are there, a little after its time.
        let left_s = (now.seconds - gone_s).max(0.0);
        let (filled, rest) = charts::bar(1.0 - left_s / now.seconds.max(1e-9), BAR, self.look.blocks);
        let seconds = |s: f64| Nanos(s.ceil() as u64 * 1_000_000_000);
        let after = if now.left_s > 0.0 {
            format!(", then {} more planned", texts::duration(seconds(now.left_s)))
        } else {
            String::new()
        };
        let label = self.named("trial", &now.label, self.look.number(), width);
        let mut bar = self.head("");
        bar.push_span(Span::styled(filled, self.look.chart()));
        bar.push_span(Span::styled(rest, self.look.label()));
        bar.push_span(Span::raw(format!("  {}{after}", texts::time_left(seconds(left_s)))));
        label.into_iter().chain([bar]).collect()
    }

    fn answer(&self, width: usize) -> Vec<Line<'static>> {
        let Some((Closing { interval, time }, share)) = &self.answer else { return Vec::new() };
        let (filled, rest) = charts::bar(*share, BAR, self.look.blocks);
        let mut bar = self.head("");
        bar.push_span(Span::styled(filled, self.look.label()));
        bar.push_span(Span::styled(rest, self.look.label()));
        bar.push_span(Span::raw(format!("  {time}")));
        self.named("answer", interval, self.look.number(), width).into_iter().chain([bar]).collect()
    }

    fn notes(&self, width: usize) -> Vec<Line<'static>> {
        let newest = &self.notes[self.notes.len().saturating_sub(NOTES)..];
        newest.iter().flat_map(|note| self.named("note", note, self.look.warning(), width)).collect()
    }

    /// A column for each trial, as many of the newest as fit.
    fn chart(&self, width: usize) -> Vec<Line<'static>> {
        let columns = width.saturating_sub(LABEL + 1);
        let shown = &self.over[self.over.len().saturating_sub(columns)..];
        if shown.len() < 2 {
            return Vec::new();
        }
        let rates = shown.iter().map(|trial| trial.good_per_s);
        let most = number::rate(rates.clone().fold(0.0, f64::max));
        let rows = charts::columns(&charts::of_largest(rates), CHART_ROWS, self.look.blocks);
        let mut lines: Vec<Line<'static>> =
            self.named("good/s", &texts::of_trials(shown.len(), &most), self.look.label(), width);
        lines.extend(rows.into_iter().map(|row| {
            let mut line = self.head("");
            line.push_span(Span::styled(row, self.look.chart()));
            line
        }));
        lines
    }

    /// The trials that are over, the newest first.
    fn table(&self, rows: usize, width: usize) -> Vec<Line<'static>> {
        if rows == 0 {
            return Vec::new();
        }
        let label = width.saturating_sub(2 * NUMBER + 2);
        let head = format!(
            " {:<label$}{}{}",
            parts::clip(texts::TRIALS_OVER, label, self.look),
            parts::right("good/s", NUMBER),
            parts::right("p99", NUMBER)
        );
        let row = |trial: &Over| {
            let failed = match trial.errors {
                0 => String::new(),
                errors => format!(", {} errors", number::count(errors)),
            };
            let name = parts::clip(&format!("{}{failed}", trial.label), label.saturating_sub(1), self.look);
            let style = if trial.errors > 0 { self.look.error() } else { Style::new() };
            Line::from(vec![
                Span::styled(format!(" {name:<label$}"), style),
                Span::raw(parts::right(&number::rate(trial.good_per_s), NUMBER)),
                Span::raw(parts::right(&number::micros(trial.p99_us), NUMBER)),
            ])
        };
        let head = Line::styled(head, self.look.label());
        [head].into_iter().chain(self.over.iter().rev().take(rows).map(row)).collect()
    }

    fn missing(&self, width: usize) -> Vec<Line<'static>> {
        let text = match self.gaps.len() {
            0 => return Vec::new(),
            1 => "1 fact cannot be seen: the report says which, and why".to_string(),
            n => format!("{n} facts cannot be seen: the report says which, and why"),
        };
        vec![Line::styled(format!(" {}", parts::clip(&text, width.saturating_sub(1), self.look)), self.look.label())]
    }

    fn help(&self) -> Vec<Line<'static>> {
        vec![Line::styled(format!(" {}", texts::HELP_RUN), self.look.label())]
    }

    fn head(&self, name: &str) -> Line<'static> {
        parts::named(name, LABEL, self.look)
    }

    /// One row with its name at the left; none of nothing.
    fn named(&self, name: &str, text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut row = self.head(name);
        row.push_span(Span::styled(parts::clip(text, width.saturating_sub(LABEL), self.look), style));
        vec![row]
    }
}

#[cfg(test)]
#[path = "steps_screen_tests.rs"]
mod tests;
