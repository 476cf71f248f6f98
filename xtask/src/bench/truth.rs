//! `cargo xtask bench truth`: do load generators tell the latency that users would have seen?
//!
//! They load a server whose every delay is known beforehand, and what they tell is held against what follows from that, with
//! what the server by its own record was late. Invariant: the truth comes from the schedule of requests and from the server,
//! never from what a tool measured.

mod schedule;
mod server;
mod table;
mod tools;

use super::pauses::Clock;
use super::{load_average, prioritised, write_section};
use anyhow::{Context as _, bail, ensure};
use schedule::{Due, Percentiles, Service, Stalls, even, follow, percentiles};
use server::{Served, TruthServer};
use std::path::{Path, PathBuf};
use tools::{Job, TOOLS, Told, Tool, Truth, WARMUP};

/// CPU of the server; the generators get the other one of a two-core machine.
const SERVER_CPU: &str = "0";
/// CPU of the generators.
const GENERATOR_CPU: &str = "1";
/// Moderate, and not round: of 10, 20 or 30 s of it no percentile's rank is one that a request more or less would move. At the
/// edges of the counted time that is all that told and true can differ by, and far out in a tail one rank is more than 1 %.
const RATE: u32 = 2127;
/// Service times that are drawn; they begin again after that. More than any run uses.
const SERVICES: usize = 1 << 20;
/// Seed of the service times.
const SEED: u64 = 20_221;
/// The first stall begins so long after the server. Prony counts from about 2 s on: any run of a multiple of 5 s counts as many.
const STALL_FIRST_NS: u64 = 3_500_000_000;
/// A stall of 200 ms every 5 s.
const STALL_EVERY_NS: u64 = 5_000_000_000;
/// See [`STALL_EVERY_NS`].
const STALL_NS: u64 = 200_000_000;
/// A millisecond.
const MS: u64 = 1_000_000;

/// A percentile is right within this many microseconds; or within a share, see the table.
const ERROR_US_MAX: f64 = 30.0;

/// How much to measure.
#[derive(clap::Args, Clone, Debug)]
pub struct TruthArgs {
    /// Seconds of each run
    #[arg(long, default_value_t = 20)]
    pub seconds: u32,
    /// Runs of each tool in each case, taken in turn; a percentile is judged by the median of its errors
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
    /// Requests per second, of closed loops too (by their number of connections)
    #[arg(long, default_value_t = RATE)]
    pub rate: u32,
    /// Connections of open loops: enough that none is missing even in a stall
    #[arg(long, default_value_t = 512)]
    pub connections: u32,
    /// Only tools whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub tool: Option<String>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub case: Option<String>,
    /// Print the tables only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
    /// Run server and generators with real-time priority, so that strangers on a busy machine do not interrupt them. Not for
    /// `--spin`: the kernel stops a real-time thread that never sleeps for 50 ms of each second
    #[arg(long)]
    pub realtime: bool,
}

/// What the server does.
struct Case {
    name: &'static str,
    service: Service,
    stalls: bool,
}

const CASES: &[Case] = &[
    Case { name: "constant, 5 ms", service: Service::Constant(5 * MS), stalls: false },
    Case { name: "exponential, mean 5 ms", service: Service::Exponential(5 * MS), stalls: false },
    // Not 10 %: the rank of p90 would lie on the jump, where a hair's breadth of time is 19 ms.
    Case {
        name: "bimodal, 85 % 1 ms and 15 % 20 ms",
        service: Service::Bimodal { short: MS, long: 20 * MS, share: 0.15 },
        stalls: false,
    },
    Case {
        name: "heavy tail, Pareto from 1 ms with exponent 1.5, cut at 1 s",
        service: Service::Pareto { least: MS, exponent: 1.5, most: 1000 * MS },
        stalls: false,
    },
    Case { name: "constant, 5 ms, with a stall of 200 ms every 5 s", service: Service::Constant(5 * MS), stalls: true },
];

/// Measures, prints the tables, and writes them.
pub fn run(root: &Path, args: &TruthArgs) -> anyhow::Result<()> {
    ensure!(
        args.seconds > 0 && args.rounds > 0 && args.rate > 0 && args.connections > 0,
        "seconds, rounds, rate and connections must be 1 or more"
    );
    let bench = Bench::prepare(root, args)?;
    let busy_before = load_average();
    let floor = bench.floor()?;
    let cases = CASES.iter().filter(|case| wanted(args.case.as_deref(), case.name));
    let mut tables: Vec<(&Case, Vec<Row>)> =
        cases.map(|case| (case, bench.tools.iter().map(|(tool, _)| Row::new(tool.name)).collect())).collect();
    // A round has every case and tool once: what disturbs the machine for minutes cannot spoil all runs of one of them.
    let mut away = Vec::new();
    for round in 1..=args.rounds {
        away.push(bench.clock.away(GENERATOR_CPU, args.seconds, ERROR_US_MAX, args.realtime)?);
        for (case, rows) in &mut tables {
            let services = bench.write_services(case)?;
            for (row, (tool, program)) in rows.iter_mut().zip(&bench.tools) {
                eprintln!("round {round} of {}, {}: {}", args.rounds, case.name, tool.name);
                row.runs.push(bench.measure(case, &services, tool, program)?);
            }
        }
    }
    let text = table::page(args, &bench.missing, &tables, &Machine { floor, away, busy_before });
    println!("{text}");
    if !args.no_write {
        // A part must not replace the whole table.
        let whole = args.tool.is_none() && args.case.is_none();
        write_section(root, if whole { "truth" } else { "truth-part" }, &text)?;
    }
    Ok(())
}

