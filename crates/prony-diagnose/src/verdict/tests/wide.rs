//! Answers that were too wide to tell, and what is tried next.

use super::*;

#[test]
fn what_throughput_does_not_follow_has_no_curve() {
    for suspect in [(0.3, -1.2, 1.8), (0.02, -0.08, 0.12)] {
        let mut run = keepalive_off().run();
        answered(&mut run, suspect, (0.0, -0.1, 0.1));
        let plan = plan_interventions(&run, &diagnose(&run));
        assert!(plan.iter().all(|i| !(i.further && i.what == InterventionKind::Cpu)), "{plan:?}");
    }
}

#[test]
fn who_shares_full_cpus_is_followed_only_in_part() {
    let mut run = Lab::healthy().cpu("1", 0.5, 0.3, 0.18).own("lb", 0.9).own("s1", 0.4).own("s2", 0.4).run();
    for name in ["lb", "s1", "s2"] {
        run.stack.host.get_mut(name).unwrap().cpus = "0-1".parse().ok();
    }
    for (answer, holds) in [((0.48, 0.27, 0.69), true), ((0.26, 0.07, 0.46), true), ((0.1, 0.0, 0.2), false)] {
        let mut run = run.clone();
        answered(&mut run, answer, (0.0, -0.03, 0.03));
        let verdict = diagnose(&run).verdict;
        let is_lb = verdict.cause.starts_with("cpu-saturated") && verdict.hop == "lb";
        assert_eq!(is_lb, holds, "{answer:?}: {}", verdict.summary);
    }
}

#[test]
fn where_doses_tell_nothing_the_remedy_beside_nothing_turned_does() {
    let wide = (0.54, -0.21, 1.29);
    for (suspect, control) in [((1.24, 0.68, 1.81), wide), ((0.6, -0.2, 1.4), (0.0, -0.1, 0.1))] {
        let grounded = |remedy, placebo| {
            let mut run = keepalive_off().run();
            answered(&mut run, suspect, control);
            assert!(!diagnose(&run).verdict.grounded);
            let further = plan_interventions(&run, &diagnose(&run));
            assert!(further[0].what.is_removal() && further[1].what == InterventionKind::Placebo, "{further:?}");
            answered(&mut run, remedy, placebo);
            let verdict = diagnose(&run).verdict;
            assert_eq!(verdict.cause, "upstream-keepalive-off");
            verdict.grounded
        };
        assert!(grounded((1.59, 1.12, 2.16), (0.03, -0.1, 0.16)));
        assert!(!grounded((1.59, -0.12, 2.16), (0.03, -0.1, 0.16)), "the remedy told nothing either");
        assert!(!grounded((0.2, 0.1, 0.3), (0.15, -0.1, 0.4)), "nothing turned moved it as much");
    }
}

#[test]
fn a_remedy_for_which_no_control_found_time_has_that_of_the_dose() {
    let grounded = |control, remedy| {
        let mut run = keepalive_off().run();
        answered(&mut run, (0.6, -0.2, 1.4), control);
        let further = plan_interventions(&run, &diagnose(&run));
        run.interventions.extend(further.into_iter().filter(|look| look.what.is_removal()));
        let (value, low, high) = remedy;
        let last = run.interventions.last_mut().unwrap();
        (last.elasticity, last.low, last.high) = (Some(value), Some(low), Some(high));
        diagnose(&run).verdict.grounded
    };
    let still = (0.0, -0.1, 0.1);
    assert!(grounded(still, (1.59, 1.12, 2.16)));
    assert!(!grounded(still, (1.59, -0.12, 2.16)), "the remedy told nothing");
    assert!(!grounded((0.54, -0.21, 1.29), (1.59, 1.12, 2.16)), "nor did the control of the dose");
}

#[test]
fn a_control_that_told_nothing_is_slowed_by_more_where_there_is_no_remedy() {
    let grounded = |harder| {
        let mut run = Lab::healthy().run();
        answered(&mut run, (1.0, 0.8, 1.2), (0.5, -0.2, 1.2));
        let verdict = diagnose(&run).verdict;
        assert!(!verdict.grounded && verdict.cause.starts_with("cpu-saturated"), "{verdict:#?}");
        let further = plan_interventions(&run, &diagnose(&run));
        let looks: Vec<_> = further.iter().map(|i| (i.target.as_str(), i.control, i.further, i.dose)).collect();
        assert_eq!(looks, [("s1", true, true, 0.4), ("lb", false, true, 0.1), ("lb", false, true, 0.4)]);
        answered(&mut run, (1.0, 0.9, 1.1), harder);
        diagnose(&run).verdict.grounded
    };
    assert!(grounded((0.05, -0.3, 0.4)));
    assert!(!grounded((0.5, 0.2, 0.8)), "it moves");
}

#[test]
fn a_suspect_that_told_nothing_is_slowed_by_more_where_there_is_no_remedy() {
    let grounded = |harder| {
        let mut run = Lab::healthy().run();
        answered(&mut run, (0.6, -0.1, 1.3), (0.0, -0.1, 0.1));
        assert!(!diagnose(&run).verdict.grounded);
        let further = plan_interventions(&run, &diagnose(&run));
        let looks: Vec<_> = further.iter().map(|i| (i.target.as_str(), i.control, i.further, i.dose)).collect();
        assert_eq!(looks, [("lb", false, true, 0.4)]);
        answered(&mut run, harder, (0.0, 0.0, 0.0));
        let verdict = diagnose(&run).verdict;
        assert!(verdict.cause.starts_with("cpu-saturated"), "{verdict:#?}");
        verdict.grounded
    };
    assert!(grounded((0.8, 0.5, 1.1)));
    assert!(!grounded((0.3, 0.1, 0.5)), "it hardly follows");
    assert!(!grounded((0.8, -0.1, 1.7)), "and this tells nothing either");
}

