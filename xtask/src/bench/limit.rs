//! `cargo xtask bench limit`: the search for the limit and the comparison on real labs.
//!
//! The same limit is searched again and again: do the intervals overlap, how far do the estimates spread? And a change of known size
//! is planted at the bottleneck: is it found, with the right size, and never when it is 0? Both are asked of a lab that a CPU holds,
//! whose limit is as steady as the machine, and of one that a clock holds (a token bucket), whose limit is the same every minute. How
//! steady the machine was stands beside them: before and after each search the same lab is loaded plainly, and no search can agree with
//! another better than the lab does with itself. Invariant: every figure is what the real `prony` said, as a user would call it.

use super::{holds, load_average, machine, median, sys, write_section};
use anyhow::{Context as _, ensure};
use prony_stats::Random;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The host whose resource holds the lab; it is slowed.
const HOST: &str = "lb";
/// Shares of the resource that are taken away.
const PLANTED: [f64; 3] = [0.0, 0.05, 0.10];
/// What stands for taking nothing, because a knob refuses the value that it has: 10 us in a second, or 500 bit.
const NOTHING: f64 = 2.5e-5;
/// How well the size of a planted change is known: a bucket of another depth lets a trial of seconds have 0.04 % more. A guess.
const KNOWN_TO: f64 = 0.005;
/// The change that a comparison is asked not to miss: one of 5 % is then found in nearly all attempts, and not only in 8 of 10.
const DETECT: &str = "3%";
/// What it may take for that. A guess.
const BUDGET: &str = "4m";
/// Largest spread of the estimates.
const SPREAD_MAX: f64 = 0.03;
/// How long a lab is loaded plainly between two searches: about as long as a search stays at the load that it names. A guess.
const PLAIN: &str = "30s";
/// Numbers of the piece of work that shows how fast the machine is. Sorting them touches memory and guesses branches, as servers do:
/// neighbours on the same processor slow that down, and not bare arithmetic. A guess: a tenth of a second, 16 MiB.
const YARDSTICK_NUMBERS: usize = 2 << 20;

/// What holds a lab.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// CPU time: the limit is as steady as the machine
    Cpu,
    /// A token bucket: the limit is the same every minute
    Clock,
}

impl Holder {
    /// The lab that is searched.
    fn searched(self) -> (&'static str, &'static str) {
        match self {
            Self::Cpu => ("proxy", "nginx in front of two nginx, the proxy out of CPU"),
            Self::Clock => ("proxy-link-rate", "nginx in front of two nginx, 20 Mbit/s from the proxy"),
        }
    }

    /// The lab in which changes are planted. One with a quota already: a smaller one takes its share and adds no cost of its own.
    fn planted(self) -> &'static str {
        match self {
            Self::Cpu => "proxy-cpu-quota",
            Self::Clock => "proxy-link-rate",
        }
    }

    /// What the lab's file gives the host: a share of a CPU, or Mbit/s.
    fn given(self) -> f64 {
        match self {
            Self::Cpu => 0.40,
            Self::Clock => 20.0,
        }
    }

    /// What of the command line takes this share away.
    fn words(self, share: f64) -> Vec<String> {
        let left = self.given() * (1.0 - share.max(NOTHING));
        let words = match self {
            Self::Cpu => vec!["--knob".to_string(), format!("{HOST}:cgroup.cpu_quota={left:.5}")],
            // So few connections that no packet is dropped, however deep the bucket's queue is.
            Self::Clock => {
                ["-c", "16", "--knob", &format!("{HOST}:link_rate.eth0={left:.4}mbit")].map(String::from).to_vec()
            }
        };
        let compare = ["compare", "--live", self.planted(), "--detect", DETECT, "--budget", BUDGET].map(String::from);
        [compare.to_vec(), words].concat()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Clock => "clock",
        }
    }
}

