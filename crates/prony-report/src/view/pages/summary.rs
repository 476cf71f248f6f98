//! One run in a list: what was found, the key figures as numbers, and its course as a small line.
//!
//! It needs no series, so that a long list is read quickly.

use super::super::headline::{self, operating_point};
use super::super::{Tone, finite, load, positive, run as facts};
use crate::typed::view;
use prony_model::run::Purpose;
use prony_model::{Run, Trial, Utc};

view! {
    /// A run in a list.
    pub struct RunSummary {
        /// Id of the run.
        pub id: String,
        /// The stack: its name, or its entry.
        pub stack: String,
        /// Command line.
        pub command: String,
        /// Start, in UTC.
        pub started: String,
        /// Start in milliseconds since 1970.
        pub started_unix_ms: u64,
        /// Wall time in seconds; none when the run did not reach its end.
        pub wall_s: Option<f64>,
        /// `open`, `done`, `interrupted` or `failed`.
        pub end: String,
        /// The result in one sentence.
        pub sentence: String,
        /// How it is meant.
        pub tone: Tone,
        /// Cause of the verdict; none when nothing was diagnosed.
        pub cause: Option<String>,
        /// Host that the verdict names; empty when it names none.
        pub hop: String,
        /// Good requests per second at the operating point.
        pub good_per_s: Option<f64>,
        /// The generator was the limit there: the stack carries at least this.
        pub generator_limited: bool,
        /// Median latency there.
        pub p50_us: Option<f64>,
        /// 99th percentile there.
        pub p99_us: Option<f64>,
        /// Share of failed requests there.
        pub error_share: Option<f64>,
        /// Trials so far.
        pub trials: u32,
        /// Good requests per second, trial by trial, from the least load to the greatest; of a single trial second by second.
        pub course: Vec<f64>,
        /// Tags that people gave it.
        pub tags: Vec<String>,
    }
}

/// Points of a course. A guess: the line is about so many pixels wide.
const COURSE_MAX: usize = 60;

impl RunSummary {
    /// What a list shows of `run`.
    pub fn of(run: &Run, tags: Vec<String>) -> Self {
        let facts = facts::facts(run);
        let headline = headline::of(run);
        let verdict = run.diagnosis.as_ref().map(|d| &d.verdict);
        let result = operating_point(run).map(|trial| &trial.result);
        let latency = |us: fn(&prony_model::Latency) -> f64| load::latency(result?, us(&result?.latency));
        Self {
            id: facts.id,
            stack: run.stack.title().to_string(),
            command: facts.command,
            started: Utc::from_unix_ms(run.started_unix_ms).to_string(),
            started_unix_ms: run.started_unix_ms,
            wall_s: facts.wall_s,
            end: facts.end,
            sentence: headline.sentence,
            tone: headline.tone,
            cause: verdict.map(|verdict| verdict.cause.clone()).filter(|cause| !cause.is_empty()),
            hop: verdict.map(|verdict| verdict.hop.clone()).unwrap_or_default(),
            good_per_s: result.and_then(|result| positive(result.good_per_s)),
            generator_limited: result.is_some_and(prony_model::LoadResult::generator_limited),
            p50_us: latency(|seen| seen.p50_us),
            p99_us: latency(|seen| seen.p99_us),
            error_share: result.and_then(|result| finite(result.error_share())),
            trials: run.trials.len() as u32,
            course: course(run),
            tags,
        }
    }
}

fn course(run: &Run) -> Vec<f64> {
    let scored: Vec<_> = run.trials.iter().filter(|trial| trial.purpose != Purpose::Warmup).collect();
    match scored.as_slice() {
        [only] if only.result.per_second.len() > 1 => {
            thinned(only.result.per_second.iter().map(|n| *n as f64).collect())
        }
        trials => {
            // In time they would show the plan, which is the same for every stack. A closed loop asks for more than any rate.
            let rate = |t: &Trial| t.plan.rate.map_or(f64::INFINITY, |rate| rate.0);
            let mut by_load = trials.to_vec();
            by_load.sort_by(|a, b| rate(a).total_cmp(&rate(b)).then(a.plan.connections.cmp(&b.plan.connections)));
            thinned(by_load.iter().filter_map(|trial| finite(trial.result.good_per_s)).collect())
        }
    }
}

