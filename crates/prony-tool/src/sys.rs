//! The system calls that bind a program to the thread that starts it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A command that the kernel kills when the thread that started it ends.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let parent = std::process::id();
    let bind_to_parent = move || {
        // SAFETY: prctl with PR_SET_PDEATHSIG takes integers and is async-signal-safe.
        let failed = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: getppid takes nothing and is async-signal-safe.
        let orphaned = unsafe { libc::getppid() } as u32 != parent;
        if failed != 0 || orphaned { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    };
    let mut command = Command::new(program);
    // SAFETY: the closure makes two system calls and allocates nothing, so it may run between fork and exec.
    unsafe { command.pre_exec(bind_to_parent) };
    command
}
