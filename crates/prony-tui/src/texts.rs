//! Every word that a screen or a plain line shows, so that another language is another file.
//!
//! No layout and no styles. Numbers are written as in the reports (`prony_report::number`).

use prony_model::load::Protocol;
use prony_model::profile::Profile;
use prony_model::{Arrivals, ErrorCounts, LoadPlan, Nanos};
use prony_report::number;

pub(crate) const COMMAND: &str = "prony load";
pub(crate) const WARMING_UP: &str = "warming up";
pub(crate) const MEASURING: &str = "measuring";
pub(crate) const ENDING: &str = "waiting for answers";
pub(crate) const STOPPING: &str = "stopping";
pub(crate) const PER_SECOND: &str = "per second";
pub(crate) const ASKED: &str = "asked";
pub(crate) const SENT: &str = "sent";
pub(crate) const DONE: &str = "done";
pub(crate) const FAILED: &str = "errors";
pub(crate) const LATENCY: &str = "latency";
pub(crate) const LAST_SECOND: &str = "last second";
pub(crate) const SINCE_START: &str = "since start";
/// Names of percentiles with their quantile; 1 is the largest value.
pub(crate) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
pub(crate) const DISTRIBUTION: &str = "answers by latency, last second";
pub(crate) const GENERATOR: &str = "generator";
pub(crate) const SCHEDULE: &str = "schedule";
pub(crate) const CONNECTIONS: &str = "connections";
pub(crate) const ERRORS: &str = "errors";
pub(crate) const HELP: &str = "q or Ctrl-C: stop, and print what was measured";
pub(crate) const HELP_RUN: &str = "q or Ctrl-C: stop; what was changed is put back";
pub(crate) const STOPPING_RUN: &str = "stopping: this step ends, and what was changed is put back";
pub(crate) const TRIALS_OVER: &str = "trials, the newest first";

/// Tenths below a second too: a unit that changes at the very end catches the eye.
pub(crate) fn time_left(left: Nanos) -> String {
    let s = left.as_secs_f64();
    let left = match s {
        s if s < 1.0 => format!("{s:.1} s"),
        // Seconds that nobody reads would only push the line.
        s if s >= 119.5 => format!("{:.0} min", s / 60.0),
        _ => duration(left),
    };
    format!("{left} left")
}

/// Whole seconds: it is an estimate.
pub(crate) fn about_time_left(left: Nanos) -> String {
    format!("~{}", time_left(Nanos(left.as_secs_f64().ceil() as u64 * 1_000_000_000)))
}

pub(crate) fn done_over_time(seconds: usize, largest: f64) -> String {
    if seconds == 0 {
        return "done per second".to_string();
    }
    format!("done per second, last {seconds} s, highest {}", number::rate(largest))
}

pub(crate) fn of_trials(trials: usize, largest: &str) -> String {
    format!("of the last {trials} trials, highest {largest}")
}

pub(crate) fn connections(open: u64, in_flight: u64) -> String {
    format!("{} open, {} in flight", number::count(open), number::count(in_flight))
}

pub(crate) fn thread(index: usize) -> String {
    format!("thread {}", index + 1)
}

pub(crate) fn busiest(share: f64) -> String {
    format!("busiest thread {}", whole_percent(share))
}

pub(crate) fn generator_is_the_limit(busiest: f64) -> String {
    format!("the generator is the limit: a thread uses {} of its CPU", whole_percent(busiest))
}

pub(crate) fn lag(us_p99: f64) -> String {
    format!("lag p99 {}", number::micros(us_p99))
}

pub(crate) fn waiting(requests: u64) -> String {
    // Two digits: it is an estimate, and more would flicker.
    let ten = 10u64.pow(requests.checked_ilog10().unwrap_or(0).saturating_sub(1));
    format!("about {} wait for a free connection", number::count(requests / ten * ten))
}

