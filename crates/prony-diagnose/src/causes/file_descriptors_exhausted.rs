//! # File descriptors exhausted
//!
//! A process of the hop may open no more files or sockets.
//!
//! ## What it sees
//! Error-log lines `(24: Too many open files)`.
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
use crate::facts::Hop;
use prony_model::metric::{ERROR_LOG_NO_DESCRIPTORS, PROC_DESCRIPTOR_LIMIT, PROC_DESCRIPTORS};
use prony_model::{Gap, KnobId, NginxDirective};

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
/// What is tried. A guess: two for each of 30,000 clients.
const DESCRIPTORS: &str = "65536";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let lines = hop.summary(&ERROR_LOG_NO_DESCRIPTORS)?;
    if lines.value < LINES_PER_S {
        return ruled_out(&lines, LINES_PER_S, "guess", "no process complains of too many open files");
    }
    let per_request = hop.per_request(&ERROR_LOG_NO_DESCRIPTORS)?.value.min(1.0);
    let share = per_request.max(turned_away(hop)?).max(SHARE_UNKNOWN);
    let more = nginx_knob(hop, KnobId::NginxDirective(NginxDirective::WorkerRlimitNofile), DESCRIPTORS);
    let claim = format!("processes of {} may open no more files", hop.name);
    let fill = hop.fact("proc.descriptors / limit, fullest worker", "share", |r| {
        let fill = |pid: &&str| Ok(r.one(&PROC_DESCRIPTORS, pid)? / r.one(&PROC_DESCRIPTOR_LIMIT, pid)?);
        hop.workers().iter().map(fill).try_fold(0.0, |most, fill: Result<f64, Gap>| Ok(f64::max(most, fill?)))
    });
    Finding::new(lines, LINES_PER_S, "guess", &claim, share)
        .and(fill, "how full the fullest worker is")
        .mend("raise worker_rlimit_nofile, and LimitNOFILE of the unit", more.clone())
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(removal_or(more.as_ref(), Dose::Untestable("no knob raises the limit of a running process")))
        .fires()
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

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..2.0, b in 0.0f64..2.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
