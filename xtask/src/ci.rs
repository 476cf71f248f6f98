//! `cargo xtask ci`: all of CI, as named and timed steps, the same on a laptop and on a CI machine.
//!
//! It decides nothing about the code itself: each step is a tool, and this file only runs them in order.
//! Invariant: a failed step stops no other step; every failure is listed at the end, and the exit code is 1.

mod api;
mod page;

use anyhow::{Context as _, bail};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct CiArgs {
    /// Run only this step; may be repeated.
    #[arg(long, value_name = "STEP", value_parser = step_names())]
    only: Vec<String>,
    /// Leave this step out; may be repeated.
    #[arg(long, value_name = "STEP", value_parser = step_names())]
    skip: Vec<String>,
}

/// A named part of CI.
struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Path) -> anyhow::Result<Outcome>,
}

/// How a step that did not fail ended.
enum Outcome {
    Passed,
    /// Passed, with a line worth reading again at the end.
    Noted(String),
}

/// Cheap steps first, tests last: the last lines of a CI log are then those of the test runner and this summary.
const STEPS: &[Step] = &[
    Step { name: "fmt", what: "rustfmt's layout", run: fmt },
    Step { name: "tidy", what: "layers, lengths, dead files, banned calls", run: tidy },
    Step { name: "codegen", what: "generated files are fresh", run: codegen },
    Step { name: "clippy", what: "lints", run: clippy },
    Step { name: "doc", what: "documentation builds without warnings", run: doc },
    Step { name: "deny", what: "licences, banned crates, sources, advisories", run: deny },
    Step { name: "web", what: "TypeScript checks, and the committed pages are fresh", run: web },
    Step { name: "page", what: "the report and the pages of serve draw and work in a browser", run: page::run },
    Step { name: "api", what: "the API of serve is what its document says, whatever is asked", run: api::run },
    Step { name: "test", what: "every test of the workspace", run: test },
];

fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// Runs the chosen steps and fails when one of them failed.
pub(crate) fn run(root: &Path, args: &CiArgs) -> anyhow::Result<()> {
    let chosen = |step: &&Step| {
        let named = |list: &[String]| list.iter().any(|name| name == step.name);
        (args.only.is_empty() || named(&args.only)) && !named(&args.skip)
    };
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(chosen) {
        println!("\n== {}: {}", step.name, step.what);
        let begin = Instant::now();
        let result = (step.run)(root);
        lines.push(summary(step.name, begin.elapsed(), &result));
        if let Err(error) = result {
            println!("{}: failed: {error:#}", step.name);
            failed.push(step.name);
        }
    }
    println!("\n{}", lines.join("\n"));
    match failed.as_slice() {
        [] => Ok(()),
        names => bail!("failed: {}; repeat one with `cargo xtask ci --only {}`", names.join(", "), names[0]),
    }
}

fn summary(name: &str, took: Duration, result: &anyhow::Result<Outcome>) -> String {
    let (word, note) = match result {
        Ok(Outcome::Passed) => ("ok", String::new()),
        Ok(Outcome::Noted(note)) => ("ok", note.clone()),
        Err(error) => ("FAILED", format!("{error:#}")),
    };
    format!("{name:<8} {word:<7} {:>7.1} s  {note}", took.as_secs_f64()).trim_end().to_string()
}

fn fmt(root: &Path) -> anyhow::Result<Outcome> {
    if !succeeds(cargo(root).args(["fmt", "--version"])) {
        return Ok(Outcome::Noted("not checked: there is no rustfmt; run `rustup component add rustfmt`".to_string()));
    }
    must(cargo(root).args(["fmt", "--all", "--check"]), "run `cargo fmt --all`")
}

fn tidy(root: &Path) -> anyhow::Result<Outcome> {
    crate::tidy::run(root)?;
    Ok(Outcome::Passed)
}

fn codegen(root: &Path) -> anyhow::Result<Outcome> {
    crate::codegen::check(root)?;
    Ok(Outcome::Passed)
}

fn clippy(root: &Path) -> anyhow::Result<Outcome> {
    if !succeeds(cargo(root).args(["clippy", "--version"])) {
        return Ok(Outcome::Noted("not checked: there is no clippy; run `rustup component add clippy`".to_string()));
    }
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    must(cargo(root).args(args), "mend what clippy names above")
}

/// Builds the programs. Of the whole workspace and with the examples, because cargo chooses the features of dependencies by what
/// it is told to build: these bring those of the tests, and without them it would build most dependencies once more.
fn build(root: &Path) -> anyhow::Result<()> {
    must(
        cargo(root).args(["build", "--workspace", "--bins", "--examples", "--locked"]),
        "mend what rustc names above",
    )?;
    Ok(())
}

