//! Every recorded run in `testdata/runs` gives the verdict that its name says: `CAUSE.HOP[.note].prony`.

use prony_model::metric::{LOOK_RUNNING, PROFILE_SAMPLES};
use prony_model::{Purpose, Run};
use std::path::{Path, PathBuf};

fn runs() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs");
    let entries = std::fs::read_dir(folder).expect("the folder is part of the source");
    let mut runs: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    runs.retain(|path| path.extension().is_some_and(|e| e == "prony"));
    runs.sort();
    runs
}

/// The record is opened from a copy: reading may recover what a killed writer left, and that must not change the source.
fn read(path: &Path) -> Run {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let copy = folder.path().join("copy.prony");
    std::fs::copy(path, &copy).expect("the record can be copied");
    prony_record::read(&copy).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn recorded_runs_give_the_verdict_of_their_names() {
    let mut wrong = Vec::new();
    for path in runs() {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let mut words = name.split('.');
        let (cause, hop) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let run = read(&path);
        let verdict = prony_diagnose::diagnose(&run).verdict;
        if (verdict.cause.as_str(), verdict.hop.as_str()) != (cause, hop) {
            wrong.push(format!("{name}: {} at {}: {}", verdict.cause, verdict.hop, verdict.summary));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs at a rate that the stack carries are named so.
#[test]
fn at_a_rate_that_is_carried_the_time_of_requests_grounds_the_verdict() {
    let at_rate: Vec<Run> =
        runs().iter().filter(|p| p.to_string_lossy().contains(".at-rate.")).map(|p| read(p)).collect();
    for run in &at_rate {
        let verdict = prony_diagnose::diagnose(run).verdict;
        assert!(verdict.at_rate && verdict.grounded, "{verdict:#?}");
        assert!(run.interventions.iter().all(|i| i.at_rate), "{:?}", run.interventions);
    }
    assert!(at_rate.len() >= 3, "a wait of its own, a queue, work on a CPU");
}

/// When close looks began and ended, by the session's clock.
fn looks(run: &Run) -> Vec<(u64, u64)> {
    let lasts = run.trials.iter().find(|t| t.purpose == Purpose::Inspect).map_or(0, |t| t.plan.duration.0);
    let facts =
        run.series.iter().filter(|(key, _)| [LOOK_RUNNING.name, PROFILE_SAMPLES.name].contains(&key.metric.as_str()));
    facts.flat_map(|(_, points)| points).map(|(at_ns, _)| (*at_ns, at_ns + lasts)).collect()
}

#[test]
fn close_looks_fall_into_no_scored_trial() {
    let mut seen = 0;
    for path in runs() {
        let run = read(&path);
        let scored = run.trials.iter().filter(|trial| trial.purpose != Purpose::Inspect);
        let windows: Vec<_> = scored.map(|trial| (trial.id, trial.window)).collect();
        for (begins, ends) in looks(&run) {
            seen += 1;
            let met = windows.iter().find(|(_, window)| window.from_ns < ends && window.to_ns > begins);
            assert!(met.is_none(), "{}: a look from {begins} to {ends} fell into trial {met:?}", path.display());
        }
    }
    assert!(seen > 0, "recorded runs hold close looks");
}

/// Causes without a run, and what it would take. Their tests stand on constructed ones.
const UNRECORDED: [(&str, &str); 14] = [
    ("access-log-lock", "more than two CPUs: two workers hardly ever meet at the lock"),
    ("coalescing-too-high", "a network card"),
    ("coalescing-too-low", "a network card"),
    ("cpu-stolen", "a hypervisor that says so"),
    ("flow-hash-skew", "a network card with several queues"),
    ("frequency-capped", "a machine that shows its frequency"),
    ("interrupts-on-one-cpu", "a network card"),
    ("listener-lock", "more than two CPUs"),
    ("nic-ring-overrun", "a network card"),
    ("numa-remote", "two nodes of memory"),
    ("packet-rate-bound", "a hop whose CPUs do little but receive: here others send on the same ones"),
    ("packet-steering-overspread", "more than two CPUs"),
    ("softirq-budget-squeezed", "more than two CPUs: one full of packets while others are idle"),
    ("too-few-nic-queues", "a network card"),
];

fn recorded() -> Vec<String> {
    let cause = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().split('.').next()?.to_string());
    runs().iter().filter_map(cause).collect()
}

#[test]
fn every_cause_has_a_recorded_run_or_a_reason() {
    let recorded = recorded();
    for cause in prony_diagnose::CAUSES {
        let reason = UNRECORDED.iter().any(|(id, _)| *id == cause.id);
        let has_run = recorded.iter().any(|id| id == cause.id);
        assert!(has_run != reason, "{}: recorded {has_run}, listed as unrecorded {reason}", cause.id);
    }
}

#[test]
fn recorded_runs_cover_what_the_labs_plant() {
    let recorded = recorded();
    for lab in prony_lab::builtin_names() {
        let Some(expected) = prony_lab::expected(lab) else { continue };
        let covered = expected.causes.iter().any(|cause| recorded.iter().any(|r| r == cause));
        assert!(covered, "no run of lab `{lab}` is recorded (one of {:?})", expected.causes);
    }
}
