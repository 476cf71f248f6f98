//! The screen of a run of trials as text, at the sizes that people have.

use super::*;
use expect_test::{Expect, expect};
use prony_model::Gap;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const TITLE: &str = "prony prove labs/proxy-keepalive-off.toml --report report.html";

fn stage(name: &str, detail: &str) -> Event {
    Event::Stage { name: name.to_string(), detail: detail.to_string() }
}

fn started(label: &str, left_s: f64) -> Event {
    Event::TrialStarted { id: 0, label: label.to_string(), seconds: 3.0, left_s }
}

fn done(good_per_s: f64, errors: u64) -> Event {
    Event::TrialDone { id: 0, good_per_s, p99_us: 3_400.0, errors }
}

/// What was seen when the first trials of a proof are over.
fn proof(blocks: bool) -> StepsScreen {
    let mut screen = StepsScreen::new(TITLE, Look { colour: false, blocks });
    let gap = Gap::new("nic.queues", "lb", "a veth pair tells none");
    let events = [
        stage("observe", "what the hosts are"),
        Event::Missing { gap: gap.clone() },
        Event::Missing { gap: Gap { host: "s1".into(), ..gap } },
        stage("load", "warm up"),
        started("warm up", 0.0),
        done(24_100.0, 0),
        stage("observe", "below, at and beyond the knee"),
        started("half the load", 6.0),
        done(12_000.0, 0),
        stage("prove", "interleaved A/B of nginx.upstream_keepalive = 64 at lb, predicted +61 %"),
        started("pair 1, A", 57.0),
        done(24_000.0, 12),
        started("pair 1, B", 54.0),
    ];
    events.iter().zip(0..).for_each(|(event, at)| screen.see(event, Duration::from_secs(at)));
    screen
}

fn check(screen: &StepsScreen, columns: u16, rows: u16, at_s: f64, want: Expect) {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| screen.draw(frame, Duration::from_secs_f64(at_s))).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    let text: String = (0..rows).map(|y| format!("{}\n", row(y).trim_end())).collect();
    want.assert_eq(&format!("{columns}x{rows}\n{text}"));
}

#[test]
fn it_tells_what_happens_why_and_how_long_still() {
    check(
        &proof(true),
        80,
        24,
        13.0,
        expect![[r#"
        80x24
         prony prove labs/proxy-keepalive-off.toml --report report.html            13 s

         observe > load > observe > prove
         interleaved A/B of nginx.upstream_keepalive = 64 at lb, predicted +61 %

         trial        pair 1, B
                      ███████░░░░░░░░░░░░░  2 s left, then 54 s more planned

         good/s       of the last 3 trials, highest 24,100
                      █ █
                      ███

         trials, the newest first                                    good/s         p99
         pair 1, A, 12 errors                                        24,000     3.40 ms
         half the load                                               12,000     3.40 ms
         warm up                                                     24,100     3.40 ms
         1 fact cannot be seen: the report says which, and why

         q or Ctrl-C: stop; what was changed is put back





    "#]],
    );
}

#[test]
fn a_small_screen_keeps_the_step_and_its_trial() {
    check(
        &proof(false),
        40,
        8,
        13.0,
        expect![[r#"
        40x8
         prony prove labs/proxy-keepali... 13 s
         observe > load > observe > prove
         interleaved A/B of nginx.upstream_ke...
         trial        pair 1, B
                      #######.............  2 s
         1 fact cannot be seen: the report sa...
         q or Ctrl-C: stop; what was changed is

    "#]],
    );
}

#[test]
fn a_search_shows_its_interval_closing() {
    let mut screen = StepsScreen::new("prony limit stack.toml", Look { colour: false, blocks: true });
    screen.see(&stage("load", "search the limit, 90s at most"), Duration::ZERO);
    screen.see(
        &Event::Narrowed {
            answer: "limit".into(),
            low: Some(23_900.0),
            high: Some(24_500.0),
            unit: "/s".into(),
            trials: 9,
            spent_s: 45.0,
            budget_s: 90.0,
        },
        Duration::from_secs(45),
    );
    screen.set_left("cell 4 of 15, about 3 min left".to_string());
    screen.see(&Event::Note { text: "the lab has one CPU".to_string() }, Duration::from_secs(46));
    check(
        &screen,
        60,
        14,
        46.0,
        expect![[r#"
        60x14
         prony limit stack.toml                                46 s

         load
         search the limit, 90s at most
         answer       limit 23,900 to 24,500/s, width 2.4 %
                      ██████████░░░░░░░░░░  9 trials, 45 of 90 s
         experiment   cell 4 of 15, about 3 min left
         note         the lab has one CPU

         q or Ctrl-C: stop; what was changed is put back




    "#]],
    );
    screen.stop();
    check(
        &screen,
        60,
        4,
        46.0,
        expect![[r#"
        60x4
         load
         stopping: this step ends, and what was changed is put back
         answer       limit 23,900 to 24,500/s, width 2.4 %
                      ██████████░░░░░░░░░░  9 trials, 45 of 90 s
    "#]],
    );
}
