//! The result of `prony network` for a terminal and for a page of documents.
//!
//! Nothing is judged here. Invariant: every figure stands beside who measured it, and both forms show the same tables.

use crate::markdown::{escape, section as md_section, table as md_table};
use crate::number::{self, NONE};
use crate::origin::Origin;
use crate::text::{Style, section, table, wrap};
use prony_model::Nanos;
use prony_model::network::{CpuCost, Leg, NetworkReport, PacketsSeen, RoundTrip, StreamSeen};
use std::collections::BTreeSet;

/// What every reader of the figures should know.
const TO_KNOW: &str = "CPU times hold what else ran on the machine meanwhile. Softirq is time in soft interrupts, where the kernel handles \
                       packets; CPU is all time that was not idle.";

/// A table of the result.
struct Sheet {
    title: String,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// As on the terminal.
pub fn text(report: &NetworkReport, style: Style) -> String {
    let mut out = style.bold(wrap("", &title(report)).trim_end());
    out.push('\n');
    out.push_str(&roles(report).map(|roles| wrap("  ", &roles)).unwrap_or_default());
    for sheet in sheets(report) {
        let head = sheet.head.iter().map(|word| (*word).to_string()).collect();
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(sheet.rows).collect();
        out.push_str(&table(&sheet.title, &rows, style));
    }
    let gaps: String = report.gaps.iter().map(|gap| wrap("  - ", &gap.to_string())).collect();
    out.push_str(&section("Not measured", &gaps, style));
    out.push_str(&section("To know", &wrap("  ", TO_KNOW), style));
    out
}

/// For a page of documents.
pub fn markdown(report: &NetworkReport, origin: &Origin) -> String {
    let mut out = format!("{}# Network of {}\n\n{}\n\n", origin.mark(), escape(&report.of), escape(&title(report)));
    if let Some(roles) = roles(report) {
        out.push_str(&format!("{}\n\n", escape(&roles)));
    }
    for sheet in sheets(report) {
        out.push_str(&md_section(&sheet.title, &md_table(&sheet.head, &sheet.rows)));
    }
    let gaps: String = report.gaps.iter().map(|gap| format!("- {}\n", escape(&gap.to_string()))).collect();
    out.push_str(&md_section("Not measured", &gaps));
    out.push_str(&md_section("To know", TO_KNOW));
    out.push_str(&origin.section(""));
    out
}

/// What links were told to do and what is measured of it, a line each.
pub fn links(legs: &[Leg]) -> Vec<String> {
    legs.iter().map(link).collect()
}

fn title(report: &NetworkReport) -> String {
    let ways = if report.legs.len() == 1 { "1 way".to_string() } else { format!("{} ways", report.legs.len()) };
    format!("Network of {}: {ways}, each measurement {}", report.of, seconds(report.each))
}

fn seconds(time: Nanos) -> String {
    number::micros(time.as_us_f64())
}

/// Who may run where.
fn roles(report: &NetworkReport) -> Option<String> {
    let roles: Vec<String> = report.cpus.iter().map(|(host, cpus)| format!("{host} on {cpus}")).collect();
    (!roles.is_empty()).then(|| format!("CPUs: {}", roles.join(", ")))
}

fn sheets(report: &NetworkReport) -> Vec<Sheet> {
    let legs = &report.legs;
    let streams = |leg: &Leg| {
        let one = |arrow: &str, seen: &Option<StreamSeen>| seen.as_ref().map(|seen| stream(leg, arrow, seen));
        [one("there", &leg.stream_there), one("back", &leg.stream_back)].into_iter().flatten().collect::<Vec<_>>()
    };
    let packets = |leg: &Leg| leg.packets.iter().map(|seen| datagrams(leg, seen)).collect::<Vec<_>>();
    let sheets = [
        Sheet {
            title: "Round trip of probes".to_string()
                + &by(legs.iter().filter_map(|l| Some(&l.round_trip.as_ref()?.by))),
            head: vec!["way", "set", "p50", "p90", "p99", "p50 there, back", "lost there, back", "overtaken"],
            rows: legs.iter().filter_map(|leg| leg.round_trip.as_ref().map(|seen| probes(leg, seen))).collect(),
        },
        Sheet {
            title: "One TCP connection".to_string()
                + &by(legs.iter().filter_map(|l| Some(&l.stream_there.as_ref()?.by))),
            head: vec![
                "way",
                "direction",
                "set",
                "bandwidth",
                "sent again/s",
                "softirq/Gbit",
                "CPU/Gbit",
                "softirq by CPU",
            ],
            rows: legs.iter().flat_map(streams).collect(),
        },
        Sheet {
            title: "UDP datagrams".to_string() + &by(legs.iter().flat_map(|l| l.packets.iter().map(|p| &p.by))),
            head: vec!["way", "payload", "sent/s", "received/s", "softirq/packet", "CPU/packet", "softirq by CPU"],
            rows: legs.iter().flat_map(packets).collect(),
        },
    ];
    sheets.into_iter().filter(|sheet| !sheet.rows.is_empty()).collect()
}

/// Who measured: `, by iperf3 3.12`.
fn by<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: BTreeSet<&str> = names.map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { String::new() } else { format!(", by {}", names.join(" and ")) }
}

