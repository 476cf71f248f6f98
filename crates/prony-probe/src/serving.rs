//! Which of a hop's processes can serve requests: those that hold a socket, and what these started.
//!
//! A control group may hold others as well: a backup, a batch job, somebody's shell. They use the hop's CPUs and serve nobody.
//! Invariant: who cannot be told serves, and so does a debugger, which works on the account of what it traces.

use crate::fact_file::read_once;
use crate::hop::{numbered, open_files};
use crate::process::parent_of;
use crate::roots::Roots;
use crate::text::keyed;
use std::collections::BTreeSet;

/// Descriptors below are those of a terminal or a log, and a log may be a socket (journald's is).
const STANDARD: u32 = 3;
/// Descriptors looked through, unless a socket is among them before. A guess: a JVM opens some hundred archives first.
const DESCRIPTORS_MAX: usize = 1024;
/// Generations looked up. A guess.
const GENERATIONS_MAX: usize = 16;

/// Remembers who was seen with a socket: they need no second look.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    holders: BTreeSet<u32>,
}

impl Serving {
    /// Those of `pids`, which ascend, that can serve requests.
    pub(crate) fn among(&mut self, roots: &Roots, pids: &[u32]) -> BTreeSet<u32> {
        let is_own = |pid: &u32| pids.binary_search(pid).is_ok();
        self.holders.retain(is_own);
        let unknown = pids.iter().filter(|pid| !self.holders.contains(pid)).copied();
        let new: Vec<u32> = unknown.filter(|pid| may_hold_socket(roots, *pid)).collect();
        self.holders.extend(new);
        if self.holders.is_empty() || self.holders.len() == pids.len() {
            return pids.iter().copied().collect();
        }
        let tracers = pids.iter().filter_map(|pid| tracer_of(roots, *pid));
        let heads: BTreeSet<u32> = self.holders.iter().copied().chain(tracers).collect();
        let parent = |pid: &u32| parent_of(roots, *pid).filter(is_own);
        let line = |pid: u32| std::iter::successors(Some(pid), parent).take(GENERATIONS_MAX);
        pids.iter().copied().filter(|pid| line(*pid).any(|pid| heads.contains(&pid))).collect()
    }
}

fn may_hold_socket(roots: &Roots, pid: u32) -> bool {
    let folder = roots.process(pid).join("fd");
    if std::fs::read_dir(&folder).is_err() {
        return true;
    }
    let later = numbered(&folder).into_iter().filter(|fd| *fd >= STANDARD).take(DESCRIPTORS_MAX);
    open_files(&folder, later).any(|target| target.starts_with("socket:"))
}

fn tracer_of(roots: &Roots, pid: u32) -> Option<u32> {
    let status = read_once(&roots.process(pid).join("status")).ok()?;
    keyed(&status, "TracerPid:").map(|pid| pid as u32).filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// A process with a parent, a tracer (0: none), and what it has open.
    fn process(proc: &Path, pid: u32, parent: u32, tracer: u32, open: &[(u32, &str)]) {
        let folder = proc.join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        std::fs::write(folder.join("stat"), format!("{pid} (p) S {parent} 0 0\n")).unwrap();
        std::fs::write(folder.join("status"), format!("Name:\tp\nTracerPid:\t{tracer}\n")).unwrap();
        for (fd, target) in open {
            symlink(target, folder.join("fd").join(fd.to_string())).unwrap();
        }
    }

    #[test]
    fn who_holds_a_socket_serves_and_so_do_its_children_and_its_debugger() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: dir.path().to_path_buf(), ..Roots::here() };
        let process = |pid, parent, tracer, open: &[(u32, &str)]| process(dir.path(), pid, parent, tracer, open);
        process(10, 1, 0, &[(0, "/dev/null"), (6, "socket:[7]")]);
        process(11, 10, 15, &[(0, "pipe:[9]"), (1, "pipe:[9]")]);
        process(12, 1, 0, &[(1, "socket:[8]"), (2, "socket:[8]"), (3, "/var/data")]);
        process(13, 12, 0, &[]);
        process(15, 1, 0, &[(0, "/dev/pts/0")]);
        std::fs::create_dir_all(dir.path().join("16")).unwrap();
        let pids = [10, 11, 12, 13, 15, 16];
        let mut serving = Serving::default();
        let want = BTreeSet::from([10, 11, 15, 16]);
        assert_eq!(serving.among(&roots, &pids), want, "12 only writes to the journal; 16 cannot be told");
        // What was seen once holds.
        std::fs::remove_file(dir.path().join("10/fd/6")).unwrap();
        assert_eq!(serving.among(&roots, &pids), want);
        assert_eq!(
            serving.among(&roots, &[12, 13]),
            BTreeSet::from([12, 13]),
            "none of them has one: none can be told"
        );
    }
}
