//! A queue on the way between hosts that no host shows: at the port of a switch, in a shaper of the provider, at a slow router.
//!
//! It is seen by times alone: what the look timed at the sockets of both ends, and the round trips of the kernel. Invariant: where a CPU is
//! full nothing is said, for then packets wait for that.

use crate::cause::{FLAT, concurrency_elasticity, cpu_is_full, hosts_of};
use crate::facts::Hop;
use prony_model::metric::{CONN_MIN_RTT, CONN_OUT_RTT, SPLIT_REQUESTS, SPLIT_RESIDENCE_P50, SPLIT_UPSTREAM_P50};
use prony_model::{Level, Trial};

/// Half of the questions must be on their way for so long. A guess: far above what any host takes to pass a packet on.
pub const WAIT_MIN_MS: f64 = 1.0;
/// Round trips are queued from so many times the shortest of them on. A guess.
const GROWN: f64 = 10.0;
/// Share of the wait that the kernel's round trips must show as well: a host that reads late makes no round trip longer. A guess.
const SEEN_BY_TCP: f64 = 0.5;

/// Share of the requests in flight that must be on the way: a link that is the limit has most of them. A guess: before a port of 80 Mbit/s
/// it was 0.9, at a host whose CPU others share 0.04.
const SHARE_MIN: f64 = 0.3;

/// A wait on the links of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// Median time that a question and its answer are on the way, in milliseconds.
    pub median_ms: f64,
    /// Round trip of the kernel there under load, in milliseconds.
    pub round_trip_ms: f64,
    /// The shortest round trip there, in milliseconds.
    pub shortest_ms: f64,
    /// Share of the requests in flight that are on the way.
    pub share: f64,
}

/// The wait on the links of a host whose throughput does not grow with connections: before it, and before all that it calls if it calls
/// several. What all siblings wait for alike is of the host that calls them.
pub fn at(hop: &Hop<'_>) -> Option<Wait> {
    let grows = Hop::path(hop.run).first().and_then(concurrency_elasticity)? >= FLAT;
    if grows || hosts_of(hop).any(|host| cpu_is_full(&host).unwrap_or(true)) {
        return None;
    }
    let all_of =
        |hops: Vec<Hop<'_>>| hops.iter().map(before).collect::<Option<Vec<Wait>>>().filter(|all| all.len() > 1);
    let own = before(hop).filter(|_| all_of(hop.siblings()).is_none());
    let waits = all_of(hop.callees()).unwrap_or_default().into_iter().chain(own);
    let all = waits.reduce(|a, b| {
        let longer = if a.median_ms >= b.median_ms { a } else { b };
        Wait { share: (a.share + b.share).min(1.0), ..longer }
    });
    all.filter(|wait| wait.share >= SHARE_MIN)
}

/// The wait between a host and who calls it.
fn before(hop: &Hop<'_>) -> Option<Wait> {
    let here = |item: &&str| hop.look(&SPLIT_REQUESTS, item).unwrap_or(0.0);
    let port = hop.items(&SPLIT_RESIDENCE_P50).into_iter().max_by(|a, b| here(a).total_cmp(&here(b)))?;
    let residence_us = hop.look(&SPLIT_RESIDENCE_P50, port).ok()?;
    let share = hop.on_the_way()?;
    let callers = hop.run.stack.callers(hop.name).into_iter().map(|caller| hop.other(caller));
    let asked = |caller: Hop<'_>| {
        let peer = caller.items(&SPLIT_UPSTREAM_P50).into_iter().find(|peer| hop.is_at(peer))?;
        waited(&caller, peer, caller.look(&SPLIT_UPSTREAM_P50, peer).ok()? - residence_us)
    };
    // A generator at its end reads late, and stopped amid its work it acknowledges late.
    let keeps_up = |trial: &&Trial| !trial.result.generator_limited();
    let by_clients = || {
        hop.run.level(Level::At).filter(keeps_up)?;
        let clients = Hop::generator(hop.run).filter(|_| hop.is_entry())?;
        let peer = clients.items(&CONN_OUT_RTT).into_iter().find(|peer| hop.is_at(peer))?;
        waited(&clients, peer, hop.inspect()?.result.latency.p50_us - residence_us)
    };
    let longest = callers.filter_map(asked).max_by(|a, b| a.median_ms.total_cmp(&b.median_ms));
    longest.or_else(by_clients).map(|wait| Wait { share, ..wait })
}

