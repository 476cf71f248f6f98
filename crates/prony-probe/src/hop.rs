//! Which processes are the hop: by pid file, name, pids or control group, with their descendants.
//!
//! Reads no numbers about them (`process.rs`). Invariant: what is not found is a gap that says what to write or start.

use crate::cgroup;
use crate::fact_file::read_once;
use crate::process::StatFields;
use crate::roots::Roots;
use prony_model::{Gap, Host, ProcessRef};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A hop with more processes is not followed one by one. A guess: PostgreSQL with a connection pool has some hundred.
pub(crate) const PROCESSES_MAX: usize = 512;

/// The pids of the hop, its main process first: the oldest.
///
/// # Errors
/// A gap of the fact `proc` (without a host name, which this function does not know) when the stack names no process,
/// or when what it names is not there.
pub fn processes(host: &Host, roots: &Roots) -> Result<Vec<u32>, Gap> {
    let gap = |reason: String| Err(Gap::new("proc", "", reason));
    let found = match &host.process {
        None => {
            return gap(
                "the stack does not name the server's processes: add `process = { pid_file = \"/run/nginx.pid\" }`, \
                 `{ name = \"nginx\" }`, `{ pids = [12] }` or `{ cgroup = \"/path\" }` to this host"
                    .to_string(),
            );
        }
        Some(ProcessRef::PidFile(file)) => match pid_of_file(file, roots) {
            Ok(pid) => with_descendants(roots, &[pid]),
            Err(reason) => return gap(reason),
        },
        Some(ProcessRef::Pids(pids)) => {
            if let Some(dead) = pids.iter().find(|pid| !runs(roots, **pid)) {
                return gap(format!("process {dead} does not run: write the pids of the server as it runs now"));
            }
            with_descendants(roots, pids)
        }
        Some(ProcessRef::Name(name)) => named(roots, name),
        Some(ProcessRef::Cgroup(path)) => match cgroup::members(roots, path) {
            Ok(pids) => pids,
            Err(reason) => return gap(reason),
        },
    };
    match (found.len(), &host.process) {
        (0, Some(ProcessRef::Name(name))) => {
            gap(format!("no process called `{name}` runs in this network namespace: is the server started?"))
        }
        (0, Some(ProcessRef::Cgroup(path))) => gap(format!("control group {path} is empty: is the server started?")),
        (0, _) => gap("no process is left of those that the stack names".to_string()),
        (n, _) if n > PROCESSES_MAX => {
            gap(format!("{n} processes belong to this host, more than {PROCESSES_MAX}: name its main ones by `pids`"))
        }
        _ => Ok(oldest_first(roots, found)),
    }
}

fn pid_of_file(file: &str, roots: &Roots) -> Result<u32, String> {
    let text = read_once(&PathBuf::from(file)).map_err(|e| format!("pid file {file}: {e}: is the server started?"))?;
    let pid = text.trim().parse().map_err(|_| {
        let seen: String = text.trim().chars().take(40).collect();
        format!("pid file {file} holds `{seen}`, which is not a pid")
    })?;
    if runs(roots, pid) {
        Ok(pid)
    } else {
        Err(format!(
            "pid file {file} names process {pid}, which does not run: start the server, or remove the stale file"
        ))
    }
}

fn runs(roots: &Roots, pid: u32) -> bool {
    parent(roots, pid).is_some()
}

/// Parent of a process. None for one that does not exist or that has ended.
fn parent(roots: &Roots, pid: u32) -> Option<u32> {
    live_stat(roots, pid, 4).map(|parent| parent as u32)
}

/// A field of /proc/PID/stat, numbered as in proc(5). None for a process that does not exist or that has ended.
fn live_stat(roots: &Roots, pid: u32, field: usize) -> Option<f64> {
    let stat = read_once(&roots.process(pid).join("stat")).ok()?;
    let fields = StatFields::of(&stat)?;
    if matches!(fields.word(3)?, "Z" | "X") { None } else { fields.number(field) }
}

/// By when they started, those that have ended last: the first is the server's main process, also where pids began anew at 1 because a
/// server forks for each connection.
fn oldest_first(roots: &Roots, mut pids: Vec<u32>) -> Vec<u32> {
    let started_ticks = |pid: &u32| live_stat(roots, *pid, 22).map_or(u64::MAX, |ticks| ticks as u64);
    pids.sort_by_cached_key(|pid| (started_ticks(pid), *pid));
    pids
}

/// The processes and everything below them, ascending.
fn with_descendants(roots: &Roots, first: &[u32]) -> Vec<u32> {
    let mut found: BTreeSet<u32> = BTreeSet::new();
    let mut open: Vec<u32> = first.to_vec();
    let mut by_parent: Option<BTreeMap<u32, Vec<u32>>> = None;
    while let Some(pid) = open.pop() {
        if !found.insert(pid) {
            continue;
        }
        match listed_children(roots, pid) {
            Some(children) => open.extend(children),
            None => {
                let tree = by_parent.get_or_insert_with(|| children_by_parent(roots));
                open.extend(tree.get(&pid).into_iter().flatten());
            }
        }
    }
    found.retain(|pid| runs(roots, *pid));
    found.into_iter().collect()
}

/// Children as /proc/PID/task/TID/children lists them; none on kernels without CONFIG_PROC_CHILDREN.
fn listed_children(roots: &Roots, pid: u32) -> Option<Vec<u32>> {
    let mut children = Vec::new();
    for thread in numbered(&roots.process(pid).join("task")) {
        let file = roots.process(pid).join("task").join(thread.to_string()).join("children");
        children.extend(read_once(&file).ok()?.split_whitespace().filter_map(|w| w.parse::<u32>().ok()));
    }
    Some(children)
}

