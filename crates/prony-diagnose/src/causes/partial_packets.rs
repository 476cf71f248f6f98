//! # Partial packets
//!
//! Answers leave in more packets than they need: head and body apart, or many small writes.
//!
//! ## What it sees
//! Data segments sent, less those that the messages and their bytes need, per request.
//!
//! ## Why it limits
//! Each segment costs a pass through the network stack at both ends.
//!
//! ## Evidence
//! Share of the segments that need not be, times the share of packet work in the capacity of the CPUs.
//!
//! ## What it is not
//! Large answers, in which one segment more is little. Segments that are sent again: `packet-loss`. A database that is
//! asked several questions for one request answers each: `chatty-queries`.
//!
//! ## Fix
//! `tcp_nopush on` (knob `nginx.tcp_nopush`) with `sendfile on`, one write for head and body, larger output buffers.
//!
//! ## References
//! nginx: ngx_http_core_module tcp_nopush; F3 T4 of the field cases gained 6.6 % from it.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, nginx_knob, predicted_gain, ruled_out, work_share};
use crate::facts::{Hop, Reader};
use crate::sessions::{keeps_data, stores_of};
use prony_model::metric::{
    CONN_OUT_SENT, IF_TX_BYTES, IF_TX_PACKETS, TCP_ACTIVE_OPENS, TCP_ORIGINAL_SENT, TCP_PASSIVE_OPENS,
};
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "partial-packets",
    layer: Layer::Network,
    title: "partial packets",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("partial_packets.rs"),
};

/// Needless segments per request from which it matters. A guess: one is head and body apart.
const NEEDLESS: f64 = 0.7;
/// Share of the segments that must be needless. A guess: of large answers one more is little.
const NEEDLESS_SHARE: f64 = 0.3;
/// Payload of a full segment on Ethernet with time stamps.
const SEGMENT_BYTES: f64 = 1_448.0;
/// Bytes of headers of a packet: Ethernet, IP, TCP with time stamps.
const HEADER_BYTES: f64 = 66.0;
/// Share of system time that goes by packets and not by bytes or requests. A guess.
const PACKET_PART_OF_SYSTEM: f64 = 0.3;
/// Share of the limit from which it matters. A guess.
const SHARE_MIN: f64 = 0.05;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let needless = hop.fact("data segments beyond need / request", "", needless)?;
    if needless.value < NEEDLESS {
        return ruled_out(&needless, NEEDLESS, "guess", "messages leave in as few segments as they need");
    }
    let at = hop.at(Level::At)?;
    let cpu = at.cpu()?;
    // A segment sent is followed by an acknowledgement received, so packets go both ways.
    let packets_per_request = (at.packets()? / at.requests()?).max(2.0 * needless.value);
    let packet_us = (cpu.interrupts + PACKET_PART_OF_SYSTEM * cpu.system) * 1e6 / at.requests()?;
    let share = work_share(hop, packet_us * needless.value / packets_per_request)?;
    let sent = at.sum(&TCP_ORIGINAL_SENT)? / at.requests()?;
    if share < SHARE_MIN || needless.value < NEEDLESS_SHARE * sent {
        return ruled_out(&needless, NEEDLESS, "guess", "needless segments cost little of what limits");
    }
    let claim = format!("{} sends {:.1} segments per request more than its messages need", hop.name, needless.value);
    Finding::new(needless, NEEDLESS, "guess", &claim, share)
        .and(
            hop.fact("tcp.original_sent / request", "", |r| Ok(r.sum(&TCP_ORIGINAL_SENT)? / r.requests()?)),
            "data segments per request",
        )
        .and(
            hop.fact("bytes sent / request", "B", |r| Ok(r.on_links(&IF_TX_BYTES)? / r.requests()?)),
            "bytes that it sends per request",
        )
        .mend(
            "send head and body together: tcp_nopush on with sendfile on, or one write",
            nginx_knob(hop, KnobId::NginxDirective(NginxDirective::TcpNopush), "on"),
        )
        .gaining(predicted_gain(hop, share))
        .rising(hop.summary(&TCP_ORIGINAL_SENT))
        .fires()
}

