//! # Too few NIC queues
//!
//! The card uses fewer queues than it has, and the CPU behind one of them is full of packet work.
//!
//! ## What it sees
//! Queues in use, queues that the card offers, CPUs; soft interrupt share of the busiest CPU; idle time of the others.
//!
//! ## Why it limits
//! Each queue is served by one CPU, so few queues are few CPUs.
//!
//! ## Evidence
//! Idle share of the machine's other CPUs, while the one is full of packet work.
//!
//! ## What it is not
//! Queues that cope: the fewest queues of which none overflows are the best, so no full CPU means no finding. Steering
//! (RPS) that spreads the packets in software.
//!
//! ## Fix
//! `ethtool -L INTERFACE combined N`. prony has no knob for it.
//!
//! ## References
//! Linux Documentation/networking/scaling.rst, "Suggested Configuration" of RSS.

use super::interrupts_on_one_cpu::{IDLE, ORIGIN, SOFTIRQ, idle_elsewhere};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::Hop;
use prony_model::metric::{CPU_IDLE, CPU_SOFTIRQ, IF_RPS_CPUS, NIC_QUEUES, NIC_QUEUES_MAX};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "too-few-nic-queues",
    layer: Layer::Network,
    title: "too few NIC queues",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("too_few_nic_queues.rs"),
};

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let at = hop.at(Level::At)?;
    let cpus = hop.items(&CPU_IDLE).len() as f64;
    let spare = |card: &&str| {
        let most = at.one(&NIC_QUEUES_MAX, card).ok()?.min(cpus);
        let used = at.one(&NIC_QUEUES, card).ok()?;
        Some((used, most))
    };
    if hop.items(&NIC_QUEUES).is_empty() {
        return does_not_apply(hop, "has no network card that tells its queues");
    }
    let card = hop.items(&NIC_QUEUES).into_iter().find(|card| spare(card).is_some_and(|(used, most)| used < most));
    let Some(card) = card else {
        let queues = hop.summary(&NIC_QUEUES)?;
        return ruled_out(&queues, 1.0, "definition", "its card uses all queues that it has CPUs for");
    };
    if at.one(&IF_RPS_CPUS, card).is_ok_and(|cpus| cpus > 0.0) {
        return does_not_apply(hop, "spreads packets by steering, so the queues of its card are no limit");
    }
    let Some((cpu, _)) = hop.worst_cpu(|cpu| at.one(&CPU_SOFTIRQ, cpu).ok()) else {
        return Err(Gap::new(CPU_SOFTIRQ.name, hop.name, "soft interrupts were not read"));
    };
    let cpu = cpu.to_string();
    let softirq = hop.fact(format!("soft interrupts of CPU {cpu}"), "share", |r| r.one(&CPU_SOFTIRQ, &cpu))?;
    if softirq.value < SOFTIRQ {
        return ruled_out(&softirq, SOFTIRQ, ORIGIN, "no CPU is full of packet work, so the queues cope");
    }
    let idle = idle_elsewhere(hop, &cpu)?;
    if idle.value < IDLE {
        return ruled_out(&idle, IDLE, "guess", "no other CPU could serve a queue");
    }
    let (used, most) = spare(&card).unwrap_or_default();
    let share = idle.value;
    let claim =
        format!("{card} of {} uses {used:.0} of {most:.0} queues, and CPU {cpu} is full of its packets", hop.name);
    Finding::new(softirq.clone(), SOFTIRQ, ORIGIN, &claim, share)
        .and(hop.fact(NIC_QUEUES.name, "", |r| r.one(&NIC_QUEUES, card)), "queues in use")
        .and(hop.fact(NIC_QUEUES_MAX.name, "", |r| r.one(&NIC_QUEUES_MAX, card)), "queues that the card offers")
        .and(Ok(idle), "idle share of the other CPUs")
        .mend(format!("ethtool -L {card} combined {most:.0}"), None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Untestable("prony has no knob for queues of cards"))
        .rising(Ok(softirq))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(softirq: f64) -> Lab {
        Lab::healthy().cpu("0", 0.98 - softirq, 0.0, softirq).gauge("lb", &NIC_QUEUES, "eth0", 1.0).gauge(
            "lb",
            &NIC_QUEUES_MAX,
            "eth0",
            8.0,
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.8)) - 0.5).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.59)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.61)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.8).gauge("lb", &NIC_QUEUES, "eth0", 2.0)), 0.0, "one for each CPU");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.8).gauge("lb", &IF_RPS_CPUS, "eth0", 2.0)), 0.0, "steered");
    }

    monotonic!(lab, 0.0..0.98);
}
