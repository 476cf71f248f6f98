//! # Softirq budget squeezed
//!
//! Packet work of a CPU comes to the end of its budget most of the time, on a CPU that is full of it, while others are
//! idle.
//!
//! ## What it sees
//! `softnet.squeezed` per packet processed (a round may process `netdev_budget` packets); soft interrupt share of the
//! CPU; idle time of the others.
//!
//! ## Why it limits
//! Packets wait for the next round, and the kernel thread that goes on competes with the application.
//!
//! ## Evidence
//! Share of the packets in rounds that ended so, times the soft interrupt share of the CPU.
//!
//! ## What it is not
//! Some squeezed rounds: normal, whatever the load. A CPU with time left.
//!
//! ## Fix
//! Spread the packets over more CPUs first; then knobs `sysctl.net.core.netdev_budget` and `netdev_budget_usecs`.
//!
//! ## References
//! Linux Documentation/admin-guide/sysctl/net.rst netdev_budget; netdata #984 and #1076: small counts are noise.

use super::interrupts_on_one_cpu::{IDLE, ORIGIN, SOFTIRQ, idle_elsewhere};
use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, knob, ruled_out};
use crate::facts::Hop;
use prony_model::metric::{CPU_SOFTIRQ, SOFTNET_PROCESSED, SOFTNET_SQUEEZED};
use prony_model::{Gap, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "softirq-budget-squeezed",
    layer: Layer::Network,
    title: "softirq budget squeezed",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("softirq_budget_squeezed.rs"),
};

/// Packets that a round may process, as kernels come: net.core.netdev_budget.
const BUDGET: f64 = 300.0;
/// Share of packets in squeezed rounds. A guess.
const SQUEEZED: f64 = 0.5;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let at = hop.at(Level::At)?;
    let worst = hop.worst_cpu(|cpu| at.one(&CPU_SOFTIRQ, cpu).ok());
    let Some((cpu, _)) = worst else {
        return Err(Gap::new(CPU_SOFTIRQ.name, hop.name, "soft interrupts were not read"));
    };
    let item = cpu.to_string();
    let squeezed = hop.fact(format!("packets in squeezed rounds of CPU {cpu}"), "share", |r| {
        let processed = r.one(&SOFTNET_PROCESSED, &item)?;
        let squeezed = r.one(&SOFTNET_SQUEEZED, &item)?;
        Ok(if processed > 0.0 { (squeezed * BUDGET / processed).min(1.0) } else { 0.0 })
    })?;
    if squeezed.value < SQUEEZED {
        return ruled_out(&squeezed, SQUEEZED, "guess", "packet work ends within its budget");
    }
    let softirq = hop.fact(format!("soft interrupts of CPU {cpu}"), "share", |r| r.one(&CPU_SOFTIRQ, &item))?;
    if softirq.value < SOFTIRQ {
        return ruled_out(&softirq, SOFTIRQ, ORIGIN, "no CPU is full of packet work");
    }
    let idle = idle_elsewhere(hop, &item)?;
    if idle.value < IDLE {
        return ruled_out(&idle, IDLE, "guess", "no other CPU could take packets");
    }
    let share = (squeezed.value * softirq.value).min(idle.value);
    let claim = format!("packet work on CPU {cpu} of {} hardly ever ends within its budget", hop.name);
    Finding::new(squeezed, SQUEEZED, "guess", &claim, share)
        .and(Ok(softirq.clone()), "soft interrupt share of that CPU")
        .and(Ok(idle), "idle share of the other CPUs of the machine")
        .mend(
            "spread the packets over more CPUs (queues, rps_cpus), then raise netdev_budget",
            knob(hop, KnobId::Sysctl("net.core.netdev_budget".to_string()), "600"),
        )
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .rising(Ok(softirq))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(squeezed_per_s: f64) -> Lab {
        Lab::healthy().cpu("0", 0.1, 0.1, 0.8).per_second("lb", &SOFTNET_SQUEEZED, "0", squeezed_per_s)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(300.0)) - 0.5).abs() < 1e-6, "CPU 1 is half idle");
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(149.0)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(151.0)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(300.0).cpu("0", 0.4, 0.2, 0.4)), 0.0, "room for the application");
        assert_eq!(score(CAUSE.id, "lb", &lab(300.0).cpu("1", 0.4, 0.4, 0.1)), 0.0, "nowhere to go");
    }

    monotonic!(lab, 0.0..1000.0);
}
