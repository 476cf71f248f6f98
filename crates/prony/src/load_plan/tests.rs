//! Flags as a person types them, and what they change in a plan.

use super::*;
use crate::cli::{Cli, Command};
use clap::Parser;
use expect_test::{Expect, expect};
use prony_model::script::{Check, Script, Step};
use serde_json::Value;

/// Reads the words behind `prony load`.
fn args(words: &[&str]) -> Result<LoadArgs, String> {
    let cli = Cli::try_parse_from(["prony", "load"].iter().chain(words)).map_err(|e| e.to_string())?;
    let Command::Load(args) = cli.command else { panic!("{:?}", cli.command) };
    Ok(*args)
}

fn plan(words: &[&str], before: LoadPlan) -> Result<LoadPlan, String> {
    let args = args(words)?;
    let told = |error: anyhow::Error| {
        assert!(error.is::<BadArgument>() || error.is::<prony_model::InputError>(), "{error:?} is no bad argument");
        format!("{error:#}")
    };
    let import = imported(&args).map_err(told)?;
    let mut plan = LoadPlan { url: target(&args, import.as_ref()).map_err(told)?, ..before };
    plan_flags(&args, import, &mut plan).map_err(told)?;
    Ok(plan)
}

/// Fields that differ from the plan without flags, as JSON, or the error.
fn check(words: &[&str], want: Expect) {
    let plain = LoadPlan::to("http://s1/x");
    let words: Vec<&str> = words.iter().copied().chain(["http://s1/x"]).collect();
    want.assert_eq(&match plan(&words, plain.clone()) {
        Err(error) => error.lines().next().unwrap_or_default().to_string(),
        Ok(plan) => changes(&plain, &plan),
    });
}

fn changes(before: &LoadPlan, after: &LoadPlan) -> String {
    let fields = |plan: &LoadPlan| {
        let Value::Object(fields) = serde_json::to_value(plan).unwrap() else { panic!("a plan is an object") };
        fields
    };
    let (before, after) = (fields(before), fields(after));
    let differ = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    // What every load from a URL has is not worth a line.
    let usual =
        |name: &str, value: &Value| (name == "connections" && value == 10) || (name == "warmup" && value == "500ms");
    differ.filter(|(name, value)| !usual(name, value)).map(|(name, value)| format!("{name}={value} ")).collect()
}

