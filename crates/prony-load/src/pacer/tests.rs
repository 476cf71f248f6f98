//! Tests of the open loop's schedule: rate, spacing, chance, threads. What a load makes of it is in `sent`.

mod sent;

use super::*;
use prony_model::profile::Profile;
use prony_model::{LoadPlan, Nanos, Rate};
use prony_stats::anderson_darling::exponential;
use proptest::collection::vec;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const WHOLE: Part = Part { number: 0, threads: 1, share: 1.0 };

/// Every form of profile, each with quiet and busy times; all are over after 20 s or go on as they are.
const PROFILES: &[&str] = &[
    "points:0s=70001/s",
    "ramp:0/s..40k/s,10s",
    "ramp:40k/s..0/s,10s",
    "ramp:1k/s..20k/s,3s",
    "steps:1k/s,2k/s,40k/s,500/s@2s",
    "spike:2k/s..50k/s@5s,1s",
    "bursts:1k/s+80k/s@1s,50ms",
    "bursts:0/s+30k/s@300ms,100ms",
    "cycle:0s=0/s,500ms=20k/s,1s=0/s@1500ms",
    "points:1s=0/s,2s=9k/s,2s=100/s,4s=100/s,4s=30k/s,9s=10k/s",
];

fn profile(text: &str) -> Profile {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn schedule(profile: Profile) -> Schedule {
    Schedule::of(&LoadPlan { profile: Some(profile), ..LoadPlan::to("http://x/") }).unwrap()
}

fn constant(per_s: f64) -> Schedule {
    Schedule::of(&LoadPlan { rate: Some(Rate(per_s)), ..LoadPlan::to("http://x/") }).unwrap()
}

/// All times before `until`.
fn times(mut pacer: Open<'_>, until: u64) -> Vec<u64> {
    std::iter::from_fn(|| pacer.take(until - 1)).collect()
}

fn equal_parts(threads: u32) -> impl Iterator<Item = Part> {
    (0..threads).map(move |number| Part { number, threads, share: 1.0 / f64::from(threads) })
}

#[test]
fn constant_arrivals_are_even_over_all_threads() {
    let schedule = constant(1000.0);
    let part = |part| times(Open::new(&schedule, Arrivals::Constant, part, SECOND, 1), 2 * SECOND);
    let mut all: Vec<u64> = equal_parts(2).flat_map(part).collect();
    all.sort_unstable();
    assert_eq!(all.len(), 1000);
    assert_eq!((all[0], all[1] - all[0], all[999] - all[998]), (SECOND, 1_000_000, 1_000_000));
}

#[test]
fn an_awkward_rate_does_not_drift() {
    let schedule = constant(70_001.0);
    let all = times(Open::new(&schedule, Arrivals::Constant, WHOLE, 0, 1), 100 * SECOND);
    assert_eq!(all.len(), 7_000_100);
}

#[test]
fn even_arrivals_are_as_many_as_asked() {
    for text in PROFILES {
        let profile = profile(text);
        let schedule = schedule(profile.clone());
        for seconds in [1, 7, 20] {
            let sent = times(Open::new(&schedule, Arrivals::Constant, WHOLE, 0, 1), seconds * SECOND).len() as f64;
            let asked = profile.expected_arrivals(Nanos(0), Nanos(seconds * SECOND));
            // The first is due at once, hence up to one more.
            assert!((sent - asked).abs() <= 1.001, "{text}, {seconds} s: {sent} for {asked}");
        }
    }
}

/// The k-th even arrival comes when the cumulative rate has reached k.
#[test]
fn even_arrivals_are_where_the_rate_puts_them() {
    for text in PROFILES {
        let profile = profile(text);
        let schedule = schedule(profile.clone());
        for (number, time) in (0u64..).zip(times(Open::new(&schedule, Arrivals::Constant, WHOLE, 0, 1), 4 * SECOND)) {
            let before = profile.expected_arrivals(Nanos(0), Nanos(time));
            let behind = profile.expected_arrivals(Nanos(0), Nanos(time + 1));
            let number = number as f64;
            assert!(before - 1e-6 <= number && number <= behind + 1e-6, "{text}: {number} at {time} ns");
        }
    }
}

/// A count within 0.1 % needs ten million arrivals to be more than luck: that is 3.2 standard deviations.
#[test]
fn poisson_arrivals_are_as_many_as_asked() {
    for text in ["points:0s=5M/s", "ramp:0/s..10M/s,2s", "bursts:1M/s+40M/s@100ms,10ms"] {
        let profile = profile(text);
        let schedule = schedule(profile.clone());
        let mut pacer = Open::new(&schedule, Arrivals::Poisson, WHOLE, 0, 5);
        let sent = std::iter::from_fn(|| pacer.take(2 * SECOND - 1)).count() as f64;
        let asked = profile.expected_arrivals(Nanos(0), Nanos(2 * SECOND));
        assert!((sent / asked - 1.0).abs() < 0.001, "{text}: {sent} for {asked}");
    }
}

/// Chance that gaps, on the scale where the rate is 1, come from a Poisson process; and their correlation with the next one.
fn poisson_chance(profile: &Profile, times: &[u64]) -> (f64, f64) {
    let count = |time: &u64| profile.expected_arrivals(Nanos(0), Nanos(*time));
    let counts: Vec<f64> = std::iter::once(0.0).chain(times.iter().map(count)).collect();
    let gaps: Vec<f64> = counts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let correlation = gaps.windows(2).map(|w| (w[0] - 1.0) * (w[1] - 1.0)).sum::<f64>() / gaps.len() as f64;
    (exponential(&gaps, 1.0).unwrap().p_value, correlation * (gaps.len() as f64).sqrt())
}

#[test]
fn rescaled_poisson_gaps_are_exponential_and_independent() {
    for text in PROFILES {
        let profile = profile(text);
        let schedule = schedule(profile.clone());
        for seed in 0..3 {
            let times = times(Open::new(&schedule, Arrivals::Poisson, WHOLE, 0, seed), 3 * SECOND);
            let (p, sigmas) = poisson_chance(&profile, &times);
            assert!(p > 0.001, "{text}, seed {seed}: {} gaps, p = {p}", times.len());
            assert!(sigmas.abs() < 4.0, "{text}, seed {seed}: correlation of {sigmas} standard errors");
        }
    }
}

#[test]
fn the_test_for_poisson_arrivals_can_fail() {
    let (ramp, flat) = (profile("ramp:1k/s..20k/s,3s"), profile("points:0s=10500/s"));
    let schedule = schedule(ramp.clone());
    let even = times(Open::new(&schedule, Arrivals::Constant, WHOLE, 0, 1), 3 * SECOND);
    assert!(poisson_chance(&ramp, &even).0 < 1e-6, "even arrivals are not Poisson");
    let poisson = times(Open::new(&schedule, Arrivals::Poisson, WHOLE, 0, 1), 3 * SECOND);
    assert!(poisson_chance(&flat, &poisson).0 < 1e-6, "a ramp is no constant rate of the same mean");
}

#[test]
fn threads_add_up_to_a_poisson_process() {
    let profile = profile("bursts:1k/s+8k/s@1s,100ms");
    let schedule = schedule(profile.clone());
    let part =
        |part: Part| times(Open::new(&schedule, Arrivals::Poisson, part, 0, 9 + u64::from(part.number)), 5 * SECOND);
    let shares = [0.5, 0.3, 0.2];
    let parts = (0..3).map(|number| Part { number, threads: 3, share: shares[number as usize] });
    let mut all: Vec<u64> = parts.flat_map(part).collect();
    all.sort_unstable();
    let (p, sigmas) = poisson_chance(&profile, &all);
    assert!(p > 0.001 && sigmas.abs() < 4.0, "p = {p}, correlation of {sigmas} standard errors");
}

#[test]
fn given_times_are_shared_out() {
    let list: Vec<u64> = vec![0, 5, 5, 9, 1_000_000, SECOND];
    let schedule = schedule(Profile::Times(list.iter().map(|t| Nanos(*t)).collect()));
    let part = |part| times(Open::new(&schedule, Arrivals::Poisson, part, 100, 1), 10 * SECOND);
    assert_eq!(part(WHOLE), list.iter().map(|t| t + 100).collect::<Vec<_>>());
    let parts: Vec<Vec<u64>> = equal_parts(4).map(part).collect();
    assert_eq!(parts, [vec![100, 1_000_100], vec![105, SECOND + 100], vec![105], vec![109]]);
}

#[test]
fn a_schedule_that_ends_is_over() {
    for text in ["times:0s,1ms", "ramp:1k/s..0/s,1s", "steps:1k/s,0/s@1s"] {
        let schedule = schedule(profile(text));
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let mut pacer = Open::new(&schedule, arrivals, WHOLE, 0, 3);
            while pacer.take(u64::MAX).is_some() {}
            assert_eq!((pacer.next(), pacer.take(u64::MAX)), (u64::MAX, None), "{text}");
        }
    }
}

