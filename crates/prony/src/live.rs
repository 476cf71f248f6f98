//! Sends a load through the agent of its generator, and shows on stderr how it goes: a screen where stderr is a terminal,
//! else a line a second, or nothing. Stdout stays clean for results.
//!
//! What is shown is the work of `prony-tui`. Invariant: when [`send`] returns, the terminal is as it was before.

use crate::cli::ShowArgs;
use anyhow::{Context, Result, bail};
use prony_agent::{Agent, AgentError, LocalAgent, Reply, Request};
use prony_model::{Host, LoadPlan, LoadProgress, LoadResult, Nanos, Role, Stack};
use prony_tui::{LoadScreen, Look, TICK, Terminal, Wish};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;

/// How often a screen, or what may end the load early, hears of it. A guess: smooth to the eye.
const SCREEN_EVERY: Nanos = Nanos(250_000_000);
/// The same for lines, of which there is one a second.
const LINES_EVERY: Nanos = Nanos(500_000_000);

/// Ends a load early, with what was measured, when it is true of the progress.
pub(crate) type Enough<'a> = Option<&'a mut dyn FnMut(&LoadProgress) -> bool>;

/// Sends the load from the stack's generator host, or from here if it names none. Ctrl-C and `q` end it early too.
pub(crate) fn send(stack: &Stack, plan: &LoadPlan, show: &ShowArgs, mut is_enough: Enough<'_>) -> Result<LoadResult> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("cannot catch Ctrl-C")?;
    }
    let here = Host { role: Role::Generator, ..Host::default() };
    let (name, host) = stack.generator().unwrap_or(("client", &here));
    let agent = LocalAgent::new(name, host, crate::home::journal(), None);
    let mut live = Live::new(plan, show);
    let every = if is_enough.is_some() { Some(SCREEN_EVERY) } else { live.hears_every() };
    let plan = Box::new(plan.clone());
    let replies = agent.begin(match every {
        Some(every) => Request::LoadLive { plan, every },
        None => Request::Load(plan),
    });
    let mut enough = false;
    loop {
        match replies.recv_timeout(TICK) {
            Ok(Ok(Reply::Progress(progress))) => {
                enough |= is_enough.as_mut().is_some_and(|is_enough| is_enough(&progress));
                live.see(&progress);
            }
            Ok(Ok(Reply::Loaded(_, result))) => return Ok(*result),
            Ok(Ok(_)) => return Err(AgentError::other_reply(name).into()),
            Ok(Err(e)) => bail!("{}", e.reason),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(AgentError::ended(name).into()),
        }
        if enough || live.wants_stop() || interrupted.load(Ordering::Relaxed) {
            live.stop();
            agent.stop_load();
        }
    }
}

/// How a load is shown while it runs.
pub(crate) struct Live {
    screen: LoadScreen,
    face: Face,
}

enum Face {
    /// A terminal that is not taken yet: a load that cannot begin leaves it alone, and its error stands where it should.
    Waiting,
    Taken(Terminal),
    Lines,
    Nothing,
}

impl Live {
    /// Chooses by what was asked for and what stderr is.
    pub fn new(plan: &LoadPlan, show: &ShowArgs) -> Self {
        let environment = |name: &str| std::env::var(name).ok();
        let face = if show.progress.quiet {
            Face::Nothing
        } else if !show.progress.no_tui && Terminal::is_there(environment("TERM").as_deref()) {
            Face::Waiting
        } else {
            Face::Lines
        };
        Self { screen: LoadScreen::new(plan, Look::of(&environment)), face }
    }

    /// How often it must hear of the load; none: it shows nothing.
    fn hears_every(&self) -> Option<Nanos> {
        match self.face {
            Face::Waiting | Face::Taken(_) => Some(SCREEN_EVERY),
            Face::Lines => Some(LINES_EVERY),
            Face::Nothing => None,
        }
    }

    /// Shows how the load goes. Whoever cannot see it any more misses it; the load goes on.
    pub fn see(&mut self, progress: &LoadProgress) {
        self.screen.see(progress);
        if matches!(self.face, Face::Waiting) {
            self.face = Terminal::enter().map_or(Face::Lines, Face::Taken);
        }
        self.show();
    }

    /// Whether the person at the terminal asked to stop since the last call. Draws anew when the size has changed.
    pub fn wants_stop(&mut self) -> bool {
        let Face::Taken(terminal) = &mut self.face else { return false };
        let Ok(wishes) = terminal.wishes() else {
            self.face = Face::Nothing;
            return false;
        };
        if wishes.contains(&Wish::Redraw) {
            self.show();
        }
        wishes.contains(&Wish::Stop)
    }

    /// The load was told to stop.
    pub fn stop(&mut self) {
        self.screen.stop();
    }

    fn show(&mut self) {
        let shown = match &mut self.face {
            Face::Taken(terminal) => terminal.draw(|frame| self.screen.draw(frame)),
            Face::Lines => self.screen.next_lines().iter().try_for_each(|line| writeln!(std::io::stderr(), "{line}")),
            Face::Waiting | Face::Nothing => Ok(()),
        };
        if shown.is_err() {
            self.face = Face::Nothing;
        }
    }
}
