//! The commands that run a session: prove, diagnose, tune, limit; and sessions for others.

use crate::BadArgument;
use crate::Exit;
use crate::cli::{ChoiceArgs, DiagnoseArgs, OutputArgs, ProveArgs, TargetArgs, TuneArgs};
use crate::output::{print, write};
use crate::progress::Progress;
use crate::{aa, home, limit, load, report, source};
use anyhow::{Context, Result, bail};
use prony_lab::UpLab;
use prony_model::diagnosis::Against;
use prony_model::{Event, Knob, KnobId, Level, ProofVerdict, Run, RunEnd, Stack};
use prony_report::text::{self, Style};
use prony_session::{Effort, Goal, Remedy, Session};
use prony_stats::compare::differences;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

/// `prony prove STACK`.
pub(crate) fn prove(args: &ProveArgs) -> Result<Exit> {
    let precision = args.precision.precision(args.target.choice.quick);
    let goal = Goal::Prove { remedy: Remedy::Diagnosed, keep: args.keep, earlier: aa::earlier()?, precision };
    finish(measure(&args.target.stack, &args.target.choice, goal, &args.output)?, &args.output)
}

/// `prony diagnose STACK`, or `--from RUN`.
pub(crate) fn diagnose(args: &DiagnoseArgs) -> Result<Exit> {
    // Read first: a run that is not there must not cost two minutes.
    let good = args.baseline.as_deref().map(recorded).transpose()?;
    let mut measured = match &args.from {
        Some(path) => {
            let mut run = recorded(path)?;
            run.diagnosis = Some(prony_diagnose::diagnose(&run));
            Measured { run, record: None }
        }
        None => {
            let stack = args.stack.as_deref().context("name a stack file, a lab or a URL")?;
            measure(
                stack,
                &args.choice,
                Goal::Diagnose { intervene: !args.passive, budget: args.budget },
                &args.output,
            )?
        }
    };
    if let Some(good) = good {
        hold_against(&mut measured.run, &good);
    }
    finish(measured, &args.output)
}

fn recorded(name: &str) -> Result<Run> {
    Ok(prony_record::read(&report::find(name)?)?)
}

/// Adds what differs from a good run to a diagnosis.
fn hold_against(run: &mut Run, good: &Run) {
    let against = Against {
        run: good.id.clone(),
        good_per_s: good.level(Level::At).map_or(0.0, |trial| trial.result.good_per_s),
        settings: differences::between(good, run),
        moved: prony_diagnose::moved(run, good),
    };
    if let Some(diagnosis) = &mut run.diagnosis {
        diagnosis.against = Some(against);
    }
}

/// `prony tune STACK`.
pub(crate) fn tune(args: &TuneArgs) -> Result<Exit> {
    if args.knobs {
        for knob in prony_tune::knobs() {
            print(&format!("{:<26} {}\n{:<26} {}", knob.name, knob.value, "", knob.doc));
        }
        return Ok(Exit::Done);
    }
    let stack = args.stack.as_deref().context("name a stack file, a lab or a URL")?;
    let remedy = match (&args.knob, args.aa) {
        (Some(text), _) => Remedy::Chosen(knob(text, &source::stack(stack)?)?),
        (None, true) => Remedy::Nothing,
        (None, false) => Remedy::Diagnosed,
    };
    let precision = args.precision.precision(args.choice.quick);
    let goal = Goal::Prove { remedy, keep: args.keep, earlier: aa::earlier()?, precision };
    finish(measure(stack, &args.choice, goal, &args.output)?, &args.output)
}

/// `prony limit STACK`: the goal comes from its own flags.
pub(crate) fn limit(target: &TargetArgs, goal: Goal, output: &OutputArgs) -> Result<Exit> {
    let measured = measure(&target.stack, &target.choice, goal, output)?;
    match (&measured.run.end, &measured.run.limit) {
        // Nothing was searched: a target that cannot be reached has a verdict too.
        (RunEnd::Failed { reason }, None) => limit::unreachable(reason, output),
        (_, _) => finish(measured, output),
    }
}

