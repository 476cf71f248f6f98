//! A comparison for a terminal, for a pull request, and for CI.
//!
//! Nothing is judged here. Invariant: a verdict is never shown without what it is worth.

use crate::markdown::{escape, section as md_section, table};
use crate::number::{self, NONE};
use crate::text::{Style, section, wrap};
use crate::view::Tone;
use crate::{names, view};
use prony_model::ProofVerdict;
use prony_model::comparison::{
    Answer, ChangeInterval, CompareMode, ComparedMetric, Comparison, Difference, GateState, MatchedLoad, MetricChange,
};
use prony_stats::prove::same_within;

/// Differences that a terminal shows before the rest is counted: the JSON has all.
const DIFFERENCES_SHOWN: usize = 20;

/// As on the terminal.
pub fn text(comparison: &Comparison, style: Style) -> String {
    let mut out = style.bold(wrap("", &title(comparison)).trim_end());
    out.push('\n');
    for answer in &comparison.answers {
        out.push_str(&answer_text(answer, style));
    }
    let tone = crate::view::proof::strength_tone(comparison.strength);
    let word = names::strength(comparison.strength);
    let lines = wrap("  ", &format!("{word}: {}", comparison.strength_reason));
    out.push_str(&section("What the verdict is worth", &lines.replacen(word, &style.toned(tone, word), 1), style));
    out.push_str(&section("Differs between A and B", &difference_lines(&comparison.differences), style));
    let notes: String = comparison.notes.iter().map(|n| wrap("  - ", n)).collect();
    out.push_str(&section("To know", &notes, style));
    out
}

fn title(comparison: &Comparison) -> String {
    let how = match comparison.mode {
        CompareMode::Recorded => "recorded runs",
        CompareMode::Live => "interleaved now",
    };
    format!("A: {}. B: {}. ({how})", comparison.a, comparison.b)
}

fn answer_text(answer: &Answer, style: Style) -> String {
    let mut out = String::from("\n");
    out.push_str(&style.toned(view::proof::tone(answer.verdict), wrap("", &answer.summary).trim_end()));
    out.push_str("\n\n");
    for m in &answer.metrics {
        let word = verdict(m);
        let toned = style.toned(view::proof::tone(m.verdict), &word);
        let head = format!("  {:<28}", names::compared(m.metric));
        let (a, b) = (value(m.metric, m.a), value(m.metric, m.b));
        out.push_str(&format!("{head}{a} -> {b}  {}  {toned}\n", change(m)));
    }
    let gates: String = answer
        .gates
        .iter()
        .map(|g| {
            let tone = match g.state {
                GateState::Holds => Tone::Good,
                GateState::Broken => Tone::Bad,
                GateState::NotProven => Tone::Warn,
            };
            let word = names::gate(g.state);
            wrap(&format!("  {word:<12}"), &format!("{}: {}", g.gate, g.detail)).replacen(
                word,
                &style.toned(tone, word),
                1,
            )
        })
        .collect();
    out.push_str(&section("Gates", &gates, style));
    let loads: String = answer
        .loads
        .iter()
        .map(|l| {
            let used = if l.used { "  used: " } else { "        " };
            let trials = format!("{} and {} trials", l.trials_a, l.trials_b);
            let rates = format!("{}/s -> {}/s", number::rate(l.rps_a), number::rate(l.rps_b));
            wrap(used, &format!("{}: {trials}, {rates}", l.label))
        })
        .collect();
    out.push_str(&section("Loads that both runs have", &loads, style));
    out
}

/// A value of a metric with its unit.
pub(crate) fn value(metric: ComparedMetric, value: f64) -> String {
    match metric {
        ComparedMetric::Rps => format!("{}/s", number::rate(value)),
        ComparedMetric::P50 | ComparedMetric::P99 | ComparedMetric::Cpu => number::micros(value),
        ComparedMetric::Errors => number::percent(value),
    }
}

/// Of one metric: `better`, `the same within 1.2 %`, `the same within 0.02 points`.
pub(crate) fn verdict(m: &MetricChange) -> String {
    match (&m.interval, m.verdict) {
        (Some(i), ProofVerdict::NoDifference) if !m.metric.is_ratio() => {
            // Rounded up: 0.00 would claim too much.
            format!("the same within {:.2} points", (1e4 * i.low.abs().max(i.high.abs())).ceil() / 100.0)
        }
        (Some(i), verdict) => names::verdict_of(verdict, same_within(i.low, i.high)),
        (None, verdict) => names::proof(verdict).to_string(),
    }
}

/// A change with its interval: `+38.2 % (+35.1 % to +41.4 %)`, of errors in percentage points. One at equal speed of the machine says so,
/// because it is not what A and B beside it differ by.
pub(crate) fn change(m: &MetricChange) -> String {
    let written = |v| written(m.metric, v);
    let at = if m.by_speed.is_some() { " at equal speed" } else { "" };
    match &m.interval {
        Some(i) => format!("{}{at} ({} to {})", written(m.change), written(i.low), written(i.high)),
        None => format!("{} (no interval)", written(m.change)),
    }
}

