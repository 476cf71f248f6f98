//! `prony limit`: flags to a goal, the result to text or JSON, the verdict to an exit code.
//!
//! It searches nothing itself. Invariant: an answer that is not valid never ends with the exit code of one that is.

use crate::cli::{LimitArgs, OutputArgs};
use crate::output::print;
use crate::{BadArgument, Exit, measure, source};
use anyhow::Result;
use prony_model::limit::LimitVerdict;
use prony_model::stack::Slo;
use prony_model::{Axis, LimitReport, Nanos, Run, Software, Stack};
use prony_session::{Goal, LimitGoal};

/// Time for saturation, and with an objective.
const BUDGET: Nanos = Nanos::from_millis(90_000);
const BUDGET_WITH_SLO: Nanos = Nanos::from_millis(180_000);
/// More for stable connections: trials of five seconds, and about twenty of them.
const BUDGET_STABLE: Nanos = Nanos::from_millis(90_000);
/// Shortest budget: a few trials must fit.
const BUDGET_MIN: Nanos = Nanos::from_millis(5_000);

/// `prony limit STACK`.
pub(crate) fn run(args: &LimitArgs) -> Result<Exit> {
    let goal = goal(args, &source::stack(&args.target.stack)?)?;
    measure::limit(&args.target, Goal::Limit(Box::new(goal)), &args.output)
}

/// What the flags and the stack ask for.
fn goal(args: &LimitArgs, stack: &Stack) -> Result<LimitGoal> {
    let wrong = |text: String| Err(BadArgument::error(text));
    let of_stack = || stack.slo.as_ref().map(Slo::thresholds).unwrap_or_default();
    let slo = if args.slo.is_empty() && args.vary.is_none() { of_stack() } else { args.slo.clone() };
    if let (Some(vary), false) = (args.vary, args.slo.is_empty()) {
        return wrong(format!(
            "--slo is for a search over the load; over {} write --until '{}'",
            vary.axis.name(),
            args.slo[0]
        ));
    }
    let budget = args.budget.unwrap_or_else(|| {
        let base = if slo.is_empty() { BUDGET } else { BUDGET_WITH_SLO };
        Nanos(base.0 + if args.stable { BUDGET_STABLE.0 } else { 0 })
    });
    if budget < BUDGET_MIN {
        return wrong(format!("--budget {budget} is too short for any answer: write at least {BUDGET_MIN}"));
    }
    if let Some(vary) = args.vary {
        check_axis(vary.axis, vary.low, args, stack)?;
    }
    if args.target.choice.rate.is_some() && args.vary.is_none() {
        return wrong("--rate is what is searched: leave it out, or use `prony load --rate`".to_string());
    }
    Ok(LimitGoal {
        slo,
        stable: args.stable,
        vary: args.vary,
        until: args.until.clone(),
        extrapolate: args.extrapolate.clone(),
        budget,
    })
}

fn check_axis(axis: Axis, low: u64, args: &LimitArgs, stack: &Stack) -> Result<()> {
    let named = stack.entry.contains("%d") || stack.workload.requests.iter().any(|r| r.path.contains("%d"));
    let entry = stack.path().first().and_then(|name| stack.host.get(*name));
    let wrong = match axis {
        Axis::PathSize if args.until.is_none() => "path-size needs --until, like --until 'bandwidth>=95%'".to_string(),
        Axis::PathSize if !named && low == 0 => {
            "answers of 0 bytes cannot be asked for by `Range`: begin at 1, or write a path in which `%d` becomes the size".to_string()
        }
        Axis::Workers if entry.is_none_or(|host| host.software != Some(Software::Nginx) && stack.lab.is_none()) => {
            "workers are those of nginx at the entry of the path: the stack file must name it (software = \"nginx\")".to_string()
        }
        Axis::Connections if args.target.choice.connections.is_some() => {
            "--connections and --vary connections are both given: keep one".to_string()
        }
        Axis::PathSize | Axis::Workers | Axis::Connections => return Ok(()),
    };
    Err(BadArgument::error(wrong))
}

/// One object with its schema, and the sentence that a person would read.
pub(crate) fn json(run: &Run, report: &LimitReport) -> Result<serde_json::Value> {
    let mut object = serde_json::to_value(report)?;
    object["schema"] = "prony.limit/1".into();
    object["summary"] = prony_report::text::limit_sentence(run).into();
    Ok(object)
}

/// The verdict on a target that never answered.
pub(crate) fn unreachable(reason: &str, output: &OutputArgs) -> Result<Exit> {
    let report = LimitReport { verdict: LimitVerdict::NothingServed, ..LimitReport::default() };
    if output.json {
        let mut object = json(&Run::default(), &report)?;
        object["summary"] = reason.into();
        print(&serde_json::to_string_pretty(&object)?);
    }
    eprintln!("prony: {reason}");
    Ok(exit(&report))
}

