//! One connection: the calls in flight on it, and what is between two frames.
//!
//! Bytes come in any pieces: bodies are counted as they come, every other frame is taken when it is whole. Invariants:
//! what is kept of the server's bytes is at most one frame and one header block; the answers to what the server may
//! send unasked are counted, so that it can neither make `out` grow without end nor keep us busy for nothing.

use super::block::{Common, has_common};
use super::frames::{self, HEAD_BYTES, Head, MAX_31_BITS, PAYLOAD_BYTES_MAX, flag, kind};
use super::hpack::{BUFFER_KEPT_BYTES, Decoder};
use super::peer::Peer;
use super::streams::Streams;
use crate::protocol::{After, Answer, Captured, Encoded, Malformed};
use control::push_body;
use std::collections::VecDeque;

mod answers;
mod control;

/// Frames that a server may send for nothing between two that carry something. A guess: a ping per second for hours,
/// and less than a millisecond of work.
const IDLE_FRAMES_MAX: u32 = 10_000;
/// The last stream that a client can open.
const LAST_STREAM: u32 = MAX_31_BITS;

/// What one connection remembers.
#[derive(Debug)]
pub struct Link {
    streams: Streams,
    peer: Peer,
    decoder: Decoder,
    /// The stream of the next call.
    next: u32,
    /// Streams up to this one may have been given up, so that what still comes for them is no fault.
    given_up: u32,
    /// Whether the server takes no new calls.
    draining: bool,
    /// The beginning of a frame of which the rest did not come yet.
    partial: Vec<u8>,
    /// The DATA frame that is coming.
    body: Body,
    /// The header block that is coming.
    block: Option<Block>,
    /// Its bytes.
    block_bytes: Vec<u8>,
    /// Places whose bodies wait for a window, longest waiting first.
    waiting: VecDeque<u32>,
    /// How much of what came is not yet allowed again by a window update for the connection.
    uncredited: u32,
    idle_frames_left: u32,
    acks_unsent: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Body {
    stream: u32,
    left: usize,
    is_last: bool,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    stream: u32,
    is_last: bool,
    continuations: u32,
}

impl Link {
    /// A connection that carries at most `depth` calls at once. Allocates nothing before the first.
    pub fn new(depth: u32) -> Self {
        Self {
            streams: Streams::new(depth),
            peer: Peer::new(),
            decoder: Decoder::new(),
            next: 1,
            given_up: 0,
            draining: false,
            partial: Vec::new(),
            body: Body::default(),
            block: None,
            block_bytes: Vec::new(),
            waiting: VecDeque::new(),
            uncredited: 0,
            idle_frames_left: IDLE_FRAMES_MAX,
            acks_unsent: 0,
        }
    }

    /// Whether one more call may begin, of at most `depth`.
    #[inline]
    pub fn has_room(&self, depth: u32) -> bool {
        !self.is_draining() && self.streams.in_flight() < self.peer.streams_max.min(depth) as usize
    }

    /// Begins a call.
    #[inline]
    pub fn begin(
        &mut self,
        call: u32,
        request: &Encoded,
        common: &Common,
        captured: Option<Box<Captured>>,
        out: &mut Vec<u8>,
    ) {
        let id = self.next;
        self.next += 2;
        let body = &request.bytes[request.body_at..];
        let place = self.streams.open(id);
        let stream = self.streams.at(place);
        (stream.call, stream.head, stream.captured) = (call, request.head, captured);
        stream.window = self.peer.stream_window;
        let at = out.len();
        let end = if body.is_empty() { flag::END_STREAM } else { 0 };
        frames::push_head(out, 0, kind::HEADERS, flag::END_HEADERS | end, id);
        let say = self.peer.say(has_common(request), out);
        common.push(request, say, out);
        frames::close_headers(out, at, self.peer.payload_bytes_max);
        if !body.is_empty() {
            let (sent, frames) = push_body(body, id, &mut stream.window, &mut self.peer, out);
            self.allow_idle(frames);
            if sent < body.len() {
                let stream = self.streams.at(place);
                stream.unsent.extend_from_slice(&body[sent..]);
                self.waiting.push_back(place as u32);
            }
        }
    }

    /// Takes the next bytes from the connection.
    ///
    /// # Errors
    /// [`Malformed`]; the connection is of no use afterwards.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, answers: &mut Vec<Answer>) -> Result<After, Malformed> {
        if out.is_empty() {
            self.acks_unsent = 0;
        }
        let mut rest = bytes;
        if !self.partial.is_empty() {
            rest = self.finish_partial(rest, out, answers)?;
        }
        while !rest.is_empty() {
            if self.body.left > 0 {
                let (part, after) = rest.split_at(self.body.left.min(rest.len()));
                rest = after;
                self.take_body(part, out, answers);
                continue;
            }
            let Some((head, after)) = rest.split_first_chunk() else {
                self.partial.extend_from_slice(rest);
                break;
            };
            let head = self.read_head(head)?;
            if is_streamed(&head) {
                rest = after;
                self.begin_body(head, out, answers)?;
            } else if let Some((payload, after)) = after.split_at_checked(head.length) {
                rest = after;
                self.take_frame(head, payload, out, answers)?;
            } else {
                self.partial.extend_from_slice(rest);
                break;
            }
        }
        Ok(match (self.is_draining(), self.streams.in_flight()) {
            (false, _) => After::Open,
            (true, 0) => After::Ended,
            (true, _) => After::Draining,
        })
    }

