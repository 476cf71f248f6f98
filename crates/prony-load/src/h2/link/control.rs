//! Frames about the connection and about whole streams: settings, windows, pings, resets; and the bodies that wait for
//! windows.
//!
//! It takes no part of an answer. Invariant: frames that carry nothing are counted, and so are the answers that they
//! want.

use super::super::frames::{self, Head, MAX_31_BITS, flag, kind};
use super::super::peer::Peer;
use super::{IDLE_FRAMES_MAX, Link};
use crate::protocol::{Answer, Malformed};

/// Idle frames allowed for each DATA frame that we send, because window updates answer them. Envoy allows 10
/// (`max_inbound_window_update_frames_per_data_frame_sent`).
const IDLE_FRAMES_PER_SENT: u32 = 16;
/// Acknowledgements that may wait to be sent. A guess: 17 KB; no server asks for so many before it reads one.
const ACKS_UNSENT_MAX: u32 = 1_000;

impl Link {
    pub(super) fn take_reset(
        &mut self,
        head: Head,
        payload: &[u8],
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        self.check_stream(head.stream)?;
        if payload.len() != 4 {
            return Err(Malformed("a RST_STREAM frame is not 4 bytes long"));
        }
        match self.streams.find(head.stream) {
            Some(place) => self.refuse(place, answers),
            None => self.count_idle()?,
        }
        Ok(())
    }

    /// The server will not answer a call.
    pub(super) fn refuse(&mut self, place: usize, answers: &mut Vec<Answer>) {
        let stream = self.streams.at(place);
        answers.push(Answer { call: stream.call, status: None, captured: stream.captured.take() });
        // What the server sent before it refused is behind us, but a frame of another kind may be on its way.
        self.given_up = self.given_up.max(self.streams.id(place));
        self.forget(place);
        self.progress();
    }

    pub(super) fn take_settings(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        if head.stream != 0 {
            return Err(Malformed("a SETTINGS frame for a stream"));
        }
        self.count_idle()?;
        if head.has(flag::ACK) {
            let empty = payload.is_empty();
            return if empty { Ok(()) } else { Err(Malformed("an acknowledgement of settings holds settings")) };
        }
        let change = self.peer.settle(payload)?;
        if change != 0 {
            for place in self.streams.places() {
                if self.streams.id(place) != 0 {
                    widen(&mut self.streams.at(place).window, change)?;
                }
            }
        }
        self.count_ack()?;
        frames::push_settings_ack(out);
        self.send_waiting(out);
        Ok(())
    }

    pub(super) fn take_ping(&mut self, head: Head, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        if payload.len() != 8 || head.stream != 0 {
            return Err(Malformed("a PING frame is not 8 bytes long, or for a stream"));
        }
        self.count_idle()?;
        if !head.has(flag::ACK) {
            self.count_ack()?;
            frames::push_ping_ack(out, payload);
        }
        Ok(())
    }

    /// The server will answer up to a stream, and then close.
    pub(super) fn take_goaway(
        &mut self,
        head: Head,
        payload: &[u8],
        answers: &mut Vec<Answer>,
    ) -> Result<(), Malformed> {
        let Some(last) = payload.first_chunk::<4>().filter(|_| payload.len() >= 8 && head.stream == 0) else {
            return Err(Malformed("a GOAWAY frame is shorter than 8 bytes, or for a stream"));
        };
        let last = u32::from_be_bytes(*last) & MAX_31_BITS;
        self.count_idle()?;
        self.draining = true;
        for place in self.streams.places() {
            if self.streams.id(place) > last {
                self.refuse(place, answers);
            }
        }
        Ok(())
    }

