//! The session as a state machine: which command comes next, given what came of the last one.

use crate::cells::{self, CellTask};
use crate::effort::Effort;
use crate::interventions::Round;
use crate::limit::{LimitGoal, LimitSearch, Step};
use crate::proofs::{Further, Precision};
use crate::{budget, cost, interventions, levels, proofs, quiet};
use prony_model::comparison::EarlierAa;
use prony_model::knob::ChangeState;
use prony_model::run::Inventory;
use prony_model::{
    Change, Event, Gap, Intervention, Knob, Level, LoadPlan, Nanos, Purpose, Run, RunEnd, Sample, Share, Stacks, Trial,
    Window,
};
use std::collections::VecDeque;

/// Time that a diagnosis takes at most unless the user says otherwise.
pub const BUDGET: Nanos = Nanos(120_000_000_000);

/// What the user wants to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// How much can it carry, and how much within the objective?
    Limit(Box<LimitGoal>),
    /// What stops it?
    Diagnose {
        /// Whether to slow things down for proof; otherwise only watch.
        intervene: bool,
        /// Time for all of it: interventions take what is left of it after the levels of load.
        budget: Nanos,
    },
    /// What comes of each of these cells of an experiment, in this order?
    Cells(Vec<CellTask>),
    /// What do I change, and did that help?
    Prove {
        /// What to change.
        remedy: Remedy,
        /// Leave the change in place if it is proven better.
        keep: bool,
        /// What earlier proofs say of this machine.
        earlier: EarlierAa,
        /// How exact it is to be.
        precision: Precision,
    },
}

/// What a proof changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Remedy {
    /// What the diagnosis names.
    Diagnosed,
    /// What the user names; no diagnosis is made.
    Chosen(Knob),
    /// Nothing: an A/A run, which must come out as no difference.
    Nothing,
}

/// A trial to run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialOrder {
    /// Why.
    pub purpose: Purpose,
    /// What to send.
    pub plan: LoadPlan,
    /// A few words for the person who watches.
    pub label: String,
}

/// What the driver is to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Watch the hosts for a moment before any load.
    Listen,
    /// Ask every host what it is, and what a connection and a log write cost there.
    Survey,
    /// Run a trial. For [`Purpose::Inspect`], take close looks meanwhile.
    Trial(Box<TrialOrder>),
    /// Make the target of `run.interventions[index]` worse.
    Intervene {
        /// Which.
        index: usize,
    },
    /// Turn a knob.
    Turn(Knob),
    /// Put back the newest change of [`Command::Intervene`] or [`Command::Turn`] that is in force.
    Restore,
    /// Leave what [`Command::Turn`] changed in place for good.
    Keep,
    /// The run is over.
    Finish,
}

impl Command {
    /// The trial that it runs, if it runs one.
    pub(crate) fn trial(&self) -> Option<&TrialOrder> {
        match self {
            Self::Trial(order) => Some(order),
            Self::Listen
            | Self::Survey
            | Self::Intervene { .. }
            | Self::Turn(_)
            | Self::Restore
            | Self::Keep
            | Self::Finish => None,
        }
    }
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing was asked yet.
    Begin,
    /// It is done.
    Done,
    /// The hosts were watched without load within this window.
    Listened(Window),
    /// What the hosts are.
    Surveyed(Vec<Inventory>, Vec<Gap>),
    /// A trial ended.
    Trial(Box<Trial>),
    /// A knob was turned.
    Turned(Box<Change>),
    /// Something was put back, or left alone because someone else had changed it.
    Restored(ChangeState, String),
    /// It could not be done.
    Failed(String),
    /// The user pressed Ctrl-C; what came of the command stands inside.
    Interrupted(Box<Outcome>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Survey,
    Hold,
    Warmup,
    Cells,
    AtTheLimit,
    Levels,
    Intervene,
    Search,
    Prove,
    Keep,
    End,
}

/// The state machine of a run.
pub struct Session {
    goal: Goal,
    effort: Effort,
    base: LoadPlan,
    seed: u64,
    stage: Stage,
    queue: VecDeque<Command>,
    last: Option<Command>,
    /// The interventions under way.
    round: Option<Round>,
    search: Option<LimitSearch>,
    knob: Option<Knob>,
    /// Knobs that stay turned from the warm-up to the end.
    held: Vec<Knob>,
    /// What the driver has changed and not put back, the newest last; none: an intervention.
    in_force: Vec<Option<Knob>>,
    run: Run,
    events: Vec<Event>,
}

impl Session {
    /// A session for `run` (with its stack and command filled in). `base` is the workload as a load plan.
    pub fn new(goal: Goal, effort: Effort, base: LoadPlan, run: Run) -> Self {
        let seed = base.seed;
        Self {
            goal,
            effort,
            base,
            seed,
            stage: Stage::Start,
            queue: VecDeque::new(),
            last: None,
            round: None,
            search: None,
            knob: None,
            held: Vec::new(),
            in_force: Vec::new(),
            run,
            events: Vec::new(),
        }
    }

