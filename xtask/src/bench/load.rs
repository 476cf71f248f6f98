//! `cargo xtask bench load`: CPU time per request of prony and of other generators, in the same rounds.
//!
//! Each generator is a process of its own, so its CPU time is exact (wait4), start and end included. What is compared is CPU
//! time per request, because on a shared machine requests per second vary by ten. Invariant: a ratio is formed within one
//! round, never across rounds.

mod memory;
mod servers;
mod tools;
mod works;

use super::{load_average, machine, median, sys, write_section};
use anyhow::{Context as _, bail, ensure};
use servers::{Nginx, NullServer, SERVER_CPU};
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use works::{Bench, Generator, OPEN_SHARE, Open, Work};

/// CPU of the generators.
const GENERATOR_CPU: &str = "1";

/// How much to measure.
#[derive(clap::Args, Clone, Debug)]
pub struct LoadArgs {
    /// Rounds; each runs every generator once
    #[arg(long, default_value_t = 9)]
    pub rounds: u32,
    /// Seconds of each generator in each round
    #[arg(long, default_value_t = 2)]
    pub seconds: u32,
    /// Connections
    #[arg(long, default_value_t = 128)]
    pub connections: u32,
    /// Only works whose name holds this text; the page is left alone then
    #[arg(long)]
    pub only: Option<String>,
    /// Print the table only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
    /// Run server and generators with real-time priority, so that strangers on a busy machine do not interrupt them
    #[arg(long)]
    pub realtime: bool,
}

/// Measures, prints the table, and writes it.
pub fn run(root: &Path, args: &LoadArgs) -> anyhow::Result<()> {
    ensure!(
        args.rounds > 0 && args.seconds > 0 && args.connections > 0,
        "rounds, seconds and connections must be 1 or more"
    );
    let programs = Programs::prepare(root)?;
    let keeping = NullServer::start(&programs.null_server, args.realtime, false)?;
    let closing = NullServer::start(&programs.null_server, args.realtime, true)?;
    let nginx = Nginx::start()?;
    let bench = Bench {
        floor: &programs.floor,
        engine: &programs.engine,
        keeping: &keeping,
        closing: &closing,
        nginx: &nginx,
        pipeline_script: &root.join("xtask/fixtures/pipeline.lua"),
        connections: args.connections,
        seconds: args.seconds,
    };
    let busy_before = load_average();
    let wanted = |work: &Work| args.only.as_ref().is_none_or(|text| work.name.contains(text.as_str()));
    let mut blocks: Vec<Block> = bench.works().into_iter().filter(wanted).map(Block::new).collect();
    ensure!(!blocks.is_empty(), "no work has that name");
    for round in 0..args.rounds {
        // Open loops are given a part of what the closed loop of this round reached.
        let mut closed_per_s = None;
        for block in &mut blocks {
            block.measure(round, closed_per_s, args)?;
            closed_per_s = closed_per_s.or(block.rows[0].per_s.last().copied());
        }
    }
    let mut text = page(args, &blocks, &busy_before);
    if args.only.is_none() {
        text += &memory::measure(&programs.engine, keeping.port)?;
    }
    println!("{text}");
    if !args.no_write && args.only.is_none() {
        write_section(root, "load", &text)?;
    }
    Ok(())
}

/// A work and what each round gave.
struct Block {
    work: Work,
    rows: Vec<Row>,
}

/// One generator of a work.
#[derive(Default)]
struct Row {
    cpu_us: Vec<f64>,
    per_s: Vec<f64>,
    lag_us_p99: Vec<f64>,
}

impl Block {
    fn new(work: Work) -> Self {
        let rows = work.generators.iter().map(|_| Row::default()).collect();
        Self { work, rows }
    }

    /// Each generator once, beginning with another one each round.
    fn measure(&mut self, round: u32, closed_per_s: Option<f64>, args: &LoadArgs) -> anyhow::Result<()> {
        let count = self.rows.len();
        for number in 0..count {
            let index = (number + round as usize) % count;
            let generator = &self.work.generators[index];
            let rate = closed_per_s.map(|per_s| per_s * OPEN_SHARE);
            let wrong = || format!("{} of `{}`", generator.name, self.work.name);
            self.rows[index].measure(generator, rate, args).with_context(wrong)?;
        }
        Ok(())
    }

    /// CPU time per request of prony against that of another, within each round.
    fn ratios(&self, other: usize) -> Vec<f64> {
        self.rows[0].cpu_us.iter().zip(&self.rows[other].cpu_us).map(|(own, other)| own / other).collect()
    }
}

impl Row {
    fn measure(&mut self, generator: &Generator, rate: Option<f64>, args: &LoadArgs) -> anyhow::Result<()> {
        let mut command = prioritised("taskset", args.realtime);
        command.args(["-c", GENERATOR_CPU]).arg(&generator.program).args(told(generator, rate)?);
        let begun = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot start taskset")?;
        let mut said = String::new();
        child.stdout.take().context("stdout is piped")?.read_to_string(&mut said)?;
        let ended = sys::wait(&child).context("cannot wait for it")?;
        let Some(responses) = (generator.responses)(&said).filter(|n| *n > 0) else {
            bail!("it told no number of responses (ended well: {}); it said:\n{said}", ended.ok);
        };
        self.cpu_us.push(ended.cpu.as_secs_f64() * 1e6 / responses as f64);
        // By the clock: wrk runs longer than it is told to.
        self.per_s.push(responses as f64 / begun.elapsed().as_secs_f64());
        let lag = said.lines().find_map(|l| l.strip_prefix("lag_p99_us ")).and_then(|v| v.parse::<f64>().ok());
        self.lag_us_p99.extend(lag);
        Ok(())
    }
}

