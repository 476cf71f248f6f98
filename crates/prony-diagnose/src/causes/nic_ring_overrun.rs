//! # NIC ring overrun
//!
//! The card has no free place in its receive ring: it drops packets before the kernel sees them.
//!
//! ## What it sees
//! Overruns of the card (`rx_missed_errors` and the like) per packet received; size of the ring.
//!
//! ## Why it limits
//! A dropped segment is sent again after a timer, mostly 0.2 s.
//!
//! ## Evidence
//! Share of the requests in flight that stand still until a segment is sent again.
//!
//! ## What it is not
//! Drops for another reason (protocol, VLAN): they are counted elsewhere. Drops in the queues of the CPUs:
//! `softnet-backlog-drops`.
//!
//! ## Fix
//! `ethtool -G INTERFACE rx N`, more queues, or CPUs that take packets sooner. prony has no knob for it.
//!
//! ## References
//! Linux Documentation/networking/statistics.rst; ethtool(8) -S, -g.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::Hop;
use prony_model::metric::{IF_RX_PACKETS, NIC_OVERRUNS, NIC_RING, NIC_RING_MAX, TCP_RETRANSMITS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "nic-ring-overrun",
    layer: Layer::Network,
    title: "NIC ring overrun",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("nic_ring_overrun.rs"),
};

/// Overruns per packet received from which the ring counts as too small. A guess: a tenth of the border of
/// `packet-loss`, because bursts of others fill the ring too.
const OVERRUNS: f64 = 0.0001;
/// Share of the requests in flight that must stand still for it. A guess.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if hop.items(&NIC_OVERRUNS).is_empty() {
        return does_not_apply(hop, "has no network card that counts overruns");
    }
    let overruns = hop.fact("nic.overruns / if.rx_packets", "share", |r| {
        let packets = r.on_links(&IF_RX_PACKETS)?;
        Ok(if packets > 0.0 { r.sum(&NIC_OVERRUNS)? / packets } else { 0.0 })
    })?;
    if overruns.value < OVERRUNS {
        return ruled_out(&overruns, OVERRUNS, "guess", "its card has room for what comes");
    }
    // What a receiver drops, the sender sends again: the end that waits longer tells the wait.
    let callers = hop.run.stack.callers(hop.name);
    let others = callers.iter().filter_map(|c| hop.other(c).at(Level::At).ok()?.loss_share().ok());
    let share = others.fold(hop.at(Level::At)?.loss_share()?, f64::max);
    if share < SHARE_MIN {
        return ruled_out(&overruns, OVERRUNS, "guess", "the card drops packets, but requests hardly wait for it");
    }
    let claim = format!("the card of {} drops {:.3} % of what comes", hop.name, overruns.value * 100.0);
    Finding::new(overruns, OVERRUNS, "guess", &claim, share)
        .and(hop.summary(&NIC_RING), "places in the receive ring")
        .and(hop.summary(&NIC_RING_MAX), "places that it could have")
        .and(hop.summary(&TCP_RETRANSMITS), "segments sent again per second")
        .mend("a larger receive ring (ethtool -G), more queues, or CPUs that take packets sooner", None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Untestable("prony has no knob for rings"))
        .rising(hop.summary(&NIC_OVERRUNS))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(overruns: f64) -> Lab {
        Lab::healthy()
            .per_second("lb", &IF_RX_PACKETS, "eth0", 45_900.0)
            .per_second("lb", &NIC_OVERRUNS, "eth0", overruns * 45_900.0)
            .per_second("lb", &TCP_RETRANSMITS, "", 160.0)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.002)) - 0.5).abs() < 1e-3);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.00009)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.00011)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.002).per_second("lb", &TCP_RETRANSMITS, "", 1.0)), 0.0, "nobody waits");
    }

    fn lossy(again: f64) -> Lab {
        lab(0.002).per_second("lb", &TCP_RETRANSMITS, "", again)
    }

    monotonic!(lossy, 0.0..400.0);
}
