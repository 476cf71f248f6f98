//! The loop of one thread: pacer x protocol x stop rule.
//!
//! One loop serves closed and open loads; what differs is the [`Pacer`], chosen when the code is compiled. Invariant: between
//! the first and the last request nothing is allocated, locked or logged, and the clock is read at most twice per request.

use crate::pacer::Pacer;
use crate::request::{Choice, Requests};
use crate::response::{Fed, Response};
use crate::sys::{self, Epoll, Event, Socket};
use crate::tally::{Counted, Failure, Tally};
use prony_model::load::ThreadUse;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How often timeouts, rests and the stop flag are looked at. A guess: 1 % of the shortest useful timeout (1 s), and looking
/// costs 2 ns per connection.
const CHORE_EVERY_NS: u64 = 10_000_000;
/// How long a connection rests after it could not be made, so that a dead server does not cost a whole CPU. A guess.
const REST_NS: u64 = 50_000_000;
/// How long the server may take to close a connection that it said it would close; then we do. A guess. Waiting leaves the
/// TIME_WAIT to the server, which can have any number of them, while each of ours takes a local port for 60 s.
const CLOSING_NS: u64 = 100_000_000;
/// How long requests in flight at the end are waited for. They are not counted, but the server should not see them cut.
/// A guess; short, because a load must end when it is told to.
const DRAIN_NS: u64 = 500_000_000;
/// Events taken from the kernel at once. Measured: more change nothing at 1000 connections.
const EVENTS: usize = 256;
/// Bytes received at once; one buffer per thread. A guess: the default receive buffer of a socket fits twice.
const BUFFER_BYTES: usize = 64 * 1024;

/// What every thread must know, and none changes.
pub struct Script {
    /// Where connections go.
    pub address: SocketAddr,
    /// What is sent.
    pub requests: Requests,
    /// A response must be complete within this time.
    pub timeout_ns: u64,
    /// Close a connection after that many requests; 1 without keep-alive.
    pub requests_per_connection: u32,
}

/// What a thread tells while it runs. Written every [`CHORE_EVERY_NS`] by one thread.
#[derive(Debug, Default)]
pub struct Published {
    /// Complete responses so far in the counted time.
    pub completed: AtomicU64,
    /// Failed requests so far in the counted time.
    pub failed: AtomicU64,
}

/// What a thread hands back.
pub struct Outcome {
    /// What it counted.
    pub tally: Tally,
    /// What it used.
    pub usage: ThreadUse,
    /// Whether it was told to stop before the end.
    pub interrupted: bool,
}

/// A place for one connection, and for the request it carries.
struct Slot {
    socket: Option<Socket>,
    /// Counts the sockets of this place, so that an event of an older one is recognised.
    generation: u32,
    phase: Phase,
    request: u32,
    sent_bytes: usize,
    served: u32,
    intended: u64,
    started: u64,
    /// When a rest or a close ends.
    until: u64,
    response: Response,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Free for a request; the socket may be open or not.
    Idle,
    /// The handshake of a request's connection runs.
    Connecting,
    /// A request is in flight.
    Busy,
    /// The response is complete, and the server is about to close.
    Closing,
    /// Could not connect; waits.
    Resting,
}

/// One thread of a load.
pub struct Worker<'a, P> {
    script: &'a Script,
    pacer: P,
    choice: Choice,
    slots: Vec<Slot>,
    /// Slots in phase `Idle`, longest free first, so that every connection is used.
    free: VecDeque<u32>,
    epoll: Epoll,
    buffer: Vec<u8>,
    tally: Tally,
    counted: Counted,
    next_chore: u64,
    /// Whether requests may begin.
    sending: bool,
    /// Whether this batch of events lies in the counted time; for bytes only.
    counting: bool,
}

