//! # Accept queue full
//!
//! The kernel drops finished handshakes because the server's queue of connections to accept is full.
//!
//! ## What it sees
//! `tcp.listen_overflows` grows within the scored time (per network namespace), not only at its start.
//!
//! ## Why it limits
//! A dropped handshake is tried again after a second (RFC 6298); the request waits that long, while CPUs may be idle.
//! p99 jumps to 1 s.
//!
//! ## Evidence
//! Seconds per second that callers wait for a SYN to be sent again, out of all requests in flight. Callers' SYN
//! retransmits are taken where they were read (one wait may overflow more than once), else the overflows.
//!
//! ## What it is not
//! `syn-queue-full`: other counters. A stalled worker (quota, pause) can fill any queue: then `cpu-quota-throttled`
//! explains more. At full CPUs the mend improves p99 and hardly the throughput; the predicted gain says so.
//!
//! ## Fix
//! Knob `nginx.backlog` and `sysctl.net.core.somaxconn`; the smaller of the two wins. Fewer connections: keepalive.
//!
//! ## References
//! listen(2); Linux Documentation/networking/snmp_counter.rst, ListenOverflows.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, knob, nginx_knob, ruled_out,
};
use crate::facts::{Hop, Reader, SYN_TIMEOUT_S};
use prony_model::metric::{LISTEN_BACKLOG, LISTEN_QUEUE, TCP_LISTEN_OVERFLOWS, TCP_SYN_RETRANSMITS};
use prony_model::{Gap, KnobId, Level, Metric};

pub(super) const CAUSE: Cause = Cause {
    id: "accept-queue-full",
    layer: Layer::Connections,
    title: "accept queue full",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("accept_queue_full.rs"),
};

/// Overflows per second from which it matters.
const OVERFLOWS_PER_S: f64 = 1.0;
/// Its origin.
const ORIGIN: &str = "cited: netdata health.d/tcp_listen.conf warns above 1 per second";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let overflows = hop.summary(&TCP_LISTEN_OVERFLOWS)?;
    if overflows.value < OVERFLOWS_PER_S {
        return ruled_out(&overflows, OVERFLOWS_PER_S, ORIGIN, "the accept queue does not overflow");
    }
    let share = syn_wait_share(hop, &TCP_LISTEN_OVERFLOWS)?;
    let claim = format!("{} drops {:.0} connections per second at its accept queue", hop.name, overflows.value);
    let mut finding = Finding::new(overflows, OVERFLOWS_PER_S, ORIGIN, &claim, share)
        .and(
            hop.fact("listen.queue / listen.backlog", "share", |r| {
                Ok(r.max(&LISTEN_QUEUE)? / r.sum(&LISTEN_BACKLOG)?.max(1.0))
            }),
            "fill of the accept queue, at most",
        )
        .mend("raise the listen backlog of the server", nginx_knob(hop, KnobId::NginxBacklog, "1024"))
        .mend("raise the kernel's cap on backlogs", knob(hop, KnobId::Sysctl("net.core.somaxconn".to_string()), "4096"))
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Removal);
    finding.adds_up = true;
    finding.fires()
}

/// Share of the requests in flight that wait for a SYN to be sent again because of drops counted by `metric` at this
/// hop.
pub(super) fn syn_wait_share(hop: &Hop<'_>, metric: &Metric) -> Result<f64, Gap> {
    let at = hop.at(Level::At)?;
    let drops = at.sum(metric)?;
    let all: f64 = hop.siblings().iter().filter_map(|h| h.at(Level::At).ok()?.sum(metric).ok()).sum();
    let callers = hop.run.stack.callers(hop.name);
    let retried = callers.iter().map(|name| Reader { hop: hop.other(name), trial: at.trial }.sum(&TCP_SYN_RETRANSMITS));
    let waits = match retried.sum::<Result<f64, Gap>>() {
        Ok(retried) if !callers.is_empty() && retried > 0.0 => (retried * drops / all.max(drops)).min(drops),
        Ok(_) | Err(_) => drops,
    };
    Ok((waits * SYN_TIMEOUT_S / at.in_flight()?).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    /// Backlog of 2 at both servers: 37 overflows/s each, 34 SYNs sent again per second, 5,390 requests/s.
    fn lab(overflows: f64) -> Lab {
        Lab::healthy()
            .throughput(5_390.0)
            .per_second("s1", &TCP_LISTEN_OVERFLOWS, "", overflows)
            .per_second("s2", &TCP_LISTEN_OVERFLOWS, "", 37.3)
            .per_second("lb", &TCP_SYN_RETRANSMITS, "", 33.8)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "s1", &lab(37.3)).unwrap();
        assert!((found.score - 16.9 / 64.0).abs() < 1e-6, "half of the waits: {}", found.score);
        assert!(found.gain.unwrap() < 0.05, "the CPU of lb is full anyway");
        assert_eq!(score(CAUSE.id, "s1", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "s1", &lab(0.9)), 0.0);
        assert!(score(CAUSE.id, "s1", &lab(1.1)) > 0.0);
    }

    #[test]
    fn overflows_at_the_start_do_not_count() {
        let ramp_up = Lab::healthy().levels("s1", &TCP_LISTEN_OVERFLOWS, "", [50.0, 0.0, 0.0]);
        assert_eq!(score(CAUSE.id, "s1", &ramp_up), 0.0);
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..200.0, b in 0.0f64..200.0) {
            prop_assert!(score(CAUSE.id, "s1", &lab(a.min(b))) <= score(CAUSE.id, "s1", &lab(a.max(b))) + 1e-9);
        }
    }
}
