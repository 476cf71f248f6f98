//! What one thread counts: responses, errors, latencies. Everything is allocated before the load begins.
//!
//! It reads no clock. Invariant: only what happens within the counted time is counted, to the nanosecond; `responses_total`
//! and `bytes_in_total` are the exceptions and say so.

use crate::pauses::Pauses;
use prony_model::ErrorCounts;
use prony_stats::histogram::Histogram;

/// Length of one bucket of the count over time, in nanoseconds: short enough for the steady-state test in a load of a few seconds.
pub const BUCKET_NS: u64 = 100_000_000;
/// Status codes have three digits.
const STATUS_CODES: usize = 1000;

/// The counted time on the monotonic clock: `start_ns` included, `end_ns` excluded.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// First nanosecond.
    pub start_ns: u64,
    /// First nanosecond after it.
    pub end_ns: u64,
}

impl Counted {
    /// Whether a moment is counted.
    #[inline]
    pub fn holds(self, at: u64) -> bool {
        self.start_ns <= at && at < self.end_ns
    }

    /// How much of a stretch of time is counted, in nanoseconds.
    pub fn overlap(self, from: u64, to: u64) -> u64 {
        to.min(self.end_ns).saturating_sub(from.max(self.start_ns))
    }
}

/// Whether an answer is a good one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judgement {
    /// Nobody says so: its status decides.
    #[default]
    ByStatus,
    /// The check of its step accepts it, whatever its status.
    Accepted,
    /// The check of its step, or what it was to save from it, does not accept it.
    Refused,
}

/// The times of a request, in nanoseconds on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When its turn came.
    pub intended: u64,
    /// When it began.
    pub started: u64,
    /// When it was answered.
    pub now: u64,
    /// Whether a pause of the machine met it.
    pub paused: bool,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// See [`ErrorCounts`].
    Connect,
    /// See [`ErrorCounts`].
    Write,
    /// See [`ErrorCounts`].
    Read,
    /// See [`ErrorCounts`].
    Timeout,
    /// See [`ErrorCounts`].
    Protocol,
    /// See [`ErrorCounts`].
    NoLocalPort,
    /// See [`ErrorCounts`].
    NoDescriptor,
    /// See [`ErrorCounts`].
    Tls,
}

/// The counts of one thread, or of all together.
pub struct Tally {
    /// The counted time.
    pub counted: Counted,
    /// Requests whose turn came.
    pub intended: u64,
    /// Of `lag`, that of requests that found every connection busy.
    pub waited: Histogram,
    /// Requests that began.
    pub sent: u64,
    /// Complete responses.
    pub completed: u64,
    /// Complete responses, those outside the counted time too.
    pub responses_total: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes received, those outside the counted time too.
    pub bytes_in_total: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Failures.
    pub errors: ErrorCounts,
    /// Responses by status code.
    pub statuses: Box<[u64; STATUS_CODES]>,
    /// Latency from the intended time; unused in closed loop.
    pub latency: Histogram,
    /// Latency from the actual send.
    pub latency_actual: Histogram,
    /// Actual minus intended time; unused in closed loop.
    pub lag: Histogram,
    /// Completed responses in each tenth of a second.
    pub buckets: Vec<u32>,
    /// Sum over all requests of the counted time they were in flight, in nanoseconds.
    pub in_flight_ns: u64,
    /// Pauses of the machine; none when nobody looks for them.
    pub pauses: Option<Pauses>,
}

impl Tally {
    /// Nothing counted yet.
    pub fn new(counted: Counted) -> Self {
        let buckets = (counted.end_ns - counted.start_ns).div_ceil(BUCKET_NS).max(1);
        Self {
            counted,
            intended: 0,
            waited: Histogram::new(),
            sent: 0,
            completed: 0,
            responses_total: 0,
            bytes_in: 0,
            bytes_in_total: 0,
            bytes_out: 0,
            connections_opened: 0,
            errors: ErrorCounts::default(),
            statuses: Box::new([0; STATUS_CODES]),
            latency: Histogram::new(),
            latency_actual: Histogram::new(),
            lag: Histogram::new(),
            buckets: vec![0; buckets as usize],
            in_flight_ns: 0,
            pauses: None,
        }
    }

    /// The latency that counts: from the intended time if requests have one.
    pub fn latency_told(&mut self, scheduled: bool) -> &mut Histogram {
        if scheduled { &mut self.latency } else { &mut self.latency_actual }
    }

    /// A request begins. `scheduled`: it had an intended time of its own.
    #[inline]
    pub fn begun(&mut self, intended: u64, now: u64, scheduled: bool) {
        self.intended += u64::from(self.counted.holds(intended));
        if self.counted.holds(now) {
            self.sent += 1;
            if scheduled {
                self.lag.record_ns(now - intended);
            }
        }
    }

