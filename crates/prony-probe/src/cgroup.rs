//! The control group of the hop: CPU use, quota, throttling, OOM kills, in both versions of control groups.
//!
//! Where a controller is mounted is read from /proc/self/mountinfo, never assumed. Invariant: a group that holds
//! everything (the root) or that prony shares gives no values, for they would speak of others.

use crate::cadence::Cadence;
use crate::fact_file::{FactFile, read_once};
use crate::facts::Facts;
use crate::machine::SLOW_NS;
use crate::roots::Roots;
use crate::text::{count, keyed};
use prony_model::cgroup::{Hierarchy, Membership, Version};
use prony_model::metric as m;
use std::path::{Path, PathBuf};

/// Reader of one hop's control group.
#[derive(Debug)]
pub(crate) struct Cgroup {
    roots: Roots,
    /// Found for this pid; searched again when the pid changes, and every second, because processes may be moved.
    pid: Option<u32>,
    cpu: Option<CpuFiles>,
    usage: Option<(FactFile, Usage)>,
    oom: Option<FactFile>,
    limit_hits: Option<(FactFile, Version)>,
    search: Cadence,
}

/// Files of the group that limits CPU: the nearest one upward that has a quota, else the hop's own.
#[derive(Debug)]
struct CpuFiles {
    stat: FactFile,
    quota: QuotaFiles,
}

#[derive(Debug)]
enum QuotaFiles {
    V1 { quota: FactFile, period: FactFile },
    V2 { max: FactFile },
}

/// In which form CPU use is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Usage {
    /// `cpuacct.usage`: nanoseconds.
    V1,
    /// `usage_usec` of `cpu.stat`.
    V2,
}

impl Cgroup {
    pub(crate) fn new(roots: &Roots) -> Self {
        Self {
            roots: roots.clone(),
            pid: None,
            cpu: None,
            usage: None,
            oom: None,
            limit_hits: None,
            search: Cadence::every(SLOW_NS),
        }
    }

    /// Facts of the group that holds `pid`, the hop's first process.
    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>, pid: u32, at_ns: u64) {
        if self.pid != Some(pid) || self.search.due(at_ns) {
            self.search.ran(at_ns, 0);
            self.pid = Some(pid);
            self.search_files(facts, pid);
        }
        if let Some((file, usage)) = &mut self.usage
            && let Some(text) = facts.text(file, page, m::CGROUP_USAGE.name)
        {
            let seconds = match usage {
                Usage::V1 => count(text.trim()).map(|ns| ns / 1e9),
                Usage::V2 => keyed(&text, "usage_usec").map(|us| us / 1e6),
            };
            facts.put_some(&m::CGROUP_USAGE, "", seconds);
        }
        if let Some(cpu) = &mut self.cpu {
            cpu.read(facts, page);
        }
        if let Some(file) = &mut self.oom
            && let Some(text) = facts.text(file, page, m::CGROUP_OOM_KILLS.name)
        {
            facts.put_some(&m::CGROUP_OOM_KILLS, "", keyed(&text, "oom_kill"));
        }
        if let Some((file, version)) = &mut self.limit_hits
            && let Some(text) = facts.text(file, page, m::CGROUP_MEMORY_LIMIT_HITS.name)
        {
            facts.put_some(&m::CGROUP_MEMORY_LIMIT_HITS, "", limit_hits(&text, *version));
        }
    }

    fn search_files(&mut self, facts: &mut Facts, pid: u32) {
        (self.cpu, self.usage, self.oom, self.limit_hits) = (None, None, None, None);
        let groups = match Groups::of(&self.roots, pid) {
            Ok(groups) => groups,
            Err(reason) => return facts.miss("cgroup", reason),
        };
        match groups.own("cpuacct") {
            Ok((dir, Version::V1)) => self.usage = Some((FactFile::new(dir.join("cpuacct.usage")), Usage::V1)),
            Ok((dir, Version::V2)) => self.usage = Some((FactFile::new(dir.join("cpu.stat")), Usage::V2)),
            Err(reason) => facts.miss(m::CGROUP_USAGE.name, reason),
        }
        match groups.limiting_cpu() {
            Ok((dir, version)) => self.cpu = Some(CpuFiles::new(&dir, version)),
            Err(reason) => facts.miss("cgroup", reason),
        }
        match groups.own("memory") {
            Ok((dir, version)) => {
                let (kills, hits) = match version {
                    Version::V1 => ("memory.oom_control", "memory.failcnt"),
                    Version::V2 => ("memory.events", "memory.events"),
                };
                self.oom = Some(FactFile::new(dir.join(kills)));
                self.limit_hits = Some((FactFile::new(dir.join(hits)), version));
            }
            Err(reason) => facts.miss(m::CGROUP_OOM_KILLS.name, reason),
        }
    }
}

