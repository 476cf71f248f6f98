//! Does what the session says: through agents, into the record, with everything put back at the end.

use crate::cells;
use crate::dose;
use crate::effort::Effort;
use crate::levels::chance;
use crate::machine::{Command, Outcome, Session, TrialOrder};
use crate::server_count;
use prony_agent::{Agent, AgentError, LocalAgent, Reply, Request, Seen};
use prony_model::knob::ChangeState;
use prony_model::run::Inventory;
use prony_model::{
    Event, Gap, InterventionKind, Knob, KnobId, Level, LoadPlan, LoadResult, Purpose, Run, Sample, Stack, Trial, Window,
};
use prony_record::Writer;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the driver looks up while it waits: for samples, for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);
/// The record is written through at least this often, so that a killed run is readable up to its last second.
const FLUSH: Duration = Duration::from_secs(1);

/// Why a session could not be driven.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A host cannot be reached.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Agents for every host of a stack. Observers run on the generator's CPUs, away from what is measured.
pub fn connect(stack: &Stack, journal_dir: &Path) -> BTreeMap<String, Box<dyn Agent>> {
    let observer_cpus = stack.generator().and_then(|(_, host)| host.cpus.clone());
    let agent = |name: &str, host| -> Box<dyn Agent> {
        Box::new(LocalAgent::new(name, host, journal_dir.to_path_buf(), observer_cpus.clone()))
    };
    stack.host.iter().map(|(name, host)| (name.clone(), agent(name, host))).collect()
}

/// Finds out whether these knobs can be turned, without turning them. For each its present value, or why not.
pub fn rehearse(agents: &BTreeMap<String, Box<dyn Agent>>, knobs: &[Knob]) -> Vec<Result<String, Gap>> {
    let one = |knob: &Knob| {
        let agent = agents.get(&knob.host).ok_or_else(|| "the stack has no such host".to_string())?;
        match agent.call(Request::Rehearse(knob.clone())) {
            Ok(Reply::Value(value)) => Ok(value),
            Ok(_) => Err(AgentError::other_reply(&knob.host).reason),
            Err(e) => Err(e.reason),
        }
    };
    knobs.iter().map(|knob| one(knob).map_err(|reason| cells::refused(knob, reason))).collect()
}

/// What every host is, and what of that cannot be read.
pub fn inventories(agents: &BTreeMap<String, Box<dyn Agent>>) -> (Vec<Inventory>, Vec<Gap>) {
    let answers = agents.iter().map(|(host, agent)| taken(host, agent.call(Request::Inventory)));
    let (found, gaps): (Vec<_>, Vec<_>) = answers.unzip();
    (found.into_iter().flatten().collect(), gaps.into_iter().flatten().collect())
}

fn taken(host: &str, reply: Result<Reply, AgentError>) -> (Option<Inventory>, Vec<Gap>) {
    match reply {
        Ok(Reply::Inventory(inventory, gaps)) => (Some(inventory), gaps),
        Ok(_) => (None, vec![Gap::new("inventory", host, AgentError::other_reply(host).reason)]),
        Err(e) => (None, vec![Gap::new("inventory", host, e.reason)]),
    }
}

/// Drives a session to its end and gives back the run. Events go to `watcher` as they happen.
pub fn drive(
    session: Session,
    agents: BTreeMap<String, Box<dyn Agent>>,
    effort: &Effort,
    writer: Option<Writer>,
    watcher: &mut dyn FnMut(&Event),
    interrupted: &AtomicBool,
) -> Result<Run, DriveError> {
    let mut driver = Driver::new(session, agents, writer, watcher, interrupted);
    driver.listen = effort.listen.into();
    driver.meet()?;
    driver.watch(effort.samples_per_s);
    driver.run_to_the_end();
    Ok(driver.close())
}

/// What was changed and is not yet put back.
struct InForce {
    host: String,
    id: u64,
}

struct Driver<'a> {
    session: Session,
    agents: BTreeMap<String, Box<dyn Agent>>,
    writer: Option<Writer>,
    watcher: &'a mut dyn FnMut(&Event),
    interrupted: &'a AtomicBool,
    epoch: Instant,
    /// Agent clock minus session clock, in nanoseconds.
    offsets_ns: BTreeMap<String, i128>,
    seen: Option<Receiver<Seen>>,
    flushed: Instant,
    /// How long hosts are watched before any load.
    listen: Duration,
    /// The newest last.
    in_force: Vec<InForce>,
    trials: u32,
}

impl<'a> Driver<'a> {
    fn new(
        session: Session,
        agents: BTreeMap<String, Box<dyn Agent>>,
        writer: Option<Writer>,
        watcher: &'a mut dyn FnMut(&Event),
        interrupted: &'a AtomicBool,
    ) -> Self {
        let epoch = Instant::now();
        let offsets_ns = BTreeMap::new();
        Self {
            session,
            agents,
            writer,
            watcher,
            interrupted,
            epoch,
            offsets_ns,
            seen: None,
            flushed: epoch,
            listen: Duration::ZERO,
            in_force: Vec::new(),
            trials: 0,
        }
    }

