//! One end of a flow on a host: sends or receives on the host's CPUs, with the host's facts from before and after.
//!
//! Runs on a thread that is already inside the host. Invariant: the facts from before are read before anything is sent.

use crate::host::HostDesk;
use crate::iperf3::{self, Server};
use crate::message::Reply;
use crate::sys;
use prony_load::flow::{self, Receiver};
use prony_model::Sample;
use prony_model::network::{FlowEnd, FlowPlan, Sender};
use prony_probe::{Roots, Watch};
use std::sync::atomic::AtomicBool;

/// Receives what the plan says. `tell` hears where, as soon as somebody listens there.
pub(crate) fn receive(
    desk: &HostDesk,
    roots: Roots,
    plan: &FlowPlan,
    stop: &AtomicBool,
    tell: &(dyn Fn(Reply) + Sync),
) -> Result<Reply, String> {
    let facts = Facts::before(desk, roots);
    let end = match plan.by {
        Sender::Own => {
            let receiver = Receiver::open(plan).map_err(|e| e.to_string())?;
            tell(Reply::Receiving { port: receiver.port() });
            receiver.run(stop).map_err(|e| e.to_string())
        }
        Sender::Iperf3 => {
            let server = Server::start(plan)?;
            tell(Reply::Receiving { port: server.port() });
            server.wait(plan, stop)
        }
    };
    Ok(facts.after(end?))
}

/// Sends what the plan says to a receiver that listens on `port`.
pub(crate) fn send(
    desk: &HostDesk,
    roots: Roots,
    plan: &FlowPlan,
    port: u16,
    stop: &AtomicBool,
) -> Result<Reply, String> {
    let facts = Facts::before(desk, roots);
    let end = match plan.by {
        Sender::Own => flow::send(plan, port, stop).map_err(|e| e.to_string()),
        Sender::Iperf3 => iperf3::send(plan, port, stop),
    };
    Ok(facts.after(end?))
}

/// Facts of the host around a flow.
struct Facts {
    watch: Watch,
    boot: String,
    before: Sample,
}

impl Facts {
    /// Reads them, and moves the thread to the CPUs of the host: the flow is the host's own work.
    fn before(desk: &HostDesk, roots: Roots) -> Self {
        // A thread that cannot be moved still measures; the facts show on which CPUs.
        let _ = desk.host.cpus.as_ref().map(sys::pin_this_thread);
        // Not there outside Linux's own procfs: then two ends do not know that they are on one machine.
        let boot = std::fs::read_to_string(roots.proc.join("sys/kernel/random/boot_id")).unwrap_or_default();
        let mut watch = Watch::new(&desk.name, &desk.host, roots);
        let before = watch.sample(sys::monotonic_ns());
        Self { watch, boot: boot.trim().to_string(), before }
    }

    fn after(mut self, end: FlowEnd) -> Reply {
        let after = self.watch.sample(sys::monotonic_ns());
        Reply::Flowed(Box::new(FlowEnd { boot: self.boot, ..end }), self.before, after)
    }
}