/// How often the group was at its memory limit: `memory.failcnt`, or `high` and `max` of `memory.events`.
fn limit_hits(text: &str, version: Version) -> Option<f64> {
    match version {
        Version::V1 => count(text.trim()),
        Version::V2 => Some(keyed(text, "high")? + keyed(text, "max")?),
    }
}

impl CpuFiles {
    fn new(dir: &Path, version: Version) -> Self {
        let file = |name: &str| FactFile::new(dir.join(name));
        let quota = match version {
            Version::V1 => QuotaFiles::V1 { quota: file("cpu.cfs_quota_us"), period: file("cpu.cfs_period_us") },
            Version::V2 => QuotaFiles::V2 { max: file("cpu.max") },
        };
        Self { stat: file("cpu.stat"), quota }
    }

    fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>) {
        if let Some(text) = facts.text(&mut self.stat, page, "cgroup.throttled") {
            facts.put_some(&m::CGROUP_PERIODS, "", keyed(&text, "nr_periods"));
            facts.put_some(&m::CGROUP_THROTTLED, "", keyed(&text, "nr_throttled"));
            let v1 = keyed(&text, "throttled_time").map(|ns| ns / 1e9);
            let seconds = v1.or(keyed(&text, "throttled_usec").map(|us| us / 1e6));
            facts.put_some(&m::CGROUP_THROTTLED_TIME, "", seconds);
        }
        facts.put_if_any(&m::CGROUP_QUOTA, "", self.quota.cpus(page));
    }
}

impl QuotaFiles {
    /// CPUs that the quota grants; none without a quota.
    fn cpus(&mut self, page: &mut Vec<u8>) -> Option<f64> {
        match self {
            Self::V1 { quota, period } => {
                let quota = count(quota.text(page).ok()?.trim())?; // -1: no quota
                let period = count(period.text(page).ok()?.trim())?;
                (period > 0.0).then_some(quota / period)
            }
            Self::V2 { max } => max_cpus(&max.text(page).ok()?),
        }
    }
}

/// `20000 100000`, or `max 100000` without a quota.
fn max_cpus(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (quota, period) = (words.next().and_then(count)?, words.next().and_then(count)?);
    (period > 0.0).then_some(quota / period)
}

/// Hierarchies, and in which group of each a process and prony are.
#[derive(Debug)]
struct Groups {
    mounts: Vec<Hierarchy>,
    hop: Vec<Membership>,
    own: Vec<Membership>,
    below: PathBuf,
}

impl Groups {
    fn of(roots: &Roots, pid: u32) -> Result<Self, String> {
        let read = |path: PathBuf| read_once(&path).map_err(|e| format!("{}: {e}", path.display()));
        Ok(Self {
            mounts: Hierarchy::all(&read(roots.proc.join("self/mountinfo"))?),
            hop: Membership::all(&read(roots.process(pid).join("cgroup"))?),
            own: Membership::all(&read(roots.proc.join("self/cgroup"))?),
            below: roots.cgroup.clone(),
        })
    }

    /// Folder of the hop's own group for a controller.
    fn own(&self, controller: &str) -> Result<(PathBuf, Version), String> {
        let (mount, path) = self.place(controller)?;
        Ok((self.folder(mount, path), mount.version))
    }

