//! Tests of one connection against frames written by hand: answers, windows, refusals, floods; in one piece and in any
//! pieces.

use super::super::block::Say;
use super::super::frames::{WINDOW, WINDOW_INITIAL, push_head, setting};
use super::*;
use crate::protocol::Message;
use expect_test::{Expect, expect};
use proptest::prelude::*;

const OK: &[u8] = &[0x88];
const BOTH: u8 = flag::END_HEADERS | flag::END_STREAM;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_head(&mut bytes, payload.len(), kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flags, stream, block)
}

fn data(flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    frame(kind::DATA, flags, stream, body)
}

fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let pairs = values.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(kind::SETTINGS, 0, 0, &pairs.collect::<Vec<u8>>())
}

fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

fn goaway(last: u32) -> Vec<u8> {
    frame(kind::GOAWAY, 0, 0, &[&last.to_be_bytes()[..], &[0; 4]].concat())
}

/// A connection with its buffers, and the requests that tests send.
struct Client {
    link: Link,
    common: Common,
    out: Vec<u8>,
    answers: Vec<Answer>,
    calls: u32,
}

impl Client {
    fn new(depth: u32) -> Self {
        Self { link: Link::new(depth), common: Common::default(), out: Vec::new(), answers: Vec::new(), calls: 0 }
    }

