//! `cargo xtask faults`: scores the diagnosis on fault cases whose truth is known.
//!
//! Each case is brought up, diagnosed by the real `prony` as a user would call it, judged and taken down, one at a
//! time. It knows nothing of prony's insides: a stack file goes in, `prony.diagnosis/1` comes out.
//! Invariant: a case that was brought up is taken down, whatever the diagnosis did.

mod score;
mod stack_file;

use anyhow::{Context as _, bail};
use clap::Args;
use score::{Outcome, Row, Truth};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of one diagnosis. The promise to users is 120 s; the rest is for a busy machine.
const DIAGNOSE_MAX: Duration = Duration::from_secs(150);

/// Time limit of `up` and of `down`. A guess; seen: 1 to 4 s, and some 20 s when a database is made for the first time.
const CASE_MAX: Duration = Duration::from_secs(90);

/// How long a diagnosis that was asked to stop may take to put things back. A guess.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Scores the diagnosis on fault cases.
#[derive(Args)]
pub struct FaultsArgs {
    /// Folder with one folder per case [default: ../shared/faults/cases when it exists, else faults/cases].
    #[arg(long)]
    cases: Option<PathBuf>,
    /// Only cases whose name holds this text; may be given more than once.
    #[arg(long)]
    only: Vec<String>,
    /// How often each case is diagnosed.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// The program to score [default: target/release/prony].
    #[arg(long)]
    prony: Option<PathBuf>,
    /// Bring the cases up without their faults: whatever is then named as a fault is a false alarm.
    #[arg(long)]
    healthy: bool,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// End with success even when a verdict is not right.
    #[arg(long)]
    no_fail: bool,
}

/// Runs the cases and prints the score.
///
/// # Errors
/// There are no cases or no prony; or, unless `--no-fail`, a verdict is not right or a case could not be run.
pub fn run(root: &Path, args: &FaultsArgs) -> anyhow::Result<()> {
    let shared = root.join("../shared/faults/cases");
    let default = if shared.is_dir() { shared } else { root.join("faults/cases") };
    let folder = args.cases.clone().unwrap_or(default);
    let prony = args.prony.clone().unwrap_or_else(|| root.join("target/release/prony"));
    if !prony.is_file() {
        bail!(
            "{} is not there: `cargo build --release -p prony` makes it, `--prony PATH` names another",
            prony.display()
        );
    }
    let prony = prony.canonicalize().with_context(|| prony.display().to_string())?;
    let cases = find_cases(&folder, &args.only)?;
    let scratch = std::env::temp_dir().join("prony-xtask-faults");
    std::fs::create_dir_all(scratch.join("run")).with_context(|| scratch.display().to_string())?;

    let bench = Bench { prony, scratch, healthy: args.healthy };
    let mut rows = Vec::new();
    for case in &cases {
        for repeat in 1..=args.repeat.max(1) {
            eprintln!("{} ({repeat} of {}) ...", name_of(case), args.repeat.max(1));
            let row = bench.row(case);
            eprintln!("{} -> {}", name_of(case), row.outcome);
            rows.push(row);
        }
    }
    match args.json {
        true => println!("{}", score::json(&rows)),
        false => print!("{}", score::table(&rows)),
    }
    if !args.no_fail && !score::all_right(&rows) {
        bail!("not every verdict is right");
    }
    Ok(())
}

/// Folders with a `truth.json`, in order of name.
fn find_cases(folder: &Path, only: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let folder = folder
        .canonicalize()
        .with_context(|| format!("{}: no folder of cases; name one with --cases", folder.display()))?;
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut cases: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.join("truth.json").is_file()).collect();
    cases.retain(|case| only.is_empty() || only.iter().any(|text| name_of(case).contains(text.as_str())));
    cases.sort();
    match cases.is_empty() {
        true => bail!("{}: no case here has a truth.json and a name that was asked for", folder.display()),
        false => Ok(cases),
    }
}

