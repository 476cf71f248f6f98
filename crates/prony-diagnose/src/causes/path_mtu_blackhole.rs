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
use prony_model::metric::{
    CONN_STUCK, IF_MTU, TCP_FAST_RETRANSMITS, TCP_MTU_PROBES_FAILED, TCP_ORIGINAL_SENT, TCP_RETRANSMITS, TCP_TIMEOUTS,
};
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

/// The same where no receiver ever told of a gap: of a long answer a loss by chance leaves pieces that arrive. A guess: of ten segments,
/// which TCP sends at once, the first is sent again three times before somebody gives up.
const UNANSWERED: f64 = 0.2;
/// Segments per request from which an answer has more than one piece. A guess.
const PIECES: f64 = 3.0;
/// Of the segments sent again, those that a receiver asked for, up to which nobody did. A guess.
const ASKED_FOR: f64 = 0.05;

/// Whether all that the hop sends is lost, or nearly all, and connections stay stuck with it.
pub(super) fn is_in_vain(hop: &Hop<'_>) -> bool {
    let Ok(loss) = loss_ratio(hop) else { return false };
    let at = || hop.at(Level::At).ok();
    let stuck = at().and_then(|r| Some((r.sum(&CONN_STUCK).ok()?, r.in_flight().ok()?)));
    let is_stuck = stuck.is_some_and(|(some, all)| some >= 1.0 && some >= STUCK * all);
    is_stuck && (loss.value >= IN_VAIN || (loss.value >= UNANSWERED && nobody_tells_of_gaps(hop)))
}

/// Whether answers have several pieces, and none is sent again because the receiver got the ones behind it.
fn nobody_tells_of_gaps(hop: &Hop<'_>) -> bool {
    let told = || {
        let at = hop.at(Level::At)?;
        let is_long = at.sum(&TCP_ORIGINAL_SENT)? >= PIECES * at.requests()?;
        Ok::<_, Gap>(is_long && at.sum(&TCP_FAST_RETRANSMITS)? <= ASKED_FOR * at.sum(&TCP_RETRANSMITS)?)
    };
    told().unwrap_or(false)
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

    /// Figures of an nginx whose answers of 20 kB are lost, with a proxy that gives up after 2 s.
    #[test]
    fn long_answers_of_which_no_piece_arrives_are_lost_by_their_size() {
        let lost = |fast_per_s: f64, segments_per_s: f64, again_per_s: f64| {
            let lab = Lab::healthy().throughput(26.0).cpu("0", 0.01, 0.01, 0.01).cpu("1", 0.01, 0.01, 0.01);
            let lab = lab.levels("s1", &CONN_STUCK, "80", [6.0, 13.0, 26.0]);
            let lab = lab.per_second("s1", &TCP_RETRANSMITS, "", again_per_s);
            let lab = lab.per_second("s1", &TCP_TIMEOUTS, "", again_per_s);
            let lab = lab.per_second("s1", &TCP_ORIGINAL_SENT, "", segments_per_s);
            let run = lab.per_second("s1", &TCP_FAST_RETRANSMITS, "", fast_per_s).run();
            (is_in_vain(&Hop { run: &run, name: "s1" }), crate::diagnose(&run).verdict.cause)
        };
        assert_eq!(lost(0.0, 322.0, 140.0), (true, CAUSE.id.to_string()));
        let by_chance = (false, "packet-loss".to_string());
        assert_eq!(lost(60.0, 322.0, 140.0), by_chance, "receivers tell of gaps: other pieces arrive");
        assert_eq!(lost(0.0, 1_400.0, 140.0), by_chance, "one in ten");
        assert_eq!(lost(0.0, 150.0, 140.0), (true, CAUSE.id.to_string()), "nearly all");
        assert!(!lost(0.0, 30.0, 10.0).0, "of one piece no gap can be told");
    }

    monotonic!(lab, 0.0..100.0);
}
