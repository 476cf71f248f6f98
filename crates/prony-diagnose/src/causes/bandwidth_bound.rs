//! # Bandwidth bound
//!
//! A link carries as many bits as it can.
//!
//! ## What it sees
//! Bits per second on an interface against its speed, or against the rate of its token bucket. Where the full link is none of a host's: that
//! half of the questions and answers on a host's links are on their way for milliseconds, though the shortest round trip is short, no CPU is
//! full and more connections bring nothing.
//!
//! ## Why it limits
//! Answers queue at the link; CPUs have room.
//!
//! ## Evidence
//! The fill of the link is the score; overlimits and backlog of the queue say that packets wait there. Of a link between the hosts it is the
//! share of the requests in flight that are on their way.
//!
//! ## What it is not
//! A link below 85 %. Virtual links report no speed: without a token bucket, and with no queue here or on the way, they are no limit.
//!
//! ## Fix
//! A faster link, or fewer bytes: compression, caching. A token bucket that is not meant: knob `link_rate.INTERFACE`.
//!
//! ## References
//! tc-tbf(8); Performance Co-Pilot pmieconf warns at 85 %.

use super::packet_loss::loss_ratio;
use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, knob, room_until_full, ruled_out};
use crate::facts::{Fact, Hop};
use crate::link_queue;
use prony_model::metric::{
    IF_RX_BYTES, IF_SPEED, IF_TX_BYTES, QDISC_BACKLOG, QDISC_DROPS, QDISC_OVERLIMITS, QDISC_RATE,
};
use prony_model::{BitRate, Gap, KnobId, Level, Metric};

pub(super) const CAUSE: Cause = Cause {
    id: "bandwidth-bound",
    layer: Layer::Network,
    title: "bandwidth bound",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("bandwidth_bound.rs"),
};

/// Fill from which a link counts as full.
pub(super) const FULL_LINK: f64 = 0.85;
/// Its origin.
const ORIGIN: &str = "cited: Performance Co-Pilot pmieconf network.general, 85 %";
/// Origin of the least wait on the way.
const QUEUE_ORIGIN: &str = "guess: far above what any host takes to pass a packet on";

/// How many times its rate takes a token bucket out of the way. A guess: what lies behind it carries less than that.
const OUT_OF_THE_WAY: f64 = 100.0;
/// Highest rate that a bucket can be asked for, in bits per second.
const RATE_MAX: f64 = 1e12;

/// A direction of an interface, with the rate it can carry.
struct LinkUse<'a> {
    interface: &'a str,
    sends: bool,
    bits_per_s: f64,
    fill: Fact,
    /// Rate of the token bucket that is its capacity, if one is.
    bucket_bits_per_s: Option<f64>,
}

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let fullest = links(hop).into_iter().max_by(|a, b| a.fill.value.total_cmp(&b.fill.value));
    match fullest {
        Some(link) if link.fill.value >= FULL_LINK => full(hop, link),
        fullest => elsewhere(hop).map_or_else(|| not_full(hop, fullest), Finding::fires),
    }
}

fn not_full(hop: &Hop<'_>, fullest: Option<LinkUse<'_>>) -> Result<Judgement, Gap> {
    if let Some(link) = fullest {
        return ruled_out(&link.fill, FULL_LINK, ORIGIN, "no link is full");
    }
    let overlimits = hop.summary(&QDISC_OVERLIMITS)?;
    if overlimits.value + hop.at(Level::At)?.sum(&QDISC_DROPS)? > 0.0 {
        return Err(Gap::new(QDISC_RATE.name, hop.name, "packets wait in a queue whose rate is not known"));
    }
    ruled_out(&overlimits, 0.0, "definition", "links report no speed, and no packet waits in a queue")
}

/// A link of the hop that is full somewhere beyond the hosts: at the port of a switch, in a shaper of the provider.
fn elsewhere(hop: &Hop<'_>) -> Option<Finding> {
    let wait = link_queue::at(hop)?;
    let moved = |bytes: &'static Metric| hop.summary(bytes).ok();
    let bytes =
        [&IF_RX_BYTES, &IF_TX_BYTES].into_iter().filter_map(moved).max_by(|a, b| a.value.total_cmp(&b.value))?;
    let claim = format!(
        "{} moves {:.1} Mbit/s and no more: half of the questions and answers on its links wait there for {:.1} ms or longer",
        hop.name,
        bytes.value * 8.0 / 1e6,
        wait.median_ms
    );
    let fact = |name: &str, value: f64| Fact { unit: "ms", ..Fact::across_levels(hop, name, value) };
    let waited = fact("median time on the way", wait.median_ms);
    let finding = Finding::new(waited, link_queue::WAIT_MIN_MS, QUEUE_ORIGIN, &claim, wait.share)
        .and(Ok(fact("round trip under load", wait.round_trip_ms)), "the kernel saw packets and their acknowledgements take as long")
        .and(Ok(fact("shortest round trip", wait.shortest_ms)), "the way itself is short")
        .and(loss_ratio(hop), "segments sent again: a queue that is full drops")
        .mend("find the link between the hosts that is full (port of a switch, shaper, allowance of the provider) and widen it, or send fewer bytes", None)
        .gaining(room_until_full(hop))
        .tested_by(Dose::Queue)
        .rising(Ok(bytes));
    Some(finding)
}

