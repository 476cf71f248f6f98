//! `nginx.worker_connections`: how many connections a worker may hold, to clients and to servers together.

use super::nginx_directive::{Block, Line};
use super::{Disruption, Effect, KnobInfo, Plan, expect_read, nginx, nginx_plan, whole};
use crate::Context;
use crate::error::TuneError;
use prony_model::metric::ERROR_LOG_NO_WORKER_CONNECTIONS;
use prony_nginx::Config;
use std::path::Path;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "nginx.worker_connections",
    value: "a number, like `4096`",
    disruption: Disruption::Reload,
    risk: "Each connection takes a file descriptor, and each slot about 230 bytes in every worker, used or not.",
    effect: Effect { metric: &ERROR_LOG_NO_WORKER_CONNECTIONS, how: "stops growing" },
    doc: "Connections to clients and to servers both count, so a proxy needs two for a request in flight. A number above the \
          file descriptors that a worker may have is refused: nginx would take it and fail at the descriptors instead.",
    read,
    plan,
    check,
};

/// Without it: DEFAULT_CONNECTIONS in src/event/ngx_event.c.
const LINE: Line = Line { name: "worker_connections", block: Block::Events, unset: "512" };
/// Most that makes sense: descriptors of a process stay below it (`fs.nr_open`, 2^20 unless raised).
const CONNECTIONS_MAX: u64 = 1 << 20;

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    Ok(LINE.present(&nginx(ctx)?.1))
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    let number = whole(KNOB.name, value, 1..=CONNECTIONS_MAX)?;
    let (master, config) = nginx(ctx)?;
    if let Some(most) = descriptors(&config, &ctx.roots.proc, master.pid).filter(|most| number > *most) {
        let want = format!("at most {most}, the file descriptors of a worker; raise worker_rlimit_nofile first");
        return Err(TuneError::value(KNOB.name, value, want));
    }
    let edits = LINE.edits(&config, value);
    nginx_plan(KNOB.name, value, LINE.present(&config), (master, config), &edits)
}

fn check(ctx: &Context<'_>, _: &str, value: &str) -> Result<(), TuneError> {
    expect_read(KNOB.name, value, &read(ctx, "")?)
}

/// File descriptors that a worker may have: what the configuration says, or what the master hands down.
fn descriptors(config: &Config, proc: &Path, master: u32) -> Option<u64> {
    let written = config.root.iter().rfind(|d| d.name == "worker_rlimit_nofile").and_then(|d| d.args.first());
    if let Some(written) = written {
        return written.parse().ok();
    }
    let limits = std::fs::read_to_string(proc.join(master.to_string()).join("limits")).ok()?;
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    soft.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        Config::read(&file).unwrap()
    }

    #[test]
    fn sets_or_adds_the_directive() {
        let there = config("events { worker_connections  64; }\nhttp { }\n");
        assert_eq!(LINE.present(&there), "64");
        let rewritten = LINE.edits(&there, "4096").rewrite(&there);
        assert_eq!(rewritten[0].new, b"events { worker_connections  4096; }\nhttp { }\n");
        let absent = config("events {\n    multi_accept on;\n}\n");
        assert_eq!(LINE.present(&absent), "512");
        let rewritten = String::from_utf8(LINE.edits(&absent, "4096").rewrite(&absent).remove(0).new).unwrap();
        assert!(
            rewritten.contains("multi_accept on;") && rewritten.contains("worker_connections 4096;"),
            "{rewritten}"
        );
    }

    #[test]
    fn descriptors_are_those_of_the_configuration_or_of_the_master() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("7")).unwrap();
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files\n";
        std::fs::write(dir.path().join("7/limits"), limits).unwrap();
        assert_eq!(descriptors(&config("events {}\n"), dir.path(), 7), Some(1024));
        assert_eq!(descriptors(&config("worker_rlimit_nofile 9000;\nevents {}\n"), dir.path(), 7), Some(9000));
        assert_eq!(descriptors(&config("events {}\n"), dir.path(), 8), None, "what cannot be read refuses nothing");
    }
}
