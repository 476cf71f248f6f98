//! Where the requests of one thread come from: a list made ready before the load, or a scenario that is rendered on the way.
//!
//! It does no IO and reads no clock. Invariant: asking allocates nothing once every call has been asked for its first walk.

use crate::protocol::{Captured, Encoded, Message, Protocol};
use crate::request::{Choice, Mix, Requests};
use crate::scenario::{Actor, Next, PreparedRows, Scenario, StepTally, ThreadFeeds};
use crate::tally::Judgement;
use prony_model::Nanos;
use std::sync::Arc;

/// Gives one thread its requests.
pub enum Source {
    /// Requests that never change.
    Fixed {
        /// Every request, shared by all threads.
        requests: Arc<Requests>,
        /// Which is next.
        choice: Choice,
    },
    /// Steps with values of their own.
    Played(Box<Play>),
}

/// A scenario as one thread plays it.
pub struct Play {
    scenario: Arc<Scenario>,
    /// Of each step: its request, if it is always the same.
    fixed: Vec<Option<Encoded>>,
    mix: Mix,
    choice: Choice,
    actors: Vec<Actor>,
    feeds: ThreadFeeds,
    tallies: Vec<StepTally>,
    /// What walks save, if that is wanted.
    prepared: Option<PreparedRows>,
    message: Message,
    encoded: Encoded,
    /// Captures that are free to be used again.
    #[expect(clippy::vec_box, reason = "they travel through the protocol as boxes, and come back as the same ones")]
    spare: Vec<Box<Captured>>,
}

/// A request that is about to begin.
pub struct Asked<'a> {
    /// Its bytes.
    pub request: &'a Encoded,
    /// Where to keep the answer, if somebody wants to read it.
    pub capture: Option<Box<Captured>>,
}

/// An answer, as the engine knows it.
pub struct Heard {
    /// Its status code.
    pub status: u16,
    /// What was captured of it.
    pub captured: Option<Box<Captured>>,
    /// Its latency in nanoseconds; none outside the counted time.
    pub latency_ns: Option<u64>,
}

/// What an answer means for its call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// Whether it is a good one.
    pub judgement: Judgement,
    /// How long the call waits before its next request.
    pub think: Option<Nanos>,
}

impl Source {
    /// The next request of a call; none: there are no more for it.
    #[inline]
    pub fn ask(&mut self, call: u32, protocol: &impl Protocol) -> Option<Asked<'_>> {
        match self {
            Self::Fixed { requests, choice } => {
                let index = choice.choose(&requests.mix);
                Some(Asked { request: &requests.list[index as usize], capture: None })
            }
            Self::Played(play) => play.ask(call, protocol),
        }
    }

    /// A request is shed: the one whose turn it was is not sent.
    pub fn skip(&mut self) {
        match self {
            Self::Fixed { requests, choice } => _ = choice.choose(&requests.mix),
            Self::Played(play) => _ = play.choice.choose(&play.mix),
        }
    }

    /// A call is answered.
    #[inline]
    pub fn answered(&mut self, call: u32, heard: Heard) -> Judged {
        match self {
            Self::Fixed { .. } => Judged::default(),
            Self::Played(play) => play.answered(call, heard),
        }
    }

    /// A call failed. `counted`: within the counted time.
    pub fn failed(&mut self, call: u32, counted: bool) {
        match self {
            Self::Fixed { .. } => {}
            Self::Played(play) => play.failed(call, counted),
        }
    }
}

impl Play {
    /// For a thread with `calls` calls.
    pub fn new(
        scenario: &Arc<Scenario>,
        mix: Mix,
        choice: Choice,
        feeds: ThreadFeeds,
        calls: u32,
        protocol: &impl Protocol,
    ) -> Self {
        let encode = |step: u32| {
            scenario.fixed(step).map(|message| {
                let mut encoded = Encoded::default();
                protocol.encode(&message, &mut encoded);
                encoded
            })
        };
        Self {
            fixed: (0..scenario.step_count() as u32).map(encode).collect(),
            mix,
            choice,
            actors: vec![Actor::default(); calls as usize],
            feeds,
            tallies: scenario.tallies(),
            prepared: None,
            message: Message::default(),
            encoded: Encoded::default(),
            spare: Vec::new(),
            scenario: Arc::clone(scenario),
        }
    }

    /// Keeps what walks save.
    pub fn keep_saved(self) -> Self {
        Self { prepared: Some(self.scenario.prepared_rows()), ..self }
    }

    fn ask(&mut self, call: u32, protocol: &impl Protocol) -> Option<Asked<'_>> {
        let chosen = self.choice.choose(&self.mix);
        let actor = &mut self.actors[call as usize];
        let Next::Step { step, capture, fixed } = self.scenario.next(actor, &mut self.feeds, chosen, &mut self.message)
        else {
            return None;
        };
        let request = match &self.fixed[step as usize] {
            Some(request) if fixed => request,
            Some(_) | None => {
                protocol.encode(&self.message, &mut self.encoded);
                &self.encoded
            }
        };
        let capture = capture.then(|| self.spare.pop().unwrap_or_default());
        Some(Asked { request, capture })
    }

    fn answered(&mut self, call: u32, heard: Heard) -> Judged {
        let actor = &mut self.actors[call as usize];
        let step = actor.step();
        let outcome = self.scenario.answered(actor, &mut self.feeds, heard.status, heard.captured.as_deref());
        if let Some(latency_ns) = heard.latency_ns {
            self.tallies[step as usize].record(latency_ns, outcome.unmet.is_some());
        }
        if outcome.walk_done
            && let Some(prepared) = &mut self.prepared
        {
            prepared.push(actor);
        }
        if let Some(mut captured) = heard.captured {
            captured.clear();
            self.spare.push(captured);
        }
        let judgement = match outcome.unmet {
            Some(_) => Judgement::Refused,
            None if self.scenario.judges_status(step) => Judgement::Accepted,
            None => Judgement::ByStatus,
        };
        Judged { judgement, think: outcome.think }
    }

    fn failed(&mut self, call: u32, counted: bool) {
        let actor = &mut self.actors[call as usize];
        if counted {
            self.tallies[actor.step() as usize].failed();
        }
        self.scenario.failed(actor);
    }

    /// What the steps counted.
    pub fn tallies(&self) -> &[StepTally] {
        &self.tallies
    }

    /// Goes on with these walks; calls beyond them begin with the first step.
    pub fn resuming(mut self, actors: Vec<Actor>) -> Self {
        self.actors.iter_mut().zip(actors).for_each(|(call, actor)| *call = actor);
        self
    }

    /// Where every call stands in its walk.
    pub fn take_actors(&mut self) -> Vec<Actor> {
        std::mem::take(&mut self.actors)
    }

    /// What walks saved, if that was wanted.
    pub fn into_prepared(self) -> Option<PreparedRows> {
        self.prepared
    }
}
