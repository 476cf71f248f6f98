//! The `prony` binary: flags, wiring, exit codes.
fn main() {}
