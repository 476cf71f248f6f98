//! `cargo xtask bench stats`: do the statistics keep their promises? On simulated stacks whose limits are known.
//!
//! Nothing is loaded and nothing is timed; the same seed gives the same table on every machine. The methods were developed on
//! other seeds than the ones that are used here. Invariant: every number of the page comes from the run that prints it.

mod bisection;
mod searches;
mod verdicts;

use super::{holds, write_section};
use std::ops::Range;
use std::path::Path;

/// How much to simulate.
#[derive(clap::Args, Clone, Debug)]
pub struct StatsArgs {
    /// Searches, each on a stack of its own
    #[arg(long, default_value_t = 500)]
    pub searches: u64,
    /// Comparisons of a stack with itself, and as many with a known difference
    #[arg(long, default_value_t = 1000)]
    pub comparisons: u64,
    /// Seed of the first stack; the next has the next
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the section only; leave docs/benchmarks.md alone
    #[arg(long)]
    pub no_write: bool,
}

/// Simulates, prints the section, and writes it.
pub fn run(root: &Path, args: &StatsArgs) -> anyhow::Result<()> {
    let mut text = format!(
        "## Do the statistics keep their promises?\n\n\
         `cargo xtask bench stats --searches {} --comparisons {} --seed {}`: simulated stacks whose limits are known, so the figures \
         are the same on every machine. A stack is a queue with 1 to 16 servers and exponential, more even (Erlang) or less even \
         (hyperexponential) service, simulated request by request. Around it: its speed differs from trial to trial by 0.5 to 2 % \
         (standard deviation), and a sixth of the stacks each have nothing else, noise that resembles that of the trial before, drift, \
         trials slowed by 5 to 30 % of which most go unnoticed, collapse after overload, or too many connections that cost speed.\n\n",
        args.searches, args.comparisons, args.seed
    );
    text += &searches::section(args.seed..args.seed + args.searches);
    text += &verdicts::section(args.comparisons, args.seed);
    println!("{text}");
    if !args.no_write {
        write_section(root, "stats", &text)?;
    }
    Ok(())
}

/// `of` for each number, on all CPUs, in order.
fn in_parallel<T: Send>(numbers: Range<u64>, of: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let (of, size) = (&of, (numbers.end - numbers.start).div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let part = |i: u64| {
            let from = (numbers.start + i * size).min(numbers.end);
            let until = (from + size).min(numbers.end);
            scope.spawn(move || (from..until).map(of).collect::<Vec<T>>())
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        parts.into_iter().flat_map(|part| part.join().expect("a simulation does not panic")).collect()
    })
}

/// The share of the counted ones, in per cent, with the 95 % interval that their number allows: Wilson 1927, "Probable
/// inference, the law of succession, and statistical inference", JASA 22.
fn share(hits: usize, of: usize) -> String {
    if of == 0 {
        return "none".to_string();
    }
    let (n, p, z2) = (of as f64, hits as f64 / of as f64, 1.96f64 * 1.96);
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = 1.96 / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    format!("{:.1} % ({:.1} to {:.1})", 100.0 * p, 100.0 * (middle - half), 100.0 * (middle + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_done_once_and_in_order() {
        assert_eq!(in_parallel(3..20, |n| n), (3..20).collect::<Vec<u64>>());
        assert_eq!(in_parallel(3..3, |n| n), Vec::<u64>::new());
    }

    #[test]
    fn a_share_has_its_interval() {
        assert_eq!(share(475, 500), "95.0 % (92.7 to 96.6)");
        assert_eq!(share(0, 0), "none");
    }
}
