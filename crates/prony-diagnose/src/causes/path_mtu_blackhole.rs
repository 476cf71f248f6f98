//! # Path MTU black hole
//!
//! Large packets vanish on the way and small ones pass: connections open, small answers work, large ones hang.
//!
//! ## What it sees
//! Connections whose data was sent again three times in a row without an answer (tcp_info backoff), while others go on;
//! failed MTU probes; the MTUs of the hosts.
//!
//! ## Why it limits
//! A connection that sends a full packet stands still for seconds, until it gives up.
//!
//! ## Evidence
//! Stuck connections, of the requests in flight.
//!
//! ## What it is not
//! Loss by chance: three times in a row is one in a million at 1 %. A host that is gone: then all connections to it are
//! stuck, small requests too.
//!
//! ## Fix
//! The same MTU along the way, MSS clamping at the border, or probing from the start with small segments
//! (`net.ipv4.tcp_mtu_probing=2`, `tcp_base_mss`). At 1 it begins only when three timers have run out, and clients may not wait so long.
//!
//! ## References
//! RFC 2923 section 2.1; RFC 4821; Linux Documentation/networking/ip-sysctl.rst tcp_mtu_probing.

use super::packet_loss::loss_ratio;
use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, knob, ruled_out};
use crate::facts::Hop;
use prony_model::metric::{CONN_STUCK, IF_MTU, TCP_MTU_PROBES_FAILED, TCP_TIMEOUTS};
use prony_model::{Gap, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "path-mtu-blackhole",
    layer: Layer::Network,
    title: "path MTU black hole",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("path_mtu_blackhole.rs"),
};

/// Bytes of a segment to begin with. Cited: every IPv4 host takes datagrams of 576 bytes (RFC 1122, 3.3.2); heads need up to 64.
const BASE_MSS: &str = "512";
/// Share of the requests in flight that must be stuck. A guess: one in twenty.
const STUCK: f64 = 0.05;

/// Segments sent again per segment sent, from which chance does not explain it. A guess: at random half of all lost let hardly a
/// connection live.
const IN_VAIN: f64 = 0.5;

/// Whether nearly all that the hop sends is sent again, and connections stay stuck with it.
pub(super) fn is_in_vain(hop: &Hop<'_>) -> bool {
    let lost = loss_ratio(hop).is_ok_and(|loss| loss.value >= IN_VAIN);
    let at = || hop.at(Level::At).ok();
    let stuck = at().and_then(|r| Some((r.sum(&CONN_STUCK).ok()?, r.in_flight().ok()?)));
    lost && stuck.is_some_and(|(some, all)| some >= 1.0 && some >= STUCK * all)
}

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    // On average so many; a fraction of one is a connection that was stuck for a moment.
    let stuck =
        hop.fact("conn.stuck / requests in flight", "share", |r| Ok((r.sum(&CONN_STUCK)? / r.in_flight()?).min(1.0)))?;
    let some = hop.at(Level::At)?.sum(&CONN_STUCK)?;
    if stuck.value < STUCK || some < 1.0 {
        return ruled_out(&stuck, STUCK, "guess", "no connection sends the same data in vain");
    }
    // Connections that clients give up soon do not live to be sent to three times: what waits for the timer counts then.
    let waits =
        if is_in_vain(hop) { hop.at(Level::At)?.retransmit_stall()? / hop.at(Level::At)?.in_flight()? } else { 0.0 };
    let share = stuck.value.max(waits).min(1.0);
    let claim = format!("{some:.0} connections of {} send the same data again and again in vain", hop.name);
    let mut finding = Finding::new(stuck, STUCK, "guess", &claim, share)
        .and(hop.summary(&TCP_TIMEOUTS), "retransmission timeouts per second")
        .and(hop.summary(&TCP_MTU_PROBES_FAILED), "MTU probes that failed, per second");
    for other in Hop::path(hop.run).into_iter().chain(Hop::generator(hop.run)) {
        let interface = other.items(&IF_MTU).into_iter().find(|name| *name != "lo");
        if let Some(interface) = interface {
            let mtu = other.fact(format!("{} of {interface}", IF_MTU.name), "B", |r| r.one(&IF_MTU, interface));
            finding = finding.and(mtu, "largest packet that this host sends");
        }
    }
    finding
        .mend(
            "let packets of this size through (the same MTU along the way, MSS clamping), or probe for what passes",
            knob(hop, KnobId::Sysctl("net.ipv4.tcp_mtu_probing".to_string()), "2"),
        )
        .mend(
            "begin with segments that pass nearly everywhere, and probe from there",
            knob(hop, KnobId::Sysctl("net.ipv4.tcp_base_mss".to_string()), BASE_MSS),
        )
        // No gain: small segments do not bring what a whole path would, and that they bring nothing does not speak against the hole.
        .tested_by(Dose::RemovalByAll)
        .rising(hop.fact(CONN_STUCK.name, "", |r| r.sum(&CONN_STUCK)))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(stuck: f64) -> Lab {
        Lab::healthy().throughput(300.0).cpu("0", 0.01, 0.01, 0.01).levels(
            "lb",
            &CONN_STUCK,
            "80",
            [stuck / 2.0, stuck, stuck],
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(60.0)) - 60.0 / 64.0).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(3.1)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(3.3)) > 0.0);
    }

    monotonic!(lab, 0.0..100.0);
}
