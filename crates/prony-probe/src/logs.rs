//! Which logs the hop writes, and how large they are. Does not read their contents.
//!
//! Invariant: only regular files that the stack names or that a process of the hop holds open for appending.

use crate::cadence::Cadence;
use crate::fact_file::read_once;
use crate::facts::Facts;
use crate::hop::numbered;
use crate::roots::Roots;
use crate::sys;
use prony_model::Host;
use prony_model::metric::LOG_SIZE;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How often open files are searched for logs. A guess: logs are opened at start or at reload.
const SEARCH_NS: u64 = 10_000_000_000;
/// Descriptors looked at per process: a server opens its logs before its connections, so they have low numbers.
const DESCRIPTORS_MAX: u32 = 128;
/// Processes looked at: workers inherit the logs of their master.
const PROCESSES_MAX: usize = 8;
/// Logs followed per host. A guess.
const LOGS_MAX: usize = 16;

/// Reader of log sizes.
#[derive(Debug)]
pub(crate) struct LogSizes {
    host: Host,
    roots: Roots,
    logs: Vec<PathBuf>,
    pids: Vec<u32>,
    search: Cadence,
}

impl LogSizes {
    pub(crate) fn new(host: &Host, roots: &Roots) -> Self {
        Self {
            host: host.clone(),
            roots: roots.clone(),
            logs: Vec::new(),
            pids: Vec::new(),
            search: Cadence::every(SEARCH_NS),
        }
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, pids: impl Iterator<Item = u32>, at_ns: u64) {
        let pids: Vec<u32> = pids.take(PROCESSES_MAX).collect();
        if self.search.due(at_ns) || pids != self.pids {
            let started = sys::thread_cpu_ns();
            // One that is opened for every line is seen only now and then: what was seen once is followed on.
            let found = written(&self.host, &self.roots, &pids);
            self.logs.retain(|log| !found.contains(log) && log.exists());
            self.logs.splice(0..0, found);
            self.logs.truncate(LOGS_MAX);
            self.pids = pids;
            self.search.ran(at_ns, sys::thread_cpu_ns().saturating_sub(started));
        }
        for log in &self.logs {
            match std::fs::metadata(log) {
                Ok(meta) => facts.put(&LOG_SIZE, &log.display().to_string(), meta.len() as f64),
                Err(e) => facts.miss(LOG_SIZE.name, format_args!("{}: {e}", log.display())),
            }
        }
    }
}

/// The access log that the stack names, and every file that the processes hold open for appending.
pub(crate) fn written(host: &Host, roots: &Roots, pids: &[u32]) -> Vec<PathBuf> {
    let named = host.logs.access.iter().map(PathBuf::from);
    let held = held(roots, pids);
    let rest = held.into_iter().filter(|log| host.logs.access.as_deref().map(Path::new) != Some(log));
    named.chain(rest).take(LOGS_MAX).collect()
}

/// Every file that the processes hold open for appending right now.
pub(crate) fn held(roots: &Roots, pids: &[u32]) -> BTreeSet<PathBuf> {
    let mut logs: BTreeSet<PathBuf> = BTreeSet::new();
    for pid in pids.iter().take(PROCESSES_MAX) {
        let folder = roots.process(*pid);
        logs.extend(
            numbered(&folder.join("fd"))
                .into_iter()
                .take_while(|fd| *fd < DESCRIPTORS_MAX)
                .filter_map(|fd| appended(&folder, fd)),
        );
    }
    logs
}

/// Path of a descriptor when it is a regular file open for appending.
fn appended(process: &Path, fd: u32) -> Option<PathBuf> {
    let target = std::fs::read_link(process.join("fd").join(fd.to_string())).ok()?;
    // Sockets and pipes are no paths; asking their flags would cost one more file each.
    if !target.is_absolute() {
        return None;
    }
    let info = read_once(&process.join("fdinfo").join(fd.to_string())).ok()?;
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:"))?;
    let flags = i32::from_str_radix(flags.trim(), 8).ok()?;
    let is_file = std::fs::metadata(&target).is_ok_and(|meta| meta.is_file());
    (flags & libc::O_APPEND != 0 && is_file).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn finds_files_open_for_appending() {
        let dir = tempfile::tempdir().unwrap();
        let process = dir.path().join("proc/7");
        for folder in ["fd", "fdinfo"] {
            fs::create_dir_all(process.join(folder)).unwrap();
        }
        let log = |name: &str| dir.path().join(name);
        for (fd, target, flags) in [
            (1, log("access.log"), "02102001"),
            (2, log("data.db"), "0100002"),
            (3, log("rotated away"), "02102001"),
            (4, PathBuf::from("socket:[1]"), "02102001"),
        ] {
            symlink(&target, process.join(format!("fd/{fd}"))).unwrap();
            fs::write(process.join(format!("fdinfo/{fd}")), format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t1\n")).unwrap();
        }
        fs::write(log("access.log"), "12345").unwrap();
        fs::write(log("data.db"), "12345").unwrap();
        let roots = Roots { proc: dir.path().join("proc"), ..Roots::here() };
        assert_eq!(written(&Host::default(), &roots, &[7]), [log("access.log")]);
        assert_eq!(held(&roots, &[7]), [log("access.log")].into());
        assert_eq!(held(&roots, &[8]), [].into(), "no such process");
        let mut named = Host::default();
        named.logs.access = Some("/none/access.log".into());
        let mut facts = Facts::new("lb", 0);
        LogSizes::new(&named, &roots).read(&mut facts, [7].into_iter(), 0);
        assert_eq!(facts.value(&LOG_SIZE, log("access.log").to_str().unwrap()), Some(5.0));
        assert!(facts.listing().contains("gap log.size: /none/access.log"));
    }
}
