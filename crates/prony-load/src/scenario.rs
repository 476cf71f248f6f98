//! Scenarios: what each place of a load sends next, and what an answer means for it.
//!
//! Compiled once from a plan ([`Scenario::compile`]); after that it is only read. What changes is kept apart: an [`Actor`] per
//! place, a [`ThreadFeeds`] per thread. It does no IO and reads no clock. Invariant: once every actor has walked once and the
//! longest values have been seen, nothing is allocated, and what an actor keeps is bounded whatever a server answers.

mod compile;
mod extract;
mod feed;
mod json;
mod prepared;
mod step;
mod step_tally;
mod template;
mod thread_feeds;
mod walks;
mod workload;

pub use feed::read_feed;
pub use prepared::PreparedRows;
pub use step_tally::StepTally;
pub use thread_feeds::{ThreadFeeds, ThreadPart};
pub use walks::Walks;
pub use workload::script_from;

use crate::digits::Digits;
use crate::protocol::{Captured, Message};
use feed::Table;
use prepared::Goal;
use prony_model::Nanos;
use regex::bytes::Regex;
use step::{Expected, Step};
use template::{Usage, Values};

/// The steps of a load, or its weighted requests as walks of one step each, with every name resolved.
#[derive(Debug)]
pub struct Scenario {
    authority: String,
    secure: bool,
    walks: Vec<Walk>,
    steps: Vec<Step>,
    tables: Vec<Table>,
    variables: Vec<Variable>,
    patterns: Vec<Regex>,
    /// Of a prepare phase: when it is done.
    goal: Option<Goal>,
}

/// Steps done one after another, with one row of each feed.
#[derive(Debug)]
struct Walk {
    first: u32,
    last: u32,
    /// Feeds that its templates name.
    tables: Box<[u32]>,
}

/// A value that steps save.
#[derive(Debug)]
struct Variable {
    name: String,
    usage: Usage,
}

/// Where one place of a load is in its walk, and what it has saved.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    walking: bool,
    walk: u32,
    step: u32,
    repeated: u32,
    /// The row of each feed; only those of the walk mean anything.
    rows: Vec<usize>,
    /// The value of each variable; only those saved in this walk mean anything.
    saved: Vec<String>,
}

impl Actor {
    /// The step that [`Scenario::next`] gave last.
    pub fn step(&self) -> u32 {
        self.step
    }
}

/// What a place does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this step.
    Step {
        /// Its index, below [`Scenario::step_count`].
        step: u32,
        /// Whether [`Scenario::answered`] needs head and body of the answer.
        capture: bool,
        /// Whether it is always the same ([`Scenario::fixed`]): then the message was left as it was.
        fixed: bool,
    },
    /// A feed whose rows are given out once is at its end, or a prepare phase has begun all its walks. Every later call on
    /// this thread that begins a walk says the same, but walks that have begun go on.
    Exhausted,
}

/// What an answer meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Why the answer was not accepted; then the walk begins again from its first step.
    pub unmet: Option<Unmet>,
    /// How long the place waits before its next request.
    pub think: Option<Nanos>,
    /// Whether this was the last step of a walk, and every step of it was accepted.
    pub walk_done: bool,
}

/// Why an answer was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The check names another status code; or none, and this one is 400 or more.
    Status,
    /// The body does not hold the text of the check.
    Contains,
    /// Nothing to save was found, or nothing that could stand where it is used.
    Save,
}

impl Scenario {
    /// How many walks there are to choose from: 1 for steps, one per weighted request otherwise, in the order of the plan.
    pub fn walk_count(&self) -> usize {
        self.walks.len()
    }

    /// How many steps there are over all walks.
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// What reports call a step.
    pub fn step_label(&self, step: u32) -> &str {
        &self.steps[step as usize].label
    }

    /// Whether a step says itself which status is a good one.
    pub fn judges_status(&self, step: u32) -> bool {
        match self.steps[step as usize].expected {
            Expected::Any => false,
            Expected::BelowError | Expected::Exactly(_) => true,
        }
    }

    /// Whether a step is the same every time.
    pub fn is_fixed(&self, step: u32) -> bool {
        self.steps[step as usize].fixed
    }

    /// The message of a step that is the same every time, to be encoded before the load; none for others.
    pub fn fixed(&self, step: u32) -> Option<Message> {
        let mut message = Message::default();
        let values = Values { n: Digits::new(0), saved: &[], rows: &[], tables: &self.tables };
        self.is_fixed(step).then(|| {
            self.render(step, &values, &mut Vec::new(), &mut message);
            message
        })
    }

