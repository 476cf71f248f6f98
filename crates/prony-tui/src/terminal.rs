//! The terminal itself: takes stderr over for a screen, and gives it back as it was.
//!
//! On stderr, so that stdout stays clean for results. In the alternate screen, as oha does: it survives every resize,
//! needs no question to the terminal, and leaves the scrollback untouched; results are printed in the normal screen afterwards.
//! Invariant: however it ends, by drop, error or panic, the terminal is as before. Only `kill -9` prevents that.

use crate::sys;
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute, terminal};
use std::io::{self, BufWriter, IsTerminal, Stderr};
use std::os::fd::OwnedFd;
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

const ESC: u8 = 0x1b;
const CTRL_C: u8 = 0x03;

/// A terminal that shows a screen. The drop gives it back.
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    /// Where keys come from. Read by us: of a terminal that hangs up, crossterm reads the end again and again and never comes back.
    keys: OwnedFd,
    /// Columns and rows when last looked.
    size: (u16, u16),
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
        let size = terminal::size()?;
        if size.0 == 0 || size.1 == 0 {
            return Err(io::Error::other("the terminal does not tell its size"));
        }
        let keys = sys::keyboard()?;
        give_back_on_panic();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let backend = CrosstermBackend::new(BufWriter::with_capacity(FRAME_BYTES, io::stderr()));
        execute!(io::stderr(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| ratatui::Terminal::new(backend))
            .map(|inner| Self { inner, keys, size })
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
        // Of a terminal that hung up, crossterm would ask other programs for the size.
        if !io::stderr().is_terminal() {
            return Err(io::Error::other("the terminal hung up"));
        }
        let mut wishes = Vec::new();
        let mut typed = [0; 256];
        let count = sys::read_now(&self.keys, &mut typed)?;
        if asks_to_stop(&typed[..count]) {
            wishes.push(Wish::Stop);
        }
        let size = terminal::size()?;
        if std::mem::replace(&mut self.size, size) != size {
            wishes.push(Wish::Redraw);
        }
        Ok(wishes)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether `q` or Ctrl-C is among what was typed. Other keys send sequences that begin with Esc and may hold any letter.
fn asks_to_stop(typed: &[u8]) -> bool {
    let mut rest = typed.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'q' | b'Q' | &CTRL_C => return true,
            &ESC => pass_over_sequence(&mut rest),
            _ => {}
        }
    }
    false
}

/// Passes over what follows an Esc: a control sequence up to its final byte, a function key, or a letter held with Alt (ECMA-48, 5.4).
fn pass_over_sequence(rest: &mut std::slice::Iter<'_, u8>) {
    match rest.next() {
        Some(b'[') => {
            rest.find(|byte| (0x40..=0x7e).contains(*byte));
        }
        Some(b'O') => {
            rest.next();
        }
        _ => {}
    }
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
        assert!(asks_to_stop(b"q"));
        assert!(asks_to_stop(b"Q"));
        assert!(asks_to_stop(b"\x03"));
        assert!(!asks_to_stop(b""));
        assert!(!asks_to_stop(b"c\r \x11"));
    }

    #[test]
    fn letters_inside_the_sequence_of_another_key_are_not_typed() {
        // Alt-q, the 1 of a keypad, a sequence with a `q` at its end; a cursor key and then a `q`.
        assert!(!asks_to_stop(b"\x1bq"));
        assert!(!asks_to_stop(b"\x1bOq"));
        assert!(!asks_to_stop(b"\x1b[1;5q"));
        assert!(!asks_to_stop(b"\x1b"));
        assert!(asks_to_stop(b"\x1b[Aq"));
    }

    #[test]
    fn a_dumb_or_nameless_terminal_is_none() {
        assert!(!Terminal::is_there(None));
        assert!(!Terminal::is_there(Some("")));
        assert!(!Terminal::is_there(Some("dumb")));
    }
}
