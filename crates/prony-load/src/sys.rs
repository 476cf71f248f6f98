//! The system calls of the load engine: sockets, epoll, io_uring, clock, CPU time, descriptors. The only unsafe code of this crate.
//!
//! It knows nothing of HTTP, plans or results, and never enters a namespace: a socket belongs to the namespace of the
//! thread that opens it. Invariant: every descriptor has exactly one owner and is closed when that owner is dropped.

pub mod flow;
pub mod ring;

use crate::target::Endpoint;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What an epoll event says of a socket: it can be read, or has ended.
pub const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
/// The other side will send nothing more.
pub const HUNG_UP: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
/// The socket failed; [`Socket::failure`] says why.
pub const FAILED: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;
/// There is room to send.
pub const WRITABLE: u32 = libc::EPOLLOUT as u32;

/// Nanoseconds on the monotonic clock. About 20 ns per call: the clock source is read without entering the kernel.
#[inline]
pub fn clock_ns() -> u64 {
    read_clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds on the calendar's clock, by which the kernel stamps what arrives; it may be set while we look.
#[inline]
pub fn calendar_ns() -> u64 {
    read_clock_ns(libc::CLOCK_REALTIME)
}

#[inline]
fn read_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec that the call only writes to.
    unsafe { libc::clock_gettime(clock, &mut t) };
    nanoseconds(t)
}

#[inline]
fn nanoseconds(t: libc::timespec) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Where `byte` first is in `hay`. The C library's search, which compares 16 bytes or more at once.
#[inline]
pub fn find(byte: u8, hay: &[u8]) -> Option<usize> {
    // SAFETY: the pointer and the length are those of one live slice; memchr only reads it.
    let hit = unsafe { libc::memchr(hay.as_ptr().cast(), i32::from(byte), hay.len()) };
    (!hit.is_null()).then(|| hit as usize - hay.as_ptr() as usize)
}

/// A stream socket that never blocks. It sends and receives by bare system calls: those of the C library are points at which
/// a thread can be cancelled, which costs each of them two atomic operations in a process with several threads.
pub struct Socket(OwnedFd);

