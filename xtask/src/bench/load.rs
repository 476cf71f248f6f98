//! `cargo xtask bench load`: CPU time per request of prony and of other generators, in the same rounds.
//!
//! Each generator is a process of its own, so its CPU time is exact (wait4), start and end included. What is compared is CPU
//! time per request, because on a shared machine requests per second vary by ten. Invariant: a ratio is formed within one
//! round, never across rounds.

mod lag;
mod memory;
mod scenario;
mod servers;
mod table;
mod tools;
mod works;

use super::pauses::Clock;
use super::{compile, load_average, prioritised, sys, write_section};
use anyhow::{Context as _, bail, ensure};
use scenario::Scenario;
use servers::{Fixture, Nghttpd, Nginx};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use works::{Bench, Generator, OPEN_SHARE, Open, Work};

/// CPU of the generators.
const GENERATOR_CPU: &str = "1";
/// A generator that takes so much longer than it was told is ended, with an error. A guess: many times what any needs to start.
const GRACE_S: u32 = 30;
/// How often a generator is tried that told of no answer.
const TRIES: u32 = 3;

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
    /// Only works whose name holds this text, `schedule lag` and `memory` among them; the table of works is left alone then
    #[arg(long)]
    pub only: Option<String>,
    /// Minutes of the run that shows whether memory stays flat; its bar is for 10
    #[arg(long, default_value_t = 1)]
    pub minutes: u32,
    /// Print the table only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
    /// Run server and generators with real-time priority, so that strangers on a busy machine do not interrupt them
    #[arg(long)]
    pub realtime: bool,
}