/// How often.
#[derive(clap::Args, Clone, Debug)]
pub struct LimitBenchArgs {
    /// Searches for the limit, three minutes each and a plain load of half a minute; 0 leaves their table as it is
    #[arg(long, default_value_t = 10)]
    pub searches: u32,
    /// Comparisons for each planted change, one to four minutes each; 0 leaves their table as it is
    #[arg(long, default_value_t = 10)]
    pub planted: u32,
    /// What holds the lab
    #[arg(long, value_enum, default_values = ["cpu", "clock"])]
    pub held_by: Vec<Holder>,
    /// Print the tables only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// Measures, prints the tables, and writes each as soon as it is whole.
pub fn run(root: &Path, args: &LimitBenchArgs) -> anyhow::Result<()> {
    let prony = super::target(root).join("release/prony");
    ensure!(prony.is_file(), "{} is not there: `cargo build --release -p prony` makes it", prony.display());
    for holder in &args.held_by {
        let of_searches = (args.searches > 0).then(|| ("limit", search_again(&prony, *holder, args.searches)));
        if let Some((section, text)) = of_searches {
            show(root, args, &format!("{section}-{}", holder.name()), &text?)?;
        }
        if args.planted > 0 {
            let text = plant(&prony, *holder, args.planted)?;
            show(root, args, &format!("planted-{}", holder.name()), &text)?;
        }
    }
    Ok(())
}

fn show(root: &Path, args: &LimitBenchArgs, section: &str, text: &str) -> anyhow::Result<()> {
    println!("{text}");
    if args.no_write { Ok(()) } else { write_section(root, section, text) }
}

fn search_again(prony: &PathBuf, holder: Holder, times: u32) -> anyhow::Result<String> {
    let (lab, _) = holder.searched();
    let (mut machine, mut searches) = (Machine::begin()?, Vec::new());
    let mut plain = vec![load_plainly(prony, lab)?];
    for n in 1..=times {
        let found = Searched::of(&call(prony, &["limit", lab])?);
        match &found {
            Ok(s) => {
                let said = |ends: Option<[f64; 3]>| ends.map_or("no answer".to_string(), |e| format!("{:.0}/s", e[1]));
                eprintln!("search {n} of {times}: {}, {}", said(s.saturation), said(s.within));
            }
            Err(why) => eprintln!("search {n} of {times}: {why}"),
        }
        searches.push(found);
        plain.push(load_plainly(prony, lab)?);
        eprintln!("loaded plainly: {:.0}/s", plain[plain.len() - 1]);
        machine.measure()?;
    }
    Ok(searched(&searches, &plain, holder, &machine))
}

/// What the lab, brought up anew as for a search, carries of its own workload; answers per second.
fn load_plainly(prony: &PathBuf, lab: &str) -> anyhow::Result<f64> {
    let up = Command::new(prony).args(["lab", "up", lab]).output().context("cannot start prony")?;
    let stack = String::from_utf8_lossy(&up.stdout).lines().last().unwrap_or_default().to_string();
    ensure!(up.status.success(), "lab up {lab}: {}: {}", up.status, String::from_utf8_lossy(&up.stderr).trim());
    let found = call(prony, &["load", &stack, "-d", PLAIN]);
    let id = Path::new(&stack).parent().and_then(Path::file_name).with_context(|| format!("{stack}: no lab's file"))?;
    Command::new(prony).args(["lab", "down"]).arg(id).output().context("cannot start prony")?;
    number(&found?, "/result/good_per_s")
}

fn plant(prony: &PathBuf, holder: Holder, times: u32) -> anyhow::Result<String> {
    let mut machine = Machine::begin()?;
    let mut planted: Vec<(f64, Vec<Compared>)> = PLANTED.iter().map(|share| (*share, Vec::new())).collect();
    for n in 1..=times {
        for (share, compared) in &mut planted {
            let words = holder.words(*share);
            let found = Compared::of(&call(prony, &words.iter().map(String::as_str).collect::<Vec<_>>())?)?;
            eprintln!("planted {:.0} %, {n} of {times}: {:+.1} %", *share * 100.0, found.change * 100.0);
            compared.push(found);
        }
        machine.measure()?;
    }
    Ok(found_again(&planted, holder, times, &machine))
}

/// How steady the machine was meanwhile.
struct Machine {
    busy_before: String,
    /// CPU time of the same piece of work, before, between and after.
    work: Vec<Duration>,
}

impl Machine {
    fn begin() -> anyhow::Result<Self> {
        let mut machine = Self { busy_before: load_average(), work: Vec::new() };
        machine.measure()?;
        Ok(machine)
    }

