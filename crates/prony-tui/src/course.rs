//! The course of a load: what its progress told so far, as rates and distributions over the last second and since the start.
//!
//! It draws nothing. Invariants: percentiles come from merged histograms, and are unknown when one of them is missing; what
//! is not counted (the warm-up) never mixes with what is.

use prony_model::{LoadPlan, LoadProgress, Nanos};
use prony_stats::Histogram;
use std::collections::VecDeque;

/// How far back rates and percentiles of "the last second" look. A guess: one number per second can be read.
const WINDOW: Nanos = Nanos::from_millis(1000);
/// Rates over less than this are not told, at the begin of the counted time. A guess: a few milliseconds hold no rate.
const WINDOW_MIN: Nanos = Nanos::from_millis(200);
/// Seconds of the chart over time. By design; one column each fits on 80.
pub(crate) const CHART_SECONDS: usize = 60;

/// Per second, over the last second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// By the schedule, whatever became of it; none in closed loop.
    pub asked: Option<f64>,
    pub sent: f64,
    pub done: f64,
    pub failed: f64,
}

/// Counters at one moment.
struct Moment {
    at: Nanos,
    sent: u64,
    completed: u64,
    failed: u64,
    /// Since the moment before; none: it could not be read.
    latency: Option<Histogram>,
    cpu: Vec<f64>,
}

/// Everything a screen shows of a load, besides the plan.
pub(crate) struct Course {
    warmup: Nanos,
    latest: LoadProgress,
    /// Oldest first. The first is where the window begins: what it holds of its own lies before the window.
    moments: VecDeque<Moment>,
    since_start: Option<Histogram>,
    last_second: Option<Histogram>,
    /// Answers per second in the last [`CHART_SECONDS`] seconds.
    seconds: VecDeque<f64>,
    /// Time and answers when the last of `seconds` ended.
    mark: (Nanos, u64),
}

impl Course {
    /// A load that has not begun; `warmup` as the plan has it.
    pub fn new(warmup: Nanos) -> Self {
        let latest = LoadProgress { warming_up: warmup.0 > 0, ..LoadProgress::default() };
        let mut course = Self {
            warmup,
            latest,
            moments: VecDeque::new(),
            since_start: None,
            last_second: None,
            seconds: VecDeque::new(),
            mark: (Nanos(0), 0),
        };
        course.begin(Nanos(0));
        course
    }

    /// Forgets everything: counting begins at `at`.
    fn begin(&mut self, at: Nanos) {
        self.moments.clear();
        self.moments.push_back(Moment::zero(at));
        self.since_start = Some(Histogram::new());
        self.last_second = None;
        self.seconds.clear();
        self.mark = (at, 0);
    }

    /// Takes in what the load told.
    pub fn see(&mut self, progress: &LoadProgress) {
        if self.latest.warming_up && !progress.warming_up {
            self.begin(self.warmup);
        }
        let moment = Moment::of(progress);
        match (&mut self.since_start, &moment.latency) {
            (Some(all), Some(latency)) => all.merge(latency),
            (None, _) | (_, None) => self.since_start = None,
        }
        self.moments.push_back(moment);
        let begins_by = Nanos(progress.elapsed.0.saturating_sub(WINDOW.0));
        while self.moments.get(1).is_some_and(|second| second.at <= begins_by) {
            self.moments.pop_front();
        }
        self.last_second = self.merge_window();
        self.end_second(progress);
        self.latest = progress.clone();
    }

    fn merge_window(&self) -> Option<Histogram> {
        let mut all = Histogram::new();
        for moment in self.within() {
            all.merge(moment.latency.as_ref()?);
        }
        Some(all)
    }

    /// Adds to the chart when a whole second has passed since the counting began.
    fn end_second(&mut self, progress: &LoadProgress) {
        let begun = if progress.warming_up { Nanos(0) } else { self.warmup };
        let second = |at: Nanos| at.since(begun).0 / 1_000_000_000;
        let (from, completed) = self.mark;
        if second(progress.elapsed) > second(from) && is_counted(progress) {
            let done = progress.completed.saturating_sub(completed);
            self.seconds.push_back(done as f64 / progress.elapsed.since(from).as_secs_f64());
            self.mark = (progress.elapsed, progress.completed);
        }
        if self.seconds.len() > CHART_SECONDS {
            self.seconds.pop_front();
        }
    }

    /// The moments that lie within the window.
    fn within(&self) -> impl Iterator<Item = &Moment> {
        self.moments.iter().skip(1)
    }

    /// What was told last; all 0 before anything was.
    pub fn latest(&self) -> &LoadProgress {
        &self.latest
    }