fn wanted(part: Option<&str>, name: &str) -> bool {
    part.is_none_or(|part| name.contains(part))
}

/// Everything that is made ready once.
struct Bench<'a> {
    args: &'a TruthArgs,
    folder: PathBuf,
    server: PathBuf,
    clock: Clock,
    script: PathBuf,
    tools: Vec<(&'static Tool, PathBuf)>,
    missing: Vec<&'static str>,
}

/// One line of a table.
struct Row {
    tool: &'static str,
    /// One per round.
    runs: Vec<Run>,
}

impl Row {
    fn new(tool: &'static str) -> Self {
        Self { tool, runs: Vec::new() }
    }
}

/// What one run of a tool told, and what was true.
struct Run {
    told: Told,
    truth: Percentiles,
    /// How late the server itself sent, in microseconds.
    late_us: Percentiles,
}

/// What the machine did to all of them.
struct Machine {
    floor: Floor,
    /// Shares of the time in which the generators' CPU was elsewhere, one per round.
    away: Vec<f64>,
    /// Load average before.
    busy_before: String,
}

/// What a client sees beyond the service time when it does nothing else, in microseconds.
struct Floor {
    least_us: f64,
    median_us: f64,
}

impl<'a> Bench<'a> {
    fn prepare(root: &Path, args: &'a TruthArgs) -> anyhow::Result<Self> {
        let target = super::target(root);
        let (server, clock) = (super::compile(root, "truth_server")?, Clock::prepare(root)?);
        let (mut tools, mut missing) = (Vec::new(), Vec::new());
        for tool in TOOLS.iter().filter(|tool| wanted(args.tool.as_deref(), tool.name)) {
            match tool.find(&target) {
                Some(program) => tools.push((tool, program)),
                None if tool.program == "prony" => {
                    bail!("{}/release/prony is missing; cargo build --release -p prony", target.display())
                }
                None => missing.push(tool.name),
            }
        }
        let script = root.join("xtask/fixtures/truth_percentiles.lua");
        Ok(Self { args, folder: target.join("bench"), server, clock, script, tools, missing })
    }

    /// Draws the service times of a case and writes them where the server reads them.
    fn write_services(&self, case: &Case) -> anyhow::Result<Vec<u64>> {
        let services = case.service.draw(SERVICES, SEED);
        let bytes: Vec<u8> = services.iter().flat_map(|ns| ns.to_ne_bytes()).collect();
        let path = self.service_file();
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(services)
    }

    fn service_file(&self) -> PathBuf {
        self.folder.join("truth_services")
    }

    fn start(&self, stalls: bool) -> anyhow::Result<TruthServer> {
        let stall_ns = if stalls { STALL_NS } else { 0 };
        let stalls = Stalls { epoch_ns: 0, first_ns: STALL_FIRST_NS, every_ns: STALL_EVERY_NS, length_ns: stall_ns };
        TruthServer::start(prioritised(&self.server, self.args.realtime), SERVER_CPU, &self.service_file(), stalls)
    }

    /// The least and the median of what one blocking connection sees beyond the service time.
    fn floor(&self) -> anyhow::Result<Floor> {
        let case = &CASES[0];
        let services = self.write_services(case)?;
        let server = self.start(false)?;
        let seen = server.ask_in_turn(GENERATOR_CPU, 200)?;
        server.finish()?;
        let mut beyond: Vec<f64> =
            seen.iter().zip(&services).map(|(ns, service)| (*ns as f64 - *service as f64) / 1e3).collect();
        beyond.sort_by(f64::total_cmp);
        Ok(Floor { least_us: beyond[0], median_us: beyond[beyond.len() / 2] })
    }

