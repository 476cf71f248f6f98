//! # Event loop blocked
//!
//! A call that blocks inside an event loop: the application has many requests and serves one at a time.
//!
//! ## What it sees
//! Requests that lie unread in sockets which the application has accepted, and how many it has accepted; how many
//! sessions it has at work at what it calls, or how many it has taken up where it calls nobody; its CPU time; where its
//! first thread waits.
//!
//! ## Why it limits
//! While the loop waits for one answer it reads no other request: throughput is 1 / the time of one request, per
//! process.
//!
//! ## Evidence
//! The share of the requests in flight that lie unread, while the CPU is idle and what it calls sees at most one
//! request of each process. A loop may also read all that came and then block for each: then those that stay there
//! count, while its only thread is nearly always found in a call that blocks (at a rate that is carried: often, for it rests in between).
//!
//! ## What it is not
//! A pool of connections or a lock inside the application: then requests are read and wait inside. Threads that are all
//! in use: then several requests are under way at what it calls. Processes that have one connection each: the others stay
//! in the accept queue. A process whose CPU is full, or whose runtime stops it to collect garbage. A process whose first thread sleeps
//! while others of it work: that one is no loop.
//!
//! ## Fix
//! An asynchronous driver, threads for calls that block, or more processes.
//!
//! ## References
//! tcp(7), unread bytes (`SIOCINQ`); Linux inet_diag `idiag_rqueue`.

use super::application_lock::held;
use super::connection_pool_exhausted::UNREAD;
use super::stop_the_world_pauses::stopped_by_pauses;
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::sessions::{
    BUSY_PROCESS, Crowd, SEVERAL, accepted_per_process, carries_a_rate, cpus_per_process, crowd, in_use_all_along,
    runs_code,
};
use prony_model::Gap;
use prony_model::Level;
use prony_model::Metric;
use prony_model::metric::{CONN_IN_UNREAD, CONN_OUT_WAITING, LISTEN_QUEUE, LOOK_ANY_THREAD, LOOK_RUNNING, LOOK_WAIT};

pub(super) const CAUSE: Cause = Cause {
    id: "event-loop-blocked",
    layer: Layer::Upstream,
    title: "event loop blocked",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("event_loop_blocked.rs"),
};

