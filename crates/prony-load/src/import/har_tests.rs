//! Tests of HAR files, written by hand in the style of Chrome's and Firefox's.

use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn shown(text: &str, host: Option<&str>, form: Form) -> String {
    let import = match from_har(text, host, form) {
        Ok(import) => import,
        Err(error) => return error.to_string(),
    };
    let mut lines = vec![format!("url {} protocol {:?}", import.url.unwrap(), import.protocol)];
    lines.extend(import.headers.iter().map(|(name, value)| format!("all: {name}: {value}")));
    for (n, request) in import.requests.iter().enumerate() {
        let time = import.times.as_ref().map_or(String::new(), |times| format!(" at {}", times[n]));
        let method = request.method.as_deref().unwrap_or("-");
        lines.push(format!(
            "{} x {method} {}{time} {:?} {:?}",
            request.weight, request.path, request.headers, request.body
        ));
    }
    lines.extend(import.skipped.iter().map(|skipped| format!("skipped {skipped}")));
    lines.join("\n")
}

/// A page as a browser saves it: some answers came from the cache, some from elsewhere, one request is there twice.
const PAGE: &str = r#"{"log": {"version": "1.2", "creator": {"name": "WebInspector", "version": "537.36"}, "pages": [], "entries": [
  {"startedDateTime": "2026-11-21T03:01:02.500Z", "time": 12.5, "_resourceType": "document",
   "request": {"method": "GET", "url": "https://Shop.test/?q=caf\u00e9#top", "httpVersion": "h2", "cookies": [{"name": "a", "value": "1"}],
     "headers": [{"name": ":authority", "value": "shop.test"}, {"name": ":path", "value": "/"}, {"name": "user-agent", "value": "Chrome"},
                 {"name": "cookie", "value": "a=1"}, {"name": "cookie", "value": "b=2"}, {"name": "priority", "value": "u=0, i"}],
     "queryString": [], "headersSize": -1, "bodySize": 0},
   "response": {"status": 200, "content": {"size": 4, "mimeType": "text/html", "text": "<p>!"}}, "cache": {}, "timings": {"wait": 3}},
  {"startedDateTime": "2026-11-21T03:01:02.750Z", "_fromCache": "disk",
   "request": {"method": "GET", "url": "https://shop.test/old.css", "httpVersion": "h2", "headers": []}},
  {"startedDateTime": "2026-11-21T03:01:03.000Z",
   "request": {"method": "GET", "url": "https://shop.test/a.js", "httpVersion": "h2", "headers": [{"name": "user-agent", "value": "Chrome"}]}},
  {"startedDateTime": "2026-11-21T04:01:03.500+01:00",
   "request": {"method": "POST", "url": "https://shop.test/cart", "httpVersion": "h2",
     "headers": [{"name": "user-agent", "value": "Chrome"}, {"name": "content-length", "value": "9"}],
     "postData": {"mimeType": "application/json", "text": "{\"n\":1} "}, "bodySize": 9}},
  {"startedDateTime": "2026-11-21T03:01:02.900Z",
   "request": {"method": "GET", "url": "https://cdn.test/x.png", "httpVersion": "h3", "headers": []}},
  {"startedDateTime": "2026-11-21T03:01:02.950Z",
   "request": {"method": "GET", "url": "data:image/png;base64,AAAA", "httpVersion": "", "headers": []}},
  {"startedDateTime": "2026-11-21T03:01:02.960Z",
   "request": {"method": "GET", "url": "wss://shop.test/live", "httpVersion": "HTTP/1.1", "headers": []}},
  {"startedDateTime": "2026-11-21T03:01:02.800Z",
   "request": {"method": "GET", "url": "https://shop.test/a.js", "httpVersion": "h2", "headers": [{"name": "user-agent", "value": "Chrome"}]}}
]}}"#;

/// One entry per request, written as JSON.
fn har(requests: &[&str]) -> String {
    let entry = |request: &&str| format!("{{\"startedDateTime\": \"2026-11-21T03:01:02Z\", \"request\": {request}}}");
    format!("{{\"log\": {{\"entries\": [{}]}}}}", requests.iter().map(entry).collect::<Vec<_>>().join(","))
}

fn check(text: &str, host: Option<&str>, form: Form, want: Expect) {
    want.assert_eq(&shown(text, host, form));
}

