//! # Bad upstream
//!
//! A server cannot be reached, or one of several behind a proxy fails, or is far slower than its siblings.
//!
//! ## What it sees
//! For each server: how often the proxy tried it and how often that failed (access log with `$upstream_addr`, HAProxy's
//! counters), complaints of the error log that name it, and how long requests stay there; all beside its siblings. Connections on which
//! its proxy awaits an answer, where the error log tells that it gives up waiting. And
//! connects to it that wait for an answer (sockets of its callers in SYN_SENT) while no connection to it stands. And how
//! often nginx found no live upstream, with how much still comes through to the servers.
//!
//! ## Why it limits
//! The proxy goes on sending it a share of the requests: they fail, or wait, and in a closed loop they hold clients
//! back.
//!
//! ## Evidence
//! The share of the requests that fail there, or of the requests in flight that stay there.
//!
//! ## What it is not
//! Servers that are all alike and answer: then the cause is what they share. A full accept queue: it lets some in. A server
//! whose CPU is full, or that a quota stops. Loss of packets on its link.
//!
//! ## Fix
//! Take it out of the upstream, as prony tries where nginx is the proxy (knob `nginx.upstream_down`); health checks, `max_fails` and
//! `fail_timeout`; mend it.
//!
//! ## References
//! nginx `ngx_http_upstream_module`, directive `server`; HAProxy `option httpchk`.

use super::cpu_quota_throttled::{THROTTLED, stopped_by_quota};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, gain_of_share, gain_until_full,
    nginx_knob, removal_or, ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::logs::{error_log, with_uncounted};
use crate::sessions::dose_of_wait;
use prony_model::metric::{
    CONN_CONNECTING, CONN_OUT, CONN_OUT_WAITING, ERROR_LOG_NO_LIVE_UPSTREAMS, ERROR_LOG_UPSTREAM,
    ERROR_LOG_UPSTREAM_TIMEOUT, HAPROXY_CONNECT_ERRORS, HAPROXY_FAILURES, HAPROXY_REQUESTS, HAPROXY_RESPONSE_ERRORS,
    LOOK_UPSTREAM_FAILURES, LOOK_UPSTREAM_TRIES, TCP_IN_SEGMENTS, TCP_PASSIVE_OPENS,
};
use prony_model::{Gap, Knob, KnobId, Level, Metric};

pub(super) const CAUSE: Cause = Cause {
    id: "bad-upstream",
    layer: Layer::Upstream,
    title: "bad upstream",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("bad_upstream.rs"),
};

/// Share of the tries at a server that fail, from which it is bad. A guess: above what a restart makes.
const FAILS: f64 = 0.02;
/// How much worse than the mean of its siblings. A guess.
const WORSE: f64 = 4.0;
/// Wait per request, in milliseconds, below which the sockets cannot tell. See `slow_upstream`.
const WAIT_MS: f64 = 3.0;
/// Share of the requests below which it does not matter. A guess.
const SHARE_MIN: f64 = 0.02;
/// The same for requests that wait. A guess.
const WAIT_SHARE_MIN: f64 = 0.1;
/// Connections to a server, from which it lets somebody in. A guess: half of one.
const STANDING: f64 = 0.5;
/// Seconds to connect, from which nobody is let in. A guess: a SYN that finds a full queue is sent again after 1 s and 3 s (RFC 6298).
const CONNECT_S: f64 = 4.0;

/// Where its proxy is no nginx, or is not known to reach it.
const NO_KNOB: Dose = Dose::Untestable("prony has no knob that takes a server from this proxy");

/// Longest wait for an answer before a proxy gives up, in seconds. Cited: nginx `proxy_read_timeout` is 60 s by default; a quarter more.
const PATIENCE_S: f64 = 75.0;

/// Segments that reach a server per request of its caller, below which it is taken for dead: nginx tries a failed server once
/// in `fail_timeout`. A guess.
const COMES_THROUGH: f64 = 0.005;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let siblings: Vec<Hop<'_>> = hop.siblings().into_iter().filter(|h| h.name != hop.name).collect();
    let callers = hop.run.stack.callers(hop.name);
    let Some(caller) = callers.first().map(|name| hop.other(name)) else {
        return does_not_apply(hop, "is not called by another host");
    };
    if let Some(finding) = is_out_of_reach(hop, &caller) {
        return finding.fires();
    }
    if siblings.is_empty() {
        return does_not_apply(hop, "has no sibling");
    }
    if let Some(finding) = given_up(hop, &caller) {
        return finding.fires();
    }
    if let Some(finding) = hangs(hop, &siblings, &caller) {
        return finding.fires();
    }
    if let Some(finding) = fails(hop, &siblings, &caller)? {
        return finding.fires();
    }
    slow(hop, &siblings, &caller)
}

