//! # Offloads off
//!
//! Large answers leave and arrive as many small packets, because segmentation or receive offload is switched off.
//!
//! ## What it sees
//! Offload features of the interface that carries most (GRO, GSO, TSO); bytes per packet; bytes per request.
//!
//! ## Why it limits
//! The network stack works per packet: 64 KB as one packet, or as 45.
//!
//! ## Evidence
//! Packets that offloads would save, times the share of interrupt and system work in the capacity of the CPUs.
//!
//! ## What it is not
//! Small answers: there is nothing to join. Features that are off on an interface that carries large packets all the
//! same.
//!
//! ## Fix
//! Knob `offloads.INTERFACE`: what is on, and what is missing.
//!
//! ## References
//! Linux Documentation/networking/segmentation-offloads.rst.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, knob, predicted_gain, ruled_out, work_share};
use crate::facts::{Fact, Hop, Reader};
use prony_model::metric::{IF_MTU, IF_OFFLOAD, IF_RX_BYTES, IF_RX_PACKETS, IF_TX_BYTES, IF_TX_PACKETS};
use prony_model::{Gap, Knob, KnobId, Level, Metric};

pub(super) const CAUSE: Cause = Cause {
    id: "offloads-off",
    layer: Layer::Network,
    title: "offloads off",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("offloads_off.rs"),
};

/// Bytes per request from which offloads can save packets: more than five full packets. A guess.
const BULK_BYTES: f64 = 8_192.0;
/// Largest packet on the wire beside the payload that the MTU counts: Ethernet header and a tag.
const FRAME_BYTES: f64 = 18.0;
/// Bytes of a packet that offloads join: half of the 64 KB that they may. A guess.
const JOINED_BYTES: f64 = 32_768.0;
/// Part of the system time that goes by packets and not by bytes. A guess.
const PACKET_PART_OF_SYSTEM: f64 = 0.3;
/// Share of packets that must be spared. A guess.
const SAVED: f64 = 0.5;
/// Share of the limit from which it matters. A guess.
const SHARE_MIN: f64 = 0.05;
/// MTU where none was read: Ethernet's.
const MTU: f64 = 1_500.0;

/// One direction of an interface.
struct Direction {
    packets: &'static Metric,
    bytes: &'static Metric,
    /// Features of which one that is off splits packets.
    features: &'static [&'static str],
}

/// As the knob names them, in the order of the alphabet.
const OFFLOADS: [&str; 3] = ["gro", "gso", "tso"];

const DIRECTIONS: [Direction; 2] = [
    Direction { packets: &IF_TX_PACKETS, bytes: &IF_TX_BYTES, features: &["gso", "tso"] },
    Direction { packets: &IF_RX_PACKETS, bytes: &IF_RX_BYTES, features: &["gro"] },
];

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if hop.items(&IF_OFFLOAD).is_empty() {
        return Err(Gap::new(IF_OFFLOAD.name, hop.name, "no driver told its offloads; needs a live kernel"));
    }
    let at = hop.at(Level::At)?;
    let total = at.packets()?;
    let mut best: Option<Split> = None;
    for direction in &DIRECTIONS {
        for interface in hop.items(direction.bytes).into_iter().filter(|name| *name != "lo") {
            let Some(split) = split(hop, direction, interface) else { continue };
            if best.as_ref().is_none_or(|most| split.spared > most.spared) {
                best = Some(split);
            }
        }
    }
    let Some(Split { saved, spared, off, remedy }) = best else {
        let bytes = hop.fact("bytes / packet", "B", |r| r.bytes_per_packet())?;
        return ruled_out(&bytes, MTU + FRAME_BYTES, "definition", "offloads are on, answers small, or packets joined");
    };
    let cpu = at.cpu()?;
    let packet_cpus = cpu.interrupts + PACKET_PART_OF_SYSTEM * cpu.system;
    let share = work_share(hop, spared / total.max(spared) * packet_cpus * 1e6 / at.requests()?)?;
    if saved.value < SAVED || share < SHARE_MIN {
        return ruled_out(&saved, SAVED, "guess", "offloads would spare few packets, or the CPUs have room for them");
    }
    let claim = format!("{} of {} is off: {:.0} % of its packets need not be", off, hop.name, saved.value * 100.0);
    Finding::new(saved, SAVED, "guess", &claim, share)
        .and(hop.fact("bytes / packet", "B", |r| r.bytes_per_packet()), "bytes per packet")
        .and(hop.fact("packets / request", "", |r| Ok(r.packets()? / r.requests()?)), "packets per request")
        .mend(format!("switch offloads on: ethtool -K for {off}"), remedy)
        .gaining(predicted_gain(hop, share))
        .rising(hop.fact("packets", "/s", |r| r.packets()))
        .fires()
}

/// What offloads would spare in one direction of an interface.
struct Split {
    /// Share of its packets.
    saved: Fact,
    /// Packets per second.
    spared: f64,
    /// Which feature is off, and where.
    off: String,
    /// Switches it on.
    remedy: Option<Knob>,
}

