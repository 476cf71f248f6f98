//! # Connection pool exhausted
//!
//! The application, or a pool of connections before the database (PgBouncer), keeps too few connections to what it calls: requests wait
//! inside it for one to come free.
//!
//! ## What it sees
//! Connections from the application to each host that it calls, requests in flight, and whether either grows when twice
//! as many clients ask; sessions in use as the database tells them.
//!
//! ## Why it limits
//! With C connections, each in use for a time T per request, no more than C / T requests per second pass.
//!
//! ## Evidence
//! The share of the requests in flight that cannot have a connection. The number of connections stays the same at every
//! load, throughput stands still, and no CPU of the application or of what it calls is full.
//!
//! ## What it is not
//! A database that is slow: its CPUs are full, or its sessions wait for locks or for the disk. An event loop that is
//! blocked: then requests lie unread. A pool of threads: then each connection belongs to one of them, which waits in a call
//! for its answer. Connections that rest. Without the database's own word, a wait for locks behind a full pool looks the same;
//! then the verdict says so and is not sure.
//!
//! ## Fix
//! A larger pool, up to what the database can serve at once; shorter use of each connection.
//!
//! ## References
//! Little's law; PostgreSQL, `max_connections`.

use super::event_loop_blocked::under_way;
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::sessions::{self, BLOCKED, Crowd, blocked_share, crowd, held, in_use_all_along, is_proxy, may_hold_back};
use prony_model::metric::{CONN_OUT_WAITING, PROC_THREADS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "connection-pool-exhausted",
    layer: Layer::Upstream,
    title: "connection pool exhausted",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("connection_pool_exhausted.rs"),
};

/// Requests in flight per connection from which they wait for connections. A guess: below, the wait is shorter than
/// half of the use.
pub(super) const CROWD: f64 = 1.5;
/// Growth of the connections with twice the clients from which they are not a fixed number. A guess.
const GROWS: f64 = 1.2;
/// Share of the connections in use below which they rest. A guess: a pool of two on a machine that others load was in
/// use by 0.5 to 0.8, and 40 connections before a lock in the application by 0.03.
const IN_USE: f64 = 0.25;
/// The same where calls were timed at their sockets, to the microsecond: what the pool itself takes to hand a connection on is
/// all that it rests. A guess.
const IN_USE_TIMED: f64 = 0.5;
/// Threads in calls for each answer that is awaited, below which threads do not wait for them. A guess: threads of a blocking driver show
/// 1, Go before a pool of two showed 0.1 to 0.5.
const IN_CALLS: f64 = 0.6;
/// Share of the requests in flight that lie unread, from which the application does not even look at them. A guess: a
/// blocked loop showed 0.84, a pool of two 0.00.
pub(super) const UNREAD: f64 = 0.3;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !may_hold_back(hop) || hop.callees().is_empty() {
        return does_not_apply(hop, "has no pool of connections: it calls nobody, or keeps none back");
    }
    let Crowd { requests, unread } = match crowd(hop)? {
        Ok(crowd) => crowd,
        Err((fact, border, claim)) => return ruled_out(&fact, border, "guess", &claim),
    };
    // What a pool as a proxy cannot pass on, it leaves unread.
    if !is_proxy(hop) && unread.value >= UNREAD * requests.value {
        return ruled_out(
            &unread,
            UNREAD * requests.value,
            "guess",
            "requests lie unread: it does not come to asking for a connection",
        );
    }
    let mut silent = None;
    for callee in hop.callees() {
        match pool(hop, &callee, &requests)? {
            Judgement::Fires(finding) => return Ok(Judgement::Fires(finding)),
            Judgement::Silent(evidence) => silent = Some(Judgement::Silent(evidence)),
        }
    }
    silent.ok_or_else(|| Gap::new("conn.out", hop.name, "no connection to what it calls was read"))
}

fn pool(hop: &Hop<'_>, callee: &Hop<'_>, requests: &Fact) -> Result<Judgement, Gap> {
    let held = held(hop, callee)?;
    let rest = Fact { name: format!("requests / connection to {}", callee.name), ..ratio(requests, &held) };
    if held.value < 0.5 || rest.value < CROWD {
        return ruled_out(&rest, CROWD, "guess", "there is a connection for nearly every request");
    }
    if held.beyond.is_some_and(|beyond| beyond > GROWS * held.value) {
        return ruled_out(&held, GROWS * held.value, "guess", "more requests at once open more connections");
    }
    if let Some((further, _)) = threads_with_connections(hop, held.value)? {
        return ruled_out(&further, held.value, "guess", "each connection belongs to a thread or a process");
    }
    let (used, border) = used(hop, callee, &held)?;
    if used.value < border {
        return ruled_out(&used, border, "guess", "its connections rest most of the time");
    }
    if let Some(blocked) = blocked_share(callee).filter(|b| *b >= BLOCKED) {
        let blocked =
            Fact::across_levels(callee, "share of the sessions in use that wait for locks or the disk", blocked);
        return ruled_out(&blocked, BLOCKED, "guess", "its connections are held up in the database");
    }
    let share = (1.0 - held.value / requests.value).clamp(0.0, 1.0);
    let few = if held.value < 1.5 { "one connection".to_string() } else { format!("{:.0} connections", held.value) };
    let claim =
        format!("{:.0} requests share {few} to {}, and more of them are not opened", requests.value, callee.name);
    Finding::new(rest.clone(), CROWD, "guess", &claim, share)
        .and(Ok(held), "connections, the same at every load")
        .and(Ok(used), "of which so many are in use")
        .and(hop.fact("requests not yet read", "", sessions::unread), "requests are read, so they wait inside")
        .mend("a larger pool of connections, up to what the database serves at once; give each back sooner", None)
        .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
        .rising(Ok(rest))
        .tested_by(Dose::Queue)
        .beside_unseen(told(callee).is_err().then_some("sessions that wait for locks or the disk in the database"))
        .fires()
}

