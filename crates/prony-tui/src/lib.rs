//! Live screens of a terminal, and the plain lines that stand in for them where there is none.
//!
//! A screen is a state machine: it sees values of `prony-model` and draws itself into a buffer; it reads no clock and asks
//! nobody. Only [`Terminal`] touches the terminal. It never sees load, probe, tune or agent.
//! Invariant: what a screen shows is a function of what it has seen, and a number that is not known is a dash, never 0.

mod charts;
mod course;
mod load_line;
mod load_rows;
mod load_screen;
mod look;
mod parts;
mod steps_screen;
mod sys;
mod terminal;
mod texts;
mod watch_screen;
mod watched;

pub use load_screen::LoadScreen;
pub use look::Look;
pub use steps_screen::StepsScreen;
pub use terminal::{TICK, Terminal, Wish};
pub use watch_screen::WatchScreen;
pub use watched::{BusyProcess, Watched};
