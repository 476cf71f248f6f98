//! A HAR file (HTTP Archive 1.2), as browsers save it: the requests of one host as a mix or a replay.
//!
//! Answers are not looked at, nor checked for later. Invariant: every entry is taken over, or counted with the reason
//! why not.

use super::mix::{Asked, Mix};
use super::replay::{Recorded, Replay};
use super::{Form, Import, ImportError, can_be_sent, counted, encoded, excerpt, is_of_connection, moment};
use crate::target::{Target, check_url};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_model::Protocol;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// Hosts that are named one by one when they are left out. A guess: a page has dozens, and the first tell what they
/// are.
const HOSTS_NAMED_MAX: usize = 5;

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: String,
    request: Request,
    /// Chrome's own: the answer came from its cache and not from the server.
    #[serde(default, rename = "_fromCache")]
    from_cache: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    http_version: String,
    #[serde(default)]
    headers: Vec<Pair>,
    #[serde(default)]
    post_data: Option<PostData>,
    /// -1: not known.
    #[serde(default)]
    body_size: Option<f64>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostData {
    #[serde(default)]
    mime_type: String,
    #[serde(default)]
    text: String,
    /// Not of HAR 1.2, but written by several tools: `base64`.
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    params: Vec<Param>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Param {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    file_name: Option<IgnoredAny>,
}

/// Takes over the requests of `host` (`NAME` or `NAME:PORT`; none: that of the first entry). Where a host was asked
/// over http and https, the one that was asked more often is meant.
///
/// # Errors
/// [`ImportError::Har`] for what is no HAR file, and where no request is left; [`ImportError::Speed`].
pub fn from_har(text: &str, host: Option<&str>, form: Form) -> Result<Import, ImportError> {
    let har: Har = serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
        ImportError::Har(format!("{error}: save it anew as \"HAR\" from the browser's network tab"))
    })?;
    let mut reading = Reading::default();
    let entries: Vec<(Entry, Target)> = har.log.entries.into_iter().filter_map(|entry| reading.known(entry)).collect();
    let Some(chosen) = chosen(&entries, host) else { return Err(ImportError::Har(nothing(&entries, host))) };
    for (entry, target) in entries {
        if same_origin(&target, &chosen) {
            reading.take(entry, &target, form);
        } else {
            *reading.other_hosts.entry(origin(&target)).or_default() += 1;
        }
    }
    reading.import(&chosen, form)
}

/// What has been read.
#[derive(Default)]
struct Reading {
    mix: Mix,
    replay: Replay,
    taken: u64,
    http2: u64,
    /// How many entries were left out, by reason.
    reasons: BTreeMap<String, u64>,
    other_hosts: BTreeMap<String, u64>,
    bodies_missing: u64,
}

impl Reading {
    fn leave_out(&mut self, reason: impl Into<String>) {
        *self.reasons.entry(reason.into()).or_default() += 1;
    }

    /// An entry that went to a server over HTTP, and where to.
    fn known(&mut self, entry: Entry) -> Option<(Entry, Target)> {
        if entry.from_cache.is_some() {
            self.leave_out("the browser's cache answered");
            return None;
        }
        let url = encoded(entry.request.url.as_bytes());
        match check_url(&url) {
            Ok(target) => Some((entry, target)),
            Err(_) => {
                let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
                self.leave_out(format!("`{}:` is not a URL that can be loaded", excerpt(scheme.as_bytes())));
                None
            }
        }
    }

    fn take(&mut self, entry: Entry, target: &Target, form: Form) {
        let request = entry.request;
        if request.method.eq_ignore_ascii_case("CONNECT") {
            return self.leave_out("CONNECT is for a proxy");
        }
        if request.method.is_empty() || !request.method.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return self.leave_out("its method is no word of HTTP");
        }
        let body = match body(&request) {
            Ok(body) => body,
            Err(reason) => return self.leave_out(reason),
        };
        let mut headers = headers(&request.headers, &target.authority);
        if let (Some(_), Some(data)) = (&body, &request.post_data)
            && !data.mime_type.is_empty()
            && !headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"))
        {
            headers.insert("Content-Type".to_string(), data.mime_type.clone());
        }
        if !headers.iter().all(|(name, value)| can_be_sent(name, value)) {
            return self.leave_out("a header of it has no name, or a line end");
        }
        let is_missing = body.is_none() && request.body_size.is_some_and(|size| size > 0.0);
        let is_http2 = matches!(request.http_version.to_ascii_lowercase().as_str(), "h2" | "http/2" | "http/2.0");
        let method = Asked::method(&request.method);
        let asked = Asked { method, path: target.path.clone(), headers, body };
        match form {
            Form::Mix => self.mix.count(asked),
            Form::Replay { .. } => {
                let Some(at_ns) = moment::iso8601(entry.started_date_time.trim().as_bytes()) else {
                    return self.leave_out("`startedDateTime` is no moment");
                };
                self.replay.push(Recorded { at_ns, whole_second: false, took_ns: 0 }, asked);
            }
        }
        self.taken += 1;
        self.http2 += u64::from(is_http2);
        self.bodies_missing += u64::from(is_missing);
    }

    fn import(self, chosen: &Target, form: Form) -> Result<Import, ImportError> {
        let mut import = Import::new();
        import.url = Some(format!("{}/", origin(chosen)));
        let mut skipped: Vec<String> =
            self.reasons.iter().map(|(reason, count)| format!("{}: {reason}", entries(*count))).collect();
        if !self.other_hosts.is_empty() {
            skipped.push(other_hosts(&self.other_hosts));
        }
        if self.bodies_missing > 0 {
            let bodies = counted(self.bodies_missing, "body", "bodies");
            skipped.push(format!("{bodies}: not in the HAR file; the request is sent without"));
        }
        if self.taken == 0 {
            return Err(ImportError::Har(format!("no request to {} is left ({})", origin(chosen), skipped.join("; "))));
        }
        // One connection speaks one protocol, so what most requests spoke counts.
        if chosen.secure && self.http2 * 2 > self.taken {
            import.protocol = Some(Protocol::Http2);
        }
        if self.replay.left_out() > 0 {
            let requests = counted(self.replay.left_out(), "request", "requests");
            skipped.push(format!("{requests} at its end: a replay holds no more"));
        }
        match form {
            Form::Mix => import.take(self.mix.frequent(usize::MAX).requests),
            Form::Replay { speed } => {
                let (requests, times) = self.replay.finish(speed)?;
                import.take(requests);
                import.times = Some(times);
            }
        }
        import.skipped = skipped;
        Ok(import)
    }
}