/// Connections to a callee that are in use, and the number below which they rest.
pub(super) fn used(hop: &Hop<'_>, callee: &Hop<'_>, held: &Fact) -> Result<(Fact, f64), Gap> {
    if let Ok(told) = told(callee) {
        return Ok((told, IN_USE * held.value));
    }
    if let Ok(timed) = hop.calls_in_flight(callee) {
        return Ok((timed, IN_USE_TIMED * held.value));
    }
    let waiting = hop.fact("connections that await an answer", "", |r| r.towards(&CONN_OUT_WAITING, callee))?;
    Ok((waiting, IN_USE * held.value))
}

fn told(callee: &Hop<'_>) -> Result<Fact, Gap> {
    callee.fact("sessions in use", "", in_use_all_along)
}

/// One fact over another at each level.
pub(super) fn ratio(a: &Fact, b: &Fact) -> Fact {
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    Fact {
        value: a.value / b.value.max(f64::MIN_POSITIVE),
        baseline: over(a.baseline, b.baseline),
        beyond: over(a.beyond, b.beyond),
        unit: "",
        ..a.clone()
    }
}

/// Threads beside the first of each process, or processes where each has one thread, when there are about as many as
/// connections: then each has its own. With what they are called.
pub(super) fn threads_with_connections(hop: &Hop<'_>, held: f64) -> Result<Option<(Fact, &'static str)>, Gap> {
    let workers = hop.workers().len() as f64;
    let further = further_threads(hop)?;
    if let (Some(_), Some(in_calls)) = (&further, hop.threads_in_calls()) {
        // Answers for which no thread waits in a call are awaited by a loop, whatever threads there are.
        let awaited = hop.at(Level::At).and_then(|at| under_way(&at)).unwrap_or(0.0);
        if in_calls < IN_CALLS * awaited {
            return Ok(None);
        }
    }
    let (fact, what) = match further {
        Some(further) => (further, "threads"),
        None => (Fact::across_levels(hop, "processes that serve", workers), "processes"),
    };
    // A thread may hold none yet, and a process may open one or two more for itself. A guess.
    let alike = fact.value >= 2.0 && held >= 0.6 * fact.value - 1.0 && held <= 1.3 * fact.value + 1.0;
    Ok(alike.then_some((fact, what)))
}

