//! # Too few workers
//!
//! Every worker is at its limit of one CPU, while other CPUs that the hop may use are idle.
//!
//! ## What it sees
//! Share of time that each worker runs, stands in the run queue or is stopped by packet work; and the idle share of the
//! CPUs that the hop may use.
//!
//! ## Why it limits
//! A single-threaded worker cannot use more than one CPU.
//!
//! ## Evidence
//! The idle share of the hop's CPUs is capacity that more workers could use: the score.
//!
//! ## What it is not
//! A process of several threads that share the work. Workers that sleep: then they wait for something else. A hop that is
//! pinned to the CPUs it fills: an honest limit.
//!
//! ## Fix
//! Knob `nginx.worker_processes`: one for each CPU that the hop may use.
//!
//! ## References
//! nginx `ngx_core_module`, directive `worker_processes`.

use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, concurrency_elasticity, gain_of_share, gain_until_next_limit, knob,
    ruled_out,
};
use crate::facts::Hop;
use prony_model::metric::{LOOK_RUNNING, PROC_RUN, PROC_THREADS};
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

/// On-CPU share from which a worker is at its limit. A guess: a planted case shows 0.98, a healthy proxy at its limit
/// 0.91 to 0.97.
const FULL_WORKER: f64 = 0.85;
/// CPUs that a process takes with one busy thread, and little beside it. A guess.
const ONE_THREAD: f64 = 1.1;
/// Elasticity of throughput to connections above which workers are not at their limit. A guess.
const GROWS: f64 = 0.4;
/// Idle share of the hop's CPUs that makes another worker worth it. A guess.
const IDLE_SHARE: f64 = 0.1;

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
    let at = hop.at(Level::At)?;
    let idle = hop.fact("idle share of the hop's CPUs", "share", |r| Ok(1.0 - r.cpu()?.busy_share()))?;
    let (workers, cpus) = (hop.workers().len(), hop.cpus()?.len());
    let threads: f64 = hop.workers().iter().filter_map(|pid| at.one(&PROC_THREADS, pid).ok()).sum();
    let has_more_threads = threads > workers as f64 + 0.5 && !runs_one_thread_each(hop)?;
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
        .mend("as many workers as CPUs that the hop may use", knob(hop, KnobId::NginxWorkerProcesses, cpus.to_string()))
        .gaining(Some(gain_of_share(share, gain_until_next_limit(hop))))
        .rising(Ok(least))
        .fires()
}

/// Whether each worker is the one thread that it began with, always running, and the others hardly help it: as Node, whose own few threads
/// serve no requests.
fn runs_one_thread_each(hop: &Hop<'_>) -> Result<bool, Gap> {
    let at = hop.at(Level::At)?;
    let is_one = |pid: &&str| {
        let always_runs = hop.look(&LOOK_RUNNING, pid).is_ok_and(|share| share >= FULL_WORKER);
        always_runs && at.one(&PROC_RUN, pid).is_ok_and(|cpus| cpus <= ONE_THREAD)
    };
    Ok(hop.workers().iter().all(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
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
        assert_eq!(threads(1.0, 1.3), 0.0, "more than one runs");
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
