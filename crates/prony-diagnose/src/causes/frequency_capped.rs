//! # Frequency capped
//!
//! The CPUs are full and run slower than they can: a governor, a power limit, or heat.
//!
//! ## What it sees
//! Clock rate of the hop's CPUs against the highest that they have; times that heat slowed them.
//!
//! ## Why it limits
//! The same work takes longer, in proportion.
//!
//! ## Evidence
//! One less clock rate over the highest, of full CPUs.
//!
//! ## What it is not
//! Idle CPUs, which are slow because they have nothing to do. Virtual machines, which mostly do not tell.
//!
//! ## Fix
//! The performance governor, cooling, a higher power limit. prony has no knob for it.
//!
//! ## References
//! Linux Documentation/admin-guide/pm/cpufreq.rst; PerfSpect reports the governor.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_of_share, gain_until_next_limit, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::Gap;
use prony_model::metric::{CPU_MHZ, CPU_MHZ_MAX, CPU_THERMAL_THROTTLES};

pub(super) const CAUSE: Cause = Cause {
    id: "frequency-capped",
    layer: Layer::Cpu,
    title: "frequency capped",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("frequency_capped.rs"),
};

/// Share of the clock rate that must be missing. A guess: with all cores busy turbo rates are up to 30 % below the
/// highest, which only a lone core reaches.
const MISSING: f64 = 0.4;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let missing = hop.fact("1 - cpu.mhz / cpu.mhz_max", "share", missing)?;
    if missing.value < MISSING || !cpu_is_full(hop)? {
        return ruled_out(&missing, MISSING, "guess", "its CPUs run near their highest rate, or have room");
    }
    let share = missing.value.min(1.0);
    let claim = format!("the full CPUs of {} run at {:.0} % of their clock rate", hop.name, (1.0 - share) * 100.0);
    Finding::new(missing, MISSING, "guess", &claim, share)
        .and(hop.summary(&CPU_THERMAL_THROTTLES), "times per second that heat slowed a CPU")
        .mend("the performance governor, cooling, or a higher power limit", None)
        .gaining(Some(gain_of_share(share, gain_until_next_limit(hop))))
        .tested_by(Dose::Cpu)
        .rising(hop.fact("busy share of the hop's CPUs", "share", |r| Ok(r.cpu()?.busy_share())))
        .fires()
}

/// Over the hop's CPUs that told both rates.
fn missing(r: &Reader<'_>) -> Result<f64, Gap> {
    let rates =
        |cpu: &u32| Some((r.one(&CPU_MHZ, &cpu.to_string()).ok()?, r.one(&CPU_MHZ_MAX, &cpu.to_string()).ok()?));
    let (now, most) =
        r.hop.cpus()?.iter().filter_map(rates).fold((0.0, 0.0), |sum, rate| (sum.0 + rate.0, sum.1 + rate.1));
    if most > 0.0 {
        Ok((1.0 - now / most).max(0.0))
    } else {
        Err(Gap::new(CPU_MHZ.name, r.hop.name, "its CPUs do not tell their clock rate"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(mhz: f64) -> Lab {
        Lab::healthy().gauge("lb", &CPU_MHZ, "0", mhz)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(1_500.0)) - 0.5).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(1_810.0)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(1_790.0)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(1_500.0).cpu("0", 0.2, 0.1, 0.1)), 0.0, "slow because idle");
    }

    fn slower(by: f64) -> Lab {
        lab(3_000.0 - by)
    }

    monotonic!(slower, 0.0..3_000.0);
}
