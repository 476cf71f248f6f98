//! # Name lookup per request
//!
//! The hop asks a name server for each request.
//!
//! ## What it sees
//! UDP datagrams that go out and are answered, per request; sockets to port 53.
//!
//! ## Why it limits
//! Each lookup is a round trip and a pass through resolver and socket layers; when the name server is slow, requests
//! wait for it.
//!
//! ## Evidence
//! Lookups per request at the price of a connection, and with idle CPUs the share of requests that stay at the hop.
//!
//! ## What it is not
//! Datagrams without answers (statistics, logs). QUIC: many datagrams per request, and port 443.
//!
//! ## Fix
//! Static addresses or cached names (`resolver ... valid=`, nscd, systemd-resolved); an upstream without a variable.
//!
//! ## References
//! nginx: ngx_http_core_module resolver; getaddrinfo(3).

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_of_share, predicted_gain, ruled_out,
    work_share,
};
use crate::facts::{Hop, Reader};
use crate::host_facts::looked_at;
use prony_model::metric::{LOOK_DNS_SOCKETS, LOOK_RUNNING, PRICE_CONNECT, UDP_IN, UDP_OUT};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "name-lookup-per-request",
    layer: Layer::Connections,
    title: "name lookup per request",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("name_lookup_per_request.rs"),
};

/// Answered datagrams per request from which names are looked up all the time. A guess: a cache would leave far fewer.
const LOOKUPS: f64 = 0.2;
/// Datagrams per request above which it is no name service: QUIC and media send dozens. A guess: two names, in two
/// families.
const LOOKUPS_MAX: f64 = 8.0;
/// Share of the limit from which it matters. A guess.
const SHARE_MIN: f64 = 0.03;
/// CPU time of a lookup where connections were not priced, in microseconds. A guess.
const LOOKUP_US: f64 = 30.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let lookups = hop.fact("answered datagrams / request", "", |r| Ok(lookups_per_s(r)? / r.requests()?))?;
    if lookups.value < LOOKUPS || lookups.value > LOOKUPS_MAX {
        return ruled_out(&lookups, LOOKUPS, "guess", "no name server is asked for each request");
    }
    let looked = !hop.items(&LOOK_RUNNING).is_empty();
    let sockets = hop.look(&LOOK_DNS_SOCKETS, "").ok();
    if looked && sockets == Some(0.0) && !hop.items(&LOOK_DNS_SOCKETS).is_empty() {
        let none = looked_at(hop, LOOK_DNS_SOCKETS.name, "", 0.0);
        return ruled_out(&none, f64::MIN_POSITIVE, "definition", "datagrams are exchanged, but not with port 53");
    }
    let at = hop.at(Level::At)?;
    let full = cpu_is_full(hop)?;
    let price_us = hop.look(&PRICE_CONNECT, "").unwrap_or(LOOKUP_US);
    let work = work_share(hop, lookups.value.min(2.0) * price_us)?;
    let waits = if full { 0.0 } else { at.staying().unwrap_or(0.0) / at.in_flight()? * (1.0 - at.cpu()?.busy_share()) };
    let share = work.max(waits * lookups.value.min(1.0)).min(1.0);
    if share < SHARE_MIN {
        return ruled_out(&lookups, LOOKUPS, "guess", "names are looked up, but that costs little");
    }
    let claim = format!("{} asks a name server {:.1} times per request", hop.name, lookups.value);
    let mut finding = Finding::new(lookups, LOOKUPS, "guess", &claim, share);
    if let Some(sockets) = sockets {
        finding = finding.and(Ok(looked_at(hop, LOOK_DNS_SOCKETS.name, "", sockets)), "sockets to port 53");
    }
    finding
        .and(hop.per_request(&UDP_OUT), "datagrams that it sends per request")
        .and(hop.fact("requests that stay at the hop", "", |r| r.staying()), "requests that wait there")
        .mend("cache names (resolver valid=, nscd) or write addresses", None)
        .gaining(if full { predicted_gain(hop, share) } else { Some(gain_of_share(share, None)) })
        .tested_by(if full { Dose::Cpu } else { Dose::Concurrency })
        .rising(hop.fact("answered datagrams", "/s", lookups_per_s))
        .fires()
}

/// Questions that were answered: the lesser of both ways.
fn lookups_per_s(r: &Reader<'_>) -> Result<f64, Gap> {
    Ok(r.sum(&UDP_OUT)?.min(r.sum(&UDP_IN)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(lookups: f64) -> Lab {
        Lab::healthy()
            .per_second("lb", &UDP_OUT, "", lookups * 15_300.0)
            .per_second("lb", &UDP_IN, "", lookups * 15_300.0)
            .gauge("lb", &LOOK_DNS_SOCKETS, "", 1.0)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(1.0)) - 0.612).abs() < 1e-3, "{}", score(CAUSE.id, "lb", &lab(1.0)));
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.19)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.21)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(20.0)), 0.0, "QUIC");
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0).per_second("lb", &UDP_IN, "", 0.0)), 0.0, "statistics");
        let elsewhere = lab(1.0).gauge("lb", &LOOK_DNS_SOCKETS, "", 0.0).gauge("lb", &LOOK_RUNNING, "101", 0.5);
        assert_eq!(score(CAUSE.id, "lb", &elsewhere), 0.0, "not port 53");
    }

    monotonic!(lab, 0.0..8.0);
}