    /// The same session with these knobs turned from before the warm-up to the end. Not for a goal that intervenes.
    #[must_use]
    pub fn holding(self, held: Vec<Knob>) -> Self {
        Self { held, ..self }
    }

    /// The next command, given what came of the last one. After [`Command::Finish`] the session is over.
    pub fn next(&mut self, outcome: Outcome) -> Command {
        self.absorb(outcome);
        while self.queue.is_empty() {
            if self.stage == Stage::End {
                return Command::Finish;
            }
            self.advance();
        }
        let command = self.queue.pop_front().unwrap_or(Command::Finish);
        self.last = Some(command.clone());
        command
    }

    /// Seconds of the trials that are planned by now, without the one that runs.
    pub fn planned_s(&self) -> f64 {
        self.queue.iter().filter_map(Command::trial).fold(0.0, |sum, order| sum + order.plan.seconds())
    }

    /// Adds facts that were read while a command was under way.
    pub fn observe(&mut self, sample: &Sample) {
        self.run.series.add(sample);
    }

    /// Adds what the CPUs of a host were seen to run.
    pub fn profiled(&mut self, stacks: Stacks) {
        self.run.stacks.push(stacks);
    }

    /// Adds a fact that could not be read.
    pub fn miss(&mut self, gap: Gap) {
        if !self.run.gaps.contains(&gap) {
            self.events.push(Event::Missing { gap: gap.clone() });
            self.run.gaps.push(gap);
        }
    }

    /// What happened since the last call, for whoever watches.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The run so far.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The run at its end, with its cost and what a search for the limit found.
    pub fn into_run(mut self) -> Run {
        self.run.cost = cost::of(&self.run);
        if let Some(search) = &self.search {
            self.run.limit = Some(search.report(&self.run));
        }
        if let Some(diagnosis) = &mut self.run.diagnosis {
            diagnosis.cost = self.run.cost.clone();
        }
        self.run
    }

    fn absorb(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Begin => {}
            Outcome::Done => self.absorb_done(),
            Outcome::Listened(window) => quiet::strangers(&self.run, window).into_iter().for_each(|gap| self.miss(gap)),
            Outcome::Surveyed(inventory, gaps) => {
                self.run.inventory = inventory;
                gaps.into_iter().for_each(|gap| self.miss(gap));
            }
            Outcome::Trial(trial) => self.absorb_trial(*trial),
            Outcome::Turned(change) => {
                self.in_force.push(Some(change.knob.clone()));
                self.run.changes.retain(|c| c.knob != change.knob);
                self.run.changes.push(*change);
            }
            Outcome::Restored(state, detail) => self.absorb_restored(state, detail),
            Outcome::Failed(reason) => self.absorb_failure(reason),
            Outcome::Interrupted(outcome) => {
                self.absorb(*outcome);
                self.stop(RunEnd::Interrupted);
            }
        }
    }

    fn absorb_done(&mut self) {
        match self.last {
            Some(Command::Intervene { index }) => {
                self.in_force.extend(std::iter::repeat_n(None, interventions::changes(&self.run, index)));
            }
            Some(Command::Restore) => drop(self.in_force.pop()),
            Some(
                Command::Listen
                | Command::Survey
                | Command::Trial(_)
                | Command::Turn(_)
                | Command::Keep
                | Command::Finish,
            )
            | None => {}
        }
    }