/// Threads beside the first of each process; none where there are none.
pub(super) fn further_threads(hop: &Hop<'_>) -> Result<Option<Fact>, Gap> {
    let workers = hop.workers();
    let at = hop.at(Level::At)?;
    let threads: f64 = workers.iter().filter_map(|pid| at.one(&PROC_THREADS, pid).ok()).sum();
    let further = threads - workers.len() as f64;
    Ok((further >= 0.5).then(|| Fact::across_levels(hop, "threads that serve", further)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{
        CONN_IN_UNREAD, LOOK_THREADS, LOOK_WAIT, PG_ACTIVE_TIME, SPLIT_CALLS, SPLIT_CALLS_TIMED, SPLIT_UPSTREAM,
    };
    use proptest::prelude::*;

    /// 64 requests before two connections; 405 requests/s, CPUs idle.
    fn lab() -> Lab {
        Lab::chain().queueing(405.0).held(2.0).sessions([0.8, 1.7, 1.8], "Timeout:PgSleep")
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "app", &lab()).unwrap();
        assert!((found.score - 62.0 / 64.0).abs() < 0.001, "{}", found.score);
        assert_eq!(found.dose, Dose::Queue);
        assert!(found.summary.starts_with("64 requests share 2 connections to db,"), "{}", found.summary);
        let one = finding(CAUSE.id, "app", &lab().held(1.0)).unwrap().summary;
        assert!(one.starts_with("64 requests share one connection to db,"), "{one}");
        assert_eq!(score(CAUSE.id, "app", &Lab::chain()), 0.0, "the CPU of the application is full");
        assert_eq!(score(CAUSE.id, "gw", &lab()), 0.0, "a proxy has no pool");
        assert_eq!(score(CAUSE.id, "app", &lab().held(43.0)), 0.0, "border: 1.49 requests each");
        assert!(score(CAUSE.id, "app", &lab().held(42.0).sessions([9.0, 40.0, 40.0], "running")) > 0.0, "border: 1.52");
    }

    #[test]
    fn a_rate_that_is_carried_waits_for_a_pool_all_the_same() {
        let at_rate = |ms: f64| Lab { rate: Some(405.0), r_us: [5_000.0, ms * 1e3, ms * 1e3], ..lab() };
        let found = finding(CAUSE.id, "app", &at_rate(20.0)).unwrap();
        assert!((found.score - 0.75).abs() < 0.02, "6 of 8 wait: {}", found.score);
        assert_eq!(score(CAUSE.id, "app", &at_rate(2.0)), 0.0, "fewer than one is in flight");
    }

    #[test]
    fn the_outside_carries_it_and_says_what_it_could_not_see() {
        let outside = |waiting: f64| lab().mute().gauge("app", &CONN_OUT_WAITING, "10.77.0.30:5432", waiting);
        assert_eq!(score(CAUSE.id, "app", &outside(0.4)), 0.0, "connections that rest");
        let found = finding(CAUSE.id, "app", &outside(1.7)).unwrap();
        assert_eq!(found.lookalike, Some("sessions that wait for locks or the disk in the database"));
        assert_eq!(finding(CAUSE.id, "app", &lab()).unwrap().lookalike, None, "the database told");
    }

    #[test]
    fn what_was_timed_goes_before_what_sockets_show() {
        let timed = |upstream_us: f64| {
            let lab = lab().mute().gauge("app", &CONN_OUT_WAITING, "10.77.0.30:5432", 1.7);
            lab.gauge("app", &SPLIT_CALLS, "10.77.0.30:5432", 400.0)
                .gauge("app", &SPLIT_CALLS_TIMED, "10.77.0.30:5432", 1.0)
                .gauge("app", &SPLIT_UPSTREAM, "10.77.0.30:5432", upstream_us)
        };
        assert!(score(CAUSE.id, "app", &timed(4_800.0)) > 0.9, "1.92 of 2 are in use");
        assert_eq!(score(CAUSE.id, "app", &timed(300.0)), 0.0, "answers come at once, so the two are hardly in use");
    }

    #[test]
    fn threads_that_wait_for_work_have_no_connections_of_their_own() {
        let go = |in_calls: f64| {
            let lab = lab().gauge("app", &PROC_THREADS, "101", 4.0).gauge("app", &LOOK_WAIT, "futex_do_wait", 0.7);
            lab.gauge("app", &LOOK_THREADS, "futex_do_wait", 2.7).gauge("app", &LOOK_THREADS, "sk_wait_data", in_calls)
        };
        assert!(score(CAUSE.id, "app", &go(0.2)) > 0.9, "two answers are awaited, and no thread waits for them");
        assert_eq!(score(CAUSE.id, "app", &go(1.7)), 0.0, "three threads, and one waits for each answer");
    }

    #[test]
    fn a_pool_between_the_application_and_the_database() {
        let bouncer = || {
            let mut lab = lab().gauge("app", &CONN_IN_UNREAD, "80", 60.0);
            lab.stack.host.get_mut("app").unwrap().role = prony_model::stack::Role::Proxy;
            lab
        };
        assert!(score(CAUSE.id, "app", &bouncer()) > 0.9, "what it cannot pass on, it leaves unread");
        let mut nginx = bouncer();
        nginx.stack.host.get_mut("app").unwrap().software = Some(prony_model::Software::Nginx);
        assert_eq!(score(CAUSE.id, "app", &nginx), 0.0, "its limits have causes of their own");
    }

    #[test]
    fn what_looks_alike_is_something_else() {
        let silent = |lab: Lab, why: &str| assert_eq!(score(CAUSE.id, "app", &lab), 0.0, "{why}");
        silent(lab().gauge("app", &CONN_IN_UNREAD, "80", 54.0), "a blocked loop");
        silent(lab().gauge("app", &PROC_THREADS, "101", 3.0), "two threads with a connection each");
        silent(lab().held(20.0).sessions([1.0, 19.0, 19.0], "Lock:transactionid"), "locks");
        silent(lab().held(20.0).sessions([1.0, 19.0, 19.0], "IO:WALSync"), "the disk");
        let rest = || lab().held(20.0).sessions([1.0, 1.0, 1.0], "running");
        silent(rest(), "connections that rest");
        let added_up = rest().per_second("db", &PG_ACTIVE_TIME, "", 19.0);
        assert!(score(CAUSE.id, "app", &added_up) > 0.5, "each reading came when they rested");
        silent(Lab { x: [200.0, 405.0, 700.0], ..lab() }, "more requests at once are served");
        silent(
            lab().levels("app", &prony_model::metric::CONN_OUT, "10.77.0.30:5432", [2.0, 2.0, 4.0]),
            "it opens more",
        );
        silent(lab().cpu("1", 0.5, 0.4, 0.1).own("db", 0.8), "the database computes");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn fewer_connections_never_score_less(a in 1.0f64..60.0, b in 1.0f64..60.0) {
            let with = |held: f64| score(CAUSE.id, "app", &lab().held(held).sessions([1.0, held, held], "running"));
            prop_assert!(with(a.max(b)) <= with(a.min(b)) + 1e-9);
        }
    }
}