fn name_of(case: &Path) -> String {
    case.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What all cases are run with.
struct Bench {
    prony: PathBuf,
    scratch: PathBuf,
    healthy: bool,
}

impl Bench {
    /// Runs one case from up to down.
    fn row(&self, case: &Path) -> Row {
        let name = name_of(case);
        let truth = match read_truth(case) {
            Ok(truth) => truth,
            Err(e) => return Row::new(name, &Truth::default(), Outcome::Failed(format!("truth.json: {e:#}"))),
        };
        let mut row = Row::new(name, &truth, Outcome::Failed("not run".to_string()));
        let begun = Instant::now();
        if let Err(e) = self.diagnose(case, &truth, &mut row) {
            row.outcome = Outcome::Failed(format!("{e:#}"));
        }
        row.seconds = begun.elapsed().as_secs_f64();
        if let Err(e) = self.verb(case, "down", &[]) {
            row.outcome = Outcome::Failed(format!("{e:#}"));
        }
        row
    }

    fn diagnose(&self, case: &Path, truth: &Truth, row: &mut Row) -> anyhow::Result<()> {
        let healthy: &[&str] = if self.healthy { &["--healthy"] } else { &[] };
        let up = self.verb(case, "up", healthy)?;
        let info: Value = serde_json::from_str(&up).context("what `up` printed")?;
        let text = match stack_file::write(&row.case, &info)? {
            Ok(text) => text,
            Err(reason) => {
                row.outcome = Outcome::Skipped(reason);
                return Ok(());
            }
        };
        let stack = self.scratch.join(format!("{}.toml", row.case));
        std::fs::write(&stack, text).with_context(|| stack.display().to_string())?;
        let mut prony = Command::new(&self.prony);
        prony.arg("diagnose").arg(&stack).arg("--json");
        let ended = run_limited(prony, &self.scratch.join(format!("{}.diagnose", row.case)), DIAGNOSE_MAX)?;
        if ended.status.is_none() {
            // It may have been stopped in the middle of an intervention.
            let mut undo = Command::new(&self.prony);
            undo.arg("undo");
            run_limited(undo, &self.scratch.join(format!("{}.undo", row.case)), CASE_MAX)?;
            bail!("no verdict within {} s", DIAGNOSE_MAX.as_secs());
        }
        let answer: Value = serde_json::from_str(&ended.stdout).with_context(|| {
            format!(
                "prony ended with {:?} and printed no diagnosis: {}",
                ended.status.flatten(),
                last_line(&ended.stderr)
            )
        })?;
        row.judge(truth, &answer, self.healthy)
    }

    /// Runs `up` or `down` of a case and returns what it printed.
    fn verb(&self, case: &Path, verb: &str, args: &[&str]) -> anyhow::Result<String> {
        let mut command = verb_command(case, verb);
        command.args(args).env("FAULTS_RUN", self.scratch.join("run"));
        let output = self.scratch.join(format!("{}.{verb}", name_of(case)));
        let ended = run_limited(command, &output, CASE_MAX)?;
        match ended.status {
            Some(Some(0)) => Ok(ended.stdout),
            Some(code) => bail!("`{verb}` ended with {code:?}: {}", last_line(&ended.stderr)),
            None => bail!("`{verb}` did not end within {} s", CASE_MAX.as_secs()),
        }
    }
}

/// `up` and `down` are links to an executable. A checkout without links has files that hold the link's target instead;
/// then the program behind it is called as that executable would call it.
fn verb_command(case: &Path, verb: &str) -> Command {
    let file = case.join(verb);
    if std::fs::metadata(&file).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0) {
        return Command::new(file);
    }
    let mut command = Command::new("python3");
    command.arg(case.join("../../lib.py")).arg(verb).arg(case);
    command
}

fn read_truth(case: &Path) -> anyhow::Result<Truth> {
    Ok(serde_json::from_str(&std::fs::read_to_string(case.join("truth.json"))?)?)
}

/// How a program ended.
struct Ended {
    /// None: its time was up. Some(None): a signal.
    status: Option<Option<i32>>,
    stdout: String,
    stderr: String,
}

