//! `prony watch`: what every host does now, as a screen where stdout is a terminal, else as lines.
//!
//! Reads only. Invariant: when it ends, the terminal is as it was before, and a lab that it brought up is down.

use crate::BadArgument;
use crate::Exit;
use crate::cli::WatchArgs;
use crate::measure::{LabGuard, interrupts};
use crate::output::print;
use crate::progress::Progress;
use crate::{home, source};
use anyhow::{Context, Result};
use prony_agent::{Agent, AgentError, Reply, Request, Seen};
use prony_model::{Host, Nanos, ProcessRef, Stack};
use prony_tui::{BusyProcess, Look, TICK, Terminal, WatchScreen, Watched, Wish};
use serde_json::{Map, Value, json};
use std::io::IsTerminal;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Looks more often than this cost the host more than they tell: CPU times have ticks of 10 ms.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Length of a close look. A guess: some hundred waits, if there are any that matter.
const CLOSE_FOR: Nanos = Nanos(1_000_000_000);
/// Version of the JSON output.
const SCHEMA: &str = "prony.watch/1";

/// `prony watch [STACK]`.
pub(crate) fn run(args: &WatchArgs) -> Result<Exit> {
    let interval = Duration::from(args.interval);
    if interval < INTERVAL_MIN {
        return Err(BadArgument::error(format!("--interval is {}: the least is 100ms", args.interval)));
    }
    if let Some(every) = args.close.filter(|every| every.0 < 2 * CLOSE_FOR.0) {
        return Err(BadArgument::error(format!(
            "--close is {every}: each look takes {CLOSE_FOR}, and the least is 2s"
        )));
    }
    let (name, stack) = match &args.stack {
        Some(name) => (name.as_str(), source::stack(name)?),
        None => ("this machine", this_machine()),
    };
    let interrupted = interrupts()?;
    let lab = match &stack.lab {
        Some(_) => Some(LabGuard::up(&stack, &mut Progress::lines(args.json))?),
        None => None,
    };
    let stack = lab.as_ref().map_or(stack, |lab| lab.up.stack.clone());
    let shown = watch(args, name, &stack, interval, &|| interrupted.load(Ordering::Relaxed));
    if let Some(lab) = lab {
        lab.down()?;
    }
    shown.map(|()| Exit::Done)
}

/// A stack of one host, which is here: its processes are all that began with the first one, so all but the kernel's own.
fn this_machine() -> Stack {
    let mut stack = Stack::default();
    let here = Host { process: Some(ProcessRef::Pids(vec![1])), ..Host::default() };
    stack.host.insert("here".to_string(), here);
    stack
}

fn watch(
    args: &WatchArgs,
    name: &str,
    stack: &Stack,
    interval: Duration,
    interrupted: &dyn Fn() -> bool,
) -> Result<()> {
    let mut agents = prony_session::connect(stack, &home::journal());
    let (tell, seen) = channel();
    for agent in agents.values_mut() {
        agent.start_watch(1.0 / interval.as_secs_f64(), tell.clone());
    }
    drop(tell);
    let environment = |name: &str| std::env::var(name).ok();
    let wants_screen = !args.json && !args.no_tui && std::io::stdout().is_terminal();
    let mut terminal = match wants_screen && Terminal::is_there(environment("TERM").as_deref()) {
        true => Some(Terminal::enter().context("the terminal cannot show a screen; use --no-tui")?),
        false => None,
    };
    let mut screen = WatchScreen::new(name, stack, Look::of(&environment));
    let mut closely = args.close.map(|every| Closely { every: every.into(), next: Instant::now(), asked: Vec::new() });
    let begun = Instant::now();
    let is_over = || interrupted() || args.duration.is_some_and(|most| begun.elapsed() >= Duration::from(most));
    let mut draw = true;
    while !is_over() {
        match seen.recv_timeout(TICK) {
            Ok(Seen::Samples(samples)) => {
                draw = true;
                let known = screen.see(&samples);
                if let (None, Some(host)) = (&terminal, known) {
                    let host = host.name().to_string();
                    print(&told(args, &screen, &host, begun.elapsed()));
                }
            }
            Ok(Seen::Gap(gap)) => screen.miss(gap),
            Err(RecvTimeoutError::Timeout) => {}
            // Every watch has ended: none of the hosts can be read.
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Some(closely) = &mut closely {
            closely.go_on(agents.values(), &mut screen);
        }
        let Some(terminal) = &mut terminal else { continue };
        let wishes = terminal.wishes().context("the terminal is gone")?;
        if wishes.contains(&Wish::Stop) {
            break;
        }
        if std::mem::take(&mut draw) || wishes.contains(&Wish::Redraw) {
            terminal.draw(|frame| screen.draw(frame)).context("the terminal is gone")?;
        }
    }
    for agent in agents.values_mut() {
        agent.stop_watch();
    }
    Ok(())
}

/// Close looks at all hosts, now and then.
struct Closely {
    every: Duration,
    next: Instant,
    /// Looks that are under way.
    asked: Vec<Receiver<Result<Reply, AgentError>>>,
}

impl Closely {
    /// Begins looks that are due, and shows what those that have ended saw.
    fn go_on<'a>(&mut self, agents: impl Iterator<Item = &'a Box<dyn Agent>>, screen: &mut WatchScreen) {
        if self.asked.is_empty() && Instant::now() >= self.next {
            self.next = Instant::now() + self.every;
            self.asked = agents.map(|agent| agent.begin(Request::Look { duration: CLOSE_FOR })).collect();
        }
        self.asked.retain(|replies| match replies.try_recv() {
            Ok(Ok(Reply::Looked(sample, gaps, _))) => {
                screen.see_closely(&sample);
                gaps.into_iter().for_each(|gap| screen.miss(gap));
                false
            }
            // A host that cannot be looked at closely is still watched.
            Ok(_) | Err(TryRecvError::Disconnected) => false,
            Err(TryRecvError::Empty) => true,
        });
    }
}

/// One host as a line, or as an object in a line.
fn told(args: &WatchArgs, screen: &WatchScreen, host: &str, after: Duration) -> String {
    let Some(host) = screen.host(host) else { return String::new() };
    if args.json {
        as_json(host, after).to_string()
    } else {
        format!("{:6.1} s  {}", after.as_secs_f64(), screen.line(host))
    }
}

fn as_json(host: &Watched, after: Duration) -> Value {
    let facts: Map<String, Value> = host.facts().into_iter().map(|(name, value)| (name, value.into())).collect();
    let process =
        |p: BusyProcess| json!({ "pid": p.pid, "name": p.name, "cpus": p.cpus, "waits_share": p.waits_share });
    let processes: Vec<Value> = host.processes().into_iter().map(process).collect();
    json!({
        "schema": SCHEMA, "at_s": after.as_secs_f64(), "host": host.name(), "facts": facts, "processes": processes,
    })
}
