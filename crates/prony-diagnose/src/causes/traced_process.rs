//! # Traced process
//!
//! A debugger or strace is attached to a worker.
//!
//! ## What it sees
//! `TracerPid` of the hop's processes; the CPU profile's share of stops for a tracer, and of what the tracer asks the kernel for.
//!
//! ## Why it limits
//! Each system call stops the worker twice and wakes the tracer.
//!
//! ## Evidence
//! On full CPUs the profile tells what the tracer costs. Beside CPUs with room: the share of workers that are traced, of which half is
//! guessed to be lost.
//!
//! ## What it is not
//! A profiler that samples: it does not attach as a tracer. A debugger that is attached and stops nothing.
//!
//! ## Fix
//! Detach it.
//!
//! ## References
//! ptrace(2); proc(5) TracerPid.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, cpu_or, predicted_gain, ruled_out};
use crate::facts::Hop;
use crate::profile::Profile;
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

/// What a tracer of every system call takes from a traced worker, where the profile cannot tell. A guess; nginx makes six or more system
/// calls per request.
const TRACER_SHARE: f64 = 0.5;
/// Share of the limit from which it matters, where the profile tells. A guess.
const SHARE_MIN: f64 = 0.05;
/// Where a traced process stops for its tracer; the first calls the second, which signals reach as well.
const STOPS: &[&str] = &["ptrace_notify", "ptrace_stop"];
/// What the tracer asks the kernel for; system calls are called by none of them.
const TRACER: &[&str] = &["kernel_wait4", "__x64_sys_ptrace", "__arm64_sys_ptrace", "process_vm_rw"];

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let workers = hop.workers();
    let traced = hop.fact(PROC_TRACER.name, "", |r| r.sum(&PROC_TRACER))?;
    if traced.value < 0.5 {
        return ruled_out(&traced, 1.0, "definition", "no process is traced");
    }
    let claim = format!("{:.0} process(es) of {} are traced", traced.value, hop.name);
    // Beside CPUs with room the worker waits while its tracer runs elsewhere, and no profile shows that.
    let profile = if cpu_is_full(hop)? { Profile::of(hop).ok() } else { None };
    let seen = profile.map(|profile| {
        let part = (profile.most_below(STOPS) + profile.share_below(TRACER)).min(1.0);
        Ok((profile.fact("stops for the tracer, and what it does then", part), profile.limit_share(part)?))
    });
    let (cost, share, gain) = match seen.transpose()? {
        Some((cost, share)) if share < SHARE_MIN => {
            return ruled_out(&cost, SHARE_MIN, "guess", "a process is traced, but hardly ever stopped for it");
        }
        Some((cost, share)) => (Ok(cost), share, predicted_gain(hop, share)),
        None => {
            let share = (traced.value / workers.len().max(1) as f64).min(1.0) * TRACER_SHARE;
            (Err(Gap::new(PROC_TRACER.name, hop.name, "what the tracer costs shows only on full CPUs")), share, None)
        }
    };
    Finding::new(traced, 1.0, "definition", &claim, share)
        .and(cost, "what the tracer costs")
        .and(hop.per_request(&PROC_SWITCHES_VOLUNTARY), "voluntary context switches per request")
        .mend("detach the tracer", None)
        .gaining(gain)
        .tested_by(cpu_or(hop, "prony does not touch other people's debuggers, and the CPUs have room")?)
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{PROFILE_SAMPLES, PROFILE_TOTAL};
    use proptest::prelude::*;

    fn lab(traced: f64) -> Lab {
        Lab::healthy().without("lb", &PROFILE_SAMPLES).gauge("lb", &PROC_TRACER, "101", traced)
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

    /// The shares are those of an nginx under strace.
    #[test]
    fn the_profile_tells_what_the_tracer_costs() {
        let stops = |part: f64| {
            let lab = lab(1.0).profiled("lb", &[]).gauge("lb", &PROFILE_TOTAL, "ptrace_notify", 0.366 * part);
            let lab = lab.gauge("lb", &PROFILE_TOTAL, "ptrace_stop", 0.362 * part);
            let lab = lab.gauge("lb", &PROFILE_TOTAL, "kernel_wait4", 0.262 * part);
            lab.gauge("lb", &PROFILE_TOTAL, "__x64_sys_ptrace", 0.127 * part)
        };
        let found = finding(CAUSE.id, "lb", &stops(1.0)).unwrap();
        assert!((found.score - 0.755 * 0.97).abs() < 0.01, "{}", found.score);
        assert!(found.gain.is_some());
        assert_eq!(score(CAUSE.id, "lb", &stops(0.05)), 0.0, "a debugger that stops nothing");
        let with_room = stops(1.0).cpu("0", 0.1, 0.1, 0.1);
        assert_eq!(score(CAUSE.id, "lb", &with_room), 0.5, "with room it is a guess");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..2.0, b in 0.0f64..2.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
