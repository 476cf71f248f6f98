//! # Rate limited
//!
//! A configured limit holds requests back: limit_req, limit_conn, limit_rate, a quota of requests.
//!
//! ## What it sees
//! Lines of the error log that say that requests or connections are limited, or delayed, per request. And answers that say
//! 429 (too many requests), at the hop that gets these requests and does not pass them on; 503 (not available) as well, of an
//! application that nobody can have failed (it asks no database for them, and has connections to spare), while its CPUs have room. And answers that, at the rate
//! that the configuration allows each of them, may take long enough to be seen. Where the log is quiet (nginx logs delays at `warn`):
//! that as many requests pass as `limit_req_zone` allows, with more clients as well, while CPUs have room.
//!
//! ## Why it limits
//! Requests beyond the limit wait or are refused, whatever the CPUs could do.
//!
//! ## Evidence
//! Share of requests that are limited or delayed. For a limited rate: the time that an answer of that size may take at it, in
//! parts of the response time.
//!
//! ## What it is not
//! A server that is slow because it is busy: then no limiter speaks.
//!
//! ## Fix
//! Raise the limit if it is not meant; else it works as it should. To see what it holds back, prony has nginx count and not
//! apply it for a few trials (knobs `nginx.limit_req_dry_run`, `nginx.limit_conn_dry_run`); a limited rate it lifts (`nginx.limit_rate`).
//! nginx counts what it lets pass, and owes it afterwards: with a long burst it would hold everybody back for burst / rate. Then prony
//! leaves it alone, and asks with more connections, of which no limit lets more through.
//!
//! ## References
//! nginx: ngx_http_limit_req_module, ngx_http_limit_conn_module, ngx_http_core_module (limit_rate). RFC 6585, section 4: status 429;
//! RFC 9110, section 15.6.4: status 503. uvicorn, `--limit-concurrency`.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_of_share, nginx_knob, room_until_full,
    ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::logs::{error_log, with_uncounted};
use crate::sessions::{held, in_use_all_along, keeps_data, runs_code};
use prony_model::metric::{
    CONN_OUT_SENT, ERROR_LOG_DELAYING, ERROR_LOG_LIMITING, IF_TX_BYTES, SPLIT_CALLS, SPLIT_REQUESTS, TCP_PASSIVE_OPENS,
};
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "rate-limited",
    layer: Layer::Connections,
    title: "rate limited",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("rate_limited.rs"),
};

/// Limited requests per request from which it matters. A guess: one in a hundred.
const LIMITED: f64 = 0.01;

/// Part of the response time that the limited rate may take, from which it matters. A guess: one in ten.
const OF_RESPONSE: f64 = 0.1;
/// How near the throughput must be to a configured limit of requests. A guess: it lets through what it is set to, and a trial counts
/// with its ends.
const NEAR: f64 = 0.05;
/// How long nginx may hold requests back after a dry run, in seconds. A guess: no longer than a trial.
const OWED_S_MAX: f64 = 2.0;
/// Room that all CPUs must have before a limited rate is blamed. A guess: one in ten.
const ROOM: f64 = 0.1;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if let Some(finding) = held_to_rate(hop) {
        return finding.fires();
    }
    let logged = hop.fact("limited or delayed / request", "", |r| Ok(limited_per_s(r)? / r.requests()?));
    let told = logged.as_ref().map_or(0.0, |logged| logged.value);
    if told < LIMITED
        && let Some(finding) = held_to_requests(hop)
    {
        return tested(finding, hop).fires();
    }
    let limited = match refused_here(hop) {
        Some(refused) if logged.as_ref().is_ok_and(|logged| logged.value < refused.value) => refused,
        Some(refused) if logged.is_err() && refused.value >= LIMITED => refused,
        Some(_) | None => logged?,
    };
    if limited.value < LIMITED {
        return ruled_out(&limited, LIMITED, "guess", "no limiter holds requests back");
    }
    let failed = hop.at(Level::At)?.trial.result.error_share();
    let share = limited.value.min(1.0);
    // Refusals keep CPUs busy that would be free without them.
    let room = if failed < 0.5 { room_until_full(hop) } else { None };
    let claim = format!("a configured limit of {} holds back {:.0} % of the requests", hop.name, share * 100.0);
    let finding =
        Finding::new(limited, LIMITED, "guess", &claim, share)
            .and(hop.summary(&ERROR_LOG_LIMITING), "requests that it refuses, per second")
            .and(hop.summary(&ERROR_LOG_DELAYING), "requests that it delays, per second")
            .and(
                hop.fact("failed requests", "share", |r| Ok(r.trial.result.error_share())),
                "answers that clients count as failed",
            )
            .gaining(Some(gain_of_share(share.max(failed), room)))
            .rising(hop.fact("limited, delayed or refused", "/s", |r| {
                Ok(limited_per_s(r).unwrap_or(0.0).max(refused_per_s(r)))
            }));
    tested(finding, hop).fires()
}

