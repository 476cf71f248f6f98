//! `cargo xtask faults`: scores the diagnosis on fault cases whose truth is known.
//!
//! Each case is brought up, diagnosed by the real `prony` as a user would call it, judged, loaded with its fault and mended in turn,
//! and taken down, one at a time. It knows nothing of prony's insides: a stack file goes in, `prony.diagnosis/1` comes out.
//! Invariant: a case that was brought up is taken down, whatever the diagnosis did.

mod baselines;
mod case;
mod kept;
mod lab_case;
mod page;
mod program;
mod score;
mod script_case;
mod stack_file;

use anyhow::{Context as _, bail, ensure};
use case::Case;
use clap::Args;
use kept::{Kept, Question};
use program::{last_line, run_limited};
use prony_stats::random::Random;
pub use score::Truth;
use score::{Achieved, Outcome, Row};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit of one diagnosis. The promise to users is 120 s; the rest is for a busy machine.
const DIAGNOSE_MAX: Duration = Duration::from_secs(150);

/// Time limit of `up`, `fix`, `down` and of a short load. A guess; seen: 1 to 4 s, and some 20 s when a database is made for the
/// first time.
const STEP_MAX: Duration = Duration::from_secs(90);

/// Pairs of a load with the fault and one without, straight after it: what the fault moves is told from them. A guess.
const PAIRS: usize = 6;

/// Length of each. A guess: as long as a trial of an intervention, and more for the slow stacks with a database.
const LOAD: &str = "2s";
/// The same at a rate that is carried: few requests are sent, those of a scenario begin alike, and a queue takes its time to fill.
const LOAD_AT_RATE: &str = "8s";

/// Scores the diagnosis on fault cases.
#[derive(Args, Default)]
pub struct FaultsArgs {
    /// Folder of cases; may be given more than once [default: ../shared/faults/cases when it exists, and faults].
    #[arg(long)]
    cases: Vec<PathBuf>,
    /// Only cases whose name holds this text; may be given more than once.
    #[arg(long)]
    only: Vec<String>,
    /// How often each case is diagnosed; magnitudes are drawn anew each time.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// How often, at least, a healthy stack is diagnosed: a false alarm that comes by chance shows.
    #[arg(long, value_name = "REPEAT", default_value_t = 3)]
    repeat_healthy: u32,
    /// Seed of the magnitudes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program to score [default: target/release/prony].
    #[arg(long)]
    prony: Option<PathBuf>,
    /// Bring the cases up without their faults: whatever is then named as a fault is a false alarm.
    #[arg(long)]
    healthy: bool,
    /// No interventions: how good is watching alone?
    #[arg(long)]
    passive: bool,
    /// Do not load with and without the fault: quicker, but what a fault moves and what mending it brings is not known.
    #[arg(long)]
    no_loads: bool,
    /// Keep each row in this file, and take from it what an earlier run with the same flags measured.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Begin no further case after so many minutes; with `--resume`, the next call goes on there.
    #[arg(long)]
    pub minutes: Option<u64>,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Write the section for this way to score in docs/diagnosis-score.md.
    #[arg(long)]
    write: bool,
    /// End with success even when a verdict is not right.
    #[arg(long)]
    no_fail: bool,
}

impl FaultsArgs {
    /// How often a case is diagnosed.
    fn repeats_of(&self, case: &Case) -> u32 {
        let healthy = case.truth.as_ref().is_ok_and(Truth::is_healthy);
        self.repeat.max(if healthy { self.repeat_healthy } else { 1 })
    }
}

