//! Configurations of nginx: which directives stand where, included files followed.
//!
//! It reads and never writes, and it knows the meaning of no directive but `include`. Invariant: no byte of a file is lost, so what
//! is found can be replaced in its place and everything else stays as it was.

mod sys;
mod token;
mod tree;

pub use tree::{Block, Config, ConfigError, Directive, Source, line_of};
