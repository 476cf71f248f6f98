//! A rate that is carried: what matters is the time that requests take.

use super::*;

/// 30 ms on the way to the servers, at 900 requests per second, or at as many of them as are served.
fn far(served: f64) -> Lab {
    let far = Lab::healthy().throughput(served).cpu("0", 0.1, 0.2, 0.1).gauge("lb", &CONN_MIN_RTT, "80", 30_000.0);
    Lab { rate: Some(900.0), x: [450.0, served, served], r_us: [31_000.0, 31_000.0, 31_000.0], ..far }
}

/// The run of a lab whose objective, 1 ms at p50, is missed.
fn run_of(lab: &Lab) -> Run {
    let mut run = lab.run();
    run.trials.iter_mut().for_each(|trial| trial.result.latency.p50_us = 8_000.0);
    let p50 = Some(prony_model::Nanos::from_millis(1));
    run.stack.slo = Some(prony_model::stack::Slo { p50, ..Default::default() });
    run
}

fn plan_of(lab: &Lab) -> Vec<(InterventionKind, bool, bool)> {
    let run = run_of(lab);
    let plan = plan_interventions(&run, &diagnose(&run));
    plan.into_iter().map(|i| (i.what, i.at_rate, i.control)).collect()
}

/// The verdict after these answers of the suspect and of its control.
fn after(lab: &Lab, suspect: (f64, f64, f64), control: (f64, f64, f64)) -> Verdict {
    let mut run = run_of(lab);
    answered(&mut run, suspect, control);
    diagnose(&run).verdict
}

#[test]
fn a_wait_of_its_own_is_tested_by_fewer_requests() {
    let fewer = [(InterventionKind::LowerRate, true, false), (InterventionKind::Placebo, true, true)];
    assert_eq!(plan_of(&far(900.0)), fewer);
    let nothing = (0.01, -0.02, 0.04);
    let stays = after(&far(900.0), (0.02, -0.01, 0.05), nothing);
    assert_eq!((stays.cause.as_str(), stays.grounded, stays.at_rate), ("path-delay", true, true), "{stays:#?}");
    let said = "with 50 % fewer requests asked for, the mean latency followed by 0.02 (-0.01 to 0.05), at most 0 is expected of a wait";
    assert!(stays.grounding[3].detail.starts_with(said), "{}", stays.grounding[3].detail);
    let rises = after(&far(900.0), (-0.5, -0.7, -0.3), nothing);
    assert!(rises.grounded, "what was lost is missed later: {rises:#?}");
    let falls = after(&far(900.0), (0.9, 0.8, 1.0), nothing);
    assert_ne!(falls.cause, "path-delay", "requests queue for something");
    let wide = after(&far(900.0), (0.4, -0.3, 1.1), nothing);
    assert_eq!((wide.cause.as_str(), wide.grounded), ("path-delay", false));
    let restless = after(&far(900.0), (0.02, -0.01, 0.05), (0.6, 0.4, 0.8));
    assert!(!restless.grounded, "with nothing turned requests took another time");
}

#[test]
fn a_rate_that_is_not_carried_is_tested_in_a_closed_loop() {
    let plan = plan_of(&far(700.0));
    assert!(plan.contains(&(InterventionKind::Concurrency, false, false)), "{plan:?}");
}

#[test]
fn a_verdict_at_a_rate_speaks_of_the_time_that_requests_take() {
    let run = run_of(&far(900.0));
    let verdict = diagnose(&run).verdict;
    assert!(verdict.summary.contains("% of the time that requests take; mending it"), "{}", verdict.summary);
    let gain = verdict.predicted_gain.unwrap();
    let shorter = format!("is predicted to change the mean latency by {:.0} %", -100.0 * gain / (1.0 + gain));
    assert!(verdict.summary.contains(&shorter), "{}", verdict.summary);
    let uncapped = 1.0 / (1.0 - diagnose(&run).candidates[0].score.min(0.95)) - 1.0;
    assert!((gain - uncapped).abs() < 1e-9, "no full CPU ends what requests gain: {gain}");
    let limit = diagnose(&run_of(&far(700.0))).verdict;
    assert!(!limit.at_rate && limit.predicted_gain.unwrap() < uncapped, "the limit has one: {limit:#?}");
}

