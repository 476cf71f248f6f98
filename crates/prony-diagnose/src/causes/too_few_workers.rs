//! # Too few workers
//!
//! Every worker is at its limit of one CPU, while other CPUs that the hop may use are idle. A worker may be a process of one thread, or of
//! many of which one does the work, or which run one at a time.
//!
//! ## What it sees
//! Share of time that each worker runs, stands in the run queue or is stopped by packet work; and the idle share of the
//! CPUs that the hop may use. Of processes with several threads: how much the busiest of them runs.
//!
//! ## Why it limits
//! A single-threaded worker cannot use more than one CPU; neither can threads before one lock of their language (Python), threads that may
//! use one CPU (`GOMAXPROCS=1`), or requests that all need the one thread of a pool (`UV_THREADPOOL_SIZE=1`).
//!
//! ## Evidence
//! The idle share of the hop's CPUs is capacity that more workers could use: the score.
//!
//! ## What it is not
//! A process of several threads that share the work. Workers that sleep: then they wait for something else. A hop that is
//! pinned to the CPUs it fills: an honest limit. A quota of CPU time. Workers that are busy and keep nobody waiting: requests stay
//! elsewhere.
//!
//! ## Fix
//! Knob `nginx.worker_processes`: one for each CPU that the hop may use. Of an application: more processes, or more threads in the pool
//! that is full.
//!
//! ## References
//! nginx `ngx_core_module`, directive `worker_processes`.

use super::cpu_quota_throttled::stopped_by_quota;
use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, concurrency_elasticity, gain_of_share, gain_until_next_limit,
    nginx_knob, ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::host_facts::FULL_WORKER;
use prony_model::metric::{PROC_THREADS, TCP_PASSIVE_OPENS};
use prony_model::{Gap, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "too-few-workers",
    layer: Layer::Cpu,
    title: "too few workers",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("too_few_workers.rs"),
};

/// Elasticity of throughput to connections above which workers are not at their limit. A guess.
const GROWS: f64 = 0.4;
/// Idle share of the hop's CPUs that makes another worker worth it. A guess.
const IDLE_SHARE: f64 = 0.1;
/// Share of the response time at the hop and its siblings, below which requests do not queue for its workers. A guess: what limits holds
/// most of what is in flight, and of two that limit together each holds its part.
const STAYS: f64 = 0.2;
/// Connections that come to the hop per request, from which a wait for its workers is also one to be accepted, which is time of the
/// caller. A guess.
const COMES_ANEW: f64 = 0.2;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let least = hop.fact("load of the least busy worker", "share", |r| {
        Ok(r.worker_loads()?.into_iter().fold(f64::INFINITY, f64::min))
    })?;
    if least.value < FULL_WORKER {
        return ruled_out(&least, FULL_WORKER, "guess", "a worker has time left");
    }
    if concurrency_elasticity(hop).is_some_and(|e| e > GROWS) {
        return ruled_out(&least, FULL_WORKER, "guess", "throughput still grows with connections");
    }
    if let Some(stays) = stays(hop).filter(|stays| stays.value < STAYS) {
        return ruled_out(
            &stays,
            STAYS,
            "guess",
            "hardly any of the time of a request is spent there, so none queue for it",
        );
    }
    let at = hop.at(Level::At)?;
    let idle = hop.fact("idle share of the hop's CPUs", "share", |r| Ok(1.0 - r.cpu()?.busy_share()))?;
    let (workers, cpus) = (hop.workers().len(), hop.cpus()?.len());
    let threads: f64 = hop.workers().iter().filter_map(|pid| at.one(&PROC_THREADS, pid).ok()).sum();
    let has_more_threads = threads > workers as f64 + 0.5 && !has_no_use_for_more(hop);
    if workers >= cpus || has_more_threads || idle.value < IDLE_SHARE {
        return ruled_out(&idle, IDLE_SHARE, "guess", "there is no idle CPU that another worker could use");
    }
    let share = idle.value;
    let claim = format!(
        "{workers} worker(s) of {} are at their limit, and its {cpus} CPUs are {:.0} % idle",
        hop.name,
        share * 100.0
    );
    Finding::new(idle, IDLE_SHARE, "guess", &claim, share)
        .and(Ok(least.clone()), "each worker is at its limit")
        .mend(
            "as many workers as CPUs that the hop may use",
            nginx_knob(hop, KnobId::NginxWorkerProcesses, cpus.to_string()),
        )
        .gaining(Some(gain_of_share(share, gain_until_next_limit(hop))))
        .rising(Ok(least))
        .fires()
}

/// Share of the response time that requests stay at the hop and its siblings; none where it was not seen, or not all of it is theirs.
fn stays(hop: &Hop<'_>) -> Option<Fact> {
    let at_one = |sibling: Hop<'_>| Some(sibling.held().ok()?.share);
    let share: f64 = hop.siblings().into_iter().map(at_one).sum::<Option<f64>>()?;
    hop.per_request(&TCP_PASSIVE_OPENS).ok().filter(|anew| anew.value < COMES_ANEW)?;
    Some(Fact { unit: "share", ..Fact::across_levels(hop, "share of the response time spent there", share) })
}

