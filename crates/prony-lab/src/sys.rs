//! The system calls that a lab needs: entering a network namespace, seating a child process, killing, limits.
//!
//! Nothing here decides anything. It is the only module of the crate with `unsafe`.
//! Invariant: the namespace of a thread that existed before the call never changes; work inside one runs on a thread of
//! its own.

use prony_model::CpuList;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Where a child process is to run: its namespace, its control groups, its CPUs.
pub(crate) struct Seat {
    /// `/run/netns/NAME`, open.
    pub netns: File,
    /// `cgroup.procs` of each group, open for writing.
    pub cgroup_procs: Vec<File>,
    /// CPUs it may use.
    pub cpus: CpuList,
}

/// Runs `work` inside a network namespace, on a fresh thread, and returns what it returns.
///
/// # Errors
/// The namespace file cannot be opened or entered, or no thread can be started.
pub(crate) fn in_netns<T: Send>(netns: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let file = File::open(netns)?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("lab-netns".to_string()).spawn_scoped(scope, || {
            enter(&file)?;
            Ok(work())
        })?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread inside the namespace panicked")))
    })
}

/// Makes `command` start in `seat`, in a session of its own. The group comes first, so that a process that exists is
/// always one that `down` finds.
pub(crate) fn seat(command: &mut Command, seat: Seat) {
    let set = cpu_set(&seat.cpus);
    let enter_seat = move || {
        for procs in &seat.cgroup_procs {
            // SAFETY: the descriptor is open as long as the closure lives; the buffer is one byte of static memory.
            if unsafe { libc::write(procs.as_raw_fd(), c"0".as_ptr().cast(), 1) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        enter(&seat.netns)?;
        // SAFETY: plain system calls on this process; `set` is an initialised cpu_set_t of the size given.
        unsafe {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls (write, setns, setsid, sched_setaffinity) on
    // descriptors opened before; it neither allocates nor locks.
    unsafe { command.pre_exec(enter_seat) };
}

fn enter(netns: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; setns has no memory arguments.
    match unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn cpu_set(cpus: &CpuList) -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is a plain array of integers, for which all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.as_slice().iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: `cpu` is below CPU_SETSIZE, so the bit lies inside the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    set
}

/// Kills a process at once. A process that is gone already is no error.
pub(crate) fn kill(pid: i32) {
    if pid > 0 {
        // SAFETY: no memory is passed. `pid` is positive, so it names one process and never a group.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// Whether this process may build labs.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The hard limit of open files; servers ask for no more, because raising it needs CAP_SYS_RESOURCE.
pub(crate) fn open_files_max() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit that the kernel fills.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_max,
        _ => 1024, // What every Linux gives by default; reading one's own limit cannot fail in practice.
    }
}
