//! `cargo xtask bench`: measures what the project sets itself bars for, and writes the tables of `docs/benchmarks.md`.
//!
//! One benchmark per file; each owns the lines between its markers in that page and nothing else of it.
//! Invariant: what is compared is measured in turn, in the same rounds, and the spread is written beside the middle.

pub mod causes;
pub mod fuzz;
pub mod labs;
pub mod limit;
pub mod load;
pub mod observe;
mod pauses;
pub mod stats;
mod sys;
pub mod truth;
pub mod undo;

use anyhow::{Context as _, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page of all tables.
const PAGE: &str = "docs/benchmarks.md";

/// Replaces the section `name` of the page of tables.
pub fn write_section(root: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    write_section_of(&root.join(PAGE), "# Benchmarks\n", name, text)
}

/// Replaces the section `name` of a page; makes the page, under this heading, or the section when it is missing.
///
/// # Errors
/// The page cannot be read or written.
pub fn write_section_of(path: &Path, heading: &str, name: &str, text: &str) -> anyhow::Result<()> {
    let old = match std::fs::read_to_string(path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => heading.to_string(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    std::fs::write(path, with_section(&old, name, text)).with_context(|| format!("cannot write {}", path.display()))
}

fn with_section(page: &str, name: &str, text: &str) -> String {
    let (open, close) = (format!("<!-- bench:{name} -->\n"), format!("<!-- /bench:{name} -->\n"));
    let section = format!("{open}{}\n{close}", text.trim_end());
    let found = page.split_once(&open).and_then(|(before, rest)| Some((before, rest.split_once(&close)?.1)));
    match found {
        Some((before, after)) => format!("{before}{section}{after}"),
        None => format!("{}\n\n{section}", page.trim_end()),
    }
}

/// The middle of some numbers; none of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median and the ends, `1.023 (1.010 to 1.031)`; nothing of none.
pub fn spread(values: &[f64], digits: usize) -> String {
    let Some(middle) = median(values) else { return String::new() };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{middle:.digits$} ({least:.digits$} to {most:.digits$})")
}

/// `KEY VALUE` among the lines that a program printed.
///
/// # Errors
/// There is no such line, or it has no number.
pub fn number_told(said: &str, key: &str) -> anyhow::Result<f64> {
    let value = said.lines().find_map(|line| line.split_once(' ').filter(|(name, _)| *name == key)?.1.parse().ok());
    value.with_context(|| format!("no {key} was told; it said:\n{said}"))
}

/// Builds a program of `xtask/fixtures`, which is in C.
///
/// # Errors
/// There is no gcc, or it fails.
pub fn compile(root: &Path, fixture: &str) -> anyhow::Result<PathBuf> {
    let folder = target(root).join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let source = root.join("xtask/fixtures").join(fixture).with_extension("c");
    let binary = folder.join(fixture.replace('/', "_"));
    let status = Command::new("gcc").args(["-O2", "-Wall", "-o"]).arg(&binary).arg(&source).arg("-lm").status();
    ensure!(status.context("cannot start gcc; apt-get install gcc")?.success(), "gcc failed on {}", source.display());
    Ok(binary)
}

/// Whether a bar holds, for a table.
pub fn holds(bar: bool) -> &'static str {
    if bar { "yes" } else { "**no**" }
}

/// A program; with `realtime` before everything that has no real-time priority of its own. Both changes end in an exec, so
/// the process is the same and so is its account. In turns (SCHED_RR), because with SCHED_FIFO a thread that never sleeps
/// keeps its equals away for ever: wrk ends by a thread of its own, and would not where the server is faster than it.
pub fn prioritised(program: impl AsRef<OsStr>, realtime: bool) -> Command {
    if !realtime {
        return Command::new(program);
    }
    let mut command = Command::new("chrt");
    command.args(["--rr", "1"]).arg(program);
    command
}

/// What a program printed that ran on this CPU.
///
/// # Errors
/// It cannot be started.
pub fn said_on(cpu: &str, program: &Path, words: &[&dyn std::fmt::Display], realtime: bool) -> anyhow::Result<String> {
    let mut command = prioritised("taskset", realtime);
    command.args(["-c", cpu]).arg(program).args(words.iter().map(ToString::to_string));
    let output = command.output().context("cannot start taskset")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where cargo builds.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

/// What the numbers were measured on.
pub fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ")).map_or("an unknown CPU", |m| m.1);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = cpuinfo.lines().filter(|l| l.starts_with("processor")).count();
    format!("{cpus} CPUs of {model}, Linux {}", kernel.trim())
}

/// The average of one minute: above the number of CPUs the numbers are those of a busy machine.
pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|n| !n.is_empty()).unwrap_or("unknown").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_whole_name() {
        assert_eq!(number_told("lag_p999_us 3\nlag_p99_us 2.5\n", "lag_p99_us").unwrap(), 2.5);
        assert!(number_told("", "lag_p99_us").unwrap_err().to_string().contains("lag_p99_us"));
    }

    #[test]
    fn a_section_is_replaced_and_the_rest_is_kept() {
        let page = with_section("# Benchmarks\n", "load", "one");
        assert_eq!(page, "# Benchmarks\n\n<!-- bench:load -->\none\n<!-- /bench:load -->\n");
        let both = with_section(&page, "undo", "two");
        let again = with_section(&both, "load", "three\n");
        assert_eq!(again, both.replace("one", "three"));
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
