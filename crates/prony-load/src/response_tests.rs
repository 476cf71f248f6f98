//! Tests of the response reader: what is right in any pieces, what is wrong, and that nothing panics or grows.

use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

/// Feeds `bytes` in pieces of `size`, then the end of the stream; tells what came out.
fn feed_in(bytes: &[u8], size: usize, head: bool) -> String {
    let mut response = Response::default();
    response.expect(head);
    let mut at = 0;
    let mut seen = Vec::new();
    while at < bytes.len() {
        let piece = &bytes[at..(at + size.max(1)).min(bytes.len())];
        match response.feed(piece, None) {
            Ok(Fed::More) => at += piece.len(),
            Ok(Fed::Complete { status, close, used }) => {
                at += used;
                seen.push(format!("{status}{} at {at}", if close { " close" } else { "" }));
                response.expect(head);
            }
            Err(Malformed(why)) => return seen.into_iter().chain([why.to_string()]).collect::<Vec<_>>().join(", "),
        }
    }
    if let Some(Fed::Complete { status, .. }) = response.end_of_stream() {
        seen.push(format!("{status} at the end"));
    }
    seen.join(", ")
}

fn check(text: &str, want: Expect) {
    let bytes = text.replace('\n', "\r\n").into_bytes();
    let whole = feed_in(&bytes, bytes.len(), false);
    want.assert_eq(&whole);
    for size in 1..bytes.len() {
        assert_eq!(feed_in(&bytes, size, false), whole, "in pieces of {size}");
    }
}

#[test]
fn finds_the_end_of_every_kind_of_body() {
    check("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", expect!["200 at 43"]);
    check("HTTP/1.1 200\ncontent-length:0\nCONNECTION: Keep-Alive, Close\n\n", expect!["200 close at 65"]);
    check(
        "HTTP/1.1 204 No Content\n\nHTTP/1.1 304 Not Modified\nContent-Length: 9\n\n",
        expect!["204 at 27, 304 at 75"],
    );
    check("HTTP/1.0 200 OK\nContent-Length: 1\n\nx", expect!["200 close at 39"]);
    check("HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 1\n\nx", expect!["200 at 63"]);
    check("HTTP/1.1 200 OK\n\nuntil the end", expect!["200 at the end"]);
    check("HTTP/1.1 200 OK\nTransfer-Encoding: gzip\nContent-Length: 2\n\nab", expect!["200 at the end"]);
    check(
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5;x=y\nhello\nA \n0123456789\n0\nTrailer: 1\n\nHTTP/1.1 500 X\nContent-Length: 0\n\n",
        expect!["200 at 94, 500 at 131"],
    );
    check("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx", expect!["200 at 64"]);
}

#[test]
fn a_response_to_head_has_no_body() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(feed_in(bytes, 7, true), "200 at 38");
}

#[test]
fn a_known_head_means_another_thing_after_head_than_after_get() {
    let (head, body) = (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"hello");
    let whole = [&head[..], body].concat();
    let mut response = Response::default();
    let done = |used| Ok(Fed::Complete { status: 200, close: false, used });
    for is_head in [true, false, false, true, true] {
        response.expect(is_head);
        let (bytes, used) = if is_head { (&head[..], head.len()) } else { (&whole[..], whole.len()) };
        assert_eq!(response.feed(bytes, None), done(used));
        assert_eq!(response.known, head);
    }
}

#[test]
fn says_what_is_malformed() {
    check("garbage\n", expect!["the first line is not `HTTP/1.x CODE`"]);
    check("HTTP/1.1 20 OK\n", expect!["the first line is not `HTTP/1.x CODE`"]);
    check("HTTP/2 200 OK\n", expect!["the first line is not `HTTP/1.x CODE`"]);
    check("HTTP/1.1 200 OK\nno colon\n", expect!["a header line has no colon"]);
    check("HTTP/1.1 200 OK\n folded: 1\n", expect!["a header name holds a space"]);
    check("HTTP/1.1 200 OK\nContent-Length: -1\n", expect!["Content-Length is not a number"]);
    check("HTTP/1.1 200 OK\nContent-Length: 99999999999999999999\n", expect!["Content-Length is not a number"]);
    check("HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2\n", expect!["two different Content-Length"]);
    check("HTTP/1.1 101 Switching\n\n", expect!["the server switched protocols unasked"]);
    let chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n";
    check(&format!("{chunked}ffffffffffffffffff\n"), expect!["a chunk size is not a number"]);
    check(&format!("{chunked}\n"), expect!["a chunk size is not a number"]);
    check(&format!("{chunked}2\nabc\n"), expect!["a chunk is longer than its size says"]);
}

