//! The connections of one thread: opened, sent on, heard, closed.
//!
//! It decides nothing about requests: bytes that came go to the protocol, and what they answer to the requests. Invariant: a
//! connection that ends takes everything with it that was on its way, and each such request is counted as failed.

use super::Worker;
use super::requests::Arrival;
use crate::pacer::Pacer;
use crate::protocol::{After, Protocol};
use crate::slot::{CallState, Phase};
use crate::sys::{self, Socket};
use crate::tally::Failure;
use crate::transport::{Event, Happened, Transport};
use crate::wire::{Wire, failure_of};
use std::io;

/// How long a connection rests after it could not be made, so that a dead server does not cost a whole CPU. A guess.
const REST_NS: u64 = 50_000_000;
/// Reads of one connection before others have their turn, so that a sender that never stops holds up nobody. A guess: 4 MiB.
const READS_MAX: u32 = 64;
/// Memory for bytes to send that a connection keeps when it has none. A guess: a usual request fits.
const OUT_KEPT_BYTES: usize = 2 * 1024;
/// What leaves in one packet whatever the path: the least that every host of IPv4 must take (RFC 9293, 3.7.1).
const SEGMENT_BYTES: usize = 536;

impl<P: Pacer, R: Protocol, T: Transport> Worker<'_, P, R, T> {
    /// Begins the handshake. The time it takes belongs to the request that needs it.
    pub(super) fn connect(&mut self, index: usize) {
        let number = self.share.first as usize + index;
        let route = self.route;
        let endpoint = &route.endpoints[number % route.endpoints.len()];
        // One request that leaves in one packet waits for no other: Nagle's delay is not worth a system call.
        let alone = self.route.requests_per_connection == 1 && route.tls.is_none();
        let at_once = alone && self.slots[index].out.len() <= SEGMENT_BYTES;
        let made = Socket::open(endpoint).and_then(|socket| {
            if !at_once {
                socket.hurry();
            }
            if !route.sources.is_empty() {
                // Not the same pairs again and again, should there be as many sources as endpoints.
                let source = number / route.endpoints.len() + self.slots[index].generation as usize;
                socket.come_from(route.sources[source % route.sources.len()])?;
            }
            socket.connect(endpoint)?;
            Ok(socket)
        });
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.phase = Phase::Connecting;
        slot.may_connect = false;
        let token = slot.token(index);
        let watched = made.and_then(|socket| {
            let mut sent = 0;
            if at_once && self.connects_at_once {
                match socket.send(&slot.out) {
                    Ok(count) => sent = count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.connects_at_once = false,
                    Err(error) => return Err(error),
                }
            }
            self.transport.watch(&socket, token, sent < slot.out.len())?;
            slot.wire = Some(match &route.tls {
                None => Wire::plain(socket),
                Some(tls) => Wire::secured(socket, tls)?,
            });
            Ok(sent)
        });
        match watched {
            Ok(0) => {}
            Ok(sent) => {
                self.opened(index);
                self.sent(index, sent);
            }
            Err(error) => self.kill(index, connect_failure(&error)),
        }
    }

    /// Sends what waits, at once or before the next wait.
    #[inline]
    pub(super) fn flush(&mut self, index: usize) {
        if !T::GATHERS {
            return self.send(index);
        }
        let slot = &mut self.slots[index];
        if slot.has_unsent() && !slot.gathered {
            slot.gathered = true;
            self.gathered.push(index as u32);
        }
    }

    #[inline]
    pub(super) fn send_gathered(&mut self) {
        for at in 0..self.gathered.len() {
            let index = self.gathered[at] as usize;
            self.slots[index].gathered = false;
            self.send(index);
        }
        self.gathered.clear();
    }

    /// Sends as much as the connection takes.
    #[inline]
    fn send(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let token = slot.token(index);
        let Some(wire) = &mut slot.wire else { return };
        if slot.phase == Phase::Connecting || !(slot.sent < slot.out.len() || wire.has_unsent()) {
            return;
        }
        match self.transport.send(wire, token, &slot.out[slot.sent..]) {
            Ok(count) => self.sent(index, count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.kill(index, failure_of(&error, Failure::Write)),
        }
    }

    /// So many bytes of a slot have left.
    #[inline]
    pub(super) fn sent(&mut self, index: usize, count: usize) {
        let slot = &mut self.slots[index];
        slot.sent += count;
        self.tally.bytes_out += if self.counting { count as u64 } else { 0 };
        if slot.sent == slot.out.len() {
            slot.sent = 0;
            slot.out.clear();
            if slot.out.capacity() > OUT_KEPT_BYTES {
                slot.out.shrink_to(OUT_KEPT_BYTES);
            }
        }
    }

    #[inline]
    pub(super) fn react(&mut self, event: &Event) {
        let index = (event.token & 0xffff_ffff) as usize;
        let slot = &mut self.slots[index];
        if slot.token(index) != event.token || slot.wire.is_none() {
            return;
        }
        // Whatever the server says when it is about to close, nothing is expected from this connection any more.
        let listening = slot.phase != Phase::Closing;
        match event.happened {
            Happened::Ready(flags) => self.ready(index, flags),
            Happened::Received(count) if listening => {
                self.heard(index, count);
                self.flush(index);
            }
            Happened::Received(_) => {}
            Happened::Unsent(count) => {
                slot.out.splice(..0, self.transport.unsent().iter().copied());
                self.tally.bytes_out -= if self.counting { (count as u64).min(self.tally.bytes_out) } else { 0 };
            }
            Happened::Failed(how) if listening => self.kill(index, how),
            Happened::Failed(_) => self.close(index),
        }
    }

    #[inline]
    pub(super) fn ready(&mut self, index: usize, flags: u32) {
        if self.slots[index].phase == Phase::Connecting {
            self.finish_connect(index, flags);
        }
        match self.slots[index].phase {
            Phase::Open | Phase::Draining => {
                if flags & sys::READABLE != 0 {
                    self.receive(index, flags & sys::HUNG_UP != 0);
                }
                self.flush(index);
            }
            Phase::Closing if flags & sys::HUNG_UP != 0 => self.close(index),
            Phase::Closing | Phase::Closed | Phase::Connecting | Phase::Resting => {}
        }
    }

    pub(super) fn finish_connect(&mut self, index: usize, flags: u32) {
        let slot = &mut self.slots[index];
        let Some(wire) = &mut slot.wire else { return };
        if flags & sys::FAILED != 0 {
            let error = wire.socket().failure();
            return self.kill(index, error.map_or(Failure::Connect, |e| connect_failure(&e)));
        }
        if flags & sys::WRITABLE == 0 {
            return;
        }
        let connected = wire.connected();
        self.opened(index);
        if let Err(error) = connected {
            self.kill(index, failure_of(&error, Failure::Tls));
        }
    }

    /// A connection is made.
    pub(super) fn opened(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.phase = Phase::Open;
        self.transport.opened(slot.token(index));
        self.tally.connections_opened += u64::from(self.counting);
    }

    /// Receives until the wire is empty, and handles the answers.
    #[inline]
    pub(super) fn receive(&mut self, index: usize, hung_up: bool) {
        for _ in 0..READS_MAX {
            let slot = &mut self.slots[index];
            let Some(wire) = &mut slot.wire else { return };
            let received = match self.transport.receive(wire) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.kill(index, failure_of(&error, Failure::Read)),
            };
            if received.count == 0 {
                return self.end_of_stream(index);
            }
            self.heard(index, received.count);
            if hung_up && self.slots[index].phase == Phase::Closing {
                return self.close(index);
            }
            // A read that does not fill the buffer emptied the socket (epoll(7), edge-triggered); only when the server has
            // hung up is there more to learn: the end itself.
            if received.drained && !hung_up {
                return;
            }
        }
        // There is more. An edge-triggered set tells of it again when the socket is watched anew.
        let slot = &self.slots[index];
        if let Some(wire) = &slot.wire
            && self.transport.watch_again(wire.socket(), slot.token(index)).is_err()
        {
            self.kill(index, Failure::Read);
        }
    }

    /// The server has closed. What it owes is lost, unless that is how an answer ends.
    pub(super) fn end_of_stream(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        self.protocol.end(&mut slot.link, &mut self.answers);
        slot.phase = Phase::Draining;
        if !self.answers.is_empty() {
            let now = sys::clock_ns();
            self.settle(index, Arrival { at: now, seen: now }, After::Draining);
        }
        let slot = &self.slots[index];
        if slot.in_flight > 0 {
            self.kill(index, Failure::Read);
        } else if slot.phase == Phase::Draining {
            self.close(index);
        }
    }

    /// Closes a connection that carries nothing; the next call opens a new one.
    pub(super) fn close(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(wire) = slot.wire.take() {
            self.sockets.ending(wire.socket());
            self.transport.forget(slot.token(index));
        }
        slot.phase = Phase::Closed;
        self.unpark(index);
    }

    /// Ends a connection with everything on it.
    pub(super) fn kill(&mut self, index: usize, how: Failure) {
        let now = sys::clock_ns();
        self.answers.clear();
        let slot = &mut self.slots[index];
        self.transport.forget(slot.token(index));
        slot.wire = None;
        slot.in_flight = 0;
        let rests = matches!(how, Failure::Connect | Failure::NoLocalPort | Failure::NoDescriptor | Failure::Tls);
        slot.phase = Phase::Closed;
        if rests {
            let until = self.turn_to_connect(now + REST_NS);
            let slot = &mut self.slots[index];
            (slot.phase, slot.until, slot.may_connect) = (Phase::Resting, until, true);
        }
        for number in index * self.depth..(index + 1) * self.depth {
            let call = &mut self.calls[number];
            if call.state == CallState::InFlight {
                call.state = CallState::Free;
                self.tally.failed(call.started, now, how);
                self.in_flight -= 1;
                self.source.failed(number as u32, self.share.counted.holds(now));
                self.free_or_park(number as u32);
            }
        }
        if !rests {
            self.unpark(index);
        }
    }
}

/// Which failure an error of connect() is.
fn connect_failure(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => Failure::NoLocalPort,
        Some(libc::EMFILE | libc::ENFILE) => Failure::NoDescriptor,
        _ => Failure::Connect,
    }
}
