//! The two tables of header compression (RFC 7541, 2.3): the static one, and what a server added.
//!
//! Texts are kept as they came and decoded when they are asked for, which is hardly ever: nginx adds four fields with
//! each answer and never names one again. How long they are when decoded is therefore not known, and old entries are
//! dropped when they cannot be valid any more, not as soon as they may be invalid. That changes no index, because those
//! count from the newest. Invariant: every entry that is valid is here, and no more than 128 of them, nor of more than
//! 16 KiB of text.

use super::huffman::{NotHuffman, Text};
use std::collections::VecDeque;

/// Room of the dynamic table: what RFC 9113, 6.5.2 gives a table of which nobody spoke. We leave it at that in both
/// directions, so that the server does the work that it does for ordinary clients.
pub const TABLE_BYTES_MAX: usize = 4096;
/// What an entry costs besides its text (RFC 7541, 4.1).
pub const ENTRY_BYTES: usize = 32;

/// What a field is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `:status`.
    Status,
    /// Another field whose name begins with a colon.
    Pseudo,
    /// `content-length`.
    Length,
    /// Any other field: only of interest when the answer is captured.
    Ordinary,
}

impl Kind {
    /// What a field of this name is.
    pub fn of(name: &[u8]) -> Self {
        match name {
            b":status" => Self::Status,
            b"content-length" => Self::Length,
            [b':', ..] => Self::Pseudo,
            _ => Self::Ordinary,
        }
    }

    /// What the field of a static index is; the index is from 1 to [`STATIC`]'s length.
    #[inline]
    fn of_static(index: usize) -> Self {
        match index {
            8..=14 => Self::Status,
            1..=7 => Self::Pseudo,
            28 => Self::Length,
            _ => Self::Ordinary,
        }
    }
}

/// The name of a new entry.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// As text.
    Text(Text<'a>),
    /// That of the entry with this index, which is in the table.
    Of(usize),
}

/// The static table followed by the dynamic one.
#[derive(Debug)]
pub struct Table {
    /// The texts of the entries one after another as they came, oldest first, with a hole in front where old ones were.
    text: Vec<u8>,
    /// Bytes that were once in front of `text`. Counts around, and so do the positions of entries.
    gone: u32,
    /// Newest first, as the indexes count.
    entries: VecDeque<Entry>,
    /// At least so many by the count of the RFC: more texts would be longer when decoded.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its text begins, counted from the first byte that ever was in the table.
    at: u32,
    /// The name is that of the static table's entry with this index; 0: it is in the text, before the value.
    name_index: u8,
    name_is_coded: bool,
    value_is_coded: bool,
    kind: Kind,
    name_bytes: u16,
    value_bytes: u16,
    cost: u16,
}

impl Table {
    /// Without dynamic entries. Allocates nothing: many servers never add any.
    pub fn new() -> Self {
        Self { text: Vec::new(), gone: 0, entries: VecDeque::new(), bytes: 0, bytes_max: TABLE_BYTES_MAX }
    }

    /// What the field of an index is; none: there is no such index.
    #[inline]
    pub fn kind(&self, index: usize) -> Option<Kind> {
        match index {
            0 => None,
            1..=STATIC_COUNT => Some(Kind::of_static(index)),
            _ => self.entries.get(index - STATIC_COUNT - 1).map(|entry| entry.kind),
        }
    }

    /// Appends the name of an index that is in the table.
    ///
    /// # Errors
    /// [`NotHuffman`] when the server put something else there.
    pub fn push_name(&self, index: usize, into: &mut Vec<u8>) -> Result<(), NotHuffman> {
        self.name(index).read(into)
    }

    /// Appends the value of an index that is in the table.
    ///
    /// # Errors
    /// [`NotHuffman`] when the server put something else there.
    pub fn push_value(&self, index: usize, into: &mut Vec<u8>) -> Result<(), NotHuffman> {
        if index <= STATIC_COUNT {
            into.extend_from_slice(STATIC[index - 1].1.as_bytes());
            return Ok(());
        }
        let entry = self.entries[index - STATIC_COUNT - 1];
        let from = self.offset(entry) + usize::from(entry.name_bytes);
        let bytes = &self.text[from..from + usize::from(entry.value_bytes)];
        Text { bytes, is_coded: entry.value_is_coded }.read(into)
    }