/// The knob that takes it out of its proxy's upstream, by the address that the proxy uses; none where it is the only server.
fn taken_out(hop: &Hop<'_>, caller: &Hop<'_>) -> Option<Knob> {
    let seen = [&CONN_OUT, &CONN_CONNECTING, &LOOK_UPSTREAM_TRIES].into_iter().flat_map(|metric| caller.items(metric));
    let address = seen.into_iter().find(|item| hop.is_at(item)).filter(|_| hop.siblings().len() > 1)?;
    nginx_knob(caller, KnobId::NginxUpstreamDown, address)
}

/// Failures of each server per request of the caller, by the first source that knows both.
fn failures(server: &Hop<'_>, caller: &Hop<'_>) -> Option<(f64, f64, &'static str)> {
    let at = caller.at(Level::At).ok()?;
    let item = |metric: &Metric| caller.items(metric).into_iter().find(|item| server.is_at(item));
    if let Some(item) = item(&LOOK_UPSTREAM_TRIES) {
        let tries = caller.look(&LOOK_UPSTREAM_TRIES, item).ok()?;
        return Some((
            tries * caller.look(&LOOK_UPSTREAM_FAILURES, item).ok()?,
            tries,
            "tries in the access log that failed",
        ));
    }
    let named = |item: &&str| item.rsplit_once('/').is_some_and(|(_, name)| name == server.name);
    if let Some(item) = caller.items(&HAPROXY_REQUESTS).into_iter().find(named) {
        let rate = |metric| at.one(metric, item).unwrap_or(0.0) / at.throughput().unwrap_or(f64::INFINITY);
        let failed = rate(&HAPROXY_CONNECT_ERRORS) + rate(&HAPROXY_RESPONSE_ERRORS) + rate(&HAPROXY_FAILURES);
        return Some((failed, rate(&HAPROXY_REQUESTS), "failures that HAProxy counted"));
    }
    let complaints = item(&ERROR_LOG_UPSTREAM).map_or(Some(0.0), |item| at.one(&ERROR_LOG_UPSTREAM, item).ok())?;
    let any = !caller.items(&ERROR_LOG_UPSTREAM).is_empty();
    any.then(|| {
        Some((
            complaints / at.throughput().ok()?,
            at.of(server).requests().ok()? / at.throughput().ok()?,
            "complaints of the error log",
        ))
    })?
}

/// Its proxy takes it for dead, and all its siblings too: requests are refused without a try.
fn given_up(hop: &Hop<'_>, caller: &Hop<'_>) -> Option<Finding> {
    let refused = without_server(caller).ok().filter(|refused| refused.value >= FAILS)?;
    if !is_given_up(hop, caller) {
        return None;
    }
    let share = refused.value.min(1.0);
    let claim = format!(
        "{} takes {} and its siblings for dead: it refuses {:.0} % of the requests without a try",
        caller.name,
        hop.name,
        share * 100.0
    );
    Some(
        Finding::new(refused.clone(), FAILS, "guess", &claim, share)
            .and(hop.summary(&TCP_IN_SEGMENTS), "hardly anything comes through to it")
            .mend(
                "mend what it answers to the tries (its log, the proxy's error log); `max_fails`, `fail_timeout`",
                None,
            )
            .gaining(Some(gain_of_share(share, None)))
            .rising(Ok(refused))
            .tested_by(Dose::Untestable("its siblings are taken for dead as well: nobody would be left")),
    )
}

/// Requests for which an nginx found no server alive or free, per request.
///
/// # Errors
/// Its error log is not read.
pub(super) fn without_server(proxy: &Hop<'_>) -> Result<Fact, Gap> {
    let Some(path) = error_log(proxy) else {
        return Err(Gap::new(ERROR_LOG_NO_LIVE_UPSTREAMS.name, proxy.name, "the stack file names no error log"));
    };
    proxy.fact("no live upstreams / request", "", |r| {
        Ok(with_uncounted(r, path, r.sum(&ERROR_LOG_NO_LIVE_UPSTREAMS)?)? / r.requests()?)
    })
}

