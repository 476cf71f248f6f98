//! # Delayed ACK stall
//!
//! A sender keeps a small rest back until what it sent is acknowledged (Nagle), and the receiver delays that
//! acknowledgement by 40 ms.
//!
//! ## What it sees
//! Connections that hold back less than a full segment while something is under way; delayed acknowledgements.
//!
//! ## Why it limits
//! Each such answer takes 40 ms more, while nobody works.
//!
//! ## Evidence
//! Connections that are held so at any moment, of the requests in flight.
//!
//! ## What it is not
//! A full congestion window or a full buffer: then more than a small rest waits. nginx and HAProxy set TCP_NODELAY, so
//! look at applications and database drivers.
//!
//! ## Fix
//! TCP_NODELAY at the sender, or one write instead of two.
//!
//! ## References
//! RFC 896, RFC 1122 section 4.2.3.2; Linux TCP_DELACK_MIN (40 ms).

use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, ruled_out};
use crate::facts::Hop;
use prony_model::Gap;
use prony_model::metric::{CONN_HELD, TCP_DELAYED_ACKS};

pub(super) const CAUSE: Cause = Cause {
    id: "delayed-ack-stall",
    layer: Layer::Network,
    title: "delayed ACK stall",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("delayed_ack_stall.rs"),
};

/// Share of the requests in flight that must be held. A guess: seen for a moment of 20 us only, a healthy rest is one
/// in a hundred.
const HELD: f64 = 0.1;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let held =
        hop.fact("conn.held / requests in flight", "share", |r| Ok((r.sum(&CONN_HELD)? / r.in_flight()?).min(1.0)))?;
    if held.value < HELD {
        return ruled_out(&held, HELD, "guess", "no connection holds a small rest back");
    }
    let share = held.value;
    let claim = format!(
        "{:.0} % of the requests in flight wait at {} for an acknowledgement before the rest is sent",
        share * 100.0,
        hop.name
    );
    let mut finding = Finding::new(held, HELD, "guess", &claim, share)
        .and(hop.fact(CONN_HELD.name, "", |r| r.sum(&CONN_HELD)), "connections that are held");
    for other in Hop::path(hop.run).into_iter().chain(Hop::generator(hop.run)).filter(|h| h.name != hop.name) {
        finding = finding.and(other.summary(&TCP_DELAYED_ACKS), "acknowledgements that this host delays, per second");
    }
    finding
        .mend("set TCP_NODELAY at the sender, or send head and body in one write", None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Concurrency)
        .rising(hop.fact(CONN_HELD.name, "", |r| r.sum(&CONN_HELD)))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(held: f64) -> Lab {
        Lab::healthy().throughput(1_500.0).cpu("0", 0.05, 0.1, 0.05).levels(
            "s1",
            &CONN_HELD,
            "80",
            [held / 2.0, held, held],
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "s1", &lab(50.0)) - 50.0 / 64.0).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "s1", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "s1", &lab(6.3)), 0.0);
        assert!(score(CAUSE.id, "s1", &lab(6.5)) > 0.0);
    }

    monotonic!(lab, 0.0..100.0, "s1");
}
