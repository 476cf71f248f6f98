//! UDP datagrams of one size, as many as one thread can send.
//!
//! What does not fit into the receiver's queue is lost, as it is for every receiver: received is less than sent.

use super::{Counted, TICK, Until, is_pause};
use crate::sys::flow;
use prony_model::network::FlowEnd;
use std::io;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// A receiver to which nothing came for so long has seen the end. Longer than any queue of a lab's link (400 ms).
const IDLE: Duration = Duration::from_millis(500);
/// Largest payload of a UDP datagram over IPv4 (RFC 768: 65,535 bytes with both heads).
const PAYLOAD_MAX: usize = 65_507;

/// Sends until the time is over.
pub(super) fn send(socket: &UdpSocket, payload_bytes: usize, until: &Until<'_>) -> io::Result<FlowEnd> {
    socket.set_write_timeout(Some(TICK))?;
    let payload = vec![0x55; payload_bytes.min(PAYLOAD_MAX)];
    let mut sent = 0;
    while !until.is_over() {
        match flow::send_many(socket, &payload) {
            Ok(many) => sent += many as u64,
            Err(e) if is_pause(&e) || e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) => return Err(e),
        }
    }
    let counted_s = Some(until.begun.elapsed().as_secs_f64());
    Ok(FlowEnd { sent: Some(sent), counted_s, ..FlowEnd::default() })
}

/// Receives until nothing comes any more, or the time is over; none when nothing came.
pub(super) fn receive(socket: &UdpSocket, duration: Duration, until: &Until<'_>) -> io::Result<Option<FlowEnd>> {
    socket.set_read_timeout(Some(TICK))?;
    let mut scratch = vec![0; PAYLOAD_MAX];
    let mut flowing: Option<(Counted, Instant)> = None;
    while !until.is_over() {
        match flow::receive_many(socket, &mut scratch) {
            Ok((packets, bytes)) => {
                let (counted, last) = flowing.get_or_insert_with(|| (Counted::new(duration), Instant::now()));
                counted.add(bytes, packets as u64);
                *last = Instant::now();
            }
            Err(e) if is_pause(&e) => {
                if flowing.as_ref().is_some_and(|(_, last)| last.elapsed() > IDLE) {
                    break;
                }
            }
            Err(e) => return Err(e),
        }
    }
    let counted = flowing.as_ref().and_then(|(counted, _)| Some((counted, counted.seconds()?)));
    Ok(counted.map(|(counted, seconds)| FlowEnd {
        bytes: Some(counted.bytes),
        received: Some(counted.packets),
        counted_s: Some(seconds),
        ..FlowEnd::default()
    }))
}
