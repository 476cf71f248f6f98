//! Where a condition begins or ends to hold on an axis of whole numbers, from trials of which each may be wrong.
//!
//! For axes on which a trial only says yes or no: sizes, connections, workers. Rates have a search of their own that uses how far
//! off a trial was. Invariant: pure; what comes next depends on the options and the trials so far, and one trial never decides.

use statrs::distribution::{Binomial, DiscreteCDF};
use std::collections::BTreeMap;

/// Trials at most, whatever they say. A guess: twice what a search over a million values takes.
const TRIALS_MAX: usize = 60;
/// Trials at one value at most: an end that is no clearer after ten stands at the border itself.
const TRIALS_PER_VALUE_MAX: u32 = 10;
/// A value whose trials contradict each other this much after so many of them stands at the border itself: its neighbour further
/// out is the side then. 5 of 6 is a doubt of 0.11 and may still become clear; 4 of 6 does not soon. A guess.
const STUCK_TRIALS: u32 = 6;
const STUCK_DOUBT: f64 = 0.12;
/// Gaps beside a stuck value are closed down to this many resolutions. A guess.
const STUCK_GAPS: f64 = 4.0;
/// Trials of each end when both say the same, so that nothing is between them.
const END_TRIALS: u32 = 3;

/// How values between two others are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// The middle.
    Even,
    /// The geometric mean: for axes that reach over orders of magnitude.
    Ratio,
}

/// What to search, and how finely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Smallest value.
    pub low: u64,
    /// Largest value, above `low`.
    pub high: u64,
    /// How values are chosen.
    pub spacing: Spacing,
    /// The border is known well enough when its two sides are this close, relative to the larger; 1 apart always is.
    pub resolution: f64,
    /// Confidence at which the search ends.
    pub confidence: f64,
}

/// What is known of the border.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Border {
    /// Whether the condition begins to hold as the value grows; else it ends.
    pub rising: bool,
    /// The value nearest to the border at which it held in most trials; none when it held nowhere.
    pub holds_at: Option<u64>,
    /// The value nearest to the border at which it did not; none when it held everywhere.
    pub fails_at: Option<u64>,
    /// See [`next`].
    pub confidence: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    held: u32,
    trials: u32,
}

impl Tally {
    fn holds(self) -> bool {
        2 * self.held > self.trials
    }

    /// Whether more trials would hardly tell the side.
    fn is_stuck(self, holds: bool) -> bool {
        self.trials >= STUCK_TRIALS && self.doubt(holds) > STUCK_DOUBT
    }

    /// How likely a fair coin falls on one side at least as often as the trials did.
    fn doubt(self, holds: bool) -> f64 {
        let on_side = if holds { self.held } else { self.trials - self.held };
        let coin = Binomial::new(0.5, u64::from(self.trials)).expect("a half is a probability");
        if on_side == 0 { 1.0 } else { coin.sf(u64::from(on_side) - 1) }
    }
}

/// The value to try next; none when the border is known as well as asked for, or trials are used up. `seen` holds every trial
/// that counts: value, and whether the condition held.
///
/// Bisection by single trials (each is a vote, not a verdict), then repeated trials at both sides of the border. The border
/// is the cut with which the most votes agree, so that votes which contradict it move it back (least squares of votes
/// under a monotone condition: Brunk et al. 1972, "Statistical inference under order restrictions", 1.2). Its confidence is one
/// less the doubts of both sides; the doubt of a side is the chance that a fair coin agrees with it as often as its trials do
/// (sign test; Dixon, Mood 1946): were the border beyond that side, most trials there would have said the opposite.
pub fn next(options: &Options, seen: &[(u64, bool)]) -> Option<u64> {
    let tallies = tallies(seen);
    let count = |value: u64| tallies.get(&value).map_or(0, |t| t.trials);
    if seen.len() >= TRIALS_MAX {
        return None;
    }
    if let Some(end) = [options.low, options.high].into_iter().find(|end| count(*end) == 0) {
        return Some(end);
    }
    match found(options, seen) {
        Border { holds_at: Some(a), fails_at: Some(b), confidence, .. } => {
            let (low, high) = (a.min(b), a.max(b));
            // What was tried between the two is stuck: the border is there, and values close to it would be stuck as well.
            let mut inside = tallies.range(low + 1..high).map(|(value, _)| *value);
            let middle = match (inside.next(), inside.next_back()) {
                (None, _) => between(options, low, high),
                (Some(first), last) => {
                    let far = Options { resolution: STUCK_GAPS * options.resolution, ..*options };
                    between(&far, low, first).or_else(|| between(&far, last.unwrap_or(first), high))
                }
            };
            if middle.is_some() {
                return middle;
            }
            if confidence >= options.confidence {
                return None;
            }
            // The side with more doubt; each has at least as much as its tally.
            let doubt = |value: u64| tallies.get(&value).map_or(1.0, |t| t.doubt(value == a));
            let next = if doubt(low) >= doubt(high) { low } else { high };
            (count(next) < TRIALS_PER_VALUE_MAX).then_some(next)
        }
        Border { .. } => [options.low, options.high].into_iter().find(|end| count(*end) < END_TRIALS),
    }
}

