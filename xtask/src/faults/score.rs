//! Judging a verdict against the truth of a case, and the table of all cases.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;

/// Verdicts that name no fault: what a stack without one may honestly be told.
const NO_FAULT: [&str; 4] = ["none", "cpu-saturated-user", "cpu-saturated-kernel", "generator-saturated"];

/// What is wrong in a case; the part of `truth.json` that is scored.
#[derive(Debug, Default, Deserialize)]
pub struct Truth {
    pub cause: String,
    #[serde(default)]
    pub also_ok: Vec<String>,
    pub hop: String,
    #[serde(default)]
    pub hops_ok: Vec<String>,
    #[serde(default)]
    pub kind: String,
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Cause and hop are right.
    Right,
    /// They are not.
    Wrong,
    /// A fault was named where there is none.
    FalseAlarm,
    /// The stack format cannot express the case yet; not scored.
    Skipped(String),
    /// The case or the diagnosis did not run to its end.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::Wrong => f.write_str("wrong"),
            Self::FalseAlarm => f.write_str("false alarm"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
        }
    }
}

/// One line of the table.
pub struct Row {
    pub case: String,
    pub truth: String,
    pub verdict: String,
    pub hop: String,
    pub grounded: Option<bool>,
    pub seconds: f64,
    pub outcome: Outcome,
}

impl Row {
    /// A case that has no verdict yet.
    pub fn new(case: String, truth: &Truth, outcome: Outcome) -> Self {
        let truth = format!("{} at {}", truth.cause, truth.hop);
        Self { case, truth, verdict: String::new(), hop: String::new(), grounded: None, seconds: 0.0, outcome }
    }

    /// Takes over and judges a diagnosis.
    ///
    /// # Errors
    /// It has no verdict.
    pub fn judge(&mut self, truth: &Truth, diagnosis: &Value, healthy: bool) -> anyhow::Result<()> {
        let verdict = &diagnosis["verdict"];
        self.verdict = verdict["cause"].as_str().context("the diagnosis has no verdict.cause")?.to_string();
        self.hop = verdict["hop"].as_str().unwrap_or_default().to_string();
        self.grounded = verdict["grounded"].as_bool();
        if healthy {
            self.truth = "no fault".to_string();
        }
        self.outcome = judge(truth, &self.verdict, &self.hop, healthy);
        Ok(())
    }
}

fn judge(truth: &Truth, cause: &str, hop: &str, healthy: bool) -> Outcome {
    if healthy && truth.kind != "healthy" {
        return if NO_FAULT.contains(&cause) { Outcome::Right } else { Outcome::FalseAlarm };
    }
    let cause_right = cause == truth.cause || truth.also_ok.iter().any(|ok| ok == cause);
    // `none` says that nothing limits, so it has no hop.
    let hop_right = cause == "none" || hop == truth.hop || truth.hops_ok.iter().any(|ok| ok == hop);
    match (cause_right, hop_right) {
        (true, true) => Outcome::Right,
        (true, false) => Outcome::Wrong,
        (false, _) if truth.kind == "healthy" => Outcome::FalseAlarm,
        (false, _) => Outcome::Wrong,
    }
}

/// How many cases ended how.
#[derive(Default)]
struct Totals {
    right: u32,
    wrong: u32,
    false_alarms: u32,
    skipped: u32,
    failed: u32,
}

impl Totals {
    fn of(rows: &[Row]) -> Self {
        let mut totals = Self::default();
        for row in rows {
            match row.outcome {
                Outcome::Right => totals.right += 1,
                Outcome::Wrong => totals.wrong += 1,
                Outcome::FalseAlarm => totals.false_alarms += 1,
                Outcome::Skipped(_) => totals.skipped += 1,
                Outcome::Failed(_) => totals.failed += 1,
            }
        }
        totals
    }

    fn scored(&self) -> u32 {
        self.right + self.wrong + self.false_alarms + self.failed
    }
}

/// Whether every case that could be expressed got the right verdict. Nothing scored is not right.
pub fn all_right(rows: &[Row]) -> bool {
    let totals = Totals::of(rows);
    totals.scored() > 0 && totals.right == totals.scored()
}