    /// Gives a call up. Gives whether it was in flight.
    pub fn cancel(&mut self, call: u32, out: &mut Vec<u8>) -> bool {
        let Some(place) = self.streams.find_call(call) else { return false };
        self.give_up(place, out);
        true
    }

    /// Memory of what is kept of the server's bytes and of bodies that wait; captured answers not counted.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        let buffers =
            self.partial.capacity() + self.block_bytes.capacity() + self.waiting.capacity() * size_of::<u32>();
        buffers + self.decoder.memory_bytes() + self.streams.memory_bytes()
    }

    fn is_draining(&self) -> bool {
        self.draining || self.next > LAST_STREAM
    }

    /// Completes the kept beginning of a frame with the first of these bytes, and gives the others.
    fn finish_partial<'b>(
        &mut self,
        bytes: &'b [u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<&'b [u8], Malformed> {
        let mut rest = bytes;
        if !self.keep_until(HEAD_BYTES, &mut rest) {
            return Ok(rest);
        }
        let Some(head) = self.partial.first_chunk() else { return Ok(rest) };
        let head = self.read_head(head)?;
        if is_streamed(&head) {
            self.partial.clear();
            self.begin_body(head, out, answers)?;
        } else if self.keep_until(HEAD_BYTES + head.length, &mut rest) {
            let mut frame = std::mem::take(&mut self.partial);
            self.take_frame(head, &frame[HEAD_BYTES..], out, answers)?;
            if frame.capacity() <= BUFFER_KEPT_BYTES {
                frame.clear();
                self.partial = frame;
            }
        }
        Ok(rest)
    }

    /// Whether the kept beginning is as long as that, after taking what is missing.
    fn keep_until(&mut self, length: usize, rest: &mut &[u8]) -> bool {
        let (part, after) = rest.split_at(length.saturating_sub(self.partial.len()).min(rest.len()));
        self.partial.extend_from_slice(part);
        *rest = after;
        self.partial.len() >= length
    }

    /// Reads the head of a frame, and whether such a frame may come now.
    #[inline]
    fn read_head(&self, bytes: &[u8; HEAD_BYTES]) -> Result<Head, Malformed> {
        let head = Head::read(bytes);
        if !self.peer.is_known && (head.kind != kind::SETTINGS || head.has(flag::ACK) || head.stream != 0) {
            if bytes.starts_with(b"HTTP/1") {
                return Err(Malformed("the server answers in HTTP/1: it takes no HTTP/2 on this port"));
            }
            return Err(Malformed("the first frame is not SETTINGS"));
        }
        if head.length > PAYLOAD_BYTES_MAX {
            return Err(Malformed("a frame is longer than the 16 KiB that it may be"));
        }
        match self.block {
            Some(block) if head.kind != kind::CONTINUATION || head.stream != block.stream => {
                Err(Malformed("a header block is interrupted by another frame"))
            }
            None if head.kind == kind::CONTINUATION => Err(Malformed("a CONTINUATION frame continues nothing")),
            Some(_) | None => Ok(head),
        }
    }

    fn take_frame(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        match head.kind {
            kind::HEADERS => {
                let block = Block { stream: head.stream, is_last: head.has(flag::END_STREAM), continuations: 0 };
                self.check_stream(head.stream)?;
                self.take_block_part(block, head, head.content(payload)?, out, answers)
            }
            kind::CONTINUATION => match self.block.take() {
                Some(block) => self.take_block_part(block, head, payload, out, answers),
                None => Err(Malformed("a CONTINUATION frame continues nothing")),
            },
            kind::DATA => {
                // Padded: the only one that must be whole.
                self.begin_body(Head { length: 0, flags: 0, ..head }, out, answers)?;
                self.credit(head, self.streams.find(head.stream), out);
                let content = head.content(payload)?;
                let is_last = head.has(flag::END_STREAM);
                if !content.is_empty() || is_last {
                    self.progress();
                }
                self.body = Body { stream: head.stream, left: content.len(), is_last };
                self.take_body(content, out, answers);
                Ok(())
            }
            kind::RST_STREAM => self.take_reset(head, payload, answers),
            kind::SETTINGS => self.take_settings(head, payload, out),
            kind::PUSH_PROMISE => Err(Malformed("the server pushes, which was forbidden")),
            kind::PING => self.take_ping(head, payload, out),
            kind::GOAWAY => self.take_goaway(head, payload, answers),
            kind::WINDOW_UPDATE => self.take_window_update(head, payload, out),
            kind::PRIORITY if payload.len() != 5 || head.stream == 0 => Err(Malformed("a PRIORITY frame is wrong")),
            _ => self.count_idle(),
        }
    }
}

/// Whether the payload of a frame is taken as it comes. Padding is rare, and easier to see when all of it is there.
#[inline]
fn is_streamed(head: &Head) -> bool {
    head.kind == kind::DATA && !head.has(flag::PADDED)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
