//! Whole searches on made-up servers with known limits.

use super::*;
use crate::testing::{MadeRun, plan};
use prony_model::limit::LimitReport;
use prony_model::load::Gate;
use prony_model::{Latency, LoadResult, Window};
use prony_stats::{Histogram, Random};

/// Most trials of a search: it must end.
const TRIALS_MAX: usize = 200;

/// What goes wrong with a trial: its number, its load, its result.
type Upset = Box<dyn FnMut(usize, &LoadPlan, &mut LoadResult)>;

/// A server as a queue: so many requests per second at most, and so long for one when nobody waits.
struct Server {
    capacity_per_s: f64,
    service_us: f64,
    noise: f64,
    random: Random,
    trials: usize,
    /// Has the last word on every answer.
    upset: Upset,
}

impl Server {
    fn new(noise: f64, seed: u64) -> Self {
        let upset = Box::new(|_: usize, _: &LoadPlan, _: &mut LoadResult| {});
        Self { capacity_per_s: 10_000.0, service_us: 1000.0, noise, random: Random::new(seed), trials: 0, upset }
    }

    fn upset(upset: impl FnMut(usize, &LoadPlan, &mut LoadResult) + 'static) -> Self {
        Self { upset: Box::new(upset), ..Self::new(0.005, 1) }
    }

    /// Rate at which the tail reaches the objective: the p99 of M/M/1 is 4.6 means, and a mean is S / (1 - load).
    fn within(&self, p99_us: f64) -> f64 {
        self.capacity_per_s * (1.0 - 4.6 * self.service_us / p99_us)
    }

    fn answer(&mut self, plan: &LoadPlan) -> LoadResult {
        let mut noisy = |value: f64| value * self.random.normal(0.0, self.noise).exp();
        let alone_per_s = f64::from(plan.connections) * 1e6 / self.service_us;
        let asked = plan.rate.map_or(alone_per_s, |rate| rate.0);
        let load = plan.rate.map_or(1.0, |rate| rate.0 / self.capacity_per_s);
        let p99_us = if load < 0.999 { 4.6 * self.service_us / (1.0 - load) } else { 1e7 };
        let (carried, p99_us) = (noisy(asked.min(self.capacity_per_s)), noisy(p99_us.min(1e7)));
        let mut histogram = Histogram::new();
        (0..100).for_each(|i| histogram.record_ns(if i < 50 { p99_us * 200.0 } else { p99_us * 1e3 } as u64));
        let seconds = plan.duration.as_secs_f64();
        let count = (carried * seconds) as u64;
        let mut result = LoadResult {
            duration_s: seconds,
            intended: (asked * seconds) as u64,
            sent: (asked.min(self.capacity_per_s * 1.001) * seconds) as u64,
            completed: count,
            completed_per_s: carried,
            good_per_s: carried,
            latency: Latency { p99_us, ..histogram.to_latency() },
            per_second: vec![carried as u64; seconds as usize],
            ..LoadResult::default()
        };
        (self.upset)(self.trials, plan, &mut result);
        self.trials += 1;
        result
    }

    fn play(&mut self, goal: LimitGoal, stack: &str) -> Played {
        let mut made = MadeRun::of(stack);
        let effort = Effort::default();
        let mut search = LimitSearch::new(&plan(), goal, &made.run, &effort);
        let (mut at_ns, mut log) = (0, Vec::new());
        for _ in 0..TRIALS_MAX {
            let step = search.next(&made.run, &effort);
            let shown = search.narrowed(&made.run).is_some();
            assert!(shown || log.is_empty() || search.phase != Phase::Search, "{log:?}");
            let commands = match step {
                Step::Do(commands) => commands,
                Step::Done => return Played { report: search.report(&made.run), log, run: made.run },
                Step::Fail(reason) => {
                    log.push(reason);
                    return Played { report: search.report(&made.run), log, run: made.run };
                }
            };
            for command in commands {
                let Command::Trial(order) = command else {
                    log.push(format!("{command:?}"));
                    continue;
                };
                log.push(order.label.clone());
                let result = self.answer(&order.plan);
                let (warmup, duration) = (order.plan.warmup.0, order.plan.duration.0);
                made.push(order.purpose, order.plan, result);
                let trial = made.run.trials.last_mut().unwrap();
                trial.window = Window { from_ns: at_ns + warmup, to_ns: at_ns + warmup + duration };
                at_ns += warmup + duration + 100_000_000;
            }
        }
        panic!("the search does not end: {log:?}");
    }
}

