//! What remedies that were tried tell.

use super::*;

#[test]
fn of_two_waits_of_one_weight_the_remedy_tells() {
    let lab = Lab::healthy().throughput(900.0).cpu("0", 0.1, 0.2, 0.1).gauge("lb", &CONN_MIN_RTT, "80", 30_000.0);
    let mut run = lab.per_second("lb", &CONN_BUFFER_LIMITED, "80", 24.0).run();
    let named = |run: &Run| diagnose(run).verdict.cause;
    assert_eq!(named(&run), "path-delay");
    let to_come = remedy_to_come(&run, &diagnose(&run)).unwrap();
    answered(&mut run, (1.0, 0.98, 1.02), (0.0, -0.05, 0.05));
    let plan = plan_interventions(&run, &diagnose(&run));
    let knobs: Vec<String> = plan[0].what.knobs().iter().map(|k| k.id.to_string()).collect();
    assert_eq!(knobs, ["sysctl.net.ipv4.tcp_wmem"], "more connections hide both");
    assert_eq!(to_come, plan[0], "time is kept for it");
    answered(&mut run, (1.5, 1.4, 1.6), (0.0, -0.05, 0.05));
    assert_eq!(named(&run), "socket-buffer-limited");
    let score = diagnose(&run).candidates[0].score;
    assert!((score - 1.4 / 2.4).abs() < 1e-9, "at least what the remedy took away: {score}");
}

#[test]
fn time_is_kept_for_remedies_that_will_be_tried() {
    let to_come = |lab: &Lab| {
        let run = lab.run();
        remedy_to_come(&run, &diagnose(&run))
    };
    let remedy = to_come(&keepalive_off()).unwrap();
    assert!(remedy.further && remedy.target == "lb" && remedy.what.knobs()[0].host == "lb", "{remedy:?}");
    let slow = Lab::healthy().throughput(1_500.0).cpu("0", 0.05, 0.05, 0.02).cpu("1", 0.05, 0.03, 0.02);
    let slow = ["s1", "s2"].into_iter().fold(slow, |lab, s| lab.per_second(s, &TCP_IN_SEGMENTS, "", 2_250.0));
    let slow = slow.gauge("s2", &CONN_IN_BUSY, "80", 50.0).gauge("lb", &CONN_OUT, "10.77.0.12:80", 50.0);
    assert!(diagnose(&slow.run()).remedies.iter().any(|r| r.knob.is_some()), "it has a remedy");
    assert_eq!(to_come(&slow), None, "but more connections tell all that is asked");
}

#[test]
fn a_remedy_that_does_harm_mends_nothing() {
    let named = |remedy| {
        let idle = Lab::healthy().throughput(900.0).cpu("0", 0.1, 0.2, 0.1);
        let mut run = idle.per_second("lb", &ERROR_LOG_LIMITING, "", 60.0).run();
        answered(&mut run, remedy, (0.0, -0.01, 0.01));
        diagnose(&run).verdict.cause
    };
    assert_eq!(named((-0.05, -0.1, 0.0)), "rate-limited", "little was predicted, and little seen");
    assert_ne!(named((-0.5, -0.6, -0.4)), "rate-limited");
}

#[test]
fn connections_kept_for_a_while_tell_what_opening_them_costs() {
    let mut run = Lab::healthy().per_second("lb", &TCP_PASSIVE_OPENS, "", 15_300.0).run();
    for trial in &mut run.trials {
        trial.plan.keepalive = false;
    }
    answered(&mut run, (0.8, 0.75, 0.85), (0.0, -0.01, 0.01));
    let verdict = diagnose(&run).verdict;
    assert_eq!((verdict.cause.as_str(), verdict.grounded), ("client-connections-short", true));
    let tried = "its remedy, tried in 6 pairs of short trials, changed throughput by +80 % (+75 % to +85 %)";
    assert!(verdict.summary.contains(tried), "{}", verdict.summary);
}
