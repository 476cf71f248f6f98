//! What a reader sees of an experiment.

use super::*;
use expect_test::{Expect, expect};
use prony_model::experiment::{CellLoad, CellSeen, Experiment, HotFunction, HotSeen};
use prony_stats::experiment::{Ran, conclude};

const FILE: &str = r#"
name = "keepalive"
stack = "proxy"
expectation = "kept connections save a handshake"
repeats = 3
[[factor]]
name = "keepalive"
knob = "lb:nginx.upstream_keepalive"
levels = ["off", 64]
[[factor]]
name = "log"
knob = "lb:nginx.access_log"
levels = ["off"]
[[expect]]
factor = "keepalive"
to = 64
change = "same"
"#;

/// Thousandths by which a cell differs in each repeat; none differs over all repeats.
const NOISE: [[f64; 3]; 3] = [[0.0, 1.0, -1.0], [1.0, -1.0, 0.0], [-1.0, 0.0, 1.0]];

/// A result whose cells show these rates in every repeat, nearly.
fn result(rates: &[f64]) -> ExperimentResult {
    let experiment = Experiment::parse("e.toml", FILE).expect("a good file");
    let mut seen = Vec::new();
    for repeat in 0..experiment.repeats {
        for (cell, rate) in (0u32..).zip(rates) {
            let value = Some(rate * (1.0 + NOISE[repeat as usize][cell as usize] / 1000.0));
            seen.push(CellSeen { cell, repeat, value, ..CellSeen::default() });
        }
    }
    conclude(&experiment, &seen, ran())
}

fn ran() -> Ran {
    Ran {
        seed: 7,
        stack: "a lab".to_string(),
        entry: Some("lb".to_string()),
        notes: vec!["a note".to_string()],
        ..Ran::default()
    }
}

fn check(rates: &[f64], want: Expect) {
    want.assert_eq(&text(&result(rates), Style::Plain));
}