/// How a limit of requests or connections is mended, and tested.
fn tested(finding: Finding, hop: &Hop<'_>) -> Finding {
    let dry_run = |of| nginx_knob(hop, KnobId::NginxDirective(of), "on");
    let owes_long = owed_s(hop).is_some_and(|owed_s| owed_s > OWED_S_MAX);
    let requests = dry_run(NginxDirective::LimitReqDryRun).filter(|_| !owes_long);
    let connections = dry_run(NginxDirective::LimitConnDryRun).filter(|_| !owes_long);
    finding
        .mend(
            "raise the limit (nginx: limit_req rate and burst, limit_conn; HAProxy: http-request deny; an application: how many \
             requests it takes at once) if it is not meant to hold at this load",
            requests,
        )
        .mend("the same of connections", connections.clone())
        .tested_by(match connections {
            Some(_) => Dose::RemovalByAll,
            // However many ask, no more are let through.
            None => Dose::Queue,
        })
}

/// A limit of requests of nginx: what it lets through, and what it holds back beyond that.
struct Limit {
    per_s: f64,
    burst: Option<f64>,
}

/// The limits of requests that nginx is configured with (nginx: ngx_http_limit_req_module, `rate` and `burst`).
fn limits(hop: &Hop<'_>) -> Vec<Limit> {
    let argument = |line: &str, name: &str| {
        line.split(' ').find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_string()))
    };
    let zones: Vec<&str> = hop.settings("nginx.config.limit_req_zone").collect();
    let per_s = |zone: &str| {
        let line =
            zones.iter().find(|line| argument(line, "zone").is_some_and(|z| z.split(':').next() == Some(zone)))?;
        let rate = argument(line, "rate")?;
        let (number, per_s) = match rate.strip_suffix("r/m") {
            Some(number) => (number, 60.0),
            None => (rate.strip_suffix("r/s")?, 1.0),
        };
        Some(number.parse::<f64>().ok()? / per_s)
    };
    let limits = hop.settings("nginx.config.limit_req").filter_map(|line| {
        let burst = argument(line, "burst").and_then(|burst| burst.parse::<f64>().ok());
        Some(Limit { per_s: per_s(&argument(line, "zone")?)?, burst })
    });
    limits.collect()
}

/// How long nginx would hold a request back when a burst of its limits of requests is full, in seconds: the longest of them (without
/// a burst it refuses, and owes nothing).
fn owed_s(hop: &Hop<'_>) -> Option<f64> {
    limits(hop).into_iter().filter_map(|limit| Some(limit.burst? / limit.per_s)).reduce(f64::max)
}

/// As many requests pass as a configured limit lets through, more clients bring no more, and no CPU on the path is full: nginx logs
/// what it delays at `warn`, and by default its log is at `error`.
fn held_to_requests(hop: &Hop<'_>) -> Option<Finding> {
    let passed = [Level::At, Level::Beyond].map(|level| hop.at(level).and_then(|r| r.requests()).unwrap_or(0.0));
    let is_met = |limit: &Limit| passed.iter().all(|passed_per_s| (passed_per_s / limit.per_s - 1.0).abs() < NEAR);
    let limit = limits(hop).into_iter().find(|limit| limit.burst.is_some() && is_met(limit))?;
    let room = room_until_full(hop).filter(|room| *room >= ROOM)?;
    let filled = hop.fact("requests / rate of limit_req_zone", "", |r| Ok(r.requests()? / limit.per_s)).ok()?;
    let claim = format!("{} lets {:.0} requests/s through, as it is configured", hop.name, limit.per_s);
    let finding = Finding::new(filled, 1.0 - NEAR, "guess", &claim, 1.0);
    Some(finding.gaining(Some(gain_of_share(1.0, Some(room)))))
}

