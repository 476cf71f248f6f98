//! The result of an experiment for a terminal, for a page of documents, and for machines; its picture is in `picture`.
//!
//! Nothing is judged here. Invariant: an effect is never shown without its interval.

mod hot;
mod picture;

pub use picture::svg;

use crate::markdown::{escape, section as md_section, table as md_table};
use crate::number::{self, NONE};
use crate::origin::Origin;
use crate::text::{Style, section, table, wrap};
use crate::view::Tone;
use prony_model::Effect;
use prony_model::experiment::{Allowed, CellRow, Design, ExperimentResult, FactorEffect, Interaction, Seen, Side};
use prony_stats::prove::same_within;

/// As on the terminal.
pub fn text(result: &ExperimentResult, style: Style) -> String {
    let mut out = style.bold(wrap("", &format!("{}: {}", result.experiment.name, progress(result))).trim_end());
    out.push('\n');
    let fixed = everywhere(result);
    out.push_str(&if fixed.is_empty() { String::new() } else { wrap("  ", &fixed) });
    let title = format!("Cells: {} on {}", result.experiment.find.words(), result.stack);
    let grid = cells(result);
    out.push_str(&table(&title, &grid, style));
    out.push_str(&section(hot::TITLE, &hot::paths(result).iter().map(|p| wrap("  - ", p)).collect::<String>(), style));
    let lines: Vec<Vec<String>> = effect_rows(result);
    let head = ["factor", "from", "to", "effect", "95 % interval", "p", "result"].map(str::to_string).to_vec();
    if !lines.is_empty() {
        let all: Vec<Vec<String>> = std::iter::once(head).chain(lines).collect();
        out.push_str(&table("Effects, corrected by Holm for their number", &all, style));
    }
    out.push_str(&section("A against A", &placebo(result).map(|p| wrap("  ", &p)).unwrap_or_default(), style));
    let claims: String = result
        .claims
        .iter()
        .flat_map(|claim| {
            let word = allowed(claim.allowed);
            let tone = match claim.allowed {
                Allowed::AsExpected => Tone::Good,
                Allowed::NotAsExpected => Tone::Bad,
                Allowed::Open => Tone::Warn,
            };
            let expected = wrap("  expected  ", &format!("{}: {word}", claim.expected));
            let observed = wrap("  observed  ", &claim.observed);
            let why = if claim.why.is_empty() { String::new() } else { wrap("  why       ", &claim.why) };
            [expected.replacen(word, &style.toned(tone, word), 1), observed, why]
        })
        .collect();
    let written = wrap("  written before  ", &result.experiment.expectation);
    out.push_str(&section("Conclusion", &format!("{written}{claims}"), style));
    let notes: String = result.notes.iter().map(|n| wrap("  - ", n)).collect();
    out.push_str(&section("To know", &notes, style));
    let unseen = &result.experiment.unseen;
    let unseen = if unseen.is_empty() { String::new() } else { wrap("  ", unseen) };
    out.push_str(&section("What cannot be seen here", &unseen, style));
    out
}

