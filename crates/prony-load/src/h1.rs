//! HTTP/1.1 as the loop speaks it: one call after another, or several in a row (pipelining), answered in order.
//!
//! It does no IO; `response.rs` reads the answers. Invariant: one call at a time allocates nothing.

use crate::digits::Digits;
use crate::protocol::{After, Answer, Captured, Encoded, Malformed, Message, Protocol};
use crate::response::{Fed, Response};
use std::collections::VecDeque;

/// HTTP/1.1 with up to `depth` requests in a row.
#[derive(Clone, Copy, Debug)]
pub struct Http1 {
    depth: u32,
    /// Ask the server to close after each answer.
    close: bool,
}

/// One connection.
#[derive(Debug, Default)]
pub struct Link {
    response: Response,
    /// The call that is answered next.
    first: Option<Waiting>,
    /// The calls behind it; empty without pipelining.
    rest: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    call: u32,
    head: bool,
    capture: Option<Box<Captured>>,
}

impl Http1 {
    /// `close`: a connection per request.
    pub fn new(depth: u32, close: bool) -> Self {
        Self { depth, close }
    }
}

impl Link {
    /// The first call is answered: what it captured, and the next one in its place.
    fn next(&mut self, status: u16, answers: &mut Vec<Answer>) {
        if let Some(done) = self.first.take() {
            answers.push(Answer { call: done.call, status: Some(status), captured: done.capture });
        }
        self.first = self.rest.pop_front();
        if let Some(waiting) = &self.first {
            self.response.expect(waiting.head);
        }
    }
}

impl Protocol for Http1 {
    type Link = Link;
    const ANSWERS_FOLLOW_REQUESTS: bool = true;

