//! `prony compare`: two recorded runs, a knob tried live, or a history. Reads and measures; the arithmetic is in `prony-stats`.
//!
//! Invariant: what a verdict is worth is decided before it is shown, and shown with it.

pub(crate) mod differences;

use crate::cli::{ChoiceArgs, CompareArgs, OutputArgs};
use crate::measure::{self, Measured};
use crate::output::{print, write};
use crate::{BadArgument, Exit, aa, report, source};
use anyhow::{Result, bail};
use prony_model::comparison::{Answer, CompareMode, Comparison, History, SCHEMA, Strength};
use prony_model::{Knob, Run, RunEnd};
use prony_report::text::Style;
use prony_session::{Goal, Remedy};
use prony_stats::compare::{NothingInCommon, conclude, interleaved, judge_gates, recorded};
use prony_stats::history::{PastRun, RUNS_MIN, series};
use std::io::IsTerminal;
use std::path::Path;

/// `prony compare`.
pub(crate) fn run(args: &CompareArgs) -> Result<Exit> {
    only_with_live(args)?;
    if let Some(folder) = &args.history {
        return history(args, folder);
    }
    let comparison = match (&args.live, args.runs.as_slice()) {
        (Some(stack), _) => live(args, stack)?,
        (None, [a, b]) => of_records(args, a, b)?,
        (None, _) => bail!(BadArgument::error("name two recorded runs, or --live STACK, or --history DIR")),
    };
    show(args, &comparison)
}

