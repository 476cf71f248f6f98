//! The threads of one load: started together, watched over, and asked how they are doing.
//!
//! It sends nothing itself. Invariant: every thread that was started has ended when [`Crew::work`] returns.

use crate::Listener;
use crate::engine::{Outcome, Route, Share, Worker};
use crate::error::LoadError;
use crate::live::Published;
use crate::pacer::{Closed, Open, Pacer, Part, Schedule};
use crate::protocol::Protocol;
use crate::request::{Choice, Mix, Requests};
use crate::scenario::{Actor, Scenario, ThreadFeeds, ThreadPart};
use crate::source::{Play, Source};
use crate::sys;
use crate::tally::Counted;
use crate::target::{Endpoint, Target};
use crate::transport::{self, ByEpoll, ByRing, Transport as _};
use crate::watch::Watch;
use prony_model::load::{LoadInterval, LoadPlan, Transport};
use prony_model::profile::Profile;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How often threads are asked where a plan wants its intervals and nobody listens. A guess: they are a second long, and end
/// with the next look.
const INTERVALS_EVERY: Duration = Duration::from_millis(250);
/// How often the caller's stop flag is looked at. A guess: a person does not notice 50 ms, and each look takes 20 us from a load
/// that shares its CPU.
const STOP_EVERY: Duration = Duration::from_millis(50);
/// Threads need this long to start and allocate before the schedule begins. Measured on this kind of machine: below 1 ms per thread.
const START_NS: u64 = 5_000_000;

/// Share of the warm-up of a closed loop over which its connections open. All at once they would go on in step: where a server ends
/// each after so many requests, all handshakes fall together again and again, and what a trial counts depends on how many such waves it
/// holds. An open loop needs its connections from the first arrival on. A guess: what is left brings the first answers of the last one.
const OPENING_SHARE: f64 = 0.75;

/// The threads of one load.
pub struct Crew<'a> {
    /// What is asked.
    pub plan: &'a LoadPlan,
    /// The URL of the plan.
    pub target: &'a Target,
    /// Where connections go.
    pub route: &'a Route,
    /// What is played instead of a fixed list of requests.
    pub scenario: Option<Arc<Scenario>>,
    /// Walks of it that an earlier load left, to go on with.
    pub walks: Mutex<Vec<Actor>>,
    /// Whether what its walks save is wanted: a prepare phase.
    pub prepares: bool,
    /// How many threads.
    pub threads: u32,
    /// Whether each needs a table of descriptors of its own.
    pub own_table: bool,
}

/// What the threads brought.
pub struct Worked {
    /// Of each thread.
    pub outcomes: Vec<Outcome>,
    /// The counted time in stretches, if the plan asks for them.
    pub intervals: Vec<LoadInterval>,
    /// Where the calls stood in their walks at the end, and those walks that nobody went on with.
    pub walks: Vec<Actor>,
}

/// What all threads of one load have in common.
struct Task<R> {
    protocol: R,
    requests: Requested,
    /// None in closed loop.
    schedule: Option<Schedule>,
    epoch_ns: u64,
    counted: Counted,
}

/// What is sent, shared by all threads.
enum Requested {
    Fixed(Arc<Requests>),
    Played(Arc<Scenario>, Mix),
}

