//! What a prepare phase brings: a row for each walk that came to its end, and in the end a feed.
//!
//! It sends nothing. Invariant: a feed is made only when no more walks failed than the person allowed.

use super::Actor;
use crate::error::LoadError;
use prony_model::Share;
use prony_model::script::{Feed, FeedOrder};

/// When a prepare phase is done, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// How many walks.
    pub walks: u32,
    /// Largest share of them that may fail.
    pub failures_max: Share,
    /// How the rows are given out later.
    pub order: FeedOrder,
}

/// The rows of one thread, or of all together.
#[derive(Clone, Debug)]
pub struct PreparedRows {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    goal: Option<Goal>,
}

impl PreparedRows {
    pub(super) fn new(columns: Vec<String>, goal: Option<Goal>) -> Self {
        Self { columns, rows: Vec::new(), goal }
    }

    /// Adds what an actor has saved, to be called when [`super::Outcome::walk_done`]. Of a scenario that prepares nothing, it
    /// does nothing.
    pub fn push(&mut self, actor: &Actor) {
        if self.goal.is_some() {
            self.rows.push(actor.saved.clone());
        }
    }

    /// Adds the rows of another thread.
    pub fn merge(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    /// How many walks came to their end.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none did.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The feed `prepared`.
    ///
    /// # Errors
    /// [`LoadError::Plan`] when more walks failed than may.
    pub fn into_feed(self) -> Result<Feed, LoadError> {
        let order = self.goal.map_or_else(FeedOrder::default, |goal| goal.order);
        if let Some(goal) = self.goal {
            let done = self.rows.len();
            let failed = f64::from(goal.walks) - done as f64;
            if done == 0 || failed > f64::from(goal.walks) * goal.failures_max.0 {
                let why = format!(
                    "{done} of {} walks came to their end, and at most {} may fail (`failures_max`): look at the errors of \
                     this phase and at the server's log, or allow more",
                    goal.walks, goal.failures_max
                );
                return Err(LoadError::Plan { item: "workload.prepare".to_string(), why });
            }
        }
        Ok(Feed { columns: self.columns, rows: self.rows, order })
    }
}
