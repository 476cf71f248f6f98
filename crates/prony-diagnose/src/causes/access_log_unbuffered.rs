//! # Access log unbuffered
//!
//! The server writes each line of its access log by a system call of its own.
//!
//! ## What it sees
//! Growth of the access log divided by the bytes that one write adds (seen by quick looks at its size) and by requests.
//! Unbuffered: about 1 write per request. Buffered: one per 64 KB. And whether the server holds the log open: with a
//! variable in its path it is opened and closed for each line.
//!
//! ## Why it limits
//! A write to a file costs microseconds of CPU; all workers append to the same inode, whose lock lets one of them in at
//! a time.
//!
//! ## Evidence
//! Writes per request times the price of one write on this host (tried out before the load, or seen by the CPU profile under load,
//! whichever is more), and of opening the log if each write does. With full
//! CPUs its share of their capacity; with idle CPUs the share of time that the file is being written to, which cannot
//! pass 1 (the lock is a serial resource).
//!
//! ## What it is not
//! A buffered log, however large: writes per request stay far below 0.2. A log on a slow disk: then PSI io is not 0.
//!
//! ## Fix
//! Knob `nginx.access_log` with `buffer=64k`. A variable in the path prevents buffering: give the log a fixed name. What such a log
//! costs is tried with the knob at `off`.
//!
//! ## References
//! nginx `ngx_http_log_module`, directive `access_log` (buffering only with buffer= or gzip=).

use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, gain_of_share, gain_until_full,
    nginx_knob, predicted_gain, ruled_out,
};
use crate::facts::Hop;
use crate::logs::{
    WRITES_PER_REQUEST, access_logs, opens_per_request, price_of_write_us, share_of_limit, writes_per_request,
};
use prony_model::metric::{LOG_SIZE, PRICE_LOG_OPEN, PRICE_LOG_WRITE, PSI_IO_FULL};
use prony_model::{Gap, KnobId};

pub(super) const CAUSE: Cause = Cause {
    id: "access-log-unbuffered",
    layer: Layer::Logs,
    title: "access log unbuffered",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("access_log_unbuffered.rs"),
};

