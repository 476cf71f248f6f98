//! # Workers misplaced
//!
//! The workers are bound to fewer CPUs than the hop has, and those are full while the others are idle.
//!
//! ## What it sees
//! CPUs that the workers may use (their affinity masks) against the CPUs of the hop; how busy both are; run delay.
//!
//! ## Why it limits
//! Workers wait for the few CPUs that they may use, often those that take the packet work as well.
//!
//! ## Evidence
//! Idle share of the CPUs that the workers may not use, of all CPUs of the hop.
//!
//! ## What it is not
//! Too few workers for the CPUs: then nobody waits in a run queue, and `too-few-workers` stands. CPUs that strangers
//! fill: `run-queue-wait`.
//!
//! ## Fix
//! Knob `cpu_affinity` to all CPUs of the hop; `worker_cpu_affinity auto` of nginx.
//!
//! ## References
//! sched_setaffinity(2); proc(5) Cpus_allowed_list.

use crate::cause::{
    Cause, FLAT, FULL_CPU, FULL_CPU_ORIGIN, FULL_CPU_WHEN_FLAT, Finding, Judgement, Kind, Layer, Scope,
    concurrency_elasticity, gain_of_share, gain_until_next_limit, knob, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{CPU_IDLE, CPU_IOWAIT, PROC_AFFINITY};
use prony_model::{CpuList, Gap, KnobId, Level};
use std::collections::BTreeSet;

pub(super) const CAUSE: Cause = Cause {
    id: "workers-misplaced",
    layer: Layer::Cpu,
    title: "workers misplaced",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("workers_misplaced.rs"),
};

/// Idle share of the hop's CPUs that makes moving worth it. A guess, as for `too-few-workers`.
const IDLE_SHARE: f64 = 0.1;
/// Run delay of the workers, of the time in which they want a CPU, from which they are in each other's way. A guess.
const DELAY: f64 = 0.1;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let (own, may) = (hop.cpus()?, hop.worker_cpus());
    if may.is_empty() {
        return Err(Gap::new(PROC_AFFINITY.name, hop.name, "no affinity mask of a worker was read"));
    }
    let used: BTreeSet<u32> = own.intersection(&may).copied().collect();
    let barred: BTreeSet<u32> = own.difference(&may).copied().collect();
    let idle = hop.fact("idle share of CPUs that the workers may not use", "share", |r| {
        Ok(idle(r, &barred)? / own.len().max(1) as f64)
    })?;
    if barred.is_empty() || used.is_empty() || idle.value < IDLE_SHARE {
        return ruled_out(&idle, IDLE_SHARE, "guess", "there is no idle CPU that is closed to its workers");
    }
    let busy = hop.fact("busy share of CPUs that the workers may use", "share", |r| {
        Ok(1.0 - idle_of(r, &used)? / used.len() as f64)
    })?;
    let flat = concurrency_elasticity(hop).is_some_and(|e| e < FLAT);
    if busy.value < if flat { FULL_CPU_WHEN_FLAT } else { FULL_CPU } {
        return ruled_out(&busy, FULL_CPU, FULL_CPU_ORIGIN, "the CPUs that its workers may use have room");
    }
    let delay = hop.fact("proc.run_delay / (run + run_delay)", "share", |r| r.delay_share())?;
    if hop.workers().len() <= used.len() && delay.value < DELAY {
        return ruled_out(&delay, DELAY, "guess", "each worker has a CPU for itself");
    }
    let list = |cpus: &BTreeSet<u32>| CpuList::from_iter(cpus.iter().copied()).to_string();
    let share = idle.value;
    let claim = format!(
        "{} worker(s) of {} may use CPU {} only, while {:.0} % of its CPUs are idle on CPU {}",
        hop.workers().len(),
        hop.name,
        list(&used),
        share * 100.0,
        list(&barred)
    );
    Finding::new(idle, IDLE_SHARE, "guess", &claim, share)
        .and(Ok(busy.clone()), "the CPUs that its workers may use are full")
        .and(Ok(delay), "time that its workers wait for them")
        .mend(
            format!("let the workers use CPU {} (worker_cpu_affinity, cpuset, taskset)", list(&own)),
            knob(hop, KnobId::CpuAffinity, list(&own)),
        )
        .gaining(Some(gain_of_share(share, gain_until_next_limit(hop))))
        .rising(Ok(busy))
        .fires()
}

/// Idle CPUs among some; none of them is 0.
fn idle(r: &Reader<'_>, cpus: &BTreeSet<u32>) -> Result<f64, Gap> {
    if cpus.is_empty() { Ok(0.0) } else { idle_of(r, cpus) }
}

fn idle_of(r: &Reader<'_>, cpus: &BTreeSet<u32>) -> Result<f64, Gap> {
    let of = |cpu: &u32| {
        let cpu = cpu.to_string();
        Ok(r.one(&CPU_IDLE, &cpu)? + r.one(&CPU_IOWAIT, &cpu).unwrap_or(0.0))
    };
    r.hop.at(Level::At)?;
    cpus.iter().map(of).sum::<Result<f64, Gap>>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, monotonic, score};

    /// Two workers bound to CPU 0 of two, CPU 1 idle by so much.
    fn lab(idle: f64) -> Lab {
        let mut lab =
            Lab::healthy().cpu("1", (1.0 - idle).max(0.0), 0.0, 0.0).own("lb", 0.45).worker("lb", "102", 0.45);
        lab.stack.host.get_mut("lb").unwrap().cpus = "0-1".parse().ok();
        lab.without("lb", &PROC_AFFINITY).gauge("lb", &PROC_AFFINITY, "101 0", 1.0).gauge(
            "lb",
            &PROC_AFFINITY,
            "102 0",
            1.0,
        )
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(0.8)).unwrap();
        assert!((found.score - 0.4).abs() < 1e-6, "{}", found.score);
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().value, "0-1");
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.19)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.21)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.8).gauge("lb", &PROC_AFFINITY, "102 0-1", 2.0)), 0.0, "one may use it");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.8).cpu("0", 0.2, 0.2, 0.1)), 0.0, "room on CPU 0");
    }

    monotonic!(lab, 0.0..1.0);
}
