//! The search on stacks whose limits are known, and its promises on any input.

use super::*;
use crate::Random;
use crate::simulated::{Stack, play};
use expect_test::{Expect, expect};
use proptest::prelude::*;

/// A server without mysteries: throughput grows with the connections up to a limit, latency is that of M/M/1, and trials
/// differ by a little noise. Everything is `k` times as fast as with k = 1.
#[derive(Clone)]
struct Server {
    k: f64,
    noise: f64,
    /// ln(latency / limit) at the border is 0 here, as a share of the limit.
    border: f64,
    random: Random,
}

impl Server {
    fn new(noise: f64) -> Self {
        Self { k: 1.0, noise, border: 0.8, random: Random::new(7) }
    }

    fn run(&mut self, probe: Probe) -> Observation {
        let speed = self.k * self.random.normal(0.0, self.noise).exp();
        let (good_per_s, margins) = match probe.load {
            Load::Connections(n) => (speed * (f64::from(n) * 500.0).min(10_000.0), Vec::new()),
            Load::Rate(Rate(rate)) => {
                let free = (1.0 - rate / (10_000.0 * speed)).max(1e-3);
                (rate.min(10_000.0 * speed), vec![f64::NAN, ((1.0 - self.border) / free).ln()])
            }
        };
        let good = margins.last().map(|m| *m <= 0.0);
        let (spent_s, validity) = (probe.seconds + 1.0, Validity::Valid);
        Observation { probe, spent_s, good_per_s, good, margins, piece_us: None, validity }
    }
}

/// The server on a machine whose own speed moves by `moved` (standard deviation of its logarithm) from trial to trial. A piece of work
/// slows down by half as much as the server, and its time is known to 1 %.
fn on_a_moving_machine(mut server: Server, moved: f64, seed: u64) -> impl FnMut(usize, Probe) -> Observation {
    let mut random = Random::new(seed);
    move |_, probe| {
        let speed = random.normal(0.0, moved);
        let piece_us = Some(80.0 * (random.normal(0.0, 0.01) - speed / 2.0).exp());
        let seen = server.run(probe);
        Observation { good_per_s: seen.good_per_s * speed.exp(), piece_us, ..seen }
    }
}

/// Plays a search with whatever answers.
fn search(options: Options, mut answer: impl FnMut(usize, Probe) -> Observation) -> (Found, Vec<Observation>) {
    let (search, mut seen) = (Search::new(options), Vec::new());
    while let Some(probe) = search.next(&seen) {
        assert!(seen.len() < 2 * TRIALS_MAX, "the search does not end");
        seen.push(answer(seen.len(), probe));
    }
    (search.found(&seen), seen)
}

fn told(found: &Found) -> String {
    let answer = |name: &str, a: &Answer| {
        let interval = a.interval.map_or("no interval".to_string(), |i| {
            format!("{:.0} ({:.0} to {:.0}) at {:?}", i.estimate_per_s, i.low_per_s, i.high_per_s, i.at)
        });
        format!("{name}: {interval}, {:?}, {} trials, {} left out, {:.0} s\n", a.end, a.trials, a.left_out, a.seconds)
    };
    answer("saturation", &found.saturation) + &found.within_slo.map_or(String::new(), |a| answer("objective", &a))
}

fn check(slo: bool, answer: impl FnMut(usize, Probe) -> Observation, want: Expect) {
    want.assert_eq(&told(&search(Options::new(64, slo), answer).0));
}

