//! System calls that std does not offer: a perf event on a CPU, the time that eBPF programs take, the CPUs of a thread; and
//! the numbers of namespaces.

use libbpf_rs::libbpf_sys;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// `struct perf_event_attr` as of its first version (perf_event_open(2), PERF_ATTR_SIZE_VER0).
#[repr(C)]
struct PerfEvent {
    kind: u32,
    size: u32,
    config: u64,
    frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
/// The bit `freq`: the third field is a frequency, not a period.
const FREQUENCY: u64 = 1 << 10;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// PROC_PID_INIT_INO of include/linux/proc_ns.h: the pid namespace that the kernel counts in.
const FIRST_PID_NAMESPACE: u32 = 0xEFFF_FFFC;

/// A clock that ticks so often per second on one CPU, whoever runs there.
pub(super) fn clock_of(cpu: u32, per_second: u64) -> io::Result<OwnedFd> {
    let event = PerfEvent {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<PerfEvent>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        frequency: per_second,
        sample_type: 0,
        read_format: 0,
        flags: FREQUENCY,
        wakeup_events: 0,
        bp_type: 0,
        bp_addr: 0,
    };
    let every_process: libc::pid_t = -1;
    let no_group: libc::c_int = -1;
    // SAFETY: the structure has the size that it tells and lives through the call, which keeps no pointer to it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const event,
            every_process,
            cpu as libc::c_int,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// CPUs that a thread may run on. None when it is gone, or the machine has more CPUs than the call can tell.
pub(super) fn cpus_of(thread: u32) -> Option<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(thread as i32)).ok()?;
    Some((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).map(|cpu| cpu as u32).collect())
}

/// Has the kernel time every eBPF program until the descriptor is dropped.
pub(super) fn time_programs() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer and has no precondition.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call gave a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the kernel tells of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// How long it ran while the kernel timed it, summed over CPUs, and how often.
    pub run_time: Duration,
    pub runs: u64,
    /// A hash of its instructions.
    pub tag: [u8; 8],
}

/// None when the kernel does not tell.
pub(super) fn told(program: BorrowedFd<'_>) -> Option<Told> {
    // SAFETY: the structure is plain numbers, for which all zeros is a value.
    let mut seen: libbpf_sys::bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&seen) as u32;
    // SAFETY: the structure has the size that is told and lives through the call, which keeps no pointer to it.
    let failed = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut seen, &raw mut size) };
    (failed == 0).then(|| Told { run_time: Duration::from_nanos(seen.run_time_ns), runs: seen.run_cnt, tag: seen.tag })
}

/// Number of a namespace, by its file under /proc.
pub(super) fn namespace(file: &Path) -> Option<u32> {
    u32::try_from(std::fs::metadata(file).ok()?.ino()).ok()
}

/// Whether pids here are those of the kernel.
pub(super) fn sees_all_pids(proc: &Path) -> bool {
    namespace(&proc.join("self/ns/pid")) == Some(FIRST_PID_NAMESPACE)
}