/// Runs the cases and prints the score.
///
/// # Errors
/// There are no cases or no prony; or, unless `--no-fail`, a verdict is not right or a case could not be run.
pub fn run(root: &Path, args: &FaultsArgs) -> anyhow::Result<()> {
    let prony = args.prony.clone().unwrap_or_else(|| root.join("target/release/prony"));
    if !prony.is_file() {
        bail!(
            "{} is not there: `cargo build --release -p prony` makes it, `--prony PATH` names another",
            prony.display()
        );
    }
    let prony = prony.canonicalize().with_context(|| prony.display().to_string())?;
    let cases = find_cases(&folders(root, &args.cases), &args.only)?;
    let scratch = scratch();
    for folder in cases.iter().filter_map(|case| Path::new(&case.name).parent()).chain([Path::new("run")]) {
        let folder = scratch.join(folder);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }

    let loads = !args.healthy && !args.no_loads;
    let bench = Bench { prony, scratch, healthy: args.healthy, passive: args.passive, loads };
    let mut kept = args.resume.as_deref().map(Kept::open).transpose()?;
    let (mut rows, mut left) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    let most = cases.iter().map(|case| args.repeats_of(case)).max().unwrap_or(1);
    for repeat in 1..=most {
        for case in cases.iter().filter(|case| repeat <= args.repeats_of(case)) {
            let asked = Question::new(&case.name, repeat, args);
            if let Some(row) = kept.as_mut().and_then(|kept| kept.take(&asked)) {
                rows.push(row);
                continue;
            }
            if args.minutes.is_some_and(|most| begun.elapsed() >= Duration::from_secs(60 * most)) {
                left.push(case.name.as_str());
                continue;
            }
            eprintln!("{} ({repeat} of {}) ...", case.name, args.repeats_of(case));
            let row = bench.row(case, repeat, &mut Random::new(asked.drawn_by()));
            eprintln!("{} -> {} ({} at {})", case.name, row.outcome, row.verdict, row.hop);
            rows.push(match &kept {
                Some(kept) => kept.add(asked, row)?,
                None => row,
            });
        }
    }
    if args.write {
        page::write(root, args, &rows, &left)?;
    }
    if !left.is_empty() {
        eprintln!("not measured yet: {}", left.join(", "));
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

/// Where stack files, what prony said and its records are left to be looked at; the next score writes over them.
fn scratch() -> PathBuf {
    std::env::temp_dir().join("prony-xtask-faults")
}

fn folders(root: &Path, asked: &[PathBuf]) -> Vec<PathBuf> {
    if !asked.is_empty() {
        return asked.to_vec();
    }
    let known = [root.join("../shared/faults/cases"), root.join("faults")];
    known.into_iter().filter(|folder| folder.is_dir()).collect()
}

/// The runs that scores left, each with the name of its case and its truth. Those without their faults are left out.
///
/// # Errors
/// There are no cases, or a record cannot be read.
pub fn scored_runs(root: &Path, cases: &[PathBuf]) -> anyhow::Result<Vec<(String, Truth, prony_model::Run)>> {
    let mut runs = Vec::new();
    for case in find_cases(&folders(root, cases), &[])? {
        let record = scratch().join(format!("{}.prony", stem(&case.name, 1, false)));
        if let (Ok(truth), true) = (case.truth, record.is_file()) {
            let run = prony_record::read(&record).with_context(|| record.display().to_string())?;
            runs.push((case.name, truth, run));
        }
    }
    Ok(runs)
}

/// What the files of a diagnosis are named after. Each repeat has its own, so that one that went wrong can be looked into.
fn stem(case: &str, repeat: u32, healthy: bool) -> String {
    let healthy = if healthy { "-healthy" } else { "" };
    if repeat == 1 { format!("{case}{healthy}") } else { format!("{case}{healthy}-{repeat}") }
}

/// The cases of all folders, in order of name.
fn find_cases(folders: &[PathBuf], only: &[String]) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for folder in folders {
        cases.extend(case::read_folder(folder)?);
    }
    cases.retain(|case| only.is_empty() || only.iter().any(|text| case.name.contains(text.as_str())));
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    ensure!(!cases.is_empty(), "no case has a name that was asked for; name a folder of cases with --cases");
    Ok(cases)
}

/// What all cases are run with.
struct Bench {
    prony: PathBuf,
    scratch: PathBuf,
    healthy: bool,
    passive: bool,
    loads: bool,
}

impl Bench {
    /// Runs one case from up to down.
    fn row(&self, case: &Case, repeat: u32, random: &mut Random) -> Row {
        let truth = match &case.truth {
            Ok(truth) => truth,
            Err(e) => return Row::new(case.name.clone(), &Default::default(), Outcome::Failed(e.clone())),
        };
        let mut row = Row::new(case.name.clone(), truth, Outcome::Failed("not run".to_string()));
        let mut stand = match case.stand(&self.prony, &self.scratch, random) {
            Ok(stand) => stand,
            Err(e) => {
                row.outcome = Outcome::Failed(format!("{e:#}"));
                return row;
            }
        };
        row.magnitudes = stand.magnitudes();
        if let Err(e) = self.diagnose(&mut *stand, repeat, truth, &mut row) {
            row.outcome = Outcome::Failed(format!("{e:#}"));
        }
        if let Err(e) = stand.down() {
            row.outcome = Outcome::Failed(format!("{e:#}"));
        }
        row
    }

    fn diagnose(&self, stand: &mut dyn case::Stand, repeat: u32, truth: &Truth, row: &mut Row) -> anyhow::Result<()> {
        let stack = match stand.up(self.healthy)? {
            Ok(stack) => stack,
            Err(reason) => {
                row.outcome = Outcome::Skipped(reason);
                return Ok(());
            }
        };
        let begun = Instant::now();
        let stem = stem(&row.case, repeat, self.healthy);
        let record = self.scratch.join(format!("{stem}.prony"));
        let answer = self.ask(&stack, &record, &stem)?;
        row.seconds = begun.elapsed().as_secs_f64();
        row.judge(truth, &answer, self.healthy)?;
        let run = prony_record::read(&record).with_context(|| record.display().to_string())?;
        row.by_threshold = baselines::by_threshold(&run).judged(truth, self.healthy);
        row.by_correlation = baselines::by_correlation(&run).judged(truth, self.healthy);
        if self.loads && !truth.is_healthy() {
            row.achieved = Achieved::of(&self.pairs(stand, stack, row)?, row.at_rate);
            // A remedy that was named and moves nothing is no reason to leave the case out.
            if row.achieved.as_ref().is_some_and(|a| !a.moves) && stand.mends_all(&row.verdict) {
                row.outcome = Outcome::Skipped("the fault moves neither throughput nor the tail here".to_string());
            }
        }
        Ok(())
    }

    /// `prony diagnose --json` of a stack.
    fn ask(&self, stack: &Path, record: &Path, stem: &str) -> anyhow::Result<Value> {
        std::fs::remove_file(record).ok();
        let mut prony = Command::new(&self.prony);
        prony.arg("diagnose").arg(stack).arg("--json").arg("--record").arg(record);
        if self.passive {
            prony.arg("--passive");
        }
        let ended = run_limited(prony, &self.scratch.join(format!("{stem}.diagnose")), DIAGNOSE_MAX)?;
        if ended.status.is_none() {
            // It may have been stopped in the middle of an intervention.
            let mut undo = Command::new(&self.prony);
            undo.arg("undo");
            run_limited(undo, &self.scratch.join(format!("{stem}.undo")), STEP_MAX)?;
            bail!("no verdict within {} s", DIAGNOSE_MAX.as_secs());
        }
        serde_json::from_str(&ended.stdout).with_context(|| {
            format!(
                "prony ended with {:?} and printed no diagnosis: {}",
                ended.status.flatten(),
                last_line(&ended.stderr)
            )
        })
    }

    /// Loads with the fault and straight after it with what the verdict of `row` names mended, on stacks that are brought up anew: so
    /// partners meet the same speed of the machine, which a diagnosis lies too long between for. `stack` is up, with its fault. A rate
    /// that it does not carry hides what mending brings, so then the loop is closed.
    fn pairs(
        &self,
        stand: &mut dyn case::Stand,
        mut stack: PathBuf,
        row: &Row,
    ) -> anyhow::Result<Vec<(score::Load, score::Load)>> {
        let mut pairs = Vec::new();
        let load = |stack: &Path| match row.at_rate {
            true => self.load(stack, LOAD_AT_RATE),
            false => self.load(&stack_file::closed_loop(stack)?, LOAD),
        };
        loop {
            load(&stack)?; // fills caches, and counts for nothing
            let with = load(&stack)?;
            pairs.push((with, load(&stand.mend(&row.verdict)?)?));
            if pairs.len() == PAIRS {
                return Ok(pairs);
            }
            stand.down()?;
            stack = stand.up(false)?.map_err(anyhow::Error::msg)?;
        }
    }

    /// Good requests per second and the tail of a short load.
    fn load(&self, stack: &Path, lasts: &str) -> anyhow::Result<score::Load> {
        let mut prony = Command::new(&self.prony);
        prony.arg("load").arg(stack).args(["--json", "--quiet", "-d", lasts]);
        let ended = run_limited(prony, &self.scratch.join("load"), STEP_MAX)?;
        let said: Value =
            serde_json::from_str(&ended.stdout).with_context(|| format!("prony load: {}", last_line(&ended.stderr)))?;
        let number = |path: &str| said.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"));
        Ok(score::Load {
            good_per_s: number("/result/good_per_s")?,
            mean_us: number("/result/latency/mean_us")?,
            p99_us: number("/result/latency/p99_us")?,
            p999_us: number("/result/latency/p999_us")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A case and a prony made of shell scripts.
    fn bench(folder: &Path, up: &str, prony: &str) -> (Bench, Case) {
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
        std::fs::create_dir_all(folder.join("scratch/cases")).unwrap();
        let bench = Bench { prony, scratch: folder.join("scratch"), healthy: false, passive: false, loads: false };
        let case = case::read_folder(&folder.join("cases")).unwrap().remove(0);
        (bench, case)
    }

    const UP: &str = r#"echo '{"url": "http://10.0.0.2/", "connections": 8, "load": {}, "hosts": [{"name": "lb", "role": "proxy", "netns": "n"}]}'"#;

    fn outcome(up: &str, prony: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let (bench, case) = bench(folder.path(), up, prony);
        let row = bench.row(&case, 1, &mut Random::new(1));
        let printed = std::fs::read_to_string(folder.path().join("scratch/cases/quota.up.out")).unwrap();
        assert!(printed.is_empty() || printed.starts_with('{'), "what `up` printed can be read afterwards: {printed}");
        let downs = std::fs::read_to_string(folder.path().join("downs")).unwrap_or_default();
        assert_eq!(downs, "down\n", "every case is taken down once");
        row.outcome.to_string()
    }

    #[test]
    fn a_case_goes_from_up_to_down() {
        let run = prony_model::Run::default();
        let record = tempfile::tempdir().unwrap();
        let record = record.path().join("empty.prony");
        prony_record::Writer::create(&record, &run).unwrap().finish(&run).unwrap();
        let says = |cause: &str, hop: &str| {
            format!(
                r#"test "$1" = diagnose && grep -q flt "$2" || cp {} "$5" && echo '{{"verdict": {{"cause": "{cause}", "hop": "{hop}", "grounded": true}}}}'"#,
                record.display()
            )
        };
        assert_eq!(outcome(UP, &says("cpu-quota-throttled", "lb")), "right");
        assert_eq!(outcome(UP, &says("cpu-quota-throttled", "s1")), "wrong");
        assert_eq!(
            outcome(UP, "echo 'error: no such host' >&2; exit 1"),
            "failed: prony ended with Some(1) and printed no diagnosis: error: no such host: EOF while parsing a value at line 1 column 0"
        );
        assert_eq!(outcome("echo 'no netns' >&2; exit 1", "true"), "failed: `up` ended with Some(1): no netns");
        let unknown = UP.replace("\"load\": {}", "\"load\": {\"websocket\": true}");
        assert_eq!(outcome(&unknown, "true"), "skipped: needs `load.websocket`");
    }

    #[test]
    fn two_folders_may_have_a_case_of_one_name() {
        let root = tempfile::tempdir().unwrap();
        let folders = ["given", "own"].map(|name| root.path().join(name));
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("quota.toml"), "").unwrap();
        }
        let cases = find_cases(&folders, &[]).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["given/quota", "own/quota"]);
    }

    #[test]
    fn healthy_stacks_are_diagnosed_more_often() {
        let folder = tempfile::tempdir().unwrap();
        let (_, mut case) = bench(folder.path(), UP, "true");
        let often = FaultsArgs { repeat: 1, repeat_healthy: 3, ..FaultsArgs::default() };
        assert_eq!(often.repeats_of(&case), 1);
        case.truth.as_mut().unwrap().kind = "healthy".to_string();
        assert_eq!(often.repeats_of(&case), 3);
        assert_eq!(FaultsArgs { repeat: 5, ..often }.repeats_of(&case), 5);
    }

    #[test]
    fn each_repeat_leaves_its_record() {
        let folder = tempfile::tempdir().unwrap();
        let (bench, case) = bench(folder.path(), UP, r#"echo "$2" > "$5""#);
        for repeat in [1, 2] {
            bench.row(&case, repeat, &mut Random::new(1));
        }
        for record in ["quota.prony", "quota-2.prony"] {
            assert!(folder.path().join("scratch/cases").join(record).is_file(), "{record}");
        }
    }
}
