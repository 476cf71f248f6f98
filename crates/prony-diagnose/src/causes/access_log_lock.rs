//! # Access log lock
//!
//! Workers queue at the lock of the one file that all of them append to.
//!
//! ## What it sees
//! The share of the workers' time that they waited for a kernel lock which a write to a file wanted (tracepoints
//! `lock:contention_begin` and `_end`), and quick looks at the workers' kernel stacks: the share of looks that found one
//! asleep or spinning in the slow path of a kernel read-write semaphore. The greater counts: the first sees no spinning
//! before a sleep, the second is coarse. All that while the access log is written line by line.
//!
//! ## Why it limits
//! The kernel lets one writer at a time append to an inode. Past a number of workers, more of them only wait or spin:
//! CPUs burn without requests.
//!
//! ## Evidence
//! The share of worker time is the score.
//!
//! ## What it is not
//! Another semaphore of the kernel (memory maps): then the log is buffered, writes per request are far below 0.2.
//!
//! ## Fix
//! Knob `nginx.access_log` with `buffer=64k`; a log per worker; no log.
//!
//! ## References
//! Linux `ext4_buffered_write_iter` (takes the inode lock exclusive), `kernel/locking/rwsem.c`, `osq_lock.c`.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, nginx_knob, predicted_gain, ruled_out};
use crate::facts::Hop;
use crate::logs::{WRITES_PER_REQUEST, writes_per_request};
use prony_model::metric::{LOCK_WAIT, LOOK_RUNNING, LOOK_WAIT};
use prony_model::{Gap, KnobId};

pub(super) const CAUSE: Cause = Cause {
    id: "access-log-lock",
    layer: Layer::Logs,
    title: "access log lock",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("access_log_lock.rs"),
};

/// Kernel functions in which a writer waits for the lock of an inode.
const LOCK_FUNCTIONS: &[&str] =
    &["rwsem_down_write_slowpath", "rwsem_optimistic_spin", "rwsem_spin_on_owner", "osq_lock", "down_write"];
/// Share of worker time from which the lock matters.
const WAIT_SHARE: f64 = 0.02;
/// Its origin.
const ORIGIN: &str = "cited: catalogue row 1 (contended wait below 1 to 2 % of worker wall time rules it out)";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    // Workers that ran at every look leave no wait behind: then the looks at who runs say that there were looks.
    if [&LOOK_WAIT, &LOOK_RUNNING, &LOCK_WAIT].iter().all(|metric| hop.items(metric).is_empty()) {
        return Err(Gap::new(LOOK_WAIT.name, hop.name, "no look at kernel stacks was taken; it needs root"));
    }
    let looked: f64 = LOCK_FUNCTIONS.iter().filter_map(|f| hop.look(&LOOK_WAIT, f).ok()).fold(0.0, |a, b| a + b);
    let sites = hop.items(&LOCK_WAIT).into_iter().filter(|site| is_file_write(site));
    let traced: f64 = sites.filter_map(|site| hop.look(&LOCK_WAIT, site).ok()).fold(0.0, |a, b| a + b);
    let (name, waiting) =
        if traced > looked { ("lock.wait of file writes", traced) } else { ("look.wait of write locks", looked) };
    let wait = hop.fact(name, "share", |_| Ok(waiting.min(1.0)))?;
    if wait.value < WAIT_SHARE {
        return ruled_out(&wait, WAIT_SHARE, ORIGIN, "workers do not wait for a file's write lock");
    }
    let writes = writes_per_request(hop)?;
    if writes.value < WRITES_PER_REQUEST {
        return ruled_out(&writes, WRITES_PER_REQUEST, "guess", "the lock is another one: the log is hardly written");
    }
    let claim =
        format!("workers of {} spend {:.0} % of their time at the lock of a file", hop.name, wait.value * 100.0);
    let share = wait.value;
    Finding::new(wait, WAIT_SHARE, ORIGIN, &claim, share)
        .and(Ok(writes.clone()), "every request writes to the shared access log")
        .mend(
            "buffer the access log, or give each worker its own",
            nginx_knob(hop, KnobId::NginxAccessLog, "buffer=64k"),
        )
        .gaining(predicted_gain(hop, share))
        // The wait was seen in one look only; how it rises with the load is told by the writes.
        .rising(hop.fact("log writes", "/s", |r| Ok(writes_per_request(hop)?.value * r.requests()?)))
        .fires()
}

/// `ext4_buffered_write_iter`, `generic_file_write_iter`, `xfs_file_buffered_write`, `btrfs_buffered_write`.
fn is_file_write(site: &str) -> bool {
    site.ends_with("write_iter") || site.ends_with("buffered_write")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, score};
    use prony_model::metric::LOOK_LOG_STEP;
    use proptest::prelude::*;

    fn lab(osq: f64) -> Lab {
        Lab::healthy().gauge("lb", &LOOK_LOG_STEP, "/run/lb/access.log", 300.0).gauge("lb", &LOOK_WAIT, "osq_lock", osq)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.38)) - 0.38).abs() < 1e-9);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.019)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.021)) > 0.0);
        let running = Lab::healthy().without("lb", &LOOK_WAIT).gauge("lb", &LOOK_RUNNING, "101", 1.0);
        assert_eq!(score(CAUSE.id, "lb", &running), 0.0, "a worker that never waits waits for no lock");
        let traced = lab(0.01).gauge("lb", &LOCK_WAIT, "ext4_buffered_write_iter", 0.59);
        assert!((score(CAUSE.id, "lb", &traced) - 0.59).abs() < 1e-9, "what was traced counts when it is more");
        let elsewhere = lab(0.01).gauge("lb", &LOCK_WAIT, "inet_csk_accept", 0.59);
        assert_eq!(score(CAUSE.id, "lb", &elsewhere), 0.0);
        let other_lock = lab(0.38).gauge("lb", &LOOK_LOG_STEP, "/run/lb/access.log", 65_000.0);
        assert_eq!(score(CAUSE.id, "lb", &other_lock), 0.0);
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
