//! What this machine makes of no difference at all: A against A, from the runs just made and from earlier proofs.
//!
//! What an experiment is stands in `prony_stats::aa`. Earlier proofs are those in the runs folder, which were made on this
//! machine by the same method; they cost only the time to read them.

use crate::home;
use crate::measure::Measured;
use anyhow::Result;
use prony_model::Run;
use prony_model::comparison::{EarlierAa, Worth};
use prony_stats::aa;
use prony_stats::compare::blocks;

/// Earlier proofs that are read at most, the newest first: 20 give 40 comparisons or more, which notice a machine that is wrong
/// in one of five. A guess: more say little about the machine as it is today.
const EARLIER_MAX: u32 = 20;
/// Records that are opened at most in search of them, so that a folder full of diagnoses does not hold up a result. A guess.
const OPENED_MAX: usize = 100;

/// What the verdicts on all these runs are worth together.
pub(crate) fn judge(measured: &[Measured], earlier: EarlierAa) -> Worth {
    let now: Vec<bool> = measured.iter().flat_map(|m| experiments(&m.run)).collect();
    aa::worth(&now, earlier)
}

/// Comparisons of A with A in the proof of a run.
fn experiments(run: &Run) -> Vec<bool> {
    let Some(proof) = &run.proof else { return Vec::new() };
    let trials: Vec<_> = blocks(run)
        .into_iter()
        .zip(&proof.trials)
        .map(|((block, arm, seen), (_, per_s))| {
            (block, arm, aa::RateAtSpeed { per_s: *per_s, piece_us: seen.piece_us })
        })
        .collect();
    aa::experiments(&trials, proof.knob.is_none(), proof.seed)
}

/// Those of the newest recorded proofs.
pub(crate) fn earlier() -> Result<EarlierAa> {
    let mut found = EarlierAa::default();
    for listed in prony_record::list(&home::runs()?)?.runs.into_iter().rev().take(OPENED_MAX) {
        if found.proofs == EARLIER_MAX {
            break;
        }
        // A record that cannot be read is no reason to lose a result; `prony report` tells of it.
        let Ok(run) = prony_record::read(&listed.path) else { continue };
        let of_run = experiments(&run);
        found.proofs += u32::from(!of_run.is_empty());
        found.experiments += of_run.len() as u32;
        found.differ += of_run.iter().filter(|differs| **differs).count() as u32;
    }
    Ok(found)
}