impl<'a, P: Pacer> Worker<'a, P> {
    /// A thread that holds `connections` connections. Allocates everything it will need.
    pub fn new(script: &'a Script, pacer: P, choice: Choice, connections: u32, counted: Counted) -> io::Result<Self> {
        let slot = || Slot {
            socket: None,
            generation: 0,
            phase: Phase::Idle,
            request: 0,
            sent_bytes: 0,
            served: 0,
            intended: 0,
            started: 0,
            until: 0,
            response: Response::default(),
        };
        Ok(Self {
            script,
            pacer,
            choice,
            slots: (0..connections).map(|_| slot()).collect(),
            free: (0..connections).collect(),
            epoll: Epoll::new()?,
            buffer: vec![0; BUFFER_BYTES],
            tally: Tally::new(counted),
            counted,
            next_chore: 0,
            sending: true,
            counting: false,
        })
    }

    /// Runs until the counted time is over or `stop` is set, and then until the requests in flight are answered.
    ///
    /// # Errors
    /// Only if the kernel cannot wait (before Linux 5.11).
    pub fn run(mut self, stop: &AtomicBool, published: &Published) -> io::Result<Outcome> {
        let mut events = [sys::NO_EVENT; EVENTS];
        let mut usage = Usage::default();
        let mut interrupted = false;
        let mut drained_by = u64::MAX;
        loop {
            let mut now = sys::clock_ns();
            if now >= self.next_chore {
                self.do_chores(now, published);
                usage.see(now, self.counted);
                if self.sending && (now >= self.counted.end_ns || stop.load(Ordering::Relaxed)) {
                    interrupted = now < self.counted.end_ns;
                    usage.end(now);
                    self.stop_sending(now);
                    drained_by = now + DRAIN_NS.min(self.script.timeout_ns);
                }
                if !self.sending && (now >= drained_by || interrupted || self.none_in_flight()) {
                    break;
                }
            }
            if self.sending {
                now = self.begin_due(now);
            }
            let wait_ns = self.wakes_at().saturating_sub(now);
            let count = self.epoll.wait(&mut events, wait_ns)?;
            for event in &events[..count] {
                self.react(event);
            }
        }
        Ok(Outcome { tally: self.tally, usage: usage.total(), interrupted })
    }

    /// When the loop must go on even if nothing happens.
    #[inline]
    fn wakes_at(&self) -> u64 {
        if self.sending && !self.free.is_empty() { self.next_chore.min(self.pacer.next()) } else { self.next_chore }
    }

    /// Begins every request that is due while there are free connections. Gives the time after the last.
    #[inline]
    fn begin_due(&mut self, mut now: u64) -> u64 {
        while !self.free.is_empty()
            && let Some(intended) = self.pacer.take(now)
            && let Some(slot) = self.free.pop_front()
        {
            self.begin(slot as usize, intended, now);
            if P::SCHEDULED {
                now = sys::clock_ns();
            }
        }
        now
    }

    #[inline]
    fn begin(&mut self, index: usize, intended: u64, now: u64) {
        self.tally.begun(intended, now, P::SCHEDULED);
        let request = self.choice.choose(&self.script.requests);
        let slot = &mut self.slots[index];
        slot.request = request;
        slot.sent_bytes = 0;
        slot.intended = intended;
        slot.started = now;
        slot.response.expect(self.script.requests.list[request as usize].head);
        if slot.socket.is_some() {
            slot.phase = Phase::Busy;
            self.send(index);
        } else {
            self.connect(index);
        }
    }

    /// Begins the handshake. The time it takes belongs to the request that needs it.
    fn connect(&mut self, index: usize) {
        let made = Socket::open(&self.script.address).and_then(|socket| {
            socket.connect(&self.script.address)?;
            Ok(socket)
        });
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.served = 0;
        slot.phase = Phase::Connecting;
        let token = u64::from(slot.generation) << 32 | index as u64;
        let watched = made.and_then(|socket| {
            self.epoll.watch(&socket, token)?;
            slot.socket = Some(socket);
            Ok(())
        });
        if let Err(error) = watched {
            self.fail(index, connect_failure(&error));
        }
    }

