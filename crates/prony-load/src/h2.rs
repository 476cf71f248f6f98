//! HTTP/2 as a client (RFC 9113, RFC 7541): what all connections of a thread have in common.
//!
//! Calls are streams of one connection. There is no CONNECT, no push, no priority, and no upgrade from HTTP/1.1: a
//! server is known to speak it beforehand, or by ALPN. Invariants: as for every [`Protocol`]; and once a connection has
//! carried its first calls, a call whose answer has an ordinary head allocates nothing.

mod block;
pub(crate) mod frames;
mod hpack;
mod huffman;
mod link;
mod peer;
mod streams;
mod table;
#[cfg(test)]
mod withstand_tests;

pub use link::Link;

use crate::protocol::{After, Answer, Captured, Encoded, Malformed, Message, Protocol};
use block::Common;
use frames::{HEAD_BYTES, Head, kind};
use std::io::{Read, Write};

/// Most streams on one connection. A guess: servers allow 100 to 1000, and memory is set aside for each.
const DEPTH_MAX: u32 = 1 << 16;

/// HTTP/2 for the connections of a thread.
#[derive(Debug)]
pub struct Http2 {
    depth: u32,
    common: Common,
}

impl Http2 {
    /// At most `depth` calls at once on each connection. `common`: authority and headers with which all requests begin,
    /// in this order; they are sent in full once per connection, and by index afterwards. Requests that begin otherwise
    /// are sent in full each time.
    pub fn new(depth: u32, common: &Message) -> Self {
        Self { depth: depth.clamp(1, DEPTH_MAX), common: Common::of(common) }
    }
}

impl Protocol for Http2 {
    type Link = Link;
    const ANSWERS_FOLLOW_REQUESTS: bool = false;

    fn link(&self) -> Link {
        Link::new(self.depth)
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn encode(&self, message: &Message, into: &mut Encoded) {
        self.common.encode(message, into);
    }

    fn open(&self, link: &mut Link, out: &mut Vec<u8>) {
        *link = self.link();
        frames::push_opening(out, hpack::BLOCK_BYTES_MAX as u32);
    }

    #[inline]
    fn has_room(&self, link: &Link) -> bool {
        link.has_room(self.depth)
    }

    #[inline]
    fn begin(&self, link: &mut Link, call: u32, request: &Encoded, capture: Option<Box<Captured>>, out: &mut Vec<u8>) {
        link.begin(call, request, &self.common, capture, out);
    }

    #[inline]
    fn feed(
        &self,
        link: &mut Link,
        bytes: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<After, Malformed> {
        link.feed(bytes, out, answers)
    }

    /// A stream ends with a flag; a connection that closes before answers nothing.
    fn end(&self, _link: &mut Link, _answers: &mut Vec<Answer>) {}

    fn cancel(&self, link: &mut Link, call: u32, out: &mut Vec<u8>) -> bool {
        link.cancel(call, out);
        true
    }
}

/// Opens a connection over a stream that blocks, and looks how the server's answer begins: what speaks HTTP/2 says SETTINGS
/// first (RFC 9113, 3.4). Give the stream a read timeout. A server that says nothing, or too little, is left to the load, which
/// counts that.
///
/// # Errors
/// How it answered instead, like `HTTP/1.1`.
pub fn trial(stream: &mut (impl Read + Write)) -> Result<(), String> {
    let mut opening = Vec::new();
    frames::push_opening(&mut opening, hpack::BLOCK_BYTES_MAX as u32);
    let mut head = [0; HEAD_BYTES];
    if stream.write_all(&opening).and_then(|()| stream.read_exact(&mut head)).is_err() {
        return Ok(());
    }
    let frame = Head::read(&head);
    if frame.kind == kind::SETTINGS && frame.stream == 0 {
        return Ok(());
    }
    Err(match &head {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b' '] => {
            format!("HTTP/1.{}", char::from(*minor))
        }
        other => format!("what begins with `{}`", other.escape_ascii()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Cursor};

    /// A server that says this, whatever it hears.
    struct Server {
        says: Cursor<Vec<u8>>,
        heard: Vec<u8>,
    }

    impl Read for Server {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.says.read(into)
        }
    }

    impl Write for Server {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn heard_of(says: &[u8]) -> Result<(), String> {
        let mut server = Server { says: Cursor::new(says.to_vec()), heard: Vec::new() };
        let told = trial(&mut server);
        assert!(server.heard.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        told
    }

    #[test]
    fn a_server_is_known_by_how_it_begins() {
        assert_eq!(heard_of(b"\0\0\0\x04\0\0\0\0\0"), Ok(()));
        assert_eq!(heard_of(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Err("HTTP/1.1".to_string()));
        assert_eq!(heard_of(b"HTTP/1.0 505 No\r\n\r\n"), Err("HTTP/1.0".to_string()));
        // As Python's own server does.
        assert_eq!(heard_of(b"<!DOCTYPE HTML>\n"), Err("what begins with `<!DOCTYPE`".to_string()));
        assert_eq!(
            heard_of(b"\x15\x03\x01\0\x02\x02F\0\0"),
            Err(r"what begins with `\x15\x03\x01\x00\x02\x02F\x00\x00`".to_string())
        );
    }

    #[test]
    fn one_that_says_too_little_is_left_to_the_load() {
        assert_eq!(heard_of(b""), Ok(()));
        assert_eq!(heard_of(b"HTTP/1.1"), Ok(()));
    }
}
