//! # Rate limited
//!
//! A configured limit holds requests back: limit_req, limit_conn, a quota of requests.
//!
//! ## What it sees
//! Lines of the error log that say that requests or connections are limited, or delayed, per request.
//!
//! ## Why it limits
//! Requests beyond the limit wait or are refused, whatever the CPUs could do.
//!
//! ## Evidence
//! Share of requests that are limited or delayed.
//!
//! ## What it is not
//! A server that is slow because it is busy: then no limiter speaks. Limiters that log nothing (level above the log's)
//! cannot be seen.
//!
//! ## Fix
//! Raise the limit if it is not meant; else it works as it should. To see what it holds back, prony has nginx count and not
//! apply it for a few trials (knobs `nginx.limit_req_dry_run`, `nginx.limit_conn_dry_run`).
//!
//! ## References
//! nginx: ngx_http_limit_req_module, ngx_http_limit_conn_module.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, nginx_knob, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{ERROR_LOG_DELAYING, ERROR_LOG_LIMITING};
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

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let limited = hop.fact("limited or delayed / request", "", |r| Ok(limited_per_s(r)? / r.requests()?))?;
    if limited.value < LIMITED {
        return ruled_out(&limited, LIMITED, "guess", "no limiter holds requests back");
    }
    let failed = hop.at(Level::At)?.trial.result.error_share();
    let share = limited.value.min(1.0);
    let dry_run = |of| nginx_knob(hop, KnobId::NginxDirective(of), "on");
    let requests = dry_run(NginxDirective::LimitReqDryRun);
    let connections = dry_run(NginxDirective::LimitConnDryRun);
    let claim = format!("a configured limit of {} holds back {:.0} % of the requests", hop.name, share * 100.0);
    Finding::new(limited, LIMITED, "guess", &claim, share)
        .and(hop.summary(&ERROR_LOG_LIMITING), "requests that it refuses, per second")
        .and(hop.summary(&ERROR_LOG_DELAYING), "requests that it delays, per second")
        .and(
            hop.fact("failed requests", "share", |r| Ok(r.trial.result.error_share())),
            "answers that clients count as failed",
        )
        .mend(
            "raise the limit (limit_req rate and burst, limit_conn) if it is not meant to hold at this load",
            requests,
        )
        .mend("the same of connections", connections.clone())
        .gaining(Some(gain_of_share(share.max(failed), gain_until_full(hop))))
        .tested_by(match connections {
            Some(_) => Dose::RemovalByAll,
            None => Dose::Untestable("prony has no knob for the limits of this server"),
        })
        .rising(hop.fact("limited or delayed", "/s", limited_per_s))
        .fires()
}

fn limited_per_s(r: &Reader<'_>) -> Result<f64, Gap> {
    Ok(r.sum(&ERROR_LOG_LIMITING)? + r.sum(&ERROR_LOG_DELAYING).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

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

    monotonic!(lab, 0.0..2.0);
}
