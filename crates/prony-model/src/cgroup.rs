//! Hierarchies of control groups, as `/proc/PID/mountinfo` names them, and the groups of a process, as `/proc/PID/cgroup`
//! does. What a group holds is for others to read.

use std::path::Path;

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

    /// The one that a controller is in: of version 1 if there is one, else that of version 2. Whether the latter has the
    /// controller is for its file `cgroup.controllers` to say.
    pub fn of<'h>(all: &'h [Self], controller: &str) -> Option<&'h Self> {
        let v1 = all.iter().find(|hierarchy| hierarchy.is_v1_of(controller));
        v1.or_else(|| all.iter().find(|hierarchy| hierarchy.version == Version::V2))
    }

    /// The path below the mount point of a group that `/proc/PID/cgroup` names. A group outside of what the mount shows
    /// keeps its whole path.
    pub fn below_point<'p>(&self, path: &'p str) -> &'p Path {
        let path = Path::new(path);
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        below.strip_prefix("/").unwrap_or(below)
    }

    /// Whether it is of version 1 and has the controller.
    pub fn is_v1_of(&self, controller: &str) -> bool {
        self.version == Version::V1 && self.controllers.iter().any(|c| c == controller)
    }
}

/// In which group of one hierarchy a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of the hierarchy; none for version 2.
    pub controllers: Vec<String>,
    /// The group.
    pub path: String,
}

impl Membership {
    /// Every membership that a text of the form of `/proc/PID/cgroup` names (cgroups(7): `5:cpu,cpuacct:/faults/lb`; in
    /// version 2 `0::/faults/lb`).
    pub fn all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::of_line).collect()
    }

    fn of_line(line: &str) -> Option<Self> {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?.split(',').filter(|c| !c.is_empty()).map(str::to_string).collect();
        Some(Self { controllers, path: fields.next()?.to_string() })
    }

    /// The group of `all` that lies in a hierarchy.
    pub fn path_in<'m>(all: &'m [Self], hierarchy: &Hierarchy) -> Option<&'m str> {
        let fits = |membership: &&Self| match hierarchy.version {
            Version::V1 => membership.controllers.iter().any(|c| hierarchy.controllers.contains(c)),
            Version::V2 => membership.controllers.is_empty(),
        };
        all.iter().find(fits).map(|membership| membership.path.as_str())
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

    fn hierarchy(line: &str) -> Hierarchy {
        Hierarchy::of_line(&format!("1 0 0:1 {line}")).unwrap()
    }

    #[test]
    fn a_process_is_in_one_group_of_each_hierarchy() {
        let all = Membership::all("5:cpu,cpuacct:/a/b\n4:memory:/c:d\n1:name=systemd:/e\n0::/f\nx\n");
        let path = |line| Membership::path_in(&all, &hierarchy(line));
        assert_eq!(path("/ /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct"), Some("/a/b"));
        assert_eq!(path("/ /cg/memory rw - cgroup cgroup rw,memory"), Some("/c:d"));
        assert_eq!(path("/ /cg rw - cgroup2 cgroup2 rw"), Some("/f"));
        assert_eq!(path("/ /cg/pids rw - cgroup cgroup rw,pids"), None);
    }

    #[test]
    fn a_controller_of_version_1_goes_before_version_2() {
        let all = ["/ /cg rw - cgroup2 cgroup2 rw", "/ /cg/cpu rw - cgroup cgroup rw,cpu"].map(hierarchy);
        assert_eq!(Hierarchy::of(&all, "cpu").map(|h| h.point.as_str()), Some("/cg/cpu"));
        assert_eq!(Hierarchy::of(&all, "memory").map(|h| h.point.as_str()), Some("/cg"));
        assert_eq!(Hierarchy::of(&[], "cpu"), None);
    }

    #[test]
    fn a_container_shows_its_group_as_the_mount_point() {
        let below = |root: &str, path| {
            let mount = hierarchy(&format!("{root} /cg rw - cgroup2 cgroup2 rw"));
            mount.below_point(path).to_str().unwrap().to_string()
        };
        assert_eq!(below("/docker/abc", "/docker/abc/web"), "web");
        assert_eq!(below("/docker/abc", "/docker/abc"), "");
        assert_eq!(below("/docker/abc", "/docker/abcd/web"), "docker/abcd/web");
        assert_eq!(below("/", "/web/a"), "web/a");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9:/, -]{0,80}(\n[a-z0-9:/, -]{0,80}){0,3}") {
            let memberships = Membership::all(&text);
            for hierarchy in Hierarchy::all(&text) {
                let path = Membership::path_in(&memberships, &hierarchy);
                prop_assert!(path.is_none_or(|path| !hierarchy.below_point(path).is_absolute()));
            }
        }
    }
}