/// Without digits that flicker: `97 %`.
pub(crate) fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The kinds of errors that there were, with their counts.
pub(crate) fn error_kinds(errors: &ErrorCounts) -> Vec<(&'static str, u64)> {
    let ErrorCounts {
        connect,
        write,
        read,
        timeout,
        protocol,
        status,
        no_local_port,
        no_descriptor,
        tls,
        deadline,
        check,
    } = *errors;
    let kinds = [
        ("connect", connect),
        ("TLS", tls),
        ("write", write),
        ("read", read),
        ("timeout", timeout),
        ("deadline passed", deadline),
        ("no valid answer", protocol),
        ("status 400 and above", status),
        ("check", check),
        ("no local port", no_local_port),
        ("no file descriptor", no_descriptor),
    ];
    kinds.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// `12 s`, `3.8 s`, `500 ms`, `12 min 30 s`.
pub(crate) fn duration(time: Nanos) -> String {
    let s = time.as_secs_f64();
    if s >= 119.5 {
        let whole = s.round() as u64;
        let rest = if whole.is_multiple_of(60) { String::new() } else { format!(" {} s", whole % 60) };
        return format!("{} min{rest}", whole / 60);
    }
    match s {
        s if s >= 9.95 || (s >= 1.0 && s.fract() == 0.0) => format!("{s:.0} s"),
        s if s >= 1.0 || s == 0.0 => format!("{s:.1} s"),
        s => format!("{:.0} ms", s * 1e3),
    }
}

/// What the plan does, in a line of words.
pub(crate) fn plan(plan: &LoadPlan) -> String {
    let mut words = vec![arrivals(plan), plural(u64::from(plan.connections), "connection")];
    match (plan.protocol, plan.depth) {
        (Protocol::Http1, depth) if depth > 1 => words.push(format!("{depth} requests each at once")),
        (Protocol::Http1, _) => {}
        (Protocol::Http2, depth) if depth > 1 => words.push(format!("HTTP/2 with {depth} streams each")),
        (Protocol::Http2, _) => words.push("HTTP/2".to_string()),
    }
    match (plan.keepalive, plan.requests_per_connection) {
        (false, _) => words.push("a connection per request".to_string()),
        (true, Some(requests)) => words.push(format!("{} per connection", plural(u64::from(requests), "request"))),
        (true, None) => {}
    }
    match plan.script.as_ref().map(|script| script.steps.len() as u64) {
        Some(steps @ 1..) => words.push(format!("a scenario of {}", plural(steps, "step"))),
        Some(0) => words.push("rows from a feed".to_string()),
        None if matches!(plan.profile, Some(Profile::Times(_))) => {}
        None if plan.requests.len() > 1 => {
            words.push(format!("{} kinds of request", number::count(plan.requests.len() as u64)))
        }
        None => {}
    }
    match plan.requests_max {
        Some(requests) => words.push(format!("{}, {} at most", plural(requests, "request"), duration(plan.duration))),
        None => words.push(duration(plan.duration)),
    }
    if plan.warmup.0 > 0 {
        words.push(format!("after {} of warm-up", duration(plan.warmup)));
    }
    words.join(", ")
}

fn arrivals(plan: &LoadPlan) -> String {
    let spacing = match plan.arrivals {
        Arrivals::Constant => "evenly spaced",
        Arrivals::Poisson => "Poisson",
    };
    match (&plan.profile, plan.rate) {
        (Some(Profile::Times(times)), _) => format!("open loop, replay of {}", plural(times.len() as u64, "request")),
        (Some(Profile::Points(points) | Profile::Cycle { points, .. }), _) => {
            let rates = points.iter().map(|point| point.rate.0);
            let (least, most) = rates.fold((f64::INFINITY, 0.0), |(a, b), rate| (rate.min(a), rate.max(b)));
            format!("open loop, {} to {}/s {spacing}", number::rate(least), number::rate(most))
        }
        (None, Some(rate)) => format!("open loop, {}/s {spacing}", number::rate(rate.0)),
        (None, None) => "closed loop".to_string(),
    }
}

fn plural(count: u64, one: &str) -> String {
    format!("{} {one}{}", number::count(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use prony_model::Rate;
    use prony_model::profile::ProfilePoint;
    use prony_model::script::Script;

    fn check(change: impl FnOnce(&mut LoadPlan), want: Expect) {
        let mut to = LoadPlan::to("http://127.0.0.1/");
        change(&mut to);
        want.assert_eq(&plan(&to));
    }

    #[test]
    fn a_plan_reads_as_words() {
        check(|_| {}, expect!["closed loop, 1 connection, 10 s, after 1 s of warm-up"]);
        check(
            |p| {
                (p.rate, p.connections, p.warmup) = (Some(Rate(5000.0)), 128, Nanos(0));
                p.requests_max = Some(1);
            },
            expect!["open loop, 5,000/s Poisson, 128 connections, 1 request, 10 s at most"],
        );
        check(
            |p| {
                (p.protocol, p.depth, p.script) = (Protocol::Http2, 16, Some(Script::default()));
                (p.warmup, p.duration) = (Nanos::from_millis(500), Nanos::from_millis(750_000));
            },
            expect![
                "closed loop, 1 connection, HTTP/2 with 16 streams each, rows from a feed, 12 min 30 s, after 500 ms of warm-up"
            ],
        );
        check(
            |p| {
                let at = |s: u64, rate| ProfilePoint { at: Nanos::from_millis(s * 1000), rate: Rate(rate) };
                p.profile = Some(Profile::Points(vec![at(0, 0.0), at(10, 5000.0)]));
                (p.arrivals, p.keepalive) = (Arrivals::Constant, false);
            },
            expect![
                "open loop, 0 to 5,000/s evenly spaced, 1 connection, a connection per request, 10 s, after 1 s of warm-up"
            ],
        );
    }

    #[test]
    fn time_left_fits_beside_a_bar() {
        let shown = [400, 3849, 61_000, 119_400, 3_598_000].map(|ms| time_left(Nanos::from_millis(ms)));
        assert_eq!(shown, ["0.4 s left", "3.8 s left", "61 s left", "119 s left", "60 min left"]);
        assert_eq!(about_time_left(Nanos::from_millis(11_200)), "~12 s left");
    }

    #[test]
    fn estimates_have_two_digits() {
        let shown = [1, 99, 4321, 543_582].map(|requests| waiting(requests).split(' ').nth(1).map(str::to_string));
        assert_eq!(shown.map(Option::unwrap), ["1", "99", "4,300", "540,000"]);
    }

    #[test]
    fn a_feed_alone_is_no_scenario() {
        check(
            |p| (p.script, p.warmup) = (Some(Script::default()), Nanos(0)),
            expect!["closed loop, 1 connection, rows from a feed, 10 s"],
        );
    }

    #[test]
    fn durations_are_short() {
        let shown = [0, 40, 999, 1000, 3849, 9960, 60_000, 119_400, 119_600, 754_300]
            .map(|ms| duration(Nanos::from_millis(ms)));
        assert_eq!(
            shown,
            ["0.0 s", "40 ms", "999 ms", "1 s", "3.8 s", "10 s", "60 s", "119 s", "2 min", "12 min 34 s"]
        );
    }

    #[test]
    fn no_kind_of_error_is_forgotten() {
        let all = ErrorCounts {
            connect: 1,
            write: 2,
            read: 3,
            timeout: 4,
            protocol: 5,
            status: 6,
            no_local_port: 7,
            no_descriptor: 8,
            tls: 9,
            deadline: 10,
            check: 11,
        };
        assert_eq!(error_kinds(&all).iter().map(|(_, count)| count).sum::<u64>(), all.total());
        assert_eq!(error_kinds(&ErrorCounts::default()), []);
    }
}
