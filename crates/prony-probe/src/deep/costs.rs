//! What the instruments of a look cost: the run time of their programs, as the kernel tells it.
//!
//! Timing is dear itself, so it is done for a short part of the look: while three looks were timed, lab `proxy` carried a
//! quarter less (21,000 requests per second against 28,000, four pairs on 2 CPUs of AMD EPYC).
//! Invariant: the kernel times no program for us when a [`Costs`] is dropped.

use super::part_time::SETTLE_PART;
use super::program::Program;
use super::sys;
use crate::facts::Facts;
use prony_model::metric as m;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Part of the look in which programs are timed: 60 ms of 3 s, in which a busy host runs them some 10,000 times.
const TIMED_PART: f64 = 0.02;

/// Instruments with their programs, where they are at work.
pub(super) type Programs<'p> = [(&'static str, Option<&'p Program>); 7];

/// The costs of one look, before, while and after they are measured.
#[derive(Debug, Default)]
pub(super) enum Costs {
    #[default]
    Waiting,
    Timing {
        since: Instant,
        _timing: OwnedFd,
        spent: Vec<(&'static str, Duration)>,
    },
    Done(Vec<(&'static str, f64)>),
    Refused(String),
}

impl Costs {
    /// Begins when the part-time programs of a `look` of this `age` are at work as well, and ends a part of it later.
    pub(super) fn tick(&mut self, programs: &Programs<'_>, age: Duration, look: Duration) {
        match self {
            Self::Waiting if age >= look.mul_f64(SETTLE_PART) && programs.iter().any(|(_, p)| p.is_some()) => {
                *self = match sys::time_programs() {
                    Ok(timing) => Self::Timing { since: Instant::now(), _timing: timing, spent: spent(programs) },
                    Err(e) => Self::Refused(format!("the kernel does not time eBPF programs: {e}")),
                };
            }
            Self::Timing { since, .. } if since.elapsed() >= look.mul_f64(TIMED_PART) => self.end(programs),
            Self::Waiting | Self::Timing { .. } | Self::Done(_) | Self::Refused(_) => {}
        }
    }

    /// Whether the kernel times now: no program should begin or end meanwhile.
    pub(super) fn is_timing(&self) -> bool {
        matches!(self, Self::Timing { .. })
    }

    fn end(&mut self, programs: &Programs<'_>) {
        let Self::Timing { since, spent: before, .. } = self else { return };
        let (seconds, after) = (since.elapsed().as_secs_f64(), spent(programs));
        *self = Self::Done(shares(before, &after, seconds));
    }

    /// Puts `self.look` of the instruments.
    pub(super) fn put(mut self, programs: &Programs<'_>, facts: &mut Facts) {
        self.end(programs);
        match self {
            Self::Done(shares) => shares.into_iter().for_each(|(name, share)| facts.put(&m::SELF_LOOK, name, share)),
            Self::Refused(reason) => facts.miss(m::SELF_LOOK.name, reason),
            Self::Waiting | Self::Timing { .. } => {}
        }
    }
}

fn spent(programs: &Programs<'_>) -> Vec<(&'static str, Duration)> {
    programs.iter().filter_map(|(name, program)| Some((*name, program.as_ref()?.run_time()?))).collect()
}

/// Shares of one CPU. An instrument that began or ended meanwhile has none.
fn shares(
    before: &[(&'static str, Duration)],
    after: &[(&'static str, Duration)],
    seconds: f64,
) -> Vec<(&'static str, f64)> {
    let share = |(name, spent): &(&'static str, Duration)| {
        let (_, earlier) = before.iter().find(|(n, _)| n == name)?;
        Some((*name, spent.checked_sub(*earlier)?.as_secs_f64() / seconds))
    };
    after.iter().filter_map(share).filter(|(_, share)| share.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_of_the_timed_part_alone() {
        let ms = Duration::from_millis;
        let before = [("locks", ms(2)), ("split", ms(1))];
        let after = [("locks", ms(5)), ("softirqs", ms(9))];
        assert_eq!(shares(&before, &after, 0.06), [("locks", 0.05)]);
        assert_eq!(shares(&before, &after, 0.0), [], "no time, no share");
    }
}