    /// Asks every agent for its time: proves that the host can be entered, and relates the clocks.
    fn meet(&mut self) -> Result<(), DriveError> {
        for (name, agent) in &self.agents {
            if let Reply::Hello { now_ns } = agent.call(Request::Hello)? {
                let offset_ns = i128::from(now_ns) - self.epoch.elapsed().as_nanos() as i128;
                self.offsets_ns.insert(name.clone(), offset_ns);
            }
        }
        Ok(())
    }

    fn watch(&mut self, samples_per_s: f64) {
        let (sender, receiver) = channel();
        for agent in self.agents.values_mut() {
            agent.start_watch(samples_per_s, sender.clone());
        }
        self.seen = Some(receiver);
    }

    fn run_to_the_end(&mut self) {
        let mut outcome = Outcome::Begin;
        loop {
            if self.interrupted.swap(false, Ordering::Relaxed) {
                outcome = Outcome::Interrupted(Box::new(outcome));
            }
            let command = self.session.next(outcome);
            self.tell();
            outcome = match command {
                Command::Finish => return,
                Command::Listen => self.listen(),
                Command::Survey => self.survey(),
                Command::Trial(order) => self.trial(*order),
                Command::Intervene { index } => self.intervene(index),
                Command::Turn(knob) => self.turn(&knob),
                Command::Restore => self.restore(),
                Command::Keep => self.keep(),
            };
        }
    }

    fn close(mut self) -> Run {
        for agent in self.agents.values_mut() {
            agent.stop_watch();
        }
        self.drain();
        let run = self.session.into_run();
        if let Some(Err(e)) = self.writer.take().map(|writer| writer.finish(&run)) {
            (self.watcher)(&Event::Note { text: e.to_string() });
        }
        run
    }

    /// Passes events on, and writes them down.
    fn tell(&mut self) {
        let at_ns = self.now_ns();
        for event in self.session.take_events() {
            (self.watcher)(&event);
            self.write(|w| w.event(at_ns, &event));
        }
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// On the session's clock.
    fn session_ns(&self, host: &str, agent_ns: u64) -> u64 {
        let offset_ns = self.offsets_ns.get(host).copied().unwrap_or(0);
        (i128::from(agent_ns) - offset_ns).max(0) as u64
    }

    /// A record that cannot be written is given up once, aloud; the run goes on, because the measurement is worth more.
    fn write(&mut self, write: impl FnOnce(&mut Writer) -> Result<(), prony_record::RecordError>) {
        let written = self.writer.as_mut().map(write);
        self.written(written.unwrap_or(Ok(())));
    }

    fn write_sample(&mut self, sample: &Sample) {
        if let Some(writer) = &mut self.writer {
            writer.sample(sample);
        }
    }

    fn written(&mut self, written: Result<(), prony_record::RecordError>) {
        if let Err(e) = written {
            (self.watcher)(&Event::Note { text: format!("{e}; the run goes on without a record") });
            self.session.miss(Gap::new("record", "", e.to_string()));
            self.writer = None;
        }
    }

    /// Takes in what the watches sent meanwhile.
    fn drain(&mut self) {
        let seen: Vec<Seen> = self.seen.iter().flat_map(|receiver| receiver.try_iter()).collect();
        for seen in seen {
            match seen {
                Seen::Samples(samples) => {
                    for mut sample in samples {
                        sample.at_ns = self.session_ns(&sample.host, sample.at_ns);
                        self.session.observe(&sample);
                        self.write_sample(&sample);
                    }
                }
                Seen::Gap(gap) => self.session.miss(gap),
            }
        }
        if self.flushed.elapsed() >= FLUSH {
            self.flushed = Instant::now();
            let written = self.writer.as_mut().map(|w| w.update(self.session.run()).and_then(|()| w.flush()));
            self.written(written.unwrap_or(Ok(())));
        }
    }

    /// Waits for a reply; takes in samples and looks for Ctrl-C meanwhile.
    fn wait(&mut self, host: &str, replies: &Receiver<Result<Reply, AgentError>>) -> Result<Reply, AgentError> {
        loop {
            match replies.recv_timeout(TICK) {
                Ok(reply) => return reply,
                Err(RecvTimeoutError::Timeout) => self.drain(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(AgentError::ended(host));
                }
            }
            if self.interrupted.load(Ordering::Relaxed) {
                self.agents.values().for_each(|a| a.stop_load());
            }
        }
    }

    fn ask(&mut self, host: &str, request: Request) -> Result<Reply, AgentError> {
        let Some(agent) = self.agents.get(host) else {
            return Err(AgentError { host: host.to_string(), reason: "the stack has no such host".to_string() });
        };
        let replies = agent.begin(request);
        self.wait(host, &replies)
    }

    fn listen(&mut self) -> Outcome {
        let from_ns = self.now_ns();
        let begun = Instant::now();
        while begun.elapsed() < self.listen && !self.interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
            self.drain();
        }
        Outcome::Listened(Window { from_ns, to_ns: self.now_ns() })
    }