/// The slow way: the parent of every process.
fn children_by_parent(roots: &Roots) -> BTreeMap<u32, Vec<u32>> {
    let mut tree: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in numbered(&roots.proc) {
        if let Some(parent) = parent(roots, pid) {
            tree.entry(parent).or_default().push(pid);
        }
    }
    tree
}

/// Processes of that name in the namespace of this thread: on one machine several namespaces may run the same server.
fn named(roots: &Roots, name: &str) -> Vec<u32> {
    let here = std::fs::read_link(roots.proc.join("thread-self/ns/net")).ok();
    let matches = |pid: &u32| {
        let folder = roots.process(*pid);
        let comm = read_once(&folder.join("comm")).unwrap_or_default();
        // The kernel cuts names to fifteen bytes (TASK_COMM_LEN).
        let same = comm.trim_end() == name.get(..15).unwrap_or(name);
        same && runs(roots, *pid)
            && here.as_ref().is_none_or(|here| std::fs::read_link(folder.join("ns/net")).is_ok_and(|ns| ns == *here))
    };
    numbered(&roots.proc).into_iter().filter(matches).collect()
}

/// Entries of a folder whose names are numbers, ascending.
pub(crate) fn numbered(folder: &std::path::Path) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// What descriptors of a process's `fd` folder lead to, like `socket:[777]`; those that are closed meanwhile are left out.
pub(crate) fn open_files(
    folder: &std::path::Path,
    descriptors: impl Iterator<Item = u32>,
) -> impl Iterator<Item = String> {
    let target = |fd: u32| std::fs::read_link(folder.join(fd.to_string())).ok()?.to_str().map(str::to_string);
    descriptors.filter_map(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::fs;

    /// A tree with processes (pid, parent, name); 2 and 3 are below 1. Without `children` files when `old`.
    fn tree(old: bool) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        for (pid, parent, name, state) in
            [(1, 0, "ng) inx", "S"), (2, 1, "nginx", "S"), (3, 2, "nginx", "R"), (4, 0, "other", "S"), (5, 1, "x", "Z")]
        {
            let folder = proc.join(pid.to_string());
            fs::create_dir_all(folder.join(format!("task/{pid}"))).unwrap();
            fs::write(folder.join("stat"), format!("{pid} ({name}) {state} {parent} 0 0")).unwrap();
            fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
            if !old {
                let children = ["", "2 5 ", "3 ", "", "", ""][pid];
                fs::write(folder.join(format!("task/{pid}/children")), children).unwrap();
            }
        }
        let roots = Roots { proc, sys: "/none".into(), cgroup: "/none".into(), scratch: "/none".into() };
        (dir, roots)
    }

    fn check(process: Option<ProcessRef>, want: Expect) {
        let (_dir, roots) = tree(false);
        let host = Host { process, ..Host::default() };
        want.assert_eq(&match processes(&host, &roots) {
            Ok(pids) => format!("{pids:?}"),
            Err(gap) => gap.to_string(),
        });
    }

    #[test]
    fn finds_processes_and_says_what_is_wrong() {
        check(Some(ProcessRef::Pids(vec![1])), expect!["[1, 2, 3]"]);
        check(Some(ProcessRef::Name("nginx".into())), expect!["[2, 3]"]);
        check(
            Some(ProcessRef::Name("apache2".into())),
            expect!["proc: no process called `apache2` runs in this network namespace: is the server started?"],
        );
        check(
            Some(ProcessRef::Pids(vec![1, 99])),
            expect!["proc: process 99 does not run: write the pids of the server as it runs now"],
        );
        check(
            None,
            expect![[
                r#"proc: the stack does not name the server's processes: add `process = { pid_file = "/run/nginx.pid" }`, `{ name = "nginx" }`, `{ pids = [12] }` or `{ cgroup = "/path" }` to this host"#
            ]],
        );
    }

    #[test]
    fn pid_files_good_stale_and_wrong() {
        let (dir, roots) = tree(false);
        let file = dir.path().join("pid");
        let host = Host { process: Some(ProcessRef::PidFile(file.display().to_string())), ..Host::default() };
        let reason = |text: &str| {
            fs::write(&file, text).unwrap();
            processes(&host, &roots).map_err(|gap| gap.reason)
        };
        assert_eq!(reason("2\n"), Ok(vec![2, 3]));
        assert!(reason("77\n").unwrap_err().contains("names process 77, which does not run"));
        assert!(reason("5\n").unwrap_err().contains("does not run"), "a zombie serves nothing");
        assert!(reason("nginx").unwrap_err().contains("which is not a pid"));
        fs::remove_file(&file).unwrap();
        assert!(processes(&host, &roots).unwrap_err().reason.contains("is the server started?"));
    }

    #[test]
    fn the_oldest_process_is_the_first_also_where_pids_began_anew() {
        let (_dir, roots) = tree(false);
        let host = Host { process: Some(ProcessRef::Pids(vec![1])), ..Host::default() };
        for (pid, parent, started) in [(1, 0, 900), (2, 1, 950), (3, 2, 30)] {
            let between = "0 ".repeat(17);
            fs::write(roots.process(pid).join("stat"), format!("{pid} (a b) S {parent} {between}{started} 0")).unwrap();
        }
        assert_eq!(processes(&host, &roots), Ok(vec![3, 1, 2]));
    }

    #[test]
    fn old_kernels_without_children_files() {
        let (_dir, roots) = tree(true);
        assert_eq!(with_descendants(&roots, &[1]), [1, 2, 3]);
    }
}
