//! Threads bound to CPUs.
//!
//! Threads and processes that are born from a bound one inherit its CPUs; restore finds them and frees them as well.

use super::Look;
use crate::error::TuneError;
use crate::{Roots, process, sys};
use prony_model::CpuList;
use serde::{Deserialize, Serialize};

/// Threads and the CPUs they are given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// Every thread of the host's processes; the first is the main thread of the main process.
    pub threads: Vec<Bound>,
    /// CPUs after.
    pub new: CpuList,
}

/// A thread and its CPUs before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Its number.
    pub tid: u32,
    /// When it started, see [`process::start_ticks`].
    pub start_ticks: u64,
    /// CPUs before.
    pub old: CpuList,
}

impl Affinity {
    pub(super) fn look(&self, roots: &Roots) -> Look {
        let (mut alive, mut ours, mut foreign) = (0, 0, Vec::new());
        for (tid, old) in self.everyone(roots) {
            let Ok(now) = sys::affinity(tid) else { continue };
            alive += 1;
            if now == self.new && now != old {
                ours += 1;
            } else if now != old {
                foreign.push(format!("thread {tid} is bound to {now} now"));
            }
        }
        match (alive, ours, foreign.is_empty()) {
            (0, _, _) => Look::Gone("its processes ended".to_string()),
            (_, 0, true) => Look::Old,
            (_, _, true) => Look::New,
            (_, _, false) => Look::Partly(foreign.join(", ")),
        }
    }

    pub(super) fn apply(&self, roots: &Roots) -> Result<(), TuneError> {
        for thread in self.threads.iter().filter(|t| t.is_alive(roots)) {
            bind(thread.tid, &self.new)?;
        }
        Ok(())
    }

    pub(super) fn restore(&self, roots: &Roots) -> Result<(), TuneError> {
        for (tid, old) in self.everyone(roots) {
            if sys::affinity(tid).is_ok_and(|now| now == self.new) {
                bind(tid, &old)?;
            }
        }
        Ok(())
    }

    pub(super) fn diff(&self) -> String {
        let old = self.threads.first().map(|t| t.old.to_string()).unwrap_or_default();
        format!("CPUs of {} threads: {old} -> {}\n", self.threads.len(), self.new)
    }

    /// The threads that were bound and those born since, which get the CPUs that the main thread had.
    fn everyone(&self, roots: &Roots) -> Vec<(u32, CpuList)> {
        let alive: Vec<&Bound> = self.threads.iter().filter(|t| t.is_alive(roots)).collect();
        let Some(main) = self.threads.first() else { return Vec::new() };
        let known: Vec<u32> = alive.iter().map(|t| t.tid).collect();
        let family = process::with_descendants(&roots.proc, &known);
        let born = family.into_iter().flat_map(|pid| process::threads(&roots.proc, pid));
        let born = born.filter(|tid| !known.contains(tid)).map(|tid| (tid, main.old.clone()));
        alive.iter().map(|t| (t.tid, t.old.clone())).chain(born).collect()
    }
}

impl Bound {
    fn is_alive(&self, roots: &Roots) -> bool {
        process::start_ticks(&roots.proc, self.tid) == Some(self.start_ticks)
    }
}

/// Binds a thread; one that has ended meanwhile needs no binding.
fn bind(tid: u32, cpus: &CpuList) -> Result<(), TuneError> {
    match sys::set_affinity(tid, cpus) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other.map_err(|e| {
            TuneError::missing(
                format!("thread {tid} cannot be bound to CPUs {cpus}: {e}"),
                "choose CPUs that are online and that its cpuset allows, and run as root",
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_born_meanwhile_is_freed_too() {
        let Ok(all) = sys::affinity(0) else { return };
        let Some(second) = all.as_slice().get(1).copied() else {
            eprintln!("skipped: needs two CPUs");
            return;
        };
        let roots = Roots::default();
        let second = CpuList::from_iter([second]);
        let mut parent = std::process::Command::new("sh")
            .args(["-c", "read x; sleep 30 & echo up; wait"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let start_ticks = process::start_ticks(&roots.proc, parent.id()).unwrap();
        let bound = Bound { tid: parent.id(), start_ticks, old: all.clone() };
        let step = Affinity { threads: vec![bound], new: second.clone() };
        assert_eq!(step.look(&roots), Look::Old);
        step.apply(&roots).unwrap();
        std::io::Write::write_all(parent.stdin.as_mut().unwrap(), b"go\n").unwrap();
        std::io::Read::read_exact(parent.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
        let children = process::children(&roots.proc, parent.id());
        let child = *children.first().unwrap();
        assert_eq!(sys::affinity(child).unwrap(), second);
        assert_eq!(step.look(&roots), Look::New);
        step.restore(&roots).unwrap();
        assert_eq!(sys::affinity(child).unwrap(), all);
        assert_eq!(step.look(&roots), Look::Old);
        sys::signal(child, libc::SIGKILL).unwrap();
        parent.wait().unwrap();
        assert!(matches!(step.look(&roots), Look::Gone(_)));
    }
}
