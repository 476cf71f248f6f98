//! Control groups of a lab: one per host, with all of its server processes, for accounting, quota, memory and disk. v1 and v2.
//!
//! On v2 the `cpu`, `memory` and `io` controllers are switched on for children of the root group and stay on: other groups may
//! use them by then.
//! Invariant: nothing outside `prony-ID` is written, apart from these switches.

use crate::error::file;
use crate::traces::{Ground, cgroup_name};
use crate::{LabError, LabId};
use prony_model::Share;
use prony_model::cgroup::{Hierarchy, Version};
use std::fs::{File, OpenOptions};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// Length of a quota period. 100 ms is what the kernel, systemd and container engines use
/// (Documentation/scheduler/sched-bwc.rst, `cpu.cfs_period_us`), so a throttled host waits as real ones do.
const QUOTA_PERIOD_US: u64 = 100_000;

/// Mount points of the hierarchies that hold `cpu`, `cpuacct`, `memory` and `blkio`: those of v1, or one of v2. Empty when there
/// is none.
pub(crate) fn hierarchies(mountinfo: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(mountinfo).unwrap_or_default();
    with_cpu(&text, |v2| std::fs::read_to_string(v2.join("cgroup.controllers")).unwrap_or_default())
}

fn with_cpu(text: &str, controllers_of: impl Fn(&Path) -> String) -> Vec<PathBuf> {
    let all = Hierarchy::all(text);
    let mut v1: Vec<PathBuf> = Vec::new();
    for hierarchy in all.iter().filter(|h| ["cpu", "cpuacct", "memory", "blkio"].iter().any(|c| h.is_v1_of(c))) {
        let point = PathBuf::from(&hierarchy.point);
        if !v1.contains(&point) {
            v1.push(point);
        }
    }
    if !v1.is_empty() {
        return v1;
    }
    let v2 = all.iter().filter(|h| h.version == Version::V2).map(|h| PathBuf::from(&h.point));
    let mut points = v2.filter(|point| controllers_of(point).split_whitespace().any(|c| c == "cpu"));
    points.next().into_iter().collect()
}

/// Path of a host's group without the mount point, as `ProcessRef::Cgroup` wants it.
pub(crate) fn reference(id: &LabId, host: &str) -> String {
    format!("/{}/{host}", cgroup_name(id))
}

/// Name of the group of a host's neighbours. No host has a dash in its name.
pub(crate) fn neighbours(host: &str) -> String {
    format!("near-{host}")
}

/// Name of the group of the process between a host and the switch.
pub(crate) fn wire(host: &str) -> String {
    format!("wire-{host}")
}

/// Whether a group is that of such a process.
pub(crate) fn is_wire(group: &Path) -> bool {
    group.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wire-"))
}

/// Whether a group has no server: one of neighbours, or of a wire.
pub(crate) fn is_beside(group: &Path) -> bool {
    let beside = |name: &str| ["near-", "wire-"].iter().any(|prefix| name.starts_with(prefix));
    group.file_name().is_some_and(|name| beside(&name.to_string_lossy()))
}

/// Makes the groups of a host.
pub(crate) fn make(ground: &Ground, id: &LabId, host: &str) -> Result<(), LabError> {
    if ground.cgroups.is_empty() {
        let looked = "/proc/self/mountinfo".to_string();
        return Err(LabError::NoCgroup { controller: "cpu".to_string(), looked });
    }
    for hierarchy in &ground.cgroups {
        let lab = hierarchy.join(cgroup_name(id));
        file("create", &lab, std::fs::create_dir_all(&lab))?;
        for parent in [hierarchy, &lab].into_iter().filter(|p| p.join("cgroup.subtree_control").exists()) {
            let switch = parent.join("cgroup.subtree_control");
            let on = file("read", &switch, std::fs::read_to_string(&switch))?;
            let offered = std::fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
            let has = |list: &str, controller: &str| list.split_whitespace().any(|c| c == controller);
            for controller in ["cpu", "memory", "io"] {
                if !has(&on, controller) && (controller == "cpu" || has(&offered, controller)) {
                    file("write", &switch, std::fs::write(&switch, format!("+{controller}")))?;
                }
            }
        }
        let group = lab.join(host);
        file("create", &group, std::fs::create_dir_all(&group))?;
    }
    Ok(())
}

/// Limits the CPU time of a host's processes.
pub(crate) fn set_quota(ground: &Ground, id: &LabId, host: &str, quota: Share) -> Result<(), LabError> {
    let quota_us = (quota.0 * QUOTA_PERIOD_US as f64).round() as u64;
    for group in groups(ground, id, host) {
        let (v1_period, v1_quota) = (group.join("cpu.cfs_period_us"), group.join("cpu.cfs_quota_us"));
        let v2 = group.join("cpu.max");
        if v1_quota.exists() {
            file("write", &v1_period, std::fs::write(&v1_period, QUOTA_PERIOD_US.to_string()))?;
            return file("write", &v1_quota, std::fs::write(&v1_quota, quota_us.to_string()));
        }
        if v2.exists() {
            return file("write", &v2, std::fs::write(&v2, format!("{quota_us} {QUOTA_PERIOD_US}")));
        }
    }
    let looked = format!("no cpu.cfs_quota_us or cpu.max in {}", reference(id, host));
    Err(LabError::NoCgroup { controller: "cpu quota".to_string(), looked })
}

