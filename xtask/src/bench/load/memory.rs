//! User memory of an idle connection: many connections that hardly ever carry a request, against few.

use anyhow::{Context as _, ensure};
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Few connections: what the process needs anyway.
const FEW: u32 = 100;
/// Many. From the issue: 15,000 on one core.
const MANY: u32 = 15_000;
/// Requests per second meanwhile, so that every connection is opened and carries one or two.
const RATE: f64 = 5_000.0;
/// Time for every connection to be used. A guess: at the rate above each carries more than one request.
const SECONDS: u64 = 8;

/// Measures, and says it in a line. The server is of another process, whose memory does not count.
pub fn measure(engine: &Path, port: u16) -> anyhow::Result<String> {
    let few = anonymous_kib(engine, port, FEW)?;
    let many = anonymous_kib(engine, port, MANY)?;
    let each_bytes = many.saturating_sub(few) as f64 * 1024.0 / f64::from(MANY - FEW);
    Ok(format!(
        "\nMemory: {MANY} connections on one thread use {many} KiB of anonymous memory, {FEW} use {few} KiB: \
         {each_bytes:.0} bytes for each idle HTTP/1.1 connection (bar: 4096).\n"
    ))
}

fn anonymous_kib(engine: &Path, port: u16, connections: u32) -> anyhow::Result<u64> {
    let fields = json!({ "connections": connections, "rate": format!("{RATE}/s"), "duration": format!("{SECONDS}s") });
    let url = format!("http://127.0.0.1:{port}/");
    let output = Command::new(engine).args([&url, &fields.to_string()]).output().context("cannot start the engine")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| said.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u64>().ok());
    let opened = value("connections_opened ").unwrap_or_default();
    ensure!(opened >= u64::from(connections), "only {opened} of {connections} connections were opened:\n{said}");
    value("anon_kib ").context("the engine does not tell its memory")
}
