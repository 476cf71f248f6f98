//! `prony undo`: restores whatever an interrupted run left changed.

use crate::Exit;
use crate::cli::UndoArgs;
use crate::home;
use crate::output::print;
use anyhow::{Result, bail};

/// `prony undo`.
pub(crate) fn run(args: &UndoArgs) -> Result<Exit> {
    let pending = prony_agent::pending(&home::journal())?;
    if pending.is_empty() {
        print("nothing is left changed");
        return Ok(Exit::Done);
    }
    let mut exit = Exit::Done;
    let mut failed = 0;
    for change in &pending {
        if args.dry_run {
            print(&format!("would restore {}", change.what));
            continue;
        }
        match prony_agent::undo_pending(change) {
            Ok(restored) if restored.state == prony_model::knob::ChangeState::Undone => {
                print(&format!("restored {}: {}", change.what, restored.detail));
            }
            Ok(restored) => {
                print(&format!("left alone {}: {}", change.what, restored.detail));
                exit = Exit::GateBroken;
            }
            Err(e) => {
                eprintln!("prony: cannot restore {}: {e}", change.what);
                failed += 1;
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} changes are still in force; mend the cause and run `prony undo` again", pending.len());
    }
    Ok(exit)
}
