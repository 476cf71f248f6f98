//! Frames (RFC 9113, 4 and 6): their heads, and those that a client says.
//!
//! It knows neither streams nor state. Invariant: every frame written here is one that each server must take.

use crate::protocol::Malformed;

/// Bytes before each payload.
pub const HEAD_BYTES: usize = 9;
/// Largest payload that a server may send us: the initial value (RFC 9113, 6.5.2), which we leave as it is. Larger ones
/// would save 9 bytes in 16 KiB.
pub const PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// Largest window (RFC 9113, 6.9.1), and largest stream identifier (5.1.1).
pub const MAX_31_BITS: u32 = 0x7fff_ffff;
/// What a window is before anybody spoke of it (RFC 9113, 6.9.2).
pub const WINDOW_INITIAL: u32 = 65_535;
/// What we let the server send before it must wait, for each stream and for the connection: 1 GiB, as h2load does by
/// default (`-w 30 -W 30`). A generator takes whatever comes, so a window of ours must never be the limit.
pub const WINDOW: u32 = 1 << 30;

/// Types of frames; others are ignored (RFC 9113, 4.1).
pub mod kind {
    #![allow(missing_docs, reason = "the names are those of RFC 9113, section 6")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub mod flag {
    #![allow(missing_docs, reason = "the names are those of RFC 9113, section 6")]
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

/// Identifiers of settings that we send or heed.
pub mod setting {
    #![allow(missing_docs, reason = "the names are those of RFC 9113, 6.5.2")]
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// The code of RST_STREAM for a call given up (RFC 9113, 7).
const CANCEL: u32 = 8;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of payload.
    pub length: usize,
    /// One of [`kind`], or unknown.
    pub kind: u8,
    /// Some of [`flag`].
    pub flags: u8,
    /// 0: the connection itself.
    pub stream: u32,
}

impl Head {
    /// Reads the bytes before a payload.
    #[inline]
    pub fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [l1, l2, l3, kind, flags, s1, s2, s3, s4] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l1, l2, l3]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([s1, s2, s3, s4]) & MAX_31_BITS,
        }
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload without its padding, and without the priority of HEADERS.
    ///
    /// # Errors
    /// When there is more padding than payload.
    #[inline]
    pub fn content<'a>(&self, payload: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let mut content = payload;
        if self.has(flag::PADDED) {
            const WRONG: Malformed = Malformed("a frame is padded beyond its length");
            let (padding, rest) = content.split_first().ok_or(WRONG)?;
            let kept = rest.len().checked_sub(usize::from(*padding)).ok_or(WRONG)?;
            content = &rest[..kept];
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..).ok_or(Malformed("a HEADERS frame is too short for its priority"))?;
        }
        Ok(content)
    }
}

/// Appends the head of a frame.
#[inline]
pub fn push_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, l1, l2, l3] = (length as u32).to_be_bytes();
    let [s1, s2, s3, s4] = stream.to_be_bytes();
    out.extend_from_slice(&[l1, l2, l3, kind, flags, s1, s2, s3, s4]);
}

/// Appends what a client opens with: the preface, its settings, and the window of the connection.
pub fn push_opening(out: &mut Vec<u8>, header_bytes_max: u32) {
    out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let settings = [
        (setting::ENABLE_PUSH, 0),
        (setting::INITIAL_WINDOW_SIZE, WINDOW),
        (setting::MAX_HEADER_LIST_SIZE, header_bytes_max),
    ];
    push_head(out, 6 * settings.len(), kind::SETTINGS, 0, 0);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    push_window_update(out, 0, WINDOW - WINDOW_INITIAL);
}

/// Appends the acknowledgement of settings.
pub fn push_settings_ack(out: &mut Vec<u8>) {
    push_head(out, 0, kind::SETTINGS, flag::ACK, 0);
}

/// Appends the answer to a ping.
pub fn push_ping_ack(out: &mut Vec<u8>, payload: &[u8]) {
    push_head(out, payload.len(), kind::PING, flag::ACK, 0);
    out.extend_from_slice(payload);
}

/// Lets the server send so many bytes more.
pub fn push_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    push_head(out, 4, kind::WINDOW_UPDATE, 0, stream);
    out.extend_from_slice(&bytes.to_be_bytes());
}

/// Gives a stream up.
pub fn push_reset(out: &mut Vec<u8>, stream: u32) {
    push_head(out, 4, kind::RST_STREAM, 0, stream);
    out.extend_from_slice(&CANCEL.to_be_bytes());
}

/// Makes the HEADERS frame whose head is at `at` with a block behind it right: fills in its length, or cuts it into
/// CONTINUATION frames where the server takes no frame as long.
#[inline]
pub fn close_headers(out: &mut Vec<u8>, at: usize, payload_bytes_max: usize) {
    let length = out.len() - at - HEAD_BYTES;
    if length <= payload_bytes_max {
        let [_, l1, l2, l3] = (length as u32).to_be_bytes();
        out[at..at + 3].copy_from_slice(&[l1, l2, l3]);
        return;
    }
    let long = out.split_off(at);
    let (head, block) = long.split_at(HEAD_BYTES);
    let (flags, stream) = (head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
    let (first, rest) = block.split_at(payload_bytes_max);
    push_head(out, first.len(), kind::HEADERS, flags & !flag::END_HEADERS, stream);
    out.extend_from_slice(first);
    let last = rest.chunks(payload_bytes_max).len() - 1;
    for (nth, part) in rest.chunks(payload_bytes_max).enumerate() {
        push_head(out, part.len(), kind::CONTINUATION, if nth == last { flag::END_HEADERS } else { 0 }, stream);
        out.extend_from_slice(part);
    }
}
