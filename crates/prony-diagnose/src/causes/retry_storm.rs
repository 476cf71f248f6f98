//! # Retry storm
//!
//! The proxy tries requests again and again, so its servers get more work than clients ask for.
//!
//! ## What it sees
//! Tries at servers per request of the clients: from the access log (`$upstream_addr` lists each try), from the
//! servers' own counters, or from HAProxy's retries and redispatches.
//!
//! ## Why it limits
//! A server that fails because it is full gets still more requests; capacity goes into tries whose answers nobody sees.
//!
//! ## Evidence
//! Tries per request; those beyond the first are the share of the servers' work that is lost.
//!
//! ## What it is not
//! One server that fails while the others do well: `bad-upstream`. A try now and then after a restart.
//!
//! ## Fix
//! `proxy_next_upstream_tries` (knob `nginx.proxy_next_upstream_tries`) and `proxy_next_upstream_timeout`; longer timeouts than the servers need; fewer retries
//! of what is not idempotent.
//!
//! ## References
//! nginx `ngx_http_proxy_module`, directive `proxy_next_upstream`; HAProxy `retries`.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, nginx_knob, predicted_gain, removal_or,
    ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::sessions::is_proxy;
use prony_model::metric::{
    ERROR_LOG_UPSTREAM_TIMEOUT, HAPROXY_REDISPATCHES, HAPROXY_RETRIES, LOOK_UPSTREAM_FAILURES, LOOK_UPSTREAM_TRIES,
    NGINX_REQUESTS,
};
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "retry-storm",
    layer: Layer::Upstream,
    title: "retry storm",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("retry_storm.rs"),
};

/// Tries per request from which they are a storm. A guess: one in five is tried again.
const TRIES: f64 = 1.2;
/// How much more than its siblings one server may fail before the matter is that server. A guess.
const ONE_IS_WORSE: f64 = 4.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let callees = hop.callees();
    if callees.is_empty() || !is_proxy(hop) {
        return does_not_apply(hop, "passes no requests on; an application may ask several times by design");
    }
    let Some(tries) = tries(hop, &callees) else {
        return Err(Gap::new(
            LOOK_UPSTREAM_TRIES.name,
            hop.name,
            "neither its log nor its servers tell how often a request was tried: add $upstream_addr to the log format",
        ));
    };
    if tries.value < TRIES {
        return ruled_out(&tries, TRIES, "guess", "each request is tried about once");
    }
    let fails: Vec<f64> =
        hop.items(&LOOK_UPSTREAM_FAILURES).iter().filter_map(|i| hop.look(&LOOK_UPSTREAM_FAILURES, i).ok()).collect();
    let (least, most) = (fails.iter().copied().fold(1.0, f64::min), fails.iter().copied().fold(0.0, f64::max));
    if fails.len() > 1 && most > ONE_IS_WORSE * least {
        let worst = Fact::across_levels(hop, "failures of the worst server", most);
        return ruled_out(&worst, ONE_IS_WORSE * least, "guess", "requests are tried again because one server fails");
    }
    let share = 1.0 - 1.0 / tries.value;
    let one_try = nginx_knob(hop, KnobId::NginxDirective(NginxDirective::ProxyNextUpstreamTries), "1");
    let claim = format!("{} asks its servers {:.2} times for each request", hop.name, tries.value);
    Finding::new(tries, TRIES, "guess", &claim, share)
        .and(hop.summary(&ERROR_LOG_UPSTREAM_TIMEOUT), "its complaints of timeouts")
        .and(
            Ok(Fact::across_levels(hop, "failures of the best server", least)),
            "also the best of its servers fails so often",
        )
        .mend("fewer tries (proxy_next_upstream_tries), timeouts longer than the servers need", one_try.clone())
        .gaining(predicted_gain(hop, share))
        .rising(hop.fact("tries", "/s", |r| Ok(r.throughput()? / (1.0 - share))))
        .tested_by(removal_or(one_try.as_ref(), Dose::Untestable("prony has no knob for the retries of this server")))
        .fires()
}

