//! What the CPUs of each host ran during the closer look at a cell: the hottest functions, and the share of waiting for locks.
//!
//! It only counts what a profile sampled. Invariant: shares are of all samples of a host, so those of two cells can be compared.

use prony_model::experiment::{HotFunction, HotSeen};
use prony_model::stacks::{FoldedStack, KERNEL_MARK};
use prony_model::{Run, Stacks, Trial};
use std::collections::BTreeMap;

/// Functions by which the kernel waits for a lock that another holds, spinning or about to sleep: `kernel/locking/` of Linux 6.18,
/// files osq_lock.c, qspinlock.c, qrwlock.c, rwsem.c, mutex.c. Taking a free lock is none of them.
const LOCKS: [&str; 14] = [
    "osq_lock",
    "native_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "rwsem_down_read_slowpath",
    "rwsem_down_write_slowpath",
    "rwsem_optimistic_spin",
    "rwsem_spin_on_owner",
    "mutex_spin_on_owner",
    "mutex_optimistic_spin",
    "__mutex_lock",
    "__mutex_lock_slowpath",
];
/// Functions that are kept of each host. A guess: the hottest of another cell should be among them.
const FUNCTIONS_MAX: usize = 8;

/// Of each host that was looked at after a trial; empty when none was, or none could be sampled.
pub(crate) fn of(run: &Run, trial: &Trial) -> BTreeMap<String, HotSeen> {
    // The clocks of the agents are told apart to a millisecond or so, and a look begins just behind its trial.
    let middle_ns = trial.window.from_ns / 2 + trial.window.to_ns / 2;
    let after = run.stacks.iter().filter(|stacks| stacks.at_ns >= middle_ns && stacks.samples() > 0);
    after.map(|stacks| (stacks.host.clone(), hot(stacks))).collect()
}

fn hot(stacks: &Stacks) -> HotSeen {
    let all = stacks.samples();
    let share = |samples: u64| samples as f64 / all as f64;
    let waiting = stacks.stacks.iter().filter(|stack| stack.frames.iter().any(|frame| waits(frame)));
    // For each function that samples stood in: how many, and its most frequent stack.
    let mut own: BTreeMap<&str, (u64, &FoldedStack)> = BTreeMap::new();
    for stack in &stacks.stacks {
        let Some(leaf) = stack.frames.last() else { continue };
        let (samples, most) = own.entry(plain(leaf)).or_insert((0, stack));
        *samples += stack.samples;
        if stack.samples > most.samples {
            *most = stack;
        }
    }
    let mut hottest: Vec<(&str, (u64, &FoldedStack))> = own.into_iter().collect();
    hottest.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(b.0)));
    let function = |(function, (samples, stack)): (&str, (u64, &FoldedStack))| HotFunction {
        function: function.to_string(),
        share: share(samples),
        path: stack.frames.iter().map(|frame| plain(frame).to_string()).collect(),
    };
    HotSeen {
        samples: all,
        locks: share(waiting.map(|stack| stack.samples).sum()),
        functions: hottest.into_iter().take(FUNCTIONS_MAX).map(function).collect(),
    }
}

fn plain(frame: &str) -> &str {
    frame.strip_suffix(KERNEL_MARK).unwrap_or(frame)
}

/// Compilers add to names what a copy of a function is for: `__mutex_lock.constprop.0`.
fn waits(frame: &str) -> bool {
    let named = frame.strip_suffix(KERNEL_MARK).and_then(|name| name.split('.').next());
    named.is_some_and(|name| LOCKS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGS: &str = "nginx;main;ngx_log;write_[k];rwsem_down_write_slowpath_[k];osq_lock_[k] 300
nginx;main;ngx_log;write_[k];__mutex_lock.constprop.0_[k];schedule_[k] 100
nginx;other;osq_lock_[k] 50
nginx;main;osq_lock 150
nginx;main;deflate 400
";

    #[test]
    fn waiting_counts_once_for_each_sample_and_a_function_has_its_most_frequent_path() {
        let seen = hot(&Stacks { stacks: Stacks::parse(LOGS), ..Stacks::default() });
        assert_eq!((seen.samples, seen.locks), (1000, 0.45), "a function of the application with that name is no lock");
        let functions: Vec<(&str, f64)> = seen.functions.iter().map(|f| (f.function.as_str(), f.share)).collect();
        assert_eq!(functions, [("osq_lock", 0.5), ("deflate", 0.4), ("schedule", 0.1)]);
        assert_eq!(
            seen.functions[0].path.join(" > "),
            "nginx > main > ngx_log > write > rwsem_down_write_slowpath > osq_lock"
        );
    }
}
