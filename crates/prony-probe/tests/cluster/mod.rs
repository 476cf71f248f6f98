//! A PostgreSQL of a test's own. It leaves nothing behind, however the test ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A cluster in a folder of its own, reached by a socket there.
pub struct Cluster {
    folder: tempfile::TempDir,
    pub server: Option<Child>,
}

/// Where Debian puts the programs of the newest version; none when there is none, or no user to run them.
pub fn programs() -> Option<PathBuf> {
    let root = std::fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
    let users = std::fs::read_to_string("/etc/passwd").is_ok_and(|s| s.contains("\npostgres:"));
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|e| e.path().join("bin"));
    versions.filter(|bin| root && users && bin.join("initdb").is_file()).max()
}

fn as_postgres(program: PathBuf) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]).arg(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    command
}

impl Cluster {
    /// `settings` as `postgres` takes them, like `listen_addresses=`.
    pub fn up(bin: &Path, settings: &[&str]) -> Self {
        let mut cluster = Self { folder: tempfile::tempdir().unwrap(), server: None };
        let dir = cluster.dir();
        assert!(Command::new("chown").arg("postgres").arg(&dir).status().unwrap().success());
        let data = format!("{dir}/data");
        let made =
            as_postgres(bin.join("initdb")).args(["-D", &data, "-U", "app", "-A", "trust", "--no-sync"]).status();
        assert!(made.unwrap().success());
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let server = as_postgres(bin.join("postgres")).args(["-D", &data, "-k", &dir]).args(settings).spawn();
        cluster.server = Some(server.unwrap());
        for _ in 0..200 {
            if cluster.sql("select 1").status().is_ok_and(|status| status.success()) {
                return cluster;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the database does not answer");
    }

    pub fn dir(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// One session that runs a statement.
    pub fn sql(&self, statement: &str) -> Command {
        let mut command = Command::new("psql");
        command.args(["-XAtq", "-h", &self.dir(), "-U", "app", "-c", statement, "postgres"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Killed rather than stopped: nothing of it is kept.
        let _ = self.server.as_mut().map(|server| server.kill().and_then(|()| server.wait()));
    }
}
