//! `prony load`: a known load, with wrk's flags and output.
//!
//! What the flags mean is in `load_plan`, how it is shown in `live`, what becomes of the result in `load_result`. Invariant:
//! nothing is sent before the guard has let every address pass.

use crate::cli::LoadArgs;
use crate::{BadArgument, Exit, live, load_plan, load_result, source};
use anyhow::Result;
use prony_model::threshold::ThresholdResult;
use prony_model::{LoadPlan, LoadProgress, Place, Stack};
use prony_stats::threshold::EarlyStop;
use std::time::{SystemTime, UNIX_EPOCH};

/// `prony load URL|STACK`.
pub(crate) fn run(args: &LoadArgs) -> Result<Exit> {
    let (stack, plan) = asked(args)?;
    let thresholds = &args.threshold.thresholds;
    let mut early = args.threshold.abort_on_fail.then(|| EarlyStop::new(thresholds, plan.warmup));
    let mut broken: Option<ThresholdResult> = None;
    let mut is_broken = |progress: &LoadProgress| {
        broken = broken.take().or_else(|| early.as_mut()?.observe(progress));
        broken.is_some()
    };
    let is_enough: live::Enough<'_> = if args.threshold.abort_on_fail { Some(&mut is_broken) } else { None };
    let result = live::send(&stack, &plan, &args.show, is_enough)?;
    if let Some(seen) = &broken {
        eprintln!("note: ended early, because {} did not hold", seen.threshold);
    }
    load_result::tell(args, &plan, &result)
}

/// What is to be sent, and from where: the flags over the stack file, or over what they import.
fn asked(args: &LoadArgs) -> Result<(Stack, LoadPlan)> {
    let import = load_plan::imported(args)?;
    let target = load_plan::target(args, import.as_ref())?;
    let mut stack = source::stack(&target)?;
    if stack.lab.is_some() && stack.host.values().all(|h| h.at == Place::Local) {
        let up = format!("run `prony lab up {target}` and load the stack file that it prints");
        return Err(BadArgument::error(format!("`{target}` is a lab that is not up: {up}")));
    }
    load_plan::stack_flags(args, &mut stack)?;
    let mut plan = plan_of(&stack, seed(args.shape.seed))?;
    load_plan::plan_flags(args, import, &mut plan)?;
    allow(&stack, &plan)?;
    Ok((stack, plan))
}

/// The seed that a person names, else one from the clock; the process id tells runs of the same millisecond apart.
pub(crate) fn seed(named: Option<u64>) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    named.unwrap_or(now.as_millis() as u64 ^ u64::from(std::process::id()))
}

/// The workload of a stack as a load plan; checks that the target may be loaded, from where the load will come.
pub(crate) fn base_plan(stack: &Stack, seed: u64) -> Result<LoadPlan> {
    let plan = plan_of(stack, seed)?;
    allow(stack, &plan)?;
    Ok(plan)
}

/// The same without the check: nothing is asked of the network.
pub(crate) fn plan_of(stack: &Stack, seed: u64) -> Result<LoadPlan> {
    let read = |path: &str| std::fs::read(path);
    let plan = prony_load::plan_from(stack, &read).map_err(|e| BadArgument::error(e.to_string()))?;
    Ok(LoadPlan { seed, ..plan })
}

/// Lets pass what goes to private addresses, to the machine's own, or to a target that the user calls their own.
fn allow(stack: &Stack, plan: &LoadPlan) -> Result<()> {
    let target = prony_load::check_url(&plan.url).map_err(|e| BadArgument::error(e.to_string()))?;
    let local = Place::Local;
    let place = stack.generator().map_or(&local, |(_, host)| &host.at);
    prony_agent::through(place, |_| {
        let endpoints = prony_load::endpoints(&target, &plan.connect_to)?;
        prony_load::guard(&target, &endpoints, stack.owned)
    })??;
    Ok(())
}
