//! Server-sent events: a page is told what it looks at whenever that has changed.
//!
//! Each event is the whole state, so that a page which missed one has missed nothing. Invariant: there are never more streams
//! than a small machine carries; whoever comes too late is told to come again.

use crate::refusal::Refusal;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Streams at once. A guess: a page needs one, and each looks at a file once a second.
pub(crate) const STREAMS_MAX: usize = 32;
/// Time between two looks: a record grows once a second.
const EVERY: Duration = Duration::from_secs(1);
/// A comment is sent after this time of silence, so that a client that is gone is noticed.
const ALIVE: Duration = Duration::from_secs(15);

/// What a look found.
pub(crate) enum Seen {
    /// Nothing new.
    Same,
    /// The state now, as JSON.
    Now(String),
    /// The state at the end, as JSON: nothing will come after it.
    Last(String),
    /// It is gone.
    Over,
}

/// Room for streams.
pub(crate) struct Streams {
    room: Arc<Semaphore>,
    over: Arc<AtomicBool>,
}

impl Streams {
    pub fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(STREAMS_MAX)), over: Arc::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        STREAMS_MAX - self.room.available_permits()
    }

    /// Ends all of them.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// A stream of what `look` finds, once a second. It may read files: it runs away from the thread that answers.
    pub fn begin(&self, look: impl FnMut() -> Seen + Send + 'static) -> Result<Response, Refusal> {
        let place = Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let text = format!("{STREAMS_MAX} pages look on already: close one, or try again later");
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })?;
        let watch = Watch { look, begun: false, over: Arc::clone(&self.over), _place: place };
        let events = stream::unfold(Some(watch), next);
        Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
    }
}

/// A stream that goes on.
struct Watch<L> {
    look: L,
    begun: bool,
    over: Arc<AtomicBool>,
    /// Given back when the stream ends.
    _place: OwnedSemaphorePermit,
}

type Next<L> = Option<(Result<Event, Infallible>, Option<Watch<L>>)>;

async fn next<L: FnMut() -> Seen + Send + 'static>(watch: Option<Watch<L>>) -> Next<L> {
    let mut watch = watch?;
    loop {
        if std::mem::replace(&mut watch.begun, true) {
            tokio::time::sleep(EVERY).await;
        }
        if watch.over.load(Ordering::Relaxed) {
            return None;
        }
        let looked = tokio::task::spawn_blocking(move || {
            let seen = (watch.look)();
            (seen, watch)
        });
        let (seen, same) = looked.await.ok()?;
        watch = same;
        match seen {
            Seen::Same => {}
            Seen::Now(state) => return Some((Ok(event("now", &state)), Some(watch))),
            Seen::Last(state) => return Some((Ok(event("last", &state)), None)),
            Seen::Over => return None,
        }
    }
}

/// JSON has no line break outside of its strings, and escapes those inside.
fn event(name: &str, state: &str) -> Event {
    Event::default().event(name).data(state)
}
