//! # Memory pressure
//!
//! The hop needs more memory than it may use: the kernel frees pages while requests wait, and reads them back from the
//! disk.
//!
//! ## What it sees
//! How often the control group was at its limit (`memory.failcnt`, `memory.events`), allocations that had to free pages
//! themselves, major faults of the workers, per request; pressure stall information; workers that sleep for a disk.
//!
//! ## Why it limits
//! A page that is missing costs a disk read, and one that must be freed first costs CPU time of the request.
//!
//! ## Evidence
//! The greatest of three shares: stalled time by pressure stall information, worker time asleep for a disk, CPU cost of
//! reclaiming.
//!
//! ## What it is not
//! A page cache that fills memory: normal, and nothing waits. A disk that is busy with logs: then nothing is reclaimed.
//!
//! ## Fix
//! A higher memory limit (memory.max, memory.high), fewer or smaller processes. prony has no knob for it.
//!
//! ## References
//! Linux Documentation/admin-guide/cgroup-v2.rst memory.events; Documentation/accounting/psi.rst.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, ruled_out, work_share,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{
    CGROUP_MEMORY_LIMIT_HITS, PROC_DISK_SLEEP, PROC_MAJOR_FAULTS, PSI_MEMORY_SOME, VM_ALLOCATION_STALLS,
    VM_DIRECT_SCANS,
};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "memory-pressure",
    layer: Layer::Cpu,
    title: "memory pressure",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("memory_pressure.rs"),
};

/// Reclaims and major faults per request from which memory is short. A guess: a service in balance has none.
const RECLAIMS_PER_REQUEST: f64 = 0.02;
/// Share of request time or capacity from which it matters. A guess.
const SHARE_MIN: f64 = 0.05;
/// CPU time of one reclaim, in microseconds: at least 32 pages are looked at (SWAP_CLUSTER_MAX). A guess.
const RECLAIM_US: f64 = 20.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let reclaims = hop.fact("reclaims and major faults / request", "", |r| Ok(reclaims_per_s(r)? / r.requests()?))?;
    if reclaims.value < RECLAIMS_PER_REQUEST {
        return ruled_out(
            &reclaims,
            RECLAIMS_PER_REQUEST,
            "guess",
            "hardly any page is freed or read back for a request",
        );
    }
    let at = hop.at(Level::At)?;
    let stalled = at.sum(&PSI_MEMORY_SOME).unwrap_or(0.0);
    let asleep = at.worker_mean(&PROC_DISK_SLEEP).unwrap_or(0.0);
    let work = work_share(hop, reclaims.value * RECLAIM_US)?;
    let share = stalled.max(asleep).max(work).min(1.0);
    if share < SHARE_MIN {
        return ruled_out(&reclaims, RECLAIMS_PER_REQUEST, "guess", "pages are freed, but requests hardly wait for it");
    }
    let claim =
        format!("{} frees or reads back {:.2} times per request: it is short of memory", hop.name, reclaims.value);
    Finding::new(reclaims, RECLAIMS_PER_REQUEST, "guess", &claim, share)
        .and(hop.summary(&CGROUP_MEMORY_LIMIT_HITS), "how often its control group was at its limit, per second")
        .and(hop.per_request(&PROC_MAJOR_FAULTS), "major faults of its processes per request")
        .and(hop.summary(&VM_DIRECT_SCANS), "pages of the machine that processes scanned themselves, per second")
        .and(hop.summary(&PSI_MEMORY_SOME), "time in which something waited for memory")
        .and(
            hop.fact("workers asleep for a disk", "share", |r| r.worker_mean(&PROC_DISK_SLEEP)),
            "workers that wait for a disk",
        )
        .mend("raise the memory limit of the hop, or let it use less: fewer processes, smaller caches and heaps", None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Untestable("prony has no knob for memory limits"))
        .rising(hop.fact("reclaims and major faults", "/s", reclaims_per_s))
        .fires()
}

/// Hits of the group's own limit and major faults of its processes; stalls of the machine's allocator, which are
/// everybody's, where the group cannot be read.
fn reclaims_per_s(r: &Reader<'_>) -> Result<f64, Gap> {
    let faults = r.sum(&PROC_MAJOR_FAULTS)?;
    let hits = r.sum(&CGROUP_MEMORY_LIMIT_HITS).or_else(|_| r.sum(&VM_ALLOCATION_STALLS))?;
    Ok(faults + hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(hits_per_request: f64) -> Lab {
        Lab::healthy().per_second("lb", &CGROUP_MEMORY_LIMIT_HITS, "", hits_per_request * 15_300.0).gauge(
            "lb",
            &PROC_DISK_SLEEP,
            "101",
            0.3,
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.5)) - 0.3).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.019)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.021)) > 0.0);
        assert_eq!(
            score(CAUSE.id, "lb", &lab(0.5).gauge("lb", &PROC_DISK_SLEEP, "101", 0.0)).min(0.1),
            0.1,
            "20 us each"
        );
        let cheap = lab(0.03).gauge("lb", &PROC_DISK_SLEEP, "101", 0.0);
        assert_eq!(score(CAUSE.id, "lb", &cheap), 0.0, "nothing waits");
        let faults = Lab::healthy().per_second("lb", &PROC_MAJOR_FAULTS, "101", 3_000.0);
        assert!(score(CAUSE.id, "lb", &faults.gauge("lb", &PROC_DISK_SLEEP, "101", 0.4)) > 0.3);
    }

    monotonic!(lab, 0.0..3.0);
}
