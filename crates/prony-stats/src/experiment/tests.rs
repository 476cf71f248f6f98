//! Effects that were planted are found, and those that were not are not.

use super::*;
use prony_model::experiment::{Allowed, CellLoad, Side};
use proptest::prelude::*;

const FILE: &str = r#"
name = "x"
stack = "s"
expectation = "x"
repeats = 6
[[factor]]
name = "keepalive"
knob = "nginx.upstream_keepalive"
levels = ["off", 20]
[[factor]]
name = "log"
knob = "nginx.access_log"
levels = ["off", "buffer=4k", "buffer=64k"]
[[expect]]
factor = "keepalive"
to = 20
change = ">=30%"
[[expect]]
factor = "log"
to = "buffer=64k"
change = "same"
[[expect]]
factor = "log"
from = "buffer=4k"
to = "buffer=64k"
change = "less"
"#;

/// Keepalive brings half as much again, the log nothing; together they bring `together` more. Repeats drift, trials spread.
fn world(experiment: &Experiment, together: f64, spread: f64, seed: u64) -> Vec<CellSeen> {
    let mut random = Random::new(seed);
    let cells = experiment.cells();
    let cells: Vec<&Vec<usize>> = cells.iter().chain(cells.first().filter(|_| experiment.placebo)).collect();
    let mut seen = Vec::new();
    for repeat in 0..experiment.repeats {
        let drift = random.normal(0.0, 0.2).exp();
        for (number, cell) in (0u32..).zip(&cells) {
            let gain =
                if cell[0] == 1 { 1.5 } else { 1.0 } * if cell[0] == 1 && cell[1] == 2 { 1.0 + together } else { 1.0 };
            let rate = 1000.0 * drift * gain * random.normal(0.0, spread).exp();
            let host = HostSeen { cpu_us_per_request: Some(1e6 / rate), ..HostSeen::default() };
            let load = CellLoad { good_per_s: rate, hosts: [("lb".to_string(), host)].into(), ..CellLoad::default() };
            seen.push(CellSeen { cell: number, repeat, value: Some(rate), load: Some(load), ..CellSeen::default() });
        }
    }
    seen
}

fn experiment() -> Experiment {
    Experiment::parse("e.toml", FILE).unwrap()
}

#[test]
fn planted_effects_are_found_and_drift_is_not_taken_for_one() {
    let experiment = experiment();
    let result = conclude(&experiment, &world(&experiment, 0.0, 0.01, 1), Ran::default());
    let sides: Vec<Side> = result.effects.iter().map(|e| e.side).collect();
    assert_eq!(sides, [Side::More, Side::None, Side::None], "{:?}", result.observed);
    let effect = result.effects[0].effect.as_ref().unwrap();
    assert!((effect.effect - 0.5).abs() < 0.03 && effect.low > 0.45 && effect.high < 0.55, "{effect:?}");
    assert!(
        result.interactions.iter().all(|i| i.side == Side::None && i.effect.is_some()),
        "{:?}",
        result.interactions
    );
    let allowed: Vec<Allowed> = result.claims.iter().map(|c| c.allowed).collect();
    assert_eq!(allowed, [Allowed::AsExpected, Allowed::AsExpected, Allowed::NotAsExpected]);
    assert!(result.claims[0].why.contains("at lb went from"), "{}", result.claims[0].why);
    assert!(result.observed.iter().any(|line| line.contains("no effect larger than")), "{:?}", result.observed);
    assert!(result.is_complete() && result.cells.len() == 7 && result.cells[6].placebo);
    let placebo = result.placebo.unwrap();
    assert!(placebo.effect.effect.abs() < 0.02, "{placebo:?}");
}

#[test]
fn a_planted_interaction_is_found_at_its_size() {
    let experiment = experiment();
    let result = conclude(&experiment, &world(&experiment, 0.4, 0.01, 2), Ran::default());
    let sides: Vec<Side> = result.interactions.iter().map(|i| i.side).collect();
    assert_eq!(sides, [Side::None, Side::More], "{:?}", result.observed);
    let effect = result.interactions[1].effect.as_ref().unwrap();
    assert!((effect.effect - 0.4).abs() < 0.05, "{effect:?}");
}

#[test]
fn noise_is_open_and_fewer_than_three_repeats_give_no_interval() {
    let mut experiment = experiment();
    let result = conclude(&experiment, &world(&experiment, 0.0, 0.4, 3), Ran::default());
    assert!(result.effects[1..].iter().all(|e| e.side == Side::Open), "{:?}", result.observed);
    experiment.repeats = 2;
    let result = conclude(&experiment, &world(&experiment, 0.0, 0.01, 4), Ran::default());
    assert!(result.effects.iter().all(|e| e.effect.is_none()) && result.placebo.is_none());
    assert!(result.cells[0].value.is_some_and(|v| v.low.is_none()));
    assert!(result.claims.iter().all(|c| c.allowed == Allowed::Open));
    assert!(result.effects.iter().all(|e| e.within.is_finite()), "JSON has no infinity");
}

#[test]
fn a_cell_that_is_missing_takes_its_repeat_out_of_the_effect_only() {
    let experiment = experiment();
    let mut seen = world(&experiment, 0.0, 0.01, 5);
    seen.retain(|s| !(s.repeat == 0 && s.cell == 3));
    let result = conclude(&experiment, &seen, Ran::default());
    assert_eq!(result.effects[0].effect.as_ref().unwrap().pairs, 5);
    assert!(!result.is_complete());
}

#[test]
fn alarms_without_an_effect_are_as_rare_as_promised() {
    let experiment = experiment();
    let mut alarms = 0;
    for seed in 0..400 {
        let seen = world(&experiment, 0.0, 0.02, 1000 + seed);
        let result = conclude(&experiment, &seen, Ran::default());
        alarms += usize::from(result.placebo.unwrap().alarm);
    }
    // Binomial, 400 times 0.05: 20 +- 3.3 * 4.4.
    assert!((6..=35).contains(&alarms), "{alarms}");
}

proptest! {
    #[test]
    fn every_cell_runs_once_in_every_repeat(groups in prop::collection::vec(0usize..4, 1..12), repeats in 1u32..5, seed: u64) {
        let batches = order(&groups, repeats, seed);
        for repeat in 0..repeats {
            let of = || batches.iter().filter(|b| b.repeat == repeat);
            let mut cells: Vec<u32> = of().flat_map(|b| b.cells.clone()).collect();
            cells.sort_unstable();
            prop_assert_eq!(cells, (0..groups.len() as u32).collect::<Vec<_>>());
            prop_assert!(of().all(|b| b.cells.iter().all(|cell| groups[*cell as usize] == b.group)));
        }
    }
}
