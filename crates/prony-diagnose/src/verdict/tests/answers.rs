//! What answers to interventions mean.

use super::*;
use crate::facts::Hop;
use crate::grounding::{Response, is_answered, response};
use crate::testing::finding;

#[test]
fn a_rate_at_random_is_held_when_what_came_due_was_served() {
    let rate = Lab { rate: Some(1_800.0), x: [900.0, 1_780.0, 1_781.0], ..Lab::healthy().cpu("0", 0.1, 0.1, 0.05) };
    let says_of = |rate: &Lab, due: u64| {
        let mut run = rate.run();
        run.trials.iter_mut().for_each(|trial| trial.result.intended = due);
        diagnose(&run).verdict.summary
    };
    let says = |due: u64| says_of(&rate, due);
    assert!(says(3_560).contains("the asked rate is held"), "{}", says(3_560));
    let few = "Inconclusive: 1780 requests/s are answered, 1.8k/s is asked, but nothing that was read explains it";
    assert!(says(3_600).starts_with(few), "{}", says(3_600));
    let more = says_of(&Lab { x: [900.0, 1_780.0, 1_782.0], ..rate }, 3_600);
    assert!(more.contains("the asked rate is held"), "it answers as many beyond: {more}");
}

#[test]
fn of_few_requests_one_may_still_be_under_way() {
    let thirty_due = prony_model::LoadResult { intended: 30, duration_s: 2.0, ..Default::default() };
    assert!(crate::sessions::is_carried(&thirty_due, 14.5), "29 answers");
    assert!(!crate::sessions::is_carried(&thirty_due, 14.0), "28 answers");
}

#[test]
fn a_rate_that_misses_its_objective_for_no_known_reason_is_inconclusive() {
    let rate = Lab { rate: Some(1_800.0), x: [900.0, 1_800.0, 2_700.0], ..Lab::healthy().cpu("0", 0.1, 0.1, 0.05) };
    let mut run = rate.run();
    run.trials.iter_mut().for_each(|trial| trial.result.latency.p99_us = 98_000.0);
    let verdict_within = |run: &mut Run, ms: u64| {
        let p99 = Some(prony_model::Nanos::from_millis(ms));
        run.stack.slo = Some(prony_model::stack::Slo { p99, ..Default::default() });
        diagnose(run).verdict
    };
    let missed = verdict_within(&mut run, 20);
    assert_eq!(missed.cause, "inconclusive");
    let said = "p99 is 98.0 ms, 20.0 ms is asked, but nothing that was read explains it; requests spend 100 % of their time at lb";
    assert!(missed.summary.contains(said), "{}", missed.summary);
    assert_eq!(verdict_within(&mut run, 98).cause, "none", "the border: within it");
}

#[test]
fn cpus_that_others_fill_have_no_room() {
    let lab = Lab { rate: Some(1_800.0), x: [900.0, 1_800.0, 2_700.0], ..Lab::healthy() };
    let verdict = diagnose(&lab.cpu("0", 0.98, 0.01, 0.01).own("lb", 0.05).run()).verdict;
    assert_eq!(verdict.cause, "none", "{}", verdict.summary);
    assert!(verdict.summary.contains("100 % busy; most of that is the work of others."), "{}", verdict.summary);
    assert_eq!(verdict.predicted_gain, None);
}

#[test]
fn full_cpus_are_no_room_whatever_slowing_them_told() {
    let mut run = Lab { x: [4_000.0, 8_000.0, 9_400.0], ..Lab::healthy() }.run();
    answered(&mut run, (0.36, -0.01, 0.73), (0.59, -0.14, 1.32));
    let verdict = diagnose(&run).verdict;
    assert_eq!(verdict.cause, "inconclusive", "{verdict:#?}");
    let said = "throughput followed them by 0.36 (-0.01 to 0.73)";
    assert!(verdict.summary.contains(said), "{}", verdict.summary);
}

