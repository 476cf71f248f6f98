//! What every protocol gives to the loop: bytes for requests, answers for bytes.
//!
//! A protocol does no IO and reads no clock. Invariant: whatever the server sends, a [`Protocol::Link`] and what it captures
//! stay bounded, and every call that began ends in one [`Answer`], or with its connection.

/// A request, before any protocol encodes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Like `GET`.
    pub method: String,
    /// Path and query, like `/1k?a=b`.
    pub path: String,
    /// Host and port as in the URL, for `Host` or `:authority`, unless a header `Host` says otherwise.
    pub authority: String,
    /// Whether the connection is secured: the scheme of HTTP/2.
    pub secure: bool,
    /// Names and values in order, without what the protocol adds by itself.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Message {
    /// Whether the length of its body is told, even of an empty one (RFC 9110, 8.6).
    pub fn wants_length(&self) -> bool {
        !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }
}

/// A request as a protocol sends it, made once before the load or once per request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The protocol's own form: HTTP/1.1 head and body as on the wire; HTTP/2 a header block and the body behind it.
    pub bytes: Vec<u8>,
    /// Where the body begins in `bytes`.
    pub body_at: usize,
    /// Whether it is a HEAD request, whose answer has no body.
    pub head: bool,
}

/// Most bytes of a body that are kept for a scenario. A guess: more than any token or page of an API.
pub const CAPTURED_BODY_BYTES_MAX: usize = 1 << 20;

/// An answer as a scenario needs it. Given back to be used again, so that a long load does not allocate.
#[derive(Debug, Default)]
pub struct Captured {
    /// Header lines, `name: value\r\n` each; at most as long as a head may be.
    pub head: Vec<u8>,
    /// The body, chunking removed; cut at [`CAPTURED_BODY_BYTES_MAX`].
    pub body: Vec<u8>,
}

impl Captured {
    /// Forgets the answer and keeps the memory.
    pub fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
    }

    /// Keeps a header line, given without its line end.
    pub fn push_header(&mut self, line: &[u8]) {
        self.head.extend_from_slice(line);
        self.head.extend_from_slice(b"\r\n");
    }

    /// Keeps a part of a body, up to the limit.
    pub fn push_body(&mut self, part: &[u8]) {
        let room = CAPTURED_BODY_BYTES_MAX - self.body.len();
        self.body.extend_from_slice(&part[..part.len().min(room)]);
    }
}

/// How a call ended.
#[derive(Debug)]
pub struct Answer {
    /// The number that the loop gave to [`Protocol::begin`].
    pub call: u32,
    /// Its status code; none: the server refused or reset this call alone, and the connection lives on.
    pub status: Option<u16>,
    /// What was captured, if that was asked for.
    pub captured: Option<Box<Captured>>,
}

/// What a connection is after it was fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Ready for more.
    Open,
    /// It takes no new calls, those that began may still be answered (GOAWAY, `Connection: close` before the last answer).
    Draining,
    /// Every answer is here, and the server is about to close.
    Ended,
}

/// The bytes are not what the protocol allows, or break a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// One protocol: what is the same for all connections of a thread.
pub trait Protocol {
    /// What one connection remembers.
    type Link;

    /// Whether an answer that comes before its request has left in full makes the connection useless.
    const ANSWERS_FOLLOW_REQUESTS: bool;

    /// A place for one connection after another.
    fn link(&self) -> Self::Link;

    /// Most calls in flight on one connection.
    fn depth(&self) -> u32;

    /// Makes a request ready to be sent, into the memory of `into`.
    fn encode(&self, message: &Message, into: &mut Encoded);

    /// A new connection: forgets the one before it, and appends what it opens with (the preface of HTTP/2; HTTP/1.1:
    /// nothing).
    fn open(&self, link: &mut Self::Link, out: &mut Vec<u8>);

    /// Whether one more call may begin now (HTTP/2: the peer may allow fewer streams than `depth`).
    fn has_room(&self, link: &Self::Link) -> bool;

    /// Begins a call: appends its bytes. `capture`: keep head and body of the answer there.
    fn begin(
        &self,
        link: &mut Self::Link,
        call: u32,
        request: &Encoded,
        capture: Option<Box<Captured>>,
        out: &mut Vec<u8>,
    );

    /// Takes the next bytes from the connection; appends the answers that they complete, and to `out` what must be said
    /// in return (acknowledgements, window updates, bodies that waited for a window).
    ///
    /// # Errors
    /// [`Malformed`]; the connection is of no use afterwards.
    fn feed(
        &self,
        link: &mut Self::Link,
        bytes: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<After, Malformed>;

    /// The server closed: appends the answer that ends this way (HTTP/1.1 without a length), if any.
    fn end(&self, link: &mut Self::Link, answers: &mut Vec<Answer>);

    /// Gives one call up. True: the connection lives on (a reset was appended); false: it must be closed.
    fn cancel(&self, link: &mut Self::Link, call: u32, out: &mut Vec<u8>) -> bool;
}
