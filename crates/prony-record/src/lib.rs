//! A run on disk: one SQLite file, written while the run goes on, readable after `kill -9` up to the last flush.
//!
//! The only crate that knows the format; the format is published in `docs/record.md`. It does not interpret what it stores.
//! Invariant: what was flushed stays readable, whatever happens to the process or to the space on disk afterwards.

mod block;
mod error;
mod reader;
mod schema;
mod writer;

pub use error::RecordError;
pub use reader::{Listed, Listing, events, list, outline, read};
pub use schema::EXTENSION;
pub use writer::Writer;

#[cfg(test)]
mod tests;
