//! # Overlay encapsulation
//!
//! Packets between hosts are wrapped in packets (VXLAN, IPIP, GRE) and pass the network stack twice.
//!
//! ## What it sees
//! Packets on an overlay interface per packet on the interfaces below it, with the hop's CPUs full.
//!
//! ## Why it limits
//! The second pass costs CPU in soft interrupts for each packet.
//!
//! ## Evidence
//! Share of packets that are wrapped, times the cost that others measured: 21 % more cycles per packet.
//!
//! ## What it is not
//! An overlay that carries little of the traffic, or one below CPUs that have room.
//!
//! ## Fix
//! Route natively, or use the addresses below the overlay; offloads for tunnels on real cards.
//!
//! ## References
//! Overlay cost per MTU packet +21 % CPU cycles (IBM, UCC 2014), as in the catalogue, row 24.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_with_relief, ruled_out};
use crate::facts::{Hop, Reader};
use prony_model::metric::{IF_RX_PACKETS, IF_TX_PACKETS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "overlay-encapsulation",
    layer: Layer::Network,
    title: "overlay encapsulation",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("overlay_encapsulation.rs"),
};

/// Names of overlay interfaces begin so.
const OVERLAYS: &[&str] = &["vxlan", "flannel", "ipip", "tunl", "gre", "geneve", "cilium_vxlan", "weave"];
/// CPU cycles per packet that wrapping adds. Cited: see References.
const EXTRA_CYCLES: f64 = 0.21;
/// Share from which it matters.
const SHARE_MIN: f64 = 0.03;
/// Its origin.
const ORIGIN: &str = "cited: catalogue row 24 (a host-network A/B below 3 % rules it out)";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let wrapped = hop.fact("overlay packets / packets below", "share", wrapped)?;
    let at = hop.at(Level::At)?;
    // What others do on its CPUs costs no more for it.
    let of_its_cpus = at.own_cpu().and_then(|own| Ok(own / at.cpu()?.total())).unwrap_or(1.0);
    let share = extra(wrapped.value) * of_its_cpus * (1.0 - at.stalled_share());
    let border = SHARE_MIN * (1.0 + EXTRA_CYCLES) / EXTRA_CYCLES;
    if share < SHARE_MIN || !cpu_is_full(hop)? {
        return ruled_out(&wrapped, border, ORIGIN, "few packets are wrapped, or the CPUs have room for it");
    }
    let claim = format!("{:.0} % of the packets of {} are wrapped in packets", wrapped.value * 100.0, hop.name);
    let softirq = hop.fact("cpu.softirq share", "share", |r| Ok(r.cpu()?.interrupts / r.cpu()?.total()));
    Finding::new(wrapped, border, ORIGIN, &claim, share)
        .and(softirq, "packet work on the hop's CPUs")
        .mend("route natively between the hosts instead of through the overlay", None)
        .gaining(Some(gain_with_relief(hop, share, freed)))
        .rising(hop.summary(&IF_TX_PACKETS))
        .fires()
}

/// Share of the packets of a hop that are wrapped.
fn wrapped(r: &Reader<'_>) -> Result<f64, Gap> {
    let (mut over, mut below) = (0.0, 0.0);
    for metric in [&IF_TX_PACKETS, &IF_RX_PACKETS] {
        for interface in r.hop.items(metric).into_iter().filter(|i| *i != "lo") {
            let rate = r.one(metric, interface).unwrap_or(0.0);
            *(if OVERLAYS.iter().any(|o| interface.starts_with(o)) { &mut over } else { &mut below }) += rate;
        }
    }
    if below > 0.0 {
        Ok((over / below).min(1.0))
    } else {
        Err(Gap::new(IF_TX_PACKETS.name, r.hop.name, "no packets were counted"))
    }
}

/// The share of its CPU time that a hop spends on wrapping, where so many of its packets are wrapped.
fn extra(wrapped: f64) -> f64 {
    wrapped * EXTRA_CYCLES / (1.0 + EXTRA_CYCLES)
}

/// CPUs of a host that are free once nothing is wrapped: every host of the overlay pays.
fn freed(hop: &Hop<'_>) -> Option<f64> {
    let at = hop.at(Level::At).ok()?;
    Some(extra(wrapped(&at).ok()?) * at.own_cpu().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    fn lab(packets: f64) -> Lab {
        Lab::healthy().throughput(12_000.0).per_second("lb", &IF_TX_PACKETS, "vxlan0", packets)
    }

    #[test]
    fn fires_silent_border() {
        assert!(score(CAUSE.id, "lb", &lab(24_000.0)) > 0.05);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(1.94)), 0.0, "an idle overlay");
        assert_eq!(score(CAUSE.id, "lb", &lab(24_000.0).cpu("0", 0.1, 0.1, 0.1)), 0.0, "room for it");
        let (whole, half) =
            (score(CAUSE.id, "lb", &lab(24_000.0)), score(CAUSE.id, "lb", &lab(24_000.0).own("lb", 0.45)));
        assert!(half > 0.0 && half < 0.75 * whole, "others use half of its CPU: {half} of {whole}");
    }

    #[test]
    fn every_host_of_the_overlay_is_relieved() {
        // The servers' CPU is nearly full as well.
        let busy = lab(24_000.0).cpu("1", 0.5, 0.3, 0.15);
        let gain = |lab: &Lab| finding(CAUSE.id, "lb", lab).unwrap().gain.unwrap();
        let servers = |lab: Lab| {
            let wrap = |lab: Lab, host| lab.per_second(host, &IF_TX_PACKETS, "vxlan0", 24_000.0).own(host, 0.45);
            wrap(wrap(lab, "s1"), "s2")
        };
        let (alone, all) = (gain(&busy), gain(&servers(busy)));
        assert!(alone < 0.06, "until the servers' CPU is full: {alone}");
        assert!(all > 0.09, "which wraps less then, too: {all}");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..60_000.0, b in 0.0f64..60_000.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
