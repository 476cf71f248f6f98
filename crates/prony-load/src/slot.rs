//! The connections of one thread, and the calls they carry.
//!
//! A slot is a place for one connection after another; a call is a place for one request after another. Slot `s` has the
//! calls `s * depth` to `s * depth + depth - 1`. It does no IO. Invariant: a call is free, parked or in flight, never two.

use crate::wire::Wire;

/// A place for one connection.
pub struct Slot<L> {
    /// The connection; none: closed.
    pub wire: Option<Wire>,
    /// What the protocol remembers of it.
    pub link: L,
    /// Counts the connections of this place, so that an event of an older one is recognised.
    pub generation: u32,
    /// What it is doing.
    pub phase: Phase,
    /// Bytes to send, of which `sent` have left.
    pub out: Vec<u8>,
    /// See `out`.
    pub sent: usize,
    /// Whether it is among those that send before the next wait.
    pub gathered: bool,
    /// Calls begun on this connection.
    pub begun: u32,
    /// Calls in flight.
    pub in_flight: u32,
    /// Calls that wait for this slot to take calls again.
    pub parked: u32,
    /// When a rest or a close ends.
    pub until: u64,
    /// Whether its turn to connect has come; matters only where connections open at a limited rate.
    pub may_connect: bool,
}

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No connection: the next call opens one.
    Closed,
    /// The handshake runs; calls may begin and wait for it.
    Connecting,
    /// Calls may begin.
    Open,
    /// No more calls on this connection; it ends with the last answer.
    Draining,
    /// Every answer is here, and the server is about to close.
    Closing,
    /// Waits until it may connect: it could not, or its turn has not come.
    Resting,
}

impl<L> Slot<L> {
    /// A slot without a connection.
    pub fn new(link: L) -> Self {
        Self {
            wire: None,
            link,
            generation: 0,
            phase: Phase::Closed,
            out: Vec::new(),
            sent: 0,
            gathered: false,
            begun: 0,
            in_flight: 0,
            parked: 0,
            until: 0,
            may_connect: false,
        }
    }

    /// What tells its connection from all others of the thread; `index`: its own number.
    #[inline]
    pub fn token(&self, index: usize) -> u64 {
        u64::from(self.generation) << 32 | index as u64
    }

    /// Whether calls may begin here, were there room.
    #[inline]
    pub fn takes_calls(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Closed | Phase::Connecting)
    }

    /// Whether bytes wait to be sent.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }
}

/// A place for one request.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What it is doing.
    pub state: CallState,
    /// When its turn came.
    pub intended: u64,
    /// When it began.
    pub started: u64,
    /// Whether it began late because of a pause of the machine.
    pub paused: bool,
}

/// What a call is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// In the queue of free calls, or thinking.
    Free,
    /// Its slot takes no calls for now.
    Parked,
    /// Begun, not answered.
    InFlight,
}

impl Call {
    /// A free call.
    pub const FREE: Self = Self { state: CallState::Free, intended: 0, started: 0, paused: false };
}
