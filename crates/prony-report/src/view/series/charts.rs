//! Charts of a host besides CPU: a table of what stands in which, and how lines are made from facts.
//!
//! A fact that was read and stayed 0 is named and not drawn. What was not read is not named: gaps stand elsewhere.

use super::{ChartKind, ChartUnit, ChartView, thin};
use prony_model::metric::*;
use prony_model::{Run, SeriesSet};
use std::collections::BTreeMap;

/// What stands in a chart.
struct Chart {
    kind: ChartKind,
    unit: ChartUnit,
    lines: &'static [Line],
}

/// What a line shows.
struct Line {
    name: &'static str,
    metric: Metric,
    /// A line for each item (an interface, a listener) instead of their sum.
    by_item: bool,
}

const fn sum(name: &'static str, metric: Metric) -> Line {
    Line { name, metric, by_item: false }
}

const fn each(name: &'static str, metric: Metric) -> Line {
    Line { name, metric, by_item: true }
}

const CHARTS: &[Chart] = &[
    Chart {
        kind: ChartKind::Packets,
        unit: ChartUnit::PerSecond,
        lines: &[each("received", IF_RX_PACKETS), each("sent", IF_TX_PACKETS)],
    },
    Chart {
        kind: ChartKind::Bytes,
        unit: ChartUnit::BytesPerSecond,
        lines: &[each("received", IF_RX_BYTES), each("sent", IF_TX_BYTES)],
    },
    Chart {
        kind: ChartKind::Retransmits,
        unit: ChartUnit::PerSecond,
        lines: &[
            sum("segments sent again", TCP_RETRANSMITS),
            sum("SYN sent again", TCP_SYN_RETRANSMITS),
            sum("fast retransmits", TCP_FAST_RETRANSMITS),
            sum("timeouts", TCP_TIMEOUTS),
            sum("loss probes", TCP_LOSS_PROBES),
        ],
    },
    Chart {
        kind: ChartKind::Openings,
        unit: ChartUnit::PerSecond,
        lines: &[
            sum("opened", TCP_ACTIVE_OPENS),
            sum("accepted", TCP_PASSIVE_OPENS),
            sum("resets received", TCP_ESTAB_RESETS),
            sum("resets sent", TCP_OUT_RESETS),
        ],
    },
    Chart {
        kind: ChartKind::Queues,
        unit: ChartUnit::Count,
        lines: &[
            each("waiting for accept at", LISTEN_QUEUE),
            each("waiting for accept at", UNIX_QUEUE),
            sum("sockets with unread requests", CONN_IN_UNREAD),
            each("waiting for a slot of", HAPROXY_QUEUE),
        ],
    },
    Chart { kind: ChartKind::Backlog, unit: ChartUnit::Bytes, lines: &[each("queue of", QDISC_BACKLOG)] },
    Chart {
        kind: ChartKind::Drops,
        unit: ChartUnit::PerSecond,
        lines: &[
            sum("accept queue full", TCP_LISTEN_OVERFLOWS),
            sum("SYN dropped", TCP_LISTEN_DROPS),
            sum("SYN queue full", TCP_SYN_QUEUE_DROPS),
            sum("socket backlog full", TCP_BACKLOG_DROPS),
            sum("receive buffer full", TCP_RECEIVE_QUEUE_DROPS),
            sum("interface, received", IF_RX_DROPS),
            sum("interface, sent", IF_TX_DROPS),
            sum("network card", NIC_OVERRUNS),
            sum("queueing discipline", QDISC_DROPS),
            sum("connection tracking", CONNTRACK_DROPS),
            sum("softnet, whole machine", SOFTNET_DROPPED),
            sum("softnet cut short, whole machine", SOFTNET_SQUEEZED),
        ],
    },
    Chart {
        kind: ChartKind::Switches,
        unit: ChartUnit::PerSecond,
        lines: &[
            sum("own, voluntary", PROC_SWITCHES_VOLUNTARY),
            sum("own, involuntary", PROC_SWITCHES_INVOLUNTARY),
            sum("whole machine", CONTEXT_SWITCHES),
        ],
    },
    Chart {
        kind: ChartKind::Waits,
        unit: ChartUnit::Cpus,
        lines: &[sum("runnable, without a CPU", PROC_RUN_DELAY), sum("throttled", CGROUP_THROTTLED_TIME)],
    },
    Chart {
        kind: ChartKind::Locks,
        unit: ChartUnit::Count,
        lines: &[
            each("locks awaited:", PG_LOCKS_AWAITED),
            each("sessions:", PG_WAITS),
            sum("clients blocked", REDIS_BLOCKED),
        ],
    },
    Chart {
        kind: ChartKind::Processes,
        unit: ChartUnit::Count,
        lines: &[sum("processes", PROC_COUNT), sum("threads", PROC_THREADS)],
    },
    Chart {
        kind: ChartKind::Connections,
        unit: ChartUnit::Count,
        lines: &[
            sum("accepted, open", CONN_IN),
            sum("opened by this host", CONN_OUT),
            sum("in TIME_WAIT", SOCK_TIME_WAIT),
            sum("database sessions", PG_CONNECTIONS),
            sum("cache clients", REDIS_CLIENTS),
        ],
    },
];

/// Items with lines of their own; the others are one line. A guess: more cannot be told apart.
const ITEMS_MAX: usize = 4;
/// Nearer points give no rate: closer than this a counter is read twice by chance. A guess.
const STEP_NS_MIN: u64 = 20_000_000;

