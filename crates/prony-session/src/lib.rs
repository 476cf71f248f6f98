//! The loop load, observe, diagnose, intervene, tune, prove as a state machine, and the driver that carries it out.
//!
//! [`Session`] has no IO and no clock: commands out, outcomes in; so every order of events can be tested. [`drive`] does
//! what the session says through agents, and records it. Invariant: whatever was changed is restored before the end, also
//! after an error and after Ctrl-C, unless the user asked to keep it.

mod budget;
mod cells;
mod cost;
mod disturbed;
mod dose;
mod driver;
mod effort;
mod hot;
mod interventions;
mod levels;
mod limit;
mod machine;
mod proofs;
mod quiet;
mod server_count;
#[cfg(test)]
mod testing;

pub use cells::{CellTask, seen_of_search};
pub use driver::{DriveError, connect, drive, inventories, rehearse};
pub use effort::Effort;
pub use limit::LimitGoal;
pub use machine::{BUDGET, Command, Goal, Outcome, Remedy, Session, TrialOrder};
pub use proofs::Precision;