/// The table for a person.
pub fn table(rows: &[Row]) -> String {
    let mut lines: Vec<[String; 7]> =
        vec![["case", "truth", "verdict", "hop", "grounded", "seconds", "right"].map(str::to_string)];
    for row in rows {
        let grounded = row.grounded.map_or("", |g| if g { "yes" } else { "no" });
        lines.push([
            row.case.clone(),
            row.truth.clone(),
            row.verdict.clone(),
            row.hop.clone(),
            grounded.to_string(),
            format!("{:.1}", row.seconds),
            row.outcome.to_string(),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    let totals = Totals::of(rows);
    text + &format!(
        "\n{} of {} right; {} wrong, {} false alarms, {} failed; {} skipped, not counted\n",
        totals.right,
        totals.scored(),
        totals.wrong,
        totals.false_alarms,
        totals.failed,
        totals.skipped
    )
}

/// The same for a program.
pub fn json(rows: &[Row]) -> Value {
    let totals = Totals::of(rows);
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "case": row.case, "truth": row.truth, "verdict": row.verdict, "hop": row.hop, "grounded": row.grounded,
                "seconds": row.seconds, "right": row.outcome == Outcome::Right, "outcome": row.outcome.to_string(),
            })
        })
        .collect();
    json!({
        "schema": "prony.faults/1",
        "rows": rows,
        "totals": {
            "right": totals.right, "scored": totals.scored(), "wrong": totals.wrong, "false_alarms": totals.false_alarms,
            "failed": totals.failed, "skipped": totals.skipped,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(kind: &str) -> Truth {
        let text = json!({"cause": "accept-queue-full", "also_ok": ["none"], "hop": "s1", "hops_ok": ["s2"], "kind": kind, "why": "x"});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn cause_and_hop_must_both_be_right() {
        let judged = |cause: &str, hop: &str, kind: &str| judge(&truth(kind), cause, hop, false);
        assert_eq!(judged("accept-queue-full", "s1", "tcp"), Outcome::Right);
        assert_eq!(judged("accept-queue-full", "s2", "tcp"), Outcome::Right);
        assert_eq!(judged("accept-queue-full", "lb", "tcp"), Outcome::Wrong);
        assert_eq!(judged("packet-loss", "s1", "tcp"), Outcome::Wrong);
        assert_eq!(judged("none", "", "tcp"), Outcome::Right, "none ignores the hop");
        assert_eq!(judged("packet-loss", "s1", "healthy"), Outcome::FalseAlarm);
        assert_eq!(judged("accept-queue-full", "lb", "healthy"), Outcome::Wrong);
    }

    #[test]
    fn without_its_fault_a_case_may_be_told_none_or_saturated() {
        let judged = |cause: &str| judge(&truth("tcp"), cause, "lb", true);
        assert_eq!(judged("none"), Outcome::Right);
        assert_eq!(judged("cpu-saturated-user"), Outcome::Right);
        assert_eq!(judged("accept-queue-full"), Outcome::FalseAlarm);
        assert_eq!(judged("inconclusive"), Outcome::FalseAlarm);
    }

    #[test]
    fn prints_a_table_and_totals() {
        let mut row = Row::new("backlog".into(), &truth("tcp"), Outcome::Wrong);
        let diagnosis = json!({"verdict": {"cause": "accept-queue-full", "hop": "s1", "grounded": true}});
        row.judge(&truth("tcp"), &diagnosis, false).unwrap();
        let skipped = Row::new("tls".into(), &truth("tcp"), Outcome::Skipped("needs TLS".into()));
        let rows = [row, skipped];
        let want = "\
case     truth                    verdict            hop  grounded  seconds  right
backlog  accept-queue-full at s1  accept-queue-full  s1   yes       0.0      right
tls      accept-queue-full at s1                                    0.0      skipped: needs TLS

1 of 1 right; 0 wrong, 0 false alarms, 0 failed; 1 skipped, not counted
";
        assert_eq!(table(&rows), want);
        assert!(all_right(&rows) && !all_right(&rows[1..]));
        assert_eq!(
            json(&rows)["totals"],
            json!({"right": 1, "scored": 1, "wrong": 0, "false_alarms": 0, "failed": 0, "skipped": 1})
        );
        assert!(Row::new("x".into(), &truth("tcp"), Outcome::Wrong).judge(&truth("tcp"), &json!({}), false).is_err());
    }
}
