//! The screen of a load as text, at the sizes that people have, and its plain lines.

use super::*;
use expect_test::{Expect, expect};
use prony_model::{ErrorCounts, Latency, Nanos, Rate};
use prony_stats::Histogram;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

const PLAIN: Look = Look { colour: false, blocks: true };
const COLOUR: Look = Look { colour: true, blocks: true };
const ASCII: Look = Look { colour: false, blocks: false };

fn closed() -> LoadPlan {
    let plan = LoadPlan::to("http://127.0.0.1:8080/1k");
    LoadPlan { connections: 128, duration: Nanos::from_millis(60_000), warmup: Nanos::from_millis(500), ..plan }
}

fn open() -> LoadPlan {
    LoadPlan { rate: Some(Rate(5000.0)), ..closed() }
}

/// A bell around 1.2 ms (on the logarithmic axis), with a tail up to 40 ms; no randomness.
fn latency() -> Latency {
    let mut latency = Histogram::new();
    for step in -30i32..=30 {
        let us = 1200.0 * 1.06f64.powi(step);
        let count = (200.0 * (-f64::from(step * step) / 160.0).exp()) as u64;
        (0..count).for_each(|_| latency.record_ns((us * 1e3) as u64));
    }
    [8_000, 9_500, 40_000].into_iter().for_each(|us| latency.record_ns(us * 1000));
    latency.to_latency()
}

/// What a load tells `quarters` quarters of a second after its begin, at `per_s` answers per second.
fn progress(plan: &LoadPlan, quarters: u64, per_s: u64) -> LoadProgress {
    let elapsed = Nanos::from_millis(quarters * 250);
    let counted = elapsed.since(plan.warmup);
    let warming_up = elapsed < plan.warmup;
    // Slower at first and a little uneven, as real ones are.
    let completed = (counted.0 / 1_000_000).saturating_sub(400) * per_s / 1000 + quarters * quarters % 7 * per_s / 40;
    let completed = if warming_up { 0 } else { completed };
    LoadProgress {
        elapsed,
        total: Nanos(plan.warmup.0 + plan.duration.0),
        warming_up,
        intended: completed + if warming_up { 0 } else { 120 },
        sent: completed + if warming_up { 0 } else { 120 },
        completed,
        in_flight: 120,
        connections: 128,
        latency: if warming_up { Latency::default() } else { latency() },
        cpu: vec![0.52, 0.71],
        lag_us_p99: plan.is_open_loop().then_some(34.0),
        ..LoadProgress::default()
    }
}

/// A screen after `quarters` quarters of a second; `change` is done to the last eight of what it saw.
fn after(plan: &LoadPlan, look: Look, quarters: u64, change: &dyn Fn(&mut LoadProgress)) -> LoadScreen {
    let mut screen = LoadScreen::new(plan, look);
    let per_s = if plan.is_open_loop() { 5000 } else { 24_800 };
    for quarter in 1..=quarters {
        let mut seen = progress(plan, quarter, per_s);
        if quarter + 8 > quarters {
            change(&mut seen);
        }
        screen.see(&seen);
    }
    screen
}

fn drawn(screen: &LoadScreen, columns: u16, rows: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal
}

/// The frame as text, without the blanks at the ends of its lines; the first line tells the size.
fn check(screen: &LoadScreen, columns: u16, rows: u16, want: Expect) {
    let terminal = drawn(screen, columns, rows);
    let buffer = terminal.backend().buffer();
    let row = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let text: String = (0..rows).map(|y| format!("{}\n", row(y).trim_end())).collect();
    want.assert_eq(&format!("{columns}x{rows}\n{text}"));
}

/// Every stretch of text in one of these colours.
fn coloured(screen: &LoadScreen, colours: &[Color]) -> Vec<String> {
    let terminal = drawn(screen, 80, 24);
    let mut found: Vec<String> = Vec::new();
    let mut inside = false;
    for cell in terminal.backend().buffer().content() {
        if colours.contains(&cell.fg) {
            if !inside {
                found.push(String::new());
            }
            found.last_mut().unwrap().push_str(cell.symbol());
        }
        inside = colours.contains(&cell.fg);
    }
    found
}

fn trouble(seen: &mut LoadProgress) {
    seen.errors =
        ErrorCounts { timeout: 12 + seen.elapsed.0 / 100_000_000, status: 340, connect: 3, ..Default::default() };
    seen.in_flight = 128;
    seen.cpu = vec![0.52, 0.97];
    seen.lag_us_p99 = Some(48_000.0);
}

