//! Templates with every name resolved, and how they become text.
//!
//! Taking text apart is `prony_model::script`'s work. Invariant: rendering reads what it is given and cannot fail.

use crate::digits::Digits;

use super::feed::Table;

/// Longest value that may be saved from an answer, in bytes. A guess: servers take heads of 8 KiB to 64 KiB.
pub const SAVED_BYTES_MAX: usize = 64 * 1024;

/// A template, ready to be rendered.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pieces: Vec<Piece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Stands as it is.
    Literal(String),
    /// The counter of the step.
    Counter,
    /// A variable by index.
    Saved(usize),
    /// A cell of the row that the walk has of a feed.
    Cell {
        /// Index of the feed.
        table: usize,
        /// Index of the column.
        column: usize,
    },
}

/// What the names of a template stand for, for one request.
pub struct Values<'a> {
    /// The counter of the step.
    pub n: Digits,
    /// By variable.
    pub saved: &'a [String],
    /// By feed.
    pub rows: &'a [usize],
    /// Feeds.
    pub tables: &'a [Table],
}

impl Template {
    /// From pieces in order; neighbouring literals become one.
    pub fn new(pieces: impl IntoIterator<Item = Piece>) -> Self {
        let mut merged: Vec<Piece> = Vec::new();
        for piece in pieces {
            match (merged.last_mut(), piece) {
                (Some(Piece::Literal(before)), Piece::Literal(more)) => before.push_str(&more),
                (_, piece) => merged.push(piece),
            }
        }
        Self { pieces: merged }
    }

    /// In order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether it is the same every time.
    pub fn is_fixed(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Literal(_)))
    }

    /// Appends it as it is.
    #[inline]
    pub fn render(&self, values: &Values<'_>, into: &mut String) {
        self.pieces.iter().for_each(|piece| into.push_str(piece.text(values)));
    }

    /// Appends it as the bytes of a body.
    #[inline]
    pub fn render_bytes(&self, values: &Values<'_>, into: &mut Vec<u8>) {
        self.pieces.iter().for_each(|piece| into.extend_from_slice(piece.text(values).as_bytes()));
    }

    /// Appends it as a path: values with %XX where a byte cannot stand in a URL.
    #[inline]
    pub fn render_path(&self, values: &Values<'_>, into: &mut String) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => into.push_str(text),
                Piece::Counter | Piece::Saved(_) | Piece::Cell { .. } => push_encoded(piece.text(values), into),
            }
        }
    }
}

impl Piece {
    #[inline]
    fn text<'a>(&'a self, values: &'a Values<'_>) -> &'a str {
        match self {
            Self::Literal(text) => text,
            Self::Counter => values.n.as_str(),
            Self::Saved(variable) => &values.saved[*variable],
            Self::Cell { table, column } => values.tables[*table].cell(values.rows[*table], *column),
        }
    }
}

/// Whether a byte may stand in a path with its query. `#` would end it; everything else is the person's own business.
pub fn stands_in_path(byte: u8) -> bool {
    (0x21..0x7f).contains(&byte) && byte != b'#'
}

