//! The text block of wrk, in its layout to the column, so that scripts that read wrk's output read this.
//!
//! Layout and rounding follow wrk 4.2 (src/wrk.c `print_stats`, src/units.c `format_units`). What wrk has no place for
//! comes after its last line: other errors, and gates that did not hold.
//! Invariant: a rate that the generator limited says so on the very line that shows it.

use crate::number;
use prony_model::{Latency, LoadPlan, LoadResult};
use prony_stats::Histogram;

/// wrk's block for one load. `latency` adds the distribution, as `--latency` does.
///
/// `Req/Sec` is per thread, as in wrk; wrk samples it ten times a second, this once a second, so its spread is smaller here.
pub fn load_block(plan: &LoadPlan, result: &LoadResult, latency: bool) -> String {
    let threads = result.threads.len().max(1);
    let length = match plan.requests_max {
        Some(requests) => format!("{requests} requests"),
        None => format!("{} test", seconds(plan.duration.as_secs_f64())),
    };
    let mut out = format!("Running {length} @ {}\n", super::clean(&plan.url));
    out.push_str(&format!("  {threads} threads and {} connections\n", plan.connections));
    out.push_str(&format!("  Thread Stats{:>6}{:>11}{:>8}{:>12}\n", "Avg", "Stdev", "Max", "+/- Stdev"));
    out.push_str(&latency_line(result));
    out.push_str(&rate_line(result, threads));
    if latency && result.latency.count > 0 {
        out.push_str("  Latency Distribution\n");
        out.push_str(&distribution(&result.latency));
        if plan.is_open_loop() {
            out.push_str("  Latency Distribution, from the actual send\n");
            out.push_str(&distribution(&result.latency_actual));
        }
    }
    let read = binary(result.bytes_in as f64);
    out.push_str(&format!("  {} requests in {}, {read}B read\n", result.completed, time_us(result.duration_s * 1e6)));
    out.push_str(&error_lines(result));
    out.push_str(&totals(result));
    out.push_str(&gate_lines(result));
    out.push_str(&pause_lines(result));
    out
}

/// What the machine itself did to a load that could tell; nothing when it did nothing.
fn pause_lines(result: &LoadResult) -> String {
    let Some(pauses) = result.pauses.as_ref().filter(|pauses| pauses.count > 0) else { return String::new() };
    let of = |l: &Latency| {
        format!("p99 {}, p99.9 {}, p99.99 {}", time_us(l.p99_us), time_us(l.p999_us), time_us(l.p9999_us))
    };
    super::wrap(
        "Pauses: ",
        &format!(
            "this machine kept the generator from its CPU {} times, {} in all, {} the longest; that met {} of {} requests. Without \
             them {}; with them {}",
            number::count(pauses.count),
            time_us(pauses.total_us),
            time_us(pauses.longest_us),
            number::count(pauses.requests),
            number::count(result.latency.count),
            of(&pauses.latency_without),
            of(&result.latency),
        ),
    )
}

fn distribution(l: &Latency) -> String {
    let quantiles = [(50, l.p50_us), (75, l.p75_us), (90, l.p90_us), (99, l.p99_us)];
    quantiles.map(|(percent, us)| format!("{percent:>7}%{}\n", column(&time_us(us), 10))).concat()
}

fn latency_line(result: &LoadResult) -> String {
    let l = &result.latency;
    if l.count == 0 {
        // Nothing was measured, which is not 0.
        return format!("    {:<10}{}{}{}{:>9}\n", "Latency", column("-", 8), column("-", 10), column("-", 9), "-");
    }
    let within = Histogram::from_hdr_v2(&l.hdr_v2)
        .ok()
        .filter(|h| h.count() > 0)
        .map_or(0.0, |h| share_up_to(&h, l.mean_us + l.stdev_us) - share_up_to(&h, (l.mean_us - l.stdev_us).max(0.0)));
    stats_line("Latency", &time_us(l.mean_us), &time_us(l.stdev_us), &time_us(l.max_us), within)
}

fn rate_line(result: &LoadResult, threads: usize) -> String {
    let samples: Vec<f64> = result.per_second.iter().map(|n| *n as f64 / threads as f64).collect();
    let n = samples.len() as f64;
    if samples.is_empty() {
        // Shorter than a second: the mean over the whole time is all there is.
        let mean = result.completed_per_s / threads as f64;
        return stats_line("Req/Sec", &metric(mean), &metric(0.0), &metric(mean), 1.0);
    }
    let mean = samples.iter().sum::<f64>() / n;
    let stdev =
        if n < 2.0 { 0.0 } else { (samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt() };
    let max = samples.iter().copied().fold(0.0, f64::max);
    let within = samples.iter().filter(|x| (**x - mean).abs() <= stdev).count() as f64 / n;
    stats_line("Req/Sec", &metric(mean), &metric(stdev), &metric(max), within)
}

fn stats_line(name: &str, mean: &str, stdev: &str, max: &str, within: f64) -> String {
    format!("    {name:<10}{}{}{}{:>8.2}%\n", column(mean, 8), column(stdev, 10), column(max, 9), within * 100.0)
}

/// Share of values of at most `us`, by bisection over the quantiles; 2^-24 is finer than the two decimals printed.
fn share_up_to(histogram: &Histogram, us: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    if histogram.quantile_us(1.0) <= us {
        return 1.0;
    }
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        if histogram.quantile_us(middle) <= us { low = middle } else { high = middle }
    }
    low
}

