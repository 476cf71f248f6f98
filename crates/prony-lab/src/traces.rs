//! Where labs leave traces on this machine, and what their traces are called.
//!
//! Everything that belongs to a lab carries its id in its name, so that whatever a killed lab left is found without its
//! state file. This module only knows names; it makes and removes nothing.

use crate::LabId;
use std::path::{Path, PathBuf};

/// The folders in which labs live. A type, so that tests look at folders of their own.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// State, configurations, pid files, document roots.
    pub run: PathBuf,
    /// Logs. Not under `/run`, which is memory on most machines: an unbuffered access log writes some 10 MB/s under
    /// load.
    pub logs: PathBuf,
    /// Named network namespaces.
    pub netns: PathBuf,
    /// Control group hierarchies that a lab uses.
    pub cgroups: Vec<PathBuf>,
    /// What is mounted, as the kernel lists it (`/proc/self/mountinfo`, proc(5)).
    pub mounts: PathBuf,
}

impl Ground {
    /// The folders of this machine.
    pub fn of_this_machine() -> Self {
        Self {
            run: PathBuf::from("/run/prony/labs"),
            logs: PathBuf::from("/var/log/prony/labs"),
            netns: PathBuf::from("/run/netns"),
            cgroups: crate::cgroup::hierarchies(Path::new("/proc/self/mountinfo")),
            mounts: PathBuf::from("/proc/self/mountinfo"),
        }
    }

    pub fn lab(&self, id: &LabId) -> PathBuf {
        self.run.join(id.as_str())
    }

    pub fn host(&self, id: &LabId, host: &str) -> PathBuf {
        self.lab(id).join(host)
    }

    pub fn log_folder(&self, id: &LabId) -> PathBuf {
        self.logs.join(id.as_str())
    }

    pub fn host_logs(&self, id: &LabId, host: &str) -> PathBuf {
        self.log_folder(id).join(host)
    }

    pub fn netns_path(&self, id: &LabId, host: &str) -> PathBuf {
        self.netns.join(netns_name(id, host))
    }

    /// Namespaces of a lab that exist, by name.
    pub fn namespaces_of(&self, id: &LabId) -> Vec<String> {
        let prefix = format!("prony-{}-", id.as_str());
        names_in(&self.netns).into_iter().filter(|name| name.starts_with(&prefix)).collect()
    }

    /// Control groups of a lab that exist, the deepest first.
    pub fn cgroups_of(&self, id: &LabId) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for root in self.cgroups.iter().map(|h| h.join(cgroup_name(id))).filter(|root| root.is_dir()) {
            found.extend(names_in(&root).into_iter().map(|name| root.join(name)).filter(|path| path.is_dir()));
            found.push(root);
        }
        found
    }

    /// Where something of a lab is mounted, the newest first.
    pub fn mounts_of(&self, id: &LabId) -> Vec<PathBuf> {
        let text = std::fs::read_to_string(&self.mounts).unwrap_or_default();
        let own = self.log_folder(id);
        // Field 5 is the place; blanks in it are written as \040, and no place of ours has one.
        let places = text.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
        let mut found: Vec<PathBuf> = places.filter(|place| place.starts_with(&own)).collect();
        found.reverse();
        found
    }

    /// Ids of all labs that left any trace, in order.
    pub fn ids(&self) -> Vec<LabId> {
        let of_folders = names_in(&self.run).into_iter().chain(names_in(&self.logs));
        let of_names = self.cgroups.iter().flat_map(|h| names_in(h)).chain(names_in(&self.netns)).filter_map(|name| {
            let rest = name.strip_prefix("prony-")?;
            Some(rest.split('-').next().unwrap_or(rest).to_string())
        });
        let mut ids: Vec<LabId> = of_folders.chain(of_names).filter_map(|text| LabId::parse(&text).ok()).collect();
        ids.sort();
        ids.dedup();
        ids
    }
}

/// Host that stands for the switch; no host of a stack may have its name.
pub(crate) const SWITCH: &str = "sw";

/// Name of a host's network namespace.
pub(crate) fn netns_name(id: &LabId, host: &str) -> String {
    format!("prony-{}-{host}", id.as_str())
}

/// Name of a lab's control group.
pub(crate) fn cgroup_name(id: &LabId) -> String {
    format!("prony-{}", id.as_str())
}

/// Name of the switch port that leads to a host. Interface names have at most 15 bytes.
pub(crate) fn port_name(host: &str) -> String {
    format!("p-{host}")
}

/// Names in a folder, in order; none when it cannot be read, because then nothing of ours is in it.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_found_by_any_single_trace() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join(name);
        let ground = Ground {
            run: at("run"),
            logs: at("logs"),
            netns: at("netns"),
            cgroups: vec![at("cpu"), at("cpuacct")],
            mounts: at("mountinfo"),
        };
        assert!(ground.ids().is_empty());
        for path in ["run/0001", "logs/0002", "netns/prony-0003-lb", "cpuacct/prony-0004/lb", "netns/other", "run/zz"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        let ids: Vec<String> = ground.ids().iter().map(|id| id.as_str().to_string()).collect();
        assert_eq!(ids, ["0001", "0002", "0003", "0004"]);
        let id = LabId::parse("0004").unwrap();
        assert_eq!(ground.cgroups_of(&id), [at("cpuacct/prony-0004/lb"), at("cpuacct/prony-0004")]);
        let id = LabId::parse("0003").unwrap();
        assert_eq!(ground.namespaces_of(&id), ["prony-0003-lb"]);
    }

    #[test]
    fn what_is_mounted_belongs_to_the_lab_whose_logs_lie_there() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join(name);
        let ground =
            Ground { run: at("run"), logs: "/l".into(), netns: at("netns"), cgroups: vec![], mounts: at("mounts") };
        let lines = "25 1 254:0 / / rw - ext4 /dev/vda rw\n43 25 0:39 / /l/0001/lb rw - tmpfs prony-0001-lb rw\n\
                     44 25 7:0 / /l/0001/s1 rw - ext4 /dev/loop0 rw\n45 25 0:40 / /l/00012/x rw - tmpfs x rw\n";
        std::fs::write(at("mounts"), lines).unwrap();
        let found = ground.mounts_of(&LabId::parse("0001").unwrap());
        assert_eq!(found, [PathBuf::from("/l/0001/s1"), "/l/0001/lb".into()]);
    }
}
