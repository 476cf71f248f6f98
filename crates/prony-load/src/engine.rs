//! The loop of one thread: pacer x protocol x stop rule.
//!
//! One loop serves closed and open loads, every protocol and every transport; what differs is the [`Pacer`], the [`Protocol`]
//! and the [`Transport`], chosen when the code is compiled. Invariant: between the first and the last request nothing is
//! allocated, locked or logged, and the clock is read at most twice per request.

use crate::live::{Published, Usage};
use crate::pacer::Pacer;
use crate::protocol::{After, Answer, Protocol};
use crate::slot::{Call, CallState, Phase, Slot};
use crate::sockets::Sockets;
use crate::source::{Asked, Heard, Source};
use crate::sys::{self, Socket};
use crate::tally::{Counted, Failure, Tally, Times};
use crate::target::Endpoint;
use crate::tls::Tls;
use crate::transport::{Event, Happened, Transport};
use crate::wire::{Wire, failure_of};
use prony_model::load::{self, ThreadUse};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

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
/// For less than this the loop does not sleep, but looks again: a timer, a sleep and a wake-up cost more. Measured with
/// `examples/load.rs`, 100,000/s against the null server: 4 us give 2 % less CPU per request and a quarter of the schedule lag
/// at p99; 8 us cost more CPU than they save.
const SLEEP_MIN_NS: u64 = 4_000;
/// Reads of one connection before others have their turn, so that a sender that never stops holds up nobody. A guess: 4 MiB.
const READS_MAX: u32 = 64;
/// Memory for bytes to send that a connection keeps when it has none. A guess: a usual request fits.
const OUT_KEPT_BYTES: usize = 2 * 1024;

/// What leaves in one packet whatever the path: the least that every host of IPv4 must take (RFC 9293, 3.7.1).
const SEGMENT_BYTES: usize = 536;

/// Where connections go and how they are used; the same for every thread.
pub struct Route {
    /// Where connections go, in turn.
    pub endpoints: Vec<Endpoint>,
    /// Where they come from, in turn; empty: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// How they are secured; none: they are not.
    pub tls: Option<Tls>,
    /// A response must be complete within this time.
    pub timeout_ns: u64,
    /// A request that is this late is shed.
    pub deadline_ns: Option<u64>,
    /// Close a connection after that many requests; 1 without keep-alive.
    pub requests_per_connection: u32,
}

/// One thread's part of a load.
pub struct Share {
    /// Connections.
    pub connections: u32,
    /// Number of its first connection among those of all threads.
    pub first: u32,
    /// End after that many requests.
    pub requests_max: u64,
    /// Least time between two connections that are opened; 0: as needed.
    pub connect_gap_ns: u64,
    /// When the load begins.
    pub epoch_ns: u64,
    /// The counted time.
    pub counted: Counted,
}

/// What a thread hands back.
pub struct Outcome {
    /// What it counted.
    pub tally: Tally,
    /// What the source of its requests learnt.
    pub source: Source,
    /// What the kernel said of its connections.
    pub sockets: Sockets,
    /// What it used.
    pub usage: ThreadUse,
    /// How it sent and received.
    pub transport: load::Transport,
    /// Whether it was told to stop before the end.
    pub interrupted: bool,
}

/// One thread of a load.
pub struct Worker<'a, P, R: Protocol, T> {
    route: &'a Route,
    share: Share,
    pacer: P,
    protocol: &'a R,
    source: Source,
    slots: Vec<Slot<R::Link>>,
    calls: Vec<Call>,
    depth: usize,
    /// Free calls, longest free first, so that every connection is used.
    free: VecDeque<u32>,
    /// Calls that think, by the time at which they are free again.
    thinking: BinaryHeap<Reverse<(u64, u32)>>,
    answers: Vec<Answer>,
    sockets: Sockets,
    transport: T,
    /// Slots that send before the next wait, if the transport gathers what is sent.
    gathered: Vec<u32>,
    tally: Tally,
    next_chore: u64,
    next_connect: u64,
    /// Whether connect() may bring a connection at once, as on the same machine, where the handshake needs no waiting.
    connects_at_once: bool,
    /// When the last bytes came in.
    heard_at: u64,
    in_flight: u64,
    /// Calls for which the source has no more requests.
    retired: usize,
    /// Whether requests may begin.
    sending: bool,
    /// Whether this batch of events lies in the counted time; for bytes only.
    counting: bool,
}

