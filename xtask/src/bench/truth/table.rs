//! The section of `docs/benchmarks.md`: what each tool told beside what was true, and by how much it is off.
//!
//! It measures nothing. Invariant: a tool that does not tell a percentile is not right about it.

use super::schedule::QUANTILES;
use super::{Case, Floor, GENERATOR_CPU, Row, SERVER_CPU, TruthArgs};
use crate::bench::{load_average, machine};

/// A percentile is right within this share of the truth. From the issue: 1 %.
const SHARE_MAX: f64 = 0.01;
/// Or within this many microseconds. From the issue.
const ERROR_US_MAX: f64 = 30.0;

/// The tables, with what a reader needs to repeat them and to doubt them.
pub(super) fn page(
    args: &TruthArgs,
    missing: &[&str],
    tables: &[(&Case, Vec<Row>)],
    floor: Floor,
    busy_before: &str,
) -> String {
    let mut text = String::from("## Do load generators tell the truth?\n\n");
    text += &format!(
        "`cargo xtask bench truth --seconds {} --rate {} --connections {}{}` on {}, load average {busy_before} before and {} after. \
         The server (`xtask/fixtures/truth_server.c`, CPU {SERVER_CPU}) answers the i-th request a known time after it arrived, as a pure delay: \
         requests do not wait for each other. Stalls hold every answer back that is due within one. The generators run on CPU \
         {GENERATOR_CPU}, one thread each. Open loops send {} requests/s over {} connections (tools that give each connection a schedule of \
         its own: 64); closed loops have as many connections as give that rate.\n\n",
        args.seconds,
        args.rate,
        args.connections,
        if args.realtime { " --realtime" } else { "" },
        machine(),
        load_average(),
        args.rate,
        args.connections,
    );
    text += &compared(&floor);
    text += &summary(tables);
    for (case, rows) in tables {
        text += &format!("### Service time: {}\n\n", case.name);
        text += "| generator | requests | p50 | p90 | p99 | p99.9 | p99.99 | right | server late, us: p50, p99 |\n\
                 |---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
        text.extend(rows.iter().map(Row::line));
        text.push('\n');
        for row in rows {
            text.extend(row.told.notes.iter().map(|note| format!("- {}: {note}.\n", row.tool)));
        }
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
        "Each cell: told (true) in milliseconds, and the error. **Bold**: off by more than {:.0} % and more than {ERROR_US_MAX:.0} us. \
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
    let mut text = String::from("| generator | percentiles told right, of all | bar | holds |\n|---|--:|--:|---|\n");
    let all = tables.len() * QUANTILES.len();
    for (number, row) in first.iter().enumerate() {
        let held: usize = tables.iter().map(|(_, rows)| rows[number].held()).sum();
        let (bar, holds) = match (row.tool.starts_with("prony"), held == all) {
            (true, true) => ("all", "yes"),
            (true, false) => ("all", "**no**"),
            (false, _) => ("none", ""),
        };
        text += &format!("| {} | {held} of {all} | {bar} | {holds} |\n", row.tool);
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

impl Row {
    fn deviations(&self) -> [Option<Deviation>; QUANTILES.len()] {
        let mut truth = self.truth.iter();
        self.told.percentiles_us.map(|told| {
            let truth = truth.next()?;
            Some(Deviation::of(told?, *truth))
        })
    }

    fn held(&self) -> usize {
        self.deviations().iter().flatten().filter(|d| d.holds()).count()
    }

    fn line(&self) -> String {
        let cells = self.told.percentiles_us.iter().zip(&self.truth).zip(self.deviations());
        let cells: String = cells.map(|((told, truth), deviation)| cell(*told, *truth, deviation)).collect();
        let [late_p50, _, late_p99, ..] = self.late_us;
        let (tool, requests, held) = (self.tool, self.told.requests, self.held());
        format!("| {tool} | {requests} |{cells} {held} of {} | {late_p50:.0}, {late_p99:.0} |\n", QUANTILES.len())
    }
}

/// `told (truth) error us, error %`; bold when it is too far off.
fn cell(told_us: Option<f64>, truth_us: f64, deviation: Option<Deviation>) -> String {
    let (Some(told), Some(deviation)) = (told_us, deviation) else { return " not told |".to_string() };
    let mark = if deviation.holds() { "" } else { "**" };
    let (told_ms, truth_ms) = (told / 1e3, truth_us / 1e3);
    format!(" {mark}{told_ms:.3} ({truth_ms:.3}) {:+.0} us, {:+.1} %{mark} |", deviation.us, deviation.share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{Stalls, even, follow, percentiles};
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn right_is_within_one_percent_or_thirty_microseconds() {
        assert!(Deviation::of(1030.0, 1000.0).holds(), "30 us");
        assert!(!Deviation::of(1031.0, 1000.0).holds());
        assert!(Deviation::of(99_001.0, 100_000.0).holds(), "1 %");
        assert!(!Deviation::of(98_900.0, 100_000.0).holds());
        assert_eq!(
            cell(Some(1031.0), 1000.0, Some(Deviation::of(1031.0, 1000.0))),
            " **1.031 (1.000) +31 us, +3.1 %** |"
        );
        assert_eq!(
            cell(Some(99_500.0), 1e5, Some(Deviation::of(99_500.0, 1e5))),
            " 99.500 (100.000) -500 us, -0.5 % |"
        );
        assert_eq!(cell(None, 1e5, None), " not told |");
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
