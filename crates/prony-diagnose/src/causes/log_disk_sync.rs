//! # Log disk sync
//!
//! The hop waits until what it writes is on the disk: a log that is flushed for each line, or a file system that is
//! mounted so.
//!
//! ## What it sees
//! Workers asleep for a disk; flush requests of the disks per request.
//!
//! ## Why it limits
//! A flush takes 0.1 to 10 ms, and the worker serves nothing meanwhile.
//!
//! ## Evidence
//! Share of worker time asleep for a disk (state D, or kernel functions that wait for one, from a close look).
//!
//! ## What it is not
//! Databases, whose commits have to wait: `commit-disk-wait`. A disk that is full of reads and writes without flushes:
//! `disk-saturated`.
//!
//! ## Fix
//! Knob `nginx.access_log` with `buffer=64k`, where each request writes a line by itself; else write logs without sync;
//! another disk, or tmpfs.
//!
//! ## References
//! fsync(2), open(2) O_SYNC; Linux Documentation/admin-guide/iostats.rst, flush requests.

use super::disk_saturated::{ASLEEP, asleep, log_buffer};
use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::Hop;
use prony_model::Gap;
use prony_model::metric::{DISK_BUSY, DISK_FLUSHES, PROC_DISK_SLEEP, PSI_IO_SOME};
use prony_model::stack::{Role, Software};

pub(super) const CAUSE: Cause = Cause {
    id: "log-disk-sync",
    layer: Layer::Logs,
    title: "log disk sync",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("log_disk_sync.rs"),
};

/// Flushes per request that make the disk's slowness the sync's. A guess: group commit of 50 requests would be 0.02.
const FLUSHES_PER_REQUEST: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let database = |h: &prony_model::Host| h.role == Role::Database || h.software == Some(Software::Postgres);
    if hop.host().is_some_and(database) {
        return does_not_apply(hop, "is a database: its commits have a cause of their own");
    }
    let asleep = asleep(hop)?;
    if asleep.value < ASLEEP {
        return ruled_out(&asleep, ASLEEP, "guess", "workers do not wait for a disk");
    }
    let flushes = hop.fact("disk.flushes / request", "", |r| Ok(r.sum(&DISK_FLUSHES)? / r.requests()?))?;
    if flushes.value < FLUSHES_PER_REQUEST {
        return ruled_out(
            &flushes,
            FLUSHES_PER_REQUEST,
            "guess",
            "workers wait for a disk, but it is hardly ever flushed",
        );
    }
    let share = asleep.value.min(1.0);
    let claim = format!(
        "workers of {} are asleep for a disk {:.0} % of the time, which is flushed {:.2} times per request",
        hop.name,
        share * 100.0,
        flushes.value
    );
    let (buffer, dose) = log_buffer(hop);
    Finding::new(asleep, ASLEEP, "guess", &claim, share)
        .and(Ok(flushes), "flushes of the disks per request")
        .and(hop.fact("workers asleep for a disk", "share", |r| r.worker_mean(&PROC_DISK_SLEEP)), "seen by their state")
        .and(hop.summary(&PSI_IO_SOME), "time in which something waited for a disk")
        .and(hop.summary(&DISK_BUSY), "busy time of the disks")
        .mend("write logs through a buffer and without sync, or to another disk or tmpfs", buffer)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(dose)
        .rising(hop.summary(&DISK_FLUSHES))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, monotonic, score};
    use prony_model::metric::{LOG_SIZE, LOOK_LOG_STEP};

    const LOG: &str = "/run/lb/access.log";

    fn lab(asleep: f64) -> Lab {
        Lab::healthy()
            .throughput(1_000.0)
            .cpu("0", 0.05, 0.1, 0.02)
            .gauge("lb", &PROC_DISK_SLEEP, "101", asleep)
            .per_second("lb", &DISK_FLUSHES, "vda", 900.0)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.7)) - 0.7).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.049)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.051)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.7).per_second("lb", &DISK_FLUSHES, "vda", 10.0)), 0.0, "no flushes");
        let mut database = lab(0.7);
        database.stack.host.get_mut("lb").unwrap().role = Role::Database;
        assert_eq!(score(CAUSE.id, "lb", &database), 0.0);
    }

    #[test]
    fn a_log_that_is_written_line_by_line_can_be_buffered() {
        let tested = |lab: Lab| {
            let found = finding(CAUSE.id, "lb", &lab).unwrap();
            (found.remedies[0].knob.as_ref().map(|knob| knob.value.clone()), found.dose)
        };
        let by_line = lab(0.7).per_second("lb", &LOG_SIZE, LOG, 300_000.0).gauge("lb", &LOOK_LOG_STEP, LOG, 300.0);
        assert_eq!(tested(by_line), (Some("buffer=64k".to_string()), Dose::Removal));
        let buffered = lab(0.7).per_second("lb", &LOG_SIZE, LOG, 300_000.0).gauge("lb", &LOOK_LOG_STEP, LOG, 65_536.0);
        assert!(matches!(tested(buffered), (None, Dose::Untestable(_))), "something else is written");
    }

    monotonic!(lab, 0.0..1.0);
}
