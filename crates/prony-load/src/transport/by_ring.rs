//! By io_uring: what a thread sends leaves with its next wait, and the same system call brings what came.
//!
//! Sockets are registered with the ring; each receives from the moment it is open until it ends (multishot), into buffers
//! that the thread has for all its connections. A send is tried once: what does not fit at once is told and given back. Only
//! for wires without TLS. Invariant: a connection is read by a system call of its own only while the ring does not read it.

use super::{BUFFER_BYTES, Event, Happened, Transport};
use crate::sys::ring::{About, Done, Ring};
use crate::sys::{HUNG_UP, READABLE, Socket, WRITABLE};
use crate::tally::Failure;
use crate::wire::{Received, Wire};
use prony_model::load;
use std::io::{self, ErrorKind};

/// See the module.
pub struct ByRing {
    ring: Ring,
    places: Vec<Place>,
    /// The buffer of the ring that the last event showed; given back at the next one.
    lent: Option<u16>,
    /// What was received without the ring.
    buffer: Vec<u8>,
    /// What did not leave, see [`Happened::Unsent`].
    unsent: Vec<u8>,
}

/// What the ring does for one connection.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The connection; [`NOBODY`]: none.
    token: u64,
    /// Whether the ring receives for it.
    open: bool,
    /// Whether there was no room to send, and it waits for that.
    full: bool,
}

/// Above every token: numbers of connections stay below 2^30.
const NOBODY: u64 = u64::MAX;

impl ByRing {
    fn place(&mut self, token: u64) -> &mut Place {
        &mut self.places[number(token) as usize]
    }

    /// Waits for room, unless it does so already.
    #[cold]
    fn await_room(&mut self, token: u64) {
        let place = self.place(token);
        if !place.full {
            place.full = true;
            self.ring.watch(number(token), token);
        }
    }

    #[inline]
    fn give_back(&mut self) {
        if let Some(buffer) = self.lent.take() {
            self.ring.provide(buffer);
        }
    }

    #[inline]
    fn received(&mut self, token: u64, done: &Done) -> Happened {
        if !done.more && (done.result > 0 || -done.result == libc::ENOBUFS) {
            self.ring.receive(number(token), token);
        }
        match done.result {
            // The end itself, and what found no buffer, is left to a system call: the ring does not read meanwhile.
            0 => Happened::Ready(READABLE | HUNG_UP),
            1.. => Happened::Received(done.result as usize),
            error if -error == libc::ENOBUFS => Happened::Ready(READABLE),
            _ => Happened::Failed(Failure::Read),
        }
    }

    #[cold]
    fn not_sent(&mut self, token: u64, done: &Done) -> Happened {
        if done.result < 0 && -done.result != libc::EAGAIN {
            return Happened::Failed(Failure::Write);
        }
        self.unsent.clear();
        self.unsent.extend_from_slice(&self.ring.sent(token)[done.result.max(0) as usize..]);
        self.await_room(token);
        Happened::Unsent(self.unsent.len())
    }

    fn ready(&mut self, token: u64, done: &Done) -> Happened {
        let place = self.place(token);
        place.full = false;
        // What else the flags say of an open connection comes with what it receives, in order.
        let of_interest = if place.open { WRITABLE } else { u32::MAX };
        Happened::Ready(done.result.max(0) as u32 & of_interest)
    }
}

#[inline]
fn number(token: u64) -> u32 {
    token as u32
}

impl Transport for ByRing {
    const NAME: load::Transport = load::Transport::IoUring;
    const GATHERS: bool = true;

    /// Errors: a kernel before Linux 6.1, one that refuses io_uring (`kernel.io_uring_disabled`, seccomp), or more
    /// connections than a ring has room for.
    fn new(connections: u32) -> io::Result<Self> {
        let places = vec![Place { token: NOBODY, open: false, full: false }; connections as usize];
        let (buffer, unsent) = (vec![0; BUFFER_BYTES], Vec::new());
        Ok(Self { ring: Ring::new(connections)?, places, lent: None, buffer, unsent })
    }