    fn begin(&mut self, method: &str, body: &[u8], capture: bool) {
        let (method, body) = (method.to_string(), body.to_vec());
        let message = Message { method, path: "/".into(), authority: "a".into(), body, ..Message::default() };
        let mut request = Encoded::default();
        self.common.encode(&message, &mut request);
        let captured = capture.then(Box::default);
        self.link.begin(self.calls, &request, &self.common, captured, &mut self.out);
        self.calls += 1;
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<After, Malformed> {
        self.link.feed(bytes, &mut self.out, &mut self.answers)
    }

    /// Feeds in pieces of `size`; gives all that came out as text.
    fn feed_in(&mut self, bytes: &[u8], size: usize) -> String {
        let mut last = Ok(After::Open);
        for piece in bytes.chunks(size.max(1)) {
            last = self.feed(piece);
            if last.is_err() {
                break;
            }
        }
        let mut seen = String::new();
        for answer in self.answers.drain(..) {
            let status = answer.status.map_or("none".to_string(), |status| status.to_string());
            seen += &format!("call {}: {status}\n", answer.call);
            if let Some(captured) = answer.captured {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", " | ");
                seen += &format!("  {:?} {:?}\n", text(&captured.head), text(&captured.body));
            }
        }
        seen += &said(&std::mem::take(&mut self.out));
        seen += &match last {
            Ok(after) => format!("{after:?}"),
            Err(Malformed(why)) => why.to_string(),
        };
        seen
    }
}

/// The frames that a client wrote.
fn said(mut out: &[u8]) -> String {
    let mut text = String::new();
    while let Some((head, rest)) = out.split_first_chunk() {
        let head = Head::read(head);
        let (payload, after) = rest.split_at(head.length);
        let number = || payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        text += &match head.kind {
            kind::HEADERS => format!("HEADERS {} flags {:x}\n", head.stream, head.flags),
            kind::CONTINUATION => format!("CONTINUATION {} flags {:x} {}\n", head.stream, head.flags, head.length),
            kind::DATA => {
                format!("DATA {} {}{}\n", head.stream, head.length, if head.flags == 1 { " end" } else { "" })
            }
            kind::SETTINGS => "SETTINGS ack\n".to_string(),
            kind::PING => format!("PING ack {payload:?}\n"),
            kind::RST_STREAM => format!("RST_STREAM {} code {}\n", head.stream, number()),
            kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {} +{}\n", head.stream, number()),
            other => format!("{other}?\n"),
        };
        out = after;
    }
    text
}

/// Begins some captured calls, then feeds these frames behind SETTINGS, in pieces of every size.
fn check(calls: u32, frames: &[Vec<u8>], want: Expect) {
    let bytes = [&[settings(&[])][..], frames].concat().concat();
    let run = |size| {
        let mut client = Client::new(100);
        (0..calls).for_each(|_| client.begin("GET", b"", true));
        client.out.clear();
        client.feed_in(&bytes, size)
    };
    let whole = run(bytes.len());
    want.assert_eq(&whole);
    let sizes = (1..bytes.len()).filter(|size| *size < 40 || bytes.len() < 400 || size % 97 == 0);
    for size in sizes {
        assert_eq!(run(size), whole, "in pieces of {size}");
    }
}

#[test]
fn answers_come_in_any_order_and_pieces() {
    let length = |n: u8| [0x88, 0x5c, 1, b'0' + n];
    check(
        3,
        &[
            headers(flag::END_HEADERS, 5, &length(5)),
            data(0, 5, b"hel"),
            headers(BOTH, 1, &[0x8d, 0, 1, b'a', 1, b'b']),
            data(flag::END_STREAM, 5, b"lo"),
            headers(flag::END_HEADERS, 3, OK),
            data(flag::END_STREAM, 3, b""),
        ],
        expect![[r#"
            call 0: 404
              "a: b | " ""
            call 2: 200
              "content-length: 5 | " "hello"
            call 1: 200
              "" ""
            SETTINGS ack
            Open"#]],
    );
}

#[test]
fn interim_answers_trailers_padding_and_continuations_are_understood() {
    let padded = [&[3u8][..], b"body", &[0; 3]].concat();
    let priority = [&[2u8, 0, 0, 0, 0, 9][..], &[0x88, 0, 1, b'a'], &[0, 0]].concat();
    check(
        2,
        &[
            headers(flag::END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'3', 0, 1, b'x', 1, b'y']),
            headers(flag::PADDED | flag::PRIORITY, 1, &priority),
            frame(kind::CONTINUATION, 0, 1, &[1]),
            frame(kind::CONTINUATION, 0, 1, &[]),
            frame(kind::CONTINUATION, flag::END_HEADERS, 1, b"b"),
            data(flag::PADDED, 1, &padded),
            data(flag::PADDED, 1, &[0]),
            headers(BOTH, 1, &[0, 1, b't', 1, b'u']),
            headers(flag::END_HEADERS, 3, OK),
            data(flag::PADDED | flag::END_STREAM, 3, &[1, 0]),
        ],
        expect![[r#"
            call 0: 200
              "a: b | " "body"
            call 1: 200
              "" ""
            SETTINGS ack
            Open"#]],
    );
}

#[test]
fn the_rest_of_the_protocol_is_answered_or_ignored() {
    check(
        1,
        &[
            frame(kind::PING, 0, 0, b"12345678"),
            frame(kind::PING, flag::ACK, 0, b"12345678"),
            frame(kind::SETTINGS, flag::ACK, 0, b""),
            settings(&[(setting::MAX_HEADER_LIST_SIZE, 9), (99, 1), (setting::ENABLE_PUSH, 0)]),
            frame(kind::PRIORITY, 0, 1, &[0; 5]),
            frame(10, 0xff, 77, b"altsvc"),
            window_update(1, 5),
            headers(BOTH, 1, OK),
            window_update(1, 5),
            frame(kind::RST_STREAM, 0, 1, &[0; 4]),
        ],
        expect![[r#"
            call 0: 200
              "" ""
            SETTINGS ack
            PING ack [49, 50, 51, 52, 53, 54, 55, 56]
            SETTINGS ack
            Open"#]],
    );
}

#[test]
fn an_answer_of_another_length_than_promised_is_none() {
    let begun = |bytes: &[u8]| [headers(flag::END_HEADERS, 1, &[0x88, 0x5c, 1, b'5']), data(1, 1, bytes)].concat();
    let none = "call 0: none\nSETTINGS ack\nOpen";
    let status = |n: u16| format!("call 0: {n}\nSETTINGS ack\nOpen");
    let run = |method: &str, frames: Vec<u8>| {
        let mut client = Client::new(1);
        client.begin(method, b"", false);
        client.out.clear();
        client.feed_in(&[settings(&[]), frames].concat(), 7)
    };
    assert_eq!(run("GET", begun(b"12345")), status(200));
    assert_eq!(run("GET", begun(b"1234")), none);
    assert_eq!(run("GET", begun(b"123456")), none);
    assert_eq!(run("GET", headers(BOTH, 1, &[0x88, 0x5c, 1, b'5'])), none);
    assert_eq!(run("HEAD", headers(BOTH, 1, &[0x88, 0x5c, 1, b'5'])), status(200));
    assert_eq!(run("HEAD", begun(b"12345")), none);
    assert_eq!(run("GET", headers(BOTH, 1, &[0x8b, 0x5c, 1, b'5'])), status(304));
}

#[test]
fn resets_and_goaway_end_calls_without_a_status() {
    check(
        4,
        &[
            headers(flag::END_HEADERS, 3, OK),
            frame(kind::RST_STREAM, 0, 3, &[0, 0, 0, 2]),
            goaway(MAX_31_BITS),
            goaway(5),
            headers(BOTH, 1, OK),
            // Was on its way when the stream was refused.
            data(flag::END_STREAM, 7, b"x"),
        ],
        expect![[r#"
            call 1: none
              "" ""
            call 3: none
              "" ""
            call 0: 200
              "" ""
            SETTINGS ack
            Draining"#]],
    );
    check(
        1,
        &[goaway(1), headers(BOTH, 1, OK)],
        expect![[r#"
            call 0: 200
              "" ""
            SETTINGS ack
            Ended"#]],
    );
}

#[test]
fn what_the_protocol_forbids_is_malformed() {
    let first = |bytes: Vec<u8>| {
        let mut client = Client::new(1);
        client.begin("GET", b"", false);
        client.feed(&bytes).unwrap_err().0
    };
    assert_eq!(
        first(b"HTTP/1.1 400 Bad Request\r\n".to_vec()),
        "the server answers in HTTP/1: it takes no HTTP/2 on this port"
    );
    assert_eq!(first(headers(BOTH, 1, OK)), "the first frame is not SETTINGS");
    let after = |frames: &[Vec<u8>]| first([&[settings(&[])][..], frames].concat().concat());
    let one = |frame: Vec<u8>| after(&[frame]);
    assert_eq!(one(data(0, 1, &[0; PAYLOAD_BYTES_MAX + 1])), "a frame is longer than the 16 KiB that it may be");
    assert_eq!(one(data(1, 1, b"x")), "a body comes before its head");
    for stream in [0, 2, 3] {
        assert_eq!(one(headers(BOTH, stream, OK)), "a frame for a stream that was never opened");
        assert_eq!(one(data(1, stream, b"x")), "a frame for a stream that was never opened");
        assert_eq!(one(frame(kind::RST_STREAM, 0, stream, &[0; 4])), "a frame for a stream that was never opened");
    }
    assert_eq!(one(frame(kind::CONTINUATION, 4, 1, OK)), "a CONTINUATION frame continues nothing");
    let open = headers(0, 1, OK);
    let interrupted = "a header block is interrupted by another frame";
    assert_eq!(after(&[open.clone(), frame(kind::PING, 0, 0, &[0; 8])]), interrupted);
    assert_eq!(after(&[open, frame(kind::CONTINUATION, 4, 3, b"")]), interrupted);
    assert_eq!(one(headers(BOTH | flag::PADDED, 1, &[2, 0x88])), "a frame is padded beyond its length");
    assert_eq!(one(headers(BOTH | flag::PADDED, 1, &[])), "a frame is padded beyond its length");
    assert_eq!(one(headers(BOTH | flag::PRIORITY, 1, OK)), "a HEADERS frame is too short for its priority");
    assert_eq!(one(headers(BOTH, 1, &[])), "a head without :status");
    assert_eq!(one(headers(BOTH, 1, &[8, 3, b'1', b'0', b'3'])), "an interim answer ends the stream");
    let switch = headers(flag::END_HEADERS, 1, &[8, 3, b'1', b'0', b'1']);
    assert_eq!(one(switch), "the server switches protocols, which HTTP/2 cannot");
    let head = headers(flag::END_HEADERS, 1, OK);
    assert_eq!(after(&[head.clone(), head]), "a second head comes before the end of the body");
    let whole = headers(BOTH, 1, OK);
    assert_eq!(after(&[whole.clone(), whole.clone()]), "a frame for a stream that has ended");
    assert_eq!(after(&[whole, data(1, 1, b"x")]), "a frame for a stream that has ended");
    assert_eq!(one(frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])), "the server pushes, which was forbidden");
}

#[test]
fn control_frames_of_a_wrong_form_are_malformed() {
    let mut client = Client::new(1);
    client.begin("GET", b"", false);
    client.feed(&settings(&[])).unwrap();
    let wrong = [
        frame(kind::SETTINGS, 0, 0, &[0; 5]),
        frame(kind::SETTINGS, 0, 1, &[]),
        frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
        settings(&[(setting::ENABLE_PUSH, 1)]),
        settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]),
        settings(&[(setting::MAX_FRAME_SIZE, 16383)]),
        settings(&[(setting::MAX_FRAME_SIZE, 1 << 24)]),
        frame(kind::PING, 0, 0, &[0; 7]),
        frame(kind::PING, 0, 1, &[0; 8]),
        frame(kind::GOAWAY, 0, 0, &[0; 7]),
        frame(kind::GOAWAY, 0, 1, &[0; 8]),
        frame(kind::RST_STREAM, 0, 1, &[0; 3]),
        frame(kind::PRIORITY, 0, 1, &[0; 4]),
        frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]),
        window_update(0, 0),
        window_update(1, 0),
        window_update(0, MAX_31_BITS - WINDOW_INITIAL + 1),
        window_update(1, MAX_31_BITS - WINDOW_INITIAL + 1),
        window_update(3, 1),
        [window_update(1, 9), settings(&[(setting::INITIAL_WINDOW_SIZE, MAX_31_BITS)])].concat(),
    ];
    for bytes in wrong {
        let mut client = Client::new(1);
        client.begin("GET", b"", false);
        client.feed(&settings(&[])).unwrap();
        assert!(client.feed(&bytes).is_err(), "{bytes:?}");
    }
    // The largest that are right.
    client.feed(&window_update(0, MAX_31_BITS - WINDOW_INITIAL)).unwrap();
    client
        .feed(&settings(&[(setting::INITIAL_WINDOW_SIZE, MAX_31_BITS), (setting::MAX_FRAME_SIZE, (1 << 24) - 1)]))
        .unwrap();
}

#[test]
fn bodies_wait_for_both_windows_and_are_cut_into_frames() {
    let mut client = Client::new(9);
    client.begin("POST", &[b'x'; 40_000], false);
    client.begin("POST", &[b'x'; 40_000], false);
    client.begin("POST", b"late", false);
    client.begin("GET", b"", false);
    let mut check = |bytes: Vec<u8>, want: Expect| want.assert_eq(&client.feed_in(&bytes, 5));
    check(
        settings(&[]),
        expect![[r#"
            HEADERS 1 flags 4
            DATA 1 16384
            DATA 1 16384
            DATA 1 7232 end
            HEADERS 3 flags 4
            DATA 3 16384
            DATA 3 9151
            HEADERS 5 flags 4
            HEADERS 7 flags 5
            SETTINGS ack
            Open"#]],
    );
    check(
        [window_update(3, 1_000_000), window_update(0, 65), settings(&[(setting::MAX_FRAME_SIZE, 20_000)])].concat(),
        expect![[r#"
            DATA 3 65
            SETTINGS ack
            Open"#]],
    );
    // The windows of streams shrink below nothing; what a stream was given by itself stays.
    check(
        [settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]), window_update(0, 100_000)].concat(),
        expect![[r#"
            SETTINGS ack
            DATA 3 14400 end
            Open"#]],
    );
    check(
        [window_update(5, 3), settings(&[(setting::INITIAL_WINDOW_SIZE, 1)])].concat(),
        expect![[r#"
            DATA 5 3
            SETTINGS ack
            DATA 5 1 end
            Open"#]],
    );
    assert_eq!(client.link.waiting.len(), 0);
}

#[test]
fn a_body_that_waits_for_its_own_window_holds_up_no_other() {
    let mut client = Client::new(9);
    client.feed(&settings(&[(setting::INITIAL_WINDOW_SIZE, 0)])).unwrap();
    (0..3).for_each(|_| client.begin("POST", b"12345", false));
    client.out.clear();
    assert_eq!(client.feed_in(&window_update(3, 5), 99), "DATA 3 5 end\nOpen");
    assert_eq!(client.feed_in(&window_update(5, 2), 99), "DATA 5 2\nOpen");
}

#[test]
fn a_slow_answer_is_found_after_many_others() {
    let mut client = Client::new(2);
    client.feed(&settings(&[])).unwrap();
    client.begin("GET", b"", false);
    for stream in 1..100 {
        client.begin("GET", b"", false);
        client.feed(&headers(BOTH, 2 * stream + 1, OK)).unwrap();
    }
    assert_eq!(client.answers.len(), 99);
    client.begin("GET", b"", false);
    client.feed(&headers(BOTH, 1, OK)).unwrap();
    assert_eq!(client.answers.last().map(|answer| (answer.call, answer.status)), Some((0, Some(200))));
}

#[test]
fn an_early_answer_or_a_cancel_ends_a_body_that_waits() {
    let mut client = Client::new(9);
    client.feed(&settings(&[(setting::INITIAL_WINDOW_SIZE, 1)])).unwrap();
    client.begin("POST", b"12345", false);
    client.begin("POST", b"12345", false);
    client.out.clear();
    expect![[r#"
        call 0: 413
        RST_STREAM 1 code 8
        Open"#]]
    .assert_eq(&client.feed_in(&headers(BOTH, 1, &[8, 3, b'4', b'1', b'3']), 4));
    assert!(client.link.cancel(1, &mut client.out));
    assert!(!client.link.cancel(1, &mut client.out) && !client.link.cancel(0, &mut client.out));
    assert_eq!(said(&client.out), "RST_STREAM 3 code 8\n");
    assert_eq!((client.link.waiting.len(), client.link.streams.in_flight()), (0, 0));
}

#[test]
fn a_cancelled_call_stays_silent_and_its_head_still_counts_for_the_table() {
    let mut client = Client::new(2);
    client.begin("GET", b"", true);
    client.begin("GET", b"", true);
    client.feed(&settings(&[])).unwrap();
    client.out.clear();
    let kept = [0x88, 0x40, 1, b'a', 1, b'b'];
    let frames = [headers(flag::END_HEADERS, 1, &kept), data(0, 1, b"x"), data(flag::END_STREAM, 1, b"yz")].concat();
    let cut = frames.len() - 1;
    client.link.cancel(0, &mut client.out);
    client.feed(&frames[..cut]).unwrap();
    client.feed(&frames[cut..]).unwrap();
    client.feed(&frame(kind::RST_STREAM, 0, 1, &[0; 4])).unwrap();
    expect![[r#"
        call 1: 200
          "a: b | " ""
        RST_STREAM 1 code 8
        Open"#]]
    .assert_eq(&client.feed_in(&headers(BOTH, 3, &[0x88, 0xbe]), 1));
}

#[test]
fn a_call_cancelled_within_its_body_takes_none_of_the_next() {
    let mut client = Client::new(1);
    client.begin("GET", b"", true);
    client.feed(&[settings(&[]), headers(flag::END_HEADERS, 1, OK)].concat()).unwrap();
    let body = data(flag::END_STREAM, 1, b"old body");
    client.feed(&body[..12]).unwrap();
    client.link.cancel(0, &mut client.out);
    client.begin("GET", b"", true);
    client.out.clear();
    let frames = [&body[12..], &headers(flag::END_HEADERS, 3, OK), &data(flag::END_STREAM, 3, b"new")].concat();
    assert_eq!(client.feed_in(&frames, 2), "call 1: 200\n  \"\" \"new\"\nOpen");
}

#[test]
fn windows_are_opened_again_in_large_steps() {
    let mut client = Client::new(2);
    client.begin("GET", b"", false);
    client.begin("GET", b"", false);
    client
        .feed(&[settings(&[]), headers(flag::END_HEADERS, 1, OK), headers(flag::END_HEADERS, 3, OK)].concat())
        .unwrap();
    client.out.clear();
    let full = data(0, 1, &[0; PAYLOAD_BYTES_MAX]);
    let half = (WINDOW / 2) as usize / PAYLOAD_BYTES_MAX;
    for _ in 1..half {
        client.feed(&full).unwrap();
    }
    assert!(client.out.is_empty());
    let size = WINDOW / 2;
    assert_eq!(client.feed_in(&full, 20_000), format!("WINDOW_UPDATE 0 +{size}\nWINDOW_UPDATE 1 +{size}\nOpen"));
    // The connection's window counts what all streams get; a stream that ends needs no window.
    for _ in 1..half {
        client.feed(&data(0, 3, &[0; PAYLOAD_BYTES_MAX])).unwrap();
    }
    let last = data(flag::END_STREAM, 3, &[0; PAYLOAD_BYTES_MAX]);
    assert_eq!(client.feed_in(&last, 20_000), format!("call 1: 200\nWINDOW_UPDATE 0 +{size}\nOpen"));
}

#[test]
fn room_is_what_both_sides_allow() {
    let mut client = Client::new(500);
    let room = |client: &mut Client| {
        let before = client.calls;
        while client.link.has_room(500) {
            client.begin("GET", b"", false);
        }
        client.calls - before
    };
    assert_eq!(room(&mut client), 100, "before the settings of the server came");
    client.feed(&settings(&[(setting::MAX_CONCURRENT_STREAMS, 102)])).unwrap();
    assert_eq!(room(&mut client), 2);
    client.feed(&settings(&[(setting::MAX_CONCURRENT_STREAMS, 50)])).unwrap();
    client.feed(&headers(BOTH, 1, OK)).unwrap();
    assert_eq!(room(&mut client), 0);
    client.feed(&settings(&[(setting::MAX_CONCURRENT_STREAMS, u32::MAX)])).unwrap();
    assert_eq!(room(&mut client), 399);
    client.feed(&headers(BOTH, 3, OK)).unwrap();
    client.feed(&goaway(MAX_31_BITS)).unwrap();
    assert_eq!(room(&mut client), 0, "none after GOAWAY");
}

#[test]
fn streams_run_out_after_2_to_the_30() {
    let mut client = Client::new(2);
    client.feed(&settings(&[])).unwrap();
    client.link.next = LAST_STREAM;
    client.begin("GET", b"", false);
    assert!(!client.link.has_room(2));
    assert_eq!(client.feed(&[]), Ok(After::Draining));
    assert_eq!(client.feed(&headers(BOTH, LAST_STREAM, OK)), Ok(After::Ended));
}

#[test]
fn floods_end_the_connection() {
    let flood = |frame: Vec<u8>, read_acks: bool| {
        let mut client = Client::new(1);
        client.begin("GET", b"", false);
        client.feed(&[settings(&[]), headers(flag::END_HEADERS, 1, OK)].concat()).unwrap();
        let mut count = 0;
        loop {
            if read_acks {
                client.out.clear();
            }
            if let Err(Malformed(why)) = client.feed(&frame) {
                assert!(client.link.memory_bytes() < 64 * 1024 && client.out.len() < 32 * 1024);
                return format!("{count}: {why}");
            }
            count += 1;
        }
    };
    let idle = "10000: a flood: 10,000 frames that carry nothing";
    for frame in [
        settings(&[]),
        frame(kind::PING, 0, 0, &[0; 8]),
        data(0, 1, b""),
        data(flag::PADDED, 1, &[3, 0, 0, 0]),
        window_update(0, 1),
        window_update(1, 1),
        frame(kind::PRIORITY, 0, 1, &[0; 5]),
        frame(200, 0, 0, b"?"),
        goaway(MAX_31_BITS),
    ] {
        assert_eq!(flood(frame, true), idle);
    }
    let unread = "999: a flood: 1,000 acknowledgements wait for the server to read them";
    assert_eq!(flood(settings(&[]), false), unread);
    assert_eq!(flood(frame(kind::PING, 0, 0, &[0; 8]), false), unread);
}

#[test]
fn header_floods_end_the_connection() {
    let run = |part: &[u8]| {
        let mut client = Client::new(1);
        client.begin("GET", b"", false);
        client.feed(&[settings(&[]), headers(0, 1, OK)].concat()).unwrap();
        let mut count = 0;
        while client.feed(&frame(kind::CONTINUATION, 0, 1, part)).is_ok() {
            count += 1;
        }
        assert!(client.link.memory_bytes() < 200 * 1024);
        count
    };
    assert_eq!(run(b""), 64);
    assert_eq!(run(&[0; PAYLOAD_BYTES_MAX]), 3);
    // Interim answers without end.
    let mut client = Client::new(1);
    client.begin("GET", b"", true);
    client.feed(&settings(&[])).unwrap();
    let interim = headers(flag::END_HEADERS, 1, &[8, 3, b'1', b'0', b'3', 0, 1, b'x', 1, b'y']);
    let mut count = 0;
    while client.feed(&interim).is_ok() {
        count += 1;
    }
    assert!((9_000..=10_000).contains(&count), "{count}");
}

#[test]
fn window_updates_for_a_large_body_are_no_flood() {
    let mut client = Client::new(1);
    client.feed(&settings(&[])).unwrap();
    client.begin("POST", &vec![b'x'; 20 << 20], false);
    // One for each KiB, twice: as many as that are twice the limit.
    for _ in 0..20 << 10 {
        client.feed(&[window_update(1, 1024), window_update(0, 1024)].concat()).unwrap();
        client.out.clear();
    }
}

#[test]
fn long_heads_of_requests_go_on_in_continuations() {
    let message = Message {
        headers: vec![("x-long".into(), "v".repeat(40_000))],
        method: "GET".into(),
        path: "/".into(),
        ..Message::default()
    };
    let mut client = Client::new(1);
    let mut request = Encoded::default();
    client.common.encode(&message, &mut request);
    client.link.begin(0, &request, &client.common, None, &mut client.out);
    expect![[r#"
        HEADERS 1 flags 1
        CONTINUATION 1 flags 0 16384
        CONTINUATION 1 flags 4 7247
    "#]]
    .assert_eq(&said(&client.out));
    let block: Vec<u8> =
        client.out.chunks(HEAD_BYTES + PAYLOAD_BYTES_MAX).flat_map(|frame| frame[HEAD_BYTES..].to_vec()).collect();
    let mut whole = Vec::new();
    client.common.push(&request, Say::Plain, &mut whole);
    assert_eq!(block, whole);
}

/// One step of a server that keeps to the protocol.
#[derive(Clone, Debug)]
enum Step {
    Head { stream: usize, is_last: bool },
    Body { stream: usize, body: Vec<u8>, is_last: bool },
    Reset { stream: usize },
    Ping,
    Settings { window: u32 },
    Window { bytes: u32 },
    Begin { body: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let body = prop::collection::vec(any::<u8>(), 0..50);
    prop_oneof![
        4 => (0usize..8, any::<bool>()).prop_map(|(stream, is_last)| Step::Head { stream, is_last }),
        4 => (0usize..8, body, any::<bool>()).prop_map(|(stream, body, is_last)| Step::Body { stream, body, is_last }),
        1 => (0usize..8).prop_map(|stream| Step::Reset { stream }),
        1 => Just(Step::Ping),
        1 => (0u32..5000).prop_map(|window| Step::Settings { window }),
        1 => (1u32..5000).prop_map(|bytes| Step::Window { bytes }),
        2 => (0usize..3000).prop_map(|body| Step::Begin { body }),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Begun,
    Head,
    Ended,
}

/// What such a server knows: its streams, and how each call must have ended.
#[derive(Default)]
struct Server {
    streams: Vec<Stage>,
    ended: Vec<(u32, Option<u16>)>,
}

impl Server {
    /// One of the streams that have not ended.
    fn pick(&self, nth: usize) -> Option<usize> {
        let open: Vec<usize> = (0..self.streams.len()).filter(|n| self.streams[*n] != Stage::Ended).collect();
        open.get(nth % open.len().max(1)).copied()
    }

    fn end(&mut self, stream: usize, status: Option<u16>) {
        self.streams[stream] = Stage::Ended;
        self.ended.push((stream as u32, status));
    }

    /// What it sends in this step.
    fn send(&mut self, step: &Step) -> Vec<u8> {
        let id = |stream: usize| 2 * stream as u32 + 1;
        let end = |is_last: bool| if is_last { flag::END_STREAM } else { 0 };
        match step {
            Step::Head { stream, is_last } => {
                let Some(n) = self.pick(*stream).filter(|n| self.streams[*n] == Stage::Begun) else { return vec![] };
                self.streams[n] = Stage::Head;
                if *is_last {
                    self.end(n, Some(200));
                }
                headers(flag::END_HEADERS | end(*is_last), id(n), &[0x88, 0x40, 1, b'a', 1, b'a' + n as u8 % 26])
            }
            Step::Body { stream, body, is_last } => {
                let Some(n) = self.pick(*stream).filter(|n| self.streams[*n] == Stage::Head) else { return vec![] };
                if *is_last {
                    self.end(n, Some(200));
                }
                match body.len() % 3 {
                    0 => data(flag::PADDED | end(*is_last), id(n), &[&[2], &body[..], &[0; 2]].concat()),
                    _ => data(end(*is_last), id(n), body),
                }
            }
            Step::Reset { stream } => {
                let Some(n) = self.pick(*stream) else { return vec![] };
                self.end(n, None);
                frame(kind::RST_STREAM, 0, id(n), &[0; 4])
            }
            Step::Ping => frame(kind::PING, 0, 0, b"12345678"),
            Step::Settings { window } => settings(&[(setting::INITIAL_WINDOW_SIZE, *window)]),
            Step::Window { bytes } => window_update(0, *bytes),
            Step::Begin { .. } => vec![],
        }
    }
}

proptest! {
    /// Whatever the pieces, the same comes out; and it is what the server meant.
    #[test]
    fn pieces_do_not_matter(
        steps in prop::collection::vec(step(), 0..60),
        cuts in prop::collection::vec(1usize..40, 1..30),
    ) {
        let (mut whole, mut cut, mut server) = (Client::new(8), Client::new(8), Server::default());
        for client in [&mut whole, &mut cut] {
            client.feed(&settings(&[])).unwrap();
        }
        for (nth, step) in steps.iter().enumerate() {
            if let Step::Begin { body } = step && whole.link.has_room(8) {
                server.streams.push(Stage::Begun);
                whole.begin("POST", &vec![b'x'; *body], nth % 2 == 0);
                cut.begin("POST", &vec![b'x'; *body], nth % 2 == 0);
            }
            let bytes = server.send(step);
            whole.feed(&bytes).unwrap();
            let (mut rest, mut sizes) = (&bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(sizes.next().map_or(1, |size| (*size).min(rest.len())));
                cut.feed(piece).unwrap();
                rest = after;
            }
        }
        prop_assert_eq!(&whole.out, &cut.out);
        let ended: Vec<_> = whole.answers.iter().map(|answer| (answer.call, answer.status)).collect();
        prop_assert_eq!(&ended, &server.ended);
        prop_assert_eq!(format!("{:?}", whole.answers), format!("{:?}", cut.answers));
    }
}
