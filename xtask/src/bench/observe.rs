//! `cargo xtask bench observe`: what observing costs, as throughput lost and as CPU time per host.
//!
//! It brings up the healthy lab and takes it down; the trials are run by the example `observe` of prony-session, built in
//! release. Invariant: the lab is taken down, whatever the trials did.

use super::{load_average, machine, median, write_section};
use anyhow::{Context as _, ensure};
use prony_lab::UpLab;
use prony_model::{Effect, Stack};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The lab that is loaded: healthy, and limited by a CPU, so that stolen time costs throughput.
const LAB: &str = "proxy";
/// The bar: share of the throughput that observing may cost, 1 %.
const COST_MAX: f64 = 0.01;

/// How much to measure.
#[derive(clap::Args, Clone, Debug)]
pub struct ObserveArgs {
    /// Pairs of trials, one with and one without the watch
    #[arg(long, default_value_t = 30)]
    pub pairs: u32,
    /// Seconds of each trial
    #[arg(long, default_value_t = 1.5)]
    pub seconds: f64,
    /// Seed of the order within pairs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the section only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// What the example prints.
#[derive(Debug, Deserialize)]
struct Seen {
    throughput: Effect,
    p99: Effect,
    errors: u64,
    samples_per_s: f64,
    samples: u64,
    cpu_shares: BTreeMap<String, Vec<f64>>,
}

/// Measures, prints the section, and writes it.
pub fn run(root: &Path, args: &ObserveArgs) -> anyhow::Result<()> {
    let program = build(root)?;
    let layers = prony_lab::builtin(LAB).with_context(|| format!("there is no lab {LAB}"))?;
    let lab = Lab(prony_lab::up(&Stack::parse_layers(&layers)?, &|line| eprintln!("{line}"))?);
    let mut running = lab.0.stack.clone();
    running.lab = None;
    let file = prony_lab::folder(&lab.0.id).join("stack.toml");
    std::fs::write(&file, toml::to_string(&running)?).with_context(|| format!("cannot write {}", file.display()))?;
    let busy_before = load_average();
    let numbers = [args.pairs.to_string(), args.seconds.to_string(), args.seed.to_string()];
    let output = Command::new(&program).arg(&file).args(&numbers).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "the trials failed: {}", output.status);
    let seen: Seen = serde_json::from_slice(&output.stdout).context("what the trials printed")?;
    let text = page(args, &seen, &busy_before);
    println!("{text}");
    if !args.no_write {
        write_section(root, "observe", &text)?;
    }
    Ok(())
}

fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["build", "--release", "--quiet", "-p", "prony-session", "--example", "observe"]);
    ensure!(cargo.status().context("cannot start cargo")?.success(), "the trials do not build");
    Ok(super::target(root).join("release/examples/observe"))
}

/// A lab that goes down with this value.
struct Lab(UpLab);

impl Drop for Lab {
    fn drop(&mut self) {
        if let Err(error) = prony_lab::down(&self.0.id) {
            eprintln!("lab {} is not fully down ({error}); run `prony lab down`", self.0.id);
        }
    }
}

fn page(args: &ObserveArgs, seen: &Seen, busy_before: &str) -> String {
    let per_cent = |share: f64| format!("{:+.2} %", share * 100.0);
    let mut text = String::from("## What observing costs\n\n");
    text += &format!(
        "`cargo xtask bench observe --pairs {} --seconds {} --seed {}` on {}, load average {busy_before} before and {} after. \
         The lab `{LAB}` under its closed loop, with and without the watch of a session ({} samples per second and host, {} in all, \
         collected and recorded), in pairs of random order. {} requests failed. The bar is {:.0} % of the throughput.\n\n",
        args.pairs,
        args.seconds,
        args.seed,
        machine(),
        load_average(),
        seen.samples_per_s,
        seen.samples,
        seen.errors,
        COST_MAX * 100.0
    );
    text += "| | without | with | effect | 95 % interval | smallest detectable effect |\n|---|--:|--:|--:|--:|--:|\n";
    for (name, unit, effect) in [("throughput", "/s", &seen.throughput), ("p99", " us", &seen.p99)] {
        text += &format!(
            "| {name} | {:.0}{unit} | {:.0}{unit} | {} | {} to {} | {:.2} % |\n",
            effect.a,
            effect.b,
            per_cent(effect.effect),
            per_cent(effect.low),
            per_cent(effect.high),
            effect.detectable * 100.0
        );
    }
    text += &format!("\n{}\n\n", judgement(&seen.throughput));
    text += "| host | share of one CPU that reading it takes, median of trials |\n|---|--:|\n";
    let mut all = 0.0;
    for (host, shares) in &seen.cpu_shares {
        let share = median(shares);
        all += share.unwrap_or_default();
        text += &format!("| {host} | {} |\n", share.map_or("not read".to_string(), |s| format!("{:.2} %", s * 100.0)));
    }
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    text + &format!(
        "| together | {:.2} % |\n\nThat is {:.2} % of the {cpus} CPUs: the cost to a stack that CPU time alone limits.\n",
        all * 100.0,
        all * 100.0 / cpus as f64
    )
}

/// Whether the bar holds, by the interval and not by its middle.
fn judgement(throughput: &Effect) -> &'static str {
    if throughput.low >= -COST_MAX {
        "The bar holds: the whole interval lies above it."
    } else if throughput.high < -COST_MAX {
        "The bar does not hold: the whole interval lies below it."
    } else {
        "The interval holds the bar, so these trials cannot tell whether it holds: more pairs, or a quieter machine, can."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides() {
        let judged = |low, high| judgement(&Effect { low, high, ..Effect::default() });
        assert!(judged(-0.009, 0.004).starts_with("The bar holds"));
        assert!(judged(-0.03, -0.011).starts_with("The bar does not hold"));
        assert!(judged(-0.03, 0.01).starts_with("The interval holds the bar"));
    }
}
