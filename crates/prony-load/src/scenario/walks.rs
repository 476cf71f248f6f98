//! Where the places of a load stood in their walks when it ended, for the next load of the same scenario.
//!
//! A trial is short beside a walk: were each to begin with the first step, trials would ask mostly for that one, and a slow stack be known
//! by its logins. Invariant: an actor that does not fit the scenario is never taken up.

use super::{Actor, Scenario};
use prony_model::LoadPlan;
use prony_model::script::{FeedOrder, Script};

/// The walks that a load left, and of which scenario they are. Empty at first: then every place begins with the first step.
#[derive(Debug, Default)]
pub struct Walks {
    script: Option<Script>,
    actors: Vec<Actor>,
}

impl Walks {
    /// Those that a load with this plan may go on with: the ones of the same steps and feeds. Rows that are given out once would be given
    /// twice, and what a prepare phase made is made anew; so such scenarios begin from the start.
    pub(crate) fn take(&mut self, plan: &LoadPlan) -> Vec<Actor> {
        let once = |script: &Script| script.feeds.values().any(|feed| feed.order == FeedOrder::Unique);
        let script = plan.script.as_ref().filter(|script| script.prepare.is_none() && !once(script));
        let actors = std::mem::take(&mut self.actors);
        if script.is_some() && self.script.as_ref() == script {
            return actors;
        }
        self.script = script.cloned();
        Vec::new()
    }

    /// What a load left.
    pub(crate) fn leave(&mut self, actors: Vec<Actor>) {
        self.actors = if self.script.is_some() { actors } else { Vec::new() };
    }
}

impl Scenario {
    /// Whether an actor can go on here: its step, its rows and its variables exist.
    pub(crate) fn fits(&self, actor: &Actor) -> bool {
        let walk = self.walks.get(actor.walk as usize);
        let row_is_there = |table: &u32| {
            let (table, rows) = (*table as usize, &actor.rows);
            rows.get(table).zip(self.tables.get(table)).is_some_and(|(row, table)| *row < table.row_count())
        };
        actor.walking
            && actor.saved.len() == self.variables.len()
            && walk.is_some_and(|w| (w.first..=w.last).contains(&actor.step) && w.tables.iter().all(row_is_there))
    }
}
