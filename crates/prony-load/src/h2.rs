//! HTTP/2 as a client (RFC 9113, RFC 7541): what all connections of a thread have in common.
//!
//! Calls are streams of one connection. There is no CONNECT, no push, no priority, and no upgrade from HTTP/1.1: a
//! server is known to speak it beforehand, or by ALPN. Invariants: as for every [`Protocol`]; and once a connection has
//! carried its first calls, a call whose answer has an ordinary head allocates nothing.

mod block;
mod frames;
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