pub(super) fn charts(run: &Run, host: &str) -> Vec<ChartView> {
    CHARTS.iter().filter_map(|chart| view(run, host, chart)).collect()
}

fn view(run: &Run, host: &str, chart: &Chart) -> Option<ChartView> {
    let read: Vec<thin::Points> = chart.lines.iter().flat_map(|line| points(&run.series, host, line)).collect();
    let (drawn, still): (Vec<_>, Vec<_>) = read.into_iter().partition(|(_, points)| moves(points));
    let zero: Vec<String> = still.into_iter().map(|(name, _)| name).collect();
    let (at_s, lines) = thin::lines(drawn);
    let (kind, unit) = (chart.kind, chart.unit);
    let is_shown = !zero.is_empty() || !lines.is_empty();
    is_shown.then(|| ChartView { kind, host: host.to_string(), item: String::new(), unit, at_s, lines, zero })
}

fn moves(points: &[(u64, f64)]) -> bool {
    points.iter().any(|(_, value)| *value != 0.0)
}

/// The lines of a fact; those that have fewer than two points are left out, because nothing could be drawn.
fn points(series: &SeriesSet, host: &str, line: &Line) -> Vec<thin::Points> {
    let of_item = |points: &[(u64, f64)]| match line.metric.kind {
        MetricKind::Counter => rates(points),
        MetricKind::Gauge => points.iter().copied().filter(|(_, value)| value.is_finite()).collect(),
    };
    let items = series.items(host, &line.metric).map(|(item, points)| (item.to_string(), of_item(points)));
    let mut items: Vec<thin::Points> = items.filter(|(_, points)| points.len() > 1).collect();
    if items.is_empty() {
        return items;
    }
    if !line.by_item {
        return vec![(line.name.to_string(), added(items.iter().map(|(_, points)| points)))];
    }
    // Of several interfaces or listeners, those without anything are not worth a word.
    if items.iter().any(|(_, points)| moves(points)) {
        items.retain(|(_, points)| moves(points));
    }
    let peak = |points: &[(u64, f64)]| points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    items.sort_by(|a, b| peak(&b.1).total_cmp(&peak(&a.1)));
    let others = items.split_off(items.len().min(ITEMS_MAX));
    items.iter_mut().for_each(|(item, _)| *item = format!("{} {item}", line.name).trim_end().to_string());
    if !others.is_empty() {
        let name = format!("{} {} more", line.name, others.len());
        items.push((name, added(others.iter().map(|(_, points)| points))));
    }
    items
}

/// Growth per second between neighbours, at the later moment; a counter that fell was started anew.
fn rates(points: &[(u64, f64)]) -> Vec<(u64, f64)> {
    let mut out = Vec::new();
    let mut rest = points.iter().filter(|(_, value)| value.is_finite());
    let Some(mut last) = rest.next() else { return out };
    for point in rest {
        if point.0.saturating_sub(last.0) < STEP_NS_MIN {
            continue;
        }
        if point.1 >= last.1 {
            out.push((point.0, (point.1 - last.1) / ((point.0 - last.0) as f64 / 1e9)));
        }
        last = point;
    }
    out
}

/// Sums over items that were read at the same moment.
fn added<'a>(items: impl Iterator<Item = &'a Vec<(u64, f64)>>) -> Vec<(u64, f64)> {
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for (at_ns, value) in items.flatten() {
        *sums.entry(*at_ns).or_default() += value;
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Sample;

    const SECOND_NS: u64 = 1_000_000_000;

    fn add(run: &mut Run, second: u64, metric: &Metric, item: &str, value: f64) {
        let mut sample = Sample { host: "lb".into(), at_ns: second * SECOND_NS, values: vec![] };
        sample.push(metric, item, value);
        run.series.add(&sample);
    }

    #[test]
    fn a_restart_is_no_rate_and_twice_at_once_is_once() {
        let points =
            [(0, 10.0), (SECOND_NS, 30.0), (SECOND_NS + 1_000, 31.0), (2 * SECOND_NS, 5.0), (3 * SECOND_NS, 9.0)];
        assert_eq!(rates(&points), [(SECOND_NS, 20.0), (3 * SECOND_NS, 4.0)]);
    }

    #[test]
    fn what_stayed_zero_is_named_and_not_drawn() {
        let mut run = Run::default();
        for second in 0..3 {
            add(&mut run, second, &TCP_LISTEN_OVERFLOWS, "", 7.0);
            add(&mut run, second, &IF_RX_DROPS, "eth0", second as f64 * 4.0);
        }
        let charts = charts(&run, "lb");
        assert_eq!(charts.len(), 1);
        assert_eq!(
            (charts[0].kind.word(), charts[0].zero.as_slice()),
            ("drops", &["accept queue full".to_string()][..])
        );
        assert_eq!(charts[0].lines[0].name, "interface, received");
        assert_eq!(charts[0].lines[0].values, [Some(4.0), Some(4.0)]);
    }

    #[test]
    fn many_items_are_the_greatest_and_the_others() {
        let mut run = Run::default();
        for (second, port) in (0..2).flat_map(|second| (0..6).map(move |port| (second, port))) {
            add(&mut run, second, &LISTEN_QUEUE, &format!("10.0.0.2:{port}"), f64::from(port));
        }
        let charts = charts(&run, "lb");
        let names: Vec<&str> = charts[0].lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names[0], "waiting for accept at 10.0.0.2:5");
        assert_eq!(names[4], "waiting for accept at 1 more");
        assert_eq!(charts[0].lines[4].values, [Some(1.0), Some(1.0)]);
    }
}
