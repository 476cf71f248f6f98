//! From the flags and the file to what will run: the cells on their stacks, and how long they take.
//!
//! Nothing is built and nothing is sent. Invariant: what passes here has a stack, a load and known knobs for every cell.

use crate::cli::RunArgs;
use crate::{BadArgument, load, source};
use anyhow::{Context, Result};
use prony_lab::LabError;
use prony_model::experiment::{Design, Find};
use prony_model::{Experiment, InputError, Knob, LoadPlan, Nanos, Stack, Workload};
use prony_session::Effort;
use std::collections::BTreeMap;
use std::path::Path;

/// Seconds that a session takes besides its trials: listening, the survey, and what the agents do. A guess from runs of labs.
const SESSION_S: f64 = 3.0;
/// Building a lab and taking it down, and turning a knob and putting it back. Guesses; nginx takes about as long to reload.
const LAB_S: f64 = 4.0;
const KNOB_S: f64 = 0.8;
/// What a trial takes besides its times.
const TRIAL_S: f64 = 0.3;
/// What a close look takes besides its time: its programs are loaded, and what they saw gets names.
const LOOK_S: f64 = 0.6;
/// With `--quick`.
const QUICK_DURATION: Nanos = Nanos::from_millis(1000);
const QUICK_SETTLE: Nanos = Nanos::from_millis(300);
const QUICK_REPEATS: u32 = 3;
const QUICK_BUDGET_MIN: Nanos = Nanos::from_millis(10_000);
/// With `--rehearse`: long enough for an answer over 50 ms of delay each way, and few enough connections that each has one from a
/// proxy that compresses 100 KB at level 9, 5 ms each (seen: 512 connections had none in 450 ms).
const REHEARSAL_DURATION: Nanos = Nanos::from_millis(400);
const REHEARSAL_SETTLE: Nanos = Nanos::from_millis(200);
const REHEARSAL_CONNECTIONS_MAX: u32 = 16;

/// One cell on its stack.
pub(super) struct PlannedCell {
    /// In words.
    pub label: String,
    /// With the workload and the lab of the cell.
    pub stack: Stack,
    /// What is turned for it.
    pub knobs: Vec<Knob>,
    /// What is sent.
    pub plan: LoadPlan,
    /// Cells of one group share a lab.
    pub group: usize,
    /// Why its lab cannot be built here; none: nothing is known against it.
    pub trouble: Option<Trouble>,
}

/// Why a lab cannot be built on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Something is not installed, which a person can mend.
    Missing(String),
    /// The kernel cannot do it: a gap.
    Unable(String),
}

/// Everything that will run.
pub(super) struct Planned {
    pub experiment: Experiment,
    pub stack: Stack,
    /// The cells, the placebo last.
    pub cells: Vec<PlannedCell>,
    pub effort: Effort,
    /// Named by a flag or the file.
    pub seed: Option<u64>,
    pub notes: Vec<String>,
}

impl Planned {
    /// Reads the experiment and its stack, and checks every cell.
    pub fn read(args: &RunArgs) -> Result<Self> {
        let file = args.experiment.display().to_string();
        let text = std::fs::read_to_string(&args.experiment).map_err(|e| {
            BadArgument::error(format!(
                "cannot read {file}: {e}; name an experiment file, like those in `experiments/`"
            ))
        })?;
        let mut experiment = Experiment::parse(&file, &text)?;
        choose(&mut experiment, args);
        let named = args.stack.clone().unwrap_or_else(|| beside(&args.experiment, &experiment.stack));
        let mut stack = source::stack(&named).with_context(|| format!("{file}: stack = \"{}\"", experiment.stack))?;
        stack.owned |= args.owned;
        let seed = args.seed.or(experiment.seed);
        let effort = match (args.rehearse, args.quick) {
            (true, _) => Effort::rehearsal(),
            (false, true) => Effort::quick(),
            (false, false) => Effort::default(),
        };
        let cells = cells(&experiment, &stack, args, &text)?;
        let mut planned = Self { experiment, stack, cells, effort, seed, notes: Vec::new() };
        let troubles = planned.troubles();
        // What is not installed matters when it runs; a rehearsal tells it of each cell.
        if let Some(stops) =
            troubles.iter().find(|stops| planned.is_stopped_by(stops)).filter(|_| !args.plan && !args.rehearse)
        {
            return Err(BadArgument::error(stops.text()));
        }
        let short = args.quick.then(|| "short trials (--quick): intervals are wider".to_string());
        planned.notes = short.into_iter().chain(troubles.iter().map(Trouble::text)).collect();
        Ok(planned)
    }

    /// Why labs cannot be built here, each reason once.
    fn troubles(&self) -> Vec<Trouble> {
        let mut troubles: Vec<Trouble> = Vec::new();
        for trouble in self.cells.iter().filter_map(|cell| cell.trouble.as_ref()) {
            if !troubles.contains(trouble) {
                troubles.push(trouble.clone());
            }
        }
        troubles
    }

