//! An access log as a mix or a replay of what was asked for.
//!
//! It takes method, path and host of each line; a log holds no bodies and no cookies. Invariant: memory is bounded
//! however long the log and its lines are, and every line is taken over, left out or counted as bad.

use super::log_format::{Field, LogFormat, Values, unescaped};
use super::mix::{Asked, Mix};
use super::replay::{REQUESTS_MAX, Recorded, Replay};
use super::{Form, Import, ImportError, counted, encoded, excerpt, moment};
use std::borrow::Cow;
use std::io::{self, BufRead};

/// Most different requests that a mix keeps. A guess: more than any cache of files in a server forgets.
const MIX_REQUESTS_MAX: usize = 10_000;
/// Longest line: twice the 8 KiB that nginx (`large_client_header_buffers`) and Apache (`LimitRequestLine`) take as a
/// request line. What is longer is a bad line.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Longest time that a request can have taken: a week. A guess: longer than any server waits.
const TOOK_NS_MAX: i64 = 7 * 86_400 * 1_000_000_000;

/// Takes over an access log, line by line. Its paths are literal; its hosts, where the format tells them, become
/// `Host` headers.
///
/// # Errors
/// [`ImportError::Log`] when no line could be read, or a replay wants times that the format does not tell;
/// [`ImportError::File`] when the log cannot be read to its end; [`ImportError::Speed`].
pub fn from_log(lines: &mut dyn BufRead, format: &LogFormat, form: Form) -> Result<Import, ImportError> {
    if form != Form::Mix && !format.has_time() {
        let why = "a replay needs a time: its format has none of `$msec`, `$time_local` and `$time_iso8601`";
        return Err(ImportError::Log(why.to_string()));
    }
    let mut reading = Reading::new(format, form);
    let mut line = Vec::with_capacity(LINE_BYTES_MAX + 1);
    while next_line(lines, &mut line).map_err(|source| ImportError::File { path: "the access log".into(), source })? {
        reading.line(&line);
    }
    reading.import()
}

/// The next line without its end, cut behind [`LINE_BYTES_MAX`]; false when there is none.
fn next_line(lines: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut is_begun = false;
    loop {
        let there = match lines.fill_buf() {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if there.is_empty() {
            return Ok(is_begun);
        }
        is_begun = true;
        let end = there.iter().position(|b| *b == b'\n');
        let part = &there[..end.unwrap_or(there.len())];
        let room = LINE_BYTES_MAX + 1 - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let taken = part.len() + usize::from(end.is_some());
        lines.consume(taken);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// What has been read of a log.
struct Reading<'a> {
    format: &'a LogFormat,
    form: Form,
    mix: Mix,
    replay: Replay,
    /// Lines so far, empty ones too.
    lines: u64,
    taken: u64,
    bad: u64,
    /// Number and fault of the first bad line.
    first_bad: Option<(u64, String)>,
    without_path: u64,
    without_body: u64,
}

impl<'a> Reading<'a> {
    fn new(format: &'a LogFormat, form: Form) -> Self {
        Self {
            format,
            form,
            mix: Mix::default(),
            replay: Replay::default(),
            lines: 0,
            taken: 0,
            bad: 0,
            first_bad: None,
            without_path: 0,
            without_body: 0,
        }
    }

    fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return;
        }
        if let Err(why) = self.take(line) {
            self.bad += 1;
            let number = self.lines;
            self.first_bad.get_or_insert_with(|| {
                let shown = format!("`{}`", excerpt(line));
                // A line that is wrong from its first byte on is shown already.
                let why = if why.ends_with(&shown) { why } else { format!("{why}: {shown}") };
                (number, why)
            });
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("it is longer than {} KiB", LINE_BYTES_MAX >> 10));
        }
        let values = self.format.values(line)?;
        let (method, path) = request(&values)?;
        if method == "CONNECT" || path == "*" {
            self.without_path += 1;
            return Ok(());
        }
        let host = values.get(Field::Host).map(|host| String::from_utf8_lossy(&unescaped(host)).into_owned());
        let headers = host.filter(|host| is_host(host)).map(|host| ("Host".to_string(), host)).into_iter().collect();
        let asked = Asked { method: Asked::method(&method), path, headers, body: None };
        match self.form {
            Form::Mix => self.mix.count(asked),
            Form::Replay { .. } => self.replay.push(recorded(&values)?, asked),
        }
        self.taken += 1;
        self.without_body += u64::from(matches!(method.as_str(), "POST" | "PUT" | "PATCH"));
        Ok(())
    }

    fn import(self) -> Result<Import, ImportError> {
        let mut import = Import::new();
        let bad = self.first_bad.map(|(number, why)| {
            format!("{} of {} lines: not of this format; the first is line {number}: {why}", self.bad, self.lines)
        });
        import.skipped.extend(bad);
        if self.taken == 0 {
            let why = import.skipped.pop().unwrap_or_else(|| "it holds no request".to_string());
            return Err(ImportError::Log(format!(
                "{why}; is its format another one (see `log_format` in nginx.conf)?"
            )));
        }
        if self.without_path > 0 {
            let lines = counted(self.without_path, "line", "lines");
            import.skipped.push(format!("{lines}: `CONNECT` and `*` name no path"));
        }
        if self.without_body > 0 {
            let bodies = counted(self.without_body, "body", "bodies");
            import.skipped.push(format!("{bodies} of POST, PUT or PATCH: not in a log; the request is sent without"));
        }
        match self.form {
            Form::Mix => {
                let frequent = self.mix.frequent(MIX_REQUESTS_MAX);
                if frequent.left_out > 0 {
                    let share = 100.0 * frequent.left_out as f64 / self.taken as f64;
                    let least = if frequent.forgotten { "; counts of rare ones may be too low" } else { "" };
                    import.skipped.push(format!(
                        "{} ({share:.2} %): not among the {MIX_REQUESTS_MAX} most frequent{least}",
                        counted(frequent.left_out, "request", "requests")
                    ));
                }
                import.take(frequent.requests);
            }
            Form::Replay { speed } => {
                if self.replay.left_out() > 0 {
                    let requests = counted(self.replay.left_out(), "request", "requests");
                    import
                        .skipped
                        .push(format!("{requests} at its end: a replay holds at most {REQUESTS_MAX}, in 512 MiB"));
                }
                if self.replay.has_whole_seconds() {
                    let why = "the log tells whole seconds: requests of one second are spread evenly over it";
                    import.skipped.push(format!("times within a second: {why}"));
                }
                let (requests, times) = self.replay.finish(speed)?;
                import.take(requests);
                import.times = Some(times);
            }
        }
        Ok(import)
    }
}

