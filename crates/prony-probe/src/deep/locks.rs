//! Waits for locks of the kernel: which function wanted the lock, and how much of its threads' time the hop gave for it.
//!
//! The kernel tells a lock's address, which means nothing to a person: a lock is named by the first function above the
//! code of locking itself. Locks of user code are not seen here: their sleepers are in `threads.rs`, in futex calls.

use super::program::{Program, u32_at, u64_at};
use super::symbols::{Frame, Symbols};
use super::{RawStacks, Watched};
use crate::facts::Facts;
use prony_model::metric as m;
use std::collections::BTreeMap;

/// Sites that are listed.
const SITES_MAX: usize = 30;
/// What stands for waits below 5 us, which were counted without a stack, and for those whose stack found no place.
const NO_STACK: &str = "[short]";

/// Lock waits under watch.
#[derive(Debug)]
pub(super) struct Locks {
    pub program: Program,
}

/// Waits by stack, whose addresses have no names yet.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    waits: Vec<(Vec<u64>, Waited)>,
}

/// As in locks.bpf.c.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waited {
    pub ns: f64,
    pub count: f64,
}

impl Waited {
    /// From the value of a map.
    pub(super) fn of(value: &[u8]) -> Self {
        Self { ns: u64_at(value, 0) as f64, count: u64_at(value, 8) as f64 }
    }

    fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.count += other.count;
    }
}

impl Locks {
    pub(super) fn begin(watched: &Watched) -> Result<Self, String> {
        let mut program = Program::load("locks", include_bytes!(concat!(env!("OUT_DIR"), "/locks.bpf.o")))?;
        program.watch(&watched.pids)?;
        program.attach()?;
        Ok(Self { program })
    }

    pub(super) fn stop(mut self, raw: &mut RawStacks) -> Stopped {
        self.program.detach();
        Stopped { waits: by_stack(&self.program, "waits", raw) }
    }
}

/// Times by stack number as times by stack.
pub(super) fn by_stack(program: &Program, map: &str, raw: &mut RawStacks) -> Vec<(Vec<u64>, Waited)> {
    let mut all = Vec::new();
    for (key, value) in program.entries(map) {
        let stack = program.stack(u32_at(&key, 0) as i32);
        raw.kernel.extend(&stack);
        all.push((stack, Waited::of(&value)));
    }
    all
}

impl Stopped {
    /// Puts `lock.*`; `thread_s` is the time of all threads that ran, in seconds.
    pub(super) fn put(self, facts: &mut Facts, symbols: &Symbols, thread_s: f64, seconds: f64) {
        let site = |stack: &[u64]| wanted_by(&symbols.traced_stack(stack)).map(str::to_string);
        let waits = by_name(self.waits.iter().map(|(stack, waited)| (site(stack), *waited)));
        if waits.is_empty() {
            facts.put(&m::LOCK_WAIT, NO_STACK, 0.0);
        }
        for (site, waited) in waits.into_iter().take(SITES_MAX) {
            facts.put(&m::LOCK_WAIT, &site, (waited.ns / 1e9 / thread_s).min(1.0));
            facts.put(&m::LOCK_WAITS, &site, waited.count / seconds);
        }
    }
}

/// Summed by name, the longest time first.
pub(super) fn by_name(times: impl Iterator<Item = (Option<String>, Waited)>) -> Vec<(String, Waited)> {
    let mut sums: BTreeMap<String, Waited> = BTreeMap::new();
    for (name, waited) in times {
        sums.entry(name.unwrap_or_else(|| NO_STACK.to_string())).or_default().add(waited);
    }
    let mut sums: Vec<(String, Waited)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.ns.total_cmp(&a.1.ns).then_with(|| a.0.cmp(&b.0)));
    sums
}

/// The function that wanted the lock: the innermost one that is not part of locking.
fn wanted_by<'a>(stack: &[&'a Frame]) -> Option<&'a str> {
    stack.iter().map(|frame| frame.function.as_str()).find(|function| !is_locking(function))
}

/// Code of locks, as Linux names it since 5.19 (kernel/locking, include/linux/spinlock.h).
fn is_locking(function: &str) -> bool {
    const STARTS: [&str; 19] = [
        "down_",
        "__down",
        "rwsem_",
        "mutex_lock",
        "__mutex_lock",
        "ww_mutex",
        "osq_",
        "percpu_down",
        "percpu_rwsem",
        "__percpu_down",
        "_raw_",
        "__raw_",
        "queued_",
        "native_queued",
        "__pv_queued",
        "rt_mutex",
        "rt_spin",
        "__rt_mutex",
        "do_raw_",
    ];
    function.ends_with("_slowpath") || STARTS.iter().any(|start| function.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_lock_is_named_by_who_wanted_it() {
        let symbols = Symbols::made(&[
            (1, "bpf_trace_run2"),
            (2, "rwsem_down_write_slowpath"),
            (3, "down_write"),
            (4, "ext4_buffered_write_iter"),
            (5, "vfs_write"),
            (6, "__pv_queued_spin_lock_slowpath"),
            (7, "_raw_spin_lock_irqsave"),
            (8, "try_to_wake_up"),
        ]);
        let waits = |stack: &[u64], ns: f64| (stack.to_vec(), Waited { ns, count: 10.0 });
        let stopped = Stopped {
            waits: vec![waits(&[1, 2, 3, 4, 5], 3e9), waits(&[1, 6, 7, 8], 1e8), waits(&[], 5e8), waits(&[3, 4], 1e9)],
        };
        let mut facts = Facts::new("lb", 0);
        stopped.put(&mut facts, &symbols, 10.0, 2.5);
        expect![[r#"
            lock.wait [ext4_buffered_write_iter] 0.4
            lock.waits [ext4_buffered_write_iter] 8
            lock.wait [[short]] 0.05
            lock.waits [[short]] 4
            lock.wait [try_to_wake_up] 0.01
            lock.waits [try_to_wake_up] 4
        "#]]
        .assert_eq(&facts.listing());
    }

    #[test]
    fn no_wait_is_a_fact_too() {
        let mut facts = Facts::new("lb", 0);
        Stopped::default().put(&mut facts, &Symbols::default(), 10.0, 2.5);
        assert_eq!(facts.value(&m::LOCK_WAIT, NO_STACK), Some(0.0));
    }
}