/// Flags that say how to measure mean nothing for what was measured; clap does not see it, because `--live` and runs exclude
/// each other.
fn only_with_live(args: &CompareArgs) -> Result<()> {
    let ChoiceArgs { owned, seed, quick, connections, rate } = &args.choice;
    let given = [
        ("--knob", !args.knobs.is_empty()),
        ("--aa", args.aa.is_some()),
        ("--owned", *owned),
        ("--seed", seed.is_some()),
        ("--quick", *quick),
        ("--connections", connections.is_some()),
        ("--rate", rate.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given && args.live.is_none()) {
        Some((flag, _)) => Err(BadArgument::error(format!("{flag} says how to measure, and belongs to --live STACK"))),
        None => Ok(()),
    }
}

/// Prints and writes the result, and finds the exit code. Files come last: the result is shown even if one cannot be written.
fn show(args: &CompareArgs, comparison: &Comparison) -> Result<Exit> {
    let style = if std::io::stdout().is_terminal() { Style::Ansi } else { Style::Plain };
    print(&match args.json {
        true => prony_report::comparison::json(comparison),
        false => prony_report::comparison::text(comparison, style),
    });
    if let Some(path) = &args.md {
        write(path, &prony_report::comparison::markdown(comparison))?;
    }
    if let Some(path) = &args.junit {
        write(path, &prony_report::comparison::junit(comparison))?;
    }
    Ok(match (comparison.valid, comparison.passes()) {
        (false, _) => Exit::NotValid,
        (true, false) => Exit::GateBroken,
        (true, true) => Exit::Done,
    })
}

fn of_records(args: &CompareArgs, a: &str, b: &str) -> Result<Comparison> {
    let (a, b) = (prony_record::read(&report::find(a)?)?, prony_record::read(&report::find(b)?)?);
    let answer = recorded(&a, &b, &format!("run {}", b.id)).map_err(|nothing| nothing_in_common(&nothing))?;
    let mut answers = vec![answer];
    conclude(&mut answers);
    judge_gates(&mut answers, &args.gates);
    let mut notes = notes_on(&answers);
    for (side, run) in [("A", &a), ("B", &b)] {
        notes.extend(end_note(&run.end).map(|text| format!("{side} {text}: only its finished trials count")));
    }
    if a.id == b.id {
        notes.push("A and B are the same run".to_string());
    }
    Ok(Comparison {
        schema: SCHEMA.to_string(),
        mode: CompareMode::Recorded,
        a: side(&a),
        b: side(&b),
        valid: !answers.iter().any(|a| a.generator_limited),
        answers,
        strength: Strength::Weak,
        strength_reason: apart(&a, &b),
        aa: None,
        differences: differences::between(&a, &b)?,
        notes,
        runs: vec![a.id, b.id],
    })
}

fn nothing_in_common(nothing: &NothingInCommon) -> anyhow::Error {
    let list = |loads: &[String]| match loads {
        [] => "no scored trial".to_string(),
        [first] => first.clone(),
        [first, more @ ..] => format!("{first}, and {} more", more.len()),
    };
    let differs = match nothing.differs.as_slice() {
        [] => String::new(),
        differs => format!(" They differ in {}.", differs.join(", ")),
    };
    BadArgument::error(format!(
        "the runs have no load in common, so nothing can be compared.{differs} A has: {}. B has: {}. Record both with the same \
         workload and connections",
        list(&nothing.a),
        list(&nothing.b)
    ))
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
    let name = if run.stack.name.is_empty() { &run.stack.entry } else { &run.stack.name };
    format!("run {} of {name}", run.id)
}

fn live(args: &CompareArgs, name: &str) -> Result<Comparison> {
    let stack = source::stack(name)?;
    let knobs = args.knobs.iter().map(|text| measure::knob(text, &stack)).collect::<Result<Vec<Knob>>>()?;
    let aa_runs = args.aa.unwrap_or(0) as usize;
    if knobs.is_empty() && aa_runs == 0 {
        bail!(BadArgument::error(
            "say what B is: --knob NAME=VALUE (`prony tune --knobs` lists them), or --aa N to compare A with A"
        ));
    }
    let earlier = aa::earlier()?;
    let goal = |remedy| Goal::Prove { remedy, keep: false, earlier };
    let mut goals: Vec<Goal> = knobs.iter().map(|knob| goal(Remedy::Chosen(knob.clone()))).collect();
    goals.extend(std::iter::repeat_n(goal(Remedy::Nothing), aa_runs));
    let output = OutputArgs { json: args.json, md: false, record: None, report: None, progress: args.progress };
    let measured = measure::measure_all(name, &args.choice, &goals, &output)?;
    // What was answered before a later question failed is shown all the same.
    if let [only] = measured.as_slice()
        && let RunEnd::Failed { reason } = &only.run.end
    {
        bail!("{reason}");
    }
    let words: Vec<String> = knobs.iter().map(|k| format!("{}={} at {}", k.id, k.value, k.host)).collect();
    let mut answers: Vec<Answer> =
        measured.iter().zip(&words).filter_map(|(measured, words)| interleaved(&measured.run, words)).collect();
    conclude(&mut answers);
    judge_gates(&mut answers, &args.gates);
    let complete = measured.len() == goals.len() && measured.iter().all(|m| m.run.end == RunEnd::Done);
    let worth = aa::judge(&measured, earlier);
    Ok(Comparison {
        schema: SCHEMA.to_string(),
        mode: CompareMode::Live,
        a: format!("{} as found", if stack.name.is_empty() { name } else { &stack.name }),
        b: if words.is_empty() { "the same again".to_string() } else { words.join("; or ") },
        valid: complete && !answers.iter().any(|a| a.generator_limited),
        notes: live_notes(&answers, &measured, complete),
        answers,
        strength: worth.strength,
        strength_reason: worth.reason,
        aa: Some(worth.aa),
        differences: Vec::new(),
        runs: measured.into_iter().map(|m| m.run.id).collect(),
    })
}

fn live_notes(answers: &[Answer], measured: &[Measured], complete: bool) -> Vec<String> {
    let mut notes = notes_on(answers);
    match measured.last().map(|m| &m.run.end) {
        Some(RunEnd::Failed { reason }) => notes.push(format!("Failed, so not every question has an answer: {reason}")),
        Some(_) if !complete => notes.push("Interrupted: the figures cover what was measured until then".to_string()),
        Some(_) | None => {}
    }
    if answers.len() > 1 {
        notes.push(format!("{} questions were asked: p and verdicts are corrected for that (Holm)", answers.len()));
    }
    for change in measured.iter().flat_map(|m| &m.run.changes) {
        let state = prony_report::names::change_state(change.state);
        notes.push(format!("{}={} at {}: {state}", change.knob.id, change.knob.value, change.knob.host));
    }
    notes.extend(measured.iter().filter_map(|m| Some(format!("recorded in {}", m.record.as_ref()?.display()))));
    notes
}

fn notes_on(answers: &[Answer]) -> Vec<String> {
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

fn end_note(end: &RunEnd) -> Option<&'static str> {
    match end {
        RunEnd::Done => None,
        RunEnd::Open => Some("was cut short"),
        RunEnd::Interrupted => Some("was interrupted"),
        RunEnd::Failed { .. } => Some("failed"),
    }
}

fn history(args: &CompareArgs, folder: &Path) -> Result<Exit> {
    if !folder.is_dir() {
        bail!(BadArgument::error(format!("{} is no folder: name one that holds records (*.prony)", folder.display())));
    }
    let listing = prony_record::list(folder)?;
    let mut notes: Vec<String> = listing.unreadable.iter().map(|e| format!("left out: {e}")).collect();
    let mut runs = Vec::new();
    for listed in listing.runs {
        match prony_record::read(&listed.path) {
            Ok(run) => runs.push(PastRun::of(&run)),
            Err(e) => notes.push(format!("left out: {e}")),
        }
    }
    let read = runs.len();
    let (series, short) = series(runs);
    if series.is_empty() {
        bail!(BadArgument::error(format!(
            "{}: {read} runs can be read, and no load stands in {RUNS_MIN} of them, which a history needs; runs of one stack, \
             workload and number of connections make a series",
            folder.display()
        )));
    }
    if short > 0 {
        notes.push(format!("{short} loads stand in fewer than {RUNS_MIN} runs and were left out"));
    }
    notes.push(
        "E-divisive with a t-test at p < 0.001 over windows of 50 runs; changes below 5 % (errors: 0.1 points) are not told. Runs \
         are taken as independent, so a slow drift may show as a step"
            .to_string(),
    );
    let history = History { schema: SCHEMA.to_string(), mode: "history".to_string(), runs: read as u32, series, notes };
    let style = if std::io::stdout().is_terminal() { Style::Ansi } else { Style::Plain };
    print(&match args.json {
        true => prony_report::history::json(&history),
        false => prony_report::history::text(&history, style),
    });
    if let Some(path) = &args.md {
        write(path, &prony_report::history::markdown(&history))?;
    }
    Ok(Exit::Done)
}
