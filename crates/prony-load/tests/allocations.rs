//! The hot loop does not allocate: a load of four times the requests makes as many allocations.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod server;

use prony_load::run;
use prony_model::{LoadPlan, Nanos, Rate};
use server::Nginx;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod sys {
    //! An allocator that counts.

    use super::{AtomicU64, Ordering};
    use std::alloc::{GlobalAlloc, Layout, System};

    pub static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
    pub struct Counting;

    // SAFETY: every call goes to the system's allocator unchanged.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller keeps the contract of `alloc`.
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps the contract of `dealloc`.
            unsafe { System.dealloc(at, layout) }
        }
        unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller keeps the contract of `realloc`.
            unsafe { System.realloc(at, layout, size) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: sys::Counting = sys::Counting;

/// Allocations and responses of one load.
fn cost(nginx: &Nginx, rate: Option<Rate>, keepalive: bool, millis: u64) -> (u64, u64) {
    let plan = LoadPlan {
        connections: 8,
        threads: 1,
        rate,
        keepalive,
        warmup: Nanos(0),
        duration: Nanos::from_millis(millis),
        ..LoadPlan::to(&format!("http://127.0.0.1:{}/", nginx.port))
    };
    let before = sys::ALLOCATIONS.load(Ordering::Relaxed);
    let result = run(&plan, &AtomicBool::new(false), &|_| {}).unwrap();
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
    (sys::ALLOCATIONS.load(Ordering::Relaxed) - before, result.responses_total)
}

#[test]
fn allocations_do_not_grow_with_requests() {
    let Some(nginx) = Nginx::start() else { return };
    for (rate, keepalive) in [(None, true), (Some(Rate(4000.0)), true), (None, false)] {
        let (few, short) = cost(&nginx, rate, keepalive, 300);
        let (many, long) = cost(&nginx, rate, keepalive, 1200);
        assert!(long > short + 500, "{long} responses after {short}");
        // The result's texts may grow by a few reallocations, and each look at the progress makes a dozen; requests make none.
        assert!(many <= few + 100, "{few} allocations for {short} responses, {many} for {long}");
    }
}
