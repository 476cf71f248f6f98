//! # Upstream keepalive off
//!
//! The proxy opens a new connection to a server for each request.
//!
//! ## What it sees
//! `tcp.active_opens` of a host that calls others, per request that it serves. With keepalive: far below 0.05. Without:
//! about 1.
//!
//! ## Why it limits
//! A handshake and a close are eight more segments and two sockets per request, on the proxy and on the server.
//! With full CPUs that work is taken from requests; with idle CPUs the round trip of the handshake is waited for.
//!
//! ## Evidence
//! Opens per request; and the greater of two estimates of their share of the limit: opens times the price of a bare
//! connection measured on this host (a lower bound: nginx's own work comes on top), and the share of a connection's
//! segments in all segments, as CPU goes with them.
//!
//! ## What it is not
//! A keepalive cache that is merely smaller than the number of connections, as long as opens per request stay below
//! 0.05. The configuration is not asked: since nginx 1.29.7 keepalive is on by default, so only the ratio tells.
//!
//! ## Fix
//! Knob `nginx.upstream_keepalive`: idle connections per worker, with HTTP/1.1 to the servers and no `Connection:
//! close`.
//!
//! ## References
//! nginx `ngx_http_upstream_module`, directive `keepalive`; RFC 9293 sections 3.5 and 3.6 (three segments to open,
//! three or four to close).

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, gain_with_relief, nginx_knob,
    predicted_gain, ruled_out, work_share,
};
use crate::facts::{Hop, Reader};
use crate::sessions::keeps_data;
use prony_model::metric::{
    LOOK_UPSTREAM_FAILURES, LOOK_UPSTREAM_TRIES, PRICE_CONNECT, TCP_ACTIVE_OPENS, TCP_IN_SEGMENTS, TCP_OUT_SEGMENTS,
    TCP_PASSIVE_OPENS,
};
use prony_model::{Gap, Knob, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "upstream-keepalive-off",
    layer: Layer::Connections,
    title: "upstream keepalive off",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("upstream_keepalive_off.rs"),
};

/// Opens per request below which connections are kept.
const OPENS_PER_REQUEST: f64 = 0.05;
/// Its origin.
const ORIGIN: &str = "cited: catalogue row 4 (Tcp:ActiveOpens / request, good: far below 0.05)";
/// Segments, both directions together, that a connection of its own adds to a request. Measured: nginx to nginx over
/// veth, wrk with 16 connections, Tcp:InSegs + OutSegs of the proxy per request: 12.0 without keepalive, 4.0 with. CPU
/// goes with segments: the planted case without keepalive needs 198 us per request (5,050/s on a full CPU), 61 to 65 us
/// when mended, which is a third as well.
const SEGMENTS_PER_CONNECTION: f64 = 8.0;
/// Idle connections per worker that are proposed, at least and at most. A guess: 64 cost next to nothing; past 65,536
/// ports end.
const KEEP_MIN: f64 = 64.0;
/// See [`KEEP_MIN`].
const KEEP_MAX: f64 = 65_536.0;
/// Work that explains less than this is no reason to change anything. Cited: catalogue row 2 lets 2 % of the time pass.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if hop.callees().iter().all(keeps_data) {
        return does_not_apply(hop, "calls no other host, or only databases, which `connection-per-query` looks at");
    }
    let opens = hop.per_request(&TCP_ACTIVE_OPENS)?;
    if opens.value < OPENS_PER_REQUEST {
        return ruled_out(&opens, OPENS_PER_REQUEST, ORIGIN, "connections to the servers are kept");
    }
    let due = opens.value - failed_tries(hop);
    if due < OPENS_PER_REQUEST {
        let claim = "connections are kept, except those on which an answer failed";
        return ruled_out(&opens, opens.value - due + OPENS_PER_REQUEST, ORIGIN, claim);
    }
    let share = connection_share(hop, due)?;
    if share < SHARE_MIN {
        return ruled_out(&opens, OPENS_PER_REQUEST, ORIGIN, "opening connections costs under 2 % of the limit");
    }
    let claim = format!("{} opens {:.2} connections to its servers per request", hop.name, opens.value);
    Finding::new(opens, OPENS_PER_REQUEST, ORIGIN, &claim, share)
        .and(hop.summary(&TCP_ACTIVE_OPENS), "connections opened per second follow the load")
        .and(hop.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs the hop")
        .mend(
            "keep connections to the servers open: keepalive in the upstream block, HTTP/1.1, no Connection: close",
            keeping(hop)?,
        )
        .gaining(gain(hop, share))
        .rising(hop.summary(&TCP_ACTIVE_OPENS))
        .tested_by(if cpu_is_full(hop)? { Dose::Cpu } else { Dose::Removal })
        .fires()
}

/// Tries per request that failed: a proxy drops the connection with the answer that it does not pass on.
pub(super) fn failed_tries(hop: &Hop<'_>) -> f64 {
    let failed =
        |item: &&str| Some(hop.look(&LOOK_UPSTREAM_TRIES, item).ok()? * hop.look(&LOOK_UPSTREAM_FAILURES, item).ok()?);
    hop.items(&LOOK_UPSTREAM_TRIES).iter().filter_map(failed).sum()
}

/// The knob by which each worker keeps as many connections as it has requests in flight, and no fewer than it is told to.
pub(super) fn keeping(hop: &Hop<'_>) -> Result<Option<Knob>, Gap> {
    let workers = hop.workers().len().max(1) as f64;
    let keep = (hop.at(Level::At)?.in_flight()? / workers).ceil().clamp(KEEP_MIN, KEEP_MAX) as u64;
    let told = hop.settings("nginx.config.keepalive");
    let told = told.filter_map(|line| line.split(' ').next()?.parse().ok()).max().unwrap_or(0);
    Ok(nginx_knob(hop, KnobId::NginxUpstreamKeepalive, keep.next_power_of_two().max(told).to_string()))
}

