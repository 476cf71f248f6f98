//! `cargo xtask bench labs`: is each lab that comes with prony diagnosed as what it is?
//!
//! Each lab is diagnosed by the real `prony`, as a user would call it, one at a time. One more row loads the healthy lab at
//! half of what it carries, where nothing limits. Invariant: a diagnosis that failed counts as not right.

use super::{load_average, machine, median, write_section};
use anyhow::{Context as _, bail, ensure};
use prony_lab::Expected;
use prony_model::Level;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The healthy lab.
const HEALTHY: &str = "proxy";
/// The row of the healthy lab with room left.
const HALF_LOAD: &str = "proxy at half load";
/// What that row must be diagnosed as.
const NOTHING: Expected = Expected { causes: &["none"], hops: &[] };

/// What to diagnose, and how often.
#[derive(clap::Args, Clone, Debug)]
pub struct LabsArgs {
    /// How often each lab is diagnosed
    #[arg(long, default_value_t = 3)]
    pub repeat: u32,
    /// Only rows whose name holds this text; the page is left alone then
    #[arg(long)]
    pub only: Option<String>,
    /// Print the table only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// Diagnoses, prints the table, and writes it.
pub fn run(root: &Path, args: &LabsArgs) -> anyhow::Result<()> {
    ensure!(args.repeat > 0, "repeat must be 1 or more");
    let mut bench = Bench::new(root)?;
    let busy_before = load_average();
    let mut rows = Vec::new();
    for name in prony_lab::builtin_names() {
        let expected = prony_lab::expected(name).with_context(|| format!("what {name} should be is not known"))?;
        rows.push(Row::new(name, expected));
        if name == HEALTHY {
            rows.push(Row::new(HALF_LOAD, NOTHING));
        }
    }
    rows.retain(|row| args.only.as_ref().is_none_or(|text| row.name.contains(text.as_str())));
    ensure!(!rows.is_empty(), "no lab has that name; the labs are: {}", prony_lab::builtin_names().join(", "));
    for row in &mut rows {
        for repeat in 1..=args.repeat {
            let given = bench.diagnose(row);
            eprintln!("{} ({repeat} of {}): {}", row.name, args.repeat, given.line());
            row.given.push(given);
        }
    }
    let text = page(args, &rows, &busy_before);
    println!("{text}");
    if !args.no_write && args.only.is_none() {
        write_section(root, "labs", &text)?;
    }
    Ok(())
}

/// One line of the table.
struct Row {
    name: &'static str,
    expected: Expected,
    given: Vec<Given>,
}

/// What one diagnosis gave; the verdict, or why there is none.
struct Given {
    verdict: Result<Verdict, String>,
    seconds: f64,
}

struct Verdict {
    cause: String,
    hop: String,
    grounded: bool,
}

impl Given {
    fn line(&self) -> String {
        match &self.verdict {
            Ok(verdict) if verdict.hop.is_empty() => verdict.cause.clone(),
            Ok(verdict) => format!("{} at {}", verdict.cause, verdict.hop),
            Err(reason) => format!("failed: {reason}"),
        }
    }

    fn is_right(&self, expected: &Expected) -> bool {
        self.verdict.as_ref().is_ok_and(|verdict| {
            // A verdict that nothing limits has no host.
            let hop_right = expected.hops.is_empty() || expected.hops.contains(&verdict.hop.as_str());
            expected.causes.contains(&verdict.cause.as_str()) && hop_right
        })
    }
}

impl Row {
    fn new(name: &'static str, expected: Expected) -> Self {
        Self { name, expected, given: Vec::new() }
    }

    fn right(&self) -> usize {
        self.given.iter().filter(|given| given.is_right(&self.expected)).count()
    }

    fn grounded(&self) -> usize {
        self.given.iter().filter(|given| given.verdict.as_ref().is_ok_and(|v| v.grounded)).count()
    }

    /// The wrong verdicts, each with how often it was given.
    fn wrong(&self) -> String {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for given in self.given.iter().filter(|given| !given.is_right(&self.expected)) {
            *counts.entry(given.line()).or_default() += 1;
        }
        counts.iter().map(|(line, count)| format!("{count} x {line}")).collect::<Vec<_>>().join("; ")
    }
}

/// What all labs are diagnosed with.
struct Bench {
    prony: PathBuf,
    record: PathBuf,
    /// What the healthy lab carried in its first run.
    healthy_per_s: Option<f64>,
}

impl Bench {
    fn new(root: &Path) -> anyhow::Result<Self> {
        let prony = super::target(root).join("release/prony");
        ensure!(prony.is_file(), "{} is not there: `cargo build --release -p prony` makes it", prony.display());
        let folder = super::target(root).join("bench");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { prony, record: folder.join("lab.prony"), healthy_per_s: None })
    }

