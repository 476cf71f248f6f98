//! `nginx.worker_processes`: how many workers share the load.

use super::nginx_directive::{Block, Line};
use super::{Disruption, Effect, KnobInfo, Plan, cpus_online, expect_read, nginx, nginx_plan, whole};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::master::{Master, wait};
use prony_model::metric::PROC_COUNT;
use std::time::Duration;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "nginx.worker_processes",
    value: "a number, or `auto` for one per CPU of the machine",
    disruption: Disruption::Reload,
    risk: "More workers than CPUs (or than the CPU quota) switch more and divide keepalive connections and caches among them.",
    effect: Effect { metric: &PROC_COUNT, how: "shows the workers and the master" },
    doc: "One worker uses one CPU. `auto` counts the CPUs of the machine, not those of a quota or a cpuset.",
    read,
    plan,
    check,
};

const LINE: Line = Line { name: "worker_processes", block: Block::Main, unset: "1" };
/// Upper bound of the value: nginx's own limit is 1024 processes (NGX_MAX_PROCESSES in src/os/unix/ngx_process.h).
const WORKERS_MAX: u64 = 1000;
/// How long all workers may take to appear after the first one did. A guess.
const ALL_APPEAR_MAX: Duration = Duration::from_secs(5);

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    Ok(LINE.present(&nginx(ctx)?.1))
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    if value != "auto" {
        whole(KNOB.name, value, 1..=WORKERS_MAX)?;
    }
    let (master, config) = nginx(ctx)?;
    let edits = LINE.edits(&config, value);
    nginx_plan(KNOB.name, value, LINE.present(&config), (master, config), &edits)
}

fn check(ctx: &Context<'_>, _: &str, value: &str) -> Result<(), TuneError> {
    expect_read(KNOB.name, value, &read(ctx, "")?)?;
    let wanted = match value {
        "auto" => cpus_online(&ctx.roots)?.as_slice().len(),
        number => whole(KNOB.name, number, 1..=WORKERS_MAX)? as usize,
    };
    let master = Master::find(ctx)?;
    if wait(ALL_APPEAR_MAX, || master.workers(&ctx.roots).len() == wanted) {
        return Ok(());
    }
    let seen = format!("{} worker processes", master.workers(&ctx.roots).len());
    Err(TuneError::NoEffect { knob: KNOB.name.to_string(), wanted: value.to_string(), seen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_nginx::Config;

    #[test]
    fn sets_or_adds_the_directive() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        for (text, want) in [
            ("# x\nworker_processes  auto;\nevents {}\n", "# x\nworker_processes  2;\nevents {}\n"),
            ("# x\nevents {}\n", "# x\nworker_processes 2;\nevents {}\n"),
        ] {
            std::fs::write(&file, text).unwrap();
            let config = Config::read(&file).unwrap();
            assert_eq!(LINE.edits(&config, "2").rewrite(&config)[0].new, want.as_bytes());
        }
    }
}
