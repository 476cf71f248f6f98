//! A run on disk. The only crate that knows the format.