/// Requests at work per process, up to which it does one thing at a time. A guess: readings miss by some.
pub(super) const ONE_AT_A_TIME: f64 = 1.3;
/// Share of looks that find the first thread in a call that blocks, below which that is not what holds the loop up. A
/// guess: a blocked loop showed 0.9, one before a pool 0.0.
const BLOCKED: f64 = 0.3;
/// The same for a loop that also computes: from this share of all looks on, if the loop hardly waits for events. A guess: a
/// loop that was on its CPU in 0.76 of the looks and in a call of its database driver in 0.21 waited for events in 0.03.
const BLOCKED_BETWEEN: f64 = 0.1;
/// Share of the looks at a waiting first thread that find it in a call that blocks, from which it hardly waits for events. A
/// guess.
const HARDLY_IDLE: f64 = 0.7;
/// The same from which the only thread of a process is held up all the time, so that what it has read waits inside as well. A
/// guess: a loop that slept for each request showed 0.93.
const ALWAYS_BLOCKED: f64 = 0.6;
/// Share of looks that find any thread at work, from which they tell which. A guess.
const WORKS: f64 = 0.05;
/// Part of these that find the first thread at work, below which it is not the one that serves. A guess: of a server in Java none did, of
/// a loop all do.
const SERVES: f64 = 0.1;
const BLOCKED_LOOKS: &str = "share of looks that find its first thread in a call that blocks";
/// Kernel functions in which a thread waits for one answer, or for a time: poll and select, reads of sockets and pipes,
/// sleeps, locks of user code.
const BLOCKING: [&str; 11] = [
    "do_sys_poll",
    "do_poll",
    "do_select",
    "core_sys_select",
    "sk_wait_data",
    "wait_woken",
    "inet_",
    "unix_stream",
    "pipe_",
    "hrtimer_nanosleep",
    "futex",
];

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !runs_code(hop) {
        return does_not_apply(hop, "runs no code of the application");
    }
    let Crowd { requests, .. } = match crowd(hop)? {
        Ok(crowd) => crowd,
        Err((fact, border, claim)) => return ruled_out(&fact, border, "guess", &claim),
    };
    let border = unread_border(hop, &requests);
    let waiting = waiting(hop, border)?;
    if waiting.value < border {
        return ruled_out(&waiting, border, "guess", "requests are read as they come");
    }
    let queued = hop.summary(&LISTEN_QUEUE);
    if let Ok(queued) = &queued
        && queued.value > waiting.value
        && !has_accepted_more(hop, &requests)
    {
        return ruled_out(
            queued,
            waiting.value,
            "guess",
            "connections are not even accepted: each waits for a worker of its own",
        );
    }
    let busy = cpus_per_process(hop)?;
    if busy.value >= BUSY_PROCESS {
        return ruled_out(&busy, BUSY_PROCESS, "guess", "its processes are busy");
    }
    if let Some((paused, border)) = stopped_by_pauses(hop) {
        return ruled_out(&paused, border, "guess", "its runtime stops all its threads again and again");
    }
    if let Some(works) = first_thread_works(hop).filter(|works| works.value < SERVES) {
        return ruled_out(&works, SERVES, "guess", "its first thread serves nobody, so it is no loop");
    }
    let looks = blocked_looks(hop).map(|share| Fact::across_levels(hop, BLOCKED_LOOKS, share));
    if let Some(looks) = &looks {
        let border = blocked_border(hop, looks.value);
        if looks.value < border {
            let claim = "its first thread waits for events, or for something else than a call";
            return ruled_out(looks, border, "guess", claim);
        }
    }
    let under_way = at_work(hop);
    if let Ok(under_way) = &under_way
        && under_way.value > ONE_AT_A_TIME
    {
        return ruled_out(under_way, ONE_AT_A_TIME, "guess", "several requests are under way at once");
    }
    let share = (waiting.value / requests.value).min(1.0);
    let claim = format!(
        "{:.0} of {:.0} requests wait at {}, which has one at a time under way",
        waiting.value, requests.value, hop.name
    );
    let mut finding = Finding::new(waiting.clone(), border, "guess", &claim, share)
        .and(under_way, "it does one thing at a time")
        .and(Ok(busy), "its processes have CPU time left")
        .and(
            looks.ok_or_else(|| Gap::new(LOOK_WAIT.name, hop.name, "no close look")),
            "its first thread waits in a call",
        )
        .mend("an asynchronous driver, threads for calls that block, or more processes", None)
        .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
        .rising(Ok(waiting))
        .tested_by(Dose::Queue);
    finding.adds_up = true;
    finding.fires()
}

/// Whether a hop has accepted more connections than it works on, as a loop does. A worker that has one connection at a time leaves the
/// others in the accept queue.
pub(super) fn has_accepted_more(hop: &Hop<'_>, requests: &Fact) -> bool {
    hop.summary(&CONN_IN_UNREAD).is_ok_and(|unread| unread.value >= unread_border(hop, requests))
        || accepted(hop).is_some_and(|accepted| accepted >= SEVERAL)
}

fn accepted(hop: &Hop<'_>) -> Option<f64> {
    accepted_per_process(&hop.at(Level::At).ok()?)
}

/// Requests that wait for the loop: unread, or, where a loop reads all that came before it blocks for each, inside. At a rate that it
/// carries a loop rests in between, however long it is blocked for each.
fn waiting(hop: &Hop<'_>, border: f64) -> Result<Fact, Gap> {
    let unread = hop.summary(&CONN_IN_UNREAD)?;
    let held_up = if carries_a_rate(hop) { BLOCKED } else { ALWAYS_BLOCKED };
    let blocked = blocked_looks(hop).filter(|share| hop.is_single_threaded() && *share >= held_up);
    let has_one_each = accepted(hop).is_some_and(|accepted| accepted < SEVERAL);
    let Some(blocked) = blocked.filter(|_| unread.value < border && !has_one_each) else { return Ok(unread) };
    let blocked_for = blocked * hop.workers().len() as f64;
    hop.fact("requests that stay there, less those it is blocked for", "", |r| {
        Ok((r.staying()?.min(r.in_flight()?) - blocked_for).max(0.0))
    })
}

