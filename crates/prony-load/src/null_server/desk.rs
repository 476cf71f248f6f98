//! What one client of the null server is owed: requests heard, answers not yet sent.
//!
//! No sockets. Invariant: a client that asks without reading is owed a number (HTTP/1.1) or at most [`STREAMS_MAX`] answers
//! per piece heard (HTTP/2), never more.

use super::NullAnswer;
use crate::h2::frames::{self, HEAD_BYTES, Head, PAYLOAD_BYTES_MAX, flag, kind, setting};

/// Short answers are laid out many times in a row up to this size, so that pipelined requests take one system call.
/// A guess: the default send buffer of a socket is larger.
const BLOCK_BYTES: usize = 16 * 1024;
/// What ends a head of HTTP/1.1.
const HEAD_END: &[u8; 4] = b"\r\n\r\n";
/// Streams that a client of HTTP/2 may have at once. A guess: as many as nginx allows twice over.
const STREAMS_MAX: u32 = 256;
/// Bytes of the preface that a client of HTTP/2 begins with (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
/// `:status: 200`, the eighth entry of HPACK's static table (RFC 7541, appendix A).
const STATUS_200: u8 = 0x88;
/// `content-length` by the name of its entry, 28, and a value that no table shall keep (RFC 7541, 6.2.2).
const CONTENT_LENGTH: [u8; 2] = [0x0f, 0x0d];

/// The answer as on the wire, in the forms that sending it wants.
pub(super) struct Answer {
    /// Of HTTP/1.1, as often as `repeats` says.
    block: Vec<u8>,
    bytes: usize,
    repeats: usize,
    /// Whether the connection ends with it.
    pub close: bool,
    /// Of HTTP/2: frames whose stream must be filled in at these places.
    frames: Vec<u8>,
    stream_at: Vec<usize>,
}

impl Answer {
    pub fn new(answer: NullAnswer) -> Self {
        let one = answer.bytes();
        let repeats = if answer.close { 1 } else { (BLOCK_BYTES / one.len()).max(1) };
        let (frames, stream_at) = frames_of(answer.body_bytes);
        Self { bytes: one.len(), block: one.repeat(repeats), repeats, close: answer.close, frames, stream_at }
    }
}

/// HEADERS and as many DATA frames as the body needs, and where the number of the stream stands in each.
fn frames_of(body_bytes: usize) -> (Vec<u8>, Vec<usize>) {
    const STREAM_AT: usize = HEAD_BYTES - 4;
    let length = body_bytes.to_string();
    let mut out = Vec::with_capacity(body_bytes + 64);
    let mut stream_at = vec![STREAM_AT];
    let end = |last: bool| if last { flag::END_STREAM } else { 0 };
    frames::push_head(&mut out, 4 + length.len(), kind::HEADERS, flag::END_HEADERS | end(body_bytes == 0), 0);
    out.push(STATUS_200);
    out.extend_from_slice(&CONTENT_LENGTH);
    out.push(length.len() as u8);
    out.extend_from_slice(length.as_bytes());
    let mut left = body_bytes;
    while left > 0 {
        let part = left.min(PAYLOAD_BYTES_MAX);
        left -= part;
        stream_at.push(out.len() + STREAM_AT);
        frames::push_head(&mut out, part, kind::DATA, end(left == 0), 0);
        out.resize(out.len() + part, b'x');
    }
    (out, stream_at)
}

/// What one client is owed.
pub(super) enum Desk {
    /// HTTP/1.1: so many answers, all alike.
    Heads {
        /// How many bytes of [`HEAD_END`] came last.
        matched: u8,
        /// Answers that are not sent in full.
        owed: usize,
        /// Bytes of the first of them that are sent.
        sent: usize,
    },
    /// HTTP/2: frames.
    Frames(Frames),
}

/// A connection of HTTP/2.
#[derive(Default)]
pub(super) struct Frames {
    /// Bytes of the preface that came.
    preface: usize,
    /// The head of a frame, as far as it came.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of a payload that are still to come.
    payload: usize,
    /// To be sent.
    out: Vec<u8>,
    sent: usize,
}

/// A client that breaks the rules so far that it is not worth an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unheard;

impl Desk {
    pub fn heads() -> Self {
        Self::Heads { matched: 0, owed: 0, sent: 0 }
    }

    /// With the settings that a server begins with.
    pub fn frames() -> Self {
        let mut out = Vec::new();
        frames::push_head(&mut out, 6, kind::SETTINGS, 0, 0);
        out.extend_from_slice(&setting::MAX_CONCURRENT_STREAMS.to_be_bytes());
        out.extend_from_slice(&STREAMS_MAX.to_be_bytes());
        Self::Frames(Frames { out, ..Frames::default() })
    }

    /// Takes what a client said, in pieces of any size.
    pub fn hear(&mut self, bytes: &[u8], answer: &Answer) -> Result<(), Unheard> {
        match self {
            Self::Heads { matched, owed, .. } => {
                let heads = heads_ended(matched, bytes);
                *owed += if answer.close { heads.min(1) } else { heads };
                Ok(())
            }
            Self::Frames(frames) => frames.hear(bytes, answer),
        }
    }

    /// What is to be sent next; empty: nothing is owed.
    #[inline]
    pub fn owed<'a>(&'a self, answer: &'a Answer) -> &'a [u8] {
        match self {
            Self::Heads { owed: 0, .. } => &[],
            Self::Heads { owed, sent, .. } => &answer.block[*sent..(*owed).min(answer.repeats) * answer.bytes],
            Self::Frames(frames) => &frames.out[frames.sent..],
        }
    }