#[test]
fn wrks_flags_and_the_open_loop() {
    check(&[], expect![[""]]);
    check(
        &["-t", "2", "-c", "128", "-d", "3", "--latency", "-H", "A: b"],
        expect![[r#"connections=128 duration="3s" headers=[["A","b"]] threads=2 "#]],
    );
    check(
        &["-z", "3s", "-R", "5k", "--arrivals", "constant", "--deadline", "1s"],
        expect![[r#"arrivals="constant" deadline="1s" duration="3s" rate="5k/s" "#]],
    );
    check(&["-n", "100"], expect![[r#"duration="3600s" requests_max=100 warmup="0ns" "#]]);
    check(&["-n", "100", "-d", "2s", "--warmup", "1s"], expect![[r#"duration="2s" requests_max=100 "#]]);
    check(&["--profile", "ramp:100/s..5k/s,30s"], expect![[r#"profile="ramp:100/s..5k/s,30s" "#]]);
    check(&["--profile", "times:0s,1.5s"], expect![[r#"duration="2.5s" profile=["0ns","1.5s"] warmup="0ns" "#]]);
    check(
        &["--cpus", "0,2-3", "--timeout", "1", "--no-keepalive"],
        expect![[r#"cpus=[0,2,3] keepalive=false timeout="1s" "#]],
    );
}

#[test]
fn requests() {
    check(
        &["-m", "POST", "-b", "x", "-T", "text/plain"],
        expect![[r#"body=[120] headers=[["Content-Type","text/plain"]] method="POST" "#]],
    );
    check(
        &["-H", "Cookie: a", "-H", "Cookie: b", "-H", "Host:other"],
        expect![[r#"headers=[["Cookie","a"],["Cookie","b"],["Host","other"]] "#]],
    );
    check(
        &["--path", "/a=3", "--path", "/b?x=1"],
        expect![[r#"requests=[{"path":"/a","weight":3.0},{"path":"/b?x=1","weight":1.0}] "#]],
    );
    for (words, want) in [
        (["-m", "10"], "-m 10 is no method; streams of HTTP/2 are --http2 --streams 10"),
        (["-m", "G T"], "-m: `G T` is no method: write one like GET or POST"),
        (["-H", "nonsense"], "`nonsense` is no header: write 'Name: value'"),
        (["-H", "a b: c"], "`a b: c` is no header: write 'Name: value'"),
        (["-T", "2s"], "-T: `2s` is no content type, like text/plain; a time limit is --timeout"),
        (["--path", "/a=-1"], "`/a=-1`: a weight is a number from 0 on, like `/a=3`"),
    ] {
        assert_eq!(plan(&[words[0], words[1], "http://s1/"], LoadPlan::to("")).unwrap_err(), want);
    }
    let said = plan(&["-s", "x.lua", "http://s1/"], LoadPlan::to("")).unwrap_err();
    assert!(said.starts_with("-s: prony runs no scripts"), "{said}");
}

#[test]
fn connections_and_tls() {
    check(
        &["--http2", "--streams", "10", "-k"],
        expect![[r#"depth=10 protocol="http2" tls={"insecure":true,"resume":false} "#]],
    );
    check(&["--no-io-uring"], expect![[r#"transport="epoll" "#]]);
    check(&["--spin"], expect![[r#"spin=true "#]]);
    check(
        &["--pipeline", "16", "--requests-per-connection", "5", "--connect-rate", "100"],
        expect![[r#"connect_rate="100/s" depth=16 requests_per_connection=5 "#]],
    );
    check(
        &["--connect-to", "127.0.0.1:8443", "--connect-to", "[::1]:8443"],
        expect![[r#"connect_to=["127.0.0.1:8443","[::1]:8443"] "#]],
    );
    check(&["--unix-socket", "/run/x.sock"], expect![[r#"connect_to=["unix:/run/x.sock"] "#]]);
    check(
        &["--source", "127.0.0.2-127.0.0.4", "--source", "::1", "--all-addresses"],
        expect![[r#"all_addresses=true sources=["127.0.0.2","127.0.0.3","127.0.0.4","::1"] "#]],
    );
    check(
        &["--connect-to", "s1:443:s2:8443"],
        expect!["--connect-to s1:443:s2:8443: this is curl's form: write only where to connect, like 127.0.0.1:8443"],
    );
    check(&["--connect-to", "s1"], expect!["--connect-to s1: write ADDRESS:PORT, like 127.0.0.1:8443 or [::1]:8443"]);
    check(&["--connect-to", "s1:0"], expect!["--connect-to s1:0: the port is not a number from 1 to 65535"]);
    check(
        &["--source", "127.0.0.4-127.0.0.2"],
        expect!["--source 127.0.0.4-127.0.0.2: the last address is below the first"],
    );
    check(
        &["--source", "10.0.0.0-10.255.0.0"],
        expect!["--source 10.0.0.0-10.255.0.0: the range has more than 4096 addresses"],
    );
    check(
        &["--source", "127.0.0.1-::1"],
        expect!["--source 127.0.0.1-::1: a range is of IPv4 or of IPv6 addresses, not of both"],
    );
    check(&["--source", "eth0"], expect!["--source eth0: write an IP address, or a range like 127.0.0.2-127.0.0.9"]);
    check(&["--server-name", "a"], expect!["--server-name: the URL is http://, which is not secured; write https://"]);
}

#[test]
fn files_that_flags_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let url = "https://s1/x";
    let with = |words: &[&str]| plan(&[words, &[url]].concat(), LoadPlan::to(""));
    let hosts = file("hosts", "# names\na.example\n\nb.example:81\n");
    let asked = with(&["--hosts", &hosts, "--path", "/1", "--path", "/2"]).unwrap().requests;
    let asked: Vec<String> = asked.iter().map(|r| format!("{}{}", r.headers["Host"], r.path)).collect();
    assert_eq!(asked, ["a.example/1", "b.example:81/1", "a.example/2", "b.example:81/2"]);
    assert_eq!(with(&["--hosts", &hosts]).unwrap().requests[1].path, "/x");
    let wrong = file("wrong", "a.example\nb c\n");
    assert!(with(&["--hosts", &wrong]).unwrap_err().ends_with("wrong:2: `b c` is no host name"));
    assert!(with(&["--hosts", "/nowhere"]).unwrap_err().contains("/nowhere cannot be read"));

    let (cert, key) = ("-----BEGIN CERTIFICATE-----\n", "-----BEGIN EC PRIVATE KEY-----\n");
    let (cert, key) = (file("cert.pem", cert), file("key.pem", key));
    let tls = with(&["--cacert", &cert, "--cert", &cert, "--key", &key, "--server-name", "a", "--resume"]).unwrap().tls;
    assert!(tls.resume && tls.ca_pem.is_some() && tls.certificate_pem.is_some() && tls.key_pem.is_some());
    assert!(with(&["--cacert", &key]).unwrap_err().contains("holds no `-----BEGIN CERTIFICATE-----`"));
    assert!(with(&["--cert", &cert]).unwrap_err().contains("--key"));

    let profile = file("profile.csv", "seconds,rate\n0,100\n10,500\n");
    assert_eq!(with(&["--profile", &profile]).unwrap().profile, Some("points:0s=100/s,10s=500/s".parse().unwrap()));
    let body = file("body", "hello");
    assert_eq!(with(&["--body-file", &body]).unwrap().body, b"hello");
}

#[test]
fn imports() {
    let curl = "curl -X PUT -H 'A: curl' -H 'B: curl' http://s2:81/path?q=1";
    let import = plan(&["--from-curl", curl, "-H", "a: flag"], LoadPlan::to("")).unwrap();
    assert_eq!((import.url.as_str(), import.method.as_str()), ("http://s2:81/path?q=1", "PUT"));
    assert_eq!(import.headers, [("B".to_string(), "curl".to_string()), ("a".to_string(), "flag".to_string())]);
    let said = plan(&["--from-curl", "wget http://s2/"], LoadPlan::to("")).unwrap_err();
    assert!(said.starts_with("the curl command cannot be taken over"), "{said}");

    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("access.log");
    let line = |second: u32, path: &str| {
        format!("10.0.0.9 - - [21/Nov/2026:03:01:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 12 \"-\" \"x\"\n")
    };
    std::fs::write(&log, [line(0, "/a"), line(2, "/b"), line(2, "/a")].concat()).unwrap();
    let log = log.to_str().unwrap();
    let mix = plan(&["--from-log", log, "http://s1/"], LoadPlan::to("")).unwrap();
    let mut paths: Vec<(&str, f64)> = mix.requests.iter().map(|r| (r.path.as_str(), r.weight)).collect();
    paths.sort_by_key(|(path, _)| *path);
    assert_eq!(paths, [("/a", 2.0), ("/b", 1.0)]);
    let replay = plan(&["--from-log", log, "--replay", "--speed", "2", "http://s1/"], LoadPlan::to("")).unwrap();
    let Some(Profile::Times(times)) = &replay.profile else { panic!("{:?}", replay.profile) };
    assert_eq!((times.len(), replay.warmup), (3, Nanos(0)));
    assert_eq!(replay.duration, Nanos(times[2].0 + AFTER_LAST.0));
    assert!(times[2].0 < 2_000_000_000, "twice as fast: {times:?}");
    assert!(plan(&["--replay", "http://s1/"], LoadPlan::to("")).unwrap_err().contains("--from-log"));
    assert!(plan(&["--from-log", log], LoadPlan::to("")).is_err(), "a log names no target");
}

#[test]
fn what_cannot_be_is_said() {
    for (words, want) in [
        (vec!["-c", "0"], "-c 0: at least one connection is needed"),
        (vec!["-d", "0"], "-d 0: the load must last longer than that"),
        (vec!["-R", "0"], "-R 0/s is not above 0: write a rate like 800 or 5k, or leave it out"),
        (vec!["--timeout", "0"], "--timeout 0: no response can be complete within that"),
        (vec!["--deadline", "1s"], "--deadline counts from when a request is due: add a rate with -R or --profile"),
        (
            vec!["--threshold", "lag_p99<1ms"],
            "--threshold lag_p99<1ms: a closed loop has no schedule to lag behind: add a rate with -R or --profile",
        ),
        (
            vec!["--threshold", "checks>99%"],
            "--threshold checks>99%: nothing is checked: write `check` at a step of the stack file's scenario",
        ),
        (vec!["--export", "/nowhere/x.csv"], "--export /nowhere/x.csv: there is no folder /nowhere; make it first"),
    ] {
        let words: Vec<&str> = words.into_iter().chain(["http://s1/"]).collect();
        assert_eq!(plan(&words, LoadPlan::to("")).unwrap_err(), want, "{words:?}");
    }
    let step = Step { check: Some(Check::default()), ..toml::from_str("path = \"/\"").unwrap() };
    let checked = LoadPlan { script: Some(Script { steps: vec![step], ..Script::default() }), ..LoadPlan::to("") };
    plan(&["--threshold", "checks>99%", "http://s1/"], checked.clone()).unwrap();
    assert!(plan(&["--path", "/a", "http://s1/"], checked).unwrap_err().contains("scenario"));
}

/// What clap itself refuses: the flag is named, or the way out.
#[test]
fn flags_that_contradict_each_other() {
    for (words, says) in [
        (vec!["-R", "5", "--profile", "ramp:1/s..2/s,1s"], "--profile"),
        (vec!["--streams", "5"], "--http2"),
        (vec!["--http2", "--pipeline", "5"], "--pipeline"),
        (vec!["--pipeline", "0"], "from 1 on"),
        (vec!["-n", "0"], "from 1 on"),
        (vec!["--connect-to", "a:1", "--unix-socket", "/x"], "--unix-socket"),
        (vec!["--abort-on-fail"], "--threshold"),
        (vec!["--threshold", "p95<200"], "write it with ns, us, ms"),
        (vec!["--threshold", "error<1%"], "did you mean `errors`?"),
        (vec!["--export", "run.xml"], ".json, .csv, .hgrm, .hdrlog, .hlog, .prom"),
        (vec!["--otlp", "https://otel"], "plain http only"),
        (vec!["--log-format", "x"], "--from-log"),
        (vec!["-b", "x", "--body-file", "y"], "--body-file"),
    ] {
        let words: Vec<&str> = words.into_iter().chain(["http://s1/"]).collect();
        let said = args(&words).err().unwrap_or_default();
        assert!(said.contains(says), "{words:?}: {said}");
    }
    assert!(args(&[]).is_err_and(|said| said.contains("URL|STACK")));
    args(&["--from-curl", "curl http://s1/"]).unwrap();
}

#[test]
fn intervals_are_kept_for_those_who_show_them() {
    let kept = |name: &str| plan(&["--export", name, "http://s1/"], LoadPlan::to("")).unwrap().intervals;
    assert_eq!(["a.csv", "a.hdrlog", "a.json", "a.hgrm", "a.prom"].map(kept), [true, true, false, false, false]);
}

#[test]
fn a_feed_has_a_name_a_file_and_an_order() {
    let seen = |text: &str| match requests::feed(text) {
        Ok((name, spec)) => format!("{name} {} {:?}", spec.file, spec.order),
        Err(error) => error.to_string(),
    };
    assert_eq!(seen("users=a,b.csv,unique"), "users a,b.csv Unique");
    assert_eq!(seen("users=u.csv"), "users u.csv Sequential");
    assert_eq!(
        seen("users=u.csv,once"),
        "--feed users=u.csv,once: `once` is no order of rows: write sequential, random or unique"
    );
    for wrong in ["users", "=u.csv", "users=", "a.b=u.csv"] {
        assert_eq!(seen(wrong), format!("--feed {wrong}: write NAME=FILE, like users=users.csv"));
    }
}

#[test]
fn feeds_go_to_the_stack_whose_reader_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("u.csv").display().to_string();
    let flags = |feed: &str| args(&["--owned", "--feed", feed, "http://s1/"]).unwrap();
    let mut stack = Stack::from_url("http://s1/");
    let missing = stack_flags(&flags(&format!("u={file}")), &mut stack).unwrap_err();
    assert!(missing.is::<BadArgument>() && missing.to_string().contains("relative to the folder that you are in"));
    std::fs::write(&file, "a\n1\n").unwrap();
    stack_flags(&flags(&format!("u={file},random")), &mut stack).unwrap();
    assert!(stack.owned && stack.workload.feed.contains_key("u"));
}

#[test]
fn a_value_that_became_a_target_is_found() {
    let error = plan(&["-q", "50", "http://s1/"], LoadPlan::to("")).unwrap_err();
    assert!(
        error.starts_with("two targets are given, `50` and `http://s1/`") && error.contains("a rate is -R"),
        "{error}"
    );
}

#[test]
fn counts_are_whole_numbers() {
    let said =
        |words: &[&str]| args(&[words, &["http://s1/"]].concat()).unwrap_err().lines().next().map(str::to_string);
    let want = |flag, value, more| {
        Some(format!("error: invalid value '{value}' for '{flag} <N>': write a whole number{more}, like 128"))
    };
    assert_eq!(said(&["-c", "abc"]), want("--connections", "abc", ""));
    assert_eq!(said(&["-n", "0"]), want("--requests", "0", " from 1 on"));
    assert_eq!(said(&["--http2", "--streams", "1.5"]), want("--streams", "1.5", ""));
    check(
        &["--pipeline", "4", "--no-keepalive"],
        expect!["--pipeline: a connection per request carries one request; leave --no-keepalive out"],
    );
}

#[test]
fn the_examples_of_the_help_are_right() {
    let help = args(&["--help"]).unwrap_err();
    let examples: Vec<&str> = help.lines().filter_map(|line| line.trim_start().strip_prefix("prony load ")).collect();
    assert!(examples.len() >= 10, "{help}");
    for example in examples {
        // What stands behind three blanks explains the example.
        let words = words(example.split("   ").next().unwrap_or_default());
        args(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{example}: {e}"));
    }
}

/// As a shell takes a line apart: blanks separate, single quotes hold together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (n, part) in line.trim().split('\'').enumerate() {
        let mut pieces = if n % 2 == 1 { vec![part] } else { part.split(' ').collect() }.into_iter();
        words.last_mut().unwrap().push_str(pieces.next().unwrap_or_default());
        words.extend(pieces.map(str::to_string));
    }
    words.retain(|word| !word.is_empty());
    words
}