impl<'a, P: Pacer, R: Protocol, T: Transport> Worker<'a, P, R, T> {
    /// A thread that holds the connections of its share. Allocates everything it will need.
    pub fn new(route: &'a Route, share: Share, pacer: P, protocol: &'a R, source: Source, transport: T) -> Self {
        let depth = protocol.depth() as usize;
        let places = share.connections * depth as u32;
        let mut slots: Vec<Slot<R::Link>> = (0..share.connections).map(|_| Slot::new(protocol.link())).collect();
        let mut free: VecDeque<u32> = (0..places).collect();
        let mut calls = vec![Call::FREE; places as usize];
        if share.connect_gap_ns > 0 {
            // Connections open one after the other: until its turn comes, a slot rests.
            free.clear();
            for (number, slot) in slots.iter_mut().enumerate() {
                (slot.phase, slot.may_connect) = (Phase::Resting, true);
                slot.until = share.epoch_ns + number as u64 * share.connect_gap_ns;
                slot.parked = depth as u32;
            }
            calls.iter_mut().for_each(|call| call.state = CallState::Parked);
        }
        Self {
            next_connect: share.epoch_ns + u64::from(share.connections) * share.connect_gap_ns,
            tally: Tally::new(share.counted),
            answers: Vec::with_capacity(depth),
            thinking: BinaryHeap::new(),
            sockets: Sockets::default(),
            gathered: Vec::with_capacity(share.connections as usize),
            next_chore: 0,
            connects_at_once: true,
            heard_at: 0,
            in_flight: 0,
            retired: 0,
            sending: true,
            counting: false,
            route,
            share,
            pacer,
            protocol,
            source,
            transport,
            slots,
            calls,
            depth,
            free,
        }
    }

    /// Runs until the counted time is over, the requests are used up, or `stop` is set, and then until the requests in flight
    /// are answered.
    ///
    /// # Errors
    /// Only if the kernel cannot wait (epoll before Linux 5.11).
    pub fn run(mut self, stop: &AtomicBool, published: &Published) -> io::Result<Outcome> {
        let mut usage = Usage::default();
        let mut interrupted = false;
        let mut drained_by = u64::MAX;
        // Whoever starts early waits, so that without a warm-up the first request counts too.
        while let ahead_ns @ 1.. = self.share.epoch_ns.saturating_sub(sys::clock_ns()) {
            self.transport.wait(ahead_ns)?;
        }
        loop {
            let mut now = sys::clock_ns();
            let spent = self.in_flight == 0 && (self.share.requests_max == 0 || self.retired == self.calls.len());
            if now >= self.next_chore || spent {
                self.do_chores(now, published);
                usage.see(now, self.share.counted);
                let stopped = stop.load(Ordering::Relaxed);
                let over = now >= self.share.counted.end_ns || spent;
                if self.sending && (over || stopped) {
                    interrupted = !over;
                    usage.end(now);
                    self.stop_sending(now);
                    drained_by = now + DRAIN_NS.min(self.route.timeout_ns);
                }
                if !self.sending && (now >= drained_by || interrupted || self.in_flight == 0) {
                    break;
                }
            }
            if self.sending {
                now = self.begin_due(now);
            }
            let mut wait_ns = self.wakes_at().saturating_sub(now);
            if P::SCHEDULED && wait_ns < SLEEP_MIN_NS {
                wait_ns = 0;
            }
            self.send_gathered();
            self.transport.wait(wait_ns)?;
            if T::GATHERS {
                self.heard_at = sys::clock_ns();
            }
            while let Some(event) = self.transport.next() {
                self.react(&event);
                // A long row of answers must not hold up what is due meanwhile.
                if P::SCHEDULED && self.sending && self.pacer.next() <= self.heard_at {
                    self.begin_due(self.heard_at);
                }
            }
        }
        let Self { tally, source, sockets, .. } = self;
        Ok(Outcome { tally, source, sockets, usage: usage.total(), transport: T::NAME, interrupted })
    }

