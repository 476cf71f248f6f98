//! `cargo xtask bench load`: CPU time per request of load generators, against a loop that only sends and receives ("the floor").
//!
//! The metric is the CPU time of the generator's process (wait4(2)) divided by the responses it got. It repeats within a few
//! percent where requests per second vary by ten. Invariant: a ratio is formed within one round, never across rounds.

use super::{load_average, machine, median, sys, write_section};
use anyhow::{Context as _, bail, ensure};
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// CPU of the server; the generators get the other one of a two-core machine.
const SERVER_CPU: &str = "0";
/// CPU of the generators.
const GENERATOR_CPU: &str = "1";
/// Rate of the open loops, as a share of what the closed loop reached: busy, but with room. From the issue: 70 %.
const OPEN_SHARE: f64 = 0.7;
/// The bar: CPU time per request against that of the floor with the same schedule. From the issue.
const RATIO_MAX: f64 = 1.10;

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
    #[arg(long, default_value_t = 64)]
    pub connections: u32,
    /// Measure the binary target/release/prony as it is, instead of the engine alone
    #[arg(long)]
    pub whole: bool,
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
    let programs = Programs::prepare(root, args.whole)?;
    let server = NullServer::start(&programs.null_server, args.realtime)?;
    let busy_before = load_average();
    let mut rows: Vec<Row> = programs.generators(args, server.port).into_iter().map(Row::new).collect();
    for round in 0..args.rounds {
        measure_round(round, &mut rows, args)?;
    }
    drop(server);
    let text = page(args, &rows, &busy_before);
    println!("{text}");
    if !args.no_write {
        write_section(root, "load", &text)?;
    }
    Ok(())
}

/// One line of the table: a generator and what each round gave.
struct Row {
    generator: Generator,
    cpu_us: Vec<f64>,
    per_s: Vec<f64>,
}

/// A program that makes load, and how it tells the number of responses.
struct Generator {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    /// Given at 70 % of the closed loop's rate.
    open: Option<&'static str>,
    responses: fn(&str) -> Option<u64>,
}

impl Row {
    fn new(generator: Generator) -> Self {
        Self { generator, cpu_us: Vec::new(), per_s: Vec::new() }
    }

    fn measure(&mut self, rate: Option<f64>, args: &LoadArgs) -> anyhow::Result<()> {
        let generator = &self.generator;
        let mut command = prioritised("taskset", args.realtime);
        command.args(["-c", GENERATOR_CPU]).arg(&generator.program).args(&generator.args);
        if let (Some(arrivals), Some(rate)) = (generator.open, rate) {
            let rate = format!("{rate:.0}");
            match generator.name {
                name if name.starts_with("prony load") => command.args(["-R", &rate, "--arrivals", arrivals]),
                _ => command.args([&rate, arrivals]),
            };
        }
        let name = generator.name;
        let begun = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot start taskset")?;
        let mut said = String::new();
        child.stdout.take().context("stdout is piped")?.read_to_string(&mut said)?;
        let ended = sys::wait(&child).with_context(|| format!("cannot wait for {name}"))?;
        let responses = (generator.responses)(&said).filter(|n| *n > 0);
        let Some(responses) = responses else {
            bail!("{name} told no number of responses (ended well: {}); it said:\n{said}", ended.ok);
        };
        self.cpu_us.push(ended.cpu.as_secs_f64() * 1e6 / responses as f64);
        // By the clock: wrk runs longer than it is told to.
        self.per_s.push(responses as f64 / begun.elapsed().as_secs_f64());
        Ok(())
    }
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

/// The floor and the closed loop come first, because others need their numbers; the rest begins with another one each round.
fn measure_round(round: u32, rows: &mut [Row], args: &LoadArgs) -> anyhow::Result<()> {
    let (first, rest) = rows.split_at_mut(2);
    for row in first.iter_mut() {
        row.measure(None, args)?;
    }
    let closed = first[1].per_s.last().copied().context("the closed loop was just measured")?;
    let count = rest.len();
    for number in 0..count {
        let row = &mut rest[(number + round as usize) % count];
        row.measure(row.generator.open.map(|_| closed * OPEN_SHARE), args)?;
    }
    Ok(())
}

/// The programs, built.
struct Programs {
    floor: PathBuf,
    null_server: PathBuf,
    prony: PathBuf,
    whole: bool,
}

impl Programs {
    fn prepare(root: &Path, whole: bool) -> anyhow::Result<Self> {
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
        let prony = if whole {
            let binary = target.join("release/prony");
            ensure!(binary.exists(), "{} is missing; cargo build --release -p prony", binary.display());
            binary
        } else {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(root).args(["build", "--release", "--quiet", "-p", "prony-load", "--example", "load"]);
            ensure!(cargo.status().context("cannot start cargo")?.success(), "the engine does not build");
            target.join("release/examples/load")
        };
        Ok(Self { floor: compile("floor")?, null_server: compile("null_server")?, prony, whole })
    }

