//! The section of `docs/benchmarks.md`: what was measured how, and for each row its bar and whether it holds.
//!
//! It measures nothing. Invariant: a bar holds by the median of the ratios; in how many rounds it held stands beside it.

use super::servers::SERVER_CPU;
use super::works::{FLOOR_URING, OPEN_SHARE};
use super::{Block, GENERATOR_CPU, LoadArgs};
use crate::bench::{load_average, machine, median, spread};

/// Since when io_uring would be worth a second transport: it saves this share of the CPU time. The bar: 2 %.
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
        (0, _) => Default::default(),
        (_, None) => (spread(&ratios, 3), "none".to_string(), String::new()),
        (_, Some(most)) => (spread(&ratios, 3), format!("{most:.2}"), held(&ratios, most)),
    };
    let middle = |values: &[f64], digits| median(values).map(|v| format!("{v:.digits$}")).unwrap_or_default();
    format!(
        "| {work} | {} | {} | {} | {against} | {bar} | {holds} |\n",
        generator.name,
        middle(&row.per_s, 0),
        middle(&row.cpu_us, 2),
    )
}

/// `yes, 9 of 9`
pub fn held(values: &[f64], most: f64) -> String {
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
            spread(&ratios, 3),
            held(&ratios, most)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::super::works::{Generator, Work};
    use super::*;
    use std::path::PathBuf;

    fn block(rows: Vec<Row>) -> Block {
        let generator =
            |name| Generator { name, program: PathBuf::new(), args: Vec::new(), open: None, responses: |_| None };
        let generators = ["prony", "floor", "wrk", "k6"].map(generator).into();
        Block { work: Work { name: "keep-alive", generators, bars: vec![("floor", 1.03), ("wrk", 0.8)] }, rows }
    }

    fn row(cpu_us: [f64; 3]) -> Row {
        Row { cpu_us: cpu_us.into(), per_s: vec![1000.0], absent: None }
    }

    #[test]
    fn every_row_says_its_bar_and_whether_it_holds() {
        let none = Row { absent: Some("k6 is not installed".to_string()), ..Row::default() };
        let block = block(vec![row([4.0, 4.1, 4.2]), row([4.0; 3]), row([5.0; 3]), none]);
        let lines: Vec<String> = (0..4).map(|number| line(&block, number)).collect();
        assert_eq!(
            lines,
            [
                "| keep-alive | prony | 1000 | 4.10 |  |  |  |\n",
                "|  | floor | 1000 | 4.00 | 1.025 (1.000 to 1.050) | 1.03 | yes, 2 of 3 |\n",
                "|  | wrk | 1000 | 5.00 | 0.820 (0.800 to 0.840) | 0.80 | **no**, 1 of 3 |\n",
                "|  | k6 | not measured: k6 is not installed | | | | |\n",
            ]
        );
    }
}
