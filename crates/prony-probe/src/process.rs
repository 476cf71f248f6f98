//! Facts of the hop's processes, one by one: CPU time, waiting for a CPU, memory, writes, limits.
//!
//! Follows processes that come and go (a reload of the server). Invariant: a counter of a process never falls while it
//! lives, though its threads end: what ended threads had used stays counted.

use crate::cadence::Cadence;
use crate::fact_file::{FactFile, read_once};
use crate::facts::Facts;
use crate::hop::{self, numbered};
use crate::machine::SLOW_NS;
use crate::roots::Roots;
use crate::serving::Serving;
use crate::sys;
use crate::text::{count, keyed, word_of};
use prony_model::metric as m;
use prony_model::{CpuList, Gap, Host, Role, Software};
use std::collections::{BTreeMap, BTreeSet};

/// Threads of one process that are read one by one. A JVM has 50 to 200; a guess.
const THREADS_MAX: usize = 256;

/// Readers of the processes of one hop.
#[derive(Debug)]
pub(crate) struct Processes {
    host: Host,
    roots: Roots,
    followed: BTreeMap<u32, Process>,
    /// The server's main process.
    main: Option<u32>,
    serving: Serving,
    search: Cadence,
    slow: Cadence,
    ticks_per_s: f64,
    page_bytes: f64,
}

/// One process.
#[derive(Debug)]
struct Process {
    item: String,
    is_worker: bool,
    serves: bool,
    stat: FactFile,
    schedstat: FactFile,
    io: FactFile,
    status: FactFile,
    threads: Threads,
}

/// Run time and run delay of the threads of a process, in nanoseconds.
#[derive(Debug, Default)]
struct Threads {
    last: BTreeMap<u32, (f64, f64)>,
    ended: (f64, f64),
}

impl Processes {
    pub(crate) fn new(host: &Host, roots: &Roots) -> Self {
        Self {
            host: host.clone(),
            roots: roots.clone(),
            followed: BTreeMap::new(),
            main: None,
            serving: Serving::default(),
            search: Cadence::every(SLOW_NS),
            slow: Cadence::every(SLOW_NS),
            ticks_per_s: sys::ticks_per_second(),
            page_bytes: sys::page_bytes(),
        }
    }

    /// The server's main process, as of the last search.
    pub(crate) fn main(&self) -> Option<u32> {
        let lives = |pid: &u32| self.followed.contains_key(pid);
        self.main.filter(lives).or_else(|| self.pids().next())
    }

    /// Pids as of the last search.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.followed.keys().copied()
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>, at_ns: u64) {
        if self.search.due(at_ns) {
            let started = sys::thread_cpu_ns();
            match hop::processes(&self.host, &self.roots) {
                Ok(pids) => self.follow(&pids),
                Err(gap) => {
                    self.followed.clear();
                    miss_processes(facts, &self.host, &gap);
                }
            }
            self.search.ran(at_ns, sys::thread_cpu_ns().saturating_sub(started));
        }
        if self.followed.is_empty() {
            return;
        }
        let slow = self.slow.due(at_ns);
        if slow {
            self.slow.ran(at_ns, 0);
        }
        self.followed.retain(|_, process| {
            facts.now();
            let lives = process.read(facts, page, self.ticks_per_s, self.page_bytes, slow);
            if lives && slow {
                process.read_slow(facts, page, &self.roots);
            }
            lives
        });
        facts.put(&m::PROC_COUNT, "", self.followed.len() as f64);
    }

    fn follow(&mut self, pids: &[u32]) {
        self.main = pids.first().copied();
        self.followed.retain(|pid, _| pids.contains(pid));
        let serving = self.serving.among(&self.roots, pids);
        let workers = workers(&self.host, &self.roots, pids, &serving);
        for pid in pids {
            let process = self.followed.entry(*pid).or_insert_with(|| Process::new(*pid, &self.roots));
            process.is_worker = workers.contains(pid);
            process.serves = serving.contains(pid);
        }
    }
}

/// A generator's processes are the load's own: nobody names them, and nobody misses them.
pub(crate) fn miss_processes(facts: &mut Facts, host: &Host, gap: &Gap) {
    if host.role != Role::Generator || host.process.is_some() {
        facts.miss_gap(gap);
    }
}

/// The processes that serve requests. nginx says it in the title; of others it is those that can, without a child that can.
pub(crate) fn workers(host: &Host, roots: &Roots, pids: &[u32], serving: &BTreeSet<u32>) -> Vec<u32> {
    if host.software == Some(Software::Nginx) {
        let title = |pid: &u32| read_once(&roots.process(*pid).join("cmdline")).unwrap_or_default();
        let named: Vec<u32> = pids.iter().copied().filter(|pid| title(pid).contains("worker process")).collect();
        if !named.is_empty() {
            return named;
        }
    }
    let parents: BTreeSet<u32> = serving.iter().filter_map(|pid| parent_of(roots, *pid)).collect();
    serving.difference(&parents).copied().collect()
}

