//! # Application lock
//!
//! Threads or processes of an application wait for each other at a lock of its own, in memory or of a file.
//!
//! ## What it sees
//! Threads asleep in futex calls (what locks of user code sleep in) or for locks of files, and requests that were read and
//! are neither answered nor passed on. Threads asleep beyond those that may be idle hold a request while they wait.
//!
//! ## Why it limits
//! One thread at a time goes through the lock, so CPUs stay idle while requests wait.
//!
//! ## Evidence
//! T threads ran, W of them slept there on average, K requests were held. T - W threads held at most as many
//! requests; K - (T - W) are held by sleepers. Their part of the requests in flight is the score.
//!
//! ## What it is not
//! An idle pool parks its threads in futex calls too: then few requests are held, or they wait unread in their sockets,
//! because the event loop before the pool is busy. Threads that wait for one of a few connections to a database: then
//! all of those connections await answers.
//!
//! ## Fix
//! More processes, more and smaller locks, another memory allocator; a lock of a file that is given back earlier, as PHP does
//! by `session_write_close`. prony has no knob for it.
//!
//! ## References
//! futex(2); flock(2); PHP manual, `session_write_close`; B. Gregg, "Off-CPU Analysis".

use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, predicted_gain, ruled_out};
use crate::facts::{Hop, Reader};
use crate::sessions::unread;
use prony_model::metric::{CONN_OUT, CONN_OUT_WAITING, THREAD_ASLEEP, THREAD_COUNT, THREAD_SLEEPS};
use prony_model::{Gap, Level, Metric};

pub(super) const CAUSE: Cause = Cause {
    id: "application-lock",
    layer: Layer::Upstream,
    title: "lock of the application",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("application_lock.rs"),
};

/// Kernel functions in which a thread waits for a lock of a file: flock(2) and fcntl(2).
const FILE_LOCKS: &str = "lock_inode_wait";
/// Those of locks in memory.
const FUTEX: &str = "futex";
/// Sleeps at locks per request from which threads can be in each other's way. A guess: at a lock that limits, nearly every
/// request waits once.
const SLEEPS_PER_REQUEST: f64 = 0.1;
/// Share of the requests in flight that sleep at a lock from which it matters. A guess.
const SHARE_MIN: f64 = 0.1;
/// Share of the connections to others that await an answer from which the connections are the limit. A guess.
const ALL_IN_USE: f64 = 0.8;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let threads = hop.look(&THREAD_COUNT, "")?;
    let of_file = sum(hop, &THREAD_ASLEEP, FILE_LOCKS) > sum(hop, &THREAD_ASLEEP, FUTEX);
    let (locks, name) = if of_file { (FILE_LOCKS, "file lock") } else { (FUTEX, "futex") };
    let sleeps =
        hop.fact(format!("{name} sleeps / request"), "", |r| Ok(sum(hop, &THREAD_SLEEPS, locks) / r.requests()?))?;
    if threads < 2.0 || sleeps.value < SLEEPS_PER_REQUEST {
        return ruled_out(&sleeps, SLEEPS_PER_REQUEST, "guess", "its threads hardly wait for each other");
    }
    let at = hop.at(Level::At)?;
    let held = hop.fact("requests read, not answered, not passed on", "", held)?;
    let asleep = (sum(hop, &THREAD_ASLEEP, locks) * threads).min(threads);
    let at_the_lock = (held.value - (threads - asleep)).clamp(0.0, asleep);
    let share = (at_the_lock / at.in_flight()?).min(1.0);
    let waiting = hop.fact("requests asleep at a lock", "", |_| Ok(at_the_lock))?;
    let border = SHARE_MIN * at.in_flight()?;
    if share < SHARE_MIN {
        return ruled_out(&waiting, border, "guess: a tenth of the requests in flight", "who sleeps is idle");
    }
    let in_use = at.sum(&CONN_OUT_WAITING).unwrap_or(0.0) / at.sum(&CONN_OUT).unwrap_or(f64::INFINITY);
    if in_use >= ALL_IN_USE {
        let used = hop.fact("share of its connections to others that await an answer", "share", |_| Ok(in_use))?;
        return ruled_out(&used, ALL_IN_USE, "guess", "its threads wait for a free connection to another host");
    }
    let (what, mend) = if of_file {
        (
            "file that they lock, at",
            "give the lock of the file back earlier, or keep what it guards elsewhere than in one file",
        )
    } else {
        ("lock of", "more processes, smaller locks, or another memory allocator for this application")
    };
    let claim = format!("{at_the_lock:.0} requests sleep at a {what} {} while it has {threads:.0} threads", hop.name);
    let mut finding = Finding::new(waiting, border, "guess: a tenth of the requests in flight", &claim, share)
        .and(Ok(sleeps), "sleeps at locks")
        .and(Ok(held.clone()), "requests that its threads hold")
        .mend(mend, None)
        .gaining(predicted_gain(hop, share))
        .rising(Ok(held))
        .tested_by(Dose::Queue);
    finding.adds_up = true;
    finding.fires()
}