/// Hosts of a path; of a layer, which joins the same two hosts each time, its name.
fn way(leg: &Leg) -> String {
    match leg.layer.as_str() {
        "path" => format!("{} to {}", leg.from, leg.to),
        "loopback" => format!("loopback of {}", leg.from),
        layer => layer.to_string(),
    }
}

fn probes(leg: &Leg, seen: &RoundTrip) -> Vec<String> {
    let micros = |value: Option<f64>| value.map_or(NONE.to_string(), number::micros);
    let share = |value: f64| if value == 0.0 { "0 %".to_string() } else { number::percent(value) };
    let both = |there: String, back: String| format!("{there}, {back}");
    let overtaken = match (seen.overtaken_there, seen.overtaken_back) {
        (0.0, 0.0) => String::new(),
        (there, back) => both(share(there), share(back)),
    };
    let mut row = vec![way(leg), set(leg)];
    row.extend([seen.p50_us, seen.p90_us, seen.p99_us].map(micros));
    row.push(both(micros(seen.there_p50_us), micros(seen.back_p50_us)));
    row.push(both(share(seen.lost_there), share(seen.lost_back)));
    row.push(overtaken);
    row
}

fn stream(leg: &Leg, direction: &str, seen: &StreamSeen) -> Vec<String> {
    let set = if direction == "there" { &leg.set_there } else { &leg.set_back };
    vec![
        way(leg),
        direction.to_string(),
        set.clone(),
        number::bit_rate(seen.bits_per_s),
        seen.retransmits_per_s.map_or(NONE.to_string(), number::rate),
        per(seen.cost.softirq_ms_per_gbit, 1e3),
        per(seen.cost.busy_ms_per_gbit, 1e3),
        by_cpu(&seen.cost),
    ]
}

fn datagrams(leg: &Leg, seen: &PacketsSeen) -> Vec<String> {
    vec![
        way(leg),
        format!("{} B", seen.payload_bytes),
        number::rate(seen.sent_per_s),
        number::rate(seen.received_per_s),
        per(seen.cost.softirq_us_per_packet, 1.0),
        per(seen.cost.busy_us_per_packet, 1.0),
        by_cpu(&seen.cost),
    ]
}

fn per(value: Option<f64>, us: f64) -> String {
    value.map_or(NONE.to_string(), |value| number::micros(value * us))
}

/// `0: 12 %, 1: 3 %`.
fn by_cpu(cost: &CpuCost) -> String {
    let mut shares: Vec<(u32, &f64)> =
        cost.softirq_share.iter().filter_map(|(cpu, share)| Some((cpu.parse().ok()?, share))).collect();
    shares.sort_by_key(|(cpu, _)| *cpu);
    shares.iter().map(|(cpu, share)| format!("{cpu}: {:.0} %", *share * 100.0)).collect::<Vec<_>>().join(", ")
}

fn set(leg: &Leg) -> String {
    match (leg.set_there.as_str(), leg.set_back.as_str()) {
        ("", "") => String::new(),
        (there, back) if there == back => format!("{there} each way"),
        (there, "") => format!("there {there}"),
        ("", back) => format!("back {back}"),
        (there, back) => format!("there {there}, back {back}"),
    }
}

