//! The few shapes in which the kernel writes numbers: words, tables of name and value lines, masks.
//!
//! Does no IO. Invariant: what is not a number gives none, never 0.

/// A whole number without a sign.
pub(crate) fn count(word: &str) -> Option<f64> {
    word.parse::<u64>().ok().map(|n| n as f64)
}

/// A number written in hexadecimal without a prefix.
pub(crate) fn hex(word: &str) -> Option<f64> {
    u64::from_str_radix(word, 16).ok().map(|n| n as f64)
}

/// The number behind the line that starts with `key`, like `MemAvailable:  123 kB` or `nr_throttled 7`.
pub(crate) fn keyed(text: &str, key: &str) -> Option<f64> {
    count(word_of(text, key)?)
}

/// The first word behind the line that starts with the word `key`.
pub(crate) fn word_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(key)).then(|| words.next())?
    })
}

/// Calls `each` with name and value of a table in the form of /proc/net/snmp: a line of names, then a line of values,
/// both of which start with `prefix`. Negative and strange values are left out.
pub(crate) fn snmp_table(text: &str, prefix: &str, mut each: impl FnMut(&str, f64)) {
    let mut lines = text.lines().filter(|l| l.split_whitespace().next() == Some(prefix));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return };
    for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
        if let Some(value) = count(value) {
            each(name, value);
        }
    }
}

/// Joins a mask like `00000000,0000000f` into `union`, most significant word first in the text, last in `union`.
/// None when it is not a mask; `union` is then unchanged.
pub(crate) fn join_mask(mask: &str, union: &mut Vec<u32>) -> Option<()> {
    let words: Option<Vec<u32>> = mask.trim().split(',').rev().map(|w| u32::from_str_radix(w, 16).ok()).collect();
    let words = words?;
    union.resize(union.len().max(words.len()), 0);
    for (joined, word) in union.iter_mut().zip(words) {
        *joined |= word;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_numbers_and_nothing_else() {
        assert_eq!(count("12"), Some(12.0));
        assert_eq!(count("-1"), None);
        assert_eq!(keyed("MemFree: 1 kB\nMemAvailable:   9 kB\n", "MemAvailable:"), Some(9.0));
        assert_eq!(keyed("nr_throttled_x 7\n", "nr_throttled"), None);
    }

    #[test]
    fn masks_join() {
        let mut union = Vec::new();
        join_mask("00000001,00000003\n", &mut union).unwrap();
        join_mask("5", &mut union).unwrap();
        assert_eq!(union, [7, 1]);
        assert!(join_mask("zz", &mut union).is_none());
        assert_eq!(union, [7, 1]);
    }

    #[test]
    fn tables_pair_names_with_values() {
        let mut seen = Vec::new();
        let text = "TcpExt: A B C\nTcpExt: 1 -2 3\nIpExt: A\nIpExt: 9\n";
        snmp_table(text, "TcpExt:", |name, value| seen.push((name.to_string(), value)));
        assert_eq!(seen, [("A".to_string(), 1.0), ("C".to_string(), 3.0)]);
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "\\PC*\n?\\PC*") {
            let _ = (count(&s), hex(&s), keyed(&s, "a"), join_mask(&s, &mut Vec::new()));
            snmp_table(&s, "Tcp:", |_, _| {});
        }
    }
}