/// A run that has ended, and where it was recorded.
pub(crate) struct Measured {
    pub run: Run,
    pub record: Option<PathBuf>,
}

/// Runs a session on what `name` names.
fn measure(name: &str, choice: &ChoiceArgs, goal: Goal, output: &OutputArgs) -> Result<Measured> {
    measure_all(name, choice, &[goal], output)?.pop().context("one goal gives one run")
}

/// Runs a session for each goal, one after the other, on what `name` names; brings a lab up before and takes it down after,
/// whatever happens. A session that did not come to its end is the last.
pub(crate) fn measure_all(
    name: &str,
    choice: &ChoiceArgs,
    goals: &[Goal],
    output: &OutputArgs,
) -> Result<Vec<Measured>> {
    let mut stack = source::stack(name)?;
    choose(&mut stack, choice);
    let interrupted = interrupts()?;
    let mut progress = Progress::of_run(output.progress, !output.json, &interrupted);
    let lab = match &stack.lab {
        Some(_) => Some(LabGuard::up(&stack, &mut progress)?),
        None => None,
    };
    let stack = lab.as_ref().map_or(stack, |lab| lab.up.stack.clone());
    let mut one = |i: usize, goal: &Goal| {
        // Every session has an order of its own, also when the seed is given.
        let choice = ChoiceArgs { seed: choice.seed.map(|seed| seed.wrapping_add(i as u64)), ..choice.clone() };
        on_stack(stack.clone(), &choice, goal.clone(), output, &mut progress, &interrupted)
    };
    let measured = until_one_fails(goals, &mut one);
    if let Some(lab) = lab {
        lab.down()?;
    }
    measured
}

/// Set when the user presses Ctrl-C, or asks to end in another way.
pub(crate) fn interrupts() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("cannot catch Ctrl-C")?;
    }
    Ok(interrupted)
}

fn until_one_fails(goals: &[Goal], one: &mut dyn FnMut(usize, &Goal) -> Result<Measured>) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for (i, goal) in goals.iter().enumerate() {
        let measured = one(i, goal)?;
        let ended = measured.run.end == RunEnd::Done;
        all.push(measured);
        if !ended {
            break;
        }
    }
    Ok(all)
}

fn choose(stack: &mut Stack, choice: &ChoiceArgs) {
    stack.owned |= choice.owned;
    if let Some(connections) = choice.connections {
        stack.workload.connections = connections.max(1);
    }
    if choice.rate.is_some() {
        stack.workload.rate = choice.rate;
    }
}

fn on_stack(
    stack: Stack,
    choice: &ChoiceArgs,
    goal: Goal,
    output: &OutputArgs,
    progress: &mut Progress,
    interrupted: &AtomicBool,
) -> Result<Measured> {
    let effort = if choice.quick { Effort::quick() } else { Effort::default() };
    let record = output.record.clone().map_or(Recording::AmongRuns, Recording::At);
    let seed = load::seed(choice.seed);
    let sitting = Sitting { stack, goal, held: Vec::new(), effort, seed, record };
    sit(sitting, &mut |event| progress.show(event), interrupted)
}

/// A session on a stack that is up.
pub(crate) struct Sitting {
    pub stack: Stack,
    pub goal: Goal,
    /// Knobs that stay turned from before the warm-up to the end.
    pub held: Vec<Knob>,
    pub effort: Effort,
    pub seed: u64,
    pub record: Recording,
}

/// Where a session is recorded.
pub(crate) enum Recording {
    /// In the folder of runs.
    AmongRuns,
    /// In this file.
    At(PathBuf),
    /// Nowhere: nothing will be asked of it later.
    Nowhere,
}