/// For a page of documents: the picture stands in a file beside it, if it has a name.
pub fn markdown(result: &ExperimentResult, picture: Option<&str>, origin: &Origin) -> String {
    let mut out = format!("{}# {}\n\n", origin.mark(), escape(&result.experiment.name));
    for paragraph in [&result.experiment.about, &everywhere(result)].into_iter().filter(|p| !p.is_empty()) {
        out.push_str(&format!("{}\n\n", escape(paragraph)));
    }
    out.push_str(&md_section("Expected", &escape(&result.experiment.expectation)));
    let grid = cells(result);
    let (head, rows) = grid.split_first().map_or((Vec::new(), &[][..]), |(head, rows)| (head.clone(), rows));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    out.push_str(&md_section("Observed", &md_table(&head, rows)));
    if let Some(picture) = picture {
        out.push_str(&format!("![{}]({picture})\n\n", escape(&result.experiment.name)));
    }
    let list = |lines: &[String]| lines.iter().map(|l| format!("- {}\n", escape(l))).collect::<String>();
    out.push_str(&md_section(hot::TITLE, &list(&hot::paths(result))));
    let head = ["factor", "from", "to", "effect", "95 % interval", "p", "result"];
    out.push_str(&md_section("Effects", &md_table(&head, &effect_rows(result))));
    out.push_str(&md_section("A against A", &placebo(result).map(|p| escape(&p)).unwrap_or_default()));
    let rows: Vec<Vec<String>> = result
        .claims
        .iter()
        .map(|c| vec![c.expected.clone(), allowed(c.allowed).to_string(), c.observed.clone(), c.why.clone()])
        .collect();
    out.push_str(&md_section("Conclusion", &md_table(&["expected", "result", "observed", "why"], &rows)));
    out.push_str(&md_section("In sentences", &list(&result.observed)));
    out.push_str(&md_section("To know", &list(&result.notes)));
    out.push_str(&md_section("What cannot be seen here", &escape(&result.experiment.unseen)));
    out.push_str(&origin.section(&format!("; seed {}", result.seed)));
    out
}

/// `prony.experiment/1`.
pub fn json(result: &ExperimentResult) -> String {
    serde_json::to_string_pretty(result).expect("a result holds strings and finite numbers only")
}

fn progress(result: &ExperimentResult) -> String {
    let (done, all) = result.done;
    let repeats = result.experiment.repeats;
    let repeats = if repeats == 1 { "once".to_string() } else { format!("{repeats} times") };
    let cells = format!("{} cells, each {repeats}, in random order (seed {})", result.cells.len(), result.seed);
    if result.is_complete() { cells } else { format!("{cells}; only {done} of {all} ran") }
}

/// What is the same in all cells.
fn everywhere(result: &ExperimentResult) -> String {
    let fixed = result.experiment.factors.iter().filter(|f| f.levels.len() == 1);
    let words: Vec<String> = fixed.map(|f| format!("{} {}", f.name, f.levels[0])).collect();
    if words.is_empty() { String::new() } else { format!("In all cells: {}.", words.join(", ")) }
}

/// The table: a head, then a line for each cell.
fn cells(result: &ExperimentResult) -> Vec<Vec<String>> {
    let rows_design = result.experiment.design == Design::Rows;
    let varied: Vec<usize> =
        (0..result.experiment.factors.len()).filter(|at| result.experiment.factors[*at].levels.len() > 1).collect();
    let named = if rows_design { vec!["row".to_string()] } else { Vec::new() };
    let factors = varied.iter().map(|at| result.experiment.factors[*at].name.clone());
    let entry = result.entry.as_deref().unwrap_or_default();
    let host_columns = ["user", "system", "interrupts", "idle"].map(|what| format!("{entry} {what}"));
    let head = named
        .into_iter()
        .chain(factors)
        .chain([result.unit.clone(), "95 % interval".to_string(), "p50".to_string(), "p99".to_string()])
        .chain(["failed", "answers"].map(str::to_string))
        .chain([format!("CPU {entry}/request")])
        .chain(host_columns)
        .chain([format!("{entry} waits for locks"), format!("{entry} hottest"), "of its samples".to_string()])
        .chain(["doubtful".to_string()])
        .collect();
    let line = |row: &CellRow| {
        let placebo = if row.placebo { " (again)" } else { "" };
        let mut levels: Vec<String> = if rows_design { vec![row.label.clone()] } else { Vec::new() };
        levels.extend(varied.iter().map(|at| row.levels.get(*at).cloned().unwrap_or_default()));
        if let (Some(first), false) = (levels.first_mut(), rows_design) {
            first.push_str(placebo);
        }
        levels.into_iter().chain(figures(result, row)).collect()
    };
    std::iter::once(head).chain(result.cells.iter().map(line)).collect()
}

