//! # Commit disk wait
//!
//! Transactions wait at their commit until the log has reached the disk.
//!
//! ## What it sees
//! Sessions that wait for the log's flush, its write, or their turn at it (`IO:WALSync`, `IO:WALWrite`,
//! `LWLock:WALWrite`), of those in use; flushes of the log and of the disk; commits.
//!
//! ## Why it limits
//! A commit is durable only when its log is; a disk does so many flushes per second and no more, whatever the CPUs
//! could do.
//!
//! ## Evidence
//! The share of the sessions in use that are in such a wait, of the requests that are held up by it.
//!
//! ## What it is not
//! Waits for rows (`Lock:...`) or for data that is not in memory (`IO:DataFileRead`). A log that is written without
//! waiting. Waits that go by while a full CPU, as the application's, sets the pace: without them it would carry no more.
//!
//! ## Fix
//! Fewer commits (several rows in one transaction), `commit_delay`, a faster device for the log; `synchronous_commit =
//! off` where the last moments may be lost.
//!
//! ## References
//! PostgreSQL, "WAL Configuration" and wait events of type IO.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, does_not_apply};
use crate::facts::Hop;
use crate::sessions::{HeldUp, dose_of_wait, in_use, is_commit_wait, runs_queries};
use prony_model::Gap;
use prony_model::metric::{DISK_FLUSHES, PG_COMMITS, PG_WAL_SYNCS};

pub(super) const CAUSE: Cause = Cause {
    id: "commit-disk-wait",
    layer: Layer::Logs,
    title: "commits wait for the disk",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("commit_disk_wait.rs"),
};

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !runs_queries(hop) {
        return does_not_apply(hop, "commits nothing");
    }
    let held_up = HeldUp::by(hop, "sessions that wait for the log at commit", is_commit_wait)?;
    if !held_up.matters() {
        return held_up.ruled_out(hop, "hardly a session waits for the log");
    }
    let HeldUp { waits, share, gain, .. } = held_up;
    let used = hop.fact("sessions in use", "", in_use)?;
    let claim = format!("{:.0} of {:.0} sessions in use wait for the log to reach the disk", waits.value, used.value);
    Finding::new(waits.clone(), HeldUp::WAITING_MIN, "guess", &claim, share)
        .and(Ok(used), "sessions in use")
        .and(hop.summary(&PG_WAL_SYNCS), "flushes of the log")
        .and(hop.summary(&DISK_FLUSHES), "flushes of the disks")
        .and(hop.summary(&PG_COMMITS), "transactions")
        .mend("fewer commits, a faster device for the log; synchronous_commit = off where the last may be lost", None)
        .gaining(gain)
        .rising(Ok(waits))
        .tested_by(dose_of_wait(hop))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    fn lab(waiting: f64, event: &str) -> Lab {
        let lab = Lab::chain().queueing(900.0).held(20.0).sessions([0.5, waiting, waiting], event);
        lab.gauge("db", &prony_model::metric::PG_SESSIONS, "idle in transaction", (19.0 - waiting).max(0.0))
    }

    #[test]
    fn fires_silent_border() {
        for event in ["IO:WALSync", "IO:WalSync", "LWLock:WALWrite", "IO:WALWrite"] {
            assert!(score(CAUSE.id, "db", &lab(16.0, event)) > 0.8, "{event}");
        }
        for event in ["Lock:tuple", "IO:DataFileRead", "Client:ClientRead", "running"] {
            assert_eq!(score(CAUSE.id, "db", &lab(16.0, event)), 0.0, "{event}");
        }
        assert_eq!(score(CAUSE.id, "db", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(16.0, "IO:WALSync")), 0.0);
        assert_eq!(score(CAUSE.id, "db", &lab(1.8, "IO:WALSync")), 0.0, "border");
        let found = finding(CAUSE.id, "db", &lab(2.0, "IO:WALSync"));
        assert!(found.is_some_and(|f| f.dose == crate::cause::Dose::Queue), "border");
    }

    #[test]
    fn a_full_cpu_of_the_application_sets_the_pace() {
        let busy = |app: f64| lab(16.0, "IO:WALSync").cpu("0", app, 0.04, 0.02).own("app", app + 0.05);
        assert_eq!(score(CAUSE.id, "db", &busy(0.94)), 0.0);
        assert!(score(CAUSE.id, "db", &busy(0.6)) > 0.0, "there is room, so the wait limits");
        let held = Lab { rate: Some(900.0), ..busy(0.94) };
        assert!(score(CAUSE.id, "db", &held) > 0.0, "a rate that is carried: the wait is a matter of latency");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..19.0, b in 0.0f64..19.0) {
            let with = |n: f64| score(CAUSE.id, "db", &lab(n, "IO:WALSync"));
            prop_assert!(with(a.min(b)) <= with(a.max(b)) + 1e-9);
        }
    }
}
