//! What a server allows on one connection: its settings, its window, and what its header table holds of ours.
//!
//! Invariant: nothing is allowed that the server did not say, or that RFC 9113 does not allow before it said anything.

use super::block::Say;
use super::frames::{MAX_31_BITS, PAYLOAD_BYTES_MAX, WINDOW_INITIAL, setting};
use super::table::TABLE_BYTES_MAX;
use crate::protocol::Malformed;

/// Streams begun before the server said how many it takes: what RFC 9113, 6.5.2 asks servers to allow at least.
const STREAMS_ASSUMED: u32 = 100;

/// The server's side of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Bytes of bodies that may be sent on the connection.
    pub window: i64,
    /// The same for a new stream.
    pub stream_window: i64,
    /// Largest payload of a frame.
    pub payload_bytes_max: usize,
    /// Most streams at once.
    pub streams_max: u32,
    /// Whether its settings came.
    pub is_known: bool,
    table: OurEntries,
}

/// What the server's header table holds of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OurEntries {
    /// Nothing.
    None,
    /// What all requests have in common.
    Common,
    /// Nothing any more: it is too small. The next block must say that we know (RFC 7541, 4.2).
    Resign,
    /// Nothing ever again.
    Never,
}

impl Peer {
    /// Before it said anything.
    pub fn new() -> Self {
        Self {
            window: i64::from(WINDOW_INITIAL),
            stream_window: i64::from(WINDOW_INITIAL),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            streams_max: STREAMS_ASSUMED,
            is_known: false,
            table: OurEntries::None,
        }
    }

    /// Takes the payload of SETTINGS. Gives by how much the window of every open stream changes.
    ///
    /// # Errors
    /// [`Malformed`] for values that RFC 9113, 6.5.2 does not allow.
    pub fn settle(&mut self, payload: &[u8]) -> Result<i64, Malformed> {
        if !self.is_known {
            self.is_known = true;
            self.streams_max = u32::MAX;
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Malformed("a SETTINGS frame ends within a setting"));
        }
        let before = self.stream_window;
        for [i1, i2, v1, v2, v3, v4] in settings {
            let value = u32::from_be_bytes([*v1, *v2, *v3, *v4]);
            match u16::from_be_bytes([*i1, *i2]) {
                setting::HEADER_TABLE_SIZE => self.resize_table(value),
                setting::ENABLE_PUSH if value != 0 => return Err(Malformed("the server allows push to itself")),
                setting::MAX_CONCURRENT_STREAMS => self.streams_max = value,
                setting::INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                    return Err(Malformed("a setting makes windows larger than 2^31 - 1"));
                }
                setting::INITIAL_WINDOW_SIZE => self.stream_window = i64::from(value),
                setting::MAX_FRAME_SIZE if !(0x4000..=0xff_ffff).contains(&value) => {
                    return Err(Malformed("a setting makes frames smaller than 2^14 or larger than 2^24 - 1"));
                }
                setting::MAX_FRAME_SIZE => self.payload_bytes_max = value as usize,
                // Unknown ones are to be ignored; MAX_HEADER_LIST_SIZE only warns of a 431, which is then seen.
                _ => {}
            }
        }
        Ok(self.stream_window - before)
    }

    /// How to say what all requests have in common in the next block, which this begins: appends what must come first.
    #[inline]
    pub fn say(&mut self, has_common: bool, out: &mut Vec<u8>) -> Say {
        match self.table {
            OurEntries::Common => Say::Indexed,
            OurEntries::None if has_common && self.is_known => {
                self.table = OurEntries::Common;
                Say::Added
            }
            OurEntries::None | OurEntries::Never => Say::Plain,
            OurEntries::Resign => {
                const RESIZE_TO_0: u8 = 0x20;
                out.push(RESIZE_TO_0);
                self.table = OurEntries::Never;
                Say::Plain
            }
        }
    }

    /// Only a table of the usual size is used: smaller ones are rare, and then texts in full are simple and right.
    fn resize_table(&mut self, bytes: u32) {
        if (bytes as usize) < TABLE_BYTES_MAX && self.table != OurEntries::Never {
            self.table = OurEntries::Resign;
        }
    }
}
