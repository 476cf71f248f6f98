//! JUnit XML: what CI systems show of a run or a comparison, a case for each thing that had to hold.
//!
//! The format has no standard; this keeps to what Jenkins, GitLab and GitHub's actions read: `testsuites`, `testsuite`,
//! `testcase`, `failure`, `skipped`, `system-out`. Invariant: no text of a run can open or close an element.

use crate::view::headline::operating_point;
use crate::view::proof::interval;
use crate::{names, number};
use prony_model::comparison::{Comparison, GateState};
use prony_model::stack::Slo;
use prony_model::{ProofVerdict, Run, RunEnd, Trial};

/// One report of one or more cases.
pub(crate) struct Suite {
    name: String,
    /// Wall time in seconds, when it is known.
    time_s: Option<f64>,
    cases: Vec<Case>,
    /// What a person reads besides.
    output: String,
}

/// One thing that had to hold.
struct Case {
    name: String,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    /// What kind of failure, and what was seen.
    Failed(&'static str, String),
    /// Why nothing can be said.
    Skipped(String),
}

impl Suite {
    /// The whole document.
    pub(crate) fn xml(&self) -> String {
        let count = |of: fn(&Outcome) -> bool| self.cases.iter().filter(|c| of(&c.outcome)).count();
        let failures = count(|o| matches!(o, Outcome::Failed(..)));
        let skipped = count(|o| matches!(o, Outcome::Skipped(_)));
        let time = self.time_s.map(|s| format!(" time=\"{s:.3}\"")).unwrap_or_default();
        let counts =
            format!("tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"{time}", self.cases.len());
        let name = escape(&self.name);
        let cases: String = self.cases.iter().map(|case| case.xml(&name)).collect();
        let output = match self.output.as_str() {
            "" => String::new(),
            text => format!("    <system-out>{}</system-out>\n", escape(text)),
        };
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"{name}\" {counts}>\n{cases}{output}  </testsuite>\n</testsuites>\n"
        )
    }
}

impl Case {
    fn xml(&self, class: &str) -> String {
        let name = escape(&self.name);
        let body = match &self.outcome {
            Outcome::Passed => return format!("    <testcase classname=\"{class}\" name=\"{name}\"/>\n"),
            Outcome::Failed(kind, seen) => {
                let seen = escape(seen);
                format!("<failure type=\"{kind}\" message=\"{seen}\">{seen}</failure>")
            }
            Outcome::Skipped(why) => format!("<skipped message=\"{}\"/>", escape(why)),
        };
        format!("    <testcase classname=\"{class}\" name=\"{name}\">\n      {body}\n    </testcase>\n")
    }
}

/// What a run had to hold: to end well, its objective, its validity, and its proof with guards.
pub(crate) fn of_run(run: &Run) -> Suite {
    let mut cases = vec![Case { name: "the run came to its end".to_string(), outcome: end(&run.end) }];
    if let Some(trial) = operating_point(run) {
        cases.push(Case { name: "the load was valid".to_string(), outcome: validity(trial) });
        cases.extend(run.stack.slo.iter().flat_map(|slo| objective(slo, trial)));
    }
    if let Some(proof) = &run.proof {
        cases.push(Case { name: "proof".to_string(), outcome: judged(proof.verdict, &proof.summary) });
        let guard = |g: &prony_model::proof::Guard| {
            let seen = format!("{}, margin {}", interval(&g.effect), number::change(g.margin));
            let outcome = match (g.held, g.broken) {
                (true, _) => Outcome::Passed,
                (false, true) => Outcome::Failed("broken", seen),
                (false, false) => Outcome::Skipped(format!("not shown to hold: {seen}")),
            };
            Case { name: format!("guard: {}", names::effect(&g.effect.metric)), outcome }
        };
        cases.extend(proof.guards.iter().map(guard));
    }
    let output = run.diagnosis.as_ref().map(|d| d.verdict.summary.clone()).unwrap_or_default();
    let name = run.stack.title();
    Suite { name: format!("prony: {name}"), time_s: (run.cost.wall_s > 0.0).then_some(run.cost.wall_s), cases, output }
}

/// Gates where there are some, else the verdict of each question.
pub(crate) fn of_comparison(comparison: &Comparison) -> Suite {
    let mut cases = Vec::new();
    for answer in &comparison.answers {
        for gate in &answer.gates {
            let outcome = match gate.state {
                GateState::Holds => Outcome::Passed,
                GateState::Broken => Outcome::Failed("broken", gate.detail.clone()),
                GateState::NotProven => Outcome::Failed("not-proven", gate.detail.clone()),
            };
            cases.push(Case { name: format!("{}: {}", answer.question, gate.gate), outcome });
        }
        if answer.gates.is_empty() {
            cases.push(Case { name: answer.question.clone(), outcome: judged(answer.verdict, &answer.summary) });
        }
    }
    let sentences = comparison.answers.iter().map(|a| a.summary.as_str());
    let strength = format!("{}: {}", names::strength(comparison.strength), comparison.strength_reason);
    let output = sentences.chain([strength.as_str()]).chain(comparison.notes.iter().map(String::as_str));
    let output = output.collect::<Vec<_>>().join("\n");
    Suite { name: "prony compare".to_string(), time_s: None, cases, output }
}

fn judged(verdict: ProofVerdict, summary: &str) -> Outcome {
    match verdict {
        ProofVerdict::Better | ProofVerdict::NoDifference => Outcome::Passed,
        ProofVerdict::Worse => Outcome::Failed("worse", summary.to_string()),
        ProofVerdict::GuardBroken => Outcome::Failed("guard-broken", summary.to_string()),
        ProofVerdict::Inconclusive => Outcome::Skipped(summary.to_string()),
    }
}

fn end(end: &RunEnd) -> Outcome {
    match end {
        RunEnd::Done => Outcome::Passed,
        RunEnd::Open => Outcome::Failed("cut-short", "the run was killed before its end".to_string()),
        RunEnd::Interrupted => Outcome::Failed("interrupted", "the run was interrupted".to_string()),
        RunEnd::Failed { reason } => Outcome::Failed("failed", reason.clone()),
    }
}

fn validity(trial: &Trial) -> Outcome {
    let broken: Vec<String> =
        trial.result.gates.iter().filter(|g| !g.held).map(|g| format!("{}: {}", g.name, g.detail)).collect();
    let kind = if trial.result.generator_limited() { "generator-limited" } else { "not-valid" };
    if broken.is_empty() { Outcome::Passed } else { Outcome::Failed(kind, broken.join("; ")) }
}

/// A case for each part of the objective, at the workload as written.
fn objective(slo: &Slo, trial: &Trial) -> Vec<Case> {
    let result = &trial.result;
    let case = |name: String, held: bool, seen: String| {
        let outcome = if held { Outcome::Passed } else { Outcome::Failed("objective", format!("seen: {seen}")) };
        Case { name, outcome }
    };
    let latency = |name: &str, limit: Option<prony_model::Nanos>, us: f64| {
        limit.map(|limit| case(format!("{name} within {limit}"), us <= limit.as_us_f64(), number::micros(us)))
    };
    let errors = slo.errors.map(|share| {
        let seen = result.error_share();
        case(format!("errors within {share}"), seen <= share.0, number::percent(seen))
    });
    let parts =
        [latency("p99", slo.p99, result.latency.p99_us), latency("p50", slo.p50, result.latency.p50_us), errors];
    parts.into_iter().flatten().collect()
}

/// Text for an element or an attribute; characters that XML 1.0 does not know become a replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use prony_model::{Latency, LoadPlan, LoadResult, Proof, Purpose, Stack, Window};

