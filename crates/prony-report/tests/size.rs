//! The page of a long run of many hosts stays small enough to open and to send.

#![allow(clippy::unwrap_used, reason = "a test may stop at what cannot be")]

use prony_model::{Run, SeriesKey, Stack, metric};

const HOSTS: u64 = 10;
const SECONDS: u64 = 3_600;
/// A guess: what a mail still takes and a browser still opens at once.
const BYTES_MAX: usize = 8_000_000;

fn stack() -> Stack {
    let hosts = (0..HOSTS).map(|i| match i {
        9 => format!("[host.h{i}]\nrole = \"server\"\n"),
        _ => format!("[host.h{i}]\nrole = \"proxy\"\ncalls = [\"h{}\"]\n", i + 1),
    });
    let head = "name = \"chain\"\nentry = \"http://10.0.0.2/\"\n".to_string();
    Stack::parse("size.toml", &hosts.fold(head, |text, host| text + &host)).unwrap()
}

#[test]
fn ten_hosts_for_an_hour_are_at_most_eight_megabytes() {
    let mut run = Run { stack: stack(), ..Run::default() };
    // Any numbers that never repeat, so that every point costs all of its digits.
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / 16.0
    };
    for host in 0..HOSTS {
        for metric in metric::ALL {
            let items: &[&str] = if metric.name.starts_with("cpu.") { &["0", "1", "2", "3"] } else { &["0"] };
            for item in items {
                let key = SeriesKey { host: format!("h{host}"), metric: metric.name.into(), item: (*item).into() };
                let mut sum = 0.0;
                let points = (0..SECONDS).map(|second| {
                    sum += random();
                    (second * 1_000_000_000, sum)
                });
                run.series.append(key, points.collect::<Vec<_>>());
            }
        }
    }
    let bytes = prony_report::html(&run).len();
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    assert!(bytes > BYTES_MAX / 8, "{bytes} bytes are too few: the charts are missing");
}
