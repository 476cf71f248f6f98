//! Probes: small datagrams at an even pace, each stamped when it is sent, when it arrives and when it is back.
//!
//! The sender does not wait for a probe before it sends the next, so delay costs no probes and loss is counted in both
//! directions. Invariant: a probe that comes back twice is counted once.

use super::{TICK, Until, is_pause};
use crate::sys::{self, Epoll, NO_EVENT};
use prony_model::network::FlowEnd;
use prony_stats::Histogram;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Bytes of a probe: the smallest payload of the packet rates.
const BYTES: usize = 64;
/// How long the sender waits for the last ones. A guess: longer than any path within a country, and the queues of a lab.
const WAIT_NS: u64 = 1_000_000_000;
/// A receiver to which nothing came for so long has seen the end.
const IDLE: Duration = Duration::from_millis(1500);

/// Where the numbers of a probe stand: its own, the times in nanoseconds, and the number of its arrival.
const NUMBER: usize = 0;
const SENT_NS: usize = 8;
const ARRIVED_NS: usize = 16;
const ARRIVAL: usize = 24;

type Probe = [u8; BYTES];

fn at(probe: &Probe, place: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&probe[place..place + 8]);
    u64::from_be_bytes(bytes)
}

fn put(probe: &mut Probe, place: usize, value: u64) {
    probe[place..place + 8].copy_from_slice(&value.to_be_bytes());
}

/// What came back.
struct Returned {
    seen: Vec<bool>,
    newest_arrival: u64,
    returned: u64,
    overtaken: u64,
    round_trip: Histogram,
    there: Histogram,
    back: Histogram,
}

impl Returned {
    fn take(&mut self, probe: &Probe) {
        let now_ns = sys::clock_ns();
        let number = at(probe, NUMBER) as usize;
        match self.seen.get_mut(number) {
            Some(seen) if !*seen => *seen = true,
            // Not sent yet, or back for the second time.
            Some(_) | None => return,
        }
        let (sent_ns, arrived_ns, arrival) = (at(probe, SENT_NS), at(probe, ARRIVED_NS), at(probe, ARRIVAL));
        self.returned += 1;
        self.overtaken += u64::from(arrival < self.newest_arrival);
        self.newest_arrival = self.newest_arrival.max(arrival);
        self.round_trip.record_ns(now_ns.saturating_sub(sent_ns));
        // Clocks of two machines may give times below 0; those mean nothing, and are left out.
        if let (Some(there_ns), Some(back_ns)) = (arrived_ns.checked_sub(sent_ns), now_ns.checked_sub(arrived_ns)) {
            self.there.record_ns(there_ns);
            self.back.record_ns(back_ns);
        }
    }
}

/// Sends probes until the time is over, and waits for the last ones.
pub(super) fn send(socket: &UdpSocket, epoll: &Epoll, per_s: u32, until: &Until<'_>) -> io::Result<FlowEnd> {
    socket.set_nonblocking(true)?;
    epoll.watch_listener(socket, 0)?;
    sys::precise_timers();
    let new = Histogram::new;
    let mut came = Returned {
        seen: Vec::new(),
        newest_arrival: 0,
        returned: 0,
        overtaken: 0,
        round_trip: new(),
        there: new(),
        back: new(),
    };
    let every_ns = 1_000_000_000 / u64::from(per_s.max(1));
    let (mut next_ns, mut last_ns) = (sys::clock_ns(), None);
    let (mut events, mut probe) = ([NO_EVENT; 1], [0; BYTES]);
    loop {
        let now_ns = sys::clock_ns();
        let sends = last_ns.is_none() && !until.is_over();
        if !sends && last_ns.is_none() {
            last_ns = Some(now_ns);
        }
        let all_back = came.returned == came.seen.len() as u64;
        if last_ns.is_some_and(|last_ns| all_back || now_ns > last_ns + WAIT_NS) {
            break;
        }
        if sends && now_ns >= next_ns {
            put(&mut probe, NUMBER, came.seen.len() as u64);
            put(&mut probe, SENT_NS, sys::clock_ns());
            // A full queue of the host itself is a loss of the path like any other, so it counts as sent.
            let _refused = socket.send(&probe);
            came.seen.push(false);
            // After a pause of the sender there is no burst.
            next_ns = (next_ns + every_ns).max(now_ns);
        }
        let mut back: Probe = [0; BYTES];
        while socket.recv(&mut back).is_ok_and(|bytes| bytes == BYTES) {
            came.take(&back);
        }
        let wake_ns = last_ns.map_or(next_ns, |last_ns| last_ns + WAIT_NS);
        epoll.wait(&mut events, wake_ns.saturating_sub(sys::clock_ns()))?;
    }
    Ok(FlowEnd {
        sent: Some(came.seen.len() as u64),
        returned: Some(came.returned),
        overtaken: Some(came.overtaken),
        round_trip: Some(came.round_trip.to_latency()),
        there: Some(came.there.to_latency()),
        back: Some(came.back.to_latency()),
        ..FlowEnd::default()
    })
}

/// Sends probes back until none come any more, or the time is over; none when none came.
pub(super) fn answer(socket: &UdpSocket, until: &Until<'_>) -> io::Result<Option<FlowEnd>> {
    socket.set_read_timeout(Some(TICK))?;
    let mut probe: Probe = [0; BYTES];
    let (mut newest, mut received, mut overtaken) = (0, 0, 0);
    let mut last: Option<Instant> = None;
    while !until.is_over() && last.is_none_or(|last| last.elapsed() < IDLE) {
        match socket.recv_from(&mut probe) {
            Ok((BYTES, from)) => {
                let number = at(&probe, NUMBER);
                overtaken += u64::from(number < newest);
                newest = newest.max(number);
                put(&mut probe, ARRIVED_NS, sys::clock_ns());
                put(&mut probe, ARRIVAL, received);
                received += 1;
                last = Some(Instant::now());
                // A full queue on the way back is a loss of the path like any other.
                let _refused = socket.send_to(&probe, from);
            }
            Ok(_) => {} // Not one of ours.
            Err(e) if is_pause(&e) => {}
            Err(e) => return Err(e),
        }
    }
    let end = FlowEnd { received: Some(received), overtaken: Some(overtaken), ..FlowEnd::default() };
    Ok(last.map(|_| end))
}