#[test]
fn more_connections_bring_no_more_than_what_fills_the_cpus() {
    let answer = |user: f64, elasticity: (f64, f64, f64)| {
        let lab = Lab::healthy().throughput(6_000.0).cpu("0", user, 0.2, 0.1).cpu("1", user, 0.2, 0.1);
        let lab = lab.per_second("s1", &TCP_RETRANSMITS, "", 182.0).per_second("lb", &TCP_RETRANSMITS, "", 226.0);
        let lab = Lab { x: [3_000.0, 6_000.0, 8_000.0], ..lab };
        let mut run = lab.run();
        answered(&mut run, elasticity, (0.05, -0.1, 0.2));
        response(&Hop { run: &run, name: "s1" }, &finding("packet-loss", "s1", &lab).unwrap())
    };
    let weak = (0.39, 0.07, 0.71);
    assert!(matches!(answer(0.1, weak), Response::Unclear(_)), "{:?}", answer(0.1, weak));
    assert!(matches!(answer(0.54, weak), Response::Follows(_)), "{:?}", answer(0.54, weak));
    let nothing = (0.05, -0.1, 0.2);
    assert!(matches!(answer(0.54, nothing), Response::Contradicts(_)), "{:?}", answer(0.54, nothing));
}

#[test]
fn a_removal_that_takes_the_wait_of_few_requests_shows_in_the_tail() {
    let backlog = Lab::healthy().throughput(5_390.0).per_second("s1", &TCP_LISTEN_OVERFLOWS, "", 37.3).per_second(
        "lb",
        &TCP_SYN_RETRANSMITS,
        "",
        33.8,
    );
    let response_at = |throughput: (f64, f64, f64), p99: Option<Bounded>, p999: Option<Bounded>| {
        let mut run = backlog.run();
        answered(&mut run, throughput, (0.0, -0.1, 0.1));
        run.interventions.iter_mut().filter(|i| !i.control).for_each(|i| (i.p99, i.p999) = (p99, p999));
        let hop = crate::facts::Hop { run: &run, name: "s1" };
        let finding = crate::testing::finding("accept-queue-full", "s1", &backlog).unwrap();
        response(&hop, &finding)
    };
    let response_of = |p99, p999| response_at((0.01, -0.02, 0.04), p99, p999);
    let changed =
        |value: f64, half: f64| Some(Bounded { value: Some(value), low: Some(value - half), high: Some(value + half) });
    let gone = changed(-0.9, 0.05);
    for (p99, p999) in [(gone, None), (changed(0.4, 0.2), gone)] {
        assert!(matches!(response_of(p99, p999), Response::Follows(_)), "{:?}", response_of(p99, p999));
    }
    for small in [changed(-0.1, 0.05), changed(-0.5, 0.45), None] {
        assert!(!matches!(response_of(small, small), Response::Follows(_)), "{:?}", response_of(small, small));
    }
    let answers = |p999: Option<Bounded>| {
        let mut run = backlog.run();
        answered(&mut run, (-0.08, -0.13, -0.04), (-0.03, -0.06, -0.001));
        run.interventions.iter_mut().filter(|i| !i.control).for_each(|i| i.p999 = p999);
        is_answered(&Hop { run: &run, name: "s1" }, &finding("accept-queue-full", "s1", &backlog).unwrap())
    };
    assert!(answers(gone) && !answers(None), "a control that moves a little is nothing beside a wait that is gone");
    // Who waited for a second takes part again: more at once, and a little less for all.
    let follows = |throughput, p999| matches!(response_at(throughput, None, p999), Response::Follows(_));
    assert!(follows((-0.08, -0.1, -0.06), gone));
    assert!(!follows((-0.08, -0.1, -0.06), changed(-0.4, 0.05)), "a part of the wait is not worth it");
    assert!(!follows((-0.2, -0.25, -0.15), gone), "it costs too much");
}
