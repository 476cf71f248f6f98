//! The bytes of series: a block holds many moments of one host, column by column; a tail row holds one moment.
//!
//! Pure: no file is touched here. Invariant: decoding gives back every value to the last bit, in the order it was given.
//! The layout is described in `docs/record.md`.

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use std::collections::BTreeMap;
use std::io::{Read, Write};

/// Everything read from one host at one moment, with numbers for series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    pub(crate) values: Vec<(u32, f64)>,
}

/// A piece of one series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) series: u32,
    pub(crate) points: Vec<(u64, f64)>,
}

/// Why bytes are not a block.
pub(crate) type Broken = &'static str;

/// Powers of ten that are tried to make a column whole: 0 for counts, 2 for clock ticks, 9 for nanoseconds in seconds.
const SCALES: std::ops::RangeInclusive<u8> = 0..=9;
/// Whole numbers above this are not exact as f64: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// How a column says that its values are raw bits.
const RAW: u64 = 0;
/// More than a block of this crate can hold, so that a damaged one does not take all memory: 120 moments of 100,000 values
/// of 10 bytes.
const INFLATED_MAX: u64 = 120_000_000;

/// One moment as bytes: series number (varint) and value (8 bytes, little endian), repeated.
pub(crate) fn encode_tail(values: &[(u32, f64)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * 10);
    for (series, value) in values {
        put_varint(&mut bytes, u64::from(*series));
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

/// The inverse of [`encode_tail`].
pub(crate) fn decode_tail(bytes: &[u8]) -> Result<Vec<(u32, f64)>, Broken> {
    let mut input = bytes;
    let mut values = Vec::new();
    while !input.is_empty() {
        let series = take_series(&mut input)?;
        values.push((series, f64::from_bits(take_bits(&mut input)?)));
    }
    Ok(values)
}

/// A text as bytes: zlib.
pub(crate) fn encode_text(text: &str) -> Vec<u8> {
    deflate(text.as_bytes())
}

/// The inverse of [`encode_text`].
pub(crate) fn decode_text(bytes: &[u8]) -> Result<String, Broken> {
    String::from_utf8(inflate(bytes)?).map_err(|_| "the text is not UTF-8")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    zlib.write_all(bytes).and_then(|()| zlib.finish()).expect("a Vec takes all bytes")
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, Broken> {
    let mut inflated = Vec::new();
    let read = ZlibDecoder::new(bytes).take(INFLATED_MAX).read_to_end(&mut inflated);
    read.map(|_| inflated).map_err(|_| "the zlib stream is broken")
}

/// Many moments of one host as bytes.
pub(crate) fn encode(moments: &[Moment]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, moments.len() as u64);
    let mut last_ns = 0u64;
    for moment in moments {
        put_varint(&mut bytes, zigzag(moment.at_ns.wrapping_sub(last_ns) as i64));
        last_ns = moment.at_ns;
    }
    let mut columns: BTreeMap<u32, Vec<(usize, f64)>> = BTreeMap::new();
    for (index, moment) in moments.iter().enumerate() {
        for (series, value) in &moment.values {
            columns.entry(*series).or_default().push((index, *value));
        }
    }
    for (series, column) in &columns {
        put_varint(&mut bytes, u64::from(*series));
        put_presence(&mut bytes, column, moments.len());
        put_values(&mut bytes, column);
    }
    deflate(&bytes)
}

/// The inverse of [`encode`], by series.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Column>, Broken> {
    let inflated = inflate(bytes)?;
    let mut input = inflated.as_slice();
    let moments = take_count(&mut input)?;
    let mut times_ns = Vec::with_capacity(moments);
    let mut at_ns = 0u64;
    for _ in 0..moments {
        at_ns = at_ns.wrapping_add(unzigzag(take_varint(&mut input)?) as u64);
        times_ns.push(at_ns);
    }
    let mut columns = Vec::new();
    while !input.is_empty() {
        let series = take_series(&mut input)?;
        let indices = take_presence(&mut input, moments)?;
        let values = take_values(&mut input, indices.len())?;
        let times = indices.iter().map(|index| times_ns.get(*index).copied().ok_or("a value belongs to no moment"));
        let points = times.zip(values).map(|(at_ns, value)| Ok((at_ns?, value)));
        columns.push(Column { series, points: points.collect::<Result<_, Broken>>()? });
    }
    Ok(columns)
}

/// 0 when there is one value for every moment; else 1 + count and the steps between the indices of moments.
fn put_presence(bytes: &mut Vec<u8>, column: &[(usize, f64)], moments: usize) {
    if column.len() == moments && column.iter().enumerate().all(|(i, (index, _))| i == *index) {
        return put_varint(bytes, 0);
    }
    put_varint(bytes, 1 + column.len() as u64);
    let mut last = 0;
    for (index, _) in column {
        put_varint(bytes, (index - last) as u64);
        last = *index;
    }
}

fn take_presence(input: &mut &[u8], moments: usize) -> Result<Vec<usize>, Broken> {
    let Some(count) = take_varint(input)?.checked_sub(1) else {
        return Ok((0..moments).collect());
    };
    let mut index = 0usize;
    let mut indices = Vec::new();
    for _ in 0..count {
        let step = usize::try_from(take_varint(input)?).map_err(|_| "a step between moments is too long")?;
        index = index.checked_add(step).ok_or("a step between moments is too long")?;
        indices.push(index);
    }
    Ok(indices)
}

/// 1 + the power of ten that makes all values whole, then zigzag differences of the whole numbers; or 0 and raw bits.
fn put_values(bytes: &mut Vec<u8>, column: &[(usize, f64)]) {
    let values = || column.iter().map(|(_, value)| *value);
    let Some(scale) = SCALES.into_iter().find(|scale| values().all(|value| whole(value, *scale).is_some())) else {
        put_varint(bytes, RAW);
        return values().for_each(|value| bytes.extend(value.to_le_bytes()));
    };
    put_varint(bytes, 1 + u64::from(scale));
    let mut last = 0;
    for whole in values().filter_map(|value| whole(value, scale)) {
        put_varint(bytes, zigzag(whole - last));
        last = whole;
    }
}

fn take_values(input: &mut &[u8], count: usize) -> Result<Vec<f64>, Broken> {
    let Some(scale) = take_varint(input)?.checked_sub(1) else {
        return (0..count).map(|_| take_bits(input).map(f64::from_bits)).collect();
    };
    let factor = 10f64.powi(i32::try_from(scale).map_err(|_| "a scale is too large")?);
    let mut whole = 0i64;
    let mut next = || {
        whole = whole.wrapping_add(unzigzag(take_varint(input)?));
        Ok(whole as f64 / factor)
    };
    (0..count).map(|_| next()).collect()
}

/// The whole number that divided by 10^scale is this very value, if there is one.
fn whole(value: f64, scale: u8) -> Option<i64> {
    let factor = 10f64.powi(i32::from(scale));
    let scaled = (value * factor).round();
    let exact = scaled.abs() <= EXACT_MAX && (scaled as i64 as f64 / factor).to_bits() == value.to_bits();
    exact.then_some(scaled as i64)
}

/// Small numbers of either sign become small numbers: 0, -1, 1, -2 are 0, 1, 2, 3.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// LEB128: seven bits a byte, the lowest first, the top bit set on all but the last byte.
fn put_varint(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

fn take_varint(input: &mut &[u8]) -> Result<u64, Broken> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = input.split_first().ok_or("the bytes end in the middle of a number")?;
        *input = rest;
        n |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Ok(n);
        }
    }
    Err("a number has more than 64 bits")
}