    #[inline]
    fn send(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let bytes = &self.script.requests.list[slot.request as usize].bytes;
        let Some(socket) = &slot.socket else { return };
        match socket.send(&bytes[slot.sent_bytes..]) {
            Ok(count) => {
                slot.sent_bytes += count;
                self.tally.bytes_out += if self.counting { count as u64 } else { 0 };
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.fail(index, Failure::Write),
        }
    }

    #[inline]
    fn react(&mut self, event: &Event) {
        let (token, flags) = (event.u64, event.events);
        let index = (token & 0xffff_ffff) as usize;
        let slot = &mut self.slots[index];
        if u64::from(slot.generation) != token >> 32 {
            return;
        }
        match slot.phase {
            Phase::Busy => {
                let unsent = slot.sent_bytes < self.script.requests.list[slot.request as usize].bytes.len();
                if unsent && flags & sys::WRITABLE != 0 && flags & sys::FAILED == 0 {
                    self.send(index);
                }
                if flags & sys::READABLE != 0 {
                    self.receive(index, flags & sys::HUNG_UP != 0);
                }
            }
            Phase::Connecting => self.finish_connect(index, flags),
            // The server ended a connection that carries no request, or talks unasked: it is of no use any more.
            Phase::Idle if flags & sys::READABLE != 0 => slot.socket = None,
            Phase::Closing if flags & sys::READABLE != 0 => {
                slot.socket = None;
                self.release(index);
            }
            Phase::Idle | Phase::Closing | Phase::Resting => {}
        }
    }

    fn finish_connect(&mut self, index: usize, flags: u32) {
        let slot = &mut self.slots[index];
        if flags & sys::FAILED != 0 {
            let error = slot.socket.as_ref().and_then(Socket::failure);
            self.fail(index, error.map_or(Failure::Connect, |e| connect_failure(&e)));
        } else if flags & sys::WRITABLE != 0 {
            slot.phase = Phase::Busy;
            self.tally.connections_opened += u64::from(self.counting);
            self.send(index);
        }
    }

    /// Receives until the socket is empty. A read that does not fill the buffer emptied it (epoll(7), edge-triggered); only
    /// when the server has hung up is there more to learn: the end itself.
    #[inline]
    fn receive(&mut self, index: usize, hung_up: bool) {
        loop {
            let slot = &mut self.slots[index];
            let Some(socket) = &slot.socket else { return };
            let count = match socket.receive(&mut self.buffer) {
                Ok(0) => {
                    return match slot.response.end_of_stream() {
                        Some(fed) => self.answer(index, sys::clock_ns(), fed, 0, true),
                        None => self.fail(index, Failure::Read),
                    };
                }
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.fail(index, Failure::Read),
            };
            let now = sys::clock_ns();
            self.tally.bytes_in += if self.counting { count as u64 } else { 0 };
            match slot.response.feed(&self.buffer[..count]) {
                Ok(Fed::More) if count == self.buffer.len() || hung_up => {}
                Ok(Fed::More) => return,
                Ok(fed) => return self.answer(index, now, fed, count, hung_up),
                Err(_) => return self.fail(index, Failure::Protocol),
            }
        }
    }

    /// A response is complete after `count` bytes of this read.
    #[inline]
    fn answer(&mut self, index: usize, now: u64, fed: Fed, count: usize, hung_up: bool) {
        let Fed::Complete { status, close, used } = fed else { return };
        if used < count {
            // More came than the head announced: where the next response begins is unknown.
            return self.fail(index, Failure::Protocol);
        }
        let slot = &mut self.slots[index];
        self.tally.answered(slot.intended, slot.started, now, status, P::SCHEDULED);
        slot.served += 1;
        let unsent = slot.sent_bytes < self.script.requests.list[slot.request as usize].bytes.len();
        if hung_up || unsent || (!close && slot.served >= self.script.requests_per_connection) {
            slot.socket = None;
        } else if close {
            slot.phase = Phase::Closing;
            slot.until = now + CLOSING_NS;
            return self.see_end(index);
        }
        slot.phase = Phase::Idle;
        if self.sending
            && let Some(intended) = self.pacer.take(now)
        {
            self.begin(index, intended, now);
        } else {
            self.free.push_back(index as u32);
        }
    }

    /// The end of the stream may have come with the response, and then no event announces it.
    fn see_end(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let waits = match slot.socket.as_ref().map(|s| s.receive(&mut self.buffer)) {
            Some(Err(error)) => error.kind() == io::ErrorKind::WouldBlock,
            Some(Ok(_)) | None => false,
        };
        if !waits {
            slot.socket = None;
            self.release(index);
        }
    }

    fn fail(&mut self, index: usize, how: Failure) {
        let now = sys::clock_ns();
        let slot = &mut self.slots[index];
        slot.socket = None;
        self.tally.failed(slot.started, now, how);
        match how {
            Failure::Connect | Failure::NoLocalPort | Failure::NoDescriptor => {
                slot.phase = Phase::Resting;
                slot.until = now + REST_NS;
            }
            Failure::Write | Failure::Read | Failure::Timeout | Failure::Protocol => self.release(index),
        }
    }

    fn release(&mut self, index: usize) {
        self.slots[index].phase = Phase::Idle;
        self.free.push_back(index as u32);
    }

    /// What is not worth doing per request: timeouts, rests, telling how far we are.
    fn do_chores(&mut self, now: u64, published: &Published) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            match slot.phase {
                Phase::Connecting | Phase::Busy if now.saturating_sub(slot.started) > self.script.timeout_ns => {
                    self.fail(index, Failure::Timeout);
                }
                Phase::Resting | Phase::Closing if slot.until <= now => {
                    slot.socket = None;
                    self.release(index);
                }
                Phase::Idle | Phase::Connecting | Phase::Busy | Phase::Closing | Phase::Resting => {}
            }
        }
        published.completed.store(self.tally.completed, Ordering::Relaxed);
        published.failed.store(self.tally.errors.total(), Ordering::Relaxed);
        self.counting = self.counted.holds(now);
        let edges = [self.counted.start_ns, self.counted.end_ns];
        let next_edge = edges.into_iter().find(|edge| *edge > now).unwrap_or(u64::MAX);
        self.next_chore = next_edge.min(now + CHORE_EVERY_NS);
    }

    /// Ends the counted time, at the latest at its end. What the schedule still held was intended, but never sent.
    fn stop_sending(&mut self, now: u64) {
        self.sending = false;
        self.counting = false;
        let end = self.counted.end_ns.min(now).max(self.counted.start_ns);
        self.counted.end_ns = end;
        if P::SCHEDULED {
            while let Some(intended) = self.pacer.take(end.saturating_sub(1)) {
                self.tally.intended += u64::from(self.counted.holds(intended));
            }
        }
        let in_flight = self.slots.iter().filter(|s| matches!(s.phase, Phase::Connecting | Phase::Busy));
        self.tally.in_flight_ns += in_flight.map(|s| self.counted.overlap(s.started, end)).sum::<u64>();
        // Whatever ends from now on has been added already, and is not counted.
        self.tally.counted = Counted { start_ns: self.counted.start_ns, end_ns: end };
        self.slots.iter_mut().for_each(|s| s.started = s.started.max(end));
    }

    fn none_in_flight(&self) -> bool {
        !self.slots.iter().any(|s| matches!(s.phase, Phase::Connecting | Phase::Busy))
    }
}

/// Which failure an error of connect() is.
fn connect_failure(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => Failure::NoLocalPort,
        Some(libc::EMFILE | libc::ENFILE) => Failure::NoDescriptor,
        _ => Failure::Connect,
    }
}

/// CPU time of this thread between the edges of the counted time.
#[derive(Default)]
struct Usage {
    first: Option<(u64, f64, f64)>,
    last: Option<(u64, f64, f64)>,
}

impl Usage {
    fn see(&mut self, now: u64, counted: Counted) {
        if self.first.is_none() && now >= counted.start_ns {
            let (user, system) = sys::thread_cpu_us();
            self.first = Some((now, user, system));
        }
    }

    fn end(&mut self, now: u64) {
        let (user, system) = sys::thread_cpu_us();
        self.last = Some((now, user, system));
    }

    fn total(&self) -> ThreadUse {
        match (self.first, self.last) {
            (Some((from, user_0, system_0)), Some((to, user_1, system_1))) => ThreadUse {
                user_us: user_1 - user_0,
                system_us: system_1 - system_0,
                wall_us: to.saturating_sub(from) as f64 / 1e3,
            },
            (None, _) | (_, None) => ThreadUse::default(),
        }
    }
}
