//! The targets: what is done with an input, for each kind of text or bytes that strangers write.
//!
//! A target that returns has held: what does not hold panics.

use crate::memory::peak_bytes;
use crate::pointer;
use crate::talk::drive;
use prony_load::h1::Http1;
use prony_load::h2::Http2;
use prony_load::import::{Form, Import, LogFormat, from_curl, from_har, from_log};
use prony_load::protocol::Message;
use prony_load::scenario::{Next, Scenario, ThreadFeeds, ThreadPart};
use prony_model::script::{Part, Script, escape, parts};
use prony_model::{LoadPlan, Stack};
use serde_json::json;
use std::io;

/// One target.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its folder of seeds.
pub const TARGETS: &[(&str, Target)] = &[
    ("h1_response", h1_response),
    ("h2_frames", h2_frames),
    ("template", template),
    ("json_pointer", json_pointer),
    ("curl", curl),
    ("har", har),
    ("access_log", access_log),
    ("stack_file", stack_file),
];

/// Most memory that reading a text may take per byte of it. A guess: a value of one byte becomes a node of some 100 bytes, in a
/// table that doubles, in two layers of a parser.
const BYTES_PER_BYTE: usize = 2000;
/// Memory that reading any text may take. A guess: tables that are made once, the largest pattern that may be compiled.
const BYTES_ANYWAY: usize = 8 << 20;

/// Answers of HTTP/1.1, one after another, and in a row with pipelining.
pub fn h1_response(input: &[u8]) {
    for depth in [1, 8] {
        drive(&Http1::new(depth, false), input);
    }
}

/// What a server of HTTP/2 says.
pub fn h2_frames(input: &[u8]) {
    let common = Message {
        authority: "127.0.0.1:8080".to_string(),
        headers: vec![("Accept".to_string(), "*/*".to_string())],
        ..Message::default()
    };
    drive(&Http2::new(8, &common), input);
}

/// A template, taken apart and rendered: as the path, a header and the body of a request. `v` is saved, `f.c` is a column.
pub fn template(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let literal: String = parts(&escape(text)).expect("what is escaped is a template").iter().map(written).collect();
    assert_eq!(literal, escape(text), "what is escaped stands for itself");
    if let Ok(taken) = parts(text) {
        assert_eq!(taken.iter().map(written).collect::<String>(), text, "nothing is lost");
    }
    for place in ["path", "header", "body"] {
        let mut step = json!({ "path": "/a", "headers": {}, "body": "" });
        match place {
            "path" => step["path"] = json!(format!("/{text}")),
            "header" => step["headers"]["X-A"] = json!(text),
            _ => step["body"] = json!(text),
        }
        let first = json!({ "path": "/first", "save": { "v": "header:x" } });
        let feed = json!({ "columns": ["c"], "rows": [["row 1"], ["#2"]] });
        let script = json!({ "steps": [first, step], "feeds": { "f": feed } });
        let Ok(script) = serde_json::from_value::<Script>(script) else { return };
        bounded(input, || render(script));
    }
}

/// Does both steps, three times.
fn render(script: Script) {
    let Some(scenario) = compile(script) else { return };
    let mut thread = ThreadFeeds::new(&scenario, ThreadPart { number: 0, of: 1 }, 1);
    let (mut actor, mut message) = (Default::default(), Message::default());
    let answer = prony_load::protocol::Captured { head: b"x: /a b\r\n".to_vec(), body: Vec::new() };
    for _ in 0..6 {
        let Next::Step { step, fixed, .. } = scenario.next(&mut actor, &mut thread, 0, &mut message) else { return };
        if fixed {
            message = scenario.fixed(step).expect("a fixed step has a message");
        }
        let sane = |byte: u8| byte > b' ' && byte < 0x7f;
        assert!(message.path.starts_with('/') && message.path.bytes().all(sane), "path {:?}", message.path);
        let ends_line = |text: &str| text.contains(['\r', '\n', '\0']);
        assert!(!message.headers.iter().any(|(n, v)| ends_line(n) || ends_line(v)), "{:?}", message.headers);
        scenario.answered(&mut actor, &mut thread, 200, Some(&answer));
    }
}

/// As a person would have written it.
fn written(part: &Part<'_>) -> String {
    match part {
        Part::Text("${") => "$${".to_string(),
        Part::Text(text) => (*text).to_string(),
        Part::Name(name) => format!("${{{name}}}"),
    }
}

