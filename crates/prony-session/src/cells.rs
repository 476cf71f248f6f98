//! Cells of an experiment: the commands of each, and what a trial or a search says of it.
//!
//! Which cells there are and what they mean together is arithmetic of `prony-stats`. Invariant: what a cell turns is put back
//! before the next cell begins.

use crate::hot;
use crate::levels::{order, timed};
use crate::machine::Command;
use prony_model::experiment::{CellLoad, CellSeen, Find, HostSeen};
use prony_model::limit::{LimitAnswer, LimitReport, LimitVerdict};
use prony_model::metric::{CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_NICE, CPU_SOFTIRQ, CPU_STEAL, CPU_SYSTEM, CPU_USER};
use prony_model::{Gap, Knob, LoadPlan, Metric, Nanos, Purpose, Role, Run, SeriesSet, Trial, Window};
use std::collections::{BTreeMap, VecDeque};

/// A cell to run once.
#[derive(Clone, Debug, PartialEq)]
pub struct CellTask {
    /// Its number.
    pub cell: u32,
    /// Which repeat.
    pub repeat: u32,
    /// What is turned for it.
    pub knobs: Vec<Knob>,
    /// What is sent, with its times.
    pub plan: LoadPlan,
    /// How long the hosts are looked at closely afterwards, under the same load that is not scored; none: not at all.
    pub look: Option<Nanos>,
    /// The cell in words.
    pub label: String,
}

/// Turn, load, look, put back; cell after cell.
pub(crate) fn commands(tasks: Vec<CellTask>) -> VecDeque<Command> {
    let commands = tasks.into_iter().flat_map(|task| {
        let restore = vec![Command::Restore; task.knobs.len()];
        let purpose = Purpose::Cell { cell: task.cell, repeat: task.repeat };
        let closer = task.look.map(|look| {
            let plan = timed(&task.plan, task.plan.warmup, look);
            order(Purpose::Inspect, plan, &format!("{}: a closer look", task.label))
        });
        let trial = order(purpose, task.plan, &task.label);
        task.knobs.into_iter().map(Command::Turn).chain([trial]).chain(closer).chain(restore)
    });
    commands.collect()
}

/// What the last trial of a run says of its cell, and the closer look at it if there was one; none when it is not one of an
/// experiment, or was cut short.
pub(crate) fn seen(run: &Run) -> Option<CellSeen> {
    let (last, before) = run.trials.split_last()?;
    if last.result.interrupted {
        return None;
    }
    let trial = if last.purpose == Purpose::Inspect { before.last()? } else { last };
    let Purpose::Cell { cell, repeat } = trial.purpose else { return None };
    let value = (trial.result.good_per_s > 0.0).then_some(trial.result.good_per_s);
    let broken = trial.result.gates.iter().find(|gate| !gate.held);
    let note = match (value, broken) {
        (None, _) => "no request succeeded".to_string(),
        (Some(_), Some(gate)) => format!("{}: {}", gate.name, gate.detail),
        (Some(_), None) => String::new(),
    };
    let generator_limited = trial.result.generator_limited();
    Some(CellSeen { cell, repeat, value, low: None, high: None, note, generator_limited, load: Some(load(run, trial)) })
}

/// What a search says of its cell.
pub fn seen_of_search(run: &Run, find: Find, cell: u32, repeat: u32) -> CellSeen {
    let empty = CellSeen { cell, repeat, note: "nothing was searched".to_string(), ..CellSeen::default() };
    let Some(report) = &run.limit else { return empty };
    let (value, low, high) = match report.verdict {
        // What a server carried before it went away is no answer.
        LimitVerdict::Died | LimitVerdict::Flapping => (None, None, None),
        LimitVerdict::Found
        | LimitVerdict::Wide
        | LimitVerdict::NothingHolds
        | LimitVerdict::GeneratorLimited
        | LimitVerdict::Unsteady
        | LimitVerdict::NothingServed
        | LimitVerdict::Open => answer(report, find),
    };
    let fine = report.verdict == LimitVerdict::Found;
    CellSeen {
        value,
        low,
        high,
        note: if fine { String::new() } else { format!("the search ended {}", report.verdict.word()) },
        generator_limited: report.verdict == LimitVerdict::GeneratorLimited,
        load: at_the_answer(run, find, value).map(|trial| load(run, trial)),
        ..empty
    }
}