struct Played {
    report: LimitReport,
    log: Vec<String>,
    run: Run,
}

fn goal(slo: &[&str]) -> LimitGoal {
    let slo: Vec<Threshold> = slo.iter().map(|text| text.parse().unwrap()).collect();
    let budget = Nanos::from_millis(if slo.is_empty() { 90_000 } else { 180_000 });
    LimitGoal { slo, budget, ..LimitGoal::default() }
}

fn over(vary: &str, until: Option<&str>) -> LimitGoal {
    LimitGoal { vary: Some(vary.parse().unwrap()), until: until.map(|u| u.parse().unwrap()), ..goal(&[]) }
}

fn broken(name: &str, generator_limited: bool) -> Gate {
    Gate { name: name.into(), held: false, detail: format!("{name} broke"), generator_limited }
}

#[test]
fn both_answers_hold_the_truth_nearly_always() {
    let (mut limits, mut objectives, searches) = (0, 0, 40);
    for seed in 0..searches {
        let mut server = Server::new(0.01, seed);
        let truth = server.within(20e3);
        let found = server.play(goal(&["p99<20ms"]), "").report;
        let holds = |answer: &Option<prony_model::limit::LimitAnswer>, truth: f64| {
            answer.as_ref().is_some_and(|a| a.low_per_s * 0.999 <= truth && truth <= a.high_per_s * 1.001)
        };
        limits += usize::from(holds(&found.saturation, 10_000.0));
        objectives += usize::from(holds(&found.within_slo, truth));
        assert!(found.spent_s <= 185.0, "{}", found.spent_s);
        assert!(found.within_slo.is_none_or(|a| a.tested.is_some()), "confirmed at a tested load");
    }
    // How often is measured by the search's own benchmark; here only that nothing is lost on the way.
    assert!(limits >= 34 && objectives >= 34, "{limits} {objectives} of {searches}");
}

#[test]
fn the_curve_begins_at_one_connection_and_has_a_knee() {
    let found = Server::new(0.005, 3).play(goal(&[]), "").report;
    assert_eq!(found.verdict, LimitVerdict::Found, "{found:?}");
    let closed: Vec<u32> =
        found.curve.iter().filter(|p| p.load.rate_per_s.is_none()).map(|p| p.load.connections).collect();
    assert_eq!(closed[..4], [1, 2, 4, 8], "{closed:?}");
    assert_eq!(found.curve.iter().filter(|p| p.load.rate_per_s.is_some()).count(), 3);
    let knee = found.knee.unwrap();
    assert!((8.0..=16.0).contains(&knee.connections) && knee.low.is_some(), "10 connections suffice: {knee:?}");
    assert!(found.curve.iter().all(|p| p.p50_us.unwrap() < p.p99_us.unwrap()));
}

#[test]
fn an_objective_of_the_error_share_alone_is_held_up_to_the_limit() {
    let found = Server::new(0.005, 3).play(goal(&["errors<1%"]), "").report;
    let (limit, within) = (found.saturation.unwrap(), found.within_slo.unwrap());
    assert!((within.estimate_per_s / limit.estimate_per_s - 1.0).abs() < 0.05, "{limit:?} {within:?}");
}

#[test]
fn an_objective_that_no_rate_holds_is_a_verdict() {
    let found = Server::new(0.005, 1).play(goal(&["p99<1ms"]), "").report;
    assert_eq!((found.verdict, found.within_slo), (LimitVerdict::NothingHolds, None));
    assert!(found.saturation.is_some(), "the limit itself is known");
}

