//! Programs that a lab calls: finding them, running them to their end.
//!
//! Only programs with a fixed argument list; no shell sees text from a stack file.

use crate::{LabError, sys};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub name: &'static str,
    pub package: &'static str,
}

pub(crate) const IP: Tool = Tool { name: "ip", package: "iproute2" };
pub(crate) const TC: Tool = Tool { name: "tc", package: "iproute2" };
pub(crate) const NFT: Tool = Tool { name: "nft", package: "nftables" };
pub(crate) const NGINX: Tool = Tool { name: "nginx", package: "nginx-light" };
pub(crate) const HAPROXY: Tool = Tool { name: "haproxy", package: "haproxy" };

/// Debian keeps these programs in `sbin`, which is not in the PATH of every root shell (`su` without `-`).
const MORE_FOLDERS: &str = "/usr/local/sbin:/usr/sbin:/sbin";

impl Tool {
    /// Where the program is.
    ///
    /// # Errors
    /// It is not installed: the error names the package and `wanted_by`.
    pub fn find(self, wanted_by: &str) -> Result<PathBuf, LabError> {
        let path = std::env::var("PATH").unwrap_or_default();
        self.find_in(&format!("{path}:{MORE_FOLDERS}"), wanted_by)
    }

    fn find_in(self, folders: &str, wanted_by: &str) -> Result<PathBuf, LabError> {
        let found = folders.split(':').filter(|f| !f.is_empty()).map(|f| Path::new(f).join(self.name));
        found.into_iter().find(|path| path.is_file()).ok_or_else(|| LabError::ToolMissing {
            tool: self.name.to_string(),
            wanted_by: wanted_by.to_string(),
            package: self.package.to_string(),
        })
    }

    /// Runs the program to its end with `input` on its standard input.
    ///
    /// # Errors
    /// It is missing, or it failed: the error holds the command line and what it said.
    pub fn run(self, args: &[&str], input: &str) -> Result<(), LabError> {
        let failed = |reason: String| LabError::Command {
            command: format!("{} {}", self.name, args.join(" ")).trim().to_string(),
            reason: format!("{reason}{}", if input.is_empty() { String::new() } else { format!("\nin:\n{input}") }),
        };
        let mut command = Command::new(self.find("the network of a lab")?);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        sys::dies_with_us(&mut command);
        let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends before it has read all says why on its standard error; that is what is reported.
            let _broken_pipe = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(|e| failed(e.to_string()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = NGINX.find_in("/nonexistent:", "host `lb`").unwrap_err().to_string();
        assert_eq!(error, "`nginx` is not installed, and host `lb` needs it: apt-get install nginx-light");
    }

    #[test]
    fn a_failing_program_says_what_it_said() {
        if IP.find("a test").is_err() {
            return eprintln!("skipped: no ip");
        }
        let error = IP.run(&["netns", "nonsense"], "").unwrap_err().to_string();
        assert!(error.starts_with("ip netns nonsense: ") && error.len() > 25, "{error}");
    }
}
