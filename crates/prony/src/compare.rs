//! `prony compare`: two recorded runs, a knob tried live, or a history. Reads and measures; the arithmetic is in `prony-stats`.
//!
//! Invariant: what a verdict is worth is decided before it is shown, and shown with it.

use crate::cli::{ChoiceArgs, CompareArgs, OutputArgs};
use crate::measure::{self, Measured};
use crate::output::{print, write};
use crate::{BadArgument, Exit, aa, report, source};
use anyhow::{Result, bail};
use prony_model::comparison::{Answer, CompareMode, Comparison, SCHEMA};
use prony_model::{Knob, RunEnd};
use prony_report::text::Style;
use prony_session::{Goal, Remedy};
use prony_stats::compare::{conclude, interleaved, judge_gates, notes_on};
use prony_stats::history::{PastRun, RUNS_MIN, history as history_of};
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
        ("--detect", args.precision.detect.is_some()),
        ("--budget", args.precision.budget.is_some()),
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
    prony_stats::compare::of_records(&a, &b, &args.gates).map_err(|nothing| BadArgument::error(nothing.to_string()))
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
    let precision = args.precision.precision(args.choice.quick);
    let goal = |remedy| Goal::Prove { remedy, keep: false, earlier, precision };
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
    let history = history_of(runs, notes);
    if history.series.is_empty() {
        bail!(BadArgument::error(format!(
            "{}: {} runs can be read, and no load stands in {RUNS_MIN} of them, which a history needs; runs of one stack, \
             workload and number of connections make a series",
            folder.display(),
            history.runs
        )));
    }
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
