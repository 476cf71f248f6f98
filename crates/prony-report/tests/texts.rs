//! Texts as snapshots. `UPDATE_EXPECT=1 cargo test -p prony-report` writes them anew; read the difference.

mod sample;

use expect_test::{Expect, expect, expect_file};
use prony_model::load::ErrorCounts;
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
          confidence      high               grounded: 4 of 4 tests agree

        Grounded
          yes  It is on the path: lb calls s1 and s2 for every request of the workload
          yes  It departs from the calm load: the CPU of lb goes from 49 % below the knee to 97 % at the
               limit
          yes  It comes before the limit: the CPU of lb fills before the latency of the path rises
          yes  The limit follows it when it is changed: 20 % less CPU for lb costs 21 % throughput; 20 %
               less for s1 costs nothing

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

        Ruled out
          - access-log-lock: 0 of 400 looks found a worker of lb waiting for a file lock
          - access-log-unbuffered: 0.004 write() calls per request at lb; 1 would be unbuffered
          - accept-queue-full: 0 overflows of the accept queue at lb, s1 and s2
          - bandwidth-bound: lb sends 147 Mbit/s; no queue discipline has a rate
          - and packet-loss, cpu-quota-throttled, generator-saturated; reasons in the report

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
