//! The requests of one thread: begun when their turn has come and a call is free, and answered.
//!
//! It knows no sockets. Invariant: a call is free, in flight, thinking or parked, and in just one of these places.

use super::Worker;
use crate::pacer::Pacer;
use crate::pauses::PauseWatch;
use crate::protocol::{After, Answer, Protocol};
use crate::slot::{Call, CallState, Phase};
use crate::source::{Asked, Heard};
use crate::sys;
use crate::tally::{Failure, Times};
use crate::transport::Transport;
use std::cmp::Reverse;

/// How long the server may take to close a connection that it said it would close; then we do. A guess. Waiting leaves the
/// TIME_WAIT to the server, which can have any number of them, while each of ours takes a local port for 60 s.
const CLOSING_NS: u64 = 100_000_000;

/// When bytes came, in nanoseconds on the monotonic clock.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// When they reached this machine; where that is not known, when this thread saw them.
    pub(super) at: u64,
    /// When this thread saw them.
    pub(super) seen: u64,
}

impl<P: Pacer, R: Protocol, T: Transport> Worker<'_, P, R, T> {
    /// Begins every request that is due while there are free calls. Gives the time after the last.
    #[inline]
    pub(super) fn begin_due(&mut self, mut now: u64) -> u64 {
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
                now = self.look();
            }
        }
        now
    }

    /// Whether a call may begin on this slot now. One that must connect first may have to wait for its turn.
    #[inline]
    pub(super) fn can_begin(&mut self, index: usize, now: u64) -> bool {
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
    pub(super) fn turn_to_connect(&mut self, now: u64) -> u64 {
        let turn = self.next_connect.max(now);
        self.next_connect = turn + self.share.connect_gap_ns;
        if self.share.connect_gap_ns == 0 { now } else { turn }
    }

    /// The next request whose turn has come: its intended time. Those that are too late are shed on the way.
    #[inline]
    pub(super) fn take(&mut self, now: u64) -> Option<u64> {
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
    pub(super) fn begin(&mut self, call: u32, intended: u64, now: u64) -> bool {
        let index = call as usize / self.depth;
        let paused = self.behind();
        let Some(Asked { request, capture }) = self.source.ask(call, self.protocol) else {
            // This call has nothing to do any more; others may still be on their way through a scenario.
            self.retired += 1;
            return false;
        };
        self.share.requests_max -= 1;
        self.tally.begun(intended, now, P::SCHEDULED);
        self.in_flight += 1;
        self.calls[call as usize] = Call { state: CallState::InFlight, intended, started: now, paused };
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

    /// So many bytes came.
    #[inline]
    pub(super) fn heard(&mut self, index: usize, count: usize) {
        if !T::GATHERS {
            self.heard_at = self.look();
        }
        let seen = self.heard_at;
        let arrival = Arrival { at: self.transport.arrived_ns().unwrap_or(seen), seen };
        self.tally.bytes_in_total += count as u64;
        self.tally.bytes_in += if self.counting { count as u64 } else { 0 };
        let slot = &mut self.slots[index];
        let bytes = self.transport.bytes(count);
        let fed = self.protocol.feed(&mut slot.link, bytes, &mut slot.out, &mut self.answers);
        // Where answers are told apart, what was complete before the bytes went wrong is an answer still. Where they only
        // follow each other, more bytes than an answer has make that answer doubtful.
        if fed.is_ok() || !R::ANSWERS_FOLLOW_REQUESTS {
            self.settle(index, arrival, fed.unwrap_or(After::Draining));
        }
        if fed.is_err() {
            self.kill(index, Failure::Protocol);
        }
    }

    /// Handles the answers that the last bytes completed.
    #[inline]
    pub(super) fn settle(&mut self, index: usize, arrival: Arrival, after: After) {
        if after == After::Draining && self.slots[index].phase == Phase::Open {
            self.slots[index].phase = Phase::Draining;
        }
        let mut answers = std::mem::take(&mut self.answers);
        for answer in answers.drain(..) {
            self.answer(answer, arrival, after);
        }
        self.answers = answers;
        let used_up = self.route.requests_per_connection;
        let slot = &mut self.slots[index];
        if after == After::Ended && slot.in_flight > 0 {
            self.kill(index, Failure::Read);
        } else if after == After::Ended && slot.phase == Phase::Open {
            slot.phase = Phase::Closing;
            slot.until = arrival.seen + CLOSING_NS;
        } else if slot.in_flight == 0 && (slot.phase == Phase::Draining || slot.begun >= used_up) {
            self.close(index);
        } else if slot.parked > 0 && slot.phase == Phase::Open && slot.begun < used_up {
            self.unpark(index);
        }
    }

    /// A call is answered. In closed loop the next one begins at once, on the same connection.
    #[inline]
    pub(super) fn answer(&mut self, answer: Answer, arrival: Arrival, after: After) {
        let (number, now) = (answer.call, arrival.seen);
        let index = number as usize / self.depth;
        let call = &mut self.calls[number as usize];
        if call.state != CallState::InFlight {
            return;
        }
        call.state = CallState::Free;
        let (intended, started, paused) = (call.intended, call.started, call.paused);
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
        // Waking up late is this thread's own doing.
        let ended = arrival.at.clamp(started, now);
        let latency_ns = self.share.counted.holds(ended).then(|| ended - since);
        let heard = Heard { status, captured: answer.captured, latency_ns };
        let verdict = self.source.answered(number, heard);
        let times = Times { intended, started, now: ended, paused: paused || self.behind() };
        self.tally.answered(times, status, P::SCHEDULED, verdict.judgement);
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
            let all_busy = self.free.is_empty();
            // Without another request the call is retired, and free for nothing.
            if self.begin(number, intended, now) && P::SCHEDULED && all_busy {
                self.tally.waited(intended, now);
            }
            return;
        }
        self.free_or_park(number);
    }

    /// The time, and whether the machine paused before it.
    #[inline]
    pub(super) fn look(&mut self) -> u64 {
        let now = sys::clock_ns();
        self.judge(now);
        now
    }

    /// See [`PauseWatch::look`].
    #[inline]
    pub(super) fn judge(&mut self, now: u64) {
        if P::SCHEDULED
            && let Some(paused) = self.pauses.as_mut().and_then(|pauses| pauses.look(now))
        {
            self.tally.paused(paused, now);
        }
    }

    /// Whether what is sent and received now may be late because of a pause.
    #[inline]
    fn behind(&self) -> bool {
        P::SCHEDULED && self.pauses.as_ref().is_some_and(PauseWatch::behind)
    }

    #[inline]
    pub(super) fn free_or_park(&mut self, call: u32) {
        if self.slots[call as usize / self.depth].takes_calls() {
            self.free.push_back(call);
        } else {
            self.park(call);
        }
    }

    /// A call waits until its slot takes calls again.
    pub(super) fn park(&mut self, call: u32) {
        self.calls[call as usize].state = CallState::Parked;
        self.slots[call as usize / self.depth].parked += 1;
    }

    pub(super) fn unpark(&mut self, index: usize) {
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
}