/// A metric by function, summed over the functions with these letters in their name.
fn sum(hop: &Hop<'_>, metric: &Metric, letters: &str) -> f64 {
    let functions = hop.items(metric).into_iter().filter(|item| item.contains(letters));
    functions.filter_map(|item| hop.look(metric, item).ok()).sum()
}

/// Requests that were read and are neither answered nor passed on.
pub(super) fn held(reader: &Reader<'_>) -> Result<f64, Gap> {
    Ok((reader.staying()? - unread(reader)?).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{CONN_IN, CONN_IN_BUSY, CONN_IN_UNACCEPTED, CONN_IN_UNREAD, LISTEN_QUEUE};
    use proptest::prelude::*;

    /// 33 threads, of which one runs and the others sleep this share of their time; 62 of 64 requests stay.
    fn lab(asleep: f64) -> Lab {
        Lab::healthy()
            .throughput(400.0)
            .levels("lb", &CONN_IN_BUSY, "80", [20.0, 62.0, 62.0])
            .gauge("lb", &CONN_IN_UNREAD, "80", 0.0)
            .gauge("lb", &THREAD_COUNT, "", 33.0)
            .gauge("lb", &THREAD_ASLEEP, "futex_wait_queue", asleep)
            .gauge("lb", &THREAD_SLEEPS, "futex_wait_queue", 400.0)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(0.97)).unwrap();
        assert!((found.score - 0.5).abs() < 0.01, "32 of 64: {}", found.score);
        let few = lab(0.97).levels("lb", &CONN_IN_BUSY, "80", [1.0, 3.0, 3.0]);
        assert_eq!(score(CAUSE.id, "lb", &few), 0.0, "an idle pool");
        let unread = lab(0.97).gauge("lb", &CONN_IN_UNREAD, "80", 60.0);
        assert_eq!(score(CAUSE.id, "lb", &unread), 0.0, "an event loop that is busy before an idle pool");
        let rare = lab(0.97).gauge("lb", &THREAD_SLEEPS, "futex_wait_queue", 39.0);
        assert_eq!(score(CAUSE.id, "lb", &rare), 0.0);
        let pool = lab(0.97).gauge("lb", &CONN_OUT, "10.77.0.11:80", 1.0).gauge("lb", &CONN_OUT, "10.77.0.12:80", 1.0);
        assert_eq!(score(CAUSE.id, "lb", &pool), 0.0, "both connections to the servers are in use");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.19)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.20)) > 0.0, "6.6 of 64");
    }

    #[test]
    fn processes_wait_for_a_file_that_one_of_them_locks() {
        let children =
            |accepted: f64| {
                let lab = Lab::chain().queueing(200.0).without("app", &CONN_OUT).without("app", &CONN_OUT_WAITING);
                let lab = lab.gauge("app", &CONN_IN_BUSY, "80", 64.0).gauge("app", &CONN_IN_UNREAD, "80", accepted);
                let lab =
                    lab.gauge("app", &CONN_IN, "80", 64.0).gauge("app", &CONN_IN_UNACCEPTED, "80", 64.0 - accepted);
                let lab = lab.gauge("app", &LISTEN_QUEUE, "0.0.0.0:80", 64.0 - accepted);
                let lab = (0..40).fold(lab, |lab, pid| lab.worker("app", &(200 + pid).to_string(), 0.0));
                lab.gauge("app", &THREAD_COUNT, "", 41.0)
                    .gauge("app", &THREAD_ASLEEP, "locks_lock_inode_wait", 0.96)
                    .gauge("app", &THREAD_SLEEPS, "locks_lock_inode_wait", 200.0)
            };
        let found = finding(CAUSE.id, "app", &children(40.0)).unwrap();
        assert!((found.score - 0.6).abs() < 0.03, "38 of 64: {}", found.score);
        assert!(found.summary.contains("sleep at a file that they lock"), "{}", found.summary);
        assert_eq!(score(CAUSE.id, "app", &children(3.0)), 0.0, "few are accepted: the others are idle");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))) + 1e-9);
        }
    }
}
