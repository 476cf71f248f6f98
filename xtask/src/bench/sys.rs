//! The system calls of the benchmarks that std does not offer: what a child used, and what this thread used.

use std::io;
use std::process::Child;
use std::time::Duration;

/// How a child ended and what it cost.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Whether it ended by itself with code 0.
    pub ok: bool,
    /// User and system CPU time of it and of its children that it waited for.
    pub cpu: Duration,
}

/// Waits for a child (wait4(2)). The child's own `wait` must not have been called.
pub fn wait(child: &Child) -> io::Result<Ended> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of this plain C struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals; the pid is of a child of ours that nobody has waited for.
    if unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok(Ended { ok: status == 0, cpu: time(usage.ru_utime) + time(usage.ru_stime) })
}

/// CPU time of the calling thread (clock_gettime(2)).
pub fn thread_cpu_time() -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
