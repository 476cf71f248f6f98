//! Numbers as text where nothing may be allocated: lengths of bodies, counters of templates.

/// A number as text, without memory of its own.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    bytes: [u8; Self::LEN],
    from: usize,
}

impl Digits {
    /// As many digits as the largest number has: 2^64 is below 10^20.
    const LEN: usize = 20;

    /// In decimal.
    pub fn new(mut n: u64) -> Self {
        let mut bytes = [b'0'; Self::LEN];
        let mut from = Self::LEN;
        loop {
            from -= 1;
            bytes[from] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                return Self { bytes, from };
            }
        }
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[self.from..]).expect("digits are ASCII")
    }
}