#[test]
fn a_gain_is_shown_with_its_interval_and_the_broken_expectation() {
    check(
        &[1000.0, 1500.0, 1000.0],
        expect![[r#"
            keepalive: 3 cells, each 3 times, in random order (seed 7)
              In all cells: log off.

            Cells: good requests/s on a lab
                keepalive  requests/s   95 % interval
                      off       1,000    998 to 1,002
                       64       1,500  1,496 to 1,504
              off (again)       1,000    998 to 1,002

            Effects, corrected by Holm for their number
                 factor  from  to   effect       95 % interval      p  result
              keepalive   off  64  +50.0 %  +49.4 % to +50.6 %  0.000    more

            A against A
              The first cell against itself, among the others in the same random order: 0.0 % (-0.4 % to +0.4
              %); no effect, as it should be.

            Conclusion
              written before  kept connections save a handshake
              expected  keepalive from off to 64 changes nothing by more than 5.0 %: NOT as expected
              observed  +50 % (+49 % to +51 %)
              why       the CPU time of the hosts could not be read, so the figures do not say why

            To know
              - a note
        "#]],
    );
}

#[test]
fn no_effect_is_a_result() {
    check(
        &[1000.0, 1000.2, 1000.0],
        expect![[r#"
            keepalive: 3 cells, each 3 times, in random order (seed 7)
              In all cells: log off.

            Cells: good requests/s on a lab
                keepalive  requests/s  95 % interval
                      off       1,000   998 to 1,002
                       64       1,000   998 to 1,003
              off (again)       1,000   998 to 1,002

            Effects, corrected by Holm for their number
                 factor  from  to  effect     95 % interval      p                        result
              keepalive   off  64   0.0 %  -0.4 % to +0.5 %  0.860  no effect larger than 0.45 %

            A against A
              The first cell against itself, among the others in the same random order: 0.0 % (-0.4 % to +0.4
              %); no effect, as it should be.

            Conclusion
              written before  kept connections save a handshake
              expected  keepalive from off to 64 changes nothing by more than 5.0 %: as expected
              observed  no effect larger than 0.5 %: +0.0 % (-0.4 % to +0.5 %)
              why       the CPU time of the hosts could not be read, so the figures do not say why

            To know
              - a note
        "#]],
    );
}

#[test]
fn a_page_has_its_table_and_names_its_picture() {
    let text = |text: &str| text.to_string();
    let origin = Origin {
        command: text("prony run a.toml"),
        machine: text("2 CPUs"),
        by: text("prony 0.1.0"),
        at: text("2026-11-22"),
    };
    let mut result = result(&[1000.0, 1500.0, 1000.0]);
    result.experiment.unseen = text("32 cores");
    let page = markdown(&result, Some("a.svg"), &origin);
    assert!(page.contains("## What cannot be seen here\n\n32 cores"), "{page}");
    assert!(page.contains("2026-11-22 by prony 0.1.0 with `prony run a.toml`, on 2 CPUs; seed 7."), "{page}");
    for want in ["# keepalive", "## Expected", "| keepalive |", "![keepalive](a.svg)", "NOT as expected", "- a note"] {
        assert!(page.contains(want), "{want} is missing: {page}");
    }
    assert!(json(&result).contains("\"schema\": \"prony.experiment/1\""));
}

#[test]
fn a_profile_is_a_column_and_a_way_to_the_hottest_function() {
    let experiment =
        Experiment::parse("e.toml", &FILE.replace("repeats = 3", "repeats = 2\nprofile = true")).expect("a good file");
    let function = |name: &str, share| HotFunction {
        function: name.to_string(),
        share,
        path: ["nginx", "write", name].map(str::to_string).to_vec(),
    };
    let of = |cell, repeat, functions: Vec<HotFunction>| {
        let hot = HotSeen { samples: 1000, locks: 0.5, functions };
        let load = CellLoad { hot: [("lb".to_string(), hot)].into(), ..CellLoad::default() };
        CellSeen { cell, repeat, value: Some(900.0), load: Some(load), ..CellSeen::default() }
    };
    let seen = [
        of(0, 0, vec![function("osq_lock", 0.4), function("copy", 0.2)]),
        of(0, 1, vec![function("copy", 0.3), function("osq_lock", 0.2)]),
        of(1, 0, vec![function("copy", 0.1)]),
    ];
    let shown = text(&conclude(&experiment, &seen, ran()), Style::Plain);
    expect![[r#"
        Hottest functions, and the most frequent way to them
          - keepalive off: osq_lock in 30 % of 2,000 samples: nginx > write > osq_lock
          - keepalive 64: copy in 10 % of 1,000 samples: nginx > write > copy

    "#]]
    .assert_eq(&shown[shown.find("Hottest").expect("a section")..shown.find("Effects").expect("a table")]);
    assert!(shown.contains("lb waits for locks  lb hottest  of its samples"), "{shown}");
}

#[test]
fn a_cell_that_cannot_run_here_is_a_gap_and_the_others_are_whole() {
    let experiment = Experiment::parse("e.toml", &FILE.replace("repeats = 3", "repeats = 1")).expect("a good file");
    let seen = [CellSeen { value: Some(900.0), ..CellSeen::default() }];
    let left_out = [(1, "this kernel has no ipip".to_string())].into();
    let result = conclude(&experiment, &seen, Ran { left_out, ..ran() });
    assert!(result.is_complete() && result.cells[1].gap.is_some(), "{:?}", result.done);
    assert!(text(&result, Style::Plain).contains("       64         gap"), "{}", text(&result, Style::Plain));
}

#[test]
fn a_picture_has_a_point_for_each_cell_and_none_is_drawn_of_nothing() {
    let picture = svg(&result(&[1000.0, 1500.0, 1000.0])).expect("there are values");
    assert_eq!(picture.matches("<circle").count(), 2, "the placebo is none: {picture}");
    for line in [">0</text>", ">500</text>", ">1,000</text>", ">2,000</text>"] {
        assert!(picture.contains(line), "round values on the axis: {picture}");
    }
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(svg(&result(&[])), None);
}
