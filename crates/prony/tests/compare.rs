//! `prony compare` through the command line: on recorded runs, on made histories, and live.

mod prony;

use prony::{Said, Served, hostile, prony, prony_at, root, scratch};
use prony_model::{LoadPlan, LoadResult, Purpose, Run, RunEnd, Stack, Trial, Window};
use serde_json::Value;
use std::path::Path;

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err))
}

/// A copy of a recorded run, because reading may recover what a killed writer left.
fn recorded(folder: &Path, name: &str) -> String {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs").join(name);
    let to = folder.join(name);
    std::fs::copy(from, &to).expect("the record can be copied");
    to.display().to_string()
}

const SLOW: &str = "upstream-keepalive-off.lb.prony";
const FAST: &str = "access-log-unbuffered.lb.prony";

#[test]
fn two_recorded_runs_are_compared_and_said_to_be_weak() {
    let home = scratch();
    let (slow, fast) = (recorded(home.path(), SLOW), recorded(home.path(), FAST));
    let said = prony(&["compare", &slow, &fast, "--json"]);
    let result = json(&said);
    assert_eq!((&result["schema"], &result["mode"]), (&"prony.compare/1".into(), &"recorded".into()));
    assert_eq!(result["strength"], "weak");
    let answer = &result["answers"][0];
    // Throughput is twice as high, but p99 is higher as well.
    assert_eq!((said.code, &answer["verdict"]), (3, &"guard-broken".into()), "{}", answer["summary"]);
    let change = answer["metrics"][0]["change"].as_f64().unwrap();
    assert!((1.0..1.4).contains(&change), "{change}");
    let used: Vec<&Value> = answer["loads"].as_array().unwrap().iter().filter(|l| l["used"] == true).collect();
    assert_eq!((used.len(), &used[0]["trials_a"], &used[0]["trials_b"]), (1, &14.into(), &8.into()));
    assert!(result["differences"].to_string().contains("upstream_keepalive"), "{}", result["differences"]);
    assert!(!result["differences"].to_string().contains("netns"), "names of labs are no difference");

    let back = json(&prony(&["compare", &fast, &slow, "--json"]));
    let other = back["answers"][0]["metrics"][0]["change"].as_f64().unwrap();
    assert!((change.ln_1p() + other.ln_1p()).abs() < 1e-9, "{change} {other}");
    assert_eq!(back["answers"][0]["verdict"], "worse");

    let same = prony(&["compare", &slow, &slow]);
    assert_eq!(same.code, 0, "{}", same.out);
    assert!(same.out.contains("A and B are the same run"), "{}", same.out);
}

#[test]
fn gates_decide_the_exit_code_and_go_into_the_files_for_ci() {
    let home = scratch();
    let (slow, fast) = (recorded(home.path(), SLOW), recorded(home.path(), FAST));
    let path = |name: &str| home.path().join(name).display().to_string();
    let (junit, md) = (path("r.xml"), path("r.md"));
    let held = prony(&["compare", &slow, &fast, "--gate", "rps>=-2%", "--gate", "errors<=+0.1%", "--junit", &junit]);
    assert_eq!(held.code, 0, "{} {}", held.out, held.err);
    assert!(std::fs::read_to_string(&junit).unwrap().contains("tests=\"2\" failures=\"0\""));
    let gates = ["--gate", "rps>=-2%", "--gate", "p99<=10%", "--gate", "p99<=80%"];
    let files = ["--junit", &junit, "--md", &md];
    let broken = prony(&[&["compare", &slow, &fast][..], &gates, &files].concat());
    assert_eq!(broken.code, 3, "{}", broken.out);
    for line in ["  holds       rps>=-2%: ", "  broken      p99<=10%: ", "  not proven  p99<=80%: "] {
        assert!(broken.out.contains(line), "{line}: {}", broken.out);
    }
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("failures=\"2\"") && xml.contains("type=\"not-proven\""), "{xml}");
    let md = std::fs::read_to_string(&md).unwrap();
    assert!(md.starts_with("## prony compare: 2 of 3 gates do not hold\n") && md.contains("**weak**: "), "{md}");
    // One trial a side: a change without an interval proves nothing, whatever it is.
    let (a, b) = (write_run(home.path(), 1, 10_000.0), write_run(home.path(), 2, 20_000.0));
    let few = prony(&["compare", &a, &b, "--gate", "rps>=-2%"]);
    assert_eq!(few.code, 3, "{} {}", few.out, few.err);
    assert!(few.out.contains("not proven  rps>=-2%: +100 %, without an interval: too few trials"), "{}", few.out);
    assert!(few.out.starts_with("A: run ") && few.out.contains("Inconclusive: throughput"), "{}", few.out);
}