pub(crate) fn parent_of(roots: &Roots, pid: u32) -> Option<u32> {
    let stat = read_once(&roots.process(pid).join("stat")).ok()?;
    StatFields::of(&stat)?.number(4).map(|n| n as u32)
}

/// Fields of /proc/PID/stat, numbered from 1 as in proc(5).
pub(crate) struct StatFields<'t>(Vec<&'t str>);

impl<'t> StatFields<'t> {
    /// The name in field 2 may hold brackets and spaces, so fields are counted from the last bracket.
    pub(crate) fn of(text: &'t str) -> Option<Self> {
        text.rsplit_once(')').map(|(_, rest)| Self(rest.split_whitespace().collect()))
    }

    pub(crate) fn word(&self, field: usize) -> Option<&'t str> {
        self.0.get(field.checked_sub(3)?).copied()
    }

    pub(crate) fn number(&self, field: usize) -> Option<f64> {
        self.word(field).and_then(count)
    }
}

impl Process {
    fn new(pid: u32, roots: &Roots) -> Self {
        let file = |name: &str| FactFile::new(roots.process(pid).join(name));
        Self {
            item: pid.to_string(),
            is_worker: false,
            serves: true,
            stat: file("stat"),
            schedstat: file("schedstat"),
            io: file("io"),
            status: file("status"),
            threads: Threads::default(),
        }
    }

    /// False when the process is gone.
    fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>, ticks_per_s: f64, page_bytes: f64, slow: bool) -> bool {
        let item = self.item.as_str();
        let Ok(text) = self.stat.text(page) else { return false };
        let Some(stat) = StatFields::of(&text) else { return false };
        if matches!(stat.word(3), Some("Z" | "X")) {
            return false;
        }
        let seconds = |field| stat.number(field).map(|ticks| ticks / ticks_per_s);
        facts.put(&m::PROC_DISK_SLEEP, item, f64::from(u8::from(stat.word(3) == Some("D"))));
        facts.put_some(&m::PROC_MAJOR_FAULTS, item, stat.number(12));
        facts.put_some(&m::PROC_USER, item, seconds(14));
        facts.put_some(&m::PROC_SYSTEM, item, seconds(15));
        let threads = stat.number(20);
        if slow {
            facts.put_some(&m::PROC_THREADS, item, threads);
            facts.put_some(&m::PROC_MEMORY, item, stat.number(24).map(|pages| pages * page_bytes));
        }
        if threads == Some(1.0) && self.threads.last.is_empty() {
            if let Some(text) = facts.text(&mut self.schedstat, page, "proc.run") {
                put_run(facts, item, schedstat(&text));
            }
        } else if slow {
            let folder = self.schedstat.path().with_file_name("task");
            let sum = self.threads.read(&folder, facts);
            put_run(facts, item, sum);
        }
        if let Some(text) = facts.text(&mut self.io, page, "proc.io") {
            facts.put_some(&m::PROC_READS, item, keyed(&text, "syscr:"));
            facts.put_some(&m::PROC_WRITES, item, keyed(&text, "syscw:"));
            facts.put_some(&m::PROC_WRITTEN, item, keyed(&text, "wchar:"));
            facts.put_some(&m::PROC_DISK_WRITTEN, item, keyed(&text, "write_bytes:"));
        }
        true
    }

    fn read_slow(&mut self, facts: &mut Facts, page: &mut Vec<u8>, roots: &Roots) {
        let item = self.item.as_str();
        facts.put(&m::PROC_IS_WORKER, item, f64::from(u8::from(self.is_worker)));
        facts.put(&m::PROC_SERVES, item, f64::from(u8::from(self.serves)));
        if let Some(text) = facts.text(&mut self.status, page, "proc.status") {
            if let Some(name) = word_of(&text, "Name:") {
                facts.put(&m::PROC_NAME, &format!("{item} {name}"), 1.0);
            }
            let cpus = word_of(&text, "Cpus_allowed_list:").and_then(|list| list.parse::<CpuList>().ok());
            let count = cpus.as_ref().map(|list| list.as_slice().len() as f64);
            facts.put_some(&m::PROC_CPUS_ALLOWED, item, count);
            if let Some(list) = &cpus {
                facts.put_if_any(&m::PROC_AFFINITY, &format!("{item} {list}"), count);
            }
            facts.put_some(&m::PROC_SWITCHES_VOLUNTARY, item, keyed(&text, "voluntary_ctxt_switches:"));
            facts.put_some(&m::PROC_SWITCHES_INVOLUNTARY, item, keyed(&text, "nonvoluntary_ctxt_switches:"));
            facts.put_some(&m::PROC_TRACER, item, keyed(&text, "TracerPid:").map(|pid| f64::from(u8::from(pid > 0.0))));
        }
        let folder = roots.proc.join(item);
        match descriptors(&folder) {
            Ok(open) => facts.put(&m::PROC_DESCRIPTORS, item, open),
            Err(e) => facts.miss(m::PROC_DESCRIPTORS.name, format_args!("{}/fd: {e}", folder.display())),
        }
        match read_once(&folder.join("limits")) {
            Ok(text) => facts.put_if_any(&m::PROC_DESCRIPTOR_LIMIT, item, open_files_limit(&text)),
            Err(e) => facts.miss(m::PROC_DESCRIPTOR_LIMIT.name, format_args!("{}/limits: {e}", folder.display())),
        }
    }
}

