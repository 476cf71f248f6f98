//! Serves one host: reads facts, drives load, turns knobs, all behind typed messages.
//!
//! The session talks to an [`Agent`] through one trait and assumes no shared memory, clock or file system with it.
//! Here is the implementation for hosts of this machine, in-process and through the namespace door; a remote one
//! speaks the same messages. Besides the labs this is the only part that needs root.
//! Invariant: no message carries a command line.

pub mod door;
mod flow;
mod host;
mod iperf3;
mod local;
pub mod message;
mod pending;
mod sys;

pub use door::{DoorError, through};
pub use local::LocalAgent;
pub use message::{Reply, Request, Restored};
pub use pending::{Pending, pending, undo_pending};
pub use sys::is_root;

use prony_model::{Gap, Sample};
use std::sync::mpsc::{Receiver, Sender};

/// Why an agent could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("host {host}: {reason}")]
pub struct AgentError {
    /// Host name in the stack.
    pub host: String,
    /// What went wrong, and the next step.
    pub reason: String,
}

impl AgentError {
    /// The agent ended before it answered.
    pub fn ended(host: &str) -> Self {
        Self { host: host.to_string(), reason: "the agent ended before it answered".to_string() }
    }

    /// The agent answered something that was not asked.
    pub fn other_reply(host: &str) -> Self {
        Self { host: host.to_string(), reason: "the agent gave a reply of another kind".to_string() }
    }
}

/// What a watch sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// What one reading of the host showed, in order of time: mostly one sample, more where a reader was held up. Never empty.
    Samples(Vec<Sample>),
    /// A fact that cannot be read; each is told once.
    Gap(Gap),
}

/// One host, as the session sees it. Times are nanoseconds of the agent's own monotonic clock; [`Request::Hello`] tells it.
pub trait Agent: Send {
    /// Host name in the stack.
    fn host(&self) -> &str;

    /// Begins a request; the reply comes later, after [`Reply::Progress`] if that was asked for, and after
    /// [`Reply::Receiving`]. Several requests may be under way at once.
    fn begin(&self, request: Request) -> Receiver<Result<Reply, AgentError>>;

    /// Starts to read the host `per_second` times a second and to send what it saw, until [`Agent::stop_watch`].
    fn start_watch(&mut self, per_second: f64, seen: Sender<Seen>);

    /// Ends the watch and waits for it.
    fn stop_watch(&mut self);

    /// Asks the load or the flow that is under way, if any, to end now.
    fn stop_load(&self);

    /// A request and its reply. What is told on the way is not waited for.
    fn call(&self, request: Request) -> Result<Reply, AgentError> {
        let replies = self.begin(request);
        let reply = replies.iter().find(|reply| !matches!(reply, Ok(Reply::Progress(_) | Reply::Receiving { .. })));
        reply.unwrap_or_else(|| Err(AgentError::ended(self.host())))
    }
}
