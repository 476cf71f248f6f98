//! An agent for a host of this machine: in-process, each request on a thread of its own inside the host.

use crate::door;
use crate::host::HostDesk;
use crate::message::{Reply, Request};
use crate::sys;
use crate::{Agent, AgentError, Seen};
use prony_model::{CpuList, Gap, Host};
use prony_probe::Watch;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A host of this machine.
pub struct LocalAgent {
    desk: Arc<HostDesk>,
    /// CPUs for everything but the load itself, so that looking does not disturb the host that is looked at; none: all.
    observer_cpus: Option<CpuList>,
    stop_load: Arc<AtomicBool>,
    watch: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl LocalAgent {
    /// An agent for `host`. Undo records of its changes go to `journal_dir`.
    pub fn new(name: &str, host: &Host, journal_dir: PathBuf, observer_cpus: Option<CpuList>) -> Self {
        Self {
            desk: Arc::new(HostDesk::new(name, host, journal_dir)),
            observer_cpus,
            stop_load: Arc::new(AtomicBool::new(false)),
            watch: None,
        }
    }

    fn error(&self, reason: impl ToString) -> AgentError {
        AgentError { host: self.desk.name.clone(), reason: reason.to_string() }
    }
}

impl Agent for LocalAgent {
    fn host(&self) -> &str {
        &self.desk.name
    }

    fn begin(&self, request: Request) -> Receiver<Result<Reply, AgentError>> {
        let (reply, replies) = channel();
        let (desk, stop_load) = (Arc::clone(&self.desk), Arc::clone(&self.stop_load));
        let is_load = matches!(request, Request::Load(_) | Request::LoadLive { .. });
        let is_flow = matches!(request, Request::Receive(_) | Request::Send { .. });
        let cpus = self.observer_cpus.clone().filter(|_| !is_load && !is_flow);
        if is_load || is_flow {
            stop_load.store(false, Ordering::Relaxed);
        }
        let work = move || {
            let tell = |told: Reply| {
                // The session may have stopped listening; then nobody wants to know.
                let _ = reply.send(Ok(told));
            };
            let answer = door::through(&desk.host.at, |roots| {
                stand_aside(cpus.as_ref());
                desk.answer(request, roots, &stop_load, &tell)
            });
            let result = answer.map_err(|e| e.to_string()).and_then(|r| r);
            // The session may have stopped listening; then nobody wants the reply.
            let _ = reply.send(result.map_err(|reason| AgentError { host: desk.name.clone(), reason }));
        };
        if let Err(e) = std::thread::Builder::new().name(format!("agent-{}", self.desk.name)).spawn(work) {
            let (reply, replies) = channel();
            let _ = reply.send(Err(self.error(format!("cannot start a thread: {e}"))));
            return replies;
        }
        replies
    }

    fn start_watch(&mut self, per_second: f64, seen: Sender<Seen>) {
        self.stop_watch();
        let stop = Arc::new(AtomicBool::new(false));
        let (desk, cpus, stopped) = (Arc::clone(&self.desk), self.observer_cpus.clone(), Arc::clone(&stop));
        let interval = Duration::from_secs_f64(1.0 / per_second.clamp(0.1, 100.0));
        let thread = std::thread::spawn(move || {
            let told_outside = seen.clone();
            let entered = door::through(&desk.host.at, |roots| {
                stand_aside(cpus.as_ref());
                let mut watch = Watch::new(&desk.name, &desk.host, roots);
                let mut told = BTreeSet::new();
                while !stopped.load(Ordering::Relaxed) {
                    let samples = Seen::Samples(watch.samples(sys::monotonic_ns()));
                    let news = watch.gaps().into_iter().filter(|gap| told.insert(gap.fact.clone())).map(Seen::Gap);
                    if std::iter::once(samples).chain(news).any(|s| seen.send(s).is_err()) {
                        break;
                    }
                    std::thread::sleep(interval);
                }
            });
            if let Err(e) = entered {
                // The session may have stopped listening; then nobody wants to know.
                let _ = told_outside.send(Seen::Gap(Gap::new("watch", &desk.name, e.to_string())));
            }
        });
        self.watch = Some((stop, thread));
    }

    fn stop_watch(&mut self) {
        if let Some((stop, thread)) = self.watch.take() {
            stop.store(true, Ordering::Relaxed);
            // A watch that panicked has sent what it had; its gaps are in the samples.
            let _ = thread.join();
        }
    }

