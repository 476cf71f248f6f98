//! Packets beside other work of full CPUs.

use super::*;

#[test]
fn a_tenth_of_full_cpus_for_packets_is_no_limit_of_its_own() {
    let small = |user: f64, softirq: f64, packets_per_s: f64| {
        let lab = Lab::healthy().cpu("0", user, 0.99 - user - softirq, softirq).own("lb", 0.99);
        let lab = lab.per_second("lb", &IF_TX_PACKETS, "eth0", packets_per_s);
        let mut run = lab.per_second("lb", &IF_TX_BYTES, "eth0", 15_300.0 * 600.0).run();
        answered(&mut run, (1.1, 1.0, 1.2), (0.0, -0.05, 0.05));
        short(&diagnose(&run))
    };
    expect![[r#"
        cpu-saturated-user at lb, High
          cpu-saturated-user at lb: 1.00
          packet-rate-bound at lb: 0.11
    "#]]
    .assert_eq(&small(0.68, 0.11, 20_000.0));
    expect![[r#"
        packet-rate-bound at lb, High
          packet-rate-bound at lb: 1.00
          cpu-saturated-kernel at lb: 1.00
    "#]]
    .assert_eq(&small(0.2, 0.6, 200_000.0));
    expect![[r#"
        cpu-saturated-kernel at lb, High
          cpu-saturated-kernel at lb: 1.00
          packet-rate-bound at lb: 0.60
    "#]]
    .assert_eq(&small(0.2, 0.6, 20_000.0));
}

/// The filters of lb, run on the full CPU of its senders: of s1, and of the generator, whose profile is not taken.
#[test]
fn a_small_sender_that_stands_still_acquits_no_filter_where_the_generator_fills_its_cpu() {
    let named = |generator: f64, of_s1: f64| {
        let lab = Lab { generator, ..Lab::healthy().cpu("0", 0.2, 0.3, 0.2).cpu("1", 0.3, 0.4, 0.28) };
        let lab = lab.own("lb", 0.7).own("s1", of_s1).own("s2", 0.1).profiled("lb", &[]).profiled("s1", &[]);
        let lab = lab.gauge("s1", &PROFILE_TOTAL, "nf_hook_slow", 0.5).gauge("lb", &LOOK_FILTER_RULES, "", 1_000.0);
        let mut run = lab.gauge("s1", &LOOK_FILTER_RULES, "", 0.0).run();
        assert_eq!(diagnose(&run).verdict.cause, "packet-filter-tax");
        answered(&mut run, (0.03, -0.03, 0.1), (0.0, -0.02, 0.02));
        let verdict = diagnose(&run).verdict;
        (verdict.cause, verdict.confidence)
    };
    assert_eq!(named(0.6, 0.2), ("packet-filter-tax".to_string(), Confidence::Medium));
    assert_ne!(named(0.1, 0.7).0, "packet-filter-tax", "it fills the CPU by itself");
}