    /// When the loop must go on even if nothing happens.
    #[inline]
    fn wakes_at(&self) -> u64 {
        if !self.sending || self.share.requests_max == 0 {
            return self.next_chore;
        }
        let due = if self.free.is_empty() { u64::MAX } else { self.pacer.next() };
        let thought = self.thinking.peek().map_or(u64::MAX, |Reverse((until, _))| *until);
        self.next_chore.min(due).min(thought)
    }

    /// Begins every request that is due while there are free calls. Gives the time after the last.
    #[inline]
    fn begin_due(&mut self, mut now: u64) -> u64 {
        while let Some(Reverse((until, call))) = self.thinking.peek().copied()
            && until <= now
        {
            self.thinking.pop();
            self.free_or_park(call);
        }
        while let Some(call) = self.free.pop_front() {
            let slot = call as usize / self.depth;
            if !self.can_begin(slot, now) {
                self.park(call);
                continue;
            }
            let Some(intended) = self.take(now) else {
                self.free.push_front(call);
                break;
            };
            if !self.begin(call, intended, now) {
                continue;
            }
            self.flush(slot);
            if P::SCHEDULED {
                now = sys::clock_ns();
            }
        }
        now
    }

    /// Whether a call may begin on this slot now. One that must connect first may have to wait for its turn.
    #[inline]
    fn can_begin(&mut self, index: usize, now: u64) -> bool {
        let slot = &mut self.slots[index];
        match slot.phase {
            Phase::Open | Phase::Connecting => {
                slot.begun < self.route.requests_per_connection && self.protocol.has_room(&slot.link)
            }
            Phase::Closed if self.share.connect_gap_ns == 0 || slot.may_connect => true,
            Phase::Closed => {
                let turn = self.turn_to_connect(now);
                let slot = &mut self.slots[index];
                slot.may_connect = turn <= now;
                if !slot.may_connect {
                    (slot.phase, slot.until) = (Phase::Resting, turn);
                }
                slot.may_connect
            }
            Phase::Draining | Phase::Closing | Phase::Resting => false,
        }
    }

    /// When a connection may be opened, at the earliest at `now`, if there is a limit to their rate.
    fn turn_to_connect(&mut self, now: u64) -> u64 {
        let turn = self.next_connect.max(now);
        self.next_connect = turn + self.share.connect_gap_ns;
        if self.share.connect_gap_ns == 0 { now } else { turn }
    }

    /// The next request whose turn has come: its intended time. Those that are too late are shed on the way.
    #[inline]
    fn take(&mut self, now: u64) -> Option<u64> {
        if self.share.requests_max == 0 {
            return None;
        }
        loop {
            let intended = self.pacer.take(now)?;
            if P::SCHEDULED && self.route.deadline_ns.is_some_and(|deadline| now - intended > deadline) {
                self.tally.shed(intended, now);
                self.source.skip();
                continue;
            }
            return Some(intended);
        }
    }

    /// Begins a request on a call; its bytes are sent by the next flush. False: the source has no more.
    #[inline]
    fn begin(&mut self, call: u32, intended: u64, now: u64) -> bool {
        let index = call as usize / self.depth;
        let Some(Asked { request, capture }) = self.source.ask(call, self.protocol) else {
            // This call has nothing to do any more; others may still be on their way through a scenario.
            self.retired += 1;
            return false;
        };
        self.share.requests_max -= 1;
        self.tally.begun(intended, now, P::SCHEDULED);
        self.in_flight += 1;
        self.calls[call as usize] = Call { state: CallState::InFlight, intended, started: now };
        let slot = &mut self.slots[index];
        slot.in_flight += 1;
        if slot.phase == Phase::Closed {
            slot.out.clear();
            slot.sent = 0;
            slot.begun = 0;
            self.protocol.open(&mut slot.link, &mut slot.out);
        }
        slot.begun += 1;
        self.protocol.begin(&mut slot.link, call, request, capture, &mut slot.out);
        if slot.phase == Phase::Closed {
            self.connect(index);
        }
        true
    }

