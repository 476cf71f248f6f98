//! Turns what people already have into a workload: a curl command, a HAR file, an access log. Text in, an [`Import`]
//! out.
//!
//! It opens no file and no connection: what a text refers to is read by the caller's reader. Imported text is literal:
//! where a plan would take `${...}` for a template, it is escaped. Invariant: no text panics, memory is bounded by the
//! text and by constants, and what is not taken over is named in [`Import::skipped`].

mod curl;
mod curl_endpoints;
mod curl_flags;
mod har;
mod log;
mod log_format;
mod mix;
mod moment;
mod replay;
mod words;

pub use curl::from_curl;
pub use har::from_har;
pub use log::from_log;
pub use log_format::LogFormat;

use crate::request::is_token;
use prony_model::profile::Profile;
use prony_model::tls::TlsPlan;
use prony_model::{LoadPlan, Nanos, Protocol, RequestSpec};

/// What a text says of a workload. Requests that name no method mean GET, unless [`Import::method`] says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// Where to, `http[s]://HOST[:PORT]/PATH`, with [`escape_template`] as a plan needs it; none: the text does not
    /// say, as an access log.
    pub url: Option<String>,
    /// The requests; empty: only the URL's own path. In a replay request i belongs to time i.
    pub requests: Vec<RequestSpec>,
    /// Method of requests that name none.
    pub method: String,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Body of requests that have none of their own.
    pub body: Vec<u8>,
    /// What is spoken; none: the text does not say.
    pub protocol: Option<Protocol>,
    /// Certificates and keys that a curl command names, and its `-k`.
    pub tls: TlsPlan,
    /// Connect there instead of to the URL's host; as [`LoadPlan::connect_to`].
    pub connect_to: Vec<String>,
    /// Give up on a response after this time; none: the text does not say.
    pub timeout: Option<Nanos>,
    /// In a replay: when each request begins, from 0, in order.
    pub times: Option<Vec<Nanos>>,
    /// What was left out or changed, and why: a sentence each.
    pub skipped: Vec<String>,
}

/// What a recording becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Form {
    /// Requests by how often they are in it, at any rate.
    #[default]
    Mix,
    /// Each request at its own time.
    Replay {
        /// 2 is twice as fast as recorded.
        speed: f64,
    },
}

/// Why a text cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A curl command.
    #[error("the curl command cannot be taken over: {0}")]
    Curl(String),
    /// A HAR file.
    #[error("the HAR file cannot be taken over: {0}")]
    Har(String),
    /// A log's format.
    #[error("the log format cannot be used: {0}")]
    Format(String),
    /// An access log.
    #[error("the access log cannot be taken over: {0}")]
    Log(String),
    /// The speed of a replay.
    #[error("a replay at speed {0} has no end: write more than 0, like 2 for twice as fast as recorded")]
    Speed(f64),
    /// Something could not be read.
    #[error("{path} cannot be read ({source}): check the path, relative to the folder that you are in")]
    File {
        /// What was to be read.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Import {
    fn new() -> Self {
        Self {
            url: None,
            requests: Vec::new(),
            method: "GET".to_string(),
            headers: Vec::new(),
            body: Vec::new(),
            protocol: None,
            tls: TlsPlan::default(),
            connect_to: Vec::new(),
            timeout: None,
            times: None,
            skipped: Vec::new(),
        }
    }

    /// Puts everything but the URL into a plan, so that no `${...}` becomes a template. Headers that the plan has
    /// already win over imported ones of the same name.
    pub fn apply(self, plan: &mut LoadPlan) {
        let own = std::mem::take(&mut plan.headers);
        let is_new = |name: &str| !own.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let imported = self.headers.into_iter().filter(|(name, _)| is_new(name));
        plan.headers = imported.map(|(name, value)| (name, literal(value))).collect();
        plan.headers.extend(own);
        plan.method = self.method;
        // Bytes that are no text are never a template.
        plan.body =
            String::from_utf8(self.body).map_or_else(|error| error.into_bytes(), |text| literal(text).into_bytes());
        plan.requests = self.requests;
        for request in &mut plan.requests {
            request.path = literal(std::mem::take(&mut request.path));
            request.body = request.body.take().map(literal);
            request.headers.values_mut().for_each(|value| *value = literal(std::mem::take(value)));
        }
        plan.protocol = self.protocol.unwrap_or(plan.protocol);
        plan.timeout = self.timeout.unwrap_or(plan.timeout);
        plan.connect_to = self.connect_to;
        plan.tls = self.tls;
        if let Some(times) = self.times {
            plan.rate = None;
            plan.profile = Some(Profile::Times(times));
        }
    }

    /// Takes mix or replay over, with what all requests share told once.
    fn take(&mut self, mut requests: Vec<RequestSpec>) {
        self.headers = shared_headers(&mut requests);
        self.requests = requests;
    }
}

/// Text that a template gives back as it is: `${` becomes `$${`.
pub fn escape_template(text: &str) -> String {
    text.replace("${", "$${")
}