    fn link(&self) -> Link {
        Link::default()
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn encode(&self, message: &Message, into: &mut Encoded) {
        let bytes = &mut into.bytes;
        bytes.clear();
        let mut push = |parts: &[&str]| parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        let has = |name: &str| message.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        push(&[&message.method, " ", &message.path, " HTTP/1.1\r\n"]);
        if !has("host") {
            push(&["Host: ", &message.authority, "\r\n"]);
        }
        message.headers.iter().for_each(|(name, value)| push(&[name, ": ", value, "\r\n"]));
        if message.wants_length() && !has("content-length") && !has("transfer-encoding") {
            push(&["Content-Length: ", Digits::new(message.body.len() as u64).as_str(), "\r\n"]);
        }
        if self.close && !has("connection") {
            push(&["Connection: close\r\n"]);
        }
        push(&["\r\n"]);
        into.body_at = bytes.len();
        bytes.extend_from_slice(&message.body);
        into.head = message.method == "HEAD";
    }

    /// What the server said before is kept in mind: on the next connection it will say the same.
    fn open(&self, link: &mut Link, _out: &mut Vec<u8>) {
        link.first = None;
        link.rest.clear();
    }

    #[inline]
    fn has_room(&self, link: &Link) -> bool {
        link.first.is_none() || (link.rest.len() as u32) + 1 < self.depth
    }

    #[inline]
    fn begin(&self, link: &mut Link, call: u32, request: &Encoded, capture: Option<Box<Captured>>, out: &mut Vec<u8>) {
        out.extend_from_slice(&request.bytes);
        let waiting = Waiting { call, head: request.head, capture };
        if link.first.is_none() {
            link.response.expect(request.head);
            link.first = Some(waiting);
        } else {
            link.rest.push_back(waiting);
        }
    }

    #[inline]
    fn feed(
        &self,
        link: &mut Link,
        mut bytes: &[u8],
        _out: &mut Vec<u8>,
        answers: &mut Vec<Answer>,
    ) -> Result<After, Malformed> {
        while !bytes.is_empty() {
            let Some(waiting) = &mut link.first else {
                return Err(Malformed("bytes that no request asked for"));
            };
            match link.response.feed(bytes, waiting.capture.as_deref_mut())? {
                Fed::More => break,
                Fed::Complete { status, close, used } => {
                    link.next(status, answers);
                    bytes = &bytes[used..];
                    if close {
                        return Ok(After::Ended);
                    }
                }
            }
        }
        Ok(After::Open)
    }

    fn end(&self, link: &mut Link, answers: &mut Vec<Answer>) {
        if let Some(Fed::Complete { status, .. }) = link.response.end_of_stream() {
            link.next(status, answers);
        }
    }

    fn cancel(&self, _link: &mut Link, _call: u32, _out: &mut Vec<u8>) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check_encoded(protocol: Http1, message: Message, want: Expect) {
        let mut encoded = Encoded::default();
        protocol.encode(&message, &mut encoded);
        assert_eq!(&encoded.bytes[encoded.body_at..], message.body);
        want.assert_eq(&String::from_utf8_lossy(&encoded.bytes).replace('\r', ""));
    }

    fn get(path: &str) -> Message {
        Message { method: "GET".into(), path: path.into(), authority: "s1:81".into(), ..Message::default() }
    }

    #[test]
    fn encodes_requests() {
        check_encoded(
            Http1::new(1, false),
            get("/x"),
            expect![[r#"
                GET /x HTTP/1.1
                Host: s1:81

            "#]],
        );
        check_encoded(
            Http1::new(1, true),
            Message {
                method: "POST".into(),
                headers: vec![("host".into(), "other".into()), ("X-A".into(), "2".into())],
                body: b"hello".to_vec(),
                ..get("/p?q=1")
            },
            expect![[r#"
                POST /p?q=1 HTTP/1.1
                host: other
                X-A: 2
                Content-Length: 5
                Connection: close

                hello"#]],
        );
        check_encoded(
            Http1::new(1, false),
            Message { method: "PUT".into(), ..get("/") },
            expect![[r#"
                PUT / HTTP/1.1
                Host: s1:81
                Content-Length: 0

            "#]],
        );
    }

    /// Three calls in a row, fed in pieces of `size`; tells which call got which status, and what was captured.
    fn talk(bytes: &[u8], size: usize) -> String {
        let http = Http1::new(3, false);
        let mut link = http.link();
        let (mut out, mut answers, mut told) = (Vec::new(), Vec::new(), Vec::new());
        let mut request = Encoded::default();
        http.encode(&get("/"), &mut request);
        for call in 0..3 {
            assert!(http.has_room(&link));
            http.begin(&mut link, call, &request, (call == 1).then(Box::default), &mut out);
        }
        assert!(!http.has_room(&link));
        assert_eq!(out.len(), 3 * request.bytes.len());
        for piece in bytes.chunks(size) {
            match http.feed(&mut link, piece, &mut out, &mut answers) {
                Ok(After::Open) => {}
                Ok(after) => {
                    told.push(format!("{after:?}"));
                    break;
                }
                Err(Malformed(why)) => {
                    told.push(why.to_string());
                    break;
                }
            }
        }
        http.end(&mut link, &mut answers);
        let said = answers.iter().map(|a| {
            let kept = a.captured.as_ref().map(|c| [&c.head[..], &c.body].concat());
            let kept = kept.map(|k| String::from_utf8_lossy(&k).replace("\r\n", "|")).unwrap_or_default();
            format!("{}={}{kept}", a.call, a.status.unwrap_or_default())
        });
        said.chain(told).collect::<Vec<_>>().join(", ")
    }

    fn check(text: &str, want: Expect) {
        let bytes = text.replace('\n', "\r\n").into_bytes();
        let whole = talk(&bytes, bytes.len());
        want.assert_eq(&whole);
        for size in 1..bytes.len() {
            assert_eq!(talk(&bytes, size), whole, "in pieces of {size}");
        }
    }

    const OK: &str = "HTTP/1.1 200 OK\nContent-Length: 2\n\nok";

    #[test]
    fn answers_come_in_order() {
        check(&OK.repeat(3), expect!["0=200, 1=200Content-Length: 2|ok, 2=200"]);
        check(&OK.repeat(4), expect!["0=200, 1=200Content-Length: 2|ok, 2=200, bytes that no request asked for"]);
        check(
            &format!("{OK}HTTP/1.1 500 X\nConnection: close\nContent-Length: 0\n\n"),
            expect!["0=200, 1=500Connection: close|Content-Length: 0|, Ended"],
        );
        check(
            &format!(
                "{OK}HTTP/1.1 103 Early\nLink: x\n\nHTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nab\n1\nc\n0\n\n{OK}"
            ),
            expect!["0=200, 1=200Transfer-Encoding: chunked|abc, 2=200"],
        );
        check(&format!("{OK}HTTP/1.1 200 OK\n\nto the end"), expect!["0=200, 1=200to the end"]);
    }
}
