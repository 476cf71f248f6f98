//! epoll with descriptors as tokens, for a server. The engine's own is for clients and counts generations.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// Events taken at once. Measured for the engine: more change nothing at 1000 connections.
const EVENTS: usize = 256;

/// A descriptor that something happened to.
pub struct Ready {
    pub fd: RawFd,
    /// The other side will send nothing more.
    pub hung_up: bool,
}

#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked before it is used.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Tells of waiting connections until all are taken.
    pub fn watch_listener(&self, fd: RawFd) -> io::Result<()> {
        self.watch(fd, libc::EPOLLIN as u32)
    }

    /// Tells each time that something new can be read or written.
    pub fn watch_peer(&self, fd: RawFd) -> io::Result<()> {
        self.watch(fd, (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32)
    }

    fn watch(&self, fd: RawFd, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: fd as u64 };
        // SAFETY: `event` outlives the call, which copies it; a wrong descriptor is an error and no harm.
        let result = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits at most that long, and adds to `ready` what happened.
    pub fn wait(&self, ready: &mut Vec<Ready>, wait_ms: i32) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: `events` has EVENTS entries and outlives the call.
        let n = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, wait_ms) };
        // An error is a signal: nothing happened.
        let count = usize::try_from(n).unwrap_or(0);
        let over = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        ready.extend(events[..count].iter().map(|event| {
            let (token, flags) = (event.u64, event.events);
            Ready { fd: token as RawFd, hung_up: flags & over != 0 }
        }));
    }
}
