//! # Row lock contention
//!
//! Transactions wait for rows that other transactions have locked.
//!
//! ## What it sees
//! Sessions that wait for a lock (`Lock:transactionid`, `Lock:tuple`, ...), of those in use; locks not granted.
//!
//! ## Why it limits
//! Those who want the same row go one after the other, and each holds its lock until it commits.
//!
//! ## Evidence
//! The share of the sessions in use that wait for a lock, of the requests that are held up by it.
//!
//! ## What it is not
//! A database whose CPU is full while few sessions wait. A pool that is too small: then its sessions work or sleep.
//!
//! ## Fix
//! Shorter transactions, with the contended statement last; a key that spreads the rows; a queue instead of a counter.
//!
//! ## References
//! PostgreSQL, "The Statistics Collector": wait events of type Lock; "Explicit Locking".

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, does_not_apply};
use crate::facts::Hop;
use crate::sessions::{HeldUp, dose_of_wait, in_use, is_lock_wait, runs_queries};
use prony_model::Gap;
use prony_model::metric::{PG_LOCKS_AWAITED, PG_OLDEST_TRANSACTION};

pub(super) const CAUSE: Cause = Cause {
    id: "row-lock-contention",
    layer: Layer::Upstream,
    title: "row lock contention",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("row_lock_contention.rs"),
};

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !runs_queries(hop) {
        return does_not_apply(hop, "has no locks of rows");
    }
    let held_up = HeldUp::by(hop, "sessions that wait for a lock", is_lock_wait)?;
    if !held_up.matters() {
        return held_up.ruled_out(hop, "hardly a session waits for a lock");
    }
    let HeldUp { waits, share, gain, .. } = held_up;
    let used = hop.fact("sessions in use", "", in_use)?;
    let claim = format!(
        "{:.0} of {:.0} sessions in use wait for a lock that another transaction holds",
        waits.value, used.value
    );
    Finding::new(waits.clone(), HeldUp::WAITING_MIN, "guess", &claim, share)
        .and(Ok(used), "sessions in use")
        .and(hop.summary(&PG_LOCKS_AWAITED), "locks that were not granted")
        .and(hop.summary(&PG_OLDEST_TRANSACTION), "the oldest transaction")
        .and(hop.fact("busy share of the hop's CPUs", "share", |r| Ok(r.cpu()?.busy_share())), "its CPUs meanwhile")
        .mend("shorter transactions with the contended statement last; spread the rows that all of them change", None)
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

    /// Twenty sessions, so many of them before one row.
    fn lab(waiting: f64) -> Lab {
        let lab = Lab::chain().queueing(160.0).held(20.0).sessions([0.2, waiting, waiting], "Lock:transactionid");
        lab.gauge("db", &prony_model::metric::PG_SESSIONS, "idle in transaction", (19.0 - waiting).max(0.0))
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "db", &lab(18.0)).unwrap();
        assert!((found.score - 18.0 / 19.0).abs() < 0.01, "{}", found.score);
        assert_eq!(score(CAUSE.id, "db", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(18.0)), 0.0);
        assert_eq!(score(CAUSE.id, "db", &lab(1.8)), 0.0, "border: 9 %");
        assert!(score(CAUSE.id, "db", &lab(2.0)) > 0.0, "border: 11 %");
        assert_eq!(
            score(CAUSE.id, "db", &lab(18.0).sessions([1.0, 18.0, 18.0], "LWLock:WALWrite")),
            0.0,
            "other waits"
        );
    }

    #[test]
    fn few_sessions_of_many_hold_up_only_themselves() {
        let rest = lab(8.0).gauge("db", &prony_model::metric::PG_CONNECTIONS, "", 60.0);
        let share = score(CAUSE.id, "db", &rest);
        assert!(share < 0.2 && share > 0.0, "{share}");
    }

    #[test]
    fn without_the_databases_word_it_is_a_gap() {
        let run = lab(18.0).mute().run();
        assert_eq!(check(&Hop { run: &run, name: "db" }).err().unwrap().fact, "pg.waits");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..19.0, b in 0.0f64..19.0) {
            prop_assert!(score(CAUSE.id, "db", &lab(a.min(b))) <= score(CAUSE.id, "db", &lab(a.max(b))) + 1e-9);
        }
    }
}