    fn measure(&self, case: &Case, services: &[u64], tool: &Tool, program: &Path) -> anyhow::Result<Run> {
        let server = self.start(case.stalls)?;
        let log = self.folder.join("truth_h2load.log");
        std::fs::remove_file(&log).ok();
        let mean_s = services.iter().map(|ns| *ns as f64 / 1e9).sum::<f64>() / services.len() as f64;
        let url = format!("http://127.0.0.1:{}/", server.port);
        let job = Job {
            url: &url,
            rate: self.args.rate,
            seconds: self.args.seconds,
            connections: self.args.connections,
            connections_closed: (f64::from(self.args.rate) * mean_s).ceil() as u32,
            script: &self.script,
            log: &log,
        };
        let mut command = prioritised("taskset", self.args.realtime);
        command.args(["-c", GENERATOR_CPU]).arg(program).args((tool.args)(&job));
        // A tool that finds its own result not valid says so by its exit code; what counts is what it tells.
        let output = command.output().context("cannot start taskset")?;
        let stalls = server.stalls;
        let served = server.finish()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let logged = std::fs::read_to_string(&log).unwrap_or_default();
        let Some(mut told) = (tool.read)(&said, &logged) else {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("{} told no latencies; it said:\n{said}{complaint}", tool.name);
        };
        told.notes.extend(check_record(&served, services, stalls));
        let requests = requests_of(tool.truth, &told, &served, services, stalls, self.args.rate)?;
        let latencies = requests.iter().map(|r| r.due - r.intended).collect();
        let truth = percentiles(latencies).with_context(|| format!("no request of {} was due in time", tool.name))?;
        let late = served.iter().filter(|s| s.sent > 0).map(Served::late).collect();
        let late_us = percentiles(late).context("the server sent nothing")?;
        Ok(Run { told, truth, late_us })
    }
}

/// Whether the server did what it was told: each answer due when the schedule says so.
fn check_record(served: &[Served], services: &[u64], stalls: Stalls) -> Option<String> {
    let expected = follow(served.iter().map(|s| s.arrival), services, stalls);
    let wrong = expected.zip(served).filter(|(want, got)| want.due != got.due).count();
    (wrong > 0).then(|| format!("the server answered {wrong} requests not as planned: they were pipelined"))
}

/// The requests that the tool should have told of.
fn requests_of(
    truth: Truth,
    told: &Told,
    served: &[Served],
    services: &[u64],
    stalls: Stalls,
    rate: u32,
) -> anyhow::Result<Vec<Due>> {
    let (Some(first), Some(last)) = (served.first(), served.last()) else { bail!("no request reached the server") };
    let counted = |due: &Due| told.counted_ns.is_none_or(|(from, to)| (from..to).contains(&due.due));
    // A stranger may keep the server from its CPU: what users then wait is true, too.
    let late = served.iter().map(Served::late).chain(std::iter::repeat(0));
    let with_late = |(request, late): (Due, u64)| Due { due: request.due + late, ..request };
    Ok(match truth {
        Truth::Planned => {
            let (from, to) = told.counted_ns.context("this tool does not tell when it counted")?;
            let start = from - WARMUP.0;
            let count = ((to - start) as f64 * f64::from(rate) / 1e9).ceil() as u64;
            let intended = (0..count).map(|number| start + (number as f64 * 1e9 / f64::from(rate)) as u64);
            follow(intended, services, stalls).zip(late).map(with_late).filter(counted).collect()
        }
        Truth::Recorded => {
            let arrived = served.iter().map(|s| s.arrival);
            follow(arrived, services, stalls).zip(late).map(with_late).filter(counted).collect()
        }
        Truth::Even => {
            let evenly = even(first.arrival, last.arrival, served.len());
            follow(evenly, services, stalls).zip(late).map(with_late).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(arrivals: &[u64], due_after: u64) -> Vec<Served> {
        arrivals.iter().map(|a| Served { arrival: *a, due: a + due_after, sent: a + due_after + 9 }).collect()
    }

    #[test]
    fn the_truth_of_a_plan_does_not_depend_on_what_arrived() {
        let second = 1_000_000_000;
        let told = Told { counted_ns: Some((10 * second, 11 * second)), ..Told::default() };
        let late = served(&[8 * second + 77, 9 * second], 5 * MS);
        let of = |truth, told: &Told| requests_of(truth, told, &late, &[5 * MS], Stalls::default(), 1000).unwrap();
        let planned = of(Truth::Planned, &told);
        // Due from 10 s on and before 11 s, 5 ms after they begin.
        assert_eq!((planned.len(), planned[0].intended), (1000, 10 * second - 5 * MS));
        assert_eq!(planned[999], Due { intended: 10 * second + 994 * MS, due: 10 * second + 999 * MS });
        assert_eq!(of(Truth::Recorded, &told), [], "none of those that arrived was due then");
        let all = of(Truth::Even, &Told::default());
        assert_eq!(all.iter().map(|r| r.intended).collect::<Vec<_>>(), [8 * second + 77, 9 * second]);
        assert_eq!(all[1].due, 9 * second + 5 * MS + 9, "the server sent 9 ns late");
    }

    #[test]
    fn a_server_that_does_not_keep_its_schedule_is_found_out() {
        assert_eq!(check_record(&served(&[100, 200], 50), &[50], Stalls::default()), None);
        assert!(
            check_record(&served(&[100, 200], 51), &[50], Stalls::default()).unwrap().contains("answered 2 requests")
        );
    }
}
