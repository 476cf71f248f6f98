//! # Connection tracking full
//!
//! The table of tracked connections is full, and the kernel drops packets that would need a new entry.
//!
//! ## What it sees
//! Entries against the most that the table holds; packets dropped because no entry could be made, per connection
//! opened.
//!
//! ## Why it limits
//! The SYN of a new connection is dropped, and the client sends it again after a second.
//!
//! ## Evidence
//! SYNs sent again on the path times a second, out of the requests in flight; failed requests.
//!
//! ## What it is not
//! A table below its limit: single failed inserts are races of two packets and normal.
//!
//! ## Fix
//! `net.netfilter.nf_conntrack_max`, shorter timeouts, or NOTRACK for this traffic; keep connections open.
//!
//! ## References
//! Linux Documentation/networking/nf_conntrack-sysctl.rst; netdata warns at 90 % fill.

use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, knob, removal_by_machine, ruled_out,
};
use crate::facts::{Hop, SYN_TIMEOUT_S};
use prony_model::metric::{CONNTRACK_DROPS, CONNTRACK_ENTRIES, CONNTRACK_MAX, TCP_SYN_RETRANSMITS};
use prony_model::{Gap, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "conntrack-full",
    layer: Layer::Connections,
    title: "connection tracking full",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("conntrack_full.rs"),
};

/// Fill from which the table counts as full.
const FULL_TABLE: f64 = 0.9;
/// Its origin.
const ORIGIN: &str = "cited: netdata health.d/netfilter.conf warns at 90 %";
/// Dropped packets per request from which it matters. A guess.
const DROPS_PER_REQUEST: f64 = 0.001;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let fill = hop.fact("conntrack.entries / conntrack.max", "share", |r| {
        let most = r.sum(&CONNTRACK_MAX)?;
        Ok(if most > 0.0 { r.max(&CONNTRACK_ENTRIES)? / most } else { 0.0 })
    })?;
    if fill.value < FULL_TABLE {
        return ruled_out(&fill, FULL_TABLE, ORIGIN, "the table has room");
    }
    let drops = hop.per_request(&CONNTRACK_DROPS)?;
    if drops.value < DROPS_PER_REQUEST {
        return ruled_out(
            &drops,
            DROPS_PER_REQUEST,
            "guess",
            "the table is full, but hardly a packet is dropped for it",
        );
    }
    let at = hop.at(Level::At)?;
    let hosts = Hop::path(hop.run).into_iter().chain(Hop::generator(hop.run));
    let again = hosts.filter_map(|h| h.at(Level::At).ok()?.sum(&TCP_SYN_RETRANSMITS).ok()).fold(0.0, f64::max);
    let stalled = again * SYN_TIMEOUT_S / at.in_flight()?;
    let share = stalled.max(at.trial.result.error_share()).max(drops.value.min(1.0)).min(1.0);
    let entries = at.max(&CONNTRACK_ENTRIES)?;
    let claim = format!("the connection tracking table of {} is full with {entries:.0} entries", hop.name);
    let wider = knob(
        hop,
        KnobId::Sysctl("net.netfilter.nf_conntrack_max".to_string()),
        format!("{:.0}", 4.0 * at.sum(&CONNTRACK_MAX)?),
    );
    Finding::new(fill, FULL_TABLE, ORIGIN, &claim, share)
        .and(Ok(drops), "packets dropped for want of an entry, per request")
        .and(hop.summary(&TCP_SYN_RETRANSMITS), "SYNs that this host sends again, per second")
        .mend("raise nf_conntrack_max (and its hash size), or do not track this traffic (NOTRACK)", wider)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(removal_by_machine(hop, "the table is the machine's, not the namespace's"))
        .rising(hop.summary(&CONNTRACK_DROPS))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, monotonic, score};

    fn lab(drops_per_request: f64) -> Lab {
        Lab::healthy()
            .gauge("lb", &CONNTRACK_ENTRIES, "", 65_536.0)
            .per_second("lb", &CONNTRACK_DROPS, "", drops_per_request * 15_300.0)
            .per_second("client", &TCP_SYN_RETRANSMITS, "", 32.0)
    }

    #[test]
    fn its_remedy_is_tried_where_the_machine_is_the_host() {
        let dose = |lab: &Lab| finding(CAUSE.id, "lb", lab).unwrap().dose;
        assert!(matches!(dose(&lab(0.1)), Dose::Untestable(_)), "a namespace");
        assert_eq!(dose(&lab(0.1).local("lb")), Dose::Removal);
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.1)) - 0.5).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.0009)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.0011)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.1).gauge("lb", &CONNTRACK_ENTRIES, "", 55_000.0)), 0.0, "room");
    }

    monotonic!(lab, 0.0..2.0);
}
