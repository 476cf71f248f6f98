//! Bars and column charts as text, in block characters or in ASCII, and a logarithmic axis for latencies.
//!
//! No colours, no words of a language but units. Invariant: a value above 0 is never drawn as nothing.

use prony_stats::Histogram;

/// Levels of one character cell, from empty to full.
const BLOCKS: [char; 9] =
    [' ', '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];
/// The same in ASCII, by how dark they look.
const ASCII: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '%', '#'];
/// Above the lowest level.
const FULL: usize = 8;

fn levels(blocks: bool) -> &'static [char; 9] {
    if blocks { &BLOCKS } else { &ASCII }
}

/// A horizontal bar in two parts, the filled one and the rest, `columns` wide together.
pub(crate) fn bar(share: f64, columns: usize, blocks: bool) -> (String, String) {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let least = usize::from(share > 0.0).min(columns);
    let filled = ((share * columns as f64).round() as usize).clamp(least, columns);
    let (full, empty) = if blocks { ("\u{2588}", "\u{2591}") } else { ("#", ".") };
    (full.repeat(filled), empty.repeat(columns - filled))
}

/// One character for a share, from nearly nothing to full.
pub(crate) fn level(share: f64, blocks: bool) -> char {
    levels(blocks)[eighths(share, FULL)]
}

/// A column for each share of the height, `rows` high, the top row first.
pub(crate) fn columns(shares: &[f64], rows: usize, blocks: bool) -> Vec<String> {
    let cells = levels(blocks);
    let row = |from_bottom: usize| {
        let cell = |share: &f64| cells[eighths(*share, rows * FULL).saturating_sub(from_bottom * FULL).min(FULL)];
        shares.iter().map(cell).collect()
    };
    (0..rows).rev().map(row).collect()
}

/// How many of `all` levels a share fills; at least one when it is above 0.
fn eighths(share: f64, all: usize) -> usize {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    ((share * all as f64).round() as usize).clamp(usize::from(share > 0.0), all)
}

/// Shares of the largest value, for [`columns`]; all 0 when there is none above 0.
pub(crate) fn of_largest(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let largest = values.clone().fold(0.0, f64::max);
    values.map(|value| if largest > 0.0 { value / largest } else { 0.0 }).collect()
}

/// A logarithmic axis over whole decades of microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecadeAxis {
    first: i32,
    last: i32,
    columns: usize,
}

impl DecadeAxis {
    /// The decades that hold everything from `least_us` to `most_us`, at least one.
    pub fn over(least_us: f64, most_us: f64, columns: usize) -> Self {
        // Below 1 us nothing is told apart; above 100 s a histogram holds nothing.
        let decade = |us: f64| us.clamp(1.0, 1e8).log10();
        let first = decade(least_us).floor() as i32;
        let last = (decade(most_us).ceil() as i32).max(first + 1);
        Self { first, last, columns }
    }

    /// How many values of `latency` fall on each column. What lies outside counts in the column at that end.
    pub fn counts(self, latency: &Histogram) -> Vec<u64> {
        let edge = |column: usize| {
            let decade =
                f64::from(self.first) + f64::from(self.last - self.first) * column as f64 / self.columns as f64;
            10f64.powf(decade)
        };
        let mut up_to = latency.counts_up_to_us(&(1..=self.columns).map(edge).collect::<Vec<_>>());
        if let Some(last) = up_to.last_mut() {
            *last = latency.count();
        }
        let before = std::iter::once(0).chain(up_to.iter().copied());
        up_to.iter().zip(before).map(|(to, from)| to - from).collect()
    }

    /// The row of labels below: the name of a decade where it begins, the last one flush right.
    pub fn labels(self) -> String {
        let decades = (self.last - self.first) as usize;
        let mut row = String::new();
        for (step, exponent) in (self.first..=self.last).enumerate() {
            let name = decade_name(exponent);
            let wanted = step * self.columns / decades;
            let at = if step == decades { self.columns.saturating_sub(name.len()) } else { wanted };
            // A label that would touch the one before it is left out.
            if at > row.len() || row.is_empty() {
                row = format!("{row:<at$}{name}");
            }
        }
        row
    }
}

/// `10 us`, `1 ms`, `100 s`: ten to the `exponent` microseconds, `exponent` not below 0.
fn decade_name(exponent: i32) -> String {
    let unit = ["us", "ms", "s"][(exponent / 3).clamp(0, 2) as usize];
    let digits = exponent - (exponent / 3).clamp(0, 2) * 3;
    format!("1{:0>digits$} {unit}", "", digits = digits.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn check(rows: &[String], want: Expect) {
        want.assert_eq(&rows.iter().map(|row| format!("|{row}|\n")).collect::<String>());
    }

    #[test]
    fn columns_stand_on_the_lowest_row() {
        let shares = [0.0, 0.001, 0.25, 0.5, 0.75, 1.0];
        check(
            &columns(&shares, 2, true),
            expect![[r#"
            |    ▄█|
            | ▁▄███|
        "#]],
        );
        check(
            &columns(&shares, 1, false),
            expect![[r#"
            | .:=*#|
        "#]],
        );
    }

    #[test]
    fn a_bar_has_its_width_whatever_the_share() {
        let whole = |share| {
            let (filled, rest) = bar(share, 10, false);
            filled + &rest
        };
        let shares = [0.0, 0.001, 0.5, 1.0, 7.0, f64::NAN];
        check(
            &shares.map(whole),
            expect![[r#"
            |..........|
            |#.........|
            |#####.....|
            |##########|
            |##########|
            |..........|
        "#]],
        );
        assert_eq!(bar(1.0, 0, true), (String::new(), String::new()));
    }

    #[test]
    fn an_axis_names_its_decades() {
        let labels = |least, most, columns| DecadeAxis::over(least, most, columns).labels();
        check(
            &[
                labels(220.0, 900.0, 40),
                labels(90.0, 12_000.0, 40),
                labels(0.2, 3e7, 40),
                labels(5.0, 5.0, 12),
                labels(1.0, 1e8, 20),
                labels(1.0, 1e8, 3),
            ],
            expect![[r#"
                |100 us                              1 ms|
                |10 us     100 us    1 ms      10 ms|
                |1 us 10 us     1 ms 10 ms     1 s  10 s|
                |1 us   10 us|
                |1 us 100 us 100 ms|
                |1 us|
            "#]],
        );
    }

    proptest! {
        #[test]
        fn every_value_is_in_a_column(values in vec(0u64..60_000_000_000, 1..50), least in 0.0f64..1e8, most in 0.0f64..1e8) {
            let mut latency = Histogram::new();
            values.iter().for_each(|v| latency.record_ns(*v));
            let counts = DecadeAxis::over(least, most, 30).counts(&latency);
            prop_assert_eq!(counts.len(), 30);
            prop_assert_eq!(counts.iter().sum::<u64>(), values.len() as u64);
        }

        #[test]
        fn what_is_there_is_seen(share in 1e-9f64..1.0, rows in 1usize..8) {
            prop_assert!(columns(&[share], rows, true).concat().chars().any(|c| c != ' '));
            prop_assert!(level(share, false) != ' ');
        }
    }
}