fn push_encoded(value: &str, into: &mut String) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    if value.bytes().all(stands_in_path) {
        return into.push_str(value);
    }
    for byte in value.bytes() {
        if stands_in_path(byte) {
            into.push(char::from(byte));
        } else {
            into.extend(['%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Where a value is used, and so what it must not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// In a header.
    pub in_header: bool,
    /// It begins a path.
    pub leads_path: bool,
}

impl Usage {
    /// Whether a value can stand where it is used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn accepts(self, value: &str) -> Result<(), &'static str> {
        if self.in_header && value.bytes().any(|b| b == b'\r' || b == b'\n' || b == 0) {
            return Err("holds a line end, which would end the header that it stands in");
        }
        if self.leads_path && !value.starts_with('/') {
            return Err("does not begin with `/`, but a path begins with it");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::Digits;
    use prony_model::script::{Feed, FeedOrder};
    use proptest::prelude::*;

    fn piece() -> impl Strategy<Value = Piece> {
        prop_oneof![
            "\\PC{0,8}".prop_map(Piece::Literal),
            Just(Piece::Counter),
            (0usize..3).prop_map(Piece::Saved),
            (0usize..2).prop_map(|column| Piece::Cell { table: 0, column }),
        ]
    }

    /// What a person would do with an editor: write the template, then replace every name. Marks differ at both ends, or a text between
    /// two names would look like a third.
    fn naive(pieces: &[Piece], n: u64, saved: &[String], cells: &[String]) -> String {
        let name = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Counter => "\u{1}n\u{2}".to_string(),
            Piece::Saved(index) => format!("\u{1}s{index}\u{2}"),
            Piece::Cell { column, .. } => format!("\u{1}c{column}\u{2}"),
        };
        let mut text: String = pieces.iter().map(name).collect();
        text = text.replace("\u{1}n\u{2}", &n.to_string());
        for (index, value) in saved.iter().enumerate() {
            text = text.replace(&format!("\u{1}s{index}\u{2}"), value);
        }
        for (index, value) in cells.iter().enumerate() {
            text = text.replace(&format!("\u{1}c{index}\u{2}"), value);
        }
        text
    }

    proptest! {
        #[test]
        fn rendering_is_replacing_every_name(
            pieces in proptest::collection::vec(piece(), 0..12),
            n in any::<u64>(),
            saved in proptest::collection::vec("\\PC{0,6}", 3),
            rows in proptest::collection::vec(proptest::collection::vec("\\PC{0,6}", 2), 1..4),
            row in any::<proptest::sample::Index>(),
        ) {
            let row = row.index(rows.len());
            let want = naive(&pieces, n, &saved, &rows[row]);
            let feed = Feed { columns: vec!["a".into(), "b".into()], rows, order: FeedOrder::Sequential };
            let values = Values { n: Digits::new(n), saved: &saved, rows: &[row], tables: &[Table::new(&feed)] };
            let template = Template::new(pieces);
            let (mut text, mut bytes, mut path) = (String::new(), Vec::new(), String::new());
            template.render(&values, &mut text);
            template.render_bytes(&values, &mut bytes);
            template.render_path(&values, &mut path);
            prop_assert_eq!(&text, &want);
            prop_assert_eq!(bytes, want.into_bytes());
            if text.bytes().all(stands_in_path) {
                prop_assert_eq!(path, text);
            }
        }

        #[test]
        fn a_value_in_a_path_can_be_read_back(value in "\\PC{0,20}") {
            let mut path = String::new();
            push_encoded(&value, &mut path);
            prop_assert!(path.bytes().all(stands_in_path), "{}", path);
            let mut bytes = Vec::new();
            let mut rest = path.as_bytes();
            while let Some((first, more)) = rest.split_first() {
                let encoded = more.get(..2).and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
                let own = |byte: &u8| !stands_in_path(*byte);
                match encoded.filter(|byte| *first == b'%' && own(byte)) {
                    Some(byte) => {
                        bytes.push(byte);
                        rest = &more[2..];
                    }
                    None => {
                        bytes.push(*first);
                        rest = more;
                    }
                }
            }
            // A value that holds a %XX of its own is left alone, so only others come back.
            if !value.contains('%') {
                prop_assert_eq!(bytes, value.into_bytes());
            }
        }

        #[test]
        fn digits_are_those_of_the_number(n in any::<u64>()) {
            let digits = Digits::new(n);
            prop_assert_eq!(digits.as_str(), n.to_string());
        }
    }

    #[test]
    fn a_value_must_fit_where_it_is_used() {
        let header = Usage { in_header: true, leads_path: false };
        let path = Usage { in_header: false, leads_path: true };
        assert!(header.accepts("a\r\nX: b").is_err() && header.accepts("a b").is_ok());
        assert!(path.accepts("http://elsewhere/").is_err() && path.accepts("/here").is_ok());
        assert!(Usage::default().accepts("a\nb").is_ok());
    }
}
