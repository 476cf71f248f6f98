//! A connection of HTTP/2 that has carried its first calls allocates nothing for the next, captured ones and bodies
//! included.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod sys;

use prony_load::h2::Http2;
use prony_load::protocol::{Captured, Encoded, Message, Protocol};

/// Calls at once.
const DEPTH: u32 = 10;

fn frame(into: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    into.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    into.extend_from_slice(&[kind, flags]);
    into.extend_from_slice(&stream.to_be_bytes());
    into.extend_from_slice(payload);
}

#[test]
fn calls_do_not_allocate() {
    let message = Message {
        method: "POST".into(),
        path: "/p".into(),
        authority: "a".into(),
        headers: vec![("X-A".into(), "b".into())],
        body: vec![b'x'; 300],
        ..Message::default()
    };
    let http2 = Http2::new(DEPTH, &message);
    let (mut link, mut out, mut answers) = (http2.link(), Vec::new(), Vec::new());
    let (mut request, mut sent) = (Encoded::default(), Vec::new());
    let mut spare: Vec<Box<Captured>> = (0..DEPTH).map(|_| Box::default()).collect();
    // Windows so small that every body waits; a status, an entry for the table, one from it, a length in Huffman's
    // code.
    frame(&mut sent, 4, 0, 0, &[0, 4, 0, 0, 0, 100]);
    http2.feed(&mut link, &sent, &mut out, &mut answers).unwrap();
    let head = *b"\x88\x40\x01a\x01b\xbe\x5c\x81\x67";
    let mut allocations = Vec::new();
    for round in 0..600 {
        let before = sys::allocations_of_thread();
        out.clear();
        sent.clear();
        for call in 0..DEPTH {
            http2.encode(&message, &mut request);
            http2.begin(&mut link, call, &request, spare.pop(), &mut out);
            let stream = 2 * (round * DEPTH + call) + 1;
            frame(&mut sent, 8, 0, stream, &1000u32.to_be_bytes());
            frame(&mut sent, 8, 0, 0, &300u32.to_be_bytes());
            frame(&mut sent, 1, 4, stream, &head);
            frame(&mut sent, 0, 1, stream, b"abc");
        }
        // In pieces, so that frames are kept until they are whole.
        for piece in sent.chunks(17) {
            http2.feed(&mut link, piece, &mut out, &mut answers).unwrap();
        }
        assert_eq!(answers.len(), DEPTH as usize);
        for answer in answers.drain(..) {
            assert_eq!(answer.status, Some(200));
            let mut captured = answer.captured.unwrap();
            assert_eq!(
                (&captured.head[..], &captured.body[..]),
                (&b"a: b\r\na: b\r\ncontent-length: 3\r\n"[..], &b"abc"[..])
            );
            captured.clear();
            spare.push(captured);
        }
        allocations.push(sys::allocations_of_thread() - before);
    }
    // The header table has its full size when it has been filled and once moved to the front, after some 150 rounds.
    assert!(allocations[0] > 0, "the first calls make what the next use again");
    assert_eq!(allocations[300..].iter().sum::<u64>(), 0, "{allocations:?}");
}
