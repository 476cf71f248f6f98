//! A load from the command line, without the rest of prony: what the benchmark measures the engine with.
//!
//! `load URL [JSON]`: one thread, one connection, no warm-up, and whatever fields of a `LoadPlan` the JSON object names.
//! Prints `key value` lines.

use prony_load::{Listener, run};
use prony_model::{LoadPlan, Nanos};
use prony_stats::histogram::Histogram;
use serde_json::Value;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (url, fields) = match args.as_slice() {
        [url] => (url, Value::Object(Default::default())),
        [url, json] => (url, serde_json::from_str(json)?),
        _ => return Err("usage: load URL [JSON]".into()),
    };
    let plan = LoadPlan { threads: 1, warmup: Nanos(0), ..LoadPlan::to(url) };
    let mut whole = serde_json::to_value(&plan)?;
    for (name, value) in fields.as_object().ok_or("the second argument is no JSON object")? {
        whole[name] = value.clone();
    }
    let plan: LoadPlan = serde_json::from_value(whole)?;
    let anon_kib = AtomicU64::new(0);
    let look = |_| {
        anon_kib.fetch_max(anonymous_kib().unwrap_or_default(), Ordering::Relaxed);
    };
    let listener = Listener { every: Duration::from_millis(250), tell: &look };
    let result = run(&plan, &AtomicBool::new(false), Some(listener))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "responses {}", result.responses_total)?;
    writeln!(out, "completed_per_s {:.0}", result.completed_per_s)?;
    if let Some(cpu_us) = result.generator_cpu_us_per_request() {
        writeln!(out, "cpu_us_per_request {cpu_us:.3}")?;
    }
    if let Some(thread) = result.threads.first() {
        writeln!(out, "busy_share {:.3}", thread.busy_share())?;
    }
    writeln!(out, "transport {:?}", result.transport)?;
    writeln!(out, "p50_us {:.1}", result.latency.p50_us)?;
    writeln!(out, "p99_us {:.1}", result.latency.p99_us)?;
    writeln!(out, "lag_p50_us {:.1}", result.schedule_lag.p50_us)?;
    writeln!(out, "lag_p99_us {:.1}", result.schedule_lag.p99_us)?;
    writeln!(out, "lag_p999_us {:.1}", result.schedule_lag.p999_us)?;
    writeln!(out, "lag_p9999_us {:.1}", result.schedule_lag.p9999_us)?;
    let mut free = Histogram::from_hdr_v2(&result.schedule_lag.hdr_v2)?;
    free.subtract(&Histogram::from_hdr_v2(&result.connection_wait.hdr_v2)?);
    writeln!(out, "lag_free_p99_us {:.1}", free.quantile_us(0.99))?;
    writeln!(out, "errors {}", result.errors.total())?;
    writeln!(out, "connections_opened {}", result.connections_opened)?;
    writeln!(out, "in_flight_mean {:.2}", result.in_flight_mean)?;
    writeln!(out, "anon_kib {}", anon_kib.into_inner())?;
    for gate in result.gates.iter().filter(|g| !g.held) {
        writeln!(out, "gate {}: {}", gate.name, gate.detail)?;
    }
    Ok(())
}

/// Anonymous memory of this process (`/proc/self/status`, RssAnon).
fn anonymous_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?.split_whitespace().next()?.parse().ok()
}
