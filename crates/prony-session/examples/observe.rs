//! What observing costs: the same closed load on a running stack, observed as a session does and not at all, in turn.
//!
//! `observe watch|look STACK_FILE PAIRS SECONDS SEED [HOST]` prints one JSON object; `cargo xtask bench observe` brings up a
//! lab and runs it. Both trials of a pair run next to each other, in random order. Invariant: an observed trial has all that a session
//! does (`watch`: samples read, collected, recorded to a file; `look`: the close look at every host but the generator, or at
//! HOST alone), and the other none of it.

use prony_agent::{Agent, AgentError, Reply, Request, Seen};
use prony_model::metric::{SELF_CPU, SELF_LOOK, SELF_LOOK_AROUND};
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
    let (what, file, pairs, seconds, seed) = match args.as_slice() {
        [what, file, pairs, seconds, seed] if what == "watch" => (What::Watch, file, pairs, seconds, seed),
        [what, file, pairs, seconds, seed] if what == "look" => (What::Look { at: None }, file, pairs, seconds, seed),
        [what, file, pairs, seconds, seed, host] if what == "look" => {
            (What::Look { at: Some(host.clone()) }, file, pairs, seconds, seed)
        }
        _ => return Err("usage: observe watch|look STACK_FILE PAIRS SECONDS SEED [HOST]".into()),
    };
    let stack = Stack::parse(file, &std::fs::read_to_string(file)?)?;
    let plan = LoadPlan {
        rate: None,
        warmup: SETTLE,
        duration: Nanos::from_secs_f64(seconds.parse()?),
        ..prony_load::plan_from(&stack, &|path| std::fs::read(path))?
    };
    let scratch = tempfile::tempdir()?;
    let mut trials = Trials::new(what, stack, plan, scratch.path())?;
    let mut random = Random::new(seed.parse()?);
    for _ in 0..pairs.parse::<u32>()? {
        let observed_first = random.below(2) == 1;
        let first = trials.run(observed_first)?;
        let second = trials.run(!observed_first)?;
        trials.pairs.push(if observed_first { (second, first) } else { (first, second) });
    }
    writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&trials.summary()?)?)?;
    Ok(())
}

/// How an observed trial is observed.
enum What {
    Watch,
    /// At one host, or at all but the generator.
    Look {
        at: Option<String>,
    },
}

/// What is loaded, and what came of it.
struct Trials {
    what: What,
    run: Run,
    plan: LoadPlan,
    agents: Agents,
    generator: String,
    writer: Writer,
    series: SeriesSet,
    samples: u64,
    watched: Vec<Window>,
    /// What each instrument of the looks took, by host: shares of one CPU.
    looks: BTreeMap<String, BTreeMap<String, Vec<f64>>>,
    /// CPU seconds before and after each look, by host.
    around_s: BTreeMap<String, Vec<f64>>,
    /// Without being observed, with it.
    pairs: Vec<(LoadResult, LoadResult)>,
}

impl Trials {
    fn new(what: What, stack: Stack, plan: LoadPlan, scratch: &Path) -> Result<Self, Box<dyn Error>> {
        let agents = prony_session::connect(&stack, &scratch.join("journal"));
        let generator = stack.generator().ok_or("the stack names no host with role \"generator\"")?.0.to_string();
        let run = Run { id: "observe".to_string(), stack, ..Run::default() };
        let writer = Writer::create(&scratch.join("observe.prony"), &run)?;
        let (series, watched, pairs) = (SeriesSet::default(), Vec::new(), Vec::new());
        let (looks, around_s) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { what, run, plan, agents, generator, writer, series, samples: 0, watched, looks, around_s, pairs })
    }

    /// One trial: the load from the generator's host, observed or not.
    fn run(&mut self, observed: bool) -> Result<LoadResult, Box<dyn Error>> {
        let watched = observed && matches!(self.what, What::Watch);
        let (sender, seen) = channel();
        if watched {
            let per_second = Effort::default().samples_per_s;
            self.agents.values_mut().for_each(|agent| agent.start_watch(per_second, sender.clone()));
        }
        drop(sender);
        let generator = self.agents.get(&self.generator).ok_or("the generator has no agent")?;
        let replies = generator.begin(Request::Load(Box::new(self.plan.clone())));
        let looks = match &self.what {
            What::Look { at } if observed => self.begin_looks(at.as_deref()),
            What::Look { .. } | What::Watch => Vec::new(),
        };
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
        looks.into_iter().try_for_each(|(host, replies)| self.take_look(host, replies.recv()??))?;
        Ok(*result)
    }

    /// Looks that last as long as the trial.
    fn begin_looks(&self, at: Option<&str>) -> Vec<(String, Receiver<Result<Reply, AgentError>>)> {
        let duration = Nanos(self.plan.warmup.0 + self.plan.duration.0);
        let wanted = |name: &str| at.map_or(name != self.generator, |at| name == at);
        let agents = self.agents.iter().filter(|(name, _)| wanted(name));
        agents.map(|(name, agent)| (name.clone(), agent.begin(Request::Look { duration }))).collect()
    }

    fn take_look(&mut self, host: String, reply: Reply) -> Result<(), Box<dyn Error>> {
        let Reply::Looked(sample, gaps, _) = reply else { return Err("not the reply to a look".into()) };
        if let Some(gap) = gaps.iter().find(|gap| gap.fact == SELF_LOOK.name) {
            return Err(format!("what a look costs cannot be read: {}", gap.reason).into());
        }
        let (shares, around_s) = (self.looks.entry(host.clone()).or_default(), self.around_s.entry(host).or_default());
        for (metric, item, value) in sample.values {
            if metric == SELF_LOOK.name {
                shares.entry(item).or_default().push(value);
            } else if metric == SELF_LOOK_AROUND.name {
                around_s.push(value);
            }
        }
        Ok(())
    }

    fn take_in(&mut self, seen: &Receiver<Seen>, flushed: &mut Instant) -> Result<(), Box<dyn Error>> {
        let mut any = false;
        for seen in seen.try_iter() {
            let Seen::Samples(samples) = seen else { continue };
            for sample in samples {
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
            "look_shares": self.looks,
            "around_s": self.around_s,
        }))
    }

    /// Share of one CPU that reading this host took, for each watched trial.
    fn shares(&self, host: &str) -> Vec<f64> {
        // The counter begins anew with each watch, so a rate is formed within one trial only.
        let points = self.series.points(host, &SELF_CPU, "");
        self.watched.iter().filter_map(|window| SeriesSet::rate(points, *window)).collect()
    }
}
