//! By epoll: a system call for each send and each receive, and one for a batch of events. Works everywhere.
//!
//! Invariant: whatever it says was sent, the kernel has.

use super::{BUFFER_BYTES, Event, Happened, Transport};
use crate::sys::{self, Epoll, Socket};
use crate::wire::{Received, Wire};
use prony_model::load;
use std::io;

/// Events taken from the kernel at once. Measured: more change nothing at 1000 connections.
const EVENTS: usize = 256;

/// See the module.
pub struct ByEpoll {
    epoll: Epoll,
    events: Box<[sys::Event; EVENTS]>,
    /// Events of the last wait, of which those before `next` were given away.
    count: usize,
    /// See `count`.
    next: usize,
    buffer: Vec<u8>,
}

impl Transport for ByEpoll {
    const NAME: load::Transport = load::Transport::Epoll;
    const GATHERS: bool = false;

    fn new(_connections: u32) -> io::Result<Self> {
        let (epoll, events) = (Epoll::new()?, Box::new([sys::NO_EVENT; EVENTS]));
        Ok(Self { epoll, events, count: 0, next: 0, buffer: vec![0; BUFFER_BYTES] })
    }

    fn watch(&mut self, socket: &Socket, token: u64, sends: bool) -> io::Result<()> {
        self.epoll.watch(socket, token, sends)
    }

    #[inline]
    fn opened(&mut self, _token: u64) {}

    fn watch_again(&mut self, socket: &Socket, token: u64) -> io::Result<()> {
        self.epoll.watch_again(socket, token)
    }

    /// A closed socket leaves the set by itself.
    #[inline]
    fn forget(&mut self, _token: u64) {}

    /// Errors: ENOSYS before Linux 5.11.
    #[inline]
    fn wait(&mut self, wait_ns: u64) -> io::Result<()> {
        (self.next, self.count) = (0, 0);
        self.count = self.epoll.wait(&mut self.events[..], wait_ns)?;
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let event = self.events[..self.count].get(self.next)?;
        self.next += 1;
        Some(Event { token: event.u64, happened: Happened::Ready(event.events) })
    }

    #[inline]
    fn send(&mut self, wire: &mut Wire, _token: u64, bytes: &[u8]) -> io::Result<usize> {
        wire.send(bytes)
    }

    #[inline]
    fn receive(&mut self, wire: &mut Wire) -> io::Result<Received> {
        wire.receive(&mut self.buffer)
    }

    #[inline]
    fn bytes(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    fn unsent(&self) -> &[u8] {
        &[]
    }
}
