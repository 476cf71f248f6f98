//! Answers: heads and bodies as a connection receives them.
//!
//! It does not know where a frame begins or ends. Invariant: a call is answered once, when its stream ends, and never
//! with a status if the body is not as long as the head said.

use super::super::frames::{self, Head, WINDOW, flag, kind};
use super::super::hpack::{BLOCK_BYTES_MAX, BUFFER_KEPT_BYTES, Fields, Part};
use super::{Block, Body, Link};
use crate::protocol::{Answer, Malformed};

/// CONTINUATION frames of one block. A guess: 64 KiB in pieces of 1 KiB.
const CONTINUATIONS_MAX: u32 = 64;

impl Link {
    /// A part of a header block, which may be the whole of it.
    #[inline]
    pub(super) fn take_block_part(
        &mut self,
        block: Block,
        head: Head,
        part: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        let is_whole = head.has(flag::END_HEADERS);
        if is_whole && head.kind == kind::HEADERS {
            return self.take_block(block, part, out, answers);
        }
        if self.block_bytes.len() + part.len() > BLOCK_BYTES_MAX {
            return Err(Malformed("the head is longer than 64 KiB"));
        }
        if block.continuations > CONTINUATIONS_MAX {
            return Err(Malformed("the head comes in more than 64 pieces"));
        }
        self.block_bytes.reserve_exact(part.len());
        self.block_bytes.extend_from_slice(part);
        if !is_whole {
            self.block = Some(Block { continuations: block.continuations + 1, ..block });
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.block_bytes);
        self.take_block(block, &bytes, out, answers)?;
        if bytes.capacity() <= BUFFER_KEPT_BYTES {
            bytes.clear();
            self.block_bytes = bytes;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn take_block(
        &mut self,
        block: Block,
        bytes: &[u8],
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        let Some(place) = self.streams.find(block.stream) else {
            self.check_given_up(block.stream)?;
            self.count_idle()?;
            return self.decoder.read(bytes, &mut Fields::of(Part::Ignored, None));
        };
        let stream = self.streams.at(place);
        if stream.status != 0 {
            if !block.is_last {
                return Err(Malformed("a second head comes before the end of the body"));
            }
            self.decoder.read(bytes, &mut Fields::of(Part::Trailers, None))?;
        } else {
            let lines = stream.captured.as_mut().map(|captured| &mut captured.head);
            let mut fields = Fields::of(Part::Head, lines);
            self.decoder.read(bytes, &mut fields)?;
            let (status, length) = (fields.status, fields.length);
            match status {
                0 => return Err(Malformed("a head without :status")),
                101 => return Err(Malformed("the server switches protocols, which HTTP/2 cannot")),
                100..=199 if block.is_last => return Err(Malformed("an interim answer ends the stream")),
                100..=199 => {
                    // The real head follows. An endless row of these ends with the request's timeout.
                    if let Some(captured) = &mut stream.captured {
                        captured.head.clear();
                    }
                    return self.count_idle();
                }
                _ => (stream.status, stream.length) = (status, length),
            }
        }
        self.progress();
        if block.is_last {
            self.complete(place, out, answers);
        }
        Ok(())
    }
}

impl Link {
    /// The head of a DATA frame came.
    #[inline]
    pub(super) fn begin_body(
        &mut self,
        head: Head,
        out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        self.check_stream(head.stream)?;
        let place = self.streams.find(head.stream);
        match place {
            Some(place) if self.streams.at(place).status == 0 => return Err(Malformed("a body comes before its head")),
            Some(_) => {}
            None => self.check_given_up(head.stream)?,
        }
        let is_last = head.has(flag::END_STREAM);
        if head.length == 0 && !is_last {
            return self.count_idle();
        }
        self.credit(head, place, out);
        self.progress();
        self.body = Body { stream: head.stream, left: head.length, is_last };
        if head.length == 0 {
            self.take_body(&[], out, answers);
        }
        Ok(())
    }

    /// Lets the server send again what it just sent, in large steps.
    #[inline]
    pub(super) fn credit(&mut self, head: Head, place: Option<usize>, out: &mut Vec<u8>) {
        self.uncredited += head.length as u32;
        if self.uncredited >= WINDOW / 2 {
            frames::push_window_update(out, 0, std::mem::take(&mut self.uncredited));
        }
        let Some(place) = place else { return };
        let stream = self.streams.at(place);
        stream.uncredited += head.length as u32;
        if stream.uncredited >= WINDOW / 2 && !head.has(flag::END_STREAM) {
            frames::push_window_update(out, head.stream, std::mem::take(&mut stream.uncredited));
        }
    }

    /// Bytes of a body, no more than are left of the frame.
    #[inline]
    pub(super) fn take_body(&mut self, part: &[u8], out: &mut Vec<u8>, answers: &mut Vec<Answer>) {
        self.body.left -= part.len();
        // None: it was given up.
        let Some(place) = self.streams.find(self.body.stream) else { return };
        let stream = self.streams.at(place);
        stream.received += part.len() as u64;
        if let Some(captured) = &mut stream.captured {
            captured.push_body(part);
        }
        if self.body.left == 0 && self.body.is_last {
            self.complete(place, out, answers);
        }
    }

    /// The answer ends.
    #[inline]
    pub(super) fn complete(&mut self, place: usize, out: &mut Vec<u8>, answers: &mut Vec<Answer>) {
        let stream = self.streams.at(place);
        let status = stream.is_whole().then_some(stream.status);
        answers.push(Answer { call: stream.call, status, captured: stream.captured.take() });
        if stream.has_unsent() {
            // Answered before it was asked to the end (RFC 9113, 8.1): our half of the stream must end as well.
            self.give_up(place, out);
        } else {
            self.streams.close(place);
        }
    }

    /// Ends a stream from our side.
    pub(super) fn give_up(&mut self, place: usize, out: &mut Vec<u8>) {
        let id = self.streams.id(place);
        frames::push_reset(out, id);
        self.given_up = self.given_up.max(id);
        self.forget(place);
    }

    /// Frees a place that may wait for a window.
    pub(super) fn forget(&mut self, place: usize) {
        if self.streams.at(place).has_unsent() {
            self.waiting.retain(|waiting| *waiting as usize != place);
        }
        self.streams.close(place);
    }
}