/// The wait between `caller` and `peer`, if it is one and TCP saw it too.
fn waited(caller: &Hop<'_>, peer: &str, wait_us: f64) -> Option<Wait> {
    let at = caller.at(Level::At).ok()?;
    let (round_trip, shortest) = (at.one(&CONN_OUT_RTT, peer).ok()?, at.one(&CONN_MIN_RTT, peer).ok()?);
    let wait =
        Wait { median_ms: wait_us / 1e3, round_trip_ms: round_trip / 1e3, shortest_ms: shortest / 1e3, share: 0.0 };
    let is_queued = round_trip >= GROWN * shortest && round_trip >= SEEN_BY_TCP * wait_us;
    Some(wait).filter(|wait| wait.median_ms >= WAIT_MIN_MS && is_queued)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::Lab;
    use prony_model::metric::{SPLIT_CALLS, SPLIT_CALLS_TIMED, SPLIT_RESIDENCE, SPLIT_TIMED, SPLIT_UPSTREAM};

    /// A port of 80 Mbit/s towards lb: both servers' answers of 20 KB queue there, and the requests of clients. Idle CPUs.
    pub(crate) fn lab(queued: [f64; 2]) -> Lab {
        let mut lab =
            Lab { x: [240.0, 460.0, 454.0], ..Lab::healthy().cpu("0", 0.03, 0.07, 0.1).cpu("1", 0.05, 0.1, 0.1) };
        lab = lab
            .gauge("lb", &SPLIT_REQUESTS, "80", 460.0)
            .gauge("lb", &SPLIT_TIMED, "80", 1.0)
            .gauge("lb", &SPLIT_RESIDENCE, "80", 40_000.0)
            .gauge("lb", &SPLIT_RESIDENCE_P50, "80", 40_000.0);
        for (server, peer, wait_us) in [("s1", "10.77.0.11:80", queued[0]), ("s2", "10.77.0.12:80", queued[1])] {
            lab = lab
                .gauge("lb", &SPLIT_CALLS, peer, 230.0)
                .gauge("lb", &SPLIT_CALLS_TIMED, peer, 1.0)
                .gauge("lb", &SPLIT_UPSTREAM, peer, wait_us + 200.0)
                .gauge("lb", &SPLIT_UPSTREAM_P50, peer, wait_us + 130.0)
                .gauge("lb", &CONN_OUT_RTT, peer, wait_us.max(50.0))
                .gauge("lb", &CONN_MIN_RTT, peer, 16.0)
                .gauge(server, &SPLIT_REQUESTS, "80", 230.0)
                .gauge(server, &SPLIT_TIMED, "80", 1.0)
                .gauge(server, &SPLIT_RESIDENCE, "80", 200.0)
                .gauge(server, &SPLIT_RESIDENCE_P50, "80", 130.0);
        }
        lab
    }

    fn wait(lab: &Lab, host: &str) -> Option<f64> {
        let run = lab.run();
        at(&Hop { run: &run, name: host }).map(|wait| wait.median_ms)
    }

    #[test]
    fn what_all_servers_wait_for_is_of_the_host_that_calls_them() {
        let both = lab([37_000.0, 36_000.0]);
        assert_eq!((wait(&both, "lb"), wait(&both, "s1"), wait(&both, "s2")), (Some(37.0), None, None));
        let one = lab([37_000.0, 40.0]);
        assert_eq!((wait(&one, "lb"), wait(&one, "s1"), wait(&one, "s2")), (None, Some(37.0), None));
        assert_eq!(wait(&lab([40.0, 40.0]), "lb"), None);
    }

    #[test]
    fn a_link_that_few_requests_wait_for_is_no_limit() {
        let few = |queued, per_s: f64| {
            let lab =
                lab(queued).without("lb", &SPLIT_CALLS).without("s1", &SPLIT_REQUESTS).without("s2", &SPLIT_REQUESTS);
            [("s1", "10.77.0.11:80"), ("s2", "10.77.0.12:80")].into_iter().fold(lab, |lab, (server, peer)| {
                lab.gauge("lb", &SPLIT_CALLS, peer, per_s).gauge(server, &SPLIT_REQUESTS, "80", per_s)
            })
        };
        assert_eq!(wait(&few([7_000.0, 7_000.0], 10.0), "lb"), None);
        assert_eq!(wait(&few([7_000.0, 7_000.0], 100.0), "lb"), Some(7.0));
    }

    #[test]
    fn a_full_cpu_or_throughput_that_grows_leaves_it_open() {
        let both = || lab([37_000.0, 36_000.0]);
        assert_eq!(wait(&both().cpu("0", 0.3, 0.4, 0.25), "lb"), None);
        assert_eq!(wait(&Lab { x: [240.0, 460.0, 700.0], ..both() }, "lb"), None);
    }

    #[test]
    fn a_host_that_reads_late_makes_no_round_trip_longer() {
        let late = lab([37_000.0, 36_000.0]).gauge("lb", &CONN_OUT_RTT, "10.77.0.11:80", 90.0);
        assert_eq!(wait(&late, "lb"), None);
        let far = lab([37_000.0, 36_000.0]).gauge("lb", &CONN_MIN_RTT, "10.77.0.12:80", 36_000.0);
        assert_eq!(wait(&far, "lb"), None, "a long way is no queue");
    }
}
