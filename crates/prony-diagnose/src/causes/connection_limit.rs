//! # Connection limit
//!
//! A server has as many connections as it is set to take: others are refused, or wait for a slot.
//!
//! ## What it sees
//! Connections now and the limit: `max_connections` of PostgreSQL, `maxclients` of Redis with the connections it
//! rejected, limits of HAProxy's servers and frontends with the requests that queue before them and the connections that
//! wait to be accepted; how often nginx found
//! no live upstream while its servers answer well.
//!
//! ## Why it limits
//! Who is refused fails; who queues waits for somebody to leave.
//!
//! ## Evidence
//! Connections over the limit, with the share of requests that fail or that queue.
//!
//! ## What it is not
//! A full house in which nobody fails and nobody waits: a pool that is exactly as large as the limit. A pool that is
//! too small in the application: the server has room then. Servers that nginx takes for dead: hardly anything reaches
//! them.
//!
//! ## Fix
//! A pool or a pooler before the server; then a higher limit, as far as memory and CPUs go.
//!
//! ## References
//! PostgreSQL `max_connections`; Redis `maxclients`; HAProxy `maxconn`; nginx
//! `ngx_http_upstream_module`, `max_conns`.

use super::bad_upstream::{is_given_up, without_server};
use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, predicted_gain, ruled_out};
use crate::facts::{Fact, Hop, Reader, SYN_TIMEOUT_S};
use prony_model::Gap;
use prony_model::metric::{
    HAPROXY_QUEUE, HAPROXY_SESSIONS, HAPROXY_SESSIONS_MAX, LISTEN_QUEUE, PG_CONNECTIONS, PG_CONNECTIONS_MAX,
    REDIS_CLIENTS, REDIS_CLIENTS_MAX, REDIS_REJECTED, TCP_LISTEN_OVERFLOWS,
};
use prony_model::stack::Software;

pub(super) const CAUSE: Cause = Cause {
    id: "connection-limit",
    layer: Layer::Connections,
    title: "connection limit reached",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("connection_limit.rs"),
};

/// Connections over limit from which it is reached. A guess above the alarms of others: coroot and netdata warn at 80
/// to 90 % of max_connections, before anybody is refused.
const REACHED: f64 = 0.9;
/// Share of the requests that fail or queue, below which it does not matter. A guess.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    match hop.host().and_then(|h| h.software) {
        Some(Software::Postgres) => judge(
            hop,
            hop.fact("connections / max_connections", "", |r| {
                Ok(most(r, &PG_CONNECTIONS)? / r.one(&PG_CONNECTIONS_MAX, "")?)
            })?,
            failing,
        ),
        Some(Software::Redis) => judge(
            hop,
            hop.fact("clients / maxclients", "", |r| Ok(most(r, &REDIS_CLIENTS)? / r.one(&REDIS_CLIENTS_MAX, "")?))?,
            rejected,
        ),
        Some(Software::Haproxy) => judge(hop, hop.fact("sessions / limit of the fullest", "", fullest)?, queued),
        Some(Software::Nginx) if !hop.callees().is_empty() => servers_full(hop),
        Some(Software::Nginx | Software::Other) | None => {
            does_not_apply(hop, "tells no limit of connections of its own")
        }
    }
}

fn judge(hop: &Hop<'_>, fill: Fact, hurt: fn(&Reader<'_>) -> Result<f64, Gap>) -> Result<Judgement, Gap> {
    if fill.value < REACHED {
        return ruled_out(&fill, REACHED, "guess", "it has room for more connections");
    }
    let hurt = hop.fact("share of requests that fail or queue", "share", hurt)?;
    if hurt.value < SHARE_MIN {
        return ruled_out(
            &hurt,
            SHARE_MIN,
            "guess",
            "its connections are at their limit, but nobody fails or waits for it",
        );
    }
    let claim = format!(
        "{} has {:.0} % of the connections it may have, and {:.0} % of the requests fail or wait for one",
        hop.name,
        fill.value * 100.0,
        hurt.value * 100.0
    );
    let share = hurt.value.min(1.0);
    Finding::new(fill, REACHED, "guess", &claim, share)
        .and(Ok(hurt.clone()), "requests that fail or queue")
        .mend("fewer connections by a pool before it; a higher limit as far as memory goes", None)
        .gaining(predicted_gain(hop, share))
        .rising(Ok(hurt))
        .tested_by(Dose::Queue)
        .fires()
}

/// nginx has no queue: a request that finds all servers at their `max_conns` is refused at once.
fn servers_full(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let refused = without_server(hop)?;
    if refused.value < SHARE_MIN {
        return ruled_out(&refused, SHARE_MIN, "guess", "it finds a server for each request");
    }
    if hop.callees().iter().any(|server| is_given_up(server, hop)) {
        return ruled_out(&refused, SHARE_MIN, "guess", "it takes its servers for dead, not for full");
    }
    let share = refused.value.min(1.0);
    let claim = format!(
        "{} refuses {:.0} % of the requests, for its servers have as many connections as they may have",
        hop.name,
        share * 100.0
    );
    let answered = hop.fact("answered, of all", "share", |r| Ok(r.good_share()));
    Finding::new(refused.clone(), SHARE_MIN, "guess", &claim, share)
        .and(answered, "the rest is answered")
        .mend("a higher `max_conns` of the servers, or more servers", None)
        .gaining(predicted_gain(hop, share))
        .rising(Ok(refused))
        .tested_by(Dose::Queue)
        .fires()
}

