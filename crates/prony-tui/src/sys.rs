//! The one question about the terminal that the standard library does not answer.

/// Whether this process is in the foreground of the terminal at stderr. One in the background that changes the mode of the
/// terminal is stopped by the kernel (SIGTTOU, termios(3)), so it must not try.
pub(crate) fn in_foreground() -> bool {
    // SAFETY: both only ask the kernel, and neither takes a pointer. Without a controlling terminal the first gives -1.
    unsafe { libc::tcgetpgrp(libc::STDERR_FILENO) == libc::getpgrp() }
}