    /// One tally for each step.
    pub fn tallies(&self) -> Vec<StepTally> {
        self.steps.iter().map(|_| StepTally::default()).collect()
    }

    /// An empty table for what the walks of a prepare phase save. Each thread has its own; they are merged at the end.
    pub fn prepared_rows(&self) -> PreparedRows {
        PreparedRows::new(self.variables.iter().map(|v| v.name.clone()).collect(), self.goal)
    }

    /// What this place sends next, rendered into `into` unless it is fixed. `chosen`: which walk to begin if one begins now,
    /// below [`Self::walk_count`].
    #[inline]
    pub fn next(&self, actor: &mut Actor, thread: &mut ThreadFeeds, chosen: u32, into: &mut Message) -> Next {
        if !actor.walking && self.begin_walk(actor, thread, chosen).is_none() {
            return Next::Exhausted;
        }
        let step = &self.steps[actor.step as usize];
        let n = thread.count(actor.step);
        if !step.fixed {
            let values = Values { n: Digits::new(n), saved: &actor.saved, rows: &actor.rows, tables: &self.tables };
            self.render(actor.step, &values, &mut thread.spare, into);
        }
        Next::Step { step: actor.step, capture: step.capture, fixed: step.fixed }
    }

    /// The request that [`Self::next`] gave is answered. `captured` must be there if that was asked for; without it nothing
    /// is found in it.
    #[inline]
    pub fn answered(
        &self,
        actor: &mut Actor,
        thread: &mut ThreadFeeds,
        status: u16,
        captured: Option<&Captured>,
    ) -> Outcome {
        let step = &self.steps[actor.step as usize];
        let unmet = self.judge(step, actor, thread, status, captured).err();
        let mut outcome = Outcome { unmet, think: step.think, walk_done: false };
        if unmet.is_some() {
            self.failed(actor);
            return outcome;
        }
        actor.repeated += 1;
        if actor.repeated >= step.repeat {
            actor.repeated = 0;
            if actor.step == self.walks[actor.walk as usize].last {
                actor.walking = false;
                outcome.walk_done = true;
            } else {
                actor.step += 1;
            }
        }
        outcome
    }

    /// The request that [`Self::next`] gave failed, or was never sent: the walk begins again from its first step, with rows of
    /// its own.
    pub fn failed(&self, actor: &mut Actor) {
        actor.walking = false;
    }

    /// None: a feed is at its end, or all walks of a prepare phase have begun.
    fn begin_walk(&self, actor: &mut Actor, thread: &mut ThreadFeeds, chosen: u32) -> Option<()> {
        let walk = &self.walks[chosen as usize];
        thread.take_walk()?;
        actor.rows.resize(self.tables.len(), 0);
        actor.saved.resize(self.variables.len(), String::new());
        for table in &walk.tables {
            actor.rows[*table as usize] = thread.take_row(*table, &self.tables[*table as usize])?;
        }
        (actor.walking, actor.walk, actor.step, actor.repeated) = (true, chosen, walk.first, 0);
        Some(())
    }

    fn render(&self, step: u32, values: &Values<'_>, spare: &mut Vec<(String, String)>, into: &mut Message) {
        into.authority.clear();
        into.authority.push_str(&self.authority);
        into.secure = self.secure;
        self.steps[step as usize].render(values, spare, into);
    }

    /// Checks an answer and saves what the step wants of it.
    fn judge(
        &self,
        step: &Step,
        actor: &mut Actor,
        thread: &mut ThreadFeeds,
        status: u16,
        captured: Option<&Captured>,
    ) -> Result<(), Unmet> {
        let accepted = match step.expected {
            Expected::Any => true,
            Expected::BelowError => status < 400,
            Expected::Exactly(code) => status == code,
        };
        if !accepted {
            return Err(Unmet::Status);
        }
        if !step.capture {
            return Ok(());
        }
        if let Some(pattern) = step.contains
            && !captured.is_some_and(|answer| thread.patterns[pattern].is_in(&answer.body))
        {
            return Err(Unmet::Contains);
        }
        for (variable, from) in &step.saves {
            let value = &mut actor.saved[*variable];
            value.clear();
            let found = captured.and_then(|answer| from.extract(answer, &mut thread.patterns, value));
            if found.is_none() || self.variables[*variable].usage.accepts(value).is_err() {
                return Err(Unmet::Save);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "scenario/scenario_tests.rs"]
mod tests;
