//! Dumps over netlink: asks, collects the messages, splits attributes. Knows no protocol above that.
//!
//! Invariant: lengths in messages are checked before they are used; arbitrary bytes give no message instead of a panic.

use crate::sys;
use std::fs::File;
use std::io::{self, Read, Write};

const HEADER_BYTES: usize = 16;
const NLM_F_REQUEST_DUMP: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// One read. The kernel fills at most 32 KiB at a time (netlink_recvmsg, since 4.x).
const READ_BYTES: usize = 32 << 10;
/// A dump has an end. 2^16 reads are 2 GiB.
const READS_MAX: u32 = 1 << 16;

/// A netlink socket, opened at the first dump.
#[derive(Debug)]
pub(crate) struct Netlink {
    protocol: i32,
    socket: Option<File>,
    buffer: Vec<u8>,
}

impl Netlink {
    pub(crate) fn new(protocol: i32) -> Self {
        Self { protocol, socket: None, buffer: vec![0; READ_BYTES] }
    }

    /// Asks for everything of `kind` and calls `each` with the payload of every message. After an error the socket is
    /// opened anew.
    pub(crate) fn dump(&mut self, kind: u16, request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => sys::netlink_socket(self.protocol)?,
        };
        socket.write_all(&message(kind, request))?;
        for _ in 0..READS_MAX {
            let len = socket.read(&mut self.buffer)?;
            for (kind, payload) in messages(&self.buffer[..len]) {
                match kind {
                    NLMSG_DONE => {
                        self.socket = Some(socket);
                        return Ok(());
                    }
                    NLMSG_ERROR => return Err(error_of(payload)),
                    _ => each(payload),
                }
            }
        }
        Err(io::Error::other("a netlink dump did not end"))
    }
}

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let len = (HEADER_BYTES + payload.len()) as u32;
    let mut bytes = Vec::with_capacity(len as usize);
    bytes.extend(len.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST_DUMP.to_ne_bytes());
    bytes.extend([0; 8]); // Sequence and port: one request at a time needs neither.
    bytes.extend(payload);
    bytes
}

fn error_of(payload: &[u8]) -> io::Error {
    match u32_at(payload, 0).map(|code| (code as i32).wrapping_neg()) {
        Some(code) if code > 0 => io::Error::from_raw_os_error(code),
        _ => io::Error::other("netlink answered with an error that has no number"),
    }
}

/// Messages of a buffer: type and payload.
pub(crate) fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let kind = u16_at(rest, 4)?;
        let payload = rest.get(HEADER_BYTES..len)?;
        rest = rest.get(aligned(len)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Attributes of a payload: type without its flags, and value.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const FLAGS: u16 = 0xc000; // NLA_F_NESTED, NLA_F_NET_BYTEORDER
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & !FLAGS;
        let value = rest.get(4..len)?;
        rest = rest.get(aligned(len)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Two bytes at an offset, in the machine's order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Four bytes at an offset, in the machine's order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Eight bytes at an offset, in the machine's order.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Text that ends at the first zero byte.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splits_messages_and_attributes() {
        let mut two = message(7, &[1, 2, 3]);
        two.push(0); // padding to four bytes
        two.extend(message(8, &[]));
        let seen: Vec<_> = messages(&two).collect();
        assert_eq!(seen, [(7, &[1u8, 2, 3][..]), (8, &[][..])]);
        let attribute = [&8u16.to_ne_bytes()[..], &0x8001u16.to_ne_bytes(), b"tbf\0"].concat();
        assert_eq!(attributes(&attribute).collect::<Vec<_>>(), [(1, &b"tbf\0"[..])]);
        assert_eq!(text(b"tbf\0x"), "tbf");
    }

    #[test]
    fn errors_carry_the_kernels_number() {
        let refused = (-libc::EPERM).to_ne_bytes();
        assert_eq!(error_of(&refused).raw_os_error(), Some(libc::EPERM));
        assert_eq!(error_of(&[]).raw_os_error(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_run_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(messages(&bytes).count() <= bytes.len());
            prop_assert!(attributes(&bytes).count() <= bytes.len());
        }
    }
}
