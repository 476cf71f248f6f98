//! `cpu_affinity`: which CPUs the processes of the host may run on.
//!
//! Binds every thread of every process that the caller found, and what descends from them.

use super::{Disruption, Effect, KnobInfo, Plan, cpus_online};
use crate::error::TuneError;
use crate::step::{Affinity, Bound, Step};
use crate::{Context, process, sys};
use prony_model::CpuList;
use prony_model::metric::PROC_CPUS_ALLOWED;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "cpu_affinity",
    value: "a list of CPUs, like `0,2-3`",
    disruption: Disruption::Live,
    risk: "Fewer CPUs than busy threads halve the throughput; a server that binds its own workers binds them again on reload.",
    effect: Effect { metric: &PROC_CPUS_ALLOWED, how: "counts the CPUs of the list" },
    doc: "sched_setaffinity(2) for each thread. Threads born later inherit it, and undo frees those as well.",
    read,
    plan,
    check,
};

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    let mut lists: Vec<String> = threads(ctx)?.iter().map(|t| t.old.to_string()).collect();
    lists.dedup();
    Ok(lists.join("; "))
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    let online = cpus_online(&ctx.roots)?;
    let new: Option<CpuList> = value.parse().ok();
    let new = new.filter(|cpus| cpus.as_slice().iter().all(|cpu| online.contains(*cpu)));
    let want = || format!("a list of CPUs that are online ({online})");
    let new = new.ok_or_else(|| TuneError::value(KNOB.name, value, want()))?;
    let threads = threads(ctx)?;
    let before = read(ctx, "")?;
    if threads.iter().all(|t| t.old == new) {
        return Err(TuneError::Unchanged { knob: KNOB.name.to_string(), value: before });
    }
    let permanent = match ctx.host.software {
        Some(prony_model::Software::Nginx) => "set worker_cpu_affinity in nginx.conf, or".to_string(),
        Some(_) | None => String::new(),
    };
    let permanent = format!("{permanent} CPUAffinity={value} in the service's systemd unit").trim().to_string();
    Ok(Plan { before, steps: vec![Step::Affinity(Affinity { threads, new })], reload: None, permanent })
}

/// The step itself compares what the kernel shows with what was asked for.
fn check(_: &Context<'_>, _: &str, _: &str) -> Result<(), TuneError> {
    Ok(())
}

/// Every thread of the host and its CPUs, the main thread of the main process first.
fn threads(ctx: &Context<'_>) -> Result<Vec<Bound>, TuneError> {
    let proc = &ctx.roots.proc;
    let family = process::with_descendants(proc, &ctx.pids);
    let main = ctx.pids.first().copied();
    let order = main.into_iter().chain(family.into_iter().filter(|pid| Some(*pid) != main));
    let bound = order.flat_map(|pid| process::threads(proc, pid)).filter_map(|tid| {
        let (start_ticks, old) = (process::start_ticks(proc, tid)?, sys::affinity(tid).ok()?);
        Some(Bound { tid, start_ticks, old })
    });
    let bound: Vec<Bound> = bound.collect();
    if bound.is_empty() {
        return Err(TuneError::missing(
            format!("none of the {} processes of {} runs", ctx.pids.len(), ctx.name),
            "start its server, or correct `process` of this host in the stack file",
        ));
    }
    Ok(bound)
}