/// The largest value of a gauge: a limit is reached at moments.
fn most(r: &Reader<'_>, metric: &'static prony_model::Metric) -> Result<f64, Gap> {
    r.max(metric)
}

/// Requests that fail: whoever is refused answers with an error.
fn failing(r: &Reader<'_>) -> Result<f64, Gap> {
    Ok(r.trial.result.error_share())
}

/// Connections that Redis rejected, per request, or requests that fail.
fn rejected(r: &Reader<'_>) -> Result<f64, Gap> {
    Ok((r.sum(&REDIS_REJECTED)? / r.throughput()?).min(1.0).max(failing(r)?))
}

/// Requests in HAProxy's queues, of those in flight, and those that wait to be let in: at its limit it accepts nobody.
fn queued(r: &Reader<'_>) -> Result<f64, Gap> {
    // A backend's queue holds those of its servers too.
    let of = |item: &&str| r.one(&HAPROXY_QUEUE, item).unwrap_or(0.0);
    let backends = r.hop.items(&HAPROXY_QUEUE).into_iter().filter(|item| item.ends_with("/BACKEND"));
    let queued = backends.map(|item| of(&item)).sum::<f64>();
    let outside = r.sum(&LISTEN_QUEUE).unwrap_or(0.0) + r.sum(&TCP_LISTEN_OVERFLOWS).unwrap_or(0.0) * SYN_TIMEOUT_S;
    Ok(((queued + outside) / r.in_flight()?).min(1.0).max(failing(r)?))
}

fn fullest(r: &Reader<'_>) -> Result<f64, Gap> {
    let fill = |item: &str| {
        Some(r.one(&HAPROXY_SESSIONS, item).ok()? / r.one(&HAPROXY_SESSIONS_MAX, item).ok().filter(|l| *l > 0.0)?)
    };
    let fills = r.hop.items(&HAPROXY_SESSIONS_MAX).into_iter().filter_map(fill);
    fills.reduce(f64::max).ok_or_else(|| Gap::new(HAPROXY_SESSIONS_MAX.name, r.hop.name, "no limit was read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::TCP_IN_SEGMENTS;
    use proptest::prelude::*;

    /// So many of 97 connections, and so many requests that fail.
    fn lab(connections: f64, failing: f64) -> Lab {
        Lab::chain().queueing(300.0).held(connections).failing(failing)
    }

    fn software(mut lab: Lab, software: Software) -> Lab {
        lab.stack.host.get_mut("db").unwrap().software = Some(software);
        lab
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "db", &lab(97.0, 0.4)).unwrap();
        assert!((found.score - 0.4).abs() < 1e-9);
        assert_eq!(score(CAUSE.id, "db", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(97.0, 0.4)), 0.0);
        assert_eq!(score(CAUSE.id, "db", &lab(97.0, 0.0)), 0.0, "a pool as large as the limit");
        assert_eq!(score(CAUSE.id, "db", &lab(87.0, 0.4)), 0.0, "border");
        assert!(score(CAUSE.id, "db", &lab(88.0, 0.4)) > 0.0, "border");
    }

    #[test]
    fn redis_rejects_and_haproxy_queues() {
        let redis = |rejected: f64| {
            let lab = software(lab(1.0, 0.0), Software::Redis).gauge("db", &REDIS_CLIENTS_MAX, "", 20.0);
            lab.gauge("db", &REDIS_CLIENTS, "", 20.0).per_second("db", &REDIS_REJECTED, "", rejected)
        };
        assert!(score(CAUSE.id, "db", &redis(90.0)) > 0.2);
        assert_eq!(score(CAUSE.id, "db", &redis(0.0)), 0.0);
        let haproxy = |queue: f64| {
            let lab = software(lab(1.0, 0.0), Software::Haproxy).gauge("db", &HAPROXY_SESSIONS, "web/s1", 4.0);
            lab.gauge("db", &HAPROXY_SESSIONS_MAX, "web/s1", 4.0).gauge("db", &HAPROXY_QUEUE, "web/BACKEND", queue)
        };
        assert!((score(CAUSE.id, "db", &haproxy(32.0)) - 0.5).abs() < 0.01);
        assert_eq!(score(CAUSE.id, "db", &haproxy(0.0)), 0.0);
        let outside = |waiting: f64| haproxy(0.0).gauge("db", &LISTEN_QUEUE, "0.0.0.0:80", waiting);
        assert!((score(CAUSE.id, "db", &outside(32.0)) - 0.5).abs() < 0.01, "nobody is let in");
        let dropped = haproxy(0.0).per_second("db", &TCP_LISTEN_OVERFLOWS, "", 32.0);
        assert!((score(CAUSE.id, "db", &dropped) - 0.5).abs() < 0.01, "nor may they wait");
    }

    #[test]
    fn nginx_refuses_when_its_servers_are_full() {
        let lab = |refused: f64| Lab::healthy().refusing(refused);
        let found = finding(CAUSE.id, "lb", &lab(0.6)).unwrap();
        assert!((found.score - 0.6).abs() < 0.01, "{}", found.score);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.019)), 0.0, "border");
        assert!(score(CAUSE.id, "lb", &lab(0.021)) > 0.0, "border");
        let dead = ["s1", "s2"].into_iter().fold(lab(0.9), |lab, s| lab.per_second(s, &TCP_IN_SEGMENTS, "", 1.0));
        assert_eq!(score(CAUSE.id, "lb", &dead), 0.0, "taken for dead");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            let with = |failing: f64| score(CAUSE.id, "db", &lab(97.0, failing));
            prop_assert!(with(a.min(b)) <= with(a.max(b)) + 1e-9);
        }
    }
}