impl Socket {
    /// Opens a socket for the kind of `to`.
    pub fn open(to: &Endpoint) -> io::Result<Self> {
        let family = match to {
            Endpoint::Tcp(SocketAddr::V4(_)) => libc::AF_INET,
            Endpoint::Tcp(SocketAddr::V6(_)) => libc::AF_INET6,
            Endpoint::Unix(_) => libc::AF_UNIX,
        };
        // SAFETY: socket() takes no pointers; the result is checked before it is used.
        let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Lets small writes leave at once (TCP_NODELAY, tcp(7)). A failure only costs latency: a Unix socket has no such delay.
    pub fn hurry(&self) {
        self.switch_on(libc::IPPROTO_TCP, libc::TCP_NODELAY).ok();
    }

    /// Lets the connection come from this address. The port is chosen when it connects, so that the same port serves
    /// connections to different places (IP_BIND_ADDRESS_NO_PORT, ip(7), since Linux 4.2; for IPv6 too).
    pub fn come_from(&self, source: IpAddr) -> io::Result<()> {
        self.switch_on(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT)?;
        with_sockaddr(&SocketAddr::new(source, 0), |address, size| {
            // SAFETY: `address` is a full socket address of `size` bytes that outlives the call.
            checked(unsafe { libc::bind(self.0.as_raw_fd(), address, size) })
        })
    }

    fn switch_on(&self, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
        let on: libc::c_int = 1;
        let size = size_of_val(&on) as u32;
        // SAFETY: `on` outlives the call and its size is given.
        checked(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, (&raw const on).cast(), size) })
    }

    /// Begins the handshake. `Ok` means begun or done: the socket becomes writable when it is done.
    pub fn connect(&self, to: &Endpoint) -> io::Result<()> {
        // SAFETY: `with_sockaddr` and `unix_address` give a full socket address of `size` bytes that outlives the call.
        let connect = |address, size| checked(unsafe { libc::connect(self.0.as_raw_fd(), address, size) });
        let result = match to {
            Endpoint::Tcp(address) => with_sockaddr(address, connect),
            Endpoint::Unix(path) => {
                let address = unix_address(path)?;
                connect((&raw const address).cast(), size_of_val(&address) as u32)
            }
        };
        match result {
            Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            result => result,
        }
    }

    /// Why the socket failed; none when it did not.
    pub fn failure(&self) -> Option<io::Error> {
        let mut code: libc::c_int = 0;
        let mut size = size_of_val(&code) as u32;
        // SAFETY: `code` and `size` outlive the call, and `size` is the size of `code`.
        let result = unsafe {
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut code).cast(), &mut size)
        };
        (result == 0 && code != 0).then(|| io::Error::from_raw_os_error(code))
    }

    /// What the kernel knows of this connection (`struct tcp_info`, tcp(7)): how many bytes it gave; none without TCP.
    pub fn tcp_info(&self, into: &mut [u8]) -> Option<usize> {
        let mut size = into.len() as u32;
        let at = into.as_mut_ptr().cast();
        // SAFETY: `at` has `size` bytes that may be written, and both outlive the call.
        let done = unsafe { libc::getsockopt(self.0.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut size) };
        (done == 0).then_some(size as usize)
    }

    /// Sends what fits; a broken connection is an error, not a signal.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let (at, length, to) = (bytes.as_ptr(), bytes.len(), std::ptr::null::<libc::sockaddr>());
        let fd = self.0.as_raw_fd();
        // SAFETY: the pointer and the length are those of one live slice; a connected socket needs no address.
        let n = unsafe { libc::syscall(libc::SYS_sendto, fd, at, length, libc::MSG_NOSIGNAL, to, 0usize) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
    }

    /// Lets the kernel stamp what arrives (SO_TIMESTAMPNS, socket(7); for TCP since Linux 4.15). From then on it reads the clock for each
    /// packet of this machine. A failure only costs the stamps: a Unix socket has none.
    pub fn stamp_arrivals(&self) {
        self.switch_on(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS).ok();
    }

    /// Receives what is there; 0 at the end of the stream. `stamp_ns`: when the last of it arrived at this machine, on the calendar's
    /// clock; left as it is where the kernel did not stamp it.
    #[inline]
    pub fn receive(&self, into: &mut [u8], stamp_ns: Option<&mut u64>) -> io::Result<usize> {
        if let Some(stamp_ns) = stamp_ns {
            return self.receive_stamped(into, stamp_ns);
        }
        let (at, length, from) = (into.as_mut_ptr(), into.len(), std::ptr::null_mut::<libc::sockaddr>());
        let fd = self.0.as_raw_fd();
        // SAFETY: the pointer and the length are those of one live slice that nothing else uses meanwhile; who sent is not
        // asked for.
        let n = unsafe { libc::syscall(libc::SYS_recvfrom, fd, at, length, 0usize, from, from) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(n as usize) }
    }

    fn receive_stamped(&self, into: &mut [u8], stamp_ns: &mut u64) -> io::Result<usize> {
        let mut told = Told { head: NO_HEAD, time: libc::timespec { tv_sec: 0, tv_nsec: 0 } };
        let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        // SAFETY: an all-zero message header is a valid value of this plain C struct: no address, no parts, nothing told.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = ((&raw mut told).cast(), size_of::<Told>());
        // SAFETY: the header, its one part and the room for what is told outlive the call, and nothing else uses them meanwhile.
        let n = unsafe { libc::syscall(libc::SYS_recvmsg, self.0.as_raw_fd(), &raw mut message, 0usize) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        if (told.head.cmsg_level, told.head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            *stamp_ns = nanoseconds(told.time);
        }
        Ok(n as usize)
    }
}

/// What the kernel tells beside the bytes: a stamp (`struct cmsghdr` and a timespec behind it, cmsg(3)).
#[repr(C)]
struct Told {
    head: libc::cmsghdr,
    time: libc::timespec,
}

/// Nothing told.
const NO_HEAD: libc::cmsghdr = libc::cmsghdr { cmsg_len: 0, cmsg_level: 0, cmsg_type: 0 };

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Hands an address to `call` in the kernel's form.
fn with_sockaddr<T>(address: &SocketAddr, call: impl FnOnce(*const libc::sockaddr, u32) -> T) -> T {
    match address {
        SocketAddr::V4(v4) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            call((&raw const address).cast(), size_of_val(&address) as u32)
        }
        SocketAddr::V6(v6) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            call((&raw const address).cast(), size_of_val(&address) as u32)
        }
    }
}