/// The first line is a pointer, the rest a document: what is found is what a parser of whole documents finds.
pub fn json_pointer(input: &[u8]) {
    let (pointer, document) = first_line(input);
    let Ok(pointer) = std::str::from_utf8(pointer) else { return };
    let first = json!({ "path": "/first", "save": { "v": format!("json:{pointer}") } });
    let script = json!({ "steps": [first, { "path": "/second", "body": "${v}" }] });
    let Ok(script) = serde_json::from_value::<Script>(script) else { return };
    if let Some(found) = bounded(input, || saved(script, document)) {
        pointer::compare(pointer, document, found.as_deref());
    }
}

/// What the first step saves of an answer, as the body of the second shows it. None outside: there is no such scenario.
fn saved(script: Script, body: &[u8]) -> Option<Option<Vec<u8>>> {
    let scenario = compile(script)?;
    let mut thread = ThreadFeeds::new(&scenario, ThreadPart { number: 0, of: 1 }, 1);
    let (mut actor, mut message) = (Default::default(), Message::default());
    scenario.next(&mut actor, &mut thread, 0, &mut message);
    let answer = prony_load::protocol::Captured { head: Vec::new(), body: body.to_vec() };
    if scenario.answered(&mut actor, &mut thread, 200, Some(&answer)).unmet.is_some() {
        return Some(None);
    }
    scenario.next(&mut actor, &mut thread, 0, &mut message);
    Some(Some(message.body))
}

fn compile(script: Script) -> Option<Scenario> {
    let plan = LoadPlan { script: Some(script), ..LoadPlan::to("http://127.0.0.1/") };
    let target = prony_load::check_url(&plan.url).expect("this URL is right");
    Scenario::compile(&plan, &target, None).ok()?
}

/// A curl command. Every file that it names is there.
pub fn curl(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let read = |path: &str| match path {
        "missing" => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(b"what is in the file\r\n${n}".to_vec()),
    };
    if let Ok(import) = bounded(input, || from_curl(text, &read)) {
        check_import(&import);
    }
}

/// A HAR file, as a mix and as a replay.
pub fn har(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for form in [Form::Mix, Form::Replay { speed: 2.0 }] {
        if let Ok(import) = bounded(input, || from_har(text, None, form)) {
            check_import(&import);
        }
    }
}

/// An access log, as a mix and as a replay. The first line is its format; empty: the common one.
pub fn access_log(input: &[u8]) {
    let (format, log) = first_line(input);
    let Ok(format) = std::str::from_utf8(format) else { return };
    let format = if format.is_empty() {
        LogFormat::common()
    } else {
        let Ok(format) = LogFormat::parse(format) else { return };
        format
    };
    for form in [Form::Mix, Form::Replay { speed: 0.5 }] {
        if let Ok(import) = bounded(input, || from_log(&mut &*log, &format, form)) {
            check_import(&import);
        }
    }
}

/// What is sent must not be able to break out of its line.
fn check_import(import: &Import) {
    let ends_line = |text: &str| text.contains(['\r', '\n']);
    let wrong = |(name, value): (&String, &String)| name.is_empty() || ends_line(name) || ends_line(value);
    assert!(!import.headers.iter().any(|(n, v)| wrong((n, v))), "{:?}", import.headers);
    for request in &import.requests {
        let sane = request.path.bytes().all(|b| b > b' ' && b < 0x7f);
        assert!(request.path.starts_with('/') && sane, "path {:?}", request.path);
        assert!(!request.headers.iter().any(wrong), "{:?}", request.headers);
        assert!(request.weight.is_finite() && request.weight > 0.0, "weight {}", request.weight);
        assert!(
            request.method.as_deref().is_none_or(|m| !m.is_empty() && !m.contains([' ', '\r', '\n'])),
            "{request:?}"
        );
    }
    if let Some(times) = &import.times {
        assert_eq!(times.len(), import.requests.len(), "each request has its time");
        assert!(times.is_sorted(), "times are in order");
    }
    if let Some(url) = &import.url {
        assert!(prony_load::check_url(url).is_ok(), "{url:?} can be loaded");
    }
}

/// A stack file.
pub fn stack_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(error) = bounded(input, || Stack::parse("stack.toml", text)) {
        assert!(error.to_string().starts_with("stack.toml"), "an error names its file: {error}");
    }
    // What names the file below must not panic either, whatever else is wrong with the text.
    bounded(input, || Stack::base_of("stack.toml", text)).ok();
}

fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|b| *b == b'\n');
    end.map_or((input, &[][..]), |end| (&input[..end], &input[end + 1..]))
}

/// Does it, within the memory that an input of that length may take.
fn bounded<T>(input: &[u8], read: impl FnOnce() -> T) -> T {
    let (made, bytes) = peak_bytes(read);
    let allowed = BYTES_ANYWAY + BYTES_PER_BYTE * input.len();
    assert!(bytes <= allowed as isize, "{bytes} bytes of memory for an input of {}", input.len());
    made
}
