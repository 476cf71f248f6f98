//! `cargo xtask bench fuzz`: every fuzz target under libFuzzer, until all have had so many inputs together.
//!
//! It needs no nightly compiler and no cargo-fuzz: coverage is a pass of LLVM that the usual compiler runs as well. Memory
//! errors are not looked for: all code under test is safe, and what it holds is counted by the targets themselves.
//! Invariant: a target that crashed fails the command, after the others have run and the section is written.

use super::{machine, write_section};
use anyhow::{Context as _, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest input. A guess: longer ones only make the fuzzer slower; what is limited at 64 KiB is reached by repeating.
const INPUT_BYTES_MAX: usize = 4096;
/// An input that takes longer is a finding: seconds for one input.
const INPUT_S_MAX: u32 = 10;
/// A target that takes more memory is a finding: MiB of the process, libFuzzer's own tables among them.
const PROCESS_MIB_MAX: u32 = 1024;
/// What cargo-fuzz 0.13 gives to the compiler, without the sanitizers that need nightly.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1";

/// How much to run.
#[derive(clap::Args, Clone, Debug)]
pub struct FuzzArgs {
    /// Inputs over all targets
    #[arg(long, default_value_t = 10_000_000)]
    pub executions: u64,
    /// Only this target; may be repeated
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Seed of the first target; the next ones count on
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
    /// Print the section only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// How one target went.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    executions: u64,
    took: Duration,
    /// Edges of the program that were seen, and features (edges with how often and which comparisons).
    edges: u64,
    features: u64,
    /// Inputs that found something new and were kept.
    kept: u64,
    /// The input that broke it.
    crash: Option<PathBuf>,
}

/// Builds, runs, prints the section, and writes it.
pub fn run(root: &Path, args: &FuzzArgs) -> anyhow::Result<()> {
    let folder = root.join("fuzz");
    let mut names = target_names(&folder)?;
    for wanted in &args.target {
        ensure!(names.contains(wanted), "there is no target {wanted}; there are: {}", names.join(", "));
    }
    names.retain(|name| args.target.is_empty() || args.target.contains(name));
    let built = super::target(root).join("fuzz");
    let programs = build(&folder, &built)?;
    let each = args.executions.div_ceil(names.len() as u64);
    let mut rows = Vec::new();
    for (number, name) in names.iter().enumerate() {
        println!("{name}: {each} inputs");
        rows.push(fuzz(&folder, &built, &programs, name, each, args.seed + number as u32)?);
    }
    let text = page(args, &rows);
    println!("{text}");
    if !args.no_write {
        write_section(root, "fuzz", &text)?;
    }
    let crashes: Vec<String> =
        rows.iter().filter_map(|r| Some(format!("{} on {}", r.name, r.crash.as_ref()?.display()))).collect();
    match crashes.as_slice() {
        [] => Ok(()),
        _ => bail!("crashed: {}; put the input into fuzz/corpus/TARGET, mend, and run again", crashes.join(", ")),
    }
}

/// The programs that fuzz/Cargo.toml names.
fn target_names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let path = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = text.parse().with_context(|| format!("{}: not TOML", path.display()))?;
    let programs = manifest.get("bin").and_then(toml::Value::as_array).context("fuzz/Cargo.toml names no [[bin]]")?;
    Ok(programs.iter().filter_map(|bin| Some(bin.get("name")?.as_str()?.to_string())).collect())
}

/// Builds all targets, and tells in which folder they are. The triple is named although it is the host's own: only then do the
/// flags not reach build scripts, which have no fuzzer to report to.
fn build(folder: &Path, built: &Path) -> anyhow::Result<PathBuf> {
    let said = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let triple = said.lines().find_map(|l| l.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder).args(["build", "--release", "--locked", "--bins", "--target", triple]);
    cargo.env("CARGO_TARGET_DIR", built).env("RUSTFLAGS", COVERAGE);
    ensure!(cargo.status().context("cannot start cargo")?.success(), "the fuzz targets do not build");
    Ok(built.join(triple).join("release"))
}

