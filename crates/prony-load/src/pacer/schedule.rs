//! The schedule of an open loop, made ready before it begins: the cumulative rate in pieces, and its inverse.
//!
//! It draws no random numbers and is not changed while the load runs: all threads look at the same one. Invariant: the pieces
//! follow each other without a hole in the count of arrivals, and each of them sends something.

use prony_model::profile::{Profile, ProfilePoint};
use prony_model::{LoadPlan, Nanos, Rate};

/// When requests of the whole load are due.
pub struct Schedule {
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Curve(Curve),
    /// Nanoseconds since the epoch, in order.
    Times(Vec<u64>),
}

impl Schedule {
    /// The schedule of a plan: its profile, else its rate; none in closed loop. A profile that [`Profile::check`] would not
    /// accept makes a schedule that may send nothing, but always ends.
    pub fn of(plan: &LoadPlan) -> Option<Self> {
        let kind = match (&plan.profile, plan.rate) {
            (Some(Profile::Points(points)), _) => Kind::Curve(Curve::new(points, None)),
            (Some(Profile::Cycle { points, every }), _) => Kind::Curve(Curve::new(points, Some(*every))),
            (Some(Profile::Times(times)), _) => Kind::Times(times.iter().map(|t| t.0).collect()),
            (None, Some(rate)) => Kind::Curve(Curve::new(&[ProfilePoint { at: Nanos(0), rate }], None)),
            (None, None) => return None,
        };
        Some(Self { kind })
    }
}

/// A rate over time as its cumulative sum: how many arrivals are due by when.
pub(super) struct Curve {
    /// Without those that send nothing. The last ends never, unless the rate is 0 from then on, or it is a cycle.
    pieces: Vec<Piece>,
    cycle: Option<Cycle>,
}

#[derive(Clone, Copy)]
struct Cycle {
    every_ns: f64,
    arrivals: f64,
}

/// A stretch of time in which the rate runs straight. Times are nanoseconds since the epoch, counts are arrivals since then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    start_ns: f64,
    length_ns: f64,
    count: f64,
    pub(super) end_count: f64,
    /// Arrivals per nanosecond at the start.
    rate: f64,
    /// Change of the rate per nanosecond; 0: constant.
    slope: f64,
    /// Nanoseconds per arrival, of a constant rate.
    gap_ns: f64,
}

impl Piece {
    /// Ends before the first arrival.
    pub(super) const BEFORE: Self =
        Self { start_ns: 0.0, length_ns: 0.0, count: 0.0, end_count: 0.0, rate: 0.0, slope: 0.0, gap_ns: 0.0 };

    /// From one point to the next; none if nothing is sent in between.
    fn between(from: ProfilePoint, to_ns: f64, to_rate: Rate, count: f64) -> Option<Self> {
        let start_ns = from.at.0 as f64;
        let length_ns = to_ns - start_ns;
        let (rate, end_rate) = (from.rate.0 / 1e9, to_rate.0 / 1e9);
        let sends = length_ns > 0.0 && rate >= 0.0 && end_rate >= 0.0 && rate + end_rate > 0.0;
        let slope = if rate == end_rate { 0.0 } else { (end_rate - rate) / length_ns };
        sends.then(|| Self {
            start_ns,
            length_ns,
            count,
            end_count: count + (rate + end_rate) / 2.0 * length_ns,
            rate,
            slope,
            gap_ns: 1e9 / from.rate.0,
        })
    }

    /// When the arrival number `count` is due: the inverse of the cumulative rate `rate t + slope t^2 / 2`. Of the two forms
    /// of the root the one that does not cancel, and needs no slope other than 0 (Press et al., "Numerical Recipes", 5.6).
    #[inline]
    pub(super) fn time_ns(&self, count: f64) -> f64 {
        let more = (count - self.count).max(0.0);
        if self.slope == 0.0 {
            return self.start_ns + more * self.gap_ns;
        }
        if more == 0.0 {
            return self.start_ns;
        }
        // Rounding can take it below 0 where a rate falls to 0.
        let root = (self.rate * self.rate + 2.0 * self.slope * more).max(0.0).sqrt();
        self.start_ns + (2.0 * more / (self.rate + root)).min(self.length_ns)
    }

    fn later(self, ns: f64, arrivals: f64) -> Self {
        let (start_ns, count) = (self.start_ns + ns, self.count + arrivals);
        Self { start_ns, count, end_count: self.end_count + arrivals, ..self }
    }
}

impl Curve {
    fn new(points: &[ProfilePoint], every: Option<Nanos>) -> Self {
        let end_ns = every.map_or(f64::INFINITY, |every| every.0 as f64);
        let mut pieces: Vec<Piece> = Vec::new();
        let mut from = ProfilePoint { at: Nanos(0), rate: points.first().map_or(Rate(0.0), |p| p.rate) };
        let targets = points.iter().map(|p| (p.at.0 as f64, *p));
        let last = points.last().map(|p| (end_ns, *p));
        for (to_ns, to) in targets.chain(last) {
            let count = pieces.last().map_or(0.0, |piece| piece.end_count);
            pieces.extend(Piece::between(from, to_ns.min(end_ns), to.rate, count));
            from = to;
        }
        let arrivals = pieces.last().map_or(0.0, |piece| piece.end_count);
        let cycle = every.map(|_| Cycle { every_ns: end_ns, arrivals });
        Self { pieces, cycle }
    }

    /// The piece that arrival number `count` is in; none when that many never come. Called once per piece, or when a gap is
    /// wider than a piece.
    #[cold]
    pub(super) fn piece_at(&self, count: f64) -> Option<Piece> {
        let search = |count: f64| self.pieces.get(self.pieces.partition_point(|piece| piece.end_count <= count));
        let Some(cycle) = self.cycle else { return search(count).copied() };
        let turn = (count / cycle.arrivals).floor();
        let (turn, piece) = match search(count - turn * cycle.arrivals) {
            Some(piece) => (turn, piece),
            // Rounding put it behind the last piece of this turn.
            None => (turn + 1.0, self.pieces.first()?),
        };
        Some(piece.later(turn * cycle.every_ns, turn * cycle.arrivals))
    }
}
