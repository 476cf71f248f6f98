//! Which values of an access log tell what was asked and when, by the log's format.
//!
//! It reads no values: that is the log's job. Invariant: a line is either taken apart as a whole, or the piece that
//! does not fit is named.

use super::{ImportError, excerpt};
use prony_model::line_format::{Expected, LineFormat, Misfit};
use std::borrow::Cow;

/// What the common log format of Apache and nginx's `combined` begin with; what follows may be anything.
const COMMON: &str = r#"$remote_addr $ident $remote_user [$time_local] "$request" $rest"#;

/// How the lines of a log are made, and what its variables tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    lines: LineFormat,
    /// Of each variable.
    fields: Vec<Field>,
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
        Self::of(COMMON)
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
        let format = Self::of(&format);
        format.check().map_err(ImportError::Format)?;
        Ok(format)
    }

    fn of(format: &str) -> Self {
        // Together they are the path and the query as nginx understood them.
        let format = format.replace("$uri$is_args$args", "${uri}").replace("$uri$is_args$query_string", "${uri}");
        let lines = LineFormat::new(&format);
        let fields = lines.variables().map(Field::of).collect();
        Self { lines, fields }
    }

    /// Whether a line tells when the request was.
    pub(super) fn has_time(&self) -> bool {
        [Field::TimeLocal, Field::TimeIso, Field::Msec].into_iter().any(|field| self.has(field))
    }

    fn has(&self, wanted: Field) -> bool {
        self.fields.contains(&wanted)
    }

    fn check(&self) -> Result<(), String> {
        if ![Field::Request, Field::RequestUri, Field::Uri].into_iter().any(|field| self.has(field)) {
            return Err("no variable tells the path: it needs `$request`, `$request_uri` or `$uri`".to_string());
        }
        match self.lines.inseparable() {
            Some((left, right)) => {
                Err(format!("nothing stands between `${left}` and `${right}`, so nobody can tell them apart"))
            }
            None => Ok(()),
        }
    }

    /// Takes a line apart.
    ///
    /// # Errors
    /// A sentence that names the piece that does not fit.
    pub(super) fn values<'a>(&self, line: &'a [u8]) -> Result<Values<'a>, String> {
        let mut values = Values::default();
        let written = self.lines.values(line).map_err(|misfit| sentence(&misfit, line))?;
        for (field, value) in self.fields.iter().zip(written) {
            let known = &mut values.of[*field as usize];
            *known = known.or(Some(value));
        }
        Ok(values)
    }
}

/// Says where a line leaves the format.
fn sentence(misfit: &Misfit<'_>, line: &[u8]) -> String {
    let rest = excerpt(&line[misfit.at..]);
    let after = misfit.after.map_or("at its beginning".to_string(), |name| format!("after `${name}`"));
    match misfit.expected {
        Expected::Text(text) => format!("`{}` is missing {after}, in `{rest}`", String::from_utf8_lossy(text)),
        Expected::Variable(name) => format!("`${name}` is missing {after}, in `{rest}`"),
        Expected::End => format!("`{rest}` follows its end"),
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
            _ => Self::Other,
        }
    }
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