    pub(super) fn take_window_update(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let Some(increment) = payload.first_chunk().filter(|_| payload.len() == 4) else {
            return Err(Malformed("a WINDOW_UPDATE frame is not 4 bytes long"));
        };
        let increment = i64::from(u32::from_be_bytes(*increment) & MAX_31_BITS);
        if increment == 0 {
            return Err(Malformed("a window update of nothing"));
        }
        self.count_idle()?;
        if head.stream == 0 {
            widen(&mut self.peer.window, increment)?;
        } else {
            self.check_stream(head.stream)?;
            // Those of streams that have ended were on their way.
            let Some(place) = self.streams.find(head.stream) else { return Ok(()) };
            widen(&mut self.streams.at(place).window, increment)?;
        }
        self.send_waiting(out);
        Ok(())
    }

    /// Whether a stream is one that we opened.
    #[inline]
    pub(super) fn check_stream(&self, id: u32) -> Result<(), Malformed> {
        if id % 2 == 1 && id < self.next {
            Ok(())
        } else {
            Err(Malformed("a frame for a stream that was never opened"))
        }
    }

    /// Whether a frame may come for a stream that is not in flight any more.
    pub(super) fn check_given_up(&self, id: u32) -> Result<(), Malformed> {
        if id <= self.given_up { Ok(()) } else { Err(Malformed("a frame for a stream that has ended")) }
    }

    /// Counts a frame that carries nothing.
    pub(super) fn count_idle(&mut self) -> Result<(), Malformed> {
        match self.idle_frames_left.checked_sub(1) {
            Some(left) => {
                self.idle_frames_left = left;
                Ok(())
            }
            None => Err(Malformed("a flood: 10,000 frames that carry nothing")),
        }
    }

    /// Something came: the server may again send frames that carry nothing.
    #[inline]
    pub(super) fn progress(&mut self) {
        self.idle_frames_left = self.idle_frames_left.max(IDLE_FRAMES_MAX);
    }

    /// We sent DATA frames, which the server may answer with window updates.
    #[inline]
    pub(super) fn allow_idle(&mut self, sent: u32) {
        self.idle_frames_left = self.idle_frames_left.saturating_add(sent.saturating_mul(IDLE_FRAMES_PER_SENT));
    }

    pub(super) fn count_ack(&mut self) -> Result<(), Malformed> {
        self.acks_unsent += 1;
        if self.acks_unsent > ACKS_UNSENT_MAX {
            return Err(Malformed("a flood: 1,000 acknowledgements wait for the server to read them"));
        }
        Ok(())
    }

    /// Sends of the waiting bodies what the windows allow.
    pub(super) fn send_waiting(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.waiting.len() {
            if self.peer.window <= 0 {
                return;
            }
            let Some(place) = self.waiting.pop_front() else { return };
            let id = self.streams.id(place as usize);
            let stream = self.streams.at(place as usize);
            let (sent, frames) =
                push_body(&stream.unsent[stream.unsent_from..], id, &mut stream.window, &mut self.peer, out);
            stream.unsent_from += sent;
            if stream.has_unsent() {
                self.waiting.push_back(place);
            } else {
                stream.unsent.clear();
                stream.unsent_from = 0;
            }
            self.allow_idle(frames);
        }
    }
}

/// Moves a window.
fn widen(window: &mut i64, by: i64) -> Result<(), Malformed> {
    *window += by;
    if *window > i64::from(MAX_31_BITS) { Err(Malformed("a window is larger than 2^31 - 1")) } else { Ok(()) }
}

/// Appends as much of a body as the windows allow, the last part with the end of the stream. Gives how many bytes, and
/// in how many frames.
pub(super) fn push_body(body: &[u8], id: u32, window: &mut i64, peer: &mut Peer, out: &mut Vec<u8>) -> (usize, u32) {
    let room = (*window).min(peer.window).max(0) as usize;
    let sent = body.len().min(room);
    let parts = body[..sent].chunks(peer.payload_bytes_max);
    let (last, mut frames) = (parts.len() as u32, 0);
    for part in parts {
        frames += 1;
        let end = if frames == last && sent == body.len() { flag::END_STREAM } else { 0 };
        frames::push_head(out, part.len(), kind::DATA, end, id);
        out.extend_from_slice(part);
    }
    *window -= sent as i64;
    peer.window -= sent as i64;
    (sent, frames)
}
