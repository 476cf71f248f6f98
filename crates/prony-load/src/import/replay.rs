//! Recorded requests in the order of their times, for a replay.
//!
//! It reads no clock. Invariants: request i belongs to time i; times begin at 0 and never go back; at most
//! [`REQUESTS_MAX`] requests and [`MEMORY_BYTES_MAX`] bytes are held.

use super::ImportError;
use super::mix::Asked;
use prony_model::{Nanos, RequestSpec};

/// Most requests of a replay. A guess; measured with a log of combined lines and paths of 35 bytes: 174 MB, and as
/// much again once they are rendered. With a `Host` header for each it is 784 bytes a request, so [`MEMORY_BYTES_MAX`]
/// comes first.
pub(super) const REQUESTS_MAX: usize = 1_000_000;
/// Most memory of a replay. A guess: room for as many requests with paths of 400 bytes.
const MEMORY_BYTES_MAX: usize = 512 << 20;
const SECOND_NS: i64 = 1_000_000_000;

/// When a request was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    /// In nanoseconds since 1970.
    pub at_ns: i64,
    /// Whether the recording tells whole seconds only.
    pub whole_second: bool,
    /// How long before that the request began: a server writes its log when it is done.
    pub took_ns: i64,
}

/// A recording on its way to a replay.
#[derive(Debug, Default)]
pub(super) struct Replay {
    arrivals: Vec<(Recorded, Asked)>,
    bytes: usize,
    left_out: u64,
}

impl Replay {
    /// Takes one request, in the order of the recording; counts it only, when there is no room for more.
    pub fn push(&mut self, recorded: Recorded, asked: Asked) {
        let bytes = size_of::<Recorded>() + asked.bytes();
        if self.arrivals.len() >= REQUESTS_MAX || self.bytes + bytes > MEMORY_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.arrivals.push((recorded, asked));
    }

    /// Requests for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether some times are told in whole seconds.
    pub fn has_whole_seconds(&self) -> bool {
        self.arrivals.iter().any(|(recorded, _)| recorded.whole_second)
    }

    /// Requests and their times, in order.
    ///
    /// # Errors
    /// [`ImportError::Speed`] for a speed that is not a number above 0.
    pub fn finish(mut self, speed: f64) -> Result<(Vec<RequestSpec>, Vec<Nanos>), ImportError> {
        if !speed.is_finite() || speed <= 0.0 {
            return Err(ImportError::Speed(speed));
        }
        // Both sorts keep the order of what is at the same time.
        self.arrivals.sort_by_key(|(recorded, _)| recorded.at_ns);
        self.spread();
        for (recorded, _) in &mut self.arrivals {
            recorded.at_ns = recorded.at_ns.saturating_sub(recorded.took_ns);
        }
        self.arrivals.sort_by_key(|(recorded, _)| recorded.at_ns);
        let first_ns = self.arrivals.first().map_or(0, |(recorded, _)| recorded.at_ns);
        let since_first = |at_ns: i64| Nanos((at_ns.abs_diff(first_ns) as f64 / speed).round() as u64);
        let times = self.arrivals.iter().map(|(recorded, _)| since_first(recorded.at_ns)).collect();
        let requests = self.arrivals.into_iter().map(|(_, asked)| asked.spec(1.0)).collect();
        Ok((requests, times))
    }

    /// Spreads requests evenly over the second that they were all recorded in: request k of n at k/n of it.
    fn spread(&mut self) {
        let same_second = |a: &(Recorded, Asked), b: &(Recorded, Asked)| a.0.whole_second && a.0.at_ns == b.0.at_ns;
        for second in self.arrivals.chunk_by_mut(same_second).filter(|second| second[0].0.whole_second) {
            let count = second.len() as i64;
            for (k, (recorded, _)) in (0..).zip(second) {
                recorded.at_ns = recorded.at_ns.saturating_add(SECOND_NS * k / count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    /// Each as `seconds since 1970, whole second?, seconds taken`; paths are numbers in the order of recording.
    fn check(speed: f64, recorded: &[(f64, bool, f64)], want: Expect) {
        let mut replay = Replay::default();
        for (n, (at_s, whole_second, took_s)) in recorded.iter().enumerate() {
            let ns = |s: f64| (s * 1e9) as i64;
            let recorded = Recorded { at_ns: ns(*at_s), whole_second: *whole_second, took_ns: ns(*took_s) };
            replay.push(recorded, Asked { path: format!("/{n}"), ..Asked::default() });
        }
        want.assert_eq(&match replay.finish(speed) {
            Ok((requests, times)) => {
                let one = |(request, time): (&RequestSpec, &Nanos)| format!("{} at {time}\n", request.path);
                requests.iter().zip(&times).map(one).collect()
            }
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn times_begin_at_0_in_order() {
        check(
            1.0,
            &[(100.5, false, 0.0), (100.25, false, 0.0), (103.0, false, 0.0), (103.0, false, 0.0)],
            expect![[r#"
                /1 at 0ns
                /0 at 250ms
                /2 at 2.75s
                /3 at 2.75s
            "#]],
        );
        check(1.0, &[], expect![""]);
    }

    #[test]
    fn speed_divides_times() {
        check(
            2.0,
            &[(1.0, false, 0.0), (2.0, false, 0.0)],
            expect![[r#"
                /0 at 0ns
                /1 at 500ms
            "#]],
        );
        check(
            0.0,
            &[(1.0, false, 0.0)],
            expect!["a replay at speed 0 has no end: write more than 0, like 2 for twice as fast as recorded"],
        );
    }

    #[test]
    fn a_second_is_spread_over_its_requests() {
        check(
            1.0,
            &[(8.0, true, 0.0), (7.0, true, 0.0), (8.0, true, 0.0), (8.0, true, 0.0), (8.0, true, 0.0)],
            expect![[r#"
                /1 at 0ns
                /0 at 1s
                /2 at 1.25s
                /3 at 1.5s
                /4 at 1.75s
            "#]],
        );
    }

    #[test]
    fn a_long_request_began_before_it_was_logged() {
        check(
            1.0,
            &[(10.0, false, 0.5), (11.0, false, 3.0)],
            expect![[r#"
                /1 at 0ns
                /0 at 1.5s
            "#]],
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut replay = Replay::default();
        let recorded = Recorded { at_ns: 0, whole_second: false, took_ns: 0 };
        for _ in 0..600 {
            replay.push(recorded, Asked { path: "x".repeat(1 << 20), ..Asked::default() });
        }
        assert_eq!((replay.arrivals.len(), replay.left_out()), (511, 89));
    }

    proptest! {
        #[test]
        fn order_of_requests_is_order_of_times(
            recorded in proptest::collection::vec((any::<i64>(), any::<bool>(), any::<i64>()), 0..40),
            speed in 0.001f64..1000.0,
        ) {
            let mut replay = Replay::default();
            for (at_ns, whole_second, took_ns) in &recorded {
                let recorded = Recorded { at_ns: *at_ns, whole_second: *whole_second, took_ns: *took_ns };
                replay.push(recorded, Asked::default());
            }
            let (requests, times) = replay.finish(speed).unwrap();
            prop_assert_eq!((requests.len(), times.len()), (recorded.len(), recorded.len()));
            prop_assert!(times.is_sorted() && times.first().is_none_or(|first| first.0 == 0));
        }
    }
}
