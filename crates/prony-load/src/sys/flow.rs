//! The system calls of flows: many datagrams in one call, and what the kernel sent again.
//!
//! It knows nothing of plans or results. Invariant: no pointer leaves a function.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams in one call. A guess: more save little, because the call is by then a small part of the cost.
pub const BATCH: usize = 64;

/// Sends the same payload as many times as one call takes, over a connected socket. Gives how many went.
pub fn send_many(socket: &UdpSocket, payload: &[u8]) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    let mut heads = heads(&raw mut part);
    // SAFETY: `heads` has BATCH entries, each with the one part, which describes a live slice; the kernel only reads it.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), heads.as_mut_ptr(), BATCH as libc::c_uint, libc::MSG_NOSIGNAL as _)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// Waits for a datagram, as long as the socket's read timeout, and takes what else is there. What is in them is thrown away:
/// all are written into `scratch`. Gives how many came, and their bytes.
pub fn receive_many(socket: &UdpSocket, scratch: &mut [u8]) -> io::Result<(usize, u64)> {
    let mut part = libc::iovec { iov_base: scratch.as_mut_ptr().cast(), iov_len: scratch.len() };
    let mut heads = heads(&raw mut part);
    let no_timeout = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: `heads` has BATCH entries, each with the one part, which describes a live slice that nothing else uses meanwhile;
    // the kernel writes one datagram after another there. A null timeout is allowed.
    let came = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            heads.as_mut_ptr(),
            BATCH as libc::c_uint,
            libc::MSG_WAITFORONE as _,
            no_timeout,
        )
    };
    if came < 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = heads.iter().take(came as usize).map(|head| u64::from(head.msg_len)).sum();
    Ok((came as usize, bytes))
}

/// Heads of messages without an address, each with this one part.
fn heads(part: *mut libc::iovec) -> [libc::mmsghdr; BATCH] {
    // SAFETY: mmsghdr is plain data, for which all zeros is a message without address, parts and control data.
    let mut heads: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for head in &mut heads {
        head.msg_hdr.msg_iov = part;
        head.msg_hdr.msg_iovlen = 1;
    }
    heads
}

/// Segments that this connection sent again so far (`tcpi_total_retrans` of linux/tcp.h, since Linux 2.6.2); none where the
/// kernel does not say.
pub fn retransmits(stream: &TcpStream) -> Option<u64> {
    const AT: usize = 100;
    let mut info = [0u8; AT + 4];
    let mut size = info.len() as libc::socklen_t;
    // SAFETY: `info` has `size` bytes that may be written, and both outlive the call.
    let done = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut size)
    };
    let bytes = info.get(AT..AT + 4).filter(|_| done == 0 && size as usize >= AT + 4)?;
    Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)))
}