    /// None at the very begin, and in a warm-up of which nothing is counted.
    pub fn rates(&self, plan: &LoadPlan) -> Option<Rates> {
        let (first, last) = (self.moments.front()?, self.moments.back()?);
        let time = last.at.since(first.at);
        if time < WINDOW_MIN || !is_counted(&self.latest) {
            return None;
        }
        let seconds = time.as_secs_f64();
        let per_s = |count: fn(&Moment) -> u64| count(last).saturating_sub(count(first)) as f64 / seconds;
        Some(Rates {
            asked: due(plan, first.at, last.at).map(|requests| requests / seconds),
            sent: per_s(|m| m.sent),
            done: per_s(|m| m.completed),
            failed: per_s(|m| m.failed),
        })
    }

    /// Latencies of the last second; none when one part of them could not be read.
    pub fn last_second(&self) -> Option<&Histogram> {
        self.last_second.as_ref()
    }

    /// Latencies since the counting began; none when one part of them could not be read.
    pub fn since_start(&self) -> Option<&Histogram> {
        self.since_start.as_ref()
    }

    /// Answers per second, the oldest first, at most [`CHART_SECONDS`].
    pub fn seconds(&self) -> impl DoubleEndedIterator<Item = f64> + ExactSizeIterator + Clone {
        self.seconds.iter().copied()
    }

    /// CPU share of each generator thread, as a mean over the last second.
    pub fn cpu(&self) -> Vec<f64> {
        let threads = self.latest.cpu.len();
        let looks: Vec<&Moment> = self.within().filter(|m| m.cpu.len() == threads).collect();
        (0..threads).map(|n| looks.iter().map(|m| m.cpu[n]).sum::<f64>() / looks.len().max(1) as f64).collect()
    }

    /// About how many requests wait for a free connection: those of the schedule since the turn of the one that was sent last.
    /// 0 while a connection is free.
    pub fn waiting(&self, plan: &LoadPlan) -> u64 {
        let LoadProgress { elapsed, in_flight, lag_us_p99, .. } = &self.latest;
        let places = u64::from(plan.connections) * u64::from(plan.depth);
        let lag = Nanos((lag_us_p99.unwrap_or_default() * 1e3) as u64);
        if *in_flight < places { 0 } else { due(plan, elapsed.since(lag), *elapsed).map_or(0, |n| n.round() as u64) }
    }

    /// About how long a load that ends after a number of requests still takes, at the rate of the last second. None: by that
    /// number it has no end, or not yet a rate.
    pub fn left_by_requests(&self, plan: &LoadPlan) -> Option<Nanos> {
        let left = plan.requests_max?.saturating_sub(self.latest.sent) as f64;
        let sent_per_s = self.rates(plan)?.sent;
        (sent_per_s > 0.0).then(|| Nanos((left / sent_per_s * 1e9) as u64))
    }
}

/// Requests that are due from one moment of the load on and before another; none in closed loop. The counters of a load do
/// not tell: they know of a request only when it is sent or shed.
fn due(plan: &LoadPlan, from: Nanos, to: Nanos) -> Option<f64> {
    let until = |at: Nanos| {
        let scheduled = match (&plan.profile, plan.rate) {
            (Some(profile), _) => profile.expected_arrivals(Nanos(0), at),
            (None, rate) => rate?.0 * at.as_secs_f64(),
        };
        Some(plan.requests_max.map_or(scheduled, |most| scheduled.min(most as f64)))
    };
    Some(until(to)? - until(from)?)
}

/// Whether the counters mean anything: in a warm-up they usually stay 0, and that is no rate.
fn is_counted(progress: &LoadProgress) -> bool {
    !progress.warming_up || progress.sent > 0
}

impl Moment {
    fn zero(at: Nanos) -> Self {
        Self { at, sent: 0, completed: 0, failed: 0, latency: None, cpu: Vec::new() }
    }

