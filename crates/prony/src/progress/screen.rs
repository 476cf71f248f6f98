//! A run of trials on a screen. A thread of its own draws it, because the run waits for its trials.
//!
//! What is drawn is the work of `prony-tui`. Invariant: when it is dropped, the terminal is as it was before, and the notes that
//! only the screen had shown stand on stderr.

use prony_model::Event;
use prony_tui::{StepsScreen, TICK, Terminal, Wish};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two frames while nothing happens. A guess: bars that move four times a second seem to flow, and cost the
/// generator's machine next to nothing.
const FRAME: Duration = Duration::from_millis(250);

enum Told {
    Event(Event),
    Left(String),
}

/// The screen, and what is to be said when it is gone.
pub(super) struct Screen {
    /// Nothing once the run is over.
    tell: Option<Sender<Told>>,
    thread: Option<JoinHandle<()>>,
    notes: Vec<String>,
}

impl Screen {
    /// Takes a terminal. None when there can be no thread: the terminal is given back then.
    pub fn begin(terminal: Terminal, screen: StepsScreen, interrupted: Arc<AtomicBool>) -> Option<Self> {
        let (tell, told) = channel();
        let draw = move || show(terminal, screen, &told, &interrupted);
        let thread = std::thread::Builder::new().name("screen".to_string()).spawn(draw).ok()?;
        Some(Self { tell: Some(tell), thread: Some(thread), notes: Vec::new() })
    }

    pub fn set_left(&self, left: String) {
        self.tell(Told::Left(left));
    }

    pub fn show(&mut self, event: &Event) {
        if let Event::Note { text } = event {
            self.notes.push(text.clone());
        }
        self.tell(Told::Event(event.clone()));
    }

    /// A screen whose terminal is gone misses it; the run goes on.
    fn tell(&self, told: Told) {
        if let Some(tell) = &self.tell {
            let _ = tell.send(told);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
}

/// Draws until nothing is told any more, or the terminal is gone.
fn show(mut terminal: Terminal, mut screen: StepsScreen, told: &Receiver<Told>, interrupted: &AtomicBool) {
    let begun = Instant::now();
    let mut drawn: Option<Instant> = None;
    loop {
        let mut news = true;
        match told.recv_timeout(TICK) {
            Ok(Told::Event(event)) => screen.see(&event, begun.elapsed()),
            Ok(Told::Left(left)) => screen.set_left(left),
            Err(RecvTimeoutError::Timeout) => news = false,
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Ok(wishes) = terminal.wishes() else { return };
        if wishes.contains(&Wish::Stop) {
            screen.stop();
            interrupted.store(true, Ordering::Relaxed);
        }
        let due = drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME);
        if news || due || !wishes.is_empty() {
            drawn = Some(Instant::now());
            if terminal.draw(|frame| screen.draw(frame, begun.elapsed())).is_err() {
                return;
            }
        }
    }
}
