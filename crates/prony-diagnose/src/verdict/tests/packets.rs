//! Packets beside other work of full CPUs.

use super::*;

#[test]
fn a_tenth_of_full_cpus_for_packets_is_no_limit_of_its_own() {
    let small = |user: f64, softirq: f64| {
        let lab = Lab::healthy().cpu("0", user, 0.99 - user - softirq, softirq).own("lb", 0.99);
        let mut run = lab.per_second("lb", &IF_TX_BYTES, "eth0", 15_300.0 * 600.0).run();
        answered(&mut run, (1.1, 1.0, 1.2), (0.0, -0.05, 0.05));
        short(&diagnose(&run))
    };
    expect![[r#"
        cpu-saturated-user at lb, High
          cpu-saturated-user at lb: 1.00
          packet-rate-bound at lb: 0.11
    "#]]
    .assert_eq(&small(0.68, 0.11));
    expect![[r#"
        packet-rate-bound at lb, High
          packet-rate-bound at lb: 1.00
          cpu-saturated-kernel at lb: 1.00
    "#]]
    .assert_eq(&small(0.2, 0.6));
}
