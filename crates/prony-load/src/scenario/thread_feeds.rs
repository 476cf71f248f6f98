//! What one thread of a scenario keeps for itself: counters, places in feeds, random numbers, the memory of patterns.
//!
//! Invariant: threads share nothing and wait for nobody, and still no number and no row of a unique feed is given out twice:
//! of `t` threads, thread `i` takes numbers and rows `i`, `i + t`, `i + 2t` and so on.

use super::Scenario;
use super::feed::Table;
use prony_model::script::FeedOrder;
use prony_stats::random::Random;
use regex::bytes::{CaptureLocations, Regex};

/// Which thread it is, of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPart {
    /// From 0.
    pub number: u32,
    /// At least 1.
    pub of: u32,
}

/// The changing part of a scenario that the actors of one thread share.
#[derive(Debug)]
pub struct ThreadFeeds {
    stride: u64,
    /// The next number of each step.
    counters: Vec<u64>,
    /// The next row of each feed, not yet folded to its length.
    rows: Vec<u64>,
    /// Walks that this thread may still begin.
    walks_left: u64,
    random: Random,
    /// Clones of the scenario's: one that several threads use would make them wait for its memory.
    pub(super) patterns: Vec<Pattern>,
    /// See [`super::step::Step::render`].
    pub(super) spare: Vec<(String, String)>,
}

impl ThreadFeeds {
    /// The part of one thread. `seed`: different for each thread.
    pub fn new(scenario: &Scenario, part: ThreadPart, seed: u64) -> Self {
        let (first, stride) = (u64::from(part.number), u64::from(part.of.max(1)));
        let share = |walks: u32| u64::from(walks).saturating_sub(first).div_ceil(stride);
        Self {
            stride,
            counters: vec![first; scenario.steps.len()],
            rows: vec![first; scenario.tables.len()],
            walks_left: scenario.goal.map_or(u64::MAX, |goal| share(goal.walks)),
            random: Random::new(seed),
            patterns: scenario.patterns.iter().map(Pattern::new).collect(),
            spare: Vec::new(),
        }
    }

    /// The next number of a step.
    #[inline]
    pub(super) fn count(&mut self, step: u32) -> u64 {
        take(&mut self.counters[step as usize], self.stride)
    }

    /// None: all walks of this thread have begun.
    #[inline]
    pub(super) fn take_walk(&mut self) -> Option<()> {
        self.walks_left = self.walks_left.checked_sub(1)?;
        Some(())
    }

    /// The next row of a feed; none: its rows are given out once, and this thread has no more.
    #[inline]
    pub(super) fn take_row(&mut self, table: u32, feed: &Table) -> Option<usize> {
        let count = feed.row_count() as u64;
        let next = &mut self.rows[table as usize];
        let row = match feed.order() {
            FeedOrder::Sequential => Some(take(next, self.stride) % count.max(1)),
            FeedOrder::Random => Some(self.random.below(count)),
            FeedOrder::Unique if *next < count => Some(take(next, self.stride)),
            FeedOrder::Unique => None,
        };
        row.filter(|row| *row < count).map(|row| row as usize)
    }
}

fn take(next: &mut u64, stride: u64) -> u64 {
    let taken = *next;
    *next = taken.wrapping_add(stride);
    taken
}

/// A pattern with the memory that looking for it needs.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    locations: CaptureLocations,
}

impl Pattern {
    /// A copy that shares no memory with the original that changes.
    pub fn new(regex: &Regex) -> Self {
        Self { regex: regex.clone(), locations: regex.capture_locations() }
    }

    /// The first group of the first match, or the whole match when the pattern has no groups.
    pub fn find<'a>(&mut self, body: &'a [u8]) -> Option<&'a [u8]> {
        self.regex.captures_read(&mut self.locations, body)?;
        let group = usize::from(self.locations.len() > 1);
        let (from, to) = self.locations.get(group)?;
        Some(&body[from..to])
    }

    /// Whether it matches anywhere.
    pub fn is_in(&self, body: &[u8]) -> bool {
        self.regex.is_match(body)
    }
}
