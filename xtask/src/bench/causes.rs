//! `cargo xtask bench causes`: where the threshold of each cause lies, between the stacks that have its fault and those that do not.
//!
//! It reads the records that `cargo xtask faults` left, whose truth is known, and asks every cause at every host. Invariant: a host
//! with the fault that a case plants counts as *with*; one where the case lets the cause pass as well counts as neither.

use super::{machine, write_section};
use crate::faults::{Truth, scored_runs};
use anyhow::ensure;
use prony_diagnose::{CAUSES, Check, checks};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to read.
#[derive(clap::Args, Clone, Debug)]
pub struct CausesArgs {
    /// Folder of the cases that were scored; may be given more than once [default: those of `cargo xtask faults`]
    #[arg(long)]
    pub cases: Vec<PathBuf>,
    /// Print the section only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// Which side of a threshold a host should be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    With,
    Without,
}

/// A fact that a cause holds against a threshold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    cause: &'static str,
    fact: String,
}

/// What all hosts showed of it.
#[derive(Default)]
struct Seen {
    threshold: String,
    origin: String,
    /// How often the value is what fires at the threshold: 1 is on it, more is beyond.
    with: Vec<f64>,
    without: Vec<f64>,
}

/// Reads the records, prints the section, and writes it.
///
/// # Errors
/// There are no records.
pub fn run(root: &Path, args: &CausesArgs) -> anyhow::Result<()> {
    let runs = scored_runs(root, &args.cases)?;
    ensure!(!runs.is_empty(), "no case was scored yet: `cargo xtask faults` diagnoses them and leaves the records");
    let mut seen: BTreeMap<Asked, Seen> = BTreeMap::new();
    for (_, truth, run) in &runs {
        for check in checks(run) {
            add(&mut seen, truth, &check);
        }
    }
    let text = section(&seen, runs.len());
    println!("{text}");
    if !args.no_write {
        write_section(root, "causes", &text)?;
    }
    Ok(())
}

fn add(seen: &mut BTreeMap<Asked, Seen>, truth: &Truth, check: &Check) {
    let (Some(side), Some(beyond)) = (side(truth, check), times_threshold(check)) else { return };
    let asked = Asked { cause: check.cause.id, fact: check.evidence.metric.clone() };
    let seen = seen.entry(asked).or_default();
    if let Some(threshold) = check.evidence.threshold {
        seen.threshold = figure(threshold, &check.evidence.unit);
        seen.origin = check.evidence.origin.clone();
    }
    match side {
        Side::With => seen.with.push(beyond),
        Side::Without => seen.without.push(beyond),
    }
}

/// None where a case lets the cause pass, but did not plant it there.
fn side(truth: &Truth, check: &Check) -> Option<Side> {
    let planted_here = check.hop == truth.hop;
    let allowed_here = truth.hops_ok.contains(&check.hop);
    match (check.cause.id == truth.cause, planted_here) {
        (true, true) => Some(Side::With),
        (true, false) if allowed_here => None,
        (false, _) if truth.also_ok.iter().any(|ok| ok == check.cause.id) => None,
        (true | false, _) => Some(Side::Without),
    }
}

/// The value in parts of the threshold, or the other way about where less is worse; none where nothing was compared.
fn times_threshold(check: &Check) -> Option<f64> {
    // A sum of nothing is -0.
    let (value, threshold) = (check.evidence.value + 0.0, check.evidence.threshold?);
    if threshold <= 0.0 || value < 0.0 {
        return None;
    }
    let (times, above) = (value / threshold, value >= threshold);
    // Whether it fires tells on which side of the threshold that is.
    let more_is_worse = above == check.fires;
    Some(if more_is_worse { times } else { 1.0 / times.max(1e-9) })
}

/// The greatest or the least of them.
fn nearest(values: &[f64], pick: fn(f64, f64) -> f64) -> Option<f64> {
    values.iter().copied().reduce(pick)
}

impl Seen {
    /// How many hosts without the fault lie beyond the threshold, and how many with it do not reach it.
    fn misses(&self) -> (usize, usize) {
        let beyond = self.without.iter().filter(|times| **times >= 1.0).count();
        (beyond, self.with.iter().filter(|times| **times < 1.0).count())
    }

    fn cells(&self) -> [String; 3] {
        let times = |nearest: Option<f64>| nearest.map_or("-".to_string(), |times| format!("{times:.2}"));
        let (beyond, short) = self.misses();
        let share = |nearest: String, missed: usize, all: usize, what: &str| match (all, missed) {
            (0, _) => "-".to_string(),
            (_, 0) => format!("{nearest} ({all})"),
            _ => format!("{nearest} ({all}, {missed} {what})"),
        };
        let (most, least) = (nearest(&self.without, f64::max), nearest(&self.with, f64::min));
        let may_move = match (most, least) {
            (Some(most), Some(least)) if most < 1.0 && least >= 1.0 => format!("{most:.2} to {least:.2}"),
            (Some(_), Some(_)) => "**no**".to_string(),
            _ => String::new(),
        };
        [
            share(times(most), beyond, self.without.len(), "beyond"),
            share(times(least), short, self.with.len(), "short of it"),
            may_move,
        ]
    }
}

fn figure(value: f64, unit: &str) -> String {
    let digits = if value >= 100.0 { 0 } else { 2 };
    let short = format!("{value:.digits$}");
    let short = if short.contains('.') { short.trim_end_matches('0').trim_end_matches('.') } else { &short };
    let short = if value > 0.0 && short == "0" { format!("{value:.1e}") } else { short.to_string() };
    format!("{short} {unit}").trim_end().to_string()
}

