//! A run: everything recorded by one invocation.

use crate::diagnosis::{Diagnosis, Intervention};
use crate::gap::Gap;
use crate::knob::Change;
use crate::limit::LimitReport;
use crate::load::{LoadPlan, LoadResult};
use crate::metric::{
    CGROUP_USAGE, CPU_IDLE, CPU_IOWAIT, PROC_RUN, PROC_SYSTEM, PROC_USER, YARDSTICK_PIECES, YARDSTICK_TIME,
};
use crate::proof::Proof;
use crate::series::SeriesSet;
use crate::stack::{Host, Stack};
use crate::stacks::Stacks;
use crate::utc::Utc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A stretch of time in nanoseconds since the start of the run, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// First moment.
    pub from_ns: u64,
    /// Last moment.
    pub to_ns: u64,
}

impl Window {
    /// Length in seconds.
    pub fn seconds(self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Where a load stands relative to the knee of the load curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// About half of what the stack carries: open loop, so that queues stay short.
    Below,
    /// The workload as the user wrote it. For a closed loop: the limit at that concurrency.
    At,
    /// Twice the connections (closed loop) or more than the limit (open loop).
    Beyond,
}

/// Which of two configurations a trial ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// As found.
    A,
    /// Changed: slowed in an intervention, the remedy in a proof.
    B,
}

/// Why a trial was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Purpose {
    /// Not scored: caches, connections, clocks.
    Warmup,
    /// One level of the load curve, observed.
    Level {
        /// Which.
        level: Level,
    },
    /// Not scored: close looks run meanwhile.
    Inspect,
    /// Half of a pair of an intervention.
    Intervention {
        /// Index into `Run::interventions`.
        index: u32,
        /// Which pair, from 0.
        pair: u32,
        /// Slowed or not.
        arm: Arm,
    },
    /// One trial of a proof.
    Proof {
        /// Block of the randomised order, from 0.
        block: u32,
        /// With or without the remedy.
        arm: Arm,
    },
    /// One trial of the load curve or of a limit search, at a given load.
    Curve,
    /// A plain load that a person asked for.
    Load,
    /// One trial of an experiment.
    Cell {
        /// Number of the cell; the number of cells stands for the placebo.
        cell: u32,
        /// Which repeat, from 0.
        repeat: u32,
    },
}

/// One measured interval at one configuration and one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number within the run, from 0.
    pub id: u32,
    /// Why it was run.
    pub purpose: Purpose,
    /// What was sent.
    pub plan: LoadPlan,
    /// The counted time.
    pub window: Window,
    /// What came back.
    pub result: LoadResult,
}

/// What one host is: facts that do not change during a run, by name (`cpus`, `kernel`, `nginx.version`, `sysctl.net.core.somaxconn`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Host name in the stack.
    pub host: String,
    /// Facts in order of name.
    pub facts: BTreeMap<String, String>,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum RunEnd {
    /// It has not, or it was killed.
    #[default]
    Open,
    /// To its end.
    Done,
    /// By the user.
    Interrupted,
    /// By an error.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// What observing and loading cost on one host at the operating point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCost {
    /// Share of one CPU that observing took; none when it could not be read.
    pub observe_cpu_share: Option<f64>,
    /// CPU time of the host's own processes per request, in microseconds; none when it could not be read.
    pub cpu_us_per_request: Option<f64>,
}

/// What prony itself cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time of the generator per request at the operating point, in microseconds; none when no request was completed.
    pub generator_cpu_us_per_request: Option<f64>,
    /// Per host.
    pub hosts: BTreeMap<String, HostCost>,
    /// Wall time of the whole run in seconds.
    pub wall_s: f64,
}

/// Everything recorded by one invocation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Sortable id: start time and a random part, like `20261120-231501-7f3a`.
    pub id: String,
    /// Version of prony.
    pub version: String,
    /// The command line, as a person would repeat it.
    pub command: String,
    /// Wall clock at the start, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The stack as it was understood.
    pub stack: Stack,
    /// What each host is.
    pub inventory: Vec<Inventory>,
    /// Every trial in order.
    pub trials: Vec<Trial>,
    /// Facts over time. Not part of the JSON form: it has a form of its own in the record.
    #[serde(skip)]
    pub series: SeriesSet,
    /// What the CPUs of hosts ran, where a deep look was taken. Not part of the JSON form either.
    #[serde(skip)]
    pub stacks: Vec<Stacks>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
    /// Interventions with their elasticities.
    pub interventions: Vec<Intervention>,
    /// What holds the stack back.
    pub diagnosis: Option<Diagnosis>,
    /// Changes made, undone or kept.
    pub changes: Vec<Change>,
    /// Whether the remedy helped.
    pub proof: Option<Proof>,
    /// What the search for the limit found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitReport>,
    /// What prony itself cost.
    pub cost: Cost,
    /// How it ended.
    pub end: RunEnd,
}