#[test]
fn a_stack_that_comes_back_is_told_from_one_that_does_not() {
    let found = Server::new(0.005, 1).play(goal(&[]), "").report;
    let overload = found.overload.unwrap();
    assert!(!overload.metastable && overload.after_per_s.len() == 1, "{overload:?}");
    assert!((overload.rate_per_s / 15_000.0 - 1.0).abs() < 0.05);
    let mut overloaded = false;
    let mut server = Server::upset(move |_, plan, result| {
        overloaded |= plan.rate.is_some_and(|rate| rate.0 > 14_000.0);
        if overloaded {
            result.good_per_s *= 0.8;
        }
    });
    let overload = server.play(goal(&[]), "").report.overload.unwrap();
    assert!(overload.metastable && overload.after_per_s.len() == 2, "{overload:?}");
}

#[test]
fn a_limit_of_the_generator_is_a_lower_bound() {
    let mut server = Server::upset(|_, plan, result| {
        if plan.connections >= 8 {
            result.gates = vec![broken("cpu", true)];
        }
    });
    let found = server.play(goal(&["p99<20ms"]), "").report;
    assert_eq!(found.verdict, LimitVerdict::GeneratorLimited, "{found:?}");
    assert!(found.at_least_per_s.unwrap() > 7000.0);
}

#[test]
fn a_server_that_dies_ends_the_search_at_once() {
    let mut server = Server::upset(|trial, _, result| {
        if trial >= 5 {
            *result = LoadResult::default();
            result.errors.connect = 100;
        }
    });
    let Played { report, log, run } = server.play(goal(&["p99<20ms"]), "");
    assert_eq!(report.verdict, LimitVerdict::Died);
    assert_eq!(log[6..], ["does it still answer?"; 3], "{log:?}");
    assert_eq!((run.trials.len(), report.left_out.len()), (9, 1));
}

#[test]
fn a_server_that_comes_and_goes_is_called_so() {
    let mut server = Server::upset(|trial, _, result| {
        if trial % 4 == 3 {
            *result = LoadResult::default();
            result.errors.connect = 100;
        }
    });
    assert_eq!(server.play(goal(&[]), "").report.verdict, LimitVerdict::Flapping);
    // It is never away for a whole trial, but every second one has refused connections and is not steady.
    let mut server = Server::upset(|trial, _, result| {
        if trial % 3 != 2 {
            result.errors.connect = 100;
            result.gates = vec![broken("steady", false)];
        }
    });
    assert_eq!(server.play(goal(&[]), "").report.verdict, LimitVerdict::Flapping);
}

#[test]
fn an_unsteady_trial_is_repeated_and_never_used_silently() {
    let mut server = Server::upset(|trial, _, result| {
        if trial == 6 {
            result.good_per_s *= 0.5;
            result.gates = vec![broken("steady", false)];
        }
    });
    let Played { report, log, .. } = server.play(goal(&[]), "");
    let limit = report.saturation.unwrap();
    assert!((limit.estimate_per_s / 10_000.0 - 1.0).abs() < 0.02 && limit.low_per_s > 9_800.0, "{limit:?}");
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(report.left_out[0].reason, "steady broke");
    assert!(log[7].ends_with(", again"), "{log:?}");
    let mut server = Server::upset(|_, _, result| result.gates = vec![broken("steady", false)]);
    assert_eq!(server.play(goal(&[]), "").report.verdict, LimitVerdict::Unsteady);
}

#[test]
fn the_most_connections_that_are_stable_are_found() {
    let mut server = Server::upset(|_, plan, result| {
        if plan.connections > 200 {
            // No error, but violent from second to second.
            result.per_second = vec![12_000, 7_000, 13_000, 6_000, 12_000];
        }
    });
    let budget = Nanos::from_millis(240_000);
    let found = server.play(LimitGoal { stable: true, budget, ..goal(&[]) }, "").report;
    let stable = found.stable.unwrap();
    let (holds, fails) = (stable.holds_at.unwrap(), stable.fails_at.unwrap());
    assert!(holds <= 200 && 200 < fails && fails - holds <= 25, "{stable:?}");
}