/// Runs a session and records it.
pub(crate) fn sit(sitting: Sitting, watcher: &mut dyn FnMut(&Event), interrupted: &AtomicBool) -> Result<Measured> {
    let Sitting { stack, goal, held, effort, seed, record } = sitting;
    let base = load::base_plan(&stack, seed)?;
    let run = new_run(stack.clone());
    let record = record_path(record, &run)?;
    let writer = record.as_ref().and_then(|record| match prony_record::Writer::create(record, &run) {
        Ok(writer) => Some(writer),
        Err(e) => {
            watcher(&Event::Note { text: format!("{e}; the run goes on without a record") });
            None
        }
    });
    let recorded = record.filter(|_| writer.is_some());
    let agents = prony_session::connect(&stack, &home::journal());
    let session = Session::new(goal, effort.clone(), base, run).holding(held);
    let run = prony_session::drive(session, agents, &effort, writer, watcher, interrupted)?;
    Ok(Measured { run, record: recorded })
}

fn record_path(record: Recording, run: &Run) -> Result<Option<PathBuf>> {
    Ok(match record {
        Recording::At(path) => Some(path),
        Recording::AmongRuns => Some(home::runs()?.join(format!("{}.prony", run.id))),
        Recording::Nowhere => None,
    })
}

fn new_run(stack: Stack) -> Run {
    let started_unix_ms = now_ms();
    Run {
        id: run_id(started_unix_ms),
        version: env!("CARGO_PKG_VERSION").to_string(),
        command: command_line(),
        started_unix_ms,
        stack,
        ..Run::default()
    }
}

/// What the user typed.
pub(crate) fn command_line() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("prony {}", words.join(" "))
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// The id of a run that this process starts.
pub(crate) fn run_id(unix_ms: u64) -> String {
    Run::id_at(unix_ms, std::process::id())
}

/// `NAME=VALUE` or `HOST:NAME=VALUE`.
pub(crate) fn knob(text: &str, stack: &Stack) -> Result<Knob> {
    let wrong = || BadArgument::error(format!("`{text}` is no knob: write [HOST:]NAME=VALUE"));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (host, name) = match name.split_once(':') {
        Some((host, name)) => (Some(host.to_string()), name),
        None => (None, name),
    };
    let id = KnobId::try_from(name.to_string()).map_err(BadArgument::error)?;
    let host = match host.or_else(|| stack.path().first().map(|h| (*h).to_string())) {
        Some(host) if stack.host.contains_key(&host) => host,
        Some(host) => {
            let hosts = stack.path().join(", ");
            return Err(BadArgument::error(format!("the stack has no host `{host}`; it has {hosts}")));
        }
        None => return Err(BadArgument::error("the stack names no host whose knobs could be turned")),
    };
    Ok(Knob { host, id, value: value.to_string() })
}

/// Prints the result, writes the report, and finds the exit code.
fn finish(measured: Measured, output: &OutputArgs) -> Result<Exit> {
    let run = &measured.run;
    if let Some(path) = &output.report {
        write(path, &prony_report::html(run))?;
    }
    let failed = match &run.end {
        RunEnd::Failed { reason } => Some(reason),
        RunEnd::Open | RunEnd::Done | RunEnd::Interrupted => None,
    };
    // What was found until then is told as well.
    if let Some(reason) = failed.filter(|_| run.diagnosis.is_none()) {
        bail!("{reason}");
    }
    if output.json {
        print(&json(&measured)?);
    } else if output.md {
        print(prony_report::markdown(run).trim_end());
    } else {
        let style = if std::io::stdout().is_terminal() { Style::Ansi } else { Style::Plain };
        print(&text::verdict(run, style));
        let shown = measured.record.iter().map(|p| format!("recorded in {}", p.display()));
        let report = output.report.iter().map(|p| format!("report in {}", p.display()));
        shown.chain(report).for_each(|line| print(&line));
    }
    if let Some(reason) = failed {
        bail!("{reason}");
    }
    Ok(exit(&measured))
}

