//! What a session may ask of an agent, and what it answers. All of it can be sent over a wire.

use prony_model::knob::ChangeState;
use prony_model::network::{FlowEnd, FlowPlan};
use prony_model::{Change, Gap, Knob, KnobId, LoadPlan, LoadProgress, LoadResult, Nanos, Sample, Stacks, Window};
use serde::{Deserialize, Serialize};

/// A request to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// What time is it on your clock?
    Hello,
    /// What is this host?
    Inventory,
    /// Close looks at logs, workers and the code they run for this long; not during a scored trial.
    Look {
        /// How long.
        duration: Nanos,
    },
    /// What do a connection and a log write cost here? Takes under a second.
    Prices,
    /// Send this load and count.
    Load(Box<LoadPlan>),
    /// The same, and tell how it goes: any number of [`Reply::Progress`] come before [`Reply::Loaded`].
    LoadLive {
        /// What to send.
        plan: Box<LoadPlan>,
        /// How often to tell.
        every: Nanos,
    },
    /// Receive a flow: [`Reply::Receiving`] says where, [`Reply::Flowed`] what came.
    Receive(FlowPlan),
    /// Send a flow to the host that receives it.
    Send {
        /// The same as the receiver was told.
        plan: FlowPlan,
        /// From [`Reply::Receiving`].
        port: u16,
    },
    /// Present value of a knob.
    Read(KnobId),
    /// Could this knob be turned? Nothing is changed.
    Rehearse(Knob),
    /// Turn a knob; the undo is on disk before.
    Apply(Knob),
    /// Let the host's processes use only this much CPU time per second.
    SlowCpu {
        /// CPUs.
        cpus: f64,
        /// The time over which they may use it.
        period: Nanos,
    },
    /// Put a change back.
    Undo {
        /// Number from [`Reply::Applied`].
        id: u64,
    },
    /// Leave a change in place for good.
    Keep {
        /// Number from [`Reply::Applied`].
        id: u64,
    },
}

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Hello`]: nanoseconds of the agent's monotonic clock.
    Hello {
        /// Now.
        now_ns: u64,
    },
    /// To [`Request::Inventory`].
    Inventory(prony_model::run::Inventory, Vec<Gap>),
    /// To [`Request::Look`] and [`Request::Prices`], which has no stacks.
    Looked(Sample, Vec<Gap>, Option<Stacks>),
    /// To [`Request::LoadLive`], as often as asked for while the load runs.
    Progress(Box<LoadProgress>),
    /// To [`Request::Load`] and [`Request::LoadLive`]: the counted window on the agent's clock, and the result.
    Loaded(Window, Box<LoadResult>),
    /// To [`Request::Receive`], before anything came.
    Receiving {
        /// Port that it listens on.
        port: u16,
    },
    /// To [`Request::Receive`] and [`Request::Send`]: what this end saw, and facts of its host from before and after.
    Flowed(Box<FlowEnd>, Sample, Sample),
    /// To [`Request::Read`], and to [`Request::Rehearse`]: the present value.
    Value(String),
    /// To [`Request::Apply`] and [`Request::SlowCpu`].
    Applied {
        /// Number to undo or keep it by.
        id: u64,
        /// What was changed.
        change: Change,
    },
    /// To [`Request::Undo`].
    Restored(Restored),
    /// To [`Request::Keep`].
    Kept,
}

/// How an undo ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Undone, or a conflict that was left alone.
    pub state: ChangeState,
    /// One line for a person.
    pub detail: String,
}

impl From<prony_tune::Undone> for Restored {
    fn from(undone: prony_tune::Undone) -> Self {
        let plain = match undone.state {
            ChangeState::Undone => "as it was before",
            ChangeState::Conflict => "someone else changed it meanwhile",
            ChangeState::Applied | ChangeState::Kept => "left in place",
        };
        let detail = if undone.notes.is_empty() { plain.to_string() } else { undone.notes.join("; ") };
        Self { state: undone.state, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::network::{Sender, Traffic};

    fn check<T: Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(message: &T) {
        let wire = serde_json::to_string(message).unwrap();
        assert_eq!(serde_json::from_str::<T>(&wire).unwrap(), *message, "{wire}");
    }

    #[test]
    fn messages_survive_the_wire() {
        let knob = Knob { host: "lb".into(), id: KnobId::Sysctl("net.core.somaxconn".into()), value: "4096".into() };
        check(&Request::Look { duration: Nanos::from_millis(1500) });
        check(&Request::Load(Box::new(LoadPlan::to("http://10.0.0.2/"))));
        check(&Request::LoadLive { plan: Box::new(LoadPlan::to("http://10.0.0.2/")), every: Nanos(7) });
        check(&Reply::Progress(Box::new(LoadProgress { cpu: vec![0.1 + 0.2], ..LoadProgress::default() })));
        let to = "10.0.0.2".parse().unwrap();
        let plan =
            FlowPlan { traffic: Traffic::Packets { payload_bytes: 64 }, duration: Nanos(1), by: Sender::Own, to };
        check(&Request::Receive(plan));
        check(&Request::Send { plan, port: 9 });
        check(&Reply::Receiving { port: 9 });
        let end = FlowEnd { counted_s: Some(0.1 + 0.2), received: Some(7), ..FlowEnd::default() };
        check(&Reply::Flowed(Box::new(end), Sample::default(), Sample::default()));
        check(&Request::Read(knob.id.clone()));
        check(&Request::Rehearse(knob.clone()));
        check(&Request::Apply(knob.clone()));
        check(&Request::SlowCpu { cpus: 0.8, period: Nanos(10_000_000) });
        let (before, permanent, diff) = ("128".to_string(), String::new(), String::new());
        let change = Change { knob, before, permanent, diff, state: ChangeState::Applied };
        check(&Reply::Applied { id: 7, change });
        check(&Reply::Loaded(Window { from_ns: 1, to_ns: 2 }, Box::default()));
        check(&Reply::Restored(Restored { state: ChangeState::Conflict, detail: "left alone".into() }));
    }

    #[test]
    fn an_undo_without_notes_says_how_it_ended() {
        let undone = |state, notes: &[&str]| {
            let notes = notes.iter().map(|n| (*n).to_string()).collect();
            Restored::from(prony_tune::Undone { state, notes }).detail
        };
        assert_eq!(undone(ChangeState::Undone, &[]), "as it was before");
        assert_eq!(undone(ChangeState::Conflict, &[]), "someone else changed it meanwhile");
        assert_eq!(undone(ChangeState::Undone, &["a", "b"]), "a; b");
    }
}