    /// Begins the handshake. The time it takes belongs to the request that needs it.
    fn connect(&mut self, index: usize) {
        let number = self.share.first as usize + index;
        let route = self.route;
        let endpoint = &route.endpoints[number % route.endpoints.len()];
        // One request that leaves in one packet waits for no other: Nagle's delay is not worth a system call.
        let alone = self.route.requests_per_connection == 1 && route.tls.is_none();
        let at_once = alone && self.slots[index].out.len() <= SEGMENT_BYTES;
        let made = Socket::open(endpoint).and_then(|socket| {
            if !at_once {
                socket.hurry();
            }
            if !route.sources.is_empty() {
                // Not the same pairs again and again, should there be as many sources as endpoints.
                let source = number / route.endpoints.len() + self.slots[index].generation as usize;
                socket.come_from(route.sources[source % route.sources.len()])?;
            }
            socket.connect(endpoint)?;
            Ok(socket)
        });
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        slot.phase = Phase::Connecting;
        slot.may_connect = false;
        let token = slot.token(index);
        let watched = made.and_then(|socket| {
            let mut sent = 0;
            if at_once && self.connects_at_once {
                match socket.send(&slot.out) {
                    Ok(count) => sent = count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.connects_at_once = false,
                    Err(error) => return Err(error),
                }
            }
            self.transport.watch(&socket, token, sent < slot.out.len())?;
            slot.wire = Some(match &route.tls {
                None => Wire::plain(socket),
                Some(tls) => Wire::secured(socket, tls)?,
            });
            Ok(sent)
        });
        match watched {
            Ok(0) => {}
            Ok(sent) => {
                self.opened(index);
                self.sent(index, sent);
            }
            Err(error) => self.kill(index, connect_failure(&error)),
        }
    }

    /// Sends what waits, at once or before the next wait.
    #[inline]
    fn flush(&mut self, index: usize) {
        if !T::GATHERS {
            return self.send(index);
        }
        let slot = &mut self.slots[index];
        if slot.has_unsent() && !slot.gathered {
            slot.gathered = true;
            self.gathered.push(index as u32);
        }
    }

    #[inline]
    fn send_gathered(&mut self) {
        for at in 0..self.gathered.len() {
            let index = self.gathered[at] as usize;
            self.slots[index].gathered = false;
            self.send(index);
        }
        self.gathered.clear();
    }

