//! # CPU stolen
//!
//! The hypervisor gives the CPUs of the hop to somebody else.
//!
//! ## What it sees
//! Steal time of the hop's CPUs.
//!
//! ## Why it limits
//! A CPU that is not there serves nothing, and no process of this machine is to blame. Nothing in the stack mends it: it is
//! named first where the hypervisor takes more than the hop itself uses, and otherwise beside what fills the rest.
//!
//! ## Evidence
//! Share of the CPUs' time that was stolen, when they are full.
//!
//! ## What it is not
//! Waiting for CPUs that neighbours on the same machine use: `run-queue-wait`. A quota of the control group:
//! `cpu-quota-throttled`.
//!
//! ## Fix
//! A larger or dedicated machine, or fewer neighbours on its host.
//!
//! ## References
//! proc(5) /proc/stat steal; netdata warns at 10 %.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_of_share, gain_until_next_limit, ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::host_facts::share_of;
use prony_model::Gap;
use prony_model::metric::PROC_RUN_DELAY;

pub(super) const CAUSE: Cause = Cause {
    id: "cpu-stolen",
    layer: Layer::Cpu,
    title: "CPU stolen",
    kind: Kind::HonestLimit,
    scope: Scope::Serving,
    check,
    source: include_str!("cpu_stolen.rs"),
};

/// Share of the CPUs' time from which stealing matters.
const STOLEN: f64 = 0.1;
/// Its origin.
const ORIGIN: &str = "cited: netdata health.d/cpu.conf warns at 10 %";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let stolen = stolen(hop)?;
    if stolen.value < STOLEN || !cpu_is_full(hop)? {
        return ruled_out(&stolen, STOLEN, ORIGIN, "its CPUs are its own, or have room all the same");
    }
    let share = stolen.value;
    let claim = format!("the hypervisor takes {:.0} % of the CPUs of {}", share * 100.0, hop.name);
    Finding::new(stolen.clone(), STOLEN, ORIGIN, &claim, share)
        .and(hop.summary(&PROC_RUN_DELAY), "time that processes wait for a CPU")
        .mend("a larger or dedicated machine", None)
        .gaining(Some(gain_of_share(share, gain_until_next_limit(hop))))
        .tested_by(Dose::Untestable("what the hypervisor takes cannot be turned from inside"))
        .rising(Ok(stolen))
        .fires()
}

/// Share of the hop's CPUs that the hypervisor gave to others.
fn stolen(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("cpu.steal share of the hop's CPUs", "share", |r| Ok(share_of(r.cpu()?.steal, r.cpu()?.total())))
}

/// The same, where it is enough to be told beside another cause.
pub(super) fn stolen_beside(hop: &Hop<'_>) -> Option<Fact> {
    stolen(hop).ok().filter(|fact| fact.value >= STOLEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};
    use prony_model::metric::CPU_STEAL;

    fn lab(stolen: f64) -> Lab {
        Lab::healthy()
            .cpu("0", 0.4 * (1.0 - stolen), 0.6 * (1.0 - stolen), 0.0)
            .per_second("lb", &CPU_STEAL, "0", stolen)
            .gauge("lb", &PROC_RUN_DELAY, "x", 0.0)
            .levels("lb", &prony_model::metric::CPU_IDLE, "0", [0.5, 0.0, 0.0])
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.3)) - 0.3).abs() < 1e-6, "{}", score(CAUSE.id, "lb", &lab(0.3)));
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.09)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.11)) > 0.0);
    }

    monotonic!(lab, 0.0..0.9);
}