/// The origin that is loaded: of the entries of the chosen host, http or https, whichever has more.
fn chosen(entries: &[(Entry, Target)], host: Option<&str>) -> Option<Target> {
    let is_chosen = |target: &Target| match host {
        Some(host) => host.eq_ignore_ascii_case(&target.host) || host.eq_ignore_ascii_case(&target.authority),
        None => true,
    };
    let (_, first) = entries.iter().find(|(_, target)| is_chosen(target))?;
    let standard = |target: &Target| target.port == if target.secure { 443 } else { 80 };
    let is_sibling = |target: &Target| {
        target.host.eq_ignore_ascii_case(&first.host)
            && (target.port == first.port || (standard(target) && standard(first)))
    };
    let of = |secure: bool| entries.iter().map(|(_, t)| t).filter(move |t| is_sibling(t) && t.secure == secure);
    let other = of(!first.secure);
    if of(first.secure).count() >= other.count() { Some(first.clone()) } else { of(!first.secure).next().cloned() }
}

fn same_origin(a: &Target, b: &Target) -> bool {
    a.secure == b.secure && a.port == b.port && a.host.eq_ignore_ascii_case(&b.host)
}

fn origin(target: &Target) -> String {
    format!("{}://{}", if target.secure { "https" } else { "http" }, target.authority.to_ascii_lowercase())
}

/// Why no entry could be chosen.
fn nothing(entries: &[(Entry, Target)], host: Option<&str>) -> String {
    match (host, entries.first()) {
        (Some(host), Some((_, first))) => {
            format!("no request in it goes to `{host}`; the first goes to `{}`", first.authority)
        }
        (Some(_) | None, _) => "it holds no request to an http:// or https:// URL".to_string(),
    }
}

fn other_hosts(hosts: &BTreeMap<String, u64>) -> String {
    let mut sorted: Vec<(&String, &u64)> = hosts.iter().collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let total: u64 = hosts.values().sum();
    let named = sorted.iter().take(HOSTS_NAMED_MAX).map(|(host, count)| format!("{host} ({count})"));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if sorted.len() > HOSTS_NAMED_MAX {
        named.push_str(&format!(" and {} more", sorted.len() - HOSTS_NAMED_MAX));
    }
    format!("{}: for another host: {named}", entries(total))
}

fn entries(count: u64) -> String {
    counted(count, "entry", "entries")
}

/// Headers as they can be sent again. HTTP/2 may have split a name into several; a list has them together.
fn headers(recorded: &[Pair], authority: &str) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for Pair { name, value } in recorded {
        if is_of_connection(name) || (name.eq_ignore_ascii_case("host") && value.eq_ignore_ascii_case(authority)) {
            continue;
        }
        let between = if name.eq_ignore_ascii_case("cookie") { "; " } else { ", " };
        let known = headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            Some((_, values)) => {
                values.push_str(between);
                values.push_str(value);
            }
            None => _ = headers.insert(name.clone(), value.clone()),
        }
    }
    headers
}

/// The body that an entry holds, if it is text.
fn body(request: &Request) -> Result<Option<String>, &'static str> {
    let Some(data) = &request.post_data else { return Ok(None) };
    if !data.text.is_empty() {
        return match data.encoding.as_deref() {
            Some("base64") => {
                let bytes = BASE64.decode(data.text.trim()).map_err(|_| "the body is not base64")?;
                String::from_utf8(bytes).map(Some).map_err(|_| "the body is not text")
            }
            Some(_) | None => Ok(Some(data.text.clone())),
        };
    }
    if data.params.iter().any(|param| param.file_name.is_some()) {
        return Err("the body holds a file, and the HAR file does not");
    }
    let pairs = data.params.iter().map(|param| format!("{}={}", form_encoded(&param.name), form_encoded(&param.value)));
    let pairs: Vec<String> = pairs.collect();
    Ok((!pairs.is_empty()).then(|| pairs.join("&")))
}

/// As a form is sent. Browsers keep what is encoded already as it is.
fn form_encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b' ' => "+".to_string(),
        b'&' | b'=' | b'#' => format!("%{b:02X}"),
        _ => encoded(&[b]),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
#[path = "har_tests.rs"]
mod tests;
