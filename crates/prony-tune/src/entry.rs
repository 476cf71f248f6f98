//! One journalled change: its steps, how they are made and how they are taken back.
//!
//! Invariant: `take_back` may be called at any time, any number of times, after a crash at any point of `make` or of
//! itself.

use crate::error::TuneError;
use crate::journal::EntryId;
use crate::nginx::master::Master;
use crate::step::{Look, Step};
use crate::{Roots, process, sys};
use prony_model::knob::ChangeState;
use prony_model::{Knob, Place};
use serde::{Deserialize, Serialize};

/// A change as the journal holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number within its journal, from 1.
    pub id: EntryId,
    /// Which knob was turned to what.
    pub knob: Knob,
    /// Where.
    pub place: Place,
    /// Which boot of the machine.
    pub boot: String,
    /// Which network namespace, see [`sys::netns_cookie`].
    pub namespace: Option<u64>,
    /// Where the trees were mounted.
    pub roots: Roots,
    /// When, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// What is done, in this order; undone in reverse.
    pub steps: Vec<Step>,
    /// The nginx that must read its configuration after the steps, and again after they are undone.
    pub reload: Option<Master>,
}

/// How an undo ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// `Undone`, or `Conflict` when something was left alone because someone else changed it.
    pub state: ChangeState,
    /// What was left alone or found gone, and what was unusual.
    pub notes: Vec<String>,
}

impl Entry {
    /// Makes the steps, each with a look before and after. Notes say what was unusual.
    pub fn make(&self) -> Result<Vec<String>, TuneError> {
        for step in &self.steps {
            let wrong = |look: &Look| TuneError::NoEffect {
                knob: self.knob.id.to_string(),
                wanted: self.knob.value.clone(),
                seen: match look {
                    Look::Foreign(what) | Look::Partly(what) | Look::Gone(what) => what.clone(),
                    Look::Old => "the value before".to_string(),
                    Look::New => "that value, before it was written".to_string(),
                },
            };
            let before = step.look(&self.roots)?;
            if before != Look::Old {
                return Err(wrong(&before));
            }
            step.apply(&self.roots)?;
            let after = step.look(&self.roots)?;
            if after != Look::New {
                return Err(wrong(&after));
            }
        }
        self.reload.as_ref().map_or(Ok(Vec::new()), |master| master.reload(&self.roots))
    }

    /// Puts everything back by compare-and-swap, last step first.
    pub fn take_back(&self, roots: &Roots, reload: bool) -> Result<Undone, TuneError> {
        let mut undone = Undone { state: ChangeState::Undone, notes: Vec::new() };
        let looks = self.steps.iter().map(|step| self.look(step, roots)).collect::<Result<Vec<_>, _>>()?;
        // Half a configuration is worse than the wrong one: its files go back together or not at all.
        let is_config = |step: &Step| matches!(step, Step::ConfigFile(_));
        let config_is_foreign =
            self.steps.iter().zip(&looks).any(|(step, look)| is_config(step) && matches!(look, Look::Foreign(_)));
        for (step, look) in self.steps.iter().zip(looks).rev() {
            step.sweep();
            let ours = match look {
                Look::Old => false,
                Look::New => !(config_is_foreign && is_config(step)),
                Look::Partly(what) => {
                    undone.leave(what);
                    true
                }
                Look::Foreign(what) => {
                    undone.leave(what);
                    false
                }
                Look::Gone(what) => {
                    undone.notes.push(what);
                    false
                }
            };
            if ours {
                step.restore(roots)?;
                self.expect_restored(step, roots)?;
            }
        }
        if let Some(master) = self.reload.as_ref().filter(|_| reload && !config_is_foreign) {
            match master.successor(roots) {
                Some(running) => undone.notes.extend(running.reload(roots)?),
                None => {
                    undone.notes.push("nginx does not run: it will start with the restored configuration".to_string())
                }
            }
        }
        Ok(undone)
    }

    /// Looks at a step, unless what it changed went away with a boot or a namespace.
    fn look(&self, step: &Step, roots: &Roots) -> Result<Look, TuneError> {
        if step.is_volatile() && self.boot != process::boot_id(&roots.proc) {
            return Ok(Look::Gone("the machine was restarted since, which undid it".to_string()));
        }
        let elsewhere = self.namespace.zip(sys::netns_cookie()).is_some_and(|(then, now)| then != now);
        if step.is_in_namespace() && elsewhere {
            return Ok(match &self.place {
                Place::Netns(name) => Look::Gone(format!("network namespace {name} was removed since, which undid it")),
                Place::Local | Place::Agent(_) => {
                    Look::Foreign("it was made in another network namespace: run `prony undo` there".to_string())
                }
            });
        }
        step.look(roots)
    }

    fn expect_restored(&self, step: &Step, roots: &Roots) -> Result<(), TuneError> {
        match step.look(roots)? {
            Look::Old | Look::Gone(_) | Look::Partly(_) => Ok(()),
            Look::New | Look::Foreign(_) => Err(TuneError::NoEffect {
                knob: format!("undo of {}", self.knob.id),
                wanted: "the value before".to_string(),
                seen: step.diff().trim().to_string(),
            }),
        }
    }
}

impl Undone {
    fn leave(&mut self, what: String) {
        self.state = ChangeState::Conflict;
        self.notes.push(format!("left alone: {what}"));
    }
}
