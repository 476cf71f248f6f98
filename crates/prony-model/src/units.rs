//! Units as types: durations, rates, shares, sizes. Each reads what a person writes (`10ms`, `5k/s`, `0.1%`) and prints it back.
//!
//! Parsing then printing then parsing is the identity; a number without its unit is an error that says which units there are.

use crate::cpus::CpuList;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration or a point on a monotonic clock, in nanoseconds. Text: `250us`, `10ms`, `1.5s`, `2m`, `1h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Events per second. Text: `800/s`, `5k/s`, `1.2M/s`; the `/s` may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

/// Bits per second on a link. Text: `20mbit`, `1gbit`, `400kbit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct BitRate(pub f64);

/// A share of a whole: 1.0 is all of it. Text: `0.1%`, `90%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

/// A size in bytes. Text: `616`, `10K`, `64KiB`, `1M`. K and M are powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Why a text is not a quantity: what was seen, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    seen: String,
    want: &'static str,
}

impl UnitError {
    /// `seen` is not `want`; the latter begins with its article and ends with how it is written.
    pub(crate) fn new(seen: &str, want: &'static str) -> Self {
        Self { seen: seen.to_string(), want }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.seen, self.want)
    }
}
impl std::error::Error for UnitError {}

impl Nanos {
    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
    /// From seconds; negative and not-a-number become 0.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s.max(0.0) * 1e9) as u64)
    }
    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// In microseconds.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// The time from `earlier` to `self`; 0 when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}
impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Self {
        Self::from_nanos(n.0)
    }
}

impl Rate {
    /// A rate from a count per second.
    pub const fn per_second(n: f64) -> Self {
        Self(n)
    }
}

/// Splits `12.5ms` into 12.5 and `ms`. The number must be finite and not negative.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim()))
}

/// Reads a number with one of `units`; each unit is a suffix and its factor.
fn quantity(text: &str, units: &[(&str, f64)], want: &'static str) -> Result<f64, UnitError> {
    let wrong = || UnitError::new(text, want);
    let (number, suffix) = split(text).ok_or_else(wrong)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == suffix).ok_or_else(wrong)?;
    let value = number * factor;
    if value.is_finite() { Ok(value) } else { Err(wrong()) }
}

/// Prints with the largest unit that keeps the number exact; `units` go from large to small.
fn print(value: f64, units: &[(&str, f64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (name, factor) in units {
        let scaled = value / factor;
        if scaled >= 1.0 && (scaled * 1000.0).fract() == 0.0 && scaled * factor == value {
            return write!(f, "{scaled}{name}");
        }
    }
    let (name, factor) = units.last().expect("every unit list has an entry");
    write!(f, "{}{name}", value / factor)
}

const TIME: &[(&str, f64)] =
    &[("h", 3600e9), ("m", 60e9), ("min", 60e9), ("s", 1e9), ("ms", 1e6), ("us", 1e3), ("\u{b5}s", 1e3), ("ns", 1.0)];
const TIME_OUT: &[(&str, f64)] = &[("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
const RATE: &[(&str, f64)] = &[("M/s", 1e6), ("k/s", 1e3), ("/s", 1.0), ("M", 1e6), ("k", 1e3), ("", 1.0)];
const RATE_OUT: &[(&str, f64)] = &[("M/s", 1e6), ("k/s", 1e3), ("/s", 1.0)];
const BIT_RATE: &[(&str, f64)] = &[("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
const SIZE: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("K", 1024.0),
    ("KiB", 1024.0),
    ("k", 1024.0),
    ("M", 1048576.0),
    ("MiB", 1048576.0),
    ("m", 1048576.0),
    ("G", 1073741824.0),
    ("GiB", 1073741824.0),
];

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        quantity(s, TIME, "a duration: write it with ns, us, ms, s, m or h, like `10ms`")
            .map(|v| Self(v.round() as u64))
    }
}
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0 as f64, TIME_OUT, f)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        quantity(s, RATE, "a rate: write requests per second, like `800/s` or `5k/s`").map(Self)
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, RATE_OUT, f)
    }
}

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        quantity(s, BIT_RATE, "a link rate: write it with kbit, mbit or gbit, like `20mbit`").map(Self)
    }
}
impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, BIT_RATE, f)
    }
}

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        quantity(s, &[("%", 0.01)], "a share: write it in percent, like `0.1%`").map(Self)
    }
}
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 / 0.01)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        quantity(s, SIZE, "a size: write bytes, or K, M or G, like `10K`").map(|v| Self(v.round() as u64))
    }
}
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a TOML or JSON file may hold where a quantity is wanted: text, or a bare number (which needs a unit of its own to be right).
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Whole(u64),
    Number(f64),
}

impl Written {
    fn text(self) -> String {
        match self {
            Self::Text(t) => t,
            Self::Whole(n) => n.to_string(),
            Self::Number(n) => n.to_string(),
        }
    }
}

macro_rules! written_as_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Written::deserialize(d)?.text().parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
written_as_text!(Nanos, Rate, BitRate, Share, Bytes, CpuList);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!("10ms".parse(), Ok(Nanos::from_millis(10)));
        assert_eq!("1.5s".parse(), Ok(Nanos(1_500_000_000)));
        assert_eq!("5k/s".parse(), Ok(Rate(5000.0)));
        assert_eq!("0.1%".parse(), Ok(Share(0.001)));
        assert_eq!("10K".parse(), Ok(Bytes(10240)));
        assert_eq!("20mbit".parse(), Ok(BitRate(20e6)));
    }

    #[test]
    fn says_which_units_there_are() {
        let error = "10".parse::<Nanos>().unwrap_err().to_string();
        assert_eq!(error, "`10` is not a duration: write it with ns, us, ms, s, m or h, like `10ms`");
        assert!("0.1".parse::<Share>().is_err(), "a bare share could mean 0.1 or 0.1 %");
        assert!("-5/s".parse::<Rate>().is_err());
        assert!("10 parsecs".parse::<Nanos>().is_err());
    }

    proptest! {
        #[test]
        fn durations_survive_printing(n in 0u64..(1 << 52)) {
            prop_assert_eq!(Nanos(n).to_string().parse(), Ok(Nanos(n)));
        }
        #[test]
        fn rates_survive_printing(r in 0.0f64..1e9) {
            let back: Rate = Rate(r).to_string().parse().unwrap();
            prop_assert!((back.0 - r).abs() <= 1e-9 * r);
        }
        #[test]
        fn no_text_panics(s in "\\PC*") {
            let _ = (s.parse::<Nanos>(), s.parse::<Rate>(), s.parse::<Share>(), s.parse::<Bytes>(), s.parse::<BitRate>());
        }
    }
}