fn section(seen: &BTreeMap<Asked, Seen>, runs: usize) -> String {
    let met: Vec<(&Asked, &Seen)> = seen.iter().filter(|(_, seen)| !seen.with.is_empty()).collect();
    let apart = met.iter().filter(|(_, seen)| seen.misses() == (0, 0)).count();
    let planted = CAUSES.iter().filter(|cause| met.iter().any(|(asked, _)| asked.cause == cause.id)).count();
    let mut text = format!(
        "## Where the thresholds of the causes lie\n\n\
         `cargo xtask bench causes` on {}: over the records that `cargo xtask faults` left of {runs} cases, every cause at every host. \
         Of {} facts that were met on a host with the planted fault ({planted} causes), {apart} keep every host with the fault from \
         every host without it. What lies beyond a threshold where nothing was planted is no verdict yet: rank, order and \
         interventions come after it.\n\n\
         The nearest host is given in parts of the threshold: 1 is on it, more is beyond. Without the fault that is the greatest, \
         with it the least, and how many hosts there were.\n\n\
         | cause | fact | threshold | from | without the fault | with it | would do as well |\n|---|---|--:|---|--:|--:|--:|\n",
        machine(),
        met.len(),
    );
    for (asked, seen) in &met {
        let [without, with, may_move] = seen.cells();
        let (fact, origin) = (asked.fact.replace('|', "\\|"), seen.origin.replace('|', "\\|"));
        text += &format!(
            "| {} | {fact} | {} | {origin} | {without} | {with} | {may_move} |\n",
            asked.cause, seen.threshold
        );
    }
    text + &never_met(seen)
}

/// Causes that no case plants: all that can be said is how near healthy hosts come.
fn never_met(seen: &BTreeMap<Asked, Seen>) -> String {
    let of = |id: &'static str| seen.iter().filter(move |(asked, _)| asked.cause == id);
    let nowhere = CAUSES.iter().filter(|cause| of(cause.id).all(|(_, seen)| seen.with.is_empty()));
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for cause in nowhere {
        match of(cause.id).filter_map(|(_, seen)| nearest(&seen.without, f64::max)).reduce(f64::max) {
            Some(most) if most >= 1.0 => near.push(format!("{} ({most:.1} times its threshold)", cause.id)),
            _ => far.push(cause.id.to_string()),
        }
    }
    let list = |names: Vec<String>| if names.is_empty() { "none".to_string() } else { names.join(", ") };
    format!(
        "\nPlanted by no case, and beyond a threshold on some host: {}. Planted by no case, and beyond none: {}.\n",
        list(near),
        list(far)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{Evidence, EvidenceVerdict};

    fn check(cause: &str, hop: &str, value: f64, threshold: Option<f64>, fires: bool) -> Check {
        let verdict = if fires { EvidenceVerdict::Supports } else { EvidenceVerdict::Refutes };
        let evidence = Evidence {
            claim: String::new(),
            metric: "opens / request".to_string(),
            host: hop.to_string(),
            value,
            unit: String::new(),
            baseline: None,
            threshold,
            origin: "a guess".to_string(),
            verdict,
        };
        let cause = CAUSES.iter().find(|c| c.id == cause).unwrap();
        Check { cause, hop: hop.to_string(), fires, evidence }
    }

    fn truth() -> Truth {
        Truth {
            cause: "upstream-keepalive-off".to_string(),
            also_ok: vec!["ephemeral-ports-exhausted".to_string()],
            hop: "lb".to_string(),
            hops_ok: vec!["s2".to_string()],
            kind: "connections".to_string(),
        }
    }

    #[test]
    fn a_threshold_that_keeps_both_sides_apart_may_move_between_them() {
        let mut seen = BTreeMap::new();
        let cause = "upstream-keepalive-off";
        add(&mut seen, &truth(), &check(cause, "lb", 0.9, Some(0.5), true));
        add(&mut seen, &truth(), &check(cause, "s1", 0.1, Some(0.5), false));
        // Let pass there, so on neither side.
        add(&mut seen, &truth(), &check(cause, "s2", 0.4, Some(0.5), false));
        add(&mut seen, &truth(), &check("ephemeral-ports-exhausted", "lb", 0.4, Some(0.5), false));
        // Nothing was compared.
        add(&mut seen, &truth(), &check(cause, "lb", 0.0, None, false));
        let text = section(&seen, 1);
        assert!(
            text.contains(
                "| upstream-keepalive-off | opens / request | 0.5 | a guess | 0.20 (1) | 1.80 (1) | 0.20 to 1.80 |"
            ),
            "{text}"
        );
        add(&mut seen, &truth(), &check(cause, "s1", 0.6, Some(0.5), true));
        let text = section(&seen, 1);
        assert!(text.contains("| 1.20 (2, 1 beyond) | 1.80 (1) | **no** |"), "{text}");
    }

    #[test]
    fn where_less_is_worse_the_parts_are_turned_about() {
        let times = |value, fires| times_threshold(&check("path-delay", "lb", value, Some(10.0), fires)).unwrap();
        assert_eq!((times(20.0, true), times(5.0, false)), (2.0, 0.5));
        assert_eq!((times(5.0, true), times(20.0, false)), (2.0, 0.5));
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(figure(0.85, ""), "0.85");
        assert_eq!(figure(1200.0, "us"), "1200 us");
        assert_eq!(figure(3.0, "1"), "3 1");
        assert_eq!(figure(0.0005, ""), "5.0e-4");
    }
}
