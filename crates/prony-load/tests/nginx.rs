//! Loads on a real nginx: what the engine counts is what the server's log says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod server;

use prony_load::run;
use prony_model::load::Transport;
use prony_model::{Arrivals, LoadPlan, LoadResult, Nanos, Rate, RequestSpec};
use server::Nginx;
use std::sync::atomic::AtomicBool;

fn load(nginx: &Nginx, change: impl FnOnce(&mut LoadPlan)) -> LoadResult {
    let mut plan = LoadPlan {
        connections: 8,
        threads: 2,
        warmup: Nanos::from_millis(100),
        duration: Nanos::from_millis(700),
        timeout: Nanos::from_millis(20_000),
        ..LoadPlan::to(&format!("http://127.0.0.1:{}/", nginx.port))
    };
    change(&mut plan);
    run(&plan, &AtomicBool::new(false), None).unwrap()
}

fn spec(path: &str, weight: f64) -> RequestSpec {
    RequestSpec { path: path.into(), weight, method: None, headers: Default::default(), body: None }
}

/// Column `n` of every line, as a number.
fn column(lines: &[String], n: usize) -> Vec<u64> {
    lines.iter().map(|l| l.split(' ').nth(n).unwrap().parse().unwrap()).collect()
}

#[test]
fn keepalive_counts_what_nginx_served() {
    for transport in [Transport::Epoll, Transport::IoUring] {
        keepalive_by(transport);
    }
}

fn keepalive_by(transport: Transport) {
    let Some(nginx) = Nginx::start() else { return };
    let result = load(&nginx, |plan| plan.transport = Some(transport));
    let log = nginx.log(result.responses_total);
    assert_eq!(log.len() as u64, result.responses_total);
    assert!(result.completed > 0 && result.completed <= result.responses_total, "{result:?}");
    assert_eq!((result.errors.total(), result.connections_opened), (0, 0), "all were opened in the warm-up");
    assert_eq!(result.statuses, [(200, result.completed)].into());
    assert_eq!((result.latency.count, result.intended), (result.completed, result.sent));
    assert_eq!(result.latency, result.latency_actual);
    assert_eq!(result.schedule_lag.count, 0);
    assert_eq!(result.threads.len(), 2);
    assert!(column(&log, 3).into_iter().max() > Some(1), "connections are used again");
    assert!(result.in_flight_mean > 7.0 && result.in_flight_mean < 8.1, "{}", result.in_flight_mean);
}

#[test]
fn connection_per_request_counts_what_nginx_served() {
    let Some(nginx) = Nginx::start() else { return };
    let result = load(&nginx, |plan| plan.keepalive = false);
    let log = nginx.log(result.responses_total);
    assert_eq!(log.len() as u64, result.responses_total);
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
    assert!(column(&log, 3).iter().all(|requests| *requests == 1));
    assert!(result.completed > 0 && result.connections_opened.abs_diff(result.sent) <= 8, "{result:?}");
}

#[test]
fn a_connection_is_closed_after_its_requests() {
    let Some(nginx) = Nginx::start() else { return };
    let result = load(&nginx, |plan| plan.requests_per_connection = Some(3));
    let log = nginx.log(result.responses_total);
    assert_eq!(log.len() as u64, result.responses_total);
    assert_eq!(column(&log, 3).into_iter().max(), Some(3));
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
}

#[test]
fn weights_hold_and_statuses_are_counted() {
    let Some(nginx) = Nginx::start() else { return };
    let result = load(&nginx, |plan| plan.requests = vec![spec("/a", 3.0), spec("/missing", 1.0)]);
    let log = nginx.log(result.responses_total);
    let missing = log.iter().filter(|l| l.starts_with("404 /missing ")).count() as f64;
    let all = log.len() as f64;
    let sigma = (all * 0.25 * 0.75).sqrt();
    assert!((missing - all * 0.25).abs() < 4.0 * sigma, "{missing} of {all}");
    assert_eq!(result.errors.status, result.statuses[&404]);
    assert_eq!(result.errors.total(), result.errors.status);
    assert_eq!(result.completed, result.statuses[&404] + result.statuses[&200]);
    assert!(result.good_per_s < result.completed_per_s);
}

