//! How much memory a thread holds: an allocator that counts, so that "bounded memory" can be asserted.
//!
//! It counts bytes that were asked for, not what the system's allocator makes of them. Memory that one thread allocates and
//! another frees is counted wrongly; no target does that.

use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread holds now.
pub fn live_bytes() -> isize {
    LIVE.get()
}

/// Does something, and tells the most bytes that this thread held meanwhile beyond those of before.
pub fn peak_bytes<T>(what: impl FnOnce() -> T) -> (T, isize) {
    let before = LIVE.get();
    PEAK.set(before);
    let made = what();
    (made, PEAK.get() - before)
}

fn count(change: isize) {
    let live = LIVE.get() + change;
    LIVE.set(live);
    if live > PEAK.get() {
        PEAK.set(live);
    }
}

mod sys {
    //! The system's allocator, counted.

    use super::count;
    use std::alloc::{GlobalAlloc, Layout, System};

    struct Counting;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    // SAFETY: every call goes to the system's allocator unchanged. Counting allocates nothing: the counters are constants of
    // the thread without a destructor.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count(layout.size() as isize);
            // SAFETY: the caller keeps the contract of `alloc`.
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            count(-(layout.size() as isize));
            // SAFETY: the caller keeps the contract of `dealloc`.
            unsafe { System.dealloc(at, layout) }
        }
        unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            count(size as isize - layout.size() as isize);
            // SAFETY: the caller keeps the contract of `realloc`.
            unsafe { System.realloc(at, layout, size) }
        }
    }
}