    fn watch(&mut self, socket: &Socket, token: u64, _sends: bool) -> io::Result<()> {
        self.ring.add(socket, number(token))?;
        *self.place(token) = Place { token, open: false, full: false };
        self.ring.watch(number(token), token);
        Ok(())
    }

    fn opened(&mut self, token: u64) {
        self.place(token).open = true;
        self.ring.receive(number(token), token);
    }

    /// The ring goes on by itself.
    fn watch_again(&mut self, _socket: &Socket, _token: u64) -> io::Result<()> {
        Ok(())
    }

    fn forget(&mut self, token: u64) {
        let place = self.place(token);
        if place.token == token {
            place.token = NOBODY;
            self.ring.remove(number(token));
        }
    }

    #[inline]
    fn wait(&mut self, _now: u64, wait_ns: u64) -> io::Result<()> {
        self.ring.enter(wait_ns)
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        self.give_back();
        loop {
            let done = self.ring.take()?;
            self.lent = done.buffer;
            let token = done.token;
            // Of a connection that has ended; the number of removed requests is beyond all places.
            if self.places.get(number(token) as usize).is_none_or(|place| place.token != token) {
                self.give_back();
                continue;
            }
            let happened = match done.about {
                About::Receive => self.received(token, &done),
                About::Send => self.not_sent(token, &done),
                About::Ready => self.ready(token, &done),
            };
            return Some(Event { token, happened });
        }
    }

