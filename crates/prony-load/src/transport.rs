//! How a thread sends, receives and waits: the seam between the loop and the kernel.
//!
//! Two ways, chosen when a thread starts: [`ByEpoll`] asks for each connection by system calls of its own and works
//! everywhere; [`ByRing`] hands over everything at once through io_uring, for plain connections that are kept. Neither knows
//! HTTP. Invariant: bytes of a connection are sent and heard in order, and an event of a connection that has ended reaches
//! nobody: it carries an older token.

mod by_epoll;
mod by_ring;

pub use by_epoll::ByEpoll;
pub use by_ring::ByRing;

use crate::sys::Socket;
use crate::tally::Failure;
use crate::wire::{Received, Wire};
use prony_model::load;
use std::io;

/// Bytes received at once; one buffer per thread. A guess: the default receive buffer of a socket fits twice.
const BUFFER_BYTES: usize = 64 * 1024;

/// Something happened to a connection.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The connection: its number among those of the thread in the lower half, above it how many had that number before.
    pub token: u64,
    /// What.
    pub happened: Happened,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Happened {
    /// It is ready, for what the flags of `sys` say.
    Ready(u32),
    /// So many bytes came: [`Transport::bytes`], until the next event.
    Received(usize),
    /// Of what was taken to be sent, so many bytes have not left: [`Transport::unsent`], until the next event. It will be
    /// ready when there is room.
    Unsent(usize),
    /// It is of no use any more.
    Failed(Failure),
}

/// One way. A connection is its token; its number must be below the number of connections that [`Transport::new`] was told.
pub trait Transport: Sized {
    /// What a result calls it.
    const NAME: load::Transport;
    /// Whether what is sent leaves with the next wait. Then each connection may send once before it, and whatever one wait
    /// brought had come when it ended.
    const GATHERS: bool;

    /// For so many connections. Allocates everything it will need.
    fn new(connections: u32) -> io::Result<Self>;

    /// Watches a socket that is connecting. `sends`: there will be something to send.
    fn watch(&mut self, socket: &Socket, token: u64, sends: bool) -> io::Result<()>;

    /// The socket is connected: from now on it is heard.
    fn opened(&mut self, token: u64);

    /// Looks at a socket anew that was not read to its end.
    fn watch_again(&mut self, socket: &Socket, token: u64) -> io::Result<()>;

    /// The connection is about to be closed.
    fn forget(&mut self, token: u64);

    /// Waits from `now` until something happens, at most `wait_ns`. All events of the wait before must have been taken.
    fn wait(&mut self, now: u64, wait_ns: u64) -> io::Result<()>;

    /// What happened, one after the other.
    fn next(&mut self) -> Option<Event>;

    /// As [`Wire::send`].
    fn send(&mut self, wire: &mut Wire, token: u64, bytes: &[u8]) -> io::Result<usize>;

    /// As [`Wire::receive`], into memory that [`Transport::bytes`] shows.
    fn receive(&mut self, wire: &mut Wire) -> io::Result<Received>;

    /// The first `count` of the bytes received last.
    fn bytes(&self, count: usize) -> &[u8];

    /// When they had reached this machine, in nanoseconds on the monotonic clock. None: that is not known.
    #[inline]
    fn arrived_ns(&self) -> Option<u64> {
        None
    }

    /// The bytes of [`Happened::Unsent`].
    fn unsent(&self) -> &[u8];
}