/// Below this share of the limit it does not matter.
const SHARE_MIN: f64 = 0.02;
/// Origin of both.
const ORIGIN: &str =
    "guess, between 1 (unbuffered) and 0.05 to 0.2 (a 4 KB buffer); under 2 % of time is let pass (catalogue row 2)";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if access_logs(hop).is_empty() {
        return match hop.host().and_then(|h| h.logs.access.as_ref()) {
            None => does_not_apply(hop, "the stack file names no access log"),
            Some(path) => Err(Gap::new(LOG_SIZE.name, hop.name, format!("the size of {path} was not read"))),
        };
    }
    let writes = writes_per_request(hop)?;
    if writes.value < WRITES_PER_REQUEST {
        return ruled_out(&writes, WRITES_PER_REQUEST, ORIGIN, "the access log is written in large pieces");
    }
    let price_us = price_of_write_us(hop)?;
    let opens = opens_per_request(hop)?;
    let open_us = if opens.value > 0.0 { hop.look(&PRICE_LOG_OPEN, "")? } else { 0.0 };
    let share = share_of_limit(hop, writes.value * price_us + opens.value * open_us)?;
    if share < SHARE_MIN {
        return ruled_out(&writes, WRITES_PER_REQUEST, ORIGIN, "writing the log costs under 2 % of the limit");
    }
    let gain =
        if cpu_is_full(hop)? { predicted_gain(hop, share) } else { Some(gain_of_share(share, gain_until_full(hop))) };
    let claim = format!("{} writes to its access log {:.2} times per request", hop.name, writes.value);
    // A path with a variable cannot be buffered: what that log costs shows without it.
    let (advice, value) = match opens.value > 0.0 {
        true => (
            "give the access log one fixed path and buffer it (a variable in the path prevents that); turned off for a while, it shows what it costs",
            "off",
        ),
        false => ("buffer the access log: access_log PATH FORMAT buffer=64k flush=2s", "buffer=64k"),
    };
    let mut finding = Finding::new(writes, WRITES_PER_REQUEST, ORIGIN, &claim, share)
        .and(hop.fact(PRICE_LOG_WRITE.name, "us", |_| Ok(price_us)), "price of one write on this host");
    if opens.value > 0.0 {
        finding = finding
            .and(Ok(opens), "each of these writes opens and closes the log, as nginx does for a path with a variable")
            .and(hop.fact(PRICE_LOG_OPEN.name, "us", |_| Ok(open_us)), "price of opening and closing a log");
    }
    finding
        .and(hop.summary(&PSI_IO_FULL), "time that everything waited for a disk")
        .mend(advice, nginx_knob(hop, KnobId::NginxAccessLog, value))
        .gaining(gain)
        .rising(hop.fact("log writes", "/s", |r| Ok(writes_per_request(hop)?.value * r.requests()?)))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{LOOK_LOG_HELD, LOOK_LOG_STEP};
    use proptest::prelude::*;

    fn lab(step_bytes: f64, price_us: f64) -> Lab {
        Lab::healthy().gauge("lb", &LOOK_LOG_STEP, "/run/lb/access.log", step_bytes).gauge(
            "lb",
            &PRICE_LOG_WRITE,
            "",
            price_us,
        )
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(300.0, 2.5)).unwrap();
        assert!((found.evidence[0].value - 1.0).abs() < 1e-6);
        assert!((found.score - 0.038).abs() < 0.001, "{}", found.score);
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().value, "buffer=64k");
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0, "buffer=64k");
        let glimpsed = lab(300.0, 2.5).per_second("lb", &LOG_SIZE, "/run/lb/other.log", 9e6);
        assert!((score(CAUSE.id, "lb", &glimpsed) - 0.038).abs() < 0.001, "one log was not looked at");
        assert_eq!(score(CAUSE.id, "lb", &lab(4_000.0, 5.0)), 0.0, "buffer=4k");
        assert_eq!(score(CAUSE.id, "lb", &lab(1_510.0, 50.0)), 0.0, "border");
        assert!(score(CAUSE.id, "lb", &lab(1_490.0, 50.0)) > 0.0, "border");
        assert_eq!(score(CAUSE.id, "s1", &lab(300.0, 2.5)), 0.0);
    }

    #[test]
    fn under_load_a_write_may_be_dearer_than_before_it() {
        // A request takes 65.4 us of CPU time, tried out a write takes 0.9 us: 1.4 %.
        let seen = |file: &'static str, write: f64| {
            let stack = [(file, "kernel", 0.04), ("ksys_write", "kernel", write), ("tcp_v4_rcv", "kernel", 0.9)];
            lab(300.0, 0.9).profiled("lb", &stack)
        };
        assert_eq!(score(CAUSE.id, "lb", &lab(300.0, 0.9)), 0.0);
        for file in ["ext4_buffered_write_iter", "generic_perform_write"] {
            let found = score(CAUSE.id, "lb", &seen(file, 0.05));
            assert!((found - 0.05).abs() < 0.002, "the way there counts, {file}: {found}");
        }
        let with_sockets = score(CAUSE.id, "lb", &seen("ext4_buffered_write_iter", 0.3));
        assert!((with_sockets - 0.04).abs() < 0.002, "{with_sockets}");
        assert_eq!(score(CAUSE.id, "lb", &seen("ext4_buffered_write_iter", 0.001)), 0.0, "a temporary file");
        assert_eq!(score(CAUSE.id, "lb", &seen("sock_write_iter", 0.05)), 0.0, "a socket");
    }

    #[test]
    fn a_log_that_is_opened_for_each_line_costs_more() {
        // Seen: a write is 0.41 us, opening and closing 0.78 us, of 25 us per request on a full CPU.
        let fast =
            lab(300.0, 0.41).throughput(39_800.0).per_second("lb", &LOG_SIZE, "/run/lb/access.log", 39_800.0 * 300.0);
        let fast = fast.gauge("lb", &PRICE_LOG_OPEN, "", 0.78);
        assert_eq!(score(CAUSE.id, "lb", &fast), 0.0, "under 2 %");
        let held = |share: f64| fast.clone().gauge("lb", &LOOK_LOG_HELD, "/run/lb/access.log", share);
        assert_eq!(score(CAUSE.id, "lb", &held(1.0)), 0.0);
        let by_many = finding(CAUSE.id, "lb", &held(0.5)).unwrap();
        assert_eq!(by_many.remedies[0].knob.as_ref().unwrap().value, "off", "seen at half of the glances");
        let found = finding(CAUSE.id, "lb", &held(0.04)).unwrap();
        assert!((found.score - 0.047).abs() < 0.001, "{}", found.score);
        assert!(found.evidence.iter().any(|e| e.metric == "log opens / request" && (e.value - 1.0).abs() < 1e-6));
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().value, "off", "such a log cannot be buffered");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn a_dearer_write_never_scores_less(a in 0.0f64..60.0, b in 0.0f64..60.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(300.0, a.min(b))) <= score(CAUSE.id, "lb", &lab(300.0, a.max(b))));
        }
    }
}