/// The same, without a copy where there is nothing to escape.
fn literal(text: String) -> String {
    if text.contains("${") { escape_template(&text) } else { text }
}

/// Moves the headers that every request has, with the same value, out of the requests.
fn shared_headers(requests: &mut [RequestSpec]) -> Vec<(String, String)> {
    let Some((first, rest)) = requests.split_first() else { return Vec::new() };
    let in_all = |(name, value): &(&String, &String)| rest.iter().all(|r| r.headers.get(*name) == Some(*value));
    let shared: Vec<(String, String)> =
        first.headers.iter().filter(in_all).map(|(name, value)| (name.clone(), value.clone())).collect();
    for request in requests {
        request.headers.retain(|name, _| !shared.iter().any(|(n, _)| n == name));
    }
    shared
}

/// Whether a header can be sent as it is. One that holds a line end would end there, and begin another.
fn can_be_sent(name: &str, value: &str) -> bool {
    is_token(name) && !value.contains(['\r', '\n', '\0'])
}

/// Whether a header belongs to one connection or is made by the protocol, so that a recorded one must not be sent again
/// (RFC 9110, 7.6.1; names with `:` are HTTP/2's own).
fn is_of_connection(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    name.starts_with(':') || NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Writes bytes that cannot stand in a request line as %XX.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// `1 line`, `2 lines`.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The beginning of what was seen, for a message: at most 80 characters.
fn excerpt(seen: &[u8]) -> String {
    let text = String::from_utf8_lossy(&seen[..seen.len().min(400)]);
    let plain = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let mut short: String = text.chars().take(80).map(plain).collect();
    if text.chars().nth(80).is_some() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(headers: &[(&str, &str)]) -> RequestSpec {
        let headers = headers.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        RequestSpec { path: "/".to_string(), weight: 1.0, method: None, headers, body: None }
    }

    #[test]
    fn what_all_requests_share_is_told_once() {
        let mut requests = [spec(&[("a", "1"), ("b", "1")]), spec(&[("a", "1"), ("b", "2")])];
        assert_eq!(shared_headers(&mut requests), [("a".to_string(), "1".to_string())]);
        assert_eq!(requests, [spec(&[("b", "1")]), spec(&[("b", "2")])]);
        assert_eq!(shared_headers(&mut []), []);
    }

    #[test]
    fn a_plans_own_headers_win() {
        let mut plan = LoadPlan::to("http://s1/");
        plan.headers = vec![("x".into(), "mine".into())];
        let headers = vec![("X".to_string(), "imported".to_string()), ("y".to_string(), "1".to_string())];
        let times = Some(vec![Nanos(0), Nanos(5)]);
        Import { headers, times: times.clone(), method: "PUT".to_string(), ..Import::new() }.apply(&mut plan);
        assert_eq!(plan.headers, [("y".into(), "1".into()), ("x".into(), "mine".into())]);
        assert_eq!((plan.method.as_str(), plan.profile), ("PUT", times.map(Profile::Times)));
    }

    #[test]
    fn nothing_imported_is_a_template() {
        let with = |text: &str, bytes: &[u8]| Import {
            requests: vec![RequestSpec { path: text.into(), body: Some(text.into()), ..spec(&[("X", text)]) }],
            headers: vec![("Y".into(), text.into())],
            body: bytes.to_vec(),
            ..Import::new()
        };
        let mut plan = LoadPlan::to("http://s1/");
        plan.headers = vec![("mine".into(), "${n}".into())];
        with("/${a}$${", b"${b}").apply(&mut plan);
        let want = "/$${a}$$${";
        let request = &plan.requests[0];
        let seen = [&request.path, request.body.as_ref().unwrap(), &request.headers["X"], &plan.headers[0].1];
        assert_eq!(seen, [want; 4]);
        assert_eq!((plan.headers[1].1.as_str(), &plan.body[..]), ("${n}", &b"$${b}"[..]));
        with("/", b"${b}\xff").apply(&mut plan);
        assert_eq!(plan.body, b"${b}\xff");
    }

    #[test]
    fn bytes_that_no_url_holds_are_written_out() {
        assert_eq!(encoded("/a b\u{e9}%20|\x7f".as_bytes()), "/a%20b%C3%A9%20|%7F");
    }

    /// What a template without names gives back: `$${` is `${`.
    fn unescape(text: &str) -> String {
        let (mut rest, mut out) = (text, String::new());
        while let Some(c) = rest.chars().next() {
            let taken = if rest.starts_with("$${") { 3 } else { c.len_utf8() };
            out.push_str(if taken == 3 && rest.starts_with("$${") { "${" } else { &rest[..taken] });
            rest = &rest[taken..];
        }
        out
    }

    proptest! {
        #[test]
        fn escaped_text_holds_no_template(text in "[${}a]{0,20}") {
            prop_assert_eq!(unescape(&escape_template(&text)), text);
        }
    }
}