    fn measure(&mut self) -> anyhow::Result<()> {
        let begun = sys::thread_cpu_time().context("cannot read the thread's CPU time")?;
        let mut random = Random::new(1);
        let mut numbers: Vec<u64> = std::iter::repeat_with(|| random.next_u64()).take(YARDSTICK_NUMBERS).collect();
        numbers.sort_unstable();
        std::hint::black_box(numbers);
        self.work.push(sys::thread_cpu_time()?.saturating_sub(begun));
        Ok(())
    }

    fn conditions(&self) -> String {
        let (least, most) = ends(self.work.iter().map(|work| work.as_secs_f64() * 1e3));
        format!(
            "on {}, load average {} before and {} after. Between them the same piece of work took {least:.0} to {most:.0} ms of CPU time: by \
             so much the machine's own speed moved",
            machine(),
            self.busy_before,
            load_average()
        )
    }
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

/// What one search found: lower end, estimate and upper end of its answers, per second.
struct Searched {
    saturation: Option<[f64; 3]>,
    within: Option<[f64; 3]>,
    /// Saturation at one speed of the machine, where that moved.
    at_one_speed: Option<AtOneSpeed>,
    trials: f64,
    seconds: f64,
}

/// Saturation without what the machine's own speed did during one search.
#[derive(Clone, Copy)]
struct AtOneSpeed {
    ends: [f64; 3],
    /// What a piece of the yardstick's work took, and what throughput does with its logarithm.
    piece_us: f64,
    slope: f64,
}

impl AtOneSpeed {
    /// What the search would have found where a piece takes `piece_us`, with the slope of all searches.
    fn moved_to(self, piece_us: f64, slope: f64) -> [f64; 3] {
        self.ends.map(|rate| rate * (piece_us / self.piece_us).powf(slope))
    }
}

impl Searched {
    fn of(found: &Value) -> anyhow::Result<Self> {
        let ends = |answer: &str| -> anyhow::Result<[f64; 3]> {
            let end = |name: &str| number(found, &format!("/{answer}/{name}_per_s"));
            Ok([end("low")?, end("estimate")?, end("high")?])
        };
        let one = |name: &str| number(found, &format!("/at_one_speed/{name}"));
        let at_one_speed = ends("at_one_speed")
            .and_then(|ends| Ok(AtOneSpeed { ends, piece_us: one("piece_us")?, slope: one("slope")? }));
        Ok(Self {
            saturation: ends("saturation").ok(),
            within: ends("within_slo").ok(),
            at_one_speed: at_one_speed.ok(),
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
    pairs: f64,
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
            pairs: number(of_rps, "/trials_b")?,
        })
    }