#[test]
fn what_cannot_be_compared_is_told_with_the_next_step() {
    let home = scratch();
    let slow = recorded(home.path(), SLOW);
    let path = |name: &str| home.path().join(name).display().to_string();
    let (text, empty) = (path("text.prony"), path("empty"));
    std::fs::write(&text, "hello").unwrap();
    std::fs::create_dir(&empty).unwrap();
    let (url, other) = ("http://127.0.0.1:1/", recorded(home.path(), "slow-upstream.s2.prony"));
    for (words, code, says) in [
        (vec![slow.as_str(), &text], 1, "text.prony: this is no record of prony"),
        (vec![&slow, "19990101"], 1, "no run in"),
        (vec![&slow], 2, "2 values required"),
        (vec![], 2, "<RUN> <RUN>"),
        (vec![&slow, &other], 2, "no load in common"),
        (vec![&slow, &slow, "--gate", "rsp>=-2%"], 2, "did you mean `rps`?"),
        (vec![&slow, &slow, "--gate", "rps>-2%"], 2, "METRIC>=CHANGE"),
        (vec![&slow, &slow, "--knob", "nginx.backlog=1"], 2, "--live"),
        (vec![&slow, &slow, "--quick"], 2, "--quick says how to measure"),
        (vec![&slow, &slow, "--detect", "2%"], 2, "--detect says how to measure"),
        (vec!["--live", url, "--aa", "1", "--detect", "0%"], 2, "no change to be found"),
        (vec!["--live", url, "--aa", "1", "--detect", "2"], 2, "write it in percent"),
        (vec!["--live", url], 2, "--knob NAME=VALUE"),
        (vec!["--live", url, "--knob", "nginx.bcklog=1"], 2, "nginx.backlog"),
        (vec!["--history", &empty], 2, "0 runs can be read"),
        (vec!["--history", &text], 2, "is no folder"),
        (vec!["--history", &empty, "--gate", "rps>=-2%"], 2, "cannot be used with"),
    ] {
        let said = prony(&[&["compare"][..], &words].concat());
        assert_eq!(said.code, code, "{words:?}: {}", said.err);
        assert!(said.err.contains(says), "{words:?}: {}", said.err);
    }
    let headers = prony(&[
        "compare",
        &recorded(home.path(), "too-few-workers.lb.prony"),
        &recorded(home.path(), "cpu-saturated-kernel.lb.prony"),
    ]);
    assert!(headers.err.contains("They differ in the headers."), "{}", headers.err);
}

/// Writes a run with one trial of a plain load, and gives its file.
fn write_run(folder: &Path, number: u64, good_per_s: f64) -> String {
    let stack = Stack { name: "shop".into(), entry: "http://10.0.0.2/".into(), ..Stack::default() };
    let id = format!("20261101-{number:06}");
    let run = Run { id: id.clone(), started_unix_ms: number * 86_400_000, stack, end: RunEnd::Done, ..Run::default() };
    let file = folder.join(format!("{id}.prony"));
    let mut writer = prony_record::Writer::create(&file, &run).expect("a scratch folder takes files");
    let result = LoadResult { good_per_s, completed_per_s: good_per_s, completed: 50_000, ..LoadResult::default() };
    let (plan, window) = (LoadPlan::to("http://10.0.0.2/"), Window { from_ns: 0, to_ns: 5_000_000_000 });
    writer.trial(&Trial { id: 0, purpose: Purpose::Load, plan, window, result }).expect("a trial can be written");
    writer.finish(&run).expect("a record can be ended");
    file.display().to_string()
}