fn take_series(input: &mut &[u8]) -> Result<u32, Broken> {
    u32::try_from(take_varint(input)?).map_err(|_| "a series number is too large")
}

/// A count of things that take at least a byte each, so that a damaged one cannot ask for endless memory.
fn take_count(input: &mut &[u8]) -> Result<usize, Broken> {
    let count = take_varint(input)?;
    usize::try_from(count).ok().filter(|count| *count <= input.len()).ok_or("a count is larger than what follows")
}

fn take_bits(input: &mut &[u8]) -> Result<u64, Broken> {
    let (bits, rest) = input.split_first_chunk::<8>().ok_or("the bytes end in the middle of a value")?;
    *input = rest;
    Ok(u64::from_le_bytes(*bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>(),
            any::<u32>().prop_map(f64::from),
            any::<u32>().prop_map(|ticks| f64::from(ticks) / 100.0),
            any::<u32>().prop_map(|ns| f64::from(ns) / 1e9),
            Just(-0.0),
            Just(f64::NAN),
        ]
    }

    fn moments() -> impl Strategy<Value = Vec<Moment>> {
        let moment = (0..u64::MAX, vec((0u32..6, value()), 0..8)).prop_map(|(at_ns, values)| Moment { at_ns, values });
        vec(moment, 0..20)
    }

    /// What decoding should give: points by series, values as bits (NaN is not equal to itself).
    fn by_series(moments: &[Moment]) -> BTreeMap<u32, Vec<(u64, u64)>> {
        let mut all: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
        for moment in moments {
            moment.values.iter().for_each(|(s, v)| all.entry(*s).or_default().push((moment.at_ns, v.to_bits())));
        }
        all
    }

    proptest! {
        #[test]
        fn blocks_survive(moments in moments()) {
            let columns = decode(&encode(&moments)).unwrap();
            let bits = |c: Column| (c.series, c.points.into_iter().map(|(t, v)| (t, v.to_bits())).collect::<Vec<_>>());
            prop_assert_eq!(columns.into_iter().map(bits).collect::<BTreeMap<_, _>>(), by_series(&moments));
        }

        #[test]
        fn tails_survive(values in vec((any::<u32>(), value()), 0..20)) {
            let bits = |values: &[(u32, f64)]| values.iter().map(|(s, v)| (*s, v.to_bits())).collect::<Vec<_>>();
            prop_assert_eq!(bits(&decode_tail(&encode_tail(&values)).unwrap()), bits(&values));
        }

        #[test]
        fn no_bytes_panic(bytes in vec(any::<u8>(), 0..100), moments in moments(), at: prop::sample::Index, flip: u8) {
            drop((decode(&bytes), decode_tail(&bytes)));
            let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
            zlib.write_all(&bytes).unwrap();
            drop(decode(&zlib.finish().unwrap()));
            let mut damaged = encode(&moments);
            let at = at.index(damaged.len());
            damaged[at] ^= flip;
            drop(decode(&damaged));
        }

        #[test]
        fn texts_survive_and_damaged_ones_do_not_panic(text in "\\PC{0,60}", at: prop::sample::Index, flip: u8) {
            let mut bytes = encode_text(&text);
            prop_assert_eq!(decode_text(&bytes).unwrap(), text);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            drop(decode_text(&bytes));
        }

        #[test]
        fn zigzag_is_undone(n: i64) {
            prop_assert_eq!(unzigzag(zigzag(n)), n);
        }
    }

    #[test]
    fn clock_ticks_and_counts_are_small() {
        let moment = |i: u64| Moment {
            at_ns: i * 1_000_000_000,
            values: vec![(0, (1000 + 37 * i) as f64), (1, i as f64 / 100.0)],
        };
        let bytes = encode(&(0..120).map(moment).collect::<Vec<_>>());
        assert!(bytes.len() < 60, "{} bytes for 240 values of constant growth", bytes.len());
    }
}
