//! The cases from the field of which no other test holds the figures: F2 whole, and tests of F3.
//!
//! What was not recorded is assumed and says so, or stays a gap. Verdicts, candidates and gains are compared with what
//! the investigators found. F1, F3's logs and ports, and F4 stand in `verdict/tests.rs`.

use crate::diagnose;
use crate::testing::{Lab, finding, score};
use expect_test::{Expect, expect};
use prony_model::Diagnosis;
use prony_model::metric::*;

fn check(diagnosis: &Diagnosis, want: Expect) {
    let mut text = format!("{} at {}\n", diagnosis.verdict.cause, diagnosis.verdict.hop);
    for c in &diagnosis.candidates {
        text += &format!("  {} at {}: {:.2}\n", c.cause, c.hop, c.score);
    }
    want.assert_eq(&text);
}

/// F2: a node with four CPUs, user 70 %, system 10 %, soft interrupts 12 %, one JVM at 276 %, 750 requests/s, 50 Mbit/s
/// through an IPIP overlay. Bytes per packet were not recorded, only that packets are small: 250 is assumed.
fn f2_node(overlay: bool) -> Lab {
    let (bytes, packets) = (50e6 / 8.0, 50e6 / 8.0 / 250.0);
    let lab = Lab { n: [100.0, 100.0, 200.0], ..Lab::healthy() }
        .throughput(750.0)
        .cpu("0", 0.70, 0.10, if overlay { 0.12 } else { 0.06 })
        .own("lb", 0.69)
        .per_second("lb", &IF_TX_BYTES, "eth0", bytes)
        .per_second("lb", &IF_TX_PACKETS, "eth0", packets)
        .per_second("lb", &TCP_ORIGINAL_SENT, "", 750.0 * 3.0);
    if overlay { lab.per_second("lb", &IF_TX_PACKETS, "tunl0", packets) } else { lab }
}

#[test]
fn f2_ends_in_the_overlay_with_small_packets_on_the_way() {
    check(
        &diagnose(&f2_node(true).run()),
        expect![[r#"
            overlay-encapsulation at lb
              overlay-encapsulation at lb: 0.14
              cpu-saturated-user at lb: 0.79
              packet-rate-bound at lb: 0.10
        "#]],
    );
    // Routed instead of wrapped: the overlay is gone, and the node is honestly full of its application.
    check(
        &diagnose(&f2_node(false).run()),
        expect![[r#"
        cpu-saturated-user at lb
          cpu-saturated-user at lb: 0.74
    "#]],
    );
}

/// F2.5: what was tuned without effect is not what the diagnosis names.
#[test]
fn f2_names_nothing_that_was_tuned_in_vain() {
    for innocent in ["softnet-backlog-drops", "softirq-budget-squeezed", "accept-queue-full", "socket-buffer-limited"] {
        assert_eq!(score(innocent, "lb", &f2_node(true)), 0.0, "{innocent}");
    }
}

/// F3: a file server on 10 GbE, 24 threads' worth of CPUs as one, with so many connections and bytes per answer.
fn f3_server(requests: f64, bytes: f64, cpu: (f64, f64, f64)) -> Lab {
    let mut lab = Lab { n: [1_200.0, 1_200.0, 2_400.0], ..Lab::healthy() };
    lab.stack.host.get_mut("lb").unwrap().calls.clear();
    lab.throughput(requests)
        .cpu("0", cpu.0, cpu.1, cpu.2)
        .own("lb", cpu.0 + cpu.1)
        .gauge("lb", &IF_SPEED, "eth0", 1e10)
        .gauge("lb", &IF_RX_QUEUES, "eth0", 16.0)
        .per_second("lb", &IF_TX_BYTES, "eth0", requests * bytes)
        .per_second("lb", &TCP_ACTIVE_OPENS, "", 0.0)
        .gauge("lb", &LOOK_LOG_STEP, "/run/lb/access.log", 1e6)
}

/// F3 T1: 10,000 bytes fill the link (1140 MB/s, CPU idle 65 %); 1,000 bytes fill the CPU (585 MB/s, idle 0 %, 783K
/// packets/s). Requests/s follow from bytes; the split of the CPU is that of T2.
#[test]
fn f3_t1_large_files_fill_the_link_and_small_ones_the_cpu() {
    let large =
        f3_server(1_140e6 / 10_350.0, 10_350.0, (0.08, 0.16, 0.11)).per_second("lb", &TCP_ORIGINAL_SENT, "", 770e3);
    check(
        &diagnose(&large.run()),
        expect![[r#"
        bandwidth-bound at lb
          bandwidth-bound at lb: 0.91
    "#]],
    );
    let small = f3_server(585e6 / 1_300.0, 1_300.0, (0.30, 0.53, 0.17))
        .per_second("lb", &TCP_ORIGINAL_SENT, "", 450e3)
        .per_second("lb", &IF_TX_PACKETS, "eth0", 783e3);
    check(
        &diagnose(&small.run()),
        expect![[r#"
        cpu-saturated-kernel at lb
          cpu-saturated-kernel at lb: 1.00
    "#]],
    );
}

/// F3 T4: 1,232 bytes, tcp_nopush on 579,103, off 543,050 requests/s: 6.6 % more. The split of the CPU is that with
/// tcp_nopush on; head and body leave apart, and the client acknowledges every second segment.
#[test]
fn f3_t4_head_and_body_apart() {
    let rate = 543_050.0;
    let server = |segments: f64| {
        f3_server(rate, 1_560.0, (0.295, 0.506, 0.16))
            .per_second("lb", &TCP_ORIGINAL_SENT, "", rate * segments)
            .per_second("lb", &IF_TX_PACKETS, "eth0", rate * segments)
            .per_second("lb", &IF_RX_PACKETS, "eth0", rate * 2.0)
    };
    check(
        &diagnose(&server(2.0).run()),
        expect![[r#"
        partial-packets at lb
          partial-packets at lb: 0.08
          cpu-saturated-kernel at lb: 0.96
          packet-rate-bound at lb: 0.16
    "#]],
    );
    let gain = finding("partial-packets", "lb", &server(2.0)).unwrap().gain.unwrap();
    assert!((0.03..=0.12).contains(&gain), "it brought 6.6 %: {gain}");
    assert_eq!(score("partial-packets", "lb", &server(1.0)), 0.0, "one packet per answer");
}

/// F3 T2: the card interrupts 1500 times per second and queue, for 691,614 empty answers.
#[test]
fn f3_t2_a_card_that_gathers_enough() {
    let server = f3_server(691_614.0, 270.0, (0.301, 0.522, 0.177))
        .per_second("lb", &TCP_ORIGINAL_SENT, "", 691_614.0)
        .per_second("lb", &IF_TX_PACKETS, "eth0", 691_614.0)
        .per_second("lb", &IF_RX_PACKETS, "eth0", 691_614.0)
        .per_second("lb", &NIC_INTERRUPTS, "eth0 0", 1_500.0 * 16.0)
        .gauge("lb", &NIC_COALESCE, "eth0", 666.0);
    assert_eq!(score("coalescing-too-low", "lb", &server), 0.0);
    assert_eq!(score("coalescing-too-high", "lb", &server), 0.0, "full CPUs gain from gathering");
    check(
        &diagnose(&server.run()),
        expect![[r#"
        cpu-saturated-kernel at lb
          cpu-saturated-kernel at lb: 1.00
          packet-rate-bound at lb: 0.18
    "#]],
    );
}
