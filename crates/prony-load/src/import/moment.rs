//! Moments and durations as logs and HAR files write them, in nanoseconds.
//!
//! It knows no names of time zones and no leap seconds. Invariant: what is not exactly such a text gives none.

/// Days before the first of March of the year 0 that lie before 1970.
const DAYS_TO_1970: i64 = 719_468;
const SECOND_NS: i64 = 1_000_000_000;
/// Names of months in logs, whatever the server's language.
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// nginx `$time_local`, Apache `%t`: `21/Nov/2026:03:01:02 +0100`, in nanoseconds since 1970.
pub(super) fn time_local(text: &[u8]) -> Option<i64> {
    let mut rest = text;
    let day = number(&mut rest, 2)?;
    skip(&mut rest, b'/')?;
    let (name, after) = rest.split_at_checked(3)?;
    let month = MONTHS.iter().position(|month| *month == name)? as i64 + 1;
    rest = after;
    skip(&mut rest, b'/')?;
    let year = number(&mut rest, 4)?;
    skip(&mut rest, b':')?;
    let time = time_of_day(&mut rest)?;
    skip(&mut rest, b' ')?;
    let zone = zone(&mut rest)?;
    rest.is_empty().then(|| since_1970(year, month, day, time - zone))?
}

/// nginx `$time_iso8601`, HAR `startedDateTime`: `2026-11-21T03:01:02.125+01:00` or with `Z`, in nanoseconds since
/// 1970.
pub(super) fn iso8601(text: &[u8]) -> Option<i64> {
    let mut rest = text;
    let year = number(&mut rest, 4)?;
    skip(&mut rest, b'-')?;
    let month = number(&mut rest, 2)?;
    skip(&mut rest, b'-')?;
    let day = number(&mut rest, 2)?;
    skip(&mut rest, b'T')?;
    let time = time_of_day(&mut rest)?;
    let zone = zone(&mut rest)?;
    rest.is_empty().then(|| since_1970(year, month, day, time - zone))?
}

/// nginx `$msec` and `$request_time`: seconds with decimals, like `1795230062.125`, in nanoseconds.
pub(super) fn seconds(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    // Ten digits last until the year 2286.
    if digits == 0 || digits > 10 {
        return None;
    }
    let mut rest = text;
    let whole = number(&mut rest, digits)?;
    let fraction = fraction(&mut rest)?;
    // In 64 bits there is room for 292 years.
    rest.is_empty().then(|| whole.checked_mul(SECOND_NS)?.checked_add(fraction))?
}

/// `03:01:02`, perhaps with decimals, in nanoseconds since midnight.
fn time_of_day(rest: &mut &[u8]) -> Option<i64> {
    let hour = number(rest, 2)?;
    skip(rest, b':')?;
    let minute = number(rest, 2)?;
    skip(rest, b':')?;
    let second = number(rest, 2)?;
    let fraction = fraction(rest)?;
    let fits = hour < 24 && minute < 60 && second <= 60; // a leap second is the next minute's first
    fits.then_some(((hour * 60 + minute) * 60 + second) * SECOND_NS + fraction)
}

/// `Z`, `+0100` or `+01:00`: what local time is ahead of UTC, in nanoseconds.
fn zone(rest: &mut &[u8]) -> Option<i64> {
    let (sign, after) = rest.split_first()?;
    *rest = after;
    let sign = match sign {
        b'Z' | b'z' => return Some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hour = number(rest, 2)?;
    let _ = skip(rest, b':');
    let minute = number(rest, 2)?;
    (hour < 24 && minute < 60).then_some(sign * (hour * 60 + minute) * 60 * SECOND_NS)
}

/// Decimals behind a point, in billionths; 0 when there is no point. Digits after the ninth are dropped.
fn fraction(rest: &mut &[u8]) -> Option<i64> {
    if skip(rest, b'.').is_none() {
        return Some(0);
    }
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (decimals, after) = rest.split_at(digits);
    *rest = after;
    let nine = decimals.iter().chain(std::iter::repeat(&b'0')).take(9);
    (digits > 0).then(|| nine.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// A number of exactly so many digits.
fn number(rest: &mut &[u8], digits: usize) -> Option<i64> {
    let (digits, after) = rest.split_at_checked(digits)?;
    *rest = after;
    digits.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

fn skip(rest: &mut &[u8], byte: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}

/// Date to days by Howard Hinnant's `days_from_civil` (chrono-compatible low-level date algorithms).
fn since_1970(year: i64, month: i64, day: i64, time_ns: i64) -> Option<i64> {
    if !(1970..=2261).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year }; // years begin in March
    let month_from_march = (month + 9) % 12;
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - DAYS_TO_1970;
    (days * 86_400).checked_mul(SECOND_NS)?.checked_add(time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Utc;
    use proptest::prelude::*;

    #[test]
    fn reads_what_nginx_writes() {
        let want = Some(1_795_226_462_000_000_000);
        assert_eq!(time_local(b"21/Nov/2026:02:01:02 +0000"), want);
        assert_eq!(time_local(b"21/Nov/2026:03:31:02 +0130"), want);
        assert_eq!(time_local(b"20/Nov/2026:20:01:02 -0600"), want);
        assert_eq!(iso8601(b"2026-11-21T03:01:02+01:00"), want);
        assert_eq!(seconds(b"1795226462.000"), want);
    }

    #[test]
    fn reads_decimals() {
        assert_eq!(iso8601(b"1970-01-01T00:00:01.25Z"), Some(1_250_000_000));
        assert_eq!(iso8601(b"1970-01-01T00:00:00.1234567891Z"), Some(123_456_789));
        assert_eq!(seconds(b"0.004"), Some(4_000_000));
        assert_eq!(seconds(b"12"), Some(12_000_000_000));
    }

    #[test]
    fn gives_none_for_what_is_no_moment() {
        for text in ["", "-", "21/Nov/2026:03:01:02", "21/nov/2026:03:01:02 +0000", "21/Nov/2026:24:01:02 +0000"] {
            assert_eq!(time_local(text.as_bytes()), None, "{text}");
        }
        for text in ["2026-13-21T03:01:02Z", "2026-11-21T03:01:02", "2026-11-21T03:01:02Zx", "9999-01-01T00:00:00Z"] {
            assert_eq!(iso8601(text.as_bytes()), None, "{text}");
        }
        for text in ["", "-", ".5", "1.", "1.5s", "12345678901", "9999999999.0"] {
            assert_eq!(seconds(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_date_comes_back(unix_s in 0u64..9_000_000_000) {
            let Utc { year, month, day, hour, minute, second } = Utc::from_unix_ms(unix_s * 1000);
            let name = std::str::from_utf8(MONTHS[month as usize - 1]).unwrap();
            let local = format!("{day:02}/{name}/{year}:{hour:02}:{minute:02}:{second:02} +0000");
            let iso = format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00");
            prop_assert_eq!(time_local(local.as_bytes()), Some(unix_s as i64 * SECOND_NS));
            prop_assert_eq!(iso8601(iso.as_bytes()), Some(unix_s as i64 * SECOND_NS));
        }

        #[test]
        fn no_text_panics(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (time_local(&text), iso8601(&text), seconds(&text));
        }
    }
}
