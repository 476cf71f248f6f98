//! When the connections of a load open.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

#[path = "server/raw.rs"]
mod raw;

use prony_model::{LoadPlan, Nanos};
use raw::{load, plan_to, server, well};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn connections_of_a_closed_loop_open_one_after_the_other() {
    let opened = Arc::new(Mutex::new(Vec::new()));
    let noted = opened.clone();
    let port = server(move |stream| {
        noted.lock().unwrap().push(Instant::now());
        well(stream);
    });
    load(&LoadPlan { connections: 20, warmup: Nanos::from_millis(400), ..plan_to(port) }).unwrap();
    let mut opened = opened.lock().unwrap().clone();
    opened.sort_unstable();
    // Whoever looks before a load whether anybody listens opens one more, so the first of the load is among the first two.
    let took = opened.last().unwrap().duration_since(opened[1]);
    assert!(opened.len() >= 20);
    // 285 ms are asked for; a machine that does other things may notice the first too late.
    assert!(took > Duration::from_millis(100), "{took:?}");
}
