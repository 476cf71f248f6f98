//! The terminal itself: takes stderr over for a screen, and gives it back as it was.
//!
//! On stderr, so that stdout stays clean for results. In the alternate screen, as oha does: it survives every resize,
//! needs no question to the terminal, and leaves the scrollback untouched; results are printed in the normal screen afterwards.
//! Invariant: however it ends, by drop, error or panic, the terminal is as before. Only `kill -9` prevents that.

use crate::sys;
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute, terminal};
use std::io::{self, BufWriter, IsTerminal, Stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of one frame that are gathered before they are written at once. A guess: a whole screen of 120x40 with its colours.
const FRAME_BYTES: usize = 32 * 1024;

/// How often keys, signals and the size of the terminal are to be looked at. A guess: a key that is answered within 50 ms feels
/// answered at once.
pub const TICK: Duration = Duration::from_millis(50);

/// Whether the terminal is ours now. The hook for panics has no other way to know.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal that shows a screen. The drop gives it back.
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<BufWriter<Stderr>>>,
}

/// What the person at the terminal wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// `q` or Ctrl-C. In raw mode Ctrl-C is a key and no signal.
    Stop,
    /// The terminal has another size.
    Redraw,
}

impl Terminal {
    /// Whether stderr is a terminal that can show a screen now. `term` is what `TERM` says; none or `dumb`: it cannot.
    pub fn is_there(term: Option<&str>) -> bool {
        let able = term.is_some_and(|term| !term.is_empty() && term != "dumb");
        able && io::stderr().is_terminal() && sys::in_foreground()
    }

    /// Takes the terminal over.
    ///
    /// # Errors
    /// When it does not tell its size or refuses the mode; it is then as before.
    pub fn enter() -> io::Result<Self> {
        let (columns, rows) = terminal::size()?;
        if columns == 0 || rows == 0 {
            return Err(io::Error::other("the terminal does not tell its size"));
        }
        give_back_on_panic();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let backend = CrosstermBackend::new(BufWriter::with_capacity(FRAME_BYTES, io::stderr()));
        execute!(io::stderr(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| ratatui::Terminal::new(backend))
            .map(|inner| Self { inner })
            .inspect_err(|_| give_back())
    }

    /// Draws one frame; only what differs from the last is sent.
    ///
    /// # Errors
    /// When the terminal is gone, or was given back because a thread panicked.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !TAKEN.load(Ordering::SeqCst) {
            return Err(io::Error::other("the terminal was given back"));
        }
        self.inner.draw(draw).map(|_| ())
    }

    /// What was asked for since the last call; waits for nothing.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn wishes(&mut self) -> io::Result<Vec<Wish>> {
        // Of a terminal that hung up, crossterm reads the end again and again and never comes back.
        if !io::stderr().is_terminal() {
            return Err(io::Error::other("the terminal hung up"));
        }
        let mut wishes = Vec::new();
        while event::poll(Duration::ZERO)? {
            wishes.extend(wish(&event::read()?));
        }
        Ok(wishes)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn wish(event: &Event) -> Option<Wish> {
    match event {
        Event::Key(key) => asks_to_stop(key).then_some(Wish::Stop),
        Event::Resize(..) => Some(Wish::Redraw),
        Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => None,
    }
}

fn asks_to_stop(key: &KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let asked = matches!((key.code, control), (KeyCode::Char('q' | 'Q'), false) | (KeyCode::Char('c'), true));
    asked && key.kind == KeyEventKind::Press
}

/// Gives the terminal back, once. Nothing can be done about a terminal that does not take it.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

/// A panic ends the process before anything is dropped (`panic = "abort"`), so the hook gives the terminal back first; then
/// the message is on the normal screen, where it can be read.
fn give_back_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            previous(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_and_ctrl_c_stop_and_nothing_else_does() {
        let press = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::NONE), Some(Wish::Stop));
        assert_eq!(press(KeyCode::Char('Q'), KeyModifiers::SHIFT), Some(Wish::Stop));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Stop));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
        assert_eq!(press(KeyCode::Enter, KeyModifiers::NONE), None);
        assert_eq!(wish(&Event::Resize(40, 10)), Some(Wish::Redraw));
    }

    #[test]
    fn a_dumb_or_nameless_terminal_is_none() {
        assert!(!Terminal::is_there(None));
        assert!(!Terminal::is_there(Some("")));
        assert!(!Terminal::is_there(Some("dumb")));
    }
}
