//! `prony limit` against servers whose limit is known, and against servers that cannot have one: a verdict and an exit code each.
//!
//! A server here is a queue on a schedule of its own: one answer after the other, each after its time. So its limit does not
//! depend on how fast this machine is.

mod prony;

use prony::{Said, alone, prony};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How a server behaves over time, and over the size that is asked for.
#[derive(Clone, Copy)]
struct Manner {
    /// Time that one answer takes at least.
    service: Duration,
    /// Time that each byte of a body takes.
    per_byte: Duration,
    /// It answers nothing any more after that time.
    lives: Option<Duration>,
    /// It is away for as long, again and again.
    away: Option<Duration>,
}

const STEADY: Manner = Manner { service: Duration::from_millis(1), per_byte: Duration::ZERO, lives: None, away: None };

/// When the queue is next free.
type Queue = Arc<Mutex<Instant>>;

/// Starts it; it ends with the test. Gives its URL.
fn server(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/", listener.local_addr().expect("a bound listener has an address"));
    let (begun, free) = (Instant::now(), Arc::new(Mutex::new(Instant::now())));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let free = Arc::clone(&free);
            thread::spawn(move || serve(stream, manner, begun, &free));
        }
    });
    url
}

fn is_there(manner: Manner, begun: Instant) -> bool {
    let age = begun.elapsed();
    let alive = manner.lives.is_none_or(|lives| age < lives);
    // The warm-up finds it there.
    let grace = Duration::from_secs(3);
    let home = manner.away.is_none_or(|away| age < grace || (age.as_millis() / away.as_millis()).is_multiple_of(2));
    alive && home
}

