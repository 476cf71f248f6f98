//! Flags of `prony load`, through the command line: errors with code 2, thresholds with code 3, and every export read back.

mod prony;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use prony::{Said, prony, scratch};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A server that answers each request after 5 ms, so that the generator has nothing to do: then it never is the limit, however
/// busy the machine. Gives its URL.
fn leisurely() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("a bound listener has an address").port();
    let serve = |mut stream: TcpStream| {
        let mut request = [0u8; 4096];
        while matches!(stream.read(&mut request), Ok(n) if n > 0) {
            thread::sleep(Duration::from_millis(5));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    format!("http://127.0.0.1:{port}/")
}

fn load(words: &[&str], url: &str) -> Said {
    prony(&[&["load", "-c", "2", "-d", "1", "--warmup", "0s", "-q"], words, &[url]].concat())
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err))
}

#[test]
fn bad_arguments_are_told_before_anything_is_sent() {
    // Nobody listens there: a load that began would fail with code 1.
    let url = "http://127.0.0.1:1/";
    for (words, says) in [
        (vec!["--threshold", "p95<200"], "write it with ns, us, ms, s, m or h"),
        (vec!["--threshold", "lag_p99<1ms"], "add a rate with -R"),
        (vec!["--export", "result.xls"], ".json, .csv, .hgrm, .hdrlog, .hlog, .prom"),
        (vec!["--export", "/nowhere/at/all.csv"], "there is no folder /nowhere/at"),
        (vec!["--otlp", "https://127.0.0.1"], "plain http only"),
        (vec!["--streams", "2"], "--http2"),
        (vec!["--cacert", "/nowhere.pem"], "/nowhere.pem cannot be read"),
        (vec!["-s", "script.lua"], "[[workload.step]]"),
        (vec!["-m", "10"], "--http2 --streams 10"),
        (vec!["--profile", "ramp:1"], "is not a profile"),
        (vec!["--connect-to", "a:1:b:2"], "curl's form"),
        (vec!["--from-log", "/nowhere.log"], "/nowhere.log cannot be read"),
    ] {
        let said = load(&words, url);
        assert_eq!(said.code, 2, "{words:?}: {} {}", said.out, said.err);
        assert!(said.err.contains(says), "{words:?}: {}", said.err);
    }
}

