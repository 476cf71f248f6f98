//! Header blocks of requests (RFC 7541, RFC 9113 8.3), written once per request and copied to every connection.
//!
//! What all requests have in common (authority, the workload's headers) is kept out of the written block: it stands in
//! three forms in [`Common`], and each connection puts in the one that its server's header table asks for. Texts are
//! plain, not in Huffman's code: shorter requests would cost the server a decoding and win nothing on a link that a
//! generator can use. Invariant: only a connection's first form ever adds to a table, so the indexes of the third are
//! right on each of them.

use super::table::{ENTRY_BYTES, STATIC, STATIC_COUNT, TABLE_BYTES_MAX};
use crate::digits::Digits;
use crate::protocol::{Encoded, Message};

/// Bytes before the block in [`Encoded::bytes`]: where the common fields belong; 0: the block has all fields itself.
const SPLIT_BYTES: usize = 2;

/// How the first byte of a field says what the server shall do with it (RFC 7541, 6.2): the bits before the index of
/// the name, and how many bits that index has.
#[derive(Clone, Copy)]
struct Form {
    first: u8,
    index_bits: u32,
}

const ADDED: Form = Form { first: 0x40, index_bits: 6 };
const PLAIN: Form = Form { first: 0, index_bits: 4 };

/// How a connection says what its requests have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Say {
    /// In full, without a trace in the server's table.
    Plain,
    /// In full, and the server keeps it.
    Added,
    /// By the indexes of what it keeps.
    Indexed,
}

/// The fields that all requests have in common.
#[derive(Debug, Default)]
pub struct Common {
    authority: String,
    headers: Vec<(String, String)>,
    plain: Vec<u8>,
    added: Vec<u8>,
    indexed: Vec<u8>,
}

impl Common {
    /// Authority and headers of this message, as many as fit in a table.
    pub fn of(message: &Message) -> Self {
        let mut common = Self { authority: authority(message).to_string(), ..Self::default() };
        let mut bytes = cost(":authority", &common.authority);
        for (name, value) in message.headers.iter().filter(|(name, value)| is_sent(name, value)) {
            bytes += cost(name, value);
            if bytes > TABLE_BYTES_MAX {
                break;
            }
            common.headers.push((name.to_ascii_lowercase(), value.clone()));
        }
        let fields: Vec<(&str, &str)> = std::iter::once((":authority", common.authority.as_str()))
            .chain(common.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))
            .collect();
        let added = fields.iter().filter(|field| !STATIC.contains(field)).count();
        let (mut plain, mut full, mut indexed) = (Vec::new(), Vec::new(), Vec::new());
        let mut before = 0;
        for (name, value) in &fields {
            push_field(&mut plain, PLAIN, name, value);
            push_field(&mut full, ADDED, name, value);
            if STATIC.contains(&(*name, *value)) {
                push_field(&mut indexed, PLAIN, name, value);
            } else {
                // The newest entry has the lowest index.
                push_integer(&mut indexed, 0x80, 7, STATIC_COUNT + added - before);
                before += 1;
            }
        }
        Self { plain, added: full, indexed, ..common }
    }

    /// Writes block and body of a request.
    pub fn encode(&self, message: &Message, into: &mut Encoded) {
        let out = &mut into.bytes;
        out.clear();
        out.extend_from_slice(&[0; SPLIT_BYTES]);
        push_field(out, PLAIN, ":method", &message.method);
        push_field(out, PLAIN, ":scheme", if message.secure { "https" } else { "http" });
        push_field(out, PLAIN, ":path", &message.path);
        let fields = message.headers.iter().filter(|(name, value)| is_sent(name, value));
        let own = self.without_common(authority(message), fields.clone());
        match (own, u16::try_from(out.len())) {
            (Some(own), Ok(split)) => {
                out[..SPLIT_BYTES].copy_from_slice(&split.to_be_bytes());
                own.for_each(|(name, value)| push_field(out, PLAIN, name, value));
            }
            (None, _) | (_, Err(_)) => {
                push_field(out, PLAIN, ":authority", authority(message));
                fields.for_each(|(name, value)| push_field(out, PLAIN, name, value));
            }
        }
        if message.wants_length()
            && !message.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        {
            push_length(out, message.body.len());
        }
        into.body_at = out.len();
        out.extend_from_slice(&message.body);
        into.head = message.method == "HEAD";
    }

    /// Appends the block of a request.
    #[inline]
    pub fn push(&self, request: &Encoded, say: Say, out: &mut Vec<u8>) {
        let written = &request.bytes[..request.body_at];
        let split = usize::from(u16::from_be_bytes([written[0], written[1]]));
        if split == 0 {
            out.extend_from_slice(&written[SPLIT_BYTES..]);
            return;
        }
        out.extend_from_slice(&written[SPLIT_BYTES..split]);
        out.extend_from_slice(match say {
            Say::Plain => &self.plain,
            Say::Added => &self.added,
            Say::Indexed => &self.indexed,
        });
        out.extend_from_slice(&written[split..]);
    }

    /// The fields after the common ones; none: these are not the first.
    fn without_common<'m, I>(&self, authority: &str, mut fields: I) -> Option<I>
    where
        I: Iterator<Item = &'m (String, String)>,
    {
        let same = authority == self.authority
            && self.headers.iter().all(|(name, value)| {
                fields.next().is_some_and(|(own, text)| own.eq_ignore_ascii_case(name) && text == value)
            });
        same.then_some(fields)
    }
}