    fn survey(&mut self) -> Outcome {
        let hosts: Vec<String> = self.agents.keys().cloned().collect();
        let (mut inventories, mut gaps) = (Vec::new(), Vec::new());
        for host in hosts {
            let (inventory, missing) = taken(&host, self.ask(&host, Request::Inventory));
            inventories.extend(inventory);
            gaps.extend(missing);
            let generator =
                self.session.run().stack.host.get(&host).is_some_and(|h| h.role == prony_model::Role::Generator);
            if !generator {
                gaps.extend(self.looked(&host, Request::Prices));
            }
        }
        Outcome::Surveyed(inventories, gaps)
    }

    /// A close look or the prices; its facts join the series, its gaps come back.
    fn looked(&mut self, host: &str, request: Request) -> Vec<Gap> {
        match self.ask(host, request) {
            Ok(reply) => self.take_look(host, reply),
            Err(e) => vec![Gap::new("look", host, e.reason)],
        }
    }

    fn take_look(&mut self, host: &str, reply: Reply) -> Vec<Gap> {
        let Reply::Looked(mut sample, gaps, stacks) = reply else { return Vec::new() };
        sample.at_ns = self.session_ns(host, sample.at_ns);
        if let Some(mut stacks) = stacks {
            stacks.at_ns = sample.at_ns;
            self.session.profiled(stacks);
        }
        self.session.observe(&sample);
        self.write_sample(&sample);
        gaps
    }

    fn trial(&mut self, mut order: TrialOrder) -> Outcome {
        let id = self.trials;
        self.trials += 1;
        order.plan = match order.purpose {
            // Those that are held against each other share their chances, as their plan says.
            Purpose::Proof { .. } | Purpose::Intervention { .. } | Purpose::Cell { .. } => order.plan,
            Purpose::Warmup | Purpose::Level { .. } | Purpose::Inspect | Purpose::Curve | Purpose::Load => {
                chance(order.plan, id)
            }
        };
        // A stack that ceases to let anybody in, for want of something, is to be diagnosed like any other.
        let run = self.session.run();
        let looks_for_causes = match order.purpose {
            Purpose::Level { .. } | Purpose::Inspect | Purpose::Intervention { .. } => true,
            Purpose::Curve => run.level(Level::At).is_some(),
            Purpose::Warmup | Purpose::Load | Purpose::Proof { .. } | Purpose::Cell { .. } => false,
        };
        order.plan.reached = looks_for_causes && run.trials.iter().any(|trial| trial.result.completed > 0);
        let (seconds, left_s) = (order.plan.seconds(), self.session.planned_s());
        (self.watcher)(&Event::TrialStarted { id, label: order.label.clone(), seconds, left_s });
        let generator = self.generator();
        let Some(agent) = self.agents.get(&generator) else {
            return Outcome::Failed("the stack names no host with role \"generator\"".to_string());
        };
        let replies = agent.begin(Request::Load(Box::new(order.plan.clone())));
        let looks = if order.purpose == Purpose::Inspect { self.begin_looks(&order.plan) } else { Vec::new() };
        let outcome = match self.wait(&generator, &replies) {
            Ok(Reply::Loaded(window, result)) => self.trial_done(id, order, window, *result),
            Ok(_) => Outcome::Failed(AgentError::other_reply(&generator).to_string()),
            Err(e) => Outcome::Failed(e.to_string()),
        };
        for (host, replies) in looks {
            let gaps = match self.wait(&host, &replies) {
                Ok(reply) => self.take_look(&host, reply),
                Err(e) => vec![Gap::new("look", &host, e.reason)],
            };
            gaps.into_iter().for_each(|gap| self.session.miss(gap));
        }
        outcome
    }

    fn trial_done(&mut self, id: u32, order: TrialOrder, window: Window, mut result: LoadResult) -> Outcome {
        let generator = self.generator();
        let window = Window {
            from_ns: self.session_ns(&generator, window.from_ns),
            to_ns: self.session_ns(&generator, window.to_ns),
        };
        // What the hosts showed until now belongs to the trial.
        self.drain();
        result.gates.extend(server_count::gate(self.session.run(), window, &result));
        let (good_per_s, p99_us, errors) = (result.good_per_s, result.latency.p99_us, result.errors.total());
        let trial = Trial { id, purpose: order.purpose, plan: order.plan, window, result };
        self.write(|w| w.trial(&trial));
        let at_ns = self.now_ns();
        let done = Event::TrialDone { id, good_per_s, p99_us, errors };
        (self.watcher)(&done);
        self.write(|w| w.event(at_ns, &done));
        Outcome::Trial(Box::new(trial))
    }

