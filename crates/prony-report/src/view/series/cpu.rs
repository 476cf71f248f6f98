//! CPU over time: all CPUs of a host as one stack, and each of them when there are few.
//!
//! Shares are of what the kernel counted, so that they add up to 1 with idle, which is not drawn.

use super::{ChartKind, ChartUnit, ChartView, thin};
use prony_model::metric::{
    CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_NICE, CPU_SOFTIRQ, CPU_STEAL, CPU_SYSTEM, CPU_USER, Metric,
};
use prony_model::{Host, Run};
use std::collections::BTreeMap;

/// From the bottom of the stack; idle last.
const KINDS: [&Metric; 8] =
    [&CPU_USER, &CPU_NICE, &CPU_SYSTEM, &CPU_SOFTIRQ, &CPU_IRQ, &CPU_STEAL, &CPU_IOWAIT, &CPU_IDLE];
const NAMES: [&str; 7] = ["user", "nice", "system", "softirq", "irq", "steal", "iowait"];

/// Up to so many CPUs have a chart each. A guess: more fill the page and say little more than how busy each is.
const SPLIT_CPUS_MAX: usize = 4;
/// Up to so many are lines of one chart; more cannot be told apart. A guess.
const LINES_MAX: usize = 16;
/// Ticks are 10 ms long: what was read sooner after the last time says nothing. A guess.
const STEP_NS_MIN: u64 = 50_000_000;

/// Seconds of each kind at moments in order.
type Counted = Vec<(u64, [f64; 8])>;

pub(super) fn charts(run: &Run, host: &str) -> Vec<ChartView> {
    let cpus = cpus(run, run.stack.host.get(host), host);
    if cpus.is_empty() {
        return Vec::new();
    }
    let counted: Vec<(u32, Counted)> = cpus.iter().map(|cpu| (*cpu, counted(run, host, *cpu))).collect();
    let mut charts = vec![chart(ChartKind::Cpu, host, String::new(), &shares(&summed(&counted)))];
    match cpus.len() {
        0 | 1 => {}
        few if few <= SPLIT_CPUS_MAX => {
            charts.extend(counted.iter().map(|(n, c)| chart(ChartKind::Core, host, n.to_string(), &shares(c))));
        }
        more if more <= LINES_MAX => charts.push(busy(host, &counted)),
        _ => {}
    }
    charts.retain(|chart| chart.at_s.len() > 1);
    charts
}

fn cpus(run: &Run, of_stack: Option<&Host>, host: &str) -> Vec<u32> {
    let own = of_stack.and_then(|host| host.cpus.as_ref());
    let seen = run.series.items(host, &CPU_IDLE).filter_map(|(item, _)| item.parse().ok());
    let mut cpus: Vec<u32> = seen.filter(|cpu| own.is_none_or(|own| own.contains(*cpu))).collect();
    cpus.sort_unstable();
    cpus
}

fn counted(run: &Run, host: &str, cpu: u32) -> Counted {
    let item = cpu.to_string();
    let mut rows: BTreeMap<u64, [f64; 8]> =
        run.series.points(host, &CPU_IDLE, &item).iter().map(|(at_ns, _)| (*at_ns, [0.0; 8])).collect();
    for (i, metric) in KINDS.into_iter().enumerate() {
        for (at_ns, value) in run.series.points(host, metric, &item) {
            rows.entry(*at_ns).and_modify(|row| row[i] = *value);
        }
    }
    rows.into_iter().collect()
}