#[test]
fn endless_heads_end() {
    let many = format!("HTTP/1.1 200 OK\r\n{}", "A: b\r\n".repeat(300));
    assert_eq!(feed_in(many.as_bytes(), 100, false), "the head has more than 256 lines");
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(100_000));
    assert_eq!(feed_in(long.as_bytes(), 1000, false), "the head is longer than 64 KiB");
    assert_eq!(feed_in(long.as_bytes(), 1, false), "the head is longer than 64 KiB");
    let lines = format!("HTTP/1.1 200 OK\r\n{}", format!("A: {}\r\n", "b".repeat(990)).repeat(100));
    assert_eq!(feed_in(lines.as_bytes(), lines.len(), false), "the head is longer than 64 KiB");
    let chunk = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0{}", "0".repeat(100_000));
    assert_eq!(feed_in(chunk.as_bytes(), 1000, false), "the head is longer than 64 KiB");
}

#[test]
fn a_long_head_in_pieces_is_not_kept() {
    let mut response = Response::default();
    response.expect(false);
    let line = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(60_000));
    assert_eq!(response.feed(line.as_bytes(), None), Ok(Fed::More));
    response.expect(false);
    assert_eq!(response.line.capacity(), 0);
}

/// A valid response: code, headers, and a body in one of the framings.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    let header = ("[A-Za-z-]{1,9}", "[ -~]{0,30}");
    let headers = prop::collection::vec(header, 0..6);
    let body = prop::collection::vec(any::<u8>(), 0..200);
    (200u16..600, headers, body, any::<bool>()).prop_map(|(status, headers, body, chunked)| {
        let mut bytes = format!("HTTP/1.1 {status} Reason\r\n").into_bytes();
        headers.iter().for_each(|(n, v)| bytes.extend(format!("{n}: {v}\r\n").bytes()));
        if chunked {
            bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(37) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
        } else {
            bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            bytes.extend(&body);
        }
        bytes
    })
}

proptest! {
    #[test]
    fn pieces_do_not_matter(bytes in valid(), size in 1usize..50) {
        let no_body = |b: &[u8]| matches!(&b[9..12], b"204" | b"304");
        prop_assume!(!no_body(&bytes));
        let whole = feed_in(&bytes, bytes.len(), false);
        prop_assert!(whole.ends_with(&format!("at {}", bytes.len())), "{}", whole);
        prop_assert_eq!(feed_in(&bytes, size, false), whole);
    }

    /// In small pieces no head is remembered, in one piece every one is.
    #[test]
    fn heads_that_come_again_are_read_the_same(
        several in prop::collection::vec(valid(), 1..4),
        order in prop::collection::vec(0usize..4, 1..12),
        size in 1usize..9,
    ) {
        let no_body = |b: &Vec<u8>| matches!(&b[9..12], b"204" | b"304");
        prop_assume!(!several.iter().any(no_body));
        let bytes: Vec<u8> = order.iter().flat_map(|i| several[i % several.len()].clone()).collect();
        prop_assert_eq!(feed_in(&bytes, bytes.len(), false), feed_in(&bytes, size, false));
    }

    #[test]
    fn heads_agree_with_httparse(bytes in valid()) {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut oracle = httparse::Response::new(&mut headers);
        prop_assert!(oracle.parse(&bytes).unwrap().is_complete());
        let code = oracle.code.unwrap().to_string();
        prop_assert!(feed_in(&bytes, bytes.len(), false).starts_with(&code));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1usize..20) {
        feed_in(&bytes, size, false);
    }

    #[test]
    fn no_bytes_after_a_head_panic(tail in "[ -~\r\n]{0,200}", size in 1usize..20) {
        feed_in(format!("HTTP/1.1 200 OK\r\n{tail}").as_bytes(), size, false);
        feed_in(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{tail}").as_bytes(), size, false);
    }
}
