//! # Thread pool exhausted
//!
//! Every thread, or every process, that serves requests waits for an answer; the other requests wait for one of them.
//!
//! ## What it sees
//! Threads and processes of the application, its connections to what it calls, requests in flight, connections that
//! nobody accepts, also at a unix socket behind a server on the same host, and where the threads wait.
//!
//! ## Why it limits
//! With W threads that each serve one request in a time T, no more than W / T requests per second pass.
//!
//! ## Evidence
//! The share of the requests in flight that have no thread. As many connections as threads, or connections that stay in
//! the accept queue, while no CPU is full and throughput stands still. Of a server that calls nobody: several requests
//! at work, and the others unread; or all of them read by a loop, while every other thread waits in a call.
//!
//! ## What it is not
//! A pool of connections that is smaller than the number of threads. Threads that wait for a lock of their own: then
//! what they call rests. An event loop that one call blocks. A database whose sessions wait for locks or the disk.
//!
//! ## Fix
//! More threads or processes; an asynchronous driver; shorter calls.
//!
//! ## References
//! Little's law; futex(2).

use super::application_lock::requests_held;
use super::connection_pool_exhausted::{CROWD, further_threads, ratio, threads_with_connections};
use super::event_loop_blocked::{ONE_AT_A_TIME, at_work, has_accepted_more, under_way, unread_border};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::sessions::{
    BLOCKED, BUSY_PROCESS, Crowd, SEVERAL, blocked_share, cpus_per_process, crowd, held, may_hold_back, runs_code,
};
use prony_model::metric::{CONN_IN_UNREAD, LISTEN_QUEUE, LOOK_THREADS, UNIX_QUEUE};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "thread-pool-exhausted",
    layer: Layer::Upstream,
    title: "thread pool exhausted",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("thread_pool_exhausted.rs"),
};

/// Requests under way per thread below which the threads do something else. A guess: three threads on a machine that
/// others load showed 0.5, 40 threads before one lock 0.03.
const AT_WORK: f64 = 0.25;
/// Share of the requests in flight whose connection nobody accepts, from which workers are short. A guess.
const NOT_ACCEPTED: f64 = 0.3;
/// Share of the threads that wait in calls, from which none is free. A guess: a pool of four that was all in use showed 0.97.
const ALL_IN_CALLS: f64 = 0.7;
const WORK: &str = "requests that each process has at work";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let at_socket = unix_socket(hop);
    if !may_hold_back(hop) && at_socket.is_none() {
        return does_not_apply(hop, "runs no code of the application");
    }
    let Crowd { requests, .. } = match crowd(hop)? {
        Ok(crowd) => crowd,
        Err((fact, border, claim)) => return ruled_out(&fact, border, "guess", &claim),
    };
    let busy = cpus_per_process(hop)?;
    if busy.value >= BUSY_PROCESS {
        return ruled_out(&busy, BUSY_PROCESS, "guess", "its processes are busy");
    }
    if let Some((path, queued)) = &at_socket
        && queued.value >= NOT_ACCEPTED * requests.value
    {
        return in_queue(hop, &requests, queued, &format!("{path} at {}", hop.name)).fires();
    }
    if !may_hold_back(hop) {
        return does_not_apply(hop, "runs no code of the application, and nothing waits at its unix sockets");
    }
    if let Ok(queued) = hop.summary(&LISTEN_QUEUE)
        && queued.value >= NOT_ACCEPTED * requests.value
    {
        return not_accepted(hop, &requests, &queued);
    }
    if !runs_code(hop) {
        return does_not_apply(hop, "passes requests on, and accepts its connections");
    }
    let mut silent = None;
    for callee in hop.callees() {
        let held = held(hop, &callee)?;
        let Some((threads, what)) = threads_with_connections(hop, held.value)? else {
            silent =
                Some(ruled_out(&held, 0.0, "plain fact", "its threads and its connections are not the same in number"));
            continue;
        };
        let rest = Fact { name: format!("requests / {what}"), ..ratio(&requests, &held) };
        let work = hop.fact("requests under way at what it calls", "", under_way);
        let blocked = blocked_share(&callee).unwrap_or(0.0);
        if rest.value < CROWD || work.as_ref().is_ok_and(|w| w.value < AT_WORK * threads.value) || blocked >= BLOCKED {
            let claim =
                "its threads are enough, or wait for something else than an answer, or are held up in the database";
            silent = Some(ruled_out(work.as_ref().unwrap_or(&rest), AT_WORK * threads.value, "guess", claim));
            continue;
        }
        let share = (1.0 - threads.value / requests.value).clamp(0.0, 1.0);
        let claim = format!(
            "{:.0} requests share {:.0} {what} of {}, each with its connection to {}",
            requests.value, threads.value, hop.name, callee.name
        );
        return fires(hop, &rest, CROWD, &claim, share);
    }
    silent.unwrap_or_else(|| own_work(hop, &requests))
}