/// How a search ended, as an exit code.
pub(crate) fn exit(report: &LimitReport) -> Exit {
    match report.verdict {
        LimitVerdict::Found | LimitVerdict::Wide => Exit::Done,
        LimitVerdict::NothingHolds => Exit::GateBroken,
        LimitVerdict::GeneratorLimited
        | LimitVerdict::Unsteady
        | LimitVerdict::Died
        | LimitVerdict::Flapping
        | LimitVerdict::NothingServed
        | LimitVerdict::Open => Exit::NotValid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use expect_test::{Expect, expect};

    const STACK: &str = r#"
entry = "http://10.0.0.2/"
[host.client]
role = "generator"
[host.lb]
software = "nginx"
calls = ["db"]
[host.db]
[slo]
p99 = "20ms"
"#;

    fn of(words: &str) -> Result<LimitGoal> {
        let words = ["prony", "limit", "stack.toml"].into_iter().chain(words.split_whitespace());
        let Command::Limit(args) = Cli::try_parse_from(words)?.command else { panic!("this is `prony limit`") };
        goal(&args, &Stack::parse("stack.toml", STACK)?)
    }

    fn check(words: &[&str], want: Expect) {
        let line = |words: &&str| match of(words) {
            Ok(LimitGoal { slo, stable, vary, until, budget, .. }) => {
                let slo: Vec<String> = slo.iter().map(ToString::to_string).collect();
                let vary = vary.map(|v| v.to_string()).unwrap_or_default();
                let until = until.map(|u| u.to_string()).unwrap_or_default();
                format!("[{}] stable={stable} {vary} {until} {budget}\n", slo.join(" "))
            }
            Err(e) => format!("{}\n", e.to_string().lines().next().unwrap_or_default()),
        };
        want.assert_eq(&words.iter().map(line).collect::<String>());
    }

    #[test]
    fn flags_become_a_goal() {
        check(
            &[
                "",
                "--slo p99<10ms --slo errors<0.1%",
                "--stable",
                "--budget 40s",
                "--vary connections=1..64 --until p99<20ms",
                "--vary workers=1..8 --extrapolate 32",
            ],
            expect![[r#"
                [p99<=20ms] stable=false   180s
                [p99<10ms errors<0.1%] stable=false   180s
                [p99<=20ms] stable=true   270s
                [p99<=20ms] stable=false   40s
                [] stable=false connections=1..64 p99<20ms 90s
                [] stable=false workers=1..8  90s
            "#]],
        );
    }

    #[test]
    fn what_cannot_be_asked_says_what_can() {
        check(
            &[
                "--slo error<1%",
                "--slo p99<10",
                "--vary workrs=1..8",
                "--vary path-size=0..100",
                "--vary path-size=0..100 --until bandwidth>=95%",
                "--vary connections=1..8 -c 4",
                "--vary connections=1..8 --slo p99<1s",
                "--until p99<1s",
                "--budget 1s",
                "-R 5k",
            ],
            expect![[r#"
                error: invalid value 'error<1%' for '--slo <THRESHOLD>': `error<1%` is no threshold: `error` is not one of p(95), med, avg, max, errors, rate, bandwidth, count, checks, lag_p(99); did you mean `errors`?
                error: invalid value 'p99<10' for '--slo <THRESHOLD>': `p99<10` is no threshold: `10` is not a duration: write it with ns, us, ms, s, m or h, like `10ms`
                error: invalid value 'workrs=1..8' for '--vary <NAME=LOW..HIGH>': `workrs=1..8` is nothing to vary: `workrs` is not one of path-size, connections, workers; did you mean `workers`?
                path-size needs --until, like --until 'bandwidth>=95%'
                answers of 0 bytes cannot be asked for by `Range`: begin at 1, or write a path in which `%d` becomes the size
                --connections and --vary connections are both given: keep one
                --slo is for a search over the load; over connections write --until 'p99<1s'
                error: the following required arguments were not provided:
                --budget 1s is too short for any answer: write at least 5s
                --rate is what is searched: leave it out, or use `prony load --rate`
            "#]],
        );
    }

    #[test]
    fn only_an_answer_that_is_valid_ends_well() {
        let code = |verdict| exit(&LimitReport { verdict, ..LimitReport::default() });
        assert_eq!((code(LimitVerdict::Found), code(LimitVerdict::Wide)), (Exit::Done, Exit::Done));
        assert_eq!(code(LimitVerdict::NothingHolds), Exit::GateBroken);
        for verdict in [LimitVerdict::GeneratorLimited, LimitVerdict::Died, LimitVerdict::Flapping, LimitVerdict::Open]
        {
            assert_eq!(code(verdict), Exit::NotValid);
        }
    }
}
