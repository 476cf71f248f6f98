//! When requests begin: at once when a connection is free (closed loop), or on a schedule (open loop).
//!
//! It reads no clock and holds no queue. Invariant: the schedule of an open loop does not depend on the answers. Requests that
//! wait for a connection take no memory: the schedule is simply drawn later, with the same intended times.

mod schedule;

pub use schedule::Schedule;

use crate::tally::Counted;
use prony_model::Arrivals;
use prony_stats::random::Random;
use schedule::{Curve, Kind, Piece};

/// Decides when requests begin. Times are nanoseconds on the monotonic clock.
pub trait Pacer {
    /// Whether requests follow a schedule, so that intended and actual times differ.
    const SCHEDULED: bool;

    /// Takes the next request if it may begin at `now`: its intended time.
    fn take(&mut self, now: u64) -> Option<u64>;

    /// When the next request may begin, for a connection that is free; [`u64::MAX`] when there is none any more.
    fn next(&self) -> u64;
}

/// Closed loop: a request begins as soon as a connection is free.
#[derive(Clone, Copy)]
pub struct Closed;

impl Pacer for Closed {
    const SCHEDULED: bool = false;

    #[inline]
    fn take(&mut self, now: u64) -> Option<u64> {
        Some(now)
    }

    #[inline]
    fn next(&self) -> u64 {
        0
    }
}

/// Which part of a schedule one thread takes.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The thread's number, from 0.
    pub number: u32,
    /// Threads in all.
    pub threads: u32,
    /// The thread's share of the rate; the shares of all threads add up to 1.
    pub share: f64,
}

/// Open loop: requests begin at their times, whatever the answers do.
#[derive(Clone)]
pub struct Open<'a> {
    epoch_ns: u64,
    /// The next intended time on the monotonic clock.
    next_ns: u64,
    walk: Walk<'a>,
}

/// Where in the schedule a thread is.
#[derive(Clone)]
enum Walk<'a> {
    Curve(Spaced<'a>),
    /// Every `step`-th of given times.
    Times {
        times: &'a [u64],
        next: usize,
        step: usize,
    },
}

/// Arrivals spaced by a cumulative rate. They are spaced in *arrivals of the whole load*, where the rate is 1, and put on the
/// clock by the inverse of the cumulative rate: a Poisson process of rate 1 becomes one of the wanted rate (Cinlar 1975,
/// "Introduction to Stochastic Processes", 4.7; Devroye 1986, "Non-Uniform Random Variate Generation", VI.1.3), and even
/// spacing stays as even as the rate allows.
#[derive(Clone)]
struct Spaced<'a> {
    curve: &'a Curve,
    /// The piece that the last arrival was in.
    piece: Piece,
    /// Arrivals of the whole load per arrival of this thread.
    stride: f64,
    spacing: Spacing,
}

#[derive(Clone)]
enum Spacing {
    /// Multiplied, not summed, so that no error builds up.
    Even { arrivals: u64, offset: f64 },
    /// Independent streams of several threads add up to a Poisson stream by themselves.
    Poisson { random: Random, count: f64 },
}

impl<'a> Open<'a> {
    /// One thread's part of the schedule, which begins at `epoch_ns`. Even arrivals of threads with equal shares are together
    /// as even as those of one; of given times a thread takes every k-th. `seed` must differ from thread to thread.
    pub fn new(schedule: &'a Schedule, arrivals: Arrivals, part: Part, epoch_ns: u64, seed: u64) -> Self {
        let walk = match &schedule.kind {
            Kind::Times(times) => Walk::Times { times, next: part.number as usize, step: part.threads.max(1) as usize },
            Kind::Curve(curve) => {
                let stride = 1.0 / part.share;
                let spacing = match arrivals {
                    Arrivals::Constant => {
                        let offset = f64::from(part.number) * stride / f64::from(part.threads.max(1));
                        Spacing::Even { arrivals: 0, offset }
                    }
                    Arrivals::Poisson => Spacing::Poisson { random: Random::new(seed), count: 0.0 },
                };
                Walk::Curve(Spaced { curve, piece: Piece::BEFORE, stride, spacing })
            }
        };
        let mut open = Self { epoch_ns, next_ns: epoch_ns, walk };
        open.advance();
        open
    }

    #[inline]
    fn advance(&mut self) {
        let since_epoch = match &mut self.walk {
            Walk::Curve(spaced) => spaced.next_ns(),
            Walk::Times { times, next, step } => {
                let time = times.get(*next).copied();
                *next = next.saturating_add(*step);
                time
            }
        };
        // Never back: rounding could, by a nanosecond, between arrivals closer than that.
        self.next_ns = since_epoch.map_or(u64::MAX, |ns| self.epoch_ns.saturating_add(ns)).max(self.next_ns);
    }
}

impl Spaced<'_> {
    /// Time of the next arrival since the epoch; none when the rate is 0 for ever.
    #[inline]
    fn next_ns(&mut self) -> Option<u64> {
        let count = match &mut self.spacing {
            Spacing::Even { arrivals, offset } => {
                let count = *arrivals as f64 * self.stride + *offset;
                *arrivals += 1;
                count
            }
            Spacing::Poisson { random, count } => {
                *count += random.exponential(self.stride);
                *count
            }
        };
        if count >= self.piece.end_count {
            self.piece = self.curve.piece_at(count)?;
        }
        // A float counts nanoseconds exactly for 100 days.
        Some(self.piece.time_ns(count) as u64)
    }
}

impl Pacer for Open<'_> {
    const SCHEDULED: bool = true;

    #[inline]
    fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_ns;
        if due > now || due == u64::MAX {
            return None;
        }
        self.advance();
        Some(due)
    }

    #[inline]
    fn next(&self) -> u64 {
        self.next_ns
    }
}

/// How many requests a schedule held by a moment, begun or not: what the load asked for, for whoever looks on meanwhile.
///
/// It draws ahead only while the thread is behind its schedule, once per request.
pub struct Asked<P> {
    ahead: P,
    counted: u64,
}

impl<P: Pacer + Clone> Asked<P> {
    /// Nothing yet.
    pub fn new(pacer: &P) -> Self {
        Self { ahead: pacer.clone(), counted: 0 }
    }

    /// Those of the counted time that were due by `now`. `pacer` goes through the same schedule and has begun `begun` of them.
    pub fn by(&mut self, now: u64, pacer: &P, begun: u64, counted: Counted) -> u64 {
        if !P::SCHEDULED || pacer.next() > now {
            *self = Self { ahead: pacer.clone(), counted: begun };
        } else {
            while let Some(intended) = self.ahead.take(now) {
                self.counted += u64::from(counted.holds(intended));
            }
        }
        self.counted.max(begun)
    }
}

#[cfg(test)]
mod tests;
