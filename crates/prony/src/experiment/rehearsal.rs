//! `prony run EXPERIMENT --rehearse`: every level once, for a moment. Does each lab come up, can each level be set, does the
//! stack answer?
//!
//! No effect comes of it and nothing is kept. Invariant: a cell that does not work keeps no other from being tried.

use super::plan::{Planned, PlannedCell, Trouble};
use crate::cli::RunArgs;
use crate::measure::{LabGuard, Recording, Sitting, interrupts, sit};
use crate::output::print;
use crate::progress::Progress;
use crate::{Exit, home, load};
use anyhow::Result;
use prony_model::{Event, Knob, RunEnd, Stack};
use prony_report::number;
use prony_session::{CellTask, Goal};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// Schema name of the JSON form; fields only get added.
const SCHEMA: &str = "prony.rehearsal/1";

/// How it went with a cell.
#[derive(Clone, Debug, PartialEq)]
enum Tried {
    /// It ran, and so many good answers came per second.
    Works(f64),
    /// It did not, and why.
    Fails(String),
    /// It cannot run on this kernel, and why.
    Gap(String),
}

/// Tries every cell and says which work.
pub(super) fn run(planned: &Planned, args: &RunArgs) -> Result<Exit> {
    let interrupted = interrupts()?;
    let progress = Progress::of_run(args.progress, false, &interrupted);
    let mut rehearsal = Rehearsal { planned, progress, interrupted: &interrupted, tried: BTreeMap::new(), over: false };
    let ended = rehearsal.all();
    let tried = rehearsal.tried;
    drop(rehearsal.progress);
    ended?;
    print(&if args.json { in_json(planned, &tried)? } else { in_text(planned, &tried) });
    let fine = |tried: &Tried| matches!(tried, Tried::Works(_) | Tried::Gap(_));
    let all_fine = tried.len() == planned.cells.len() && tried.values().all(fine);
    Ok(if all_fine { Exit::Done } else { Exit::NotValid })
}

struct Rehearsal<'a> {
    planned: &'a Planned,
    progress: Progress,
    interrupted: &'a AtomicBool,
    tried: BTreeMap<usize, Tried>,
    /// Whether the user ended it.
    over: bool,
}

