//! What one request does on a host: the only place where messages meet probe, load and tune.
//! Runs on a thread that is already inside the host.

use crate::message::{Reply, Request, Restored};
use crate::{flow, sys};
use prony_load::{Listener, Walks};
use prony_model::{Host, LoadPlan, Window};
use prony_probe::Roots;
use prony_tune::{Context, EntryId, Journal, TuneError};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A host and everything that stays the same between requests.
pub(crate) struct HostDesk {
    pub name: String,
    pub host: Host,
    journal_dir: PathBuf,
    /// Opened by the first change; closed, and its file removed, when the desk is dropped with nothing left changed.
    journal: Mutex<Option<Journal>>,
    /// What the last load left, for the next trial of the same scenario.
    walks: Mutex<Walks>,
}

impl HostDesk {
    pub fn new(name: &str, host: &Host, journal_dir: PathBuf) -> Self {
        Self {
            name: name.to_string(),
            host: host.clone(),
            journal_dir,
            journal: Mutex::new(None),
            walks: Mutex::default(),
        }
    }

    /// Does what is asked. Errors are sentences with the next step. `tell` hears what is to be told before the end.
    pub fn answer(
        &self,
        request: Request,
        roots: Roots,
        stop_load: &AtomicBool,
        tell: &(dyn Fn(Reply) + Sync),
    ) -> Result<Reply, String> {
        match request {
            Request::Hello => Ok(Reply::Hello { now_ns: sys::monotonic_ns() }),
            Request::Inventory => {
                let (inventory, gaps) = prony_probe::inventory(&self.name, &self.host, roots);
                Ok(Reply::Inventory(inventory, gaps))
            }
            Request::Look { duration } => {
                let at_ns = sys::monotonic_ns();
                let seen = prony_probe::look(&self.name, &self.host, roots, at_ns, duration.into());
                Ok(Reply::Looked(seen.sample, seen.gaps, seen.stacks))
            }
            Request::Prices => {
                let (sample, gaps) = prony_probe::prices(&self.name, roots, sys::monotonic_ns());
                Ok(Reply::Looked(sample, gaps, None))
            }
            Request::Load(plan) => self.load(&plan, stop_load, None),
            Request::LoadLive { plan, every } => {
                let tell = |progress| tell(Reply::Progress(Box::new(progress)));
                self.load(&plan, stop_load, Some(Listener { every: every.into(), tell: &tell }))
            }
            Request::Receive(plan) => flow::receive(self, roots, &plan, stop_load, tell),
            Request::Send { plan, port } => flow::send(self, roots, &plan, port, stop_load),
            Request::Read(id) => {
                let value = prony_tune::read(&self.context(&roots)?, &id).map_err(|e| e.to_string())?;
                Ok(Reply::Value(value))
            }
            Request::Rehearse(knob) => {
                let value = prony_tune::rehearse(&self.context(&roots)?, &knob).map_err(|e| e.to_string())?;
                Ok(Reply::Value(value))
            }
            Request::Apply(knob) => {
                let context = self.context(&roots)?;
                let applied = self.with_journal(|journal| prony_tune::apply(&context, &knob, journal))?;
                Ok(Reply::Applied { id: applied.id.0, change: applied.change })
            }
            Request::SlowCpu { cpus, period } => {
                let context = self.context(&roots)?;
                let slowed = self.with_journal(|journal| prony_tune::slow::cpu(&context, cpus, period, journal))?;
                let applied = slowed.applied;
                Ok(Reply::Applied { id: applied.id.0, change: applied.change })
            }
            Request::Undo { id } => {
                let undone = self.with_journal(|journal| prony_tune::undo(journal, EntryId(id)))?;
                Ok(Reply::Restored(Restored::from(undone)))
            }
            Request::Keep { id } => {
                self.with_journal(|journal| prony_tune::keep(journal, EntryId(id)))?;
                Ok(Reply::Kept)
            }
        }
    }

    fn load(&self, plan: &LoadPlan, stop: &AtomicBool, listener: Option<Listener<'_>>) -> Result<Reply, String> {
        let walks = || self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = std::mem::take(&mut *walks());
        let result = prony_load::run_on(plan, &mut left, stop, listener).map_err(|e| e.to_string())?;
        *walks() = left;
        let from_ns = result.counted_from_ns;
        let to_ns = from_ns + (result.duration_s * 1e9) as u64;
        Ok(Reply::Loaded(Window { from_ns, to_ns }, Box::new(result)))
    }

    fn with_journal<T>(&self, work: impl FnOnce(&Journal) -> Result<T, TuneError>) -> Result<T, String> {
        let mut journal: MutexGuard<'_, Option<Journal>> =
            self.journal.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if journal.is_none() {
            *journal = Some(Journal::open(&self.journal_dir).map_err(|e| e.to_string())?);
        }
        let journal = journal.as_ref().ok_or("the journal is not open")?;
        work(journal).map_err(|e| e.to_string())
    }

    fn context(&self, roots: &Roots) -> Result<Context<'_>, String> {
        let pids = match self.host.process {
            Some(_) => prony_probe::processes(&self.host, roots).map_err(|gap| gap.reason)?,
            None => Vec::new(),
        };
        Ok(Context { name: &self.name, host: &self.host, roots: tune_roots(roots), pids, place: self.host.at.clone() })
    }
}

/// The same roots in the words of the tuning crate, which knows nothing of the probe.
pub(crate) fn tune_roots(roots: &Roots) -> prony_tune::Roots {
    prony_tune::Roots { proc: roots.proc.clone(), sys: roots.sys.clone(), cgroup: roots.cgroup.clone() }
}
