//! The reference server as a child process, what it recorded, and the simplest client it can have.
//!
//! It knows no percentiles. Invariant: the server is ended when its owner is dropped, whatever happened.

use super::schedule::Stalls;
use anyhow::{Context as _, ensure};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// One request as the server saw it, in nanoseconds on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// The kernel's stamp.
    pub(super) arrival: u64,
    /// When the answer was due.
    pub(super) due: u64,
    /// When it was sent; 0: never, because the connection was gone.
    pub(super) sent: u64,
}

impl Served {
    /// How late it was sent; 0 if it never was.
    pub(super) fn late(&self) -> u64 {
        if self.sent == 0 { 0 } else { self.sent.saturating_sub(self.due) }
    }
}

/// A running server.
pub(super) struct TruthServer {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(super) port: u16,
    /// With the server's epoch.
    pub(super) stalls: Stalls,
}

impl TruthServer {
    /// Starts it; `stalls` without their epoch, which the server tells.
    pub(super) fn start(mut program: Command, cpu: &str, services: &Path, stalls: Stalls) -> anyhow::Result<Self> {
        let times = [stalls.first_ns, stalls.every_ns, stalls.length_ns].map(|ns| ns.to_string());
        program.arg(cpu).arg(services).args(times).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().context("cannot start the truth server")?;
        let mut output = BufReader::new(child.stdout.take().context("stdout is piped")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let mut words = line.trim().strip_prefix("ready ").unwrap_or_default().split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (port, epoch_ns) = number().zip(number()).with_context(|| format!("the truth server said {line:?}"))?;
        let port = u16::try_from(port).context("the truth server told no port")?;
        Ok(Self { child, output, port, stalls: Stalls { epoch_ns, ..stalls } })
    }

    /// Ends it and takes its record, in order of arrival.
    pub(super) fn finish(mut self) -> anyhow::Result<Vec<Served>> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).context("cannot read the record of the truth server")?;
        text.lines().map(|line| served(line).with_context(|| format!("the truth server said {line:?}"))).collect()
    }

    /// What a client sees that does nothing else: one connection, one request after another, as nanoseconds each. The calling
    /// thread stays on `cpu` from then on, and so do the programs it starts.
    pub(super) fn ask_in_turn(&self, cpu: &str, count: usize) -> anyhow::Result<Vec<u64>> {
        let pid = std::process::id().to_string();
        let pinned = Command::new("taskset").args(["-cp", cpu, &pid]).stdout(Stdio::null()).status();
        ensure!(pinned.context("cannot start taskset")?.success(), "cannot move to CPU {cpu}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_nodelay(true)?;
        let mut buffer = [0; 4096];
        let mut ask = || -> anyhow::Result<u64> {
            let begun = Instant::now();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: truth\r\n\r\n")?;
            // The answer is one small segment.
            ensure!(stream.read(&mut buffer)? > 0, "the truth server closed the connection");
            Ok(begun.elapsed().as_nanos() as u64)
        };
        (0..count).map(|_| ask()).collect()
    }
}

impl Drop for TruthServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// `arrival due sent`
fn served(line: &str) -> Option<Served> {
    let mut numbers = line.split(' ').map(|word| word.parse().ok());
    Some(Served { arrival: numbers.next()??, due: numbers.next()??, sent: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_the_record() {
        let read = served("100 150 160").unwrap();
        assert_eq!((read.arrival, read.due, read.sent), (100, 150, 160));
        assert!(served("100 150").is_none());
        assert!(served("100 x 160").is_none());
    }
}
