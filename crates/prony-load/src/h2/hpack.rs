//! Reads header blocks (RFC 7541).
//!
//! A load wants the status and the length of most answers and nothing else, so a text is decoded only when it is
//! captured or one of these two; all others are stepped over, or kept coded in the table. Names and values are judged
//! only where they are decoded. Invariant: whatever a block holds, the state stays in step with the server's, or the
//! block is refused.

use super::huffman::{NotHuffman, Text};
use super::table::{Kind, Name, STATIC, Table};
use crate::protocol::Malformed;

/// Most bytes of one block as it comes, and of the lines that are captured of it. As for HTTP/1.1. A guess: eight times
/// nginx's default for what it accepts from an upstream (`proxy_buffer_size` 8k).
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Most fields of one block. As for HTTP/1.1. A guess; hyper stops at 100 by default.
const FIELDS_MAX: u32 = 256;
/// A buffer that grew beyond this is given back after the block. A guess: common heads fit.
pub const BUFFER_KEPT_BYTES: usize = 4 * 1024;
/// Largest body that is believed: 2^60 bytes, more than any load can carry.
const BODY_BYTES_MAX: u64 = 1 << 60;

/// What a block is, which decides what fields it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The head of an answer, interim ones included: `:status` comes first.
    Head,
    /// What follows a body: no field with a colon.
    Trailers,
    /// Of a call that was given up: any field.
    Ignored,
}

/// What is read from a block.
#[derive(Debug)]
pub struct Fields<'a> {
    part: Part,
    /// The status code; 0 until it was seen.
    pub status: u16,
    /// The value of `content-length`.
    pub length: Option<u64>,
    /// Where captured lines go; none: nothing is captured.
    lines: Option<&'a mut Vec<u8>>,
    count: u32,
}

impl<'a> Fields<'a> {
    /// Nothing read yet. `lines`: append `name: value\r\n` of every ordinary field there.
    pub fn of(part: Part, lines: Option<&'a mut Vec<u8>>) -> Self {
        Self { part, status: 0, length: None, lines, count: 0 }
    }

    /// Counts a field, and tells whether its text is needed.
    #[inline]
    fn begin(&mut self, kind: Kind) -> Result<bool, Malformed> {
        self.count += 1;
        if self.count > FIELDS_MAX {
            return Err(Malformed("the head has more than 256 fields"));
        }
        match (self.part, kind) {
            (Part::Ignored, _) => Ok(self.lines.is_some()),
            (Part::Head, Kind::Status) => Ok(true),
            (Part::Head, Kind::Length | Kind::Ordinary) if self.status == 0 => {
                Err(Malformed("the head does not begin with :status"))
            }
            (Part::Head, Kind::Length) => Ok(true),
            (Part::Head, Kind::Ordinary) => Ok(self.lines.is_some()),
            (Part::Trailers, Kind::Length | Kind::Ordinary) => Ok(false),
            (Part::Head, Kind::Pseudo) => Err(Malformed("the head holds a field of requests")),
            (Part::Trailers, Kind::Status | Kind::Pseudo) => Err(Malformed("a trailer's name begins with a colon")),
        }
    }

    /// Takes a field whose text was needed.
    fn take(&mut self, kind: Kind, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if self.part == Part::Head {
            match kind {
                Kind::Status => return self.take_status(value),
                Kind::Length => self.take_length(value)?,
                Kind::Pseudo | Kind::Ordinary => {}
            }
        }
        let Some(lines) = &mut self.lines else { return Ok(()) };
        if self.part == Part::Head && !is_name(name) {
            return Err(Malformed("a header name holds what no name may hold"));
        }
        if value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            return Err(Malformed("a header value holds a line end"));
        }
        if lines.len() + name.len() + value.len() + 4 > BLOCK_BYTES_MAX {
            return Err(Malformed("the head is longer than 64 KiB"));
        }
        for part in [name, b": ", value, b"\r\n"] {
            lines.extend_from_slice(part);
        }
        Ok(())
    }

    #[inline]
    fn take_status(&mut self, value: &[u8]) -> Result<(), Malformed> {
        if self.status != 0 {
            return Err(Malformed("two :status in one head"));
        }
        let [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] = value else {
            return Err(Malformed(":status is not a number of three digits"));
        };
        let digit = |byte: &u8| u16::from(byte - b'0');
        self.status = digit(a) * 100 + digit(b) * 10 + digit(c);
        Ok(())
    }

    fn take_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        let add = |sum: u64, byte: &u8| {
            let digit = char::from(*byte).to_digit(10)?;
            sum.checked_mul(10)?.checked_add(u64::from(digit)).filter(|n| *n <= BODY_BYTES_MAX)
        };
        let length = if value.is_empty() { None } else { value.iter().try_fold(0, add) };
        if length.is_none() {
            return Err(Malformed("content-length is not a number"));
        }
        if self.length.is_some() && self.length != length {
            return Err(Malformed("two different content-length"));
        }
        self.length = length;
        Ok(())
    }
}

/// Lower case and visible (RFC 9113, 8.2.1), and no colon, which would end the name in a captured line.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| matches!(b, b'!'..=b'~') && *b != b':' && !b.is_ascii_uppercase())
}

/// Decodes the blocks of one connection, each of them and in order.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Name and value of the field being read, one after the other.
    text: Vec<u8>,
}