    /// Adds an entry, and drops old ones until it fits; one larger than the table empties it (RFC 7541, 4.4).
    #[inline]
    pub fn add(&mut self, kind: Kind, name: Name<'_>, value: Text<'_>) {
        let of = match name {
            Name::Text(text) => text,
            Name::Of(index) => self.name(index),
        };
        let (length, name_is_coded) = (of.bytes.len(), of.is_coded);
        let cost = of.bytes_min() + value.bytes_min() + ENTRY_BYTES;
        if cost > self.bytes_max {
            return self.clear();
        }
        // The text first: the name may be that of an entry that is about to be dropped.
        let at = self.gone.wrapping_add(self.text.len() as u32);
        let (name_index, name_bytes) = match name {
            Name::Text(text) => {
                self.text.extend_from_slice(text.bytes);
                (0, length)
            }
            Name::Of(index) if index <= STATIC_COUNT => (index as u8, 0),
            Name::Of(index) => match self.entries[index - STATIC_COUNT - 1] {
                Entry { name_index: 0, at, .. } => {
                    let from = at.wrapping_sub(self.gone) as usize;
                    self.text.extend_from_within(from..from + length);
                    (0, length)
                }
                of_static => (of_static.name_index, 0),
            },
        };
        self.text.extend_from_slice(value.bytes);
        self.shrink_to(self.bytes_max - cost);
        self.bytes += cost;
        // All fit in 16 bits: an entry costs at most 4096, and a text is at most four times as long as what it costs.
        let (name_bytes, value_bytes, cost) = (name_bytes as u16, value.bytes.len() as u16, cost as u16);
        let value_is_coded = value.is_coded;
        let entry = Entry { at, name_index, name_is_coded, value_is_coded, kind, name_bytes, value_bytes, cost };
        self.entries.push_front(entry);
        self.close_hole();
    }

    /// The server's new limit; false: it is above ours.
    pub fn resize(&mut self, bytes_max: usize) -> bool {
        self.bytes_max = bytes_max.min(TABLE_BYTES_MAX);
        self.shrink_to(self.bytes_max);
        bytes_max <= TABLE_BYTES_MAX
    }

    /// Memory of texts and entries.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// By the count of the RFC, if no text is coded.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn name(&self, index: usize) -> Text<'_> {
        let of_static = |index: usize| Text { bytes: STATIC[index - 1].0.as_bytes(), is_coded: false };
        if index <= STATIC_COUNT {
            return of_static(index);
        }
        let entry = self.entries[index - STATIC_COUNT - 1];
        if entry.name_index != 0 {
            return of_static(usize::from(entry.name_index));
        }
        let from = self.offset(entry);
        Text { bytes: &self.text[from..from + usize::from(entry.name_bytes)], is_coded: entry.name_is_coded }
    }

    /// Where in `text` an entry begins.
    fn offset(&self, entry: Entry) -> usize {
        entry.at.wrapping_sub(self.gone) as usize
    }

    #[inline]
    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= usize::from(oldest.cost);
        }
    }

    fn clear(&mut self) {
        self.shrink_to(0);
        self.text.clear();
    }

    /// Moves the texts to the front once there is as much room as a table has: then what is moved is seldom more than
    /// that.
    #[inline]
    fn close_hole(&mut self) {
        let hole = self.entries.back().map_or(0, |oldest| self.offset(*oldest));
        if hole >= TABLE_BYTES_MAX {
            self.text.drain(..hole);
            self.gone = self.gone.wrapping_add(hole as u32);
        }
    }
}

/// Entries of the static table.
pub const STATIC_COUNT: usize = 61;

/// RFC 7541, appendix A; the first has index 1.
#[rustfmt::skip] // several in a row: it is a table to look up, not to read
pub static STATIC: [(&str, &str); STATIC_COUNT] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];