/// Whether a proxy that finds no live upstream takes this server and all its siblings for dead, and not only for full.
pub(super) fn is_given_up(server: &Hop<'_>, caller: &Hop<'_>) -> bool {
    server.siblings().iter().all(|server| is_shut_out(server, caller))
}

/// Hardly anything comes through to it, or what is tried there fails.
fn is_shut_out(server: &Hop<'_>, caller: &Hop<'_>) -> bool {
    let Ok(at) = caller.at(Level::At) else { return false };
    // Segments, because requests of a server without a status page are the caller's, shared out by segments.
    let segments = at.of(server).sum(&TCP_IN_SEGMENTS).unwrap_or(f64::INFINITY);
    let comes_through = segments / at.requests().unwrap_or(f64::INFINITY);
    let fails = failures(server, caller).is_some_and(|(failed, tried, _)| tried > 0.0 && failed >= tried / 2.0);
    comes_through < COMES_THROUGH || fails
}

fn fails(hop: &Hop<'_>, siblings: &[Hop<'_>], caller: &Hop<'_>) -> Result<Option<Finding>, Gap> {
    let Some((failed, tried, what)) = failures(hop, caller) else { return Ok(None) };
    let share_failed = if tried > 0.0 { (failed / tried).min(1.0) } else { 0.0 };
    let others = siblings
        .iter()
        .filter_map(|s| failures(s, caller))
        .map(|(failed, tried, _)| failed / tried.max(f64::MIN_POSITIVE));
    let (sum, count) = others.fold((0.0, 0.0), |(sum, count), share| (sum + share.min(1.0), count + 1.0));
    if count < 0.5 || share_failed < FAILS || share_failed < WORSE * sum / count || failed < SHARE_MIN {
        return Ok(None);
    }
    let key = Fact::across_levels(hop, "share of the tries at it that fail", share_failed);
    let claim = format!(
        "{:.0} % of what {} sends to {} fails, and hardly any at its siblings",
        share_failed * 100.0,
        caller.name,
        hop.name
    );
    let share = failed.min(1.0);
    let siblings_fact = Fact::across_levels(hop, "the same at its siblings, mean", sum / count);
    let taken_out = taken_out(hop, caller);
    Ok(Some(
        Finding::new(key, FAILS, "guess", &claim, share)
            .and(Ok(siblings_fact), "its siblings are well")
            .and(Ok(Fact::across_levels(hop, what, failed)), "failures per request of the clients")
            .tested_by(removal_or(taken_out.as_ref(), NO_KNOB))
            .mend("take it out of the upstream until it is mended; health checks and max_fails", taken_out)
            .gaining(Some(gain_of_share(share, None)))
            .rising(hop.fact("requests that reach it", "/s", |r| r.requests())),
    ))
}

/// Connects to it wait for an answer, and no connection to it stands.
fn is_out_of_reach(hop: &Hop<'_>, caller: &Hop<'_>) -> Option<Finding> {
    let connecting = caller.fact("connects without an answer", "", |r| r.towards(&CONN_CONNECTING, hop)).ok()?;
    let at = caller.at(Level::At).ok()?;
    let in_flight = at.in_flight().ok()?;
    let share = (connecting.value / in_flight).min(1.0);
    let stands = at.towards(&CONN_OUT, hop).is_ok_and(|standing| standing >= STANDING);
    // Little's law: so many connect at a time, so many get through per second. Short connections hardly stand at all.
    let accepted_per_s = at.of(hop).sum(&TCP_PASSIVE_OPENS).unwrap_or(0.0);
    if share < WAIT_SHARE_MIN || stands || connecting.value < accepted_per_s * CONNECT_S {
        return None;
    }
    let claim = format!(
        "{} does not answer: {:.0} connects of {} wait for it, and no connection stands",
        hop.name, connecting.value, caller.name
    );
    let taken_out = taken_out(hop, caller);
    Some(
        Finding::new(connecting, WAIT_SHARE_MIN * in_flight, "guess", &claim, share)
            .and(caller.fact("connections that stand", "", |r| r.towards(&CONN_OUT, hop)), "nobody gets through")
            .tested_by(removal_or(taken_out.as_ref(), NO_KNOB))
            .mend("bring it back, or take it out of the upstream; a shorter connect timeout, health checks", taken_out)
            .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap)))),
    )
}

