//! One trial with a queue, event by event: so many servers, first come first served.
//!
//! It starts empty. Invariant: only requests of the counted time count.

use super::Service;
use crate::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The queue of one trial.
pub(super) struct Queue {
    pub(super) servers: u32,
    pub(super) service: Service,
    /// Mean service time.
    pub(super) mean_s: f64,
    pub(super) settle_s: f64,
    pub(super) counted_s: f64,
    /// Which quantile of latency is told.
    pub(super) quantile: f64,
}

/// What a trial saw.
pub(super) struct Answers {
    pub(super) per_s: f64,
    pub(super) latency_s: f64,
}

/// A moment, so that a heap can order it. Moments of a trial are never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// When each server is free again.
struct Servers(BinaryHeap<Reverse<Moment>>);

impl Servers {
    fn idle(n: u32) -> Self {
        Self((0..n).map(|_| Reverse(Moment(0.0))).collect())
    }

    /// Serves the next request: when it ends.
    fn serve(&mut self, arrival_s: f64, service_s: f64) -> f64 {
        let mut first = self.0.peek_mut().expect("a queue has a server");
        let end = first.0.0.max(arrival_s) + service_s;
        *first = Reverse(Moment(end));
        end
    }
}

impl Queue {
    /// Closed loop: as many connections, each with an exponential time between answer and next request.
    pub(super) fn closed(&self, connections: u32, round_trip_s: f64, random: &mut Random) -> Answers {
        let mut servers = Servers::idle(self.servers);
        let mut arrivals: BinaryHeap<Reverse<Moment>> =
            (0..connections).map(|_| Reverse(Moment(random.exponential(round_trip_s)))).collect();
        let end_s = self.settle_s + self.counted_s;
        let mut latencies = Vec::new();
        while let Some(mut next) = arrivals.peek_mut() {
            let arrival = next.0.0;
            if arrival.is_nan() || arrival >= end_s {
                break;
            }
            let done = servers.serve(arrival, self.draw(random));
            if done >= self.settle_s && done < end_s {
                latencies.push(done - arrival);
            }
            *next = Reverse(Moment(done + random.exponential(round_trip_s)));
        }
        self.answers(latencies.len(), latencies)
    }

    /// Open loop with Poisson arrivals; latency is that of what arrived in the counted time.
    pub(super) fn open(&self, rate_per_s: f64, random: &mut Random) -> Answers {
        let mut servers = Servers::idle(self.servers);
        let end_s = self.settle_s + self.counted_s;
        let (mut arrival, mut answered) = (0.0, 0);
        let mut latencies = Vec::new();
        loop {
            arrival += random.exponential(1.0 / rate_per_s);
            if arrival.is_nan() || arrival >= end_s {
                break;
            }
            let done = servers.serve(arrival, self.draw(random));
            answered += usize::from(done >= self.settle_s && done < end_s);
            if arrival >= self.settle_s {
                latencies.push(done - arrival);
            }
        }
        self.answers(answered, latencies)
    }

    fn answers(&self, answered: usize, mut latencies: Vec<f64>) -> Answers {
        let rank = ((latencies.len() as f64 * self.quantile) as usize).min(latencies.len().saturating_sub(1));
        let latency_s =
            if latencies.is_empty() { 0.0 } else { *latencies.select_nth_unstable_by(rank, f64::total_cmp).1 };
        Answers { per_s: answered as f64 / self.counted_s, latency_s }
    }

    fn draw(&self, random: &mut Random) -> f64 {
        self.mean_s
            * match self.service {
                Service::Exponential => random.exponential(1.0),
                Service::Even => {
                    let product: f64 = (0..4).map(|_| 1.0 - random.uniform()).product();
                    -product.ln() / 4.0
                }
                Service::Uneven => {
                    let slow = random.uniform() < super::theory::SLOW_SHARE;
                    let share = if slow { super::theory::SLOW_SHARE } else { 1.0 - super::theory::SLOW_SHARE };
                    random.exponential(0.5 / share)
                }
            }
    }
}