fn fuzz(folder: &Path, built: &Path, programs: &Path, name: &str, runs: u64, seed: u32) -> anyhow::Result<Row> {
    // What the fuzzer finds goes here and is used again by the next run; the seeds of the repository are only read.
    let found = built.join("corpus").join(name);
    let crashes = built.join("crashes").join(name);
    for folder in [&found, &crashes] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let log = built.join(format!("{name}.log"));
    let file = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(programs.join(name));
    command.arg(format!("-runs={runs}")).arg(format!("-seed={seed}")).arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-timeout={INPUT_S_MAX}")).arg(format!("-rss_limit_mb={PROCESS_MIB_MAX}"));
    command.arg(format!("-artifact_prefix={}/", crashes.display())).arg("-print_final_stats=1");
    command.arg(&found).arg(folder.join("corpus").join(name)).stdout(file.try_clone()?).stderr(file);
    let begun = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {name}"))?;
    let took = begun.elapsed();
    let said = std::fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let said = String::from_utf8_lossy(&said);
    let crash = said.lines().find_map(|l| l.split_once("Test unit written to ")).map(|(_, path)| path.trim().into());
    ensure!(status.success() || crash.is_some(), "{name} ended with {status}; see {}", log.display());
    let row = read_row(name, &said, took, crash);
    row.with_context(|| format!("{name} told no statistics; see {}", log.display()))
}

/// The statistics that libFuzzer prints: `#131072 pulse  cov: 812 ft: 3301 corp: 400/61Kb ...`, and the number of inputs.
fn read_row(name: &str, said: &str, took: Duration, crash: Option<PathBuf>) -> Option<Row> {
    let executions =
        said.lines().find_map(|l| l.strip_prefix("stat::number_of_executed_units:"))?.trim().parse().ok()?;
    let last = said.lines().rfind(|l| l.starts_with('#') && l.contains(" cov: "))?;
    let number = |key: &str| -> Option<u64> {
        let rest = last.split_once(key)?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(Row {
        name: name.to_string(),
        executions,
        took,
        edges: number(" cov: ")?,
        features: number(" ft: ")?,
        kept: number(" corp: ")?,
        crash,
    })
}

fn page(args: &FuzzArgs, rows: &[Row]) -> String {
    let all: u64 = rows.iter().map(|r| r.executions).sum();
    let crashes = rows.iter().filter(|r| r.crash.is_some()).count();
    let mut text = String::from("## Fuzzing what strangers write\n\n");
    text += &format!(
        "`cargo xtask bench fuzz --executions {} --seed {}` on {}: {all} inputs, {crashes} crashes. libFuzzer with coverage of edges and \
         comparisons, debug assertions and overflow checks on, seeds in `fuzz/corpus`. A target crashes when it panics, breaks \
         one of its invariants (an answer to no call, memory or replies that grow with what is received, another result for other \
         pieces), takes more than {INPUT_S_MAX} s for an input, or the process takes more than {PROCESS_MIB_MAX} MiB.\n\n",
        args.executions,
        args.seed,
        machine()
    );
    text +=
        "| target | inputs | inputs/s | edges | features | kept inputs | crashes |\n|---|--:|--:|--:|--:|--:|--:|\n";
    for row in rows {
        text += &format!(
            "| `{}` | {} | {:.0} | {} | {} | {} | {} |\n",
            row.name,
            row.executions,
            row.executions as f64 / row.took.as_secs_f64().max(1e-9),
            row.edges,
            row.features,
            row.kept,
            u32::from(row.crash.is_some())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "INFO: seed corpus: files: 27\n\
        #28\tINITED cov: 10 ft: 20 corp: 3/61b exec/s: 0 rss: 30Mb\n\
        #131072\tpulse  cov: 812 ft: 3301 corp: 400/61Kb lim: 4096 exec/s: 43690 rss: 80Mb\n\
        #200000\tDONE   cov: 813 ft: 3303 corp: 401/61Kb lim: 4096 exec/s: 43690 rss: 80Mb\n\
        Done 200000 runs in 4 second(s)\nstat::number_of_executed_units: 200000\n";

    #[test]
    fn the_last_statistics_count() {
        let row = read_row("t", SAID, Duration::from_secs(4), None).unwrap();
        assert_eq!((row.executions, row.edges, row.features, row.kept), (200_000, 813, 3303, 401));
        assert_eq!(read_row("t", "Segmentation fault", Duration::ZERO, None), None);
        let args = FuzzArgs { executions: 200_000, target: Vec::new(), seed: 1, no_write: true };
        let crashed = Row { crash: Some("x".into()), ..read_row("u", SAID, Duration::from_secs(4), None).unwrap() };
        let text = page(&args, &[row, crashed]);
        assert!(text.contains("400000 inputs, 1 crashes"), "{text}");
        assert!(text.contains("| `t` | 200000 | 50000 | 813 | 3303 | 401 | 0 |\n| `u` "), "{text}");
    }

    #[test]
    fn the_targets_of_this_repository_are_found() {
        let names = target_names(&crate::root().unwrap().join("fuzz")).unwrap();
        assert!(names.contains(&"h1_response".to_string()), "{names:?}");
    }
}
