//! The system calls of the namespace door and of thread placement. Nothing else in this crate is unsafe.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use prony_model::CpuList;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Whether this process has the rights of root.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec that the call fills; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Moves the calling thread into a network namespace and gives it a private view of the file system.
/// Only for threads that end afterwards: there is no way back.
pub(crate) fn enter_network_namespace(namespace: &File) -> io::Result<()> {
    // A private mount namespace, so that the sysfs mounted for the thread is seen by no one else.
    // SAFETY: unshare changes only the calling thread; the flags are valid.
    check(unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) })?;
    let root = CString::new("/").expect("no NUL in a literal");
    // SAFETY: both paths are valid C strings or null where mount(2) allows it.
    check(unsafe {
        libc::mount(
            std::ptr::null(),
            root.as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    })?;
    // SAFETY: the descriptor is open for the length of the call.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Mounts a sysfs that shows the calling thread's network namespace.
pub(crate) fn mount_sysfs(at: &Path) -> io::Result<()> {
    let kind = CString::new("sysfs").expect("no NUL in a literal");
    let at = CString::new(at.as_os_str().as_encoded_bytes())?;
    // SAFETY: all pointers are valid C strings for the length of the call.
    check(unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) })
}

/// Lets the calling thread run only on these CPUs.
pub(crate) fn pin_this_thread(cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.as_slice().iter().try_for_each(|cpu| set.set(*cpu as usize))?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