fn put_run(facts: &mut Facts, item: &str, run_and_delay_ns: Option<(f64, f64)>) {
    if let Some((run, delay)) = run_and_delay_ns {
        facts.put(&m::PROC_RUN, item, run / 1e9);
        facts.put(&m::PROC_RUN_DELAY, item, delay / 1e9);
    }
}

/// Run time and run delay in nanoseconds.
fn schedstat(text: &str) -> Option<(f64, f64)> {
    let mut words = text.split_whitespace();
    Some((words.next().and_then(count)?, words.next().and_then(count)?))
}

impl Threads {
    /// Sum over all threads that ever were seen.
    fn read(&mut self, task: &std::path::Path, facts: &mut Facts) -> Option<(f64, f64)> {
        let ids = numbered(task);
        if ids.len() > THREADS_MAX {
            facts.miss("proc.run", format_args!("{}: more than {THREADS_MAX} threads: not summed", task.display()));
            return None;
        }
        let mut now = BTreeMap::new();
        for id in ids {
            let text = read_once(&task.join(id.to_string()).join("schedstat"));
            if let Some(values) = text.ok().as_deref().and_then(schedstat) {
                now.insert(id, values);
            }
        }
        self.replace(now)
    }

    fn replace(&mut self, now: BTreeMap<u32, (f64, f64)>) -> Option<(f64, f64)> {
        for (id, (run, delay)) in &self.last {
            // An id that came back with less is another thread.
            if now.get(id).is_none_or(|(r, _)| r < run) {
                self.ended = (self.ended.0 + run, self.ended.1 + delay);
            }
        }
        self.last = now;
        let sum = |sum: (f64, f64), (run, delay): &(f64, f64)| (sum.0 + run, sum.1 + delay);
        (!self.last.is_empty()).then(|| self.last.values().fold(self.ended, sum))
    }
}

/// Open descriptors: since Linux 6.2 the size of the folder, else its entries.
pub(crate) fn descriptors(process: &std::path::Path) -> std::io::Result<f64> {
    let folder = process.join("fd");
    let size = std::fs::metadata(&folder)?.len();
    let proc_fs = process.starts_with("/proc");
    if proc_fs && size > 0 { Ok(size as f64) } else { Ok(std::fs::read_dir(&folder)?.count() as f64) }
}

/// The soft limit; none when it is unlimited.
pub(crate) fn open_files_limit(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|l| l.strip_prefix("Max open files"))?;
    line.split_whitespace().next().and_then(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_with_brackets_do_not_shift_fields() {
        let stat = StatFields::of("12 (a) S 1) (b) R 7 0").unwrap();
        assert_eq!((stat.word(3), stat.number(4)), (Some("R"), Some(7.0)));
        assert_eq!(stat.word(1), None);
    }

    #[test]
    fn ended_threads_stay_counted() {
        let mut threads = Threads::default();
        assert_eq!(threads.replace(BTreeMap::from([(1, (10.0, 1.0)), (2, (20.0, 2.0))])), Some((30.0, 3.0)));
        assert_eq!(threads.replace(BTreeMap::from([(1, (11.0, 1.0))])), Some((31.0, 3.0)));
        assert_eq!(threads.replace(BTreeMap::from([(1, (11.0, 1.0)), (2, (5.0, 0.0))])), Some((36.0, 3.0)));
        assert_eq!(threads.replace(BTreeMap::new()), None);
    }

    #[test]
    fn limits_may_be_unlimited() {
        let text = "Limit Soft Limit\nMax open files            1024                 524288               files\n";
        assert_eq!(open_files_limit(text), Some(1024.0));
        assert_eq!(
            open_files_limit("Max open files            unlimited            unlimited            files\n"),
            None
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "[()0-9A-Z \n\\PC]{0,100}") {
            if let Some(stat) = StatFields::of(&s) {
                let _ = (stat.number(3), stat.number(24), stat.word(0));
            }
            let _ = (schedstat(&s), open_files_limit(&s));
        }
    }
}