    /// A cell that the kernel cannot build is left out, unless it is the one that the others are compared with.
    fn is_stopped_by(&self, trouble: &Trouble) -> bool {
        match trouble {
            Trouble::Missing(_) => true,
            Trouble::Unable(_) => self.cells.first().is_some_and(|cell| cell.trouble.is_some()),
        }
    }

    /// Numbers of the cells that cannot run here, with the reason.
    pub fn left_out(&self) -> BTreeMap<u32, String> {
        let reason = |(number, cell): (u32, &PlannedCell)| Some((number, cell.trouble.as_ref()?.reason().to_string()));
        (0u32..).zip(&self.cells).filter_map(reason).collect()
    }

    /// Cells that can run here, over all repeats.
    pub fn all(&self) -> usize {
        (self.cells.len() - self.left_out().len()) * self.experiment.repeats as usize
    }

    /// Groups of cells, by number.
    pub fn groups(&self) -> Vec<usize> {
        self.cells.iter().map(|cell| cell.group).collect()
    }

    /// The first cell of a group.
    pub fn first_of(&self, group: usize) -> Option<&PlannedCell> {
        self.cells.iter().find(|cell| cell.group == group)
    }

    /// Whether many cells run in one session.
    pub fn shares_sessions(&self) -> bool {
        self.experiment.find == Find::Measure
    }

    /// Seconds that a cell takes once.
    pub fn cell_s(&self, cell: &PlannedCell) -> f64 {
        let knobs = cell.knobs.len() as f64 * KNOB_S;
        let trial = match self.shares_sessions() {
            true => {
                let trial = self.experiment.settle.as_secs_f64() + self.experiment.duration.as_secs_f64() + TRIAL_S;
                trial + self.look().map_or(0.0, |look| LOOK_S + look.as_secs_f64())
            }
            false => self.experiment.budget.as_secs_f64() + self.session_s(),
        };
        trial + knobs
    }

    /// How long a close look at each cell takes, if one is wanted.
    pub fn look(&self) -> Option<Nanos> {
        self.experiment.profile.then_some(self.effort.look)
    }

    /// Seconds that a session takes besides its cells.
    pub fn session_s(&self) -> f64 {
        SESSION_S + self.effort.warmup.as_secs_f64()
    }

    /// Seconds that a batch takes besides its cells.
    pub fn batch_s(&self, lab: bool) -> f64 {
        let session = if self.shares_sessions() { self.session_s() } else { 0.0 };
        session + if lab { LAB_S } else { 0.0 }
    }

    /// Whether a lab is built anew for each batch: only when labs differ, so that each repeat draws its own.
    pub fn rebuilds(&self) -> bool {
        self.stack.lab.is_some() && self.cells.iter().any(|cell| cell.group > 0)
    }
}

fn choose(experiment: &mut Experiment, args: &RunArgs) {
    if args.rehearse {
        return rehearsed(experiment);
    }
    if args.quick {
        experiment.duration = experiment.duration.min(QUICK_DURATION);
        experiment.settle = experiment.settle.min(QUICK_SETTLE);
        experiment.repeats = experiment.repeats.min(QUICK_REPEATS);
        // Whether a load is stable shows in some seconds and not in less, so such a search cannot be shorter.
        if experiment.find != Find::StableConcurrency {
            experiment.budget = Nanos(experiment.budget.0 / 3).max(QUICK_BUDGET_MIN);
        }
    }
    if let Some(repeats) = args.repeats {
        experiment.repeats = repeats.max(1);
    }
}

/// Every level once, for a moment. Levels that go well alone are not tried together.
fn rehearsed(experiment: &mut Experiment) {
    experiment.design = match experiment.design {
        Design::Full | Design::OneAtATime => Design::OneAtATime,
        Design::Rows => Design::Rows,
    };
    experiment.find = Find::Measure;
    experiment.repeats = 1;
    experiment.placebo = false;
    experiment.profile = false;
    experiment.settle = REHEARSAL_SETTLE;
    experiment.duration = REHEARSAL_DURATION;
}

fn few_connections(plan: LoadPlan) -> LoadPlan {
    LoadPlan { connections: plan.connections.min(REHEARSAL_CONNECTIONS_MAX), ..plan }
}

/// A stack that the file names is looked for beside it first.
fn beside(experiment: &Path, stack: &str) -> String {
    let path = experiment.parent().map(|folder| folder.join(stack)).filter(|path| path.is_file());
    path.map_or_else(|| stack.to_string(), |path| path.display().to_string())
}