/// Answers take the time that a limited rate gives them, and no CPU on the path is full.
fn held_to_rate(hop: &Hop<'_>) -> Option<Finding> {
    let rate = hop.settings("nginx.config.limit_rate").filter_map(bytes).filter(|rate| *rate > 0.0);
    let rate = rate.reduce(f64::min)?;
    let part = hop.fact("answer / limit_rate / response time", "share", |r| {
        let result = &r.trial.result;
        Ok(result.bytes_in as f64 / r.throughput()? / result.duration_s / rate / (result.latency_actual.mean_us / 1e6))
    });
    let part = part.ok().filter(|part| part.value >= OF_RESPONSE)?;
    let room = room_until_full(hop).filter(|room| *room >= ROOM)?;
    let share = part.value.min(1.0);
    let claim = format!("{} sends each answer at {:.0} kB/s at most, as it is configured", hop.name, rate / 1e3);
    let lifted = nginx_knob(hop, KnobId::NginxDirective(NginxDirective::LimitRate), "0");
    Some(
        Finding::new(part, OF_RESPONSE, "guess", &claim, share)
            .mend("lift limit_rate, or raise it, if it is not meant to hold at this load", lifted)
            .gaining(Some(gain_of_share(share, Some(room))))
            .tested_by(Dose::Removal)
            .rising(hop.summary(&IF_TX_BYTES)),
    )
}

/// A size as nginx writes it, in bytes; none for a variable.
fn bytes(size: &str) -> Option<f64> {
    let (number, unit) = match size.char_indices().last()? {
        (at, 'k' | 'K') => (&size[..at], 1024.0),
        (at, 'm' | 'M') => (&size[..at], 1024.0 * 1024.0),
        _ => (size, 1.0),
    };
    Some(f64::from(number.parse::<u32>().ok()?) * unit)
}

/// Requests that are answered with a refusal, per request, when it is this hop that refuses them: all come to it, and these it does not
/// pass on. None where another hop does, or where it was not read who asks whom how often.
fn refused_here(hop: &Hop<'_>) -> Option<Fact> {
    let refused = hop.fact(refusal(hop).name, "", |r| Ok(refused_per_s(r) / r.throughput()?)).ok()?;
    let passes_on = |h: &Hop<'_>| passed_on(h).map(|passed| passed > 1.0 - refused.value / 2.0);
    let mut callers = hop.run.stack.callers(hop.name).into_iter().map(|caller| hop.other(caller));
    let all_come = hop.is_entry() || callers.all(|caller| passes_on(&caller) == Some(true));
    (all_come && !keeps_data(hop) && passes_on(hop) == Some(false)).then_some(refused)
}

/// Requests that a hop passes on by HTTP, per request of the clients; 0 for one that calls no such host.
fn passed_on(hop: &Hop<'_>) -> Option<f64> {
    let callees: Vec<Hop<'_>> = hop.callees().into_iter().filter(|callee| !keeps_data(callee)).collect();
    if callees.is_empty() {
        return Some(0.0);
    }
    let per_request = |of: &dyn Fn(&Reader<'_>, &Hop<'_>) -> Option<f64>| {
        let at = hop.at(Level::At).ok()?;
        Some(callees.iter().map(|callee| of(&at, callee)).sum::<Option<f64>>()? / at.throughput().ok()?)
    };
    let of_sockets = per_request(&|at, callee| at.towards(&CONN_OUT_SENT, callee).ok());
    let of_openings = per_request(&|at, callee| at.of(callee).sum(&TCP_PASSIVE_OPENS).ok());
    let seen = |metric, counts: &dyn Fn(&str) -> bool| -> f64 {
        let items = hop.items(metric).into_iter().filter(|item| counts(item));
        items.filter_map(|item| hop.look(metric, item).ok()).sum()
    };
    let come = seen(&SPLIT_REQUESTS, &|_| true);
    let of_look = (come > 0.0).then(|| seen(&SPLIT_CALLS, &|peer| callees.iter().any(|c| c.is_at(peer))) / come);
    // Both miss some: sockets that end between two looks, requests that come several at once. Each connection brings one at least.
    let passed = of_sockets.into_iter().chain(of_look).reduce(f64::max)?;
    Some(passed.max(of_openings.unwrap_or(0.0)))
}

