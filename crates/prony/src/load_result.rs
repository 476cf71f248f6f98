//! After a load: thresholds judged, the result printed, written and sent, and the exit code.
//!
//! It measures nothing. Invariant: the result is printed before anything that can fail is tried, so that it is never lost.

use crate::cli::LoadArgs;
use crate::{Exit, calibrate, otlp, output};
use anyhow::Result;
use prony_model::{LoadPlan, LoadResult, ThresholdResult};
use prony_report::load_output::LoadOutput;

/// Tells the result in every way that was asked for.
///
/// # Errors
/// When a file cannot be written or the metrics cannot be sent; the result is printed by then.
pub(crate) fn tell(args: &LoadArgs, plan: &LoadPlan, result: &LoadResult) -> Result<Exit> {
    let thresholds = prony_stats::evaluate(&args.threshold.thresholds, result);
    let output = LoadOutput { plan, result, thresholds: &thresholds };
    if args.show.json {
        output::print(&output.json());
    } else {
        output::print(&output.text(args.show.latency));
        calibrate::headroom(plan, result).iter().for_each(|line| output::print(line));
    }
    for export in &args.show.exports {
        output::write(&export.path, &output.export(export.format))?;
    }
    if let Some(endpoint) = &args.show.otlp
        && let Some(rejected) = otlp::send(endpoint, &output.otlp())?
    {
        eprintln!("note: {endpoint} did not take every metric: {rejected}");
    }
    Ok(exit(result, &thresholds))
}

/// A threshold that the generator broke says nothing of the server. Otherwise a broken one outweighs what else is amiss: a
/// server that is too slow for the rate breaks both, and the threshold is what was asked about.
fn exit(result: &LoadResult, thresholds: &[ThresholdResult]) -> Exit {
    let broken = thresholds.iter().any(|seen| !seen.held && seen.measured.is_some());
    let measured = result.completed > 0 && thresholds.iter().all(|seen| seen.measured.is_some());
    if broken && !result.generator_limited() {
        Exit::GateBroken
    } else if measured && result.is_valid() {
        Exit::Done
    } else {
        Exit::NotValid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::load::Gate;

    #[test]
    fn the_exit_code_says_what_matters_most() {
        let seen = |held, measured| ThresholdResult {
            threshold: "max<1s".parse().unwrap(),
            measured,
            unit: "us".into(),
            held,
        };
        let (held, broken, unseen) = (seen(true, Some(1.0)), seen(false, Some(2e6)), seen(false, None));
        let gate = |generator_limited| Gate { name: "x".into(), held: false, detail: String::new(), generator_limited };
        let check = |completed, gates, thresholds: &[&ThresholdResult]| {
            let thresholds: Vec<ThresholdResult> = thresholds.iter().map(|seen| (*seen).clone()).collect();
            exit(&LoadResult { completed, gates, ..LoadResult::default() }, &thresholds)
        };
        assert_eq!(check(1, vec![], &[]), Exit::Done);
        assert_eq!(check(1, vec![], &[&held]), Exit::Done);
        assert_eq!(check(1, vec![], &[&held, &broken]), Exit::GateBroken);
        assert_eq!(check(1, vec![gate(false)], &[&held]), Exit::NotValid);
        assert_eq!(check(1, vec![gate(false)], &[&broken]), Exit::GateBroken, "not steady, and too slow");
        assert_eq!(check(1, vec![gate(true)], &[&broken]), Exit::NotValid, "the generator's fault");
        assert_eq!(check(0, vec![], &[&broken]), Exit::GateBroken, "every request failed, say");
        assert_eq!(check(0, vec![], &[&unseen]), Exit::NotValid, "nothing was measured");
        assert_eq!(check(0, vec![], &[]), Exit::NotValid);
    }
}
