//! The picture of an experiment: a point with its interval for each cell, levels from left to right (numbers from small to great), a
//! line for each level of another factor. Rows have no order, so no line joins them. Plain SVG that needs no other file.
//!
//! Invariant: the axis begins at 0, so that a small difference looks small; no name of a level runs into the next.

use crate::number;
use prony_model::experiment::{CellRow, Design, Experiment, ExperimentResult, Plot, Plotted};

/// Size of the picture and of its margins, in pixels. Guesses that fit a page.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 40.0;
/// What stands at the right when there are several lines: their names.
const NAMES: f64 = 156.0;
/// A line of text, and a character of it in the mean.
const TEXT_LINE: f64 = 16.0;
const CHARACTER: f64 = 6.6;
/// Most lines of the grid above 0.
const STEPS_MAX: f64 = 5.0;
/// Colours that people who see no red or no green tell apart: Okabe, Ito 2008, "Color universal design".
const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];

/// A point of a line.
struct Point {
    x: usize,
    value: f64,
    ends: Option<(f64, f64)>,
}

/// What is drawn.
struct Chart {
    title: String,
    x_name: String,
    y_name: String,
    /// Names of the levels, each in lines that fit.
    levels: Vec<Vec<String>>,
    lines: Vec<(String, Vec<Point>)>,
    /// Whether levels have an order.
    ordered: bool,
    /// From one line of the grid to the next.
    step: f64,
    /// Lines of the grid above 0.
    steps: u32,
}

/// The picture; none when no cell has a value, or there is nothing to put from left to right.
pub fn svg(result: &ExperimentResult) -> Option<String> {
    let chart = chart(result)?;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    out.push_str(&label(LEFT, 22.0, "start", &format!("{}: {}", chart.title, chart.y_name)));
    out.push_str(&grid(&chart));
    for (number, (name, points)) in chart.lines.iter().enumerate() {
        out.push_str(&line(&chart, COLOURS[number % COLOURS.len()], points));
        if chart.lines.len() > 1 {
            let y = TOP + TEXT_LINE * number as f64;
            let x = chart.right() + 16.0;
            let colour = COLOURS[number % COLOURS.len()];
            out.push_str(&format!("<circle cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"4\" fill=\"{colour}\"/>\n"));
            out.push_str(&label(x + 10.0, y + 4.0, "start", name));
        }
    }
    out.push_str("</svg>\n");
    Some(out)
}

fn chart(result: &ExperimentResult) -> Option<Chart> {
    let experiment = &result.experiment;
    let plot = experiment.plot.clone().or_else(|| default_plot(experiment))?;
    let ordered = !(plot.x == "row" && experiment.design == Design::Rows);
    let mut levels = experiment.names_of(&plot.x).ok()?;
    let numbers: Result<Vec<f64>, _> = levels.iter().map(|level| level.parse::<f64>()).collect();
    if ordered && numbers.is_ok() {
        let number = |level: &String| level.parse::<f64>().unwrap_or(f64::NAN);
        levels.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    let of_x = |number: usize, row: &CellRow| place(experiment, &plot.x, &levels, number, row);
    let names = plot.by.as_ref().and_then(|by| experiment.names_of(by).ok()).unwrap_or_else(|| vec![String::new()]);
    let lines: Vec<(String, Vec<Point>)> = names
        .iter()
        .map(|name| {
            let mine = |row: &CellRow| match &plot.by {
                Some(by) => level(experiment, by, row).is_some_and(|level| level == *name),
                None => true,
            };
            let points = result.cells.iter().enumerate().filter(|(_, row)| !row.placebo && mine(row));
            let name = plot.by.as_ref().map_or(String::new(), |by| format!("{by} {name}"));
            let mut points: Vec<Point> =
                points.filter_map(|(number, row)| point(plot.y, of_x(number, row)?, row)).collect();
            points.sort_by_key(|point| point.x);
            (name, points)
        })
        .collect();
    let of_point = |p: &Point| p.ends.map_or(p.value, |(_, high)| high.max(p.value));
    let highest = lines.iter().flat_map(|(_, points)| points.iter().map(of_point)).fold(0.0, f64::max);
    let y_name = match plot.y {
        Plotted::Value => result.unit.clone(),
        Plotted::P99 => "p99 in ms".to_string(),
    };
    let step = round_step(highest);
    let slot = (right(lines.len()) - LEFT) / levels.len() as f64;
    let levels = levels.iter().map(|level| wrapped(level, (slot / CHARACTER) as usize)).collect();
    (highest > 0.0).then(|| Chart {
        title: experiment.name.clone(),
        x_name: plot.x,
        y_name,
        levels,
        lines,
        ordered,
        step,
        steps: (highest / step).ceil() as u32,
    })
}

/// `0.6`, not `0.600`.
fn short(value: f64) -> String {
    let text = number::plain(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A text in lines of at most so many characters, broken between words; a longer word keeps its line.
fn wrapped(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() < characters => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_string()),
        }
    }
    lines
}

/// Where the plot ends.
fn right(lines: usize) -> f64 {
    WIDTH - RIGHT - if lines > 1 { NAMES } else { 0.0 }
}

