//! The system calls of io_uring: sockets registered with a ring, what they send and receive, and the memory for both.
//!
//! It decides nothing. Invariant: the kernel refers to no memory but the ring's own, which is given back only after the ring
//! has let go of it; a buffer is read only between the completion that names it and [`Ring::provide`].

use super::Socket;
use io_uring::types::{BufRingEntry, CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU16, Ordering};

/// Requests handed over at once; more take one more system call. A guess: as many as events of epoll.
const ENTRIES: u32 = 256;
/// Buffers of a thread, a power of two. A guess: there are seldom more answers in a batch, and what finds none comes by a
/// system call.
const BUFFERS: usize = 256;
/// Bytes of one buffer.
const BUFFER_BYTES: usize = 8 * 1024;
/// From one buffer to the next. Not a power of two, or all their beginnings would share a few lines of the CPU's caches.
const STRIDE_BYTES: usize = BUFFER_BYTES + 64;
/// Memory for what leaves with one wait. A guess: 1000 usual requests.
const SEND_BYTES: usize = 256 * 1024;
/// Most connections of a ring: twice as many completions fit, the most that the kernel allows (IORING_MAX_CQ_ENTRIES).
const CONNECTIONS_MAX: u32 = 30_000;
/// The only group of buffers.
const GROUP: u16 = 0;
/// Where user_data holds what a request is about; below it is the number of the connection, above it the rest of its token.
const ABOUT_SHIFT: u32 = 30;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Receiving, from the moment it is asked for until the end.
    Receive = 0,
    /// A send that failed or was cut short; others are not told.
    Send = 1,
    /// Being ready to send, or broken.
    Ready = 2,
}

/// A request that is done, or a part of one that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Whose it is.
    pub token: u64,
    /// What it is about.
    pub about: About,
    /// Bytes, flags of poll(2), or a negative error.
    pub result: i32,
    /// Whether it goes on.
    pub more: bool,
    /// The buffer that was filled.
    pub buffer: Option<u16>,
}

/// A ring for the sockets of one thread.
pub struct Ring {
    io: IoUring,
    /// Entries of the ring of buffers, the buffers behind them, and the bytes to send behind those.
    memory: Memory,
    /// Where the next buffer is provided.
    tail: u16,
    /// Bytes of this batch of sends.
    used: usize,
    /// Whose bytes those are: token, from, to.
    sends: Vec<(u64, usize, usize)>,
    /// How it waits.
    waiting: EnterFlags,
    /// Whether the next send is the first of a batch.
    fresh: bool,
    /// What the kernel refused at a time when nobody could be told.
    refused: Option<io::Error>,
}