    fn absorb_trial(&mut self, trial: Trial) {
        let silent = trial.result.completed == 0 && !trial.result.interrupted;
        let warmup = trial.purpose == Purpose::Warmup;
        let reason = silent.then(|| no_answer(&trial));
        self.run.trials.push(trial);
        if let Some(again) = levels::again(&self.run) {
            self.queue.push_front(again);
        }
        if let Some(at) = levels::in_the_state_that_followed(&self.run).filter(|_| self.stage == Stage::Levels) {
            self.stage = Stage::AtTheLimit;
            self.queue = [at].into();
        }
        if let (Some(round), Some(left)) = (&self.round, self.left())
            && let Some(first) = round.first_pair(&self.run)
        {
            let kept = self.kept_for_remedy(round.planned(&self.run));
            budget::drop_late_pairs(&self.run, first, left, kept, &mut self.queue);
        }
        let told = [levels::has_changed(&self.run), levels::missed_once(&self.run)];
        told.into_iter().flatten().for_each(|gap| self.miss(gap));
        if !self.looks_next() {
            self.events.extend(cells::seen(&self.run).map(|seen| Event::CellDone { seen: Box::new(seen) }));
        }
        match reason.filter(|_| warmup) {
            Some(reason) if self.can_tell_why() => self.miss(Gap::new("completed_per_s", "", reason)),
            Some(reason) => self.stop(RunEnd::Failed { reason }),
            None => {}
        }
    }

    /// Whether a stack that answered nothing is one to diagnose: it takes connections, and closes them or leaves their requests lying, and
    /// its hosts are watched.
    fn can_tell_why(&self) -> bool {
        let takes_connections = self.run.trials.last().is_some_and(|trial| {
            let result = &trial.result;
            result.errors.read > 0 || (result.sent > 0 && result.errors.connect + result.errors.protocol == 0)
        });
        let diagnoses = match self.goal {
            Goal::Diagnose { .. } | Goal::Prove { remedy: Remedy::Diagnosed, .. } => true,
            Goal::Prove { remedy: Remedy::Chosen(_) | Remedy::Nothing, .. } | Goal::Limit(_) | Goal::Cells(_) => false,
        };
        takes_connections && diagnoses && !self.run.stack.path().is_empty()
    }

    /// Whether what has just ended is not whole without the closer look that comes next.
    fn looks_next(&self) -> bool {
        self.queue.front().and_then(Command::trial).is_some_and(|order| order.purpose == Purpose::Inspect)
    }

    fn absorb_restored(&mut self, state: ChangeState, detail: String) {
        let knob = self.in_force.pop().flatten();
        if let Some(change) = self.run.changes.iter_mut().find(|c| Some(&c.knob) == knob.as_ref()) {
            change.state = state;
        }
        if state == ChangeState::Conflict {
            self.miss(Gap::new("undo", "", detail));
        }
    }

    fn absorb_failure(&mut self, reason: String) {
        match self.last.clone() {
            Some(Command::Intervene { index }) => {
                let target = self.run.interventions.get(index).map(|i| i.target.clone()).unwrap_or_default();
                self.miss(Gap::new("intervention", target, reason));
                if let Some(round) = &mut self.round {
                    round.give_up(index, &mut self.queue);
                }
            }
            Some(Command::Restore) => {
                self.in_force.pop();
                self.miss(Gap::new("undo", "", format!("{reason}; run `prony undo`")));
            }
            Some(
                Command::Survey
                | Command::Listen
                | Command::Trial(_)
                | Command::Turn(_)
                | Command::Keep
                | Command::Finish,
            )
            | None => self.stop(RunEnd::Failed { reason }),
        }
    }

    /// Ends the run; what is still changed is put back first.
    fn stop(&mut self, end: RunEnd) {
        if self.stage == Stage::End {
            return;
        }
        self.queue.clear();
        self.restore_all();
        if self.run.diagnosis.is_none() && self.run.level(Level::At).is_some() {
            self.diagnose();
        }
        self.run.end = end;
        self.stage = Stage::End;
    }

    fn restore_all(&mut self) {
        self.queue.extend(self.in_force.iter().map(|_| Command::Restore));
    }

    fn stage(&mut self, stage: Stage, name: &str, detail: impl Into<String>) {
        self.stage = stage;
        self.events.push(Event::Stage { name: name.to_string(), detail: detail.into() });
    }