    /// The floor first, then prony's closed loop, then the others.
    fn generators(&self, args: &LoadArgs, port: u16) -> Vec<Generator> {
        let (url, n, s) = (format!("http://127.0.0.1:{port}/"), args.connections.to_string(), args.seconds.to_string());
        let words = |list: &[&str]| list.iter().map(|w| w.to_string()).collect::<Vec<_>>();
        let own = |name, open| {
            let (args, responses): (_, fn(&str) -> Option<u64>) = if self.whole {
                (words(&["load", "--json", "-t", "1", "--warmup", "0s", "-c", &n, "-d", &s, &url]), json_responses)
            } else {
                (words(&[&url, &n, &s]), key_value_responses)
            };
            Generator { name, program: self.prony.clone(), args, open, responses }
        };
        let tool = |name: &'static str, args: &[&str], responses| Generator {
            name,
            program: PathBuf::from(name.split(' ').next().unwrap_or(name)),
            args: words(args),
            open: None,
            responses,
        };
        let names = if self.whole {
            ["prony load", "prony load -R --arrivals constant", "prony load -R --arrivals poisson"]
        } else {
            ["prony-load, closed loop", "prony-load, open loop, constant", "prony-load, open loop, Poisson"]
        };
        let floor = |name, open| Generator {
            name,
            program: self.floor.clone(),
            args: words(&[&port.to_string(), &n, &s]),
            open,
            responses: key_value_responses,
        };
        let seconds = format!("{s}s");
        vec![
            floor("floor, closed loop", None),
            own(names[0], None),
            floor("floor, open loop, constant", Some("constant")),
            own(names[1], Some("constant")),
            floor("floor, open loop, Poisson", Some("poisson")),
            own(names[2], Some("poisson")),
            tool("wrk", &["-t1", "-c", &n, "-d", &seconds, &url], wrk_responses),
            // 5 million is more than it can do in the time, which is what ends it; ab allocates by that number.
            tool("ab -k", &["-q", "-k", "-c", &n, "-t", &s, "-n", "5000000", &url], ab_responses),
            tool("h2load --h1", &["--h1", "-t1", "-c", &n, "-D", &s, &url], h2load_responses),
        ]
    }
}

/// The server under all generators. Killed when dropped.
struct NullServer {
    child: Child,
    port: u16,
}

