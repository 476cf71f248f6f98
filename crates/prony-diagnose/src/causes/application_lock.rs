//! # Application lock
//!
//! Threads or processes of an application wait for each other at a lock of its own, in memory or of a file; or its requests wait for a
//! lock, a semaphore or a queue of its language's own runtime.
//!
//! ## What it sees
//! Threads asleep in futex calls (what locks of user code sleep in) or for locks of files, and requests that were read and
//! are neither answered nor passed on. Threads asleep beyond those that may be idle hold a request while they wait. Of locks
//! that the kernel does not see (of goroutines, coroutines, promises): an idle application that holds most requests.
//!
//! ## Why it limits
//! One thread at a time goes through the lock, so CPUs stay idle while requests wait.
//!
//! ## Evidence
//! T threads ran, W of them slept there on average, K requests were held. T - W threads held at most as many
//! requests; K - (T - W) are held by sleepers. Their part of the requests in flight is the score. Where the kernel sees no
//! lock: requests were read and not passed on, no connection to others is in use, no thread waits in a call, no CPU is full, and more
//! requests at once bring nothing. Throughput times the response time below the limit says how many are served at once.
//!
//! ## What it is not
//! An idle pool parks its threads in futex calls too: then few requests are held, or they wait unread in their sockets,
//! because the event loop before the pool is busy. Threads that wait for one of a few connections to a database: then
//! all of those connections await answers. A wait for something that is no socket and no file looks the same; the verdict says so.
//!
//! ## Fix
//! More processes, more and smaller locks, another memory allocator; a lock of a file that is given back earlier, as PHP does
//! by `session_write_close`. prony has no knob for it.
//!
//! ## References
//! futex(2); flock(2); PHP manual, `session_write_close`; B. Gregg, "Off-CPU Analysis".

use super::connection_pool_exhausted::{UNREAD, used};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, predicted_gain, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::sessions::{self, BUSY_PROCESS, Crowd, SEVERAL, cpus_per_process, crowd, runs_code, unread};
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

/// What threads lock.
struct Locks {
    /// In the names of the kernel functions in which a thread waits for one.
    functions: &'static str,
    /// What the sleeps there are called.
    sleeps: &'static str,
    /// What requests sleep at.
    at: &'static str,
    mend: &'static str,
}

const IN_MEMORY: Locks = Locks {
    functions: "futex",
    sleeps: "futex sleeps / request",
    at: "lock of",
    mend: "more processes, smaller locks, or another memory allocator for this application",
};
/// flock(2) and fcntl(2).
const OF_A_FILE: Locks = Locks {
    functions: "lock_inode_wait",
    sleeps: "file lock sleeps / request",
    at: "file that they lock, at",
    mend: "give the lock of the file back earlier, or keep what it guards elsewhere than in one file",
};
/// Sleeps at locks per request from which threads can be in each other's way. A guess: at a lock that limits, nearly every
/// request waits once.
const SLEEPS_PER_REQUEST: f64 = 0.1;
/// Share of the requests in flight that sleep at a lock from which it matters. A guess.
const SHARE_MIN: f64 = 0.1;
/// Share of the requests in flight that wait inside an idle application from which that is the limit. A guess.
const INSIDE_MIN: f64 = 0.5;
/// Share of looks at an idle application that find it waiting for something to do. A guess: before a semaphore it was 0.9.
const IDLE_MIN: f64 = 0.5;
/// Share of the connections to others that await an answer from which the connections are the limit. A guess.
const ALL_IN_USE: f64 = 0.8;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    match at_locks(hop)? {
        Judgement::Silent(evidence) => Ok(inside(hop)?.unwrap_or(Judgement::Silent(evidence))),
        fires => Ok(fires),
    }
}