/// Its proxy waits for it until the timeout, and not for its siblings: few tries may hold most requests in flight, and what does answer is
/// quick.
fn hangs(hop: &Hop<'_>, siblings: &[Hop<'_>], caller: &Hop<'_>) -> Option<Finding> {
    let at = caller.at(Level::At).ok()?;
    let (in_flight, waiting) = (at.in_flight().ok()?, at.towards(&CONN_OUT_WAITING, hop).ok()?);
    let timeouts = caller.summary(&ERROR_LOG_UPSTREAM_TIMEOUT).ok()?;
    let at_siblings = siblings.iter().filter_map(|s| at.towards(&CONN_OUT_WAITING, s).ok()).fold(0.0, f64::max);
    let share = ((waiting - at_siblings) / in_flight).min(1.0);
    // Little's law: so many wait at a time, so many give up per second.
    if share < WAIT_SHARE_MIN || waiting < WORSE * at_siblings || timeouts.value < waiting / PATIENCE_S {
        return None;
    }
    let claim = format!(
        "{waiting:.0} of {in_flight:.0} requests in flight wait for an answer of {} until {} gives up, and {at_siblings:.0} for one of a sibling",
        hop.name, caller.name
    );
    let awaited = |of: &Hop<'_>| {
        caller.fact(format!("await an answer of {} / in flight", of.name), "share", |r| {
            Ok(r.towards(&CONN_OUT_WAITING, of)? / r.in_flight()?)
        })
    };
    let mut finding = Finding::new(awaited(hop).ok()?, WAIT_SHARE_MIN, "guess", &claim, share)
        .and(Ok(timeouts), "how often its proxy gives up, per second");
    for sibling in siblings {
        finding = finding.and(awaited(sibling), "its siblings answer");
    }
    Some(
        finding
            .mend(
                "take it out of the upstream until it is mended; a shorter read timeout, health checks, max_fails",
                taken_out(hop, caller),
            )
            .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
            .rising(caller.fact("await its answer", "", |r| r.towards(&CONN_OUT_WAITING, hop)))
            .tested_by(dose_of_wait(hop)),
    )
}