/// The arguments of a generator, with the rate if its work has one.
fn told(generator: &Generator, rate: Option<f64>) -> anyhow::Result<Vec<String>> {
    let mut args = generator.args.clone();
    let needed = || rate.context("no closed loop was measured before: do not leave out the first work");
    match generator.open {
        None => {}
        Some(Open::Floor(arrivals)) => args.extend([format!("{:.0}", needed()?), arrivals.to_string()]),
        Some(Open::Engine(arrivals)) => {
            let mut fields: serde_json::Value = serde_json::from_str(args.last().context("there are arguments")?)?;
            fields["rate"] = format!("{:.0}/s", needed()?).into();
            fields["arrivals"] = arrivals.into();
            *args.last_mut().context("there are arguments")? = fields.to_string();
        }
    }
    Ok(args)
}

/// A program; with `realtime` before everything that has no real-time priority of its own. Both changes end in an exec, so
/// the process is the same and so is its account.
fn prioritised(program: impl AsRef<OsStr>, realtime: bool) -> Command {
    if !realtime {
        return Command::new(program);
    }
    let mut command = Command::new("chrt");
    command.args(["--fifo", "1"]).arg(program);
    command
}

/// The programs, built.
struct Programs {
    floor: PathBuf,
    null_server: PathBuf,
    engine: PathBuf,
}

impl Programs {
    fn prepare(root: &Path) -> anyhow::Result<Self> {
        let target = super::target(root);
        let built = target.join("bench");
        std::fs::create_dir_all(&built).with_context(|| format!("cannot create {}", built.display()))?;
        let compile = |name: &str| {
            let binary = built.join(name);
            let source = root.join("xtask/fixtures").join(name).with_extension("c");
            let status = Command::new("gcc").args(["-O2", "-Wall", "-o"]).arg(&binary).arg(&source).arg("-lm").status();
            ensure!(
                status.context("cannot start gcc; apt-get install gcc")?.success(),
                "gcc failed on {}",
                source.display()
            );
            Ok(binary)
        };
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root).args(["build", "--release", "--quiet", "-p", "prony-load", "--example", "load"]);
        ensure!(cargo.status().context("cannot start cargo")?.success(), "the engine does not build");
        let engine = target.join("release/examples/load");
        Ok(Self { floor: compile("floor")?, null_server: compile("null_server")?, engine })
    }
}

/// The table, with what a reader needs to repeat it and to doubt it.
fn page(args: &LoadArgs, blocks: &[Block], busy_before: &str) -> String {
    let mut text = String::from("## CPU time per request of load generators\n\n");
    text += &format!(
        "`cargo xtask bench load --rounds {} --seconds {} --connections {}{}` on {}, load average {busy_before} before and {} after. \
         The servers are pinned to CPU {SERVER_CPU}, the generators take turns on CPU {GENERATOR_CPU}, one thread each. \
         CPU time is that of the whole process, from start to exit. The floor is a bare epoll loop in C that parses and measures nothing. \
         With TLS all use AES-128-GCM, and certificates are verified by prony and by nobody else.\n\n\
         Open loops run at {:.0} % of the rate of prony's closed loop in the same round. There a request is dearer, whoever sends it: \
         answers no longer come in batches, and each request wakes a server that went to sleep, on the sender's account. \
         So an open loop is held against the floor that sends by the same schedule.\n\n",
        args.rounds,
        args.seconds,
        args.connections,
        if args.realtime { " --realtime" } else { "" },
        machine(),
        load_average(),
        OPEN_SHARE * 100.0
    );
    text += "| work | generator | requests/s, median | CPU us/request, median | prony uses times that: median (least to most) | bar |\n\
             |---|---|--:|--:|--:|--:|\n";
    for block in blocks {
        for (number, (generator, row)) in block.work.generators.iter().zip(&block.rows).enumerate() {
            let ratios = block.ratios(number);
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let most = ratios.iter().copied().fold(0.0, f64::max);
            let bar = block.work.bars.iter().find(|(name, _)| *name == generator.name).map(|(_, most)| *most);
            let middle = median(&ratios).unwrap_or(f64::NAN);
            let against = match number {
                0 => String::new(),
                _ => format!("{middle:.3} ({least:.3} to {most:.3})"),
            };
            let lag = median(&row.lag_us_p99).filter(|_| generator.open.is_some());
            let lag = lag.map(|us| format!(", schedule lag p99 {us:.0} us")).unwrap_or_default();
            text += &format!(
                "| {} | {}{lag} | {:.0} | {:.2} | {against} | {} |\n",
                if number == 0 { block.work.name } else { "" },
                generator.name,
                median(&row.per_s).unwrap_or(f64::NAN),
                median(&row.cpu_us).unwrap_or(f64::NAN),
                bar.map(|most| format!("{most:.2}{}", if middle <= most { "" } else { ", not met" }))
                    .unwrap_or_default(),
            );
        }
    }
    text
}
