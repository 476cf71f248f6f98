//! # Coalescing too low
//!
//! The card interrupts for nearly every packet.
//!
//! ## What it sees
//! Interrupts of the card per packet received; interrupts per second; its coalescing.
//!
//! ## Why it limits
//! Each interrupt costs its entry and exit, and stops what runs.
//!
//! ## Evidence
//! Interrupts that packets in groups of eight would spare, at a guessed price, as a share of what limits.
//!
//! ## What it is not
//! Few packets: then an interrupt for each is right. Many packets per interrupt: the kernel polls already.
//!
//! ## Fix
//! `ethtool -C INTERFACE adaptive-rx on`, or more rx-usecs. prony has no knob for it.
//!
//! ## References
//! ethtool(8) -C; talawah.io: +28 % from adaptive coalescing with busy polling; F3 T2 of the field cases.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, predicted_gain, ruled_out, work_share,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{IF_RX_PACKETS, NIC_COALESCE, NIC_COALESCE_ADAPTIVE, NIC_INTERRUPTS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "coalescing-too-low",
    layer: Layer::Network,
    title: "coalescing too low",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("coalescing_too_low.rs"),
};

/// Interrupts per packet from which the card hardly gathers any. A guess: the catalogue rules it out above 8 packets
/// per interrupt, and polling under load comes to less than one in two.
const PER_PACKET: f64 = 0.5;
/// Interrupts per packet that gathering would leave. Cited: catalogue row 20.
const GATHERED: f64 = 0.125;
/// CPU time of an interrupt with its cold caches, in microseconds. A guess.
const INTERRUPT_US: f64 = 2.0;
/// Share of the limit from which it matters. A guess.
const SHARE_MIN: f64 = 0.05;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if hop.items(&NIC_INTERRUPTS).is_empty() {
        return does_not_apply(hop, "has no network card with interrupts of its own");
    }
    let per_packet = hop.fact("nic.interrupts / if.rx_packets", "", |r| per_packet(r))?;
    if per_packet.value < PER_PACKET {
        return ruled_out(&per_packet, PER_PACKET, "guess", "an interrupt brings several packets");
    }
    let at = hop.at(Level::At)?;
    let spared = at.sum(&NIC_INTERRUPTS)? * (1.0 - GATHERED / per_packet.value);
    let share = work_share(hop, spared * INTERRUPT_US / at.requests()?)?;
    if share < SHARE_MIN {
        return ruled_out(&per_packet, PER_PACKET, "guess", "an interrupt for each packet, but that costs little");
    }
    let claim = format!("the card of {} interrupts {:.2} times per packet", hop.name, per_packet.value);
    Finding::new(per_packet, PER_PACKET, "guess", &claim, share)
        .and(hop.summary(&NIC_INTERRUPTS), "interrupts of the card per second")
        .and(hop.summary(&NIC_COALESCE), "how long it gathers packets")
        .and(hop.summary(&NIC_COALESCE_ADAPTIVE), "1 when it adapts that to the load")
        .mend("let the card gather packets: ethtool -C adaptive-rx on, or more rx-usecs", None)
        .gaining(predicted_gain(hop, share))
        .tested_by(Dose::Cpu)
        .rising(hop.summary(&NIC_INTERRUPTS))
        .fires()
}

fn per_packet(r: &Reader<'_>) -> Result<f64, Gap> {
    let packets = r.on_links(&IF_RX_PACKETS)?;
    Ok(if packets > 0.0 { r.sum(&NIC_INTERRUPTS)? / packets } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(per_packet: f64) -> Lab {
        Lab::healthy().per_second("lb", &IF_RX_PACKETS, "eth0", 45_900.0).per_second(
            "lb",
            &NIC_INTERRUPTS,
            "eth0 0",
            45_900.0 * per_packet,
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(1.0)) - 0.08).abs() < 0.001, "{}", score(CAUSE.id, "lb", &lab(1.0)));
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.12)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.66)), 0.0, "cheap");
        assert!(score(CAUSE.id, "lb", &lab(0.7)) > 0.0);
    }

    monotonic!(lab, 0.0..2.0);
}