impl Rehearsal<'_> {
    fn all(&mut self) -> Result<()> {
        let groups: BTreeSet<usize> = self.planned.groups().into_iter().collect();
        for group in groups {
            let numbered = self.planned.cells.iter().enumerate();
            let cells: Vec<usize> =
                numbered.filter(|(_, cell)| cell.group == group).map(|(number, _)| number).collect();
            self.progress.set_left(format!("{} of {} cells", self.tried.len(), self.planned.cells.len()));
            self.group(&cells)?;
            if self.over || self.interrupted.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }

    /// The cells of one lab, or all cells of a stack that is none.
    fn group(&mut self, cells: &[usize]) -> Result<()> {
        let Some(first) = cells.first().and_then(|cell| self.planned.cells.get(*cell)) else { return Ok(()) };
        if let Some(trouble) = &first.trouble {
            self.all_are(
                cells,
                &match trouble {
                    Trouble::Missing(reason) => Tried::Fails(reason.clone()),
                    Trouble::Unable(reason) => Tried::Gap(reason.clone()),
                },
            );
            return Ok(());
        }
        if first.stack.lab.is_none() {
            return self.on(&first.stack.clone(), cells);
        }
        match LabGuard::up(&first.stack, &mut self.progress) {
            Ok(lab) => {
                let ended = self.on(&lab.up.stack.clone(), cells);
                lab.down().and(ended)
            }
            Err(e) => {
                self.all_are(cells, &Tried::Fails(format!("its lab does not come up: {e:#}")));
                Ok(())
            }
        }
    }

    fn all_are(&mut self, cells: &[usize], tried: &Tried) {
        self.tried.extend(cells.iter().map(|cell| (*cell, tried.clone())));
    }

    /// What can be turned here is; then each of these cells is loaded in turn. A session ends with the first that fails, so the
    /// others have another.
    fn on(&mut self, stack: &Stack, cells: &[usize]) -> Result<()> {
        let turns = self.turns(stack, cells);
        loop {
            let left: Vec<usize> = cells.iter().copied().filter(|cell| !self.tried.contains_key(cell)).collect();
            let Some(first) = left.first().copied() else { return Ok(()) };
            let reason = match self.session(stack, &left, &turns)? {
                RunEnd::Interrupted | RunEnd::Open => {
                    self.over = true;
                    return Ok(());
                }
                RunEnd::Failed { reason } => reason,
                RunEnd::Done => "no trial of it ended".to_string(),
            };
            if left.iter().all(|cell| self.tried.contains_key(cell)) {
                continue;
            }
            let failed = left.iter().copied().find(|cell| !self.tried.contains_key(cell)).unwrap_or(first);
            self.tried.insert(failed, Tried::Fails(reason));
        }
    }

    /// What is turned for each cell. A cell with a knob that its host refuses fails here.
    fn turns(&mut self, stack: &Stack, cells: &[usize]) -> BTreeMap<usize, Vec<Knob>> {
        let agents = prony_session::connect(stack, &home::journal());
        let mut turns = BTreeMap::new();
        for (number, cell) in cells.iter().filter_map(|cell| Some((*cell, self.planned.cells.get(*cell)?))) {
            let found = prony_session::rehearse(&agents, &cell.knobs);
            if let Some(gap) = found.iter().find_map(|found| found.as_ref().err()) {
                self.tried.insert(number, Tried::Fails(format!("{} at {}: {}", gap.fact, gap.host, gap.reason)));
                continue;
            }
            // A level that is there already is not turned.
            let there = |(knob, present): (&Knob, &Result<String, _>)| present.as_ref().is_ok_and(|p| *p == knob.value);
            let wanted = cell.knobs.iter().zip(&found).filter(|pair| !there(*pair)).map(|(knob, _)| knob.clone());
            turns.insert(number, wanted.collect());
        }
        turns
    }

    fn session(&mut self, stack: &Stack, cells: &[usize], turns: &BTreeMap<usize, Vec<Knob>>) -> Result<RunEnd> {
        let task = |number: &usize| {
            let cell: &PlannedCell = self.planned.cells.get(*number)?;
            let knobs = turns.get(number).cloned().unwrap_or_default();
            let plan = cell.plan.clone();
            Some(CellTask { cell: *number as u32, repeat: 0, knobs, plan, look: None, label: cell.label.clone() })
        };
        let tasks: Vec<CellTask> = cells.iter().filter_map(task).collect();
        let first = cells.first().and_then(|cell| self.planned.cells.get(*cell));
        let mut workload = first.map(|cell| cell.stack.workload.clone()).unwrap_or_default();
        workload.connections = first.map_or(workload.connections, |cell| cell.plan.connections);
        let sitting = Sitting {
            stack: Stack { workload, ..stack.clone() },
            goal: Goal::Cells(tasks),
            held: Vec::new(),
            effort: self.planned.effort.clone(),
            seed: load::seed(self.planned.seed),
            record: Recording::Nowhere,
        };
        let (progress, tried) = (&mut self.progress, &mut self.tried);
        let mut watcher = |event: &Event| {
            progress.show(event);
            if let Event::CellDone { seen } = event {
                let how = match seen.value {
                    Some(good_per_s) => Tried::Works(good_per_s),
                    None => Tried::Fails(seen.note.clone()),
                };
                tried.insert(seen.cell as usize, how);
            }
        };
        Ok(sit(sitting, &mut watcher, self.interrupted)?.run.end)
    }
}

fn in_text(planned: &Planned, tried: &BTreeMap<usize, Tried>) -> String {
    let lines = planned.cells.iter().enumerate().map(|(number, cell)| match tried.get(&number) {
        Some(Tried::Works(good_per_s)) => {
            format!("works      {}: {} requests/s, for a moment\n", cell.label, number::rate(*good_per_s))
        }
        Some(Tried::Fails(reason)) => format!("FAILS      {}: {reason}\n", cell.label),
        Some(Tried::Gap(reason)) => format!("gap        {}: {reason}\n", cell.label),
        None => format!("not tried  {}\n", cell.label),
    });
    let lines: String = lines.collect();
    let works = tried.values().filter(|tried| matches!(tried, Tried::Works(_))).count();
    format!("{}\n\n{lines}\n{works} of {} cells work here", planned.experiment.name, planned.cells.len())
}

fn in_json(planned: &Planned, tried: &BTreeMap<usize, Tried>) -> Result<String> {
    let cell = |(number, cell): (usize, &PlannedCell)| -> Value {
        let (state, good_per_s, reason) = match tried.get(&number) {
            Some(Tried::Works(good_per_s)) => ("works", Some(*good_per_s), None),
            Some(Tried::Fails(reason)) => ("fails", None, Some(reason)),
            Some(Tried::Gap(reason)) => ("gap", None, Some(reason)),
            None => ("not-tried", None, None),
        };
        json!({ "cell": cell.label, "state": state, "good_per_s": good_per_s, "reason": reason })
    };
    let cells: Vec<Value> = planned.cells.iter().enumerate().map(cell).collect();
    let name = &planned.experiment.name;
    Ok(serde_json::to_string_pretty(&json!({ "schema": SCHEMA, "name": name, "cells": cells }))?)
}
