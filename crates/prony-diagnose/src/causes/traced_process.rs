//! # Traced process
//!
//! A debugger or strace is attached to a worker.
//!
//! ## What it sees
//! `TracerPid` of the hop's processes.
//!
//! ## Why it limits
//! Each system call stops the worker twice and wakes the tracer.
//!
//! ## Evidence
//! The share of workers that are traced; what the tracer costs is not known without removing it.
//!
//! ## What it is not
//! A profiler that samples: it does not attach as a tracer.
//!
//! ## Fix
//! Detach it.
//!
//! ## References
//! ptrace(2); proc(5) TracerPid.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, cpu_or, ruled_out};
use crate::facts::Hop;
use prony_model::Gap;
use prony_model::metric::{PROC_SWITCHES_VOLUNTARY, PROC_TRACER};

pub(super) const CAUSE: Cause = Cause {
    id: "traced-process",
    layer: Layer::Cpu,
    title: "traced process",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("traced_process.rs"),
};

/// What a tracer of every system call takes from a traced worker. A guess; nginx makes six or more system calls per
/// request.
const TRACER_SHARE: f64 = 0.5;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let workers = hop.workers();
    let traced = hop.fact(PROC_TRACER.name, "", |r| r.sum(&PROC_TRACER))?;
    if traced.value < 0.5 {
        return ruled_out(&traced, 1.0, "definition", "no process is traced");
    }
    let share = (traced.value / workers.len().max(1) as f64).min(1.0) * TRACER_SHARE;
    let claim = format!("{:.0} process(es) of {} are traced", traced.value, hop.name);
    Finding::new(traced, 1.0, "definition", &claim, share)
        .and(hop.per_request(&PROC_SWITCHES_VOLUNTARY), "voluntary context switches per request")
        .mend("detach the tracer", None)
        .tested_by(cpu_or(hop, "prony does not touch other people's debuggers, and the CPUs have room")?)
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    fn lab(traced: f64) -> Lab {
        Lab::healthy().gauge("lb", &PROC_TRACER, "101", traced)
    }

    #[test]
    fn fires_silent_border() {
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0)), 0.5);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.4)), 0.0, "attached for a moment only");
        let dose = |lab: &Lab| finding(CAUSE.id, "lb", lab).unwrap().dose;
        assert_eq!(dose(&lab(1.0)), Dose::Cpu, "its CPU is full");
        assert!(matches!(dose(&lab(1.0).cpu("0", 0.1, 0.1, 0.1)), Dose::Untestable(_)));
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..2.0, b in 0.0f64..2.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