impl Ring {
    /// A ring for so many sockets, to be used by this thread only.
    ///
    /// # Errors
    /// ENOSYS, EPERM or EINVAL where the kernel has no io_uring, refuses it, or is older than Linux 6.1; EMFILE beyond the limit of
    /// descriptors.
    pub fn new(connections: u32) -> io::Result<Self> {
        if connections > CONNECTIONS_MAX {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        // Every buffer, and two requests of every connection, may end in one batch.
        let completions = (2 * connections + 2 * BUFFERS as u32).next_power_of_two();
        let io: IoUring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(completions)
            .build(ENTRIES)?;
        io.submitter().register_files_sparse(connections)?;
        let memory = Memory::map()?;
        // SAFETY: the memory is mapped until the ring is closed, because it is dropped after it.
        unsafe { io.submitter().register_buf_ring_with_flags(memory.at as u64, BUFFERS as u16, GROUP, 0)? };
        let sends = Vec::with_capacity(connections as usize);
        let mut waiting = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        // Else who waits for a network would count as one who waits for a disk, in /proc/stat and /proc/pressure/io (Linux 6.15).
        waiting.set(EnterFlags::NO_IOWAIT, io.params().is_feature_no_iowait());
        let mut ring = Self { io, memory, tail: 0, used: 0, sends, waiting, fresh: false, refused: None };
        (0..BUFFERS as u16).for_each(|buffer| ring.provide(buffer));
        Ok(ring)
    }

    /// Registers a socket under a number.
    pub fn add(&mut self, socket: &Socket, number: u32) -> io::Result<()> {
        self.io.submitter().register_files_update(number, &[socket.0.as_raw_fd()]).map(drop)
    }

    /// Ends whatever the ring does with a socket, and lets go of it.
    pub fn remove(&mut self, number: u32) {
        // What was not handed over yet must not meet the next socket of this number.
        self.submit();
        let all = CancelBuilder::fd(Fixed(number)).all();
        // Nothing to cancel is no mistake, and the number is always one of the table.
        self.io.submitter().register_sync_cancel(None, all).ok();
        self.io.submitter().register_files_update(number, &[-1]).ok();
    }

    /// Tells once when a socket has room to send, or has failed.
    pub fn watch(&mut self, number: u32, token: u64) {
        let poll = opcode::PollAdd::new(Fixed(number), libc::POLLOUT as u32).build();
        self.push(&poll.user_data(user_data(token, About::Ready)));
    }

    /// Receives from now on.
    pub fn receive(&mut self, number: u32, token: u64) {
        let receive = opcode::RecvMulti::new(Fixed(number), GROUP).build();
        self.push(&receive.user_data(user_data(token, About::Receive)));
    }

    /// Sends when [`Ring::enter`] is called. False: there is no room for so many bytes. At most one send of a connection
    /// between two waits: after a short one, the next would leave a hole.
    #[inline]
    pub fn send(&mut self, number: u32, token: u64, bytes: &[u8]) -> bool {
        if self.fresh {
            self.fresh = false;
            self.used = 0;
            self.sends.clear();
        }
        if bytes.len() > SEND_BYTES - self.used || self.sends.len() == self.sends.capacity() {
            return false;
        }
        let (from, to) = (self.used, self.used + bytes.len());
        self.memory.outbox()[from..to].copy_from_slice(bytes);
        // At once and in full, or we are told: so the kernel does not come back to these bytes later.
        let send = opcode::Send::new(Fixed(number), self.memory.outbox()[from..to].as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&send.user_data(user_data(token, About::Send)));
        self.used = to;
        self.sends.push((token, from, to));
        true
    }

    /// The bytes of the send of this batch.
    pub fn sent(&mut self, token: u64) -> &[u8] {
        let (from, to) = self.sends.iter().find(|send| send.0 == token).map_or((0, 0), |send| (send.1, send.2));
        &self.memory.outbox()[from..to]
    }

    /// Hands over what waits for it, and waits until something is done, at most `wait_ns`. A signal ends it too.
    ///
    /// # Errors
    /// Those of io_uring_enter(2); the ring is of no use afterwards.
    #[inline]
    pub fn enter(&mut self, wait_ns: u64) -> io::Result<()> {
        let time = Timespec::new().sec(wait_ns / 1_000_000_000).nsec((wait_ns % 1_000_000_000) as u32);
        let (ready, arguments) = (self.io.submission().len() as u32, SubmitArgs::new().timespec(&time));
        // SAFETY: the arguments are of the kind that the flags name, and live until the call is back.
        let entered = unsafe { self.io.submitter().enter(ready, 1, self.waiting.bits(), Some(&arguments)) };
        self.refuse(entered);
        self.submit();
        self.fresh = true;
        self.refused.take().map_or(Ok(()), Err)
    }

    /// What is done, one after the other.
    #[inline]
    pub fn take(&mut self) -> Option<Done> {
        let done = self.io.completion().next()?;
        let (flags, user_data) = (done.flags(), done.user_data());
        let about = match user_data >> ABOUT_SHIFT & 3 {
            0 => About::Receive,
            1 => About::Send,
            _ => About::Ready,
        };
        let token = user_data & !(3 << ABOUT_SHIFT);
        let (more, buffer) = (cqueue::more(flags), cqueue::buffer_select(flags));
        Some(Done { token, about, result: done.result(), more, buffer })
    }

    /// The first bytes of a buffer that was filled.
    #[inline]
    pub fn received(&self, buffer: u16, count: usize) -> &[u8] {
        &self.memory.buffer(buffer)[..count]
    }

    /// Gives a buffer to the kernel.
    #[inline]
    pub fn provide(&mut self, buffer: u16) {
        self.memory.provide(buffer, self.tail);
        self.tail = self.tail.wrapping_add(1);
    }

    #[inline]
    fn push(&mut self, entry: &squeue::Entry) {
        if self.io.submission().is_full() {
            self.submit();
        }
        // SAFETY: requests refer to no memory but the ring's own.
        if unsafe { self.io.submission().push(entry) }.is_err() {
            self.refused.get_or_insert(io::Error::from_raw_os_error(libc::EBUSY));
        }
    }

    /// Hands over what waits for it.
    #[inline]
    fn submit(&mut self) {
        while !self.io.submission().is_empty() && self.refused.is_none() {
            let submitted = self.io.submit();
            self.refuse(submitted);
        }
    }

    /// A wait that ran out, or was ended by a signal, is no mistake.
    #[inline]
    fn refuse(&mut self, entered: io::Result<usize>) {
        if let Err(error) = entered
            && !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR))
        {
            self.refused.get_or_insert(error);
        }
    }
}