/// Of the looks that find any thread of the workers at work, those that find the first one; none where hardly any is.
fn first_thread_works(hop: &Hop<'_>) -> Option<Fact> {
    let seen = |metric: &Metric| hop.items(metric).iter().filter_map(|pid| hop.look(metric, pid).ok()).sum::<f64>();
    let any = seen(&LOOK_ANY_THREAD);
    let part = (any >= WORKS).then(|| seen(&LOOK_RUNNING) / any)?;
    Some(Fact::across_levels(hop, "looks that find its first thread at work / any of its threads", part))
}

/// Share of looks that found the first thread of a worker in a call that blocks; none without a close look.
fn blocked_looks(hop: &Hop<'_>) -> Option<f64> {
    let blocks = |function: &str| BLOCKING.iter().any(|name| function.starts_with(name));
    (!hop.items(&LOOK_WAIT).is_empty()).then(|| waits(hop, blocks))
}

/// From which share of looks in a call that blocks the calls hold the loop up: a loop that computes is found in them less
/// often, but then it has no time left to wait for events either.
fn blocked_border(hop: &Hop<'_>, blocked: f64) -> f64 {
    if blocked >= HARDLY_IDLE * waits(hop, |_| true) { BLOCKED_BETWEEN } else { BLOCKED }
}

/// Share of looks that found the first thread waiting in one of these kernel functions.
fn waits(hop: &Hop<'_>, is_one: impl Fn(&str) -> bool) -> f64 {
    let functions = hop.items(&LOOK_WAIT);
    functions.iter().filter(|f| is_one(f)).filter_map(|f| hop.look(&LOOK_WAIT, f).ok()).sum()
}

/// Unread requests from which a hop leaves them lying: its part of [`UNREAD`], for siblings share what is in flight.
pub(super) fn unread_border(hop: &Hop<'_>, requests: &Fact) -> f64 {
    UNREAD * requests.value / hop.siblings().len() as f64
}

/// Requests that a process has at work: at what it calls, or, where it calls nobody, taken up and not answered.
pub(super) fn at_work(hop: &Hop<'_>) -> Result<Fact, Gap> {
    let workers = hop.workers().len().max(1) as f64;
    if hop.callees().is_empty() {
        return hop.fact("requests taken up and not answered, per process", "", |r| Ok(held(r)? / workers));
    }
    hop.fact("requests at work at what it calls, per process", "", |r| Ok(under_way(r)? / workers))
}