fn doc(root: &Path) -> anyhow::Result<Outcome> {
    let mut command = cargo(root);
    // Examples bring the features that clippy chose, so that nothing is checked twice.
    command.args(["doc", "--workspace", "--no-deps", "--locked", "--quiet", "--lib", "--bins", "--examples"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    must(&mut command, "mend what rustdoc names above")
}

/// The version that deny.toml was written for.
const DENY_VERSION: &str = "0.20.2";

/// Where cargo-deny takes its advisories from (its own default).
const ADVISORIES: &str = "https://github.com/rustsec/advisory-db";

fn deny(root: &Path) -> anyhow::Result<Outcome> {
    if !succeeds(cargo(root).args(["deny", "--version"])) {
        println!("cargo-deny is not installed: installing {DENY_VERSION} takes about 2 minutes, once");
        let package = format!("cargo-deny@{DENY_VERSION}");
        must(cargo(root).args(["install", "--locked", &package]), "or leave it out with `--skip deny`")?;
    }
    must(cargo(root).args(["deny", "check", "licenses", "bans", "sources"]), "see deny.toml")?;
    let mut reach = Command::new("timeout");
    reach.args(["10", "git", "ls-remote", "--exit-code", ADVISORIES, "HEAD"]).env("GIT_TERMINAL_PROMPT", "0");
    if !succeeds(&mut reach) {
        return Ok(Outcome::Noted(format!("advisories not checked: {ADVISORIES} cannot be reached from here")));
    }
    must(cargo(root).args(["deny", "check", "advisories"]), "update the crate that the advisory names")
}

/// Pages that the web build writes and that are committed, so that building prony needs no Node.
const WEB_PAGES: &[&str] = &["crates/prony-report/assets", "crates/prony-web/assets"];

fn web(root: &Path) -> anyhow::Result<Outcome> {
    let web = root.join("web");
    if !web.join("package.json").exists() {
        return Ok(Outcome::Noted("there is no web/package.json".to_string()));
    }
    install(&web)?;
    let scripts = std::fs::read_to_string(web.join("package.json")).context("cannot read web/package.json")?;
    let scripts: serde_json::Value = serde_json::from_str(&scripts).context("web/package.json is not JSON")?;
    let before = pages(root)?;
    for script in ["check", "test", "build"] {
        if scripts.pointer(&format!("/scripts/{script}")).is_some() {
            must(npm(&web).args(["run", script]), "repeat it in web/")?;
        }
    }
    let after = pages(root)?;
    let same = |(a, b): (&Page, &Page)| a.path == b.path && a.bytes == b.bytes;
    if before.len() != after.len() || !before.iter().zip(&after).all(same) {
        bail!("{} were stale: they have just been built from web/; commit them", WEB_PAGES.join(" and "));
    }
    // The same pages, written anew: cargo would build all that holds them once more.
    for page in &before {
        let file = std::fs::File::options().append(true).open(&page.path);
        file.and_then(|file| file.set_modified(page.modified))
            .with_context(|| format!("cannot give {} its time back", page.path.display()))?;
    }
    Ok(Outcome::Passed)
}

/// The packages that `package-lock.json` names, unless they are there.
fn install(web: &Path) -> anyhow::Result<()> {
    if !is_installed(web) {
        must(npm(web).arg("ci"), "is the package registry reachable?")?;
    }
    Ok(())
}

/// npm leaves a copy of the lock file when it is done; the same content means that the same packages are there.
fn is_installed(web: &Path) -> bool {
    let modified = |path: PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    match (modified(web.join("node_modules/.package-lock.json")), modified(web.join("package-lock.json"))) {
        (Some(installed), Some(wanted)) => installed >= wanted,
        _ => false,
    }
}

/// A file that the web build writes.
struct Page {
    path: PathBuf,
    bytes: Vec<u8>,
    modified: SystemTime,
}

/// Every file of the folders of the web build, in order of name.
fn pages(root: &Path) -> anyhow::Result<Vec<Page>> {
    let entries = WEB_PAGES.iter().filter_map(|folder| std::fs::read_dir(root.join(folder)).ok()).flatten();
    let read = |path: &Path| Ok::<_, std::io::Error>((std::fs::read(path)?, path.metadata()?.modified()?));
    let mut pages = Vec::new();
    for entry in entries {
        let path = entry.context("cannot list the pages of the web build")?.path();
        if path.is_file() {
            let (bytes, modified) = read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            pages.push(Page { path, bytes, modified });
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pages)
}

/// Above so many failed tests it is no stranger on this machine that disturbed them.
const MOST_REPEATED: usize = 5;

/// Runs every test. The few that fail are run once more, one at a time, because the end-to-end tests drive real servers and
/// strangers can take the CPUs from those; a test that needed this is named in the summary.
fn test(root: &Path) -> anyhow::Result<Outcome> {
    let mut all = cargo(root);
    all.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    if is_root() {
        println!("running as root: tests that need root are run too");
    } else if succeeds(Command::new("sudo").args(["-n", "-E", "true"])) {
        println!("test programs run through sudo, so that those which need root are run too; building does not");
        all.args(["--config", "target.'cfg(unix)'.runner = ['sudo', '-n', '-E']"]);
    } else {
        println!("not root, and sudo asks for a password: tests that need root say so and return");
    }
    let (passed, totals) = counted(&mut all)?;
    let line = format!(
        "{} passed, {} failed, {} ignored, in {} test programs",
        totals.passed,
        totals.failed.len(),
        totals.ignored,
        totals.programs
    );
    if passed {
        return Ok(Outcome::Noted(line));
    }
    let names = totals.failed.join(", ");
    if !totals.can_be_repeated() {
        bail!("{line}; each failed test is named above");
    }
    println!("\nonce more, one at a time: {names}");
    all.args(["--", "--exact", "--test-threads", "1"]).args(&totals.failed);
    let (passed, again) = counted(&mut all)?;
    if passed && again.passed >= totals.failed.len() as u32 {
        Ok(Outcome::Noted(format!("{line}; passed when repeated alone: {names}")))
    } else {
        bail!("{line}; failed twice, the second time alone: {}", again.failed.join(", "))
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

/// What the test programs counted, summed.
#[derive(Debug, Default, PartialEq)]
struct Totals {
    passed: u32,
    /// Their names.
    failed: Vec<String>,
    ignored: u32,
    /// Test programs that came to their end.
    programs: u32,
    /// Test programs that began.
    begun: u32,
}

impl Totals {
    /// Adds a line like `test result: ok. 3 passed; 0 failed; 1 ignored; ...` or `test NAME ... FAILED`; other lines change nothing.
    fn add(&mut self, line: &str) {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            self.begun += 1;
        }
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failed.push(name.to_string());
        }
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        self.programs += 1;
        for part in counts.split("; ") {
            match part.split_once(' ').map(|(n, word)| (n.parse::<u32>().unwrap_or(0), word)) {
                Some((n, "passed")) => self.passed += n,
                Some((n, "ignored")) => self.ignored += n,
                _ => {}
            }
        }
    }

    /// Whether tests failed and nothing else did: no build, and no program that died in the middle.
    fn can_be_repeated(&self) -> bool {
        self.begun == self.programs && (1..=MOST_REPEATED).contains(&self.failed.len())
    }
}

/// Runs the tests, passes their output on and counts.
fn counted(command: &mut Command) -> anyhow::Result<(bool, Totals)> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let mut totals = Totals::default();
    for line in BufReader::new(child.stdout.take().context("cargo has no output")?).split(b'\n') {
        let line = line.context("cannot read the output of the tests")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        totals.add(&line);
    }
    let status = child.wait().context("cannot wait for cargo")?;
    Ok((status.success(), totals))
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn npm(web: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(web);
    command
}

/// Runs a command with its output shown; on failure says what to do.
fn must(command: &mut Command, remedy: &str) -> anyhow::Result<Outcome> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if status.success() { Ok(Outcome::Passed) } else { bail!("`{shown}` failed ({status}): {remedy}") }
}

/// Whether a command can be started and succeeds; its output is not shown.
fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program).chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_summed_over_programs() {
        let mut totals = Totals::default();
        totals.add("running 4 tests");
        totals.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        totals.add("running 3 tests");
        totals.add("test a::b ... FAILED");
        totals.add("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        let wanted = Totals { passed: 5, failed: vec!["a::b".to_string()], ignored: 1, programs: 2, begun: 2 };
        assert_eq!(totals, wanted);
        assert!(totals.can_be_repeated());
        totals.add("running 1 test");
        assert!(!totals.can_be_repeated(), "a program that died has no result");
    }

    #[test]
    fn only_a_few_failed_tests_are_repeated() {
        let failed = |n: usize| Totals { failed: vec!["a".to_string(); n], ..Totals::default() };
        assert!(!failed(0).can_be_repeated() && failed(MOST_REPEATED).can_be_repeated());
        assert!(!failed(MOST_REPEATED + 1).can_be_repeated());
    }

    #[test]
    fn a_failed_command_names_itself_and_the_remedy() {
        let error = must(Command::new("false").arg("x"), "try true").err().expect("false fails").to_string();
        assert_eq!(error, "`false x` failed (exit status: 1): try true");
        assert!(must(&mut Command::new("/no/such/program"), "").is_err());
    }

    #[test]
    fn a_summary_line_shows_what_failed() {
        let line = summary("tidy", Duration::from_millis(1500), &Err(anyhow::anyhow!("2 places are not tidy")));
        assert_eq!(line, "tidy     FAILED      1.5 s  2 places are not tidy");
        assert_eq!(summary("fmt", Duration::ZERO, &Ok(Outcome::Passed)), "fmt      ok          0.0 s");
    }

    #[test]
    fn step_names_are_unique() {
        let names = step_names();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
