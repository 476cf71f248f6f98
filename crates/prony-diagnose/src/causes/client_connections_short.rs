//! # Client connections short
//!
//! Clients open a connection for each request: because the server closes them, or because they do not keep them themselves.
//!
//! ## What it sees
//! `tcp.passive_opens` at the entry, per request, and whether the workload asks to keep connections.
//!
//! ## Why it limits
//! Each request pays for a handshake and a close, at the server and at the client; with TLS for a key exchange too.
//!
//! ## Evidence
//! Accepted connections per request, and their share of the limit as in `upstream-keepalive-off`. Where the generator's CPUs are the
//! full ones: the share of its work. A workload that does not keep connections is run with connections kept.
//!
//! ## What it is not
//! Connections that broke and were opened anew: that is the failure's doing.
//!
//! ## Fix
//! `keepalive_timeout` and `keepalive_requests` of the server (knobs `nginx.keepalive_timeout`, `nginx.keepalive_requests`);
//! keep-alive at the client.
//!
//! ## References
//! nginx `ngx_http_core_module`, directives `keepalive_timeout`, `keepalive_requests`.

use super::upstream_keepalive_off::connection_share;
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, cpu_or, does_not_apply, nginx_knob,
    predicted_gain, ruled_out,
};
use crate::facts::Hop;
use prony_model::metric::TCP_PASSIVE_OPENS;
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "client-connections-short",
    layer: Layer::Connections,
    title: "a connection per client request",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("client_connections_short.rs"),
};

/// Accepted connections per request from which they count as short. A guess: ramp-up and health checks stay far below.
const OPENS_PER_REQUEST: f64 = 0.2;
/// Requests after which a connection may close. A guess: rarer than anything that a run counts.
pub(super) const REQUESTS: &str = "100000";
/// How long it may be idle: nginx's own default.
pub(super) const TIMEOUT: &str = "75s";
/// Below this share of the limit it does not matter. Cited: catalogue row 2 lets 2 % of the time pass.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !hop.is_entry() {
        return does_not_apply(hop, "is not reached by clients");
    }
    let (plan, result) = (&hop.at(Level::At)?.trial.plan, &hop.at(Level::At)?.trial.result);
    let opens = hop.per_request(&TCP_PASSIVE_OPENS)?;
    let broken = result.errors.unanswered();
    let short = opens.value - broken as f64 / result.completed.max(1) as f64;
    let share = if short < OPENS_PER_REQUEST { 0.0 } else { opening_share(hop, short)? };
    if share < SHARE_MIN {
        return ruled_out(&opens, OPENS_PER_REQUEST, "guess", "clients keep their connections, or these cost little");
    }
    let is_asked_for = plan.reconnects();
    let why = if is_asked_for { ", as the workload asks" } else { " although they ask to keep them" };
    let claim = format!("clients open {:.2} connections per request{why}", opens.value);
    let finding = Finding::new(opens, OPENS_PER_REQUEST, "guess", &claim, share)
        .and(hop.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs the hop")
        .gaining(predicted_gain(hop, share))
        .rising(hop.summary(&TCP_PASSIVE_OPENS));
    if is_asked_for {
        let remedy =
            "keep connections at the clients (keep-alive, a pool), unless opening them is what is to be measured";
        return finding.mend(remedy, None).tested_by(Dose::KeepAlive).fires();
    }
    let directive = |of, value| nginx_knob(hop, KnobId::NginxDirective(of), value);
    let requests = directive(NginxDirective::KeepaliveRequests, REQUESTS);
    let timeout = directive(NginxDirective::KeepaliveTimeout, TIMEOUT);
    let dose = match timeout {
        Some(_) => Dose::RemovalByAll,
        None => cpu_or(hop, "prony has no knob for the keep-alive of this server")?,
    };
    finding
        .mend("let clients keep their connections for many requests", requests)
        .mend("let clients keep connections that are idle for a while", timeout)
        .tested_by(dose)
        .fires()
}

/// Share of the limit that opening explains: at the hop, or at the generator where its CPUs are full.
fn opening_share(hop: &Hop<'_>, opens_per_request: f64) -> Result<f64, Gap> {
    let own = connection_share(hop, opens_per_request)?;
    let sender = Hop::generator(hop.run).filter(|sender| cpu_is_full(sender).unwrap_or(false));
    let at_sender = sender.and_then(|sender| connection_share(&sender, opens_per_request).ok());
    Ok(at_sender.unwrap_or(0.0).max(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, score};
    use prony_model::metric::{TCP_IN_SEGMENTS, TCP_OUT_SEGMENTS};
    use proptest::prelude::*;

    fn lab(opens_per_request: f64) -> Lab {
        Lab::healthy().per_second("lb", &TCP_PASSIVE_OPENS, "", 15_300.0 * opens_per_request)
    }

    #[test]
    fn fires_silent_border() {
        assert!(score(CAUSE.id, "lb", &lab(1.0)) > 0.3);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "s1", &lab(1.0)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.19)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.21)) > 0.0);
    }

    #[test]
    fn a_workload_that_keeps_none_is_tested_with_connections_kept() {
        let mut run = lab(1.0).run();
        for trial in &mut run.trials {
            trial.plan.keepalive = false;
        }
        let Ok(Judgement::Fires(found)) = check(&Hop { run: &run, name: "lb" }) else { panic!("silent") };
        assert_eq!(found.dose, Dose::KeepAlive);
        assert!(found.summary.contains("as the workload asks"), "{}", found.summary);
        assert!(found.remedies.iter().all(|remedy| remedy.knob.is_none()), "nothing of the server's");
    }

    #[test]
    fn where_the_generator_is_full_opening_costs_there() {
        let idle = || lab(1.0).cpu("0", 0.1, 0.1, 0.05).own("lb", 0.2);
        assert_eq!(score(CAUSE.id, "lb", &idle()), 0.0, "room for it");
        let busy = Lab { generator: 0.7, ..idle().cpu("1", 0.2, 0.6, 0.2) };
        let busy = busy.per_second("client", &TCP_IN_SEGMENTS, "", 15_300.0 * 4.0);
        let share = score(CAUSE.id, "lb", &busy.per_second("client", &TCP_OUT_SEGMENTS, "", 15_300.0 * 6.0));
        assert!(share > 0.4, "{share}");
    }

    #[test]
    fn connections_that_broke_are_not_short() {
        let mut run = lab(1.0).run();
        for trial in &mut run.trials {
            trial.result.errors.read = trial.result.completed * 9 / 10;
        }
        let judged = check(&Hop { run: &run, name: "lb" }).unwrap();
        assert!(matches!(judged, Judgement::Silent(_)), "what breaks is not short");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..2.0, b in 0.0f64..2.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))) + 1e-9);
        }
    }
}
