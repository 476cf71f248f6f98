//! One TLS connection without its socket: what came from the wire goes in, plaintext comes out, and the other way
//! round.
//!
//! rustls' unbuffered client makes the handshake; then it hands over its keys, and [`Records`] goes on without buffers
//! of its own. It does no IO. Invariant: what the server sends is kept only as long as a record or message is not
//! whole, and never more than the caller's buffer holds.

use super::records::{self, Content, Records};
use super::{Tls, explain};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};

/// One connection.
pub struct Session {
    state: State,
    /// Bytes from the wire that are not a whole record (or, in the handshake, message) yet. Given back when there are
    /// none, so that a connection that waits holds no buffer.
    kept: Vec<u8>,
    end: Option<End>,
}

enum State {
    Shaking(Box<Shaking>),
    Open(Box<Records>),
    Broken,
}

struct Shaking {
    connection: UnbufferedClientConnection,
    tls: Tls,
}

/// How the server's stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// In order: nothing is missing.
    Closed,
    /// An alert, or what is not TLS; why.
    Failed(String),
}

impl Session {
    /// A connection that has said nothing yet.
    ///
    /// # Errors
    /// Only when the system gives no random numbers, as text.
    pub fn new(tls: &Tls) -> Result<Self, String> {
        let connection =
            UnbufferedClientConnection::new(tls.config.clone(), tls.name.clone()).map_err(|e| explain(&e))?;
        let shaking = Box::new(Shaking { connection, tls: tls.clone() });
        Ok(Self { state: State::Shaking(shaking), kept: Vec::new(), end: None })
    }

    /// Whether the handshake is done: data may be sent.
    #[inline]
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// How the stream ended; none: it goes on.
    #[inline]
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Puts the bytes that wait for more at the front of `buffer`, where the next ones go behind them. Gives their
    /// number.
    #[inline]
    pub fn restore(&self, buffer: &mut [u8]) -> usize {
        // Never longer than the buffer they came from; `take` sees to it.
        buffer[..self.kept.len()].copy_from_slice(&self.kept);
        self.kept.len()
    }

    /// Takes `buffer[..filled]`: what [`Session::restore`] put there, and what came behind it. Leaves plaintext at the
    /// front and gives its length. `out` gets what the handshake has to say.
    #[inline]
    pub fn take(&mut self, buffer: &mut [u8], filled: usize, out: &mut Vec<u8>) -> usize {
        let (mut at, mut count) = (0, 0);
        if let State::Shaking(shaking) = &mut self.state {
            match shaking.go_on(&mut buffer[..filled], out) {
                Ok(Progress { consumed, early, ready }) => {
                    at = consumed;
                    count = early.len();
                    buffer[..count].copy_from_slice(&early);
                    if ready {
                        self.open_records();
                    }
                }
                Err(reason) => self.fail(reason),
            }
        }
        if let State::Open(records) = &mut self.state {
            match open_all(records, buffer, at..filled, &mut count) {
                Ok((rest, false)) => at = rest,
                Ok((_, true)) => {
                    // Whatever follows is to be ignored (RFC 8446, section 6.1).
                    at = filled;
                    self.end = Some(End::Closed);
                }
                Err(reason) => self.fail(reason),
            }
        }
        self.keep(&buffer[at..filled], buffer.len());
        count
    }

    /// Seals `bytes` behind what is in `out`.
    ///
    /// # Errors
    /// When there is no connection to seal for, as text.
    #[inline]
    pub fn seal(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match &mut self.state {
            State::Open(records) => records.seal(bytes, out),
            State::Shaking(_) | State::Broken => Err("the connection is not secured".to_string()),
        }
    }

    /// Puts the word that nothing more will come behind what is in `out`, if there is anyone to hear it.
    pub fn seal_close(&mut self, out: &mut Vec<u8>) {
        if let (State::Open(records), None) = (&mut self.state, &self.end) {
            // A goodbye that cannot be sealed is left out.
            records.seal_close(out).ok();
        }
    }

