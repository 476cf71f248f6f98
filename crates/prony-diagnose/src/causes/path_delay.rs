//! # Path delay
//!
//! The way between two hosts takes a large part of the response time.
//!
//! ## What it sees
//! The least round trip that TCP ever saw on the connections to the host (min_rtt), against the response time. Both
//! ends of the way see it, so it is named at its far end; when all servers behind one caller and the callers of that
//! one see it, at that caller.
//!
//! ## Why it limits
//! Each request crosses the way at least once; a connection per request crosses it twice.
//!
//! ## Evidence
//! Least round trip times crossings, out of the response time.
//!
//! ## What it is not
//! A queue or a busy host: they raise the round trip, not the least one. A way that is short against the response time.
//!
//! ## Fix
//! Place the hosts nearer to each other, keep connections open, ask less often or more at once.
//!
//! ## References
//! Linux tcp_info tcpi_min_rtt; Coroot warns at 10 ms within a cluster.

use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, ruled_out};
use crate::facts::{Fact, Hop, Reader};
use prony_model::metric::{CONN_IN, CONN_MIN_RTT, TCP_PASSIVE_OPENS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "path-delay",
    layer: Layer::Network,
    title: "path delay",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("path_delay.rs"),
};

/// Least round trip from which a way can matter, in microseconds. A guess: within a rack it is 20 to 200 us; the lab's
/// links, on one machine under full load, show 4 to 5.
const LEAST_US: f64 = 300.0;
/// Share of the response time from which it matters. A guess.
const SHARE_MIN: f64 = 0.1;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let delay = delay(hop)?;
    if delay.value < LEAST_US {
        return ruled_out(&delay, LEAST_US, "guess", "packets cross the way to it fast");
    }
    let at = hop.at(Level::At)?;
    let opens = (at.sum(&TCP_PASSIVE_OPENS).unwrap_or(0.0) / at.requests()?).clamp(0.0, 1.0);
    let crossings = (1.0 + opens) * at.requests()? / at.throughput()?;
    let response_us = at.in_flight()? / at.throughput()? * 1e6;
    let share = (delay.value * crossings / response_us).min(1.0);
    if share < SHARE_MIN / hop.siblings().len() as f64 {
        return ruled_out(&delay, LEAST_US, "guess", "the way is short against the response time");
    }
    if let Some(common) = common_end(hop) {
        return ruled_out(&delay, LEAST_US, "guess", &format!("all ways of {common} are long: the delay is at it"));
    }
    let claim =
        format!("a packet takes {:.1} ms to {} and back even when nothing is busy", delay.value / 1e3, hop.name);
    let mut finding = Finding::new(delay, LEAST_US, "guess", &claim, share)
        .and(hop.fact("response time", "us", |r| Ok(r.in_flight()? / r.throughput()? * 1e6)), "the response time")
        .and(
            hop.fact("tcp.passive_opens / request", "", |r| Ok(r.sum(&TCP_PASSIVE_OPENS)? / r.requests()?)),
            "connections per request: each crosses once more",
        )
        .and(hop.fact("requests that cross", "/s", |r| r.requests()), "requests that cross");
    for sibling in hop.siblings().iter().filter(|s| s.name != hop.name) {
        finding = finding.and(self::delay(sibling), "a sibling on another way, for comparison");
    }
    let mut finding = finding
        .mend("place the hosts nearer to each other, keep connections open, or ask for more at once", None)
        .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
        .tested_by(Dose::Concurrency)
        .rising(hop.fact("requests that cross", "/s", |r| r.requests()));
    finding.adds_up = true;
    finding.fires()
}

/// Least round trip of the connections that others opened to this host: on the port with most of them.
fn delay(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("conn.min_rtt to this host", "us", least_us)
}

fn least_us(r: &Reader<'_>) -> Result<f64, Gap> {
    let ports = r.hop.items(&CONN_MIN_RTT).into_iter().filter(|item| !item.contains(':'));
    let used = ports.filter_map(|port| Some((r.one(&CONN_IN, port).unwrap_or(0.0), r.one(&CONN_MIN_RTT, port).ok()?)));
    let busiest = used.max_by(|a, b| a.0.total_cmp(&b.0));
    busiest
        .map(|(_, us)| us)
        .ok_or_else(|| Gap::new(CONN_MIN_RTT.name, r.hop.name, "no connection to it showed a round trip"))
}

/// The caller of this host, when the ways to it and to all whom it calls are long.
fn common_end<'a>(hop: &Hop<'a>) -> Option<&'a str> {
    let is_long = |h: &Hop<'_>| delay(h).is_ok_and(|fact| fact.value >= LEAST_US);
    let caller = hop.run.stack.callers(hop.name).first().copied()?;
    let siblings = hop.siblings();
    (siblings.len() > 1 && siblings.iter().all(is_long) && is_long(&hop.other(caller))).then_some(caller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(ms: f64) -> Lab {
        Lab::healthy().throughput(6_000.0).cpu("0", 0.1, 0.2, 0.1).gauge("lb", &CONN_MIN_RTT, "80", ms * 1e3)
    }

    #[test]
    fn fires_silent_border() {
        assert!(
            (score(CAUSE.id, "lb", &lab(5.0)) - 5.0 * 6.0 / 64.0).abs() < 0.01,
            "{}",
            score(CAUSE.id, "lb", &lab(5.0))
        );
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0)), 0.0, "short against 10.7 ms");
        assert!(score(CAUSE.id, "lb", &lab(1.1)) > 0.0);
        let one = Lab::healthy().throughput(6_000.0).gauge("s1", &CONN_MIN_RTT, "80", 10_000.0);
        assert!(score(CAUSE.id, "s1", &one) > 0.4, "half of the requests cross it");
        let all = lab(5.0).gauge("s1", &CONN_MIN_RTT, "80", 5_000.0).gauge("s2", &CONN_MIN_RTT, "80", 5_000.0);
        assert_eq!(score(CAUSE.id, "s1", &all), 0.0, "the link of lb");
        assert!(score(CAUSE.id, "lb", &all) > 0.0);
    }

    monotonic!(lab, 0.0..20.0);
}
