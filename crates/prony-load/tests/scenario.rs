//! Scenarios over the wire: a service that gives tokens and wants them back, and what it has heard in the end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

use prony_load::{Walks, run, run_on};
use prony_model::load::LoadResult;
use prony_model::script::{Feed, FeedOrder};
use prony_model::{LoadPlan, Nanos, Stack};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;

/// Every request that was heard, as `METHOD PATH` with the body behind it.
type Heard = Arc<Mutex<Vec<String>>>;

/// A service on a port of its own. Its threads end with their connections, the listener with the process.
fn service() -> (u16, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Heard::default();
    let log = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let log = Arc::clone(&log);
            thread::spawn(move || serve(&stream, &log));
        }
    });
    (port, heard)
}

fn serve(stream: &TcpStream, log: &Heard) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().ok()?;
            }
            head.push(line.trim().to_string());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        let (status, answer) = answer(&head, &body);
        let request = head[0].trim_end_matches(" HTTP/1.1");
        log.lock().unwrap().push(format!("{request} {body}").trim().to_string());
        // In one piece: a second one would wait for the acknowledgement of the first.
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
        writer.write_all(answer.as_bytes()).ok()?;
    }
}

/// `POST /login` with a name gives the token of this name, but none to `bad`; `GET /page/NAME` wants it; there is nothing else.
fn answer(head: &[String], body: &str) -> (&'static str, String) {
    if head[0].starts_with("POST /login ") {
        let token = format!("{{\"token\": \"of {body}\"}}");
        return ("200 OK", if body == "bad" { "{}".to_string() } else { token });
    }
    let Some(page) = head[0].strip_prefix("GET /page/") else { return ("404 Not Found", String::new()) };
    let wanted = format!("Authorization: of {}", page.split([' ', '?']).next().unwrap_or_default());
    if head.contains(&wanted) { ("200 OK", "page".to_string()) } else { ("401 Unauthorized", String::new()) }
}

/// Plays a workload with a feed `users` of these names: to its end if each is given out once, else for as long as such a
/// service needs for some hundred answers.
fn play(port: u16, workload: &str, names: &[&str], order: FeedOrder) -> LoadResult {
    run(&plan(port, workload, names, order), &AtomicBool::new(false), None).unwrap()
}

fn plan(port: u16, workload: &str, names: &[&str], order: FeedOrder) -> LoadPlan {
    let text = format!("entry = \"http://127.0.0.1:{port}/\"\n{workload}");
    let stack = Stack::parse("stack.toml", &text).unwrap();
    let millis = if order == FeedOrder::Unique { 20_000 } else { 700 };
    let rows = names.iter().map(|name| vec![name.to_string()]).collect();
    let mut script = stack.workload.script();
    script.feeds.insert("users".to_string(), Feed { columns: vec!["name".to_string()], rows, order });
    LoadPlan {
        connections: 4,
        threads: 2,
        warmup: Nanos(0),
        duration: Nanos::from_millis(millis),
        script: Some(script),
        requests: stack.workload.requests,
        ..LoadPlan::to(&stack.entry)
    }
}

const SHOP: &str = r#"
[[workload.step]]
name = "login"
method = "POST"
path = "/login"
body = "${name}"
save = { token = "json:/token" }
[[workload.step]]
name = "page"
path = "/page/${name}?n=${n}"
headers = { Authorization = "${token}" }
check = { contains = "page" }
repeat = 2
"#;