    fn done(&mut self) {
        self.run.end = RunEnd::Done;
        self.stage = Stage::End;
        self.restore_all();
    }

    fn advance(&mut self) {
        match self.stage {
            Stage::Start => {
                self.stage(Stage::Survey, "observe", "what the hosts are");
                self.queue.extend([Command::Listen, Command::Survey]);
            }
            Stage::Survey => {
                self.stage = Stage::Hold;
                self.queue.extend(self.held.iter().cloned().map(Command::Turn));
            }
            Stage::Hold => {
                self.stage(Stage::Warmup, "load", "warm up");
                self.queue.push_back(levels::warmup(&self.sized(), &self.effort));
            }
            Stage::Warmup => match levels::warm_up_further(&self.run, &self.sized(), &self.effort) {
                Some(further) => self.queue.push_back(further),
                None => self.after_warmup(),
            },
            Stage::AtTheLimit => {
                let detail = "below, at and beyond the knee";
                self.stage(Stage::Levels, "observe", detail);
                self.queue.extend(levels::others(&self.run, &self.base, &self.effort));
            }
            Stage::Levels => self.after_levels(),
            Stage::Intervene => self.after_interventions(),
            Stage::Search => self.search_on(),
            Stage::Prove => self.after_proof(),
            Stage::Cells | Stage::Keep | Stage::End => self.done(),
        }
    }

    /// The workload that a warm-up sends.
    fn sized(&self) -> LoadPlan {
        match &self.goal {
            Goal::Limit(goal) => goal.largest(&self.base),
            Goal::Cells(_) | Goal::Diagnose { .. } | Goal::Prove { .. } => self.base.clone(),
        }
    }

    fn after_warmup(&mut self) {
        match self.goal.clone() {
            Goal::Limit(goal) => {
                let what = goal.vary.map_or("the limit".to_string(), |vary| format!("over {vary}"));
                let detail = format!("search {what}, {} at most", goal.budget);
                self.search = Some(LimitSearch::new(&self.base, *goal, &self.run, &self.effort));
                self.stage(Stage::Search, "load", detail);
            }
            Goal::Cells(tasks) => {
                self.stage(Stage::Cells, "experiment", format!("{} cells, in random order", tasks.len()));
                self.queue = cells::commands(tasks);
            }
            Goal::Prove { remedy: Remedy::Chosen(knob), .. } => self.prove(Some(knob)),
            Goal::Prove { remedy: Remedy::Nothing, .. } => self.prove(None),
            Goal::Diagnose { .. } | Goal::Prove { remedy: Remedy::Diagnosed, .. } => {
                self.stage(Stage::AtTheLimit, "load", "the workload as written");
                self.queue.push_back(levels::at(&self.base, &self.effort));
            }
        }
    }

    fn diagnose(&mut self) {
        self.run.diagnosis = Some(prony_diagnose::diagnose(&self.run));
    }

    fn after_levels(&mut self) {
        self.diagnose();
        self.stage = Stage::Intervene;
        self.intervene();
    }

    /// Plans the next round of interventions, if there is something to test and time for it.
    fn intervene(&mut self) {
        let (Some(diagnosis), Some(left)) = (&self.run.diagnosis, self.left()) else { return };
        let verdict = &diagnosis.verdict;
        let mut planned = prony_diagnose::plan_interventions(&self.run, diagnosis);
        if !interventions::may_make(&self.run, planned.len()) {
            return;
        }
        let further = planned.iter().all(|i| i.further);
        // A proof measures the gain itself.
        if further && matches!(self.goal, Goal::Prove { .. }) {
            return;
        }
        let effort = budget::effort_of(&self.run, &planned, &self.effort);
        // Where there is no time for all further looks, there may be for the first.
        while further && planned.len() > 1 && budget::within(&self.run, &effort, &planned, left).is_err() {
            planned.pop();
        }
        let turns = planned.iter().any(|i| i.what.is_removal());
        let what = match turns {
            true if further => "what mending brings",
            false if further => "how far throughput follows",
            _ => "suspect",
        };
        let detail = format!("{what}: {} at {}", verdict.cause, verdict.hop);
        let kept = self.kept_for_remedy(&planned);
        let pairs = match budget::within_keeping(&self.run, &effort, &planned, left, kept) {
            Ok(pairs) => pairs,
            Err(reason) if !further => return self.miss(Gap::new("intervention", &verdict.hop, reason)),
            Err(_) => return,
        };
        let round = Round::from(self.run.interventions.len());
        self.run.interventions.extend(planned);
        self.stage(Stage::Intervene, "intervene", detail);
        self.queue = interventions::plan(&self.run, &round, &self.base, &Effort { pairs, ..effort }, self.seed);
        self.round = Some(round);
    }

