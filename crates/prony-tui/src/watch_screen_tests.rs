//! The screen of hosts as text, at the sizes that people have, and its plain lines.

use super::*;
use expect_test::{Expect, expect};
use prony_model::metric::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::collections::BTreeMap;

const STACK: &str = "entry = \"http://10.0.0.2/\"\n[host.client]\nrole = \"generator\"\ncpus = \"1\"\n[host.lb]\nrole = \"proxy\"\n\
                     calls = [\"s1\"]\n[host.s1]\ncpus = \"1\"\n";

fn look(blocks: bool) -> Look {
    Look { colour: false, blocks }
}

/// What `host` shows after so many seconds: two CPUs, of which the first is full.
fn sample(host: &str, second: u64) -> Sample {
    let mut sample = Sample { host: host.to_string(), at_ns: second * 1_000_000_000, values: Vec::new() };
    let s = second as f64;
    for (cpu, busy) in [("0", 0.95), ("1", 0.40)] {
        sample.push(&CPU_USER, cpu, s * busy * 0.5);
        sample.push(&CPU_SYSTEM, cpu, s * busy * 0.3);
        sample.push(&CPU_SOFTIRQ, cpu, s * busy * 0.2);
        sample.push(&CPU_IDLE, cpu, s * (1.0 - busy));
    }
    for (metric, item, value) in [
        (&IF_RX_PACKETS, "eth0", 12_300.0 * s),
        (&IF_TX_PACKETS, "eth0", 12_400.0 * s),
        (&IF_RX_BYTES, "eth0", 1e6 * s),
        (&IF_TX_BYTES, "eth0", 14e6 * s),
        (&TCP_ESTABLISHED, "", 214.0),
        (&SOCK_TIME_WAIT, "", 1204.0),
        (&TCP_ACTIVE_OPENS, "", 3_100.0 * s),
        (&PROC_COUNT, "", 3.0),
        (&PROC_NAME, "1234 nginx", 1.0),
        (&PROC_NAME, "1235 nginx", 1.0),
        (&PROC_RUN, "1234", 0.61 * s),
        (&PROC_RUN_DELAY, "1234", 0.2 * s),
        (&PROC_RUN, "1235", 0.58 * s),
        // Its master does nothing, so it is not named.
        (&PROC_RUN, "1233", 0.001 * s),
        (&CONTEXT_SWITCHES, "", 25_000.0 * s),
    ] {
        sample.push(metric, item, value);
    }
    if host == "lb" {
        sample.push(&NGINX_REQUESTS, "", 12_345.0 * s);
        sample.push(&NGINX_ACTIVE, "", 129.0);
    }
    if host == "s1" {
        sample.push(&TCP_LISTEN_OVERFLOWS, "", 37.0 * s);
        sample.push(&LISTEN_QUEUE, "0.0.0.0:80", 3.0);
        sample.push(&LISTEN_BACKLOG, "0.0.0.0:80", 2.0);
    }
    sample
}

fn screen(blocks: bool, seconds: u64) -> WatchScreen {
    let mut screen = WatchScreen::new("stack.toml", &Stack::parse("stack.toml", STACK).unwrap(), look(blocks));
    for second in 0..seconds {
        for host in ["client", "lb", "s1"] {
            screen.see(&[sample(host, second)]);
        }
    }
    screen
}

fn check(screen: &WatchScreen, columns: u16, rows: u16, want: Expect) {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let text: String = (0..rows).map(|y| format!("{}\n", row(y).trim_end())).collect();
    want.assert_eq(&format!("{columns}x{rows}\n{text}"));
}