/// Runs a program with a time limit. Its output goes to files beside `output`, so that it can be read afterwards and a
/// full pipe stops nobody. When its time is up it is interrupted, and killed if that does not help.
fn run_limited(mut command: Command, output: &Path, limit: Duration) -> anyhow::Result<Ended> {
    // Not `with_extension`: `up`, `diagnose` and `down` of a case would overwrite each other's output.
    let named = |end: &str| PathBuf::from(format!("{}.{end}", output.display()));
    let (out, err) = (named("out"), named("err"));
    let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
    command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| program)?;
    let begun = Instant::now();
    let mut interrupted = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break if interrupted { None } else { Some(status.code()) };
        }
        if begun.elapsed() > limit && !interrupted {
            interrupted = true;
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().context("kill")?;
        }
        if begun.elapsed() > limit + STOP_MAX {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let read = |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Ended { status, stdout: read(&out)?, stderr: read(&err)? })
}

fn last_line(text: &str) -> &str {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(it said nothing)").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A case and a prony made of shell scripts.
    fn bench(folder: &Path, up: &str, prony: &str) -> (Bench, PathBuf) {
        let script = |path: PathBuf, text: &str| {
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let case = folder.join("cases/quota");
        std::fs::create_dir_all(&case).unwrap();
        std::fs::write(case.join("truth.json"), r#"{"cause": "cpu-quota-throttled", "hop": "lb", "kind": "cpu"}"#)
            .unwrap();
        script(case.join("up"), up);
        script(case.join("down"), &format!("echo down >> {}", folder.join("downs").display()));
        let prony = script(folder.join("prony"), prony);
        std::fs::create_dir_all(folder.join("scratch")).unwrap();
        (Bench { prony, scratch: folder.join("scratch"), healthy: false }, case)
    }

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("prony-xtask-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    const UP: &str = r#"echo '{"url": "http://10.0.0.2/", "connections": 8, "load": {}, "hosts": [{"name": "lb", "role": "proxy", "netns": "n"}]}'"#;

    fn outcome(name: &str, up: &str, prony: &str) -> String {
        let folder = scratch(name);
        let (bench, case) = bench(&folder, up, prony);
        let row = bench.row(&case);
        let printed = std::fs::read_to_string(folder.join("scratch/quota.up.out")).unwrap();
        assert!(printed.is_empty() || printed.starts_with('{'), "what `up` printed can be read afterwards: {printed}");
        let downs = std::fs::read_to_string(folder.join("downs")).unwrap_or_default();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(downs, "down\n", "every case is taken down once");
        row.outcome.to_string()
    }

    #[test]
    fn a_case_goes_from_up_to_down() {
        let says = |cause: &str, hop: &str| {
            format!(
                r#"test "$1" = diagnose && grep -q flt "$2" || echo '{{"verdict": {{"cause": "{cause}", "hop": "{hop}", "grounded": true}}}}'"#
            )
        };
        assert_eq!(outcome("right", UP, &says("cpu-quota-throttled", "lb")), "right");
        assert_eq!(outcome("hop", UP, &says("cpu-quota-throttled", "s1")), "wrong");
        assert_eq!(
            outcome("crash", UP, "echo 'error: no such host' >&2; exit 1"),
            "failed: prony ended with Some(1) and printed no diagnosis: error: no such host: EOF while parsing a value at line 1 column 0"
        );
        assert_eq!(outcome("up", "echo 'no netns' >&2; exit 1", "true"), "failed: `up` ended with Some(1): no netns");
        let unknown = UP.replace("\"load\": {}", "\"load\": {\"websocket\": true}");
        assert_eq!(outcome("unknown", &unknown, "true"), "skipped: needs `load.websocket`");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped() {
        let folder = scratch("limit");
        let mut sleep = Command::new("sleep");
        sleep.arg("60");
        let ended = run_limited(sleep, &folder.join("x"), Duration::from_millis(50)).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(ended.status, None);
    }

    #[test]
    fn a_checkout_without_links_works() {
        let folder = scratch("links");
        std::fs::write(folder.join("up"), "../../entry").unwrap();
        let command = verb_command(&folder, "up");
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(command.get_program(), "python3");
    }
}