/// What the trials say.
pub fn found(options: &Options, seen: &[(u64, bool)]) -> Border {
    let tallies = tallies(seen);
    let at = |value: u64| tallies.get(&value).copied();
    // An end that was not tried is taken to be like the other one.
    let tried = at(options.low).or(at(options.high)).unwrap_or_default();
    let (low, high) = (at(options.low).unwrap_or(tried), at(options.high).unwrap_or(tried));
    let rising = high.holds() || !low.holds();
    if low.holds() == high.holds() {
        // Nothing between is known: its ends stand for all of it.
        let holds = low.holds();
        let doubt = low.doubt(holds) + high.doubt(holds);
        let end = if holds { options.low } else { options.high };
        let (holds_at, fails_at) = if holds { (Some(end), None) } else { (None, Some(end)) };
        return Border { rising, holds_at, fails_at, confidence: (1.0 - doubt).max(0.0) };
    }
    let values: Vec<(u64, Tally)> = tallies.into_iter().collect();
    let agree = |tally: &Tally, holds: bool| if holds { tally.held } else { tally.trials - tally.held };
    let votes = |cut: usize| -> u32 {
        values.iter().enumerate().map(|(i, (_, tally))| agree(tally, (i >= cut) == rising)).sum()
    };
    // The last of the best cuts when it begins to hold, the first when it ends: what is not certain counts as not holding.
    let best = (1..values.len()).map(votes).max().unwrap_or(0);
    let mut cuts = (1..values.len()).filter(|cut| votes(*cut) == best);
    let cut = if rising { cuts.next_back() } else { cuts.next() }.unwrap_or(1);
    // The nearest value on each side that is not stuck, or the end.
    let clear = |tally: &Tally, holds: bool| !tally.is_stuck(holds);
    let below = *values[..cut].iter().rev().find(|v| clear(&v.1, !rising)).unwrap_or(&values[0]);
    let above = *values[cut..].iter().find(|v| clear(&v.1, rising)).unwrap_or(&values[values.len() - 1]);
    let (holds, fails) = if rising { (above, below) } else { (below, above) };
    let doubt = holds.1.doubt(true) + fails.1.doubt(false);
    Border { rising, holds_at: Some(holds.0), fails_at: Some(fails.0), confidence: (1.0 - doubt).max(0.0) }
}

fn tallies(seen: &[(u64, bool)]) -> BTreeMap<u64, Tally> {
    let mut tallies: BTreeMap<u64, Tally> = BTreeMap::new();
    for (value, held) in seen {
        let tally = tallies.entry(*value).or_default();
        tally.trials += 1;
        tally.held += u32::from(*held);
    }
    tallies
}