/// Means of neighbours, when there are too many.
fn thinned(values: Vec<f64>) -> Vec<f64> {
    if values.len() <= COURSE_MAX {
        return values;
    }
    let step = values.len().div_ceil(COURSE_MAX);
    values.chunks(step).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::limit::{LimitAnswer, TestedLoad};
    use prony_model::{LimitReport, LoadPlan, LoadResult, Rate, Window};

    fn trial(id: u32, purpose: Purpose, good_per_s: f64, per_second: Vec<u64>) -> Trial {
        let result = LoadResult { good_per_s, per_second, ..LoadResult::default() };
        Trial { id, purpose, plan: LoadPlan::to("http://a/"), window: Window::default(), result }
    }

    #[test]
    fn a_course_is_trial_by_trial_or_of_one_trial_second_by_second() {
        let mut run = Run { trials: vec![trial(0, Purpose::Warmup, 1.0, vec![])], ..Run::default() };
        assert!(RunSummary::of(&run, Vec::new()).course.is_empty());
        run.trials.push(trial(1, Purpose::Load, 10.0, vec![9, 11]));
        assert_eq!(RunSummary::of(&run, Vec::new()).course, [9.0, 11.0]);
        run.trials.push(trial(2, Purpose::Load, 12.0, vec![12, 12]));
        let summary = RunSummary::of(&run, vec!["nightly".to_string()]);
        assert_eq!((summary.course, summary.good_per_s, summary.trials), (vec![10.0, 12.0], Some(12.0), 3));
        assert_eq!((summary.p99_us, summary.tags), (None, vec!["nightly".to_string()]));
        let mut asked = |id: u32, rate: Option<f64>, connections: u32, good_per_s: f64| {
            let seen = trial(id, Purpose::Load, good_per_s, vec![]);
            let plan = LoadPlan { rate: rate.map(Rate), connections, ..seen.plan };
            run.trials.push(Trial { plan, ..seen });
        };
        asked(3, None, 256, 9.0);
        asked(4, Some(5.0), 64, 5.0);
        asked(5, Some(2.0), 64, 2.0);
        let course = RunSummary::of(&run, Vec::new()).course;
        assert_eq!(course, [2.0, 5.0, 10.0, 12.0, 9.0], "a load curve");
    }

    #[test]
    fn a_search_stands_for_the_load_where_it_was_confirmed() {
        let at = |id: u32, connections: u32, good_per_s: f64| {
            let seen = trial(id, Purpose::Curve, good_per_s, vec![]);
            Trial { plan: LoadPlan { connections, ..seen.plan.clone() }, ..seen }
        };
        let of = |tested| {
            let saturation = Some(LimitAnswer { tested, ..LimitAnswer::default() });
            let limit = Some(LimitReport { saturation, ..LimitReport::default() });
            let trials = vec![at(0, 128, 700.0), at(1, 8, 728.0), at(2, 128, 715.0)];
            RunSummary::of(&Run { limit, trials, ..Run::default() }, Vec::new()).good_per_s
        };
        assert_eq!(of(Some(TestedLoad { connections: 128, rate_per_s: None })), Some(715.0), "the last there");
        assert_eq!(of(None), Some(728.0), "the best of the curve");
        assert_eq!(of(Some(TestedLoad { connections: 128, rate_per_s: Some(700.0) })), Some(728.0));
    }

    #[test]
    fn a_long_course_is_thinned() {
        let thin = thinned((0..1000).map(f64::from).collect());
        assert!(thin.len() <= COURSE_MAX && thin[0] < thin[1] && thin.iter().sum::<f64>() > 0.0, "{thin:?}");
        assert_eq!(thinned(vec![1.0; COURSE_MAX]).len(), COURSE_MAX);
    }
}
