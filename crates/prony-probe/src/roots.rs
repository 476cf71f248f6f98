//! Where the host's files are. Live: `/proc`, `/sys`. Recorded: a folder of testdata. Reads nothing itself.

use std::path::{Path, PathBuf};

/// The folders that stand for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// procfs. Its `thread-self/net` must show the host's network namespace; a recorded tree may have `net` instead.
    pub proc: PathBuf,
    /// sysfs of the host's network namespace. `/sys` shows the namespace in which it was mounted, not that of the
    /// thread; an interface that does not have the same hardware address there becomes a gap.
    pub sys: PathBuf,
    /// What stands for `/sys/fs/cgroup`: mount points below it are looked up here.
    pub cgroup: PathBuf,
    /// A folder for the few temporary files of [`crate::prices`], best on the file system of the server's logs.
    pub scratch: PathBuf,
}

impl Roots {
    /// This machine.
    pub fn here() -> Self {
        Self {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            cgroup: PathBuf::from("/sys/fs/cgroup"),
            scratch: std::env::temp_dir(),
        }
    }

    /// Whether sockets opened now show the same host as the files: only then netlink is asked.
    pub(crate) fn live(&self) -> bool {
        self.proc == Path::new("/proc")
    }

    /// The `net` folder of this thread's namespace. Not `/proc/net`: that is the namespace of the thread group's
    /// leader.
    pub(crate) fn net(&self) -> PathBuf {
        let own = self.proc.join("thread-self/net");
        if own.is_dir() { own } else { self.proc.join("net") }
    }

    /// Folder of one process.
    pub(crate) fn process(&self, pid: u32) -> PathBuf {
        self.proc.join(pid.to_string())
    }

    /// File of a sysctl by its dotted name. `/proc/sys/net` follows the namespace of the thread that opens it.
    pub(crate) fn sysctl(&self, name: &str) -> PathBuf {
        self.proc.join("sys").join(name.replace('.', "/"))
    }
}

/// What readers of sockets say about a recorded tree.
pub(crate) const NO_LIVE_KERNEL: &str = "no live kernel: these files are a recorded tree, sockets cannot be asked";
