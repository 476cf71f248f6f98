//! System calls that std does not offer: CPU affinity, signals, the identity of a network namespace.
//!
//! Nothing here enters a namespace: whoever calls us stands in the right one already.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use prony_model::CpuList;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// CPUs that a thread may run on.
pub fn affinity(tid: u32) -> io::Result<CpuList> {
    let set = sched_getaffinity(Pid::from_raw(tid as i32))?;
    Ok((0..CpuSet::count() as u32).filter(|cpu| set.is_set(*cpu as usize).unwrap_or_default()).collect())
}

/// Binds a thread to CPUs; numbers of CPU_SETSIZE (1024) and more are an error.
pub fn set_affinity(tid: u32, cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.as_slice().iter().try_for_each(|cpu| set.set(*cpu as usize))?;
    Ok(sched_setaffinity(Pid::from_raw(tid as i32), &set)?)
}

/// Sends a signal.
pub fn signal(pid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers and touches no memory of ours.
    let failed = unsafe { libc::kill(pid as libc::pid_t, signal) };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `SO_NETNS_COOKIE` of <linux/socket.h>: since Linux 5.14, the same number on all architectures but sparc and parisc.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// A number that names the network namespace of the calling thread, never used twice until a reboot.
/// None before Linux 5.14.
pub fn netns_cookie() -> Option<u64> {
    // SAFETY: socket takes integers only.
    let raw = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return None;
    }
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    let _socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the value pointer is to `length` bytes, and both live through the call.
    let failed =
        unsafe { libc::getsockopt(raw, libc::SOL_SOCKET, SO_NETNS_COOKIE, (&raw mut cookie).cast(), &raw mut length) };
    (failed == 0).then_some(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_of_this_thread_survives_being_set() {
        let cpus = affinity(0).unwrap();
        assert_ne!(cpus, CpuList::default());
        set_affinity(0, &cpus).unwrap();
        assert_eq!(affinity(0).unwrap(), cpus);
        assert!(set_affinity(0, &CpuList::from_iter([1024])).is_err());
    }

    #[test]
    fn a_namespace_has_one_cookie() {
        assert_eq!(netns_cookie(), netns_cookie());
    }
}
