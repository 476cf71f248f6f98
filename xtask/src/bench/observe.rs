//! `cargo xtask bench observe`: what observing costs, as throughput lost and as CPU time per host: of the watch, which is
//! always on, and of the close look with each of its instruments, which is outside scored trials.
//!
//! It brings up the healthy lab and takes it down; the trials are run by the example `observe` of prony-session, built in
//! release. Invariant: the lab is taken down, whatever the trials did.

use super::{load_average, machine, median, write_section};
use anyhow::{Context as _, ensure};
use prony_lab::UpLab;
use prony_model::{Effect, Stack};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The lab that is loaded: healthy, and limited by a CPU, so that stolen time costs throughput.
const LAB: &str = "proxy";
/// The bar: share of the throughput that the watch may cost, 1 %.
const WATCH_COST_MAX: f64 = 0.01;
/// The bar of each instrument of the close look, 5 % of one CPU.
const LOOK_COST_MAX: f64 = 0.05;
/// Seconds of a trial with a close look: as in a session.
const LOOK_SECONDS: f64 = 3.0;
/// The host of the lab that is looked at alone, as if each had a machine of its own.
const ALONE: &str = "lb";

/// How much to measure.
#[derive(clap::Args, Clone, Debug)]
pub struct ObserveArgs {
    /// Pairs of trials, one observed and one not: so many for the watch, for the close look at one host, and at all
    #[arg(long, default_value_t = 30)]
    pub pairs: u32,
    /// Seconds of each trial for the watch; those for the close look last 3 s
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
#[derive(Debug, Default, Deserialize)]
struct Seen {
    throughput: Effect,
    p99: Effect,
    errors: u64,
    samples_per_s: f64,
    samples: u64,
    cpu_shares: BTreeMap<String, Vec<f64>>,
    /// Of the close looks: shares of one CPU by host and instrument.
    look_shares: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// CPU seconds of the looking thread before and after each look, by host.
    around_s: BTreeMap<String, Vec<f64>>,
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
    let watch = trials(&program, "watch", &file, args, args.seconds, &[])?;
    let one = trials(&program, "look", &file, args, LOOK_SECONDS, &[ALONE])?;
    let all = trials(&program, "look", &file, args, LOOK_SECONDS, &[])?;
    let text = page(args, [&watch, &one, &all], &busy_before);
    println!("{text}");
    if !args.no_write {
        write_section(root, "observe", &text)?;
    }
    Ok(())
}

/// The trials of one kind.
fn trials(
    program: &Path,
    what: &str,
    file: &Path,
    args: &ObserveArgs,
    seconds: f64,
    host: &[&str],
) -> anyhow::Result<Seen> {
    let mut command = Command::new(program);
    command.arg(what).arg(file).args([args.pairs.to_string(), seconds.to_string(), args.seed.to_string()]).args(host);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "the trials failed: {}", output.status);
    serde_json::from_slice(&output.stdout).context("what the trials printed")
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

fn page(args: &ObserveArgs, [watch, one, all]: [&Seen; 3], busy_before: &str) -> String {
    let mut text = String::from("## What observing costs\n\n");
    text += &format!(
        "`cargo xtask bench observe --pairs {} --seconds {} --seed {}` on {}, load average {busy_before} before and {} after. \
         The lab `{LAB}` under its closed loop, observed and not observed, in pairs of random order. {} requests failed.\n\n",
        args.pairs,
        args.seconds,
        args.seed,
        machine(),
        load_average(),
        watch.errors + one.errors + all.errors,
    );
    text += &format!(
        "### The watch, which is always on\n\n{} samples per second and host, {} in all, collected and recorded. The bar is {} of the throughput.\n\n",
        watch.samples_per_s,
        watch.samples,
        per_cent(WATCH_COST_MAX)
    );
    text += &effects(watch);
    text += &format!("{}\n\n", judgement(&watch.throughput));
    text += &watch_shares(watch);
    text += &format!(
        "\n### The close look, which is outside scored trials\n\nTrials of {LOOK_SECONDS} s, with a close look meanwhile. The bar is \
         {} of one CPU for each instrument. At `{ALONE}` alone, as where each host is a machine of its own:\n\n",
        per_cent(LOOK_COST_MAX)
    );
    text += &effects(one);
    text += &look_shares(one);
    text += "\nAt every host but the generator, as a session does, all of them on this machine:\n\n";
    text += &effects(all);
    text += &look_shares(all);
    text + "\nAn instrument is the run time of its eBPF programs as the kernel tells it, less what this timing itself takes (a program \
            that does nothing is timed as well), and without the interrupt or event that starts them; `thread` reads logs and stacks. `softirqs` and `interrupts` work for a tenth of the look, and \
            `split` until it has seen enough requests.\n"
}

fn per_cent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Throughput and p99 without and with.
fn effects(seen: &Seen) -> String {
    let signed = |share: f64| format!("{:+.2} %", share * 100.0);
    let mut text = String::from("| | without | with | effect | 95 % interval | smallest detectable effect |\n");
    text += "|---|--:|--:|--:|--:|--:|\n";
    for (name, unit, effect) in [("throughput", "/s", &seen.throughput), ("p99", " us", &seen.p99)] {
        text += &format!(
            "| {name} | {:.0}{unit} | {:.0}{unit} | {} | {} to {} | {:.2} % |\n",
            effect.a,
            effect.b,
            signed(effect.effect),
            signed(effect.low),
            signed(effect.high),
            effect.detectable * 100.0
        );
    }
    text + "\n"
}

/// CPU time of the watch, by host.
fn watch_shares(seen: &Seen) -> String {
    let mut text = String::from("| host | share of one CPU that reading it takes, median of trials |\n|---|--:|\n");
    let mut all = 0.0;
    for (host, shares) in &seen.cpu_shares {
        let share = median(shares);
        all += share.unwrap_or_default();
        text += &format!("| {host} | {} |\n", cell(share));
    }
    text + &format!("| together | {:.2} % |\n\n{}\n", all * 100.0, of_all_cpus(all))
}

/// CPU time of the close looks, by instrument and host.
fn look_shares(seen: &Seen) -> String {
    let hosts: Vec<&String> = seen.look_shares.keys().collect();
    let instruments: BTreeSet<&String> = seen.look_shares.values().flat_map(BTreeMap::keys).collect();
    let mut text = String::from("| share of one CPU while it is at work, median of looks |");
    hosts.iter().for_each(|host| text += &format!(" {host} |"));
    text += &format!(" bar |\n|---|{}---|\n", "--:|".repeat(hosts.len()));
    let mut all = 0.0;
    for instrument in instruments {
        let of = |host: &&String| seen.look_shares[*host].get(instrument).and_then(|shares| median(shares));
        let shares: Vec<Option<f64>> = hosts.iter().map(of).collect();
        all += shares.iter().flatten().sum::<f64>();
        let cells: Vec<String> = shares.iter().map(|share| cell(*share)).collect();
        let holds = shares.iter().flatten().all(|share| *share <= LOOK_COST_MAX);
        text +=
            &format!("| {instrument} | {} | {} |\n", cells.join(" | "), if holds { "holds" } else { "does not hold" });
    }
    let around_ms = seen.around_s.values().filter_map(|seconds| median(seconds)).sum::<f64>() * 1e3;
    text + &format!(
        "\nAll at once are {:.2} % of one CPU. {} Loading the programs before, and naming functions after it, take {around_ms:.0} ms \
         more.\n",
        all * 100.0,
        of_all_cpus(all)
    )
}

fn cell(share: Option<f64>) -> String {
    share.map_or("not read".to_string(), |share| format!("{:.2} %", share * 100.0))
}

fn of_all_cpus(share: f64) -> String {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let part = share * 100.0 / cpus as f64;
    format!("That is {part:.2} % of the {cpus} CPUs: the cost to a stack that CPU time alone limits.")
}

/// Whether the bar holds, by the interval and not by its middle.
fn judgement(throughput: &Effect) -> &'static str {
    if throughput.low >= -WATCH_COST_MAX {
        "The bar holds: the whole interval lies above it."
    } else if throughput.high < -WATCH_COST_MAX {
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

    #[test]
    fn an_instrument_is_judged_at_every_host() {
        let of = |share: f64| {
            BTreeMap::from([("locks".to_string(), vec![0.01]), ("split".to_string(), vec![0.0, share, 1.0])])
        };
        let shares = BTreeMap::from([("lb".to_string(), of(0.06)), ("s1".to_string(), of(0.02))]);
        let text = look_shares(&Seen { look_shares: shares, ..Seen::default() });
        assert!(text.contains("| locks | 1.00 % | 1.00 % | holds |"), "{text}");
        assert!(text.contains("| split | 6.00 % | 2.00 % | does not hold |"), "{text}");
        assert!(text.contains("All at once are 10.00 % of one CPU."), "{text}");
    }
}