    fn after_interventions(&mut self) {
        if let Some(mut round) = self.round.take() {
            if self.repeat(&mut round) {
                self.round = Some(round);
                return;
            }
            let left_out = interventions::conclude(&mut self.run, &round);
            left_out.into_iter().for_each(|gap| self.miss(gap));
            self.diagnose();
            self.intervene();
        }
        if self.round.is_some() {
            return;
        }
        match &self.goal {
            Goal::Prove { .. } => self.prove_the_diagnosed(),
            Goal::Limit(_) | Goal::Cells(_) | Goal::Diagnose { .. } => self.done(),
        }
    }

    /// Time that these interventions leave for a remedy that can be turned, and that a diagnosis tries afterwards.
    fn kept_for_remedy(&self, planned: &[Intervention]) -> Nanos {
        let is_the_first = !planned.iter().all(|i| i.further) && !planned.iter().any(|i| i.what.is_removal());
        let tries_later = matches!(self.goal, Goal::Diagnose { .. }) && is_the_first;
        let diagnosis = self.run.diagnosis.as_ref().filter(|_| tries_later);
        let remedy = diagnosis.and_then(|diagnosis| prony_diagnose::remedy_to_come(&self.run, diagnosis));
        remedy.map_or(Nanos(0), |remedy| budget::remedy_takes(&self.run, &self.effort, &remedy))
    }

    /// Plans those pairs of a round again that were disturbed, if there is time.
    fn repeat(&mut self, round: &mut Round) -> bool {
        let Some(left) = self.left() else { return false };
        let planned = round.planned(&self.run);
        let (effort, kept) = (budget::effort_of(&self.run, planned, &self.effort), self.kept_for_remedy(planned));
        let pairs = round.pairs_again(&self.run, &effort, left, kept);
        if pairs > 0 {
            self.stage(Stage::Intervene, "intervene", format!("{pairs} disturbed pairs again"));
            self.queue = interventions::plan(&self.run, round, &self.base, &Effort { pairs, ..effort }, self.seed);
        }
        pairs > 0
    }

    /// What is left of the budget; none when nothing is to be made worse.
    fn left(&self) -> Option<Nanos> {
        let budget = match self.goal {
            Goal::Diagnose { intervene: false, .. } => return None,
            Goal::Diagnose { budget, .. } => budget,
            Goal::Prove { .. } | Goal::Limit(_) | Goal::Cells(_) => BUDGET,
        };
        let elapsed = self.run.trials.last().map_or(0, |trial| trial.window.to_ns);
        Some(Nanos(budget.0.saturating_sub(elapsed)))
    }

    fn prove_the_diagnosed(&mut self) {
        let knob = self.run.diagnosis.as_ref().and_then(|d| d.remedies.iter().find_map(|r| r.knob.clone()));
        match knob {
            Some(knob) => self.prove(Some(knob)),
            None => {
                let text = "the diagnosis names no remedy that prony can apply here: nothing to prove".to_string();
                self.events.push(Event::Note { text });
                self.done();
            }
        }
    }

    fn prove(&mut self, knob: Option<Knob>) {
        let predicted = proofs::predicted_gain(&self.run);
        let what =
            knob.as_ref().map_or("nothing (A/A)".to_string(), |k| format!("{} = {} at {}", k.id, k.value, k.host));
        let predicted = predicted.map(|g| format!(", predicted {:+.0} %", g * 100.0)).unwrap_or_default();
        self.stage(Stage::Prove, "prove", format!("interleaved A/B of {what}{predicted}"));
        self.queue = proofs::plan(&self.run, knob.as_ref(), &self.base, &self.effort, self.seed);
        self.knob = knob;
    }