fn full(hop: &Hop<'_>, link: LinkUse<'_>) -> Result<Judgement, Gap> {
    let direction = if link.sends { "sends" } else { "receives" };
    let claim =
        format!("{} {direction} {:.1} Mbit/s on {}: the link is full", hop.name, link.bits_per_s / 1e6, link.interface);
    let share = link.fill.value;
    let bytes = if link.sends { &IF_TX_BYTES } else { &IF_RX_BYTES };
    let dose = if link.sends {
        Dose::Link { interface: link.interface.to_string(), bits_per_s: link.bits_per_s }
    } else {
        Dose::Untestable("only what a host sends can be slowed, and this link is full of what it receives")
    };
    let bucket = link.bucket_bits_per_s;
    let mut finding = Finding::new(link.fill, FULL_LINK, ORIGIN, &claim, share)
        .and(hop.summary(&QDISC_OVERLIMITS), "packets that had to wait for the link, per second")
        .and(hop.summary(&QDISC_BACKLOG), "bytes that wait for the link");
    if let Some(rate) = bucket {
        let wide = BitRate((rate * OUT_OF_THE_WAY).min(RATE_MAX)).to_string();
        let turned = knob(hop, KnobId::LinkRate(link.interface.to_string()), wide);
        finding = finding.mend(
            format!("a token bucket sets the rate of {}: raise it or take it away (tc qdisc)", link.interface),
            turned,
        );
    }
    finding
        .mend("a faster link or fewer bytes: compression, caching, smaller answers", None)
        .gaining(room_until_full(hop))
        .tested_by(dose)
        .rising(hop.summary(bytes))
        .fires()
}

/// Bits per second that the slowest token bucket of an interface lets through, if it has one.
pub(super) fn bucket_rate(hop: &Hop<'_>, interface: &str) -> Option<f64> {
    let at = hop.at(Level::At).ok()?;
    let own = hop.items(&QDISC_RATE).into_iter().filter(|item| interface_of(item) == interface);
    own.filter_map(|item| at.one(&QDISC_RATE, item).ok()).reduce(f64::min)
}

/// `eth0 tbf` is of eth0.
pub(super) fn interface_of(qdisc: &str) -> &str {
    qdisc.split(' ').next().unwrap_or(qdisc)
}

/// The fill of the fullest link that the host sends on, if a capacity is known.
pub(super) fn fullest_sending(hop: &Hop<'_>) -> Option<Fact> {
    let sending = links(hop).into_iter().filter(|link| link.sends).map(|link| link.fill);
    sending.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// Every direction of an interface whose capacity is known.
fn links<'a>(hop: &Hop<'a>) -> Vec<LinkUse<'a>> {
    let mut links = Vec::new();
    for (metric, sends) in [(&IF_TX_BYTES, true), (&IF_RX_BYTES, false)] {
        for interface in hop.items(metric).into_iter().filter(|i| *i != "lo") {
            links.extend(link_use(hop, metric, interface, sends));
        }
    }
    links
}

fn link_use<'a>(hop: &Hop<'a>, bytes: &'static Metric, interface: &'a str, sends: bool) -> Option<LinkUse<'a>> {
    let at = hop.at(Level::At).ok()?;
    let shaped = bucket_rate(hop, interface).filter(|_| sends);
    let speed = at.one(&IF_SPEED, interface).ok().filter(|s| *s > 0.0);
    let capacity = [shaped, speed].into_iter().flatten().reduce(f64::min).filter(|c| *c > 0.0)?;
    let bucket_bits_per_s = shaped.filter(|rate| *rate <= capacity);
    let name = format!("{} x 8 / capacity of {interface}", bytes.name);
    let fill = hop.fact(name, "share", |r| Ok(r.one(bytes, interface)? * 8.0 / capacity)).ok()?;
    Some(LinkUse { interface, sends, bits_per_s: fill.value * capacity, fill, bucket_bits_per_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    /// A token bucket of 400 Mbit/s, 1,455 requests/s of 32 KB, CPU 0 at 17 %.
    fn lab(bytes_per_s: f64) -> Lab {
        Lab::healthy()
            .throughput(1_455.0)
            .cpu("0", 0.05, 0.07, 0.05)
            .per_second("lb", &IF_TX_BYTES, "eth0", bytes_per_s)
            .gauge("lb", &QDISC_RATE, "eth0 tbf", 400e6)
            .per_second("lb", &QDISC_OVERLIMITS, "eth0 tbf", 9_320.0)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(47_295_808.0)).unwrap();
        assert!((found.score - 0.946).abs() < 0.001);
        assert!(matches!(&found.dose, Dose::Link { interface, .. } if interface == "eth0"));
        let turned = found.remedies[0].knob.as_ref().map(|knob| (knob.id.to_string(), knob.value.as_str()));
        assert_eq!(turned, Some(("link_rate.eth0".to_string(), "40gbit")), "the bucket is taken out of the way");
        let slow_card = lab(47_295_808.0).gauge("lb", &IF_SPEED, "eth0", 390e6);
        assert_eq!(finding(CAUSE.id, "lb", &slow_card).unwrap().remedies[0].knob, None, "the card is slower still");
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.84 * 50e6)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.86 * 50e6)) > 0.0);
    }

    #[test]
    fn a_link_between_the_hosts_shows_by_its_queue() {
        let queued = link_queue::tests::lab([37_000.0, 36_000.0]).per_second("lb", &IF_RX_BYTES, "eth0", 9.8e6);
        let queued = queued.per_second("lb", &IF_TX_BYTES, "eth0", 9.9e6);
        let found = finding(CAUSE.id, "lb", &queued).unwrap();
        assert!(found.score > 0.2, "{}", found.score);
        let claim = &found.evidence[0].claim;
        assert!(claim.starts_with("lb moves 79.2 Mbit/s and no more") && claim.contains("37.0 ms"), "{claim}");
        assert_eq!((found.dose, score(CAUSE.id, "s1", &queued)), (Dose::Queue, 0.0));
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..60e6, b in 0.0f64..60e6) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
