//! The two tables of header compression (RFC 7541, 2.3): the static one, and what a server added.
//!
//! Invariant: the dynamic table holds at most [`TABLE_BYTES_MAX`] by the RFC's own count, and twice that of memory.

use std::collections::VecDeque;

/// Room of the dynamic table: the size that RFC 9113, 6.5.2 gives a table of which nobody spoke. We leave it at that,
/// in both directions, so that the server does the work that it does for ordinary clients; 0 would spare us the copies
/// of what it adds.
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

/// The static table followed by the dynamic one.
#[derive(Debug)]
pub struct Table {
    /// The text of the entries one after another, oldest first, with a hole in front where old ones were.
    text: Vec<u8>,
    /// Newest first, as the indexes count.
    entries: VecDeque<Entry>,
    /// By the count of the RFC.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u32,
    name_bytes: u16,
    value_bytes: u16,
    kind: Kind,
}

impl Entry {
    fn cost(self) -> usize {
        usize::from(self.name_bytes) + usize::from(self.value_bytes) + ENTRY_BYTES
    }
}

impl Table {
    /// Without dynamic entries. Allocates nothing: many servers never add any.
    pub fn new() -> Self {
        Self { text: Vec::new(), entries: VecDeque::new(), bytes: 0, bytes_max: TABLE_BYTES_MAX }
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

    /// Name and value of an index; none: there is no such index.
    pub fn field(&self, index: usize) -> Option<(&[u8], &[u8])> {
        if index <= STATIC_COUNT {
            let (name, value) = STATIC.get(index.checked_sub(1)?)?;
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - STATIC_COUNT - 1)?;
        let text = &self.text[entry.at as usize..];
        let (name, rest) = text.split_at(usize::from(entry.name_bytes));
        Some((name, &rest[..usize::from(entry.value_bytes)]))
    }

    /// Adds an entry, and drops old ones until it fits; one larger than the table empties it (RFC 7541, 4.4).
    pub fn add(&mut self, kind: Kind, name: &[u8], value: &[u8]) {
        let cost = name.len() + value.len() + ENTRY_BYTES;
        self.shrink_to(self.bytes_max.saturating_sub(cost));
        if cost > self.bytes_max {
            return;
        }
        if self.text.len() + name.len() + value.len() > 2 * TABLE_BYTES_MAX {
            self.close_hole();
        }
        let at = self.text.len() as u32;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        // Both fit in 16 bits, because the entry fits in the table.
        self.entries.push_front(Entry { at, name_bytes: name.len() as u16, value_bytes: value.len() as u16, kind });
        self.bytes += cost;
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

    /// By the count of the RFC.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.cost();
        }
        if self.entries.is_empty() {
            self.text.clear();
        }
    }

    fn close_hole(&mut self) {
        let hole = self.entries.back().map_or(self.text.len(), |oldest| oldest.at as usize);
        self.text.drain(..hole);
        self.entries.iter_mut().for_each(|entry| entry.at -= hole as u32);
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
