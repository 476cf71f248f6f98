//! Frames of HTTP/2 (RFC 9113) as a server writes them, right or wrong: every field is the caller's.
//!
//! Header blocks are literals without Huffman coding and without the dynamic table (RFC 7541, 6.2.2), so that they read plainly.

#![allow(dead_code, reason = "not every test binary needs every frame")]

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// END_STREAM of DATA and HEADERS, ACK of SETTINGS and PING.
pub const END: u8 = 0x1;
pub const END_HEADERS: u8 = 0x4;

/// One frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    frame_of_length(payload.len() as u32, kind, flags, stream, payload)
}

/// One frame that claims a length.
pub fn frame_of_length(length: u32, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, l1, l2, l3] = length.to_be_bytes();
    let mut bytes = vec![l1, l2, l3, kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// SETTINGS with these identifiers and values.
pub fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> =
        pairs.iter().flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// A header line of a header block. Names and values of up to 126 bytes.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

/// `:status: 200` from the static table.
pub const STATUS_200: u8 = 0x88;

/// Head of an answer with status 200.
pub fn head(stream: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &[STATUS_200])
}

/// A whole answer: status 200, some body.
pub fn answer(stream: u32, body: &[u8]) -> Vec<u8> {
    [head(stream, 0), frame(DATA, END, stream, body)].concat()
}

/// RST_STREAM with a code (RFC 9113, 7).
pub fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// GOAWAY: the last stream that is served, and why.
pub fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// WINDOW_UPDATE.
pub fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}
