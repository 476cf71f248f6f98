//! Two recorded runs as one comparison: the answer, what else differs between them, and what to know besides.
//!
//! Which trials belong together is found in `loads`. Invariant: what a verdict is worth stands in the comparison itself.

use super::{conclude, differences, judge_gates, recorded};
use prony_model::comparison::{Answer, ChangeGate, CompareMode, Comparison, SCHEMA, Strength};
use prony_model::{Run, RunEnd};
use std::fmt;

/// Why two runs cannot be compared: the loads that each has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingInCommon {
    /// Loads of A, in words.
    pub a: Vec<String>,
    /// Loads of B.
    pub b: Vec<String>,
    /// Where purpose, connections and rate are the same: what is not.
    pub differs: Vec<String>,
}

impl fmt::Display for NothingInCommon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |loads: &[String]| match loads {
            [] => "no scored trial".to_string(),
            [first] => first.clone(),
            [first, more @ ..] => format!("{first}, and {} more", more.len()),
        };
        let differs = match self.differs.as_slice() {
            [] => String::new(),
            differs => format!(" They differ in {}.", differs.join(", ")),
        };
        write!(
            f,
            "the runs have no load in common, so nothing can be compared.{differs} A has: {}. B has: {}. Record both with the same \
             workload and connections",
            list(&self.a),
            list(&self.b)
        )
    }
}
impl std::error::Error for NothingInCommon {}

/// Holds B against A.
///
/// # Errors
/// When the runs have no load in common.
pub fn of_records(a: &Run, b: &Run, gates: &[ChangeGate]) -> Result<Comparison, NothingInCommon> {
    let mut answers = vec![recorded(a, b, &format!("run {}", b.id))?];
    conclude(&mut answers);
    judge_gates(&mut answers, gates);
    let mut notes = notes_on(&answers);
    for (side, run) in [("A", a), ("B", b)] {
        notes.extend(end_note(&run.end).map(|text| format!("{side} {text}: only its finished trials count")));
    }
    if a.id == b.id {
        notes.push("A and B are the same run".to_string());
    }
    Ok(Comparison {
        schema: SCHEMA.to_string(),
        mode: CompareMode::Recorded,
        a: side(a),
        b: side(b),
        valid: !answers.iter().any(|a| a.generator_limited),
        answers,
        strength: Strength::Weak,
        strength_reason: apart(a, b),
        aa: None,
        differences: differences::between(a, b),
        notes,
        runs: vec![a.id.clone(), b.id.clone()],
    })
}

/// What makes answers doubtful, a sentence each.
pub fn notes_on(answers: &[Answer]) -> Vec<String> {
    let mut notes = Vec::new();
    for answer in answers {
        let (doubtful, all) = answer.doubtful;
        if doubtful > 0 {
            notes.push(format!(
                "{doubtful} of the {all} trials behind {} broke a validity gate, like `steady`",
                answer.question
            ));
        }
        if answer.generator_limited {
            notes.push(format!(
                "{}: the generator was the limit in most trials, so nothing is said about the stack; give it more CPUs, or see \
                 `prony calibrate`",
                answer.question
            ));
        }
    }
    notes
}

/// Why recorded runs say less.
fn apart(a: &Run, b: &Run) -> String {
    let minutes = a.started_unix_ms.abs_diff(b.started_unix_ms) as f64 / 60e3;
    let time = if minutes < 120.0 { format!("{minutes:.0} minutes") } else { format!("{:.0} hours", minutes / 60.0) };
    format!(
        "the runs were made {time} apart. Whatever else changed on the machines meanwhile is part of the change, and the interval \
         knows only how much trials differ within a run, not how much runs do. `prony compare --live STACK --knob NAME=VALUE` \
         interleaves A and B in random order and is not fooled by that"
    )
}

fn side(run: &Run) -> String {
    format!("run {} of {}", run.id, run.stack.title())
}

fn end_note(end: &RunEnd) -> Option<&'static str> {
    match end {
        RunEnd::Done => None,
        RunEnd::Open => Some("was cut short"),
        RunEnd::Interrupted => Some("was interrupted"),
        RunEnd::Failed { .. } => Some("failed"),
    }
}
