//! Which run a report is of, and how it ended, in words.
//!
//! It knows no results.

use super::{RunFacts, positive};
use prony_model::Run;
use prony_model::run::RunEnd;

pub(super) fn facts(run: &Run) -> RunFacts {
    let (end, end_note) = match &run.end {
        RunEnd::Open => (
            "open",
            Some(
                "The run has not reached its end: it still runs, or it was killed. What follows is what was recorded."
                    .to_string(),
            ),
        ),
        RunEnd::Done => ("done", None),
        RunEnd::Interrupted => {
            ("interrupted", Some("Interrupted by the user. What follows is what was measured until then.".to_string()))
        }
        RunEnd::Failed { reason } => ("failed", Some(format!("The run failed: {reason}"))),
    };
    RunFacts {
        id: run.id.clone(),
        version: run.version.clone(),
        command: run.command.clone(),
        started: prony_model::Utc::from_unix_ms(run.started_unix_ms).to_string(),
        started_unix_ms: run.started_unix_ms,
        wall_s: positive(run.cost.wall_s),
        end: end.to_string(),
        end_note,
    }
}