/// Threads of a server that calls nobody: several requests are at work, and the others lie unread.
fn own_work(hop: &Hop<'_>, requests: &Fact) -> Result<Judgement, Gap> {
    let unread = hop.summary(&CONN_IN_UNREAD)?;
    let border = unread_border(hop, requests);
    if unread.value < border {
        return match read_and_handed_on(hop)? {
            Some(finding) => finding.fires(),
            None => ruled_out(&unread, border, "guess", "it calls nobody, and requests are read as they come"),
        };
    }
    let at_work = at_work(hop)?;
    if at_work.value <= ONE_AT_A_TIME || hop.is_single_threaded() {
        return ruled_out(&at_work, ONE_AT_A_TIME, "guess", "it does one thing at a time, or has no threads but one");
    }
    let share = (unread.value / requests.value).min(1.0);
    let claim = format!(
        "{:.0} of {:.0} requests lie unread at {}, which is idle and has {:.0} at work",
        unread.value, requests.value, hop.name, at_work.value
    );
    fires(hop, &unread, border, &claim, share)
}

/// Threads to which a loop hands on the requests that it reads: all of them wait in calls, and the other requests wait for one.
fn read_and_handed_on(hop: &Hop<'_>) -> Result<Option<Finding>, Gap> {
    let Some(in_calls) = hop.threads_in_calls().filter(|threads| *threads >= SEVERAL) else { return Ok(None) };
    let Some(threads) = further_threads(hop)? else { return Ok(None) };
    let inside = requests_held(hop)?;
    let share = (1.0 - threads.value / inside.value.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    if in_calls < ALL_IN_CALLS * threads.value || inside.value < CROWD * threads.value {
        return Ok(None);
    }
    let claim = format!(
        "{:.0} requests were read at {} and wait for one of its {:.0} threads, all of which wait in calls",
        inside.value, hop.name, threads.value
    );
    Ok(Some(
        finding(hop, &inside, CROWD * threads.value, &claim, share).and(Ok(threads), "its threads beside the first"),
    ))
}

/// Requests in the accept queue wait for workers, or for a loop that is blocked.
fn not_accepted(hop: &Hop<'_>, requests: &Fact, queued: &Fact) -> Result<Judgement, Gap> {
    let work = at_work(hop);
    if let Ok(work) = &work
        && work.value <= ONE_AT_A_TIME
        && has_accepted_more(hop, requests)
    {
        let claim =
            "it has accepted more connections than it works on and does one thing at a time, as a blocked loop does";
        return ruled_out(work, ONE_AT_A_TIME, "guess", claim);
    }
    in_queue(hop, requests, queued, hop.name).and(work, WORK).fires()
}

/// Requests wait in the accept queue of this place.
fn in_queue(hop: &Hop<'_>, requests: &Fact, queued: &Fact, place: &str) -> Finding {
    let claim = format!(
        "{:.0} of {:.0} requests wait in the accept queue of {place}, whose workers are idle but not free",
        queued.value, requests.value
    );
    finding(hop, queued, NOT_ACCEPTED * requests.value, &claim, (queued.value / requests.value).min(1.0))
}

/// The unix socket at which the most connections wait to be accepted.
fn unix_socket<'a>(hop: &Hop<'a>) -> Option<(&'a str, Fact)> {
    let at = hop.at(Level::At).ok()?;
    let waiting = |path: &&str| at.one(&UNIX_QUEUE, path).unwrap_or(0.0);
    let path = hop.items(&UNIX_QUEUE).into_iter().max_by(|a, b| waiting(a).total_cmp(&waiting(b)))?;
    Some((path, hop.fact(format!("unix.queue of {path}"), "", |r| r.one(&UNIX_QUEUE, path)).ok()?))
}

fn fires(hop: &Hop<'_>, key: &Fact, border: f64, claim: &str, share: f64) -> Result<Judgement, Gap> {
    finding(hop, key, border, claim, share).and(at_work(hop), WORK).fires()
}

