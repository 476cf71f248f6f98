//! The system calls that a lab needs: entering a network namespace, seating a child process, TAP devices, killing, limits.
//!
//! Nothing here decides anything. It is the only module of the crate with `unsafe`.
//! Invariant: the namespace of a thread that existed before the call never changes; work inside one runs on a thread of
//! its own.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use prony_model::CpuList;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
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
        // SAFETY: a plain system call on this process.
        if unsafe { libc::setsid() } < 0 {
            return Err(io::Error::last_os_error());
        }
        sched_setaffinity(Pid::from_raw(0), &set)?;
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

/// Numbers beyond what a set holds are left out: no kernel has such CPUs.
fn cpu_set(cpus: &CpuList) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus.as_slice() {
        set.set(*cpu as usize).ok();
    }
    set
}

/// CPUs that this process may use.
pub(crate) fn allowed_cpus() -> io::Result<CpuList> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count() as u32).filter(|cpu| set.is_set(*cpu as usize).unwrap_or_default()).collect())
}

/// Where TAP devices are made.
pub(crate) const TUN: &str = "/dev/net/tun";
/// TUNSETIFF of linux/if_tun.h: names a device, and makes it.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// Makes a TAP device in the network namespace of the calling thread. It is gone when the file is closed. Reading and writing
/// do not wait.
pub(crate) fn tap(name: &str) -> io::Result<File> {
    let file = File::options().read(true).write(true).open(TUN)?;
    // SAFETY: ifreq is plain data, for which all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte less than there is room for: the name ends with a zero.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and `request` outlives the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no pointers; the descriptor is open.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Standard input and output as the two ends of a wire, which this process then owns.
pub(crate) fn standard_ends() -> io::Result<[File; 2]> {
    let own = |end: BorrowedFd<'_>| end.try_clone_to_owned().map(File::from);
    Ok([own(io::stdin().as_fd())?, own(io::stdout().as_fd())?])
}

/// Goes on in a child, while the process that was started ends well: so whoever started it need not wait for it. Only for a
/// process with one thread.
pub(crate) fn leave_parent() -> io::Result<()> {
    // SAFETY: this process has one thread, so the child has all of them and every lock is free.
    match unsafe { libc::fork() } {
        0 => Ok(()),
        // SAFETY: ends the process at once; what it holds now belongs to the child.
        child if child > 0 => unsafe { libc::_exit(0) },
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets timers fire on time: the default slack of 50 us would be added to every delay.
pub(crate) fn precise_timers() {
    // SAFETY: no pointers; a failure leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec that the call fills; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Waits until one of the files can be read, at most `wait_ns`; none: for as long as it takes. A signal counts as readable.
pub(crate) fn wait_readable(files: &[File; 2], wait_ns: Option<u64>) -> io::Result<()> {
    let mut polled =
        [&files[0], &files[1]].map(|file| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let wait = wait_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let wait = wait.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `polled` has as many entries as is said; `wait` is null or points to a timespec that outlives the call; a null
    // mask is allowed.
    let ready = unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, wait, std::ptr::null()) };
    match ready {
        0.. => Ok(()),
        _ => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            e => Err(e),
        },
    }
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
