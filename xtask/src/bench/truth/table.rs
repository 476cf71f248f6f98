//! The section of `docs/benchmarks.md`: what each tool told beside what was true, and by how much it is off.
//!
//! It measures nothing. Invariant: a tool that does not tell a percentile is not right about it.

use super::schedule::QUANTILES;
use super::{Case, ERROR_US_MAX, Floor, GENERATOR_CPU, Machine, Row, Run, SERVER_CPU, TruthArgs};
use crate::bench::{load_average, machine, median, pauses};

/// A percentile is right within this share of the truth. The bar: 1 %.
const SHARE_MAX: f64 = 0.01;

/// The tables, with what a reader needs to repeat them and to doubt them.
pub(super) fn page(args: &TruthArgs, missing: &[&str], tables: &[(&Case, Vec<Row>)], around: &Machine) -> String {
    let Machine { floor, away, busy_before } = around;
    let part = [&args.tool, &args.case].into_iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    let part = if part.is_empty() { part } else { format!(" Only {part}") };
    let mut text = format!("## Do load generators tell the truth?{part}\n\n");
    text += &format!(
        "`cargo xtask bench truth --seconds {} --rounds {} --rate {} --connections {}{}` on {}, load average {busy_before} before and {} after. \
         The server (`xtask/fixtures/truth_server.c`, CPU {SERVER_CPU}) answers the i-th request a known time after it arrived, as a pure delay: \
         requests do not wait for each other. Stalls hold every answer back that is due within one. The generators run on CPU \
         {GENERATOR_CPU}, one thread each. Open loops send {} requests/s over {} connections (tools that give each connection a schedule of \
         its own: 64); closed loops have as many connections as give that rate.\n\n",
        args.seconds,
        args.rounds,
        args.rate,
        args.connections,
        if args.realtime { " --realtime" } else { "" },
        machine(),
        load_average(),
        args.rate,
        args.connections,
    );
    text += &compared(floor);
    text += &format!("{}\n\n", pauses::said(away, ERROR_US_MAX));
    text += &summary(tables);
    for (case, rows) in tables {
        text += &format!("### Service time: {}\n\n", case.name);
        text += "| generator | requests | p50 | p90 | p99 | p99.9 | p99.99 | right | server late, us: p50, p99 |\n\
                 |---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
        text.extend(rows.iter().map(Row::line));
        text.push('\n');
        text.extend(rows.iter().map(Row::notes));
        text.push('\n');
    }
    if !missing.is_empty() {
        text += &format!("Not installed here, so not measured: {}.\n", missing.join(", "));
    }
    text
}

/// What is compared with what.
fn compared(floor: &Floor) -> String {
    format!(
        "Each cell: told (true) in milliseconds, and the error, of the round whose error is the median: one pause of this machine in the few \
         seconds of a run decides what p99.99 and even p99.9 of that run are, for the tool and for its users alike, so no single run is \
         the tool's. **Bold**: off by more than {:.0} % and more than {ERROR_US_MAX:.0} us. \
         The truth is computed, not measured: for prony's constant rate from the times of its plan, for Poisson from the arrivals that the \
         server recorded, for all others from as many requests spread evenly over the run, which is what users who do not wait for each \
         other would see; then the known service time and the known stalls; then how late the server itself sent that answer, by its own \
         record, because that is not the tool's error. The last column is that lateness: on a quiet machine a few microseconds, but more \
         when a stranger takes its CPU, or when many answers are due at one moment, after a stall or because a tool sends in bursts. \
         A tool that a stranger keeps from its own CPU is not excused. \
         `--spin`: prony's thread never sleeps, so that waking up is no part of what it sees. \
         Loopback and waking up are part of what a client sees, and nobody is excused from them: a blocking client with one connection \
         sees answers {:.0} us later than the service time at best, {:.0} us in the median.\n\n",
        SHARE_MAX * 100.0,
        floor.least_us,
        floor.median_us,
    )
}

/// How many percentiles each tool told right, over all cases; the bar is prony's alone.
fn summary(tables: &[(&Case, Vec<Row>)]) -> String {
    let Some((_, first)) = tables.first() else { return String::new() };
    let mut text = String::from(
        "| generator | percentiles told right, of all, by the median of their errors | in each round alone | bar | holds |\n\
         |---|--:|--:|--:|---|\n",
    );
    let all = tables.len() * QUANTILES.len();
    for (number, row) in first.iter().enumerate() {
        let rows = || tables.iter().map(|(_, rows)| &rows[number]);
        let told_right: usize = rows().map(Row::held).sum();
        let alone: Vec<String> = (0..row.runs.len())
            .map(|round| rows().map(|row| held(row.runs[round].cells())).sum::<usize>().to_string())
            .collect();
        let (bar, holds) = match (row.tool.starts_with("prony"), told_right == all) {
            (true, true) => ("all", "yes"),
            (true, false) => ("all", "**no**"),
            (false, _) => ("none", ""),
        };
        text += &format!("| {} | {told_right} of {all} | {} | {bar} | {holds} |\n", row.tool, alone.join(", "));
    }
    text + "\n"
}

/// How far a told percentile is from the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Deviation {
    us: f64,
    share: f64,
}

impl Deviation {
    fn of(told_us: f64, truth_us: f64) -> Self {
        Self { us: told_us - truth_us, share: told_us / truth_us - 1.0 }
    }

