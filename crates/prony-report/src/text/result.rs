//! The whole result for a terminal: verdict first, then why, then what was done about it, then what was put back.

use super::{Style, wrap};
use crate::number;
use crate::view::{EvidenceView, InterventionView, ProofView, ReportData, Tone, WalkView};
use prony_model::Run;

/// Causes that are named before the rest is counted: a terminal shows the verdict, the report shows everything.
const EXCLUDED_SHOWN: usize = 4;

/// The whole result: verdict, evidence, what was ruled out, proof, what was put back.
pub fn verdict(run: &Run, style: Style) -> String {
    let data = ReportData::of(run);
    let mut out = head(&data, style);
    if let Some(found) = &data.limit {
        out.push_str(&super::limit::body(found, style));
    }
    out.push_str(&diagnosis_of(&data, style));
    out.push_str(&proof_of(&data, style));
    out.push_str(&changes_of(&data, style));
    out
}

/// The diagnosis alone: the sentence, evidence, interventions, what was ruled out, what could not be seen.
pub fn diagnosis(run: &Run, style: Style) -> String {
    let data = ReportData::of(run);
    let mut out = head(&data, style);
    out.push_str(&diagnosis_of(&data, style));
    out
}

/// The proof alone; empty when nothing was proven.
pub fn proof(run: &Run, style: Style) -> String {
    proof_of(&ReportData::of(run), style)
}

fn head(data: &ReportData, style: Style) -> String {
    let mut out = style.bold(wrap("", &data.headline.sentence).trim_end());
    out.push('\n');
    if let Some(support) = &data.headline.support {
        let tone = data.proof.as_ref().map_or(Tone::Plain, |p| p.tone);
        out.push_str(&style.toned(tone, wrap("", support).trim_end()));
        out.push('\n');
    }
    if let Some(note) = &data.run.end_note {
        out.push_str(&style.toned(Tone::Warn, wrap("", note).trim_end()));
        out.push('\n');
    }
    if let Some(v) = data.verdict.as_ref().filter(|v| !v.summary.is_empty()) {
        out.push('\n');
        out.push_str(&wrap("", &v.summary));
    }
    out.push('\n');
    // A search shows its answers with more room, below.
    for figure in data.headline.figures.iter().filter(|_| data.limit.is_none()) {
        let value = super::clean(&figure.value);
        let lines = wrap(&format!("  {:<16}{value:<18} ", figure.label), &figure.note);
        // Coloured after the lines were broken: escape codes take no column.
        out.push_str(&lines.replacen(&value, &style.toned(figure.tone, &value), 1));
    }
    out
}

/// A heading with its lines; nothing when there are no lines.
pub(crate) fn section(title: &str, body: &str, style: Style) -> String {
    if body.is_empty() { String::new() } else { format!("\n{}\n{body}", style.bold(title)) }
}

fn diagnosis_of(data: &ReportData, style: Style) -> String {
    let mut out = String::new();
    if let Some(v) = &data.verdict {
        let tests: String = v
            .grounding
            .iter()
            .map(|g| wrap(if g.holds { "  yes  " } else { "  no   " }, &format!("{}: {}", g.title, g.detail)))
            .collect();
        let title = if v.grounded { "Grounded" } else { "Not grounded" };
        out.push_str(&section(title, &tests, style));
    }
    // The closer look and the cause stand below and above, with their figures.
    let steps = data.walk.iter().filter(|step| step.step != "closely" && step.step != "cause");
    let walk: String = steps.enumerate().map(|(i, step)| walk_lines(i + 1, step)).collect();
    out.push_str(&section("How it was found", &walk, style));
    let evidence: String = data.evidence.iter().enumerate().map(|(i, e)| evidence_lines(i + 1, e)).collect();
    out.push_str(&section("Evidence", &evidence, style));
    let tests: String = data.interventions.iter().map(intervention_line).collect();
    out.push_str(&section("Interventions (elasticity 1: the limit follows; 0: it does not)", &tests, style));
    out.push_str(&section("Ruled out", &excluded(data), style));
    out.push_str(&against(data, style));
    let gaps: String = data.gaps.iter().map(|g| wrap("  - ", &gap_text(&g.host, &g.facts, &g.reason))).collect();
    out.push_str(&section("Not seen", &gaps, style));
    if data.proof.is_none() {
        let remedies: String = data.remedies.iter().map(|r| wrap("  - ", &r.advice)).collect();
        out.push_str(&section("Remedy", &remedies, style));
    }
    out
}

fn walk_lines(number: usize, step: &WalkView) -> String {
    let mut lines = wrap(&format!("  {number}. "), &format!("{}: {}", step.title, step.looked_at));
    lines.extend(step.said.iter().map(|said| wrap("     ", said)));
    if !step.ruled_out.is_empty() {
        lines.push_str(&wrap("     ", &format!("{} causes ruled out", step.ruled_out.len())));
    }
    lines
}