    /// Folder of the group whose quota holds the hop: itself or the nearest above it that prony is not in.
    fn limiting_cpu(&self) -> Result<(PathBuf, Version), String> {
        let (mount, own) = self.place("cpu")?;
        let mut path = own;
        loop {
            let folder = self.folder(mount, path);
            if CpuFiles::new(&folder, mount.version).quota.cpus(&mut Vec::new()).is_some() {
                return Ok((folder, mount.version));
            }
            match path.rsplit_once('/') {
                Some((up, _)) if !up.is_empty() && !self.holds_prony(mount, up) => path = up,
                _ => return Ok((self.folder(mount, own), mount.version)),
            }
        }
    }

    /// The hierarchy of a controller and the hop's path in it, if that group is the hop's alone.
    fn place(&self, controller: &str) -> Result<(&Hierarchy, &str), String> {
        let mount = Hierarchy::of(&self.mounts, controller);
        let mount = mount.ok_or_else(|| format!("no control group hierarchy with `{controller}` is mounted"))?;
        let path = Membership::path_in(&self.hop, mount).ok_or("the process is in no group of this hierarchy")?;
        if path == "/" {
            return Err("its processes are in the root control group, which counts the whole machine".to_string());
        }
        if self.holds_prony(mount, path) {
            return Err(format!("its control group {path} also holds prony: its numbers would speak of both"));
        }
        Ok((mount, path))
    }

    fn holds_prony(&self, mount: &Hierarchy, path: &str) -> bool {
        let own = Membership::path_in(&self.own, mount).unwrap_or("/");
        own == path || own.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    }

    fn folder(&self, mount: &Hierarchy, path: &str) -> PathBuf {
        located(&mount.point, &self.below).join(mount.below_point(path))
    }
}

/// A mount point below /sys/fs/cgroup is looked up below what stands for that folder.
fn located(point: &str, below: &Path) -> PathBuf {
    match Path::new(point).strip_prefix("/sys/fs/cgroup") {
        Ok(inside) => below.join(inside),
        Err(_) => PathBuf::from(point),
    }
}

