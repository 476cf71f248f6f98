//! # Ephemeral ports exhausted
//!
//! A host that opens connections has no local port left: its old connections hold them in TIME_WAIT for a minute.
//!
//! ## What it sees
//! Error-log lines `Cannot assign requested address`; sockets in TIME_WAIT near the size of the port range times
//! the number of servers; a CPU profile.
//!
//! ## Why it limits
//! connect() fails at once, the request is answered with an error; or, before that, it searches long for a free port: the
//! kernel tries one half of the range first, and from half full on each connection looks through all of it in vain. With 14,200
//! of 28,232 ports in TIME_WAIT an nginx took 1.4 ms of kernel time per connection instead of 0.1 (measured, Linux 6.18).
//! CPUs may be idle, or busy with errors: a proxy that takes its servers for dead no longer tries to connect.
//!
//! ## Evidence
//! Failed connects per request that the hop completes; without an error log, fill of the port range together with the
//! failed requests or idle CPUs. Before any fails: the share of its CPU samples in the kernel's search for a port.
//!
//! ## What it is not
//! Many sockets in TIME_WAIT on the side that closes and does not open: the range is not used there. Connects that are
//! refused or time out. Servers that fail: a proxy drops the connection of each try that failed, and opens one for the next; that is
//! `retry-storm` or `bad-upstream`.
//!
//! ## Fix
//! Keep connections open (see `upstream-keepalive-off`); then knob `sysctl.net.ipv4.ip_local_port_range`; more
//! addresses.
//!
//! ## References
//! ip(7) `ip_local_port_range`; Linux `__inet_hash_connect`.

use super::upstream_keepalive_off::{failed_tries, keeping};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, knob, predicted_gain, room_until_full,
    ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::profile::Profile;
use prony_model::metric::{ERROR_LOG_NO_PORT, PORT_RANGE, SOCK_TIME_WAIT, TCP_ACTIVE_OPENS};
use prony_model::stack::Software;
use prony_model::{Gap, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "ephemeral-ports-exhausted",
    layer: Layer::Connections,
    title: "ephemeral ports exhausted",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("ephemeral_ports_exhausted.rs"),
};

/// Failed connects per request from which it matters. A guess: one in a thousand is the usual error budget.
const FAILS_PER_REQUEST: f64 = 0.001;
/// Share of (range x servers) in TIME_WAIT from which ports count as used up. A guess.
const FILL: f64 = 0.9;
/// A host that keeps its connections cannot use up its ports. Cited: catalogue row 4.
const OPENS_PER_REQUEST: f64 = 0.05;

/// Share of failed requests from which a full range of ports is no coincidence. A guess: a hundred times the usual budget.
const FAILED_SHARE: f64 = 0.1;

/// Tries per request that fail, from which they are what opens connections. A guess: from there on `retry-storm` speaks of them.
const FAILED_TRIES: f64 = 0.2;
/// Of the connections opened, those that no failure explains, from which they use ports by themselves. A guess.
const BY_ITSELF: f64 = 0.3;
/// Share of the limit that the search for a free port takes, from which it matters. A guess: a proxy whose range is hardly used
/// shows nothing of it.
const SEARCH_MIN: f64 = 0.05;
/// Where the kernel searches.
const SEARCH: &[&str] = &["__inet_hash_connect"];

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let servers = hop.host().map_or(0, |h| h.calls.len());
    if servers == 0 {
        return does_not_apply(hop, "opens no connections: calls no other host");
    }
    let fails = hop.per_request(&ERROR_LOG_NO_PORT);
    let fill = hop.fact("sock.time_wait / (port.range x servers)", "share", |r| {
        Ok(r.max(&SOCK_TIME_WAIT)? / (r.sum(&PORT_RANGE)?.max(1.0) * servers as f64))
    });
    let none_fails = !fails.as_ref().is_ok_and(|fails| fails.value >= FAILS_PER_REQUEST);
    if let Some(opens) = opened_by_failures(hop).filter(|_| none_fails) {
        let claim = "connections are opened because answers failed on those before: that is what uses ports";
        return ruled_out(&opens, FAILED_TRIES, "guess", claim);
    }
    let (finding, gain) = match searching(hop).filter(|_| none_fails) {
        Some(found) => {
            let gain = predicted_gain(hop, found.score);
            (found.and(fill, "ports held in TIME_WAIT"), gain)
        }
        None => match used_up(hop, fails, fill)? {
            Ok(found) => (found, room_until_full(hop)),
            Err(silent) => return Ok(silent),
        },
    };
    let wider = knob(hop, KnobId::Sysctl("net.ipv4.ip_local_port_range".to_string()), "1024 65535");
    let finding = finding.and(hop.per_request(&TCP_ACTIVE_OPENS), "connections opened per request");
    // A wider range is used up as well, only later; that can be done at any host.
    let finding = match hop.host().and_then(|h| h.software) {
        Some(Software::Nginx) => finding.mend("keep connections to the servers open", keeping(hop)?),
        Some(_) | None => finding,
    };
    finding.mend("widen the range of local ports", wider).gaining(gain).tested_by(Dose::RemovalByAll).fires()
}