    fn found(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    fn is_right(&self, change: f64) -> bool {
        (self.low <= change && change <= self.high) || (self.change - change).abs() <= KNOWN_TO
    }
}

fn searched(searches: &[anyhow::Result<Searched>], plain: &[f64], holder: Holder, machine: &Machine) -> String {
    let found: Vec<&Searched> = searches.iter().flatten().collect();
    let middle = |of: fn(&Searched) -> f64| median(&found.iter().map(|s| of(s)).collect::<Vec<_>>()).unwrap_or(0.0);
    let (lab, what) = holder.searched();
    let (times, name) = (searches.len(), holder.name());
    let mut text = format!(
        "## The limit of a real lab that the {name} holds, searched again and again\n\n`cargo xtask bench limit --held-by {name} --searches {times} --planted 0` \
         {}. Lab `{lab}`: {what}. No answer: prony said that too many trials were not steady.\n\n| `prony limit {lab}` | searches | no answer | estimates, \
         least to most | spread (standard deviation / mean) | intervals overlap | median width | bar | holds |\n\
         |---|--:|--:|--:|--:|---|--:|---|---|\n",
        machine.conditions()
    );
    let of_all = |of: fn(&Searched) -> Option<[f64; 3]>| found.iter().filter_map(|s| of(s)).collect::<Vec<_>>();
    text += &answers("limit", times, &of_all(|s| s.saturation));
    let one: Vec<AtOneSpeed> = found.iter().filter_map(|s| s.at_one_speed).collect();
    let of_one = |of: fn(&AtOneSpeed) -> f64| median(&one.iter().map(of).collect::<Vec<_>>());
    if let (Some(piece_us), Some(slope)) = (of_one(|o| o.piece_us), of_one(|o| o.slope)) {
        let moved: Vec<[f64; 3]> = one.iter().map(|o| o.moved_to(piece_us, slope)).collect();
        text += &answers(&format!("limit, where a piece of the yardstick takes {piece_us:.1} us"), times, &moved);
    }
    text += &answers("limit within p99 of 20 ms", times, &of_all(|s| s.within));
    text += &plainly(plain);
    text += &format!("\nMedian of trials in all: {:.0}, in {:.0} s.", middle(|s| s.trials), middle(|s| s.seconds));
    if !one.is_empty() {
        text += " The line of the yardstick: what each search says of the limit at one speed of the machine, moved to the speed of the median search by the \
                 median of the slopes that the searches found among their own trials.";
    }
    text + "\n"
}

/// The line of the plain loads. They are no search, and have no bar: their spread is what the machine does.
fn plainly(plain: &[f64]) -> String {
    let (least, most) = ends(plain.iter().copied());
    format!(
        "| no search: the workload as written for {PLAIN}, before and after each | {} |  | {least:.0} to {most:.0}/s | {:.1} % |  |  |  |  |\n",
        plain.len(),
        spread(plain) * 100.0
    )
}

/// Standard deviation / mean.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len().max(2) - 1) as f64).sqrt() / mean
}

fn found_again(planted: &[(f64, Vec<Compared>)], holder: Holder, times: u32, machine: &Machine) -> String {
    let (name, held) = (
        holder.name(),
        match holder {
            Holder::Cpu => format!("`cgroup.cpu_quota` of {HOST}, which holds it at {:.2} CPUs", holder.given()),
            Holder::Clock => format!("`link_rate.eth0` of {HOST}, which holds it at {:.0} Mbit/s", holder.given()),
        },
    );
    let all: Vec<f64> = planted.iter().flat_map(|(_, compared)| compared.iter().map(|c| c.pairs)).collect();
    let pairs = median(&all).unwrap_or(0.0);
    let mut text = format!(
        "## Changes of known size on a real lab that the {name} holds\n\n`cargo xtask bench limit --held-by {name} --searches 0 --planted {times}` \
         {}. Lab `{}`: {held}, less the planted share. `prony compare --live --detect {DETECT}`: in the median {pairs:.0} pairs of 1 s. Right: the interval holds the planted change, or the \
         change is within half a point of it.\n\n\
         | planted | comparisons | found | right | changes, least to most | bar | holds |\n\
         |--:|--:|--:|--:|--:|---|---|\n",
        machine.conditions(),
        holder.planted()
    );
    text.extend(planted.iter().map(|(share, compared)| changes(*share, compared)));
    text
}

fn answers(name: &str, times: usize, all: &[[f64; 3]]) -> String {
    if all.is_empty() {
        return format!("| {name} | {times} | {times} |  |  |  |  |  | **no** |\n");
    }
    let (least, most) = ends(all.iter().map(|a| a[1]));
    let spread = spread(&all.iter().map(|a| a[1]).collect::<Vec<_>>());
    let pairs = |i: usize| all[i + 1..].iter().map(move |b| (i, b));
    let apart = (0..all.len()).flat_map(pairs).filter(|(i, b)| all[*i][0] > b[2] || b[0] > all[*i][2]).count();
    let of_pairs = all.len() * all.len().saturating_sub(1) / 2;
    let overlap = if apart == 0 { "all".to_string() } else { format!("{} of {of_pairs} pairs", of_pairs - apart) };
    let width = median(&all.iter().map(|a| (a[2] - a[0]) / a[1]).collect::<Vec<_>>()).unwrap_or(0.0);
    format!(
        "| {name} | {times} | {} | {least:.0} to {most:.0}/s | {:.1} % | {overlap} | {:.1} % | spread at most {:.0} %, all overlap | {} |\n",
        times - all.len(),
        spread * 100.0,
        width * 100.0,
        SPREAD_MAX * 100.0,
        holds(spread <= SPREAD_MAX && apart == 0 && all.len() == times)
    )
}

fn changes(share: f64, compared: &[Compared]) -> String {
    let found = compared.iter().filter(|c| c.found()).count();
    let right = compared.iter().filter(|c| c.is_right(-share)).count();
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
        assert_eq!((found.saturation, found.trials), (Some([990.0, 1000.0, 1010.0]), 30.0));
        assert_eq!(found.within, Some([880.0, 900.0, 920.0]));
        let half = serde_json::json!({ "saturation": limit["saturation"], "trials": 30, "spent_s": 151.0 });
        let found = Searched::of(&half).unwrap();
        assert!(found.saturation.is_some() && found.within.is_none(), "one answer is lost, and not both");
        assert!(Searched::of(&serde_json::json!({})).err().unwrap().to_string().contains("/trials"));
        let interval = serde_json::json!({ "low": -0.06, "high": -0.04 });
        let metric = serde_json::json!({ "metric": "rps", "change": -0.05, "interval": interval, "trials_b": 12 });
        let found = Compared::of(&serde_json::json!({ "answers": [{ "metrics": [metric] }] })).unwrap();
        assert!(found.found() && found.is_right(-0.05) && !found.is_right(-0.10));
    }

