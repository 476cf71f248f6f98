//! Runs the cells that are missing, batch after batch, through sessions like those of every other command.
//!
//! Invariant: before any load is sent, every knob of every cell was rehearsed on its host.

use super::keep::Keep;
use super::plan::{Planned, PlannedCell, time};
use crate::measure::{LabGuard, Recording, Sitting, sit};
use crate::progress::Progress;
use crate::{BadArgument, home};
use anyhow::{Result, bail};
use prony_model::experiment::{CellSeen, Find};
use prony_model::{Axis, Event, Knob, LoadPlan, RunEnd, Stack, Vary};
use prony_session::{CellTask, Goal, LimitGoal};
use prony_stats::experiment::{Batch, order};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A search for stable connections ends at this multiple of the workload's, unless the file says another. As `prony limit`.
const CONNECTIONS_TOP: u32 = 64;
const CONNECTIONS_MAX: u32 = 16_384;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Every cell ran.
    Done,
    /// By the user.
    Interrupted,
}

/// Runs what is missing.
pub(super) fn run(
    planned: &Planned,
    keep: &mut Keep,
    progress: &mut Progress,
    interrupted: &AtomicBool,
) -> Result<Ended> {
    let batches: Vec<Batch> = order(&planned.groups(), planned.experiment.repeats, keep.seed())
        .into_iter()
        .map(|batch| Batch { cells: missing(&batch, planned, keep), ..batch })
        .filter(|batch| !batch.cells.is_empty())
        .collect();
    let mut runner = Runner::new(planned, keep, progress, interrupted, &batches);
    let ended = runner.all(&batches);
    // A lab that is still up goes down, whatever happened.
    let down = runner.lab.take().map_or(Ok(()), |(_, lab)| lab.down());
    ended.and_then(|ended| down.map(|()| ended))
}

fn missing(batch: &Batch, planned: &Planned, keep: &Keep) -> Vec<u32> {
    let left_out = planned.left_out();
    let wanted = |cell: &u32| !keep.has(*cell, batch.repeat) && !left_out.contains_key(cell);
    batch.cells.iter().copied().filter(wanted).collect()
}

struct Runner<'a> {
    planned: &'a Planned,
    keep: &'a mut Keep,
    progress: &'a mut Progress,
    interrupted: &'a AtomicBool,
    /// The lab that is up, with its group.
    lab: Option<(usize, LabGuard)>,
    /// What each knob of a group was before anything was turned.
    present: BTreeMap<(usize, Knob), String>,
    clock: Clock,
}

/// Time left: what was planned for the rest, as much slower or faster as it went so far.
struct Clock {
    begun: Instant,
    planned_s: f64,
    spent_s: f64,
    cells: usize,
    done: usize,
}

impl Clock {
    fn tick(&mut self, planned_s: f64) {
        self.spent_s += planned_s;
    }

    fn left(&self) -> String {
        let pace = if self.spent_s > 0.0 { self.begun.elapsed().as_secs_f64() / self.spent_s } else { 1.0 };
        let left_s = (self.planned_s - self.spent_s).max(0.0) * pace;
        format!("{} of {} cells, {} left", self.done, self.cells, time(left_s))
    }
}

impl<'a> Runner<'a> {
    fn new(
        planned: &'a Planned,
        keep: &'a mut Keep,
        progress: &'a mut Progress,
        interrupted: &'a AtomicBool,
        batches: &[Batch],
    ) -> Self {
        let cells = planned.all();
        let cell_s = |cell: &u32| planned.cells.get(*cell as usize).map_or(0.0, |cell| planned.cell_s(cell));
        let batch_s = |batch: &Batch| batch.cells.iter().map(cell_s).sum::<f64>() + planned.batch_s(planned.rebuilds());
        let planned_s = batches.iter().map(batch_s).sum();
        let done = cells - keep.missing(planned);
        let clock = Clock { begun: Instant::now(), planned_s, spent_s: 0.0, cells, done };
        Self { planned, keep, progress, interrupted, lab: None, present: BTreeMap::new(), clock }
    }