    /// Sends as much as the connection takes.
    #[inline]
    fn send(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let token = slot.token(index);
        let Some(wire) = &mut slot.wire else { return };
        if slot.phase == Phase::Connecting || !(slot.sent < slot.out.len() || wire.has_unsent()) {
            return;
        }
        match self.transport.send(wire, token, &slot.out[slot.sent..]) {
            Ok(count) => self.sent(index, count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.kill(index, failure_of(&error, Failure::Write)),
        }
    }

    /// So many bytes of a slot have left.
    #[inline]
    fn sent(&mut self, index: usize, count: usize) {
        let slot = &mut self.slots[index];
        slot.sent += count;
        self.tally.bytes_out += if self.counting { count as u64 } else { 0 };
        if slot.sent == slot.out.len() {
            slot.sent = 0;
            slot.out.clear();
            if slot.out.capacity() > OUT_KEPT_BYTES {
                slot.out.shrink_to(OUT_KEPT_BYTES);
            }
        }
    }

    #[inline]
    fn react(&mut self, event: &Event) {
        let index = (event.token & 0xffff_ffff) as usize;
        let slot = &mut self.slots[index];
        if slot.token(index) != event.token || slot.wire.is_none() {
            return;
        }
        // Whatever the server says when it is about to close, nothing is expected from this connection any more.
        let listening = slot.phase != Phase::Closing;
        match event.happened {
            Happened::Ready(flags) => self.ready(index, flags),
            Happened::Received(count) if listening => {
                self.heard(index, count);
                self.flush(index);
            }
            Happened::Received(_) => {}
            Happened::Unsent(count) => {
                slot.out.splice(..0, self.transport.unsent().iter().copied());
                self.tally.bytes_out -= if self.counting { (count as u64).min(self.tally.bytes_out) } else { 0 };
            }
            Happened::Failed(how) if listening => self.kill(index, how),
            Happened::Failed(_) => self.close(index),
        }
    }

    #[inline]
    fn ready(&mut self, index: usize, flags: u32) {
        if self.slots[index].phase == Phase::Connecting {
            self.finish_connect(index, flags);
        }
        match self.slots[index].phase {
            Phase::Open | Phase::Draining => {
                if flags & sys::READABLE != 0 {
                    self.receive(index, flags & sys::HUNG_UP != 0);
                }
                self.flush(index);
            }
            Phase::Closing if flags & sys::HUNG_UP != 0 => self.close(index),
            Phase::Closing | Phase::Closed | Phase::Connecting | Phase::Resting => {}
        }
    }

    fn finish_connect(&mut self, index: usize, flags: u32) {
        let slot = &mut self.slots[index];
        let Some(wire) = &mut slot.wire else { return };
        if flags & sys::FAILED != 0 {
            let error = wire.socket().failure();
            return self.kill(index, error.map_or(Failure::Connect, |e| connect_failure(&e)));
        }
        if flags & sys::WRITABLE == 0 {
            return;
        }
        let connected = wire.connected();
        self.opened(index);
        if let Err(error) = connected {
            self.kill(index, failure_of(&error, Failure::Tls));
        }
    }

    /// A connection is made.
    fn opened(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.phase = Phase::Open;
        self.transport.opened(slot.token(index));
        self.tally.connections_opened += u64::from(self.counting);
    }

    /// Receives until the wire is empty, and handles the answers.
    #[inline]
    fn receive(&mut self, index: usize, hung_up: bool) {
        for _ in 0..READS_MAX {
            let slot = &mut self.slots[index];
            let Some(wire) = &mut slot.wire else { return };
            let received = match self.transport.receive(wire) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.kill(index, failure_of(&error, Failure::Read)),
            };
            if received.count == 0 {
                return self.end_of_stream(index);
            }
            self.heard(index, received.count);
            if hung_up && self.slots[index].phase == Phase::Closing {
                return self.close(index);
            }
            // A read that does not fill the buffer emptied the socket (epoll(7), edge-triggered); only when the server has
            // hung up is there more to learn: the end itself.
            if received.drained && !hung_up {
                return;
            }
        }
        // There is more. An edge-triggered set tells of it again when the socket is watched anew.
        let slot = &self.slots[index];
        if let Some(wire) = &slot.wire
            && self.transport.watch_again(wire.socket(), slot.token(index)).is_err()
        {
            self.kill(index, Failure::Read);
        }
    }

    /// So many bytes came.
    #[inline]
    fn heard(&mut self, index: usize, count: usize) {
        if !T::GATHERS {
            self.heard_at = sys::clock_ns();
        }
        let now = self.heard_at;
        self.tally.bytes_in += if self.counting { count as u64 } else { 0 };
        let slot = &mut self.slots[index];
        let bytes = self.transport.bytes(count);
        let fed = self.protocol.feed(&mut slot.link, bytes, &mut slot.out, &mut self.answers);
        // Where answers are told apart, what was complete before the bytes went wrong is an answer still. Where they only
        // follow each other, more bytes than an answer has make that answer doubtful.
        if fed.is_ok() || !R::ANSWERS_FOLLOW_REQUESTS {
            self.settle(index, now, fed.unwrap_or(After::Draining));
        }
        if fed.is_err() {
            self.kill(index, Failure::Protocol);
        }
    }