/// One object: the diagnosis where there is one, else the limit, with proof and changes beside it.
fn json(measured: &Measured) -> Result<String> {
    let run = &measured.run;
    let mut object = match (&run.diagnosis, &run.limit) {
        (Some(diagnosis), _) => serde_json::to_value(diagnosis)?,
        (None, Some(found)) => limit::json(run, found)?,
        (None, None) => serde_json::json!({ "schema": "prony.proof/1" }),
    };
    if let Some(proof) = &run.proof {
        object["proof"] = serde_json::to_value(proof)?;
        object["changes"] = serde_json::to_value(&run.changes)?;
    }
    object["run"] = run.id.clone().into();
    Ok(serde_json::to_string_pretty(&object)?)
}

fn exit(Measured { run, .. }: &Measured) -> Exit {
    let limited = run.level(prony_model::Level::At).is_some_and(|t| t.result.generator_limited());
    if let (RunEnd::Done, Some(found)) = (&run.end, &run.limit) {
        return limit::exit(found);
    }
    match (&run.end, &run.proof) {
        (RunEnd::Interrupted | RunEnd::Open, _) => Exit::NotValid,
        _ if limited => Exit::NotValid,
        (_, Some(proof)) if matches!(proof.verdict, ProofVerdict::Worse | ProofVerdict::GuardBroken) => {
            Exit::GateBroken
        }
        (_, _) => Exit::Done,
    }
}

/// A lab that is taken down when the run is over, also when it ends by an error.
pub(crate) struct LabGuard {
    pub up: UpLab,
    down: bool,
}

impl LabGuard {
    pub fn up(stack: &Stack, progress: &mut Progress) -> Result<Self> {
        progress.show(&Event::Stage { name: "lab".to_string(), detail: format!("bring up: {}", stack.name) });
        let up = prony_lab::up(stack, &|_| {})?;
        Ok(Self { up, down: false })
    }

    pub fn down(mut self) -> Result<()> {
        self.down = true;
        prony_lab::down(&self.up.id).context("the lab is not fully down; run `prony lab down`")
    }
}

impl Drop for LabGuard {
    fn drop(&mut self) {
        if !self.down && prony_lab::down(&self.up.id).is_err() {
            eprintln!("prony: the lab is not fully down; run `prony lab down`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{LimitReport, LimitVerdict};

    fn measured(run: Run) -> Measured {
        Measured { run: Run { end: RunEnd::Done, ..run }, record: None }
    }

    fn proven(verdict: ProofVerdict) -> Run {
        Run { proof: Some(prony_model::Proof { verdict, ..Default::default() }), ..Run::default() }
    }

    #[test]
    fn exit_codes_tell_how_it_ended() {
        assert_eq!(exit(&measured(Run::default())), Exit::Done);
        assert_eq!(exit(&measured(proven(ProofVerdict::Inconclusive))), Exit::Done);
        assert_eq!(exit(&measured(proven(ProofVerdict::Worse))), Exit::GateBroken);
        let verdict = LimitVerdict::NothingHolds;
        let limit = Some(LimitReport { verdict, ..LimitReport::default() });
        assert_eq!(exit(&measured(Run { limit: limit.clone(), ..Run::default() })), Exit::GateBroken);
        let cut = Measured { run: Run { end: RunEnd::Interrupted, limit, ..Run::default() }, record: None };
        assert_eq!(exit(&cut), Exit::NotValid);
    }

    #[test]
    fn knobs_name_their_host_or_mean_the_entry() {
        let stack = Stack::parse("s", "entry = \"http://a/\"\n[host.lb]\ncalls = [\"s1\"]\n[host.s1]\n").unwrap();
        let host = |text: &str| knob(text, &stack).map(|k| k.host);
        assert_eq!(host("nginx.backlog=511").unwrap(), "lb");
        assert_eq!(host("s1:nginx.backlog=511").unwrap(), "s1");
        for (wrong, said) in
            [("nginx.backlog", "NAME=VALUE"), ("s3:nginx.backlog=1", "`s3`"), ("nginx.bcklog=1", "nginx.backlog")]
        {
            let error = host(wrong).unwrap_err();
            assert!(error.is::<BadArgument>() && error.to_string().contains(said), "{error}");
        }
    }
}