#[test]
fn a_history_names_the_run_since_which_it_is_slower() {
    let home = scratch();
    // Noise of up to 1.5 % that is the same in every test run; from run 14 on a tenth less.
    for number in 0..24u64 {
        let noise = 1.0 + (number * 7919 % 31) as f64 / 1000.0;
        write_run(home.path(), number, 10_000.0 * noise * if number < 14 { 1.0 } else { 0.9 });
    }
    std::fs::write(home.path().join("broken.prony"), "hello").unwrap();
    let folder = home.path().display().to_string();
    let said = prony(&["compare", "--history", &folder, "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let history = json(&said);
    assert_eq!(
        (&history["schema"], &history["mode"], &history["runs"]),
        (&"prony.compare/1".into(), &"history".into(), &24.into())
    );
    let rps = &history["series"][0];
    assert_eq!((rps["metric"].as_str(), rps["changes"].as_array().map(Vec::len)), (Some("rps"), Some(1)));
    let change = &rps["changes"][0];
    assert_eq!((&change["run"], &change["worse"]), (&"20261101-000014".into(), &true.into()));
    assert!((change["change"].as_f64().unwrap() + 0.1).abs() < 0.02, "{change}");
    let text = prony(&["compare", "--history", &folder]).out;
    assert!(text.contains("worse since 20261101-000014"), "{text}");
    assert!(text.contains("left out: ") && text.contains("broken.prony"), "{text}");
}

#[test]
fn a_recorded_run_is_a_junit_report() {
    let home = scratch();
    let said = prony(&["report", &recorded(home.path(), SLOW), "--format", "junit"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.out.starts_with("<?xml version=\"1.0\"") && said.out.contains("name=\"p99 within 20ms\""),
        "{}",
        said.out
    );
    assert!(said.out.contains("<system-out>lb opens 1.00 connections"), "{}", said.out);
}

/// Few requests per second to a server that answers at once: nothing may differ, and what that is worth is told.
#[test]
fn live_a_against_a_changes_nothing_and_is_counted() {
    let home = scratch();
    let url = format!("http://127.0.0.1:{}/", hostile(Served::Answer));
    let live = ["compare", "--live", &url, "--aa", "1", "--quick", "-q", "-c", "2", "-R", "1000", "--json"];
    let said = prony_at(home.path(), &live);
    let first = json(&said);
    assert_eq!(
        (first["mode"].as_str(), first["answers"].as_array().map(Vec::len)),
        (Some("live"), Some(0)),
        "{}",
        said.err
    );
    assert_eq!(first["aa"]["experiments"], 3, "{}", first["aa"]);
    assert_ne!(first["strength"], "strong", "three comparisons are too few");
    // The next one counts it in, without any load of its own being needed for that.
    let second = json(&prony_at(home.path(), &live));
    assert_eq!(second["aa"]["experiments"], 6, "{}", second["aa"]);
}

#[test]
fn needs_root_a_knob_is_compared_live_gated_and_undone() {
    if !root("a lab") {
        return;
    }
    let home = scratch();
    let knobs = ["--knob", "nginx.upstream_keepalive=64", "--knob", "nginx.worker_processes=2"];
    let live = ["compare", "--live", "proxy-keepalive-off", "--quick", "-q", "--json", "--gate", "rps>=+10%"];
    let said = prony_at(home.path(), &[&live[..], &knobs].concat());
    let result = json(&said);
    let (keepalive, workers) = (&result["answers"][0], &result["answers"][1]);
    // How sure it gets depends on how quiet the machine is; the direction and what follows from the interval do not.
    assert!(keepalive["metrics"][0]["change"].as_f64().unwrap() > 0.0, "{}", keepalive["summary"]);
    let held = |answer: &Value| answer["gates"][0]["state"] == "holds";
    let proven = |answer: &Value| answer["metrics"][0]["interval"]["low"].as_f64().unwrap() >= 0.1;
    assert_eq!((held(keepalive), held(workers)), (proven(keepalive), proven(workers)), "{}", said.out);
    assert_eq!(said.code, if held(keepalive) && held(workers) { 0 } else { 3 }, "{}", said.err);
    let interval = &keepalive["metrics"][0]["interval"];
    assert!(interval["p_holm"].as_f64().unwrap() >= interval["p"].as_f64().unwrap(), "{interval}");
    assert_eq!(result["aa"]["experiments"], 4, "two from each proof: {}", result["aa"]);
    assert_eq!(result["runs"].as_array().map(Vec::len), Some(2));
    assert!(prony_at(home.path(), &["undo"]).out.contains("nothing is left changed"));
    assert!(!prony_at(home.path(), &["lab", "ls", "--json"]).out.contains("prony compare"));
}
