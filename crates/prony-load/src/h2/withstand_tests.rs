//! Tests of a connection against arbitrary bytes, while calls begin, are captured, and are given up.

use super::Http2;
use super::frames::{flag, kind, push_head, setting};
use crate::protocol::{Encoded, Message, Protocol};
use proptest::prelude::*;

/// Calls at once.
const DEPTH: u32 = 5;
/// More than a connection may keep: a frame and a block of the server, each in a buffer that doubled, and our own
/// bodies.
const MEMORY_BYTES_MAX: usize = 768 * 1024;

/// Drives a connection with what a hostile server might send, and checks what must hold whatever that is. The first
/// four bytes choose the pieces in which the others arrive, which calls are captured and which given up, and how long
/// bodies are. A new call begins for each that ends. Gives how many calls ended.
fn withstand(bytes: &[u8]) -> usize {
    let Some(([piece, captured, cancelled, body], mut rest)) = bytes.split_first_chunk() else { return 0 };
    let message = Message { authority: "a".into(), path: "/".into(), method: "GET".into(), ..Message::default() };
    let http2 = Http2::new(DEPTH, &message);
    let (mut plain, mut upload) = (Encoded::default(), Encoded::default());
    http2.encode(&message, &mut plain);
    http2.encode(&Message { body: vec![b'x'; usize::from(*body) * 400], ..message }, &mut upload);
    let (mut link, mut out, mut answers) = (http2.link(), Vec::new(), Vec::new());
    http2.open(&mut link, &mut out);
    let (mut begun, mut ended) = (0u32, 0u32);
    loop {
        while http2.has_room(&link) {
            assert!(begun - ended < DEPTH, "room for more calls than may be in flight");
            let request = if begun % 3 == 2 { &upload } else { &plain };
            let capture = (begun % 8 < u32::from(captured % 9)).then(Box::default);
            http2.begin(&mut link, begun, request, capture, &mut out);
            begun += 1;
        }
        let (part, after) = rest.split_at(rest.len().min(1 + usize::from(*piece) * usize::from(*piece)));
        rest = after;
        out.clear();
        let result = http2.feed(&mut link, part, &mut out, &mut answers);
        for answer in answers.drain(..) {
            assert!(answer.call < begun, "an answer to a call that never began");
            assert!(answer.status.is_none_or(|status| (200..1000).contains(&status)), "{answer:?}");
            ended += 1;
        }
        assert!(ended <= begun, "more answers than calls");
        if *cancelled > 128 && begun % 7 == 3 {
            ended += u32::from(link.cancel(begun - 1, &mut out));
        }
        let kept = link.memory_bytes();
        assert!(kept <= MEMORY_BYTES_MAX && out.len() <= MEMORY_BYTES_MAX, "{kept} bytes kept, {} to send", out.len());
        if result.is_err() || rest.is_empty() {
            return ended as usize;
        }
    }
}

/// A frame that may be right, wrong in one thing, or garbage.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        Just(vec![0x88]),
        Just(vec![0x88, 0x5c, 1, b'3']),
        Just(vec![0x08, 3, b'2', b'0', b'4', 0x40, 1, b'a', 1, b'b', 0xbe]),
        Just(vec![0, 0, 0, 8]),
        Just(vec![0, 0, 0, 9, 0, 0, 0, 0]),
        Just(vec![0, setting::INITIAL_WINDOW_SIZE as u8, 0, 1, 0, 0]),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let kinds = prop_oneof![4 => Just(kind::HEADERS), 3 => Just(kind::DATA), 3 => 0u8..11];
    let flags = prop_oneof![Just(flag::END_HEADERS), Just(flag::END_HEADERS | flag::END_STREAM), Just(0), any::<u8>()];
    let stream = prop_oneof![6 => (0u32..6).prop_map(|n| 2 * n + 1), 2 => Just(0), 1 => any::<u32>()];
    (kinds, flags, stream, payload).prop_map(|(kind, flags, stream, payload)| {
        let mut bytes = Vec::new();
        push_head(&mut bytes, payload.len(), kind, flags, stream);
        bytes.extend(payload);
        bytes
    })
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        withstand(&bytes);
    }

    #[test]
    fn random_frames_do_no_harm(seed in any::<[u8; 4]>(), frames in prop::collection::vec(frame(), 0..60)) {
        let mut bytes = seed.to_vec();
        push_head(&mut bytes, 0, kind::SETTINGS, 0, 0);
        bytes.extend(frames.concat());
        withstand(&bytes);
    }
}

#[test]
fn it_gets_as_far_as_answers() {
    let mut bytes = vec![200, 5, 0, 0];
    push_head(&mut bytes, 0, kind::SETTINGS, 0, 0);
    for stream in [1, 3, 5, 7, 9, 11, 13] {
        push_head(&mut bytes, 1, kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream);
        bytes.push(0x88);
    }
    // The first five arrive in one piece, before there are others to answer.
    assert_eq!(withstand(&bytes), 5);
    bytes[0] = 1;
    assert_eq!(withstand(&bytes), 7);
}