/// How a hop refuses what is too much for it.
struct Refusal {
    name: &'static str,
    statuses: &'static [u16],
}

/// An application that has room, and that nobody can have failed, may say 503 for a limit of its own; of others it tells that somebody
/// fails.
fn refusal(hop: &Hop<'_>) -> Refusal {
    let has_room = || cpu_is_full(hop).is_ok_and(|full| !full);
    if runs_code(hop) && hop.callees().iter().all(|callee| cannot_have_failed(hop, callee)) && has_room() {
        return Refusal { name: "answered with 429 or 503 / request", statuses: &[429, 503] };
    }
    Refusal { name: "answered with 429 / request", statuses: &[429] }
}

/// Whether a store was neither asked for what is answered with 503, nor are the connections to it what is short.
fn cannot_have_failed(hop: &Hop<'_>, store: &Hop<'_>) -> bool {
    /// Part of them that may have asked it, and part of the connections that may be in use. A guess.
    const FEW: f64 = 0.5;
    let few = || -> Result<bool, Gap> {
        let at = hop.at(Level::At)?;
        let asked = at.towards(&CONN_OUT_SENT, store)? + at.of(store).sum(&TCP_PASSIVE_OPENS).unwrap_or(0.0);
        let in_use = in_use_all_along(&at.of(store))?;
        Ok(asked < FEW * answered_per_s(&at, &[503]) && in_use < FEW * held(hop, store)?.value)
    };
    few().unwrap_or(false)
}

/// Refusals per second.
fn refused_per_s(r: &Reader<'_>) -> f64 {
    answered_per_s(r, refusal(&r.hop).statuses)
}

/// Answers with one of these statuses, per second.
fn answered_per_s(r: &Reader<'_>, statuses: &[u16]) -> f64 {
    let result = &r.trial.result;
    let answered = statuses.iter().filter_map(|status| result.statuses.get(status)).sum::<u64>();
    answered as f64 / result.duration_s.max(f64::MIN_POSITIVE)
}