#[test]
fn a_profile_that_nobody_checked_only_ends() {
    let point = |at, rate| prony_model::profile::ProfilePoint { at: Nanos(at), rate: Rate(rate) };
    let broken = [
        Profile::Points(Vec::new()),
        Profile::Points(vec![point(0, f64::NAN)]),
        Profile::Points(vec![point(0, -1.0)]),
        Profile::Points(vec![point(9, 0.0), point(3, 0.0)]),
        Profile::Cycle { points: vec![point(0, 5.0)], every: Nanos(0) },
        Profile::Cycle { points: vec![point(0, 0.0)], every: Nanos(5) },
        Profile::Times(Vec::new()),
    ];
    for profile in broken {
        let text = format!("{profile:?}");
        let schedule = schedule(profile);
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            assert_eq!(Open::new(&schedule, arrivals, WHOLE, 0, 1).next(), u64::MAX, "{text}");
        }
    }
}

#[test]
fn a_rare_arrival_in_a_short_cycle_does_not_walk_through_it() {
    // One request in 30 years, in turns of a microsecond: found at once or never.
    let schedule = schedule(profile("cycle:0s=0.000000001/s,500ns=0/s@1us"));
    let mut pacer = Open::new(&schedule, Arrivals::Constant, WHOLE, 0, 1);
    assert_eq!(pacer.take(0), Some(0));
    assert!(pacer.next() > 1000 * SECOND);
}

