//! `cargo xtask`: what a developer or a CI machine runs on this repository, without any tool besides cargo.
//!
//! It never becomes part of the product. Every subcommand works from any directory inside the repository.

#![allow(clippy::print_stdout, reason = "a command line tool prints its results")]

mod bench;
mod ci;
mod codegen;
mod declarations;
mod faults;
mod tidy;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Checks, generates and measures this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must hold before a change is merged: every step runs, failures are listed at the end.
    Ci(ci::CiArgs),
    /// The style of this code base as a test: layers, lengths, headers, dead files, banned calls.
    Tidy,
    /// Writes the pages, schemas and types that follow from the code.
    Codegen {
        /// Write nothing; fail when a committed file is not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Measures what has a bar, and writes docs/benchmarks.md.
    Bench {
        #[command(subcommand)]
        what: Bench,
    },
    /// Scores the diagnosis on cases whose cause is known.
    Faults(faults::FaultsArgs),
}

#[derive(Subcommand)]
enum Bench {
    /// CPU time per request of the load generator, against others and against the floor.
    Load(bench::load::LoadArgs),
    /// Do load generators tell the latency that users would have seen? Against a server whose delays are known.
    Truth(bench::truth::TruthArgs),
    /// What observing costs: the same load with and without the watch.
    Observe(bench::observe::ObserveArgs),
    /// kill -9 at random moments of a tuning: is everything put back?
    Undo(bench::undo::UndoArgs),
    /// Is each lab that comes with prony diagnosed as what it is?
    Labs(bench::labs::LabsArgs),
    /// The limit of a real lab searched again and again, and changes of known size planted in it.
    Limit(bench::limit::LimitBenchArgs),
    /// Do the statistics keep their promises? On simulated stacks whose limits are known.
    Stats(bench::stats::StatsArgs),
    /// Where the thresholds of the causes lie, between stacks with the fault and without it.
    Causes(bench::causes::CausesArgs),
    /// The fuzz targets under libFuzzer.
    Fuzz(bench::fuzz::FuzzArgs),
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let root = root()?;
    match command {
        Command::Ci(args) => ci::run(&root, &args),
        Command::Tidy => tidy::run(&root),
        Command::Codegen { check: true } => codegen::check(&root),
        Command::Codegen { check: false } => codegen::write(&root),
        Command::Bench { what: Bench::Load(args) } => bench::load::run(&root, &args),
        Command::Bench { what: Bench::Truth(args) } => bench::truth::run(&root, &args),
        Command::Bench { what: Bench::Observe(args) } => bench::observe::run(&root, &args),
        Command::Bench { what: Bench::Undo(args) } => bench::undo::run(&root, &args),
        Command::Bench { what: Bench::Labs(args) } => bench::labs::run(&root, &args),
        Command::Bench { what: Bench::Limit(args) } => bench::limit::run(&root, &args),
        Command::Bench { what: Bench::Stats(args) } => bench::stats::run(&root, &args),
        Command::Bench { what: Bench::Causes(args) } => bench::causes::run(&root, &args),
        Command::Bench { what: Bench::Fuzz(args) } => bench::fuzz::run(&root, &args),
        Command::Faults(args) => faults::run(&root, &args),
    }
}

/// The root of the repository: cargo tells where this package is, at run time, so that a moved checkout still works.
fn root() -> anyhow::Result<PathBuf> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&package).parent().context("xtask is not inside a repository")?;
    Ok(root.to_path_buf())
}