fn serve(mut stream: TcpStream, manner: Manner, begun: Instant, free: &Queue) {
    let mut request = [0u8; 4096];
    while let Ok(n) = stream.read(&mut request) {
        if n == 0 || !is_there(manner, begun) {
            stream.shutdown(Shutdown::Both).ok();
            return;
        }
        let text = String::from_utf8_lossy(&request[..n]);
        let size: usize = text.split_once("/f").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).unwrap_or(2);
        let ready = {
            let mut free = free.lock().expect("no thread panics while it holds this");
            *free = (*free).max(Instant::now()) + manner.service.max(manner.per_byte * size as u32);
            *free
        };
        thread::sleep(ready.saturating_duration_since(Instant::now()));
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + size, b'x');
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// A search that strangers on this machine made the generator's is repeated; it says so rightly, and nothing of the stack. None
/// when that happened three times.
fn limit(manner: Manner, path: &str, words: &[&str]) -> Option<Said> {
    // Each search has a server of its own, which lives as long as it is to.
    let url = || format!("{}{path}", server(manner));
    let record = words.iter().skip_while(|word| **word != "--record").nth(1);
    let search = |_| {
        // The record of a search that was disturbed would stand in the way of the next.
        record.into_iter().for_each(|path| drop(std::fs::remove_file(path)));
        prony(&[&["limit", &url(), "--quick", "-q", "--json", "--seed", "7"], words].concat())
    };
    let disturbed = |said: &Said| {
        serde_json::from_str::<Value>(&said.out).is_ok_and(|found| found["verdict"] == "generator-limited")
    };
    let undisturbed = (0..3).map(search).find(|said| !disturbed(said));
    if undisturbed.is_none() {
        eprintln!("skipped: others took the CPUs of the generator in three searches");
    }
    undisturbed
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_known_limit_is_found_and_shown_everywhere() {
    let _alone = alone();
    let home = prony::scratch();
    let record = home.path().join("run.prony");
    let record = record.to_str().expect("a scratch folder has a plain name");
    let words = ["-c", "8", "--slo", "p99<100ms", "--budget", "75s", "--record", record];
    let Some(said) = limit(STEADY, "", &words) else { return };
    let found = json(&said);
    assert!(found["schema"] == "prony.limit/1" && said.err.is_empty(), "{} {}", said.out, said.err);
    assert!(matches!(said.code, 0) && found["verdict"] != "open", "{}", said.out);
    let limit = &found["saturation"];
    // The queue gives out 1000 a second, whatever this machine does besides.
    assert!((number(&limit["estimate_per_s"]) / 1000.0 - 1.0).abs() < 0.05, "{limit}");
    assert!(number(&limit["low_per_s"]) <= number(&limit["high_per_s"]) && limit["tested"]["connections"].is_u64());
    assert!(number(&found["within_slo"]["estimate_per_s"]) < 1100.0, "{}", found["within_slo"]);
    let curve = found["curve"].as_array().expect("a list");
    assert!(
        curve.iter().any(|p| p["load"]["connections"] == 1) && curve.iter().all(|p| p["p99_us"].is_f64()),
        "{curve:?}"
    );
    // Each trial has a schedule of its own: of trials that follow the same one an interval would leave out what it did.
    let run = prony_record::read(Path::new(record)).expect("a whole record");
    let seeds: BTreeSet<u64> = run.trials.iter().map(|trial| trial.plan.seed).collect();
    assert!(seeds.len() == run.trials.len() && seeds.len() > 10, "{seeds:?}");
    // The record says the same in words.
    for (format, wants) in [
        ("text", ["limit  ", "limit within SLO", "Load curve", "1 conn"]),
        ("md", ["## Limit", "limit within SLO", "## Load curve of the search", "| 1 conn |"]),
    ] {
        let shown = prony(&["report", record, "--format", format]);
        for want in wants {
            assert!(shown.out.contains(want), "{format} without {want}: {}", shown.out);
        }
        // Lines are broken to the width of a page.
        let words = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = words.replace("&lt;", "<");
        assert!(words.contains(found["summary"].as_str().expect("a sentence")), "{}", shown.out);
    }
}

#[test]
fn an_objective_that_nothing_meets_ends_with_3() {
    let _alone = alone();
    let Some(said) = limit(STEADY, "", &["-c", "8", "--slo", "p99<10us", "--budget", "30s"]) else { return };
    let found = json(&said);
    assert_eq!((said.code, found["verdict"].as_str()), (3, Some("nothing-holds")), "{}", said.out);
    assert!(found["summary"].as_str().is_some_and(|s| s.contains("p99<10us at no rate")), "{}", said.out);
    assert!(number(&found["saturation"]["estimate_per_s"]) > 900.0, "the limit itself is known");
}

#[test]
fn a_server_that_dies_in_mid_search_ends_with_4() {
    let _alone = alone();
    let mortal = Manner { lives: Some(Duration::from_secs(7)), ..STEADY };
    let Some(said) = limit(mortal, "", &["-c", "8", "--budget", "60s"]) else { return };
    let found = json(&said);
    assert_eq!((said.code, found["verdict"].as_str()), (4, Some("died")), "{}", said.out);
    assert!(said.out.contains("stopped answering in mid-search"), "{}", said.out);
    assert!(number(&found["spent_s"]) < 45.0, "it does not go on to the end of the budget");
}

#[test]
fn a_server_that_comes_and_goes_ends_with_4() {
    let _alone = alone();
    let flapping = Manner { away: Some(Duration::from_millis(700)), ..STEADY };
    let Some(said) = limit(flapping, "", &["-c", "8", "--budget", "40s"]) else { return };
    let found = json(&said);
    // Which of the two depends on where the gaps fall.
    assert!(said.code == 4 && (found["verdict"] == "flapping" || found["verdict"] == "unsteady"), "{}", said.out);
    assert!(found["left_out"].as_array().is_some_and(|out| !out.is_empty()), "{}", said.out);
}

#[test]
fn the_smallest_answer_that_fills_the_link_is_found() {
    let _alone = alone();
    // Below 2,000 bytes an answer takes a millisecond, above as long as its bytes: from there on the link is full.
    let link = Manner { per_byte: Duration::from_nanos(500), ..STEADY };
    let words = ["-c", "8", "--vary", "path-size=100..10000", "--until", "bandwidth>=90%", "--budget", "60s"];
    let Some(said) = limit(link, "f%d", &words) else { return };
    let found = json(&said);
    assert!(said.code == 0, "{} {}", said.out, said.err);
    let (holds, fails) = (number(&found["axis"]["holds_at"]), number(&found["axis"]["fails_at"]));
    assert!(fails < holds && (1600.0..2100.0).contains(&holds), "{}", found["axis"]);
    assert!(found["axis"]["rising"] == true && found["saturation"].is_null());
}

#[test]
fn a_path_without_the_size_says_what_to_write() {
    let _alone = alone();
    let words = ["-c", "4", "--vary", "path-size=100..10000", "--until", "bandwidth>=90%"];
    let Some(said) = limit(STEADY, "", &words) else { return };
    assert_eq!(said.code, 1, "{} {}", said.out, said.err);
    assert!(said.err.contains("an answer has") && said.err.contains("`%d` becomes the size"), "{}", said.err);
}

#[test]
fn what_cannot_be_asked_is_told_before_anything_is_sent() {
    let ask = |words: &[&str]| prony(&[&["limit", "http://127.0.0.1:1/"], words].concat());
    for (words, says) in [
        (vec!["--slo", "p99<10"], "`10` is not a duration"),
        (vec!["--slo", "eror<1%"], "did you mean `errors`?"),
        (vec!["--vary", "conections=1..8"], "did you mean `connections`?"),
        (vec!["--vary", "workers=1..8"], "the stack file must name it"),
        (vec!["--vary", "connections=8..1"], "the smaller value comes first"),
        (vec!["--vary", "path-size=0..100"], "path-size needs --until"),
        (vec!["--vary", "path-size=1..100", "--until", "bandwith>=95%"], "did you mean `bandwidth`?"),
        (vec!["--until", "p99<1s"], "--vary"),
        (vec!["--budget", "1s"], "write at least 5s"),
    ] {
        let said = ask(&words);
        assert_eq!(said.code, 2, "{words:?}: {}", said.err);
        assert!(said.err.contains(says), "{words:?}: {}", said.err);
    }
    let said = ask(&["--json", "-q"]);
    assert!(said.code == 4 && said.err.contains("refused the connection"), "{}", said.err);
    assert_eq!(json(&said)["verdict"], "nothing-served");
}