#[test]
fn bodies_arrive_whole() {
    // One that leaves with others, and one that is too long for that.
    for (body, transport) in
        [(3_000_000, Transport::Epoll), (100_000, Transport::IoUring), (3_000_000, Transport::IoUring)]
    {
        let Some(nginx) = Nginx::start() else { return };
        let result = load(&nginx, |plan| {
            plan.method = "POST".into();
            plan.body = vec![b'x'; body];
            plan.requests = vec![spec("/post", 1.0)];
            plan.transport = Some(transport);
        });
        let log = nginx.log(result.responses_total);
        assert_eq!(log.len() as u64, result.responses_total);
        assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
        assert!(column(&log, 2).iter().all(|bytes| (body..body + 200).contains(&(*bytes as usize))), "{log:?}");
    }
}

#[test]
fn head_requests_are_answered_without_body() {
    let Some(nginx) = Nginx::start() else { return };
    let result = load(&nginx, |plan| plan.method = "HEAD".into());
    assert!(result.completed > 8 && result.errors.total() == 0, "{result:?}");
    assert_eq!(nginx.log(result.responses_total).len() as u64, result.responses_total);
}

#[test]
fn open_loop_sends_its_schedule() {
    let Some(nginx) = Nginx::start() else { return };
    let open = |arrivals| {
        move |plan: &mut LoadPlan| {
            plan.rate = Some(Rate(800.0));
            plan.arrivals = arrivals;
            plan.duration = Nanos::from_millis(1500);
        }
    };
    let even = load(&nginx, open(Arrivals::Constant));
    assert!(even.intended.abs_diff(1200) <= 2, "{}", even.intended);
    let poisson = load(&nginx, open(Arrivals::Poisson));
    assert!((poisson.intended as f64 - 1200.0).abs() < 4.0 * 1200f64.sqrt(), "{}", poisson.intended);
    for result in [even, poisson] {
        assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
        assert!(result.sent <= result.intended + 8 && result.completed > 0, "{} {}", result.sent, result.intended);
        assert_eq!((result.schedule_lag.count, result.latency.count), (result.sent, result.completed));
        assert!(result.latency.mean_us >= result.latency_actual.mean_us);
        // What the machine does not tell has no gate.
        let may_lack = ["quota", "backlog"];
        let names = result.gates.iter().map(|g| g.name.as_str()).filter(|name| !may_lack.contains(name));
        let want = ["rate", "schedule-lag", "ports", "cpu", "descriptors", "bytes", "steady"];
        assert_eq!(names.collect::<Vec<_>>(), want);
        let bytes = result.gates.iter().find(|g| g.name == "bytes").unwrap();
        assert!(bytes.held && bytes.detail.contains("the interface lo"), "{}", bytes.detail);
    }
}

/// Tells the inner test below which port to load.
const PORT_VARIABLE: &str = "PRONY_TEST_PORT";

/// 60 connections do not fit into one table of 300 descriptors beside the 256 that are left to others, but into two.
#[test]
fn a_short_descriptor_limit_counts_for_each_thread() {
    let Some(nginx) = Nginx::start() else { return };
    let again =
        format!("ulimit -n 300; exec {:?} --exact loads_with_few_descriptors", std::env::current_exe().unwrap());
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &again]).env(PORT_VARIABLE, nginx.port.to_string()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    let log = nginx.log(60);
    assert!(log.len() >= 60, "each connection was used, but there are {} requests", log.len());
}

/// Runs within the test above; alone it does nothing.
#[test]
fn loads_with_few_descriptors() {
    let Ok(port) = std::env::var(PORT_VARIABLE) else { return };
    let mut plan = LoadPlan {
        connections: 60,
        threads: 2,
        duration: Nanos::from_millis(500),
        warmup: Nanos(0),
        ..LoadPlan::to(&format!("http://127.0.0.1:{port}/"))
    };
    let result = run(&plan, &AtomicBool::new(false), None).unwrap();
    assert_eq!((result.errors.total(), result.errors.no_descriptor), (0, 0), "{:?}", result.errors);
    assert!(result.completed > 0, "{result:?}");
    // Too many for any table: those without a descriptor fail and are counted as that, the others go on.
    (plan.connections, plan.threads) = (400, 1);
    let result = run(&plan, &AtomicBool::new(false), None).unwrap();
    let none = result.errors.no_descriptor;
    assert!(none > 0 && result.errors.total() == none && result.completed > 0, "{:?}", result.errors);
    assert!(result.generator_limited(), "{:?}", result.gates);
}