/// Method and path of a line; the path may be `*`.
fn request(values: &Values<'_>) -> Result<(String, String), String> {
    let line = values.get(Field::Request).map(unescaped);
    let (mut method, mut path) = (Cow::Borrowed(&b"GET"[..]), None);
    if let Some(line) = &line {
        let (first, target) = request_line(line).ok_or("no request line is in it")?;
        method = Cow::Borrowed(first);
        path = Some(Cow::Borrowed(target));
    }
    if let Some(name) = values.get(Field::Method) {
        method = unescaped(name);
    }
    if let Some(uri) = values.get(Field::RequestUri) {
        path = Some(unescaped(uri));
    }
    if let (None, Some(uri)) = (&path, values.get(Field::Uri)) {
        let mut uri = unescaped(uri).into_owned();
        if let Some(args) = values.get(Field::Args).filter(|_| !uri.contains(&b'?')) {
            uri.push(b'?');
            uri.extend_from_slice(&unescaped(args));
        }
        path = Some(Cow::Owned(uri));
    }
    let path = path.ok_or("no request is in it")?;
    let is_method = !method.is_empty() && method.iter().all(|b| b.is_ascii_alphabetic() || b"-_".contains(b));
    if !is_method {
        return Err("its method is not a word".to_string());
    }
    let method = String::from_utf8_lossy(&method).into_owned();
    let path = without_origin(&path);
    if method != "CONNECT" && path != b"*" && !path.starts_with(b"/") {
        return Err("its path does not begin with `/`".to_string());
    }
    Ok((method, encoded(path)))
}

/// `GET /path HTTP/1.1`; a path may hold spaces, and HTTP/0.9 has no version.
fn request_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (method, rest) = split_at_byte(line, line.iter().position(|b| *b == b' ')?);
    match rest.iter().rposition(|b| *b == b' ').map(|at| split_at_byte(rest, at)) {
        Some((target, version)) if version.starts_with(b"HTTP/") => Some((method, target)),
        Some(_) | None => Some((method, rest)),
    }
}

/// What is before and after the byte at `at`.
fn split_at_byte(bytes: &[u8], at: usize) -> (&[u8], &[u8]) {
    (&bytes[..at], &bytes[at + 1..])
}

/// A request to a proxy names its origin too: `http://host/path`.
fn without_origin(path: &[u8]) -> &[u8] {
    let after = [&b"http://"[..], b"https://"].iter().find_map(|scheme| path.strip_prefix(*scheme));
    match after {
        Some(after) => after.iter().position(|b| *b == b'/').map_or(b"/", |at| &after[at..]),
        None => path,
    }
}

/// Whether it is a name or an address, with or without port, and nothing that would break a header.
fn is_host(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b))
}

/// When a line's request began; the finest time counts.
fn recorded(values: &Values<'_>) -> Result<Recorded, String> {
    let took_ns = values.get(Field::RequestTime).and_then(moment::seconds).unwrap_or(0).min(TOOK_NS_MAX);
    let exact = values.get(Field::Msec).and_then(moment::seconds).map(|at_ns| (at_ns, false));
    let whole = || values.get(Field::TimeIso).and_then(moment::iso8601).map(|at_ns| (at_ns, true));
    let local = || values.get(Field::TimeLocal).and_then(moment::time_local).map(|at_ns| (at_ns, true));
    let (at_ns, whole_second) = exact.or_else(whole).or_else(local).ok_or("its time cannot be read")?;
    Ok(Recorded { at_ns, whole_second, took_ns })
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