/// Measures, prints the table, and writes it.
pub fn run(root: &Path, args: &LoadArgs) -> anyhow::Result<()> {
    let positive = [args.rounds, args.seconds, args.connections, args.minutes].iter().all(|n| *n > 0);
    ensure!(positive, "rounds, seconds, connections and minutes must be 1 or more");
    let programs = Programs::prepare(root)?;
    let fixture = |program: &Path, more: &[&str]| Fixture::start(program, args.realtime, more);
    let keeping = fixture(&programs.null_server, &[])?;
    let closing = fixture(&programs.null_server, &["close"])?;
    let playing = fixture(&programs.scenario_server, &[])?;
    let (nginx, nghttpd) = (Nginx::start()?, Nghttpd::start()?);
    let bench = Bench {
        floor: &programs.floor,
        floor_uring: &programs.floor_uring,
        engine: &programs.engine,
        keeping: &keeping,
        closing: &closing,
        playing: &playing,
        scenario: &Scenario::read(&root.join("xtask/fixtures/scenario"))?,
        nginx: &nginx,
        nghttpd: &nghttpd,
        pipeline_script: &root.join("xtask/fixtures/pipeline.lua"),
        connections: args.connections,
        seconds: args.seconds,
    };
    let busy_before = load_average();
    let wanted = |name: &str| args.only.as_ref().is_none_or(|text| name.contains(text.as_str()));
    let mut blocks: Vec<Block> = bench.works().into_iter().filter(|work| wanted(work.name)).map(Block::new).collect();
    let named = !blocks.is_empty() || wanted(lag::NAME) || wanted(memory::NAME);
    ensure!(named, "no work has that name");
    for round in 0..args.rounds {
        // Open loops are given a part of what the closed loop of this round reached.
        let mut closed_per_s = None;
        for block in &mut blocks {
            block.measure(round, closed_per_s, args)?;
            closed_per_s = closed_per_s.or(block.rows[0].per_s.last().copied());
        }
    }
    let mut sections = Vec::new();
    if !blocks.is_empty() {
        sections.push(("load", table::page(args, &blocks, &busy_before)));
    }
    if wanted(lag::NAME) {
        let servers = [
            lag::Server { name: "null server", port: keeping.port },
            lag::Server { name: "nginx, one worker", port: nginx.plain_port },
            lag::Server { name: "nginx, a file and a log", port: nginx.file_port },
        ];
        sections.push((
            "lag",
            lag::measure(
                &lag::Programs { engine: &programs.engine, floor: &programs.floor, clock: &programs.clock },
                &servers,
                args,
            )?,
        ));
    }
    if wanted(memory::NAME) {
        let null_server = || fixture(&programs.null_server, &[]);
        sections.push(("memory", memory::measure(&programs.engine, null_server, args.minutes)?));
    }
    for (name, text) in sections {
        println!("{text}");
        // A table with some of its works would take the place of one with all.
        let whole = name != "load" || args.only.is_none();
        if whole && !args.no_write {
            write_section(root, name, &text)?;
        }
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
    /// Why it could not be measured here; it has no numbers then.
    absent: Option<String>,
    cpu_us: Vec<f64>,
    per_s: Vec<f64>,
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

    /// CPU time per request of one against that of another, within each round.
    fn ratios(&self, one: usize, other: usize) -> Vec<f64> {
        self.rows[one].cpu_us.iter().zip(&self.rows[other].cpu_us).map(|(one, other)| one / other).collect()
    }
}

impl Row {
    fn measure(&mut self, generator: &Generator, rate: Option<f64>, args: &LoadArgs) -> anyhow::Result<()> {
        if !installed(&generator.program) {
            self.absent = Some(format!("{} is not installed", generator.program.display()));
            return Ok(());
        }
        let words = told(generator, rate)?;
        let mut said = String::new();
        // ab at times ends its second without one answer.
        for _ in 0..TRIES {
            let run = run_once(&generator.program, &words, args)?;
            if let Some(reason) = tools::unavailable(&run.said) {
                self.absent = Some(format!("this kernel refuses it: {reason}"));
                return Ok(());
            }
            if let Some(responses) = (generator.responses)(&run.said).filter(|n| *n > 0) {
                self.cpu_us.push(run.cpu_s * 1e6 / responses as f64);
                self.per_s.push(responses as f64 / run.took_s);
                return Ok(());
            }
            said = format!("(ended well: {}); it said:\n{}", run.ok, run.said);
        }
        bail!("{TRIES} times it told no number of good responses {said}");
    }
}

/// A generator that was run, and what it took.
struct Once {
    said: String,
    ok: bool,
    cpu_s: f64,
    /// By the clock: wrk runs longer than it is told to.
    took_s: f64,
}

fn run_once(program: &Path, words: &[String], args: &LoadArgs) -> anyhow::Result<Once> {
    let seconds_max = (args.seconds + GRACE_S).to_string();
    let mut command = prioritised("timeout", args.realtime);
    command.args(["--foreground", "--signal=KILL", &seconds_max, "taskset", "-c", GENERATOR_CPU]);
    command.arg(program).args(words);
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot start timeout")?;
    let mut said = String::new();
    child.stdout.take().context("stdout is piped")?.read_to_string(&mut said)?;
    let ended = sys::wait(&child).context("cannot wait for it")?;
    Ok(Once { said, ok: ended.ok, cpu_s: ended.cpu.as_secs_f64(), took_s: begun.elapsed().as_secs_f64() })
}

/// Whether a program is there: a path as it is, a name in the search path.
fn installed(program: &Path) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
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

/// The programs, built.
struct Programs {
    clock: Clock,
    floor: PathBuf,
    floor_uring: PathBuf,
    null_server: PathBuf,
    scenario_server: PathBuf,
    engine: PathBuf,
}

impl Programs {
    fn prepare(root: &Path) -> anyhow::Result<Self> {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root).args(["build", "--release", "--quiet", "-p", "prony-load", "--example", "load"]);
        ensure!(cargo.status().context("cannot start cargo")?.success(), "the engine does not build");
        let engine = super::target(root).join("release/examples/load");
        Ok(Self {
            clock: Clock::prepare(root)?,
            floor: compile(root, "floor")?,
            floor_uring: compile(root, "floor_uring")?,
            null_server: compile(root, "null_server")?,
            scenario_server: compile(root, "scenario/server")?,
            engine,
        })
    }
}
