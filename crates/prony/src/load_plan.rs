//! From the flags of `prony load` to a plan: every flag sets its field, and what cannot be is an error that says what would.
//!
//! Files are read here, so that a plan is self-contained; nothing is sent. Invariant: a flag wins over the stack file and over
//! an import, and every mistake of a flag is a [`BadArgument`].

mod connections;
mod requests;

use crate::BadArgument;
use crate::cli::{ArrivalsArg, LoadArgs};
use anyhow::Result;
use prony_load::import::{self, Form, Import, LogFormat};
use prony_model::profile::Profile;
use prony_model::threshold::Measure;
use prony_model::{Arrivals, LoadPlan, Nanos, Rate, Stack};
use std::io::{BufReader, Read};
use std::path::Path;

/// wrk's own default for `-c`.
const CONNECTIONS: u32 = 10;
/// Warm-up of a load that names none. A guess: connections are open and caches filled after half a second.
const WARMUP: Nanos = Nanos::from_millis(500);
/// Longest load that ends after a number of requests. A guess: who means longer says `-d`.
const UNTIL_DONE: Nanos = Nanos(3600 * 1_000_000_000);
/// A replay is counted for so long after its last request, so that the answer is counted too. A guess.
const AFTER_LAST: Nanos = Nanos(1_000_000_000);

/// The workload that a flag imports, if one does. What could not be taken over is told on stderr.
pub(crate) fn imported(args: &LoadArgs) -> Result<Option<Import>> {
    let wanted = &args.import;
    if wanted.replay && wanted.from_har.is_none() && wanted.from_log.is_none() {
        return Err(BadArgument::error("--replay needs a recording: name it with --from-har or --from-log"));
    }
    let form = if wanted.replay { Form::Replay { speed: wanted.speed } } else { Form::Mix };
    let import = if let Some(command) = &wanted.from_curl {
        import::from_curl(&curl_command(command)?, &|path| std::fs::read(path))
    } else if let Some(file) = &wanted.from_har {
        let host = args.target.as_deref().filter(|target| target.contains("://"));
        let host = host.map(url).transpose()?.map(|target| target.host);
        let text = read_text(file)?;
        // A recording of one host may be meant for another, like a copy of it: then it is the recording's first host.
        import::from_har(&text, host.as_deref(), form).or_else(|_| import::from_har(&text, None, form))
    } else if let Some(file) = &wanted.from_log {
        let lines = std::fs::File::open(file).map_err(|e| unreadable(file, &e))?;
        let format = wanted.log_format.as_deref().map_or_else(|| Ok(LogFormat::common()), LogFormat::parse);
        format.and_then(|format| import::from_log(&mut BufReader::new(lines), &format, form))
    } else {
        return Ok(None);
    };
    let import = import.map_err(|e| BadArgument::error(e.to_string()))?;
    for skipped in &import.skipped {
        eprintln!("note: {skipped}");
    }
    Ok(Some(import))
}

/// What to load: the argument, else the URL of the import.
pub(crate) fn target(args: &LoadArgs, import: Option<&Import>) -> Result<String> {
    if let (Some(first), Some(second)) = (&args.target, args.more.first()) {
        let text = format!(
            "two targets are given, `{first}` and `{second}`, and one is loaded. Is one of them the value of another \
             tool's flag? Here -q and -k take none, and a rate is -R; docs/load.md has the flags of other tools"
        );
        return Err(BadArgument::error(text));
    }
    let named = args.target.clone().or_else(|| import?.url.clone());
    named.ok_or_else(|| BadArgument::error("the import names no URL: write the target as the argument, too"))
}

/// What flags say of the stack, whose reader then reads the files.
pub(crate) fn stack_flags(args: &LoadArgs, stack: &mut Stack) -> Result<()> {
    stack.owned |= args.shape.owned;
    for feed in &args.request.feeds {
        let (name, spec) = requests::feed(feed)?;
        // The reader of the plan would name a key of a stack file.
        let file = Path::new(&spec.file);
        std::fs::File::open(file).map_err(|e| unreadable(file, &e))?;
        stack.workload.feed.insert(name, spec);
    }
    Ok(())
}

/// Sets every field of the plan that a flag or the import names. `plan` is that of the stack's workload.
pub(crate) fn plan_flags(args: &LoadArgs, import: Option<Import>, plan: &mut LoadPlan) -> Result<()> {
    let from_url = args.target.as_ref().is_none_or(|target| target.contains("://"));
    if let Some(import) = import {
        import.apply(plan);
    }
    if from_url {
        plan.connections = CONNECTIONS;
    }
    shape(args, plan)?;
    requests::set(&args.request, plan)?;
    connections::set(&args.connection, plan)?;
    connections::secure(&args.tls, plan)?;
    plan.intervals |= args.show.exports.iter().any(|export| export.format.needs_intervals());
    thresholds_fit(args, plan)?;
    exports_fit(args)
}

