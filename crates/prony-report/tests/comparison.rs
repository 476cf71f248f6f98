//! A comparison and a history as texts. `UPDATE_EXPECT=1 cargo test -p prony-report` writes them anew; read the difference.

#![allow(clippy::unwrap_used, reason = "clippy knows tests by #[test]; these are their parts")]

use expect_test::{Expect, expect};
use prony_model::ProofVerdict;
use prony_model::comparison::{
    Answer, ChangeInterval, CompareMode, ComparedMetric, Comparison, Difference, GateResult, GateState, History,
    HistoryChange, HistorySeries, MatchedLoad, MetricChange, SCHEMA, Strength,
};
use prony_report::text::Style;
use prony_report::{comparison, history};

fn metric(metric: ComparedMetric, a: f64, change: f64, low: f64, high: f64, verdict: ProofVerdict) -> MetricChange {
    let b = if metric.is_ratio() { a * (1.0 + change) } else { a + change };
    let interval = Some(ChangeInterval { low, high, detectable: 0.0123, p: 0.01, p_holm: 0.02 });
    MetricChange { metric, a, b, change, by_speed: None, interval, trials_a: 8, trials_b: 6, verdict }
}

fn made() -> Comparison {
    use ComparedMetric::{Errors, P99, Rps};
    let gate =
        |text: &str, state, detail: &str| GateResult { gate: text.parse().unwrap(), state, detail: detail.into() };
    let answer = Answer {
        question: "run b".into(),
        verdict: ProofVerdict::Worse,
        summary: "Worse: throughput of B differs by -9.8 %.".into(),
        primary: Rps,
        design: "8 trials of A and 6 of B".into(),
        metrics: vec![
            metric(Rps, 12_000.0, -0.098, -0.11, -0.086, ProofVerdict::Worse),
            metric(P99, 1900.0, 0.003, -0.02, 0.026, ProofVerdict::NoDifference),
            metric(Errors, 0.0, 0.0, -0.000_04, 0.000_04, ProofVerdict::NoDifference),
        ],
        gates: vec![
            gate("rps>=-2%", GateState::Broken, "-9.8 %, 95 % interval -11 % to -8.6 %"),
            gate("p99<=+10%", GateState::Holds, "+0.3 %, 95 % interval -2.0 % to +2.6 %"),
        ],
        loads: vec![MatchedLoad {
            label: "load, 64 connections".into(),
            trials_a: 8,
            trials_b: 6,
            rps_a: 12_000.0,
            rps_b: 10_824.0,
            used: true,
        }],
        generator_limited: false,
        doubtful: (0, 14),
    };
    Comparison {
        schema: SCHEMA.into(),
        mode: CompareMode::Recorded,
        a: "run a of shop".into(),
        b: "run b of shop".into(),
        answers: vec![answer],
        strength: Strength::Weak,
        strength_reason: "the runs were made 15 minutes apart".into(),
        aa: None,
        differences: vec![Difference {
            what: "kernel".into(),
            hosts: vec!["lb".into(), "s1".into()],
            a: Some("6.1".into()),
            b: None,
        }],
        notes: vec!["B was cut short".into()],
        runs: vec!["a".into(), "b".into()],
        valid: true,
    }
}

fn check(actual: &str, want: Expect) {
    want.assert_eq(actual);
}

#[test]
fn a_change_at_equal_speed_says_so() {
    let mut comparison = made();
    let rps = comparison.answers[0].metrics.first_mut().unwrap();
    (rps.b, rps.by_speed) = (11_900.0, Some(0.75));
    let seen = "12,000/s -> 11,900/s  -9.8 % at equal speed (-11.0 % to -8.6 %)";
    let text = comparison::text(&comparison, Style::Plain);
    assert!(text.contains(seen), "{text}");
}

