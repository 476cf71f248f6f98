//! Tests of profiles: text and back, files, errors, and the area under the rate.

use super::*;
use crate::input::InputError;
use expect_test::{Expect, expect};
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn at(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

fn point(seconds: f64, rate: f64) -> ProfilePoint {
    ProfilePoint { at: at(seconds), rate: Rate(rate) }
}

fn parse(text: &str) -> Profile {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// What a text means, or why it means nothing.
fn check(text: &str, expect: Expect) {
    let said = match text.parse::<Profile>() {
        Ok(Profile::Points(points)) => points.iter().map(|p| format!("{} {}\n", p.at, p.rate)).collect(),
        Ok(Profile::Cycle { points, every }) => {
            let lines: String = points.iter().map(|p| format!("{} {}\n", p.at, p.rate)).collect();
            format!("{lines}again every {every}\n")
        }
        Ok(Profile::Times(times)) => times.iter().map(|t| format!("{t}\n")).collect(),
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&said);
}

#[test]
fn a_ramp_and_steps() {
    check(
        "ramp:100/s..5k/s,30s",
        expect![[r#"
            0ns 100/s
            30s 5k/s
        "#]],
    );
    check(
        "steps:1k/s,2k/s,4k/s@10s",
        expect![[r#"
            0ns 1k/s
            10s 1k/s
            10s 2k/s
            20s 2k/s
            20s 4k/s
        "#]],
    );
}

#[test]
fn a_spike_and_bursts() {
    check(
        "spike:1k/s..10k/s@20s,5s",
        expect![[r#"
            0ns 1k/s
            20s 1k/s
            20s 10k/s
            25s 10k/s
            25s 1k/s
        "#]],
    );
    check(
        "bursts:1k/s+8k/s@1s,100ms",
        expect![[r#"
            0ns 9k/s
            100ms 9k/s
            100ms 1k/s
            again every 1s
        "#]],
    );
}

#[test]
fn errors_name_the_part_and_show_what_is_right() {
    check(
        "ramp:100/s..fast,30s",
        expect![[r#"
            `ramp:100/s..fast,30s` is not a profile: the rate at the end: `fast` is not a rate: write requests per second, like `800/s` or `5k/s`; write it like `ramp:100/s..5k/s,30s`
        "#]],
    );
    check(
        "spike:1k/s..10k/s@20s",
        expect![[r#"
            `spike:1k/s..10k/s@20s` is not a profile: behind `20s` there is no `,` with how long it takes; write it like `spike:1k/s..10k/s@20s,5s`
        "#]],
    );
    check(
        "step:1k/s,2k/s@10s",
        expect![[r#"
            `step:1k/s,2k/s@10s` is not a profile: `step` is none of ramp, steps, spike, bursts, points, cycle, times, did you mean `steps`?; write it like `ramp:100/s..5k/s,30s`
        "#]],
    );
    check(
        "points:0s=5/s,10s=0/s,3s=4/s",
        expect![[r#"
            `points:0s=5/s,10s=0/s,3s=4/s` is not a profile: 3s stands behind 10s: time does not go back; write it like `points:0s=100/s,30s=5k/s`
        "#]],
    );
    check(
        "ramp:0..0,3s",
        expect![[r#"
            `ramp:0..0,3s` is not a profile: no rate in it is above 0; write it like `ramp:100/s..5k/s,30s`
        "#]],
    );
    check(
        "bursts:1k/s+8k/s@100ms,1s",
        expect![[r#"
            `bursts:1k/s+8k/s@100ms,1s` is not a profile: the last point, at 1s, lies behind the end of the turn, at 100ms; write it like `bursts:1k/s+8k/s@1s,100ms`
        "#]],
    );
}

#[test]
fn every_form_gives_its_text_back() {
    for text in [
        "ramp:100/s..5k/s,30s",
        "ramp:5k/s..0/s,1.5s",
        "steps:1k/s,2k/s,4k/s@10s",
        "steps:1k/s,2k/s@100ms",
        "spike:1k/s..10k/s@20s,5s",
        "bursts:1k/s+8k/s@1s,100ms",
        "points:0s=100/s",
        "points:0s=100/s,5s=300/s,30s=5k/s",
        "cycle:0s=1k/s,1s=4k/s@2s",
        "times:0s,1.5ms,4ms",
    ] {
        assert_eq!(parse(text).to_string(), text);
    }
}

#[test]
fn files_of_points_and_of_times() {
    let csv = |text: &str| Profile::from_csv("rates.csv", text);
    let points = Profile::Points(vec![point(0.0, 100.0), point(30.0, 5000.0)]);
    assert_eq!(csv("seconds,rate\n0,100\n# the peak\n\n30, 5k/s\n").unwrap(), points);
    assert_eq!(csv("0.0\r\n0.0015\r\n4\r\n").unwrap(), Profile::Times(vec![at(0.0), at(0.0015), at(4.0)]));
    let fails = |text: &str, want: &str| {
        let error: InputError = csv(text).unwrap_err();
        assert_eq!(error.to_string(), format!("rates.csv:{want}"), "{text}");
    };
    fails("0,100\n5\n", "2: `5` has no rate, unlike the lines before: write it like `10,500`");
    fails("0\n5,100\n", "2: `5,100` has a rate, unlike the lines before: write it like `10.25`");
    fails("seconds\n5\n\n4\n", "4: 4s stands behind 5s: sort the lines by time");
    fails("0,1\nsoon,2\n", "2: `soon` is no number of seconds from 0 on, like `10.25`");
    fails("-1\n", "1: `-1` is no number of seconds from 0 on, like `10.25`");
    fails("0,fast\n", "1: `fast` is not a rate: write requests per second, like `800/s` or `5k/s`");
    fails("# nothing\n", " there is no time in it; write lines like `10,500` (seconds,rate) or `10.25`");
    fails("0,0\n", " no rate in it is above 0; write lines like `10,500` (seconds,rate) or `10.25`");
}

#[test]
fn json_holds_text_or_lists() {
    let both_ways = |profile: Profile, json: &str| {
        assert_eq!(serde_json::to_string(&profile).unwrap(), json);
        assert_eq!(serde_json::from_str::<Profile>(json).unwrap(), profile);
    };
    both_ways(parse("ramp:100/s..5k/s,30s"), r#""ramp:100/s..5k/s,30s""#);
    both_ways(parse("cycle:0s=1k/s,1s=4k/s@2s"), r#""cycle:0s=1k/s,1s=4k/s@2s""#);
    both_ways(parse("times:1.5ms,4s"), r#"["1.5ms","4s"]"#);
    let list = r#"[{"at":"0ns","rate":"100/s"},{"at":"5s","rate":"300/s"},{"at":"30s","rate":"5k/s"}]"#;
    both_ways(parse("points:0s=100/s,5s=300/s,30s=5k/s"), list);
    for (json, want) in [
        ("[]", "no rate in it is above 0"),
        (r#"["4s","1s"]"#, "1s stands behind 4s"),
        (r#"[{"at":"0s"}]"#, "a list of points like"),
        (r#""often""#, "`often` is none of"),
    ] {
        let error = serde_json::from_str::<Profile>(json).unwrap_err().to_string();
        assert!(error.contains(want), "{json}: {error}");
    }
}

#[test]
fn arrivals_are_the_area_under_the_rate() {
    let expected = |text: &str, from: f64, to: f64| parse(text).expected_arrivals(at(from), at(to));
    // A ramp from 100/s to 5000/s in 30 s: (100 + 5000) / 2 * 30, and then 5000/s.
    assert!((expected("ramp:100/s..5k/s,30s", 0.0, 30.0) - 76_500.0).abs() < 1e-6);
    assert!((expected("ramp:100/s..5k/s,30s", 0.0, 15.0) - 19_875.0).abs() < 1e-6, "half way it is at 2550/s");
    assert!((expected("ramp:100/s..5k/s,30s", 30.0, 31.0) - 5000.0).abs() < 1e-6);
    assert!((expected("steps:1k/s,2k/s,4k/s@10s", 5.0, 25.0) - 45_000.0).abs() < 1e-6);
    assert!((expected("spike:1k/s..10k/s@20s,5s", 0.0, 30.0) - 75_000.0).abs() < 1e-6);
    assert!((expected("bursts:1k/s+8k/s@1s,100ms", 0.0, 10.05) - 18_450.0).abs() < 1e-6);
    assert!((expected("points:10s=500/s,20s=0/s", 5.0, 100.0) - 5000.0).abs() < 1e-6, "500/s from the start on");
    assert_eq!(expected("times:0s,1ms,2ms", 0.001, 0.002), 1.0, "from the first on, before the last");
    assert_eq!(expected("ramp:100/s..5k/s,30s", 9.0, 3.0), 0.0);
}

#[test]
fn a_profile_made_in_code_is_checked_too() {
    let broken = Profile::Points(vec![point(0.0, f64::NAN)]);
    assert!(broken.check().unwrap_err().to_string().contains("the rate at 0ns is no number from 0 on"));
    assert!(Profile::Times(Vec::new()).check().is_err());
    assert!(Profile::Times(vec![Nanos(u64::MAX)]).check().is_err());
    assert!(Profile::Cycle { points: vec![point(0.0, 1.0)], every: Nanos(0) }.check().is_err());
}

fn some_points() -> impl Strategy<Value = Vec<ProfilePoint>> {
    vec((0..100 * SECOND, 0.0f64..1e6), 1..8).prop_map(|mut list| {
        list.sort_by_key(|(at, _)| *at);
        list.into_iter().map(|(at, rate)| ProfilePoint { at: Nanos(at), rate: Rate(rate) }).collect()
    })
}

fn some_profile() -> impl Strategy<Value = Profile> {
    prop_oneof![
        some_points().prop_map(Profile::Points),
        (some_points(), 1..SECOND).prop_map(|(points, more)| {
            let every = Nanos(points.last().map_or(0, |p| p.at.0) + more);
            Profile::Cycle { points, every }
        }),
        vec(0..1u64 << 53, 1..8).prop_map(|mut times| {
            times.sort_unstable();
            Profile::Times(times.into_iter().map(Nanos).collect())
        }),
    ]
    .prop_filter("sends something", |profile| profile.check().is_ok())
}

proptest! {
    #[test]
    fn text_and_back_is_the_same(profile in some_profile()) {
        prop_assert_eq!(&profile.to_string().parse::<Profile>().unwrap(), &profile);
        let json = serde_json::to_string(&profile).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Profile>(&json).unwrap(), &profile);
    }

    #[test]
    fn short_forms_and_back_are_the_same(rates in vec(0.1f64..1e6, 2..6), each in 0..100 * SECOND, length in 0..SECOND) {
        let (a, b) = (Rate(rates[0]), Rate(rates[1]));
        let steps: Vec<String> = rates.iter().map(|r| Rate(*r).to_string()).collect();
        for text in [
            format!("ramp:{a}..{b},{}", Nanos(each)),
            format!("steps:{}@{}", steps.join(","), Nanos(each)),
            format!("spike:{a}..{b}@{},{}", Nanos(each), Nanos(length)),
            format!("bursts:{a}+{b}@{},{}", Nanos(each + SECOND), Nanos(length)),
        ] {
            let profile = parse(&text);
            prop_assert_eq!(profile.to_string().parse::<Profile>().unwrap(), profile, "{}", text);
        }
    }

    #[test]
    fn parts_of_time_add_up(profile in some_profile(), mut cuts in vec(0..300 * SECOND, 3)) {
        cuts.sort_unstable();
        let between = |a: u64, b: u64| profile.expected_arrivals(Nanos(a), Nanos(b));
        let (parts, whole) = (between(cuts[0], cuts[1]) + between(cuts[1], cuts[2]), between(cuts[0], cuts[2]));
        prop_assert!((parts - whole).abs() <= 1e-9 * (whole + 1e6), "{} is not {}", parts, whole);
    }

    #[test]
    fn no_text_panics(text in "(ramp|steps|spike|bursts|points|cycle|times)?:?[0-9a-z.,@+=:/ ]{0,40}", csv in "[0-9a-z.,\n# -]{0,60}") {
        drop(text.parse::<Profile>());
        drop(Profile::from_csv("x", &csv));
    }
}
