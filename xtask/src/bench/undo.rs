//! `cargo xtask bench undo`: kill -9 at random moments of a tuning, and what was found and put back afterwards.
//!
//! The kills are those of the test `kill` of prony-tune, only more of them; the test itself compares every value and file,
//! byte for byte, after each. Invariant: nothing is written when the test did not pass or did not run.

use super::{machine, write_section};
use anyhow::{Context as _, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// How much to measure.
#[derive(clap::Args, Clone, Debug)]
pub struct UndoArgs {
    /// Kills
    #[arg(long, default_value_t = 200)]
    pub kills: u32,
    /// Print the section only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// Runs the test, prints the section, and writes it.
pub fn run(root: &Path, args: &UndoArgs) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["test", "--quiet", "-p", "prony-tune", "--test", "kill", "--", "--nocapture"]);
    cargo.env("PRONY_KILLS", args.kills.to_string()).stdout(Stdio::null());
    let begun = Instant::now();
    let output = cargo.output().context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a value was not put back, or the test does not build:\n{said}");
    let (kills, changes) =
        counts(&said).with_context(|| format!("the test told no counts (is this root?):\n{said}"))?;
    let text = format!(
        "## Undo after kill -9\n\n\
         `cargo xtask bench undo --kills {}` on {}: {:.0} s. A tuning that turns nine knobs in turn (nginx files, sysctls, CPU quota, \
         CPU lists, link rate) is killed at a random moment, then `undo` is called, then every value and file is compared with what \
         it was before the first kill.\n\n\
         | kills | changes found in force or half made | undone | kills after which every value and file was the same, byte for byte |\n\
         |--:|--:|--:|--:|\n| {kills} | {changes} | {changes} | {kills} of {kills} |\n",
        args.kills,
        machine(),
        begun.elapsed().as_secs_f64(),
    );
    println!("{text}");
    if !args.no_write {
        write_section(root, "undo", &text)?;
    }
    Ok(())
}

/// `200 kills, 187 changes found and undone`
fn counts(said: &str) -> Option<(u32, u32)> {
    said.lines().find_map(|line| {
        let (kills, rest) = line.split_once(" kills, ")?;
        Some((kills.trim().parse().ok()?, rest.strip_suffix(" changes found and undone")?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_test_says() {
        let said = "victim: something\n200 kills, 187 changes found and undone\n";
        assert_eq!(counts(said), Some((200, 187)));
        assert_eq!(counts("skipped: needs root for namespaces and control groups\n"), None);
    }
}
