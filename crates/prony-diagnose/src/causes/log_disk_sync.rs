//! # Log disk sync
//!
//! The hop waits until what it writes is on the disk: a log that is flushed for each line, a file system that is
//! mounted so, or a kernel that lets little stay unwritten.
//!
//! ## What it sees
//! Workers asleep for a disk; flush requests of the disks per request; looks that found workers in `balance_dirty_pages`,
//! where the kernel holds back who writes.
//!
//! ## Why it limits
//! A flush takes 0.1 to 10 ms, and so does a pause of a writer; the worker serves nothing meanwhile.
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
//! another disk, or tmpfs. Where the kernel holds writers back: knob `sysctl.vm.dirty_bytes` or `sysctl.vm.dirty_ratio`,
//! whichever is in force.
//!
//! ## References
//! fsync(2), open(2) O_SYNC; Linux Documentation/admin-guide/iostats.rst, flush requests, and
//! Documentation/admin-guide/sysctl/vm.rst, dirty_bytes.

use super::disk_saturated::{ASLEEP, FULL_DISK, asleep, asleep_by_state, busiest, log_buffer};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, knob,
    removal_by_machine, ruled_out,
};
use crate::facts::{Fact, Hop};
use prony_model::metric::{DISK_BUSY, DISK_FLUSHES, LOOK_WAIT, PSI_IO_SOME};
use prony_model::stack::{Role, Software};
use prony_model::{Gap, Knob, KnobId, Level};

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
/// Kernel function in which a writer is held back until less is left to write.
const HELD_BACK: &str = "balance_dirty_pages";
/// What the kernel lets stay unwritten where nobody set it, % of memory: Documentation/admin-guide/sysctl/vm.rst.
const DIRTY_RATIO: f64 = 20.0;
/// Bytes that are enough of it for logs. A guess: half a second of a disk that writes 500 MB/s.
const DIRTY_BYTES: f64 = 256.0 * 1024.0 * 1024.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let database = |h: &prony_model::Host| h.role == Role::Database || h.software == Some(Software::Postgres);
    if hop.host().is_some_and(database) {
        return does_not_apply(hop, "is a database: its commits have a cause of their own");
    }
    let asleep = asleep(hop)?;
    if asleep.value < ASLEEP {
        return ruled_out(&asleep, ASLEEP, "guess", "workers do not wait for a disk");
    }
    let held_back = hop.look(&LOOK_WAIT, HELD_BACK).unwrap_or(0.0);
    let is_full = || hop.at(Level::At).and_then(|at| busiest(&at)).is_ok_and(|busy| busy >= FULL_DISK);
    if held_back >= ASLEEP && !is_full() {
        return writers_held_back(hop, asleep);
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
    waiting(hop, asleep, &claim)
        .and(Ok(flushes), "flushes of the disks per request")
        .mend("write logs through a buffer and without sync, or to another disk or tmpfs", buffer)
        .tested_by(dose)
        .rising(hop.summary(&DISK_FLUSHES))
        .fires()
}

/// The kernel lets too little stay unwritten: who writes sleeps until the disk has caught up.
fn writers_held_back(hop: &Hop<'_>, asleep: Fact) -> Result<Judgement, Gap> {
    let claim = format!(
        "workers of {} are asleep for a disk {:.0} % of the time: the kernel holds back who writes until less is left to write",
        hop.name,
        asleep.value.min(1.0) * 100.0
    );
    let more = more_unwritten(hop);
    let dose = match more {
        Some(_) => removal_by_machine(hop, "how much may stay unwritten is the machine's setting, not the namespace's"),
        None => Dose::Untestable("prony cannot make a disk slower"),
    };
    waiting(hop, asleep, &claim)
        .mend("let more stay unwritten (vm.dirty_bytes, vm.dirty_ratio), or write less, to another disk or tmpfs", more)
        .tested_by(dose)
        .rising(asleep_by_state(hop))
        .fires()
}

/// What both kinds of waiting have in common.
fn waiting(hop: &Hop<'_>, asleep: Fact, claim: &str) -> Finding {
    let share = asleep.value.min(1.0);
    Finding::new(asleep, ASLEEP, "guess", claim, share)
        .and(asleep_by_state(hop), "seen by their state")
        .and(hop.summary(&PSI_IO_SOME), "time in which something waited for a disk")
        .and(hop.summary(&DISK_BUSY), "busy time of the disks")
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
}

/// The one of the two settings that is in force, raised; none where it is high enough.
fn more_unwritten(hop: &Hop<'_>) -> Option<Knob> {
    let value = |name: &str| hop.setting(&format!("sysctl.{name}"))?.parse::<f64>().ok();
    let (name, now, enough) = match value("vm.dirty_bytes") {
        Some(bytes) if bytes > 0.0 => ("vm.dirty_bytes", bytes, DIRTY_BYTES),
        Some(_) | None => ("vm.dirty_ratio", value("vm.dirty_ratio")?, DIRTY_RATIO),
    };
    (now < enough).then(|| knob(hop, KnobId::Sysctl(name.to_string()), format!("{enough:.0}"))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, monotonic, score};
    use prony_model::metric::{LOG_SIZE, LOOK_LOG_STEP, PROC_DISK_SLEEP};

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

    #[test]
    fn writers_that_the_kernel_holds_back_wait_for_the_disk_too() {
        let held =
            |share: f64| lab(0.0).per_second("lb", &DISK_FLUSHES, "vda", 0.0).gauge("lb", &LOOK_WAIT, HELD_BACK, share);
        assert!((score(CAUSE.id, "lb", &held(0.45)) - 0.45).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &held(0.049)), 0.0);
        assert!(score(CAUSE.id, "lb", &held(0.051)) > 0.0);
        assert_eq!(
            score(CAUSE.id, "lb", &held(0.45).per_second("lb", &DISK_BUSY, "vda", 0.95)),
            0.0,
            "the disk is full"
        );
        let mended = |settings: &[(&str, &str)]| {
            let set = |lab: Lab, (name, value): &(&str, &str)| lab.setting("lb", &format!("sysctl.vm.{name}"), value);
            let lab = settings.iter().fold(held(0.45).local("lb"), set);
            let found = finding(CAUSE.id, "lb", &lab).unwrap();
            (found.remedies[0].knob.as_ref().map(|knob| format!("{}={}", knob.id, knob.value)), found.dose)
        };
        let by = |knob: &str| (Some(knob.to_string()), Dose::Removal);
        assert_eq!(mended(&[("dirty_bytes", "8192"), ("dirty_ratio", "0")]), by("sysctl.vm.dirty_bytes=268435456"));
        assert_eq!(mended(&[("dirty_bytes", "0"), ("dirty_ratio", "1")]), by("sysctl.vm.dirty_ratio=20"));
        let slow_disk = mended(&[("dirty_bytes", "0"), ("dirty_ratio", "20")]);
        assert!(matches!(slow_disk, (None, Dose::Untestable(_))), "enough may stay unwritten");
    }

    monotonic!(lab, 0.0..1.0);
}
