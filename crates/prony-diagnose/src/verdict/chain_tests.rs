//! Whole diagnoses of chains: what is named at which hop, and how a queue is tested.

use super::*;
use crate::plan_interventions;
use crate::testing::Lab;
use prony_model::metric::{CONN_IN_BUSY, CONN_IN_UNREAD, CONN_OUT_WAITING, PG_WAITS, PROC_THREADS, TCP_PASSIVE_OPENS};
use prony_model::stack::Slo;
use prony_model::{InterventionKind, Nanos};

fn named(lab: &Lab) -> String {
    let verdict = diagnose(&lab.run()).verdict;
    format!("{} at {}", verdict.cause, verdict.hop)
}

fn pool() -> Lab {
    Lab::chain().queueing(405.0).held(2.0).sessions([0.8, 1.7, 1.8], "Timeout:PgSleep")
}

#[test]
fn a_healthy_chain_has_no_fault() {
    assert_eq!(named(&Lab::chain()), "cpu-saturated-user at app");
    let computes = Lab::chain().throughput(647.0).cpu("0", 0.12, 0.05, 0.01).cpu("1", 0.9, 0.07, 0.02);
    let computes = computes.own("app", 0.14).own("db", 0.93).sessions([2.0, 19.0, 19.0], "running");
    assert_eq!(named(&computes), "cpu-saturated-user at db", "many rows by an index are honest work");
    assert_eq!(named(&Lab::chain().mute()), "cpu-saturated-user at app");
}

#[test]
fn what_looks_alike_is_told_apart() {
    let twenty = || Lab::chain().queueing(160.0).held(20.0);
    assert_eq!(named(&pool()), "connection-pool-exhausted at app");
    assert_eq!(named(&twenty().sessions([0.2, 18.0, 18.0], "Lock:transactionid")), "row-lock-contention at db");
    assert_eq!(named(&twenty().sessions([0.5, 17.0, 17.0], "IO:WALSync")), "commit-disk-wait at db");
    let threads = pool().held(3.0).gauge("app", &PROC_THREADS, "101", 4.0);
    assert_eq!(named(&threads), "thread-pool-exhausted at app");
    let blocked = pool().held(9.0).sessions([0.3, 0.7, 0.8], "running").gauge("app", &CONN_IN_UNREAD, "80", 54.0);
    assert_eq!(named(&blocked), "event-loop-blocked at app");
    let index = Lab::chain().throughput(414.0).cpu("0", 0.1, 0.05, 0.02).cpu("1", 0.85, 0.1, 0.04).own("app", 0.14);
    let index = index.own("db", 0.83).statements(1_200.0).sessions([2.0, 18.0, 19.0], "running");
    assert_eq!(named(&index.scans("sessions", 414.0, 60_000.0)), "slow-query at db");
    let connects = Lab::chain().throughput(150.0).cpu("0", 0.2, 0.1, 0.02).cpu("1", 0.4, 0.5, 0.05).own("app", 0.25);
    let connects = connects.own("db", 0.85).statements(300.0).per_second("db", &TCP_PASSIVE_OPENS, "", 150.0);
    assert_eq!(named(&connects), "connection-per-query at app");
    assert_eq!(named(&Lab::chain().throughput(300.0).statements(9_300.0)), "chatty-queries at app");
}

#[test]
fn without_the_databases_word_sockets_carry_what_they_can() {
    let outside = pool().mute().gauge("app", &CONN_OUT_WAITING, "10.77.0.30:5432", 1.7);
    assert_eq!(named(&outside), "connection-pool-exhausted at app");
}

/// What more connections showed of a pool, with a control that stood still.
fn answered(value: f64, lab: &Lab) -> Verdict {
    let mut run = lab.run();
    let mut plan = plan_interventions(&run, &diagnose(&run));
    assert_eq!(plan[0].what, InterventionKind::Concurrency);
    assert!(plan[1].control);
    for planned in &mut plan {
        let value = if planned.control { 0.02 } else { value };
        (planned.elasticity, planned.low, planned.high) = (Some(value), Some(value - 0.1), Some(value + 0.1));
    }
    run.interventions.append(&mut plan);
    diagnose(&run).verdict
}

#[test]
fn a_queue_stands_still_when_more_come() {
    let verdict = answered(0.05, &pool());
    assert_eq!(verdict.confidence, Confidence::High);
    assert!(verdict.grounded && verdict.cause == "connection-pool-exhausted", "{verdict:#?}");
    assert_ne!(answered(0.9, &pool()).cause, "connection-pool-exhausted", "what grows with its clients does not queue");
}

#[test]
fn nobody_is_sure_while_what_looks_the_same_is_in_the_dark() {
    let outside = pool().mute().gauge("app", &CONN_OUT_WAITING, "10.77.0.30:5432", 1.7);
    let verdict = answered(0.05, &outside);
    assert_eq!(verdict.cause, "connection-pool-exhausted");
    assert!(verdict.grounded && verdict.confidence == Confidence::Medium, "{verdict:#?}");
    let unseen = " What would show the same was not read: sessions that wait for locks or the disk in the database.";
    assert!(verdict.summary.ends_with(unseen), "{}", verdict.summary);
}

#[test]
fn at_a_rate_that_is_held_it_is_said_what_requests_wait_for() {
    // 100 requests/s, 8 of them in flight: 7 at the database, which sleeps in 6 and waits for a lock in some.
    let asked = |waiting: f64| {
        let lab =
            Lab { rate: Some(100.0), x: [50.0, 100.0, 150.0], r_us: [80_000.0; 3], ..Lab::chain().queueing(100.0) };
        let lab = lab.gauge("app", &CONN_OUT_WAITING, "10.77.0.30:5432", 7.0).statements(200.0);
        let lab = lab.gauge("app", &CONN_IN_BUSY, "80", 7.5).gauge("gw", &CONN_IN_BUSY, "80", 8.0);
        let lab = lab.gauge("db", &CONN_IN_BUSY, "5432", 7.0);
        lab.sessions([3.0, 6.0, 6.0], "Timeout:PgSleep").gauge("db", &PG_WAITS, "Lock:relation", waiting)
    };
    let verdict = |waiting: f64, slo: Slo| {
        let mut run = asked(waiting).run();
        run.stack.slo = Some(slo);
        diagnose(&run).verdict
    };
    let says = |waiting: f64| verdict(waiting, Slo::default()).summary;
    assert!(
        says(6.0).contains("Requests wait most for this: row lock contention at db, 75 % of their time"),
        "{}",
        says(6.0)
    );
    assert!(
        says(1.0).contains("Requests wait most for this: slow upstream at db"),
        "it tells too little: {}",
        says(1.0)
    );
    assert!(says(4.5).contains("row lock contention at db, 56 %"), "it tells why: {}", says(4.5));
    let p99 = |ms: u64| Slo { p99: Some(Nanos::from_millis(ms)), ..Slo::default() };
    let met = verdict(6.0, p99(300));
    assert!(met.cause == "none" && !met.summary.contains("wait most"), "{}", met.summary);
    let missed = verdict(6.0, p99(20));
    assert_eq!((missed.cause.as_str(), missed.hop.as_str()), ("row-lock-contention", "db"));
    let busy = Lab { rate: Some(100.0), x: [50.0, 100.0, 150.0], ..Lab::chain().queueing(100.0) };
    assert!(!diagnose(&busy.run()).verdict.summary.contains("wait most"));
}