impl NullServer {
    fn start(program: &Path, realtime: bool) -> anyhow::Result<Self> {
        let mut child = prioritised(program, realtime).args(["0", SERVER_CPU]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout is piped")?).read_line(&mut line)?;
        let port = line.trim().strip_prefix("ready ").and_then(|p| p.parse().ok());
        Ok(Self { child, port: port.with_context(|| format!("the null server said {line:?}"))? })
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// `responses N`, as the fixtures and the example of the engine print.
fn key_value_responses(said: &str) -> Option<u64> {
    said.lines().find_map(|l| l.strip_prefix("responses "))?.trim().parse().ok()
}

/// `  44845 requests in 1.01s, 4.96MB read`
fn wrk_responses(said: &str) -> Option<u64> {
    said.lines().find_map(|l| l.trim().split_once(" requests in "))?.0.parse().ok()
}

/// `Complete requests:      20000`
fn ab_responses(said: &str) -> Option<u64> {
    said.lines().find_map(|l| l.strip_prefix("Complete requests:"))?.trim().parse().ok()
}

/// `requests: 34140 total, 34156 started, 34140 done, 34140 succeeded, ...`
fn h2load_responses(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|l| l.strip_prefix("requests: "))?;
    line.split(", ").find_map(|part| part.strip_suffix(" done"))?.parse().ok()
}

/// `responses_total`, wherever it is in the one JSON object of `prony load --json`.
fn json_responses(said: &str) -> Option<u64> {
    fn search(value: &serde_json::Value) -> Option<u64> {
        let map = value.as_object()?;
        map.get("responses_total").and_then(serde_json::Value::as_u64).or_else(|| map.values().find_map(search))
    }
    search(&serde_json::from_str(said).ok()?)
}

/// The table, with what a reader needs to repeat it and to doubt it.
fn page(args: &LoadArgs, rows: &[Row], busy_before: &str) -> String {
    let mut text = String::from("## CPU time per request of load generators\n\n");
    text += &format!(
        "`cargo xtask bench load --rounds {} --seconds {} --connections {}{}{}` on {}, load average {busy_before} before and {} after. \
         The null server is pinned to CPU {SERVER_CPU}, the generators take turns on CPU {GENERATOR_CPU}, one thread each. \
         CPU time is that of the whole process, from start to exit. The floor parses and measures nothing.\n\n\
         Open loops run at {:.0} % of the rate of prony's closed loop in the same round. There a request is dearer, whoever sends it: \
         answers no longer come in batches, and each request wakes a server that went to sleep, on the sender's account. \
         So an open loop is held against the floor that sends by the same schedule; the other ratio stands beside it. \
         The bar is {RATIO_MAX:.2} times the floor of the same schedule.\n\n",
        args.rounds,
        args.seconds,
        args.connections,
        if args.whole { " --whole" } else { "" },
        if args.realtime { " --realtime" } else { "" },
        machine(),
        load_average(),
        OPEN_SHARE * 100.0
    );
    text += "| generator | requests/s, median | CPU us/request, median | times the floor of the same schedule: median (least to most) | \
             times the closed floor |\n|---|--:|--:|--:|--:|\n";
    for row in rows {
        let fair = ratios(row, fair_floor(rows, row));
        let least = fair.iter().copied().fold(f64::INFINITY, f64::min);
        let most = fair.iter().copied().fold(0.0, f64::max);
        text += &format!(
            "| {} | {:.0} | {:.2} | {:.3} ({least:.3} to {most:.3}) | {:.3} |\n",
            row.generator.name,
            median(&row.per_s).unwrap_or(f64::NAN),
            median(&row.cpu_us).unwrap_or(f64::NAN),
            median(&fair).unwrap_or(f64::NAN),
            median(&ratios(row, &rows[0])).unwrap_or(f64::NAN),
        );
    }
    text
}

/// The first row with the same schedule: a floor, because each floor stands before what is held against it.
fn fair_floor<'a>(rows: &'a [Row], row: &Row) -> &'a Row {
    rows.iter().find(|r| r.generator.open == row.generator.open).unwrap_or(&rows[0])
}

/// CPU time per request against that of the floor, within each round.
fn ratios(row: &Row, floor: &Row) -> Vec<f64> {
    row.cpu_us.iter().zip(&floor.cpu_us).map(|(own, floor)| own / floor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_each_generator_says() {
        assert_eq!(key_value_responses("responses 12\ncpu_us_per_request 4\n"), Some(12));
        assert_eq!(wrk_responses("Running 1s\n  44845 requests in 1.01s, 4.96MB read\n"), Some(44845));
        assert_eq!(ab_responses("Complete requests:      20000\nFailed requests:        0\n"), Some(20000));
        assert_eq!(h2load_responses("requests: 5 total, 6 started, 4 done, 4 succeeded, 0 failed\n"), Some(4));
        assert_eq!(json_responses(r#"{"schema":"x","result":{"sent":9,"responses_total":8}}"#), Some(8));
        assert_eq!(wrk_responses("unable to connect"), None);
    }
}