/// A change as text: relative, or in percentage points.
pub(crate) fn written(metric: ComparedMetric, change: f64) -> String {
    let hundredths = (change * 1e4).round();
    match (metric.is_ratio(), hundredths == 0.0) {
        (true, _) => number::change(change),
        (false, true) => "0.00 points".to_string(),
        (false, false) => format!("{:+.2} points", hundredths / 100.0),
    }
}

fn difference_lines(differences: &[Difference]) -> String {
    let mut out: String = differences.iter().take(DIFFERENCES_SHOWN).map(|d| wrap("  - ", &difference(d))).collect();
    if let Some(more) = differences.len().checked_sub(DIFFERENCES_SHOWN).filter(|more| *more > 0) {
        out.push_str(&wrap("  - ", &format!("and {more} more; `--json` has them all")));
    }
    out
}

/// A difference in a line.
pub(crate) fn difference(d: &Difference) -> String {
    let side = |value: &Option<String>| match value.as_deref() {
        None => "not there".to_string(),
        Some("") => "empty".to_string(),
        Some(text) => text.to_string(),
    };
    let of = if d.hosts.is_empty() { String::new() } else { format!(" of {}", d.hosts.join(", ")) };
    format!("{}{of}: {} -> {}", d.what, side(&d.a), side(&d.b))
}

/// For a pull request: what was found first, details folded below.
pub fn markdown(comparison: &Comparison) -> String {
    let mut out = format!("## prony compare: {}\n\n", overall(comparison));
    out.push_str(&format!("{}\n\n", escape(&title(comparison))));
    for answer in &comparison.answers {
        out.push_str(&format!("{}\n\n", escape(&answer.summary)));
        let row = |m: &MetricChange| {
            let (a, b) = (value(m.metric, m.a), value(m.metric, m.b));
            let detectable = |i: ChangeInterval| written(m.metric, i.detectable).trim_start_matches('+').to_string();
            let detectable = m.interval.map_or(NONE.to_string(), detectable);
            let trials = format!("{} and {}", m.trials_a, m.trials_b);
            vec![names::compared(m.metric), a, b, change(m), verdict(m), detectable, trials]
        };
        let rows: Vec<Vec<String>> = answer.metrics.iter().map(row).collect();
        out.push_str(&table(
            &["metric", "A", "B", "change (95 % interval)", "verdict", "smallest detectable", "trials"],
            &rows,
        ));
        let rows: Vec<_> = answer
            .gates
            .iter()
            .map(|g| vec![g.gate.to_string(), names::gate(g.state).to_string(), g.detail.clone()])
            .collect();
        out.push_str(&table(&["gate", "state", "seen"], &rows));
        let row = |l: &MatchedLoad| {
            let trials = format!("{} and {}", l.trials_a, l.trials_b);
            let used = if l.used { "yes" } else { "no" };
            vec![l.label.clone(), trials, number::rate(l.rps_a), number::rate(l.rps_b), used.to_string()]
        };
        let rows: Vec<Vec<String>> = answer.loads.iter().map(row).collect();
        out.push_str(&table(&["load", "trials", "A/s", "B/s", "used"], &rows));
    }
    let strength = names::strength(comparison.strength);
    out.push_str(&format!("**{strength}**: {}\n\n", escape(&comparison.strength_reason)));
    let list = |lines: Vec<String>| lines.iter().map(|l| format!("- {}\n", escape(l))).collect::<String>();
    out.push_str(&md_section(
        "Differs between A and B",
        &list(comparison.differences.iter().map(difference).collect()),
    ));
    out.push_str(&md_section("To know", &list(comparison.notes.clone())));
    out
}

/// In two or three words, for a heading: how the gates did, else the verdicts.
fn overall(comparison: &Comparison) -> String {
    let gates: Vec<GateState> = comparison.answers.iter().flat_map(|a| a.gates.iter().map(|g| g.state)).collect();
    if gates.is_empty() {
        let words: Vec<&str> = comparison.answers.iter().map(|a| names::proof(a.verdict)).collect();
        return if words.is_empty() { "A against A".to_string() } else { words.join(", ") };
    }
    let failed = gates.iter().filter(|state| **state != GateState::Holds).count();
    if failed == 0 { "every gate holds".to_string() } else { format!("{failed} of {} gates do not hold", gates.len()) }
}

/// A JUnit report: a case for each gate, or for each question.
pub fn junit(comparison: &Comparison) -> String {
    crate::junit::of_comparison(comparison).xml()
}

/// `prony.compare/1`.
pub fn json(comparison: &Comparison) -> String {
    serde_json::to_string_pretty(comparison).expect("a comparison holds strings and numbers only")
}
