//! The `prony` binary: flags in, exit code out. The work is done in the crates; this one wires them.

mod aa;
mod calibrate;
mod cli;
mod compare;
mod doctor;
mod experiment;
mod home;
mod inventory;
mod lab;
mod limit;
mod live;
mod load;
mod load_plan;
mod load_result;
mod measure;
mod network;
mod origin;
mod otlp;
mod output;
mod progress;
mod report;
mod serve;
mod source;
mod undo;
mod watch;

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
pub(crate) struct BadArgument(String);

impl std::fmt::Display for BadArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for BadArgument {}

impl BadArgument {
    /// The mistake as an error; `text` says what was seen and what would be right.
    pub fn error(text: impl Into<String>) -> anyhow::Error {
        Self(text.into()).into()
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            eprintln!("prony: {error:#}");
            ExitCode::from(if is_bad_input(&error) { BAD_INPUT } else { FAILED })
        }
    }
}

fn is_bad_input(error: &anyhow::Error) -> bool {
    let lab = error.downcast_ref::<prony_lab::LabError>();
    let web = error.downcast_ref::<prony_web::WebError>();
    error.is::<BadArgument>()
        || error.is::<prony_model::InputError>()
        || lab.is_some_and(|e| matches!(e, prony_lab::LabError::Stack { .. }))
        || web.is_some_and(prony_web::WebError::is_bad_input)
}

fn run(cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        Command::Prove(args) => measure::prove(&args),
        Command::Load(args) => load::run(&args),
        Command::Limit(args) => limit::run(&args),
        Command::Diagnose(args) => measure::diagnose(&args),
        Command::Tune(args) => measure::tune(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Network(args) => network::run(&args),
        Command::Inventory(args) => inventory::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Run(args) => experiment::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Undo(args) => undo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
    }
}