fn some_profile() -> impl Strategy<Value = Profile> {
    let text = prop_oneof![
        (0.0f64..9e4, 0.0f64..9e4, 1u64..3000).prop_map(|(a, b, ms)| format!("ramp:{a}/s..{b}/s,{ms}ms")),
        (vec(0.0f64..9e4, 2..5), 1u64..1000).prop_map(|(list, ms)| format!(
            "steps:{}@{ms}ms",
            list.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
        )),
        (0.0f64..9e3, 0.0f64..9e4, 50u64..500, 1u64..50)
            .prop_map(|(a, b, every, ms)| format!("bursts:{a}/s+{b}/s@{every}ms,{ms}ms")),
        vec(0u64..2000, 1..50).prop_map(|mut list| {
            list.sort_unstable();
            let list: Vec<String> = list.iter().map(|ms| format!("{ms}ms")).collect();
            format!("times:{}", list.join(","))
        }),
    ];
    text.prop_filter_map("sends something", |text| text.parse().ok())
}

#[test]
fn what_is_asked_does_not_wait_for_who_is_behind() {
    let schedule = constant(1000.0);
    let counted = Counted { start_ns: SECOND / 2, end_ns: 10 * SECOND };
    let mut pacer = Open::new(&schedule, Arrivals::Constant, WHOLE, 0, 1);
    let mut asked = Asked::new(&pacer);
    let mut begun = 0;
    let mut seen = Vec::new();
    for second in 1..=4u64 {
        // Half of it is begun in the first two seconds; then it catches up.
        let until = if second < 3 { second * SECOND / 2 } else { second * SECOND };
        while let Some(intended) = pacer.take(until) {
            begun += u64::from(counted.holds(intended));
        }
        seen.push((asked.by(second * SECOND, &pacer, begun, counted), begun));
    }
    assert_eq!(seen, [(501, 1), (1501, 501), (2501, 2501), (3501, 3501)]);
    assert_eq!(Asked::new(&Closed).by(9, &Closed, 7, counted), 7, "a closed loop asks for nothing by itself");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn time_never_goes_back(profile in some_profile(), seed: u64, even: bool) {
        let arrivals = if even { Arrivals::Constant } else { Arrivals::Poisson };
        let schedule = schedule(profile);
        let all = times(Open::new(&schedule, arrivals, WHOLE, 77, seed), SECOND / 2);
        prop_assert!(all.iter().all(|time| *time >= 77) && all.is_sorted());
    }

    #[test]
    fn the_schedule_does_not_depend_on_when_it_is_asked(profile in some_profile(), seed: u64, even: bool) {
        let arrivals = if even { Arrivals::Constant } else { Arrivals::Poisson };
        let schedule = schedule(profile);
        let open = || Open::new(&schedule, arrivals, WHOLE, 0, seed);
        let (mut late, mut prompt) = (open(), open());
        for _ in 0..500 {
            let due = prompt.next();
            if due > 0 {
                prop_assert_eq!(prompt.take(due - 1), None, "not before its time");
            }
            prop_assert_eq!(prompt.take(due), late.take(u64::MAX));
        }
    }

    #[test]
    fn even_threads_together_are_the_whole(profile in some_profile(), threads in 1u32..9) {
        let schedule = schedule(profile);
        let part = |part| times(Open::new(&schedule, Arrivals::Constant, part, 0, 1), SECOND);
        let whole = part(WHOLE);
        let mut all: Vec<u64> = equal_parts(threads).flat_map(part).collect();
        all.sort_unstable();
        prop_assert!(all.len().abs_diff(whole.len()) <= 1, "{} of {}", all.len(), whole.len());
        // One nanosecond, because time is cut to whole ones.
        let apart = all.iter().zip(&whole).map(|(a, b)| a.abs_diff(*b)).max();
        prop_assert!(apart.unwrap_or(0) <= 1, "{:?} ns apart", apart);
    }
}