#[test]
fn the_path_comes_first_and_what_is_wrong_stands_below_its_host() {
    check(
        &screen(true, 2),
        80,
        24,
        expect![[r#"
            80x24
             prony watch  stack.toml

             lb           ██████████████░░░░░░  68 %  us 34  sy 20  si 14
               CPUs       0 █ 95 %   1 ▃ 40 %
               requests   12,345 requests/s, 129 connections
               network    in 12,300 packets/s 977 KiB/s, out 12,400 packets/s 13.4 MiB/s
               sockets    214 established, 1,204 in TIME_WAIT, 3,100/s opened
               processes  nginx 1234 61 % (waits 25 %), 1235 58 %, 1 more, 25,000 switches/s

             s1           ████████░░░░░░░░░░░░  40 %  us 20  sy 12  si 8
               trouble    accept queue overflows 37.0/s
               network    in 12,300 packets/s 977 KiB/s, out 12,400 packets/s 13.4 MiB/s
               sockets    214 established, queue 3 of 2, 1,204 in TIME_WAIT, 3,100/s opened
               processes  nginx 1234 61 % (waits 25 %), 1235 58 %, 1 more, 25,000 switches/s

             client       ████████░░░░░░░░░░░░  40 %  us 20  sy 12  si 8
               network    in 12,300 packets/s 977 KiB/s, out 12,400 packets/s 13.4 MiB/s
               sockets    214 established, 1,204 in TIME_WAIT, 3,100/s opened
               processes  nginx 1234 61 % (waits 25 %), 1235 58 %, 1 more, 25,000 switches/s

             q or Ctrl-C: end



        "#]],
    );
}

#[test]
fn locks_that_sessions_wait_for_are_told_by_kind() {
    let mut host = Watched::new("db", Stack::parse("stack.toml", STACK).unwrap().host.get("s1").unwrap());
    assert_eq!(locks(&host), None, "no database");
    let mut see = |second: u64, awaited: &[(&str, f64)], deadlocks: f64| {
        let mut sample = Sample { host: "db".to_string(), at_ns: second * 1_000_000_000, values: Vec::new() };
        awaited.iter().for_each(|(kind, count)| sample.push(&PG_LOCKS_AWAITED, *kind, *count));
        sample.push(&PG_DEADLOCKS, "", deadlocks);
        host.see(&[sample], second * 1_000_000_000);
        locks(&host)
    };
    see(0, &[], 0.0);
    assert_eq!(see(1, &[], 0.0).as_deref(), Some("0 awaited"));
    let some = see(2, &[("transactionid", 1.0), ("tuple", 17.0)], 3.0);
    assert_eq!(some.as_deref(), Some("18 awaited (tuple 17, transactionid 1), 3.0/s deadlocks"));
}

#[test]
fn locks_of_the_kernel_stand_until_the_next_close_look() {
    let mut host = Watched::new("lb", Stack::parse("stack.toml", STACK).unwrap().host.get("s1").unwrap());
    let closely = |waits: &[(&str, f64)]| {
        let mut sample = Sample { host: "lb".to_string(), at_ns: 0, values: Vec::new() };
        waits.iter().for_each(|(function, share)| sample.push(&LOCK_WAIT, *function, *share));
        sample
    };
    host.see_closely(&closely(&[("[short]", 0.0)]));
    assert_eq!(locks(&host).as_deref(), Some("kernel 0 % of the threads' time"));
    host.see_closely(&closely(&[("[short]", 0.0), ("ep_poll", 0.03125), ("ext4_buffered_write_iter", 0.25)]));
    let told = "kernel 28.1 % of the threads' time (ext4_buffered_write_iter 25 %, ep_poll 3.1 %)";
    assert_eq!(locks(&host).as_deref(), Some(told));
    assert!(host.facts().contains(&("lock.wait".to_string(), 0.28125)), "{:?}", host.facts());
    host.see_closely(&closely(&[]));
    assert_eq!(locks(&host), None, "what cannot be read any more is not told");
}

#[test]
fn a_small_screen_keeps_the_cpus_and_the_troubles() {
    check(
        &screen(false, 2),
        60,
        7,
        expect![[r#"
            60x7
             prony watch  stack.toml
             lb           ##############......  68 %  us 34  sy 20  si 1
               requests   12,345 requests/s, 129 connections
               sockets    214 established, 1,204 in TIME_WAIT, 3,100/s o
             s1           ########............  40 %  us 20  sy 12  si 8
               trouble    accept queue overflows 37.0/s
             client       ########............  40 %  us 20  sy 12  si 8
        "#]],
    );
}

#[test]
fn what_was_not_seen_is_a_dash() {
    let mut unseen = screen(true, 0);
    unseen.miss(Gap::new("sockets", "lb", "not allowed"));
    check(
        &unseen,
        40,
        8,
        expect![[r#"
        40x8
         prony watch  stack.toml
         lb           –

         s1           –

         client       –

         q or Ctrl-C: end; 1 fact cannot be read
    "#]],
    );
    check(
        &screen(true, 1),
        40,
        8,
        expect![[r#"
            40x8
             prony watch  stack.toml
             lb           –
               sockets    214 established, 1,204 in
             s1           –
               sockets    214 established, queue 3 o
             client       –
               sockets    214 established, 1,204 in
             q or Ctrl-C: end
        "#]],
    );
}

#[test]
fn a_host_is_one_plain_line() {
    let mut screen = screen(false, 1);
    let lines: Vec<String> = ["lb", "s1"]
        .into_iter()
        .map(|host| {
            screen.see(&[sample(host, 1)]);
            screen.line(screen.host(host).unwrap())
        })
        .collect();
    expect![[r#"
        lb        cpu 68 % (us 34  sy 20  si 14)  12,345 requests/s, 129 connections  in 12,300 packets/s 977 KiB/s, out 12,400 packets/s 13.4 MiB/s  214 established, 1,204 in TIME_WAIT, 3,100/s opened
        s1        cpu 40 % (us 20  sy 12  si 8)  in 12,300 packets/s 977 KiB/s, out 12,400 packets/s 13.4 MiB/s  214 established, queue 3 of 2, 1,204 in TIME_WAIT, 3,100/s opened  trouble: accept queue overflows 37.0/s"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn programs_get_base_units_and_nothing_that_was_not_read() {
    let screen = screen(false, 2);
    let facts = |host: usize| screen.hosts[host].facts().into_iter().collect::<BTreeMap<_, _>>();
    let (lb, s1) = (facts(0), facts(1));
    assert!((lb["cpu.busy"] - 0.675).abs() < 1e-9 && (s1["cpu.busy"] - 0.4).abs() < 1e-9, "s1 has CPU 1 alone");
    assert_eq!((lb["nginx.requests"], s1.get("nginx.requests"), s1["tcp.listen_overflows"]), (12_345.0, None, 37.0));
    assert!(!lb.contains_key("tcp.listen_overflows") && !lb.contains_key("listen.queue"));
}

#[test]
fn a_counter_that_fell_has_no_rate() {
    let mut screen = screen(false, 2);
    let mut restarted = sample("lb", 0);
    restarted.at_ns = 2_000_000_000;
    screen.see(&[restarted]);
    assert_eq!(screen.hosts[0].sum(&NGINX_REQUESTS), None);
    assert_eq!(screen.hosts[0].sum(&NGINX_ACTIVE), Some(129.0));
}

#[test]
fn a_reading_that_was_held_up_is_one_reading() {
    let held_up = |second: u64| {
        let mut before = sample("lb", second);
        let values = std::mem::take(&mut before.values);
        let (cpu, rest) = values.into_iter().partition(|(metric, ..)| metric.starts_with("cpu."));
        before.values = cpu;
        [before.clone(), Sample { at_ns: before.at_ns + second * 500_000_000, values: rest, ..before }]
    };
    let mut screen = screen(false, 0);
    assert!(screen.see(&held_up(0)).is_none(), "nothing has a rate yet");
    let facts: BTreeMap<String, f64> = screen.see(&held_up(1)).expect("two readings").facts().into_iter().collect();
    assert!((facts["cpu.busy"] - 0.675).abs() < 1e-9, "{facts:?}");
    assert!((facts["nginx.requests"] - 12_345.0 / 1.5).abs() < 1e-6, "half a second later: {facts:?}");
}

#[test]
fn a_fact_that_is_read_less_often_stays_until_it_is_gone() {
    let mut screen = screen(false, 2);
    let without = |second: u64| {
        let mut sample = sample("lb", second);
        sample.values.retain(|(metric, ..)| metric != NGINX_REQUESTS.name);
        sample
    };
    screen.see(&[without(2)]);
    assert_eq!(screen.hosts[0].sum(&NGINX_REQUESTS), Some(12_345.0));
    for second in 3..6 {
        screen.see(&[without(second)]);
    }
    assert_eq!(screen.hosts[0].sum(&NGINX_REQUESTS), None);
}