#[test]
fn finds_both_limits() {
    let mut server = Server::new(0.003);
    check(
        true,
        |_, probe| server.run(probe),
        expect![[r#"
            saturation: 9990 (9953 to 10027) at Some(Connections(64)), Narrow, 8 trials, 0 left out, 39 s
            objective: 8008 (7984 to 8033) at Some(Rate(Rate(7995.717745712863))), Narrow, 10 trials, 0 left out, 78 s
        "#]],
    );
}

#[test]
fn what_the_machine_drifted_by_belongs_to_the_interval() {
    let mut server = Server::new(0.003);
    let slower_later = |_: usize, probe: Probe| {
        if matches!(probe.load, Load::Rate(_)) {
            server.k = 0.97;
        }
        server.run(probe)
    };
    let found = search(Options::new(64, true), slower_later).0;
    let saturation = found.saturation.interval.unwrap();
    assert!(saturation.holds(9_850.0) && saturation.width() > 0.03, "{}", told(&found));
    let objective = found.within_slo.unwrap();
    assert_eq!(objective.end, End::Narrow, "it has trials of its own");
}

#[test]
fn the_ladder_goes_where_throughput_is() {
    let rungs = |connections: u32| {
        let mut server = Server::new(0.0);
        let (_, seen) = search(Options::new(connections, false), |_, probe| server.run(probe));
        let of = |o: &Observation| match o.probe.load {
            Load::Connections(n) => n,
            Load::Rate(_) => 0,
        };
        let ladder: Vec<u32> = seen.iter().filter(|o| o.probe.why == Why::Ladder).map(of).collect();
        (ladder, seen.last().map(of))
    };
    expect![[r#"
        ([4, 8, 16, 32, 64, 128, 2], Some(64))
        ([64, 128, 32], Some(64))
        ([1, 2, 4, 8, 16, 32, 64], Some(32))
    "#]]
    .assert_eq(&format!("{:?}\n{:?}\n{:?}\n", rungs(4), rungs(64), rungs(1)));
}

/// A queue that grows costs half a percent for each doubling, which a ladder takes for flat.
fn sinking(noise: f64) -> impl FnMut(usize, Probe) -> Observation {
    let mut server = Server::new(noise);
    move |_, probe| {
        let seen = server.run(probe);
        let Load::Connections(connections) = probe.load else { return seen };
        let doublings = (f64::from(connections) / 32.0).log2().max(0.0);
        Observation { good_per_s: seen.good_per_s * (1.0 - 0.005 * doublings), ..seen }
    }
}

#[test]
fn a_slope_that_the_ladder_takes_for_flat_is_climbed_where_trials_are_alike() {
    let place = |noise: f64| {
        let interval = search(Options::new(128, false), sinking(noise)).0.saturation.interval.unwrap();
        (interval.at, (interval.estimate_per_s / 10_000.0 * 1000.0).round())
    };
    assert_eq!(place(0.0002), (Some(Load::Connections(32)), 1000.0));
    assert_eq!(place(0.0), (Some(Load::Connections(32)), 1000.0), "also without any noise");
    // With more noise nobody could tell, and the interval holds it.
    let (at, _) = place(0.02);
    assert!(matches!(at, Some(Load::Connections(64..=256))), "{at:?}");
}

#[test]
fn what_a_budget_cuts_short_on_the_way_up_is_told_of_the_last_place_with_enough_trials() {
    let options = Options { budget_s: 50.0, ..Options::new(128, false) };
    let (found, seen) = search(options, sinking(0.0002));
    let interval = found.saturation.interval.unwrap();
    assert_eq!((found.saturation.end, interval.at), (End::Budget, Some(Load::Connections(128))), "{seen:#?}");
    assert!(interval.low_per_s < interval.estimate_per_s);
}

#[test]
fn a_trial_that_is_not_valid_is_repeated_once_and_never_counts() {
    let mut server = Server::new(0.003);
    let disturbed = |i: usize, probe: Probe| {
        let seen = server.run(probe);
        if [0, 5, 6, 16].contains(&i) {
            return Observation { good_per_s: 1.0, good: Some(false), validity: Validity::Unsteady, ..seen };
        }
        seen
    };
    check(
        true,
        disturbed,
        expect![[r#"
            saturation: 9988 (9914 to 10063) at Some(Connections(128)), Narrow, 12 trials, 3 left out, 60 s
            objective: 8008 (7968 to 8049) at Some(Rate(Rate(7977.693063049819))), Narrow, 11 trials, 1 left out, 87 s
        "#]],
    );
}

#[test]
fn a_rung_where_throughput_swings_is_left_for_the_next() {
    let mut server = Server::new(0.003);
    let mut swings = None;
    let (found, seen) = search(Options::new(64, false), |_, probe| {
        let seen = server.run(probe);
        let first = probe.why == Why::Saturation && *swings.get_or_insert(probe.load) == probe.load;
        if first { Observation { validity: Validity::Unsteady, good_per_s: 1.0, ..seen } } else { seen }
    });
    let answer = found.saturation;
    assert_eq!((answer.end, answer.left_out), (End::Narrow, 2), "{answer:?}");
    assert!(answer.interval.is_some_and(|i| i.holds(10_000.0) && i.at != swings), "{answer:?} {seen:?}");
}

#[test]
fn what_is_never_steady_has_no_limit() {
    let mut server = Server::new(0.0);
    let unsteady = |_: usize, probe: Probe| Observation { validity: Validity::Unsteady, ..server.run(probe) };
    check(
        true,
        unsteady,
        expect![[r#"
        saturation: no interval, NotSteady, 4 trials, 4 left out, 12 s
        objective: no interval, NotSteady, 4 trials, 4 left out, 12 s
    "#]],
    );
}

#[test]
fn a_limit_of_the_generator_is_no_limit_of_the_stack() {
    let mut server = Server::new(0.0);
    let (found, _) = search(Options::new(64, true), |_, probe| {
        let seen = server.run(probe);
        Observation { validity: Validity::GeneratorLimited, good_per_s: seen.good_per_s * 0.5, ..seen }
    });
    assert_eq!((found.saturation.end, found.saturation.interval), (End::GeneratorLimited, None));
    assert_eq!(found.at_least_per_s, Some(5000.0));
}

#[test]
fn a_dead_server_ends_the_search() {
    let dead =
        |_: usize, probe: Probe| Observation { good_per_s: 0.0, good: Some(false), ..Server::new(0.0).run(probe) };
    check(
        true,
        dead,
        expect![[r#"
        saturation: no interval, NothingServed, 3 trials, 0 left out, 9 s
        objective: no interval, NothingServed, 0 trials, 0 left out, 0 s
    "#]],
    );
}

#[test]
fn objectives_that_always_or_never_hold_have_a_verdict() {
    let held = |good: bool| {
        let mut server = Server::new(0.003);
        let always = move |_: usize, probe: Probe| {
            let open = probe.why == Why::Bracket || probe.why == Why::Border;
            Observation { good: open.then_some(good), margins: Vec::new(), ..server.run(probe) }
        };
        search(Options::new(64, true), always).0.within_slo.unwrap()
    };
    assert_eq!((held(true).end, held(true).interval), (End::AllHeld, None));
    assert_eq!((held(false).end, held(false).interval), (End::NothingHeld, None));
}

#[test]
fn an_objective_that_only_says_good_or_bad_is_found_too() {
    let mut server = Server::new(0.003);
    let (found, _) =
        search(Options::new(64, true), |_, probe| Observation { margins: Vec::new(), ..server.run(probe) });
    let interval = found.within_slo.unwrap().interval.unwrap();
    assert!(interval.holds(8000.0) && interval.width() < 0.3, "{interval:?}");
}

#[test]
fn one_disturbed_trial_does_not_move_an_answer() {
    for disturbed in [4, 8, 12, 14, 16] {
        let mut server = Server::new(0.005);
        let (found, _) = search(Options::new(64, true), |i, probe| {
            let seen = server.run(probe);
            let open = seen.good.is_some();
            if i != disturbed {
                return seen;
            }
            Observation { good_per_s: 0.7 * seen.good_per_s, good: open.then_some(false), margins: vec![3.0], ..seen }
        });
        let (saturation, within) = (found.saturation.interval.unwrap(), found.within_slo.unwrap().interval.unwrap());
        assert!((saturation.estimate_per_s / 10_000.0 - 1.0).abs() < 0.01, "{disturbed}: {saturation:?}");
        assert!((within.estimate_per_s / 8000.0 - 1.0).abs() < 0.02, "{disturbed}: {within:?}");
    }
}

/// Simulated trials are cheaper when they are short; what holds for them holds for long ones.
#[test]
fn most_intervals_hold_the_truth() {
    let (mut saturation, mut objective, searches) = (0, 0, 16);
    for seed in 0..searches {
        let quick = Options { short_s: 0.5, full_s: 1.0, open_full_s: 3.0, budget_s: 90.0, ..Options::new(64, true) };
        let played = play(Stack::draw(seed), quick, seed);
        let holds = |answer: Answer, truth: f64| u32::from(answer.interval.is_some_and(|i| i.holds(truth)));
        saturation += holds(played.found.saturation, played.saturation_per_s);
        objective += holds(played.found.within_slo.unwrap(), played.within_slo_per_s);
    }
    // Trials as short as these see less: of 16 searches 14 or 15 on average.
    assert!(saturation >= 12 && objective >= 12, "{saturation} and {objective} of {searches}");
}

fn any_number() -> impl Strategy<Value = f64> {
    let odd = [0.0, -1.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE];
    prop_oneof![proptest::sample::select(odd.to_vec()), 1.0f64..20_000.0, -3.0f64..3.0]
}

#[test]
fn at_one_speed_of_the_machine_the_limit_is_known_better() {
    let (mut told, mut covered, mut narrower) = (0, 0, 0);
    for seed in 0..200 {
        let server = Server { random: Random::new(seed), ..Server::new(0.01) };
        let (found, seen) = search(Options::new(64, false), on_a_moving_machine(server, 0.1, seed));
        // A search that ended by chance after five repeats says nothing of it.
        let Some(one) = at_one_speed(&seen) else { continue };
        let plain = found.saturation.interval.unwrap();
        told += 1;
        narrower += u32::from((one.high_per_s - one.low_per_s) / one.estimate_per_s < plain.width() / 2.0);
        // What the server carries at the speed at which a piece takes so long.
        let truth = 10_000.0 * (80.0 / one.piece_us).powi(2);
        covered += u32::from(one.low_per_s * 0.99 <= truth && truth <= one.high_per_s * 1.01);
    }
    assert!(told >= 180 && covered * 100 >= told * 93 && narrower * 100 >= told * 90, "{told}: {covered}, {narrower}");
}

#[test]
fn a_machine_that_keeps_its_speed_or_is_not_timed_has_no_second_answer() {
    let (_, seen) = search(Options::new(64, false), on_a_moving_machine(Server::new(0.05), 0.005, 1));
    assert_eq!(at_one_speed(&seen), None);
    let (_, seen) = search(Options::new(64, false), |_, probe| Server::new(0.1).run(probe));
    assert_eq!(at_one_speed(&seen), None);
}

/// Throughput sinks by a tenth with each doubling beyond 64 connections, on a machine whose speed moves by more.
#[test]
fn the_ladder_is_not_led_by_the_speed_of_the_machine() {
    let right = |timed: bool| {
        let is_right = |seed: &u64| {
            let mut run = on_a_moving_machine(Server { random: Random::new(*seed), ..Server::new(0.01) }, 0.15, *seed);
            let (search, mut seen) = (Search::new(Options::new(64, false)), Vec::new());
            let place = loop {
                let probe = search.next(&seen).unwrap();
                let Load::Connections(n) = probe.load else { unreachable!("no rate without an objective") };
                if probe.why != Why::Ladder {
                    break n;
                }
                let one = run(seen.len(), probe);
                let sunk = 0.9f64.powf((f64::from(n) / 64.0).log2().max(0.0));
                let piece_us = one.piece_us.filter(|_| timed);
                seen.push(Observation { good_per_s: one.good_per_s * sunk, piece_us, ..one });
            };
            (16..=64).contains(&place)
        };
        (0..200).filter(is_right).count()
    };
    let (wrong_timed, wrong_untimed) = (200 - right(true), 200 - right(false));
    assert!(3 * wrong_timed <= 2 * wrong_untimed, "{wrong_timed} and {wrong_untimed} of 200");
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let load = prop_oneof![(0u32..300).prop_map(Load::Connections), any_number().prop_map(|r| Load::Rate(Rate(r)))];
    let whys = [Why::Ladder, Why::Saturation, Why::Bracket, Why::Border, Why::Confirm];
    let validities = [Validity::Valid, Validity::Valid, Validity::Unsteady, Validity::GeneratorLimited];
    let probe = (load, any_number(), proptest::sample::select(whys.to_vec()), any::<bool>())
        .prop_map(|(load, seconds, why, again)| Probe { load, seconds, why, again });
    let margins = proptest::collection::vec(any_number(), 0..3);
    let piece_us = proptest::option::of(any_number());
    let validity = proptest::sample::select(validities.to_vec());
    let shown = (any_number(), any_number(), any::<Option<bool>>(), margins, piece_us, validity);
    (probe, shown).prop_map(|(probe, (spent_s, good_per_s, good, margins, piece_us, validity))| Observation {
        probe,
        spent_s,
        good_per_s,
        good,
        margins,
        piece_us,
        validity,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_stack_k_times_as_fast_has_k_times_the_limits(k in 0.01f64..100.0, border in 0.5f64..0.95) {
        let of = |k: f64| {
            let mut server = Server { k, border, ..Server::new(0.008) };
            search(Options::new(64, true), |_, probe| server.run(probe)).0
        };
        let (one, other) = (of(1.0), of(k));
        prop_assert_eq!(one.trials, other.trials);
        let pairs = [(one.saturation, other.saturation), (one.within_slo.unwrap(), other.within_slo.unwrap())];
        for (one, other) in pairs {
            let (one, other) = (one.interval.unwrap(), other.interval.unwrap());
            let same = |a: f64, b: f64| (a * k / b - 1.0).abs() < 1e-6;
            prop_assert!(same(one.low_per_s, other.low_per_s) && same(one.high_per_s, other.high_per_s));
            prop_assert!(same(one.estimate_per_s, other.estimate_per_s));
            prop_assert!(one.low_per_s <= one.estimate_per_s && one.estimate_per_s <= one.high_per_s);
        }
    }

    #[test]
    fn the_order_of_trials_moves_no_estimate(border in 0.5f64..0.95, seed: u64) {
        let mut server = Server { border, ..Server::new(0.01) };
        let options = Options::new(64, true);
        let (found, mut seen) = search(options, |_, probe| server.run(probe));
        Random::new(seed).shuffle(&mut seen);
        let shuffled = Search::new(options).found(&seen);
        let estimates = |f: &Found| [f.saturation, f.within_slo.unwrap()].map(|a| a.interval.unwrap().estimate_per_s);
        for (one, other) in estimates(&found).into_iter().zip(estimates(&shuffled)) {
            prop_assert!((one / other - 1.0).abs() < 1e-9, "{} {}", one, other);
        }
    }

    #[test]
    fn nothing_makes_it_panic(seen in proptest::collection::vec(any_observation(), 0..40), slo: bool, seed: u64) {
        let search = Search::new(Options { seed, ..Options::new((seed % 200) as u32, slo) });
        if let Some(probe) = search.next(&seen) {
            prop_assert!(probe.seconds > 0.0 || probe.again);
            match probe.load {
                Load::Connections(n) => prop_assert!(n > 0 || probe.again),
                Load::Rate(Rate(rate)) => prop_assert!(rate > 0.0 || probe.again),
            }
        }
        search.found(&seen);
        at_one_speed(&seen);
    }

    #[test]
    fn it_ends_within_its_budget(seed: u64, budget_s in 1.0f64..400.0) {
        let mut random = Random::new(seed);
        let options = Options { budget_s, seed, ..Options::new(1 + (seed % 100) as u32, true) };
        let (found, _) = search(options, |_, probe| Observation {
            probe,
            spent_s: probe.seconds + 1.0,
            good_per_s: 1000.0 * random.uniform(),
            good: Some(random.below(2) == 0),
            margins: vec![random.normal(0.0, 1.0)],
            piece_us: Some(80.0 * random.uniform()),
            validity: if random.below(5) == 0 { Validity::Unsteady } else { Validity::Valid },
        });
        prop_assert!(found.seconds <= budget_s);
        prop_assert!(found.saturation.end != End::Open);
    }
}