/// The address of a Unix socket. Errors: ENAMETOOLONG beyond 107 bytes (unix(7)).
fn unix_address(path: &Path) -> io::Result<libc::sockaddr_un> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    address.sun_path.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as libc::c_char);
    Ok(address)
}

/// An event: which token, and what happened ([`READABLE`], [`WRITABLE`], ...).
pub type Event = libc::epoll_event;

/// An event that says nothing, to fill a list with.
pub const NO_EVENT: Event = libc::epoll_event { events: 0, u64: 0 };

/// Bytes, their end, and a failure, each told once.
const EDGES: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// A set of sockets to wait for.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked before it is used.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches a socket until it is closed. Edge-triggered: one epoll_ctl in the life of a connection, and the kernel does not
    /// look at it again at every wait. `sends`: there will be something to send, so that room for it is told too.
    pub fn watch(&self, socket: &impl AsFd, token: u64, sends: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, if sends { EDGES | WRITABLE } else { EDGES })
    }

    /// Tells of waiting connections until all are taken.
    pub fn watch_listener(&self, listener: &impl AsFd, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, listener, token, libc::EPOLLIN as u32)
    }

    /// Looks at a watched socket anew: whatever is ready now is told once more.
    pub fn watch_again(&self, socket: &Socket, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, token, EDGES | WRITABLE)
    }

    fn control(&self, operation: libc::c_int, of: &impl AsFd, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: `event` outlives the call; both descriptors are open because their owners are borrowed.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, of.as_fd().as_raw_fd(), &mut event) })
    }

    /// Waits until something happens, at most `wait_ns`. A signal counts as nothing happened.
    /// Errors: ENOSYS before Linux 5.11, where waits of nanoseconds came.
    #[inline]
    pub fn wait(&self, events: &mut [Event], wait_ns: u64) -> io::Result<usize> {
        let wait = libc::timespec {
            tv_sec: (wait_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (wait_ns % 1_000_000_000) as libc::c_long,
        };
        let no_mask = std::ptr::null::<libc::sigset_t>();
        let (list, room) = (events.as_mut_ptr(), events.len() as libc::c_int);
        // SAFETY: `list` has `room` entries, `wait` outlives the call, and a null mask with size 0 is allowed.
        let n = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, self.0.as_raw_fd(), list, room, &raw const wait, no_mask, 0usize)
        };
        match n {
            0.. => Ok(n as usize),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => Ok(0),
                e => Err(e),
            },
        }
    }
}

/// CPU time of the calling thread so far, in microseconds: user, system. From getrusage(RUSAGE_THREAD).
pub fn thread_cpu_us() -> (f64, f64) {
    // SAFETY: an all-zero rusage is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing and outlives the call.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    let us = |t: libc::timeval| t.tv_sec as f64 * 1e6 + t.tv_usec as f64;
    (us(usage.ru_utime), us(usage.ru_stime))
}

/// Lets timers of the calling thread fire on time: the default slack of 50 us would be added to every wait.
pub fn precise_timers() {
    // SAFETY: no pointers; a failure leaves the default, which the schedule lag then shows.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Keeps the calling thread on one CPU.
pub fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Gives the calling thread a table of descriptors of its own, so that the limit counts for it alone. It begins with stdin,
/// stdout and stderr only: a copy of another descriptor would keep its file open after its owner has closed it. The thread must
/// own none yet. Before Linux 5.9 it begins with all.
pub fn own_descriptors() -> io::Result<()> {
    let (first, last) = (libc::STDERR_FILENO + 1, libc::c_uint::MAX);
    // SAFETY: no pointers. What is closed are copies in the new table (close_range(2)); their owners keep theirs.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_UNSHARE) };
    if result == 0 {
        return Ok(());
    }
    // SAFETY: no pointers. Descriptors open now stay open in both tables, so every owner stays valid.
    let result = unsafe { libc::unshare(libc::CLONE_FILES) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Most descriptors that a table may hold, after raising the limit to what this process is allowed (RLIMIT_NOFILE).
pub fn descriptor_limit(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing and outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 || limit.rlim_cur >= wanted {
        return limit.rlim_cur;
    }
    let raised = libc::rlimit { rlim_cur: limit.rlim_max.min(wanted), rlim_max: limit.rlim_max };
    // SAFETY: `raised` is valid and outlives the call. The hard limit stays, so no privilege is needed.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 { raised.rlim_cur } else { limit.rlim_cur }
}
