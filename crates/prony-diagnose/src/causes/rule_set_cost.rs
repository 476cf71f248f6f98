//! # Rule sets cost CPU
//!
//! Matching each request against names, locations, regular expressions or filters takes the CPU.
//!
//! ## What it sees
//! The share of the CPU samples of a proxy or of nginx in regular expression engines (PCRE, Hyperscan), anywhere in ModSecurity, in code that was
//! compiled at run time within nginx or HAProxy (PCRE's own compiler), and in nginx's search for a location, with all that it calls:
//! a part of trying one expression after the other is nginx's own work, in functions that have no name in a stripped program.
//!
//! ## Why it limits
//! Regular expressions of locations and maps are tried one after the other until one matches, for each request.
//!
//! ## Evidence
//! The share of samples times what the hop spends, as a share of the capacity of its CPUs, is the score.
//!
//! ## What it is not
//! A script that uses expressions for its own work: then the engine is a part of an application server, not of a proxy.
//!
//! ## Fix
//! Exact names and prefixes before expressions, `map` with hash keys, fewer expressions, `pcre_jit on`. prony has no knob
//! for them yet.
//!
//! ## References
//! nginx, "Server names": regular expressions "are tested sequentially and therefore are the slowest method".

use super::compression_cpu::dose;
use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, predicted_gain, ruled_out};
use crate::facts::Hop;
use crate::profile::{Code, Profile};
use crate::sessions::{is_nginx_or_haproxy, is_proxy};
use prony_model::Gap;

pub(super) const CAUSE: Cause = Cause {
    id: "rule-set-cost",
    layer: Layer::Cpu,
    title: "rule sets cost CPU",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("rule_set_cost.rs"),
};

/// Matching by name.
const MATCHING: Code = Code {
    work: "matching rules",
    modules: &["libpcre", "libhs", "libmodsecurity", "libinjection", "libonig", "libre2"],
    functions: &[
        "pcre",
        "regexec",
        "re_search",
        "sre_",
        "ngx_http_core_find_location",
        "ngx_http_core_find_static_location",
        "ngx_http_regex",
        "ngx_regex_",
        "ngx_hash_find",
        "ngx_hash_wc",
        "acl_match",
        "pat_match",
        "pattern_exec",
        "regex_exec",
    ],
};
/// Filters of requests, wherever they run: an application's own work has no use for them.
const FILTERS: Code = Code { modules: &["libmodsecurity", "libinjection"], functions: &[], ..MATCHING };
/// Functions of nginx from which it looks for a location, and for the value of a `map`.
const SEARCHES: [&str; 2] = ["ngx_http_core_find_config_phase", "ngx_http_map_find"];
/// Share of the limit from which it matters. A guess above the 2 % that rule it out (catalogue row 37), because every proxy
/// looks for its location.
const SHARE_MIN: f64 = 0.05;
/// Its origin.
const ORIGIN: &str = "a guess above catalogue row 37 (below 2 % it is ruled out)";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let profile = Profile::of(hop)?;
    let code = if is_nginx_or_haproxy(hop) || is_proxy(hop) { MATCHING } else { FILTERS };
    // In these two it can hardly be anything but expressions.
    let compiled = if is_nginx_or_haproxy(hop) { profile.share_of_module("[jit]") } else { 0.0 };
    let part = (profile.share_in(&code) + compiled).max(profile.share_below(&SEARCHES)).min(1.0);
    let seen = profile.fact(MATCHING.work, part);
    let share = profile.limit_share(part)?;
    if share < SHARE_MIN {
        return ruled_out(&seen, SHARE_MIN, ORIGIN, "matching names, locations and expressions costs little");
    }
    let claim = format!("{} spends {:.0} % of its CPU time on matching rules", hop.name, part * 100.0);
    Finding::new(seen, SHARE_MIN, ORIGIN, &claim, share)
        .and(Ok(profile.fact("code compiled at run time", compiled)), "expressions that PCRE compiled")
        .and(profile.us_per_request(MATCHING.work, part), "what matching costs each request")
        .mend(
            "exact names and prefix locations before regular expressions, map with plain keys, fewer expressions, pcre_jit on",
            None,
        )
        .gaining(predicted_gain(hop, share))
        .rising(profile.cpus(MATCHING.work, part))
        .tested_by(dose(hop)?)
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::PROFILE_TOTAL;
    use prony_model::stack::Role;
    use proptest::prelude::*;

    fn lab(module: &str, share: f64) -> Lab {
        Lab::healthy().profiled("lb", &[("match", module, share), ("tcp_v4_rcv", "kernel", 1.0 - share)])
    }

    #[test]
    fn fires_silent_border() {
        assert!(finding(CAUSE.id, "lb", &lab("libpcre2-8.so.0.11.2", 0.4)).unwrap().score > 0.35);
        assert!(score(CAUSE.id, "lb", &lab("[jit]", 0.4)) > 0.35, "PCRE compiles expressions");
        assert_eq!(score(CAUSE.id, "lb", &lab("nginx", 0.4)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab("libpcre2-8.so.0.11.2", 0.05)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab("libpcre2-8.so.0.11.2", 0.053)) > 0.0);
        let search = |share: f64| lab("nginx", 0.4).gauge("lb", &PROFILE_TOTAL, SEARCHES[0], share);
        assert!(score(CAUSE.id, "lb", &search(0.7)) > score(CAUSE.id, "lb", &lab("libpcre2-8.so.0.11.2", 0.4)));
        assert_eq!(score(CAUSE.id, "lb", &search(0.05)), 0.0, "every proxy looks for its location");
    }

    #[test]
    fn an_application_matches_for_its_own_work() {
        let as_a = |role: Role, module: &str| {
            let mut lab = lab(module, 0.4);
            let host = lab.stack.host.get_mut("lb").unwrap();
            (host.software, host.role) = (None, role);
            score(CAUSE.id, "lb", &lab)
        };
        assert_eq!(as_a(Role::App, "[jit]"), 0.0, "it is compiled at run time");
        assert_eq!(as_a(Role::Proxy, "[jit]"), 0.0, "so may a proxy be that nobody knows");
        assert_eq!(as_a(Role::App, "libpcre2-8.so.0.11.2"), 0.0);
        assert!(as_a(Role::Proxy, "libpcre2-8.so.0.11.2") > 0.35);
        assert!(as_a(Role::App, "libmodsecurity.so.3.0.9") > 0.35, "filters of requests are no work of its own");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            let of = |share: f64| score(CAUSE.id, "lb", &lab("libpcre.so.3", share));
            prop_assert!(of(a.min(b)) <= of(a.max(b)) + 1e-9);
        }
    }
}