fn slow(hop: &Hop<'_>, siblings: &[Hop<'_>], caller: &Hop<'_>) -> Result<Judgement, Gap> {
    let wait = |h: &Hop<'_>| h.fact("own wait per request", "ms", |r| Ok(r.staying()? / r.requests()? * 1e3));
    let own = wait(hop)?;
    let others: Vec<f64> = siblings.iter().filter_map(|s| wait(s).ok()).map(|f| f.value).collect();
    let mean = others.iter().sum::<f64>() / others.len().max(1) as f64;
    let border = WAIT_MS.max(WORSE * mean);
    if others.is_empty() || own.value < border {
        return ruled_out(&own, border, "guess", "it fails and waits no more than its siblings");
    }
    if cpu_is_full(hop)? {
        let busy = hop.fact("busy share of the hop's CPUs", "share", |r| Ok(r.cpu()?.busy_share()))?;
        return ruled_out(
            &busy,
            crate::cause::FULL_CPU,
            crate::cause::FULL_CPU_ORIGIN,
            "it is slow because its CPUs are full",
        );
    }
    if let Some(throttled) = stopped_by_quota(hop) {
        return ruled_out(&throttled, THROTTLED, "guess", "it is slow because a quota stops it");
    }
    let at = hop.at(Level::At)?;
    let share = (at.staying()? / at.in_flight()?).min(1.0);
    if share < WAIT_SHARE_MIN {
        return ruled_out(&own, border, "guess", "few requests wait there");
    }
    let claim = format!("a request stays {:.1} ms at {}, and {mean:.1} ms at its siblings", own.value, hop.name);
    Finding::new(own, border, "guess", &claim, share)
        .and(
            Ok(Fact { unit: "ms", ..Fact::across_levels(hop, "the same at its siblings, mean", mean) }),
            "its siblings are quick",
        )
        .and(hop.fact("in flight at the hop", "", |r| r.staying()), "requests in flight at the hop itself")
        .mend(
            "take it out of the upstream until it is mended; send it less by weights or least connections",
            taken_out(hop, caller),
        )
        .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
        .rising(hop.fact("in flight at the hop", "", |r| r.staying()))
        .tested_by(dose_of_wait(hop))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::CONN_IN_BUSY;
    use proptest::prelude::*;

    /// s2 fails so often, by the proxy's access log.
    fn failing(share: f64) -> Lab {
        let lab = Lab::healthy().gauge("lb", &LOOK_UPSTREAM_TRIES, "10.77.0.11:80", 0.5);
        lab.gauge("lb", &LOOK_UPSTREAM_FAILURES, "10.77.0.11:80", 0.0)
            .gauge("lb", &LOOK_UPSTREAM_TRIES, "10.77.0.12:80", 0.5)
            .gauge("lb", &LOOK_UPSTREAM_FAILURES, "10.77.0.12:80", share)
    }

    /// So many requests stay at s2, on idle CPUs.
    fn waiting(busy: f64) -> Lab {
        let lab = Lab::healthy().throughput(1_500.0).cpu("0", 0.05, 0.05, 0.02).cpu("1", 0.05, 0.03, 0.02);
        let lab = lab.per_second("s1", &prony_model::metric::TCP_IN_SEGMENTS, "", 2_250.0);
        lab.per_second("s2", &prony_model::metric::TCP_IN_SEGMENTS, "", 2_250.0).gauge("s2", &CONN_IN_BUSY, "80", busy)
    }

    #[test]
    fn a_server_that_answers_no_connect_is_out_of_reach() {
        let lab = |connecting: f64, standing: f64| {
            let lab = waiting(0.0).gauge("lb", &CONN_CONNECTING, "10.77.0.12:80", connecting);
            lab.gauge("lb", &CONN_OUT, "10.77.0.12:80", standing)
        };
        let found = finding(CAUSE.id, "s2", &lab(48.0, 0.0)).unwrap();
        assert!((found.score - 0.75).abs() < 0.01 && found.summary.contains("48 connects"), "{found:#?}");
        assert_eq!(score(CAUSE.id, "s1", &lab(48.0, 0.0)), 0.0, "its sibling is well");
        assert_eq!(score(CAUSE.id, "s2", &lab(48.0, 3.0)), 0.0, "connections that were there before go on");
        let queue = lab(48.0, 0.1).per_second("s2", &TCP_PASSIVE_OPENS, "", 30.0);
        assert_eq!(score(CAUSE.id, "s2", &queue), 0.0, "a full queue lets some in");
        assert_eq!(score(CAUSE.id, "s2", &lab(6.0, 0.0)), 0.0, "border: a tenth of the requests in flight");
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "s2", &failing(1.0)) - 0.5).abs() < 1e-9);
        assert_eq!(score(CAUSE.id, "s1", &failing(1.0)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &failing(1.0)), 0.0);
        assert_eq!(score(CAUSE.id, "s2", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "s2", &failing(0.039)), 0.0, "border: 2 % of all requests");
        assert!(score(CAUSE.id, "s2", &failing(0.041)) > 0.0, "border");
        let both = failing(1.0).gauge("lb", &LOOK_UPSTREAM_FAILURES, "10.77.0.11:80", 0.9);
        assert_eq!(score(CAUSE.id, "s2", &both), 0.0, "both fail");
    }

    #[test]
    fn one_that_hangs_now_and_then_holds_the_requests_until_its_proxy_gives_up() {
        // One in twenty gets no answer within a second: 62 of 64 requests in flight wait for it, 3 % fail, the rest is quick.
        let lab = |s1: f64, s2: f64, timeouts: f64| {
            let lab = failing(0.068).throughput(2_560.0).cpu("0", 0.02, 0.05, 0.04).cpu("1", 0.05, 0.03, 0.02);
            let lab = lab.gauge("lb", &CONN_OUT_WAITING, "10.77.0.11:80", s1);
            let lab = lab.gauge("lb", &CONN_OUT_WAITING, "10.77.0.12:80", s2);
            lab.per_second("lb", &ERROR_LOG_UPSTREAM_TIMEOUT, "", timeouts)
        };
        let found = finding(CAUSE.id, "s2", &lab(0.2, 62.0, 64.0)).unwrap();
        assert!(found.score > 0.9 && found.summary.contains("62 of 64"), "{found:#?}");
        assert!(score(CAUSE.id, "s2", &lab(0.2, 62.0, 0.5)) < 0.1, "nobody gives up: it is only busy");
        assert!(score(CAUSE.id, "s2", &lab(20.0, 62.0, 64.0)) < 0.1, "its siblings hang as well");
        assert!(score(CAUSE.id, "s2", &lab(0.2, 6.0, 64.0)) < 0.1, "few wait");
    }

    #[test]
    fn one_that_is_sought_is_on_the_path_though_nothing_comes_to_it() {
        let silent = waiting(0.0).per_second("s2", &TCP_IN_SEGMENTS, "", 0.0);
        let structure = |connecting| {
            let lab = silent.clone().gauge("lb", &CONN_CONNECTING, "10.77.0.12:80", connecting);
            let found =
                finding(CAUSE.id, "s2", &lab.clone().gauge("lb", &CONN_CONNECTING, "10.77.0.12:80", 48.0)).unwrap();
            let run = lab.run();
            crate::grounding::tests(&Hop { run: &run, name: "s2" }, &found).remove(0)
        };
        assert!(structure(48.0).holds && structure(48.0).detail.contains("48 connects of lb"), "{:?}", structure(48.0));
        assert!(!structure(0.0).holds);
    }

    #[test]
    fn it_is_taken_out_where_nginx_sends_to_others_too() {
        let lab = failing(1.0).gauge("lb", &CONN_OUT, "10.77.0.12:80", 3.0);
        let found = finding(CAUSE.id, "s2", &lab).unwrap();
        let knob = found.remedies[0].knob.as_ref().unwrap();
        assert_eq!((knob.host.as_str(), knob.id.to_string()), ("lb", "nginx.upstream_down".to_string()));
        assert_eq!((knob.value.as_str(), &found.dose), ("10.77.0.12:80", &Dose::Removal));
        let out_of_reach = waiting(0.0).gauge("lb", &CONN_CONNECTING, "10.77.0.12:80", 48.0);
        let found = finding(CAUSE.id, "s2", &out_of_reach).unwrap();
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().value, "10.77.0.12:80");
        let mut haproxy = lab;
        haproxy.stack.host.get_mut("lb").unwrap().software = Some(prony_model::Software::Haproxy);
        assert_eq!(finding(CAUSE.id, "s2", &haproxy).unwrap().dose, NO_KNOB);
    }

    #[test]
    fn one_that_is_far_slower_is_bad() {
        let found = finding(CAUSE.id, "s2", &waiting(50.0)).unwrap();
        assert!((found.score - 50.0 / 64.0).abs() < 0.01, "{}", found.score);
        assert_eq!(score(CAUSE.id, "s1", &waiting(50.0)), 0.0);
        assert_eq!(score(CAUSE.id, "s2", &waiting(50.0).gauge("s1", &CONN_IN_BUSY, "80", 40.0)), 0.0, "both are slow");
        let stopped = waiting(50.0).per_second("s2", &prony_model::metric::CGROUP_THROTTLED_TIME, "", 0.3);
        assert_eq!(score(CAUSE.id, "s2", &stopped), 0.0, "a quota stops it");
    }

    #[test]
    fn complaints_of_the_error_log_name_it() {
        let lab = Lab::healthy().per_second("lb", &ERROR_LOG_UPSTREAM, "10.77.0.12:80", 3_000.0);
        assert!(score(CAUSE.id, "s2", &lab) > 0.15);
        assert_eq!(score(CAUSE.id, "s1", &lab), 0.0);
    }

    /// The proxy finds no live upstream for nine requests of ten; so many segments per second reach each server.
    fn refused(segments: f64) -> Lab {
        let lab = Lab::healthy().refusing(0.9).per_second("s1", &TCP_IN_SEGMENTS, "", segments);
        lab.per_second("s2", &TCP_IN_SEGMENTS, "", segments)
    }

    #[test]
    fn servers_that_are_all_taken_for_dead() {
        let found = finding(CAUSE.id, "s1", &refused(0.6)).unwrap();
        assert!((found.score - 0.9).abs() < 0.01 && found.summary.contains("for dead"), "{found:#?}");
        assert!(score(CAUSE.id, "s2", &refused(0.6)) > 0.8, "its sibling as well");
        assert_eq!(score(CAUSE.id, "lb", &refused(0.6)), 0.0);
        assert_eq!(score(CAUSE.id, "s1", &refused(2_400.0)), 0.0, "they are full, not dead");
        let one = refused(0.6).per_second("s2", &TCP_IN_SEGMENTS, "", 2_400.0);
        assert_eq!(score(CAUSE.id, "s1", &one), 0.0, "its sibling is full, not dead");
        let well = refused(0.6).per_second("lb", &ERROR_LOG_NO_LIVE_UPSTREAMS, "", 0.0);
        assert_eq!(score(CAUSE.id, "s1", &well), 0.0, "lines that tell of something else");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            prop_assert!(score(CAUSE.id, "s2", &failing(a.min(b))) <= score(CAUSE.id, "s2", &failing(a.max(b))) + 1e-9);
        }
    }
}
