//! One TCP connection, as fast as it goes.
//!
//! Counted is what arrives, so that what waits in the sender's buffers is not.

use super::{Counted, TICK, Until, is_pause};
use crate::sys::flow;
use prony_model::network::FlowEnd;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Bytes of one read or write: as iperf3's default for TCP (`-l`, 128 KiB).
const CHUNK: usize = 128 << 10;
/// How long a connection may take to open. Longer than one retransmitted SYN (1 s, RFC 6298), because a link may lose packets.
const CONNECT_MAX: Duration = Duration::from_millis(3500);
/// How often a receiver looks whether its sender has come.
const ACCEPT_EVERY: Duration = Duration::from_millis(2);

pub(super) fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&to, CONNECT_MAX)
}

/// Sends until the time is over.
pub(super) fn send(mut stream: &TcpStream, until: &Until<'_>) -> io::Result<FlowEnd> {
    stream.set_write_timeout(Some(TICK))?;
    let chunk = vec![0x55; CHUNK];
    while !until.is_over() {
        match stream.write(&chunk) {
            Err(e) if is_pause(&e) => {}
            // The receiver's time was over first.
            Err(e) if [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset].contains(&e.kind()) => break,
            sent => {
                sent?;
            }
        }
    }
    let retransmits = flow::retransmits(stream);
    // A connection that the receiver has closed is at its end already.
    let _closed = stream.shutdown(Shutdown::Write);
    Ok(FlowEnd { retransmits, ..FlowEnd::default() })
}

/// Receives until the sender ends, or the time is over; none when nobody came, or nothing.
pub(super) fn receive(listener: &TcpListener, duration: Duration, until: &Until<'_>) -> io::Result<Option<FlowEnd>> {
    let Some(mut stream) = accept(listener, until)? else { return Ok(None) };
    stream.set_read_timeout(Some(TICK))?;
    let mut chunk = vec![0; CHUNK];
    let mut counted = Counted::new(duration);
    while !until.is_over() {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) => counted.add(bytes as u64, 0),
            Err(e) if is_pause(&e) => {}
            Err(e) => return Err(e),
        }
    }
    let Some(seconds) = counted.seconds() else { return Ok(None) };
    Ok(Some(FlowEnd { bytes: Some(counted.bytes), counted_s: Some(seconds), ..FlowEnd::default() }))
}

fn accept(listener: &TcpListener, until: &Until<'_>) -> io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    while !until.is_over() {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(Some(stream));
            }
            Err(e) if is_pause(&e) => std::thread::sleep(ACCEPT_EVERY),
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}
