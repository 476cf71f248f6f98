//! Whose turn it is on a connection: is a request under way, or was it answered?
//!
//! The kernel tells when data last came and when it last went, in ticks of its clock (1 to 10 ms). A client that asks again at once
//! does so within the tick of the answer, and then the times tell nothing. So segments with data are counted since the turn was last
//! known: one request more than answers is one under way. A request or an answer may take several segments; how many of one go with
//! one of the other is learned from the connections of the same place whose turn was known twice. Invariant: what neither times nor
//! counts tell stays open.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Segments of requests since the turn was known, beyond which a small error of the ratio is a whole request. A guess.
const SEGMENTS_MAX: u32 = 64;
/// Half a request: what is left over is one, or none.
const HALF: f64 = 0.5;
/// Standard deviation of what is left over, up to which it can be told from half a request. A guess: two of them are a half.
const SPREAD_MAX: f64 = 0.25;
/// Segments of requests from which a ratio and its spread are known. A guess.
const LEARNED: f64 = 16.0;

/// Both ends.
pub(crate) type Connection = (SocketAddr, SocketAddr);

/// Where connections are alike: a port that is listened on, or a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Port(u16),
    Peer(SocketAddr),
}

/// What the kernel tells of requests and answers on a connection, whichever of them is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) asked_ms_ago: u32,
    pub(crate) answered_ms_ago: u32,
    /// Segments of requests and of answers since it was opened; none on kernels before 4.6.
    pub(crate) segments: Option<(u32, u32)>,
}

impl Traffic {
    /// Whether the times of the last request and the last answer are the same.
    pub(crate) fn is_within_a_tick(&self) -> bool {
        self.asked_ms_ago == self.answered_ms_ago
    }
}

/// The last moment at which the turn was known.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    asked: u32,
    answered: u32,
    under_way: bool,
}

/// Segments of whole requests and their answers.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    asked: f64,
    answered: f64,
    /// Sum of the squares by which single requests were off the ratio, in segments of requests.
    squares: f64,
}

impl Ratio {
    fn learn(&mut self, asked: u32, answered: u32) {
        self.asked += f64::from(asked);
        self.answered += f64::from(answered);
        self.squares += self.left_over(asked, answered).powi(2);
    }

    /// What is asked beyond what was answered.
    fn left_over(&self, asked: u32, answered: u32) -> f64 {
        f64::from(asked) - f64::from(answered) * self.asked / self.answered
    }

    /// Whether what is left over after so many segments of requests still tells one request from none: answers of many sizes make it
    /// spread.
    fn tells(&self, asked: u32) -> bool {
        let spread = (self.squares / self.asked * f64::from(asked)).sqrt();
        self.asked >= LEARNED && asked <= SEGMENTS_MAX && spread <= SPREAD_MAX
    }
}

/// The turns of all connections, from reading to reading.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    known: HashMap<Connection, Known>,
    now: HashMap<Connection, Known>,
    ratios: HashMap<Place, Ratio>,
}

impl Turns {
    /// Whether a request is under way on a connection; none when that cannot be told.
    pub(crate) fn under_way(&mut self, place: Place, connection: Connection, traffic: Traffic) -> Option<bool> {
        let told = match traffic.asked_ms_ago.cmp(&traffic.answered_ms_ago) {
            std::cmp::Ordering::Less => Some(true),
            std::cmp::Ordering::Greater => Some(false),
            std::cmp::Ordering::Equal => None,
        };
        let Some((asked, answered)) = traffic.segments else { return told };
        // A pair of ports that is used again begins anew. A new connection has nothing under way.
        let before = self.known.get(&connection).filter(|k| k.asked <= asked && k.answered <= answered).copied();
        let before = before.unwrap_or_default();
        let (more_asked, more_answered) = (asked - before.asked, answered - before.answered);
        match told {
            Some(under_way) => {
                if under_way == before.under_way && more_answered > 0 {
                    self.ratios.entry(place).or_default().learn(more_asked, more_answered);
                }
                self.now.insert(connection, Known { asked, answered, under_way });
                told
            }
            None => {
                self.now.insert(connection, before);
                let ratio = self.ratios.get(&place).filter(|ratio| ratio.tells(more_asked))?;
                let left_over = ratio.left_over(more_asked, more_answered);
                Some(f64::from(u8::from(before.under_way)) + left_over > HALF)
            }
        }
    }

