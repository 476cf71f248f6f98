//! How a talk with a server goes, as the first bytes of an input say: in which pieces the rest arrives, which calls wait for it.
//!
//! The first five bytes are digits in seeds that a person wrote, like `23011` and a line end; any bytes mean something, so that
//! a fuzzer wastes none.

/// Bytes of an input before what the server sends.
const PREFIX_BYTES: usize = 6;
/// Most bytes that a server sends in one talk, repeats included. A guess: four times what a connection may remember.
pub const SENT_BYTES_MAX: usize = 1 << 20;

/// How a talk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// First digit: 0 everything at once, 1 byte by byte, n pieces of less than 2^n bytes.
    pub pieces: u32,
    /// Second digit: calls that wait from the start.
    pub calls: u32,
    /// Third digit, 1: answers are captured.
    pub captured: bool,
    /// Third digit, 2: each answer is followed by a new call.
    pub again: bool,
    /// Third digit, 4: a call is given up in the middle.
    pub cancels: bool,
    /// Third digit, 8: the server closes at the end.
    pub ends: bool,
    /// Fourth digit, a bit each: which of four calls in turn is a HEAD request. The others are GET and POST in turn.
    pub heads: u8,
    /// Fifth digit: 0 to 7 once, 8 to 15 (`8` to `?`) 2^(n - 8) times.
    pub repeats: usize,
}

impl Course {
    /// Splits an input; none when it is too short to say anything.
    pub fn read(input: &[u8]) -> Option<(Self, &[u8])> {
        let (prefix, sent) = input.split_at_checked(PREFIX_BYTES)?;
        let digit = |at: usize| prefix[at] & 0x0f;
        let wanted = if digit(4) >= 8 { 1 << (digit(4) - 8) } else { 1 };
        let course = Self {
            pieces: u32::from(digit(0)),
            calls: u32::from(digit(1)).max(1),
            captured: digit(2) & 1 != 0,
            again: digit(2) & 2 != 0,
            cancels: digit(2) & 4 != 0,
            ends: digit(2) & 8 != 0,
            heads: digit(3),
            repeats: wanted.min(SENT_BYTES_MAX / sent.len().max(1)).max(1),
        };
        Some((course, sent))
    }

    /// The same talk with everything at once.
    pub fn whole(self) -> Self {
        Self { pieces: 0, ..self }
    }

    /// What the server sends, cut into pieces. The same input is always cut in the same way.
    pub fn cut<'a>(&self, sent: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let pieces = self.pieces;
        (0..self.repeats).flat_map(move |repeat| {
            let mut random = Random::new((sent.len() + repeat) as u64);
            let mut rest = sent;
            std::iter::from_fn(move || {
                let size = match pieces {
                    0 => rest.len(),
                    1 => 1,
                    n => 1 + random.below((1 << n) - 1),
                };
                let (piece, after) = rest.split_at(size.min(rest.len()));
                rest = after;
                (!piece.is_empty()).then_some(piece)
            })
        })
    }
}

/// Numbers that look random and are the same each time: xorshift64* (Vigna, 2016).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The row of numbers that belongs to a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit as u64) as usize
    }
}