    fn all(&mut self, batches: &[Batch]) -> Result<Ended> {
        self.rehearse(batches)?;
        self.clock.begun = Instant::now();
        for batch in batches {
            let stack = self.stack_of(batch.group)?;
            self.progress.set_left(self.clock.left());
            let ended = match self.planned.shares_sessions() {
                true => self.measure(batch, &stack)?,
                false => self.search(batch, &stack)?,
            };
            if ended == Ended::Interrupted {
                return Ok(ended);
            }
            self.clock.tick(self.planned.batch_s(self.planned.rebuilds()));
            if self.planned.rebuilds()
                && let Some((_, lab)) = self.lab.take()
            {
                lab.down()?;
            }
        }
        Ok(Ended::Done)
    }

    /// The stack of a group as it is up; built if it is a lab.
    fn stack_of(&mut self, group: usize) -> Result<Stack> {
        let Some(first) = self.planned.first_of(group) else { bail!("there is no group {group} of cells") };
        if first.stack.lab.is_none() {
            return Ok(first.stack.clone());
        }
        if let Some((up, lab)) = &self.lab
            && *up == group
        {
            return Ok(lab.up.stack.clone());
        }
        if let Some((_, lab)) = self.lab.take() {
            lab.down()?;
        }
        let lab = LabGuard::up(&first.stack, self.progress)?;
        let stack = lab.up.stack.clone();
        self.lab = Some((group, lab));
        Ok(stack)
    }

