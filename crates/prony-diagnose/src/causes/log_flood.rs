//! # Log flood
//!
//! The error log gets lines for every request, each with a write of its own: a debug level, or a complaint that
//! repeats.
//!
//! ## What it sees
//! Lines of the error log per request: its growth over the length of its lines.
//!
//! ## Why it limits
//! Error logs are not buffered: each line is a system call and a copy, and at debug level a request writes a hundred.
//!
//! ## Evidence
//! Lines per request times the measured price of a write on this host, as a share of what limits.
//!
//! ## What it is not
//! The access log: that has causes of its own. Lines that tell of another fault (no ports, no memory): they are few per
//! request, and that fault explains more. A line for each request that fails, or a call stack where most fail: then what makes them fail
//! is the matter.
//!
//! ## Fix
//! `error_log ... error` or `warn`; find what complains. prony has no knob for it.
//!
//! ## References
//! nginx: ngx_http_core_module error_log, "A debugging log".

use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, predicted_gain, ruled_out};
use crate::facts::Hop;
use crate::logs::{error_log, lines_per_s, price_of_write_us, share_of_limit};
use prony_model::Gap;
use prony_model::metric::{LOG_SIZE, PRICE_LOG_WRITE};

pub(super) const CAUSE: Cause = Cause {
    id: "log-flood",
    layer: Layer::Logs,
    title: "log flood",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("log_flood.rs"),
};

/// Lines per request from which a log is a flood. A guess: the border that an access log has for being unbuffered.
const LINES_PER_REQUEST: f64 = 0.2;
/// Lines that a request may write which fails, where most do: an application tells the calls that led there. A guess: tracebacks of Python
/// and Java have 20 to 100 lines.
const LINES_OF_A_FAILURE: f64 = 100.0;
/// Below this share of the limit it does not matter. A guess.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let Some(path) = error_log(hop) else {
        return does_not_apply(hop, "the stack file names no error log");
    };
    let lines = hop.fact("error log lines / request", "", |r| Ok(lines_per_s(r, path)? / r.requests()?))?;
    if lines.value < LINES_PER_REQUEST {
        return ruled_out(&lines, LINES_PER_REQUEST, "guess", "the error log is quiet");
    }
    let beyond = hop.fact("error log lines beyond those of failed requests / request", "", |r| {
        let of_each = if r.trial.result.mostly_fails() { LINES_OF_A_FAILURE } else { 1.0 };
        Ok(lines_per_s(r, path)? / r.requests()? - of_each * r.trial.result.error_share())
    })?;
    if beyond.value < LINES_PER_REQUEST {
        return ruled_out(&beyond, LINES_PER_REQUEST, "guess", "its lines tell of requests that fail");
    }
    let price_us = price_of_write_us(hop)?;
    let share = share_of_limit(hop, lines.value * price_us)?;
    if share < SHARE_MIN {
        return ruled_out(&lines, LINES_PER_REQUEST, "guess", "writing the error log costs under 2 % of the limit");
    }
    let claim = format!("{} writes {:.1} lines to its error log per request", hop.name, lines.value);
    Finding::new(lines, LINES_PER_REQUEST, "guess", &claim, share)
        .and(hop.fact(PRICE_LOG_WRITE.name, "us", |_| Ok(price_us)), "price of one write on this host")
        .and(
            hop.fact("error log bytes / request", "B", |r| Ok(r.one(&LOG_SIZE, path)? / r.requests()?)),
            "what it writes",
        )
        .mend("raise the level of the error log (error_log PATH error), or mend what it complains of", None)
        .gaining(predicted_gain(hop, share))
        .tested_by(Dose::Cpu)
        .rising(hop.fact("error log lines", "/s", |r| lines_per_s(r, path)))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};
    use prony_model::metric::{ERROR_LOG_LINES, LOOK_LOG_LINE};

    fn lab(lines: f64) -> Lab {
        Lab::healthy().per_second("lb", &LOG_SIZE, "/run/lb/error.log", lines * 15_300.0 * 100.0).gauge(
            "lb",
            &LOOK_LOG_LINE,
            "/run/lb/error.log",
            100.0,
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!(
            (score(CAUSE.id, "lb", &lab(10.0)) - 0.306).abs() < 1e-3,
            "2 us each: {}",
            score(CAUSE.id, "lb", &lab(10.0))
        );
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.19)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.3)), 0.0, "cheap");
        assert!(score(CAUSE.id, "lb", &lab(1.0)) > 0.0);
        let counted = Lab::healthy().per_second("lb", &ERROR_LOG_LINES, "", 30_600.0);
        assert!(score(CAUSE.id, "lb", &counted) > 0.05);
        assert!(score(CAUSE.id, "lb", &lab(1.0).failing(0.5)) > 0.0, "more lines than failures");
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0).failing(0.9)), 0.0, "a line for each failure");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.5).failing(0.4)), 0.0, "a line for each failure");
        assert_eq!(score(CAUSE.id, "lb", &lab(41.0).failing(0.9)), 0.0, "the calls that led to each failure");
        assert!(score(CAUSE.id, "lb", &lab(191.0).failing(0.9)) > 0.0, "what debugging writes");
    }

    monotonic!(lab, 0.0..40.0);
}