impl Crew<'_> {
    /// Starts the threads, watches over them, and collects what they bring.
    ///
    /// # Errors
    /// As [`crate::run`].
    pub fn work<R: Protocol + Sync>(
        &self,
        protocol: R,
        stop: &AtomicBool,
        listener: Option<Listener<'_>>,
    ) -> Result<Worked, LoadError> {
        let requests = match &self.scenario {
            None => Requested::Fixed(Arc::new(Requests::encode(self.plan, self.target, &protocol)?)),
            Some(scenario) if scenario.walk_count() == 1 => Requested::Played(Arc::clone(scenario), Mix::ONE),
            Some(scenario) => Requested::Played(Arc::clone(scenario), Mix::of(&self.plan.requests)?),
        };
        let schedule = Schedule::of(self.plan);
        let epoch_ns = sys::clock_ns() + START_NS;
        let start_ns = epoch_ns + self.plan.warmup.0;
        let counted = Counted { start_ns, end_ns: start_ns + self.plan.duration.0 };
        let task = Task { protocol, requests, schedule, epoch_ns, counted };
        let halt = AtomicBool::new(false);
        let running = AtomicU32::new(self.threads);
        let watcher = thread::current();
        let published: Vec<Published> = (0..self.threads).map(|_| Published::default()).collect();
        thread::scope(|scope| {
            let spawn = |number: u32| {
                let (halt, published, task) = (&halt, &published[number as usize], &task);
                let ending = Ending { running: &running, watcher: watcher.clone() };
                let named = thread::Builder::new().name(format!("load-{number}"));
                named.spawn_scoped(scope, move || {
                    let _ending = ending;
                    let outcome = self.work_alone(number, task, halt, published);
                    if outcome.is_err() {
                        halt.store(true, Ordering::Relaxed);
                    }
                    outcome
                })
            };
            let mut workers = Vec::new();
            for number in 0..self.threads {
                match spawn(number) {
                    Ok(worker) => workers.push(worker),
                    Err(source) => {
                        halt.store(true, Ordering::Relaxed);
                        return Err(LoadError::System { call: "clone", source, next: "use fewer threads" });
                    }
                }
            }
            let mut watch = Watch::new(self.plan, task.epoch_ns);
            self.watch_over(&mut watch, &published, listener, || {
                if stop.load(Ordering::Relaxed) {
                    halt.store(true, Ordering::Relaxed);
                }
                running.load(Ordering::Acquire) > 0
            });
            let join = |worker: thread::ScopedJoinHandle<'_, _>| match worker.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let mut outcomes = workers.into_iter().map(join).collect::<Result<Vec<_>, _>>()?;
            let intervals = watch.into_intervals(&published, &outcomes);
            for (outcome, published) in outcomes.iter_mut().zip(&published) {
                published.give_back(&mut outcome.tally, self.plan.is_open_loop());
            }
            let walks = self.left_by(&mut outcomes);
            Ok(Worked { outcomes, intervals, walks })
        })
    }

    /// Asks the threads how they are doing, if somebody wants to know, for as long as they run.
    fn watch_over(
        &self,
        watch: &mut Watch,
        published: &[Published],
        listener: Option<Listener<'_>>,
        is_running: impl Fn() -> bool,
    ) {
        let every = listener.map(|l| l.every).or(self.plan.intervals.then_some(INTERVALS_EVERY));
        let (mut told, mut asked) = (Instant::now(), false);
        while is_running() {
            thread::park_timeout(STOP_EVERY);
            let Some(every) = every else { continue };
            if told.elapsed() >= every && asked {
                (told, asked) = (Instant::now(), false);
                watch.look(published, listener.map(|l| l.tell));
            } else if told.elapsed() + STOP_EVERY >= every && !asked {
                // A tick ahead, so that what is told is fresh.
                asked = true;
                published.iter().for_each(Published::ask);
            }
        }
    }

    fn work_alone<R: Protocol>(
        &self,
        number: u32,
        task: &Task<R>,
        halt: &AtomicBool,
        published: &Published,
    ) -> Result<Outcome, LoadError> {
        let plan = self.plan;
        sys::precise_timers();
        if let Some(cpu) = plan.cpus.get(number as usize % plan.cpus.len().max(1)) {
            let next = "name CPUs that are online and allowed here (`nproc`, `taskset -p $$`)";
            sys::pin(*cpu).map_err(|source| LoadError::System { call: "sched_setaffinity", source, next })?;
        }
        // Even where there is room enough: the kernel counts no references in a table that nobody shares.
        match sys::own_descriptors() {
            Err(source) if self.own_table => {
                let next = "use fewer connections, or raise `ulimit -n`";
                return Err(LoadError::System { call: "unshare(CLONE_FILES)", source, next });
            }
            Ok(()) | Err(_) => {}
        }
        let share = self.share(number, task);
        let seed = plan.seed.wrapping_add(u64::from(number) << 32);
        let connections = share.connections;
        let source = self.source(number, seed, connections, task);
        let told = Told { halt, published };
        match &task.schedule {
            None => match self.ring(connections) {
                Some(ring) => self.finish(Closed, share, task, source, ring, told),
                None => self.finish(Closed, share, task, source, by_epoll(connections)?, told),
            },
            Some(schedule) => {
                let of_all = f64::from(share.connections) / f64::from(plan.connections);
                let part = Part { number, threads: self.threads, share: of_all };
                // Arrivals and choices must not follow the same random numbers.
                let pacer = Open::new(schedule, plan.arrivals, part, task.epoch_ns, !seed);
                self.finish(pacer, share, task, source, by_epoll(connections)?.telling_arrivals(), told)
            }
        }
    }

    /// io_uring for closed loops, where it gains, as long as the kernel does not refuse it. Measured against epoll with
    /// `examples/load.rs`, kept connections: 0.95 times the CPU time per request, with pipelining 0.91, HTTP/2 0.94. In open loop
    /// bare loops of both cost the same, and TLS needs system calls of its own.
    fn ring(&self, connections: u32) -> Option<ByRing> {
        let plain = self.route.tls.is_none() && self.route.endpoints.iter().all(|e| matches!(e, Endpoint::Tcp(_)));
        let kept = self.route.requests_per_connection == u32::MAX;
        let wanted = match self.plan.transport {
            Some(Transport::Epoll) => false,
            Some(Transport::IoUring) => plain,
            None => plain && kept,
        };
        wanted.then(|| ByRing::new(connections).ok()).flatten()
    }

    fn source<R: Protocol>(&self, number: u32, seed: u64, connections: u32, task: &Task<R>) -> Source {
        let replayed = matches!(self.plan.profile, Some(Profile::Times(_)));
        let choice = |count: usize| match replayed {
            true => Choice::every(number as usize, self.threads as usize, seed),
            false => Choice::new(count * number as usize / self.threads as usize, seed),
        };
        match &task.requests {
            Requested::Fixed(requests) => {
                Source::Fixed { requests: Arc::clone(requests), choice: choice(requests.list.len()) }
            }
            Requested::Played(scenario, mix) => {
                let feeds = ThreadFeeds::new(scenario, ThreadPart { number, of: self.threads }, seed.rotate_left(7));
                let calls = connections * task.protocol.depth();
                let choice = choice(scenario.walk_count());
                let walks = self.walks_for(calls, scenario);
                let play = Play::new(scenario, mix.clone(), choice, feeds, calls, &task.protocol).resuming(walks);
                Source::Played(Box::new(if self.prepares { play.keep_saved() } else { play }))
            }
        }
    }

    /// As many of the walks that were left as there are calls for.
    fn walks_for(&self, calls: u32, scenario: &Scenario) -> Vec<Actor> {
        let mut left = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = left.len().saturating_sub(calls as usize);
        left.split_off(kept).into_iter().filter(|actor| scenario.fits(actor)).collect()
    }

    fn left_by(&self, outcomes: &mut [Outcome]) -> Vec<Actor> {
        let mut walks = std::mem::take(&mut *self.walks.lock().unwrap_or_else(PoisonError::into_inner));
        for outcome in outcomes {
            match &mut outcome.source {
                Source::Fixed { .. } => {}
                Source::Played(play) => walks.append(&mut play.take_actors()),
            }
        }
        walks
    }

    /// One thread's part of the connections, of the requests and of the rate at which connections open.
    fn share<R>(&self, number: u32, task: &Task<R>) -> Share {
        let part = |total: u64| {
            total / u64::from(self.threads) + u64::from(u64::from(number) < total % u64::from(self.threads))
        };
        let gap_ns = |rate: prony_model::Rate| (1e9 * f64::from(self.threads) / rate.0) as u64;
        let connections = part(u64::from(self.plan.connections));
        let connect_gap_ns = self.plan.connect_rate.map_or(0, gap_ns);
        Share {
            connections: connections as u32,
            first: self.plan.connections * number / self.threads,
            requests_max: self.plan.requests_max.map_or(u64::MAX, part),
            opening_gap_ns: connect_gap_ns.max(opening_gap_ns(self.plan, connections)),
            connect_gap_ns,
            epoch_ns: task.epoch_ns,
            counted: task.counted,
        }
    }

    fn finish<P: Pacer + Clone, R: Protocol, T: transport::Transport>(
        &self,
        pacer: P,
        share: Share,
        task: &Task<R>,
        source: Source,
        transport: T,
        told: Told<'_>,
    ) -> Result<Outcome, LoadError> {
        let worker = Worker::new(self.route, share, pacer, &task.protocol, source, transport);
        worker.run(told.halt, told.published).map_err(|source| match T::NAME {
            Transport::Epoll => cannot_wait(source),
            Transport::IoUring => {
                LoadError::System { call: "io_uring_enter", source, next: "go by epoll: `--no-io-uring`" }
            }
        })
    }
}

