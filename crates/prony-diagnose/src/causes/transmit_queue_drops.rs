//! # Transmit queue drops
//!
//! The queue of an interface is too short: the host drops packets that it wants to send, although the link has room.
//!
//! ## What it sees
//! Drops of the queueing disciplines per packet sent; fill of the link.
//!
//! ## Why it limits
//! A dropped segment is sent again after a timer, mostly 0.2 s.
//!
//! ## Evidence
//! Share of the requests in flight that stand still until a segment is sent again.
//!
//! ## What it is not
//! A full link, whose queue has to drop: `bandwidth-bound`. Packets lost on the way: `packet-loss`, no queue of a host
//! counts them.
//!
//! ## Fix
//! A longer queue (txqueuelen, limit of the discipline), fq instead of a short fifo.
//!
//! ## References
//! tc(8) -s qdisc; Linux TCPSpuriousRtxHostQueues.

use super::bandwidth_bound::{FULL_LINK, fullest_sending};
use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, ruled_out};
use crate::facts::Hop;
use prony_model::metric::{IF_TX_PACKETS, QDISC_BACKLOG, QDISC_DROPS, TCP_RETRANSMITS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "transmit-queue-drops",
    layer: Layer::Network,
    title: "transmit queue drops",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("transmit_queue_drops.rs"),
};

/// Drops per packet sent from which a queue counts as too short. A guess: the border of `packet-loss`.
const DROPS: f64 = 0.001;

/// Share of the requests in flight that must stand still for a lost segment. A guess, as for `packet-loss`.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let drops = hop.fact("qdisc.drops / packets sent", "share", |r| {
        let packets = r.on_links(&IF_TX_PACKETS)?;
        Ok(if packets > 0.0 { r.sum(&QDISC_DROPS)? / packets } else { 0.0 })
    });
    // A host without any queueing discipline drops nothing in one.
    let drops = match drops {
        Err(_) if hop.items(&QDISC_DROPS).is_empty() && !hop.items(&IF_TX_PACKETS).is_empty() => {
            return crate::cause::does_not_apply(hop, "has no queueing discipline that could drop");
        }
        drops => drops?,
    };
    if drops.value < DROPS {
        return ruled_out(&drops, DROPS, "guess", "its queues drop nothing");
    }
    if let Some(fill) = fullest_sending(hop).filter(|fill| fill.value >= FULL_LINK) {
        return ruled_out(&fill, FULL_LINK, "definition", "its queue drops because the link is full");
    }
    let share = hop.at(Level::At)?.loss_share()?;
    if share < SHARE_MIN {
        return ruled_out(&drops, DROPS, "guess", "packets are dropped, but requests hardly wait for it");
    }
    let claim = format!("{} drops {:.2} % of what it sends in its own queue", hop.name, drops.value * 100.0);
    Finding::new(drops, DROPS, "guess", &claim, share)
        .and(hop.summary(&TCP_RETRANSMITS), "segments sent again per second")
        .and(hop.summary(&QDISC_BACKLOG), "bytes that wait in the queue")
        .mend("a longer queue: txqueuelen, the limit of the discipline, or fq", None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Untestable("prony has no knob for the length of a queue"))
        .rising(hop.summary(&QDISC_DROPS))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};
    use prony_model::metric::QDISC_RATE;

    fn lab(drops: f64) -> Lab {
        Lab::healthy().per_second("lb", &QDISC_DROPS, "eth0 pfifo", drops * 15_300.0 * 3.0).per_second(
            "lb",
            &TCP_RETRANSMITS,
            "",
            200.0,
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.01)) - 0.625).abs() < 1e-3);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.0009)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.0011)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.01).gauge("lb", &QDISC_RATE, "eth0 tbf", 200e6)), 0.0, "a full link");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.01).per_second("lb", &TCP_RETRANSMITS, "", 1.0)), 0.0, "nobody waits");
    }

    fn lossy(again: f64) -> Lab {
        lab(0.01).per_second("lb", &TCP_RETRANSMITS, "", again)
    }

    monotonic!(lossy, 0.0..400.0);
}