#[test]
fn closed_loop_on_80_columns() {
    check(
        &after(&closed(), PLAIN, 122, &|_| {}),
        80,
        24,
        expect![[r#"
        80x24
         prony load  http://127.0.0.1:8080/1k
         closed loop, 128 connections, 60 s, after 500 ms of warm-up

         ███████████████████████████░░░░░░░░░░░░░░░░░░░░░░░░░░  measuring  30 s left

         per second           asked         sent         done       errors
                                  –       25,420       25,420            0

         done per second, last 30 s, highest 26,660
         ▁▇▆█▇█▇▆▇▆█▇█▇▆▇▆█▇█▇▆▇▆█▇█▇▆▇
         ██████████████████████████████

         latency                p50          p90          p99        p99.9          max
         last second        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms
         since start        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms

         answers by latency, last second
                               ▂ ▅ ▇ █ ▇ ▄▂
                 ▁▁▁▁▁▁▁▁▂▂▄▃▇▄█▆█▇█████▇██▄▇▃▄▂▂▁▁▁▁▁▁▁▁ ▁ ▁               ▁
         100 us                    1 ms                      10 ms               100 ms

         generator    thread 1 █████░░░░░  52 %  thread 2 ███████░░░  71 %
         connections  128 open, 120 in flight
         q or Ctrl-C: stop, and print what was measured
    "#]],
    );
}

#[test]
fn open_loop_with_trouble_on_80_columns() {
    check(
        &after(&open(), PLAIN, 60, &trouble),
        80,
        24,
        expect![[r#"
            80x24
             prony load  http://127.0.0.1:8080/1k
             open loop, 5,000/s Poisson, 128 connections, 60 s, after 500 ms of warm-up
             █████████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  measuring  46 s left
             per second           asked         sent         done       errors
                                  5,000        5,250        5,250         10.0
             done per second, last 14 s, highest 5,375
             ▁▇▆█▇█▇▆▇▆█▇█▇
             ██████████████

             latency                p50          p90          p99        p99.9          max
             last second        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms
             since start        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms

             answers by latency, last second
                                   ▂ ▅ ▇ █ ▇ ▄▂
                     ▁▁▁▁▁▁▁▁▂▂▄▃▇▄█▆█▇█████▇██▄▇▃▄▂▂▁▁▁▁▁▁▁▁ ▁ ▁               ▁
             100 us                    1 ms                      10 ms               100 ms

             generator    thread 1 █████░░░░░  52 %  thread 2 ██████████  97 %
             schedule     lag p99 48.0 ms, about 240 wait for a free connection
             connections  128 open, 128 in flight
             errors       connect 3, timeout 162, status 400 and above 340
             ! the generator is the limit: a thread uses 97 % of its CPU
             q or Ctrl-C: stop, and print what was measured
        "#]],
    );
}

#[test]
fn the_warm_up_has_dashes_and_no_zeros() {
    let plan = LoadPlan { warmup: Nanos::from_millis(3000), duration: Nanos::from_millis(10_000), ..open() };
    check(
        &after(&plan, PLAIN, 8, &|_| {}),
        80,
        24,
        expect![[r#"
            80x24
             prony load  http://127.0.0.1:8080/1k
             open loop, 5,000/s Poisson, 128 connections, 10 s, after 3 s of warm-up
             ████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  warming up  11 s left

             per second           asked         sent         done       errors
                                      –            –            –            –

             done per second



             latency                p50          p90          p99        p99.9          max
             last second              –            –            –            –            –
             since start              –            –            –            –            –

             answers by latency, last second




             generator    thread 1 █████░░░░░  52 %  thread 2 ███████░░░  71 %
             schedule     lag p99 34 us
             connections  128 open, 120 in flight
             q or Ctrl-C: stop, and print what was measured
        "#]],
    );
}

#[test]
fn a_large_screen_has_taller_charts() {
    check(
        &after(&closed(), PLAIN, 200, &|_| {}),
        120,
        40,
        expect![[r#"
        120x40
         prony load  http://127.0.0.1:8080/1k
         closed loop, 128 connections, 60 s, after 500 ms of warm-up

         █████████████████████████████████████████████████████████████████████████████░░░░░░░░░░░░░░░░  measuring  10 s left

         per second           asked         sent         done       errors
                                  –       26,040       26,040            0

         done per second, last 49 s, highest 26,660
          ▅▁▇▂█▄ ▅▁▇▂█▄ ▅▁▇▂█▄ ▅▁▇▂█▄ ▅▁▇▂█▄ ▅▁▇▂█▄ ▅▁▇▂█▄
          ██████▇██████▇██████▇██████▇██████▇██████▇██████
          ████████████████████████████████████████████████
         ▅████████████████████████████████████████████████
         █████████████████████████████████████████████████
         █████████████████████████████████████████████████
         █████████████████████████████████████████████████
         █████████████████████████████████████████████████

         latency                p50          p90          p99        p99.9          max
         last second        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms
         since start        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms

         answers by latency, last second
                                               ▂▄▆▇█▇▆▄▂
                                             ▃▇█████████▇▃
                                           ▃▇█████████████▇▃
                                         ▂▆█████████████████▆▂
                                       ▂▆█████████████████████▆▂
                                     ▃▆█████████████████████████▆▃
                                  ▂▅███████████████████████████████▅▂
                      ▁▁▁▁▁▂▂▃▄▅▆█████████████████████████████████████▆▅▄▃▂▂▁▁▁▁▁  ▁  ▁                        ▁
         100 us                                 1 ms                                   10 ms                             100 ms

         generator    thread 1 █████░░░░░  52 %  thread 2 ███████░░░  71 %
         connections  128 open, 120 in flight
         q or Ctrl-C: stop, and print what was measured




    "#]],
    );
}

#[test]
fn a_small_screen_keeps_what_matters() {
    check(
        &after(&closed(), PLAIN, 122, &|_| {}),
        40,
        10,
        expect![[r#"
            40x10
             prony load  http://127.0.0.1:8080/1k
             closed loop, 128 connections, 60 s, af…
             ███████░░░░░░  measuring  30 s left
                 asked     sent     done   errors
                     –   25,420   25,420        0
             latency           p50     p99     max
             last second   1.20 ms 4.08 ms 40.0 ms
             since start   1.20 ms 4.08 ms 40.0 ms
             generator    ▄▆  busiest thread 71 %
             connections  128 open, 120 in flight
        "#]],
    );
    check(
        &after(&open(), PLAIN, 60, &trouble),
        40,
        10,
        expect![[r#"
            40x10
             ███░░░░░░░░░░  measuring  46 s left
                 asked     sent     done   errors
                 5,000    5,250    5,250     10.0
             latency           p50     p99     max
             last second   1.20 ms 4.08 ms 40.0 ms
             since start   1.20 ms 4.08 ms 40.0 ms
             generator    ▄█  busiest thread 97 %
             errors       connect 3, timeout 162
                          status 400 and above 340
             ! the generator is the limit: a thread
        "#]],
    );
    check(
        &after(&open(), PLAIN, 60, &trouble),
        20,
        3,
        expect![[r#"
            20x3
               measuring  46 s l
                 asked     sent
                 5,000    5,250
        "#]],
    );
}

#[test]
fn without_block_characters_all_is_ascii() {
    let plan = LoadPlan { url: format!("http://127.0.0.1/{}", "a".repeat(90)), ..closed() };
    let screen = after(&plan, ASCII, 30, &|_| {});
    check(
        &screen,
        80,
        24,
        expect![[r#"
        80x24
         prony load  http://127.0.0.1/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...
         closed loop, 128 connections, 60 s, after 500 ms of warm-up

         #######..............................................  measuring  53 s left

         per second           asked         sent         done       errors
                                  -       24,800       24,800            0

         done per second, last 7 s, highest 26,660
         .%*#%#%
         #######

         latency                p50          p90          p99        p99.9          max
         last second        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms
         since start        1.20 ms      2.28 ms      4.08 ms      6.14 ms      40.0 ms

         answers by latency, last second
                               : + % # % =:
                 ........::=-%=#*#%#####%##=%-=::........ . .               .
         100 us                    1 ms                      10 ms               100 ms

         generator    thread 1 #####.....  52 %  thread 2 #######...  71 %
         connections  128 open, 120 in flight
         q or Ctrl-C: stop, and print what was measured
    "#]],
    );
    let warming = after(&LoadPlan { warmup: Nanos::from_millis(3000), ..open() }, ASCII, 8, &|_| {});
    for screen in [screen, warming] {
        let terminal = drawn(&screen, 80, 24);
        assert!(terminal.backend().buffer().content().iter().all(|cell| cell.symbol().is_ascii()));
    }
}

#[test]
fn many_threads_are_a_character_each() {
    let many = |seen: &mut LoadProgress| seen.cpu = (0..16).map(|n| f64::from(n) / 20.0).collect();
    check(
        &after(&closed(), PLAIN, 30, &many),
        60,
        12,
        expect![[r#"
        60x12
         prony load  http://127.0.0.1:8080/1k
         ████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  measuring  53 s left
             asked     sent     done   errors
                 –   24,800   24,800        0
         done per second, last 7 s, highest 26,660
         ▁▇▆█▇█▇
         ███████
         latency           p50     p99     max
         last second   1.20 ms 4.08 ms 40.0 ms
         since start   1.20 ms 4.08 ms 40.0 ms
         generator     ▁▁▁▂▂▂▃▃▄▄▄▅▅▆▆  busiest thread 75 %
         connections  128 open, 120 in flight
    "#]],
    );
}

#[test]
fn red_is_for_errors_and_yellow_for_warnings() {
    let screen = after(&open(), COLOUR, 60, &trouble);
    expect![[r#"
                 10.0
        ██████████
        lag p99 48.0 ms
        connect 3, timeout 162, status 400 and above 340
         ! the generator is the limit: a thread uses 97 % of its CPU"#]]
    .assert_eq(&coloured(&screen, &[Color::Red, Color::Yellow]).join("\n"));
    let calm = after(&open(), COLOUR, 60, &|_| {});
    assert_eq!(coloured(&calm, &[Color::Red, Color::Yellow]), [""; 0]);
    assert!(!coloured(&calm, &[Color::Cyan]).is_empty());
}

#[test]
fn without_colour_there_is_none() {
    let screen = after(&open(), PLAIN, 60, &trouble);
    let terminal = drawn(&screen, 80, 24);
    let cells = terminal.backend().buffer().content();
    assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::BOLD)));
}

#[test]
fn any_size_can_be_drawn() {
    let screens = [after(&open(), PLAIN, 60, &trouble), after(&closed(), ASCII, 0, &|_| {})];
    for (columns, rows) in (0..100).step_by(7).flat_map(|x| (0..50).step_by(3).map(move |y| (x, y))) {
        screens.iter().for_each(|screen| drop(drawn(screen, columns, rows)));
    }
}

#[test]
fn few_bytes_go_over_the_wire_per_frame() {
    let mut screen = after(&closed(), PLAIN, 122, &|_| {});
    let before = drawn(&screen, 80, 24).backend().buffer().clone();
    screen.see(&progress(&closed(), 123, 24_800));
    let after = drawn(&screen, 80, 24).backend().buffer().clone();
    let cells = before.diff(&after).len();
    // A cell is at most 4 bytes, and a run of cells costs some 10 more to go there.
    assert!(cells < 400, "{cells} cells differ between two frames");
}

#[test]
fn a_load_that_is_told_to_stop_says_so() {
    let mut screen = after(&closed(), PLAIN, 30, &|_| {});
    screen.stop();
    check(
        &screen,
        60,
        3,
        expect![[r#"
        60x3
         ████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  stopping
             asked     sent     done   errors
                 –   24,800   24,800        0
    "#]],
    );
}

#[test]
fn lines_come_once_a_second() {
    let lines = |plan: &LoadPlan, change: &dyn Fn(&mut LoadProgress)| {
        let mut screen = LoadScreen::new(plan, ASCII);
        let mut lines = Vec::new();
        for quarter in 1..=14 {
            let mut seen = progress(plan, quarter, 5000);
            change(&mut seen);
            screen.see(&seen);
            lines.extend(screen.next_lines());
        }
        lines.join("\n")
    };
    let plan = LoadPlan { warmup: Nanos::from_millis(1100), ..open() };
    expect![[r#"
        prony load http://127.0.0.1:8080/1k: open loop, 5,000/s Poisson, 128 connections, 60 s, after 1.1 s of warm-up
            1.0 s  warming up  lag p99 34 us  busiest thread 71 %
            2.0 s  asked 5,000/s  sent 3,050/s  done 2,917/s  errors 0/s  p50 1.20 ms  p99 4.08 ms  max 40.0 ms  lag p99 34 us  busiest thread 71 %
            3.0 s  asked 5,000/s  sent 5,375/s  done 5,375/s  errors 0/s  p50 1.20 ms  p99 4.08 ms  max 40.0 ms  lag p99 34 us  busiest thread 71 %"#]].assert_eq(&lines(&plan, &|_| {}));
    expect![[r#"
        prony load http://127.0.0.1:8080/1k: open loop, 5,000/s Poisson, 128 connections, 60 s, after 500 ms of warm-up
            1.0 s  asked 5,000/s  sent 1,740/s  done 1,500/s  errors 730/s  p50 1.20 ms  p99 4.08 ms  max 40.0 ms  lag p99 48.0 ms  about 240 wait for a free connection  the generator is the limit: a thread uses 97 % of its CPU  errors: connect 3, timeout 22, status 400 and above 340
            2.0 s  asked 5,000/s  sent 4,875/s  done 4,875/s  errors 10.0/s  p50 1.20 ms  p99 4.08 ms  max 40.0 ms  lag p99 48.0 ms  about 240 wait for a free connection  the generator is the limit: a thread uses 97 % of its CPU  errors: connect 3, timeout 32, status 400 and above 340
            3.0 s  asked 5,000/s  sent 5,375/s  done 5,375/s  errors 10.0/s  p50 1.20 ms  p99 4.08 ms  max 40.0 ms  lag p99 48.0 ms  about 240 wait for a free connection  the generator is the limit: a thread uses 97 % of its CPU  errors: connect 3, timeout 42, status 400 and above 340"#]].assert_eq(&lines(&open(), &trouble));
}