fn link(leg: &Leg) -> String {
    let mut seen = Vec::new();
    if let Some(probes) = &leg.round_trip {
        let times = probes.there_p50_us.zip(probes.back_p50_us);
        let spread = probes.there_spread_us.zip(probes.back_spread_us);
        let spread =
            spread.map(|(there, back)| format!(" (5 to 95 %: {}, {})", number::micros(there), number::micros(back)));
        seen.extend(times.map(|(there, back)| {
            let spread = spread.unwrap_or_default();
            format!("{} there and {} back{spread}", number::micros(there), number::micros(back))
        }));
        let (there, back) = (number::percent(probes.lost_there), number::percent(probes.lost_back));
        seen.push(format!("{there} lost there and {back} back of {} probes", number::count(probes.sent)));
        let (there, back) = (probes.overtaken_there, probes.overtaken_back);
        if there > 0.0 || back > 0.0 {
            seen.push(format!("{} overtaken there and {} back", number::percent(there), number::percent(back)));
        }
    }
    for (direction, stream) in [("there", &leg.stream_there), ("back", &leg.stream_back)] {
        seen.extend(stream.as_ref().map(|stream| format!("{} {direction}", number::bit_rate(stream.bits_per_s))));
    }
    format!("{} to {}: set {}; measured {}", leg.from, leg.to, set(leg), seen.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use prony_model::Gap;

    fn report() -> NetworkReport {
        let cost = CpuCost {
            softirq_ms_per_gbit: Some(12.5),
            busy_ms_per_gbit: Some(80.0),
            softirq_us_per_packet: Some(0.4),
            busy_us_per_packet: None,
            softirq_share: [("1".to_string(), 0.03), ("0".to_string(), 0.124)].into(),
        };
        let stream = StreamSeen {
            by: "iperf3 3.12".into(),
            bits_per_s: 19.3e6,
            retransmits_per_s: Some(2.5),
            cost: cost.clone(),
        };
        let leg = Leg {
            layer: "path".into(),
            from: "client".into(),
            to: "lb".into(),
            set_there: "delay 10ms".into(),
            set_back: "rate 20mbit, delay 10ms".into(),
            stream_there: Some(stream.clone()),
            stream_back: Some(stream),
            packets: vec![PacketsSeen {
                by: "prony 0.1.0".into(),
                payload_bytes: 64,
                sent_per_s: 400_000.0,
                received_per_s: 390_000.0,
                cost,
            }],
            round_trip: Some(RoundTrip {
                by: "prony 0.1.0".into(),
                sent: 1000,
                lost_there: 0.011,
                p50_us: Some(20_100.0),
                p90_us: Some(20_200.0),
                p99_us: Some(21_000.0),
                there_p50_us: Some(10_050.0),
                back_p50_us: Some(10_040.0),
                there_spread_us: Some(120.0),
                back_spread_us: Some(110.0),
                ..RoundTrip::default()
            }),
        };
        NetworkReport {
            schema: prony_model::network::SCHEMA.into(),
            of: "lab".into(),
            each: Nanos::from_millis(2000),
            cpus: [("client".to_string(), "1".to_string()), ("lb".to_string(), "0".to_string())].into(),
            legs: vec![leg],
            gaps: vec![Gap::new("network: stream", "lb to s1", "nothing came")],
        }
    }

    #[test]
    fn figures_stand_beside_who_measured_them() {
        expect![[r#"
            Network of lab: 1 way, each measurement 2.00 s
              CPUs: client on 1, lb on 0

            Round trip of probes, by prony 0.1.0
                       way                                             set      p50      p90      p99   p50 there, back  lost there, back
              client to lb  there delay 10ms, back rate 20mbit, delay 10ms  20.1 ms  20.2 ms  21.0 ms  10.1 ms, 10.0 ms        1.1 %, 0 %

            One TCP connection, by iperf3 3.12
                       way  direction                      set    bandwidth  sent again/s  softirq/Gbit  CPU/Gbit   softirq by CPU
              client to lb      there               delay 10ms  19.3 Mbit/s           2.5       12.5 ms   80.0 ms  0: 12 %, 1: 3 %
              client to lb       back  rate 20mbit, delay 10ms  19.3 Mbit/s           2.5       12.5 ms   80.0 ms  0: 12 %, 1: 3 %

            UDP datagrams, by prony 0.1.0
                       way  payload   sent/s  received/s  softirq/packet  CPU/packet   softirq by CPU
              client to lb     64 B  400,000     390,000         0.40 us           –  0: 12 %, 1: 3 %

            Not measured
              - network: stream of lb to s1: nothing came

            To know
              CPU times hold what else ran on the machine meanwhile. Softirq is time in soft interrupts, where
              the kernel handles packets; CPU is all time that was not idle.
        "#]].assert_eq(&text(&report(), Style::Plain));
    }

    #[test]
    fn a_page_has_the_same_tables() {
        let origin = Origin { command: "prony network lab".into(), ..Origin::default() };
        let page = markdown(&report(), &origin);
        assert!(
            page.contains("\n# Network of lab\n")
                && page.contains("with `prony network lab`, on")
                && page.contains("| 19.3 Mbit/s |"),
            "{page}"
        );
        assert_eq!(page.matches("\n## ").count(), 6, "{page}");
    }

    #[test]
    fn what_was_set_stands_beside_what_is_measured() {
        expect!["client to lb: set there delay 10ms, back rate 20mbit, delay 10ms; measured 10.1 ms there and 10.0 ms back (5 to 95 %: 120 us, 110 us), 1.1 % lost there and 0 % back of 1,000 probes, 19.3 Mbit/s there, 19.3 Mbit/s back"].assert_eq(&links(&report().legs).join("\n"));
    }
}
