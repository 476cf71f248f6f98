//! The lines of an access log, as nginx's `log_format` describes them, and how a line is taken apart by it.
//!
//! It gives values as they were written and reads none of them. Invariant: a line is either taken apart as a whole, or the piece
//! that does not fit is named.

/// How the lines of a log are made (nginx, `ngx_http_log_module`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFormat {
    /// Two texts never follow each other.
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Variable(String),
}

/// Where a line leaves its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit<'f> {
    /// What should stand there.
    pub expected: Expected<'f>,
    /// The variable before it; none at the beginning.
    pub after: Option<&'f str>,
    /// Offset in the line from which it was looked for, in bytes.
    pub at: usize,
}

/// What should stand at some place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected<'f> {
    /// This text.
    Text(&'f [u8]),
    /// The value of this variable.
    Variable(&'f str),
    /// Nothing more.
    End,
}

impl LineFormat {
    /// From the bare text of a `log_format`, with its variables as `$name` or `${name}`.
    pub fn new(format: &str) -> Self {
        let mut pieces = Vec::new();
        let mut text = String::new();
        let mut rest = format;
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            let (name, after) = braced.unwrap_or_else(|| after.split_at(end));
            rest = after;
            if name.is_empty() {
                text.push('$');
                continue;
            }
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text).into_bytes()));
            }
            pieces.push(Piece::Variable(name.to_string()));
        }
        text.push_str(rest);
        if !text.is_empty() {
            pieces.push(Piece::Text(text.into_bytes()));
        }
        Self { pieces }
    }

    /// Its variables, in their order; one may stand there twice.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Two variables that nobody can tell apart, because nothing stands between them and the second is no path.
    pub fn inseparable(&self) -> Option<(&str, &str)> {
        self.pieces.windows(2).find_map(|pair| match pair {
            [Piece::Variable(left), Piece::Variable(right)] if !is_path(right) => Some((left.as_str(), right.as_str())),
            _ => None,
        })
    }

    /// The values of a line, in the order of [`Self::variables`].
    ///
    /// # Errors
    /// The piece that does not fit, and where.
    pub fn values<'a>(&self, line: &'a [u8]) -> Result<Vec<&'a [u8]>, Misfit<'_>> {
        let mut values = Vec::new();
        let mut at = 0;
        for (index, piece) in self.pieces.iter().enumerate() {
            let rest = &line[at..];
            match piece {
                Piece::Text(text) if rest.starts_with(text) => at += text.len(),
                Piece::Text(_) => return Err(self.misfit(index, at)),
                Piece::Variable(name) => {
                    let end = match self.pieces.get(index + 1) {
                        None => Some(rest.len()),
                        Some(Piece::Text(next)) => end_of(name, rest, next),
                        Some(Piece::Variable(_)) => rest.iter().position(|b| *b == b'/'),
                    };
                    let end = end.ok_or_else(|| self.misfit(index + 1, at))?;
                    values.push(&rest[..end]);
                    at += end;
                }
            }
        }
        if at == line.len() { Ok(values) } else { Err(self.misfit(self.pieces.len(), at)) }
    }

    fn misfit(&self, index: usize, at: usize) -> Misfit<'_> {
        let after = match index.checked_sub(1).map(|before| &self.pieces[before]) {
            Some(Piece::Variable(name)) => Some(name.as_str()),
            Some(Piece::Text(_)) | None => None,
        };
        let expected = match self.pieces.get(index) {
            Some(Piece::Text(text)) => Expected::Text(text),
            Some(Piece::Variable(name)) => Expected::Variable(name),
            None => Expected::End,
        };
        Misfit { expected, after, at }
    }
}

/// Whether the value begins with `/`, so that it can be told from what stands before it.
fn is_path(name: &str) -> bool {
    matches!(name, "request_uri" | "uri" | "document_uri")
}

/// Whether the value is a list with `, ` and ` : ` between its parts.
fn is_list(name: &str) -> bool {
    name.starts_with("upstream_") || matches!(name, "http_x_forwarded_for" | "proxy_add_x_forwarded_for")
}

/// Where the value of a variable ends, when `next` follows it: at the first `next` that is not part of the value.
fn end_of(name: &str, rest: &[u8], next: &[u8]) -> Option<usize> {
    let mut found = (0..rest.len()).filter(|at| rest[*at..].starts_with(next));
    found.find(|at| {
        let (value, after) = rest.split_at(*at);
        let backslashes = value.iter().rev().take_while(|b| **b == b'\\').count();
        let is_escaped = next.starts_with(b"\"") && backslashes % 2 == 1;
        let goes_on = is_list(name)
            && next.starts_with(b" ")
            && (value.ends_with(b",") || value.ends_with(b" :") || after.starts_with(b" : "));
        !is_escaped && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(format: &str, line: &str) -> Option<Vec<String>> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        Some(LineFormat::new(format).values(line.as_bytes()).ok()?.into_iter().map(text).collect())
    }

    #[test]
    fn lists_quotes_and_neighbours() {
        let told = values("$upstream_addr $host$request_uri \"$agent\"", "a:1, b:2 : c:3 shop/x?y \"q \\\" r\"");
        assert_eq!(told.unwrap(), ["a:1, b:2 : c:3", "shop", "/x?y", "q \\\" r"]);
        assert_eq!(LineFormat::new("$a$b").inseparable(), Some(("a", "b")));
        assert_eq!(LineFormat::new("$host$uri costs 5$").inseparable(), None);
        assert_eq!(values("${a}b costs 5$", "xb costs 5$").unwrap(), ["x"]);
    }

    #[test]
    fn says_where_a_line_leaves_it() {
        let format = LineFormat::new("[$host] $status");
        let misfit = |line: &'static str| format.values(line.as_bytes()).unwrap_err();
        assert_eq!(misfit("s1"), Misfit { expected: Expected::Text(b"["), after: None, at: 0 });
        assert_eq!(misfit("[s1"), Misfit { expected: Expected::Text(b"] "), after: Some("host"), at: 1 });
        let ended = LineFormat::new("$host;");
        let past = ended.values(b"s1;2").unwrap_err();
        assert_eq!((past.expected, past.at), (Expected::End, 3));
    }

    proptest! {
        #[test]
        fn values_come_back(parts in proptest::collection::vec(("[ |,\"\\[\\]{}:-]{1,3}", "[a-z0-9/.]{0,8}"), 1..8)) {
            let (format, line) = parts.iter().fold(("$a".to_string(), "x".to_string()), |(format, line), (between, value)| {
                (format!("{format}{between}${{v}}"), format!("{line}{between}{value}"))
            });
            let wanted: Vec<&[u8]> = std::iter::once("x").chain(parts.iter().map(|(_, v)| v.as_str())).map(str::as_bytes).collect();
            prop_assert_eq!(LineFormat::new(&format).values(line.as_bytes()).unwrap(), wanted);
        }

        #[test]
        fn no_text_panics(format in "(\\$[a-z_]{0,9}|\\$\\{|\\}|\\PC){0,10}", line in "\\PC{0,30}") {
            let _ = LineFormat::new(&format).values(line.as_bytes());
        }
    }
}