/// Whether each worker has work for one CPU only, and nothing from outside keeps it to that.
fn has_no_use_for_more(hop: &Hop<'_>) -> bool {
    hop.has_work_for_one_cpu_each() && hop.worker_cpus().len() != 1 && stopped_by_quota(hop).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{
        CGROUP_THROTTLED_TIME, LOOK_ANY_THREAD, LOOK_BUSIEST_THREAD, LOOK_RUNNING, PROC_AFFINITY, SPLIT_CALLS,
        SPLIT_CALLS_TIMED, SPLIT_REQUESTS, SPLIT_RESIDENCE, SPLIT_TIMED, SPLIT_UPSTREAM,
    };
    use proptest::prelude::*;

    /// One worker at 98 %, CPU 1 idle by 82 %.
    fn lab(busy1: f64, worker: f64) -> Lab {
        let mut lab =
            Lab::healthy().throughput(2_094.0).cpu("0", 0.6, 0.25, 0.14).cpu("1", busy1, 0.0, 0.0).own("lb", worker);
        lab.stack.host.get_mut("lb").unwrap().cpus = "0-1".parse().ok();
        lab
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(0.18, 0.97)).unwrap();
        assert!((found.score - 0.415).abs() < 0.001, "{}", found.score);
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().value, "2");
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy().own("lb", 0.97)), 0.0, "pinned to one CPU");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.18, 0.6)), 0.0, "the worker has time");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.9, 0.97)), 0.0, "no idle CPU");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.18, 0.97).worker("lb", "102", 0.97)), 0.0, "enough workers");
        let threads = |runs: f64, cpus: f64| {
            let lab = lab(0.18, cpus).gauge("lb", &PROC_THREADS, "101", 7.0);
            score(CAUSE.id, "lb", &lab.gauge("lb", &LOOK_RUNNING, "101", runs))
        };
        assert!(threads(1.0, 0.97) > 0.0, "one busy thread of seven");
        assert_eq!(threads(0.2, 0.97), 0.0, "seven that share the work");
        let in_turn = |some: f64| {
            let lab = lab(0.18, 0.97).gauge("lb", &PROC_THREADS, "101", 7.0).gauge("lb", &LOOK_RUNNING, "101", 0.2);
            score(CAUSE.id, "lb", &lab.gauge("lb", &LOOK_ANY_THREAD, "101", some))
        };
        assert!(in_turn(0.97) > 0.0, "seven that run one at a time");
        assert_eq!(in_turn(0.7), 0.0, "sometimes none, and sometimes two");
        let pool = |busiest: f64| {
            let lab = lab(0.18, 1.4).gauge("lb", &PROC_THREADS, "101", 7.0).gauge("lb", &LOOK_RUNNING, "101", 0.3);
            lab.gauge("lb", &LOOK_BUSIEST_THREAD, "101", busiest)
        };
        assert!(score(CAUSE.id, "lb", &pool(0.98)) > 0.0, "a pool of one thread is full");
        assert_eq!(score(CAUSE.id, "lb", &pool(0.3)), 0.0, "seven that share the work");
        let bound = pool(0.98).without("lb", &PROC_AFFINITY).gauge("lb", &PROC_AFFINITY, "101 0", 1.0);
        assert_eq!(score(CAUSE.id, "lb", &bound), 0.0, "it is bound to one");
        let quota = pool(0.98).per_second("lb", &CGROUP_THROTTLED_TIME, "", 0.3);
        assert_eq!(score(CAUSE.id, "lb", &quota), 0.0, "a quota keeps it to one CPU");
        assert_eq!(threads(0.2, 1.3), 0.0, "more than one runs");
        assert!(threads(1.0, 1.3) > 0.0, "one always runs, and others help it");
    }

    #[test]
    fn workers_that_keep_nobody_waiting_are_none_too_few() {
        let timed = |upstream_us: f64| {
            let peer = "10.77.0.11:80";
            let came = lab(0.18, 0.97).gauge("lb", &SPLIT_REQUESTS, "80", 2_094.0).gauge("lb", &SPLIT_TIMED, "80", 1.0);
            let called = came.gauge("lb", &SPLIT_CALLS, peer, 2_094.0).gauge("lb", &SPLIT_CALLS_TIMED, peer, 1.0);
            called.gauge("lb", &SPLIT_RESIDENCE, "80", 30_000.0).gauge("lb", &SPLIT_UPSTREAM, peer, upstream_us)
        };
        assert!(score(CAUSE.id, "lb", &timed(23_700.0)) > 0.0, "border: 0.21 of the time");
        assert_eq!(score(CAUSE.id, "lb", &timed(24_300.0)), 0.0, "border: 0.19");
        let anew = timed(24_300.0).per_second("lb", &TCP_PASSIVE_OPENS, "", 2_094.0);
        assert!(score(CAUSE.id, "lb", &anew) > 0.0, "who comes anew may wait to be accepted");
        let of_two = |residence_us: f64| {
            let mut lab = timed(20_000.0).gauge("lb", &SPLIT_CALLS, "10.77.0.11:80", 1_047.0);
            lab = lab.gauge("lb", &SPLIT_CALLS, "10.77.0.12:80", 1_047.0);
            for server in ["s1", "s2"] {
                lab.stack.host.get_mut(server).unwrap().cpus = "0-1".parse().ok();
                lab = lab.own(server, 0.97).gauge(server, &SPLIT_REQUESTS, "80", 1_047.0);
                lab = lab.gauge(server, &SPLIT_TIMED, "80", 1.0).gauge(server, &SPLIT_RESIDENCE, "80", residence_us);
            }
            score(CAUSE.id, "s1", &lab)
        };
        assert!(of_two(6_500.0) > 0.0, "0.22 of the time at both of them");
        assert_eq!(of_two(5_500.0), 0.0, "0.18");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn more_idle_never_scores_less(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            let (less, more) = (lab(a.max(b), 0.97), lab(a.min(b), 0.97));
            prop_assert!(score(CAUSE.id, "lb", &less) <= score(CAUSE.id, "lb", &more) + 1e-9);
        }
    }
}
