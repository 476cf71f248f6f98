//! The Huffman code of header strings (RFC 7541, 5.2 and appendix B), read only: what we send is plain.
//!
//! The code is canonical: within a length, codes count upward in the order of the symbols. So the lengths alone make
//! the whole table, and the compiler builds it. Invariant: at most 8 bytes come out for each 5 that go in.

/// The bytes are no Huffman code: the end symbol within, or a filling that is too long or not all ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHuffman;

/// A text as it comes.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Plain or coded.
    pub bytes: &'a [u8],
    /// Which of the two.
    pub is_coded: bool,
}

impl Text<'_> {
    /// Appends what it says.
    ///
    /// # Errors
    /// [`NotHuffman`]; what was decoded until then stays appended.
    pub fn read(self, into: &mut Vec<u8>) -> Result<(), NotHuffman> {
        if self.is_coded {
            into.reserve(self.bytes.len() * 8 / SHORTEST_BITS as usize);
            return decode(self.bytes, into);
        }
        into.extend_from_slice(self.bytes);
        Ok(())
    }

    /// Fewest bytes that it can say, found without decoding: no code is longer than 30 bits.
    #[inline]
    pub fn bytes_min(self) -> usize {
        if self.is_coded { self.bytes.len() / 4 } else { self.bytes.len() }
    }
}

/// Length in bits of the code of each byte, then of the end symbol. RFC 7541, appendix B.
#[rustfmt::skip] // 32 in a row, so that a byte is found by its upper three bits
pub(super) const LENGTHS: [u8; 257] = [
    13,23,28,28,28,28,28,28,28,24,30,28,28,30,28,28,28,28,28,28,28,28,30,28,28,28,28,28,28,28,28,28,
    6,10,10,12,13,6,8,11,10,10,8,11,8,6,6,6,5,5,5,6,6,6,6,6,6,6,7,8,15,6,12,10,
    13,6,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,8,7,8,13,19,13,14,6,
    15,5,6,5,6,5,6,6,6,5,7,7,6,6,6,5,6,7,6,5,5,6,7,7,7,7,7,15,11,14,13,28,
    20,22,20,20,22,22,22,23,22,23,23,23,23,23,24,23,24,24,22,23,24,23,23,23,23,21,22,23,22,23,23,24,
    22,21,20,22,22,23,23,21,23,22,22,24,21,22,23,23,21,21,22,21,23,22,23,23,20,22,22,22,23,22,22,23,
    26,26,20,19,22,23,22,25,26,26,26,27,27,26,24,25,19,21,26,27,27,26,27,24,21,21,26,26,28,27,27,27,
    20,24,20,21,22,21,21,23,22,22,25,25,24,24,26,23,26,27,26,26,27,27,27,27,27,28,27,27,27,27,27,26,
    30,
];

/// The symbol that must not be sent.
const END: u16 = 256;
const SHORTEST_BITS: u32 = 5;
const LONGEST_BITS: usize = 30;
/// Codes up to this length are found by one look; all that common headers are made of.
const SHORT_BITS: usize = 8;

/// Appends the decoded bytes.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), NotHuffman> {
    // `bits` holds `have` bits, the next one on top, zeros behind.
    let (mut bits, mut have) = (0u64, 0u32);
    let mut input = input.iter();
    loop {
        while have <= 56
            && let Some(byte) = input.next()
        {
            bits |= u64::from(*byte) << (56 - have);
            have += 8;
        }
        if have < SHORTEST_BITS {
            break;
        }
        let (symbol, length) = look(bits);
        if length > have {
            break;
        }
        if symbol == END {
            return Err(NotHuffman);
        }
        out.push(symbol as u8);
        bits <<= length;
        have -= length;
    }
    // What is left is filling: fewer than 8 bits, all of them ones.
    let ones = bits.leading_ones();
    if have < 8 && ones == have { Ok(()) } else { Err(NotHuffman) }
}

/// The symbol whose code begins at the top bit, and the length of that code.
#[inline]
fn look(bits: u64) -> (u16, u32) {
    let (symbol, length) = TABLES.short[(bits >> 56) as usize];
    if length != 0 {
        return (symbol, u32::from(length));
    }
    let top = bits >> 32;
    let mut length = SHORT_BITS + 1;
    while length < LONGEST_BITS && top >= TABLES.until[length] {
        length += 1;
    }
    let nth = (top >> (32 - length)) as usize - TABLES.first[length] as usize;
    (TABLES.symbols[TABLES.offset[length] as usize + nth], length as u32)
}

struct Tables {
    /// By the top 8 bits: symbol and length; length 0 where the code is longer.
    short: [(u16, u8); 256],
    /// All symbols, in the order of their codes.
    symbols: [u16; 257],
    /// By length: the first code, the position of its symbol, and where the codes of this length end (32 bits,
    /// left-aligned).
    first: [u32; LONGEST_BITS + 1],
    offset: [u16; LONGEST_BITS + 1],
    until: [u64; LONGEST_BITS + 1],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        short: [(0, 0); 256],
        symbols: [0; 257],
        first: [0; LONGEST_BITS + 1],
        offset: [0; LONGEST_BITS + 1],
        until: [0; LONGEST_BITS + 1],
    };
    let (mut code, mut count, mut length) = (0u32, 0usize, 1usize);
    while length <= LONGEST_BITS {
        tables.first[length] = code;
        tables.offset[length] = count as u16;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                tables.symbols[count] = symbol as u16;
                if length <= SHORT_BITS {
                    fill(&mut tables.short, code << (SHORT_BITS - length), symbol as u16, length);
                }
                count += 1;
                code += 1;
            }
            symbol += 1;
        }
        tables.until[length] = (code as u64) << (32 - length);
        code <<= 1;
        length += 1;
    }
    tables
}

/// Every byte that begins with this code.
const fn fill(short: &mut [(u16, u8); 256], first: u32, symbol: u16, length: usize) {
    let mut nth = 0;
    while nth < 1usize << (SHORT_BITS - length) {
        short[first as usize + nth] = (symbol, length as u8);
        nth += 1;
    }
}