#[test]
fn a_comparison_on_the_terminal() {
    check(
        &comparison::text(&made(), Style::Plain),
        expect![[r#"
        A: run a of shop. B: run b of shop. (recorded runs)

        Worse: throughput of B differs by -9.8 %.

          good requests per second    12,000/s -> 10,824/s  -9.8 % (-11.0 % to -8.6 %)  worse
          p99 latency                 1.90 ms -> 1.91 ms  +0.3 % (-2.0 % to +2.6 %)  the same within 2.6 %
          share of failed requests    0 % -> 0 %  0.00 points (0.00 points to 0.00 points)  the same within 0.01 points

        Gates
          broken      rps>=-2%: -9.8 %, 95 % interval -11 % to -8.6 %
          holds       p99<=+10%: +0.3 %, 95 % interval -2.0 % to +2.6 %

        Loads that both runs have
          used: load, 64 connections: 8 and 6 trials, 12,000/s -> 10,824/s

        What the verdict is worth
          weak: the runs were made 15 minutes apart

        Differs between A and B
          - kernel of lb, s1: 6.1 -> not there

        To know
          - B was cut short
    "#]],
    );
}

#[test]
fn a_comparison_in_a_pull_request() {
    check(
        &comparison::markdown(&made()),
        expect![[r#"
        ## prony compare: 1 of 2 gates do not hold

        A: run a of shop. B: run b of shop. (recorded runs)

        Worse: throughput of B differs by -9.8 %.

        | metric | A | B | change (95 % interval) | verdict | smallest detectable | trials |
        | --- | --- | --- | --- | --- | --- | --- |
        | good requests per second | 12,000/s | 10,824/s | -9.8 % (-11.0 % to -8.6 %) | worse | 1.2 % | 8 and 6 |
        | p99 latency | 1.90 ms | 1.91 ms | +0.3 % (-2.0 % to +2.6 %) | the same within 2.6 % | 1.2 % | 8 and 6 |
        | share of failed requests | 0 % | 0 % | 0.00 points (0.00 points to 0.00 points) | the same within 0.01 points | 1.23 points | 8 and 6 |

        | gate | state | seen |
        | --- | --- | --- |
        | rps&gt;=-2% | broken | -9.8 %, 95 % interval -11 % to -8.6 % |
        | p99&lt;=+10% | holds | +0.3 %, 95 % interval -2.0 % to +2.6 % |

        | load | trials | A/s | B/s | used |
        | --- | --- | --- | --- | --- |
        | load, 64 connections | 8 and 6 | 12,000 | 10,824 | yes |

        **weak**: the runs were made 15 minutes apart

        ## Differs between A and B

        - kernel of lb, s1: 6.1 -&gt; not there

        ## To know

        - B was cut short

    "#]],
    );
}

#[test]
fn a_comparison_for_ci() {
    check(
        &comparison::junit(&made()),
        expect![[r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites tests="2" failures="1" errors="0" skipped="0">
          <testsuite name="prony compare" tests="2" failures="1" errors="0" skipped="0">
            <testcase classname="prony compare" name="run b: rps&gt;=-2%">
              <failure type="broken" message="-9.8 %, 95 % interval -11 % to -8.6 %">-9.8 %, 95 % interval -11 % to -8.6 %</failure>
            </testcase>
            <testcase classname="prony compare" name="run b: p99&lt;=+10%"/>
            <system-out>Worse: throughput of B differs by -9.8 %.
        weak: the runs were made 15 minutes apart
        B was cut short</system-out>
          </testsuite>
        </testsuites>
    "#]],
    );
}

#[test]
fn texts_of_runs_stay_texts() {
    let mut hostile = made();
    hostile.b = "<script>alert(1)</script> | \u{1b}[31m".into();
    hostile.answers[0].question = "\"><failure/>".into();
    hostile.differences[0].b = Some("](http://x) <img src=x>".into());
    assert!(!comparison::text(&hostile, Style::Plain).contains('\u{1b}'));
    let markdown = comparison::markdown(&hostile);
    assert!(
        !markdown.contains("<script>") && !markdown.contains("<img") && markdown.contains("\\](http"),
        "{markdown}"
    );
    assert!(!comparison::junit(&hostile).contains("\"><failure/>"));
}

#[test]
fn a_comparison_survives_its_json() {
    let made = made();
    assert_eq!(serde_json::from_str::<Comparison>(&comparison::json(&made)).unwrap(), made);
}

#[test]
fn without_gates_verdicts_pass_or_fail() {
    let mut made = made();
    assert!(!made.passes(), "a gate is broken");
    made.answers[0].gates.remove(0);
    assert!(made.passes(), "what gates do not ask for is no failure");
    made.answers[0].gates.clear();
    assert!(!made.passes(), "worse");
    made.answers[0].verdict = ProofVerdict::Inconclusive;
    assert!(made.passes());
}

#[test]
fn a_history_on_the_terminal() {
    let change = HistoryChange {
        run: "20261101-1".into(),
        index: 4,
        started_unix_ms: 1_795_217_701_000,
        from: 10_000.0,
        to: 9_000.0,
        change: -0.1,
        p: 0.000_02,
        worse: true,
    };
    let series = |metric, changes| HistorySeries {
        label: "shop: load, 64 connections".into(),
        metric,
        runs: vec!["r".into(); 8],
        values: vec![1.0; 8],
        changes,
    };
    let series = vec![series(ComparedMetric::Rps, vec![change]), series(ComparedMetric::Errors, vec![])];
    let (schema, mode) = (SCHEMA.to_string(), "history".to_string());
    let made = History { schema, mode, runs: 8, series, notes: vec!["2 loads were left out".into()] };
    check(
        &history::text(&made, Style::Plain),
        expect![[r#"
        1 change in 2 series of 8 runs.

        shop: load, 64 connections (8 runs)
          good requests per second    worse since 20261101-1 (2026-11-20 23:35 UTC): 10,000/s -> 9,000/s,
                                      -10.0 %, p = 2.00e-5
          share of failed requests    no change

          - 2 loads were left out
    "#]],
    );
    assert!(history::markdown(&made).contains("| good requests per second | worse since 20261101-1 "));
}