#[test]
fn more_connections_than_are_answered_in_a_trial_are_not_stable() {
    let mut server = Server::upset(|_, plan, result| {
        if plan.connections > 200 {
            *result = LoadResult { duration_s: result.duration_s, ..LoadResult::default() };
        }
    });
    let budget = Nanos::from_millis(240_000);
    let Played { report, log, .. } = server.play(LimitGoal { stable: true, budget, ..goal(&[]) }, "");
    assert_eq!(report.verdict, LimitVerdict::Found, "the server was never away: {log:?}");
    let stable = report.stable.unwrap();
    let (holds, fails) = (stable.holds_at.unwrap(), stable.fails_at.unwrap());
    assert!(holds <= 200 && 200 < fails && fails - holds <= 25, "{stable:?}");
}

#[test]
fn values_of_an_axis_that_have_no_answer_in_a_trial_do_not_hold() {
    let mut server = Server::upset(|_, plan, result| {
        if plan.connections > 200 {
            *result = LoadResult { duration_s: result.duration_s, ..LoadResult::default() };
        }
    });
    let Played { report, log, .. } = server.play(over("connections=1..1000", Some("errors<1%")), "");
    assert_eq!(report.verdict, LimitVerdict::Found, "the server was never away: {log:?}");
    let axis = report.axis.unwrap();
    let (holds, fails) = (axis.holds_at.unwrap(), axis.fails_at.unwrap());
    assert!(holds <= 200 && 200 < fails && fails - holds <= 25, "{axis:?}");
}

#[test]
fn connections_that_the_generator_cannot_open_are_not_the_servers_fault() {
    let mut server = Server::upset(|_, plan, result| {
        if plan.connections > 100 {
            result.errors.no_descriptor = u64::from(plan.connections) - 100;
            result.gates = vec![broken("descriptors", true)];
        }
    });
    let budget = Nanos::from_millis(240_000);
    let stable = server.play(LimitGoal { stable: true, budget, ..goal(&[]) }, "").report.stable.unwrap();
    assert_eq!((stable.holds_at, stable.fails_at), (Some(1), None), "{stable:?}");
    assert!(stable.tried.iter().all(|point| point.value <= 100));
}

#[test]
fn the_smallest_answer_that_fills_the_link_is_found() {
    let size = |plan: &LoadPlan| -> f64 { plan.headers[0].1.rsplit('-').next().unwrap().parse::<f64>().unwrap() + 1.0 };
    let mut server = Server::upset(move |_, plan, result| {
        // A link of 207.2 Mbit/s, 95 % filled by the 8,000 answers a second of 8 connections with 3,076 bytes each.
        let per_s = (207.2e6 / 8.0 / size(plan)).min(result.good_per_s);
        result.good_per_s = per_s;
        result.completed = (per_s * result.duration_s) as u64;
        result.bytes_in = (per_s * result.duration_s * size(plan)) as u64;
    });
    let Played { report, run, .. } = server.play(over("path-size=1..10000", Some("bandwidth>=95%")), "");
    let axis = report.axis.unwrap();
    let (holds, fails) = (axis.holds_at.unwrap(), axis.fails_at.unwrap());
    assert!(axis.rising && (2900..3300).contains(&holds) && fails < holds, "{axis:?}");
    assert_eq!((report.verdict, axis.measured.as_str()), (LimitVerdict::Found, "bit/s"), "{} trials", run.trials.len());
    assert!(axis.confidence >= 0.95 && report.saturation.is_none());
}