impl Run {
    /// `20261120-231501-1a2b`: sorts by time; the last part tells apart runs of the same second.
    pub fn id_at(unix_ms: u64, process: u32) -> String {
        let Utc { year, month, day, hour, minute, second } = Utc::from_unix_ms(unix_ms);
        let tail = (unix_ms % 1000 * 65 + u64::from(process)) & 0xffff;
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{tail:04x}")
    }

    /// The last trial at a level.
    pub fn level(&self, level: Level) -> Option<&Trial> {
        self.trials.iter().rev().find(|t| t.purpose == Purpose::Level { level })
    }

    /// Whether a trial of a level was run again: then the newer one counts.
    pub fn is_superseded(&self, trial: &Trial) -> bool {
        matches!(trial.purpose, Purpose::Level { level } if self.level(level).is_some_and(|newest| newest.id != trial.id))
    }

    /// CPUs that a host's own processes used within a window, packet work left out: what their control group counted, else
    /// what the scheduler counted for each of them, else what its ticks saw (coarse in short windows).
    pub fn process_cpus(&self, host: &str, window: Window) -> Option<f64> {
        let sum = |metric| self.series.sum(host, metric, window);
        sum(&CGROUP_USAGE).or_else(|| sum(&PROC_RUN)).or_else(|| Some(sum(&PROC_USER)? + sum(&PROC_SYSTEM)?))
    }

    /// Idle share of each CPU that a host shows within a window, by number. One that waits for a disk runs nothing: whoever wants it has it.
    pub fn idle_shares(&self, host: &str, window: Window) -> Vec<(u32, f64)> {
        let waiting = |cpu: &str| SeriesSet::rate(self.series.points(host, &CPU_IOWAIT, cpu), window).unwrap_or(0.0);
        let idle = |(cpu, points)| Some((str::parse(cpu).ok()?, SeriesSet::rate(points, window)? + waiting(cpu)));
        self.series.items(host, &CPU_IDLE).filter_map(idle).collect()
    }

    /// What a piece of the yardstick's work took on the CPUs of a host within a window, in microseconds of CPU time: the geometric mean
    /// over these CPUs. The greater, the slower they were. None where it was not measured.
    pub fn piece_us(&self, host: &str, window: Window) -> Option<f64> {
        self.piece_us_at(&[host], window)
    }

    /// The same on the CPUs of all hosts of the path.
    pub fn piece_us_of_path(&self, window: Window) -> Option<f64> {
        self.piece_us_at(&self.stack.path(), window)
    }

    fn piece_us_at(&self, hosts: &[&str], window: Window) -> Option<f64> {
        let told_by =
            |teller: &str, metric, cpu: &str| SeriesSet::growth(self.series.points(teller, metric, cpu), window);
        let hosts: Vec<&Host> = hosts.iter().filter_map(|host| self.stack.host.get(*host)).collect();
        let owns = |host: &&Host, cpu: &str| {
            host.cpus.as_ref().is_none_or(|own| cpu.parse().is_ok_and(|number| own.contains(number)))
        };
        let is_own = |cpu: &str| hosts.iter().any(|host| owns(host, cpu));
        let of = |teller: &String| -> Vec<f64> {
            let cpus = self.series.items(teller, &YARDSTICK_PIECES).map(|(cpu, _)| cpu).filter(|cpu| is_own(cpu));
            let took =
                |cpu| Some(told_by(teller, &YARDSTICK_TIME, cpu)? * 1e6 / told_by(teller, &YARDSTICK_PIECES, cpu)?);
            cpus.filter_map(took).filter(|us| us.is_finite() && *us > 0.0).map(f64::ln).collect()
        };
        // One host tells of the machine that several share.
        let logs: Vec<f64> = self.stack.host.keys().flat_map(of).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }

