//! Knobs: read, plan, apply, check the effect, undo; the journal.
//!
//! This crate decides nothing and enters no namespace: its caller stands on a thread that is already inside the host's
//! network namespace, and says where its trees are mounted ([`Roots`]).
//! Invariant: the undo of a change is on disk before the change is made, and undo writes only over what we wrote.

mod diff;
mod entry;
mod error;
mod journal;
pub mod knob;
mod nginx;
mod owners;
mod process;
pub mod slow;
mod step;
mod sys;

pub use entry::Undone;
pub use error::TuneError;
pub use journal::{EntryId, Journal, PendingEntry, pending};
pub use knob::{Disruption, Effect, KnobInfo, knobs};

use entry::Entry;
use prony_model::knob::ChangeState;
use prony_model::{Change, Host, Knob, KnobId, Place};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// The host that a knob belongs to, as seen from a thread inside its network namespace.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Name in the stack.
    pub name: &'a str,
    /// What the stack file says of it.
    pub host: &'a Host,
    /// Where its trees are.
    pub roots: Roots,
    /// The processes of its server, the main process first.
    pub pids: Vec<u32>,
    /// Where it is; undo after a crash finds its way back by this.
    pub place: Place,
}

impl<'a> Context<'a> {
    /// A host that is this machine.
    pub fn local(name: &'a str, host: &'a Host, pids: Vec<u32>) -> Self {
        Self { name, host, roots: Roots::default(), pids, place: Place::Local }
    }
}

/// Where the kernel's trees are mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roots {
    /// `/proc`. `/proc/sys/net` shows the network namespace of the thread that opens a file, so no mount is needed for
    /// it.
    pub proc: PathBuf,
    /// A sysfs of the host's network namespace: sysfs shows the namespace it was *mounted* in, whoever reads it.
    pub sys: PathBuf,
    /// `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), cgroup: "/sys/fs/cgroup".into() }
    }
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Names it in its journal.
    pub id: EntryId,
    /// What was changed.
    pub change: Change,
    /// What was unusual, like old workers that had to be ended.
    pub notes: Vec<String>,
}

/// The present value of a knob, as text. Where `apply` takes a value, reading it afterwards gives that value.
pub fn read(ctx: &Context<'_>, id: &KnobId) -> Result<String, TuneError> {
    let (info, item) = knob::find(id);
    (info.read)(ctx, item)
}

/// Whether a knob could be turned, found out without turning it: the present value, which is `knob.value` itself when there
/// is nothing to turn.
pub fn rehearse(ctx: &Context<'_>, knob: &Knob) -> Result<String, TuneError> {
    owners::check(&ctx.roots.proc, &knob.id)?;
    let (info, item) = knob::find(&knob.id);
    match (info.plan)(ctx, item, &knob.value) {
        Ok(plan) => Ok(plan.before),
        Err(TuneError::Unchanged { .. }) => Ok(knob.value.clone()),
        Err(e) => Err(e),
    }
}

/// Turns a knob: journal first, then the change, then a look whether it took effect. When it did not, it is undone at
/// once. `knob.host` is not looked at: the context says where.
pub fn apply(ctx: &Context<'_>, knob: &Knob, journal: &Journal) -> Result<Applied, TuneError> {
    owners::check(&ctx.roots.proc, &knob.id)?;
    let (info, item) = knob::find(&knob.id);
    let plan = (info.plan)(ctx, item, &knob.value)?;
    carry_out(ctx, knob, plan, journal, || (info.check)(ctx, item, &knob.value))
}

/// Puts a change of this journal back. Call it on a thread inside the same network namespace as `apply`.
/// A value that someone else changed meanwhile is left alone, and the state says `Conflict`. After an error the entry
/// stays in the journal, and undo may be tried again.
pub fn undo(journal: &Journal, id: EntryId) -> Result<Undone, TuneError> {
    let entry = journal.entry(id)?;
    let undone = entry.take_back(&entry.roots, true)?;
    journal.settle(id, &undone)?;
    Ok(undone)
}

/// Leaves a change in place for good: the journal forgets how to undo it.
pub fn keep(journal: &Journal, id: EntryId) -> Result<(), TuneError> {
    journal.settle(id, &Undone { state: ChangeState::Kept, notes: Vec::new() })
}

/// The protocol that every change goes through, knobs and interventions alike.
fn carry_out(
    ctx: &Context<'_>,
    knob: &Knob,
    plan: knob::Plan,
    journal: &Journal,
    check: impl FnOnce() -> Result<(), TuneError>,
) -> Result<Applied, TuneError> {
    let diff: String = plan.steps.iter().map(step::Step::diff).collect();
    let entry = Entry {
        id: EntryId(0),
        knob: knob.clone(),
        place: ctx.place.clone(),
        boot: process::boot_id(&ctx.roots.proc),
        namespace: sys::netns_cookie(),
        roots: ctx.roots.clone(),
        // A clock before 1970 is the only error; the time is for people.
        at_unix_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64),
        steps: plan.steps,
        reload: plan.reload,
    };
    let entry = journal.begin(entry)?;
    let made = entry.make().and_then(|notes| {
        check()?;
        journal.applied(entry.id)?;
        Ok(notes)
    });
    let notes = match made {
        Ok(notes) => notes,
        Err(first) => return Err(retreat(&entry, journal, first)),
    };
    let change = Change {
        knob: knob.clone(),
        before: plan.before,
        permanent: plan.permanent,
        diff,
        state: ChangeState::Applied,
    };
    Ok(Applied { id: entry.id, change, notes })
}

/// Takes back what was made before an error. nginx need not read its old configuration again when it refused the new
/// one.
fn retreat(entry: &Entry, journal: &Journal, first: TuneError) -> TuneError {
    let reload = !matches!(first, TuneError::Rejected { .. });
    let undone = entry.take_back(&entry.roots, reload).and_then(|undone| journal.settle(entry.id, &undone));
    match undone {
        Ok(()) => first,
        Err(second) => TuneError::Stuck { first: Box::new(first), second: second.to_string() },
    }
}
