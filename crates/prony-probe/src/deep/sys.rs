//! System calls that neither std nor libbpf offers: a perf event on a CPU; and the numbers of namespaces.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// Number of a namespace, by its file under /proc.
pub(super) fn namespace(file: &Path) -> Option<u32> {
    u32::try_from(std::fs::metadata(file).ok()?.ino()).ok()
}

/// Whether pids here are those of the kernel.
pub(super) fn sees_all_pids(proc: &Path) -> bool {
    namespace(&proc.join("self/ns/pid")) == Some(FIRST_PID_NAMESPACE)
}