#[test]
fn the_control_of_a_suspect_that_was_slowed_by_more_is_held_against_that() {
    let grounded = |nothing| {
        let mut run = Lab::healthy().cpu("1", 0.5, 0.3, 0.18).own("lb", 0.9).own("s1", 0.4).own("s2", 0.4).run();
        run.stack.host.values_mut().for_each(|host| host.cpus = "0-1".parse().ok());
        answered(&mut run, (0.53, -0.01, 1.07), nothing);
        assert_eq!(run.interventions[1].what, InterventionKind::Placebo, "all share its CPUs");
        assert!(!diagnose(&run).verdict.grounded);
        answered(&mut run, (0.52, 0.37, 0.66), (0.0, 0.0, 0.0));
        diagnose(&run).verdict.grounded
    };
    assert!(grounded((0.07, -0.05, 0.2)));
    assert!(!grounded((0.12, -0.05, 0.3)), "nothing turned moved it by half as much");
}

#[test]
fn a_stack_that_fails_is_said_to_fail() {
    let said = |lab: Lab| diagnose(&lab.run()).verdict.summary;
    let summary = said(Lab::healthy().failing(0.98));
    assert!(summary.ends_with(" 98.0 % of the requests fail."), "{summary}");
    let summary = said(Lab::healthy().answering(500, 0.98));
    assert!(summary.ends_with(" 98.0 % of the requests fail, most with status 500."), "{summary}");
    assert!(!said(Lab::healthy().failing(0.009)).contains("fail"));
}

#[test]
fn work_that_goes_by_the_clock_is_not_acquitted() {
    let said = |lab: Lab, answer| {
        let mut run = lab.run();
        answered(&mut run, answer, (0.0, -0.02, 0.02));
        let verdict = diagnose(&run).verdict;
        (verdict.cause.starts_with("cpu-saturated") && verdict.hop == "lb")
            .then_some((verdict.grounded, verdict.confidence))
    };
    let spins = (0.39, 0.37, 0.41);
    assert_eq!(said(Lab::healthy(), spins), Some((false, Confidence::Medium)), "it follows, but not in full");
    assert_eq!(said(Lab::healthy(), (0.39, 0.14, 0.49)), None, "border: it may hardly follow");
    let room = Lab::healthy().cpu("0", 0.3, 0.3, 0.2);
    assert_eq!(said(room, spins), None, "its CPUs have room");
    let grows = Lab { x: [7_650.0, 15_300.0, 20_000.0], ..Lab::healthy() };
    assert_eq!(said(grows, spins), None, "more connections bring more");
}

#[test]
fn nearly_full_cpus_that_throughput_does_not_follow_hide_no_pool() {
    let nearly = Lab::chain().queueing(1_240.0).held(6.0).sessions([2.0, 5.5, 5.6], "Timeout:PgSleep");
    let nearly = nearly.cpu("0", 0.5, 0.16, 0.08).own("app", 0.7);
    let said = |answer| {
        let mut run = nearly.run();
        answered(&mut run, answer, (0.0, -0.05, 0.05));
        diagnose(&run).verdict
    };
    let (still, follows) = (said((0.09, 0.0, 0.19)), said((1.0, 0.8, 1.2)));
    assert_eq!((still.cause.as_str(), still.hop.as_str()), ("connection-pool-exhausted", "app"), "{}", still.summary);
    assert!(follows.cause.starts_with("cpu-saturated"), "{}", follows.summary);
}

#[test]
fn full_cpus_that_throughput_does_not_follow_are_said_to_be_so() {
    let mut run = Lab::healthy().run();
    answered(&mut run, (-0.24, -0.55, 0.08), (0.03, -0.2, 0.26));
    let verdict = diagnose(&run).verdict;
    let why = "the CPUs of lb are full, and throughput stood still when it was given less of them";
    assert!(verdict.cause == "inconclusive" && verdict.summary.contains(why), "{}", verdict.summary);
}

#[test]
fn what_the_hypervisor_takes_is_first_only_where_it_is_most() {
    let stolen = |share: f64, lab: Lab| {
        lab.per_second("lb", &CPU_STEAL, "0", share).levels("lb", &CPU_IDLE, "0", [0.5, 0.0, 0.0])
    };
    let healthy = |user: f64, share: f64| stolen(share, Lab::healthy().cpu("0", user, 0.1, 0.03).own("lb", user + 0.1));
    let named = |lab: Lab| diagnose(&lab.run()).candidates.iter().map(|c| c.cause.clone()).collect::<Vec<_>>();
    assert_eq!(named(healthy(0.55, 0.29)), ["cpu-saturated-user", "cpu-stolen"]);
    assert_eq!(named(healthy(0.2, 0.66)), ["cpu-stolen", "cpu-saturated-user"]);
    assert_eq!(named(stolen(0.29, keepalive_off()))[0], "upstream-keepalive-off");
}
