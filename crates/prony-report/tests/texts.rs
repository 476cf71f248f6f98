//! Texts as snapshots. `UPDATE_EXPECT=1 cargo test -p prony-report` writes them anew; read the difference.

mod sample;

use expect_test::{Expect, expect, expect_file};
use prony_model::limit::{
    AtOneSpeed, AxisAnswer, AxisPoint, Bounded, KneePoint, LeftOut, LimitAnswer, LimitReport, LimitVerdict, LoadPoint,
    Overload, TestedLoad, UslFit,
};
use prony_model::load::ErrorCounts;
use prony_model::{Run, RunEnd, Stack};
use prony_report::text::{self, Style};

fn check(actual: &str, expected: Expect) {
    assert!(actual.lines().all(|line| line.chars().count() <= 110), "a line is wider than 110 columns");
    expected.assert_eq(actual);
}

#[test]
fn load_block_is_laid_out_as_by_wrk() {
    let result = sample::result(12_412.0, 9_800.0, 4.0);
    check(
        &text::load_block(&sample::plan(128, None), &result, true),
        expect![[r#"
        Running 4s test @ http://10.77.0.2:8080/1232
          1 threads and 128 connections
          Thread Stats   Avg      Stdev     Max   +/- Stdev
            Latency    12.09ms   10.31ms 400.03ms   90.63%
            Req/Sec    12.51k   118.72    12.66k    75.00%
          Latency Distribution
             50%    9.81ms
             75%   14.40ms
             90%   21.15ms
             99%   48.92ms
          49648 requests in 4.00s, 70.08MB read
        Requests/sec:  12412.00
        Transfer/sec:     17.52MB
    "#]],
    );
}

#[test]
fn load_block_says_what_went_wrong() {
    let mut result = sample::result(151_000.0, 400.0, 2.0);
    result.errors =
        ErrorCounts { connect: 3, read: 2, timeout: 1, status: 40, no_local_port: 4, ..ErrorCounts::default() };
    result.gates.push(sample::gate(
        "cpu",
        false,
        "generator threads used 97 % of a CPU; at most 90 % is allowed",
        true,
    ));
    result.gates.push(sample::gate("steady", false, "throughput fell by 12 % within the trial", false));
    result.interrupted = true;
    check(
        &text::load_block(&sample::plan(64, None), &result, false),
        expect![[r#"
        Running 4s test @ http://10.77.0.2:8080/1232
          1 threads and 64 connections
          Thread Stats   Avg      Stdev     Max   +/- Stdev
            Latency   493.45us  420.96us  16.33ms   90.62%
            Req/Sec   151.75k     1.07k  152.51k   100.00%
          302000 requests in 2.00s, 426.25MB read
          Socket errors: connect 7, read 2, write 0, timeout 1
          Non-2xx or 3xx responses: 40
        Requests/sec: 151000.00 at least (generator-limited)
        Transfer/sec:    213.13MB
        Errors: 0.02 % of requests failed: connect 3, read 2, timeout 1, status 400 and above 40, no local
                port 4
        at least 151,000 requests/s (generator-limited: cpu: generator threads used 97 % of a CPU; at most
        90 % is allowed)
        not valid (steady: throughput fell by 12 % within the trial)
        Interrupted: the figures cover the time until then.
    "#]],
    );
}

#[test]
fn verdict_of_the_whole_loop() {
    check(
        &text::verdict(&sample::whole(), Style::Plain),
        expect![[r#"
            Connections to the upstream are not reused, at lb.
            The remedy gains 63.3 % throughput: proven, 95 % interval +61.9 % to +64.7 %.

            lb opens 1.00 connections to s1 and s2 for every request; opening and closing them costs 29 us of
            the 78 us of CPU time that lb spends per request, and its CPU is full.

              proven effect   +63.3 %            +61.9 % to +64.7 %, 8 pairs
              limit           12,412/s           128 connections, closed loop
              p99 latency     48.9 ms            p50 9.81 ms
              within the SLO  at least 5,998/s   p99 within 25.0 ms, at most 0.10 % failed
              confidence      high               grounded: 4 of 4 tests agree

            Grounded
              yes  It is on the path: lb calls s1 and s2 for every request of the workload
              yes  It departs from the calm load: the CPU of lb goes from 49 % below the knee to 97 % at the
                   limit
              yes  It comes before the limit: the CPU of lb fills before the latency of the path rises
              yes  The limit follows it when it is changed: 20 % less CPU for lb costs 21 % throughput; 20 %
                   less for s1 costs nothing

            How it was found
              1. The symptom: the load curve
                 as written (64 connections): 12800 good requests/s, p50 4.90 ms, p99 9.10 ms
              2. The guilty host, counter by counter: every counter of lb, in a fixed order
                 CPU: us 31, sy 44, si 22, st 0, wa 0, id 3 %
                 1 causes ruled out

            Evidence
              1. lb opens a new connection to its upstreams for every request
                 tcp.active_opens / request = 1.000 at lb, calm 1.000, border 0.050 (causes.md 4: a pool that
                 works stays below 0.05)
              2. s1 accepts as many connections as it answers requests
                 tcp.passive_opens / request = 0.998 at s1, calm 1, border 0.050 (causes.md 4)
              3. The CPU that lb may use is full
                 cpu.busy = 97.4 % at lb, calm 49.1 %, border 90 % (a guess)
              4. Opening and closing a connection is a large part of what lb spends per request
                 price.connect / request = 29.1 us at lb, calm 29 us, border 7.80 us (10 % of the CPU time per
                 request)
              5. [against] Few sockets wait in TIME_WAIT, so ports are not the limit yet
                 sock.time_wait = 9,811 at lb

            Interventions (elasticity 1: the limit follows; 0: it does not)
              suspect  CPU of lb 20 % slower: 1.06 (0.95 to 1.17), 8 pairs; the limit follows
              control  CPU of s1 20 % slower: -0.03 (-0.12 to 0.06), 8 pairs; as expected of a control: the
                       limit does not follow
              suspect  remedy applied, nginx.upstream_keepalive=64 at lb: +63.0 % (+59.0 % to +67.0 %), 4 pairs;
                       mending it moves the limit
              suspect  CPU of lb 10 % slower: 0.93 (0.69 to 1.17), 8 pairs; the limit follows; at equal speed of
                       the machine

            Ruled out
              - access-log-lock: 0 of 400 looks found a worker of lb waiting for a file lock
              - access-log-unbuffered: 0.004 write() calls per request at lb; 1 would be unbuffered
              - accept-queue-full: 0 overflows of the accept queue at lb, s1 and s2
              - bandwidth-bound: lb sends 147 Mbit/s; no queue discipline has a rate
              - and packet-loss, cpu-quota-throttled, generator-saturated; reasons in the report

            What differs from the good run 20261119-081500-1a2b
              12,412 now, 18,200 in the good run
              - nginx.keepalive of lb: 64 -> not there
              - tcp.active_opens of lb: 1 / request now, 0 / request then (new)
              - cpu.system of lb: 5.10e-5 s / request now, 2.20e-5 s / request then (+110.0 % to +150.0 %)

            Not seen
              - if.speed of lb: virtual links name no speed: say `lab.host.NAME.link.rate`, or measure it with
                `prony network`
              - cgroup.quota of lb: the processes are in the root control group, which has no quota
              - tcp.retransmits, tcp.timeouts, tcp.original_sent and 1 more of s2: the namespace was gone when
                the last sample was due

            Proof
              A: as found. B: nginx.upstream_keepalive=64 at lb.
              good requests per second    12,400/s -> 20,249/s  +63.3 % (+61.9 % to +64.7 %)  better
              p99 latency                 48.9 ms -> 29.5 ms  -39.7 % (-42.7 % to -36.7 %)  margin +10.0 %: held
              share of failed requests    0 % -> 0 %  0.0 % (-0.1 % to +0.1 %)  margin +0.1 %: held
              CPU time per request        78.2 us -> 47.9 us  -38.7 % (-40.7 % to -36.7 %)  margin +5.0 %: held
              8 pairs in randomised blocks (seed 20261120); smallest detectable effect 1.1 %; p = 0.008
              predicted +58.0 %, measured +63.3 %: outside the interval
              strong: trials were interleaved in random order, and on this machine A differs from A in 2 of 40
              comparisons (those of 19 earlier proofs counted in); up to 4 are chance; so many comparisons would
              notice, 8 times in 10, a rate of false alarms of 16 % or more

            Changes
              - nginx.upstream_keepalive=64 at lb (before: no keepalive, HTTP/1.0 to the upstream): undone,
                exactly as it was
                permanent: put the three lines marked + into /etc/nginx/nginx.conf, then `nginx -s reload`
        "#]],
    );
}

#[test]
fn verdict_without_a_stack() {
    check(
        &text::verdict(&sample::only_url(), Style::Plain),
        expect![[r#"
            http://127.0.0.1:8080/ answers at least 151,000 requests per second; the generator was the limit.

              throughput      at least 151,000/s (generator-limited: cpu: generator threads used 97 % of a CPU;
                                                 at most 90 % is allowed)
              p99 latency     2.00 ms            p50 400 us

            Not seen
              - host facts: only a URL was given: name the hosts in a stack file to see what stops them
        "#]],
    );
}

#[test]
fn colour_only_when_asked_for_and_never_from_the_run() {
    assert!(text::verdict(&sample::whole(), Style::Ansi).contains("\x1b[1m"));
    let plain = text::verdict(&sample::hostile(), Style::Plain);
    assert!(!plain.contains('\x1b'), "an escape code of the run reached the terminal");
}

#[test]
fn at_a_rate_that_is_carried_the_prediction_is_of_the_latency() {
    let mut run = sample::no_proof();
    let told = |run: &Run| text::verdict(run, Style::Plain).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told(&run).contains("predicted gain +58.0 % +54.0 % to +71.0 %"), "{}", told(&run));
    run.diagnosis.as_mut().unwrap().verdict.at_rate = true;
    assert!(told(&run).contains("mended latency -36.7 % -41.5 % to -35.1 %"), "the lower end first: {}", told(&run));
}

#[test]
fn at_a_rate_that_is_carried_a_proof_is_of_how_soon_requests_are_answered() {
    let mut run = sample::whole();
    let effect = &mut run.proof.as_mut().unwrap().effect;
    (effect.metric, effect.a, effect.b) = ("soonness_per_s".to_string(), 125.0, 250.0);
    let told = text::verdict(&run, Style::Plain).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("The remedy makes answers 63.3 % faster: proven, 95 % interval +61.9 %"), "{told}");
    assert!(told.contains("speed, by mean latency 8.00 ms -> 4.00 ms +63.3 % (+61.9 % to +64.7 %) better"), "{told}");
}

#[test]
fn where_only_a_change_was_tried_that_is_the_result() {
    let mut run = sample::whole();
    run.diagnosis = None;
    run.trials.retain(|t| matches!(t.purpose, prony_model::Purpose::Proof { .. }));
    let told = text::verdict(&run, Style::Plain);
    assert!(told.starts_with("The remedy gains 63.3 % throughput: proven"), "{told}");
    assert_eq!(told.matches("The remedy gains").count(), 1, "{told}");
}

#[test]
fn parts_of_the_result() {
    let run = sample::whole();
    let whole = text::verdict(&run, Style::Plain);
    assert!(whole.contains(&text::proof(&run, Style::Plain)));
    assert!(whole.starts_with(&text::diagnosis(&run, Style::Plain)));
    assert_eq!(text::proof(&sample::only_url(), Style::Plain), "");
}

#[test]
fn markdown_of_the_whole_loop() {
    expect_file!["snapshots/whole.md"].assert_eq(&prony_report::markdown(&sample::whole()));
}

#[test]
fn markdown_takes_hostile_texts_as_texts() {
    let text = prony_report::markdown(&sample::hostile());
    let outside_of_fences: String = text.split("```").step_by(2).collect();
    assert!(!outside_of_fences.contains("<script>") && !outside_of_fences.contains("<img"));
}

#[test]
fn csv_has_every_point_and_every_trial() {
    let run = sample::whole();
    let points: usize = run.series.iter().map(|(_, points)| points.len()).sum();
    assert_eq!(prony_report::csv(&run).lines().count(), points + 1);
    assert_eq!(prony_report::csv::trials(&run).lines().count(), run.trials.len() + 1);
}

fn bounded(value: f64) -> Bounded {
    Bounded { value: Some(value), low: Some(value * 0.9), high: Some(value * 1.1) }
}

fn at_one_speed() -> AtOneSpeed {
    AtOneSpeed {
        low_per_s: 24_790.0,
        estimate_per_s: 24_850.0,
        high_per_s: 24_910.0,
        piece_us: 80.0,
        moved: 0.034,
        slope: -2.0,
        explained: 0.89,
    }
}

/// A search over the load that has found everything it looks for.
fn limit_report() -> LimitReport {
    let answer = |estimate_per_s: f64, tested, trials| LimitAnswer {
        low_per_s: estimate_per_s * 0.99,
        estimate_per_s,
        high_per_s: estimate_per_s * 1.01,
        confidence: 0.95,
        tested: Some(tested),
        narrow: true,
        trials,
        seconds: 43.0,
        ..LimitAnswer::default()
    };
    let closed = |connections| TestedLoad { connections, rate_per_s: None };
    let open = TestedLoad { connections: 128, rate_per_s: Some(18_300.0) };
    let point = |load, good_per_s: f64, p50: f64| LoadPoint {
        load,
        trials: 2,
        good_per_s,
        p50_us: Some(p50),
        p90_us: Some(p50 * 2.0),
        p99_us: Some(p50 * 4.0),
        p999_us: Some(p50 * 8.0),
        cpu_us_per_request: [("lb".to_string(), 38.2), ("s1".to_string(), 18.0)].into(),
        ..LoadPoint::default()
    };
    LimitReport {
        verdict: LimitVerdict::Found,
        saturation: Some(answer(24_817.0, closed(128), 9)),
        at_one_speed: Some(at_one_speed()),
        within_slo: Some(answer(18_412.0, open, 17)),
        slo: vec!["p99<20ms".parse().expect("a threshold"), "errors<0.1%".parse().expect("a threshold")],
        binding: Some("p99<20ms".to_string()),
        curve: vec![
            point(closed(1), 2100.0, 430.0),
            point(closed(128), 24_817.0, 5100.0),
            point(open, 18_300.0, 2900.0),
        ],
        knee: Some(KneePoint { connections: 32.0, good_per_s: 21_000.0, low: Some(16.0), high: Some(32.0) }),
        usl: Some(UslFit {
            axis: "connections".to_string(),
            lambda: bounded(2100.0),
            sigma: bounded(0.03),
            kappa: bounded(0.0002),
            peak: bounded(70.0),
            tried_up_to: 128.0,
            extrapolated: vec![(256.0, bounded(20_000.0))],
        }),
        stable: Some(AxisAnswer {
            axis: "connections".to_string(),
            until: "no failure and no violent fluctuation".to_string(),
            holds_at: Some(720),
            fails_at: Some(768),
            confidence: 0.969,
            ..AxisAnswer::default()
        }),
        overload: Some(Overload {
            rate_per_s: 37_225.0,
            carried_per_s: 24_100.0,
            error_share: 0.012,
            after_per_s: vec![19_000.0, 19_100.0],
            before_low_per_s: 24_200.0,
            metastable: true,
        }),
        trials: 34,
        left_out: vec![LeftOut { trial: 7, reason: "throughput changed by -8.2 %".to_string() }],
        spent_s: 141.0,
        budget_s: 180.0,
        ..LimitReport::default()
    }
}

fn searched(limit: LimitReport) -> Run {
    let stack = "name = \"the shop\"\nentry = \"http://10.77.0.20/\"\n[host.client]\nrole = \"generator\"\n[host.lb]\ncalls = [\"s1\"]\n[host.s1]\n";
    Run { stack: Stack::parse("s", stack).expect("a stack"), limit: Some(limit), end: RunEnd::Done, ..Run::default() }
}

#[test]
fn a_search_shows_its_answers_and_its_curve() {
    check(
        &text::verdict(&searched(limit_report()), Style::Plain),
        expect![[r#"
            the shop carries 24,817 requests per second, and 18,412 within p99<20ms, errors<0.1%. After an
            overload it carries less than before: it is metastable.

              limit             24,817/s          24,569 to 25,065, 95 % confidence
                                                  confirmed at 128 connections, closed loop, 9 trials, 43 s
              limit within SLO  18,412/s          18,228 to 18,596, 95 % confidence
                                                  confirmed at 18,300 requests/s over 128 connections, open
                                                  loop, 17 trials, 43 s
              breaks first      p99<20ms
              at one speed      24,850/s (24,790 to 24,910): the machine's own speed moved by 3.4 % between
                                these trials, and 89 % of their spread went with it
              knee              at 32 connections, 21,000/s (16 to 32, 95 % interval)
              growth            over connections: serial share 3 % (2.7 % to 3.3 %), crosstalk 0.02 % (0.02 % to
                                0.02 %), most at 70 connections; with 256 connections: 18,000 to 22,000/s, if
                                nothing new appears
              stable            up to 720 connections; not at 768 (96.9 % confidence)
              overload          asked for 37,225/s, it carried 24,100/s with 1.2 % failed; afterwards only
                                19,000 and 19,100/s: metastable, it does not come back by itself (before, at
                                least 24,200/s)
              trials            34 in 141 s of 180 s
              left out          1 trials: trial 7: throughput changed by -8.2 %

            Load curve
                  load  good/s      p50      p90      p99    p99.9  failed   CPU lb  CPU s1  trials
                1 conn   2,100   430 us   860 us  1.72 ms  3.44 ms     0 %  38.2 us   18 us       2
              128 conn  24,817  5.10 ms  10.2 ms  20.4 ms  40.8 ms     0 %  38.2 us   18 us       2
              18,300/s  18,300  2.90 ms  5.80 ms  11.6 ms  23.2 ms     0 %  38.2 us   18 us       2
        "#]],
    );
}

#[test]
fn every_verdict_of_a_search_has_its_sentence() {
    let sentence = |limit: LimitReport| format!("{}\n", text::limit_sentence(&searched(limit)));
    let ended = |verdict| LimitReport { verdict, within_slo: None, usl: None, overload: None, ..limit_report() };
    let verdicts = [
        LimitVerdict::Found,
        LimitVerdict::Wide,
        LimitVerdict::NothingHolds,
        LimitVerdict::Unsteady,
        LimitVerdict::Died,
        LimitVerdict::Flapping,
        LimitVerdict::NothingServed,
        LimitVerdict::GeneratorLimited,
    ];
    let mut lines: String = verdicts.into_iter().map(|verdict| sentence(ended(verdict))).collect();
    let limited =
        LimitReport { saturation: None, at_least_per_s: Some(151_000.0), ..ended(LimitVerdict::GeneratorLimited) };
    lines += &sentence(limited);
    let axis = |rising, holds_at, fails_at| AxisAnswer {
        axis: "path-size".to_string(),
        until: "bandwidth>=95%".to_string(),
        rising,
        holds_at,
        fails_at,
        tried: vec![
            AxisPoint { value: 0, ..AxisPoint::default() },
            AxisPoint { value: 10_000, ..AxisPoint::default() },
        ],
        ..AxisAnswer::default()
    };
    for (rising, holds, fails) in [
        (true, Some(2590), Some(2500)),
        (false, Some(720), Some(768)),
        (true, Some(0), None),
        (true, None, Some(10_000)),
    ] {
        let verdict = if holds.is_some() { LimitVerdict::Found } else { LimitVerdict::NothingHolds };
        lines += &sentence(LimitReport { verdict, axis: Some(axis(rising, holds, fails)), ..LimitReport::default() });
    }
    expect![[r#"
        the shop carries 24,817 requests per second.
        the shop carries 24,817 requests per second. The budget ended before the interval was as narrow as asked for.
        the shop holds p99<20ms, errors<0.1% at no rate.
        The limit of the shop could not be told: 1 of 34 trials were not steady. Is other work on its hosts?
        the shop stopped answering in mid-search and did not come back.
        the shop stops answering and comes back, again and again: it has no limit that could be told.
        the shop answered no request well.
        the shop carries 24,817 requests per second. How much of it within p99<20ms, errors<0.1% could not be told: the generator was the limit.
        the shop carries at least 151,000 requests per second; the generator was the limit.
        bandwidth>=95% from path-size 2,590 on; at 2,500 it does not hold.
        bandwidth>=95% up to path-size 720; at 768 it does not hold.
        bandwidth>=95% everywhere in path-size 0 to 10,000.
        bandwidth>=95% holds nowhere in path-size 0 to 10,000.
    "#]].assert_eq(&lines);
}
