//! Walks through scenarios: what is sent, what answers do to it, what threads share.

use super::*;
use crate::target::check_url;
use expect_test::{Expect, expect};
use prony_model::LoadPlan;
use prony_model::script::{Feed, FeedOrder, Script};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn scenario_of(plan: &LoadPlan) -> Scenario {
    Scenario::compile(plan, &check_url(&plan.url).unwrap(), None).unwrap().unwrap()
}

fn feed(columns: &[&str], rows: &[&[&str]], order: FeedOrder) -> Feed {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    Feed { columns: texts(columns), rows: rows.iter().map(|row| texts(row)).collect(), order }
}

/// The plan of these steps, written as in a stack file.
fn plan(steps: &str, feeds: &[(&str, Feed)]) -> LoadPlan {
    let stack = prony_model::Stack::parse("stack.toml", &format!("entry = \"http://s1:81/\"\n{steps}")).unwrap();
    let feeds: BTreeMap<String, Feed> = feeds.iter().map(|(name, feed)| (name.to_string(), feed.clone())).collect();
    let script = Script { feeds, ..stack.workload.script() };
    LoadPlan {
        headers: stack.workload.headers.into_iter().collect(),
        script: Some(script),
        requests: stack.workload.requests,
        ..LoadPlan::to(&stack.entry)
    }
}

/// One place on one thread.
struct Bench {
    scenario: Scenario,
    actor: Actor,
    thread: ThreadFeeds,
    message: Message,
}

impl Bench {
    fn new(scenario: Scenario, number: u32, of: u32) -> Self {
        let thread = ThreadFeeds::new(&scenario, ThreadPart { number, of }, 1);
        Self { scenario, actor: Actor::default(), thread, message: Message::default() }
    }

    fn next(&mut self) -> Option<String> {
        match self.scenario.next(&mut self.actor, &mut self.thread, 0, &mut self.message) {
            Next::Exhausted => None,
            Next::Step { step, fixed, .. } => {
                let message = if fixed { self.scenario.fixed(step).unwrap() } else { self.message.clone() };
                let headers: String = message.headers.iter().map(|(n, v)| format!(" {n}={v}")).collect();
                let body = String::from_utf8_lossy(&message.body);
                Some(format!("{} {}{headers} {body}", message.method, message.path).trim().to_string())
            }
        }
    }

    fn answer(&mut self, status: u16, head: &str, body: &[u8]) -> Outcome {
        let captured = Captured { head: head.as_bytes().to_vec(), body: body.to_vec() };
        self.scenario.answered(&mut self.actor, &mut self.thread, status, Some(&captured))
    }

    /// Sends until there is no more, at most 12 times; every answer is good and has the same body.
    fn check(mut self, body: &str, want: Expect) {
        let mut lines = Vec::new();
        while lines.len() < 12
            && let Some(line) = self.next()
        {
            lines.push(line);
            let outcome = self.answer(200, "", body.as_bytes());
            assert_eq!(outcome.unmet, None);
            if outcome.walk_done {
                lines.push("--".to_string());
            }
        }
        want.assert_eq(&lines.join("\n"));
    }
}

const SHOP: &str = r#"
[workload]
headers = { Accept = "*/*" }
[[workload.step]]
name = "login"
method = "POST"
path = "/login"
headers = { Content-Type = "application/json" }
body = '{"user": "u${n}", "password": "$${secret}"}'
save = { token = "json:/token" }
[[workload.step]]
name = "query"
path = "/query?id=${n}&user=${users.name}"
headers = { Authorization = "Bearer ${token}" }
repeat = 3
"#;

fn users(order: FeedOrder) -> (&'static str, Feed) {
    ("users", feed(&["name"], &[&["ann"], &["bob c"], &["dörte"]], order))
}

