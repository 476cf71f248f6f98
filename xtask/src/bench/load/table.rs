//! The section of `docs/benchmarks.md`: what was measured how, and for each row its bar and whether it holds.
//!
//! It measures nothing. Invariant: a bar holds by the median of the ratios; in how many rounds it held stands beside it.

use super::servers::SERVER_CPU;
use super::works::{FLOOR_URING, OPEN_SHARE};
use super::{Block, GENERATOR_CPU, LoadArgs, Row};
use crate::bench::{load_average, machine, median};

/// Schedule lag of the open loop with Poisson arrivals, in microseconds at p99. From the issue.
const LAG_US_MAX: f64 = 50.0;
/// Since when io_uring would be worth a second transport: it saves this share of the CPU time. From the issue: 2 %.
const URING_SHARE_MIN: f64 = 0.02;

/// The section, with what a reader needs to repeat it and to doubt it.
pub fn page(args: &LoadArgs, blocks: &[Block], busy_before: &str) -> String {
    let mut text = String::from("## CPU time per request of load generators\n\n");
    text += &format!(
        "`cargo xtask bench load --rounds {} --seconds {} --connections {}{}` on {}, load average {busy_before} before and {} after. \
         The servers are pinned to CPU {SERVER_CPU}, the generators take turns on CPU {GENERATOR_CPU}, one thread each \
         (k6: all of its threads). \
         CPU time is that of the whole process, from start to exit. The floor is a bare epoll loop in C that parses and measures nothing. \
         With TLS all use AES-128-GCM, and certificates are verified by prony and by nobody else.\n\n\
         Open loops run at {:.0} % of the rate of prony's closed loop in the same round. There a request is dearer, whoever sends it: \
         answers no longer come in batches, and each request wakes a server that went to sleep, on the sender's account. \
         So an open loop is held against the floor that sends by the same schedule.\n\n\
         A bar is the most that prony may use, as times what the other uses; it holds by the median, and in so many of the rounds.\n\n",
        args.rounds,
        args.seconds,
        args.connections,
        if args.realtime { " --realtime" } else { "" },
        machine(),
        load_average(),
        OPEN_SHARE * 100.0
    );
    text += "| work | generator | requests/s, median | CPU us/request, median | prony uses times that: median (least to most) | bar | holds |\n\
             |---|---|--:|--:|--:|--:|---|\n";
    for block in blocks {
        (0..block.rows.len()).for_each(|number| text += &line(block, number));
    }
    text + "\n" + &uring(blocks)
}

/// A row of the table.
fn line(block: &Block, number: usize) -> String {
    let (generator, row) = (&block.work.generators[number], &block.rows[number]);
    let work = if number == 0 { block.work.name } else { "" };
    if let Some(reason) = &row.absent {
        return format!("| {work} | {} | not measured: {reason} | | | | |\n", generator.name);
    }
    let ratios = block.ratios(0, number);
    let bar = block.work.bars.iter().find(|(name, _)| *name == generator.name).map(|(_, most)| *most);
    let (against, bar, holds) = match (number, bar) {
        (0, _) => own_bar(block, row),
        (_, None) => (spread(&ratios), "none".to_string(), String::new()),
        (_, Some(most)) => (spread(&ratios), format!("{most:.2}"), held(&ratios, most)),
    };
    let middle = |values: &[f64], digits| median(values).map(|v| format!("{v:.digits$}")).unwrap_or_default();
    format!(
        "| {work} | {} | {} | {} | {against} | {bar} | {holds} |\n",
        generator.name,
        middle(&row.per_s, 0),
        middle(&row.cpu_us, 2),
    )
}

/// Prony's own row: in open loop how late it sent.
fn own_bar(block: &Block, row: &Row) -> (String, String, String) {
    let Some(lag) = median(&row.lag_us_p99).filter(|_| block.work.generators[0].open.is_some()) else {
        return Default::default();
    };
    let told = format!("schedule lag p99: {lag:.0} us");
    (told, format!("{LAG_US_MAX:.0} us"), held(&row.lag_us_p99, LAG_US_MAX))
}

/// `1.023 (1.010 to 1.031)`
fn spread(values: &[f64]) -> String {
    let Some(middle) = median(values) else { return String::new() };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{middle:.3} ({least:.3} to {most:.3})")
}

/// `yes, 9 of 9`
fn held(values: &[f64], most: f64) -> String {
    let Some(middle) = median(values) else { return String::new() };
    let rounds = values.iter().filter(|v| **v <= most).count();
    let verdict = if middle <= most { "yes" } else { "**no**" };
    format!("{verdict}, {rounds} of {}", values.len())
}

/// Whether io_uring would be worth it, where both floors were measured.
fn uring(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        let find = |name| block.work.generators.iter().position(|g| g.name == name);
        let Some((uring, floor)) = find(FLOOR_URING).zip(find("floor")) else { continue };
        let ratios = block.ratios(uring, floor);
        let most = 1.0 - URING_SHARE_MIN;
        text += &format!(
            "{}: the floor on io_uring (multishot receive, provided buffers, registered files, one system call per batch) uses {} \
             times the CPU of the floor on epoll. Bar for a second transport: at most {most:.2}. Holds: {}.\n\n",
            block.work.name,
            spread(&ratios),
            held(&ratios, most)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::works::{Generator, Open, Work};
    use super::*;
    use std::path::PathBuf;

    fn block(open: Option<Open>, rows: Vec<Row>) -> Block {
        let generator = |name| Generator { name, program: PathBuf::new(), args: Vec::new(), open, responses: |_| None };
        let generators = ["prony", "floor", "wrk", "k6"].map(generator).into();
        Block { work: Work { name: "keep-alive", generators, bars: vec![("floor", 1.03), ("wrk", 0.8)] }, rows }
    }

    fn row(cpu_us: [f64; 3], lag_us: f64) -> Row {
        Row { cpu_us: cpu_us.into(), per_s: vec![1000.0], lag_us_p99: vec![lag_us], absent: None }
    }

    #[test]
    fn every_row_says_its_bar_and_whether_it_holds() {
        let rows = || {
            let none = Row { absent: Some("k6 is not installed".to_string()), ..Row::default() };
            vec![row([4.0, 4.1, 4.2], 40.0), row([4.0; 3], 0.0), row([5.0; 3], 0.0), none]
        };
        let closed = block(None, rows());
        let lines: Vec<String> = (0..4).map(|number| line(&closed, number)).collect();
        assert_eq!(
            lines,
            [
                "| keep-alive | prony | 1000 | 4.10 |  |  |  |\n",
                "|  | floor | 1000 | 4.00 | 1.025 (1.000 to 1.050) | 1.03 | yes, 2 of 3 |\n",
                "|  | wrk | 1000 | 5.00 | 0.820 (0.800 to 0.840) | 0.80 | **no**, 1 of 3 |\n",
                "|  | k6 | not measured: k6 is not installed | | | | |\n",
            ]
        );
        let open = block(Some(Open::Floor("poisson")), rows());
        assert_eq!(
            line(&open, 0),
            "| keep-alive | prony | 1000 | 4.10 | schedule lag p99: 40 us | 50 us | yes, 1 of 1 |\n"
        );
    }
}
