//! What the instruments of a look cost: the run time of their programs, as the kernel tells it, less what its timing itself takes.
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
/// Runs of the program that does nothing: a millisecond.
const REHEARSALS: u32 = 500;

/// Instruments with their programs, where they are at work.
pub(super) type Programs<'p> = [(&'static str, Option<&'p Program>); 7];

/// The run time of an instrument so far, and how often its programs ran.
type Spent = (&'static str, (Duration, u64));

/// The costs of one look.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// Tells what timing itself takes. None where the kernel does not take it: then that counts as the instruments' own.
    nothing: Option<Program>,
    state: State,
}

/// Before, while and after they are measured.
#[derive(Debug, Default)]
enum State {
    #[default]
    Waiting,
    Timing {
        since: Instant,
        _timing: OwnedFd,
        before: Vec<Spent>,
        timing_itself: Duration,
    },
    Done(Vec<(&'static str, f64)>),
    Refused(String),
}

impl Costs {
    pub(super) fn new() -> Self {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/nothing.bpf.o"));
        Self { nothing: Program::load("nothing", bytes).ok(), state: State::Waiting }
    }

    /// Begins when the part-time programs of a `look` of this `age` are at work as well, and ends a part of it later.
    pub(super) fn tick(&mut self, programs: &Programs<'_>, age: Duration, look: Duration) {
        match &self.state {
            State::Waiting if age >= look.mul_f64(SETTLE_PART) && programs.iter().any(|(_, p)| p.is_some()) => {
                self.state = match sys::time_programs() {
                    Ok(timing) => {
                        let timing_itself = self.timing_itself();
                        State::Timing { since: Instant::now(), _timing: timing, before: spent(programs), timing_itself }
                    }
                    Err(e) => State::Refused(format!("the kernel does not time eBPF programs: {e}")),
                };
            }
            State::Timing { since, .. } if since.elapsed() >= look.mul_f64(TIMED_PART) => self.end(programs),
            State::Waiting | State::Timing { .. } | State::Done(_) | State::Refused(_) => {}
        }
    }

    /// Of one run, while the kernel times.
    fn timing_itself(&mut self) -> Duration {
        let (run_time, runs) =
            self.nothing.as_mut().and_then(|nothing| nothing.rehearse(REHEARSALS)).unwrap_or_default();
        run_time.div_f64(runs.max(1) as f64)
    }

    /// Whether the kernel times now: no program should begin or end meanwhile.
    pub(super) fn is_timing(&self) -> bool {
        matches!(self.state, State::Timing { .. })
    }

    fn end(&mut self, programs: &Programs<'_>) {
        let State::Timing { since, before, timing_itself, .. } = &self.state else { return };
        let (seconds, after) = (since.elapsed().as_secs_f64(), spent(programs));
        self.state = State::Done(shares(before, &after, *timing_itself, seconds));
    }

    /// Puts `self.look` of the instruments.
    pub(super) fn put(mut self, programs: &Programs<'_>, facts: &mut Facts) {
        self.end(programs);
        match self.state {
            State::Done(shares) => shares.into_iter().for_each(|(name, share)| facts.put(&m::SELF_LOOK, name, share)),
            State::Refused(reason) => facts.miss(m::SELF_LOOK.name, reason),
            State::Waiting | State::Timing { .. } => {}
        }
    }
}

fn spent(programs: &Programs<'_>) -> Vec<Spent> {
    programs.iter().filter_map(|(name, program)| Some((*name, program.as_ref()?.spent()?))).collect()
}

/// Shares of one CPU, without what timing itself took of each run. An instrument that began or ended meanwhile has none.
fn shares(before: &[Spent], after: &[Spent], timing_itself: Duration, seconds: f64) -> Vec<(&'static str, f64)> {
    let share = |(name, (run_time, runs)): &Spent| {
        let (_, (earlier, runs_before)) = before.iter().find(|(n, _)| n == name)?;
        let timing_s = timing_itself.as_secs_f64() * runs.checked_sub(*runs_before)? as f64;
        let own_s = (run_time.checked_sub(*earlier)?.as_secs_f64() - timing_s).max(0.0);
        Some((*name, own_s / seconds))
    };
    after.iter().filter_map(share).filter(|(_, share)| share.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_of_the_timed_part_alone() {
        let ms = Duration::from_millis;
        let before = [("locks", (ms(2), 10)), ("split", (ms(1), 10)), ("packets", (ms(1), 10))];
        let after = [("locks", (ms(6), 1010)), ("softirqs", (ms(9), 10)), ("packets", (ms(2), 9010))];
        let timing_itself = Duration::from_micros(1);
        assert_eq!(shares(&before, &after, timing_itself, 0.06), [("locks", 0.05), ("packets", 0.0)]);
        assert_eq!(shares(&before, &after, timing_itself, 0.0), [], "no time, no share");
    }

    #[test]
    fn needs_root_timing_itself_takes_some_nanoseconds() {
        let Ok(_timing) = sys::time_programs() else { return eprintln!("not root: the kernel times no programs") };
        let took = Costs::new().timing_itself();
        assert!(took > Duration::ZERO && took < Duration::from_micros(10), "{took:?}");
    }
}