    /// CPU time of a host's own processes per request that clients completed in a trial, in microseconds.
    pub fn cpu_us_per_request(&self, host: &str, trial: &Trial) -> Option<f64> {
        let completed_per_s = trial.result.completed_per_s;
        let cpus = self.process_cpus(host, trial.window)?;
        (completed_per_s > 0.0).then(|| cpus * 1e6 / completed_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Sample;
    use expect_test::{Expect, expect};

    /// CPUs and microseconds per request of a host whose counters grow by these seconds within one second.
    fn check(grown: &[(&crate::Metric, &str, f64)], want: Expect) {
        let mut run = Run::default();
        for at_ns in [0, 1_000_000_000] {
            let mut sample = Sample { host: "lb".into(), at_ns, values: vec![] };
            grown.iter().for_each(|(metric, item, by)| sample.push(metric, *item, by * at_ns as f64 / 1e9));
            run.series.add(&sample);
        }
        let window = Window { from_ns: 0, to_ns: 1_000_000_000 };
        let result = LoadResult { completed_per_s: 10_000.0, ..LoadResult::default() };
        let trial = Trial { id: 0, purpose: Purpose::Load, plan: LoadPlan::to("http://lb/"), window, result };
        let seen = (run.process_cpus("lb", window), run.cpu_us_per_request("lb", &trial));
        want.assert_eq(&format!("{seen:?}"));
    }

    #[test]
    fn the_finest_count_of_cpu_time_is_taken() {
        let ticks = [(&PROC_USER, "7", 0.1), (&PROC_SYSTEM, "7", 0.2), (&PROC_SYSTEM, "8", 0.2)];
        let runs = [(&PROC_RUN, "7", 0.25), (&PROC_RUN, "8", 0.25)];
        check(&[&ticks[..], &runs, &[(&CGROUP_USAGE, "", 0.75)]].concat(), expect!["(Some(0.75), Some(75.0))"]);
        check(&[&ticks[..], &runs].concat(), expect!["(Some(0.5), Some(50.0))"]);
        check(&ticks, expect!["(Some(0.5), Some(50.0))"]);
        check(&ticks[..1], expect!["(None, None)"]);
    }

    #[test]
    fn the_speed_of_a_host_is_that_of_its_cpus() {
        let stack = "name = \"x\"\nentry = \"http://lb/\"\n[host.lb]\nrole = \"proxy\"\ncpus = \"0\"\n[host.s1]\nrole = \"server\"\n";
        let mut run = Run { stack: Stack::parse("x.toml", stack).unwrap(), ..Run::default() };
        for (at_ns, pieces) in [(0, 0.0), (100, 10.0), (200, 20.0)] {
            let mut sample = Sample { host: "s1".into(), at_ns, values: vec![] };
            for (cpu, us) in [("0", 40.0), ("1", 90.0)] {
                sample.push(&YARDSTICK_PIECES, cpu, pieces);
                sample.push(&YARDSTICK_TIME, cpu, pieces * us / 1e6);
            }
            run.series.add(&sample);
        }
        let near = |host: &str, from_ns, us: f64| {
            let seen = run.piece_us(host, Window { from_ns, to_ns: 190 });
            assert!((seen.unwrap() - us).abs() < 1e-9, "{host}: {seen:?}");
        };
        near("lb", 50, 40.0);
        near("s1", 50, 60.0);
        assert_eq!(run.piece_us("lb", Window { from_ns: 500, to_ns: 600 }), None, "no piece was done there");
        assert_eq!(run.piece_us("db", Window { from_ns: 50, to_ns: 190 }), None);
        let of_path = run.piece_us_of_path(Window { from_ns: 50, to_ns: 190 });
        assert!((of_path.unwrap() - 60.0).abs() < 1e-9, "no CPU counts twice: {of_path:?}");
    }

    #[test]
    fn nothing_answered_is_no_cost_per_request() {
        let run = Run::default();
        let result = LoadResult::default();
        let trial = Trial {
            id: 0,
            purpose: Purpose::Load,
            plan: LoadPlan::to("http://lb/"),
            window: Window::default(),
            result,
        };
        assert_eq!(run.cpu_us_per_request("lb", &trial), None);
    }

    #[test]
    fn ids_are_dates() {
        assert_eq!(Run::id_at(1_795_217_701_002, 1), "20261120-233501-0083");
    }

    #[test]
    fn the_last_trial_of_a_level_counts() {
        let mut run = Run::default();
        for (id, level) in [(0, Level::At), (1, Level::Below), (2, Level::At)] {
            let plan = LoadPlan::to("http://lb/");
            let purpose = Purpose::Level { level };
            run.trials.push(Trial { id, purpose, plan, window: Window::default(), result: LoadResult::default() });
        }
        assert_eq!(run.level(Level::At).unwrap().id, 2);
        assert!(run.level(Level::Beyond).is_none());
    }
}