fn error_lines(result: &LoadResult) -> String {
    let e = &result.errors;
    let mut out = String::new();
    let connect = e.connect + e.no_local_port + e.no_descriptor + e.tls;
    let read = e.read + e.protocol;
    if connect + read + e.write + e.timeout > 0 {
        out.push_str(&format!(
            "  Socket errors: connect {connect}, read {read}, write {}, timeout {}\n",
            e.write, e.timeout
        ));
    }
    if e.status > 0 {
        out.push_str(&format!("  Non-2xx or 3xx responses: {}\n", e.status));
    }
    out
}

fn totals(result: &LoadResult) -> String {
    let bytes_per_s = if result.duration_s > 0.0 { result.bytes_in as f64 / result.duration_s } else { 0.0 };
    let at_least = if result.generator_limited() { " at least (generator-limited)" } else { "" };
    format!("Requests/sec: {:>9.2}{at_least}\nTransfer/sec: {:>10}B\n", result.completed_per_s, binary(bytes_per_s))
}

fn gate_lines(result: &LoadResult) -> String {
    let e = &result.errors;
    let mut out = String::new();
    if e.total() > 0 {
        let kinds = [
            ("connect", e.connect),
            ("write", e.write),
            ("read", e.read),
            ("timeout", e.timeout),
            ("not HTTP", e.protocol),
            ("status 400 and above", e.status),
            ("no local port", e.no_local_port),
            ("no file descriptor", e.no_descriptor),
            ("TLS", e.tls),
            ("deadline passed before sending", e.deadline),
            ("answer did not pass its check", e.check),
        ];
        let seen: Vec<String> =
            kinds.iter().filter(|(_, n)| *n > 0).map(|(kind, n)| format!("{kind} {}", number::count(*n))).collect();
        out.push_str(&super::wrap(
            "Errors: ",
            &format!("{} of requests failed: {}", number::percent(result.error_share()), seen.join(", ")),
        ));
    }
    for gate in result.gates.iter().filter(|g| !g.held) {
        let rate = number::rate(result.good_per_s);
        out.push_str(&if gate.generator_limited {
            super::wrap("", &format!("at least {rate} requests/s (generator-limited: {}: {})", gate.name, gate.detail))
        } else {
            super::wrap("", &format!("not valid ({}: {})", gate.name, gate.detail))
        });
    }
    if result.interrupted {
        out.push_str("Interrupted: the figures cover the time until then.\n");
    }
    out
}

/// wrk's `print_units`: right-aligned so that the digits stand below each other whatever the length of the unit.
fn column(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).filter(char::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    format!("{text:>0$}{1}", width - pad, " ".repeat(pad))
}

/// wrk's `format_units`: the next unit from 85 % of its size on, and never the last of the list.
fn units(value: f64, scale: f64, base: &str, names: &[&str]) -> String {
    let (mut amount, mut unit) = (value, base);
    for name in &names[..names.len() - 1] {
        if amount < scale * 0.85 {
            break;
        }
        amount /= scale;
        unit = name;
    }
    format!("{amount:.2}{unit}")
}

fn time_us(us: f64) -> String {
    if us >= 1e6 { units(us / 1e6, 60.0, "s", &["m", "h"]) } else { units(us, 1000.0, "us", &["ms", "s"]) }
}

fn metric(n: f64) -> String {
    units(n, 1000.0, "", &["k", "M", "G", "T", "P"])
}

fn binary(bytes: f64) -> String {
    units(bytes, 1024.0, "", &["K", "M", "G", "T", "P"])
}

/// wrk writes the planned time in whole seconds; a part of a second is kept here.
fn seconds(s: f64) -> String {
    // A replay lasts as long as its recording, to the nanosecond, which nobody wants to read.
    let s = (s * 100.0).round() / 100.0;
    if s >= 60.0 * 0.85 && s.fract() == 0.0 { format!("{:.0}m", s / 60.0) } else { format!("{s}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let block = load_block(&LoadPlan::to("http://127.0.0.1/"), &LoadResult::default(), true);
        assert!(block.contains("\n    Latency        -         -        -          -\n"), "{block}");
        assert!(!block.contains("Latency Distribution"), "{block}");
        let replay = LoadPlan { duration: prony_model::Nanos(1_099_903_475), ..LoadPlan::to("http://127.0.0.1/") };
        assert!(load_block(&replay, &LoadResult::default(), false).starts_with("Running 1.1s test @ "));
    }

    #[test]
    fn units_round_as_in_wrk() {
        assert_eq!(
            [time_us(635.91), time_us(850.0), time_us(12_920.0), time_us(1_500_000.0)],
            ["635.91us", "0.85ms", "12.92ms", "1.50s"]
        );
        assert_eq!(time_us(900_000.0), "900.00ms");
        assert_eq!([metric(56_200.0), metric(870.0), binary(19_069_451_468.0)], ["56.20k", "0.87k", "17.76G"]);
        assert_eq!(
            [column("635.91us", 8), column("56.20k", 8), column("93.00", 8)],
            ["635.91us", " 56.20k ", " 93.00  "].map(str::to_string)
        );
        assert_eq!([seconds(30.0), seconds(120.0), seconds(1.5)], ["30s", "2m", "1.5s"]);
    }
}
