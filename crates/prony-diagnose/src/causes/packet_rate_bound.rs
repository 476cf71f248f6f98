//! # Packet rate bound
//!
//! The CPUs are full, and much of their work goes by the number of small packets, not by their bytes.
//!
//! ## What it sees
//! Soft interrupt share of full CPUs; bytes per packet; packets per request.
//!
//! ## Why it limits
//! Each packet costs its pass through the stack, however little it carries.
//!
//! ## Evidence
//! Share of interrupt work in the capacity of the hop's CPUs, for its part of it; where that is the greater half of their busy
//! time, and there are more packets than requests need, the part that the hop has in them. Else it is a part, and the limit has
//! the name of the whole.
//!
//! ## What it is not
//! Large packets: then bytes or requests are what costs. As many packets as requests need: then it is the requests, and kernel
//! code of theirs fills the CPUs. A fault that explains why there are so many packets (overlay,
//! offloads off, partial packets, a connection per request): that one stands.
//!
//! ## Fix
//! Fewer, larger packets (joined writes, keepalive, larger answers); more CPUs or queues for packet work. An honest
//! limit.
//!
//! ## References
//! F2 of the field cases: 10 to 13 % soft interrupts at 50 Mbit/s, so many small packets.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_until_next_limit, ruled_out};
use crate::facts::{Fact, Hop};
use crate::host_facts::share_of;
use prony_model::metric::SOFTIRQ_NET_RX;
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "packet-rate-bound",
    layer: Layer::Network,
    title: "packet rate bound",
    kind: Kind::HonestLimit,
    scope: Scope::Serving,
    check,
    source: include_str!("packet_rate_bound.rs"),
};

/// Share of the CPUs' capacity in interrupts from which packets are a limit of their own. Cited: F2 of the field cases
/// found it at 10 to 13 %.
const INTERRUPTS: f64 = 0.1;
/// Its origin.
const ORIGIN: &str = "cited: field case F2, 10 to 13 % soft interrupts";
/// Share of the busy time from which it is the greater part.
const MOST: f64 = 0.5;
/// Packets of an exchange of one request and one answer, which fit into one each: these, and the news that they came.
const EXCHANGE_PACKETS: f64 = 4.0;
/// Bytes per packet below which it is small. A guess: a third of a full one.
const SMALL_BYTES: f64 = 500.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let interrupts = hop
        .fact("interrupt share of the hop's CPUs", "share", |r| Ok(share_of(r.cpu()?.interrupts, r.cpu()?.total())))?;
    if interrupts.value < INTERRUPTS || !cpu_is_full(hop)? {
        return ruled_out(&interrupts, INTERRUPTS, ORIGIN, "packet work takes little, or its CPUs have room");
    }
    let bytes = hop.fact("bytes / packet", "B", |r| r.bytes_per_packet())?;
    if bytes.value > SMALL_BYTES {
        return ruled_out(&bytes, SMALL_BYTES, "guess", "its packets are not small");
    }
    let at = hop.at(Level::At)?;
    // Of several hosts on the same CPUs each has its part of the packet work.
    let own = share_of(at.own_cpu()?, at.cpu()?.busy_share() * at.cpu()?.total());
    let per_request = hop.fact("packets / request", "", |r| Ok(r.packets()? / r.requests()?))?;
    let exchanges = if hop.callees().is_empty() { 1.0 } else { 2.0 };
    let is_most = share_of(interrupts.value, at.cpu()?.busy_share()) >= MOST;
    let are_many = per_request.value > exchanges * EXCHANGE_PACKETS;
    let share = interrupts.value * own;
    if share < INTERRUPTS {
        let part = Fact::across_levels(hop, "its part of the interrupt share", share);
        return ruled_out(&part, INTERRUPTS, ORIGIN, "most of the packet work is for others on its CPUs");
    }
    let claim = format!(
        "{} spends {:.0} % of its CPUs on packets of {:.0} bytes",
        hop.name,
        interrupts.value * 100.0,
        bytes.value
    );
    let explained = at.good_share() * if is_most && are_many { own } else { share };
    Finding::new(interrupts.clone(), INTERRUPTS, ORIGIN, &claim, explained)
        .and(Ok(bytes), "bytes per packet: they are small")
        .and(Ok(per_request), "packets per request")
        .and(hop.summary(&SOFTIRQ_NET_RX), "rounds of receiving, per second")
        .mend("fewer and larger packets, or more CPUs and queues for packet work", None)
        .gaining(gain_until_next_limit(hop))
        .rising(Ok(interrupts))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(softirq: f64) -> Lab {
        Lab::healthy().cpu("0", 1.0 - softirq, 0.0, softirq).own("lb", 1.0 - softirq).per_second(
            "lb",
            &IF_TX_BYTES,
            "eth0",
            15_300.0 * 600.0,
        )
    }

    use prony_model::metric::{IF_TX_BYTES, IF_TX_PACKETS};

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.3)) - 0.3).abs() < 1e-6, "{}", score(CAUSE.id, "lb", &lab(0.3)));
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0, "567 bytes");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.09)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.11)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.3).own("lb", 0.2)), 0.0, "others on the same CPU have most of it");
        let many = |softirq: f64| lab(softirq).own("lb", 1.0).per_second("lb", &IF_TX_PACKETS, "eth0", 200_000.0);
        assert!((score(CAUSE.id, "lb", &many(0.49)) - 0.49).abs() < 1e-6);
        assert!((score(CAUSE.id, "lb", &many(0.51)) - 1.0).abs() < 1e-6, "the greater half names it");
        let few = lab(0.51).own("lb", 1.0);
        assert!((score(CAUSE.id, "lb", &few) - 0.51).abs() < 1e-6, "requests need as many");
        assert!((score(CAUSE.id, "lb", &many(0.51).failing(0.9)) - 0.1).abs() < 1e-6, "failures limit no good ones");
    }

    monotonic!(lab, 0.0..0.9);
}