#[test]
fn help_has_groups_and_examples() {
    let help = prony(&["load", "--help"]).out;
    for group in ["Load:", "Requests:", "Imports:", "Connections:", "TLS:", "Thresholds:", "Output:", "Examples:"] {
        assert!(help.contains(&format!("\n{group}\n")), "{group} is missing:\n{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 112), "a line is too wide");
}

#[test]
fn a_broken_threshold_is_code_3() {
    let url = leisurely();
    let said = load(&["--threshold", "p(50)<1ms", "--threshold", "errors<1%"], &url);
    assert_eq!(said.code, 3, "{} {}", said.out, said.err);
    assert!(said.out.contains("Thresholds:\n  broken  p(50)<1ms  "), "{}", said.out);
    assert!(said.out.contains("\n  held    errors<1%            0 %"), "{}", said.out);
    let said = load(&["--threshold", "count>=1000000", "--json"], &url);
    assert_eq!(said.code, 3, "{} {}", said.out, said.err);
    let seen = &json(&said)["thresholds"][0];
    assert_eq!((&seen["held"], &seen["threshold"]), (&Value::Bool(false), &Value::from("count>=1000000")));
    assert!(seen["measured"].as_f64() > Some(0.0), "{seen}");
}

#[test]
fn a_threshold_that_holds_is_not_code_3() {
    let said = load(&["--threshold", "p(99)<1m", "--threshold", "rate>1"], &leisurely());
    assert_ne!(said.code, 3, "{} {}", said.out, said.err);
    assert!(said.out.contains("  held    p(99)<1m") && said.out.contains("  held    rate>1"), "{}", said.out);
}

#[test]
fn a_load_ends_early_when_it_fails() {
    let words = ["load", "-c", "2", "-d", "30", "-q", "--threshold", "max<1ms", "--abort-on-fail", "--json"];
    let said = prony(&[&words[..], &[&leisurely()]].concat());
    assert_eq!(said.code, 3, "{} {}", said.out, said.err);
    assert!(said.err.contains("ended early, because max<1ms did not hold"), "{}", said.err);
    let result = &json(&said)["result"];
    assert_eq!(result["interrupted"], true);
    assert!(result["duration_s"].as_f64() < Some(25.0), "{}", result["duration_s"]);
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn every_export_tells_the_same() {
    let folder = scratch();
    let names = ["a.json", "a.csv", "a.hgrm", "a.hlog", "a.prom"];
    let paths = names.map(|name| folder.path().join(name).to_str().expect("it is UTF-8").to_string());
    let exports: Vec<&str> = paths.iter().flat_map(|path| ["--export", path]).collect();
    let said = load(&[&exports[..], &["--json"]].concat(), &leisurely());
    let result = &json(&said)["result"];
    let completed = result["completed"].as_u64().expect("a count");
    assert!(completed > 0, "{result}");
    assert_eq!(read(folder.path(), "a.json"), said.out);

    let hgrm = read(folder.path(), "a.hgrm");
    assert!(hgrm.contains(&format!("Total count    = {completed:>12}]")), "{hgrm}");
    let hlog = read(folder.path(), "a.hlog");
    assert_eq!(counted(&hlog), completed, "{hlog}");
    let prom = read(folder.path(), "a.prom");
    assert!(prom.contains(&format!("\nprony_load_request_duration_seconds_count {completed}\n")), "{prom}");
    let csv = read(folder.path(), "a.csv");
    assert!(csv.starts_with("time_s,duration_s,intended,sent,completed,failed,"), "{csv}");
    python_reads(folder.path(), completed);
}

/// Values in all intervals of a log, as the crate of the format's own people reads them.
fn counted(log: &str) -> u64 {
    let mut count = 0;
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        if let LogEntry::Interval(interval) = entry.expect("a line of the log") {
            let bytes = BASE64.decode(interval.encoded_histogram()).expect("base64");
            let histogram: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram");
            count += if interval.tag().is_none() { histogram.len() } else { 0 };
        }
    }
    count
}

/// Python's own readers agree on CSV and JSON; says so and passes where there is no Python.
fn python_reads(folder: &Path, completed: u64) {
    let script = "import csv, json, sys\n\
        rows = list(csv.DictReader(open(sys.argv[1] + '/a.csv', newline='')))\n\
        assert rows and all(None not in row and None not in row.values() for row in rows), rows\n\
        print(sum(int(row['completed']) for row in rows), json.load(open(sys.argv[1] + '/a.json'))['result']['completed'])\n";
    let Ok(out) = Command::new("python3").args(["-c", script]).arg(folder).output() else {
        eprintln!("skipped: there is no python3 to read the CSV with");
        return;
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let numbers: Vec<u64> = said.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(numbers[1], completed);
    assert_eq!(numbers[0], completed, "every answer is in one line");
}

#[test]
fn metrics_reach_a_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    let collector = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let n = stream.read(&mut buffer).expect("the request comes");
            seen.extend_from_slice(&buffer[..n]);
            let text = String::from_utf8_lossy(&seen);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if n == 0 || length.is_some_and(|length| length == body.len().to_string()) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").expect("it listens");
                return (head.to_string(), body.to_string());
            }
        }
    });
    let said = load(&["--json", "--otlp", &endpoint], &leisurely());
    let completed = json(&said)["result"]["completed"].as_u64().expect("a count");
    let (head, body) = collector.join().expect("the collector ends");
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("metrics");
    let responses = metrics.iter().find(|m| m["name"] == "prony.load.responses").expect("responses");
    assert_eq!(responses["sum"]["dataPoints"][0]["asInt"], Value::from(completed.to_string()));
}

#[test]
fn a_collector_that_is_not_there_costs_no_result() {
    let said = load(&["--otlp", "http://127.0.0.1:1"], &leisurely());
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("cannot send metrics to http://127.0.0.1:1/v1/metrics"), "{}", said.err);
    assert!(said.out.contains("Requests/sec:"), "{}", said.out);
}