/// Requests of the hop at what it calls: sessions in use where the callee tells them, else connections that await an
/// answer.
pub(super) fn under_way(r: &Reader<'_>) -> Result<f64, Gap> {
    let callees = r.hop.callees();
    callees.iter().map(|c| in_use_all_along(&r.of(c)).or_else(|_| r.towards(&CONN_OUT_WAITING, c))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{CONN_IN_BUSY, LOOK_PAUSED, PROC_THREADS};
    use proptest::prelude::*;

    /// 54 of 64 requests lie unread, nine connections, one statement at a time.
    fn lab(unread: f64) -> Lab {
        let lab = Lab::chain().queueing(205.0).held(9.0).sessions([0.3, 0.7, 0.8], "Timeout:PgSleep");
        lab.levels("app", &CONN_IN_UNREAD, "80", [0.2, unread, 2.0 * unread])
            .gauge("app", &LOOK_WAIT, "do_sys_poll", 0.5)
            .gauge("app", &CONN_OUT_WAITING, "10.77.0.30:5432", 0.6)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "app", &lab(54.0)).unwrap();
        assert!((found.score - 54.0 / 64.0).abs() < 0.01, "{}", found.score);
        assert_eq!(score(CAUSE.id, "app", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "db", &lab(54.0)), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(19.0)), 0.0, "border");
        assert!(score(CAUSE.id, "app", &lab(19.3)) > 0.0, "border");
    }

    #[test]
    fn what_looks_alike_is_something_else() {
        let silent = |lab: Lab, why: &str| assert_eq!(score(CAUSE.id, "app", &lab), 0.0, "{why}");
        silent(lab(54.0).sessions([1.0, 8.0, 8.0], "Timeout:PgSleep"), "eight under way");
        silent(lab(54.0).own("app", 0.9), "its CPU is busy");
        let looks = |function: &str| lab(54.0).without("app", &LOOK_WAIT).gauge("app", &LOOK_WAIT, function, 0.95);
        silent(looks("ep_poll"), "it waits for events");
        silent(looks("ptrace_stop"), "a tracer holds it");
        let pausing = looks("futex_wait_queue").gauge("app", &LOOK_PAUSED, "", 0.5).own("app", 0.3);
        silent(pausing, "a runtime whose first thread only waits for the others, in pauses of the collector");
        assert!(score(CAUSE.id, "app", &looks("hrtimer_nanosleep")) > 0.5, "a sleep blocks too");
        let computes = |blocked, idle| {
            let looked = lab(54.0).without("app", &LOOK_WAIT).gauge("app", &LOOK_WAIT, "do_sys_poll", blocked);
            looked.gauge("app", &LOOK_WAIT, "ep_poll", idle)
        };
        assert!(score(CAUSE.id, "app", &computes(0.21, 0.03)) > 0.5, "it computes or blocks, and is never idle");
        silent(computes(0.21, 0.15), "it is idle as well");
        silent(computes(0.09, 0.01), "it computes nearly all the time");
        silent(lab(54.0).per_second("app", &prony_model::metric::CGROUP_THROTTLED_TIME, "", 0.6), "a quota");
        silent(lab(54.0).gauge("app", &prony_model::metric::PROC_TRACER, "101", 1.0), "a tracer");
        let stuck = lab(52.0).gauge("app", &LISTEN_QUEUE, "0.0.0.0:80", 66.0);
        assert!(score(CAUSE.id, "app", &stuck) > 0.5, "a loop that is blocked does not accept either");
        assert!(score(CAUSE.id, "app", &lab(54.0).mute()) > 0.5, "sockets show it without the database's word")
    }

    #[test]
    fn a_loop_that_reads_first_and_then_blocks_for_each() {
        let all_read = || lab(1.3).gauge("app", &CONN_IN_BUSY, "80", 64.0).without("app", &LOOK_WAIT);
        let lab = |share: f64| all_read().gauge("app", &LOOK_WAIT, "hrtimer_nanosleep", share);
        assert!(score(CAUSE.id, "app", &lab(0.93)) > 0.9);
        assert_eq!(score(CAUSE.id, "app", &lab(0.59)), 0.0, "border");
        let queued = lab(0.93).gauge("app", &LISTEN_QUEUE, "0.0.0.0:80", 80.0);
        assert_eq!(score(CAUSE.id, "app", &queued), 0.0, "connections wait for a worker of their own");
        assert_eq!(score(CAUSE.id, "app", &lab(0.93).gauge("app", &PROC_THREADS, "101", 5.0)), 0.0, "threads");
    }

    #[test]
    fn at_a_rate_that_is_carried_a_loop_rests_in_between() {
        let asked = |share: f64, carried: f64| {
            let lab = lab(1.3).gauge("app", &CONN_IN_BUSY, "80", 64.0).without("app", &LOOK_WAIT);
            let lab = Lab { rate: Some(205.0), x: [100.0, carried, carried], ..lab };
            finding(CAUSE.id, "app", &lab.gauge("app", &LOOK_WAIT, "hrtimer_nanosleep", share))
        };
        assert!(asked(0.29, 205.0).is_none(), "border");
        let waits = asked(0.4, 205.0).expect("it is blocked often").score;
        assert!(
            (waits - (64.0 - 0.6 - 0.4) / 64.0).abs() < 0.002,
            "those under way or blocked for do not wait: {waits}"
        );
        assert!(asked(0.4, 150.0).is_none(), "a rate that is not carried leaves no rest");
    }

    #[test]
    fn a_first_thread_that_sleeps_while_others_work_is_no_loop() {
        let looked = |any: f64, first: f64| {
            let lab = lab(54.0).gauge("app", &LOOK_ANY_THREAD, "7", any);
            score(CAUSE.id, "app", &lab.gauge("app", &LOOK_RUNNING, "7", first))
        };
        assert_eq!(looked(0.47, 0.0), 0.0);
        assert_eq!(looked(0.5, 0.049), 0.0, "border");
        assert!(looked(0.5, 0.05) > 0.0, "border");
        assert!(looked(0.04, 0.0) > 0.0, "hardly any thread works");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..64.0, b in 0.0f64..64.0) {
            prop_assert!(score(CAUSE.id, "app", &lab(a.min(b))) <= score(CAUSE.id, "app", &lab(a.max(b))) + 1e-9);
        }
    }
}
