//! Reads HTTP/1.1 responses (RFC 9112) from whatever pieces the network delivers.
//!
//! It does no IO and keeps nothing of a body, unless it is told to capture it. A head that arrives in one piece is read where it lies; of a head in pieces only
//! the unfinished line is kept. Invariant: whatever the server sends, one response holds at most [`HEAD_BYTES_MAX`].

use crate::protocol::{Captured, Malformed};
use crate::sys::find;

/// Most bytes of one head, trailers included. A guess: eight times nginx's default for what it accepts from an upstream
/// (`proxy_buffer_size` 8k), and what browsers stop at is larger.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most header lines of one head. A guess; hyper stops at 100 by default.
pub const HEADERS_MAX: u32 = 256;
/// Largest body that is believed: 2^60 bytes, more than any load can carry, so that sums cannot overflow.
const BODY_BYTES_MAX: u64 = 1 << 60;
/// A line buffer that grew beyond this is given back after the response. A guess: common heads fit.
const LINE_KEPT_BYTES: usize = 4 * 1024;
/// Longest head that a connection remembers. A guess: most heads are shorter, and it is memory of every connection.
const KNOWN_BYTES_MAX: usize = 1024;

/// Reads one response after another of one connection.
#[derive(Debug, Default)]
pub struct Response {
    stage: Stage,
    /// The unfinished line, when a line came in pieces.
    line: Vec<u8>,
    head_bytes: usize,
    headers: u32,
    /// What the head says, as far as it was read.
    said: Said,
    /// Whether the request was HEAD: no body follows, whatever the head says.
    bodiless: bool,
    /// The last whole head and what it said. Servers repeat themselves: the same bytes need not be read again.
    known: Vec<u8>,
    known_said: Said,
}

/// What matters of a head.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    status: u16,
    length: Option<u64>,
    coding: Coding,
    /// Whether the connection ends with this response.
    close: bool,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Status,
    Header,
    /// That many bytes of body are left.
    Body(u64),
    /// Body until the server closes.
    UntilClose,
    ChunkSize,
    /// That many bytes of this chunk are left.
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    Trailer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    Plain,
    Chunked,
    /// Some coding whose end only the close tells.
    Unframed,
}

/// How far a response is after the bytes given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// More bytes are needed; all that were given are used.
    More,
    /// The response is complete.
    Complete {
        /// Its status code.
        status: u16,
        /// Whether the connection ends here.
        close: bool,
        /// How many of the given bytes belong to it.
        used: usize,
    },
}

impl Response {
    /// Prepares for the next response of the connection. `head_request`: it answers a HEAD.
    #[inline]
    pub fn expect(&mut self, head_request: bool) {
        self.begin_head();
        self.bodiless = head_request;
        if self.line.capacity() > LINE_KEPT_BYTES {
            self.line = Vec::new();
        }
    }

