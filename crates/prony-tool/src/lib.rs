//! Programs of the machine that prony calls: where they are, and how they are started.
//!
//! It runs none of them and knows none of their arguments. Invariant: a program that is started through [`command`] does not
//! outlive prony, also when prony is killed: otherwise an `ip` or a `tc` would make its change after `prony lab down` or
//! `prony undo` has looked.

mod sys;

pub use sys::{command, command_that_undoes, interrupt};

use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian keeps these programs in `sbin`, which is not in the PATH of every root shell (`su` without `-`).
const MORE_FOLDERS: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// A program and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// As it is called.
    pub name: &'static str,
    /// What to install when it is missing.
    pub package: &'static str,
}

/// Namespaces, links, addresses.
pub const IP: Tool = Tool { name: "ip", package: "iproute2" };
/// Queueing disciplines of links.
pub const TC: Tool = Tool { name: "tc", package: "iproute2" };
/// Forwarding of bridges and overlays.
pub const BRIDGE: Tool = Tool { name: "bridge", package: "iproute2" };
/// Listening sockets and their queues.
pub const SS: Tool = Tool { name: "ss", package: "iproute2" };
/// Packet filters.
pub const NFT: Tool = Tool { name: "nft", package: "nftables" };
/// Offloads of interfaces.
pub const ETHTOOL: Tool = Tool { name: "ethtool", package: "ethtool" };
/// A web server.
pub const NGINX: Tool = Tool { name: "nginx", package: "nginx-light" };
/// A load balancer.
pub const HAPROXY: Tool = Tool { name: "haproxy", package: "haproxy" };
/// A cache.
pub const REDIS: Tool = Tool { name: "redis-server", package: "redis-server" };
/// Runs a program as another user: PostgreSQL refuses root.
pub const SETPRIV: Tool = Tool { name: "setpriv", package: "util-linux" };
/// Runs a program in a network namespace that goes away with it.
pub const UNSHARE: Tool = Tool { name: "unshare", package: "util-linux" };
/// Puts a file system into the tree of files.
pub const MOUNT: Tool = Tool { name: "mount", package: "mount" };
/// Takes it away again, and the loop device below it.
pub const UMOUNT: Tool = Tool { name: "umount", package: "mount" };
/// Makes a file system.
pub const MKFS_EXT4: Tool = Tool { name: "mkfs.ext4", package: "e2fsprogs" };
/// The shell, for scripts of our own.
pub const SH: Tool = Tool { name: "sh", package: "dash" };
/// The application of a lab.
pub const PYTHON: Tool = Tool { name: "python3", package: "python3" };
/// A web server.
pub const HTTPD: Tool = Tool { name: "apache2", package: "apache2-bin" };
/// Runs JavaScript.
pub const NODE: Tool = Tool { name: "node", package: "nodejs" };
/// Runs Java; the compiler too, for a server in one file of source.
pub const JAVA: Tool = Tool { name: "java", package: "default-jdk-headless" };
/// Measures bandwidth.
pub const IPERF3: Tool = Tool { name: "iperf3", package: "iperf3" };
/// A browser.
pub const CHROMIUM: Tool = Tool { name: "chromium", package: "chromium" };

impl Tool {
    /// Where the program is: in the PATH, or in the folders of programs for root. None: it is not installed.
    pub fn find(self) -> Option<PathBuf> {
        let path = std::env::var("PATH").unwrap_or_default();
        self.find_in(&format!("{path}:{MORE_FOLDERS}"))
    }

    fn find_in(self, folders: &str) -> Option<PathBuf> {
        let mut places = folders.split(':').filter(|f| !f.is_empty()).map(|f| Path::new(f).join(self.name));
        places.find(|place| place.is_file())
    }

    /// A command that does not outlive prony. Starting it fails with "not found" when the program is not installed.
    pub fn command(self) -> Command {
        command(self.find().unwrap_or_else(|| self.name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Stdio};

    #[test]
    fn programs_are_files_in_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::create_dir_all(first.join("ip")).unwrap();
        std::fs::create_dir_all(&second).unwrap();
        let folders = format!(":{}:{}", first.display(), second.display());
        assert_eq!(IP.find_in(&folders), None, "a folder of that name is no program");
        std::fs::write(second.join("ip"), "").unwrap();
        assert_eq!(IP.find_in(&folders), Some(second.join("ip")));
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let starter = std::thread::spawn(|| command("sleep").arg("10").spawn().unwrap());
        let mut sleep = starter.join().unwrap();
        assert_eq!(sleep.wait().unwrap().signal(), Some(9));
    }

    /// A shell that ends with 7 when it is asked to, as soon as it listens.
    fn asked(signal: &str) -> Child {
        let script = format!("trap 'exit 7' {signal}; echo ready; while :; do sleep 0.05; done");
        let mut shell = command_that_undoes("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        shell
    }

    #[test]
    fn a_program_that_undoes_is_asked_when_its_starter_ends() {
        let mut shell = std::thread::spawn(|| asked("TERM")).join().unwrap();
        assert_eq!(shell.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn a_program_can_be_interrupted() {
        let mut shell = asked("INT");
        interrupt(&shell).unwrap();
        assert_eq!(shell.wait().unwrap().code(), Some(7));
    }
}
