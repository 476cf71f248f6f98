//! What happens around a load: its control group's quota, the backlog queues of the machine's CPUs, and the interface it goes
//! through.
//!
//! Reads `/proc`, the own control group and those above it, before and after the load; never the target's. Invariant: what
//! cannot be read is none, not 0.

use crate::interface::Received;
use crate::ports::WaitingPorts;
use crate::sys;
use crate::target::Endpoint;
use prony_model::cgroup::{Hierarchy, Membership};
use std::path::{Path, PathBuf};

/// Counters since the machine or the group started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// When they were read, on the monotonic clock; between two readings: how long that was.
    pub at_ns: u64,
    /// Time that the own control group was not let run because its quota, or that of a group above it, was used up, in
    /// nanoseconds, summed over CPUs (`cpu.stat`: `throttled_time` in version 1, `throttled_usec` in version 2). The group with
    /// the quota is the one that counts.
    pub throttled_ns: Option<u64>,
    /// Packets that a CPU's backlog queue had no room for (`/proc/net/softnet_stat`, second column), summed over CPUs.
    pub backlog_drops: Option<u64>,
    /// What the interface of the load received.
    pub received: Option<Received>,
    /// Local ports that wait after the load; none for one that keeps its connections.
    pub waiting_ports: Option<WaitingPorts>,
}

impl Surroundings {
    /// Reads the counters around a load to these endpoints. `root`: `/`, or a recorded tree.
    pub fn read(root: &Path, endpoints: &[Endpoint]) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let groups = own_cpu_groups(
            &text("proc/self/mountinfo").unwrap_or_default(),
            &text("proc/self/cgroup").unwrap_or_default(),
        );
        let stat = |folder: &PathBuf| text(folder.join("cpu.stat").strip_prefix("/").ok()?.to_str()?);
        let throttled: Vec<u64> = groups.iter().filter_map(stat).filter_map(|text| throttled_ns(&text)).collect();
        Self {
            at_ns: sys::clock_ns(),
            throttled_ns: (!throttled.is_empty()).then(|| throttled.iter().sum()),
            backlog_drops: text("proc/net/softnet_stat").and_then(|text| backlog_drops(&text)),
            received: Received::from(endpoints, root),
            waiting_ports: None,
        }
    }

    /// What was added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let added = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            at_ns: self.at_ns.saturating_sub(before.at_ns),
            throttled_ns: added(self.throttled_ns, before.throttled_ns),
            backlog_drops: added(self.backlog_drops, before.backlog_drops),
            received: self.received.as_ref().zip(before.received.as_ref()).and_then(|(now, then)| now.since(then)),
            waiting_ports: self.waiting_ports,
        }
    }
}

/// The folders of the groups that limit this process's CPU time: its own, then those above it.
fn own_cpu_groups(mountinfo: &str, cgroup: &str) -> Vec<PathBuf> {
    own_cpu_group(mountinfo, cgroup).map_or_else(Vec::new, |(point, own)| {
        own.ancestors().take_while(|folder| folder.starts_with(&point)).map(Path::to_path_buf).collect()
    })
}

/// Where the hierarchy is mounted, and the own group's folder in it.
fn own_cpu_group(mountinfo: &str, cgroup: &str) -> Option<(PathBuf, PathBuf)> {
    let mounts = Hierarchy::all(mountinfo);
    let mount = Hierarchy::of(&mounts, "cpu")?;
    let groups = Membership::all(cgroup);
    let point = PathBuf::from(&mount.point);
    let own = point.join(mount.below_point(Membership::path_in(&groups, mount)?));
    Some((point, own))
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

    fn read(root: &Path) -> (Option<u64>, Option<u64>) {
        let seen = Surroundings::read(root, &[]);
        (seen.throttled_ns, seen.backlog_drops)
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
        assert_eq!(read(v1.path()), (Some(7000), Some(12)));
        let v2 = tree(&[
            ("proc/self/mountinfo", "1 0 0:1 /box /cg rw - cgroup2 cgroup2 rw\n"),
            ("proc/self/cgroup", "0::/box/c\n"),
            ("cg/c/cpu.stat", "usage_usec 9\nthrottled_usec 7\n"),
        ]);
        assert_eq!(read(v2.path()), (Some(7000), None));
        assert_eq!(read(Path::new("/nonexistent")), (None, None));
    }

    #[test]
    fn the_quota_of_a_group_above_counts() {
        let v1 = tree(&[
            ("proc/self/mountinfo", "1 0 0:1 / /cg/cpu rw - cgroup cgroup rw,cpu\n"),
            ("proc/self/cgroup", "3:cpu:/pod/box\n"),
            ("cg/cpu/pod/box/cpu.stat", "throttled_time 20\n"),
            ("cg/cpu/pod/cpu.stat", "throttled_time 300\n"),
            // The root of version 2 has a `cpu.stat` without it; nothing above the mount point is read.
            ("cg/cpu/cpu.stat", "usage_usec 9\n"),
            ("cg/cpu.stat", "throttled_time 4000\n"),
        ]);
        assert_eq!(read(v1.path()).0, Some(320));
    }

    #[test]
    fn what_one_reading_lacks_has_no_difference() {
        let before =
            Surroundings { at_ns: 50, throttled_ns: Some(6000), backlog_drops: None, ..Surroundings::default() };
        let after =
            Surroundings { at_ns: 90, throttled_ns: Some(7000), backlog_drops: Some(12), ..Surroundings::default() };
        let want = Surroundings { at_ns: 40, throttled_ns: Some(1000), backlog_drops: None, ..Surroundings::default() };
        assert_eq!(after.since(&before), want);
    }
}