    /// Takes the next bytes from the connection. `capture`: keep head and body there.
    ///
    /// # Errors
    /// [`Malformed`]; the connection is of no use afterwards.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], mut capture: Option<&mut Captured>) -> Result<Fed, Malformed> {
        let mut at = 0;
        let fresh = self.stage == Stage::Status && self.head_bytes == 0 && self.line.is_empty();
        if fresh && capture.is_none() && self.recall(bytes) {
            at = self.known.len();
            if self.end_of_head()? {
                return Ok(self.complete(at));
            }
        }
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.stage {
                Stage::Body(left) => {
                    let n = left.min(rest.len() as u64);
                    at += n as usize;
                    keep_body(&mut capture, &rest[..n as usize]);
                    self.stage = Stage::Body(left - n);
                    if left == n {
                        return Ok(self.complete(at));
                    }
                }
                Stage::Chunk(left) => {
                    let n = left.min(rest.len() as u64);
                    at += n as usize;
                    keep_body(&mut capture, &rest[..n as usize]);
                    self.stage = if left == n { Stage::ChunkEnd } else { Stage::Chunk(left - n) };
                }
                Stage::UntilClose => {
                    keep_body(&mut capture, rest);
                    return Ok(Fed::More);
                }
                Stage::Status | Stage::Header | Stage::ChunkSize | Stage::ChunkEnd | Stage::Trailer => {
                    let Some(end) = find(b'\n', rest) else {
                        self.keep(rest)?;
                        return Ok(Fed::More);
                    };
                    at += end + 1;
                    self.count_head(end + 1)?;
                    let in_head = self.stage == Stage::Header;
                    let complete = self.take_line(&rest[..end], &mut capture)?;
                    if fresh && in_head && (complete || self.stage != Stage::Header) {
                        self.remember(&bytes[..at]);
                    }
                    if complete {
                        return Ok(self.complete(at));
                    }
                }
            }
        }
        Ok(Fed::More)
    }

    /// The server closed: the response, if that was how it ends.
    pub fn end_of_stream(&self) -> Option<Fed> {
        (self.stage == Stage::UntilClose).then_some(Fed::Complete { status: self.said.status, close: true, used: 0 })
    }

    /// Whether the bytes, with which a head begins, begin with the one that is known. It is taken as read then, up to its
    /// empty line.
    #[inline]
    fn recall(&mut self, bytes: &[u8]) -> bool {
        let known = !self.known.is_empty() && bytes.starts_with(&self.known);
        if known {
            self.said = self.known_said;
        }
        known
    }

    /// Keeps a head that arrived in one piece. An interim one is followed by another in any case.
    fn remember(&mut self, head: &[u8]) {
        if self.stage != Stage::Status && head.len() <= KNOWN_BYTES_MAX {
            self.known.clear();
            self.known.extend_from_slice(head);
            self.known_said = self.said;
        }
    }

    fn begin_head(&mut self) {
        self.stage = Stage::Status;
        self.line.clear();
        self.head_bytes = 0;
        self.headers = 0;
        self.said = Said::default();
    }

    fn complete(&self, used: usize) -> Fed {
        Fed::Complete { status: self.said.status, close: self.said.close, used }
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.head_bytes + self.line.len() + part.len() > HEAD_BYTES_MAX {
            return Err(Malformed("the head is longer than 64 KiB"));
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn count_head(&mut self, bytes: usize) -> Result<(), Malformed> {
        // Chunk lines are no head: there may be any number of them, each bounded by `keep` or by its own digits.
        if matches!(self.stage, Stage::ChunkSize | Stage::ChunkEnd) {
            return Ok(());
        }
        self.head_bytes += self.line.len() + bytes;
        if self.head_bytes > HEAD_BYTES_MAX { Err(Malformed("the head is longer than 64 KiB")) } else { Ok(()) }
    }

    /// Takes one line without its line feed, of which the beginning may have been kept. True: the response is complete.
    #[inline]
    fn take_line(&mut self, end: &[u8], capture: &mut Option<&mut Captured>) -> Result<bool, Malformed> {
        if self.line.is_empty() {
            return self.read_line(end, capture);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        let result = self.read_line(&line, capture);
        line.clear();
        self.line = line;
        result
    }

    #[inline]
    fn read_line(&mut self, line: &[u8], capture: &mut Option<&mut Captured>) -> Result<bool, Malformed> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(kept) = capture {
            match self.stage {
                // What an interim response said is forgotten when the next head begins.
                Stage::Status => kept.clear(),
                Stage::Header if !line.is_empty() => kept.push_header(line),
                Stage::Header | Stage::Body(_) | Stage::UntilClose | Stage::ChunkSize => {}
                Stage::Chunk(_) | Stage::ChunkEnd | Stage::Trailer => {}
            }
        }
        match self.stage {
            Stage::Status => self.read_status(line).map(|()| false),
            Stage::Header if line.is_empty() => self.end_of_head(),
            Stage::Header => self.read_header(line).map(|()| false),
            Stage::ChunkSize => {
                self.stage = match chunk_size(line)? {
                    0 => Stage::Trailer,
                    size => Stage::Chunk(size),
                };
                Ok(false)
            }
            Stage::ChunkEnd if line.is_empty() => {
                self.stage = Stage::ChunkSize;
                Ok(false)
            }
            Stage::ChunkEnd => Err(Malformed("a chunk is longer than its size says")),
            Stage::Trailer if line.is_empty() => Ok(true),
            Stage::Trailer => self.count_header().map(|()| false),
            Stage::Body(_) | Stage::UntilClose | Stage::Chunk(_) => Ok(false),
        }
    }

    #[inline]
    fn read_status(&mut self, line: &[u8]) -> Result<(), Malformed> {
        const WRONG: Malformed = Malformed("the first line is not `HTTP/1.x CODE`");
        let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b' ', code @ ..] = line else {
            return Err(WRONG);
        };
        let (digits, reason) = code.split_at_checked(3).ok_or(WRONG)?;
        if !digits.iter().all(u8::is_ascii_digit) || !(reason.is_empty() || reason[0] == b' ') || digits[0] == b'0' {
            return Err(WRONG);
        }
        self.said.status = digits.iter().fold(0, |sum, d| sum * 10 + u16::from(d - b'0'));
        self.said.close = *minor == b'0';
        self.stage = Stage::Header;
        Ok(())
    }

    fn count_header(&mut self) -> Result<(), Malformed> {
        self.headers += 1;
        if self.headers > HEADERS_MAX { Err(Malformed("the head has more than 256 lines")) } else { Ok(()) }
    }

    #[inline]
    fn read_header(&mut self, line: &[u8]) -> Result<(), Malformed> {
        self.count_header()?;
        let colon = find(b':', line).ok_or(Malformed("a header line has no colon"))?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        // Only three headers matter here, and they differ in length. Whitespace in a name is smuggling or a folded line.
        match name.len() {
            0 => return Err(Malformed("a header has no name")),
            10 if name.eq_ignore_ascii_case(b"connection") => self.read_connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.read_length(value.trim_ascii())?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                let last = value.rsplit(|b| *b == b',').next().unwrap_or_default().trim_ascii();
                self.said.coding =
                    if last.eq_ignore_ascii_case(b"chunked") { Coding::Chunked } else { Coding::Unframed };
            }
            _ if name[0] <= b' ' || name[colon - 1] <= b' ' => return Err(Malformed("a header name holds a space")),
            _ => {}
        }
        Ok(())
    }

    fn read_connection(&mut self, value: &[u8]) {
        for token in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
            if token.eq_ignore_ascii_case(b"close") {
                self.said.close = true;
            } else if token.eq_ignore_ascii_case(b"keep-alive") {
                self.said.close = false;
            }
        }
    }

    fn read_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let length = number(value, 10).ok_or(Malformed("Content-Length is not a number"))?;
        if self.said.length.is_some_and(|before| before != length) {
            return Err(Malformed("two different Content-Length"));
        }
        self.said.length = Some(length);
        Ok(())
    }

    /// The empty line after the headers: decides how the body ends (RFC 9112, 6.3). True: there is none.
    #[inline]
    fn end_of_head(&mut self) -> Result<bool, Malformed> {
        if self.said.status == 101 {
            return Err(Malformed("the server switched protocols unasked"));
        }
        if self.said.status < 200 {
            // An interim response; the real one follows. An endless row of them ends with the request's timeout.
            let bodiless = self.bodiless;
            self.begin_head();
            self.bodiless = bodiless;
            return Ok(false);
        }
        if self.bodiless || self.said.status == 204 || self.said.status == 304 {
            return Ok(true);
        }
        self.stage = match (self.said.coding, self.said.length) {
            (Coding::Chunked, _) => Stage::ChunkSize,
            (Coding::Plain, Some(0)) => return Ok(true),
            (Coding::Plain, Some(length)) => Stage::Body(length),
            (Coding::Plain, None) | (Coding::Unframed, _) => Stage::UntilClose,
        };
        Ok(false)
    }
}

#[inline]
fn keep_body(capture: &mut Option<&mut Captured>, part: &[u8]) {
    if let Some(kept) = capture {
        kept.push_body(part);
    }
}

/// The size in a chunk's first line, which may be followed by extensions (RFC 9112, 7.1).
fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|b| *b == b';').next().unwrap_or_default().trim_ascii_end();
    number(digits, 16).ok_or(Malformed("a chunk size is not a number"))
}

/// A number of digits only; none when there is another byte, or when it is beyond belief.
fn number(text: &[u8], base: u32) -> Option<u64> {
    let add = |sum: u64, byte: &u8| {
        let digit = char::from(*byte).to_digit(base)?;
        sum.checked_mul(u64::from(base))?.checked_add(u64::from(digit)).filter(|n| *n <= BODY_BYTES_MAX)
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, add) }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
