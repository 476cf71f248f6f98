//! What held the generator up from outside: its control group's quota, and the backlog queues of the machine's CPUs.
//!
//! Reads `/proc` and the own control group, before and after the counted time; never the target's. Invariant: what cannot be
//! read is none, not 0.

use prony_model::cgroup::{Hierarchy, Version};
use std::path::{Path, PathBuf};

/// Counters since the machine or the group started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Time that the own control group was not let run because its quota was used up, in nanoseconds, summed over CPUs
    /// (`cpu.stat`: `throttled_time` in version 1, `throttled_usec` in version 2).
    pub throttled_ns: Option<u64>,
    /// Packets that a CPU's backlog queue had no room for (`/proc/net/softnet_stat`, second column), summed over CPUs.
    pub backlog_drops: Option<u64>,
}

impl Surroundings {
    /// Reads the counters. `root`: `/`, or a recorded tree.
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let group = own_cpu_group(
            &text("proc/self/mountinfo").unwrap_or_default(),
            &text("proc/self/cgroup").unwrap_or_default(),
        );
        let stat = group.and_then(|folder| text(folder.join("cpu.stat").strip_prefix("/").ok()?.to_str()?));
        Self {
            throttled_ns: stat.and_then(|text| throttled_ns(&text)),
            backlog_drops: text("proc/net/softnet_stat").and_then(|text| backlog_drops(&text)),
        }
    }

    /// What was added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let added = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            throttled_ns: added(self.throttled_ns, before.throttled_ns),
            backlog_drops: added(self.backlog_drops, before.backlog_drops),
        }
    }
}

/// The folder of the group that limits this process's CPU time.
fn own_cpu_group(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
    let mounts = Hierarchy::all(mountinfo);
    let mount =
        mounts.iter().find(|m| m.is_v1_of("cpu")).or_else(|| mounts.iter().find(|m| m.version == Version::V2))?;
    // Lines are `ID:CONTROLLERS:PATH`; version 2 has no controllers (cgroups(7)).
    let path = cgroup.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let fits = match mount.version {
            Version::V1 => controllers.split(',').any(|c| c == "cpu"),
            Version::V2 => controllers.is_empty(),
        };
        fits.then_some(path)
    })?;
    let inside = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
    Some(Path::new(&mount.point).join(inside.trim_start_matches('/')))
}

fn throttled_ns(stat: &str) -> Option<u64> {
    let value = |name: &str| stat.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
    value("throttled_time ").or_else(|| value("throttled_usec ").map(|us| us * 1000))
}

fn backlog_drops(softnet: &str) -> Option<u64> {
    let drops = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet.lines().map(drops).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn reads_either_version_of_control_groups() {
        let softnet = "00000001 00000002 0 0\n00000001 0000000a 0 0\n";
        let v1 = tree(&[
            ("proc/self/mountinfo", "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"),
            ("proc/self/cgroup", "3:cpu,cpuacct:/a/b\n0::/x\n"),
            ("cg/cpu/a/b/cpu.stat", "nr_periods 5\nnr_throttled 2\nthrottled_time 7000\n"),
            ("proc/net/softnet_stat", softnet),
        ]);
        let seen = Surroundings::read(v1.path());
        assert_eq!(seen, Surroundings { throttled_ns: Some(7000), backlog_drops: Some(12) });
        let v2 = tree(&[
            ("proc/self/mountinfo", "1 0 0:1 /box /cg rw - cgroup2 cgroup2 rw\n"),
            ("proc/self/cgroup", "0::/box/c\n"),
            ("cg/c/cpu.stat", "usage_usec 9\nthrottled_usec 7\n"),
        ]);
        assert_eq!(Surroundings::read(v2.path()), Surroundings { throttled_ns: Some(7000), backlog_drops: None });
        let before = Surroundings { throttled_ns: Some(6000), backlog_drops: None };
        assert_eq!(seen.since(&before), Surroundings { throttled_ns: Some(1000), backlog_drops: None });
        assert_eq!(Surroundings::read(Path::new("/nonexistent")), Surroundings::default());
    }
}