/// Limits the memory of a host's processes.
pub(crate) fn set_memory(ground: &Ground, id: &LabId, host: &str, mib: u32) -> Result<(), LabError> {
    let bytes = (u64::from(mib) << 20).to_string();
    for group in groups(ground, id, host) {
        let files = [group.join("memory.limit_in_bytes"), group.join("memory.max")];
        if let Some(limit) = files.iter().find(|limit| limit.exists()) {
            return file("write", limit, std::fs::write(limit, bytes));
        }
    }
    let looked = format!("no memory.limit_in_bytes or memory.max in {}", reference(id, host));
    Err(LabError::NoCgroup { controller: "memory limit".to_string(), looked })
}

/// Limits how often a host's processes write to a disk, which is `MAJOR:MINOR`.
pub(crate) fn set_disk_writes(
    ground: &Ground,
    id: &LabId,
    host: &str,
    disk: &str,
    per_s: NonZeroU32,
) -> Result<(), LabError> {
    for group in groups(ground, id, host) {
        let (v1, v2) = (group.join("blkio.throttle.write_iops_device"), group.join("io.max"));
        if v1.exists() {
            return file("write", &v1, std::fs::write(&v1, format!("{disk} {per_s}")));
        }
        if v2.exists() {
            return file("write", &v2, std::fs::write(&v2, format!("{disk} wiops={per_s}")));
        }
    }
    let looked = format!("no blkio.throttle.write_iops_device or io.max in {}", reference(id, host));
    Err(LabError::NoCgroup { controller: "disk limit".to_string(), looked })
}

/// `cgroup.procs` of a host's groups, open for writing: who writes 0 there joins.
pub(crate) fn doors(ground: &Ground, id: &LabId, host: &str) -> Result<Vec<File>, LabError> {
    let open = |group: PathBuf| {
        let procs = group.join("cgroup.procs");
        file("write", &procs, OpenOptions::new().write(true).open(&procs))
    };
    groups(ground, id, host).into_iter().map(open).collect()
}

/// Processes in a group; none when it is gone.
pub(crate) fn pids(group: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

fn groups(ground: &Ground, id: &LabId, host: &str) -> Vec<PathBuf> {
    ground.cgroups.iter().map(|h| h.join(cgroup_name(id)).join(host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
33 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    const V2: &str = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn finds_v1_or_v2() {
        let paths = |text: &str, has: &str| with_cpu(text, |_| has.to_string());
        let cpu = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(paths(V1, ""), cpu(&["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct"]));
        assert_eq!(paths(V2, "cpuset cpu io"), cpu(&["/sys/fs/cgroup"]));
        assert_eq!(paths(V2, "cpuset io"), cpu(&[]));
        assert_eq!(paths("", "cpu"), cpu(&[]));
    }

    #[test]
    fn writes_the_limits_of_v2() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path().to_path_buf();
        let ground = Ground {
            run: root.clone(),
            logs: root.clone(),
            netns: root.clone(),
            cgroups: vec![root.clone()],
            mounts: root.clone(),
        };
        let id = LabId::parse("00aa").unwrap();
        std::fs::write(root.join("cgroup.subtree_control"), "memory").unwrap();
        make(&ground, &id, "lb").unwrap();
        assert_eq!(std::fs::read_to_string(root.join("cgroup.subtree_control")).unwrap(), "+cpu");
        let max = root.join("prony-00aa/lb/cpu.max");
        let error = set_quota(&ground, &id, "lb", Share(0.4)).unwrap_err().to_string();
        assert!(error.contains("/prony-00aa/lb"), "{error}");
        std::fs::write(&max, "max 100000").unwrap();
        set_quota(&ground, &id, "lb", Share(0.4)).unwrap();
        assert_eq!(std::fs::read_to_string(&max).unwrap(), "40000 100000");
        let (disk, per_s) = (root.join("prony-00aa/lb/io.max"), NonZeroU32::new(50).unwrap());
        assert!(set_disk_writes(&ground, &id, "lb", "8:0", per_s).unwrap_err().to_string().contains("io.max"));
        std::fs::write(&disk, "").unwrap();
        set_disk_writes(&ground, &id, "lb", "8:0", per_s).unwrap();
        assert_eq!(std::fs::read_to_string(&disk).unwrap(), "8:0 wiops=50");
    }
}
