//! A program that is at work for a part of the look only: from when the load has settled until enough was seen.

use super::program::Program;
use std::time::{Duration, Instant};

/// Before this part of the look is over nothing is timed: connections open, and other instruments of the look are loaded on
/// the CPUs that the requests want. A guess: a look of 3 s has a settling time of 0.4 s.
pub(super) const SETTLE_PART: f64 = 0.2;

/// What sees very many events is at work for this part of the look only: soft interrupts come at two million in ten seconds of
/// load, and timing them costs 3 to 5 % of throughput (measured with `kernel.bpf_stats_enabled`).
const SHORT_PART: f64 = 0.1;

/// A program before, at and after its work.
#[derive(Debug)]
pub(super) struct PartTime {
    program: Program,
    look: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Settling,
    Watching(Instant),
    Done(Duration),
    Refused(String),
}

impl PartTime {
    /// Loaded, and not attached yet, for a look that lasts about so long.
    pub(super) fn new(program: Program, look: Duration) -> Self {
        Self { program, look, state: State::Settling }
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Called every few milliseconds with the `age` of the look. `is_enough` is asked while the program is at work, with the part of the look that it
    /// has watched.
    pub(super) fn tick(&mut self, age: Duration, is_enough: impl FnOnce(&Program, f64) -> bool) {
        match self.state {
            State::Settling if age >= self.look.mul_f64(SETTLE_PART) => {
                self.state = match self.program.attach() {
                    Ok(()) => State::Watching(Instant::now()),
                    Err(reason) => State::Refused(reason),
                };
            }
            State::Watching(since) if is_enough(&self.program, since.elapsed().div_duration_f64(self.look)) => {
                self.stop(since);
            }
            State::Settling | State::Watching(_) | State::Done(_) | State::Refused(_) => {}
        }
    }

    /// The same, for a short part.
    pub(super) fn tick_shortly(&mut self, age: Duration) {
        self.tick(age, |_, watched| watched >= SHORT_PART);
    }

    fn stop(&mut self, since: Instant) {
        self.state = State::Done(since.elapsed());
        self.program.detach();
    }

    /// The program, and for how many seconds it watched; or why it did not.
    pub(super) fn finish(mut self) -> Result<(Program, f64), String> {
        if let State::Watching(since) = self.state {
            self.stop(since);
        }
        match self.state {
            State::Done(watched) => Ok((self.program, watched.as_secs_f64())),
            State::Refused(reason) => Err(reason),
            State::Settling | State::Watching(_) => Err("the look ended before the load had settled".to_string()),
        }
    }
}
