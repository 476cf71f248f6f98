//! What a person sees on stderr while a run is under way: a screen where stderr is a terminal that can show one, else lines.
//!
//! Invariant: stdout stays clean for results, and when progress is dropped the terminal is as it was before.

mod lines;
mod screen;

use crate::cli::ProgressArgs;
use crate::measure::command_line;
use lines::Lines;
use prony_model::Event;
use prony_tui::{Look, StepsScreen, Terminal};
use screen::Screen;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Shows events as they happen.
pub(crate) struct Progress {
    quiet: bool,
    face: Face,
}

enum Face {
    /// A terminal that is not taken yet: a run that cannot begin leaves it alone, and its error stands where it should.
    Waiting {
        interrupted: Arc<AtomicBool>,
        intervals: bool,
    },
    Screen(Screen),
    Lines(Lines),
}

impl Progress {
    /// Lines, for what is over soon.
    pub fn lines(quiet: bool) -> Self {
        Self { quiet, face: Face::Lines(Lines::new(false)) }
    }

    /// For a run of many trials. `intervals`: whether lines show the interval of a search as it closes. A person at the screen who
    /// wants to stop sets `interrupted`.
    pub fn of_run(args: ProgressArgs, intervals: bool, interrupted: &Arc<AtomicBool>) -> Self {
        let able = !args.quiet && !args.no_tui && Terminal::is_there(environment("TERM").as_deref());
        let face = match able {
            true => Face::Waiting { interrupted: Arc::clone(interrupted), intervals },
            false => Face::Lines(Lines::new(intervals)),
        };
        Self { quiet: args.quiet, face }
    }

    /// How far an experiment is: shown with every trial from here on.
    pub fn set_left(&mut self, left: String) {
        match self.taken() {
            Face::Screen(screen) => screen.set_left(left),
            Face::Lines(lines) => lines.set_left(left),
            Face::Waiting { .. } => {}
        }
    }

    /// Shows one event. A note is shown even when progress is not wanted.
    pub fn show(&mut self, event: &Event) {
        if self.quiet && !matches!(event, Event::Note { .. }) {
            return;
        }
        match self.taken() {
            Face::Screen(screen) => screen.show(event),
            Face::Lines(lines) => lines.show(event),
            Face::Waiting { .. } => {}
        }
    }

    /// Takes a terminal that waits, now that the run has begun.
    fn taken(&mut self) -> &mut Face {
        if let Face::Waiting { interrupted, intervals } = &self.face {
            let screen = StepsScreen::new(&command_line(), Look::of(&environment));
            let begun =
                Terminal::enter().ok().and_then(|terminal| Screen::begin(terminal, screen, Arc::clone(interrupted)));
            self.face = begun.map_or_else(|| Face::Lines(Lines::new(*intervals)), Face::Screen);
        }
        &mut self.face
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
