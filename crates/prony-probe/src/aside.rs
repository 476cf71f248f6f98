//! A server that is asked for its own statistics, on a thread of its own: a full server answers late, and the other
//! facts of the host must not wait for it.
//!
//! Knows no protocol. Invariant: one question at a time, at most one per second, and what is put was read since the
//! last sample. The thread is born in the network namespace of the thread that makes it, and ends with it.

use crate::cadence::Cadence;
use crate::facts::Facts;
use crate::machine::SLOW_NS;
use crate::sys;
use prony_model::{Gap, Sample};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// Who asks a server. One reading is bounded in time by the asker itself.
pub(crate) trait Asker: Send + 'static {
    /// Asks once and puts what the server says, or says what is missing.
    fn ask(&mut self, facts: &mut Facts);
}

/// An asker and its thread.
#[derive(Debug)]
pub(crate) struct Aside {
    questions: Option<Sender<()>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
    cadence: Cadence,
    waiting: bool,
}

#[derive(Debug)]
struct Answer {
    sample: Sample,
    gaps: Vec<Gap>,
    cpu_ns: u64,
}

impl Aside {
    /// Starts the thread; nothing is asked yet. `host` is its name in the stack.
    pub(crate) fn new(host: &str, asker: impl Asker) -> Self {
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        let host = host.to_string();
        let thread = std::thread::Builder::new().name("prony-ask".to_string());
        let thread = thread.spawn(move || answer_all(&host, asker, &asked, &answer)).ok();
        Self { questions: Some(questions), answers, thread, cadence: Cadence::every(SLOW_NS), waiting: false }
    }

    /// Puts what came since the last call, and asks again when it is time. Gives the CPU time of the asking thread for
    /// what came, in nanoseconds.
    pub(crate) fn read(&mut self, facts: &mut Facts, at_ns: u64) -> u64 {
        let mut cpu_ns = 0;
        loop {
            match self.answers.try_recv() {
                Ok(answer) => {
                    facts.take_over(answer.sample, &answer.gaps);
                    cpu_ns += answer.cpu_ns;
                    self.waiting = false;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    facts.miss("ask", "the thread that asks the server has ended");
                    return cpu_ns;
                }
            }
        }
        if !self.waiting && self.cadence.due(at_ns) {
            self.cadence.ran(at_ns, 0);
            self.waiting = self.questions.as_ref().is_some_and(|q| q.send(()).is_ok());
        }
        cpu_ns
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.questions = None;
        // A thread that panicked has put what it had.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer_all(host: &str, mut asker: impl Asker, asked: &Receiver<()>, answers: &Sender<Answer>) {
    for () in asked {
        let before = sys::thread_cpu_ns();
        let mut facts = Facts::new(host, 0);
        asker.ask(&mut facts);
        let (sample, gaps) = facts.finish();
        let cpu_ns = sys::thread_cpu_ns().saturating_sub(before);
        if answers.send(Answer { sample, gaps, cpu_ns }).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::metric::REDIS_CLIENTS;

    struct Counts(f64);

    impl Asker for Counts {
        fn ask(&mut self, facts: &mut Facts) {
            self.0 += 1.0;
            facts.put(&REDIS_CLIENTS, "", self.0);
            facts.miss("redis.x", "no such field");
        }
    }

    #[test]
    fn answers_come_later_once_per_second_and_end_with_the_aside() {
        let mut aside = Aside::new("cache", Counts(0.0));
        let mut facts = Facts::new("cache", 0);
        let mut next = |at_ns: u64, want: Option<f64>| {
            for _ in 0..1000 {
                facts.begin(at_ns);
                aside.read(&mut facts, at_ns);
                if facts.value(&REDIS_CLIENTS, "") == want {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            panic!("{want:?} never came: {}", facts.listing());
        };
        next(0, None);
        next(0, Some(1.0));
        next(500_000_000, None);
        next(2_000_000_000, Some(2.0));
        drop(aside);
        assert_eq!(facts.gaps().len(), 1);
    }

    struct Panics;

    impl Asker for Panics {
        fn ask(&mut self, _facts: &mut Facts) {
            panic!("as a bug would");
        }
    }

    #[test]
    fn a_thread_that_ends_is_a_gap() {
        let mut aside = Aside::new("cache", Panics);
        let mut facts = Facts::new("cache", 0);
        for _ in 0..1000 {
            aside.read(&mut facts, 0);
            if !facts.gaps().is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("no gap came");
    }
}