/// From one line of the grid to the next: 1, 2 or 5 times a power of ten.
fn round_step(highest: f64) -> f64 {
    let least = highest / STEPS_MAX;
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|n| n * power).into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// The first factor that is varied, and a line for each level of the second one of a full design.
fn default_plot(experiment: &Experiment) -> Option<Plot> {
    if experiment.design == Design::Rows {
        return Some(Plot { x: "row".to_string(), by: None, y: Plotted::Value });
    }
    let mut varied = experiment.factors.iter().filter(|f| f.levels.len() > 1).map(|f| f.name.clone());
    let x = varied.next()?;
    let by = varied.next().filter(|_| experiment.design == Design::Full);
    Some(Plot { x, by, y: Plotted::Value })
}

fn level(experiment: &Experiment, factor: &str, row: &CellRow) -> Option<String> {
    let at = experiment.factors.iter().position(|f| f.name == factor)?;
    row.levels.get(at).cloned()
}

fn place(experiment: &Experiment, x: &str, levels: &[String], number: usize, row: &CellRow) -> Option<usize> {
    if x == "row" && experiment.design == Design::Rows {
        return Some(number);
    }
    let level = level(experiment, x, row)?;
    levels.iter().position(|l| *l == level)
}

fn point(y: Plotted, x: usize, row: &CellRow) -> Option<Point> {
    match y {
        Plotted::Value => {
            let seen = row.value?;
            Some(Point { x, value: seen.value, ends: seen.low.zip(seen.high) })
        }
        Plotted::P99 => Some(Point { x, value: row.p99_us? / 1e3, ends: None }),
    }
}

impl Chart {
    fn x(&self, level: usize) -> f64 {
        LEFT + (self.right() - LEFT) * (level as f64 + 0.5) / self.levels.len() as f64
    }

    fn right(&self) -> f64 {
        right(self.lines.len())
    }

    /// Where the plot ends above the names of the levels.
    fn bottom(&self) -> f64 {
        HEIGHT - BOTTOM - TEXT_LINE * self.levels.iter().map(Vec::len).max().unwrap_or(1) as f64
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (self.bottom() - TOP) * (1.0 - (value / (self.step * f64::from(self.steps))).clamp(0.0, 1.0))
    }
}

fn grid(chart: &Chart) -> String {
    let mut out = String::new();
    for line in 0..=chart.steps {
        let value = chart.step * f64::from(line);
        let y = chart.y(value);
        let end = chart.right();
        out.push_str(&format!("<path d=\"M{LEFT} {y:.1}H{end}\" stroke=\"#ddd\"/>\n"));
        out.push_str(&label(LEFT - 8.0, y + 4.0, "end", &short(value)));
    }
    for (at, name) in chart.levels.iter().enumerate() {
        for (number, words) in name.iter().enumerate() {
            let y = chart.bottom() + 18.0 + TEXT_LINE * number as f64;
            out.push_str(&label(chart.x(at), y, "middle", words));
        }
    }
    out.push_str(&label((LEFT + chart.right()) / 2.0, HEIGHT - 12.0, "middle", &chart.x_name));
    out
}

fn line(chart: &Chart, colour: &str, points: &[Point]) -> String {
    let path: Vec<String> = points.iter().map(|p| format!("{:.1} {:.1}", chart.x(p.x), chart.y(p.value))).collect();
    // Cells that share a level differ in a third factor: a line through them would mean nothing.
    let shared = points.iter().enumerate().any(|(at, p)| points[..at].iter().any(|other| other.x == p.x));
    let mut out = match path.is_empty() || shared || !chart.ordered {
        true => String::new(),
        false => format!("<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n", path.join("L")),
    };
    for point in points {
        let (x, y) = (chart.x(point.x), chart.y(point.value));
        out.push_str(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>\n"));
        if let Some((low, high)) = point.ends {
            let (low, high) = (chart.y(low), chart.y(high));
            out.push_str(&format!(
                "<path d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8\" stroke=\"{colour}\"/>\n",
                x - 4.0,
                x - 4.0
            ));
        }
    }
    out
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_the_grid_are_at_round_values() {
        let steps = [1000.0, 12_345.0, 54.0, 5.0, 0.83, 0.0006].map(|highest| short(round_step(highest)));
        assert_eq!(steps, ["200", "5,000", "20", "1", "0.2", "2.00e-4"]);
        assert_eq!(short(0.2 * 3.0), "0.6");
    }

    #[test]
    fn names_of_levels_are_broken_between_words() {
        let check = |text: &str, characters, lines: &[&str]| assert_eq!(wrapped(text, characters), lines, "{text}");
        check("delay 50 ms, jitter 10 ms", 12, &["delay 50", "ms, jitter", "10 ms"]);
        check("as found", 12, &["as found"]);
        check("stacks/one-domain.csv", 8, &["stacks/one-domain.csv"]);
        check("", 8, &[]);
    }

    proptest! {
        #[test]
        fn the_highest_value_is_within_few_lines(highest in 1e-6..1e9f64) {
            let lines = (highest / round_step(highest)).ceil();
            prop_assert!((2.0..=STEPS_MAX + 1.0).contains(&lines), "{highest}: {lines}");
        }
    }
}