/// Threads that sleep at locks which the kernel sees.
fn at_locks(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let threads = hop.look(&THREAD_COUNT, "")?;
    let locks = most_waited_for(hop);
    let sleeps = hop.fact(locks.sleeps, "", |r| Ok(sum(hop, &THREAD_SLEEPS, locks.functions) / r.requests()?))?;
    if threads < 2.0 || sleeps.value < SLEEPS_PER_REQUEST {
        return ruled_out(&sleeps, SLEEPS_PER_REQUEST, "guess", "its threads hardly wait for each other");
    }
    let at = hop.at(Level::At)?;
    let held = requests_held(hop)?;
    let asleep = (sum(hop, &THREAD_ASLEEP, locks.functions) * threads).min(threads);
    let at_the_lock = (held.value - (threads - asleep)).clamp(0.0, asleep);
    let share = (at_the_lock / at.in_flight()?).min(1.0);
    let waiting = hop.fact("requests asleep at a lock", "", |_| Ok(at_the_lock))?;
    let border = SHARE_MIN * at.in_flight()?;
    if share < SHARE_MIN {
        return ruled_out(&waiting, border, "guess: a tenth of the requests in flight", "who sleeps is idle");
    }
    let in_use = in_use(&at);
    if in_use >= ALL_IN_USE {
        let used = hop.fact("share of its connections to others that await an answer", "share", |_| Ok(in_use))?;
        return ruled_out(&used, ALL_IN_USE, "guess", "its threads wait for a free connection to another host");
    }
    let claim =
        format!("{at_the_lock:.0} requests sleep at a {} {} while it has {threads:.0} threads", locks.at, hop.name);
    let mut finding = Finding::new(waiting, border, "guess: a tenth of the requests in flight", &claim, share)
        .and(Ok(sleeps), "sleeps at locks")
        .and(Ok(held.clone()), "requests that its threads hold")
        .mend(locks.mend, None)
        .gaining(predicted_gain(hop, share))
        .rising(Ok(held))
        .tested_by(Dose::Queue);
    finding.adds_up = true;
    finding.fires()
}

/// Requests that were read and wait for nothing outside the application: locks, semaphores and queues of a language's own runtime put no
/// thread to sleep that holds a request.
fn inside(hop: &Hop<'_>) -> Result<Option<Judgement>, Gap> {
    let Some((idle, held)) = idle_with_requests(hop)? else { return Ok(None) };
    for callee in hop.callees() {
        let connections = sessions::held(hop, &callee)?;
        let (used, border) = used(hop, &callee, &connections)?;
        if used.value >= border {
            return Ok(None);
        }
    }
    let at = hop.at(Level::At)?;
    if in_use(&at) >= ALL_IN_USE {
        return Ok(None);
    }
    let share = (held.value / at.in_flight()?).min(1.0);
    let claim = format!("{:.0} requests were read and wait inside {}, which is idle", held.value, hop.name);
    let at_once = Hop::path(hop.run).first().and_then(served_at_once);
    let border = inside_border(hop)?;
    let mut finding = Finding::new(held.clone(), border, "guess: half of its part of them", &claim, share)
        .and(Ok(idle), "its processes wait for something to do")
        .mend("find what it keeps for few requests at a time: a lock, a semaphore, a queue of tasks, a limit of its own; make it smaller or wider", None)
        .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
        .rising(Ok(held))
        .tested_by(Dose::Queue)
        .beside_unseen(Some("a wait outside the stack that no socket shows"));
    if let Some(at_once) = at_once {
        finding = finding.and(Ok(at_once), "so many it serves at once: throughput x response time below the limit");
    }
    Ok(Some(finding.fires()?))
}

/// Share of its connections to others, also to hosts that the stack does not name, that await an answer.
fn in_use(at: &Reader<'_>) -> f64 {
    at.sum(&CONN_OUT_WAITING).unwrap_or(0.0) / at.sum(&CONN_OUT).unwrap_or(f64::INFINITY)
}

/// How many requests an application holds that were read and not passed on, and the share of looks that find it idle all the same; none
/// where that is not so, or has another reason.
fn idle_with_requests(hop: &Hop<'_>) -> Result<Option<(Fact, Fact)>, Gap> {
    if !runs_code(hop) {
        return Ok(None);
    }
    // Requests that lie unread wait for a loop, or for threads.
    let Ok(Crowd { requests, unread }) = crowd(hop)? else { return Ok(None) };
    if unread.value >= UNREAD * requests.value {
        return Ok(None);
    }
    let (Some(idle), Some(in_calls)) = (hop.idle_looks(), hop.threads_in_calls()) else { return Ok(None) };
    let held = requests_held(hop)?;
    let is_idle = cpus_per_process(hop)?.value < BUSY_PROCESS && idle >= IDLE_MIN && in_calls < SEVERAL;
    let is_inside = held.value >= inside_border(hop)?;
    let idle = Fact::across_levels(hop, "share of looks that find its first thread idle", idle);
    Ok((is_idle && is_inside).then_some((idle, held)))
}

