//! # Coalescing too high
//!
//! The card gathers packets for so long that requests wait for its interrupt.
//!
//! ## What it sees
//! `rx-usecs` of the card against the response time; idle CPUs.
//!
//! ## Why it limits
//! A request arrives, and the kernel learns of it up to rx-usecs later; so does the answer of each host that it asks.
//!
//! ## Evidence
//! Half of rx-usecs for each message that comes in, out of the response time.
//!
//! ## What it is not
//! Full CPUs: then packets wait for them, and gathering helps. Adaptive coalescing, which is short at low load.
//!
//! ## Fix
//! Fewer rx-usecs, adaptive coalescing, busy polling. prony has no knob for it.
//!
//! ## References
//! ethtool(8) -C; F3 T2 of the field cases.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, gain_of_share, gain_until_full,
    ruled_out,
};
use crate::facts::Hop;
use prony_model::metric::{NIC_COALESCE, NIC_COALESCE_ADAPTIVE};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "coalescing-too-high",
    layer: Layer::Network,
    title: "coalescing too high",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("coalescing_too_high.rs"),
};

/// Share of the response time that gathering must take. A guess.
const SHARE_MIN: f64 = 0.15;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let at = hop.at(Level::At)?;
    let cards = hop.items(&NIC_COALESCE);
    let longest = cards.into_iter().filter_map(|card| Some((card, at.one(&NIC_COALESCE, card).ok()?)));
    let Some((card, gathered_us)) = longest.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return does_not_apply(hop, "has no network card that tells its coalescing");
    };
    let fact = hop.fact(format!("{} of {card}", NIC_COALESCE.name), "us", |r| r.one(&NIC_COALESCE, card))?;
    if at.one(&NIC_COALESCE_ADAPTIVE, card).is_ok_and(|on| on > 0.5) {
        return ruled_out(&fact, gathered_us, "definition", "its card adapts to the load");
    }
    // A request, and the answer of who is asked.
    let messages = (1.0 + at.calls_per_request()) * at.requests()? / at.throughput()?;
    let response_us = at.in_flight()? / at.throughput()? * 1e6;
    let share = (gathered_us / 2.0 * messages / response_us).min(1.0);
    let border = SHARE_MIN * response_us * 2.0 / messages;
    if share < SHARE_MIN || cpu_is_full(hop)? {
        return ruled_out(&fact, border, "guess", "gathering is short against the response time, or the CPUs are full");
    }
    let claim = format!("the card of {} gathers packets for {gathered_us:.0} us while requests wait", hop.name);
    Finding::new(fact, border, "guess", &claim, share)
        .and(hop.fact("response time", "us", |r| Ok(r.in_flight()? / r.throughput()? * 1e6)), "the response time")
        .mend(format!("ethtool -C {card} adaptive-rx on, or fewer rx-usecs"), None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Concurrency)
        .rising(hop.fact("requests", "/s", |r| r.requests()))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    /// Four connections, 400 us per response.
    fn lab(gathered_us: f64) -> Lab {
        let few =
            Lab { n: [4.0, 4.0, 8.0], x: [5_000.0, 10_000.0, 19_000.0], r_us: [400.0, 400.0, 420.0], ..Lab::healthy() };
        few.cpu("0", 0.2, 0.2, 0.1).gauge("lb", &NIC_COALESCE, "eth0", gathered_us)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(200.0)) - 0.25).abs() < 1e-6, "{}", score(CAUSE.id, "lb", &lab(200.0)));
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(119.0)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(121.0)) > 0.0);
        assert_eq!(
            score(CAUSE.id, "lb", &lab(200.0).gauge("lb", &NIC_COALESCE_ADAPTIVE, "eth0", 1.0)),
            0.0,
            "adaptive"
        );
        assert_eq!(score(CAUSE.id, "lb", &lab(200.0).cpu("0", 0.5, 0.4, 0.1)), 0.0, "full");
    }

    monotonic!(lab, 0.0..900.0);
}