    fn open_records(&mut self) {
        let State::Shaking(shaking) = std::mem::replace(&mut self.state, State::Broken) else { return };
        match shaking.into_records() {
            Ok(records) => self.state = State::Open(Box::new(records)),
            Err(reason) => self.fail(reason),
        }
    }

    fn fail(&mut self, reason: String) {
        self.state = State::Broken;
        self.end = Some(End::Failed(reason));
    }

    #[inline]
    fn keep(&mut self, rest: &[u8], room: usize) {
        if rest.is_empty() || self.end.is_some() {
            if self.kept.capacity() > 0 {
                self.kept = Vec::new();
            }
        } else if rest.len() >= room {
            self.fail(format!("a record or message of more than {room} bytes"));
        } else {
            self.kept.clear();
            self.kept.extend_from_slice(rest);
        }
    }
}

/// Opens the whole records in `buffer[range]` and puts their data behind `count`. Gives where the rest begins, and
/// whether the server has closed.
#[inline]
fn open_all(
    records: &mut Records,
    buffer: &mut [u8],
    range: std::ops::Range<usize>,
    count: &mut usize,
) -> Result<(usize, bool), String> {
    let mut at = range.start;
    while let Some(length) = records::whole(&buffer[at..range.end])? {
        match records.open(&mut buffer[at..at + length])? {
            Content::Data(data) => {
                let size = data.len();
                buffer.copy_within(at + data.start..at + data.end, *count);
                *count += size;
            }
            Content::Nothing => {}
            Content::Closed => return Ok((at, true)),
        }
        at += length;
    }
    Ok((at, false))
}

/// How far the handshake came with the bytes it was given.
struct Progress {
    consumed: usize,
    /// Data that came in one piece with the end of the handshake, and that rustls has opened already.
    early: Vec<u8>,
    ready: bool,
}

enum Step {
    Again,
    Blocked,
    Failed(String),
}

impl Shaking {
    fn go_on(&mut self, buffer: &mut [u8], out: &mut Vec<u8>) -> Result<Progress, String> {
        let (mut consumed, mut early) = (0, Vec::new());
        loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut buffer[consumed..]);
            let step = match state {
                Err(error) => Step::Failed(explain(&error)),
                Ok(ConnectionState::EncodeTlsData(mut data)) => match encode(&mut data, out) {
                    Ok(()) => Step::Again,
                    Err(error) => Step::Failed(error.to_string()),
                },
                Ok(ConnectionState::TransmitTlsData(data)) => {
                    data.done();
                    Step::Again
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        discard += record.discard;
                        early.extend_from_slice(record.payload);
                    }
                    Step::Again
                }
                Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Step::Blocked,
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed | ConnectionState::ReadEarlyData(_)) => {
                    Step::Failed("the server closed the connection during the handshake".to_string())
                }
                Ok(_) => Step::Failed("rustls is in a state that prony does not know".to_string()),
            };
            consumed += discard;
            // What follows the handshake is for our own records: rustls must not touch it.
            let ready = !self.connection.is_handshaking() && !self.connection.wants_write();
            match step {
                Step::Failed(reason) => {
                    self.say_why(out);
                    return Err(reason);
                }
                Step::Again if !ready => {}
                Step::Again | Step::Blocked => return Ok(Progress { consumed, early, ready }),
            }
        }
    }

    /// The alert with which rustls answers what it did not accept.
    fn say_why(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
            if encode(&mut data, out).is_err() {
                return;
            }
        }
    }

    fn into_records(self) -> Result<Records, String> {
        self.tls.check_alpn(self.connection.alpn_protocol())?;
        let (secrets, kernel) = self.connection.dangerous_into_kernel_connection().map_err(|e| explain(&e))?;
        Records::new(secrets, kernel, self.tls.resume)
    }
}

fn encode(data: &mut EncodeTlsData<'_, ClientConnectionData>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let needed = match data.encode(&mut []) {
        Ok(_) => return Ok(()),
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Err(error @ EncodeError::AlreadyEncoded) => return Err(error),
    };
    let from = out.len();
    out.resize(from + needed, 0);
    data.encode(&mut out[from..]).map(drop)
}