    #[inline]
    fn send(&mut self, wire: &mut Wire, token: u64, bytes: &[u8]) -> io::Result<usize> {
        if self.place(token).full {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.ring.send(number(token), token, bytes) {
            return Ok(bytes.len());
        }
        // Long bodies leave by themselves.
        let sent = wire.send(bytes);
        match &sent {
            Ok(count) if *count == bytes.len() => {}
            Ok(_) => self.await_room(token),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.await_room(token),
            Err(_) => {}
        }
        sent
    }

    fn receive(&mut self, wire: &mut Wire) -> io::Result<Received> {
        self.give_back();
        wire.receive(&mut self.buffer, None)
    }

    #[inline]
    fn bytes(&self, count: usize) -> &[u8] {
        match self.lent {
            Some(buffer) => self.ring.received(buffer, count),
            None => &self.buffer[..count],
        }
    }

    fn unsent(&self) -> &[u8] {
        &self.unsent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use crate::target::Endpoint;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    /// Longest wait for what must come. Generous, for a machine that does other things.
    const WAIT_NS: u64 = 20_000_000_000;

    /// Bytes in which a hole or an exchange shows.
    fn pattern(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
    }

    /// Open connections and their other ends; none where the kernel has no io_uring for us.
    fn connected(count: u32) -> Option<(ByRing, Vec<Wire>, Vec<TcpStream>)> {
        let mut ring = match ByRing::new(count) {
            Ok(ring) => ring,
            Err(error) => {
                eprintln!("not run: io_uring: {error}");
                return None;
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
        let (mut wires, mut peers) = (Vec::new(), Vec::new());
        for token in 0..u64::from(count) {
            let socket = Socket::open(&endpoint).unwrap();
            socket.connect(&endpoint).unwrap();
            peers.push(listener.accept().unwrap().0);
            ring.watch(&socket, token, true).unwrap();
            let event = next(&mut ring);
            assert!(event.token == token && matches!(event.happened, Happened::Ready(flags) if flags & WRITABLE != 0));
            ring.opened(token);
            wires.push(Wire::plain(socket));
        }
        Some((ring, wires, peers))
    }

    fn next(ring: &mut ByRing) -> Event {
        let until = sys::clock_ns() + WAIT_NS;
        loop {
            if let Some(event) = ring.next() {
                return event;
            }
            assert!(sys::clock_ns() < until, "nothing happened");
            ring.wait(0, WAIT_NS).unwrap();
        }
    }

    #[test]
    fn what_does_not_fit_is_given_back_and_nothing_is_lost() {
        const PIECE: usize = 100_000;
        let Some((mut ring, mut wires, mut peers)) = connected(1) else { return };
        let all = pattern(400 * PIECE);
        let mut sent = 0;
        // Nobody reads, so the socket is full at some time.
        let mut unsent = 0;
        while unsent == 0 {
            sent += ring.send(&mut wires[0], 0, &all[sent..sent + PIECE]).unwrap();
            ring.wait(0, 0).unwrap();
            while let Some(event) = ring.next() {
                let Happened::Unsent(count) = event.happened else { panic!("{event:?}") };
                assert_eq!(ring.unsent(), &all[sent - count..sent]);
                unsent = count;
            }
        }
        sent -= unsent;
        let full = ring.send(&mut wires[0], 0, &all[sent..]).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        let mut peer = peers.remove(0);
        let wanted = sent + 10 * PIECE;
        let reader = thread::spawn(move || {
            let mut got = vec![0; wanted];
            peer.read_exact(&mut got).unwrap();
            (got, peer)
        });
        while sent < wanted {
            match ring.send(&mut wires[0], 0, &all[sent..wanted.min(sent + PIECE)]) {
                Ok(count) => sent += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            ring.wait(0, 1_000_000).unwrap();
            while let Some(event) = ring.next() {
                match event.happened {
                    Happened::Unsent(count) => sent -= count,
                    Happened::Ready(flags) => assert_eq!(flags, WRITABLE),
                    Happened::Received(_) | Happened::Failed(_) => panic!("{event:?}"),
                }
            }
        }
        assert!(reader.join().unwrap().0 == all[..wanted]);
    }

    /// More comes at once than there are buffers for.
    #[test]
    fn what_finds_no_buffer_comes_in_order() {
        const CONNECTIONS: usize = 8;
        let Some((mut ring, mut wires, peers)) = connected(CONNECTIONS as u32) else { return };
        let all = pattern(1 << 20);
        let writers = peers.into_iter().map(|mut peer| {
            let all = all.clone();
            thread::spawn(move || peer.write_all(&all).unwrap())
        });
        let writers: Vec<_> = writers.collect();
        let mut heard = vec![Vec::new(); CONNECTIONS];
        let mut ended = 0;
        while ended < CONNECTIONS {
            let event = next(&mut ring);
            let at = event.token as usize;
            match event.happened {
                Happened::Received(count) => heard[at].extend_from_slice(ring.bytes(count)),
                Happened::Ready(flags) => {
                    assert_ne!(flags & READABLE, 0);
                    while let Ok(received) = ring.receive(&mut wires[at]) {
                        heard[at].extend_from_slice(ring.bytes(received.count));
                        ended += usize::from(received.count == 0);
                        if received.count == 0 || received.drained {
                            break;
                        }
                    }
                }
                Happened::Unsent(_) | Happened::Failed(_) => panic!("{event:?}"),
            }
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert!(heard.iter().all(|heard| *heard == all), "{:?}", heard.iter().map(Vec::len).collect::<Vec<_>>());
    }

    /// Of two connections with the same number one after the other, each hears its own.
    #[test]
    fn a_forgotten_connection_is_closed_and_not_heard() {
        let Some((mut ring, mut wires, mut peers)) = connected(1) else { return };
        peers[0].write_all(b"old").unwrap();
        ring.forget(0);
        wires.clear();
        ring.wait(0, 0).unwrap();
        // The end comes at once, though the ring held the socket too; unread bytes make it a reset.
        peers[0].read(&mut [0]).unwrap_or_default();
        ring.wait(0, 0).unwrap();
        let heard = ring.next();
        assert!(heard.is_none(), "{heard:?}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
        let socket = Socket::open(&endpoint).unwrap();
        socket.connect(&endpoint).unwrap();
        let token = 1 << 32;
        ring.watch(&socket, token, false).unwrap();
        let event = next(&mut ring);
        assert_eq!(event.token, token);
        ring.opened(token);
        listener.accept().unwrap().0.write_all(b"new").unwrap();
        let event = next(&mut ring);
        assert!(event.token == token && matches!(event.happened, Happened::Received(3)), "{event:?}");
        assert_eq!(ring.bytes(3), b"new");
        let end = next(&mut ring);
        assert!(matches!(end.happened, Happened::Ready(flags) if flags & HUNG_UP != 0), "{end:?}");
    }
}