/// Share of the limit that opening and closing this many connections per request explains.
pub(super) fn connection_share(hop: &Hop<'_>, opens_per_request: f64) -> Result<f64, Gap> {
    let by_price = hop.look(&PRICE_CONNECT, "").and_then(|us| work_share(hop, us * opens_per_request));
    let by_segments = segment_share(hop, opens_per_request);
    match (by_price, by_segments) {
        (Ok(a), Ok(b)) => Ok(a.max(b)),
        (Ok(share), Err(_)) | (Err(_), Ok(share)) => Ok(share),
        (Err(gap), Err(_)) => Err(gap),
    }
}

/// The same by segments: what they cost out of what all segments cost, of a full CPU.
fn segment_share(hop: &Hop<'_>, opens_per_request: f64) -> Result<f64, Gap> {
    if !cpu_is_full(hop)? {
        return Ok(0.0);
    }
    let at = hop.at(Level::At)?;
    Ok(connection_cpu(&at, opens_per_request)? / at.cpu()?.total() * (1.0 - at.stalled_share()))
}

/// CPUs that a host spends on opening and closing connections.
fn connection_cpu(at: &Reader<'_>, opens_per_request: f64) -> Result<f64, Gap> {
    let segments = (at.sum(&TCP_IN_SEGMENTS)? + at.sum(&TCP_OUT_SEGMENTS)?) / at.requests()?;
    let share = SEGMENTS_PER_CONNECTION * opens_per_request / segments.max(1.0);
    Ok(at.own_cpu()? * share.min(1.0))
}

/// Gain at this hop, up to where CPUs elsewhere are full; the servers are relieved of the same connections.
fn gain(hop: &Hop<'_>, share: f64) -> Option<f64> {
    if !cpu_is_full(hop).ok()? {
        return predicted_gain(hop, share);
    }
    let servers = &hop.host()?.calls;
    let freed = |host: &Hop<'_>| {
        if !servers.iter().any(|server| server == host.name) {
            return None;
        }
        let at = host.at(Level::At).ok()?;
        connection_cpu(&at, at.sum(&TCP_PASSIVE_OPENS).ok()? / at.requests().ok()?).ok()
    };
    Some(gain_with_relief(hop, share, freed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    /// The figures of a proxy without keepalive: 5,050 requests/s, 4,980 opens/s, CPU 0 full.
    fn lab(opens_per_s: f64) -> Lab {
        Lab::healthy()
            .throughput(5_050.0)
            .cpu("0", 0.2, 0.45, 0.34)
            .own("lb", 0.65)
            .per_second("lb", &TCP_ACTIVE_OPENS, "", opens_per_s)
            .per_second("lb", &TCP_IN_SEGMENTS, "", 5_050.0 * 6.0)
            .per_second("lb", &TCP_OUT_SEGMENTS, "", 5_050.0 * 6.0)
    }

    #[test]
    fn fires_and_proposes_a_cache_for_all_in_flight() {
        let found = finding(CAUSE.id, "lb", &lab(4_980.0)).unwrap();
        assert!((0.6..0.7).contains(&found.score), "{}", found.score);
        let knob = found.remedies[0].knob.as_ref().unwrap();
        assert_eq!((knob.host.as_str(), knob.value.as_str()), ("lb", "64"));
        assert!(found.gain.unwrap() > 0.3);
        assert_eq!(found.dose, Dose::Cpu);
    }

    #[test]
    fn no_fewer_are_kept_than_it_is_told_to() {
        let kept = |lines: &str| {
            let run = lab(4_980.0).setting("lb", "nginx.config.keepalive", lines).run();
            keeping(&Hop { run: &run, name: "lb" }).unwrap().expect("a knob").value
        };
        assert_eq!(kept("16"), kept("$none"));
        assert_eq!(kept("16 | 4000 | 32"), "4000");
    }

    #[test]
    fn silent_on_a_small_cache_and_on_servers() {
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "s1", &lab(4_980.0)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(5_050.0 * 0.049)), 0.0, "border");
        assert!(score(CAUSE.id, "lb", &lab(5_050.0 * 0.06)) > 0.0, "border");
    }

    #[test]
    fn connections_on_which_an_answer_failed_are_not_missed() {
        let failing = |opens_per_request: f64| {
            let lab = lab(5_050.0 * opens_per_request);
            ["10.77.0.11:80", "10.77.0.12:80"].into_iter().fold(lab, |lab, server| {
                lab.gauge("lb", &LOOK_UPSTREAM_TRIES, server, 0.75).gauge("lb", &LOOK_UPSTREAM_FAILURES, server, 0.5)
            })
        };
        assert_eq!(score(CAUSE.id, "lb", &failing(0.5)), 0.0, "retries open them");
        assert!(score(CAUSE.id, "lb", &failing(1.5)) > 0.3, "each try opens one");
    }

    #[test]
    fn with_idle_cpus_the_time_counts() {
        let idle = lab(5_000.0).cpu("0", 0.1, 0.2, 0.1).own("lb", 0.3);
        let idle = Lab { n: [2.0, 2.0, 4.0], x: [2_500.0, 5_000.0, 9_000.0], r_us: [300.0, 400.0, 440.0], ..idle };
        let found = finding(CAUSE.id, "lb", &idle).unwrap();
        assert_eq!(found.dose, Dose::Removal);
        assert!((found.score - 0.1).abs() < 0.01, "40 of 400 us: {}", found.score);
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn more_opens_never_score_less(a in 0.0f64..6_000.0, b in 0.0f64..6_000.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))) + 1e-9);
        }
    }
}