/// The trial that shows the load at the answer: of a limit the one that carried the most, of stable connections the last with as
/// many. Trials of other axes do not say which value they were at.
fn at_the_answer(run: &Run, find: Find, value: Option<f64>) -> Option<&Trial> {
    let mut trials = run.trials.iter().filter(|t| t.purpose == Purpose::Curve);
    match find {
        Find::Measure | Find::Limit | Find::LimitWithinSlo => {
            trials.max_by(|a, b| a.result.good_per_s.total_cmp(&b.result.good_per_s))
        }
        Find::StableConcurrency => trials.rfind(|t| Some(f64::from(t.plan.connections)) == value),
        Find::Search => None,
    }
}

/// The value of a search with the ends of its interval.
fn answer(report: &LimitReport, find: Find) -> (Option<f64>, Option<f64>, Option<f64>) {
    let rate = |answer: &Option<LimitAnswer>| match answer {
        Some(answer) => (Some(answer.estimate_per_s), Some(answer.low_per_s), Some(answer.high_per_s)),
        None => (report.at_least_per_s, None, None),
    };
    match find {
        Find::Measure | Find::Limit => rate(&report.saturation),
        Find::LimitWithinSlo => rate(&report.within_slo),
        Find::StableConcurrency | Find::Search => {
            let axis = report.axis.as_ref();
            let (holds, fails) = (axis.and_then(|a| a.holds_at), axis.and_then(|a| a.fails_at));
            let ends = holds.zip(fails).map(|(one, other)| (one.min(other) as f64, one.max(other) as f64));
            (holds.map(|v| v as f64), ends.map(|e| e.0), ends.map(|e| e.1))
        }
    }
}

fn load(run: &Run, trial: &Trial) -> CellLoad {
    let result = &trial.result;
    let serving = run.stack.host.iter().filter(|(_, host)| host.role != Role::Generator);
    let hosts: BTreeMap<String, HostSeen> = serving.map(|(name, _)| (name.clone(), host(run, name, trial))).collect();
    CellLoad {
        good_per_s: result.good_per_s,
        bits_per_s: if result.duration_s > 0.0 { result.bytes_in as f64 * 8.0 / result.duration_s } else { 0.0 },
        completed: result.completed,
        errors: result.errors,
        error_share: result.error_share(),
        hdr_v2: result.latency.hdr_v2.clone(),
        p99_us: result.latency.p99_us,
        hosts,
        hot: hot::of(run, trial),
    }
}

fn host(run: &Run, name: &str, trial: &Trial) -> HostSeen {
    let window = trial.window;
    let shares = Shares { run, host: name, window };
    HostSeen {
        cpus: run.process_cpus(name, window),
        cpu_us_per_request: run.cpu_us_per_request(name, trial),
        user: shares.of(&[&CPU_USER, &CPU_NICE]),
        system: shares.of(&[&CPU_SYSTEM]),
        interrupts: shares.of(&[&CPU_IRQ, &CPU_SOFTIRQ]),
        idle: shares.of(&[&CPU_IDLE, &CPU_IOWAIT]),
    }
}

/// How the time of a host's CPUs was spent.
struct Shares<'a> {
    run: &'a Run,
    host: &'a str,
    window: Window,
}

impl Shares<'_> {
    /// Share of all time that went there; none when it was not read.
    fn of(&self, metrics: &[&Metric]) -> Option<f64> {
        let all = [&CPU_USER, &CPU_NICE, &CPU_SYSTEM, &CPU_IDLE, &CPU_IOWAIT, &CPU_IRQ, &CPU_SOFTIRQ, &CPU_STEAL];
        let sum = |metrics: &[&Metric]| metrics.iter().filter_map(|m| self.seconds_per_s(m)).reduce(|a, b| a + b);
        let (part, whole) = (sum(metrics)?, sum(&all)?);
        (whole > 0.0).then(|| part / whole)
    }

    /// Over the CPUs that the host may use; all of the machine when it does not say.
    fn seconds_per_s(&self, metric: &Metric) -> Option<f64> {
        let own = self.run.stack.host.get(self.host).and_then(|host| host.cpus.as_ref());
        let mine = |cpu: &str| own.is_none_or(|own| cpu.parse().is_ok_and(|cpu: u32| own.as_slice().contains(&cpu)));
        let items = self.run.series.items(self.host, metric).filter(|(cpu, _)| mine(cpu));
        items.filter_map(|(_, points)| SeriesSet::rate(points, self.window)).reduce(|a, b| a + b)
    }
}

