//! How a lab calls programs: which it needs, and running them to their end.
//!
//! Only programs with a fixed argument list; no shell sees text from a stack file.

use crate::LabError;
use prony_tool::Tool;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

/// Where the program is.
///
/// # Errors
/// It is not installed: the error names the package and `wanted_by`.
pub(crate) fn find(tool: Tool, wanted_by: &str) -> Result<PathBuf, LabError> {
    tool.find().ok_or_else(|| LabError::ToolMissing {
        tool: tool.name.to_string(),
        wanted_by: wanted_by.to_string(),
        package: tool.package.to_string(),
    })
}

/// Runs the program to its end with `input` on its standard input.
///
/// # Errors
/// It is missing, or it failed: the error holds the command line and what it said.
pub(crate) fn run(tool: Tool, args: &[&str], input: &str) -> Result<(), LabError> {
    let failed = |reason: String| LabError::Command {
        command: format!("{} {}", tool.name, args.join(" ")).trim().to_string(),
        reason: format!("{reason}{}", if input.is_empty() { String::new() } else { format!("\nin:\n{input}") }),
    };
    let mut command = prony_tool::command(find(tool, "the network of a lab")?);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
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

#[cfg(test)]
mod tests {
    use super::*;
    use prony_tool::IP;

    #[test]
    fn a_missing_program_names_its_package() {
        let none = Tool { name: "prony-is-not-a-tool", package: "nothing" };
        let error = find(none, "host `lb`").unwrap_err().to_string();
        assert_eq!(error, "`prony-is-not-a-tool` is not installed, and host `lb` needs it: apt-get install nothing");
    }

    #[test]
    fn a_failing_program_says_what_it_said() {
        if IP.find().is_none() {
            return eprintln!("skipped: no ip");
        }
        let error = run(IP, &["netns", "nonsense"], "").unwrap_err().to_string();
        assert!(error.starts_with("ip netns nonsense: ") && error.len() > 25, "{error}");
    }
}