    fn check(run: &Run, want: Expect) {
        want.assert_eq(&of_run(run).xml());
    }

    fn run(end: RunEnd) -> Run {
        let text =
            "name = \"shop <1>\"\nentry = \"http://10.0.0.2/\"\n[host.lb]\n[slo]\np99 = \"10ms\"\nerrors = \"0.1%\"\n";
        let result = LoadResult {
            completed: 10,
            latency: Latency { p99_us: 12_000.0, ..Latency::default() },
            ..LoadResult::default()
        };
        let trial = Trial {
            id: 0,
            purpose: Purpose::Load,
            plan: LoadPlan::to("http://10.0.0.2/"),
            window: Window::default(),
            result,
        };
        Run { stack: Stack::parse("stack.toml", text).unwrap(), trials: vec![trial], end, ..Run::default() }
    }

    #[test]
    fn a_run_is_a_suite() {
        let proof = Proof { verdict: ProofVerdict::Inconclusive, summary: "too few".into(), ..Proof::default() };
        check(
            &Run { proof: Some(proof), ..run(RunEnd::Done) },
            expect![[r#"
                <?xml version="1.0" encoding="UTF-8"?>
                <testsuites tests="5" failures="1" errors="0" skipped="1">
                  <testsuite name="prony: shop &lt;1&gt;" tests="5" failures="1" errors="0" skipped="1">
                    <testcase classname="prony: shop &lt;1&gt;" name="the run came to its end"/>
                    <testcase classname="prony: shop &lt;1&gt;" name="the load was valid"/>
                    <testcase classname="prony: shop &lt;1&gt;" name="p99 within 10ms">
                      <failure type="objective" message="seen: 12.0 ms">seen: 12.0 ms</failure>
                    </testcase>
                    <testcase classname="prony: shop &lt;1&gt;" name="errors within 0.1%"/>
                    <testcase classname="prony: shop &lt;1&gt;" name="proof">
                      <skipped message="too few"/>
                    </testcase>
                  </testsuite>
                </testsuites>
            "#]],
        );
    }

    #[test]
    fn a_failed_run_fails_and_its_words_stay_words() {
        let xml = of_run(&run(RunEnd::Failed { reason: "no \"route\" ]]> </failure>\u{1b}".into() })).xml();
        assert!(xml.contains("message=\"no &quot;route&quot; ]]&gt; &lt;/failure&gt;\u{fffd}\""), "{xml}");
        assert!(xml.contains("failures=\"2\""), "{xml}");
    }
}
