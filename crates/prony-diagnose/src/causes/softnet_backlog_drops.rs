//! # Softnet backlog drops
//!
//! The queue of received packets of a CPU is full, and the kernel drops what comes.
//!
//! ## What it sees
//! `softnet.dropped` of the hop's CPUs per packet processed; segments sent again.
//!
//! ## Why it limits
//! A dropped segment is sent again after a timer, mostly 0.2 s.
//!
//! ## Evidence
//! Share of the requests in flight that stand still until a segment is sent again.
//!
//! ## What it is not
//! Cards without steering use no such queue: then the drop is of tunnels, virtual links or loopback. Packets lost on
//! the way: `packet-loss`.
//!
//! ## Fix
//! Knob `sysctl.net.core.netdev_max_backlog`; fewer hops through virtual links; spread the packets over more CPUs.
//!
//! ## References
//! Linux net-procfs.c (/proc/net/softnet_stat 2); Documentation/networking/scaling.rst.

use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, knob, removal_by_machine, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{SOFTNET_DROPPED, SOFTNET_PROCESSED, TCP_RETRANSMITS};
use prony_model::{Gap, KnobId, Level, Metric};

pub(super) const CAUSE: Cause = Cause {
    id: "softnet-backlog-drops",
    layer: Layer::Network,
    title: "softnet backlog drops",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("softnet_backlog_drops.rs"),
};

/// Drops per packet processed from which the queue counts as too short. A guess: a tenth of the border of
/// `packet-loss`, because these packets are of everybody on the CPU.
const DROPS: f64 = 0.0001;
/// What the queue may hold instead of the 1000 that kernels come with.
const WIDE: &str = "10000";

/// Share of the requests in flight that must stand still for a lost segment. A guess, as for `packet-loss`.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let drops = hop.fact("softnet.dropped / softnet.processed", "share", |r| {
        let processed = on_own_cpus(r, &SOFTNET_PROCESSED)?;
        Ok(if processed > 0.0 { on_own_cpus(r, &SOFTNET_DROPPED)? / processed } else { 0.0 })
    })?;
    if drops.value < DROPS {
        return ruled_out(&drops, DROPS, "guess", "the queues of its CPUs drop nothing");
    }
    let share = hop.at(Level::At)?.loss_share()?;
    if share < SHARE_MIN {
        return ruled_out(&drops, DROPS, "guess", "packets are dropped, but requests of this host hardly wait for it");
    }
    let claim = format!(
        "the CPUs of {} drop {:.3} % of the packets that come, before anybody sees them",
        hop.name,
        drops.value * 100.0
    );
    Finding::new(drops, DROPS, "guess", &claim, share)
        .and(hop.summary(&TCP_RETRANSMITS), "segments that this host sends again per second")
        .mend("a longer queue per CPU", knob(hop, KnobId::Sysctl("net.core.netdev_max_backlog".to_string()), WIDE))
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(removal_by_machine(hop, "the queue is the machine's, not the namespace's"))
        .rising(hop.fact(SOFTNET_DROPPED.name, "/s", |r| on_own_cpus(r, &SOFTNET_DROPPED)))
        .fires()
}

fn on_own_cpus(r: &Reader<'_>, metric: &Metric) -> Result<f64, Gap> {
    r.hop.cpus()?.iter().map(|cpu| r.one(metric, &cpu.to_string())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, monotonic, score};

    fn lab(drops: f64) -> Lab {
        Lab::healthy().per_second("lb", &SOFTNET_DROPPED, "0", drops * 90_000.0).per_second(
            "lb",
            &TCP_RETRANSMITS,
            "",
            160.0,
        )
    }

    #[test]
    fn its_remedy_is_tried_where_the_machine_is_the_host() {
        let dose = |lab: &Lab| finding(CAUSE.id, "lb", lab).unwrap().dose;
        assert!(matches!(dose(&lab(0.002)), Dose::Untestable(_)), "a namespace");
        assert_eq!(dose(&lab(0.002).local("lb")), Dose::Removal);
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.002)) - 0.5).abs() < 1e-3);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.00009)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.00011)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.002).per_second("lb", &TCP_RETRANSMITS, "", 1.0)), 0.0, "nobody waits");
        assert_eq!(score(CAUSE.id, "s1", &lab(0.002)), 0.0, "other CPUs");
    }

    fn lossy(again: f64) -> Lab {
        lab(0.002).per_second("lb", &TCP_RETRANSMITS, "", again)
    }

    monotonic!(lossy, 0.0..400.0);
}