#[test]
fn a_server_that_does_not_know_sizes_is_told_at_once() {
    let mut server = Server::upset(|_, _, result| result.bytes_in = result.completed * 100_000);
    let Played { log, .. } = server.play(over("path-size=1..10000", Some("bandwidth>=95%")), "");
    assert_eq!(log.len(), 2);
    assert!(
        log[1].starts_with("an answer has 100000 bytes where 1 were asked for: write a path in which `%d`"),
        "{log:?}"
    );
    let mut server = Server::upset(|_, _, result| {
        result.good_per_s = 0.0;
        result.statuses.insert(404, 1000);
    });
    let Played { log, .. } = server.play(over("path-size=1..10000", Some("bandwidth>=95%")), "");
    assert!(log[1].starts_with("at 1 bytes every answer has status 404"), "{log:?}");
}

#[test]
fn connections_are_searched_until_a_threshold_breaks() {
    let mut server = Server::upset(|_, plan, result| {
        let mut histogram = Histogram::new();
        (0..100).for_each(|_| histogram.record_ns(u64::from(plan.connections) * 100_000));
        result.latency = histogram.to_latency();
    });
    let axis = server.play(over("connections=1..512", Some("p99<10ms")), "").report.axis.unwrap();
    let (holds, fails) = (axis.holds_at.unwrap(), axis.fails_at.unwrap());
    assert!(!axis.rising && holds < 100 && 100 <= fails && fails - holds <= 12, "{axis:?}");
    let nothing = Server::new(0.0, 1).play(over("connections=1..512", Some("p99<1us")), "").report;
    assert_eq!(nothing.verdict, LimitVerdict::NothingHolds);
}

#[test]
fn workers_are_turned_measured_and_put_back_and_the_law_is_fitted() {
    let workers = std::rc::Rc::new(std::cell::Cell::new(1.0));
    let turned = std::rc::Rc::clone(&workers);
    let mut server = Server::upset(move |_, _, result| {
        let n: f64 = turned.get();
        result.good_per_s *= n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0)) / 10.0;
    });
    let mut made = MadeRun::of("[host.lb]\nsoftware = \"nginx\"\n");
    made.run.stack.host.get_mut("client").unwrap().calls = vec!["lb".into()];
    let effort = Effort::default();
    let goal = LimitGoal { extrapolate: vec![32], ..over("workers=1..8", None) };
    let mut search = LimitSearch::new(&plan(), goal, &made.run, &effort);
    while let Step::Do(commands) = search.next(&made.run, &effort) {
        let [Command::Turn(knob), Command::Trial(order), Command::Restore] = &commands[..] else {
            panic!("turn, trial, restore: {commands:?}")
        };
        assert_eq!(knob.host, "lb");
        workers.set(knob.value.parse().unwrap());
        let result = server.answer(&order.plan);
        made.push(order.purpose.clone(), order.plan.clone(), result);
    }
    let report = search.report(&made.run);
    let law = report.usl.unwrap();
    let holds = |b: prony_model::limit::Bounded, truth: f64| b.low.unwrap() <= truth && truth <= b.high.unwrap();
    assert!(holds(law.sigma, 0.05) && holds(law.kappa, 0.001), "{law:?}");
    // The workload's 8 connections carry 8,000 a second of the 10,000.
    let on_32 = 8_000.0 * 32.0 / (1.0 + 0.05 * 31.0 + 0.001 * 32.0 * 31.0) / 10.0;
    assert!(law.extrapolated[0].0 == 32.0 && holds(law.extrapolated[0].1, on_32), "{law:?}");
    assert_eq!((report.axis.unwrap().tried.len(), report.verdict), (8, LimitVerdict::Found));
}

#[test]
fn a_small_budget_gives_a_wide_answer_in_time() {
    for ms in [10_000, 25_000, 50_000] {
        let found = Server::new(0.03, 1).play(LimitGoal { budget: Nanos::from_millis(ms), ..goal(&[]) }, "").report;
        assert!(found.spent_s <= ms as f64 / 1e3 + 1.0, "{} of {ms} ms", found.spent_s);
        // A few seconds are not enough for any interval, and then none is given.
        let open = found.verdict == LimitVerdict::Open && found.saturation.is_none() && ms < 50_000;
        assert!(open || matches!(found.verdict, LimitVerdict::Wide | LimitVerdict::Found), "{ms} {:?}", found.verdict);
    }
}