    fn diagnose(&mut self, row: &Row) -> Given {
        let half_load = row.name == HALF_LOAD;
        if half_load && self.healthy_per_s.is_none() {
            // Left out by `--only`, or failed: its failure then shows in the row, as a rate that is not known.
            self.call(HEALTHY, None).inspect_err(|e| eprintln!("{HEALTHY}: {e:#}")).ok();
        }
        let begun = Instant::now();
        let verdict = match (half_load, self.healthy_per_s) {
            (false, _) => self.call(row.name, None),
            (true, Some(per_s)) => self.call(HEALTHY, Some(per_s / 2.0)),
            (true, None) => Err(anyhow::anyhow!("what the healthy lab carries is not known")),
        };
        Given { verdict: verdict.map_err(|e| format!("{e:#}")), seconds: begun.elapsed().as_secs_f64() }
    }

    fn call(&mut self, lab: &str, rate: Option<f64>) -> anyhow::Result<Verdict> {
        // prony never writes over a record.
        match std::fs::remove_file(&self.record) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => bail!("cannot remove {}: {e}", self.record.display()),
            Ok(()) | Err(_) => {}
        }
        let mut prony = Command::new(&self.prony);
        prony.args(["diagnose", lab, "--json", "--quiet", "--record"]).arg(&self.record);
        if let Some(rate) = rate {
            prony.args(["-R", &format!("{rate:.0}")]);
        }
        let output = prony.output().context("cannot start prony")?;
        let object: Value = serde_json::from_slice(&output.stdout).with_context(|| {
            format!("{} and no JSON: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
        })?;
        if lab == HEALTHY && self.healthy_per_s.is_none() {
            let run = prony_record::read(&self.record)?;
            self.healthy_per_s = run.level(Level::At).map(|trial| trial.result.good_per_s);
        }
        let verdict = &object["verdict"];
        Ok(Verdict {
            cause: verdict["cause"].as_str().context("the diagnosis has no verdict.cause")?.to_string(),
            hop: verdict["hop"].as_str().unwrap_or_default().to_string(),
            grounded: verdict["grounded"].as_bool().unwrap_or_default(),
        })
    }
}

fn page(args: &LabsArgs, rows: &[Row], busy_before: &str) -> String {
    let mut text = String::from("## Labs diagnosed as what they are\n\n");
    text += &format!(
        "`cargo xtask bench labs --repeat {}` on {}, load average {busy_before} before and {} after. Each lab is brought up, diagnosed \
         (`prony diagnose NAME --json`) and taken down; right means that cause and host are. `{HALF_LOAD}` is the healthy lab in open \
         loop at half of what it carried in its first run. Grounded: structure, deviation, order in time and the response to an \
         intervention agree.\n\n",
        args.repeat,
        machine(),
        load_average(),
    );
    text += "| lab | expected | right | grounded | seconds, median | what was wrong |\n|---|---|--:|--:|--:|---|\n";
    let (mut right, mut grounded, mut all) = (0, 0, 0);
    for row in rows {
        let causes = row.expected.causes.join(" or ");
        let hops = row.expected.hops.join(" or ");
        let expected = if hops.is_empty() { causes } else { format!("{causes} at {hops}") };
        let seconds: Vec<f64> = row.given.iter().map(|given| given.seconds).collect();
        let count = row.given.len();
        text += &format!(
            "| {} | {expected} | {} of {count} | {} of {count} | {:.0} | {} |\n",
            row.name,
            row.right(),
            row.grounded(),
            median(&seconds).unwrap_or(f64::NAN),
            row.wrong().replace('|', "/").replace('\n', " "),
        );
        right += row.right();
        grounded += row.grounded();
        all += count;
    }
    text + &format!("| total | | {right} of {all} | {grounded} of {all} | | |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(cause: &str, hop: &str) -> Given {
        Given { verdict: Ok(Verdict { cause: cause.into(), hop: hop.into(), grounded: hop == "lb" }), seconds: 2.0 }
    }

    #[test]
    fn cause_and_host_must_both_be_right() {
        let expected = Expected { causes: &["packet-loss"], hops: &["s1", "lb"] };
        assert!(given("packet-loss", "s1").is_right(&expected));
        assert!(!given("packet-loss", "s2").is_right(&expected));
        assert!(!given("none", "").is_right(&expected));
        assert!(given("none", "").is_right(&NOTHING));
        assert!(!Given { verdict: Err("no lab".into()), seconds: 0.0 }.is_right(&NOTHING));
    }

    #[test]
    fn a_row_tells_what_was_wrong() {
        let mut row = Row::new("proxy-packet-loss", Expected { causes: &["packet-loss"], hops: &["s1", "lb"] });
        row.given = vec![given("packet-loss", "lb"), given("none", ""), given("none", "")];
        let args = LabsArgs { repeat: 3, only: None, no_write: true };
        let text = page(&args, &[row], "0.1");
        let line = text.lines().find(|line| line.starts_with("| proxy-packet-loss")).unwrap();
        assert_eq!(line, "| proxy-packet-loss | packet-loss at s1 or lb | 1 of 3 | 1 of 3 | 2 | 2 x none |");
        assert!(text.ends_with("| total | | 1 of 3 | 1 of 3 | | |\n"));
    }
}
