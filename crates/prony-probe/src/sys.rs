//! The only unsafe code of this crate: libc calls that std does not offer. Each returns plain values or owned
//! descriptors.
//!
//! Does not parse. Invariant: no pointer leaves this module.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// CPU time of the calling thread in nanoseconds. 0 only when the clock does not exist, which no supported kernel
/// shows.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    if failed != 0 {
        return 0;
    }
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Clock ticks per second in which /proc/stat counts.
pub(crate) fn ticks_per_second() -> f64 {
    // SAFETY: sysconf takes no pointer and has no precondition.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    // 100 is the kernel's fixed USER_HZ on every architecture of today (include/asm-generic/param.h).
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// Bytes of a memory page.
pub(crate) fn page_bytes() -> f64 {
    // SAFETY: sysconf takes no pointer and has no precondition.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if bytes > 0 { bytes as f64 } else { 4096.0 }
}

/// A netlink socket of the calling thread's network namespace. It stays there whatever the thread does later.
/// Non-blocking: the kernel answers a dump while it is asked, so waiting would mean that something is wrong.
pub(crate) fn netlink_socket(protocol: i32) -> io::Result<File> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointer and has no precondition.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened, is valid, and nobody else owns it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Makes close() reset the connection instead of leaving a TIME_WAIT socket behind.
pub(crate) fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `stream` lives; pointer and length describe `linger`, which outlives
    // the call.
    let failed = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), len)
    };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