/// A level that a host does not take, as a gap that names knob and reason.
pub(crate) fn refused(knob: &Knob, reason: impl Into<String>) -> Gap {
    Gap::new(format!("{}={}", knob.id, knob.value), knob.host.clone(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MadeRun, plan};
    use prony_model::LoadResult;

    #[test]
    fn a_cell_is_turned_loaded_and_put_back() {
        let knob = |value: &str| Knob {
            host: "lb".into(),
            id: prony_model::KnobId::NginxWorkerProcesses,
            value: value.into(),
        };
        let task = |cell, knobs, look| CellTask { cell, repeat: 0, knobs, plan: plan(), look, label: String::new() };
        let second = Some(Nanos::from_millis(1000));
        let commands = commands(vec![task(0, vec![], None), task(1, vec![knob("1"), knob("2")], second)]);
        let word = |command: &Command| match command {
            Command::Trial(order) if order.purpose == Purpose::Inspect => "look",
            Command::Trial(_) => "trial",
            Command::Turn(_) => "turn",
            Command::Restore => "restore",
            Command::Listen | Command::Survey | Command::Intervene { .. } | Command::Keep | Command::Finish => "other",
        };
        let words: Vec<&str> = commands.iter().map(word).collect();
        assert_eq!(words, ["trial", "turn", "turn", "trial", "look", "restore", "restore"]);
    }

    #[test]
    fn a_trial_tells_its_cell_and_how_its_cpus_spent_their_time() {
        let purpose = Purpose::Cell { cell: 3, repeat: 1 };
        let made = MadeRun::of("[host.lb]\ncpus = \"0\"\n").trial(purpose, 900.0);
        let made = made.shows(&CPU_USER, "0", 0.25).shows(&CPU_IDLE, "0", 0.75).shows(&CPU_IDLE, "1", 1.0);
        let seen = seen(&made.run).unwrap();
        assert_eq!((seen.cell, seen.repeat, seen.value), (3, 1, Some(900.0)));
        let host = seen.load.unwrap().hosts["lb"];
        assert!((host.user.unwrap() - 0.25).abs() < 1e-9 && (host.idle.unwrap() - 0.75).abs() < 1e-9, "{host:?}");
        assert_eq!((host.system, host.cpu_us_per_request), (None, None), "what was not read is none");
    }

    #[test]
    fn a_closer_look_belongs_to_the_cell_before_it() {
        let purpose = Purpose::Cell { cell: 3, repeat: 1 };
        let made = MadeRun::of("[host.lb]\n").trial(purpose, 900.0);
        assert!(seen(&made.run).unwrap().load.unwrap().hot.is_empty());
        let mut looked = made.trial(Purpose::Inspect, 700.0).run;
        let at_ns = looked.trials[1].window.from_ns;
        let stacks = prony_model::Stacks::parse("nginx;main;write_[k];osq_lock_[k] 30\nnginx;main 70\n");
        let before = prony_model::Stacks::parse("nginx;warm 10\n");
        for (at_ns, stacks) in [(0, before), (at_ns, stacks)] {
            looked.stacks.push(prony_model::Stacks { host: "lb".into(), at_ns, samples_per_s: 99, stacks });
        }
        let seen = seen(&looked).unwrap();
        assert_eq!((seen.cell, seen.value), (3, Some(900.0)), "the look is not scored");
        let hot = &seen.load.unwrap().hot["lb"];
        assert_eq!((hot.samples, hot.locks, hot.functions[0].function.as_str()), (100, 0.3, "main"));
    }

    #[test]
    fn what_is_no_cell_tells_none() {
        assert_eq!(seen(&MadeRun::of("").trial(Purpose::Warmup, 1.0).run), None);
        let mut made = MadeRun::of("");
        let result = LoadResult { interrupted: true, ..LoadResult::default() };
        made.push(Purpose::Cell { cell: 0, repeat: 0 }, plan(), result);
        assert_eq!(seen(&made.run), None, "a trial that was cut short does not count");
    }

    #[test]
    fn a_search_gives_its_answer_or_says_how_it_ended() {
        let mut run = MadeRun::of("").run;
        assert_eq!(seen_of_search(&run, Find::Limit, 0, 0).value, None);
        let answer = LimitAnswer { low_per_s: 9.0, estimate_per_s: 10.0, high_per_s: 11.0, ..LimitAnswer::default() };
        let report = LimitReport { verdict: LimitVerdict::Wide, saturation: Some(answer), ..LimitReport::default() };
        run.limit = Some(report);
        let seen = seen_of_search(&run, Find::Limit, 2, 0);
        assert_eq!((seen.value, seen.low, seen.high), (Some(10.0), Some(9.0), Some(11.0)));
        assert_eq!(seen.note, "the search ended wide");
        assert_eq!(seen_of_search(&run, Find::LimitWithinSlo, 2, 0).value, None);
        run.limit.as_mut().unwrap().verdict = LimitVerdict::Flapping;
        let gone = seen_of_search(&run, Find::Limit, 2, 0);
        assert_eq!((gone.value, gone.low, gone.note.as_str()), (None, None, "the search ended flapping"));
    }
}