fn figures(result: &ExperimentResult, row: &CellRow) -> Vec<String> {
    // What was read of no cell is no column.
    let share = |value: Option<f64>| value.map_or_else(String::new, number::percent);
    let micros = |value: Option<f64>| value.map_or_else(String::new, number::micros);
    let host = result.entry.as_ref().and_then(|entry| row.hosts.get(entry)).copied().unwrap_or_default();
    let hot = hot::at_entry(result, row);
    let hottest = hot.and_then(|hot| hot.functions.first());
    let value = row.value.map_or_else(
        || if row.gap.is_some() { "gap".to_string() } else { NONE.to_string() },
        |seen| {
            let at_least = if row.at_least { "at least " } else { "" };
            format!("{at_least}{}", number::rate(seen.value))
        },
    );
    vec![
        value,
        row.value.map_or_else(String::new, interval),
        micros(row.p50_us),
        micros(row.p99_us),
        share(row.error_share),
        row.bits_per_s.map_or_else(String::new, number::bit_rate),
        micros(host.cpu_us_per_request),
        share(host.user),
        share(host.system),
        share(host.interrupts),
        share(host.idle),
        share(hot.map(|hot| hot.locks)),
        hottest.map_or_else(String::new, |hottest| hottest.function.clone()),
        share(hottest.map(|hottest| hottest.share)),
        if row.doubtful > 0 { row.doubtful.to_string() } else { String::new() },
    ]
}

fn interval(seen: Seen) -> String {
    match (seen.low, seen.high) {
        (Some(low), Some(high)) => format!("{} to {}", number::rate(low), number::rate(high)),
        (_, _) => String::new(),
    }
}

fn effect_rows(result: &ExperimentResult) -> Vec<Vec<String>> {
    let single = |e: &FactorEffect| {
        let place = [e.factor.clone(), e.from.clone(), e.to.clone()];
        effect_row(place, e.effect.as_ref(), e.p_holm, e.side, e.within)
    };
    let both = |i: &Interaction| {
        let place = [format!("{} x {}", i.one.0, i.other.0), String::new(), format!("{} x {}", i.one.1, i.other.1)];
        effect_row(place, i.effect.as_ref(), i.p_holm, i.side, i.within)
    };
    result.effects.iter().map(single).chain(result.interactions.iter().map(both)).collect()
}

fn effect_row(place: [String; 3], effect: Option<&Effect>, p_holm: f64, side: Side, within: f64) -> Vec<String> {
    let figures = match effect {
        Some(e) => [
            number::change(e.effect),
            format!("{} to {}", number::change(e.low), number::change(e.high)),
            format!("{p_holm:.3}"),
            said(side, within),
        ],
        None => [NONE.to_string(), String::new(), String::new(), "no interval".to_string()],
    };
    place.into_iter().chain(figures).collect()
}

/// What may be said of an effect; that there is none larger than d is a result.
fn said(side: Side, within: f64) -> String {
    match side {
        Side::More => "more".to_string(),
        Side::Less => "less".to_string(),
        Side::None => format!("no effect larger than {}", number::percent(within)),
        Side::Open => format!("open: none larger than {}", number::percent(within)),
    }
}

fn placebo(result: &ExperimentResult) -> Option<String> {
    let placebo = result.placebo.as_ref()?;
    let Effect { effect, low, high, .. } = placebo.effect;
    let range = format!("{} ({} to {})", number::change(effect), number::change(low), number::change(high));
    let within = same_within(low, high);
    let word = match placebo.alarm {
        true => "an effect where there is none: this machine is not to be trusted with small effects".to_string(),
        false if within <= result.experiment.same.0 => "no effect, as it should be".to_string(),
        false => format!(
            "no effect that could be told; two cells with less than {} between them look alike",
            number::percent(within)
        ),
    };
    Some(format!("The first cell against itself, among the others in the same random order: {range}; {word}."))
}

fn allowed(allowed: Allowed) -> &'static str {
    match allowed {
        Allowed::AsExpected => "as expected",
        Allowed::NotAsExpected => "NOT as expected",
        Allowed::Open => "open",
    }
}

#[cfg(test)]
mod tests;