    /// Handles the answers that the last bytes completed.
    #[inline]
    fn settle(&mut self, index: usize, now: u64, after: After) {
        if after == After::Draining && self.slots[index].phase == Phase::Open {
            self.slots[index].phase = Phase::Draining;
        }
        let mut answers = std::mem::take(&mut self.answers);
        for answer in answers.drain(..) {
            self.answer(answer, now, after);
        }
        self.answers = answers;
        let used_up = self.route.requests_per_connection;
        let slot = &mut self.slots[index];
        if after == After::Ended && slot.in_flight > 0 {
            self.kill(index, Failure::Read);
        } else if after == After::Ended && slot.phase == Phase::Open {
            slot.phase = Phase::Closing;
            slot.until = now + CLOSING_NS;
        } else if slot.in_flight == 0 && (slot.phase == Phase::Draining || slot.begun >= used_up) {
            self.close(index);
        } else if slot.parked > 0 && slot.phase == Phase::Open && slot.begun < used_up {
            self.unpark(index);
        }
    }

    /// A call is answered. In closed loop the next one begins at once, on the same connection.
    #[inline]
    fn answer(&mut self, answer: Answer, now: u64, after: After) {
        let number = answer.call;
        let index = number as usize / self.depth;
        let call = &mut self.calls[number as usize];
        if call.state != CallState::InFlight {
            return;
        }
        call.state = CallState::Free;
        let (intended, started) = (call.intended, call.started);
        self.in_flight -= 1;
        let slot = &mut self.slots[index];
        slot.in_flight -= 1;
        let Some(status) = answer.status else {
            self.tally.failed(started, now, Failure::Read);
            self.source.failed(number, self.share.counted.holds(now));
            return self.free_or_park(number);
        };
        if R::ANSWERS_FOLLOW_REQUESTS && slot.has_unsent() && slot.in_flight == 0 {
            slot.phase = Phase::Draining;
        }
        let since = if P::SCHEDULED { intended } else { started };
        let latency_ns = self.share.counted.holds(now).then(|| now - since);
        let heard = Heard { status, captured: answer.captured, latency_ns };
        let verdict = self.source.answered(number, heard);
        self.tally.answered(Times { intended, started, now }, status, P::SCHEDULED, verdict.judgement);
        if let Some(think) = verdict.think
            && self.sending
        {
            return self.thinking.push(Reverse((now + think.0, number)));
        }
        if self.sending
            && after == After::Open
            && self.can_begin(index, now)
            && let Some(intended) = self.take(now)
        {
            // Without another request the call is retired, and free for nothing.
            self.begin(number, intended, now);
            return;
        }
        self.free_or_park(number);
    }

    /// The server has closed. What it owes is lost, unless that is how an answer ends.
    fn end_of_stream(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        self.protocol.end(&mut slot.link, &mut self.answers);
        slot.phase = Phase::Draining;
        if !self.answers.is_empty() {
            self.settle(index, sys::clock_ns(), After::Draining);
        }
        let slot = &self.slots[index];
        if slot.in_flight > 0 {
            self.kill(index, Failure::Read);
        } else if slot.phase == Phase::Draining {
            self.close(index);
        }
    }

    /// Closes a connection that carries nothing; the next call opens a new one.
    fn close(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(wire) = slot.wire.take() {
            self.sockets.ending(wire.socket());
            self.transport.forget(slot.token(index));
        }
        slot.phase = Phase::Closed;
        self.unpark(index);
    }

    /// Ends a connection with everything on it.
    fn kill(&mut self, index: usize, how: Failure) {
        let now = sys::clock_ns();
        self.answers.clear();
        let slot = &mut self.slots[index];
        self.transport.forget(slot.token(index));
        slot.wire = None;
        slot.in_flight = 0;
        let rests = matches!(how, Failure::Connect | Failure::NoLocalPort | Failure::NoDescriptor | Failure::Tls);
        slot.phase = Phase::Closed;
        if rests {
            let until = self.turn_to_connect(now + REST_NS);
            let slot = &mut self.slots[index];
            (slot.phase, slot.until, slot.may_connect) = (Phase::Resting, until, true);
        }
        for number in index * self.depth..(index + 1) * self.depth {
            let call = &mut self.calls[number];
            if call.state == CallState::InFlight {
                call.state = CallState::Free;
                self.tally.failed(call.started, now, how);
                self.in_flight -= 1;
                self.source.failed(number as u32, self.share.counted.holds(now));
                self.free_or_park(number as u32);
            }
        }
        if !rests {
            self.unpark(index);
        }
    }