    fn holds(self) -> bool {
        self.us.abs() <= ERROR_US_MAX || self.share.abs() <= SHARE_MAX
    }
}

/// What was told of a percentile, and what was true; microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    told_us: f64,
    truth_us: f64,
}

impl Cell {
    fn deviation(self) -> Deviation {
        Deviation::of(self.told_us, self.truth_us)
    }
}

/// By [`QUANTILES`]; nothing for a percentile that was not told.
type Cells = [Option<Cell>; QUANTILES.len()];

/// How many are right.
fn held(cells: Cells) -> usize {
    cells.into_iter().flatten().filter(|cell| cell.deviation().holds()).count()
}

impl Run {
    fn cells(&self) -> Cells {
        std::array::from_fn(|i| self.told.percentiles_us[i].map(|told_us| Cell { told_us, truth_us: self.truth[i] }))
    }
}

impl Row {
    /// Of each percentile the run whose error is the median; of an even number the later of the two in the middle.
    fn cells(&self) -> Cells {
        std::array::from_fn(|i| {
            let mut cells: Vec<Cell> = self.runs.iter().filter_map(|run| run.cells()[i]).collect();
            cells.sort_by(|a, b| a.deviation().us.total_cmp(&b.deviation().us));
            cells.get(cells.len() / 2).copied()
        })
    }

    fn held(&self) -> usize {
        held(self.cells())
    }

    fn line(&self) -> String {
        let cells: String = self.cells().into_iter().map(cell).collect();
        let of_runs = |value: fn(&Run) -> f64| median(&self.runs.iter().map(value).collect::<Vec<_>>()).unwrap_or(0.0);
        format!(
            "| {} | {:.0} |{cells} {} of {} | {:.0}, {:.0} |\n",
            self.tool,
            of_runs(|run| run.told.requests as f64),
            self.held(),
            QUANTILES.len(),
            of_runs(|run| run.late_us[0]),
            of_runs(|run| run.late_us[2]),
        )
    }

    /// What its runs said, each by its round.
    fn notes(&self) -> String {
        let runs = self.runs.iter().zip(1..);
        let notes = runs.flat_map(|(run, round)| run.told.notes.iter().map(move |note| (round, note)));
        notes.map(|(round, note)| format!("- {}, round {round}: {note}.\n", self.tool)).collect()
    }
}

/// `told (truth) error us, error %`; bold when it is too far off.
fn cell(cell: Option<Cell>) -> String {
    let Some(cell) = cell else { return " not told |".to_string() };
    let deviation = cell.deviation();
    let mark = if deviation.holds() { "" } else { "**" };
    let (told_ms, truth_ms) = (cell.told_us / 1e3, cell.truth_us / 1e3);
    format!(" {mark}{told_ms:.3} ({truth_ms:.3}) {:+.0} us, {:+.1} %{mark} |", deviation.us, deviation.share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{Stalls, even, follow, percentiles};
    use super::super::tools::Told;
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn right_is_within_one_percent_or_thirty_microseconds() {
        assert!(Deviation::of(1030.0, 1000.0).holds(), "30 us");
        assert!(!Deviation::of(1031.0, 1000.0).holds());
        assert!(Deviation::of(99_001.0, 100_000.0).holds(), "1 %");
        assert!(!Deviation::of(98_900.0, 100_000.0).holds());
        let told = |told_us, truth_us| cell(Some(Cell { told_us, truth_us }));
        assert_eq!(told(1031.0, 1000.0), " **1.031 (1.000) +31 us, +3.1 %** |");
        assert_eq!(told(99_500.0, 1e5), " 99.500 (100.000) -500 us, -0.5 % |");
        assert_eq!(cell(None), " not told |");
    }

    #[test]
    fn a_percentile_is_judged_by_the_median_of_its_errors() {
        let run = |told_us: [f64; 5]| Run {
            told: Told { percentiles_us: told_us.map(Some), ..Told::default() },
            truth: [1000.0; 5],
            late_us: [0.0; 5],
        };
        let runs = [1001.0, 1500.0, 1029.0].map(|first| run([first, 1500.0, 1000.0, 1000.0, 1000.0])).into();
        let row = Row { tool: "prony", runs };
        assert_eq!(row.cells()[0], Some(Cell { told_us: 1029.0, truth_us: 1000.0 }));
        assert_eq!((row.held(), held(row.runs[1].cells())), (4, 3), "all rounds are wrong about p90, one about p50");
    }

    #[test]
    fn a_closed_loop_that_omits_the_stall_is_told_wrong() {
        // 8 users in a closed loop: of a stall of 200 ms only 8 of 9608 requests know. Evenly spread, 4 % would.
        let stalls = Stalls { epoch_ns: 0, first_ns: 2500 * MS, every_ns: 5000 * MS, length_ns: 200 * MS };
        let mut told_ns = vec![5 * MS; 9600];
        told_ns.extend([200 * MS; 8]);
        let told = percentiles(told_ns).unwrap();
        let truth = follow(even(0, 5000 * MS, 9608), &[5 * MS], stalls).map(|r| r.due - r.intended).collect();
        let truth = percentiles(truth).unwrap();
        let holds: Vec<bool> =
            told.iter().zip(truth).map(|(told, truth)| Deviation::of(*told, truth).holds()).collect();
        assert_eq!(holds, [true, true, false, false, false]);
    }
}
