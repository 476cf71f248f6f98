//! `cargo xtask`: ci, tidy, codegen, bench, faults.
fn main() {}
