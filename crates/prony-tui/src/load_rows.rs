//! The parts of the load's screen, each a few rows: from what was seen to styled text.
//!
//! Which of them fit on the screen is decided elsewhere. Invariant: no part needs more rows than it was given.

use crate::charts::{self, DecadeAxis};
use crate::course::{CHART_SECONDS, Course};
use crate::look::Look;
use crate::parts::{self, LABEL};
use crate::texts;
use prony_model::LoadPlan;
use prony_report::number;
use prony_stats::Histogram;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Columns of one number in a table: five and the label fill 80.
const NUMBER: usize = 13;
/// Below this the tables have fewer and narrower numbers, and no room is lost to names.
const WIDE: usize = LABEL + 5 * NUMBER;
/// Columns of one number on a narrow screen: four of them, or three and the label, fill 40.
const NUMBER_NARROW: usize = 8;
/// Busiest that a generator thread may be: the same 90 % as the gate `cpu` of the result.
const THREAD_BUSY_MAX: f64 = 0.9;
/// Longest p99 of the schedule lag, in microseconds: the same 1 ms as the gate `schedule-lag` of the result.
const LAG_P99_US_MAX: f64 = 1000.0;
/// Columns of a thread's CPU bar. A guess: a column for each 10 %.
const CPU_BAR: usize = 10;
/// Columns of the phase and the time left, so that the bar before them keeps its length while they change.
const PHASE: usize = 24;
/// Most columns that one second takes in the chart over time. A guess: wider looks like a wall.
const SECOND_COLUMNS_MAX: usize = 8;
/// Most rows of kinds of errors. A guess: more than six kinds at once are not read.
const ERROR_ROWS_MAX: usize = 3;

/// What every part needs.
pub(crate) struct Rows<'a> {
    pub plan: &'a LoadPlan,
    pub course: &'a Course,
    pub look: Look,
    /// Columns of the screen.
    pub width: usize,
    /// Whether the load was told to stop.
    pub stopping: bool,
}