/// All CPUs together, at moments at which each was read.
fn summed(counted: &[(u32, Counted)]) -> Counted {
    let mut sums: BTreeMap<u64, (usize, [f64; 8])> = BTreeMap::new();
    for (at_ns, row) in counted.iter().flat_map(|(_, rows)| rows) {
        let (seen, sum) = sums.entry(*at_ns).or_default();
        *seen += 1;
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    sums.into_iter().filter(|(_, (seen, _))| *seen == counted.len()).map(|(at_ns, (_, sum))| (at_ns, sum)).collect()
}

/// Shares of each kind between two moments, without idle.
fn shares(counted: &Counted) -> Vec<(u64, [f64; 7])> {
    let mut out = Vec::new();
    let mut rows = counted.iter();
    let Some(mut last) = rows.next() else { return out };
    for row in rows {
        if row.0 - last.0 < STEP_NS_MIN {
            continue;
        }
        let grown: [f64; 8] = std::array::from_fn(|i| row.1[i] - last.1[i]);
        let total: f64 = grown.iter().sum();
        last = row;
        // iowait may fall, says proc(5); what falls otherwise was started anew.
        if total > 0.0 && total.is_finite() {
            out.push((row.0, std::array::from_fn(|i| (grown[i] / total).clamp(0.0, 1.0))));
        }
    }
    out
}

fn chart(kind: ChartKind, host: &str, item: String, shares: &[(u64, [f64; 7])]) -> ChartView {
    let (at_s, mut lines) = thin::stack(NAMES, shares);
    // User, system and soft interrupts always stand there, so that charts can be compared; the rest only when it was.
    let shown = |name: &str| ["user", "system", "softirq"].contains(&name);
    lines.retain(|line| shown(&line.name) || line.values.iter().flatten().any(|share| *share >= 0.005));
    ChartView { kind, host: host.to_string(), item, unit: ChartUnit::Share, at_s, lines, zero: Vec::new() }
}

fn busy(host: &str, counted: &[(u32, Counted)]) -> ChartView {
    let line = |(cpu, counted): &(u32, Counted)| {
        // Waiting for a disk comes last, and is no work.
        let points = shares(counted).into_iter().map(|(at_ns, shares)| (at_ns, shares[..6].iter().sum()));
        (format!("CPU {cpu}"), points.collect())
    };
    let (at_s, lines) = thin::lines(counted.iter().map(line).collect());
    let (kind, unit) = (ChartKind::Cores, ChartUnit::Share);
    ChartView { kind, host: host.to_string(), item: String::new(), unit, at_s, lines, zero: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{Sample, Stack};

    fn run(cpus: u32) -> Run {
        let mut run = Run { stack: Stack::from_url("http://10.0.0.2/"), ..Run::default() };
        for second in 0..4u64 {
            let mut sample = Sample { host: "lb".into(), at_ns: second * 1_000_000_000, values: vec![] };
            for cpu in 0..cpus {
                sample.push(&CPU_USER, cpu.to_string(), 0.25 * second as f64);
                sample.push(&CPU_SOFTIRQ, cpu.to_string(), 0.25 * second as f64 * f64::from(cpu));
                sample.push(&CPU_IDLE, cpu.to_string(), (0.75 - 0.25 * f64::from(cpu)) * second as f64);
            }
            run.series.add(&sample);
        }
        run
    }

    #[test]
    fn a_host_and_each_of_its_few_cpus() {
        let charts = charts(&run(2), "lb");
        assert_eq!(
            charts.iter().map(|c| (c.kind.word(), c.item.as_str())).collect::<Vec<_>>(),
            [("cpu", ""), ("core", "0"), ("core", "1")]
        );
        assert_eq!(charts[0].at_s, [1.0, 2.0, 3.0]);
        let named: Vec<_> = charts[0].lines.iter().map(|line| (line.name.as_str(), line.values[0])).collect();
        assert_eq!(named, [("user", Some(0.25)), ("system", Some(0.0)), ("softirq", Some(0.125))]);
    }

    #[test]
    fn many_cpus_are_lines_and_more_are_left_out() {
        let kinds = |cpus| charts(&run(cpus), "lb").iter().map(|c| c.kind.word()).collect::<Vec<_>>();
        assert_eq!(kinds(1), ["cpu"]);
        assert_eq!(kinds(8), ["cpu", "cores"]);
        assert_eq!(kinds(40), ["cpu"]);
        assert!(charts(&run(0), "lb").is_empty());
    }
}
