//! The format of an access log, as nginx's `log_format` describes it, and how a line is taken apart by it.
//!
//! It reads no values: that is the log's job. Invariant: a line is either taken apart as a whole, or the piece that
//! does not fit is named.

use super::{ImportError, excerpt};
use std::borrow::Cow;

/// What the common log format of Apache and nginx's `combined` begin with; what follows may be anything.
const COMMON: &str = r#"$remote_addr $ident $remote_user [$time_local] "$request" $rest"#;

/// How the lines of a log are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// Text and variables; two texts never follow each other.
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Variable { name: String, field: Field },
}

/// What a variable tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// `$request`: method, path and protocol.
    Request,
    /// `$request_method`.
    Method,
    /// `$request_uri`: path and query as sent.
    RequestUri,
    /// `$uri`: the path as nginx understood it.
    Uri,
    /// `$args`: the query.
    Args,
    /// `$http_host` or `$host`.
    Host,
    /// `$time_local`, whole seconds.
    TimeLocal,
    /// `$time_iso8601`, whole seconds.
    TimeIso,
    /// `$msec`, thousandths.
    Msec,
    /// `$request_time`: how long it took.
    RequestTime,
    /// A list with `, ` and ` : ` between its parts, of no use here.
    List,
    /// Of no use here.
    Other,
}

/// How many fields there are.
const FIELDS: usize = Field::Other as usize + 1;

/// The values of one line, as written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Values<'a> {
    of: [Option<&'a [u8]>; FIELDS],
}

impl<'a> Values<'a> {
    /// The value of a field. A `-` stands for none.
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.of[field as usize].filter(|value| !matches!(*value, b"" | b"-"))
    }
}

impl LogFormat {
    /// The common log format (`%h %l %u %t "%r" %>s %b`) and everything that begins like it: Apache's and nginx's
    /// `combined`.
    pub fn common() -> Self {
        Self { pieces: pieces(COMMON) }
    }

    /// From the text of nginx's `log_format`: the bare format, or the whole directive with its quotes. `common` and
    /// `combined` are names of [`Self::common`].
    ///
    /// # Errors
    /// [`ImportError::Format`] when no variable tells the path, or nothing stands between two variables.
    pub fn parse(text: &str) -> Result<Self, ImportError> {
        let text = text.trim();
        if matches!(text, "common" | "combined") {
            return Ok(Self::common());
        }
        let format = match text.strip_prefix("log_format").filter(|rest| rest.starts_with(char::is_whitespace)) {
            Some(directive) => unquoted(directive).map_err(ImportError::Format)?,
            None => text.to_string(),
        };
        let format = Self { pieces: pieces(&format) };
        format.check().map_err(ImportError::Format)?;
        Ok(format)
    }

    /// Whether a line tells when the request was.
    pub(super) fn has_time(&self) -> bool {
        [Field::TimeLocal, Field::TimeIso, Field::Msec].into_iter().any(|field| self.has(field))
    }

    fn has(&self, wanted: Field) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Variable { field, .. } if *field == wanted))
    }

    fn check(&self) -> Result<(), String> {
        if ![Field::Request, Field::RequestUri, Field::Uri].into_iter().any(|field| self.has(field)) {
            return Err("no variable tells the path: it needs `$request`, `$request_uri` or `$uri`".to_string());
        }
        for pair in self.pieces.windows(2) {
            if let [Piece::Variable { name: left, .. }, Piece::Variable { name: right, field }] = pair
                && !field.is_path()
            {
                return Err(format!("nothing stands between `${left}` and `${right}`, so nobody can tell them apart"));
            }
        }
        Ok(())
    }

    /// Takes a line apart.
    ///
    /// # Errors
    /// A sentence that names the piece that does not fit.
    pub(super) fn values<'a>(&self, line: &'a [u8]) -> Result<Values<'a>, String> {
        let mut values = Values::default();
        let mut rest = line;
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) => {
                    rest = rest.strip_prefix(text.as_slice()).ok_or_else(|| self.misfit(index, rest))?;
                }
                Piece::Variable { field, .. } => {
                    let end = match self.pieces.get(index + 1) {
                        None => Some(rest.len()),
                        Some(Piece::Text(next)) => field.end(rest, next),
                        Some(Piece::Variable { .. }) => rest.iter().position(|b| *b == b'/'),
                    };
                    let (value, after) = rest.split_at(end.ok_or_else(|| self.misfit(index + 1, rest))?);
                    let known = &mut values.of[*field as usize];
                    *known = known.or(Some(value));
                    rest = after;
                }
            }
        }
        if rest.is_empty() { Ok(values) } else { Err(format!("`{}` follows its end", excerpt(rest))) }
    }

    /// Says where a line leaves the format.
    fn misfit(&self, index: usize, rest: &[u8]) -> String {
        let after = match index.checked_sub(1).map(|before| &self.pieces[before]) {
            Some(Piece::Variable { name, .. }) => format!("after `${name}`"),
            Some(Piece::Text(_)) | None => "at its beginning".to_string(),
        };
        match self.pieces.get(index) {
            Some(Piece::Text(text)) => {
                format!("`{}` is missing {after}, in `{}`", String::from_utf8_lossy(text), excerpt(rest))
            }
            Some(Piece::Variable { name, .. }) => format!("`${name}` is missing {after}, in `{}`", excerpt(rest)),
            None => format!("it ends {after}"),
        }
    }
}

