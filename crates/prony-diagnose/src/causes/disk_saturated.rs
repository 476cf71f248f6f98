//! # Disk saturated
//!
//! A disk has work all the time, and the workers of the hop wait for it.
//!
//! ## What it sees
//! Busy time of each disk; workers asleep for a disk.
//!
//! ## Why it limits
//! Requests wait until the disk has served what stands before them.
//!
//! ## Evidence
//! Share of worker time asleep for a disk, while a disk is busy nearly all the time.
//!
//! ## What it is not
//! A disk that is busy with the work of others: the workers of the hop do not wait then. Disks with many channels,
//! which are busy long before they are full: nobody waits either. Idle CPUs alone: iowait is idle time. Flushes that
//! make a disk slow: `log-disk-sync`.
//!
//! ## Fix
//! Knob `nginx.access_log` with `buffer=64k`, where each request writes a line by itself; else fewer or smaller writes,
//! another disk for logs, more memory for the page cache.
//!
//! ## References
//! Linux Documentation/admin-guide/iostats.rst; Performance Co-Pilot pmieconf warns at 95 % busy.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, nginx_knob, removal_or,
    ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::logs::{WRITES_PER_REQUEST, writes_per_request};
use prony_model::metric::{
    DISK_BUSY, DISK_FLUSHES, DISK_WAITED, DISK_WRITES, DISK_WRITTEN, PROC_DISK_SLEEP, PSI_IO_FULL,
};
use prony_model::{Gap, Knob, KnobId};

pub(super) const CAUSE: Cause = Cause {
    id: "disk-saturated",
    layer: Layer::Logs,
    title: "disk saturated",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("disk_saturated.rs"),
};

/// Busy share from which a disk has no time left.
pub(super) const FULL_DISK: f64 = 0.9;
/// Its origin.
const ORIGIN: &str = "cited: Performance Co-Pilot pmieconf per_disk.util, 95 %, less what a short trial misses";
/// Share of worker time asleep for a disk. A guess: workers of a healthy service are never found so.
pub(super) const ASLEEP: f64 = 0.05;
/// Flushes per write from which flushing is what keeps the disk busy. A guess.
const FLUSHES_PER_WRITE: f64 = 0.3;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let busy = hop.fact("disk.busy of the busiest disk", "share", busiest)?;
    if busy.value < FULL_DISK {
        return ruled_out(&busy, FULL_DISK, ORIGIN, "no disk is busy all the time");
    }
    let asleep = asleep(hop)?;
    if asleep.value < ASLEEP {
        return ruled_out(&asleep, ASLEEP, "guess", "a disk is busy, but the workers of this hop do not wait for it");
    }
    let flushes = hop.fact("disk.flushes / disk.writes", "", |r| {
        let writes = r.sum(&DISK_WRITES)?;
        Ok(if writes > 0.0 { r.sum(&DISK_FLUSHES)? / writes } else { 0.0 })
    });
    if let Ok(flushes) = flushes
        && flushes.value >= FLUSHES_PER_WRITE
    {
        return ruled_out(&flushes, FLUSHES_PER_WRITE, "guess", "it is flushes that keep the disk busy");
    }
    let share = asleep.value.min(1.0);
    let (buffer, dose) = log_buffer(hop);
    let claim =
        format!("workers of {} are asleep {:.0} % of the time for a disk that is always busy", hop.name, share * 100.0);
    Finding::new(busy, FULL_DISK, ORIGIN, &claim, share)
        .and(Ok(asleep), "workers that wait for a disk")
        .and(hop.summary(&DISK_WRITTEN), "bytes written to disks")
        .and(hop.summary(&DISK_WAITED), "requests that wait at disks, on average")
        .and(hop.summary(&PSI_IO_FULL), "time in which everything waited for a disk")
        .mend("write less (buffered logs), or to another disk; more memory for what is read", buffer)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(dose)
        .rising(hop.summary(&DISK_WRITTEN))
        .fires()
}

pub(super) fn busiest(r: &Reader<'_>) -> Result<f64, Gap> {
    let disks = r.hop.items(&DISK_BUSY).into_iter().filter_map(|disk| r.one(&DISK_BUSY, disk).ok());
    disks.reduce(f64::max).ok_or_else(|| Gap::new(DISK_BUSY.name, r.hop.name, "no disk of this machine was read"))
}

/// The knob that takes most writes off a disk, where each request writes its line of the access log by itself, and the test of a
/// slow disk that follows.
pub(super) fn log_buffer(hop: &Hop<'_>) -> (Option<Knob>, Dose) {
    let by_line = writes_per_request(hop).is_ok_and(|writes| writes.value >= WRITES_PER_REQUEST);
    let buffer = by_line.then(|| nginx_knob(hop, KnobId::NginxAccessLog, "buffer=64k")).flatten();
    let dose = removal_or(buffer.as_ref(), Dose::Untestable("prony cannot make a disk slower"));
    (buffer, dose)
}

/// Share of worker time asleep for a disk: by the state of the workers, or by close looks at where they wait, whichever
/// saw more.
pub(super) fn asleep(hop: &Hop<'_>) -> Result<Fact, Gap> {
    let looked = hop.disk_waits();
    match (asleep_by_state(hop), looked) {
        (Ok(fact), Some(looked)) => Ok(Fact { value: fact.value.max(looked), ..fact }),
        (Ok(fact), None) => Ok(fact),
        (Err(_), Some(looked)) => Ok(crate::host_facts::looked_at(hop, "workers asleep for a disk", "share", looked)),
        (Err(gap), None) => Err(gap),
    }
}

/// The same by the state of the workers alone.
pub(super) fn asleep_by_state(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("workers asleep for a disk", "share", |r| r.worker_mean(&PROC_DISK_SLEEP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};
    use prony_model::metric::LOOK_WAIT;

    fn lab(asleep: f64) -> Lab {
        Lab::healthy()
            .throughput(1_000.0)
            .cpu("0", 0.05, 0.1, 0.02)
            .gauge("lb", &PROC_DISK_SLEEP, "101", asleep)
            .per_second("lb", &DISK_BUSY, "vda", 0.98)
            .per_second("lb", &DISK_WRITES, "vda", 500.0)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.6)) - 0.6).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.049)), 0.0, "somebody else's disk work");
        assert!(score(CAUSE.id, "lb", &lab(0.051)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.6).per_second("lb", &DISK_BUSY, "vda", 0.89)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.6).per_second("lb", &DISK_FLUSHES, "vda", 400.0)), 0.0, "flushes");
        assert!(score(CAUSE.id, "lb", &lab(0.0).gauge("lb", &LOOK_WAIT, "io_schedule", 0.4)) > 0.3, "seen by looks");
    }

    monotonic!(lab, 0.0..1.0);
}
