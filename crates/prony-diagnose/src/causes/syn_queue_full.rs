//! # SYN queue full
//!
//! The kernel drops new connection requests because too many handshakes are half open.
//!
//! ## What it sees
//! `tcp.syn_queue_drops` grows within the scored time.
//!
//! ## Why it limits
//! A dropped SYN is sent again after a second (RFC 6298).
//!
//! ## Evidence
//! Seconds per second that clients wait for it, out of all requests in flight.
//!
//! ## What it is not
//! SYN cookies that are sent while the accept rate holds: no request waits then. `accept-queue-full`: it has its own
//! counter.
//!
//! ## Fix
//! Knobs `nginx.backlog` and `sysctl.net.core.somaxconn`: the listen backlog bounds half-open handshakes as well, and
//! `tcp_max_syn_backlog` only those of peers that the kernel does not know. SYN cookies (`net.ipv4.tcp_syncookies=1`).
//!
//! ## References
//! tcp(7); Linux Documentation/networking/snmp_counter.rst, TCPReqQFullDrop; `inet_csk_reqsk_queue_is_full` and
//! `tcp_conn_request` in Linux 6.18.

use super::accept_queue_full::syn_wait_share;
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, knob, nginx_knob, ruled_out,
};
use crate::facts::Hop;
use prony_model::metric::{TCP_SYN_COOKIES, TCP_SYN_QUEUE_DROPS};
use prony_model::{Gap, KnobId};

pub(super) const CAUSE: Cause = Cause {
    id: "syn-queue-full",
    layer: Layer::Connections,
    title: "SYN queue full",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("syn_queue_full.rs"),
};

/// Drops per second from which it matters.
const DROPS_PER_S: f64 = 1.0;
/// Its origin.
const ORIGIN: &str = "cited: netdata health.d/tcp_listen.conf warns above 1 per second";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let drops = hop.summary(&TCP_SYN_QUEUE_DROPS)?;
    if drops.value < DROPS_PER_S {
        return ruled_out(&drops, DROPS_PER_S, ORIGIN, "no SYN is dropped for a full queue");
    }
    let share = syn_wait_share(hop, &TCP_SYN_QUEUE_DROPS)?;
    let claim = format!("{} drops {:.0} SYNs per second", hop.name, drops.value);
    let mut finding = Finding::new(drops, DROPS_PER_S, ORIGIN, &claim, share)
        .and(hop.summary(&TCP_SYN_COOKIES), "SYN cookies sent")
        .mend(
            "raise the listen backlog of the server, which bounds half-open handshakes too",
            nginx_knob(hop, KnobId::NginxBacklog, "1024"),
        )
        .mend(
            "answer with cookies when the queue is full",
            knob(hop, KnobId::Sysctl("net.ipv4.tcp_syncookies".to_string()), "1"),
        )
        .mend("raise the kernel's cap on backlogs", knob(hop, KnobId::Sysctl("net.core.somaxconn".to_string()), "4096"))
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Removal);
    finding.adds_up = true;
    finding.fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, score};
    use proptest::prelude::*;

    fn lab(drops: f64) -> Lab {
        Lab::healthy().per_second("lb", &TCP_SYN_QUEUE_DROPS, "", drops)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(32.0)) - 0.5).abs() < 1e-3);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.9)), 0.0);
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..200.0, b in 0.0f64..200.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