/// A value strictly between the two; none when they are close enough.
fn between(options: &Options, low: u64, high: u64) -> Option<u64> {
    if high - low <= 1 || (high - low) as f64 <= options.resolution * high as f64 {
        return None;
    }
    let middle = match options.spacing {
        Spacing::Even => low + (high - low) / 2,
        Spacing::Ratio => ((low.max(1) as f64) * (high as f64)).sqrt().round() as u64,
    };
    Some(middle.clamp(low + 1, high - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::prelude::*;

    fn options(low: u64, high: u64, spacing: Spacing) -> Options {
        Options { low, high, spacing, resolution: 0.02, confidence: 0.95 }
    }

    /// Plays a search on a world that answers so.
    fn play(options: &Options, mut world: impl FnMut(u64) -> bool) -> (Border, Vec<(u64, bool)>) {
        let mut seen = Vec::new();
        while let Some(value) = next(options, &seen) {
            assert!((options.low..=options.high).contains(&value));
            seen.push((value, world(value)));
            assert!(seen.len() <= TRIALS_MAX, "the search does not end");
        }
        (found(options, &seen), seen)
    }

    #[test]
    fn a_size_that_fills_the_link_is_found_between_two_neighbours() {
        let (border, seen) = play(&options(0, 10_000, Spacing::Even), |size| size >= 2590);
        let (holds, fails) = (border.holds_at.unwrap(), border.fails_at.unwrap());
        assert!(border.rising && fails < 2590 && 2590 <= holds && holds - fails <= 60, "{border:?}");
        assert!(border.confidence >= 0.95 && seen.len() <= 20, "{} trials, {border:?}", seen.len());
    }

    #[test]
    fn the_most_connections_that_are_stable_are_found() {
        let (border, _) = play(&options(1, 4096, Spacing::Ratio), |connections| connections <= 720);
        assert!(!border.rising);
        let (holds, fails) = (border.holds_at.unwrap(), border.fails_at.unwrap());
        assert!(holds <= 720 && 720 < fails && fails - holds <= 16, "{border:?}");
    }

    #[test]
    fn few_trials_say_little_and_never_fail() {
        let options = options(1, 64, Spacing::Even);
        let border = found(&options, &[]);
        assert_eq!((border.holds_at, border.fails_at, border.confidence), (None, Some(64), 0.0));
        let border = found(&options, &[(1, true)]);
        assert_eq!((border.holds_at, border.fails_at), (Some(1), None));
        assert!(border.confidence < 1e-9, "one trial says nothing");
        assert_eq!(found(&options, &[(1, true), (64, false)]).fails_at, Some(64));
    }

    #[test]
    fn everywhere_and_nowhere_are_answers() {
        let all = options(1, 64, Spacing::Even);
        let (border, seen) = play(&all, |_| true);
        assert_eq!((border.holds_at, border.fails_at, seen.len()), (Some(1), None, 6));
        let (border, _) = play(&all, |_| false);
        assert_eq!((border.holds_at, border.fails_at), (None, Some(64)));
    }

    #[test]
    fn one_disturbed_trial_does_not_decide() {
        for disturbed in 0..12 {
            let mut trial = 0;
            let (border, _) = play(&options(0, 10_000, Spacing::Even), |size| {
                trial += 1;
                (size >= 5000) != (trial - 1 == disturbed)
            });
            let (holds, fails) = (border.holds_at, border.fails_at);
            assert!(holds.is_some_and(|h| h >= 5000) && fails.is_some_and(|f| f < 5000), "{disturbed}: {border:?}");
        }
    }

    #[test]
    fn noisy_trials_still_bracket_the_border() {
        // A trial at a share d from the border says the wrong thing with chance exp(-40 d) / 2.
        let searches = 300;
        let good = (0..searches).filter(|seed| {
            let mut random = Random::new(*seed);
            let truth = 1000 + random.below(8000);
            let (border, _) = play(&options(0, 10_000, Spacing::Even), |size| {
                let far = (size as f64 / truth as f64).ln().abs();
                (size >= truth) != (random.uniform() < 0.5 * (-40.0 * far).exp())
            });
            let ratio = |value: Option<u64>| value.map_or(0.0, |v| v as f64 / truth as f64);
            let (holds, fails) = (ratio(border.holds_at), ratio(border.fails_at));
            (0.97..1.25).contains(&holds) && (0.75..1.03).contains(&fails)
        });
        assert!(good.count() * 100 >= searches as usize * 90);
    }

    #[test]
    fn a_value_at_the_border_itself_does_not_hold_up_the_search() {
        // Values within 40 of the border say yes or no by chance.
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (border, seen) = play(&options(0, 10_000, Spacing::Even), |size| {
                if size.abs_diff(5000) < 40 { random.below(2) == 0 } else { size >= 5000 }
            });
            let (holds, fails) = (border.holds_at.unwrap(), border.fails_at.unwrap());
            assert!(border.confidence >= 0.9 && holds - fails < 700, "{border:?} {seen:?}");
            assert!(fails < 5040 && 4960 < holds, "{border:?}");
        }
    }

    proptest! {
        #[test]
        fn without_noise_the_border_is_always_bracketed(
            low in 0u64..100, span in 1u64..100_000, part in 0.0f64..1.0, rising: bool, ratio: bool,
        ) {
            let spacing = if ratio { Spacing::Ratio } else { Spacing::Even };
            let options = options(low, low + span, spacing);
            let border = low + 1 + ((span - 1) as f64 * part) as u64;
            let (found, _) = play(&options, |value| (value >= border) == rising);
            let (above, below) = if rising { (found.holds_at, found.fails_at) } else { (found.fails_at, found.holds_at) };
            prop_assert_eq!(found.rising, rising);
            prop_assert!(below.unwrap() < border && border <= above.unwrap(), "{:?} {}", found, border);
            prop_assert!(found.confidence >= 0.95);
        }
    }
}