#[test]
fn a_walk_goes_through_the_steps_again_and_again() {
    let scenario = scenario_of(&plan(SHOP, &[users(FeedOrder::Sequential)]));
    Bench::new(scenario, 0, 1).check(
        r#"{"token": "t\u00f6k"}"#,
        expect![[r#"
        POST /login Accept=*/* Content-Type=application/json {"user": "u0", "password": "${secret}"}
        GET /query?id=0&user=ann Accept=*/* Authorization=Bearer tök
        GET /query?id=1&user=ann Accept=*/* Authorization=Bearer tök
        GET /query?id=2&user=ann Accept=*/* Authorization=Bearer tök
        --
        POST /login Accept=*/* Content-Type=application/json {"user": "u1", "password": "${secret}"}
        GET /query?id=3&user=bob%20c Accept=*/* Authorization=Bearer tök
        GET /query?id=4&user=bob%20c Accept=*/* Authorization=Bearer tök
        GET /query?id=5&user=bob%20c Accept=*/* Authorization=Bearer tök
        --
        POST /login Accept=*/* Content-Type=application/json {"user": "u2", "password": "${secret}"}
        GET /query?id=6&user=d%C3%B6rte Accept=*/* Authorization=Bearer tök"#]],
    );
}

#[test]
fn a_thread_of_three_takes_every_third_number_and_row() {
    let scenario = scenario_of(&plan(
        "[[workload.step]]\npath = \"/${n}/${users.name}\"",
        &[("users", feed(&["name"], &[&["a"], &["b"], &["c"], &["d"], &["e"]], FeedOrder::Unique))],
    ));
    Bench::new(scenario, 1, 3).check(
        "",
        expect![[r#"
        GET /1/b
        --
        GET /4/e
        --"#]],
    );
}

#[test]
fn what_the_answer_lacks_begins_the_walk_again() {
    let scenario = scenario_of(&plan(SHOP, &[users(FeedOrder::Sequential)]));
    let mut bench = Bench::new(scenario, 0, 1);
    bench.next();
    assert_eq!(bench.answer(200, "", b"{}").unmet, Some(Unmet::Save));
    assert!(bench.next().unwrap().starts_with("POST /login"));
    assert_eq!(bench.answer(200, "", b"{\"token\": \"a\\r\\nX: b\"}").unmet, Some(Unmet::Save), "would end the header");
    bench.next();
    assert_eq!(bench.answer(200, "", b"{\"token\": \"t\"}").unmet, None);
    assert_eq!(bench.actor.step(), 1);
    let query = bench.next().unwrap();
    assert!(query.ends_with("Authorization=Bearer t"), "{query}");
    let Bench { scenario, actor, .. } = &mut bench;
    scenario.failed(actor);
    assert!(bench.next().unwrap().starts_with("POST /login"), "a lost answer too");
}

#[test]
fn a_check_says_what_a_good_answer_is() {
    let with = |check: &str| {
        scenario_of(&plan(&format!("[[workload.step]]\npath = \"/${{n}}\"\nthink = \"5ms\"\n{check}"), &[]))
    };
    let unmet = |check: &str, status: u16, body: &[u8]| {
        let mut bench = Bench::new(with(check), 0, 1);
        bench.next();
        let outcome = bench.answer(status, "", body);
        assert_eq!(outcome.think, Some(Nanos::from_millis(5)), "whatever the answer was");
        assert_eq!(outcome.walk_done, outcome.unmet.is_none());
        outcome.unmet
    };
    assert_eq!(unmet("", 500, b""), None, "a step without a check takes what comes");
    assert_eq!(unmet("check = {}", 399, b""), None);
    assert_eq!(unmet("check = {}", 400, b""), Some(Unmet::Status));
    assert_eq!(unmet("check = { status = 404 }", 404, b""), None);
    assert_eq!(unmet("check = { status = 404 }", 200, b""), Some(Unmet::Status));
    assert_eq!(unmet("check = { contains = \"[ok]\" }", 200, b"\xff [ok] \xff"), None);
    assert_eq!(unmet("check = { contains = \"[ok]\" }", 200, b"o"), Some(Unmet::Contains));
    let mut bench = Bench::new(with("check = { contains = \"x\" }"), 0, 1);
    bench.next();
    let outcome = bench.scenario.answered(&mut bench.actor, &mut bench.thread, 200, None);
    assert_eq!(outcome.unmet, Some(Unmet::Contains), "nothing was captured");
}

#[test]
fn weighted_requests_are_walks_of_one_step() {
    let plan = plan("[workload]\nrequests = [{ path = \"/a\" }, { path = \"/b/${n}\" }]", &[]);
    let mut bench = Bench::new(scenario_of(&plan), 0, 1);
    assert_eq!((bench.scenario.walk_count(), bench.scenario.step_count()), (2, 2));
    let mut asked = Vec::new();
    for chosen in [1, 0, 1] {
        let next = bench.scenario.next(&mut bench.actor, &mut bench.thread, chosen, &mut bench.message);
        assert_eq!(next, Next::Step { step: chosen, capture: false, fixed: chosen == 0 });
        asked.push(bench.message.path.clone());
        assert!(bench.answer(200, "", b"").walk_done);
    }
    assert_eq!(asked, ["/b/0", "/b/0", "/b/1"], "a fixed step leaves the message alone");
    assert_eq!(bench.scenario.fixed(0).unwrap().path, "/a");
    assert_eq!(bench.scenario.fixed(1), None);
    assert_eq!(bench.message.authority, "s1:81");
}

const PREPARE: &str = r#"
[workload.prepare]
count = 5
order = "unique"
failures_max = "20%"
[[workload.prepare.step]]
path = "/new/${n}"
save = { token = "header:Token" }
[[workload.step]]
path = "/use/${prepared.token}"
"#;

/// Runs the prepare phase on two threads; walks whose number is in `fail` fail.
fn prepare(fail: &[usize]) -> (LoadPlan, PreparedRows) {
    let plan = plan(PREPARE, &[]);
    let target = check_url(&plan.url).unwrap();
    let mut all: Option<PreparedRows> = None;
    let mut walks = 0;
    for number in 0..2 {
        let scenario = Scenario::compile_prepare(&plan, &target).unwrap().unwrap();
        let mut rows = scenario.prepared_rows();
        let mut bench = Bench::new(scenario, number, 2);
        while let Some(line) = bench.next() {
            let token = line.replace("GET /new/", "t");
            let head = if fail.contains(&walks) { String::new() } else { format!("token: {token}\r\n") };
            walks += 1;
            if bench.answer(200, &head, b"").walk_done {
                rows.push(&bench.actor);
            }
        }
        match &mut all {
            Some(all) => all.merge(rows),
            None => all = Some(rows),
        }
    }
    assert_eq!(walks, 5, "as many as asked for, over all threads");
    (plan, all.unwrap())
}

#[test]
fn what_is_prepared_becomes_a_feed() {
    let (plan, rows) = prepare(&[]);
    let feed = rows.into_feed().unwrap();
    assert_eq!((feed.columns.concat(), feed.rows.concat().join(" ")), ("token".into(), "t0 t2 t4 t1 t3".into()));
    let scenario = Scenario::compile(&plan, &check_url(&plan.url).unwrap(), Some(&feed)).unwrap().unwrap();
    Bench::new(scenario, 0, 1).check(
        "",
        expect![[r#"
        GET /use/t0
        --
        GET /use/t2
        --
        GET /use/t4
        --
        GET /use/t1
        --
        GET /use/t3
        --"#]],
    );
}

#[test]
fn a_prepare_phase_may_fail_only_so_often() {
    let (plan, rows) = prepare(&[1]);
    assert_eq!(rows.into_feed().unwrap().rows.len(), 4);
    expect!["`workload.prepare`: 3 of 5 walks came to their end, and at most 20% may fail (`failures_max`): look at the errors of this phase and at the server's log, or allow more"].assert_eq(&prepare(&[1, 3]).1.into_feed().unwrap_err().to_string());
    // Compiled before the phase has run, the load has nothing to send yet.
    assert_eq!(Bench::new(scenario_of(&plan), 0, 1).next(), None);
}

/// Rows that all threads of a load are given, in turn.
fn given(order: FeedOrder, rows: usize, threads: u32, each: usize) -> Vec<usize> {
    let rows: Vec<Vec<String>> = (0..rows).map(|row| vec![row.to_string()]).collect();
    let feed = Feed { columns: vec!["row".into()], rows, order };
    let plan = plan("[[workload.step]]\npath = \"/${row}\"", &[("f", feed)]);
    let mut given = Vec::new();
    for number in 0..threads {
        let mut bench = Bench::new(scenario_of(&plan), number, threads);
        for _ in 0..each {
            let Some(line) = bench.next() else { break };
            given.push(line["GET /".len()..].parse().unwrap());
            bench.answer(200, "", b"");
        }
    }
    given
}

proptest! {
    #[test]
    fn a_unique_feed_gives_every_row_once(rows in 1usize..40, threads in 1u32..8) {
        let mut given = given(FeedOrder::Unique, rows, threads, 50);
        given.sort_unstable();
        prop_assert_eq!(given, (0..rows).collect::<Vec<_>>());
    }

    #[test]
    fn a_sequential_feed_gives_every_row_equally_often(rows in 1usize..20, threads in 1u32..6) {
        // Every thread takes as many as there are rows: then each row comes once for each thread.
        let given = given(FeedOrder::Sequential, rows, threads, rows);
        for row in 0..rows {
            prop_assert_eq!(given.iter().filter(|r| **r == row).count(), threads as usize);
        }
    }

    #[test]
    fn no_answer_panics_and_what_is_kept_is_bounded(
        status in any::<u16>(),
        head in "([a-z]{0,6}:? ?[^\\n]{0,10}\\r?\\n){0,4}",
        body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bench = Bench::new(scenario_of(&plan(SHOP, &[users(FeedOrder::Random)])), 0, 1);
        for _ in 0..4 {
            bench.next();
            bench.answer(status, &head, &body);
        }
        prop_assert!(bench.actor.saved.iter().all(|value| value.len() <= template::SAVED_BYTES_MAX));
    }
}

#[test]
fn a_random_feed_gives_any_row() {
    let given = given(FeedOrder::Random, 4, 2, 400);
    for row in 0..4 {
        let count = given.iter().filter(|r| **r == row).count();
        assert!((130..270).contains(&count), "{count} of 800 draws are row {row}");
    }
}