fn finding(hop: &Hop<'_>, key: &Fact, border: f64, claim: &str, share: f64) -> Finding {
    let waits = hop.items(&LOOK_THREADS);
    let most =
        waits.iter().filter_map(|f| Some((*f, hop.look(&LOOK_THREADS, f).ok()?))).max_by(|a, b| a.1.total_cmp(&b.1));
    let most = most.map(|(function, count)| Fact::across_levels(hop, &format!("look.threads {function}"), count));
    let mut finding = Finding::new(key.clone(), border, "guess", claim, share)
        .and(
            most.ok_or_else(|| Gap::new(LOOK_THREADS.name, hop.name, "no close look")),
            "where most of its threads wait",
        )
        .mend("more threads or processes, or calls that do not block them", None)
        .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
        .rising(Ok(key.clone()))
        .tested_by(Dose::Queue);
    finding.adds_up = true;
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Lab, score};
    use prony_model::Software;
    use prony_model::metric::{
        CONN_IN, CONN_IN_BUSY, CONN_IN_UNACCEPTED, CONN_OUT, CONN_OUT_WAITING, LOOK_WAIT, PROC_THREADS,
    };
    use proptest::prelude::*;

    /// Threads with a connection each, beside the first thread.
    fn lab(threads: f64) -> Lab {
        let lab =
            Lab::chain().queueing(600.0).held(threads).sessions([0.8, 0.9 * threads, 0.9 * threads], "Timeout:PgSleep");
        lab.gauge("app", &PROC_THREADS, "101", threads + 1.0).gauge("app", &LOOK_THREADS, "do_sys_poll", 0.8 * threads)
    }

    #[test]
    fn fires_silent_border() {
        let found = testing::finding(CAUSE.id, "app", &lab(3.0)).unwrap();
        assert!((found.score - 61.0 / 64.0).abs() < 0.001, "{}", found.score);
        assert_eq!(score(CAUSE.id, "app", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "db", &lab(3.0)), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(43.0)), 0.0, "border");
        assert!(score(CAUSE.id, "app", &lab(42.0)) > 0.0, "border");
    }

    #[test]
    fn what_looks_alike_is_something_else() {
        let silent = |lab: Lab, why: &str| assert_eq!(score(CAUSE.id, "app", &lab), 0.0, "{why}");
        silent(lab(8.0).gauge("app", &PROC_THREADS, "101", 1.0), "one thread: a pool of connections");
        silent(lab(8.0).gauge("app", &PROC_THREADS, "101", 200.0), "many more threads than connections");
        silent(lab(8.0).sessions([0.3, 0.8, 0.8], "running"), "threads before a lock of their own");
        silent(lab(8.0).sessions([0.3, 8.0, 8.0], "Lock:transactionid"), "locks in the database");
        silent(lab(8.0).own("app", 0.8), "busy");
    }

    #[test]
    fn workers_that_do_not_accept_are_short_too() {
        let queue =
            |n: f64| lab(8.0).gauge("app", &PROC_THREADS, "101", 1.0).gauge("app", &LISTEN_QUEUE, "0.0.0.0:80", n);
        assert!(score(CAUSE.id, "app", &queue(40.0)) > 0.6);
        assert_eq!(score(CAUSE.id, "app", &queue(10.0)), 0.0);
        let unread = |lab: Lab| lab.levels("app", &CONN_IN_UNREAD, "80", [0.2, 50.0, 100.0]);
        let one_at_a_time =
            lab(1.0).gauge("app", &PROC_THREADS, "101", 1.0).gauge("app", &LISTEN_QUEUE, "0.0.0.0:80", 40.0);
        assert!(score(CAUSE.id, "app", &one_at_a_time) > 0.6, "a worker that has one connection at a time");
        assert_eq!(score(CAUSE.id, "app", &unread(one_at_a_time)), 0.0, "a loop that is blocked");
        assert!(score(CAUSE.id, "app", &unread(queue(40.0))) > 0.6, "several at work");
        let asleep =
            lab(1.0).gauge("app", &PROC_THREADS, "101", 1.0).gauge("app", &LOOK_WAIT, "hrtimer_nanosleep", 0.9);
        let asleep = asleep.gauge("app", &CONN_IN_BUSY, "80", 69.0).gauge("app", &LISTEN_QUEUE, "0.0.0.0:80", 61.0);
        let asleep = asleep.levels("app", &CONN_IN_UNREAD, "80", [0.0, 0.0, 0.0]);
        let accepted = |n: f64| {
            let lab = Lab::clone(&asleep).gauge("app", &CONN_IN, "80", 61.0 + n);
            lab.gauge("app", &CONN_IN_UNACCEPTED, "80", 61.0)
        };
        let queued = accepted(1.0);
        assert_eq!(
            score("event-loop-blocked", "app", &queued),
            0.0,
            "what it has not accepted does not wait for a loop"
        );
        assert!(score(CAUSE.id, "app", &queued) > 0.9);
        assert!(score("event-loop-blocked", "app", &accepted(30.0)) > 0.9, "a loop has accepted many");
        assert_eq!(score(CAUSE.id, "app", &accepted(30.0)), 0.0);
    }

    #[test]
    fn a_proxy_with_a_process_per_connection_is_short_of_them() {
        let proxy = |software: Option<Software>| {
            let lab = Lab::chain().queueing(400.0).gauge("gw", &LISTEN_QUEUE, "0.0.0.0:80", 60.0);
            let lab = lab.gauge("gw", &CONN_IN_UNREAD, "80", 0.0);
            let mut lab = lab.gauge("gw", &CONN_IN, "80", 64.0).gauge("gw", &CONN_IN_UNACCEPTED, "80", 60.0);
            lab.stack.host.get_mut("gw").unwrap().software = software;
            lab
        };
        assert!(score(CAUSE.id, "gw", &proxy(None)) > 0.9);
        assert_eq!(
            score(CAUSE.id, "gw", &proxy(Some(Software::Nginx))),
            0.0,
            "its worker_connections are another cause"
        );
    }

    #[test]
    fn workers_behind_a_unix_socket_of_the_same_host_are_short() {
        let web = |n: f64| {
            let mut lab = lab(1.0).levels("app", &UNIX_QUEUE, "/run/php.sock", [0.0, n, 2.0 * n]);
            lab.stack.host.get_mut("app").unwrap().software = Some(Software::Nginx);
            lab.gauge("app", &UNIX_QUEUE, "/run/other.sock", 0.0)
        };
        let found = testing::finding(CAUSE.id, "app", &web(61.0)).unwrap();
        assert!((found.score - 61.0 / 64.0).abs() < 0.01, "{}", found.score);
        assert!(found.summary.contains("the accept queue of /run/php.sock at app"), "{}", found.summary);
        assert_eq!(score(CAUSE.id, "app", &web(19.0)), 0.0, "border");
        assert!(score(CAUSE.id, "app", &web(20.0)) > 0.0, "border");
    }

    /// A server that calls nobody, with so many requests read and so many unread.
    fn server(read: f64, unread: f64) -> Lab {
        let lab = Lab::chain().queueing(600.0).without("app", &CONN_OUT).without("app", &CONN_OUT_WAITING);
        let mut lab = lab.gauge("app", &CONN_IN_BUSY, "80", read + unread).levels(
            "app",
            &CONN_IN_UNREAD,
            "80",
            [0.2, unread, 2.0 * unread],
        );
        lab.stack.host.get_mut("app").unwrap().calls.clear();
        lab
    }

    #[test]
    fn a_loop_that_hands_requests_on_to_threads_has_read_them_all() {
        let pool = |threads: f64, in_calls: f64| {
            let lab = server(62.0, 0.0).gauge("app", &PROC_THREADS, "101", threads + 1.0);
            lab.gauge("app", &LOOK_WAIT, "ep_poll", 0.75).gauge("app", &LOOK_THREADS, "hrtimer_nanosleep", in_calls)
        };
        let found = testing::finding(CAUSE.id, "app", &pool(4.0, 3.9)).unwrap();
        assert!((found.score - 58.0 / 62.0).abs() < 0.01, "{}", found.score);
        assert!(found.summary.contains("one of its 4 threads"), "{}", found.summary);
        assert_eq!(score(CAUSE.id, "app", &pool(4.0, 2.5)), 0.0, "threads are free");
        assert_eq!(score(CAUSE.id, "app", &pool(60.0, 58.0)), 0.0, "there is one for each");
    }

    #[test]
    fn a_server_that_calls_nobody_has_unread_requests() {
        let threads = |at_work: f64, unread: f64| server(at_work, unread).gauge("app", &PROC_THREADS, "101", 5.0);
        let found = testing::finding(CAUSE.id, "app", &threads(3.0, 56.0)).unwrap();
        assert!((found.score - 56.0 / 64.0).abs() < 0.01, "{}", found.score);
        assert!(found.summary.contains("has 3 at work"), "{}", found.summary);
        assert_eq!(score("event-loop-blocked", "app", &threads(3.0, 56.0)), 0.0);
        assert_eq!(score(CAUSE.id, "app", &threads(1.0, 56.0)), 0.0, "one thread: its loop is blocked");
        assert!(score("event-loop-blocked", "app", &server(1.0, 56.0)) > 0.8);
        assert_eq!(score(CAUSE.id, "app", &threads(40.0, 15.0)), 0.0, "most are at work");
        let loops = threads(3.0, 56.0).gauge("app", &PROC_THREADS, "101", 1.0);
        assert_eq!(score(CAUSE.id, "app", &loops), 0.0, "a loop without threads");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn fewer_threads_never_score_less(a in 2u32..60, b in 2u32..60) {
            let with = |threads: u32| score(CAUSE.id, "app", &lab(f64::from(threads)));
            prop_assert!(with(a.max(b)) <= with(a.min(b)) + 1e-9);
        }
    }
}
