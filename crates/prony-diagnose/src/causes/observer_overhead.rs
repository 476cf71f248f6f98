//! # Observer overhead
//!
//! Observing itself takes so much of the CPUs of the hop that it lowers what is measured.
//!
//! ## What it sees
//! CPU time of prony's observing threads of all hosts, which run on the generator's CPUs, when the hop shares these.
//!
//! ## Why it limits
//! What the observer uses, the hop cannot.
//!
//! ## Evidence
//! CPU time of observing, of the capacity of the CPUs that the hop shares with it.
//!
//! ## What it is not
//! The generator: that is `generator-saturated`. Other people's monitors: neighbours, so `run-queue-wait`.
//!
//! ## Fix
//! Fewer samples per second (`--effort`), or CPUs of their own for generator and observers.
//!
//! ## References
//! aperf reports its own CPU use above 5 % as a finding.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, gain_of_share, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::Gap;
use prony_model::metric::SELF_CPU;

pub(super) const CAUSE: Cause = Cause {
    id: "observer-overhead",
    layer: Layer::Rig,
    title: "observer overhead",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("observer_overhead.rs"),
};

/// Share of the CPUs that observing may take.
const OBSERVING: f64 = 0.05;
/// Its origin.
const ORIGIN: &str = "cited: aperf counts 1 % of user and 4 % of kernel time of its own as a finding";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let Some(generator) = Hop::generator(hop.run).filter(|g| g.shares_cpu_with(hop)) else {
        return does_not_apply(hop, "shares no CPU with the observers");
    };
    let own = hop.fact("self.cpu of all observers / their CPUs", "share", |r| {
        let hosts = Hop::path(hop.run).into_iter().chain([generator]);
        let used = hosts.filter_map(|h| Reader { hop: h, trial: r.trial }.sum(&SELF_CPU).ok()).reduce(|a, b| a + b);
        let used = used.ok_or_else(|| Gap::new(SELF_CPU.name, hop.name, "no observer told what it used"))?;
        Ok(used / Reader { hop: generator, trial: r.trial }.cpu()?.total().max(f64::MIN_POSITIVE))
    })?;
    if own.value < OBSERVING || !cpu_is_full(hop)? {
        return ruled_out(&own, OBSERVING, ORIGIN, "observing takes little, or the CPUs have room for it");
    }
    let share = own.value.min(1.0);
    let claim = format!("observing takes {:.0} % of the CPUs that {} shares with it", share * 100.0, hop.name);
    Finding::new(own, OBSERVING, ORIGIN, &claim, share)
        .and(hop.summary(&SELF_CPU), "CPU time of observing this host")
        .mend("take fewer samples per second, or give generator and observers CPUs of their own", None)
        .gaining(Some(gain_of_share(share, None)))
        .tested_by(Dose::Untestable("without observing nothing would be seen"))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(used: f64) -> Lab {
        Lab::healthy().cpu("1", 0.6, 0.3, 0.08).per_second("s1", &SELF_CPU, "", used)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "s1", &lab(0.2)) - 0.2).abs() < 0.02, "{}", score(CAUSE.id, "s1", &lab(0.2)));
        assert_eq!(score(CAUSE.id, "lb", &lab(0.2)), 0.0, "other CPUs");
        assert_eq!(score(CAUSE.id, "s1", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "s1", &lab(0.03)), 0.0);
        assert!(score(CAUSE.id, "s1", &lab(0.06)) > 0.0);
        assert_eq!(score(CAUSE.id, "s1", &lab(0.2).cpu("1", 0.3, 0.1, 0.0)), 0.0, "room for it");
    }

    monotonic!(lab, 0.0..0.9);
}
