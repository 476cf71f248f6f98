//! How quantities are written for people: thousands separated, three or four digits, a space before the unit.
//!
//! Every text of a report goes through here, so that one figure reads the same in the terminal, in Markdown and on the page.
//! A value that is not finite is written as a dash.

/// What stands where there is no number.
pub const NONE: &str = "\u{2013}";

/// A plain number with about four digits: `12,345`, `345.6`, `1.234`, `0.00123`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_string();
    }
    let size = value.abs();
    if size != 0.0 && size < 0.001 {
        return format!("{value:.2e}");
    }
    let decimals = match size {
        s if s >= 1000.0 || s.fract() == 0.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    };
    separate(&format!("{value:.decimals$}"))
}

/// A count: `12,345`.
pub fn count(value: u64) -> String {
    separate(&value.to_string())
}

/// Requests per second, without the unit: `12,345`, `83.4`.
pub fn rate(per_s: f64) -> String {
    if !per_s.is_finite() {
        return NONE.to_string();
    }
    separate(&if per_s.abs() < 100.0 && per_s != 0.0 { format!("{per_s:.1}") } else { format!("{per_s:.0}") })
}

/// A duration given in microseconds: `250 us`, `1.23 ms`, `2.50 s`.
pub fn micros(us: f64) -> String {
    scaled(us, &[(1e6, "s"), (1e3, "ms"), (1.0, "us")])
}

/// Below this a whole number of bytes that is no whole number of KiB is written as it is: such are sizes of packets.
const EXACT_BYTES: f64 = 10_240.0;

/// A size given in bytes: `616 B`, `1,500 B`, `4.00 KiB`, `17.8 KiB`, `1.2 MiB`.
pub fn bytes(bytes: f64) -> String {
    if bytes.fract() == 0.0 && bytes.abs() < EXACT_BYTES && bytes % 1024.0 != 0.0 {
        return format!("{} B", separate(&format!("{bytes:.0}")));
    }
    scaled(bytes, &[(1073741824.0, "GiB"), (1048576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")])
}

/// Bits per second: `20.0 Mbit/s`.
pub fn bit_rate(bits_per_s: f64) -> String {
    scaled(bits_per_s, &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")])
}

/// A share as percent: `12.3 %`, `0.04 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NONE.to_string();
    }
    let percent = share * 100.0;
    let decimals = if percent == 0.0 || percent.abs() >= 1.0 { 1 } else { 2 };
    let text = separate(&format!("{percent:.decimals$}"));
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

/// A relative change as percent with its sign: `+12.3 %`, `-0.4 %`.
pub fn change(relative: f64) -> String {
    if !relative.is_finite() {
        return NONE.to_string();
    }
    let percent = relative * 100.0;
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    format!("{}{} %", if percent > 0.0 { "+" } else { "" }, separate(&format!("{percent:.1}")))
}

/// A value in the unit that evidence and metrics name.
pub fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "us" => micros(value),
        "ms" => micros(value * 1e3),
        "s" => micros(value * 1e6),
        "B" | "bytes" => bytes(value),
        "bit/s" => bit_rate(value),
        "share" => percent(value),
        "%" => percent(value / 100.0),
        "" => plain(value),
        other => format!("{} {other}", plain(value)),
    }
}

/// Picks the largest unit that gives at least 1 (the smallest otherwise), then three digits.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NONE.to_string();
    }
    let (factor, name) = units
        .iter()
        .find(|(factor, _)| value.abs() >= *factor * 0.9995)
        .or(units.last())
        .expect("every unit list has an entry");
    let scaled = value / factor;
    let decimals = match scaled.abs() {
        s if s >= 100.0 || (*factor == 1.0 && s.fract() == 0.0) => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
    format!("{} {name}", separate(&format!("{scaled:.decimals$}")))
}

/// Puts commas between groups of three digits of the whole part.
fn separate(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_well() {
        let seen = [
            plain(12345.6),
            plain(0.987),
            plain(3.0),
            plain(0.0000123),
            plain(f64::NAN),
            count(1234567),
            rate(83.44),
            rate(24817.3),
            micros(250.0),
            micros(1234.0),
            micros(2_500_000.0),
            micros(0.5),
            bytes(616.0),
            bytes(1500.0),
            bytes(18227.0),
            bit_rate(20e6),
            percent(0.123),
            percent(0.0004),
            percent(1.0),
            change(0.382),
            change(-0.0041),
            change(0.0001),
            with_unit(0.98, ""),
            with_unit(4.0, "writes"),
            with_unit(0.5, "share"),
            with_unit(f64::INFINITY, "us"),
        ];
        assert_eq!(
            seen.join(" | "),
            "12,346 | 0.987 | 3 | 1.23e-5 | \u{2013} | 1,234,567 | 83.4 | 24,817 | 250 us | 1.23 ms | 2.50 s | 0.50 us | 616 B | 1,500 B | 17.8 KiB | \
             20.0 Mbit/s | 12.3 % | 0.04 % | 100 % | +38.2 % | -0.4 % | 0.0 % | 0.980 | 4 writes | 50 % | \u{2013}"
        );
    }
}