    /// A request waited until now, because every connection had one in flight.
    #[inline]
    pub fn waited(&mut self, intended: u64, now: u64) {
        if self.counted.holds(now) {
            self.waited.record_ns(now - intended);
        }
    }

    /// A request was not sent, because its deadline had passed.
    pub fn shed(&mut self, intended: u64, now: u64) {
        self.intended += u64::from(self.counted.holds(intended));
        self.errors.deadline += u64::from(self.counted.holds(now));
    }

    /// A response is complete.
    #[inline]
    pub fn answered(&mut self, times: Times, status: u16, scheduled: bool, judgement: Judgement) {
        let Times { intended, started, now, paused } = times;
        self.responses_total += 1;
        self.in_flight_ns += self.counted.overlap(started, now);
        if !self.counted.holds(now) {
            return;
        }
        self.completed += 1;
        self.errors.check += u64::from(judgement == Judgement::Refused);
        self.errors.status += u64::from(status >= 400 && judgement == Judgement::ByStatus);
        self.statuses[usize::from(status)] += 1;
        self.buckets[((now - self.counted.start_ns) / BUCKET_NS) as usize] += 1;
        self.latency_actual.record_ns(now - started);
        if scheduled {
            self.latency.record_ns(now - intended);
        }
        if paused && let Some(pauses) = &mut self.pauses {
            pauses.met(now - intended);
        }
    }

    /// The machine did not run this thread for so long.
    pub fn paused(&mut self, ns: u64, now: u64) {
        if self.counted.holds(now)
            && let Some(pauses) = &mut self.pauses
        {
            pauses.add(ns);
        }
    }

    /// A request failed.
    pub fn failed(&mut self, started: u64, now: u64, how: Failure) {
        self.in_flight_ns += self.counted.overlap(started, now);
        if !self.counted.holds(now) {
            return;
        }
        let errors = &mut self.errors;
        *match how {
            Failure::Connect => &mut errors.connect,
            Failure::Write => &mut errors.write,
            Failure::Read => &mut errors.read,
            Failure::Timeout => &mut errors.timeout,
            Failure::Protocol => &mut errors.protocol,
            Failure::NoLocalPort => &mut errors.no_local_port,
            Failure::NoDescriptor => &mut errors.no_descriptor,
            Failure::Tls => &mut errors.tls,
        } += 1;
    }

    /// Adds the counts of another thread over the same time.
    pub fn merge(&mut self, other: &Self) {
        self.intended += other.intended;
        self.waited.merge(&other.waited);
        self.sent += other.sent;
        self.completed += other.completed;
        self.responses_total += other.responses_total;
        self.bytes_in += other.bytes_in;
        self.bytes_in_total += other.bytes_in_total;
        self.bytes_out += other.bytes_out;
        self.connections_opened += other.connections_opened;
        self.in_flight_ns += other.in_flight_ns;
        self.errors.add(&other.errors);
        self.statuses.iter_mut().zip(other.statuses.iter()).for_each(|(a, b)| *a += b);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| *a += b);
        self.latency.merge(&other.latency);
        self.latency_actual.merge(&other.latency_actual);
        self.lag.merge(&other.lag);
        if let Some(more) = &other.pauses {
            self.pauses.get_or_insert_default().merge(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counted_time_is_exact() {
        let mut tally = Tally::new(Counted { start_ns: 100, end_ns: 200 });
        for (started, now) in [(10, 99), (90, 100), (150, 199), (150, 200)] {
            tally.begun(started, started, true);
            tally.answered(Times { intended: started, started, now, paused: false }, 200, true, Judgement::ByStatus);
        }
        assert_eq!((tally.completed, tally.responses_total, tally.sent, tally.intended), (2, 4, 2, 2));
        assert_eq!(tally.in_flight_ns, 49 + 50, "only what lies within");
        assert_eq!(tally.latency.count(), 2);
        let times = Times { intended: 150, started: 150, now: 151, paused: false };
        tally.answered(times, 404, true, Judgement::ByStatus);
        tally.answered(times, 404, true, Judgement::Accepted);
        tally.answered(times, 404, true, Judgement::Refused);
        assert_eq!(tally.errors, ErrorCounts { status: 1, check: 1, ..Default::default() });
        tally.errors = ErrorCounts::default();
        tally.failed(0, 99, Failure::Read);
        tally.failed(0, 150, Failure::Read);
        assert_eq!(tally.errors, ErrorCounts { read: 1, ..Default::default() });
    }
}