fn tries<'a>(hop: &Hop<'a>, callees: &[Hop<'a>]) -> Option<Fact> {
    let logged = hop.items(&LOOK_UPSTREAM_TRIES);
    if !logged.is_empty() {
        let sum = logged.iter().filter_map(|item| hop.look(&LOOK_UPSTREAM_TRIES, item).ok()).sum();
        return Some(Fact::across_levels(hop, "tries / request in the access log", sum));
    }
    let again = |r: &Reader<'_>| -> Result<f64, Gap> {
        let backends = |metric| -> Result<f64, Gap> {
            let items = r.hop.items(metric).into_iter().filter(|item| item.ends_with("/BACKEND"));
            items.map(|item| r.one(metric, item)).sum()
        };
        if r.hop.items(&HAPROXY_RETRIES).is_empty() {
            return Err(r.gap(&HAPROXY_RETRIES));
        }
        Ok(1.0 + (backends(&HAPROXY_RETRIES)? + backends(&HAPROXY_REDISPATCHES)?) / r.throughput()?)
    };
    if let Ok(fact) = hop.fact("tries / request by HAProxy's counters", "", again) {
        return Some(fact);
    }
    let at = hop.at(Level::At).ok()?;
    // What reaches the hop itself: an application behind it may ask several times by design.
    let served = if hop.is_entry() { at.throughput().ok()? } else { at.sum(&NGINX_REQUESTS).ok()? };
    let counted: Option<Vec<f64>> = callees.iter().map(|c| at.of(c).sum(&NGINX_REQUESTS).ok()).collect();
    counted.map(|rates| {
        Fact::across_levels(hop, "requests that its servers count / request", rates.iter().sum::<f64>() / served)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    /// Both servers are tried so often per request, and fail half of the time.
    fn lab(tries: f64) -> Lab {
        ["10.77.0.11:80", "10.77.0.12:80"].into_iter().fold(Lab::healthy(), |lab, server| {
            lab.gauge("lb", &LOOK_UPSTREAM_TRIES, server, tries / 2.0).gauge("lb", &LOOK_UPSTREAM_FAILURES, server, 0.5)
        })
    }

    #[test]
    fn fires_silent_border() {
        assert!((finding(CAUSE.id, "lb", &lab(2.0)).unwrap().score - 0.5).abs() < 1e-9);
        assert_eq!(score(CAUSE.id, "s1", &lab(2.0)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(1.19)), 0.0, "border");
        assert!(score(CAUSE.id, "lb", &lab(1.21)) > 0.0, "border");
        let one = lab(2.0).gauge("lb", &LOOK_UPSTREAM_FAILURES, "10.77.0.11:80", 0.0);
        assert_eq!(score(CAUSE.id, "lb", &one), 0.0, "one server is bad");
    }

    #[test]
    fn servers_and_haproxy_count_too() {
        let counted = |rate: f64| {
            let lab = Lab::healthy().per_second("s1", &NGINX_REQUESTS, "", rate);
            lab.per_second("s2", &NGINX_REQUESTS, "", rate).per_second("lb", &NGINX_REQUESTS, "", 15_300.0)
        };
        assert!(score(CAUSE.id, "lb", &counted(15_300.0)) > 0.4);
        assert_eq!(score(CAUSE.id, "lb", &counted(7_650.0)), 0.0);
        let haproxy = Lab::healthy().per_second("lb", &HAPROXY_RETRIES, "web/BACKEND", 10_000.0);
        let haproxy = haproxy.per_second("lb", &HAPROXY_REDISPATCHES, "web/BACKEND", 5_300.0);
        assert!(score(CAUSE.id, "lb", &haproxy) > 0.4);
        let run = Lab::healthy().run();
        assert!(check(&Hop { run: &run, name: "lb" }).is_err(), "nobody counts");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 1.0f64..9.0, b in 1.0f64..9.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))) + 1e-9);
        }
    }
}