#[test]
fn every_user_walks_once_with_a_token_of_its_own() {
    let (port, heard) = service();
    let names: Vec<String> = (0..30).map(|n| format!("user{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let result = play(port, SHOP, &names, FeedOrder::Unique);
    assert_eq!((result.responses_total, result.errors.total()), (90, 0), "{:?}", result.errors);
    let heard = heard.lock().unwrap();
    for name in &names {
        let login = format!("POST /login {name}");
        let page = format!("GET /page/{name}?");
        assert_eq!(heard.iter().filter(|line| **line == login).count(), 1, "{name}");
        assert_eq!(heard.iter().filter(|line| line.starts_with(&page)).count(), 2, "{name}");
    }
    let mut numbers: Vec<&str> = heard.iter().filter_map(|line| line.split("?n=").nth(1)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 60, "no number comes twice");
}

#[test]
fn an_answer_without_a_token_ends_the_walk() {
    let (port, heard) = service();
    let result = play(port, SHOP, &["good", "bad", "ugly"], FeedOrder::Unique);
    assert_eq!(result.responses_total, 3 + 4);
    let mut heard = heard.lock().unwrap().clone();
    heard.retain(|line| line.contains("bad"));
    assert_eq!(heard, ["POST /login bad"]);
}

#[test]
fn the_next_load_of_a_scenario_goes_on_where_the_last_one_ended() {
    let (port, heard) = service();
    let long = SHOP.replace("repeat = 2", "repeat = 1000000");
    let few = |connections: u32, workload: &str, order| LoadPlan {
        connections,
        requests_max: Some(40),
        ..plan(port, workload, &["ann", "bob", "cat"], order)
    };
    let mut walks = Walks::default();
    let mut logins = |plan: &LoadPlan| {
        heard.lock().unwrap().clear();
        let result = run_on(plan, &mut walks, &AtomicBool::new(false), None).unwrap();
        assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
        heard.lock().unwrap().iter().filter(|line| line.starts_with("POST")).count()
    };
    let four = few(4, &long, FeedOrder::Sequential);
    assert_eq!(logins(&four), 4);
    assert_eq!(logins(&four), 0, "every connection has its token");
    assert_eq!(logins(&few(2, &long, FeedOrder::Sequential)), 0);
    assert_eq!(logins(&few(6, &long, FeedOrder::Sequential)), 2, "and those that were left out for a while as well");
    let short = few(4, &SHOP.replace("repeat = 2", "repeat = 1000"), FeedOrder::Sequential);
    assert_eq!(logins(&short), 4, "another scenario begins anew");
    let once = few(3, &long, FeedOrder::Unique);
    assert_eq!((logins(&once), logins(&once)), (3, 3), "rows that are given out once begin anew");
}

#[test]
fn steps_are_counted_each_by_itself() {
    let (port, _) = service();
    let result = play(port, SHOP, &["good", "bad", "ugly"], FeedOrder::Sequential);
    let [login, page] = result.steps.as_slice() else { panic!("{:?}", result.steps) };
    assert_eq!((login.name.as_str(), page.name.as_str()), ("login", "page"));
    assert_eq!(login.completed + page.completed, result.completed);
    assert_eq!((login.latency.count, page.latency.count), (login.completed, page.completed));
    assert_eq!((login.errors, page.errors), (result.errors.check, 0));
    // The two users with a token have two pages each; the edges of the counted time cut some walks.
    assert!(login.errors > 3, "{} of {} logins", login.errors, login.completed);
    assert!(page.completed.abs_diff(2 * (login.completed - login.errors)) <= 16, "{} pages", page.completed);
}

#[test]
fn what_is_prepared_is_used_and_not_counted() {
    let (port, heard) = service();
    let workload = r#"
[workload.prepare]
count = 11
connections = 3
[[workload.prepare.step]]
method = "POST"
path = "/login"
body = "u${n}"
save = { token = "json:/token", name = "regex:of (u[0-9]+)" }
[workload]
requests = [{ path = "/page/${prepared.name}", headers = { Authorization = "${token}" } }, { path = "/other" }]
"#;
    let result = play(port, workload, &["unused"], FeedOrder::Sequential);
    let heard = heard.lock().unwrap();
    let mut logins: Vec<&str> = heard.iter().filter_map(|line| line.strip_prefix("POST /login ")).collect();
    logins.sort_unstable();
    assert_eq!(logins, ["u0", "u1", "u10", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"]);
    assert_eq!(result.responses_total as usize, heard.len() - 11);
    // Equal weights, in turn; at the end some are in flight and not counted.
    let statuses: Vec<u16> = result.statuses.keys().copied().collect();
    assert_eq!(statuses, [200, 404], "the service knows every token: {:?}", result.statuses);
    assert!(result.statuses[&200].abs_diff(result.statuses[&404]) <= 8 && result.statuses[&200] > 11);
}
