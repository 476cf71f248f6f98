//! # File descriptors exhausted
//!
//! A process of the hop may open no more files or sockets.
//!
//! ## What it sees
//! Error-log lines `Too many open files`, as nginx and most languages write them. Where no log tells: a process that has as
//! many descriptors as it may, while requests wait to be let in or fail.
//!
//! ## Why it limits
//! accept() and socket() fail; requests fail or wait.
//!
//! ## Evidence
//! Lines per second, clients that are not let in, and how near the fullest process is to its limit.
//!
//! ## What it is not
//! Descriptors below 80 % of the limit in every process.
//!
//! ## Fix
//! `worker_rlimit_nofile` of nginx (knob `nginx.worker_rlimit_nofile`), `LimitNOFILE` of the unit.
//!
//! ## References
//! getrlimit(2) RLIMIT_NOFILE.

use super::worker_connections_exhausted::{SHARE_UNKNOWN, turned_away};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, nginx_knob, removal_or,
    ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use prony_model::metric::{ERROR_LOG_NO_DESCRIPTORS, LISTEN_QUEUE, PROC_DESCRIPTOR_LIMIT, PROC_DESCRIPTORS};
use prony_model::stack::Software;
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "file-descriptors-exhausted",
    layer: Layer::Connections,
    title: "file descriptors exhausted",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("file_descriptors_exhausted.rs"),
};

/// Lines per second from which it matters: a worker of nginx that cannot accept writes one and tries again after half a second
/// (`accept_mutex_delay`).
const LINES_PER_S: f64 = 0.2;
/// Share of the descriptors of a process from which it has none left. A guess: what is opened and closed between two readings is not
/// seen.
const FULL: f64 = 0.95;
/// Share below which it has room for sure.
const NEAR: f64 = 0.8;
/// Its origin.
const NEAR_ORIGIN: &str = "cited: catalogue row 10, fd/limit < 80 % rules it out";
/// Share of the requests that wait or fail, below which it does not matter. A guess.
const SHARE_MIN: f64 = 0.02;
/// What is tried. A guess: two for each of 30,000 clients.
const DESCRIPTORS: &str = "65536";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let fill = hop.fact("proc.descriptors / limit, fullest worker", "share", fullest);
    let lines = hop.summary(&ERROR_LOG_NO_DESCRIPTORS);
    if lines.as_ref().is_ok_and(|lines| lines.value >= LINES_PER_S) {
        let per_request = hop.per_request(&ERROR_LOG_NO_DESCRIPTORS)?.value.min(1.0);
        let share = per_request.max(turned_away(hop)?).max(SHARE_UNKNOWN);
        return finding(hop, lines?, LINES_PER_S, share, fill, "how full the fullest worker is");
    }
    if fill.as_ref().is_ok_and(|fill| fill.value >= FULL) {
        let share = kept_waiting(hop)?;
        if share >= SHARE_MIN {
            return finding(hop, fill?, FULL, share, lines, "complaints about it in its error log");
        }
    }
    match (lines, fill) {
        (Ok(lines), _) => ruled_out(
            &lines,
            LINES_PER_S,
            "guess",
            "no process complains of too many open files, or none is kept waiting",
        ),
        (Err(_), Ok(fill)) if fill.value < NEAR => {
            ruled_out(&fill, NEAR, NEAR_ORIGIN, "its processes may open more files")
        }
        (Err(gap), _) => Err(gap),
    }
}

/// `fact` shows it, and `other` stands beside it.
fn finding(
    hop: &Hop<'_>,
    fact: Fact,
    border: f64,
    share: f64,
    other: Result<Fact, Gap>,
    claim_of_other: &str,
) -> Result<Judgement, Gap> {
    let more = nginx_knob(hop, KnobId::NginxDirective(NginxDirective::WorkerRlimitNofile), DESCRIPTORS);
    let claim = format!("processes of {} may open no more files", hop.name);
    let remedy = match hop.host().and_then(|h| h.software) {
        Some(Software::Nginx) => "raise worker_rlimit_nofile, and LimitNOFILE of the unit",
        _ => "raise LimitNOFILE of the unit (ulimit -n of whoever starts it)",
    };
    Finding::new(fact, border, "guess", &claim, share)
        .and(other, claim_of_other)
        .mend(remedy, more.clone())
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(removal_or(more.as_ref(), Dose::Untestable("no knob raises the limit of a running process")))
        .fires()
}

/// Open descriptors over their limit, of the worker that is nearest to it.
fn fullest(r: &Reader<'_>) -> Result<f64, Gap> {
    let fill = |pid: &&str| Ok(r.one(&PROC_DESCRIPTORS, pid)? / r.one(&PROC_DESCRIPTOR_LIMIT, pid)?);
    r.hop.workers().iter().map(fill).try_fold(0.0, |most, fill: Result<f64, Gap>| Ok(f64::max(most, fill?)))
}

/// Share of the requests in flight that wait to be let in, or of all that fail.
fn kept_waiting(hop: &Hop<'_>) -> Result<f64, Gap> {
    let at = hop.at(Level::At)?;
    let queued = at.sum(&LISTEN_QUEUE).unwrap_or(0.0) / at.in_flight()?;
    Ok(turned_away(hop)?.max(queued).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, score};
    use proptest::prelude::*;

    fn lab(per_request: f64) -> Lab {
        Lab::healthy().per_second("lb", &ERROR_LOG_NO_DESCRIPTORS, "", 15_300.0 * per_request)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.4)) - 0.4).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        let few = |per_s: f64| Lab::healthy().per_second("lb", &ERROR_LOG_NO_DESCRIPTORS, "", per_s);
        assert_eq!(score(CAUSE.id, "lb", &few(0.1)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &few(2.0)), SHARE_UNKNOWN, "one worker that cannot accept");
    }

    #[test]
    fn a_process_without_descriptors_needs_no_log() {
        let lab = |open: f64, queued: f64| {
            let lab = Lab::healthy().gauge("s1", &LISTEN_QUEUE, "80", queued);
            lab.gauge("s1", &PROC_DESCRIPTORS, "101", open).gauge("s1", &PROC_DESCRIPTOR_LIMIT, "101", 60.0)
        };
        assert!((score(CAUSE.id, "s1", &lab(60.0, 16.0)) - 0.25).abs() < 1e-6, "16 of 64 wait to be let in");
        assert_eq!(score(CAUSE.id, "s1", &lab(60.0, 0.0)), 0.0, "nobody waits");
        assert_eq!(score(CAUSE.id, "s1", &lab(50.0, 16.0)), 0.0, "some are left");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..2.0, b in 0.0f64..2.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