fn shape(args: &LoadArgs, plan: &mut LoadPlan) -> Result<()> {
    let shape = &args.shape;
    plan.connections = shape.connections.unwrap_or(plan.connections);
    if plan.connections == 0 {
        return Err(BadArgument::error("-c 0: at least one connection is needed"));
    }
    plan.threads = shape.threads;
    if let Some(cpus) = &shape.cpus {
        plan.cpus = cpus.as_slice().to_vec();
    }
    if let Some(rate) = shape.rate {
        plan.rate = Some(above_zero("-R", rate)?);
        plan.profile = None;
    }
    if let Some(text) = &shape.profile {
        plan.rate = None;
        plan.profile = Some(profile(text)?);
    }
    match shape.arrivals {
        Some(ArrivalsArg::Constant) => plan.arrivals = Arrivals::Constant,
        Some(ArrivalsArg::Poisson) => plan.arrivals = Arrivals::Poisson,
        None => {}
    }
    plan.requests_max = shape.requests.or(plan.requests_max);
    let replayed = match &plan.profile {
        Some(Profile::Times(times)) => times.last().copied(),
        Some(Profile::Points(_) | Profile::Cycle { .. }) | None => None,
    };
    let default = match (replayed, plan.requests_max) {
        (Some(last), _) => Nanos(last.0.saturating_add(AFTER_LAST.0)),
        (None, Some(_)) => UNTIL_DONE,
        (None, None) => plan.duration,
    };
    plan.duration = shape.duration.unwrap_or(default);
    if plan.duration.0 == 0 {
        return Err(BadArgument::error("-d 0: the load must last longer than that"));
    }
    // Who counts requests, or replays them, wants each of them in the result.
    let counts_all = replayed.is_some() || plan.requests_max.is_some();
    plan.warmup = shape.warmup.unwrap_or(if counts_all { Nanos(0) } else { WARMUP });
    plan.timeout = shape.timeout.unwrap_or(plan.timeout);
    if plan.timeout.0 == 0 {
        return Err(BadArgument::error("--timeout 0: no response can be complete within that"));
    }
    plan.deadline = shape.deadline.or(plan.deadline);
    if shape.deadline.is_some() && !plan.is_open_loop() {
        return Err(BadArgument::error(
            "--deadline counts from when a request is due: add a rate with -R or --profile",
        ));
    }
    Ok(())
}

fn above_zero(flag: &str, rate: Rate) -> Result<Rate> {
    if rate.0 > 0.0 {
        return Ok(rate);
    }
    Err(BadArgument::error(format!("{flag} {rate} is not above 0: write a rate like 800 or 5k, or leave it out")))
}

/// A file, or the text itself.
fn profile(text: &str) -> Result<Profile> {
    let file = Path::new(text);
    if file.is_file() {
        return Ok(Profile::from_csv(text, &read_text(file)?)?);
    }
    text.parse::<Profile>().map_err(|e| BadArgument::error(format!("--profile: no such file, and {e}")))
}

fn thresholds_fit(args: &LoadArgs, plan: &LoadPlan) -> Result<()> {
    let checked = plan.script.as_ref().is_some_and(|script| script.steps.iter().any(|step| step.check.is_some()));
    for threshold in &args.threshold.thresholds {
        let missing = match threshold.measure {
            Measure::LagQuantile(_) if !plan.is_open_loop() => {
                "a closed loop has no schedule to lag behind: add a rate with -R or --profile"
            }
            Measure::Checks if !checked => "nothing is checked: write `check` at a step of the stack file's scenario",
            Measure::LagQuantile(_)
            | Measure::Checks
            | Measure::Quantile(_)
            | Measure::Mean
            | Measure::Max
            | Measure::Errors
            | Measure::Rate
            | Measure::Bandwidth
            | Measure::Count => continue,
        };
        return Err(BadArgument::error(format!("--threshold {threshold}: {missing}")));
    }
    Ok(())
}

/// A result that cannot be written is found before the load, not after it.
fn exports_fit(args: &LoadArgs) -> Result<()> {
    for export in &args.show.exports {
        let folder = export.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let path = export.path.display();
        if !folder.is_dir() {
            let text = format!("--export {path}: there is no folder {}; make it first", folder.display());
            return Err(BadArgument::error(text));
        }
        if export.path.is_dir() {
            return Err(BadArgument::error(format!("--export {path}: this is a folder; name a file in it")));
        }
    }
    Ok(())
}

fn url(text: &str) -> Result<prony_load::Target> {
    prony_load::check_url(text).map_err(|e| BadArgument::error(e.to_string()))
}

/// The command itself, or what a file or stdin holds.
fn curl_command(named: &str) -> Result<String> {
    if named == "-" {
        let mut text = String::new();
        let from_stdin = std::io::stdin().lock().read_to_string(&mut text);
        from_stdin.map_err(|e| BadArgument::error(format!("--from-curl -: stdin cannot be read ({e})")))?;
        return Ok(text);
    }
    if Path::new(named).is_file() { read_text(Path::new(named)) } else { Ok(named.to_string()) }
}

/// A file that a flag names.
fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|e| unreadable(file, &e))
}

fn unreadable(file: &Path, error: &std::io::Error) -> anyhow::Error {
    let hint = "check the path, relative to the folder that you are in";
    BadArgument::error(format!("{} cannot be read ({error}): {hint}", file.display()))
}

/// A text file that a flag names.
fn read_text(file: &Path) -> Result<String> {
    String::from_utf8(read(file)?).map_err(|_| BadArgument::error(format!("{} is no UTF-8 text", file.display())))
}

#[cfg(test)]
mod tests;
