//! Texts for a terminal, 80 to 110 columns wide: the load block, the diagnosis, the proof, the whole result.
//!
//! Nothing is printed here; colour comes only when the caller says that the reader can show it.

mod closing;
mod limit;
mod result;
mod wrk;

pub use closing::Closing;
pub use limit::limit_sentence;
pub use result::{diagnosis, proof, verdict};
pub(crate) use result::{gap_text, section};
pub use wrk::load_block;

use crate::view::Tone;

/// Whether the reader can show colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    #[default]
    Plain,
    /// With the escape codes of ANSI terminals.
    Ansi,
}

impl Style {
    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_string(),
            Self::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// In the colour of its meaning.
    pub fn toned(self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Good => self.wrap("32", text),
            Tone::Warn => self.wrap("33", text),
            Tone::Bad => self.wrap("31", text),
            Tone::Plain => text.to_string(),
        }
    }
}

/// Widest line of a terminal text.
const COLUMNS: usize = 100;

/// Control characters of a run's own texts (a server's name, a path) must not reach the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Breaks `text` at blanks so that no line is wider than [`COLUMNS`]; the first line starts with `first`, the others with
/// as many blanks.
pub(crate) fn wrap(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let mut out = String::from(first);
    let mut column = indent.len();
    let mut fresh = true;
    for word in clean(text).split_whitespace() {
        let width = word.chars().count();
        if !fresh && column + 1 + width > COLUMNS {
            out.push('\n');
            out.push_str(&indent);
            column = indent.len();
            fresh = true;
        }
        if !fresh {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
        fresh = false;
    }
    out.push('\n');
    out
}

/// Columns to the right, each as wide as its widest cell; empty columns are left out.
pub(crate) fn table(title: &str, rows: &[Vec<String>], style: Style) -> String {
    let Some(head) = rows.first() else { return String::new() };
    let width = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let used = |i: &usize| rows.iter().skip(1).any(|row| row.get(*i).is_some_and(|cell| !cell.is_empty()));
    let columns: Vec<(usize, usize)> = (0..head.len()).filter(used).map(|i| (i, width(i))).collect();
    let line = |row: &Vec<String>| {
        let cell = |(i, width): &(usize, usize)| format!("{:>width$}", row.get(*i).map_or("", String::as_str));
        format!("  {}\n", columns.iter().map(cell).collect::<Vec<_>>().join("  ").trim_end())
    };
    format!("\n{}\n{}", style.bold(&clean(title)), rows.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks_and_escapes_are_disarmed() {
        let text = wrap("1. ", &"word ".repeat(30));
        assert!(text.lines().all(|l| l.chars().count() <= COLUMNS), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("   word"));
        assert!(!wrap("", "a\x1b[31mred").contains('\x1b'));
    }
}