/// Connections that it opens per request, where nearly each stands for one that an answer failed on.
fn opened_by_failures(hop: &Hop<'_>) -> Option<Fact> {
    let failed = failed_tries(hop);
    let opens = hop.per_request(&TCP_ACTIVE_OPENS).ok()?;
    (failed >= FAILED_TRIES && opens.value - failed < BY_ITSELF * opens.value).then_some(opens)
}

/// Connections still open, but each looks long for a port; none where that takes little.
fn searching(hop: &Hop<'_>) -> Option<Finding> {
    let profile = Profile::of(hop).ok()?;
    let part = profile.share_below(SEARCH);
    let share = profile.limit_share(part).ok().filter(|share| *share >= SEARCH_MIN)?;
    let claim =
        format!("{} spends {:.0} % of its CPU time on the search for a free local port", hop.name, part * 100.0);
    let finding =
        Finding::new(profile.fact("the search for a free local port", part), SEARCH_MIN, "guess", &claim, share);
    // What waits in TIME_WAIT outlasts the levels; the work is of each.
    Some(finding.rising(profile.cpus("the search for a free local port", part)))
}

/// Ports are used up; or what rules that out.
fn used_up(
    hop: &Hop<'_>,
    fails: Result<Fact, Gap>,
    fill: Result<Fact, Gap>,
) -> Result<Result<Finding, Judgement>, Gap> {
    let result = &hop.at(Level::At)?.trial.result;
    let silent = |fact: &Fact, border, origin, claim| ruled_out(fact, border, origin, claim).map(Err);
    Ok(Ok(match (fails, fill) {
        (Ok(fails), fill) if fails.value >= FAILS_PER_REQUEST => {
            let share = fails.value.min(1.0).max(result.error_share());
            let claim = format!("{} fails to connect for want of a local port", hop.name);
            Finding::new(fails, FAILS_PER_REQUEST, "guess", &claim, share).and(fill, "ports held in TIME_WAIT")
        }
        (Ok(fails), Ok(fill)) if fill.value < FILL => {
            return silent(&fails, FAILS_PER_REQUEST, "guess", "no connect fails for want of a port");
        }
        (Err(gap), Err(_)) => return Err(gap),
        (Ok(fails), Err(_)) => {
            return silent(&fails, FAILS_PER_REQUEST, "guess", "no connect fails for want of a port");
        }
        (_, Ok(fill)) => {
            let opens = hop.per_request(&TCP_ACTIVE_OPENS)?;
            if fill.value < FILL {
                return silent(&fill, FILL, "guess", "most local ports are free");
            }
            // With no port left nothing is opened either: then the requests fail.
            if opens.value < OPENS_PER_REQUEST && result.error_share() < FAILED_SHARE {
                return silent(&opens, OPENS_PER_REQUEST, "cited: catalogue row 4", "hardly any port is asked for");
            }
            let idle = 1.0 - hop.at(Level::At)?.cpu()?.busy_share();
            let claim = format!("nearly all local ports of {} are held in TIME_WAIT", hop.name);
            Finding::new(fill, FILL, "guess", &claim, idle.max(result.error_share()))
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{LOOK_UPSTREAM_FAILURES, LOOK_UPSTREAM_TRIES};
    use proptest::prelude::*;

    /// 1000 ports, two servers, 890 good requests/s of 9,000 completed.
    fn lab(fails_per_s: f64) -> Lab {
        Lab::healthy()
            .throughput(9_000.0)
            .cpu("0", 0.2, 0.2, 0.1)
            .gauge("lb", &PORT_RANGE, "", 1_000.0)
            .gauge("lb", &SOCK_TIME_WAIT, "", if fails_per_s > 0.0 { 2_000.0 } else { 100.0 })
            .per_second("lb", &TCP_ACTIVE_OPENS, "", 637.0)
            .per_second("lb", &ERROR_LOG_NO_PORT, "", fails_per_s)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(8_100.0)) - 0.9).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.0)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        // The proxy took its servers for dead: it answers errors, and asks for no port any more.
        let given_up = lab(0.0).cpu("0", 0.4, 0.5, 0.1).per_second("lb", &TCP_ACTIVE_OPENS, "", 1.0).failing(1.0);
        let given_up = given_up.gauge("lb", &SOCK_TIME_WAIT, "", 2_000.0);
        assert!((score(CAUSE.id, "lb", &given_up) - 1.0).abs() < 1e-6);
        assert!(score("cpu-saturated-kernel", "lb", &given_up) < 1e-6, "its CPU serves no good request");
        let held_by_closing = Lab::healthy().gauge("lb", &SOCK_TIME_WAIT, "", 60_000.0);
        assert_eq!(score(CAUSE.id, "lb", &held_by_closing), 0.0, "no connection is opened");
        let remedies = finding(CAUSE.id, "lb", &lab(8_100.0)).unwrap().remedies;
        let knobs: Vec<String> = remedies.into_iter().map(|r| r.knob.unwrap().id.to_string()).collect();
        assert_eq!(knobs, ["nginx.upstream_keepalive", "sysctl.net.ipv4.ip_local_port_range"]);
    }

    #[test]
    fn a_long_search_comes_before_the_first_failure() {
        let lab = |share: f64| {
            let profile: &[(&str, &str, f64)] =
                &[("__inet_hash_connect", "kernel", share), ("[nginx]", "nginx", 1.0 - share)];
            Lab::healthy().profiled("lb", profile).gauge("lb", &SOCK_TIME_WAIT, "", 14_200.0)
        };
        let found = finding(CAUSE.id, "lb", &lab(0.4)).unwrap();
        assert!(found.score > 0.35 && found.summary.contains("40 % of its CPU time on the search"), "{found:?}");
        assert!(found.gain.unwrap() > 0.5, "the search is freed: {:?}", found.gain);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.04)), 0.0, "border");
        assert!(score(CAUSE.id, "lb", &lab(0.06)) > 0.0, "border");
        let fails = lab(0.4).per_second("lb", &ERROR_LOG_NO_PORT, "", 8_100.0);
        assert!(finding(CAUSE.id, "lb", &fails).unwrap().summary.contains("fails to connect"), "what fails is worse");
    }

    #[test]
    fn ports_that_failures_use_are_not_to_blame() {
        let lab = |tries: f64, failing: f64| {
            let profile: &[(&str, &str, f64)] = &[("__inet_hash_connect", "kernel", 0.6), ("[nginx]", "nginx", 0.4)];
            let lab = Lab::healthy().profiled("lb", profile).per_second("lb", &TCP_ACTIVE_OPENS, "", 15_300.0);
            lab.gauge("lb", &LOOK_UPSTREAM_TRIES, "10.77.0.11:80", tries).gauge(
                "lb",
                &LOOK_UPSTREAM_FAILURES,
                "10.77.0.11:80",
                failing,
            )
        };
        assert_eq!(score(CAUSE.id, "lb", &lab(2.0, 0.5)), 0.0, "a connection for each failure");
        assert!(score(CAUSE.id, "lb", &lab(2.0, 0.0)) > 0.5);
        assert_eq!(score(CAUSE.id, "lb", &lab(2.0, 0.36)), 0.0, "border: 0.72 of one connection");
        assert!(score(CAUSE.id, "lb", &lab(2.0, 0.34)) > 0.5, "border: 0.68 of it");
        assert!(
            score(CAUSE.id, "lb", &lab(1.0, 0.19).per_second("lb", &TCP_ACTIVE_OPENS, "", 3_000.0)) > 0.5,
            "border: few fail"
        );
        let fails = lab(2.0, 0.5).per_second("lb", &ERROR_LOG_NO_PORT, "", 8_100.0);
        assert!(score(CAUSE.id, "lb", &fails) > 0.0, "these fail for want of a port");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 10.0f64..9_000.0, b in 10.0f64..9_000.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