/// Whether the common fields have a place in this block, so that what a connection says matters.
#[inline]
pub fn has_common(request: &Encoded) -> bool {
    request.bytes[..SPLIT_BYTES] != [0; SPLIT_BYTES]
}

/// Whether a header is sent: HTTP/2 has its own way for the authority and for the connection (RFC 9113, 8.2.2 and
/// 8.3.1).
fn is_sent(name: &str, value: &str) -> bool {
    const NOT: [&str; 6] = ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let trailers = || value.eq_ignore_ascii_case("trailers");
    !NOT.iter().any(|not| name.eq_ignore_ascii_case(not)) && (!name.eq_ignore_ascii_case("te") || trailers())
}

fn authority(message: &Message) -> &str {
    let host = message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    host.map_or(&message.authority, |(_, value)| value)
}

fn cost(name: &str, value: &str) -> usize {
    name.len() + value.len() + ENTRY_BYTES
}

/// Appends a field: as a whole when the static table has it, else in this form.
fn push_field(out: &mut Vec<u8>, form: Form, name: &str, value: &str) {
    let mut of_name = 0;
    for (at, (known, text)) in STATIC.iter().enumerate() {
        if known.eq_ignore_ascii_case(name) {
            if *text == value {
                return push_integer(out, 0x80, 7, at + 1);
            }
            of_name = if of_name == 0 { at + 1 } else { of_name };
        }
    }
    push_integer(out, form.first, form.index_bits, of_name);
    if of_name == 0 {
        push_integer(out, 0, 7, name.len());
        out.extend(name.bytes().map(|b| b.to_ascii_lowercase()));
    }
    push_integer(out, 0, 7, value.len());
    out.extend_from_slice(value.as_bytes());
}

/// Appends `content-length`.
fn push_length(out: &mut Vec<u8>, length: usize) {
    const CONTENT_LENGTH: usize = 28;
    push_integer(out, PLAIN.first, PLAIN.index_bits, CONTENT_LENGTH);
    let digits = Digits::new(length as u64);
    push_integer(out, 0, 7, digits.as_str().len());
    out.extend_from_slice(digits.as_str().as_bytes());
}

/// Appends an integer behind the bits of `first` (RFC 7541, 5.1).
fn push_integer(out: &mut Vec<u8>, first: u8, bits: u32, value: usize) {
    let mask = (1usize << bits) - 1;
    if value < mask {
        return out.push(first | value as u8);
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
#[path = "block_tests.rs"]
mod tests;
