//! Figures for Prometheus: the newest finished run of each stack, runs by how they ended, what runs now, and the server itself.
//!
//! Text exposition format 0.0.4. Invariant: a figure that was not measured has no line; it is never 0.

use crate::App;
use crate::refusal::{Refusal, aside};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prony_report::view::RunSummary;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};

/// What the text is.
pub(crate) const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A name, what it is, and its lines.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    samples: Vec<Sample>,
}

/// Labels and a value.
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

fn sample(labels: &[(&'static str, &str)], value: f64) -> Sample {
    Sample { labels: labels.iter().map(|(name, value)| (*name, (*value).to_string())).collect(), value }
}

/// `/metrics`.
pub(crate) async fn serve(State(app): State<Arc<App>>) -> Result<impl IntoResponse, Refusal> {
    let text = aside(move || {
        let listing = app.archive.runs()?;
        let runs: Vec<&RunSummary> = listing.runs.iter().filter_map(|known| known.summary()).collect();
        let mut families = of_runs(&runs);
        families.extend(of_server(&app));
        Ok(page(&families))
    });
    Ok(([(CONTENT_TYPE, KIND)], text.await?))
}

/// Of runs, the newest first.
fn of_runs(runs: &[&RunSummary]) -> Vec<Family> {
    let mut ends: BTreeMap<&str, u32> = ["done", "failed", "interrupted", "open"].map(|end| (end, 0)).into();
    let mut newest: BTreeMap<&str, &RunSummary> = BTreeMap::new();
    for run in runs {
        *ends.entry(&run.end).or_default() += 1;
        if run.end == "done" {
            newest.entry(&run.stack).or_insert(run);
        }
    }
    let each = |value: fn(&RunSummary) -> Option<f64>| -> Vec<Sample> {
        newest.iter().filter_map(|(stack, run)| Some(sample(&[("stack", *stack)], value(run)?))).collect()
    };
    let quantiles = newest.iter().flat_map(|(stack, run)| {
        let of = |quantile, us: Option<f64>| Some(sample(&[("stack", *stack), ("quantile", quantile)], us? / 1e6));
        [of("0.5", run.p50_us), of("0.99", run.p99_us)].into_iter().flatten().collect::<Vec<_>>()
    });
    let causes = newest.iter().filter_map(|(stack, run)| {
        Some(sample(&[("stack", *stack), ("cause", run.cause.as_deref()?), ("hop", run.hop.as_str())], 1.0))
    });
    let gauge = |name, help, samples| Family { name, help, kind: "gauge", samples };
    let ended = ends.iter().map(|(end, runs)| sample(&[("end", *end)], f64::from(*runs)));
    vec![
        gauge("prony_runs", "Recorded runs by how they ended.", ended.collect()),
        gauge(
            "prony_run_start_timestamp_seconds",
            "Start of the newest finished run of a stack.",
            each(|run| Some(run.started_unix_ms as f64 / 1e3)),
        ),
        gauge(
            "prony_run_good_requests_per_second",
            "Good requests per second at the operating point of the newest finished run.",
            each(|run| run.good_per_s),
        ),
        Family {
            name: "prony_run_latency_seconds",
            help: "Latency at that point.",
            kind: "summary",
            samples: quantiles.collect(),
        },
        gauge("prony_run_error_ratio", "Share of failed requests at that point.", each(|run| run.error_share)),
        gauge(
            "prony_run_generator_limited",
            "Whether the generator was the limit there, so that the stack carries at least this.",
            each(|run| run.good_per_s.map(|_| f64::from(u8::from(run.generator_limited)))),
        ),
        gauge(
            "prony_run_cause",
            "What the newest finished run found to hold the stack back, and where.",
            causes.collect(),
        ),
    ]
}

fn of_server(app: &App) -> Vec<Family> {
    let answers = app.guard.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let answer = |(code, count): (&u16, &u64)| sample(&[("code", code.to_string().as_str())], *count as f64);
    let answers = answers.iter().map(answer).collect();
    let running = f64::from(u8::from(app.jobs.running().is_some()));
    let gauge = |name, help, samples| Family { name, help, kind: "gauge", samples };
    vec![
        gauge(
            "prony_experiment_running",
            "Whether an experiment that was started here runs.",
            vec![sample(&[], running)],
        ),
        gauge("prony_web_live_streams", "Pages that look on.", vec![sample(&[], app.streams.count() as f64)]),
        Family { name: "prony_web_answers_total", help: "Answers by code.", kind: "counter", samples: answers },
        gauge("prony_build_info", "Version of prony.", vec![sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0)]),
    ]
}

fn page(families: &[Family]) -> String {
    let mut out = String::new();
    for Family { name, help, kind, samples } in families {
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a String cannot fail");
        for Sample { labels, value } in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            writeln!(out, "{name}{labels} {value}").expect("writing to a String cannot fail");
        }
    }
    out
}

/// A label's value between its quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use prony_model::{LoadPlan, LoadResult, Purpose, Run, RunEnd, Stack, Trial, Window};

    fn run(name: &str, end: RunEnd, good_per_s: f64) -> RunSummary {
        let result = LoadResult { good_per_s, completed: 100, ..LoadResult::default() };
        let (plan, window) = (LoadPlan::to("http://a/"), Window::default());
        let trials = vec![Trial { id: 0, purpose: Purpose::Load, plan, window, result }];
        let stack = Stack { name: name.into(), ..Stack::default() };
        RunSummary::of(&Run { started_unix_ms: 1_500, stack, trials, end, ..Run::default() }, Vec::new())
    }

    #[test]
    fn the_newest_finished_run_of_each_stack_counts() {
        let runs = [
            run("shop", RunEnd::Open, 7.0),
            run("shop", RunEnd::Done, 200.5),
            run("shop", RunEnd::Done, 100.0),
            run("a\"b", RunEnd::Done, 0.0),
        ];
        let families = of_runs(&runs.iter().collect::<Vec<_>>());
        expect![[r#"
            # HELP prony_runs Recorded runs by how they ended.
            # TYPE prony_runs gauge
            prony_runs{end="done"} 3
            prony_runs{end="failed"} 0
            prony_runs{end="interrupted"} 0
            prony_runs{end="open"} 1
            # HELP prony_run_start_timestamp_seconds Start of the newest finished run of a stack.
            # TYPE prony_run_start_timestamp_seconds gauge
            prony_run_start_timestamp_seconds{stack="a\"b"} 1.5
            prony_run_start_timestamp_seconds{stack="shop"} 1.5
            # HELP prony_run_good_requests_per_second Good requests per second at the operating point of the newest finished run.
            # TYPE prony_run_good_requests_per_second gauge
            prony_run_good_requests_per_second{stack="shop"} 200.5
            # HELP prony_run_latency_seconds Latency at that point.
            # TYPE prony_run_latency_seconds summary
            # HELP prony_run_error_ratio Share of failed requests at that point.
            # TYPE prony_run_error_ratio gauge
            prony_run_error_ratio{stack="a\"b"} 0
            prony_run_error_ratio{stack="shop"} 0
            # HELP prony_run_generator_limited Whether the generator was the limit there, so that the stack carries at least this.
            # TYPE prony_run_generator_limited gauge
            prony_run_generator_limited{stack="shop"} 0
            # HELP prony_run_cause What the newest finished run found to hold the stack back, and where.
            # TYPE prony_run_cause gauge
        "#]]
        .assert_eq(&page(&families));
    }
}