    #[inline]
    fn free_or_park(&mut self, call: u32) {
        if self.slots[call as usize / self.depth].takes_calls() {
            self.free.push_back(call);
        } else {
            self.park(call);
        }
    }

    /// A call waits until its slot takes calls again.
    fn park(&mut self, call: u32) {
        self.calls[call as usize].state = CallState::Parked;
        self.slots[call as usize / self.depth].parked += 1;
    }

    fn unpark(&mut self, index: usize) {
        if std::mem::take(&mut self.slots[index].parked) == 0 {
            return;
        }
        for number in index * self.depth..(index + 1) * self.depth {
            if self.calls[number].state == CallState::Parked {
                self.calls[number].state = CallState::Free;
                self.free.push_back(number as u32);
            }
        }
    }

    /// What is not worth doing per request: timeouts, rests, telling how far we are.
    fn do_chores(&mut self, now: u64, published: &Published) {
        if self.in_flight > 0 {
            self.time_out(now);
        }
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if matches!(slot.phase, Phase::Resting | Phase::Closing) && slot.until <= now {
                self.close(index);
            }
        }
        let open = self.slots.iter().filter(|slot| slot.wire.is_some()).count();
        published.tell(&mut self.tally, P::SCHEDULED, self.in_flight, open as u64);
        self.counting = self.share.counted.holds(now);
        let edges = [self.share.counted.start_ns, self.share.counted.end_ns];
        let next_edge = edges.into_iter().find(|edge| *edge > now).unwrap_or(u64::MAX);
        self.next_chore = next_edge.min(now + CHORE_EVERY_NS);
    }

    fn time_out(&mut self, now: u64) {
        for number in 0..self.calls.len() {
            let call = self.calls[number];
            if call.state != CallState::InFlight || now.saturating_sub(call.started) <= self.route.timeout_ns {
                continue;
            }
            let index = number / self.depth;
            let slot = &mut self.slots[index];
            if slot.phase == Phase::Connecting || !self.protocol.cancel(&mut slot.link, number as u32, &mut slot.out) {
                self.kill(index, Failure::Timeout);
                continue;
            }
            slot.in_flight -= 1;
            self.in_flight -= 1;
            self.calls[number].state = CallState::Free;
            self.tally.failed(call.started, now, Failure::Timeout);
            self.source.failed(number as u32, self.share.counted.holds(now));
            self.free_or_park(number as u32);
            self.flush(index);
        }
    }

    /// Ends the counted time, at the latest at its end. What the schedule still held was intended, but never sent.
    fn stop_sending(&mut self, now: u64) {
        self.sending = false;
        self.counting = false;
        let counted = &mut self.share.counted;
        let end = counted.end_ns.min(now).max(counted.start_ns);
        counted.end_ns = end;
        if P::SCHEDULED && self.share.requests_max > 0 {
            while let Some(intended) = self.pacer.take(end.saturating_sub(1)) {
                self.tally.intended += u64::from(self.share.counted.holds(intended));
            }
        }
        let in_flight = self.calls.iter_mut().filter(|call| call.state == CallState::InFlight);
        for call in in_flight {
            self.tally.in_flight_ns += self.share.counted.overlap(call.started, end);
            // Whatever ends from now on has been added already, and is not counted.
            call.started = call.started.max(end);
        }
        self.tally.counted = self.share.counted;
        for wire in self.slots.iter().filter_map(|slot| slot.wire.as_ref()) {
            self.sockets.ask(wire.socket());
        }
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
