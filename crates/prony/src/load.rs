//! `prony load`: a known load, with wrk's flags and output.

use crate::BadArgument;
use crate::Exit;
use crate::cli::{ArrivalsArg, LoadArgs};
use crate::output::print;
use crate::source;
use anyhow::{Context, Result, bail};
use prony_agent::{Agent, AgentError, LocalAgent, Reply, Request};
use prony_model::{Arrivals, LoadPlan, LoadResult, RequestSpec, Stack};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// wrk's own default for `-c`.
const CONNECTIONS: u32 = 10;

/// `prony load URL|STACK`.
pub(crate) fn run(args: &LoadArgs) -> Result<Exit> {
    let mut stack = source::stack(&args.target)?;
    if stack.lab.is_some() && stack.host.values().all(|h| h.at == prony_model::Place::Local) {
        let up = format!("run `prony lab up {}` and load the stack file that it prints", args.target);
        return Err(BadArgument::error(format!("`{}` is a lab that is not up: {up}", args.target)));
    }
    choose(&mut stack, args)?;
    let mut plan = base_plan(&stack, seed(args.seed))?;
    plan.threads = args.threads;
    plan.duration = args.duration;
    plan.warmup = args.warmup;
    if let Some(cpus) = &args.cpus {
        plan.cpus = cpus.as_slice().to_vec();
    }
    let result = send(&stack, &plan)?;
    if args.json {
        let object = serde_json::json!({ "schema": "prony.load/1", "plan": plan, "result": result });
        print(&serde_json::to_string_pretty(&object)?);
    } else {
        print(&prony_report::text::load_block(&plan, &result, args.latency));
    }
    Ok(if result.is_valid() && result.completed > 0 { Exit::Done } else { Exit::NotValid })
}

fn choose(stack: &mut Stack, args: &LoadArgs) -> Result<()> {
    stack.owned |= args.owned;
    let from_url = args.target.contains("://");
    let workload = &mut stack.workload;
    workload.connections = args.connections.unwrap_or(if from_url { CONNECTIONS } else { workload.connections });
    workload.rate = args.rate.or(workload.rate);
    workload.arrivals = match args.arrivals {
        ArrivalsArg::Constant => Arrivals::Constant,
        ArrivalsArg::Poisson => Arrivals::Poisson,
    };
    for header in &args.headers {
        let wrong = || BadArgument::error(format!("`{header}` is no header: write 'Name: value'"));
        let (name, value) = header.split_once(':').ok_or_else(wrong)?;
        workload.headers.insert(name.trim().to_string(), value.trim().to_string());
    }
    if let Some(method) = &args.method {
        workload.method.clone_from(method);
    }
    workload.body = args.body.clone().or(workload.body.take());
    if let Some(file) = &args.body_file {
        workload.body_file = Some(file.display().to_string());
    }
    for path in &args.paths {
        workload.requests.push(weighted(path)?);
    }
    workload.keepalive &= !args.no_keepalive;
    workload.requests_per_connection = args.requests_per_connection.or(workload.requests_per_connection);
    workload.timeout = args.timeout.or(workload.timeout);
    if workload.connections == 0 {
        return Err(BadArgument::error("-c 0: at least one connection is needed"));
    }
    Ok(())
}

/// `/path` or `/path=3`. A path may hold `=` in its query: only a number behind the last one is a weight.
fn weighted(text: &str) -> Result<RequestSpec> {
    let (path, weight) = match text.rsplit_once('=').map(|(p, w)| (p, w.parse::<f64>())) {
        Some((path, Ok(weight))) if !path.contains('?') => (path, weight),
        _ => (text, 1.0),
    };
    if !path.starts_with('/') {
        return Err(BadArgument::error(format!("`{text}` is no path: it starts with `/`")));
    }
    Ok(RequestSpec { path: path.to_string(), weight, method: None, headers: Default::default(), body: None })
}

/// The seed that a person names, else one from the clock; the process id tells runs of the same millisecond apart.
pub(crate) fn seed(named: Option<u64>) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    named.unwrap_or(now.as_millis() as u64 ^ u64::from(std::process::id()))
}

/// The workload of a stack as a load plan; checks that the target may be loaded, from where the load will come.
pub(crate) fn base_plan(stack: &Stack, seed: u64) -> Result<LoadPlan> {
    let plan =
        prony_load::plan_from(stack, &|path| std::fs::read(path)).map_err(|e| BadArgument::error(e.to_string()))?;
    let target = prony_load::check_url(&stack.entry)?;
    let local = prony_model::Place::Local;
    let place = stack.generator().map_or(&local, |(_, host)| &host.at);
    prony_agent::through(place, |_| {
        let addresses = prony_load::resolve(&target)?;
        prony_load::guard(&target, &addresses, stack.owned)
    })??;
    Ok(LoadPlan { seed, ..plan })
}

/// Sends the load from the stack's generator host; Ctrl-C ends it early, with what was measured.
fn send(stack: &Stack, plan: &LoadPlan) -> Result<LoadResult> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))
        .context("cannot catch Ctrl-C")?;
    let (name, host) = stack.generator().context("the stack names no host with role \"generator\"")?;
    let agent = LocalAgent::new(name, host, crate::home::journal(), None);
    let replies = agent.begin(Request::Load(Box::new(plan.clone())));
    loop {
        match replies.recv_timeout(Duration::from_millis(50)) {
            Ok(Ok(Reply::Loaded(_, result))) => return Ok(*result),
            Ok(Ok(_)) => return Err(AgentError::other_reply(name).into()),
            Ok(Err(e)) => bail!("{}", e.reason),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(AgentError::ended(name).into()),
        }
        if interrupted.load(Ordering::Relaxed) {
            agent.stop_load();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_carry_weights() {
        assert_eq!(weighted("/a=3").unwrap().weight, 3.0);
        assert_eq!(weighted("/a?x=3").unwrap().path, "/a?x=3");
        assert!(weighted("a").is_err());
    }
}
