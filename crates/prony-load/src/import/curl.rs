//! A curl command as a workload of one request: what curl would send, but for its own `User-Agent` and `Accept: */*`.
//!
//! It runs no curl. Invariant: a flag that would change the request is taken over or is an error, never dropped in
//! silence.

use super::curl_endpoints::Elsewhere;
use super::curl_flags::{self, Data, Meaning, TlsFile};
use super::{Import, ImportError, can_be_sent, encoded, escape_template, excerpt, is_of_connection, words};
use crate::target::check_url;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_model::tls::TlsPlan;
use prony_model::{Nanos, Protocol};
use std::io;

/// What `--compressed` asks for: everything that curl 7.88 knows when it was built with all of them.
const ENCODINGS: &str = "deflate, gzip, br, zstd";
/// Longest time that `-m` may say: the largest 32 bit number of seconds. Longer ones mean "no limit" just as well.
const MAX_TIME_S: f64 = 4_294_967_295.0;

/// Takes over a curl command: as a person types it, or as a browser's "Copy as cURL (bash)" writes it. `read_file`
/// reads what the command names as `@FILE`, and its certificates.
///
/// # Errors
/// [`ImportError::Curl`] for what is no curl command, names a flag that is not known or cannot be taken over;
/// [`ImportError::File`] for a file that cannot be read.
pub fn from_curl(command: &str, read_file: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> Result<Import, ImportError> {
    if command.trim_start().strip_prefix("curl").is_some_and(|rest| rest.trim_start().starts_with('^')) {
        return wrong("this is the form for Windows: choose \"Copy as cURL (bash)\" in the browser");
    }
    let words = words::split(command).map_err(ImportError::Curl)?;
    let mut asked = Command::new(read_file);
    asked.read(arguments(&words)?)?;
    asked.import()
}

type Result<T, E = ImportError> = std::result::Result<T, E>;

fn wrong<T>(why: impl Into<String>) -> Result<T> {
    Err(ImportError::Curl(why.into()))
}

/// What follows `curl`. A prompt that was copied too is passed over.
fn arguments(words: &[Vec<u8>]) -> Result<&[Vec<u8>]> {
    let words = words.strip_prefix(&[b"$".to_vec()][..]).unwrap_or(words);
    let Some((program, arguments)) = words.split_first() else { return wrong("it is empty: write it as `curl URL`") };
    if program.rsplit(|b| *b == b'/').next() != Some(b"curl") {
        let seen = excerpt(program);
        return wrong(format!("it begins with `{seen}` and not with `curl`: write it as `curl URL`, in quotes"));
    }
    Ok(arguments)
}

fn text(flag: &str, value: &[u8]) -> Result<String> {
    match String::from_utf8(value.to_vec()) {
        Ok(text) => Ok(text),
        Err(_) => wrong(format!("the value of `{flag}` is not UTF-8: `{}`", excerpt(value))),
    }
}

/// What a command says, flag by flag.
struct Command<'a> {
    read_file: &'a dyn Fn(&str) -> io::Result<Vec<u8>>,
    url: Option<Vec<u8>>,
    glob_off: bool,
    method: Option<String>,
    head: bool,
    get: bool,
    /// As given; `Name:` takes a header away.
    headers: Vec<(String, Option<String>)>,
    /// Headers that flags stand for. One given with `-H` wins.
    implied: Vec<(&'static str, String)>,
    cookies: Vec<String>,
    body: Option<Vec<u8>>,
    json: bool,
    query: Vec<Vec<u8>>,
    connect_to: Vec<String>,
    resolve: Vec<String>,
    unix_socket: Option<String>,
    protocol: Option<Protocol>,
    timeout: Option<Nanos>,
    tls: TlsPlan,
    harmless: Vec<String>,
    skipped: Vec<String>,
}

impl<'a> Command<'a> {
    fn new(read_file: &'a dyn Fn(&str) -> io::Result<Vec<u8>>) -> Self {
        Self {
            read_file,
            url: None,
            glob_off: false,
            method: None,
            head: false,
            get: false,
            headers: Vec::new(),
            implied: Vec::new(),
            cookies: Vec::new(),
            body: None,
            json: false,
            query: Vec::new(),
            connect_to: Vec::new(),
            resolve: Vec::new(),
            unix_socket: None,
            protocol: None,
            timeout: None,
            tls: TlsPlan::default(),
            harmless: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn read(&mut self, words: &[Vec<u8>]) -> Result<()> {
        let mut words = words.iter();
        let mut only_urls = false;
        while let Some(word) = words.next() {
            match word.as_slice() {
                b"--" if !only_urls => only_urls = true,
                [b'-', b'-', name @ ..] if !only_urls => {
                    let flag = curl_flags::long(&String::from_utf8_lossy(name)).map_err(ImportError::Curl)?;
                    let seen = format!("--{}", flag.long);
                    let value = if flag.takes_value { value_after(&seen, words.next())? } else { b"" };
                    self.apply(&seen, flag.meaning, value)?;
                }
                [b'-', letters @ ..] if !only_urls && !letters.is_empty() => self.read_short(letters, &mut words)?,
                url => self.set_url(url)?,
            }
        }
        Ok(())
    }

    /// `-sSk`, `-XPOST`, `-X POST`: the first letter that takes a value takes the rest of the word, or the next one.
    fn read_short(&mut self, letters: &[u8], words: &mut std::slice::Iter<'_, Vec<u8>>) -> Result<()> {
        let mut rest = letters;
        while let Some((letter, after)) = rest.split_first() {
            let flag = curl_flags::short(*letter).map_err(ImportError::Curl)?;
            let seen = format!("-{}", char::from(*letter));
            if !flag.takes_value {
                self.apply(&seen, flag.meaning, b"")?;
                rest = after;
                continue;
            }
            let value = if after.is_empty() { value_after(&seen, words.next())? } else { after };
            return self.apply(&seen, flag.meaning, value);
        }
        Ok(())
    }

    fn apply(&mut self, seen: &str, meaning: Meaning, value: &[u8]) -> Result<()> {
        match meaning {
            Meaning::Url => self.set_url(value)?,
            Meaning::UrlQuery => {
                let part = match value.strip_prefix(b"+") {
                    Some(raw) => raw.to_vec(),
                    None => self.urlencoded(seen, value)?,
                };
                self.query.push(part);
            }
            Meaning::Method => self.method = Some(text(seen, value)?),
            Meaning::Head => self.head = true,
            Meaning::Get => self.get = true,
            Meaning::Header => self.header(seen, value)?,
            Meaning::Data(kind) => self.data(seen, kind, value)?,
            Meaning::User => self.user(text(seen, value)?)?,
            Meaning::Bearer => self.imply("Authorization", format!("Bearer {}", text(seen, value)?)),
            Meaning::Agent => self.imply("User-Agent", text(seen, value)?),
            Meaning::Referer => {
                let referer = text(seen, value)?;
                self.imply("Referer", referer.strip_suffix(";auto").unwrap_or(&referer).to_string());
            }
            Meaning::Cookie => self.cookie(text(seen, value)?)?,
            Meaning::Range => self.imply("Range", format!("bytes={}", text(seen, value)?)),
            Meaning::Compressed => self.imply("Accept-Encoding", ENCODINGS.to_string()),
            Meaning::GlobOff => self.glob_off = true,
            Meaning::Insecure => self.tls.insecure = true,
            Meaning::Http1 => self.protocol = Some(Protocol::Http1),
            Meaning::Http2 | Meaning::Http2PriorKnowledge => self.protocol = Some(Protocol::Http2),
            Meaning::MaxTime => self.timeout = max_time(seen, &text(seen, value)?)?,
            Meaning::ConnectTo => self.connect_to.push(text(seen, value)?),
            Meaning::Resolve => self.resolve.push(text(seen, value)?),
            Meaning::UnixSocket => self.unix_socket = Some(text(seen, value)?),
            Meaning::Tls(kind) => self.tls_file(seen, kind, value)?,
            Meaning::Harmless => self.harmless.push(seen.to_string()),
            Meaning::LeftOut(why) => self.skipped.push(format!("`{seen}`: {why}")),
            Meaning::Refused(why) => return wrong(format!("`{seen}`: {why}")),
        }
        Ok(())
    }

    fn set_url(&mut self, url: &[u8]) -> Result<()> {
        match self.url.replace(url.to_vec()) {
            None => Ok(()),
            Some(first) => wrong(format!(
                "it has two URLs, `{}` and `{}`: take over one at a time (or is a quote missing?)",
                excerpt(&first),
                excerpt(url)
            )),
        }
    }

    /// The last flag that stands for a header counts.
    fn imply(&mut self, name: &'static str, value: String) {
        self.implied.retain(|(n, _)| *n != name);
        self.implied.push((name, value));
    }

    fn header(&mut self, seen: &str, value: &[u8]) -> Result<()> {
        let lines = match value.strip_prefix(b"@") {
            Some(path) => text(seen, &self.file(seen, path)?)?,
            None => text(seen, value)?,
        };
        // What would end its line, or the text, is no part of a header.
        let sane = |line: &str| !line.contains(['\r', '\0']) && !line.starts_with([':', ';']);
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            if !sane(line) {
                self.skipped.push(format!("`{seen} {}`: it is no header", excerpt(line.as_bytes())));
                continue;
            }
            match (line.split_once(':'), line.split_once(';')) {
                (Some((name, value)), _) if !value.trim().is_empty() => {
                    self.headers.push((name.to_string(), Some(value.trim().to_string())));
                }
                (Some((name, _)), _) if !name.is_empty() => self.headers.push((name.to_string(), None)),
                (None, Some((name, ""))) => self.headers.push((name.to_string(), Some(String::new()))),
                _ => self.skipped.push(format!("`{seen} {}`: it is no header", excerpt(line.as_bytes()))),
            }
        }
        Ok(())
    }

    fn user(&mut self, user: String) -> Result<()> {
        if !user.contains(':') {
            return wrong(format!("`-u {user}`: curl would ask for the password: write `-u {user}:PASSWORD`"));
        }
        self.imply("Authorization", format!("Basic {}", BASE64.encode(user)));
        Ok(())
    }

    fn cookie(&mut self, cookie: String) -> Result<()> {
        if cookie.contains('=') && !cookie.starts_with('@') {
            self.cookies.push(cookie.trim_end_matches([';', ' ']).to_string());
        } else if !cookie.is_empty() {
            return wrong(format!("`-b {cookie}`: files of cookies are not read: write `-b 'name=value; name=value'`"));
        }
        Ok(())
    }

    fn data(&mut self, seen: &str, kind: Data, value: &[u8]) -> Result<()> {
        let is_file = value.starts_with(b"@");
        let part = match kind {
            Data::Text if is_file => {
                let mut part = self.file_or_text(seen, value)?;
                part.retain(|b| !matches!(b, b'\r' | b'\n' | 0));
                part
            }
            Data::Text | Data::Raw => value.to_vec(),
            Data::Binary | Data::Json => self.file_or_text(seen, value)?,
            Data::Urlencoded => self.urlencoded(seen, value)?,
        };
        let body = self.body.get_or_insert_default();
        if kind == Data::Json {
            self.json = true;
        } else if !body.is_empty() {
            body.push(b'&');
        }
        body.extend(part);
        Ok(())
    }

    fn tls_file(&mut self, seen: &str, kind: TlsFile, path: &[u8]) -> Result<()> {
        let pem = text(seen, &self.file(seen, path)?)?;
        if !pem.contains("-----BEGIN ") {
            return wrong(format!("`{seen} {}`: it is no PEM file: convert it with `openssl`", excerpt(path)));
        }
        match kind {
            TlsFile::Authority => self.tls.ca_pem = Some(pem),
            TlsFile::Key => self.tls.key_pem = Some(pem),
            TlsFile::Certificate => {
                // One file may hold both, as in curl; `--key` names another.
                if pem.contains("PRIVATE KEY") && self.tls.key_pem.is_none() {
                    self.tls.key_pem = Some(pem.clone());
                }
                self.tls.certificate_pem = Some(pem);
            }
        }
        Ok(())
    }

    fn file_or_text(&self, seen: &str, value: &[u8]) -> Result<Vec<u8>> {
        value.strip_prefix(b"@").map_or_else(|| Ok(value.to_vec()), |path| self.file(seen, path))
    }

    /// `content`, `=content`, `name=content`, `@file`, `name@file`: only the content is written with %XX.
    fn urlencoded(&self, seen: &str, value: &[u8]) -> Result<Vec<u8>> {
        let (name, content) = match value.iter().position(|b| matches!(b, b'=' | b'@')) {
            None => (&b""[..], value.to_vec()),
            Some(at) if value[at] == b'@' => (&value[..at], self.file(seen, &value[at + 1..])?),
            Some(at) => (&value[..at], value[at + 1..].to_vec()),
        };
        let mut part = name.to_vec();
        if !name.is_empty() {
            part.push(b'=');
        }
        for byte in content {
            match byte {
                b' ' => part.push(b'+'),
                _ if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => part.push(byte),
                _ => part.extend(format!("%{byte:02X}").bytes()),
            }
        }
        Ok(part)
    }

    fn file(&self, seen: &str, path: &[u8]) -> Result<Vec<u8>> {
        let path = text(seen, path)?;
        if path == "-" || path.is_empty() {
            return wrong(format!("`{seen} @{path}`: standard input is not read: write the content into a file"));
        }
        (self.read_file)(&path).map_err(|source| ImportError::File { path, source })
    }

    /// Puts together what the flags said.
    fn import(mut self) -> Result<Import> {
        let Some(url) = self.url.take() else { return wrong("it has no URL: write it as `curl URL`, in quotes") };
        let mut url = self.whole_url(&url)?;
        let data = self.body.take();
        let body = match data {
            Some(data) if self.get => {
                append_query(&mut url, &data);
                None
            }
            data => data,
        };
        for part in std::mem::take(&mut self.query) {
            append_query(&mut url, &part);
        }
        let target = check_url(&url).map_err(|error| ImportError::Curl(error.to_string()))?;
        if self.head && body.is_some() {
            return wrong(
                "`-I` and data exclude each other: add `-G` to put the data into the query, or leave one out",
            );
        }
        let usual = match (self.head, body.is_some()) {
            (true, _) => "HEAD",
            (false, true) => "POST",
            (false, false) => "GET",
        };
        let headers = self.all_headers(&target.authority, body.is_some())?;
        let connect_to = match &self.unix_socket {
            Some(path) => vec![format!("unix:{path}")],
            None => {
                let asked = Elsewhere { connect_to: &self.connect_to, resolve: &self.resolve };
                asked.endpoints(&target.host, target.port, &mut self.skipped).map_err(ImportError::Curl)?
            }
        };
        if self.protocol == Some(Protocol::Http2) && !target.secure {
            self.skipped.push("HTTP/2 in plain text is spoken from the first byte, without an upgrade".to_string());
        }
        if !self.harmless.is_empty() {
            let flags = self.harmless.join("`, `");
            self.skipped.push(format!("`{flags}`: only curl itself does something with that"));
        }
        Ok(Import {
            url: Some(escape_template(&url)),
            method: self.method.unwrap_or_else(|| usual.to_string()),
            headers,
            body: body.unwrap_or_default(),
            protocol: self.protocol,
            tls: self.tls,
            connect_to,
            timeout: self.timeout,
            skipped: self.skipped,
            ..Import::new()
        })
    }

    /// With a scheme, without user and fragment, and with what no URL holds written as %XX.
    fn whole_url(&mut self, url: &[u8]) -> Result<String> {
        let url = encoded(url);
        let is_scheme = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric());
        let (scheme, rest) = url.split_once("://").filter(|(s, _)| is_scheme(s)).unwrap_or(("http", &url));
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return wrong(format!("`{}`: only `http://` and `https://` are spoken", excerpt(url.as_bytes())));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let braces = |text: &str| text.contains(['{', '[']);
        if !self.glob_off && (braces(path) || (braces(host) && !host.starts_with('['))) {
            return wrong(
                "curl makes several URLs of `{` and `[`: write one URL, or add `-g` when they are part of it",
            );
        }
        if let Some(user) = user.filter(|_| !self.implied.iter().any(|(name, _)| *name == "Authorization")) {
            let with_password = if user.contains(':') { user.to_string() } else { format!("{user}:") };
            self.imply("Authorization", format!("Basic {}", BASE64.encode(decoded(&with_password))));
        }
        Ok(format!("{scheme}://{host}{path}"))
    }

    /// Headers given, and those that flags stand for where none of that name is given or taken away.
    fn all_headers(&mut self, authority: &str, has_body: bool) -> Result<Vec<(String, String)>> {
        let is = |name: &str, other: &str| name.eq_ignore_ascii_case(other);
        if self.headers.iter().any(|(name, value)| is(name, "upgrade") && value.is_some()) {
            return wrong(
                "`-H 'Upgrade: ...'` asks for another protocol than HTTP, such as WebSocket: it is not spoken",
            );
        }
        let mut implied = std::mem::take(&mut self.implied);
        if !self.cookies.is_empty() {
            implied.push(("Cookie", self.cookies.join(";")));
        }
        if self.json {
            implied
                .extend([("Content-Type", "application/json".to_string()), ("Accept", "application/json".to_string())]);
        } else if has_body {
            implied.push(("Content-Type", "application/x-www-form-urlencoded".to_string()));
        }
        implied.retain(|(name, value)| !value.is_empty() && !self.headers.iter().any(|(given, _)| is(given, name)));
        if let Some((name, value)) = implied.iter().find(|(name, value)| !can_be_sent(name, value)) {
            return wrong(format!(
                "`{name}: {}` holds a line end, which would end the header",
                excerpt(value.as_bytes())
            ));
        }
        let of_connection = |name: &str, value: &str| {
            is_of_connection(name)
                || (is(name, "host") && value == authority)
                || is_old_pseudo_header(name, value, authority)
        };
        let (mut headers, mut dropped) = (Vec::new(), Vec::new());
        for (name, value) in std::mem::take(&mut self.headers) {
            match value {
                Some(value) if of_connection(&name, &value) => dropped.push(name),
                Some(value) => headers.push((name, value)),
                None if is(&name, "host") => dropped.push(name),
                None => {}
            }
        }
        if !dropped.is_empty() {
            let names = dropped.join("`, `");
            self.skipped.push(format!("header `{names}`: made anew for each connection"));
        }
        headers.extend(implied.into_iter().map(|(name, value)| (name.to_string(), value)));
        Ok(headers)
    }
}

fn value_after<'w>(seen: &str, word: Option<&'w Vec<u8>>) -> Result<&'w [u8]> {
    word.map(Vec::as_slice)
        .ok_or_else(|| ImportError::Curl(format!("`{seen}` needs a value, and the command ends there")))
}

fn max_time(seen: &str, value: &str) -> Result<Option<Nanos>> {
    match value.parse::<f64>() {
        Ok(seconds) if (0.0..=MAX_TIME_S).contains(&seconds) => {
            Ok(Some(Nanos::from_secs_f64(seconds)).filter(|time| time.0 > 0)) // 0: no limit
        }
        _ => wrong(format!("`{seen} {value}` is not a number of seconds")),
    }
}

/// Chrome up to 110 wrote HTTP/2's own `:authority` as `authority`, and so on.
fn is_old_pseudo_header(name: &str, value: &str, authority: &str) -> bool {
    match name {
        "authority" => value == authority,
        "scheme" => matches!(value, "http" | "https"),
        "path" => value.starts_with('/'),
        "method" => value.bytes().all(|b| b.is_ascii_uppercase()),
        _ => false,
    }
}

fn append_query(url: &mut String, part: &[u8]) {
    let mark = match url.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    if !part.is_empty() {
        url.push_str(mark);
        url.push_str(&encoded(part).replace('#', "%23"));
    }
}

/// Undoes %XX.
fn decoded(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
#[path = "curl_tests.rs"]
mod tests;