/// The cells on their stacks.
fn cells(experiment: &Experiment, stack: &Stack, args: &RunArgs, text: &str) -> Result<Vec<PlannedCell>> {
    let path = &args.experiment;
    let file = path.display().to_string();
    let mut labs: Vec<(Stack, Option<Trouble>)> = Vec::new();
    let mut planned = Vec::new();
    let cells = experiment.cells();
    let placebo = cells.first().filter(|_| experiment.placebo);
    for (number, cell) in cells.iter().chain(placebo).enumerate() {
        let mut applied = experiment.apply(stack, cell).map_err(|message| mistake(&file, text, message))?;
        // Files that a level names stand beside the experiment; those of the stack were found already.
        source::anchor(&mut applied.stack, path.parent().unwrap_or(Path::new("")))?;
        let lab = Stack { workload: Workload::default(), ..applied.stack.clone() };
        let group = labs.iter().position(|(known, _)| *known == lab).unwrap_or(labs.len());
        if group == labs.len() {
            labs.push((lab, check_lab(&applied.stack, &experiment.label(cell))?));
        }
        let plan = load::plan_of(&applied.stack, 0)?;
        let plan = LoadPlan { warmup: experiment.settle, duration: experiment.duration, ..plan };
        let plan = if args.rehearse { few_connections(plan) } else { plan };
        let again = if number == cells.len() { " (placebo)" } else { "" };
        let label = format!("{}{again}", experiment.label(cell));
        let trouble = labs.get(group).and_then(|(_, trouble)| trouble.clone());
        planned.push(PlannedCell { label, stack: applied.stack, knobs: applied.knobs, plan, group, trouble });
    }
    Ok(planned)
}

impl Trouble {
    fn reason(&self) -> &str {
        match self {
            Self::Missing(reason) | Self::Unable(reason) => reason,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Missing(reason) => reason.clone(),
            Self::Unable(reason) => format!("left out: {reason}"),
        }
    }
}

/// Not being root is no mistake of the file: it is told when the lab is to be built. Nor is what this machine lacks, which is
/// given back.
fn check_lab(stack: &Stack, label: &str) -> Result<Option<Trouble>> {
    let cannot = |e: LabError| format!("the lab of the cell `{label}` cannot be built: {e}");
    match stack.lab.as_ref().map(|_| prony_lab::check(stack)) {
        None | Some(Ok(()) | Err(LabError::NotRoot)) => Ok(None),
        Some(Err(e @ (LabError::ToolMissing { .. } | LabError::FilesMissing { .. }))) => {
            Ok(Some(Trouble::Missing(cannot(e))))
        }
        Some(Err(e @ LabError::KernelLacks { .. })) => Ok(Some(Trouble::Unable(cannot(e)))),
        Some(Err(e)) => Err(BadArgument::error(cannot(e))),
    }
}

/// At the line of the factor that the message begins with.
fn mistake(file: &str, text: &str, message: String) -> InputError {
    let factor = message.split('`').nth(1).unwrap_or_default();
    let wanted = format!("name = \"{factor}\"");
    let line = text.lines().position(|line| line.trim() == wanted).map_or(0, |at| at + 1);
    InputError { file: file.to_string(), line, message }
}

/// The trials and the time, for `--plan`.
pub(super) fn table(planned: &Planned) -> String {
    let experiment = &planned.experiment;
    let once: f64 = planned.cells.iter().map(|cell| planned.cell_s(cell)).sum();
    let batches = planned.groups().into_iter().max().map_or(0, |most| most + 1);
    let beside = batches as f64 * planned.batch_s(planned.rebuilds());
    let seconds = f64::from(experiment.repeats) * (once + beside);
    let mut out = format!("{}\n\nfind     {}\n", experiment.name, experiment.find.words());
    for (number, cell) in planned.cells.iter().enumerate() {
        let knobs: Vec<String> = cell.knobs.iter().map(|k| format!("{}={} at {}", k.id, k.value, k.host)).collect();
        let turns = if knobs.is_empty() { String::new() } else { format!("   turns {}", knobs.join(", ")) };
        let turns = if cell.trouble.is_some() { "   left out".to_string() } else { turns };
        out.push_str(&format!("cell {:<3} {}, {} connections{turns}\n", number + 1, cell.label, cell.plan.connections));
    }
    let (cells, trials) = (planned.cells.len() - planned.left_out().len(), planned.all());
    let each = match planned.shares_sessions() {
        true => format!("{} after {} uncounted", experiment.duration, experiment.settle),
        false => format!("a search of {} at most", experiment.budget),
    };
    let labs = if planned.rebuilds() { format!("; {batches} labs, built anew in each repeat") } else { String::new() };
    out.push_str(&format!(
        "\n{cells} cells x {} repeats = {trials} trials, each {each}{labs}\nabout {}\n\nexpected {}\n",
        experiment.repeats,
        time(seconds),
        experiment.expectation
    ));
    planned.notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    out
}

/// A time for people: `about 12 min`.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 90.0 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