/// Processes of a control group that the stack names without its mount point, ascending. Groups below it are not
/// included.
pub(crate) fn members(roots: &Roots, path: &str) -> Result<Vec<u32>, String> {
    let file = roots.proc.join("self/mountinfo");
    let text = read_once(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    for mount in Hierarchy::all(&text) {
        let procs = located(&mount.point, &roots.cgroup).join(path.trim_start_matches('/')).join("cgroup.procs");
        if let Ok(text) = read_once(&procs) {
            let mut pids: Vec<u32> = text.split_whitespace().filter_map(|w| w.parse().ok()).collect();
            pids.sort_unstable();
            pids.dedup();
            return Ok(pids);
        }
    }
    Err(format!("control group {path} is in no mounted hierarchy: write its path without the mount point"))
}

/// Path of the hop's group and its quota, for the inventory.
pub(crate) fn path_and_quota(roots: &Roots, pid: u32) -> Result<(String, Option<f64>), String> {
    let groups = Groups::of(roots, pid)?;
    let (_, path) = groups.place("cpu")?;
    let (folder, version) = groups.limiting_cpu()?;
    Ok((path.to_string(), CpuFiles::new(&folder, version).quota.cpus(&mut Vec::new())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use std::fs;

    const HYBRID: &str = "\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const UNIFIED: &str = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    /// A machine with process 7 as the hop, and files of control groups.
    fn check(mountinfo: &str, hop: &str, own: &str, files: &[(&str, &str)], want: Expect) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", mountinfo);
        write("proc/self/cgroup", own);
        write("proc/7/cgroup", hop);
        for (path, text) in files {
            write(&format!("cgroup/{path}"), text);
        }
        let roots = Roots {
            proc: dir.path().join("proc"),
            sys: "/none".into(),
            cgroup: dir.path().join("cgroup"),
            scratch: "/none".into(),
        };
        let mut facts = Facts::new("lb", 0);
        Cgroup::new(&roots).read(&mut facts, &mut Vec::new(), 7, 0);
        want.assert_eq(&facts.listing().replace(&dir.path().display().to_string(), "DIR"));
    }

    #[test]
    fn version_one() {
        check(
            HYBRID,
            "2:cpu,cpuacct:/lab/lb\n3:memory:/lab/lb\n0::/\n",
            "2:cpu,cpuacct:/\n3:memory:/\n0::/\n",
            &[
                ("cpu/lab/lb/cpuacct.usage", "1500000000\n"),
                ("cpu/lab/lb/cpu.stat", "nr_periods 10\nnr_throttled 3\nthrottled_time 2000000000\n"),
                ("cpu/lab/lb/cpu.cfs_quota_us", "20000\n"),
                ("cpu/lab/lb/cpu.cfs_period_us", "100000\n"),
                ("memory/lab/lb/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
                ("memory/lab/lb/memory.failcnt", "9\n"),
            ],
            expect![[r#"
                cgroup.usage [] 1.5
                cgroup.periods [] 10
                cgroup.throttled [] 3
                cgroup.throttled_time [] 2
                cgroup.quota [] 0.2
                cgroup.oom_kills [] 2
                cgroup.memory_limit_hits [] 9
            "#]],
        );
    }

    #[test]
    fn version_two_with_the_quota_one_group_up() {
        check(
            UNIFIED,
            "0::/pod/web\n",
            "0::/user\n",
            &[
                ("pod/web/cpu.stat", "usage_usec 500000\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
                ("pod/web/cpu.max", "max 100000\n"),
                ("pod/cpu.stat", "usage_usec 900000\nnr_periods 9\nnr_throttled 4\nthrottled_usec 700000\n"),
                ("pod/cpu.max", "50000 100000\n"),
                ("pod/web/memory.events", "low 0\nhigh 3\nmax 4\noom 1\noom_kill 1\n"),
            ],
            expect![[r#"
                cgroup.usage [] 0.5
                cgroup.periods [] 9
                cgroup.throttled [] 4
                cgroup.throttled_time [] 0.7
                cgroup.quota [] 0.5
                cgroup.oom_kills [] 1
                cgroup.memory_limit_hits [] 7
            "#]],
        );
    }

    #[test]
    fn no_quota_gives_no_quota() {
        let files = [
            ("lb/cpu.stat", "usage_usec 1\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
            ("lb/cpu.max", "max 100000\n"),
            ("lb/memory.events", "high 0\nmax 0\noom_kill 0\n"),
        ];
        check(
            UNIFIED,
            "0::/lb\n",
            "0::/user\n",
            &files,
            expect![[r#"
                cgroup.usage [] 0.000001
                cgroup.periods [] 0
                cgroup.throttled [] 0
                cgroup.throttled_time [] 0
                cgroup.oom_kills [] 0
                cgroup.memory_limit_hits [] 0
            "#]],
        );
    }

    #[test]
    fn shared_and_root_groups_speak_of_others() {
        check(
            UNIFIED,
            "0::/\n",
            "0::/\n",
            &[],
            expect![[r#"
                gap cgroup: its processes are in the root control group, which counts the whole machine
                gap cgroup.oom_kills: its processes are in the root control group, which counts the whole machine
                gap cgroup.usage: its processes are in the root control group, which counts the whole machine
            "#]],
        );
        check(
            UNIFIED,
            "0::/session\n",
            "0::/session/prony\n",
            &[("session/cpu.stat", "usage_usec 1\n")],
            expect![[r#"
                gap cgroup: its control group /session also holds prony: its numbers would speak of both
                gap cgroup.oom_kills: its control group /session also holds prony: its numbers would speak of both
                gap cgroup.usage: its control group /session also holds prony: its numbers would speak of both
            "#]],
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "[a-z0-9:/, -]{0,80}(\n[a-z0-9:/, -]{0,80}){0,3}") {
            let _ = (max_cpus(&s), limit_hits(&s, Version::V1), limit_hits(&s, Version::V2));
        }
    }
}
