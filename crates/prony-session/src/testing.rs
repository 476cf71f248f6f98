//! Made-up runs: trials of one second, one after another, with what a host showed meanwhile.

use prony_model::metric::MetricKind;
use prony_model::{
    Intervention, InterventionKind, Knob, KnobId, LoadPlan, LoadResult, Metric, Purpose, Run, SeriesKey, Stack, Trial,
    Window,
};

const SECOND_NS: u64 = 1_000_000_000;

/// A run under construction.
pub(crate) struct MadeRun {
    pub run: Run,
}

impl MadeRun {
    /// A run on a stack; `hosts` are the tables of its file.
    pub fn of(hosts: &str) -> Self {
        let text = format!("entry = \"http://10.0.0.2/\"\n[host.client]\nrole = \"generator\"\n{hosts}");
        Self { run: Run { stack: Stack::parse("stack.toml", &text).unwrap(), ..Run::default() } }
    }

    /// Adds a trial, two seconds after the last.
    pub fn trial(mut self, purpose: Purpose, good_per_s: f64) -> Self {
        let completed = good_per_s as u64;
        let result =
            LoadResult { good_per_s, completed_per_s: good_per_s, completed, duration_s: 1.0, ..LoadResult::default() };
        self.push(purpose, plan(), result);
        self
    }

    /// Adds a trial with its plan and result.
    pub fn push(&mut self, purpose: Purpose, plan: LoadPlan, result: LoadResult) {
        let id = self.run.trials.len() as u32;
        let from_ns = u64::from(id) * 2 * SECOND_NS;
        let window = Window { from_ns, to_ns: from_ns + SECOND_NS };
        self.run.trials.push(Trial { id, purpose, plan, window, result });
    }

    /// What `lb` showed during the last trial: a counter grew by `value` per second, a gauge stood at it.
    pub fn shows(mut self, metric: &Metric, item: &str, value: f64) -> Self {
        let window = self.run.trials.last().unwrap().window;
        let key = SeriesKey { host: "lb".into(), metric: metric.name.into(), item: item.into() };
        for at_ns in [window.from_ns, window.to_ns] {
            let seconds = at_ns as f64 / SECOND_NS as f64;
            let seen = match metric.kind {
                MetricKind::Counter => value * seconds,
                MetricKind::Gauge => value,
            };
            self.run.series.push(key.clone(), at_ns, seen);
        }
        self
    }
}

/// Eight connections in closed loop.
pub(crate) fn plan() -> LoadPlan {
    LoadPlan { connections: 8, ..LoadPlan::to("http://10.0.0.2/") }
}

/// An intervention of 20 % at `lb`, or its control at `s1`.
pub(crate) fn planned(what: InterventionKind, control: bool) -> Intervention {
    Intervention::planned(if control { "s1" } else { "lb" }, what, control, 0.2)
}

/// A remedy that reloads `lb`.
pub(crate) fn removal() -> InterventionKind {
    let knob = Knob { host: "lb".into(), id: KnobId::NginxWorkerProcesses, value: "2".into() };
    InterventionKind::Removal { knob, also: Vec::new() }
}

/// A run of `lb` and `s1` with these interventions, and no trial yet.
pub(crate) fn run(interventions: Vec<Intervention>) -> Run {
    Run { interventions, ..MadeRun::of("[host.lb]\n[host.s1]\n").run }
}
