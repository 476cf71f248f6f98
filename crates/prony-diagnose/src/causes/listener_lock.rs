//! # Listener lock
//!
//! Workers and packet work queue at the lock of one listening socket.
//!
//! ## What it sees
//! The share of the workers' time that goes to kernel locks wanted by `accept` and by the functions that put a new
//! connection into the queue (tracepoints `lock:contention_begin` and `_end`), while connections are opened.
//!
//! ## Why it limits
//! One listening socket has one lock. New connections per second stay the same however many CPUs there are.
//!
//! ## Evidence
//! The share of the workers' time is the score.
//!
//! ## What it is not
//! Kept connections: then nobody accepts. A full accept queue, which is `accept-queue-full`: there the workers are too slow
//! to accept, here they are in each other's way.
//!
//! ## Fix
//! `listen ... reuseport`: a listening socket for each worker. prony has no knob for it yet. A worker that is blocked then
//! holds back the connections of its own socket.
//!
//! ## References
//! nginx blog, "Socket Sharding"; Linux `inet_csk_accept`, `inet_csk_complete_hashdance`.

use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, does_not_apply, predicted_gain, ruled_out};
use crate::facts::Hop;
use prony_model::Gap;
use prony_model::metric::{LOCK_WAIT, TCP_PASSIVE_OPENS};

pub(super) const CAUSE: Cause = Cause {
    id: "listener-lock",
    layer: Layer::Connections,
    title: "lock of the listening socket",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("listener_lock.rs"),
};

/// Functions that want the lock of a listening socket, or of its queue.
const SITES: &[&str] = &[
    "inet_csk_accept",
    "inet_accept",
    "inet_csk_complete_hashdance",
    "inet_csk_reqsk_queue_add",
    "inet_csk_reqsk_queue_hash_add",
    "tcp_conn_request",
    "tcp_check_req",
    "lock_sock_nested",
    "__lock_sock",
];
/// Accepted connections per request below which the listening socket is hardly used. A guess, as in
/// `client-connections-short`.
const OPENS_PER_REQUEST: f64 = 0.2;
/// Share of the workers' time from which the lock matters. A guess, as the 2 % of `access-log-lock`, doubled because
/// `lock_sock_nested` is wanted by other sockets too.
const WAIT_SHARE: f64 = 0.04;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if hop.workers().len() < 2 {
        return does_not_apply(hop, "has one worker, which nobody stands in the way of");
    }
    let opens = hop.per_request(&TCP_PASSIVE_OPENS)?;
    if opens.value < OPENS_PER_REQUEST {
        return ruled_out(&opens, OPENS_PER_REQUEST, "guess", "clients keep their connections");
    }
    if hop.items(&LOCK_WAIT).is_empty() {
        return Err(Gap::new(LOCK_WAIT.name, hop.name, "waits for kernel locks were not watched"));
    }
    let waiting = SITES.iter().filter_map(|site| hop.look(&LOCK_WAIT, site).ok()).sum::<f64>().min(1.0);
    let wait = hop.fact("lock.wait of the listening socket", "share", |_| Ok(waiting))?;
    if wait.value < WAIT_SHARE {
        return ruled_out(&wait, WAIT_SHARE, "guess", "workers do not wait for the listening socket");
    }
    let claim = format!(
        "workers of {} spend {:.0} % of their time at the lock of a listening socket",
        hop.name,
        waiting * 100.0
    );
    Finding::new(wait, WAIT_SHARE, "guess", &claim, waiting)
        .and(Ok(opens), "so many connections are accepted for each request")
        .mend("a listening socket for each worker: listen ... reuseport", None)
        .gaining(predicted_gain(hop, waiting))
        .rising(hop.summary(&TCP_PASSIVE_OPENS))
        .tested_by(Dose::Untestable("no knob of prony shares out a listening socket"))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, score};
    use proptest::prelude::*;

    fn lab(wait: f64, opens: f64) -> Lab {
        Lab::healthy().worker("lb", "102", 0.3).gauge("lb", &LOCK_WAIT, "inet_csk_accept", wait).per_second(
            "lb",
            &TCP_PASSIVE_OPENS,
            "",
            15_300.0 * opens,
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.3, 1.0)) - 0.3).abs() < 1e-9);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.3, 0.1)), 0.0, "connections are kept");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.039, 1.0)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.041, 1.0)) > 0.0);
        let alone = Lab::healthy().gauge("lb", &LOCK_WAIT, "inet_csk_accept", 0.3);
        assert_eq!(score(CAUSE.id, "lb", &alone), 0.0, "one worker");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b), 1.0)) <= score(CAUSE.id, "lb", &lab(a.max(b), 1.0)));
        }
    }
}