fn limited_per_s(r: &Reader<'_>) -> Result<f64, Gap> {
    let counted = r.sum(&ERROR_LOG_LIMITING)? + r.sum(&ERROR_LOG_DELAYING).unwrap_or(0.0);
    let log = error_log(&r.hop);
    Ok(log.and_then(|path| with_uncounted(r, path, counted).ok()).unwrap_or(counted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};
    use prony_model::metric::{ERROR_LOG_LINES, LOG_SIZE, LOOK_LOG_LINE};
    use prony_model::stack::{Role, Software};

    fn lab(limited: f64) -> Lab {
        Lab::healthy().per_second("lb", &ERROR_LOG_LIMITING, "", limited * 15_300.0)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.8)) - 0.8).abs() < 1e-6);
        assert!(score(CAUSE.id, "lb", &lab(0.0).per_second("lb", &ERROR_LOG_DELAYING, "", 9_000.0)) > 0.5);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.009)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.011)) > 0.0);
    }

    #[test]
    fn lines_of_a_flood_that_nobody_counted_are_of_the_same_kinds() {
        let log = "/run/lb/error.log";
        let counted = lab(0.06).per_second("lb", &ERROR_LOG_LINES, "", 1_000.0).gauge("lb", &LOOK_LOG_LINE, log, 200.0);
        let grows =
            |lines: f64| score(CAUSE.id, "lb", &counted.clone().per_second("lb", &LOG_SIZE, log, lines * 200.0));
        assert!((grows(15_000.0) - 0.9).abs() < 1e-6, "918 of 1,000 that were counted, 15,000 were written");
        assert!((grows(1_000.0) - 0.06).abs() < 1e-6, "all were counted");
    }

    #[test]
    fn whoever_does_not_pass_them_on_refuses_them() {
        let passing = |passed: f64| {
            let lab = Lab::healthy().answering(429, 0.8);
            ["10.77.0.11:80", "10.77.0.12:80"]
                .into_iter()
                .fold(lab, |lab, server| lab.per_second("lb", &CONN_OUT_SENT, server, passed * 15_300.0 / 2.0))
        };
        assert!((score(CAUSE.id, "lb", &passing(0.2)) - 0.8).abs() < 1e-3);
        assert_eq!(score(CAUSE.id, "s1", &passing(0.2)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &passing(1.0)), 0.0);
        assert!((score(CAUSE.id, "s1", &passing(1.0)) - 0.8).abs() < 1e-3);
        let unseen = Lab::healthy().answering(429, 0.8);
        assert_eq!(score(CAUSE.id, "lb", &unseen), 0.0, "nobody knows whose");
        let other = passing(0.2).answering(500, 0.8);
        assert_eq!(score(CAUSE.id, "lb", &other), 0.0, "that is no limit");
    }

    #[test]
    fn an_application_that_has_room_refuses_by_503_as_well() {
        let refusing = |host: &str, busy: f64, software: Option<Software>| {
            let servers = ["10.77.0.11:80", "10.77.0.12:80"];
            let lab = Lab::healthy().answering(503, 0.8).cpu("1", busy, 0.1, 0.0);
            let mut lab =
                servers.into_iter().fold(lab, |lab, server| lab.per_second("lb", &CONN_OUT_SENT, server, 7_650.0));
            lab.stack.host.get_mut(host).unwrap().software = software;
            score(CAUSE.id, host, &lab)
        };
        assert!((refusing("s1", 0.2, None) - 0.8).abs() < 1e-3);
        assert_eq!(refusing("s1", 0.2, Some(Software::Nginx)), 0.0, "nginx says so of its servers");
        assert_eq!(refusing("s1", 0.89, None), 0.0, "it is overloaded");
        assert_eq!(refusing("lb", 0.2, None), 0.0, "who passes on may find nobody to pass on to");
        let mut calls = Lab::healthy().answering(503, 0.8).cpu("0", 0.2, 0.1, 0.0);
        let app = calls.stack.host.get_mut("lb").unwrap();
        (app.software, app.role) = (None, Role::App);
        let none_passed = calls.per_second("lb", &CONN_OUT_SENT, "10.77.0.11:80", 0.0);
        let none_passed = none_passed.per_second("lb", &CONN_OUT_SENT, "10.77.0.12:80", 0.0);
        assert_eq!(score(CAUSE.id, "lb", &none_passed), 0.0, "whom it calls may have failed it");
    }

    #[test]
    fn so_does_one_whose_database_was_not_asked() {
        let app = |busy: f64, statements: f64, in_use: f64| {
            let lab = Lab::chain().answering(503, 0.9).cpu("0", busy, 0.1, 0.0).statements(statements);
            let lab = lab.per_second("app", &TCP_PASSIVE_OPENS, "", 1_900.0).sessions([in_use; 3], "running");
            let lab = lab.per_second("gw", &CONN_OUT_SENT, "10.77.0.40:80", 100.0);
            (score(CAUSE.id, "app", &lab), score(CAUSE.id, "gw", &lab))
        };
        let (own, gateway) = app(0.2, 400.0, 1.0);
        assert!((own - 0.9).abs() < 1e-3 && gateway == 0.0, "{own} {gateway}: connections of one request each");
        assert_eq!(app(0.2, 1_000.0, 1.0), (0.0, 0.0), "the database may have failed it");
        assert_eq!(app(0.2, 400.0, 19.0), (0.0, 0.0), "no connection is free");
        assert_eq!(app(0.89, 400.0, 1.0), (0.0, 0.0), "it is overloaded");
    }

    #[test]
    fn a_limited_rate_matters_where_it_may_take_the_time_and_no_cpu_is_full() {
        let held_at = |busy: f64, limit: &str| {
            let lab = Lab::healthy().cpu("0", busy, 0.05, 0.0).cpu("1", 0.1, 0.1, 0.0);
            let mut run = lab.setting("lb", "nginx.config.limit_rate", limit).run();
            for trial in &mut run.trials {
                trial.result.bytes_in = trial.result.completed * 10_000;
            }
            let lb = Hop { run: &run, name: "lb" };
            held_to_rate(&lb).map(|finding| finding.score)
        };
        let held = |limit| held_at(0.05, limit);
        // The healthy lab answers after 4.2 ms: 10,000 bytes at 10 MB/s may take 1 ms of them.
        assert!((held("10000000").unwrap() - 0.239).abs() < 1e-3);
        assert!((held("0 | 10m | 1000k").unwrap() - 1.0).abs() < 1e-9, "the least that is a limit");
        assert_eq!(held_at(0.93, "1m"), None, "a CPU is full");
        assert_eq!(held("100m"), None);
        assert_eq!(held("$rate"), None);
        assert_eq!(held("0"), None);
    }

    #[test]
    fn a_quiet_limit_is_seen_by_its_rate() {
        let held_beyond = |rate: &str, limit: &str, busy: f64, beyond: f64| {
            let zone = format!("$host zone=a:1m rate={rate}r/s");
            let lab = Lab { x: [450.0, 900.0, beyond], ..lab(0.0) };
            let lab = lab.cpu("0", busy, 0.05, 0.0).cpu("1", 0.1, 0.1, 0.0);
            let lab = lab.setting("lb", "nginx.config.limit_req", limit);
            let run = lab.setting("lb", "nginx.config.limit_req_zone", &zone).run();
            match check(&Hop { run: &run, name: "lb" }) {
                Ok(Judgement::Fires(finding)) => finding.score,
                Ok(_) => 0.0,
                Err(gap) => panic!("{gap:?}"),
            }
        };
        let held = |rate: &str, limit: &str, busy: f64| held_beyond(rate, limit, busy, 900.0);
        assert_eq!(held("900", "zone=a burst=300", 0.1), 1.0);
        assert_eq!(held_beyond("900", "zone=a burst=300", 0.1, 1_200.0), 0.0, "more clients bring more");
        assert_eq!(held("940", "zone=a burst=300", 0.1), 1.0, "near it");
        assert_eq!(held("950", "zone=a burst=300", 0.1), 0.0, "not near it");
        assert_eq!(held("900", "zone=a", 0.1), 0.0, "without a burst it refuses, and says so");
        assert_eq!(held("900", "zone=other burst=300", 0.1), 0.0);
        assert_eq!(held("900", "zone=a burst=300", 0.93), 0.0, "a CPU is full");
    }

    #[test]
    fn a_dry_run_that_would_hold_everybody_back_afterwards_is_not_made() {
        let tested = |limit: &str| {
            let zones = "$host zone=a:1m rate=10r/s | $uri zone=all:1m rate=600r/m";
            let lab = lab(0.8).setting("lb", "nginx.config.limit_req", limit);
            let run = lab.setting("lb", "nginx.config.limit_req_zone", zones).run();
            let lb = Hop { run: &run, name: "lb" };
            let Ok(Judgement::Fires(finding)) = check(&lb) else { panic!("it fires") };
            (owed_s(&lb), finding.dose, finding.remedies[0].knob.is_some())
        };
        assert_eq!(tested("zone=all burst=15 nodelay"), (Some(1.5), Dose::RemovalByAll, true));
        assert_eq!(tested("zone=a burst=5 | zone=all burst=25"), (Some(2.5), Dose::Queue, false));
        assert_eq!(tested("zone=all"), (None, Dose::RemovalByAll, true));
        assert_eq!(tested("zone=other burst=1000"), (None, Dose::RemovalByAll, true));
    }

    monotonic!(lab, 0.0..2.0);
}