#[test]
fn a_page_becomes_a_mix() {
    check(
        PAGE,
        None,
        Form::Mix,
        expect![[r#"
        url https://shop.test/ protocol Some(Http2)
        all: user-agent: Chrome
        2 x - /a.js {} None
        1 x - /?q=caf%C3%A9 {"cookie": "a=1; b=2", "priority": "u=0, i"} None
        1 x POST /cart {"Content-Type": "application/json"} Some("{\"n\":1} ")
        skipped 1 entry: `data:` is not a URL that can be loaded
        skipped 1 entry: `wss:` is not a URL that can be loaded
        skipped 1 entry: the browser's cache answered
        skipped 1 entry: for another host: https://cdn.test (1)"#]],
    );
    check(
        PAGE,
        Some("CDN.test"),
        Form::Mix,
        expect![[r#"
        url https://cdn.test/ protocol None
        1 x - /x.png {} None
        skipped 1 entry: `data:` is not a URL that can be loaded
        skipped 1 entry: `wss:` is not a URL that can be loaded
        skipped 1 entry: the browser's cache answered
        skipped 4 entries: for another host: https://shop.test (4)"#]],
    );
}

#[test]
fn a_page_becomes_a_replay() {
    check(
        PAGE,
        None,
        Form::Replay { speed: 2.0 },
        expect![[r#"
        url https://shop.test/ protocol Some(Http2)
        all: user-agent: Chrome
        1 x - /?q=caf%C3%A9 at 0ns {"cookie": "a=1; b=2", "priority": "u=0, i"} None
        1 x - /a.js at 150ms {} None
        1 x - /a.js at 250ms {} None
        1 x POST /cart at 500ms {"Content-Type": "application/json"} Some("{\"n\":1} ")
        skipped 1 entry: `data:` is not a URL that can be loaded
        skipped 1 entry: `wss:` is not a URL that can be loaded
        skipped 1 entry: the browser's cache answered
        skipped 1 entry: for another host: https://cdn.test (1)"#]],
    );
}

#[test]
fn bodies_of_every_kind() {
    let form = r#"{"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "a b", "value": "1&2"}, {"name": "c", "value": ""}]}"#;
    let with = |data: &str| format!(r#"{{"method": "POST", "url": "http://s1/", "bodySize": 7, "postData": {data}}}"#);
    check(
        &har(&[
            &with(form),
            &with(r#"{"mimeType": "text/plain", "text": "aGVsbG8=", "encoding": "base64"}"#),
            &with(r#"{"mimeType": "image/png", "text": "/w==", "encoding": "base64"}"#),
            &with(r#"{"mimeType": "image/png", "text": "?", "encoding": "base64"}"#),
            &with(r#"{"mimeType": "multipart/form-data", "params": [{"name": "f", "fileName": "a.png"}]}"#),
            &with("null"),
        ]),
        None,
        Form::Mix,
        expect![[r#"
            url http://s1/ protocol None
            1 x POST / {"Content-Type": "application/x-www-form-urlencoded"} Some("a+b=1%262&c=")
            1 x POST / {"Content-Type": "text/plain"} Some("hello")
            1 x POST / {} None
            skipped 1 entry: the body holds a file, and the HAR file does not
            skipped 1 entry: the body is not base64
            skipped 1 entry: the body is not text
            skipped 1 body: not in the HAR file; the request is sent without"#]],
    );
}

#[test]
fn https_counts_where_http_only_led_to_it() {
    let get = |url: &str| format!(r#"{{"method": "GET", "url": "{url}"}}"#);
    check(
        &har(&[&get("http://s1/"), &get("https://s1/"), &get("https://s1/b"), &get("https://s1:8443/")]),
        Some("s1"),
        Form::Mix,
        expect![[r#"
            url https://s1/ protocol None
            1 x - / {} None
            1 x - /b {} None
            skipped 2 entries: for another host: http://s1 (1), https://s1:8443 (1)"#]],
    );
}

#[test]
fn says_what_is_wrong() {
    check(
        "{",
        None,
        Form::Mix,
        expect![[
            r#"the HAR file cannot be taken over: EOF while parsing an object at line 1 column 1: save it anew as "HAR" from the browser's network tab"#
        ]],
    );
    check(
        "{\"log\": {}}",
        None,
        Form::Mix,
        expect![[
            r#"the HAR file cannot be taken over: missing field `entries` at line 1 column 10: save it anew as "HAR" from the browser's network tab"#
        ]],
    );
    check(
        &har(&[]),
        None,
        Form::Mix,
        expect!["the HAR file cannot be taken over: it holds no request to an http:// or https:// URL"],
    );
    check(
        PAGE,
        Some("other.test"),
        Form::Mix,
        expect![
            "the HAR file cannot be taken over: no request in it goes to `other.test`; the first goes to `Shop.test`"
        ],
    );
    check(
        &har(&[r#"{"method": "CONNECT", "url": "http://s1/"}"#]),
        None,
        Form::Mix,
        expect!["the HAR file cannot be taken over: no request to http://s1 is left (1 entry: CONNECT is for a proxy)"],
    );
    check(
        PAGE,
        None,
        Form::Replay { speed: f64::NAN },
        expect!["a replay at speed NaN has no end: write more than 0, like 2 for twice as fast as recorded"],
    );
}

proptest! {
    #[test]
    fn no_text_panics(from in 0..PAGE.len(), to in 0..PAGE.len(), text in "\\PC{0,8}") {
        if from <= to && PAGE.is_char_boundary(from) && PAGE.is_char_boundary(to) {
            let text = format!("{}{text}{}", &PAGE[..from], &PAGE[to..]);
            let _ = from_har(&text, None, Form::Replay { speed: 1.0 });
        }
    }

    #[test]
    fn no_entry_panics(method in "\\PC{0,6}", url in "(http://s1)?\\PC{0,20}", moment in "\\PC{0,30}", name in "\\PC{0,9}") {
        let entry = serde_json::json!({
            "startedDateTime": moment,
            "request": { "method": method, "url": url, "headers": [{ "name": name, "value": url }] },
        });
        let text = serde_json::json!({ "log": { "entries": [entry.clone(), entry] } }).to_string();
        let _ = from_har(&text, None, Form::Mix);
        let _ = from_har(&text, Some(&url), Form::Replay { speed: 1.0 });
    }
}
