//! Hierarchies of control groups, as `/proc/PID/mountinfo` names them. Which groups are in them is for others to read.

/// Version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller or pair of controllers.
    V1,
    /// One hierarchy; its file `cgroup.controllers` says which controllers it has.
    V2,
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted, like `/sys/fs/cgroup/cpu`.
    pub point: String,
    /// The group that the mount point shows: not `/` inside a container.
    pub root: String,
    /// Its version.
    pub version: Version,
    /// Mount options of version 1, its controllers among them; empty for version 2.
    pub controllers: Vec<String>,
}

impl Hierarchy {
    /// Every hierarchy that a text of the form of `/proc/PID/mountinfo` names (proc(5): the fourth field is the root, the
    /// fifth the mount point; behind ` - ` stand type, source and options of the file system).
    pub fn all(mountinfo: &str) -> Vec<Self> {
        mountinfo.lines().filter_map(Self::of_line).collect()
    }

    fn of_line(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?.to_string(), left.next()?.to_string());
        let mut right = right.split(' ');
        let version = match right.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let options = right.nth(1).unwrap_or_default();
        let controllers = match version {
            Version::V1 => options.split(',').map(str::to_string).collect(),
            Version::V2 => Vec::new(),
        };
        Some(Self { point, root, version, controllers })
    }

    /// Whether it is of version 1 and has the controller.
    pub fn is_v1_of(&self, controller: &str) -> bool {
        self.version == Version::V1 && self.controllers.iter().any(|c| c == controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn tells_versions_roots_and_controllers() {
        let mountinfo = "\
            30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 /docker/7 /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
            33 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n\
            41 31 0:38\n";
        let all = Hierarchy::all(mountinfo);
        let lines: Vec<String> = all
            .iter()
            .map(|h| format!("{:?} {} {} {}\n", h.version, h.root, h.point, if h.is_v1_of("cpu") { "cpu" } else { "" }))
            .collect();
        expect![[r#"
            V1 /docker/7 /sys/fs/cgroup/cpu cpu
            V1 / /sys/fs/cgroup/cpuset 
            V2 / /sys/fs/cgroup/unified 
        "#]]
        .assert_eq(&lines.concat());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9:/, -]{0,80}(\n[a-z0-9:/, -]{0,80}){0,3}") {
            let _ = Hierarchy::all(&text);
        }
    }
}
