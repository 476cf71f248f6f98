//! `prony run EXPERIMENT`: the file to a plan, the plan to cells, the cells to a result.
//!
//! What a cell means is in `prony-model`, what the cells say in `prony-stats`, how it is shown in `prony-report`; here they are
//! wired. Invariant: a level that cannot be set ends the run before any load is sent.

mod keep;
mod page;
mod plan;
mod rehearsal;
mod runner;

use crate::cli::RunArgs;
use crate::output::{print, write};
use crate::progress::Progress;
use crate::{Exit, measure};
use anyhow::Result;
use keep::Keep;
use plan::Planned;
use prony_model::experiment::{CellSeen, ExperimentResult};
use prony_report::experiment as shown;
use prony_report::text::Style;
use prony_stats::experiment::{Ran, conclude};
use std::io::IsTerminal;
use std::path::Path;

/// `prony run EXPERIMENT`.
pub(crate) fn run(args: &RunArgs) -> Result<Exit> {
    let planned = Planned::read(args)?;
    if args.plan {
        print(&plan::table(&planned));
        return Ok(Exit::Done);
    }
    if args.rehearse {
        return rehearsal::run(&planned, args);
    }
    let mut keep = Keep::open(&planned, args)?;
    let interrupted = measure::interrupts()?;
    let mut progress = Progress::of_run(args.progress, !args.json, &interrupted);
    let ended = match keep.missing(&planned) {
        0 => Ok(runner::Ended::Done),
        _ => runner::run(&planned, &mut keep, &mut progress, &interrupted),
    };
    drop(progress);
    let result = result(&planned, &keep);
    // What was measured is shown whatever happened then.
    if ended.is_ok() || !keep.seen().is_empty() {
        show(args, &result, &keep)?;
    }
    match ended {
        Ok(runner::Ended::Done) => {
            // A page of half an experiment would look like one of a whole.
            if let Some(path) = &args.md {
                page::write(args, &result, keep.kept_ms(), path)?;
            }
            Ok(exit(&result))
        }
        Ok(runner::Ended::Interrupted) => {
            eprintln!("note: {}", go_on(args, keep.folder()));
            Ok(Exit::NotValid)
        }
        Err(e) if keep.seen().is_empty() => Err(e),
        Err(e) => Err(e.context(go_on(args, keep.folder()))),
    }
}

fn go_on(args: &RunArgs, folder: &Path) -> String {
    let (file, folder) = (args.experiment.display(), folder.display());
    format!("finished cells are kept; go on with `prony run {file} --output {folder}`")
}

fn result(planned: &Planned, keep: &Keep) -> ExperimentResult {
    let stack = &planned.stack;
    let ran = Ran {
        seed: keep.seed(),
        stack: stack.title().to_string(),
        entry: stack.path().first().map(|host| (*host).to_string()),
        notes: planned.notes.clone(),
        left_out: planned.left_out(),
    };
    let seen: Vec<CellSeen> = keep.seen().to_vec();
    conclude(&planned.experiment, &seen, ran)
}

fn show(args: &RunArgs, result: &ExperimentResult, keep: &Keep) -> Result<()> {
    let folder = keep.folder();
    let style = if std::io::stdout().is_terminal() { Style::Ansi } else { Style::Plain };
    print(&if args.json { shown::json(result) } else { shown::text(result, style) });
    page::write(args, result, keep.kept_ms(), &folder.join("result.md"))?;
    write(&folder.join("result.json"), &shown::json(result))?;
    if !args.json {
        print(&format!("\nkept in {}", folder.display()));
    }
    Ok(())
}

/// Not valid when a cell is missing, or when the generator was the limit of most.
fn exit(result: &ExperimentResult) -> Exit {
    let limited = result.cells.iter().filter(|cell| cell.at_least).count();
    if result.is_complete() && 2 * limited <= result.cells.len() { Exit::Done } else { Exit::NotValid }
}
