//! # Interrupts on one CPU
//!
//! One CPU takes all interrupts of a card with several queues, and is full of packet work while others are idle.
//!
//! ## What it sees
//! Interrupts of the card by CPU; soft interrupt share of the busiest CPU; idle time of the others.
//!
//! ## Why it limits
//! Packets wait for that CPU, whatever the others could do.
//!
//! ## Evidence
//! Idle share of the machine's other CPUs, while the one is full of packet work.
//!
//! ## What it is not
//! A card with one queue: `too-few-nic-queues`. Few connections, which fall on one queue: `flow-hash-skew`.
//!
//! ## Fix
//! `/proc/irq/N/smp_affinity_list`, irqbalance, the driver's script. prony has no knob for it.
//!
//! ## References
//! Linux Documentation/networking/scaling.rst; talawah.io: +38 % from interrupt and process locality.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use prony_model::Gap;
use prony_model::metric::{CPU_IDLE, CPU_SOFTIRQ, NIC_INTERRUPTS, NIC_QUEUES};

pub(super) const CAUSE: Cause = Cause {
    id: "interrupts-on-one-cpu",
    layer: Layer::Network,
    title: "interrupts on one CPU",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("interrupts_on_one_cpu.rs"),
};

/// Share of a card's interrupts on one CPU. A guess: with two queues that are balanced it is a half.
const ON_ONE: f64 = 0.8;
/// Soft interrupt share from which a CPU is full of packet work.
pub(super) const SOFTIRQ: f64 = 0.6;
/// Its origin.
pub(super) const ORIGIN: &str = "cited: catalogue row 16 (below 60 % of soft interrupts on the top CPU rules it out)";
/// Idle share of the other CPUs that could take packets. A guess.
pub(super) const IDLE: f64 = 0.3;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if hop.items(&NIC_INTERRUPTS).is_empty() {
        return does_not_apply(hop, "has no network card with interrupts of its own");
    }
    let most = hop.fact("interrupts of the card on one CPU", "share", |r| Ok(fullest(r)?.1))?;
    if most.value < ON_ONE {
        return ruled_out(&most, ON_ONE, "guess", "several CPUs take its interrupts");
    }
    let (cpu, card) = hop.at(prony_model::Level::At).and_then(|r| fullest(&r)).map(|(place, _)| place)?;
    let queues = hop.fact(NIC_QUEUES.name, "", |r| r.one(&NIC_QUEUES, &card));
    if queues.as_ref().is_ok_and(|queues| queues.value < 2.0) {
        return does_not_apply(hop, "has a card with one queue, whose interrupts can go to one CPU only");
    }
    let softirq = hop.fact(format!("soft interrupts of CPU {cpu}"), "share", |r| r.one(&CPU_SOFTIRQ, &cpu))?;
    if softirq.value < SOFTIRQ {
        return ruled_out(&softirq, SOFTIRQ, ORIGIN, "that CPU is not full of packet work");
    }
    let idle = idle_elsewhere(hop, &cpu)?;
    if idle.value < IDLE {
        return ruled_out(&idle, IDLE, "guess", "no other CPU could take packets");
    }
    let share = idle.value;
    let claim = format!("CPU {cpu} takes {:.0} % of the interrupts of {card} at {}", most.value * 100.0, hop.name);
    Finding::new(most, ON_ONE, "guess", &claim, share)
        .and(Ok(softirq.clone()), "it is full of packet work")
        .and(Ok(idle), "idle share of the other CPUs")
        .and(queues, "queues of the card")
        .mend("spread the card's interrupts over CPUs: smp_affinity_list, irqbalance", None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Untestable("prony has no knob for interrupts"))
        .rising(Ok(softirq))
        .fires()
}

/// CPU and card of the greatest share of a card's interrupts that falls on one CPU.
fn fullest(r: &Reader<'_>) -> Result<((String, String), f64), Gap> {
    let rates = r.hop.items(&NIC_INTERRUPTS).into_iter().filter_map(|item| {
        let (card, cpu) = item.split_once(' ')?;
        Some((card, cpu, r.one(&NIC_INTERRUPTS, item).ok()?))
    });
    let rates: Vec<(&str, &str, f64)> = rates.collect();
    let total = |card: &str| rates.iter().filter(|(c, _, _)| *c == card).map(|(_, _, n)| n).sum::<f64>();
    let most = rates.iter().max_by(|a, b| a.2.total_cmp(&b.2)).filter(|most| most.2 > 0.0);
    most.map(|(card, cpu, n)| ((cpu.to_string(), card.to_string()), n / total(card)))
        .ok_or_else(|| Gap::new(NIC_INTERRUPTS.name, r.hop.name, "no interrupt of a card was counted"))
}

/// Mean idle share of the machine's CPUs other than one.
pub(super) fn idle_elsewhere(hop: &Hop<'_>, busy: &str) -> Result<Fact, Gap> {
    let others: Vec<&str> = hop.items(&CPU_IDLE).into_iter().filter(|cpu| *cpu != busy).collect();
    hop.fact("idle share of the other CPUs", "share", |r| {
        let idle = others.iter().map(|cpu| r.one(&CPU_IDLE, cpu)).sum::<Result<f64, Gap>>()?;
        Ok(idle / others.len().max(1) as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(on_one: f64) -> Lab {
        Lab::healthy()
            .cpu("0", 0.1, 0.1, 0.75)
            .per_second("lb", &NIC_INTERRUPTS, "eth0 0", on_one * 20_000.0)
            .per_second("lb", &NIC_INTERRUPTS, "eth0 1", (1.0 - on_one) * 20_000.0)
            .gauge("lb", &NIC_QUEUES, "eth0", 8.0)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(1.0)) - 0.5).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.79)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.81)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0).gauge("lb", &NIC_QUEUES, "eth0", 1.0)), 0.0, "one queue");
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0).cpu("0", 0.3, 0.3, 0.3)), 0.0, "room");
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0).cpu("1", 0.5, 0.4, 0.0)), 0.0, "nowhere to go");
    }

    fn above(share: f64) -> Lab {
        lab(0.5 + share)
    }

    monotonic!(above, 0.0..0.5);
}