    fn after_proof(&mut self) {
        let (earlier, precision) = match self.goal {
            Goal::Prove { earlier, precision, .. } => (earlier, precision),
            Goal::Limit(_) | Goal::Cells(_) | Goal::Diagnose { .. } => (EarlierAa::default(), Precision::default()),
        };
        let proof = proofs::conclude(&self.run, self.knob.clone(), self.seed, earlier);
        match proofs::further(&self.run, &proof, &precision) {
            Further::Blocks(blocks) => return self.prove_on(blocks, precision.detect),
            Further::NoTime(gap) => self.miss(gap),
            Further::Enough => {}
        }
        let better = proof.verdict == prony_model::ProofVerdict::Better;
        self.run.proof = Some(proof);
        match (&self.goal, self.knob.clone()) {
            (Goal::Prove { keep: true, .. }, Some(knob)) if better => {
                self.stage(Stage::Keep, "tune", "keep the change");
                self.queue.extend([Command::Turn(knob), Command::Keep]);
            }
            _ => self.done(),
        }
    }

    /// Plans more blocks of a proof whose pairs differ too much.
    fn prove_on(&mut self, blocks: u32, detect: Share) {
        self.stage(Stage::Prove, "prove", format!("{blocks} more blocks, to find a change of {detect}"));
        let effort = Effort { blocks, ..self.effort.clone() };
        self.queue = proofs::plan(&self.run, self.knob.as_ref(), &self.base, &effort, self.seed);
    }

    fn search_on(&mut self) {
        let Some(search) = &mut self.search else { return self.done() };
        let step = search.next(&self.run, &self.effort);
        self.events.extend(search.narrowed(&self.run));
        match step {
            Step::Do(commands) => {
                let turned = commands.iter().find_map(|command| match command {
                    Command::Turn(knob) => Some(knob.clone()),
                    Command::Listen
                    | Command::Survey
                    | Command::Trial(_)
                    | Command::Intervene { .. }
                    | Command::Restore
                    | Command::Keep
                    | Command::Finish => None,
                });
                self.knob = turned;
                self.queue.extend(commands);
            }
            Step::Done => self.done(),
            Step::Fail(reason) => self.stop(RunEnd::Failed { reason }),
        }
    }
}

/// Why a warm-up without a single answer failed, in words that lead on.
fn no_answer(trial: &Trial) -> String {
    let errors = trial.result.errors;
    let what = [
        (errors.connect, "connections were refused or failed"),
        (errors.timeout, "requests timed out"),
        (errors.read, "connections were closed or reset before an answer"),
        (errors.write, "sends failed"),
        (errors.protocol, "answers were not HTTP"),
    ];
    let most = what.iter().filter(|(n, _)| *n > 0).max_by_key(|(n, _)| *n);
    let what = most.map_or("nothing came back".to_string(), |(n, text)| format!("{n} {text}"));
    format!("{} gave no answer at all: {what}; check the URL and the server with `curl -v {0}`", trial.plan.url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MadeRun, plan, planned, run};
    use prony_model::InterventionKind;

    #[test]
    fn a_round_that_takes_longer_than_thought_ends_in_time() {
        let run = run(vec![planned(InterventionKind::Cpu, false)]);
        let goal = Goal::Diagnose { intervene: true, budget: BUDGET };
        let mut session = Session::new(goal, Effort::default(), plan(), run);
        let round = Round::from(0);
        session.queue = interventions::plan(&session.run, &round, &session.base, &session.effort, 7);
        session.round = Some(round);
        let mut outcome = Outcome::Begin;
        let mut clock_ns = 0;
        while !session.queue.is_empty() {
            session.absorb(outcome);
            session.last = session.queue.pop_front();
            outcome = match &session.last {
                Some(Command::Trial(order)) => {
                    clock_ns += 5_000_000_000;
                    let window = Window { from_ns: clock_ns - 1_000_000_000, to_ns: clock_ns };
                    let made = MadeRun::of("").trial(order.purpose.clone(), 100.0).run.trials.remove(0);
                    Outcome::Trial(Box::new(Trial { window, ..made }))
                }
                Some(_) | None => Outcome::Done,
            };
        }
        assert!((100_000_000_000..BUDGET.0).contains(&clock_ns), "{clock_ns} ns");
    }
}
