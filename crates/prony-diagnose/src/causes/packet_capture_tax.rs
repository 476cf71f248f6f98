//! # Packet capture tax
//!
//! A tap (tcpdump, an agent) gets a copy of every packet of the host.
//!
//! ## What it sees
//! Packet sockets of every protocol in the namespace (`/proc/net/packet`), the CPU time of the process that holds one,
//! packets per second.
//!
//! ## Why it limits
//! Each packet is cloned, filtered and copied to the tap, in the soft interrupts of the CPUs that serve.
//!
//! ## Evidence
//! CPU time of the tap on these CPUs, and a guessed microsecond per packet, as a share of what limits.
//!
//! ## What it is not
//! A socket for a protocol of its own (LLDP, ARP): it sees few packets. A tap on a host with room.
//!
//! ## Fix
//! Stop the tap, give it a filter and a short snap length, or tap at the switch.
//!
//! ## References
//! packet(7); Linux Documentation/networking/packet_mmap.rst; talawah.io: +6 % without the raw socket of a DHCP client.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, cpu_work_or, predicted_gain, ruled_out, work_share};
use crate::facts::Hop;
use crate::host_facts::looked_at;
use prony_model::metric::{LOOK_TAP, PACKET_SOCKETS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "packet-capture-tax",
    layer: Layer::Network,
    title: "packet capture tax",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("packet_capture_tax.rs"),
};

/// CPU time that a tap adds to a packet, in microseconds: clone, filter, copy into the tap's ring. A guess: talawah.io
/// gained 6 % at some 10 us per request from a socket that dropped everything in its filter.
const TAP_US_PER_PACKET: f64 = 0.5;
/// Share of the limit from which it matters. A guess.
const SHARE_MIN: f64 = 0.05;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let taps = hop.summary(&PACKET_SOCKETS)?;
    if taps.value < 1.0 {
        return ruled_out(&taps, 1.0, "definition", "nobody taps the packets of this host");
    }
    let at = hop.at(Level::At)?;
    let items = hop.items(&LOOK_TAP);
    let tap_cpus: f64 = items.iter().filter_map(|item| hop.look(&LOOK_TAP, item).ok()).sum();
    let copies_us = taps.value * at.packets()? / at.requests()? * TAP_US_PER_PACKET;
    let share = work_share(hop, copies_us + tap_cpus * 1e6 / at.requests()?)?;
    if share < SHARE_MIN {
        return ruled_out(&taps, 1.0, "definition", "packets are tapped, but they are few, or the CPUs have room");
    }
    let names: Vec<&str> = items.iter().map(|item| item.split_once(' ').map_or(*item, |(_, name)| name)).collect();
    let who = if names.is_empty() { String::new() } else { format!(" by {}", names.join(", ")) };
    let claim = format!("every packet of {} is copied to {:.0} tap(s){who}", hop.name, taps.value);
    Finding::new(taps, 1.0, "definition", &claim, share)
        .and(Ok(looked_at(hop, LOOK_TAP.name, "CPUs", tap_cpus)), "CPU time of the taps")
        .and(hop.fact("packets", "/s", |r| r.packets()), "packets that are copied")
        .mend("stop the tap, or give it a filter and a short snap length", None)
        .gaining(predicted_gain(hop, share))
        .tested_by(cpu_work_or(hop, "prony does not stop other people's taps, and the CPUs have room")?)
        .rising(hop.fact("packets", "/s", |r| r.packets()))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, monotonic, score};

    fn lab(taps: f64) -> Lab {
        Lab::healthy().gauge("lb", &PACKET_SOCKETS, "", taps).gauge("lb", &LOOK_TAP, "900 tcpdump", 0.2 * taps.min(1.0))
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(1.0)).unwrap();
        assert!((found.score - 0.223).abs() < 0.001, "{}", found.score);
        assert!(found.summary.contains("tcpdump"), "{}", found.summary);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.9)), 0.0, "for a moment only");
        let idle = || lab(1.0).cpu("0", 0.1, 0.1, 0.1);
        assert_eq!(score(CAUSE.id, "lb", &idle().gauge("lb", &LOOK_TAP, "900 tcpdump", 0.0)), 0.0, "room for it");
        assert_eq!(found.dose, Dose::Cpu, "its CPU is full");
        let costly = finding(CAUSE.id, "lb", &idle().gauge("lb", &LOOK_TAP, "900 tcpdump", 20.0)).unwrap();
        assert!(matches!(costly.dose, Dose::Untestable(_)), "{:?}", costly.dose);
    }

    monotonic!(lab, 0.0..4.0);
}
