//! What the hop's threads wait for: a CPU, or an event in some function of the kernel.
//!
//! Invariant: a thread that slept through the whole look is not counted, neither its time nor itself.

use super::locks::{Waited, by_name, by_stack};
use super::program::{Program, u32_at, u64_at};
use super::symbols::{Frame, Symbols};
use super::{RawStacks, Watched};
use crate::facts::Facts;
use crate::look::is_scheduling;
use prony_model::metric as m;

/// Slots of the histogram, and what stands behind them, as in threads.bpf.c.
const SLOTS: usize = 32;
const TOTAL_NS: usize = 32;
const THREADS: usize = 33;
/// Functions that are listed.
const FUNCTIONS_MAX: usize = 30;

/// Threads under watch.
#[derive(Debug)]
pub(super) struct Threads {
    pub program: Program,
}

/// What they did, without names yet.
#[derive(Debug)]
pub(super) struct Stopped {
    sleeps: Vec<(Vec<u64>, Waited)>,
    queue: Vec<u64>,
}

impl Threads {
    pub(super) fn begin(watched: &Watched) -> Result<Self, String> {
        let mut program = Program::load("threads", include_bytes!(concat!(env!("OUT_DIR"), "/threads.bpf.o")))?;
        program.watch(&watched.pids)?;
        program.attach()?;
        Ok(Self { program })
    }

    pub(super) fn stop(mut self, raw: &mut RawStacks) -> Stopped {
        self.program.detach();
        let mut queue = vec![0; SLOTS + 2];
        for (key, value) in self.program.entries("queue") {
            if let Some(slot) = queue.get_mut(u32_at(&key, 0) as usize) {
                *slot = u64_at(&value, 0);
            }
        }
        Stopped { sleeps: by_stack(&self.program, "sleeps", raw), queue }
    }
}

impl Stopped {
    /// Threads that ran.
    pub(super) fn count(&self) -> u64 {
        self.queue[THREADS]
    }

    /// Puts `thread.*` and `queue.*`.
    pub(super) fn put(self, facts: &mut Facts, symbols: &Symbols, seconds: f64) {
        facts.put(&m::THREAD_COUNT, "", self.count() as f64);
        let thread_s = self.count() as f64 * seconds;
        if thread_s <= 0.0 {
            return;
        }
        facts.put(&m::QUEUE_WAIT, "", (self.queue[TOTAL_NS] as f64 / 1e9 / thread_s).min(1.0));
        if let Some(p99_us) = quantile_us(&self.queue[..SLOTS], 0.99) {
            facts.put(&m::QUEUE_P99, "", p99_us);
        }
        let function = |stack: &[u64]| sleeps_in(&symbols.traced_stack(stack)).map(str::to_string);
        let sleeps = by_name(self.sleeps.iter().map(|(stack, slept)| (function(stack), *slept)));
        for (function, slept) in sleeps.into_iter().take(FUNCTIONS_MAX) {
            facts.put(&m::THREAD_ASLEEP, &function, (slept.ns / 1e9 / thread_s).min(1.0));
            facts.put(&m::THREAD_SLEEPS, &function, slept.count / seconds);
        }
    }
}

/// Upper end of the slot that the quantile falls into: slot 0 ends at 1 us, each other at the double of the one before.
fn quantile_us(slots: &[u64], quantile: f64) -> Option<f64> {
    let all: u64 = slots.iter().sum();
    let mut seen = 0;
    let slot = slots.iter().position(|n| {
        seen += n;
        seen > 0 && seen as f64 >= quantile * all as f64
    })?;
    Some((1u64 << slot) as f64)
}

/// The function of the kernel that put the thread to sleep: the innermost one that is not part of scheduling.
fn sleeps_in<'a>(stack: &[&'a Frame]) -> Option<&'a str> {
    stack.iter().map(|frame| frame.function.as_str()).find(|function| !is_scheduling(function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn threads_wait_for_a_cpu_and_asleep() {
        let symbols = Symbols::made(&[
            (1, "bpf_trace_run4"),
            (2, "__schedule"),
            (3, "schedule"),
            (4, "futex_wait_queue"),
            (5, "schedule_hrtimeout_range"),
            (6, "ep_poll"),
        ]);
        let mut queue = vec![0; SLOTS + 2];
        (queue[3], queue[10], queue[TOTAL_NS], queue[THREADS]) = (980, 20, 800_000_000, 4);
        let slept = |stack: &[u64], ns| (stack.to_vec(), Waited { ns, count: 50.0 });
        let stopped = Stopped { sleeps: vec![slept(&[1, 2, 3, 4], 4e9), slept(&[2, 3, 5, 6], 2e9)], queue };
        let mut facts = Facts::new("lb", 0);
        stopped.put(&mut facts, &symbols, 2.0);
        expect![[r#"
            thread.count [] 4
            queue.wait [] 0.1
            queue.p99 [] 1024
            thread.asleep [futex_wait_queue] 0.5
            thread.sleeps [futex_wait_queue] 25
            thread.asleep [ep_poll] 0.25
            thread.sleeps [ep_poll] 25
        "#]]
        .assert_eq(&facts.listing());
    }

    #[test]
    fn quantiles_of_powers_of_two() {
        assert_eq!(quantile_us(&[10, 0, 0], 0.99), Some(1.0));
        assert_eq!(quantile_us(&[99, 0, 1], 0.99), Some(1.0));
        assert_eq!(quantile_us(&[98, 0, 2], 0.99), Some(4.0));
        assert_eq!(quantile_us(&[0, 0, 0], 0.99), None);
    }
}
