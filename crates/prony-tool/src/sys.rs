//! The system calls that bind a program to the thread that starts it, and that ask it to end.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// A command that the kernel kills when the thread that started it ends.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    bound(program, libc::SIGKILL)
}

/// A command for a program that puts something back before it ends: when the thread that started it ends, the kernel asks it
/// to end (SIGTERM). Ctrl-C at the terminal does not reach it, because it has a process group of its own: see `interrupt`.
pub fn command_that_undoes(program: impl AsRef<OsStr>) -> Command {
    let mut command = bound(program, libc::SIGTERM);
    command.process_group(0);
    command
}

/// Asks a program to end, as Ctrl-C does. The child must not have been waited for.
///
/// # Errors
/// When it is another user's by now.
pub fn interrupt(child: &Child) -> io::Result<()> {
    // SAFETY: kill takes integers. The child was not waited for, so its number still means it.
    let failed = unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bound(program: impl AsRef<OsStr>, signal: libc::c_int) -> Command {
    let parent = std::process::id();
    let bind_to_parent = move || {
        // SAFETY: prctl with PR_SET_PDEATHSIG takes integers and is async-signal-safe.
        let failed = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
        // SAFETY: getppid takes nothing and is async-signal-safe.
        let orphaned = unsafe { libc::getppid() } as u32 != parent;
        // A script's job in the background ignores Ctrl-C, and so would all that it starts: then `interrupt` would do nothing.
        // SAFETY: signal with SIG_DFL takes integers and is async-signal-safe.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        if failed != 0 || orphaned { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
    };
    let mut command = Command::new(program);
    // SAFETY: the closure makes three system calls and allocates nothing, so it may run between fork and exec.
    unsafe { command.pre_exec(bind_to_parent) };
    command
}
