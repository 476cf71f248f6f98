//! What the standard library does not tell of a terminal.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Whether this process is in the foreground of the terminal at stderr. One in the background that changes the mode of the
/// terminal is stopped by the kernel (SIGTTOU, termios(3)), so it must not try.
pub(crate) fn in_foreground() -> bool {
    // SAFETY: both only ask the kernel, and neither takes a pointer. Without a controlling terminal the first gives -1.
    unsafe { libc::tcgetpgrp(libc::STDERR_FILENO) == libc::getpgrp() }
}

/// Where keys come from: stdin if it is a terminal, else the terminal of this process. The same that crossterm sets to raw mode.
///
/// # Errors
/// When this process has no terminal.
pub(crate) fn keyboard() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return stdin.as_fd().try_clone_to_owned();
    }
    File::open("/dev/tty").map(OwnedFd::from)
}

/// Reads what is there already, and waits for nothing; 0 bytes when nothing is.
///
/// # Errors
/// When the end has come: the terminal hung up.
pub(crate) fn read_now(from: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    let mut asked = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor is given with its count, and it lives through the call.
    if unsafe { libc::poll(&raw mut asked, 1, 0) } <= 0 {
        return Ok(0);
    }
    // SAFETY: the buffer is ours alone, and its length is given.
    let count = unsafe { libc::read(from.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) };
    match usize::try_from(count) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(count),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_there_is_read_and_an_end_is_an_error() -> io::Result<()> {
        let (reader, mut writer) = io::pipe()?;
        let (reader, mut typed) = (OwnedFd::from(reader), [0; 4]);
        assert_eq!(read_now(&reader, &mut typed)?, 0, "nothing is there, and nothing is waited for");
        writer.write_all(b"q")?;
        assert_eq!(read_now(&reader, &mut typed)?, 1);
        assert_eq!(typed[0], b'q');
        drop(writer);
        assert_eq!(read_now(&reader, &mut typed).map_err(|e| e.kind()), Err(io::ErrorKind::UnexpectedEof));
        Ok(())
    }
}
