//! What this machine makes of no difference at all: A against A, from the runs just made and from earlier proofs.
//!
//! What an experiment is stands in `prony_stats::aa`. Earlier proofs are those in the runs folder, which were made on this
//! machine by the same method; they cost only the time to read them.

use crate::home;
use crate::measure::Measured;
use anyhow::Result;
use prony_model::Run;
use prony_model::comparison::{AaCheck, Strength};
use prony_report::number::percent;
use prony_stats::aa::{self, EXPERIMENTS_MIN};
use prony_stats::compare::blocks;

/// Earlier proofs that are read at most, the newest first: 20 give 40 comparisons or more, which notice a machine that is wrong
/// in one of five. A guess: more say little about the machine as it is today.
const EARLIER_MAX: usize = 20;
/// Records that are opened at most in search of them, so that a folder full of diagnoses does not hold up a result. A guess.
const OPENED_MAX: usize = 100;

/// Comparisons of A with A, what a verdict is worth with them, and why.
pub(super) fn judge(measured: &[Measured]) -> Result<(AaCheck, Strength, String)> {
    let now: Vec<bool> = measured.iter().flat_map(|m| experiments(&m.run)).collect();
    let (earlier, proofs) = earlier(measured)?;
    let all: Vec<bool> = now.into_iter().chain(earlier).collect();
    let differ = all.iter().filter(|differs| **differs).count() as u32;
    let check = aa::check(differ, all.len() as u32);
    let strength = aa::strength(&check);
    Ok((check, strength, reason(&check, strength, proofs)))
}

/// Comparisons of A with A in the proof of a run.
fn experiments(run: &Run) -> Vec<bool> {
    let Some(proof) = &run.proof else { return Vec::new() };
    let trials: Vec<_> = blocks(run).into_iter().map(|(block, arm, seen)| (block, arm, seen.rps)).collect();
    aa::experiments(&trials, proof.knob.is_none(), proof.seed)
}

/// Those of the newest recorded proofs, and how many proofs that were.
fn earlier(measured: &[Measured]) -> Result<(Vec<bool>, usize)> {
    let (mut found, mut proofs) = (Vec::new(), 0);
    for listed in prony_record::list(&home::runs()?)?.runs.into_iter().rev().take(OPENED_MAX) {
        if proofs == EARLIER_MAX {
            break;
        }
        // A record that cannot be read is no reason to lose a result; `prony report` tells of it.
        let known = measured.iter().any(|m| m.run.id == listed.id);
        let Some(run) = (!known).then(|| prony_record::read(&listed.path).ok()).flatten() else { continue };
        let of_run = experiments(&run);
        proofs += usize::from(!of_run.is_empty());
        found.extend(of_run);
    }
    Ok((found, proofs))
}

fn reason(check: &AaCheck, strength: Strength, proofs: usize) -> String {
    let AaCheck { experiments, differ, allowed, noticed } = *check;
    let from = match proofs {
        0 => String::new(),
        1 => " (those of an earlier proof counted in)".to_string(),
        many => format!(" (those of {many} earlier proofs counted in)"),
    };
    let power = format!(
        "so many comparisons would notice, 8 times in 10, a rate of false alarms of {} or more",
        percent(noticed)
    );
    match strength {
        Strength::Strong => format!(
            "trials were interleaved in random order, and on this machine A differs from A in {differ} of {experiments} \
             comparisons{from}; up to {allowed} are chance; {power}"
        ),
        Strength::Unchecked => format!(
            "trials were interleaved in random order, but how often this machine raises a false alarm is hardly known: A differs from \
             A in {differ} of {experiments} comparisons{from}, and {EXPERIMENTS_MIN} are needed; {power}. Add `--aa 2`: each such \
             run compares A with A three times"
        ),
        Strength::Weak => format!(
            "this machine's own A/A differs in {differ} of {experiments} comparisons{from}, where up to {allowed} would be chance. \
             Others work on it, or its speed jumps: make it quiet, or take longer trials (without --quick)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_fits_the_strength() {
        let said = |differ, n, proofs| {
            let check = aa::check(differ, n);
            reason(&check, aa::strength(&check), proofs)
        };
        assert!(said(0, 2, 0).contains("in 0 of 2 comparisons, and 5 are needed"), "{}", said(0, 2, 0));
        assert!(
            said(1, 20, 9)
                .contains("in 1 of 20 comparisons (those of 9 earlier proofs counted in); up to 3 are chance")
        );
        assert!(said(2, 2, 0).starts_with("this machine's own A/A differs in 2 of 2 comparisons"));
    }
}
