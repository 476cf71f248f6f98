//! # Socket buffer limited
//!
//! Senders have data and the path has room, but a buffer at one of the ends is too small.
//!
//! ## What it sees
//! Time in which connections of the host were held by their own full send buffer (sndbuf_limited), or by the receiver's
//! window (rwnd_limited), per second. Where the receiver may hold less than a kernel gives to any new connection (tcp_rmem), it is
//! named itself.
//!
//! ## Why it limits
//! A round trip carries one buffer at most; the rest of the answer waits for the next.
//!
//! ## Evidence
//! Connections that are held on average, of the requests in flight.
//!
//! ## What it is not
//! A receiver that reads late because it is busy: then its CPUs are full, and its window is small for that reason; unless its
//! buffers can hold next to nothing, which makes work of its own, a packet for every few kilobytes. A full link, before which
//! everything fills. A path that loses packets: the congestion window holds then, not a buffer.
//!
//! ## Fix
//! `net.ipv4.tcp_wmem`, `net.ipv4.tcp_rmem`; the server's own buffer settings (nginx `listen ... sndbuf`).
//!
//! ## References
//! Linux tcp_info tcpi_sndbuf_limited, tcpi_rwnd_limited (since 4.9); ip-sysctl.rst tcp_wmem.

use super::bandwidth_bound::{FULL_LINK, fullest_sending};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_of_share, gain_until_full, knob,
    predicted_gain, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use prony_model::metric::{CONN_BUFFER_LIMITED, CONN_WINDOW_LIMITED, TCP_PRUNED, TCP_ZERO_WINDOWS};
use prony_model::{Gap, KnobId, Level, Software};

pub(super) const CAUSE: Cause = Cause {
    id: "socket-buffer-limited",
    layer: Layer::Network,
    title: "socket buffer limited",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("socket_buffer_limited.rs"),
};

/// Share of the requests in flight that must be held. A guess.
const HELD: f64 = 0.15;
/// Origin of the buffers' sizes: what kernels use as the middle and most since 4.20, made four times as large.
const WIDE: &str = "4096 524288 16777216";

/// A receive buffer that may never have more bytes is small, whoever reads from it. Half of what kernels give a new connection at
/// first (tcp(7), tcp_rmem).
const ROOM_MIN: f64 = 65_536.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if let Some(room) = small_room(hop) {
        let held = hop.fact("connections held by its window / requests in flight", "share", |r| {
            Ok((held_by_its_window(r)? / r.in_flight()?).min(1.0))
        });
        if let Some(held) = held.ok().filter(|held| held.value >= HELD) {
            return at_the_receiver(hop, held, room);
        }
    }
    let held = hop.fact("connections held by a buffer / requests in flight", "share", |r| {
        Ok((held_per_s(r)? / r.in_flight()?).min(1.0))
    })?;
    if held.value < HELD {
        return ruled_out(&held, HELD, "guess", "hardly any connection is held by a buffer");
    }
    let at = hop.at(Level::At)?;
    if let Some(fill) = fullest_sending(hop).filter(|fill| fill.value >= FULL_LINK) {
        return ruled_out(&fill, FULL_LINK, "definition", "buffers fill because the link is full");
    }
    let (window, buffer) = (at.sum(&CONN_WINDOW_LIMITED)?, at.sum(&CONN_BUFFER_LIMITED)?);
    let callers = hop.run.stack.callers(hop.name);
    if let Some(small) = callers.iter().find(|name| window > buffer && small_room(&hop.other(name)).is_some()) {
        return ruled_out(&held, HELD, "guess", &format!("connections are held by the small buffers of {small}"));
    }
    let busy: Vec<&str> = hosts(hop).into_iter().filter(|h| cpu_is_full(h).unwrap_or(false)).map(|h| h.name).collect();
    if let Some(busy) = busy.first() {
        let claim = format!("connections are held because a host is busy: the CPUs of {busy} are full");
        return ruled_out(&held, HELD, "guess", &claim);
    }
    let by_window = window > buffer;
    let (place, name) = if by_window { ("the receiver's window", "tcp_rmem") } else { ("its send buffer", "tcp_wmem") };
    let share = held.value;
    let claim = format!("{:.0} connections of {} are held by {place} on average", window + buffer, hop.name);
    let remedy = knob(hop, KnobId::Sysctl(format!("net.ipv4.{name}")), WIDE).filter(|_| !by_window);
    Finding::new(held, HELD, "guess", &claim, share)
        .and(hop.summary(&CONN_BUFFER_LIMITED), "held by a full send buffer")
        .and(hop.summary(&CONN_WINDOW_LIMITED), "held by the receiver's window")
        .and(hop.summary(&TCP_ZERO_WINDOWS), "times that it said to have no room itself, per second")
        .and(hop.summary(&TCP_PRUNED), "receive buffers of its own that overflowed, per second")
        .mend(format!("larger buffers: net.ipv4.{name}, and the server's own settings"), remedy)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(if by_window { Dose::Concurrency } else { removal_where(hop.is_entry() || renews(hop)) })
        .rising(hop.fact("connections held by a buffer", "s/s", held_per_s))
        .fires()
}

