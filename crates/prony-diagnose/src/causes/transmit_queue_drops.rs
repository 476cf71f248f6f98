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
//! Knob `link_rate.INTERFACE` with the rate that a token bucket has already: it gives the bucket room for 50 ms. Else a longer
//! queue (txqueuelen, limit of the discipline), fq instead of a short fifo.
//!
//! ## References
//! tc(8) -s qdisc; Linux TCPSpuriousRtxHostQueues.

use super::bandwidth_bound::{FULL_LINK, bucket_rate, fullest_sending, interface_of};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, knob, removal_or, ruled_out,
};
use crate::facts::Hop;
use prony_model::metric::{IF_TX_PACKETS, QDISC_BACKLOG, QDISC_DROPS, TCP_RETRANSMITS};
use prony_model::{BitRate, Gap, Knob, KnobId, Level};

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
    let fill = fullest_sending(hop);
    if let Some(fill) = fill.as_ref().filter(|fill| fill.value >= FULL_LINK) {
        return ruled_out(fill, FULL_LINK, "definition", "its queue drops because the link is full");
    }
    let share = hop.at(Level::At)?.loss_share()?;
    if share < SHARE_MIN {
        return ruled_out(&drops, DROPS, "guess", "packets are dropped, but requests hardly wait for it");
    }
    let claim = format!("{} drops {:.2} % of what it sends in its own queue", hop.name, drops.value * 100.0);
    let room = [gain_until_full(hop), fill.map(|fill| 1.0 / fill.value - 1.0)].into_iter().flatten().reduce(f64::min);
    let roomier = roomier_bucket(hop);
    let dose = removal_or(roomier.as_ref(), Dose::Untestable("prony has no knob for the length of this queue"));
    Finding::new(drops, DROPS, "guess", &claim, share)
        .and(hop.summary(&TCP_RETRANSMITS), "segments sent again per second")
        .and(hop.summary(&QDISC_BACKLOG), "bytes that wait in the queue")
        .mend("a longer queue: txqueuelen, the limit of the discipline, or fq", roomier)
        .gaining(Some(gain_of_share(share, room)))
        .tested_by(dose)
        .rising(hop.summary(&QDISC_DROPS))
        .fires()
}

/// The token bucket that drops most, as fast as it is and with room for more.
fn roomier_bucket(hop: &Hop<'_>) -> Option<Knob> {
    let at = hop.at(Level::At).ok()?;
    let drops = |qdisc: &&str| at.one(&QDISC_DROPS, qdisc).unwrap_or(0.0);
    let worst = hop.items(&QDISC_DROPS).into_iter().max_by(|a, b| drops(a).total_cmp(&drops(b)))?;
    let interface = interface_of(worst);
    knob(hop, KnobId::LinkRate(interface.to_string()), BitRate(bucket_rate(hop, interface)?).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, monotonic, score};
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

    #[test]
    fn a_token_bucket_can_be_given_room() {
        let found = |lab: &Lab| finding(CAUSE.id, "lb", lab).unwrap();
        assert!(matches!(found(&lab(0.01)).dose, Dose::Untestable(_)));
        let bucket = lab(0.0).per_second("lb", &QDISC_DROPS, "eth0 tbf", 460.0);
        let bucket = bucket.gauge("lb", &QDISC_RATE, "eth0 tbf", 1e9);
        let found = found(&bucket);
        let turned = found.remedies[0].knob.as_ref().map(|knob| (knob.id.to_string(), knob.value.as_str()));
        assert_eq!(turned, Some(("link_rate.eth0".to_string(), "1gbit")), "the rate that it has");
        assert_eq!(found.dose, Dose::Removal);
    }

    fn lossy(again: f64) -> Lab {
        lab(0.01).per_second("lb", &TCP_RETRANSMITS, "", again)
    }

    monotonic!(lossy, 0.0..400.0);
}
