//! `cargo xtask bench limit`: the search for the limit and the comparison on a real lab, where nobody knows the truth.
//!
//! The same limit is searched again and again: do the intervals overlap, how far do the estimates spread? And a change of known size
//! is planted by the CPU quota of the load balancer, which is the bottleneck of that lab: is it found, with the right size, and
//! never when it is 0? Invariant: every figure is what the real `prony` said, as a user would call it.

use super::{holds, load_average, machine, median, write_section};
use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lab that is searched: its proxy is out of CPU.
const LAB: &str = "proxy";
/// The lab whose proxy has a quota already, and is held by it: a smaller one takes its share and adds no cost of its own.
const PLANTED_LAB: &str = "proxy-cpu-quota";
/// The host that is slowed.
const HOST: &str = "lb";
/// CPUs that it may use there, by the lab's file.
const QUOTA: f64 = 0.40;
/// Shares of the quota that are taken away; 0 takes 10 us in a second, because a knob refuses the value that it has.
const PLANTED: [f64; 3] = [0.0, 0.05, 0.10];
/// Largest spread of the estimates.
const SPREAD_MAX: f64 = 0.03;

/// How often.
#[derive(clap::Args, Clone, Debug)]
pub struct LimitBenchArgs {
    /// Searches for the limit, three minutes each; 0 leaves their table as it is
    #[arg(long, default_value_t = 10)]
    pub searches: u32,
    /// Comparisons for each planted change; 0 leaves their table as it is
    #[arg(long, default_value_t = 10)]
    pub planted: u32,
    /// Print the tables only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// Measures, prints the tables, and writes them.
pub fn run(root: &Path, args: &LimitBenchArgs) -> anyhow::Result<()> {
    let prony = super::target(root).join("release/prony");
    ensure!(prony.is_file(), "{} is not there: `cargo build --release -p prony` makes it", prony.display());
    let busy_before = load_average();
    let searches = (1..=args.searches)
        .map(|n| {
            let found = Searched::of(&call(&prony, &["limit", LAB])?)?;
            eprintln!("search {n} of {}: {:.0}/s, {:.0}/s", args.searches, found.saturation[1], found.within[1]);
            Ok(found)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut planted: Vec<(f64, Vec<Compared>)> = PLANTED.iter().map(|share| (*share, Vec::new())).collect();
    for n in 1..=args.planted {
        for (share, compared) in &mut planted {
            let found = compare(&prony, *share)?;
            eprintln!("planted {:.0} %, {n} of {}: {:+.1} %", *share * 100.0, args.planted, found.change * 100.0);
            compared.push(found);
        }
    }
    let conditions = format!("on {}, load average {busy_before} before and {} after", machine(), load_average());
    let of_searches = (args.searches > 0).then(|| ("limit", searched(&searches, &conditions)));
    let of_planted = (args.planted > 0).then(|| ("planted", found_again(&planted, args.planted, &conditions)));
    for (section, text) in of_searches.into_iter().chain(of_planted) {
        println!("{text}");
        if !args.no_write {
            write_section(root, section, &text)?;
        }
    }
    Ok(())
}

fn call(prony: &PathBuf, words: &[&str]) -> anyhow::Result<Value> {
    let output = Command::new(prony).args(words).args(["--json", "--quiet"]).output().context("cannot start prony")?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "{}: {} and no JSON: {}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })
}

fn number(value: &Value, path: &str) -> anyhow::Result<f64> {
    value.pointer(path).and_then(Value::as_f64).with_context(|| format!("prony told no {path}"))
}

/// What one search found: lower end, estimate and upper end of both answers, per second.
struct Searched {
    saturation: [f64; 3],
    within: [f64; 3],
    trials: f64,
    seconds: f64,
}

impl Searched {
    fn of(found: &Value) -> anyhow::Result<Self> {
        let ends = |answer: &str| -> anyhow::Result<[f64; 3]> {
            let end = |name: &str| number(found, &format!("/{answer}/{name}_per_s"));
            Ok([end("low")?, end("estimate")?, end("high")?])
        };
        Ok(Self {
            saturation: ends("saturation")?,
            within: ends("within_slo")?,
            trials: number(found, "/trials")?,
            seconds: number(found, "/spent_s")?,
        })
    }
}

/// What one comparison found, of throughput.
struct Compared {
    change: f64,
    low: f64,
    high: f64,
}

impl Compared {
    /// From the first answer of `prony compare --json`.
    fn of(found: &Value) -> anyhow::Result<Self> {
        let metrics =
            found.pointer("/answers/0/metrics").and_then(Value::as_array).context("prony compared nothing")?;
        let of_rps = metrics.iter().find(|m| m["metric"] == "rps").context("prony did not compare throughput")?;
        Ok(Self {
            change: number(of_rps, "/change")?,
            low: number(of_rps, "/interval/low")?,
            high: number(of_rps, "/interval/high")?,
        })
    }

    fn found(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    fn holds(&self, change: f64) -> bool {
        self.low <= change && change <= self.high
    }
}

fn compare(prony: &PathBuf, share: f64) -> anyhow::Result<Compared> {
    let knob = format!("{HOST}:cgroup.cpu_quota={:.5}", QUOTA * (1.0 - share.max(2.5e-5)));
    Compared::of(&call(prony, &["compare", "--live", PLANTED_LAB, "--knob", &knob])?)
}

fn searched(searches: &[Searched], conditions: &str) -> String {
    let middle = |of: fn(&Searched) -> f64| median(&searches.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
    let mut text = format!(
        "## The limit of a real lab, searched again and again\n\n`cargo xtask bench limit --searches {} --planted 0` {conditions}. Lab `{LAB}`: nginx in \
         front of two nginx, the proxy out of CPU.\n\n| `prony limit {LAB}` | searches | estimates, least to most | spread (standard deviation / mean) | \
         intervals overlap | median width | bar | holds |\n|---|--:|--:|--:|---|--:|---|---|\n",
        searches.len()
    );
    text += &answers("limit", searches, |s| s.saturation);
    text += &answers("limit within p99 of 20 ms", searches, |s| s.within);
    text += &format!("\nMedian of trials in all: {:.0}, in {:.0} s.\n", middle(|s| s.trials), middle(|s| s.seconds));
    text
}

fn found_again(planted: &[(f64, Vec<Compared>)], times: u32, conditions: &str) -> String {
    let mut text = format!(
        "## Changes of known size on a real lab\n\n`cargo xtask bench limit --searches 0 --planted {times}` {conditions}. `cgroup.cpu_quota` of {HOST} in \
         lab `{PLANTED_LAB}`, which holds it at {QUOTA:.2} CPUs, less the planted share. `prony compare --live`, 10 pairs each.\n\n\
         | planted | comparisons | found | interval holds the planted change | changes, least to most | bar | holds |\n\
         |--:|--:|--:|--:|--:|---|---|\n"
    );
    text.extend(planted.iter().map(|(share, compared)| changes(*share, compared)));
    text
}

fn answers(name: &str, searches: &[Searched], of: fn(&Searched) -> [f64; 3]) -> String {
    let all: Vec<[f64; 3]> = searches.iter().map(of).collect();
    let (least, most) = ends(all.iter().map(|a| a[1]));
    let mean = all.iter().map(|a| a[1]).sum::<f64>() / all.len() as f64;
    let squares: f64 = all.iter().map(|a| (a[1] - mean).powi(2)).sum();
    let spread = (squares / (all.len().max(2) - 1) as f64).sqrt() / mean;
    let pairs = |i: usize| all[i + 1..].iter().map(move |b| (i, b));
    let apart = (0..all.len()).flat_map(pairs).filter(|(i, b)| all[*i][0] > b[2] || b[0] > all[*i][2]).count();
    let of_pairs = all.len() * all.len().saturating_sub(1) / 2;
    let overlap = if apart == 0 { "all".to_string() } else { format!("{} of {of_pairs} pairs", of_pairs - apart) };
    let width = median(&all.iter().map(|a| (a[2] - a[0]) / a[1]).collect::<Vec<_>>()).unwrap_or(0.0);
    format!(
        "| {name} | {} | {least:.0} to {most:.0}/s | {:.1} % | {overlap} | {:.1} % | spread at most {:.0} %, all overlap | {} |\n",
        all.len(),
        spread * 100.0,
        width * 100.0,
        SPREAD_MAX * 100.0,
        holds(spread <= SPREAD_MAX && apart == 0)
    )
}

fn changes(share: f64, compared: &[Compared]) -> String {
    let found = compared.iter().filter(|c| c.found()).count();
    let right = compared.iter().filter(|c| c.holds(-share)).count();
    let (least, most) = ends(compared.iter().map(|c| c.change * 100.0));
    let (n, most_of) = (compared.len(), (compared.len() * 9).div_ceil(10));
    let (bar, held) = if share > 0.0 {
        (format!("found, and right, in {most_of} of {n}"), found >= most_of && right >= most_of)
    } else {
        ("never found".to_string(), found == 0)
    };
    format!(
        "| {:.0} % | {n} | {found} | {right} | {least:+.1} to {most:+.1} % | {bar} | {} |\n",
        share * 100.0,
        holds(held)
    )
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_prony_says() {
        let limit = serde_json::json!({
            "saturation": { "low_per_s": 990.0, "estimate_per_s": 1000.0, "high_per_s": 1010.0 },
            "within_slo": { "low_per_s": 880.0, "estimate_per_s": 900.0, "high_per_s": 920.0 },
            "trials": 30, "spent_s": 151.0
        });
        let found = Searched::of(&limit).unwrap();
        assert_eq!((found.saturation, found.within[2], found.trials), ([990.0, 1000.0, 1010.0], 920.0, 30.0));
        assert!(Searched::of(&serde_json::json!({})).err().unwrap().to_string().contains("/saturation/low_per_s"));
        let interval = serde_json::json!({ "low": -0.06, "high": -0.04 });
        let metric = serde_json::json!({ "metric": "rps", "change": -0.05, "interval": interval });
        let found = Compared::of(&serde_json::json!({ "answers": [{ "metrics": [metric] }] })).unwrap();
        assert!(found.found() && found.holds(-0.05) && !found.holds(-0.10));
    }

    #[test]
    fn intervals_that_do_not_overlap_are_counted() {
        let at = |middle: f64| {
            let answer = [middle - 10.0, middle, middle + 10.0];
            Searched { saturation: answer, within: answer, trials: 30.0, seconds: 150.0 }
        };
        let line = answers("limit", &[at(1000.0), at(1005.0)], |s| s.saturation);
        assert!(line.contains("| all |") && line.ends_with("| yes |\n"), "{line}");
        let line = answers("limit", &[at(1000.0), at(1005.0), at(1023.0)], |s| s.saturation);
        assert!(line.contains("2 of 3 pairs") && line.ends_with("| **no** |\n"), "{line}");
    }

    #[test]
    fn the_quota_is_that_of_the_lab() {
        let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../labs").join(PLANTED_LAB).with_extension("toml");
        let set = format!("cpu_quota = \"{:.0}%\"", QUOTA * 100.0);
        assert!(std::fs::read_to_string(lab).unwrap().contains(&set));
    }

    #[test]
    fn nothing_planted_must_not_be_found() {
        let of = |change: f64, half: f64| Compared { change, low: change - half, high: change + half };
        assert!(changes(0.0, &[of(0.001, 0.01), of(0.02, 0.01)]).ends_with("never found | **no** |\n"));
        assert!(changes(0.05, &[of(-0.05, 0.01)]).ends_with("| yes |\n"));
        assert!(changes(0.10, &[of(-0.05, 0.01); 1]).contains("| 1 | 1 | 0 |"));
    }
}