    fn of(progress: &LoadProgress) -> Self {
        let latency = Histogram::from_hdr_v2(&progress.latency.hdr_v2).ok();
        Self {
            at: progress.elapsed,
            sent: progress.sent,
            completed: progress.completed,
            failed: progress.errors.total(),
            // Quantiles that come without their histogram cannot be merged.
            latency: latency.filter(|read| read.count() == progress.latency.count),
            cpu: progress.cpu.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{Latency, Rate};

    fn closed() -> LoadPlan {
        LoadPlan::to("http://127.0.0.1/")
    }

    fn at(ms: u64, completed: u64) -> LoadProgress {
        LoadProgress { elapsed: Nanos::from_millis(ms), sent: completed, completed, ..LoadProgress::default() }
    }

    fn latency_of(values_us: &[u64]) -> Latency {
        let mut latency = Histogram::new();
        values_us.iter().for_each(|us| latency.record_ns(us * 1000));
        latency.to_latency()
    }

    #[test]
    fn rates_are_those_of_the_last_second() {
        let mut course = Course::new(Nanos(0));
        assert_eq!(course.rates(&closed()), None);
        for (ms, completed) in [(250, 100), (500, 200), (1000, 400), (1500, 1400), (2000, 2400)] {
            course.see(&at(ms, completed));
        }
        assert_eq!(course.rates(&closed()).unwrap().done, 2000.0);
        assert_eq!(course.seconds().collect::<Vec<_>>(), [400.0, 2000.0]);
    }

    #[test]
    fn the_warm_up_is_unknown_and_not_zero_and_does_not_count() {
        let mut course = Course::new(Nanos::from_millis(1000));
        let warm = |ms| LoadProgress { warming_up: true, ..at(ms, 0) };
        course.see(&warm(250));
        course.see(&warm(1000));
        assert_eq!((course.rates(&closed()), course.seconds().len()), (None, 0));
        course.see(&at(1010, 0));
        assert_eq!(course.rates(&closed()), None, "10 ms hold no rate");
        course.see(&at(1250, 500));
        assert_eq!(course.rates(&closed()).unwrap().done, 2000.0, "500 answers in the 250 ms since the warm-up ended");
        assert_eq!(course.seconds().len(), 0);
        course.see(&at(2000, 1500));
        assert_eq!(course.seconds().collect::<Vec<_>>(), [1500.0]);
    }

    #[test]
    fn percentiles_are_merged_and_one_missing_part_makes_them_unknown() {
        let mut course = Course::new(Nanos(0));
        let told = |ms, latency| LoadProgress { latency, ..at(ms, 1) };
        course.see(&told(500, latency_of(&[100, 100, 100])));
        course.see(&told(1000, latency_of(&[900])));
        course.see(&told(1500, latency_of(&[900])));
        let count = |latency: Option<&Histogram>| latency.map(Histogram::count);
        assert_eq!((count(course.last_second()), count(course.since_start())), (Some(2), Some(5)));
        course.see(&told(2000, Latency { hdr_v2: String::new(), ..latency_of(&[900]) }));
        assert_eq!((count(course.last_second()), count(course.since_start())), (None, None));
        course.see(&told(2500, latency_of(&[100])));
        course.see(&told(3000, latency_of(&[100])));
        assert_eq!((count(course.last_second()), count(course.since_start())), (Some(2), None));
    }

    #[test]
    fn the_chart_holds_a_minute() {
        let mut course = Course::new(Nanos(0));
        (1..200).for_each(|s| course.see(&at(s * 1000, s * s)));
        assert_eq!(course.seconds().len(), CHART_SECONDS);
        assert_eq!(course.seconds().next_back(), Some(199.0 + 198.0));
    }

    #[test]
    fn cpu_is_a_mean_over_the_second() {
        let mut course = Course::new(Nanos(0));
        course.see(&LoadProgress { cpu: vec![0.2, 1.0], ..at(500, 0) });
        course.see(&LoadProgress { cpu: vec![0.4, 0.0], ..at(1000, 0) });
        let cpu = course.cpu();
        assert!((cpu[0] - 0.3).abs() < 1e-12 && (cpu[1] - 0.5).abs() < 1e-12, "{cpu:?}");
    }

    /// The counters of a load that cannot keep up know nothing of what is due.
    #[test]
    fn what_is_asked_is_what_the_schedule_says() {
        let open = LoadPlan { rate: Some(Rate(1000.0)), connections: 4, depth: 2, ..closed() };
        let mut course = Course::new(Nanos(0));
        let late = |ms, in_flight| LoadProgress { in_flight, lag_us_p99: Some(300_000.0), ..at(ms, ms / 10) };
        course.see(&late(500, 8));
        course.see(&late(1500, 8));
        assert_eq!(course.rates(&open).unwrap().asked, Some(1000.0));
        assert_eq!(course.rates(&closed()).unwrap().asked, None);
        assert_eq!((course.waiting(&open), course.waiting(&closed())), (300, 0));
        let few = LoadPlan { requests_max: Some(1300), ..open.clone() };
        assert_eq!(course.rates(&few).unwrap().asked, Some(800.0), "no more than there are");
        assert_eq!(course.waiting(&few), 100);
        course.see(&late(1750, 7));
        assert_eq!(course.waiting(&open), 0, "a connection is free");
    }

    #[test]
    fn requests_left_take_as_long_as_those_before() {
        let mut course = Course::new(Nanos(0));
        let counted = LoadPlan { requests_max: Some(1000), ..closed() };
        assert_eq!(course.left_by_requests(&counted), None);
        course.see(&at(1000, 100));
        assert_eq!(course.left_by_requests(&counted), Some(Nanos::from_millis(9000)));
        assert_eq!(course.left_by_requests(&closed()), None);
        course.see(&at(2000, 100));
        assert_eq!(course.left_by_requests(&counted), None, "it stands still");
    }
}
