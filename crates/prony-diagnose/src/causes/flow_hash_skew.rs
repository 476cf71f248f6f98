//! # Flow hash skew
//!
//! The card's hash puts most packets on one of its queues, and the CPU behind it is full while others are idle.
//!
//! ## What it sees
//! Packets per receive queue: the greatest against the mean; connections; soft interrupt share of the busiest CPU.
//!
//! ## Why it limits
//! The connections on that queue wait for its CPU.
//!
//! ## Evidence
//! One less mean over greatest queue, at most the idle share of the other CPUs.
//!
//! ## What it is not
//! Few connections: chance then, and an artefact of the test. Interrupts of all queues on one CPU:
//! `interrupts-on-one-cpu`.
//!
//! ## Fix
//! More connections, `ethtool -X` (indirection table), n-tuple rules, RFS.
//!
//! ## References
//! Linux Documentation/networking/scaling.rst RSS; ethtool(8) -x.

use super::interrupts_on_one_cpu::{IDLE, ORIGIN, SOFTIRQ, idle_elsewhere};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{CONN_IN, CPU_SOFTIRQ, NIC_QUEUE_PACKETS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "flow-hash-skew",
    layer: Layer::Network,
    title: "flow hash skew",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("flow_hash_skew.rs"),
};

/// Packets of the greatest queue over the mean, from which queues are uneven. A guess: with 16 connections per queue
/// chance gives up to 1.7.
const UNEVEN: f64 = 2.0;
/// Connections per queue below which chance alone makes them so uneven. A guess.
const CONNECTIONS_PER_QUEUE: f64 = 8.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let queues = hop.items(&NIC_QUEUE_PACKETS).len() as f64;
    if queues < 2.0 {
        return does_not_apply(hop, "has no network card with several queues that are counted");
    }
    let uneven = hop.fact("packets of the greatest queue / mean", "", unevenness)?;
    if uneven.value < UNEVEN {
        return ruled_out(&uneven, UNEVEN, "guess", "packets are spread over the queues");
    }
    let at = hop.at(Level::At)?;
    let connections = hop.summary(&CONN_IN)?;
    if connections.value < CONNECTIONS_PER_QUEUE * queues {
        return ruled_out(
            &connections,
            CONNECTIONS_PER_QUEUE * queues,
            "guess",
            "with so few connections it is chance",
        );
    }
    let Some((cpu, _)) = hop.worst_cpu(|cpu| at.one(&CPU_SOFTIRQ, cpu).ok()) else {
        return Err(Gap::new(CPU_SOFTIRQ.name, hop.name, "soft interrupts were not read"));
    };
    let cpu = cpu.to_string();
    let softirq = hop.fact(format!("soft interrupts of CPU {cpu}"), "share", |r| r.one(&CPU_SOFTIRQ, &cpu))?;
    if softirq.value < SOFTIRQ {
        return ruled_out(&softirq, SOFTIRQ, ORIGIN, "no CPU is full of packet work");
    }
    let idle = idle_elsewhere(hop, &cpu)?;
    if idle.value < IDLE {
        return ruled_out(&idle, IDLE, "guess", "no other CPU could take packets");
    }
    let share = (1.0 - 1.0 / uneven.value).min(idle.value);
    let claim = format!("one of {queues:.0} queues of {} gets {:.1} times the mean", hop.name, uneven.value);
    Finding::new(uneven, UNEVEN, "guess", &claim, share)
        .and(Ok(softirq.clone()), "a CPU is full of packet work")
        .and(Ok(connections), "connections, enough to be spread")
        .and(Ok(idle), "idle share of the other CPUs")
        .mend("spread the flows: ethtool -X, n-tuple rules, RFS; look for one connection that carries most", None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Untestable("prony has no knob for the hash of a card"))
        .rising(Ok(softirq))
        .fires()
}

fn unevenness(r: &Reader<'_>) -> Result<f64, Gap> {
    let rates = r.hop.items(&NIC_QUEUE_PACKETS).into_iter().map(|item| r.one(&NIC_QUEUE_PACKETS, item));
    let rates: Vec<f64> = rates.collect::<Result<_, Gap>>()?;
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    Ok(if mean > 0.0 { rates.iter().copied().fold(0.0, f64::max) / mean } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    /// Four queues: one with so many packets per second, three with 5,000 each.
    fn lab(first: f64) -> Lab {
        let lab = Lab::healthy().cpu("0", 0.1, 0.1, 0.75).gauge("lb", &CONN_IN, "80", 64.0);
        ["eth0 1", "eth0 2", "eth0 3"]
            .iter()
            .fold(lab, |lab, queue| lab.per_second("lb", &NIC_QUEUE_PACKETS, queue, 5_000.0))
            .per_second("lb", &NIC_QUEUE_PACKETS, "eth0 0", first)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(100_000.0)) - 0.5).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(14_900.0)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(15_100.0)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(100_000.0).gauge("lb", &CONN_IN, "80", 31.0)), 0.0, "chance");
    }

    fn above(more: f64) -> Lab {
        lab(5_000.0 + more)
    }

    monotonic!(above, 0.0..100_000.0);
}
