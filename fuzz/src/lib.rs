//! What the fuzz targets do with an input. Kept apart from libFuzzer, so that `cargo test` runs the same code.
//!
//! The short run lies in `crates/prony-load/tests/fuzz_short.rs` and includes these files by path.
//! Invariant: every target is a function of its input alone, so that an input that failed once fails again.

pub mod course;
pub mod memory;
pub mod pointer;
pub mod talk;
pub mod targets;