    /// Whether every level can be set, before anything runs. A level that is there already is not turned later.
    fn rehearse(&mut self, batches: &[Batch]) -> Result<()> {
        let groups: BTreeSet<usize> = batches.iter().map(|batch| batch.group).collect();
        let mut refused = Vec::new();
        for group in groups {
            let of_group = self.planned.cells.iter().filter(|cell| cell.group == group);
            let knobs: BTreeSet<Knob> = of_group.flat_map(|cell| cell.knobs.clone()).collect();
            let knobs: Vec<Knob> = knobs.into_iter().collect();
            if knobs.is_empty() && !self.planned.rebuilds() {
                continue;
            }
            let stack = self.stack_of(group)?;
            let agents = prony_session::connect(&stack, &home::journal());
            for (knob, found) in knobs.iter().zip(prony_session::rehearse(&agents, &knobs)) {
                match found {
                    Ok(present) => drop(self.present.insert((group, knob.clone()), present)),
                    Err(gap) => refused.push(format!("{} at {}: {}", gap.fact, gap.host, gap.reason)),
                }
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        Err(BadArgument::error(format!("nothing was run, because these levels cannot be set: {}", refused.join("; "))))
    }

    /// The knobs of a cell that are not as wanted already.
    fn turns(&self, cell: &PlannedCell) -> Vec<Knob> {
        let there =
            |knob: &Knob| self.present.get(&(cell.group, knob.clone())).is_some_and(|value| *value == knob.value);
        cell.knobs.iter().filter(|knob| !there(knob)).cloned().collect()
    }

    /// The stack of a batch with the workload of a cell.
    fn dressed(stack: &Stack, cell: &PlannedCell) -> Stack {
        Stack { workload: cell.stack.workload.clone(), ..stack.clone() }
    }

    fn seed(&self, batch: &Batch, cell: u32) -> u64 {
        // Every trial has arrivals of its own, the same when the run is repeated.
        self.keep.seed() ^ (u64::from(batch.repeat) << 32 | u64::from(cell)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Every cell of the batch in one session.
    fn measure(&mut self, batch: &Batch, stack: &Stack) -> Result<Ended> {
        let Some(first) = batch.cells.first().and_then(|cell| self.planned.cells.get(*cell as usize)) else {
            return Ok(Ended::Done);
        };
        let task = |number: &u32| {
            let cell = self.planned.cells.get(*number as usize)?;
            let plan = LoadPlan { seed: self.seed(batch, *number), ..cell.plan.clone() };
            let label = cell.label.clone();
            let look = self.planned.look();
            Some(CellTask { cell: *number, repeat: batch.repeat, knobs: self.turns(cell), plan, look, label })
        };
        let tasks: Vec<CellTask> = batch.cells.iter().filter_map(task).collect();
        let sitting = self.sitting(Self::dressed(stack, first), Goal::Cells(tasks), Vec::new(), batch, None);
        let planned = self.planned;
        let (keep, progress, clock) = (&mut *self.keep, &mut *self.progress, &mut self.clock);
        let mut kept = Ok(());
        let mut watcher = |event: &Event| {
            progress.show(event);
            if let Event::CellDone { seen } = event {
                clock.done += 1;
                clock.tick(planned.cells.get(seen.cell as usize).map_or(0.0, |cell| planned.cell_s(cell)));
                progress.set_left(clock.left());
                if let Err(e) = keep.add((**seen).clone()) {
                    kept = Err(e);
                }
            }
        };
        let measured = sit(sitting, &mut watcher, self.interrupted)?;
        kept?;
        ended(&measured.run.end)
    }

    /// A session for each cell of the batch.
    fn search(&mut self, batch: &Batch, stack: &Stack) -> Result<Ended> {
        for number in &batch.cells {
            let Some(cell) = self.planned.cells.get(*number as usize) else { continue };
            self.progress.show(&Event::Stage { name: "cell".to_string(), detail: cell.label.clone() });
            let goal = Goal::Limit(Box::new(self.goal(cell)));
            let sitting = self.sitting(Self::dressed(stack, cell), goal, self.turns(cell), batch, Some(*number));
            let progress = &mut *self.progress;
            let measured = sit(sitting, &mut |event| progress.show(event), self.interrupted)?;
            if ended(&measured.run.end)? == Ended::Interrupted {
                return Ok(Ended::Interrupted);
            }
            let find = self.planned.experiment.find;
            let seen: CellSeen = prony_session::seen_of_search(&measured.run, find, *number, batch.repeat);
            self.keep.add(seen)?;
            self.clock.done += 1;
            self.clock.tick(self.planned.cell_s(cell));
            self.progress.set_left(self.clock.left());
        }
        Ok(Ended::Done)
    }

    fn goal(&self, cell: &PlannedCell) -> LimitGoal {
        let experiment = &self.planned.experiment;
        let of_stack = || cell.stack.slo.as_ref().map(|slo| slo.thresholds()).unwrap_or_default();
        let top = cell.plan.connections.saturating_mul(CONNECTIONS_TOP).clamp(2, CONNECTIONS_MAX);
        let connections = Vary { axis: Axis::Connections, low: 1, high: u64::from(top) };
        let plain = LimitGoal { budget: experiment.budget, ..LimitGoal::default() };
        match experiment.find {
            Find::Measure | Find::Limit => plain,
            Find::LimitWithinSlo if experiment.slo.is_empty() => LimitGoal { slo: of_stack(), ..plain },
            Find::LimitWithinSlo => LimitGoal { slo: experiment.slo.clone(), ..plain },
            Find::StableConcurrency => {
                LimitGoal { stable: true, vary: Some(experiment.vary.unwrap_or(connections)), ..plain }
            }
            Find::Search => LimitGoal { vary: experiment.vary, until: experiment.until.clone(), ..plain },
        }
    }

    fn sitting(&self, stack: Stack, goal: Goal, held: Vec<Knob>, batch: &Batch, cell: Option<u32>) -> Sitting {
        let name = match cell {
            Some(cell) => format!("repeat-{}-cell-{}", batch.repeat + 1, cell + 1),
            None => format!("repeat-{}-lab-{}", batch.repeat + 1, batch.group + 1),
        };
        // A run that goes on does not write over the record of the one before.
        let free = |n: u32| {
            let again = if n == 0 { String::new() } else { format!("-again-{n}") };
            self.keep.folder().join(format!("{name}{again}.prony"))
        };
        let record = (0..).map(free).find(|path| !path.exists()).map_or(Recording::AmongRuns, Recording::At);
        let seed = self.seed(batch, cell.unwrap_or(0));
        Sitting { stack, goal, held, effort: self.planned.effort.clone(), seed, record }
    }
}

fn ended(end: &RunEnd) -> Result<Ended> {
    match end {
        RunEnd::Done => Ok(Ended::Done),
        RunEnd::Interrupted | RunEnd::Open => Ok(Ended::Interrupted),
        RunEnd::Failed { reason } => bail!("{reason}"),
    }
}
