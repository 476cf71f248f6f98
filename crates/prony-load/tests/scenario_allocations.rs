//! A scenario does not allocate once its actors have walked: thousands of steps with feeds and every kind of extraction.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod sys;

use prony_load::check_url;
use prony_load::protocol::{Captured, Message};
use prony_load::scenario::{Actor, Next, Scenario, ThreadFeeds, ThreadPart};
use prony_model::script::{Feed, FeedOrder};
use prony_model::{LoadPlan, Stack};

const STEPS: &str = r#"
entry = "http://127.0.0.1/"
[workload]
headers = { Accept = "*/*" }
[[workload.step]]
method = "POST"
path = "/login?n=${n}"
headers = { Content-Type = "application/json", X-User = "${name}" }
body = '{"user": "${name}"}'
save = { token = "json:/a/1/token", where = "header:location", sid = "cookie:sid" }
[[workload.step]]
path = "${where}?q=${words.word}"
headers = { Authorization = "Bearer ${token}", Cookie = "sid=${sid}", X-N = "${n}" }
save = { page = "regex:page=([0-9]+)" }
check = { status = 200, contains = "page" }
repeat = 3
[[workload.step]]
path = "/page/${page}"
"#;

/// Answers of different lengths that serve every step.
fn answers() -> Vec<Captured> {
    let answer = |length: usize| Captured {
        head: format!("Location: /{}\r\nSet-Cookie: sid={}; Path=/\r\n", "w".repeat(length), "s".repeat(length)).into(),
        body: format!(
            r#"{{"b": [1], "a": [{{}}, {{"token": "t\u00e4{}"}}], "c": "page={length}"}}"#,
            "t".repeat(length)
        )
        .into(),
    };
    (1..20).map(answer).collect()
}

#[test]
fn allocations_end_after_the_first_walks() {
    let stack = Stack::parse("stack.toml", STEPS).unwrap();
    let feed = |column: &str, order| Feed {
        columns: vec![column.to_string()],
        rows: (0..50).map(|row| vec!["é ".repeat(row % 7)]).collect(),
        order,
    };
    let mut script = stack.workload.script();
    script.feeds.insert("users".to_string(), feed("name", FeedOrder::Sequential));
    script.feeds.insert("words".to_string(), feed("word", FeedOrder::Random));
    let headers = stack.workload.headers.clone().into_iter().collect();
    let plan = LoadPlan { script: Some(script), headers, ..LoadPlan::to(&stack.entry) };
    let scenario = Scenario::compile(&plan, &check_url(&plan.url).unwrap(), None).unwrap().unwrap();

    let answers = answers();
    let mut thread = ThreadFeeds::new(&scenario, ThreadPart { number: 0, of: 2 }, 1);
    let mut actors = vec![Actor::default(); 8];
    let mut message = Message::default();
    let mut walks = 0;
    let mut play = |steps: usize| {
        for step in 0..steps {
            let actor = &mut actors[step % 8];
            let Next::Step { capture, .. } = scenario.next(actor, &mut thread, 0, &mut message) else { return walks };
            let captured = capture.then(|| &answers[step % answers.len()]);
            let outcome = scenario.answered(actor, &mut thread, 200, captured);
            assert_eq!(outcome.unmet, None);
            walks += u32::from(outcome.walk_done);
        }
        walks
    };
    let before = play(20_000);
    let allocated = sys::allocations_of_thread();
    let after = play(20_000);
    assert_eq!(sys::allocations_of_thread() - allocated, 0, "in {} walks", after - before);
    assert!(after - before >= 3999, "{} walks", after - before);
}