#[test]
fn a_remedy_at_a_rate_tells_how_much_sooner_requests_are_answered() {
    let held = Lab { rate: Some(900.0), x: [450.0, 900.0, 1_350.0], ..Lab::healthy().throughput(900.0) };
    let held = held.cpu("0", 0.1, 0.2, 0.1).cpu("1", 0.1, 0.1, 0.1);
    let backlog =
        held.per_second("s1", &TCP_LISTEN_OVERFLOWS, "", 37.3).per_second("lb", &TCP_SYN_RETRANSMITS, "", 33.8);
    let plan = plan_of(&backlog);
    assert!(matches!(
        plan[..],
        [(InterventionKind::Removal { .. }, true, false), (InterventionKind::Placebo, true, true)]
    ));
    let verdict = after(&backlog, (1.0, 0.7, 1.5), (0.0, -0.05, 0.05));
    assert_eq!((verdict.cause.as_str(), verdict.grounded), ("accept-queue-full", true), "{verdict:#?}");
    let told = "tried in 6 pairs of short trials, changed the mean latency by -50 % (-60 % to -41 %)";
    assert!(verdict.summary.contains(told), "{}", verdict.summary);
    assert!(verdict.grounding[3].detail.contains("the speed of answers changed by 1.00"), "{:?}", verdict.grounding[3]);
}

/// lb compresses at a rate that is carried, on a CPU that it uses so much of.
fn compressing(own: f64) -> Lab {
    let asked = Lab { rate: Some(900.0), x: [450.0, 900.0, 1_350.0], r_us: [1_000.0; 3], ..Lab::healthy() };
    let code = [("[libz.so.1.2.13]", "libz.so.1.2.13", 0.9)];
    let lab = asked.throughput(900.0).cpu("0", own - 0.05, 0.05, 0.0).cpu("1", 0.1, 0.1, 0.1).own("lb", own);
    let lab = lab.profiled("lb", &code).per_second("lb", &IF_RX_BYTES, "eth0", 10.0);
    lab.per_second("lb", &IF_TX_BYTES, "eth0", 10.0)
}

#[test]
fn at_a_rate_less_cpu_tells_how_much_of_the_time_is_its_work_and_never_that_it_is_none() {
    let lab = compressing(0.55);
    let plan = plan_of(&lab);
    assert_eq!(plan[0], (InterventionKind::Cpu, true, false), "{plan:?}");
    assert!(plan[1].1 && plan[1].2, "its control at the rate too: {plan:?}");
    let still = (0.0, -0.05, 0.05);
    for (suspect, grounded) in [((0.3, 0.25, 0.35), true), ((0.0, -0.02, 0.02), false)] {
        let verdict = after(&lab, suspect, still);
        assert_eq!((verdict.cause.as_str(), verdict.grounded), ("compression-cpu", grounded), "{verdict:#?}");
    }
}

#[test]
fn a_host_is_slowed_by_what_it_has_room_for() {
    let doses = |own: f64| {
        let run = run_of(&compressing(own));
        plan_interventions(&run, &diagnose(&run)).iter().map(|i| i.dose).collect::<Vec<_>>()
    };
    assert_eq!(doses(0.55), [0.4, 0.4]);
    assert_eq!(doses(0.65), [0.2, 0.2], "it uses more than 40 % less would leave it");
}

#[test]
fn an_honest_limit_at_a_rate_predicts_no_latency() {
    let full = Lab { rate: Some(900.0), x: [450.0, 900.0, 900.0], ..Lab::healthy().throughput(900.0) };
    let full = full.cpu("0", 0.7, 0.27, 0.0).cpu("1", 0.1, 0.1, 0.1).own("lb", 0.95);
    let verdict = diagnose(&run_of(&full)).verdict;
    assert_eq!((verdict.cause.as_str(), verdict.at_rate), ("cpu-saturated-user", true), "{verdict:#?}");
    assert_eq!(verdict.predicted_gain, None, "{}", verdict.summary);
}

#[test]
fn a_queue_in_which_fewer_requests_take_longer_is_none() {
    let shared = Lab { rate: Some(405.0), r_us: [5_000.0, 20_000.0, 20_000.0], ..Lab::chain().queueing(405.0) };
    let shared = shared.held(2.0).sessions([1.0, 2.0, 2.0], "running");
    let nothing = (0.01, -0.02, 0.04);
    let named = |answer| after(&shared, answer, nothing).cause;
    assert_eq!(diagnose(&run_of(&shared)).verdict.cause, "connection-pool-exhausted");
    assert_eq!(named((-0.22, -0.36, 0.01)), "connection-pool-exhausted", "it may stay");
    assert_ne!(named((-0.22, -0.36, -0.08)), "connection-pool-exhausted");
}
