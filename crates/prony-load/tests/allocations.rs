//! The hot loop does not allocate: a load of four times the requests makes as many allocations.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod server;
mod sys;

use prony_load::run;
use prony_model::load::Transport;
use prony_model::{LoadPlan, Nanos, Rate};
use server::Nginx;
use std::sync::atomic::AtomicBool;

/// Allocations and responses of one load.
fn cost(nginx: &Nginx, rate: Option<Rate>, keepalive: bool, transport: Transport, millis: u64) -> (u64, u64) {
    let plan = LoadPlan {
        connections: 8,
        threads: 1,
        rate,
        keepalive,
        transport: Some(transport),
        warmup: Nanos(0),
        duration: Nanos::from_millis(millis),
        ..LoadPlan::to(&format!("http://127.0.0.1:{}/", nginx.port))
    };
    let before = sys::allocations();
    let result = run(&plan, &AtomicBool::new(false), None).unwrap();
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
    (sys::allocations() - before, result.responses_total)
}

#[test]
fn allocations_do_not_grow_with_requests() {
    let Some(nginx) = Nginx::start() else { return };
    let (open, ring, epoll) = (Some(Rate(4000.0)), Transport::IoUring, Transport::Epoll);
    for (rate, keepalive, transport) in
        [(None, true, ring), (None, true, epoll), (open, true, epoll), (None, false, epoll)]
    {
        let (few, short) = cost(&nginx, rate, keepalive, transport, 300);
        let (many, long) = cost(&nginx, rate, keepalive, transport, 1200);
        assert!(long > short + 500, "{long} responses after {short}");
        // The result's texts may grow by a few reallocations; nobody listens, so nothing is told; requests make none.
        assert!(many <= few + 40, "{few} allocations for {short} responses, {many} for {long}");
    }
}