/// Says when a thread ends, be it in a panic, so that nobody waits for a tick to see it.
struct Ending<'a> {
    running: &'a AtomicU32,
    watcher: Thread,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Release);
        self.watcher.unpark();
    }
}

/// How a thread and the one that watches over it hear of each other.
struct Told<'a> {
    halt: &'a AtomicBool,
    published: &'a Published,
}

fn by_epoll(connections: u32) -> Result<ByEpoll, LoadError> {
    transport::Transport::new(connections).map_err(cannot_wait)
}

fn cannot_wait(source: io::Error) -> LoadError {
    LoadError::System {
        call: "epoll_pwait2",
        source,
        next: "prony needs Linux 5.11 or later, and `ulimit -n` must leave room for one descriptor per thread",
    }
}

/// Time between the first connections of a thread that has so many.
fn opening_gap_ns(plan: &LoadPlan, connections: u64) -> u64 {
    let share = if plan.is_open_loop() { 0.0 } else { OPENING_SHARE };
    (plan.warmup.0 as f64 * share) as u64 / connections.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{Nanos, Rate};

    #[test]
    fn a_closed_loop_opens_its_connections_during_the_warm_up() {
        let closed = LoadPlan { warmup: Nanos::from_millis(400), ..LoadPlan::to("http://127.0.0.1/") };
        assert_eq!(opening_gap_ns(&closed, 10), 30_000_000);
        assert_eq!(opening_gap_ns(&LoadPlan { warmup: Nanos(0), ..closed.clone() }, 10), 0);
        assert_eq!(opening_gap_ns(&LoadPlan { rate: Some(Rate(100.0)), ..closed.clone() }, 10), 0);
        assert_eq!(opening_gap_ns(&closed, 0), 300_000_000, "a thread without any");
    }
}
