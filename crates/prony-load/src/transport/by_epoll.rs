//! By epoll: a system call for each send and each receive, and one for a batch of events. Works everywhere.
//!
//! It can tell when bytes that woke the thread had come: a thread that sleeps wakes up late, and the server is not to blame. Invariants:
//! whatever it says was sent, the kernel has; what it says arrived did so since the wait before.

use super::{BUFFER_BYTES, Event, Happened, Transport};
use crate::sys::{self, Epoll, Socket};
use crate::wire::{Received, Wire};
use prony_model::load;
use std::io;

/// Events taken from the kernel at once. Measured: more change nothing at 1000 connections.
const EVENTS: usize = 256;
/// How often the two clocks are compared. They drift apart by 500 ppm at most (adjtimex(2)): 5 us in that time.
const COMPARE_EVERY_NS: u64 = 10_000_000;

/// See the module.
pub struct ByEpoll {
    epoll: Epoll,
    events: Box<[sys::Event; EVENTS]>,
    /// Events of the last wait, of which those before `next` were given away.
    count: usize,
    /// See `count`.
    next: usize,
    buffer: Vec<u8>,
    /// What the kernel stamped the last bytes with; 0: nothing.
    stamp_ns: u64,
    /// None: nobody wants to know.
    arrivals: Option<Arrivals>,
}

impl ByEpoll {
    /// The same, which also tells when what woke the thread had arrived.
    pub fn telling_arrivals(self) -> Self {
        Self { arrivals: Some(Arrivals::default()), ..self }
    }
}

impl Transport for ByEpoll {
    const NAME: load::Transport = load::Transport::Epoll;
    const GATHERS: bool = false;

    fn new(_connections: u32) -> io::Result<Self> {
        let (epoll, events) = (Epoll::new()?, Box::new([sys::NO_EVENT; EVENTS]));
        Ok(Self { epoll, events, count: 0, next: 0, buffer: vec![0; BUFFER_BYTES], stamp_ns: 0, arrivals: None })
    }

    fn watch(&mut self, socket: &Socket, token: u64, sends: bool) -> io::Result<()> {
        if self.arrivals.is_some() {
            socket.stamp_arrivals();
        }
        self.epoll.watch(socket, token, sends)
    }

    #[inline]
    fn opened(&mut self, _token: u64) {}

    fn watch_again(&mut self, socket: &Socket, token: u64) -> io::Result<()> {
        self.epoll.watch_again(socket, token)
    }

    /// A closed socket leaves the set by itself.
    #[inline]
    fn forget(&mut self, _token: u64) {}

    /// Errors: ENOSYS before Linux 5.11.
    #[inline]
    fn wait(&mut self, now: u64, wait_ns: u64) -> io::Result<()> {
        (self.next, self.count) = (0, 0);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.wait(now, wait_ns);
        }
        self.count = self.epoll.wait(&mut self.events[..], wait_ns)?;
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let event = self.events[..self.count].get(self.next)?;
        self.next += 1;
        Some(Event { token: event.u64, happened: Happened::Ready(event.events) })
    }

    #[inline]
    fn send(&mut self, wire: &mut Wire, _token: u64, bytes: &[u8]) -> io::Result<usize> {
        wire.send(bytes)
    }

    #[inline]
    fn receive(&mut self, wire: &mut Wire) -> io::Result<Received> {
        self.stamp_ns = 0;
        let stamped = self.arrivals.as_ref().is_some_and(|arrivals| arrivals.slept);
        wire.receive(&mut self.buffer, stamped.then_some(&mut self.stamp_ns))
    }

    #[inline]
    fn bytes(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    #[inline]
    fn arrived_ns(&self) -> Option<u64> {
        self.arrivals.as_ref()?.moment(self.stamp_ns)
    }

    fn unsent(&self) -> &[u8] {
        &[]
    }
}

/// Turns stamps of the kernel into moments of the monotonic clock.
#[derive(Debug, Default)]
struct Arrivals {
    /// When the last wait began, and the one before: what is unread came after that one.
    waited_ns: u64,
    /// See `waited_ns`.
    from_ns: u64,
    /// Whether the thread may have slept since. One that did not was told of its bytes at once.
    slept: bool,
    /// Calendar minus monotonic clock.
    ahead_ns: u64,
    /// When that was read.
    compared_ns: u64,
}

impl Arrivals {
    #[inline]
    fn wait(&mut self, now: u64, wait_ns: u64) {
        (self.from_ns, self.waited_ns, self.slept) = (self.waited_ns, now, wait_ns > 0);
        if self.compared_ns == 0 || now.saturating_sub(self.compared_ns) > COMPARE_EVERY_NS {
            self.compare(sys::calendar_ns(), sys::clock_ns());
        }
    }

    fn compare(&mut self, calendar_ns: u64, now: u64) {
        (self.ahead_ns, self.compared_ns) = (calendar_ns.wrapping_sub(now), now);
    }

    /// None: no stamp, or one of a time for which it cannot be, as when the calendar was set back meanwhile.
    #[inline]
    fn moment(&self, stamp_ns: u64) -> Option<u64> {
        let at = stamp_ns.wrapping_sub(self.ahead_ns);
        (stamp_ns > 0 && at >= self.from_ns).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_a_moment_since_the_wait_before() {
        let mut arrivals = Arrivals::default();
        arrivals.wait(6_000_000, 1);
        arrivals.wait(6_200_000, 1);
        arrivals.compare(1_700_000_000_000_000_000, 5_000_000);
        let stamped = |at: u64| arrivals.moment(1_700_000_000_000_000_000 - 5_000_000 + at);
        assert_eq!(stamped(6_000_000), Some(6_000_000));
        assert_eq!(stamped(6_300_000), Some(6_300_000));
        assert_eq!(stamped(5_999_999), None, "before the wait before");
        assert_eq!(arrivals.moment(0), None, "no stamp");
    }

    #[test]
    fn the_clocks_are_compared_now_and_then() {
        let mut arrivals = Arrivals::default();
        let now = sys::clock_ns();
        arrivals.wait(now, 0);
        assert!(!arrivals.slept && arrivals.compared_ns >= now);
        let first = arrivals.compared_ns;
        arrivals.wait(first + COMPARE_EVERY_NS, 1);
        assert!(arrivals.slept && arrivals.compared_ns == first);
        arrivals.ahead_ns = 0;
        arrivals.wait(first + COMPARE_EVERY_NS + 1, 1);
        assert_ne!(arrivals.ahead_ns, 0);
    }
}