fn evidence_lines(number: usize, e: &EvidenceView) -> String {
    let mut figures = format!("{} = {} at {}", e.metric, e.value_text, e.host);
    if let Some(baseline) = &e.baseline_text {
        figures.push_str(&format!(", calm {baseline}"));
    }
    if let Some(threshold) = &e.threshold_text {
        figures.push_str(&format!(", border {threshold} ({})", e.origin));
    }
    let against = if e.supports { "" } else { "[against] " };
    wrap(&format!("  {number}. "), &format!("{against}{}", e.claim)) + &wrap("     ", &figures)
}

fn intervention_line(i: &InterventionView) -> String {
    let role = if i.control { "control" } else { "suspect" };
    wrap(&format!("  {role}  "), &format!("{}: {}, {} pairs; {}", i.what, i.text, i.pairs, i.reading))
}

fn excluded(data: &ReportData) -> String {
    let mut out: String = data
        .excluded
        .iter()
        .take(EXCLUDED_SHOWN)
        .map(|e| wrap("  - ", &format!("{}: {}", e.cause, e.because)))
        .collect();
    if data.excluded.len() > EXCLUDED_SHOWN {
        let rest: Vec<&str> = data.excluded[EXCLUDED_SHOWN..].iter().map(|e| e.cause.as_str()).collect();
        out.push_str(&wrap("  - ", &format!("and {}; reasons in the report", rest.join(", "))));
    }
    out
}

fn against(data: &ReportData, style: Style) -> String {
    let Some(against) = &data.against else { return String::new() };
    let mut lines = wrap("  ", &against.throughput);
    lines.extend(against.settings.iter().map(|setting| wrap("  - ", setting)));
    lines.extend(
        against.moved.iter().map(|m| {
            wrap("  - ", &format!("{} of {}: {} now, {} then ({})", m.metric, m.host, m.now, m.good, m.change))
        }),
    );
    section(&format!("What differs from the good run {}", against.run), &lines, style)
}

/// One group of gaps: `tcp.retransmits, tcp.timeouts of s1: no route to the host`. Many facts are counted.
pub(crate) fn gap_text(host: &str, facts: &[String], reason: &str) -> String {
    /// Facts that are named before the rest is counted.
    const SHOWN: usize = 3;
    let mut what = facts.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if facts.len() > SHOWN {
        what.push_str(&format!(" and {} more", facts.len() - SHOWN));
    }
    let of = if host.is_empty() { String::new() } else { format!(" of {host}") };
    format!("{what}{of}: {reason}")
}

fn proof_of(data: &ReportData, style: Style) -> String {
    let Some(proof) = &data.proof else { return String::new() };
    section("Proof", &proof_lines(proof, style), style)
}

fn proof_lines(proof: &ProofView, style: Style) -> String {
    let mut out = String::new();
    if let Some(change) = &proof.change {
        out.push_str(&wrap("  ", &format!("A: as found. B: {change}.")));
    }
    let e = &proof.effect;
    let verdict = style.toned(proof.tone, &proof.verdict_title);
    out.push_str(&format!("  {:<28}{} -> {}  {}  {verdict}\n", e.title, e.a_text, e.b_text, e.text));
    for g in &proof.guards {
        let state = style.toned(g.tone, &g.state);
        let margin = g.margin.map(number::change).unwrap_or_default();
        out.push_str(&format!("  {:<28}{} -> {}  {}  margin {margin}: {state}\n", g.title, g.a_text, g.b_text, g.text));
    }
    let detectable =
        e.detectable.map(|d| format!("; smallest detectable effect {}", number::percent(d))).unwrap_or_default();
    let p = e.p.map(|p| format!("; p = {}", number::plain(p))).unwrap_or_default();
    out.push_str(&wrap("  ", &format!("{} pairs in randomised blocks (seed {}){detectable}{p}", e.pairs, proof.seed)));
    if let Some(prediction) = &proof.prediction {
        out.push_str(&wrap("  ", prediction));
    }
    if let Some(worth) = &proof.worth {
        let lines = wrap("  ", worth);
        out.push_str(&style.toned(proof.worth_tone, lines.trim_end()));
        out.push('\n');
    }
    out
}

fn changes_of(data: &ReportData, style: Style) -> String {
    let mut lines = String::new();
    for c in &data.changes {
        lines.push_str(&wrap("  - ", &format!("{} at {} (before: {}): {}", c.knob, c.host, c.before, c.state)));
        if !c.permanent.is_empty() {
            lines.push_str(&wrap("    permanent: ", &c.permanent));
        }
    }
    section("Changes", &lines, style)
}
