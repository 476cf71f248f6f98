//! The loop of one thread: pacer x protocol x stop rule.
//!
//! One loop serves closed and open loads, every protocol and every transport; what differs is the [`Pacer`], the [`Protocol`]
//! and the [`Transport`], chosen when the code is compiled. Invariant: between the first and the last request nothing is
//! allocated, locked or logged, and the clock is read at most twice per request.

mod connections;
#[cfg(test)]
mod drowsy_tests;
mod lead;
mod requests;

use crate::live::{Now, Published, Usage};
use crate::pacer::{Asked, Pacer};
use crate::pauses::{PauseWatch, Pauses};
use crate::protocol::{Answer, Protocol};
use crate::slot::{Call, CallState, Phase, Slot};
use crate::sockets::Sockets;
use crate::source::Source;
use crate::sys;
use crate::tally::{Counted, Failure, Tally};
use crate::target::Endpoint;
use crate::tls::Tls;
use crate::transport::Transport;
use lead::Lead;
use prony_model::load::{self, ThreadUse};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often timeouts, rests and the stop flag are looked at. A guess: 1 % of the shortest useful timeout (1 s), and looking
/// costs 2 ns per connection.
const CHORE_EVERY_NS: u64 = 10_000_000;
/// How long requests in flight at the end are waited for. They are not counted, but the server should not see them cut.
/// A guess; short, because a load must end when it is told to.
const DRAIN_NS: u64 = 500_000_000;
/// For less than this the loop does not sleep, but looks again: a timer, a sleep and a wake-up cost more. Measured with
/// `examples/load.rs`, 100,000/s against the null server: 4 us give 2 % less CPU per request and a quarter of the schedule lag
/// at p99; 8 us cost more CPU than they save.
const SLEEP_MIN_NS: u64 = 4_000;

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
    /// Look again and again instead of sleeping.
    pub spin: bool,
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
    /// Time between the first connections, from the beginning on; 0: all at once.
    pub opening_gap_ns: u64,
    /// Least time between two connections that are opened after them; 0: as needed.
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
    asked: Asked<P>,
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
    /// Only in an open loop that never sleeps.
    pauses: Option<PauseWatch>,
    lead: Lead,
    usage: Usage,
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

impl<'a, P: Pacer + Clone, R: Protocol, T: Transport> Worker<'a, P, R, T> {
    /// A thread that holds the connections of its share. Allocates everything it will need.
    pub fn new(route: &'a Route, share: Share, pacer: P, protocol: &'a R, source: Source, transport: T) -> Self {
        let depth = protocol.depth() as usize;
        let places = share.connections * depth as u32;
        let mut slots: Vec<Slot<R::Link>> = (0..share.connections).map(|_| Slot::new(protocol.link())).collect();
        let mut free: VecDeque<u32> = (0..places).collect();
        let mut calls = vec![Call::FREE; places as usize];
        if share.opening_gap_ns > 0 {
            // Connections open one after the other: until its turn comes, a slot rests.
            free.clear();
            for (number, slot) in slots.iter_mut().enumerate() {
                (slot.phase, slot.may_connect) = (Phase::Resting, true);
                slot.until = share.epoch_ns + number as u64 * share.opening_gap_ns;
                slot.parked = depth as u32;
            }
            calls.iter_mut().for_each(|call| call.state = CallState::Parked);
        }
        let looks_for_pauses = P::SCHEDULED && route.spin;
        let mut tally = Tally::new(share.counted);
        tally.pauses = looks_for_pauses.then(Pauses::default);
        Self {
            next_connect: share.epoch_ns + u64::from(share.connections) * share.opening_gap_ns,
            tally,
            pauses: looks_for_pauses.then(|| PauseWatch::new(route.tls.is_some())),
            lead: Lead::default(),
            usage: Usage::default(),
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
            asked: Asked::new(&pacer),
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
        let mut interrupted = false;
        let mut drained_by = u64::MAX;
        // Since when nothing was done that a thread that sleeps would not have done asleep.
        let mut idle_since = None;
        // When the last sleep was to end, unless something happened before.
        let mut wakes_at = None;
        self.await_epoch()?;
        loop {
            let mut now = sys::clock_ns();
            if let Some(since) = idle_since.take() {
                self.usage.spin(now - since);
                self.pauses.iter_mut().for_each(PauseWatch::caught_up);
            }
            if let Some(late_ns) = wakes_at.take().and_then(|at| now.checked_sub(at)) {
                self.lead.woke(late_ns);
            }
            self.judge(now);
            let spent = self.in_flight == 0 && (self.share.requests_max == 0 || self.retired == self.calls.len());
            if now >= self.next_chore || spent {
                self.do_chores(now, published);
                self.usage.see(now, self.share.counted);
                let stopped = stop.load(Ordering::Relaxed);
                let over = now >= self.share.counted.end_ns || spent;
                if self.sending && (over || stopped) {
                    interrupted = !over;
                    self.usage.end(now);
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
            let wait_ns = self.wakes_at().saturating_sub(now);
            let sleep_ns = self.sleep_ns(wait_ns);
            let spins = sleep_ns == 0 && wait_ns > 0 && (self.route.spin || wait_ns >= SLEEP_MIN_NS);
            idle_since = spins.then_some(now);
            wakes_at = (sleep_ns > 0).then_some(now + sleep_ns);
            if spins
                && self.gathered.is_empty()
                && let Some(pauses) = &mut self.pauses
            {
                pauses.rest();
            }
            self.send_gathered();
            self.transport.wait(now, sleep_ns)?;
            if T::GATHERS {
                self.heard_at = self.look();
            }
            while let Some(event) = self.transport.next() {
                (idle_since, wakes_at) = (None, None);
                self.react(&event);
                // A long row of answers must not hold up what is due meanwhile.
                if P::SCHEDULED && self.sending && self.pacer.next() <= self.heard_at {
                    self.begin_due(self.heard_at);
                }
            }
        }
        let Self { tally, usage, source, sockets, .. } = self;
        Ok(Outcome { tally, source, sockets, usage: usage.total(), transport: T::NAME, interrupted })
    }

    /// Whoever starts early waits, so that without a warm-up the first request counts too.
    fn await_epoch(&mut self) -> io::Result<()> {
        loop {
            let now = sys::clock_ns();
            match self.share.epoch_ns.saturating_sub(now) {
                0 => return Ok(()),
                ahead_ns => self.transport.wait(now, ahead_ns)?,
            }
        }
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

    /// How long to sleep where nothing is to be done for so long; 0: look again and again.
    #[inline]
    fn sleep_ns(&self, wait_ns: u64) -> u64 {
        match (self.route.spin, P::SCHEDULED) {
            (true, _) => 0,
            (false, true) if wait_ns < SLEEP_MIN_NS => 0,
            (false, true) => self.lead.sleep_ns(wait_ns),
            (false, false) => wait_ns,
        }
    }

    /// What is not worth doing per request: timeouts, rests, telling how far we are.
    fn do_chores(&mut self, now: u64, published: &Published) {
        self.lead.look(now, self.share.requests_max);
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
        let (in_flight, connections, spun_us) = (self.in_flight, open as u64, self.usage.spun_us());
        let (asked, pacer, counted, rest) = (&mut self.asked, &self.pacer, self.share.counted, self.share.requests_max);
        published.tell(&mut self.tally, P::SCHEDULED, |tally| {
            let due = asked.by(now.min(counted.end_ns.saturating_sub(1)), pacer, tally.intended, counted);
            let intended = due.min(tally.intended.saturating_add(rest));
            Now { intended, in_flight, connections, spun_us }
        });
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
