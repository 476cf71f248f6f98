//! The `prony` binary: flags in, exit code out. The work is done in the crates; this one wires them.

mod cli;
mod doctor;
mod home;
mod lab;
mod load;
mod measure;
mod progress;
mod report;
mod source;
mod undo;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

/// How a command ended, as its exit code tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Ran, but a gate did not hold: the objective, a threshold, a proof that the change made it worse.
    GateBroken = 3,
    /// Ran, but the result is not valid: limited by the generator, not steady, interrupted.
    NotValid = 4,
}

/// Failed.
const FAILED: u8 = 1;
/// Bad arguments, or a mistake in a file that a person wrote.
const BAD_INPUT: u8 = 2;

/// A mistake in the arguments that clap cannot see.
#[derive(Debug)]
pub(crate) struct BadArgument(pub String);

impl std::fmt::Display for BadArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for BadArgument {}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            eprintln!("prony: {error:#}");
            let bad_input = error.is::<BadArgument>() || error.is::<prony_model::InputError>();
            ExitCode::from(if bad_input { BAD_INPUT } else { FAILED })
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Prove(args) => measure::prove(&args),
        Command::Load(args) => load::run(&args),
        Command::Limit(args) => measure::limit(&args),
        Command::Diagnose(args) => measure::diagnose(&args),
        Command::Tune(args) => measure::tune(&args),
        Command::Report(args) => report::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Undo(args) => undo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    }
}
