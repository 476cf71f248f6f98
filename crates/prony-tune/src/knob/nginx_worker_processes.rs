//! `nginx.worker_processes`: how many workers share the load.

use super::{Disruption, Effect, KnobInfo, Plan, cpus_online, expect_read, nginx, nginx_plan, whole};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::edit::Edits;
use crate::nginx::master::{Master, wait};
use crate::nginx::tree::Config;
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

/// Upper bound of the value: nginx's own limit is 1024 processes (NGX_MAX_PROCESSES in src/os/unix/ngx_process.h).
const WORKERS_MAX: u64 = 1000;
/// How long all workers may take to appear after the first one did. A guess.
const ALL_APPEAR_MAX: Duration = Duration::from_secs(5);

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    Ok(present(&nginx(ctx)?.1))
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    if value != "auto" {
        whole(KNOB.name, value, 1..=WORKERS_MAX)?;
    }
    let (master, config) = nginx(ctx)?;
    let edits = edits(&config, value);
    nginx_plan(KNOB.name, value, present(&config), (master, config), &edits)
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

fn present(config: &Config) -> String {
    let set = config.root.iter().rfind(|d| d.name == "worker_processes").and_then(|d| d.args.first());
    set.cloned().unwrap_or("1".to_string())
}

fn edits(config: &Config, value: &str) -> Edits {
    let mut edits = Edits::default();
    let there = config.root.iter().rfind(|d| d.name == "worker_processes");
    match (there, config.root.iter().find(|d| d.source == 0)) {
        (Some(there), _) => edits.set_args(there, value),
        (None, Some(first)) => edits.insert_before(config, first, &format!("worker_processes {value};")),
        (None, None) => {}
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(edits(&config, "2").rewrite(&config)[0].new, want.as_bytes());
        }
    }
}