/// Its own buffers have no room for what others send to it.
fn at_the_receiver(hop: &Hop<'_>, held: Fact, room: f64) -> Result<Judgement, Gap> {
    let share = held.value;
    let claim = format!(
        "{:.0} % of the requests in flight wait for the window of {}, whose receive buffers have {room:.0} bytes at most",
        share * 100.0,
        hop.name
    );
    let most = Fact::across_levels(hop, "most bytes of a receive buffer (net.ipv4.tcp_rmem)", room);
    let remedy = knob(hop, KnobId::Sysctl("net.ipv4.tcp_rmem".to_string()), WIDE);
    Finding::new(held, HELD, "guess", &claim, share)
        .and(Ok(most), "a new connection should have 131072 at first")
        .and(hop.summary(&TCP_ZERO_WINDOWS), "times that it said to have no room, per second")
        .and(hop.summary(&TCP_PRUNED), "receive buffers of its own that overflowed, per second")
        .mend("larger buffers: net.ipv4.tcp_rmem, and the server's own settings", remedy)
        .gaining(predicted_gain(hop, share))
        .tested_by(removal_where(renews(hop)))
        .rising(hop.fact("connections held by its window", "s/s", held_by_its_window))
        .fires()
}

/// Whether connections that outlive a change of sizes are opened anew for it: its knob reloads an nginx. Clients of the entry come anew in
/// every trial.
fn renews(hop: &Hop<'_>) -> bool {
    hop.host().is_some_and(|host| host.software == Some(Software::Nginx))
}

/// By its remedy, where connections feel it; what is held up so is held up by waiting, which more connections hide.
fn removal_where(felt: bool) -> Dose {
    if felt { Dose::Removal } else { Dose::Concurrency }
}

/// The most that a receive buffer of a host may have, in bytes, where that is little.
fn small_room(hop: &Hop<'_>) -> Option<f64> {
    let sizes = hop.setting("sysctl.net.ipv4.tcp_rmem")?;
    sizes.split_whitespace().nth(2)?.parse().ok().filter(|most| *most < ROOM_MIN)
}

/// Connections on which those that only this hop calls have an answer for it, and it no room: seconds per second.
fn held_by_its_window(r: &Reader<'_>) -> Result<f64, Gap> {
    let hop = r.hop;
    let only_its = hop.callees().into_iter().filter(|callee| hop.run.stack.callers(callee.name) == [hop.name]);
    let accepted = |callee: Hop<'_>| -> Result<f64, Gap> {
        let ports = callee.items(&CONN_WINDOW_LIMITED).into_iter().filter(|item| !item.contains(':'));
        ports.map(|port| r.of(&callee).one(&CONN_WINDOW_LIMITED, port)).sum()
    };
    only_its.map(accepted).sum()
}

/// Connections that are held at any moment: seconds per second.
fn held_per_s(r: &Reader<'_>) -> Result<f64, Gap> {
    Ok(r.sum(&CONN_WINDOW_LIMITED)? + r.sum(&CONN_BUFFER_LIMITED)?)
}

fn hosts<'a>(hop: &Hop<'a>) -> Vec<Hop<'a>> {
    Hop::path(hop.run).into_iter().chain(Hop::generator(hop.run)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, monotonic, score};

    fn lab(held: f64) -> Lab {
        Lab::healthy().throughput(900.0).cpu("0", 0.1, 0.2, 0.1).per_second("lb", &CONN_BUFFER_LIMITED, "80", held)
    }

    #[test]
    fn a_receiver_without_room_is_named_though_its_cpus_are_full() {
        let found = |held: f64, sizes: &str| {
            let lab = Lab::healthy();
            let lab = lab.per_second("s1", &CONN_WINDOW_LIMITED, "80", held).per_second(
                "s2",
                &CONN_WINDOW_LIMITED,
                "80",
                held,
            );
            let run = lab.setting("lb", "sysctl.net.ipv4.tcp_rmem", sizes).run();
            let at = |name| match check(&Hop { run: &run, name }).unwrap() {
                Judgement::Fires(found) => {
                    Some(((found.score * 64.0).round(), found.remedies[0].knob.as_ref().map(|k| k.id.to_string())))
                }
                Judgement::Silent(_) => None,
            };
            (at("lb"), at("s1"))
        };
        let (lb, s1) = found(20.0, "4096 4096 4096");
        assert_eq!((lb, s1), (Some((40.0, Some("sysctl.net.ipv4.tcp_rmem".to_string()))), None));
        assert_eq!(found(20.0, "4096 131072 6291456"), (None, None), "its CPUs are full, and its buffers large");
        assert!(found(20.0, "4096 16384 65535").0.is_some(), "border");
        assert_eq!(found(20.0, "4096 16384 65536").0, None, "border");
        assert_eq!(found(4.7, "4096 4096 4096").0, None, "border: 9.4 of 64");
        assert!(found(4.9, "4096 4096 4096").0.is_some(), "border: 9.8 of 64");
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(40.0)).unwrap();
        assert!((found.score - 40.0 / 64.0).abs() < 1e-6);
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().id.to_string(), "sysctl.net.ipv4.tcp_wmem");
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(9.5)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(9.7)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(40.0).cpu("1", 0.5, 0.4, 0.1)), 0.0, "the readers are busy");
        let window = lab(0.0).per_second("lb", &CONN_WINDOW_LIMITED, "80", 40.0);
        assert!(finding(CAUSE.id, "lb", &window).unwrap().remedies[0].knob.is_none(), "the receiver's to mend");
    }

    #[test]
    fn sizes_are_tried_where_connections_feel_them() {
        let at = |host: &str, software| {
            let mut lab = Lab::healthy().throughput(900.0).cpu("0", 0.1, 0.2, 0.1);
            lab = lab.per_second(host, &CONN_BUFFER_LIMITED, "80", 40.0);
            lab.stack.host.get_mut(host).unwrap().software = software;
            finding(CAUSE.id, host, &lab).unwrap().dose
        };
        assert_eq!(at("lb", None), Dose::Removal, "clients come anew");
        assert_eq!(at("s1", Some(Software::Nginx)), Dose::Removal, "it is reloaded");
        assert_eq!(at("s1", None), Dose::Concurrency, "its proxy keeps connections that do not change");
    }

    monotonic!(lab, 0.0..100.0);
}