/// None when nothing is off, or when there is nothing to join.
fn split(hop: &Hop<'_>, direction: &Direction, interface: &str) -> Option<Split> {
    let at = hop.at(Level::At).ok()?;
    let state = |feature: &str| at.one(&IF_OFFLOAD, &format!("{interface} {feature}"));
    let is_off = |feature: &&&str| state(feature).is_ok_and(|on| on < 0.5);
    let off = direction.features.iter().find(is_off).filter(|off| **off != "gro" || !is_virtual(hop, interface))?;
    if !comes_split(&at, direction, interface) {
        return None;
    }
    let (packets, mtu) = (at.one(direction.packets, interface).ok()?, mtu(&at, interface));
    let fact = hop.fact(format!("packets that {off} on {interface} would spare"), "share", |r| {
        let (bytes, packets) = (r.one(direction.bytes, interface)?, r.one(direction.packets, interface)?);
        // Acknowledgements and small packets stay: only full ones are joined.
        let full = (bytes / mtu).min(packets);
        Ok(if packets > 0.0 { ((full - bytes / JOINED_BYTES) / packets).clamp(0.0, 1.0) } else { 0.0 })
    });
    let fact = fact.ok()?;
    let spared = fact.value * packets;
    // Once it is mended, what the other end of a virtual link splits may as well be joined.
    let on = |word: &&str| state(word).is_ok_and(|on| on >= 0.5);
    let missing = |word: &&str| DIRECTIONS.iter().any(|d| d.features.contains(word) && comes_split(&at, d, interface));
    let wanted: Vec<&str> = OFFLOADS.into_iter().filter(|word| on(word) || missing(word)).collect();
    let remedy = knob(hop, KnobId::Offloads(interface.to_string()), wanted.join(","));
    Some(Split { saved: fact, spared, off: format!("{off} on {interface}"), remedy })
}

/// Whether much goes through an interface in one direction for each request, in packets no larger than its MTU.
fn comes_split(at: &Reader<'_>, direction: &Direction, interface: &str) -> bool {
    let read = |metric| at.one(metric, interface).ok();
    let (Some(bytes), Some(packets), Ok(requests)) = (read(direction.bytes), read(direction.packets), at.requests())
    else {
        return false;
    };
    bytes / requests >= BULK_BYTES && bytes / packets.max(1.0) <= mtu(at, interface) + FRAME_BYTES
}

/// Largest packet of an interface, without its frame.
fn mtu(at: &Reader<'_>, interface: &str) -> f64 {
    at.one(&IF_MTU, interface).unwrap_or(MTU)
}

/// Whether packets come as they were sent: a virtual link splits none, so there is nothing to join.
fn is_virtual(hop: &Hop<'_>, interface: &str) -> bool {
    let driver = hop.setting(&format!("if.{interface}.driver"));
    driver.is_some_and(|driver| matches!(driver, "virtual" | "veth"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, monotonic, score};

    /// 100 KB per request, in packets of so many bytes.
    fn lab(bytes_per_packet: f64) -> Lab {
        let bytes = 2_000.0 * 102_400.0;
        Lab::healthy()
            .throughput(2_000.0)
            .per_second("lb", &IF_TX_BYTES, "eth0", bytes)
            .per_second("lb", &IF_TX_PACKETS, "eth0", bytes / bytes_per_packet)
            .gauge("lb", &IF_OFFLOAD, "eth0 gso", 0.0)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(1_400.0)).unwrap();
        assert!(found.score > 0.3 && found.score < 0.4, "{}", found.score);
        assert!(found.summary.contains("gso on eth0"), "{}", found.summary);
        let turned = |found: &Finding| found.remedies[0].knob.clone().map(|knob| (knob.id.to_string(), knob.value));
        assert_eq!(turned(&found), Some(("offloads.eth0".to_string(), "gro,gso,tso".to_string())));
        let apart = finding(CAUSE.id, "lb", &lab(1_400.0).gauge("lb", &IF_OFFLOAD, "eth0 gro", 0.0)).unwrap();
        assert_eq!(turned(&apart).unwrap().1, "gso,tso", "what joins received packets stays as it is");
        let bytes = 2_000.0 * 102_400.0;
        let both = lab(1_400.0).gauge("lb", &IF_OFFLOAD, "eth0 gro", 0.0).per_second("lb", &IF_RX_BYTES, "eth0", bytes);
        let both = both.per_second("lb", &IF_RX_PACKETS, "eth0", bytes / 1_400.0);
        assert_eq!(
            turned(&finding(CAUSE.id, "lb", &both).unwrap()).unwrap().1,
            "gro,gso,tso",
            "they come split as well"
        );
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(20_000.0)), 0.0, "joined all the same");
        assert_eq!(score(CAUSE.id, "lb", &lab(1_400.0).gauge("lb", &IF_OFFLOAD, "eth0 gso", 1.0)), 0.0, "on");
        assert_eq!(
            score(CAUSE.id, "lb", &lab(1_400.0).per_second("lb", &IF_TX_BYTES, "eth0", 2_000.0 * 8_000.0)),
            0.0,
            "small"
        );
        assert_eq!(score(CAUSE.id, "lb", &lab(500.0)), 0.0, "most packets are small");
        assert!(score(CAUSE.id, "lb", &lab(900.0)) > 0.0);
    }

    #[test]
    fn on_a_virtual_link_there_is_nothing_to_join() {
        let bytes = 2_000.0 * 102_400.0;
        let card = Lab::healthy()
            .throughput(2_000.0)
            .per_second("lb", &IF_RX_BYTES, "eth0", bytes)
            .per_second("lb", &IF_RX_PACKETS, "eth0", bytes / 1_400.0)
            .gauge("lb", &IF_OFFLOAD, "eth0 gro", 0.0);
        assert!(score(CAUSE.id, "lb", &card) > SHARE_MIN, "a card splits what it receives");
        assert_eq!(score(CAUSE.id, "lb", &card.setting("lb", "if.eth0.driver", "virtual")), 0.0);
    }

    fn busy(softirq: f64) -> Lab {
        lab(1_400.0).cpu("0", 0.9 - softirq, 0.1, softirq)
    }

    monotonic!(busy, 0.0..0.9);
}