impl Drop for Ring {
    /// The kernel closes a ring some time later; until then it would hold the sockets open.
    fn drop(&mut self) {
        self.submit();
        self.io.submitter().register_sync_cancel(None, CancelBuilder::any()).ok();
        self.io.submitter().unregister_files().ok();
        let now = Timespec::new();
        self.io.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&now)).ok();
    }
}

#[inline]
fn user_data(token: u64, about: About) -> u64 {
    token | (about as u64) << ABOUT_SHIFT
}

/// One mapping for all that a ring shares with the kernel.
struct Memory {
    at: *mut u8,
}

// SAFETY: the mapping has one owner, and does not depend on the thread.
unsafe impl Send for Memory {}

impl Memory {
    const BUFFERS_AT: usize = BUFFERS * size_of::<BufRingEntry>();
    const SENDS_AT: usize = Self::BUFFERS_AT + BUFFERS * STRIDE_BYTES;
    const BYTES: usize = Self::SENDS_AT + SEND_BYTES;

    fn map() -> io::Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice; the result is checked before it is used.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), Self::BYTES, access, flags, -1, 0) };
        if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { at: at.cast() }) }
    }

    #[inline]
    fn buffer(&self, number: u16) -> &[u8] {
        assert!(usize::from(number) < BUFFERS, "the kernel names buffers that it was given");
        // SAFETY: within the mapping, which begins as zeros. The kernel named this buffer, so it writes to it no more until
        // it is provided, which needs `self` mutably.
        unsafe { std::slice::from_raw_parts(self.at.add(Self::buffer_at(number)), BUFFER_BYTES) }
    }

    fn buffer_at(number: u16) -> usize {
        Self::BUFFERS_AT + usize::from(number) * STRIDE_BYTES
    }

    #[inline]
    fn provide(&mut self, number: u16, tail: u16) {
        let base = self.at.cast::<BufRingEntry>();
        // SAFETY: within the mapping and aligned. The kernel reads this entry only after the tail has passed it, and there are
        // no more buffers than entries.
        let entry = unsafe { &mut *base.add(usize::from(tail) % BUFFERS) };
        entry.set_addr(self.at as u64 + Self::buffer_at(number) as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(number);
        // SAFETY: the tail lies in the first entry, is aligned, and both sides access it atomically.
        let shared = unsafe { &*BufRingEntry::tail(base).cast::<AtomicU16>() };
        shared.store(tail.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    fn outbox(&mut self) -> &mut [u8] {
        // SAFETY: within the mapping, which begins as zeros. The kernel only reads it, and only within io_uring_enter.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(Self::SENDS_AT), SEND_BYTES) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours, and the ring that shared it is closed.
        unsafe { libc::munmap(self.at.cast(), Self::BYTES) };
    }
}