impl Rows<'_> {
    /// What is loaded.
    pub fn title(&self) -> Vec<Line<'static>> {
        let url = parts::clip(&self.plan.url, self.width.saturating_sub(texts::COMMAND.len() + 3), self.look);
        vec![Line::from(vec![
            Span::raw(" "),
            Span::styled(texts::COMMAND, self.look.label()),
            Span::raw("  "),
            Span::styled(url, self.look.number()),
        ])]
    }

    /// How it is loaded.
    pub fn plan(&self) -> Vec<Line<'static>> {
        let words = parts::clip(&texts::plan(self.plan), self.width.saturating_sub(1), self.look);
        vec![Line::styled(format!(" {words}"), self.look.label())]
    }

    /// How far it is.
    pub fn progress(&self) -> Vec<Line<'static>> {
        let latest = self.course.latest();
        let phase = match (self.stopping, latest.warming_up) {
            (true, _) => texts::STOPPING,
            (false, true) => texts::WARMING_UP,
            (false, false) if latest.elapsed < latest.total => texts::MEASURING,
            (false, false) => texts::ENDING,
        };
        let left = latest.total.since(latest.elapsed);
        let told = match self.course.left_by_requests(self.plan).filter(|by_requests| *by_requests < left) {
            _ if left.0 == 0 || self.stopping => String::new(),
            Some(about) => format!("  {}", texts::about_time_left(about)),
            // An hour is only the most that a number of requests may take.
            None if self.plan.requests_max.is_some() => String::new(),
            None => format!("  {}", texts::time_left(left)),
        };
        let words = format!("{phase}{told}");
        let (filled, rest) = charts::bar(self.share_done(), self.width.saturating_sub(3 + PHASE), self.look.blocks);
        let filled_style = if latest.warming_up { self.look.label() } else { self.look.chart() };
        vec![Line::from(vec![
            Span::raw(" "),
            Span::styled(filled, filled_style),
            Span::styled(rest, self.look.label()),
            Span::raw(format!("  {words}")),
        ])]
    }

    /// By time, or by requests if their number ends the load earlier.
    fn share_done(&self) -> f64 {
        let latest = self.course.latest();
        let by_time = latest.elapsed.0 as f64 / latest.total.0.max(1) as f64;
        let by_requests = self.plan.requests_max.map_or(0.0, |most| latest.sent as f64 / most.max(1) as f64);
        by_time.max(by_requests)
    }

    /// Asked, sent, done, errors per second. A closed loop asks for no rate.
    pub fn rates(&self) -> Vec<Line<'static>> {
        let rates = self.course.rates(self.plan);
        let number = |value: Option<f64>| value.map_or(self.look.dash().to_string(), number::rate);
        let failed = rates.map(|r| r.failed);
        let errors = if failed.is_some_and(|rate| rate > 0.0) { self.look.error() } else { self.number() };
        let cells = [
            (texts::ASKED, number(rates.and_then(|r| r.asked)), self.number()),
            (texts::SENT, number(rates.map(|r| r.sent)), self.number()),
            (texts::DONE, number(rates.map(|r| r.done)), self.number().patch(self.look.chart())),
            (texts::FAILED, number(failed), errors),
        ];
        let (name, columns) = if self.is_wide() { (LABEL, NUMBER) } else { (1, NUMBER_NARROW + 1) };
        let head = if self.is_wide() { texts::PER_SECOND } else { "" };
        let mut rows = [self.named(head, name), self.named("", name)];
        for (label, value, style) in cells {
            rows[0].push_span(Span::styled(parts::right(label, columns), self.look.label()));
            rows[1].push_span(Span::styled(parts::right(&value, columns), style));
        }
        rows.into()
    }

    /// Percentiles of the last second and since the start.
    pub fn latency(&self) -> Vec<Line<'static>> {
        let wide = self.is_wide();
        let shown = texts::PERCENTILES.into_iter().filter(|(_, q)| wide || [0.5, 0.99, 1.0].contains(q));
        let columns = if wide { NUMBER } else { NUMBER_NARROW };
        let mut rows = [texts::LATENCY, texts::LAST_SECOND, texts::SINCE_START].map(|name| self.named(name, LABEL));
        for (name, quantile) in shown {
            rows[0].push_span(Span::styled(parts::right(name, columns), self.look.label()));
            for (row, latency) in rows[1..].iter_mut().zip([self.course.last_second(), self.course.since_start()]) {
                row.push_span(Span::styled(
                    parts::right(&quantile_text(latency, quantile, self.look), columns),
                    self.number(),
                ));
            }
        }
        rows.into()
    }

    /// Answers per second over the last minute, `height` rows of columns under a title.
    pub fn over_time(&self, height: usize) -> Vec<Line<'static>> {
        let room = self.width.saturating_sub(2);
        let all = (self.plan.duration.0.div_ceil(1_000_000_000) as usize).clamp(1, CHART_SECONDS);
        let each = (room / all).clamp(1, SECOND_COLUMNS_MAX);
        let seconds = self.course.seconds();
        let seconds = seconds.clone().skip(seconds.len().saturating_sub(room / each));
        let largest = seconds.clone().fold(0.0, f64::max);
        let shares: Vec<f64> = charts::of_largest(seconds.clone())
            .into_iter()
            .flat_map(|share| std::iter::repeat_n(share, each))
            .collect();
        self.chart(&texts::done_over_time(seconds.len(), largest), &shares, height)
    }

    /// The distribution of the last second's latencies, `height` rows of columns between a title and an axis. The axis covers
    /// all latencies so far, so that it moves seldom.
    pub fn distribution(&self, height: usize) -> Vec<Line<'static>> {
        let (mut counts, mut labels) = (Vec::new(), String::new());
        if let Some(latency) = self.course.last_second().filter(|latency| latency.count() > 0) {
            let all = self.course.since_start().unwrap_or(latency);
            let axis = DecadeAxis::over(all.quantile_us(0.0), all.quantile_us(1.0), self.width.saturating_sub(2));
            counts = axis.counts(latency);
            labels = axis.labels();
        }
        let shares = charts::of_largest(counts.into_iter().map(|count| count as f64));
        let mut rows = self.chart(texts::DISTRIBUTION, &shares, height);
        rows.push(Line::styled(format!(" {labels}"), self.look.label()));
        rows
    }

    fn chart(&self, title: &str, shares: &[f64], height: usize) -> Vec<Line<'static>> {
        let title = Line::styled(format!(" {title}"), self.look.label());
        let rows = charts::columns(shares, height, self.look.blocks).into_iter();
        let style = if self.course.latest().warming_up { self.look.label() } else { self.look.chart() };
        std::iter::once(title).chain(rows.map(|row| Line::styled(format!(" {row}"), style))).collect()
    }

    /// CPU of each thread as a bar; when they do not fit, a character for each and the busiest in digits.
    pub fn generator(&self) -> Vec<Line<'static>> {
        let cpu = self.course.cpu();
        let mut row = self.named(texts::GENERATOR, LABEL);
        if cpu.is_empty() {
            row.push_span(Span::raw(self.look.dash()));
        }
        let bars = cpu.iter().enumerate().map(|(index, share)| {
            let (filled, rest) = charts::bar(*share, CPU_BAR, self.look.blocks);
            (
                format!("{} ", texts::thread(index)),
                filled,
                rest,
                format!(" {:>5}  ", texts::whole_percent(*share)),
                *share,
            )
        });
        let bars: Vec<_> = bars.collect();
        let columns: usize = bars.iter().map(|(name, _, _, percent, _)| name.len() + CPU_BAR + percent.len()).sum();
        if LABEL + columns <= self.width + 2 {
            for (name, filled, rest, percent, share) in bars {
                row.push_span(Span::styled(name, self.look.label()));
                row.push_span(Span::styled(filled, self.cpu_style(share)));
                row.push_span(Span::styled(rest, self.look.label()));
                row.push_span(Span::raw(percent));
            }
        } else if let Some(busiest) = cpu.iter().copied().reduce(f64::max) {
            let words = texts::busiest(busiest);
            let room = self.width.saturating_sub(LABEL + words.len() + 3);
            for share in cpu.iter().take(room) {
                let level = charts::level(*share, self.look.blocks).to_string();
                row.push_span(Span::styled(level, self.cpu_style(*share)));
            }
            row.push_span(Span::raw(format!("  {words}")));
        }
        vec![row]
    }

    fn cpu_style(&self, share: f64) -> Style {
        if share > THREAD_BUSY_MAX { self.look.warning() } else { self.look.chart() }
    }

    /// A warning when the generator is the limit; else no row.
    pub fn warning(&self) -> Vec<Line<'static>> {
        let words = busy_thread(self.course).map(|share| format!(" ! {}", texts::generator_is_the_limit(share)));
        words.into_iter().map(|words| Line::styled(words, self.look.warning())).collect()
    }

    /// Connections open and requests in flight.
    pub fn connections(&self) -> Vec<Line<'static>> {
        let latest = self.course.latest();
        let mut row = self.named(texts::CONNECTIONS, LABEL);
        row.push_span(Span::raw(texts::connections(latest.connections, latest.in_flight)));
        vec![row]
    }

    /// How well an open loop keeps its schedule; no row in closed loop.
    pub fn schedule(&self) -> Vec<Line<'static>> {
        if !self.plan.is_open_loop() {
            return Vec::new();
        }
        let mut row = self.named(texts::SCHEDULE, LABEL);
        let lag = self.course.latest().lag_us_p99;
        let late = lag.is_some_and(|us| us > LAG_P99_US_MAX);
        let style = if late { self.look.warning() } else { Style::new() };
        row.push_span(Span::styled(lag.map_or(self.look.dash().to_string(), texts::lag), style));
        let waiting = self.course.waiting(self.plan);
        if waiting > 0 {
            row.push_span(Span::raw(format!(", {}", texts::waiting(waiting))));
        }
        vec![row]
    }

    /// Errors by kind since the start; no row when there are none.
    pub fn errors(&self) -> Vec<Line<'static>> {
        let kinds = texts::error_kinds(&self.course.latest().errors);
        let mut rows: Vec<String> = Vec::new();
        let room = self.width.saturating_sub(LABEL + 1);
        for (kind, count) in kinds {
            let item = format!("{kind} {}", number::count(count));
            match rows.last_mut() {
                Some(row) if row.len() + 2 + item.len() <= room => row.push_str(&format!(", {item}")),
                Some(_) | None => rows.push(item),
            }
        }
        let named = |(index, text): (usize, String)| {
            let mut row = self.named(if index == 0 { texts::ERRORS } else { "" }, LABEL);
            row.push_span(Span::styled(text, self.look.error()));
            row
        };
        rows.into_iter().take(ERROR_ROWS_MAX).enumerate().map(named).collect()
    }

    /// What the keys do.
    pub fn help(&self) -> Vec<Line<'static>> {
        vec![Line::styled(format!(" {}", texts::HELP), self.look.label())]
    }

    fn is_wide(&self) -> bool {
        self.width >= WIDE
    }

    /// Numbers of a warm-up are grey: they do not count.
    fn number(&self) -> Style {
        if self.course.latest().warming_up { self.look.label() } else { self.look.number() }
    }

    fn named(&self, name: &str, columns: usize) -> Line<'static> {
        parts::named(name, columns, self.look)
    }
}

/// A quantile of what could be read; a dash for nothing.
pub(crate) fn quantile_text(latency: Option<&Histogram>, quantile: f64, look: Look) -> String {
    let known = latency.filter(|latency| latency.count() > 0);
    known.map_or(look.dash().to_string(), |latency| number::micros(latency.quantile_us(quantile)))
}

/// The CPU share of the busiest thread, if it is so busy that the generator is the limit.
pub(crate) fn busy_thread(course: &Course) -> Option<f64> {
    course.cpu().into_iter().reduce(f64::max).filter(|share| *share > THREAD_BUSY_MAX)
}