/// Length of the name `content-length` in Huffman's code.
const CONTENT_LENGTH_CODED_BYTES: usize = 10;
const CUT: Malformed = Malformed("a header block ends within a field");
const NO_ENTRY: Malformed = Malformed("a header block names an entry that is in no table");

impl Decoder {
    /// Of a new connection. Allocates nothing.
    pub fn new() -> Self {
        Self { table: Table::new(), text: Vec::new() }
    }

    /// Reads a whole block.
    ///
    /// # Errors
    /// [`Malformed`]; then the state is lost, and the connection with it.
    #[inline]
    pub fn read(&mut self, block: &[u8], fields: &mut Fields<'_>) -> Result<(), Malformed> {
        let mut input = Input(block);
        while let Some(first) = input.0.first() {
            match *first {
                0x80.. => self.indexed(input.integer(0x7f)?, fields)?,
                0x40.. => self.literal(&mut input, 0x3f, fields)?,
                0x20.. if fields.count > 0 => return Err(Malformed("a table is resized in the middle of a block")),
                0x20.. => {
                    if !self.table.resize(input.integer(0x1f)?) {
                        return Err(Malformed("the server wants a larger header table than we have"));
                    }
                }
                _ => self.literal(&mut input, 0x0f, fields)?,
            }
        }
        if self.text.capacity() > BUFFER_KEPT_BYTES {
            self.text = Vec::new();
        }
        Ok(())
    }

    #[inline]
    fn indexed(&mut self, index: usize, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        let kind = self.table.kind(index).ok_or(NO_ENTRY)?;
        if !fields.begin(kind)? {
            return Ok(());
        }
        if let Some((name, value)) = STATIC.get(index - 1) {
            return fields.take(kind, name.as_bytes(), value.as_bytes());
        }
        self.text.clear();
        self.table.push_name(index, &mut self.text).map_err(not_huffman)?;
        let name_bytes = self.text.len();
        self.table.push_value(index, &mut self.text).map_err(not_huffman)?;
        let (name, value) = self.text.split_at(name_bytes);
        fields.take(kind, name, value)
    }

    /// A field with its value, and its name by index or as text. `mask`: the bits of the first byte that hold the
    /// index; six of them also say that the field is to be added to the table.
    #[inline]
    fn literal(&mut self, input: &mut Input<'_>, mask: u8, fields: &mut Fields<'_>) -> Result<(), Malformed> {
        let index = input.integer(mask)?;
        let (kind, name) = if index == 0 {
            let name = input.text()?;
            (self.kind_of(name)?, Name::Text(name))
        } else {
            (self.table.kind(index).ok_or(NO_ENTRY)?, Name::Of(index))
        };
        let value = input.text()?;
        if fields.begin(kind)? {
            self.text.clear();
            match name {
                Name::Text(name) => name.read(&mut self.text),
                Name::Of(index) => self.table.push_name(index, &mut self.text),
            }
            .map_err(not_huffman)?;
            let name_bytes = self.text.len();
            value.read(&mut self.text).map_err(not_huffman)?;
            let (name, value) = self.text.split_at(name_bytes);
            fields.take(kind, name, value)?;
        }
        if mask == 0x3f {
            self.table.add(kind, name, value);
        }
        Ok(())
    }

    /// What a field of this name is. Coded names are decoded only when they can be one that matters.
    fn kind_of(&mut self, name: Text<'_>) -> Result<Kind, Malformed> {
        if !name.is_coded {
            return Ok(Kind::of(name.bytes));
        }
        // The code of the colon is 1011100.
        let is_pseudo = matches!(name.bytes, [0xb8 | 0xb9, ..]);
        if !is_pseudo && name.bytes.len() != CONTENT_LENGTH_CODED_BYTES {
            return Ok(Kind::Ordinary);
        }
        self.text.clear();
        name.read(&mut self.text).map_err(not_huffman)?;
        Ok(Kind::of(&self.text))
    }

    /// Memory of the table and of the text.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.table.memory_bytes()
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    #[cfg(test)]
    pub(super) fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }
}

/// What is left of a block.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// An integer whose first bits lie in the next byte under `mask` (RFC 7541, 5.1); below 2^28 + 128, which is more
    /// than any block can need.
    #[inline]
    fn integer(&mut self, mask: u8) -> Result<usize, Malformed> {
        let (first, mut rest) = self.0.split_first().ok_or(CUT)?;
        let mut value = usize::from(first & mask);
        if value == usize::from(mask) {
            let mut shift = 0;
            loop {
                let (byte, after) = rest.split_first().ok_or(CUT)?;
                rest = after;
                value += usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
                if shift > 21 {
                    return Err(Malformed("a number in a header block is too long"));
                }
            }
        }
        self.0 = rest;
        Ok(value)
    }

    /// The next text.
    #[inline]
    fn text(&mut self) -> Result<Text<'a>, Malformed> {
        let is_coded = self.0.first().ok_or(CUT)? & 0x80 != 0;
        let length = self.integer(0x7f)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(Text { bytes, is_coded })
    }
}

fn not_huffman(_: NotHuffman) -> Malformed {
    Malformed("a header holds what is no Huffman code")
}

#[cfg(test)]
#[path = "hpack_tests.rs"]
mod tests;
