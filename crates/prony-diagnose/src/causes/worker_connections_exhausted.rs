//! # Worker connections exhausted
//!
//! nginx has no connection slot left for clients or for the way to the servers.
//!
//! ## What it sees
//! Error-log lines `worker_connections are not enough` within the scored time. nginx writes at most one per second, so
//! one line is enough. A server that its proxy takes for dead gets a request once in `fail_timeout` (10 s): there a line at any level of
//! load counts.
//!
//! ## Why it limits
//! Waiting clients are not accepted, idle ones are closed, requests to servers fail at once. CPUs may be idle.
//!
//! ## Evidence
//! The share of the clients' connections that the hop does not hold, or the share of requests that fail, whichever is
//! greater.
//!
//! ## What it is not
//! A lack of file descriptors: other lines. A limit that is near but not reached: no line.
//!
//! ## Fix
//! Raise `worker_connections`: clients and servers both count (knob `nginx.worker_connections`).
//!
//! ## References
//! nginx `ngx_core_module`, directive `worker_connections` (default 512; upstream connections count too).

use super::bad_upstream::{is_given_up, without_server};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, nginx_knob, ruled_out,
};
use crate::facts::{Fact, Hop};
use prony_model::metric::{CONN_IN, ERROR_LOG_NO_WORKER_CONNECTIONS, LISTEN_QUEUE, PROC_DESCRIPTOR_LIMIT};
use prony_model::{Gap, Knob, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "worker-connections-exhausted",
    layer: Layer::Connections,
    title: "worker connections exhausted",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("worker_connections_exhausted.rs"),
};

/// Lines per second from which it matters: nginx writes about one per second while it lasts (`ngx_drain_connections`).
const LINES_PER_S: f64 = 0.2;
/// The same for a server that its proxy takes for dead. A guess: half of what one try in 10 s leaves.
const LINES_PER_S_SHUT_OUT: f64 = 0.05;
/// What is proposed at least: some slots are of listening sockets and of nginx itself. A guess.
const CONNECTIONS_LEAST: u64 = 1024;
/// What is explained when only the line is known. A guess.
pub(super) const SHARE_UNKNOWN: f64 = 0.3;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let refused = refused_by_proxy(hop);
    let border = if refused > 0.0 { LINES_PER_S_SHUT_OUT } else { LINES_PER_S };
    let lines = lines_per_s(hop, refused > 0.0)?;
    if lines.value < border {
        return ruled_out(&lines, border, "guess", "no worker complains of too few connections");
    }
    let wanted = f64::from(hop.at(Level::At)?.trial.plan.connections);
    let share = turned_away(hop)?.max(SHARE_UNKNOWN).max(refused);
    let claim = format!("workers of {} have no connection slot left", hop.name);
    Finding::new(lines, border, "guess", &claim, share)
        .and(hop.summary(&CONN_IN), "client connections that it holds")
        .mend("raise worker_connections: two per request in flight, with room", raised(hop, wanted))
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Removal)
        .fires()
}

/// Lines per second; of a server that is hardly tried the most at any level of load.
fn lines_per_s(hop: &Hop<'_>, is_shut_out: bool) -> Result<Fact, Gap> {
    let lines = hop.summary(&ERROR_LOG_NO_WORKER_CONNECTIONS)?;
    let elsewhere = [lines.baseline, lines.beyond].into_iter().flatten().filter(|_| is_shut_out);
    Ok(Fact { value: elsewhere.fold(lines.value, f64::max), ..lines })
}

/// Share of the requests that its proxy refuses, because it takes this server and its siblings for dead.
fn refused_by_proxy(hop: &Hop<'_>) -> f64 {
    let callers = hop.run.stack.callers(hop.name).into_iter().map(|name| hop.other(name));
    let refused = callers.filter(|proxy| is_given_up(hop, proxy)).filter_map(|proxy| without_server(&proxy).ok());
    refused.map(|refused| refused.value).fold(0.0, f64::max).min(1.0)
}

/// Share of the clients that are not let in, or whose requests fail.
pub(super) fn turned_away(hop: &Hop<'_>) -> Result<f64, Gap> {
    let at = hop.at(Level::At)?;
    let wanted = f64::from(at.trial.plan.connections);
    let missing = at.sum(&CONN_IN).map_or(0.0, |held| 1.0 - held / wanted);
    let queued = at.sum(&LISTEN_QUEUE).map_or(0.0, |queued| queued / wanted);
    let outside = if hop.is_entry() { missing.max(queued).min(1.0) } else { 0.0 };
    Ok(outside.max(at.trial.result.error_share()))
}

/// Room for all clients at one worker, twice: to clients and to servers, and as much again. No more than a worker has file descriptors for.
fn raised(hop: &Hop<'_>, clients: f64) -> Option<Knob> {
    let number = ((4.0 * clients) as u64).next_power_of_two().max(CONNECTIONS_LEAST);
    let at = hop.at(Level::At).ok()?;
    let limits =
        hop.items(&PROC_DESCRIPTOR_LIMIT).into_iter().filter_map(|pid| at.one(&PROC_DESCRIPTOR_LIMIT, pid).ok());
    let room = limits.fold(f64::INFINITY, f64::min);
    nginx_knob(hop, KnobId::NginxWorkerConnections, number.min(room as u64).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::TCP_IN_SEGMENTS;
    use proptest::prelude::*;

    fn lab(held: f64) -> Lab {
        let lab = Lab::healthy().per_second("lb", &ERROR_LOG_NO_WORKER_CONNECTIONS, "", 1.0);
        Lab { n: [128.0, 128.0, 256.0], ..lab.gauge("lb", &CONN_IN, "80", held) }
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(50.0)) - 78.0 / 128.0).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        let value = |lab: &Lab| finding(CAUSE.id, "lb", lab).unwrap().remedies[0].knob.as_ref().unwrap().value.clone();
        assert_eq!(value(&lab(50.0)), "1024");
        let short = lab(50.0).gauge("lb", &PROC_DESCRIPTOR_LIMIT, "4711", 124.0);
        assert_eq!(value(&short), "124", "no more than a worker has descriptors for");
        let border = lab(50.0).per_second("lb", &ERROR_LOG_NO_WORKER_CONNECTIONS, "", 0.1);
        assert_eq!(score(CAUSE.id, "lb", &border), 0.0);
    }

    #[test]
    fn a_server_that_is_taken_for_dead_is_hardly_tried() {
        // Seen: a line in 10 s, and none in the trial of the workload as written.
        let lines = [0.2, 0.0, 0.0];
        let hardly_tried = |lab: Lab| {
            let lab = lab.per_second("s1", &TCP_IN_SEGMENTS, "", 0.6).per_second("s2", &TCP_IN_SEGMENTS, "", 0.6);
            lab.levels("s1", &ERROR_LOG_NO_WORKER_CONNECTIONS, "", lines)
        };
        assert!((score(CAUSE.id, "s1", &hardly_tried(Lab::healthy().refusing(0.9))) - 0.9).abs() < 0.01);
        assert_eq!(score(CAUSE.id, "s1", &hardly_tried(Lab::healthy())), 0.0, "its proxy refuses nothing");
        let tried = Lab::healthy().refusing(0.9).levels("s1", &ERROR_LOG_NO_WORKER_CONNECTIONS, "", lines);
        assert_eq!(score(CAUSE.id, "s1", &tried), 0.0, "its proxy tries it");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn fewer_held_never_score_less(a in 0.0f64..128.0, b in 0.0f64..128.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.max(b))) <= score(CAUSE.id, "lb", &lab(a.min(b))));
        }
    }
}
