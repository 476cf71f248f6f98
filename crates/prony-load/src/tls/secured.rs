//! A socket with a TLS connection on it.
//!
//! One recv() and one send() carry as much as fits, as without TLS. Invariant: what [`Secured::send`] calls sent has
//! left for the kernel, so that the caller's own buffer is the only one that holds requests; of ciphertext at most a
//! batch waits here.

use super::Tls;
use super::session::{End, Session};
use crate::sys::Socket;
use crate::wire::Received;
use std::io::{self, ErrorKind};

/// Most plaintext that is sealed at once: four full records. A guess: as much as the default send buffer of a socket
/// takes at first (tcp_wmem), so that large bodies do not wait as ciphertext.
const BATCH_BYTES: usize = 4 << 14;

/// One secured connection.
pub struct Secured {
    socket: Socket,
    session: Session,
    /// Ciphertext, of which `gone` bytes have left. Given back as soon as all have.
    out: Vec<u8>,
    /// See `out`.
    gone: usize,
    /// Plaintext that `out` stands for and that was not called sent yet.
    sealed: usize,
}

impl Secured {
    /// A connection over a socket that may still be connecting.
    ///
    /// # Errors
    /// Only when the system gives no random numbers.
    pub fn new(socket: Socket, tls: &Tls) -> io::Result<Self> {
        let session = Session::new(tls).map_err(io::Error::other)?;
        Ok(Self { socket, session, out: Vec::new(), gone: 0, sealed: 0 })
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Begins the handshake.
    pub fn connected(&mut self) -> io::Result<()> {
        self.session.take(&mut [], 0, &mut self.out);
        self.flush().map(drop)
    }

    /// Whether the handshake is done.
    #[cfg(test)]
    pub fn is_ready(&self) -> bool {
        self.session.is_ready()
    }

    /// See [`crate::wire::Wire::send`].
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.session.is_ready() {
            self.flush()?;
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut sent = 0;
        loop {
            // The last word of the handshake, if it is still here, leaves together with the first request.
            if self.sealed == 0 && sent < bytes.len() {
                let batch = &bytes[sent..bytes.len().min(sent + BATCH_BYTES)];
                self.session.seal(batch, &mut self.out).map_err(broken)?;
                self.sealed = batch.len();
            }
            match self.flush() {
                Ok(true) => {}
                Ok(false) if sent == 0 => return Err(ErrorKind::WouldBlock.into()),
                Ok(false) => return Ok(sent),
                Err(error) => return Err(error),
            }
            sent = bytes.len().min(sent + std::mem::take(&mut self.sealed));
            if sent == bytes.len() {
                return Ok(sent);
            }
        }
    }

    /// Whether ciphertext waits to be sent.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }

    /// Sends ciphertext that waits. True: none is left.
    #[inline]
    fn flush(&mut self) -> io::Result<bool> {
        while self.gone < self.out.len() {
            match self.socket.send(&self.out[self.gone..]) {
                Ok(count) => self.gone += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if self.gone > 0 {
            self.out = Vec::new();
            self.gone = 0;
        }
        Ok(true)
    }

    /// See [`crate::wire::Wire::receive`].
    #[inline]
    pub fn receive(&mut self, into: &mut [u8], mut stamp_ns: Option<&mut u64>) -> io::Result<Received> {
        loop {
            match self.session.end() {
                None => {}
                Some(End::Closed) => return Ok(Received { count: 0, drained: false }),
                Some(End::Failed(reason)) => return Err(broken(reason.clone())),
            }
            let kept = self.session.restore(into);
            let fresh = match self.socket.receive(&mut into[kept..], stamp_ns.as_deref_mut()) {
                Ok(0) if self.session.is_ready() => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed without close_notify"));
                }
                Ok(0) => return Err(broken("the server closed the connection during the handshake".to_string())),
                Ok(fresh) => fresh,
                Err(error) if error.kind() == ErrorKind::WouldBlock || self.session.is_ready() => return Err(error),
                Err(error) => return Err(broken(format!("the handshake was cut short ({error})"))),
            };
            let filled = kept + fresh;
            let count = self.session.take(into, filled, &mut self.out);
            if !self.out.is_empty() {
                self.answer_handshake()?;
            }
            if count > 0 {
                return Ok(Received { count, drained: filled < into.len() && self.session.end().is_none() });
            }
            // Nothing for the caller came of it. Whether more waits in the socket, no event will say: ask it again.
        }
    }

    /// Sends what the handshake has to say, but for its last word: that waits for [`Secured::send`]. When it failed,
    /// why it failed counts more than that the server no longer listens.
    fn answer_handshake(&mut self) -> io::Result<()> {
        if self.session.is_ready() {
            return Ok(());
        }
        let flushed = self.flush();
        if self.session.end().is_some() { Ok(()) } else { flushed.map(drop) }
    }
}

impl Drop for Secured {
    /// Says goodbye, so that the server need not take the end for an attack. If there is no room for it, it is left
    /// out.
    fn drop(&mut self) {
        if self.out.is_empty() {
            self.session.seal_close(&mut self.out);
            self.flush().ok();
        }
    }
}

/// The kind that [`crate::wire::failure_of`] knows as a failure of TLS.
fn broken(reason: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}
