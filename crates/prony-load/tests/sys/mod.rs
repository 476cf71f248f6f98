//! An allocator that counts, for the tests that hold hot paths to none. Each test binary that has this module uses it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static OF_ALL: AtomicU64 = AtomicU64::new(0);
thread_local!(static OF_THREAD: Cell<u64> = const { Cell::new(0) });

/// Allocations of the whole process so far.
#[allow(dead_code, reason = "not every test binary counts all threads")]
pub fn allocations() -> u64 {
    OF_ALL.load(Ordering::Relaxed)
}

/// Allocations of this thread so far: the test harness has its own.
#[allow(dead_code, reason = "not every test binary counts one thread")]
pub fn allocations_of_thread() -> u64 {
    OF_THREAD.get()
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    OF_ALL.fetch_add(1, Ordering::Relaxed);
    OF_THREAD.set(OF_THREAD.get() + 1);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}
