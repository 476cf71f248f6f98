//! `docs/diagnosis-score.md`: what the score was, on which machine, by which command.
//!
//! Every figure on it comes from the rows. Each way to score (with interventions, by watching alone, without the faults) has
//! a section of its own and leaves the others as they are.

use super::FaultsArgs;
use super::score::{Outcome, Row, gains, summary};
use crate::bench::write_section_of;
use std::path::Path;

/// Where it is.
const PAGE: &str = "docs/diagnosis-score.md";
const HEADING: &str = "<!-- Written by `cargo xtask faults --write`. -->\n\n# Score of the diagnosis\n";

/// Writes what all sections share, and the section of this way to score; `left` names cases that were not measured yet.
///
/// # Errors
/// It cannot be written.
pub fn write(root: &Path, args: &FaultsArgs, rows: &[Row], left: &[&str]) -> anyhow::Result<()> {
    let page = root.join(PAGE);
    write_section_of(&page, HEADING, "score-about", &about())?;
    let (name, title) = way(args);
    write_section_of(&page, HEADING, name, &format!("## {title}\n\n{}", text(args, rows, left)))
}

/// Name and title of the section for this way to score.
fn way(args: &FaultsArgs) -> (&'static str, &'static str) {
    match (args.healthy, args.passive) {
        (false, false) => ("score", "With interventions"),
        (false, true) => ("score-passive", "By watching alone"),
        (true, false) => ("score-healthy", "The same stacks without their faults"),
        (true, true) => ("score-healthy-passive", "The same stacks without their faults, by watching alone"),
    }
}

fn about() -> String {
    format!(
        "Each case is a stack of real servers with one planted fault (or none), whose truth is known. `prony diagnose` is called \
         as a user would call it. A verdict is right when its cause and its host are. Healthy stacks are diagnosed \
         more often, so that a false alarm that comes by chance shows. A case counts only if its fault moves \
         throughput, p99 or p99.9 beyond the 95 % interval of {} pairs of a load with it and one straight after, without it, where \
         that was measured. *Grounded*: structure, deviation, order and the response to an intervention agree; nobody intervenes by watching alone, so \
         nothing is grounded there. \
         *Gain*: what prony predicted that mending the cause would bring, and what mending it brought: as its report tells it, in \
         throughput, or at a rate that is carried in the mean latency; at one that is not, in the throughput of a closed loop. The last two columns are two \
         simple methods on the same record: alarms with the thresholds that monitoring tools ship, and the counter whose rank goes with \
         that of the p99 over all levels of load.",
        super::PAIRS
    )
}

fn text(args: &FaultsArgs, rows: &[Row], left: &[&str]) -> String {
    let mut machines: Vec<&str> = rows.iter().map(|row| row.machine.as_str()).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut command = format!(
        "cargo xtask faults --repeat {} --repeat-healthy {} --seed {}",
        args.repeat, args.repeat_healthy, args.seed
    );
    for (flag, on) in [("--healthy", args.healthy), ("--passive", args.passive), ("--no-loads", args.no_loads)] {
        command += &if on { format!(" {flag}") } else { String::new() };
    }
    // Where the folders lie is nobody's business.
    command += if args.cases.is_empty() { "" } else { " --cases FOLDER" };
    for only in &args.only {
        command += &format!(" --only {only}");
    }
    let mut text = format!("`{command}` on {}.\n\n", machines.join(" and on "));
    for line in summary(rows) {
        text += &format!("- {line}\n");
    }
    if !left.is_empty() {
        text += &format!("- not measured yet: {}\n", left.join(", "));
    }
    text += "\n| confidence | verdicts | right |\n|---|--:|--:|\n";
    for confidence in ["high", "medium", "low"] {
        let of: Vec<&Row> = rows.iter().filter(|r| r.is_scored() && r.confidence == confidence).collect();
        let right = of.iter().filter(|r| r.outcome == Outcome::Right).count();
        text += &format!("| {confidence} | {} | {right} |\n", of.len());
    }
    text += "\n| case | drawn | truth | verdict | right | grounded | gain: said, got | s | observing, of a CPU | thresholds | correlation |\n\
             |---|---|---|---|---|---|--:|--:|--:|---|---|\n";
    for row in rows {
        text += &line(row);
    }
    text
}

fn line(row: &Row) -> String {
    let verdict = if row.hop.is_empty() { row.verdict.clone() } else { format!("{} at {}", row.verdict, row.hop) };
    let grounded = row.grounded.map_or("", |g| if g { "yes" } else { "no" });
    let right = if row.outcome == Outcome::Right { "yes".to_string() } else { format!("**{}**", row.outcome) };
    let observer = row.observer.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share));
    let simple = |outcome: &Option<Outcome>| outcome.as_ref().map_or(String::new(), ToString::to_string);
    format!(
        "| {} | {} | {} | {verdict} | {right} | {grounded} | {} | {:.0} | {observer} | {} | {} |\n",
        row.case,
        row.magnitudes,
        row.truth,
        gains(row),
        row.seconds,
        simple(&row.by_threshold),
        simple(&row.by_correlation)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(passive: bool, healthy: bool) -> FaultsArgs {
        FaultsArgs { passive, healthy, repeat: 1, repeat_healthy: 1, ..FaultsArgs::default() }
    }

    #[test]
    fn each_way_to_score_keeps_its_own_section() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        let page = || std::fs::read_to_string(root.path().join(PAGE)).unwrap();
        write(root.path(), &args(false, false), &[], &["quota"]).unwrap();
        write(root.path(), &args(true, false), &[], &[]).unwrap();
        let before = page();
        assert!(before.contains("- not measured yet: quota\n"), "{before}");
        write(root.path(), &args(false, true), &[], &[]).unwrap();
        assert!(page().starts_with(&before), "{}", page());
        assert_eq!(page().matches("\n## ").count(), 3, "{}", page());
        assert_eq!(page().matches("real servers").count(), 1, "{}", page());
    }
}
