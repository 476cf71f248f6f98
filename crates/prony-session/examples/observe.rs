//! What observing costs: the same closed load on a running stack, with the watch of a session and without, in turn.
//!
//! `observe STACK_FILE PAIRS SECONDS SEED` prints one JSON object; `cargo xtask bench observe` brings up a lab and runs it.
//! Both trials of a pair run next to each other, in random order. Invariant: a watched trial does all that a session does
//! with samples (read, collect, record to a file), and an unwatched one none of it.

use prony_agent::{Agent, Reply, Request, Seen};
use prony_model::metric::SELF_CPU;
use prony_model::{LoadPlan, LoadResult, Nanos, Run, SeriesSet, Stack, Window};
use prony_record::Writer;
use prony_session::Effort;
use prony_stats::paired::compare;
use prony_stats::random::Random;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often samples are taken in, as the session's driver does.
const TICK: Duration = Duration::from_millis(50);
/// How often the record is written through, as the driver does.
const FLUSH: Duration = Duration::from_secs(1);
/// Uncounted start of each trial. A guess: connections open, and the watch is past its first, dear sample.
const SETTLE: Nanos = Nanos::from_millis(400);

type Agents = BTreeMap<String, Box<dyn Agent>>;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, pairs, seconds, seed] = args.as_slice() else {
        return Err("usage: observe STACK_FILE PAIRS SECONDS SEED".into());
    };
    let stack = Stack::parse(file, &std::fs::read_to_string(file)?)?;
    let plan = LoadPlan {
        rate: None,
        warmup: SETTLE,
        duration: Nanos::from_secs_f64(seconds.parse()?),
        ..prony_load::plan_from(&stack, &|path| std::fs::read(path))?
    };
    let scratch = tempfile::tempdir()?;
    let mut trials = Trials::new(stack, plan, scratch.path())?;
    let mut random = Random::new(seed.parse()?);
    for _ in 0..pairs.parse::<u32>()? {
        let watched_first = random.below(2) == 1;
        let first = trials.run(watched_first)?;
        let second = trials.run(!watched_first)?;
        trials.pairs.push(if watched_first { (second, first) } else { (first, second) });
    }
    writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&trials.summary()?)?)?;
    Ok(())
}

/// What is loaded, and what came of it.
struct Trials {
    run: Run,
    plan: LoadPlan,
    agents: Agents,
    generator: String,
    writer: Writer,
    series: SeriesSet,
    samples: u64,
    watched: Vec<Window>,
    /// Without the watch, with it.
    pairs: Vec<(LoadResult, LoadResult)>,
}

impl Trials {
    fn new(stack: Stack, plan: LoadPlan, scratch: &Path) -> Result<Self, Box<dyn Error>> {
        let agents = prony_session::connect(&stack, &scratch.join("journal"));
        let generator = stack.generator().ok_or("the stack names no host with role \"generator\"")?.0.to_string();
        let run = Run { id: "observe".to_string(), stack, ..Run::default() };
        let writer = Writer::create(&scratch.join("observe.prony"), &run)?;
        let (series, pairs) = (SeriesSet::default(), Vec::new());
        Ok(Self { run, plan, agents, generator, writer, series, samples: 0, watched: Vec::new(), pairs })
    }

    /// One trial: the load from the generator's host, watched or not.
    fn run(&mut self, watched: bool) -> Result<LoadResult, Box<dyn Error>> {
        let (sender, seen) = channel();
        if watched {
            let per_second = Effort::default().samples_per_s;
            self.agents.values_mut().for_each(|agent| agent.start_watch(per_second, sender.clone()));
        }
        drop(sender);
        let generator = self.agents.get(&self.generator).ok_or("the generator has no agent")?;
        let replies = generator.begin(Request::Load(Box::new(self.plan.clone())));
        let mut flushed = Instant::now();
        let reply = loop {
            match replies.recv_timeout(TICK) {
                Ok(reply) => break reply?,
                Err(RecvTimeoutError::Timeout) => self.take_in(&seen, &mut flushed)?,
                Err(RecvTimeoutError::Disconnected) => return Err("the generator ended before it answered".into()),
            }
        };
        self.agents.values_mut().for_each(|agent| agent.stop_watch());
        self.take_in(&seen, &mut flushed)?;
        let Reply::Loaded(window, result) = reply else { return Err("not the reply to a load".into()) };
        if watched {
            self.watched.push(window);
        }
        Ok(*result)
    }

    fn take_in(&mut self, seen: &Receiver<Seen>, flushed: &mut Instant) -> Result<(), Box<dyn Error>> {
        let mut any = false;
        for seen in seen.try_iter() {
            if let Seen::Sample(sample) = seen {
                self.series.add(&sample);
                self.writer.sample(&sample);
                self.samples += 1;
                any = true;
            }
        }
        if any && flushed.elapsed() >= FLUSH {
            *flushed = Instant::now();
            self.writer.update(&self.run)?;
            self.writer.flush()?;
        }
        Ok(())
    }

    fn summary(&self) -> Result<serde_json::Value, Box<dyn Error>> {
        let effect = |metric: &str, of: fn(&LoadResult) -> f64| {
            let numbers: Vec<(f64, f64)> = self.pairs.iter().map(|(a, b)| (of(a), of(b))).collect();
            compare(metric, &numbers).ok_or("fewer than 3 pairs, or a trial without an answer")
        };
        let errors: u64 = self.pairs.iter().map(|(a, b)| a.errors.total() + b.errors.total()).sum();
        let shares: BTreeMap<&String, Vec<f64>> = self.agents.keys().map(|host| (host, self.shares(host))).collect();
        Ok(serde_json::json!({
            "throughput": effect("good_per_s", |r| r.good_per_s)?,
            "p99": effect("p99_us", |r| r.latency.p99_us)?,
            "errors": errors,
            "samples_per_s": Effort::default().samples_per_s,
            "samples": self.samples,
            "cpu_shares": shares,
        }))
    }

    /// Share of one CPU that reading this host took, for each watched trial.
    fn shares(&self, host: &str) -> Vec<f64> {
        // The counter begins anew with each watch, so a rate is formed within one trial only.
        let points = self.series.points(host, &SELF_CPU, "");
        self.watched.iter().filter_map(|window| SeriesSet::rate(points, *window)).collect()
    }
}