    /// Whether the connection ends now: an answer was sent, and answers end connections. Connections of HTTP/2 go on.
    pub fn is_done(&self, answer: &Answer) -> bool {
        matches!(self, Self::Heads { owed: 0, .. } if answer.close)
    }

    /// So much of it was sent.
    #[inline]
    pub fn sent(&mut self, count: usize, answer: &Answer) {
        match self {
            Self::Heads { owed, sent, .. } => {
                *owed -= (*sent + count) / answer.bytes;
                *sent = (*sent + count) % answer.bytes;
            }
            Self::Frames(frames) => {
                frames.sent += count;
                if frames.sent == frames.out.len() {
                    frames.out.clear();
                    frames.sent = 0;
                }
            }
        }
    }
}

impl Frames {
    fn hear(&mut self, bytes: &[u8], answer: &Answer) -> Result<(), Unheard> {
        let mut rest = bytes;
        let mut asked = 0;
        self.preface += skip(&mut rest, PREFACE_BYTES - self.preface);
        while !rest.is_empty() {
            if self.payload > 0 {
                self.payload -= skip(&mut rest, self.payload);
                continue;
            }
            let count = rest.len().min(HEAD_BYTES - self.head_bytes);
            self.head[self.head_bytes..self.head_bytes + count].copy_from_slice(&rest[..count]);
            self.head_bytes += count;
            rest = &rest[count..];
            if self.head_bytes == HEAD_BYTES {
                self.head_bytes = 0;
                let head = Head::read(&self.head);
                self.payload = head.length;
                asked += self.begin(head, answer);
            }
            if asked > STREAMS_MAX {
                return Err(Unheard);
            }
        }
        Ok(())
    }

    /// Answers what a frame asks for; how many requests that were. Windows, pings and resets are not heeded: the server is
    /// for prony's own client, which opens its windows wide and neither pings nor resets in a calibration.
    fn begin(&mut self, head: Head, answer: &Answer) -> u32 {
        if head.kind == kind::SETTINGS && !head.has(flag::ACK) {
            frames::push_settings_ack(&mut self.out);
        }
        let asks = matches!(head.kind, kind::HEADERS | kind::DATA) && head.has(flag::END_STREAM);
        if asks {
            let from = self.out.len();
            self.out.extend_from_slice(&answer.frames);
            for at in &answer.stream_at {
                self.out[from + at..from + at + 4].copy_from_slice(&head.stream.to_be_bytes());
            }
        }
        u32::from(asks)
    }
}

/// Leaves out so many bytes, or what there is; how many.
fn skip(rest: &mut &[u8], most: usize) -> usize {
    let count = most.min(rest.len());
    *rest = &rest[count..];
    count
}

/// How many heads end in these bytes; `matched` is carried from one piece to the next.
fn heads_ended(matched: &mut u8, bytes: &[u8]) -> usize {
    let mut ended = 0;
    let mut state = *matched;
    for byte in bytes {
        state = if *byte == HEAD_END[usize::from(state)] { state + 1 } else { u8::from(*byte == b'\r') };
        if usize::from(state) == HEAD_END.len() {
            ended += 1;
            state = 0;
        }
    }
    *matched = state;
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_in_any_piece() {
        let text = b"GET / HTTP/1.1\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n\r\r\n\r\n\r\n\r\n";
        let mut whole = 0;
        let all = heads_ended(&mut whole, text);
        assert_eq!(all, 3);
        for cut in 0..text.len() {
            let mut matched = 0;
            let first = heads_ended(&mut matched, &text[..cut]);
            assert_eq!(first + heads_ended(&mut matched, &text[cut..]), all, "cut at {cut}");
            assert_eq!(matched, whole);
        }
    }

    fn all_owed(pieces: &[&[u8]], answer: &Answer) -> Vec<u8> {
        let mut desk = Desk::frames();
        let mut out = Vec::new();
        for piece in pieces {
            desk.hear(piece, answer).unwrap();
            while !desk.owed(answer).is_empty() {
                out.push(desk.owed(answer)[0]);
                desk.sent(1, answer);
            }
        }
        out
    }

    #[test]
    fn frames_are_answered_in_any_piece() {
        let mut said = Vec::new();
        frames::push_opening(&mut said, 100);
        for (kind, flags, stream) in [
            (kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1),
            (kind::HEADERS, flag::END_HEADERS, 3),
            (kind::DATA, 0, 3),
            (kind::DATA, flag::END_STREAM, 3),
            (kind::SETTINGS, flag::ACK, 0),
        ] {
            frames::push_head(&mut said, 2, kind, flags, stream);
            said.extend_from_slice(b"xy");
        }
        let answer = Answer::new(NullAnswer { body_bytes: 20_000, close: false });
        let want = all_owed(&[&said], &answer);
        // Settings, their acknowledgement, and twice a head and a body in two frames.
        assert_eq!(want.len(), 15 + 9 + 2 * (9 + 9 + 2 * 9 + 20_000));
        for cut in 0..said.len() {
            let (first, rest) = said.split_at(cut);
            assert!(all_owed(&[first, rest], &answer) == want, "cut at {cut}");
        }
    }

    #[test]
    fn a_flood_of_streams_ends_the_connection() {
        let answer = Answer::new(NullAnswer { body_bytes: 0, close: false });
        let mut said = vec![0; PREFACE_BYTES];
        (0..=STREAMS_MAX).for_each(|n| frames::push_head(&mut said, 0, kind::HEADERS, flag::END_STREAM, 2 * n + 1));
        assert_eq!(Desk::frames().hear(&said[..said.len() - HEAD_BYTES], &answer), Ok(()));
        assert_eq!(Desk::frames().hear(&said, &answer), Err(Unheard));
    }
}
