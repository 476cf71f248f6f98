//! # NUMA remote memory
//!
//! The workers use memory, or a card, of another NUMA node than that of their CPUs.
//!
//! ## What it sees
//! Pages given to processes of another node (`numastat`), node of the workers' CPUs, node of the card.
//!
//! ## Why it limits
//! Each access to another node takes up to twice as long.
//!
//! ## Evidence
//! Share of remote pages, times a guessed third of the CPU time.
//!
//! ## What it is not
//! A machine with one node. Remote pages below a tenth.
//!
//! ## Fix
//! Bind workers, memory and interrupts to the node of the card (knob `cpu_affinity`; numactl).
//!
//! ## References
//! Linux Documentation/admin-guide/numastat.rst.

use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, knob, predicted_gain, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{CPU_NODE, NIC_NODE, NUMA_LOCAL, NUMA_REMOTE};
use prony_model::{CpuList, Gap, KnobId, Level};
use std::collections::BTreeSet;

pub(super) const CAUSE: Cause = Cause {
    id: "numa-remote",
    layer: Layer::Cpu,
    title: "NUMA remote memory",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("numa_remote.rs"),
};

/// Share of pages from another node from which it matters. A guess.
const REMOTE: f64 = 0.15;
/// Part of the CPU time that remote access adds to work on such memory. A guess: latency 1.5 to 2 times, and two thirds
/// of the time go elsewhere.
const ADDED: f64 = 0.3;
/// Share of the limit from which it matters. A guess.
const SHARE_MIN: f64 = 0.04;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let at = hop.at(Level::At)?;
    let node = |cpu: &u32| at.one(&CPU_NODE, &cpu.to_string()).ok().map(|n| n as u32);
    let machine: BTreeSet<u32> = hop.items(&CPU_NODE).into_iter().filter_map(|cpu| node(&cpu.parse().ok()?)).collect();
    if machine.len() < 2 {
        return does_not_apply(hop, "runs on a machine with one NUMA node");
    }
    let remote = hop.fact("numa.remote_pages / all", "share", remote_share)?;
    if remote.value < REMOTE {
        return ruled_out(&remote, REMOTE, "guess", "memory comes from the node of who uses it");
    }
    let share = remote.value * ADDED * (1.0 - at.stalled_share());
    if share < SHARE_MIN || !cpu_is_full(hop)? {
        return ruled_out(&remote, REMOTE, "guess", "remote pages cost little, or the CPUs have room");
    }
    let card = hop.items(&NIC_NODE).into_iter().find_map(|card| at.one(&NIC_NODE, card).ok()).map(|n| n as u32);
    let home = card.or_else(|| hop.cpus().ok()?.iter().find_map(node)).unwrap_or_default();
    let near: Vec<u32> = hop.cpus()?.into_iter().filter(|cpu| node(cpu) == Some(home)).collect();
    let list = CpuList::from_iter(near.iter().copied()).to_string();
    let claim = format!("{:.0} % of the pages that {} gets lie on another NUMA node", remote.value * 100.0, hop.name);
    let bind = knob(hop, KnobId::CpuAffinity, list.clone()).filter(|_| !near.is_empty());
    Finding::new(remote, REMOTE, "guess", &claim, share)
        .and(hop.summary(&NIC_NODE), "node of its card")
        .and(hop.summary(&NUMA_REMOTE), "remote pages per second")
        .mend(format!("bind its workers, memory and interrupts to node {home} (CPU {list})"), bind)
        .gaining(predicted_gain(hop, share))
        .rising(hop.summary(&NUMA_REMOTE))
        .fires()
}

fn remote_share(r: &Reader<'_>) -> Result<f64, Gap> {
    let (local, remote) = (r.sum(&NUMA_LOCAL)?, r.sum(&NUMA_REMOTE)?);
    Ok(if local + remote > 0.0 { remote / (local + remote) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(remote: f64) -> Lab {
        Lab::healthy()
            .gauge("lb", &CPU_NODE, "0", 0.0)
            .gauge("lb", &CPU_NODE, "1", 1.0)
            .per_second("lb", &NUMA_LOCAL, "0", 10_000.0 * (1.0 - remote))
            .per_second("lb", &NUMA_REMOTE, "0", 10_000.0 * remote)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.5)) - 0.15).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.14)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.16)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.5).cpu("0", 0.2, 0.1, 0.1)), 0.0, "room");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.5).gauge("lb", &CPU_NODE, "1", 0.0)), 0.0, "one node");
    }

    monotonic!(lab, 0.0..1.0);
}