    fn begin_looks(&self, plan: &LoadPlan) -> Vec<(String, Receiver<Result<Reply, AgentError>>)> {
        let generator = self.generator();
        let others = self.agents.iter().filter(|(name, _)| **name != generator);
        others.map(|(name, agent)| (name.clone(), agent.begin(Request::Look { duration: plan.duration }))).collect()
    }

    fn generator(&self) -> String {
        self.session.run().stack.generator().map(|(name, _)| name.to_string()).unwrap_or_default()
    }

    fn intervene(&mut self, index: usize) -> Outcome {
        let Some(planned) = self.session.run().interventions.get(index).cloned() else {
            return Outcome::Failed("no such intervention".to_string());
        };
        let host = planned.target.clone();
        let request = match planned.what {
            InterventionKind::Concurrency
            | InterventionKind::Rate
            | InterventionKind::LowerRate
            | InterventionKind::KeepAlive
            | InterventionKind::Placebo => return Outcome::Done,
            InterventionKind::Removal { .. } => return self.turn_all(&planned.what.knobs()),
            InterventionKind::LinkRate { interface, from_bits_per_s } => {
                let rate = prony_model::BitRate((from_bits_per_s * (1.0 - planned.dose)).round());
                Request::Apply(Knob { host: host.clone(), id: KnobId::LinkRate(interface), value: rate.to_string() })
            }
            InterventionKind::Cpu => {
                match dose::slowed_cpus(self.session.run(), &host, planned.dose, planned.at_rate) {
                    Ok(cpus) => Request::SlowCpu { cpus, period: dose::period(planned.at_rate) },
                    Err(gap) => return Outcome::Failed(gap.reason),
                }
            }
        };
        match self.apply(&host, request) {
            Ok(_) => Outcome::Done,
            Err(e) => Outcome::Failed(e.reason),
        }
    }

    /// Turns all of them or, when one cannot be turned, none. One that has its value already does not keep the others from theirs.
    fn turn_all(&mut self, knobs: &[&Knob]) -> Outcome {
        let (set, open): (Vec<&Knob>, Vec<&Knob>) = knobs.iter().partition(|knob| knobs.len() > 1 && self.is_set(knob));
        let wanted = if open.is_empty() { set } else { open };
        for (turned, knob) in wanted.into_iter().enumerate() {
            if let Err(e) = self.apply(&knob.host, Request::Apply(knob.clone())) {
                let undone: Vec<Outcome> = (0..turned).map(|_| self.restore()).collect();
                let stuck = undone.into_iter().find(|outcome| matches!(outcome, Outcome::Failed(_)));
                return stuck.unwrap_or(Outcome::Failed(e.reason));
            }
        }
        Outcome::Done
    }

    fn is_set(&mut self, knob: &Knob) -> bool {
        matches!(self.ask(&knob.host, Request::Rehearse(knob.clone())), Ok(Reply::Value(value)) if value == knob.value)
    }

    fn turn(&mut self, knob: &Knob) -> Outcome {
        match self.apply(&knob.host, Request::Apply(knob.clone())) {
            Ok(change) => Outcome::Turned(Box::new(change)),
            Err(e) => Outcome::Failed(format!("{} = {} at {}: {}", knob.id, knob.value, knob.host, e.reason)),
        }
    }

    fn apply(&mut self, host: &str, request: Request) -> Result<prony_model::Change, AgentError> {
        if let Reply::Applied { id, change } = self.ask(host, request)? {
            self.in_force.push(InForce { host: host.to_string(), id });
            return Ok(change);
        }
        Err(AgentError::other_reply(host))
    }

    fn restore(&mut self) -> Outcome {
        let Some(InForce { host, id }) = self.in_force.pop() else { return Outcome::Done };
        match self.ask(&host, Request::Undo { id }) {
            Ok(Reply::Restored(restored)) => Outcome::Restored(restored.state, restored.detail),
            Ok(_) => Outcome::Failed(AgentError::other_reply(&host).to_string()),
            Err(e) => Outcome::Failed(e.to_string()),
        }
    }

    fn keep(&mut self) -> Outcome {
        let Some(InForce { host, id }) = self.in_force.pop() else { return Outcome::Done };
        match self.ask(&host, Request::Keep { id }) {
            Ok(_) => Outcome::Restored(ChangeState::Kept, "kept".to_string()),
            Err(e) => Outcome::Failed(e.to_string()),
        }
    }
}