/// Siblings share what is in flight.
fn inside_border(hop: &Hop<'_>) -> Result<f64, Gap> {
    Ok(INSIDE_MIN * hop.at(Level::At)?.in_flight()? / hop.siblings().len() as f64)
}

/// Requests that are served at once where none wait for each other, by Little's law: the throughput of the limit times the response time
/// below it.
fn served_at_once(entry: &Hop<'_>) -> Option<Fact> {
    let (at, below) = (entry.at(Level::At).ok()?, entry.at(Level::Below).ok()?);
    let at_once = at.throughput().ok()? * below.trial.result.latency_actual.p50_us / 1e6;
    Some(Fact::across_levels(entry, "requests served at once", at_once))
}

/// The locks at which most threads sleep.
fn most_waited_for(hop: &Hop<'_>) -> &'static Locks {
    let asleep = |locks: &Locks| sum(hop, &THREAD_ASLEEP, locks.functions);
    if asleep(&OF_A_FILE) > asleep(&IN_MEMORY) { &OF_A_FILE } else { &IN_MEMORY }
}

/// A metric by function, summed over the functions with these letters in their name.
fn sum(hop: &Hop<'_>, metric: &Metric, letters: &str) -> f64 {
    let functions = hop.items(metric).into_iter().filter(|item| item.contains(letters));
    functions.filter_map(|item| hop.look(metric, item).ok()).sum()
}

/// [`held`] at each level.
pub(super) fn requests_held(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("requests read, not answered, not passed on", "", held)
}

/// Requests that were read and are neither answered nor passed on.
pub(super) fn held(reader: &Reader<'_>) -> Result<f64, Gap> {
    Ok((reader.staying()? - unread(reader)?).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{
        CONN_IN, CONN_IN_BUSY, CONN_IN_UNACCEPTED, CONN_IN_UNREAD, LISTEN_QUEUE, LOOK_THREADS, LOOK_WAIT,
    };
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

    /// An event loop that has read 62 of 64 requests and waits for events.
    fn semaphore(idle: f64) -> Lab {
        let lab = Lab::chain().queueing(290.0).without("app", &CONN_OUT).without("app", &CONN_OUT_WAITING);
        lab.gauge("app", &CONN_IN_BUSY, "80", 62.0)
            .gauge("app", &CONN_IN_UNREAD, "80", 0.0)
            .gauge("app", &THREAD_COUNT, "", 1.0)
            .gauge("app", &LOOK_WAIT, "ep_poll", idle)
            .held(20.0)
            .sessions([0.0, 0.1, 0.1], "running")
    }

    #[test]
    fn requests_wait_inside_an_idle_application() {
        let found = finding(CAUSE.id, "app", &semaphore(0.9)).unwrap();
        assert!((found.score - 62.0 / 64.0).abs() < 0.01, "{}", found.score);
        assert!(found.summary.contains("which is idle") && found.lookalike.is_some(), "{}", found.summary);
        let silent = |lab: Lab, why: &str| assert_eq!(score(CAUSE.id, "app", &lab), 0.0, "{why}");
        silent(semaphore(0.9).gauge("app", &CONN_IN_UNREAD, "80", 20.0), "a loop that is blocked");
        silent(semaphore(0.4), "it has something to do");
        silent(semaphore(0.9).gauge("app", &LOOK_THREADS, "hrtimer_nanosleep", 4.0), "its threads wait in calls");
        silent(semaphore(0.9).sessions([1.0, 9.0, 9.0], "running"), "its connections are in use");
        silent(semaphore(0.9).own("app", 0.9), "it works");
        silent(semaphore(0.9).levels("app", &CONN_IN_BUSY, "80", [10.0, 31.0, 60.0]), "few of them");
        silent(Lab { x: [145.0, 290.0, 560.0], ..semaphore(0.9) }, "more at once are served");
        let seldom = Lab { rate: Some(14.0), x: [7.0, 14.0, 21.0], r_us: [4_000.0; 3], ..semaphore(0.9) };
        silent(seldom.gauge("app", &CONN_IN_BUSY, "80", 0.05), "one request that a reading happened to meet");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))) + 1e-9);
        }
    }
}
