//! What carries bytes to the server and back: a socket, or a TLS connection on one.
//!
//! It knows nothing of HTTP. Invariant: a plain wire costs a predictable branch more than its socket, and no call more.

use crate::sys::Socket;
use crate::tally::Failure;
use crate::tls::Tls;
use crate::tls::secured::Secured;
use std::io::{self, ErrorKind};

/// One connection.
pub enum Wire {
    /// As it is.
    Plain(Socket),
    /// Over TLS.
    Secured(Box<Secured>),
}

/// What one [`Wire::receive`] brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of plaintext at the front of the buffer; 0: the stream ended in order.
    pub count: usize,
    /// Whether the wire is empty for now: an event will tell when there is more.
    pub drained: bool,
}

impl Wire {
    /// Bytes as they are.
    pub fn plain(socket: Socket) -> Self {
        Self::Plain(socket)
    }

    /// TLS. The socket may still be connecting.
    ///
    /// # Errors
    /// Only when the system gives no random numbers.
    pub fn secured(socket: Socket, tls: &Tls) -> io::Result<Self> {
        Ok(Self::Secured(Box::new(Secured::new(socket, tls)?)))
    }

    /// The socket underneath.
    pub fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Secured(secured) => secured.socket(),
        }
    }

    /// The socket is connected: TLS begins its handshake, which [`Wire::receive`] then carries on.
    ///
    /// # Errors
    /// Those of send(2).
    pub fn connected(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Secured(secured) => secured.connected(),
        }
    }

    /// Whether data can be sent: the TLS handshake is done, and the server speaks the protocol that was asked for.
    #[cfg(test)]
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::Secured(secured) => secured.is_ready(),
        }
    }

    /// Whether [`Wire::send`] must be called even if there is nothing to send: TLS has something to say itself, which
    /// waits to leave together with a request.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Secured(secured) => secured.has_unsent(),
        }
    }

    /// Sends what fits, and says how much that was. Less than all: the socket is full, and an event will tell when
    /// there is room. The next call must begin with the bytes that were not sent.
    ///
    /// # Errors
    /// `WouldBlock`: nothing fits, or the handshake is not done. Those of send(2), and `InvalidData` when TLS failed.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.send(bytes),
            Self::Secured(secured) => secured.send(bytes),
        }
    }

    /// Receives what is there, and carries the TLS handshake on. Call it at every event of the socket until it says
    /// `drained` or `WouldBlock`, and then [`Wire::send`] if there is anything to send or [`Wire::has_unsent`]: the
    /// handshake may be done. With TLS, `into` should hold 64 KiB or more, the longest handshake message that is
    /// accepted. `stamp_ns`: see [`Socket::receive`].
    ///
    /// # Errors
    /// `WouldBlock`: nothing for the caller, an event will tell. Those of recv(2). With TLS, `UnexpectedEof`: the
    /// server closed without saying so, and data may be missing; `InvalidData`: the handshake failed, an alert, or what
    /// is not TLS.
    #[inline]
    pub fn receive(&mut self, into: &mut [u8], stamp_ns: Option<&mut u64>) -> io::Result<Received> {
        match self {
            Self::Plain(socket) => {
                let count = socket.receive(into, stamp_ns)?;
                // A read that does not fill the buffer emptied the socket (epoll(7), edge-triggered).
                Ok(Received { count, drained: count < into.len() })
            }
            Self::Secured(secured) => secured.receive(into, stamp_ns),
        }
    }
}

/// Which failure an error of a wire is, `otherwise` if it is not one of TLS.
pub fn failure_of(error: &io::Error, otherwise: Failure) -> Failure {
    if error.kind() == ErrorKind::InvalidData { Failure::Tls } else { otherwise }
}
