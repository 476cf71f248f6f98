//! A load from the command line, without the rest of prony: what the benchmark measures the engine with.
//!
//! `load URL CONNECTIONS SECONDS [RATE constant|poisson]`, one thread. Prints `key value` lines.

use prony_load::run;
use prony_model::{Arrivals, LoadPlan, Nanos, Rate};
use std::io::Write as _;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, connections, seconds, open @ ..] = args.as_slice() else {
        return Err("usage: load URL CONNECTIONS SECONDS [RATE constant|poisson]".into());
    };
    let (rate, arrivals) = match open {
        [rate, arrivals] if arrivals == "constant" => (Some(rate.parse::<Rate>()?), Arrivals::Constant),
        [rate, ..] => (Some(rate.parse::<Rate>()?), Arrivals::Poisson),
        [] => (None, Arrivals::Poisson),
    };
    let plan = LoadPlan {
        connections: connections.parse()?,
        threads: 1,
        rate,
        arrivals,
        warmup: Nanos(0),
        duration: Nanos::from_secs_f64(seconds.parse()?),
        ..LoadPlan::to(url)
    };
    let result = run(&plan, &AtomicBool::new(false), &|_| {})?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "responses {}", result.responses_total)?;
    writeln!(out, "completed_per_s {:.0}", result.completed_per_s)?;
    let cpu_us = result.generator_cpu_us_per_request().ok_or("no request was completed")?;
    writeln!(out, "cpu_us_per_request {cpu_us:.3}")?;
    writeln!(out, "p50_us {:.1}", result.latency.p50_us)?;
    writeln!(out, "p99_us {:.1}", result.latency.p99_us)?;
    writeln!(out, "lag_p50_us {:.1}", result.schedule_lag.p50_us)?;
    writeln!(out, "lag_p99_us {:.1}", result.schedule_lag.p99_us)?;
    writeln!(out, "errors {}", result.errors.total())?;
    writeln!(out, "in_flight_mean {:.2}", result.in_flight_mean)?;
    for gate in result.gates.iter().filter(|g| !g.held) {
        writeln!(out, "gate {}: {}", gate.name, gate.detail)?;
    }
    Ok(())
}
