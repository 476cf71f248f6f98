//! nginx: its configuration edited byte by byte, and its master process.
//!
//! Which directives mean what is the knobs' business, not ours.

pub mod edit;
pub mod master;