    fn stop_load(&self) {
        self.stop_load.store(true, Ordering::Relaxed);
    }
}

/// Moves the thread to the observers' CPUs. One that cannot be moved still works, only less quietly.
fn stand_aside(cpus: Option<&CpuList>) {
    let _ = cpus.map(sys::pin_this_thread);
}

impl Drop for LocalAgent {
    fn drop(&mut self) {
        self.stop_load();
        self.stop_watch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{LoadPlan, Place};

    fn agent(at: Place) -> LocalAgent {
        LocalAgent::new("lb", &Host { at, ..Host::default() }, PathBuf::from("/nonexistent"), None)
    }

    #[test]
    fn an_agent_tells_a_time_that_goes_on() {
        let agent = agent(Place::Local);
        let now = || match agent.call(Request::Hello) {
            Ok(Reply::Hello { now_ns }) => now_ns,
            other => panic!("{other:?}"),
        };
        let first = now();
        assert!(first > 0 && now() > first);
    }

    #[test]
    fn a_watch_sends_samples_until_it_is_stopped() {
        let mut agent = agent(Place::Local);
        let (sender, seen) = channel();
        agent.start_watch(100.0, sender);
        let first = seen.iter().find_map(|seen| match seen {
            Seen::Samples(samples) => Some(samples),
            Seen::Gap(_) => None,
        });
        assert_eq!(first.unwrap()[0].host, "lb");
        agent.stop_watch();
        seen.iter().for_each(drop); // This ends only because the watch has ended.
    }

    #[test]
    fn a_host_that_cannot_be_entered_is_an_error_and_its_watch_a_gap() {
        let mut agent = agent(Place::Netns("no-such".into()));
        let error = agent.call(Request::Hello).unwrap_err().to_string();
        assert!(error.starts_with("host lb: there is no network namespace `no-such`"), "{error}");
        let (sender, seen) = channel();
        agent.start_watch(100.0, sender);
        let seen: Vec<Seen> = seen.iter().collect();
        assert!(
            matches!(&seen[..], [Seen::Gap(gap)] if gap.host == "lb" && gap.reason.contains("no-such")),
            "{seen:?}"
        );
    }

    #[test]
    fn a_load_that_nobody_answers_is_an_error_of_the_host() {
        // Port 1 of loopback: nothing listens there.
        let plan = LoadPlan { duration: prony_model::Nanos::from_millis(10), ..LoadPlan::to("http://127.0.0.1:1/") };
        let error = agent(Place::Local).call(Request::Load(Box::new(plan))).unwrap_err();
        assert_eq!(error.host, "lb");
        assert!(error.reason.contains("127.0.0.1:1"), "{}", error.reason);
    }

    /// Answers every request with an empty response, on a thread per connection, until the test ends.
    fn server() -> std::net::SocketAddr {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                        if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    fn a_live_load_tells_how_it_goes_and_then_what_came_out() {
        let plan = LoadPlan {
            warmup: prony_model::Nanos(0),
            duration: prony_model::Nanos::from_millis(900),
            ..LoadPlan::to(&format!("http://{}/", server()))
        };
        let agent = agent(Place::Local);
        let live = || Request::LoadLive { plan: Box::new(plan.clone()), every: prony_model::Nanos::from_millis(250) };
        let replies = agent.begin(live());
        let replies: Vec<Reply> = replies.iter().map(Result::unwrap).collect();
        let (last, before) = replies.split_last().unwrap();
        let done: Vec<u64> = before
            .iter()
            .map(|reply| {
                let Reply::Progress(progress) = reply else { panic!("{reply:?}") };
                progress.completed
            })
            .collect();
        assert!(!done.is_empty() && done.is_sorted(), "{done:?}");
        let Reply::Loaded(_, result) = last else { panic!("{last:?}") };
        assert!(result.completed >= done[done.len() - 1]);
        let silent: Vec<_> = agent.begin(Request::Load(Box::new(plan.clone()))).iter().collect();
        assert_eq!(silent.len(), 1, "a load that is not live tells its result only");
        assert!(matches!(agent.call(live()), Ok(Reply::Loaded(..))));
    }

    #[test]
    fn trials_of_a_scenario_go_on_where_the_one_before_ended() {
        let stack = "entry = \"http://x/\"\n[[workload.step]]\npath = \"/once\"\n[[workload.step]]\npath = \"/on\"\nrepeat = 1000000\n";
        let script = Some(prony_model::Stack::parse("x.toml", stack).unwrap().workload.script());
        let plan = LoadPlan {
            connections: 2,
            warmup: prony_model::Nanos(0),
            requests_max: Some(50),
            script,
            ..LoadPlan::to(&format!("http://{}/", server()))
        };
        let agent = agent(Place::Local);
        let first_step = || match agent.call(Request::Load(Box::new(plan.clone()))) {
            Ok(Reply::Loaded(_, result)) => result.steps[0].completed,
            other => panic!("{other:?}"),
        };
        assert_eq!((first_step(), first_step()), (2, 0));
    }

    #[test]
    fn a_knob_without_its_server_is_an_error_with_the_next_step() {
        let knob = prony_model::KnobId::NginxWorkerProcesses;
        let error = agent(Place::Local).call(Request::Read(knob)).unwrap_err().to_string();
        assert!(error.starts_with("host lb: "), "{error}");
    }
}