/// Messages that a hop sends for each request: its answer, or, of a store, one for each question that it is asked; what it passes on,
/// and each question that it asks a store. Questions are taken as they were sent, a segment each.
fn messages(r: &Reader<'_>) -> Result<f64, Gap> {
    let questions =
        |caller: &Reader<'_>, store: &Hop<'_>| Ok::<_, Gap>(caller.towards(&CONN_OUT_SENT, store)? / r.requests()?);
    let answers = match keeps_data(&r.hop) {
        true => {
            let callers = r.hop.run.stack.callers(r.hop.name);
            let asked = callers.into_iter().map(|caller| questions(&r.of(&r.hop.other(caller)), &r.hop));
            asked.sum::<Result<f64, Gap>>()?
        }
        false => 1.0,
    };
    let stores = stores_of(&r.hop);
    let passes_on = f64::from(u8::from(r.hop.callees().len() > stores.len()));
    let asked: f64 = stores.iter().map(|store| questions(r, store)).sum::<Result<f64, Gap>>()?;
    Ok(answers + passes_on + asked)
}

/// Segments per request, less one for each message and for each full segment of its bytes; and one more for a connection that begins
/// or ends with something to say.
fn needless(r: &Reader<'_>) -> Result<f64, Gap> {
    let requests = r.requests()?;
    let sent = r.sum(&TCP_ORIGINAL_SENT)? / requests;
    let opens = (r.sum(&TCP_ACTIVE_OPENS).unwrap_or(0.0) + r.sum(&TCP_PASSIVE_OPENS).unwrap_or(0.0)) / requests;
    // A packet as its device counts it: segments that the device splits (GSO) share their headers there, in packets and in bytes.
    let headers = HEADER_BYTES * r.on_links(&IF_TX_PACKETS)?;
    let payload = ((r.on_links(&IF_TX_BYTES)? - headers) / requests).max(0.0);
    // The last segment of a message is the message's own.
    let full = (payload / SEGMENT_BYTES).floor();
    Ok((sent - messages(r)? - opens - full).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    /// 1,232 bytes per answer, with so many segments of data per request; lb also sends the request on.
    fn lab(segments: f64) -> Lab {
        Lab::healthy().per_second("lb", &TCP_ORIGINAL_SENT, "", 15_300.0 * segments).per_second(
            "lb",
            &IF_TX_PACKETS,
            "eth0",
            15_300.0 * (segments + 2.0),
        )
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(4.0)) - 0.08).abs() < 0.05, "{}", score(CAUSE.id, "lb", &lab(4.0)));
        assert!(score(CAUSE.id, "lb", &lab(4.0)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(2.6)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(4.0).cpu("0", 0.05, 0.05, 0.02)), 0.0, "room for them");
    }

    #[test]
    fn an_answer_a_little_longer_than_a_segment_needs_two() {
        // 1,472 bytes leave as one packet that the device splits, with the headers counted once; the proxy sends on requests of 100 bytes.
        let needless = |answer_bytes: f64, packets: f64| {
            let of_lb =
                |lab: Lab, metric, per_request: f64| lab.per_second("lb", metric, "eth0", 15_300.0 * per_request);
            let lab = of_lb(lab(3.0), &IF_TX_PACKETS, packets + 1.0);
            let run = of_lb(lab, &IF_TX_BYTES, answer_bytes + 100.0 + 66.0 * (packets + 1.0)).run();
            needless(&Hop { run: &run, name: "lb" }.at(Level::At).unwrap()).unwrap()
        };
        assert_eq!(needless(1_472.0, 1.0), 0.0);
        assert!((needless(1_200.0, 2.0) - 1.0).abs() < 0.01, "head and body apart");
    }

    #[test]
    fn each_question_to_a_store_has_its_answer() {
        let asked = |questions: f64, segments: f64| {
            let lab = Lab::chain()
                .per_second("db", &IF_TX_BYTES, "eth0", 9_000.0)
                .per_second("db", &IF_TX_PACKETS, "eth0", 2_000.0 * segments)
                .statements(2_000.0 * questions)
                .per_second("db", &TCP_ORIGINAL_SENT, "", 2_000.0 * segments);
            let run = lab.run();
            let db = Hop { run: &run, name: "db" };
            needless(&db.at(Level::At).unwrap()).unwrap()
        };
        assert_eq!(asked(4.0, 4.0), 0.0);
        assert!((asked(4.0, 7.0) - 3.0).abs() < 1e-9);
        let unseen =
            Lab::chain().without("app", &CONN_OUT_SENT).per_second("db", &TCP_ORIGINAL_SENT, "", 8_000.0).run();
        assert!(
            needless(&Hop { run: &unseen, name: "db" }.at(Level::At).unwrap()).is_err(),
            "questions that were not counted"
        );
    }

    monotonic!(lab, 0.0..8.0);
}