    #[test]
    fn intervals_that_do_not_overlap_are_counted() {
        let at = |middle: f64| [middle - 10.0, middle, middle + 10.0];
        let (first, near, far) = (at(1000.0), at(1005.0), at(1023.0));
        let line = answers("limit", 2, &[first, near]);
        assert!(line.contains("| all |") && line.ends_with("| yes |\n"), "{line}");
        let line = answers("limit", 3, &[first, near, far]);
        assert!(line.contains("2 of 3 pairs") && line.ends_with("| **no** |\n"), "{line}");
        let line = answers("limit", 3, &[first, near]);
        assert!(line.starts_with("| limit | 3 | 1 |") && line.ends_with("| **no** |\n"), "one had no answer: {line}");
    }

    #[test]
    fn a_machine_that_moves_is_seen_in_the_plain_loads() {
        let plain = [2000.0, 1000.0, 1000.0, 1000.0];
        assert!(plainly(&plain).contains("| 4 |  | 1000 to 2000/s | 40.0 % |"), "{}", plainly(&plain));
    }

    #[test]
    fn searches_at_other_speeds_are_moved_to_one() {
        let one = |rate: f64, piece_us: f64| AtOneSpeed { ends: [0.9 * rate, rate, 1.1 * rate], piece_us, slope: -2.0 };
        let moved = one(1600.0, 50.0).moved_to(100.0, -2.0);
        assert!(moved.iter().zip([360.0, 400.0, 440.0]).all(|(a, b)| (a - b).abs() < 1e-9), "{moved:?}");
        let answer = |rate: f64| serde_json::json!({ "low_per_s": rate, "estimate_per_s": rate, "high_per_s": rate });
        let mut limit = serde_json::json!({
            "saturation": answer(1.0), "within_slo": answer(1.0), "trials": 30, "spent_s": 151.0, "at_one_speed": answer(2.0)
        });
        limit["at_one_speed"]["piece_us"] = 80.into();
        assert!(Searched::of(&limit).unwrap().at_one_speed.is_none(), "without a slope it cannot be moved");
        limit["at_one_speed"]["slope"] = (-1.5).into();
        assert_eq!(Searched::of(&limit).unwrap().at_one_speed.map(|o| (o.ends, o.slope)), Some(([2.0; 3], -1.5)));
    }

    #[test]
    fn what_is_given_is_what_the_lab_gives() {
        let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../labs");
        for (holder, set) in [(Holder::Cpu, "cpu_quota = \"40%\""), (Holder::Clock, "rate = \"20mbit\"")] {
            let lab = std::fs::read_to_string(labs.join(holder.planted()).with_extension("toml")).unwrap();
            assert!(lab.contains(set), "{holder:?}");
        }
        assert!(Holder::Cpu.words(0.05).ends_with(&["lb:cgroup.cpu_quota=0.38000".to_string()]));
        assert!(Holder::Clock.words(0.0).ends_with(&["lb:link_rate.eth0=19.9995mbit".to_string()]));
    }

    #[test]
    fn nothing_planted_must_not_be_found() {
        let of = |change: f64, half: f64| Compared { change, low: change - half, high: change + half, pairs: 12.0 };
        assert!(changes(0.0, &[of(0.001, 0.01), of(0.02, 0.01)]).ends_with("never found | **no** |\n"));
        assert!(changes(0.05, &[of(-0.05, 0.01)]).ends_with("| yes |\n"));
        assert!(changes(0.10, &[of(-0.05, 0.01); 1]).contains("| 1 | 1 | 0 |"));
    }
}
