//! The only unsafe code of this crate: libc calls that std does not offer. Each returns plain values or owned
//! descriptors.
//!
//! Does not parse. Invariant: no pointer leaves this module.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::net::{TcpStream, UdpSocket};
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

/// Lets the calling thread run on this CPU only.
pub(crate) fn pin_this_thread(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
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

/// What the driver of an interface can be asked by SIOCETHTOOL. Sets of statistics have the size that the driver said.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EthtoolQuestion {
    /// Are received packets joined?
    Gro,
    /// Does the kernel split large packets late?
    Gso,
    /// Does the card split them?
    Tso,
    /// struct ethtool_drvinfo.
    Driver,
    /// struct ethtool_channels.
    Channels,
    /// struct ethtool_coalesce.
    Coalesce,
    /// struct ethtool_ringparam.
    Ring,
    /// struct ethtool_sset_info for ETH_SS_STATS.
    StatisticsCount,
    /// struct ethtool_gstrings for ETH_SS_STATS.
    StatisticsNames {
        /// As StatisticsCount said.
        count: u32,
    },
    /// struct ethtool_stats.
    Statistics {
        /// As StatisticsCount said.
        count: u32,
    },
}

impl EthtoolQuestion {
    /// The request: command (include/uapi/linux/ethtool.h), arguments, and room for the answer.
    fn request(self) -> Vec<u8> {
        /// More than the longest fixed answer (struct ethtool_coalesce, 92 bytes), and room for statistics that a driver
        /// adds between two questions.
        const ROOM: usize = 8 << 10;
        let (words, answer): (&[u32], usize) = match self {
            Self::Gro => (&[0x2b], 0),
            Self::Gso => (&[0x23], 0),
            Self::Tso => (&[0x1e], 0),
            Self::Driver => (&[0x03], 0),
            Self::Channels => (&[0x3c], 0),
            Self::Coalesce => (&[0x0e], 0),
            Self::Ring => (&[0x10], 0),
            Self::StatisticsCount => (&[0x37, 0, 1 << 1, 0], 0),
            Self::StatisticsNames { count } => (&[0x1b, 1, count], 32 * count as usize),
            Self::Statistics { count } => (&[0x1d, count], 8 * count as usize),
        };
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.resize(ROOM + answer, 0);
        bytes
    }
}

/// Asks the driver of an interface of the socket's namespace. The answer begins with the structure of the question.
pub(crate) fn ethtool(socket: &UdpSocket, interface: &str, question: EthtoolQuestion) -> io::Result<Vec<u8>> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut answer = question.request();
    // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte less than there is room for: the name ends with a zero.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    // SAFETY: `request` and `answer` outlive the call; `answer` is larger than what the kernel writes for its command.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