impl Field {
    fn of(name: &str) -> Self {
        match name {
            "request" => Self::Request,
            "request_method" => Self::Method,
            "request_uri" => Self::RequestUri,
            "uri" | "document_uri" => Self::Uri,
            "args" | "query_string" => Self::Args,
            "host" | "http_host" => Self::Host,
            "time_local" => Self::TimeLocal,
            "time_iso8601" => Self::TimeIso,
            "msec" => Self::Msec,
            "request_time" => Self::RequestTime,
            "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => Self::List,
            _ if name.starts_with("upstream_") => Self::List,
            _ => Self::Other,
        }
    }

    /// Whether its value begins with `/`, so that it can be told from what stands before it.
    fn is_path(self) -> bool {
        matches!(self, Self::RequestUri | Self::Uri)
    }

    /// Where its value ends, when `next` follows it: at the first `next` that is not part of the value.
    fn end(self, rest: &[u8], next: &[u8]) -> Option<usize> {
        let found = (0..rest.len()).filter(|at| rest[*at..].starts_with(next));
        found.into_iter().find(|at| {
            let (value, after) = rest.split_at(*at);
            let backslashes = value.iter().rev().take_while(|b| **b == b'\\').count();
            let is_escaped = next.starts_with(b"\"") && backslashes % 2 == 1;
            let goes_on = self == Self::List
                && next.starts_with(b" ")
                && (value.ends_with(b",") || value.ends_with(b" :") || after.starts_with(b" : "));
            !is_escaped && !goes_on
        })
    }
}

/// Takes a format apart into text and variables: `$name` or `${name}`.
fn pieces(format: &str) -> Vec<Piece> {
    // Together they are the path and the query as nginx understood them.
    let format = format.replace("$uri$is_args$args", "${uri}").replace("$uri$is_args$query_string", "${uri}");
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = format.as_str();
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
        pieces.push(Piece::Variable { name: name.to_string(), field: Field::of(name) });
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text.into_bytes()));
    }
    pieces
}

/// The format that a directive `log_format NAME [escape=...] 'text' "text" ...;` holds.
fn unquoted(directive: &str) -> Result<String, String> {
    let mut words: Vec<String> = Vec::new();
    let mut chars = directive.trim().chars().peekable();
    while let Some(first) = chars.next_if(|c| *c != ';') {
        if first.is_whitespace() {
            continue;
        }
        let mut word = String::new();
        if first == '\'' || first == '"' {
            loop {
                match chars.next() {
                    Some('\\') if chars.peek().is_some_and(|c| matches!(c, '\'' | '"' | '\\')) => {
                        word.extend(chars.next())
                    }
                    Some(c) if c == first => break,
                    Some(c) => word.push(c),
                    None => return Err(format!("the quote `{first}` is not closed")),
                }
            }
        } else {
            word.push(first);
            while let Some(c) = chars.next_if(|c| !c.is_whitespace() && *c != ';') {
                word.push(c);
            }
        }
        words.push(word);
    }
    let parts = words.get(1..).unwrap_or_default();
    let parts = parts.strip_prefix(&["escape=default".to_string()]).unwrap_or(parts);
    let parts = parts.strip_prefix(&["escape=json".to_string()]).unwrap_or(parts);
    let parts = parts.strip_prefix(&["escape=none".to_string()]).unwrap_or(parts);
    if parts.is_empty() {
        return Err("`log_format` needs a name and a format behind it".to_string());
    }
    Ok(parts.concat())
}

/// Undoes what servers do to special characters: `\x22`, `\"`, `\\`, `\n`, `\u0022` (nginx `escape=default` and
/// `json`, Apache).
pub(super) fn unescaped(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'\\') {
        return Cow::Borrowed(value);
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        let (taken, byte) = if *first == b'\\' { escape(after) } else { (0, *first) };
        if taken == 0 || taken == 5 && byte >= 0x80 {
            bytes.push(*first);
            rest = after;
        } else {
            bytes.push(byte);
            rest = &after[taken..];
        }
    }
    Cow::Owned(bytes)
}

/// What a backslash stands for: how many bytes after it belong to it, and the byte; 0: it stands for itself.
fn escape(after: &[u8]) -> (usize, u8) {
    let hexadecimal = |from: usize, count: usize| {
        let digits = after.get(from..from + count)?;
        digits.iter().try_fold(0u32, |sum, b| Some(sum * 16 + char::from(*b).to_digit(16)?))
    };
    match after.first() {
        Some(b'x') => hexadecimal(1, 2).map_or((0, 0), |code| (3, code as u8)),
        // JSON writes only control characters this way; nginx writes others as they are.
        Some(b'u') => hexadecimal(1, 4).and_then(|code| u8::try_from(code).ok()).map_or((0, 0), |byte| (5, byte)),
        Some(b'n') => (1, b'\n'),
        Some(b'r') => (1, b'\r'),
        Some(b't') => (1, b'\t'),
        Some(b'b') => (1, 0x08),
        Some(b'f') => (1, 0x0c),
        Some(b'"' | b'\\' | b'/') => (1, after[0]),
        Some(_) | None => (0, 0),
    }
}

#[cfg(test)]
#[path = "log_format_tests.rs"]
mod tests;