    /// Forgets connections that were not seen since the last call.
    pub(crate) fn close_reading(&mut self) {
        self.known = std::mem::take(&mut self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK_US: u64 = 4_000;
    const READING_US: u64 = 500_000;

    /// Whether a request is under way, and what the kernel tells of it.
    struct Served {
        truth: bool,
        traffic: Traffic,
    }

    /// A connection on which the server takes `serve_us` for each answer and the client `think_us` before it asks again, seen at
    /// `at_us`. The first request came at `begun_us`.
    fn seen(begun_us: u64, serve_us: u64, think_us: u64, per: (u32, u32), at_us: u64) -> Served {
        let (since, round) = (at_us - begun_us, serve_us + think_us);
        let (rounds, into) = (since / round, since % round);
        let truth = into < serve_us;
        let asked_us = begun_us + rounds * round;
        let answered_us = if truth { asked_us.saturating_sub(think_us) } else { asked_us + serve_us };
        let ticks_ago = |us: u64| ((at_us / TICK_US - us / TICK_US) * TICK_US / 1000) as u32;
        let (requests, answers) = (rounds as u32 + 1, rounds as u32 + u32::from(!truth));
        let traffic = Traffic {
            asked_ms_ago: ticks_ago(asked_us),
            answered_ms_ago: ticks_ago(answered_us),
            segments: Some((requests * per.0, answers * per.1)),
        };
        Served { truth, traffic }
    }

    /// Connections with a request under way at the end of some readings: in truth, by times alone, and by turns.
    fn counted(serve_us: u64, think_us: u64, per: (u32, u32)) -> (usize, usize, usize) {
        let mut turns = Turns::default();
        let mut counts = (0, 0, 0);
        for reading in 1..=20u64 {
            counts = (0, 0, 0);
            for i in 0..64u16 {
                let begun_us = u64::from(i) * 7_919;
                let server = ([10, 0, 0, 2], 80).into();
                let served = seen(begun_us, serve_us, think_us, per, reading * READING_US + 137);
                let by_time = served.traffic.asked_ms_ago < served.traffic.answered_ms_ago;
                let connection = (server, ([10, 0, 0, 1], 4000 + i).into());
                let by_turn = turns.under_way(Place::Port(80), connection, served.traffic) == Some(true);
                for (count, is_so) in
                    [(&mut counts.0, served.truth), (&mut counts.1, by_time), (&mut counts.2, by_turn)]
                {
                    *count += usize::from(is_so);
                }
            }
            turns.close_reading();
        }
        counts
    }

    #[test]
    fn a_client_that_asks_again_at_once_hides_no_request() {
        for per in [(1, 1), (1, 2), (2, 1), (3, 5)] {
            let (truth, by_time, by_turn) = counted(317_300, 800, per);
            assert!(truth >= 60 && by_time < truth / 2, "times alone do not tell: {by_time} of {truth}");
            assert!(by_turn.abs_diff(truth) <= 2, "{per:?}: {by_turn} of {truth}");
        }
    }

    #[test]
    fn a_fast_server_is_not_said_to_be_busy() {
        let (truth, _, by_turn) = counted(900, 317_100, (1, 2));
        assert!(truth <= 2 && by_turn <= 3, "{by_turn} of {truth}");
    }

    #[test]
    fn without_counts_only_times_tell() {
        let connection = (([10, 0, 0, 2], 80).into(), ([10, 0, 0, 1], 4000).into());
        let mut turns = Turns::default();
        let mut at = |asked, answered, segments| {
            let traffic = Traffic { asked_ms_ago: asked, answered_ms_ago: answered, segments };
            turns.under_way(Place::Port(80), connection, traffic)
        };
        assert_eq!((at(8, 12, None), at(12, 8, None), at(8, 8, None)), (Some(true), Some(false), None));
        assert_eq!(at(8, 8, Some((5, 5))), None, "nothing was learned yet");
    }

    #[test]
    fn too_many_since_it_was_known_stay_open() {
        let connection = (([10, 0, 0, 2], 80).into(), ([10, 0, 0, 1], 4000).into());
        let mut turns = Turns::default();
        let mut at = |asked, answered, segments| {
            let traffic = Traffic { asked_ms_ago: asked, answered_ms_ago: answered, segments: Some(segments) };
            let told = turns.under_way(Place::Port(80), connection, traffic);
            turns.close_reading();
            told
        };
        assert_eq!(at(12, 8, (10, 10)), Some(false));
        assert_eq!(at(8, 8, (12, 11)), None, "too little was learned");
        assert_eq!(at(12, 8, (20, 20)), Some(false));
        assert_eq!(at(8, 8, (22, 21)), Some(true));
        assert_eq!(at(8, 8, (84, 84)), Some(false));
        assert_eq!(at(8, 8, (85, 84)), None);
        assert_eq!(at(8, 8, (1, 0)), Some(true), "the same ports again");
    }

    #[test]
    fn answers_of_many_sizes_leave_it_open() {
        let mut even = Ratio::default();
        let mut uneven = Ratio::default();
        for i in 0..100 {
            even.learn(4, 8);
            uneven.learn(4, if i % 2 == 0 { 4 } else { 12 });
        }
        assert!(even.tells(SEGMENTS_MAX) && !even.tells(SEGMENTS_MAX + 1));
        assert!(!uneven.tells(4));
    }

    proptest! {
        #[test]
        fn no_counts_panic(seen in proptest::collection::vec((0u32..9, 0u32..9, any::<u32>(), any::<u32>()), 0..20)) {
            let connection = (([10, 0, 0, 2], 80).into(), ([10, 0, 0, 1], 4000).into());
            let mut turns = Turns::default();
            for (asked_ms_ago, answered_ms_ago, asked, answered) in seen {
                let traffic = Traffic { asked_ms_ago, answered_ms_ago, segments: Some((asked, answered)) };
                turns.under_way(Place::Port(80), connection, traffic);
                turns.close_reading();
            }
        }
    }
}
