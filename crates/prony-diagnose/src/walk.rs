//! The way from the symptom to the cause, in the order in which an engineer reads: symptom, path, time split, the counters of the
//! guilty hop in a fixed order, what was looked at closely, the cause.
//!
//! It decides nothing: it shows what the checks saw, and what each step ruled out. Invariant: a step that could not be made stands
//! there with its gap; none is left out.

use crate::CAUSES;
use crate::cause::{Layer, concurrency_elasticity};
use crate::facts::{Hop, Reader};
use crate::split::{Held, Split};
use crate::verdict::figure;
use prony_model::diagnosis::WalkStep;
use prony_model::metric::{
    CONN_IN_BUSY, CPU_IOWAIT, DISK_BUSY, IF_RX_PACKETS, IF_TX_BYTES, IF_TX_PACKETS, LISTEN_QUEUE, PSI_IO_SOME,
    PSI_MEMORY_SOME, SOCK_TIME_WAIT, SPLIT_REQUESTS, TCP_ACTIVE_OPENS, TCP_PASSIVE_OPENS, TCP_RETRANSMITS,
};
use prony_model::{Diagnosis, Gap, Level, Run};

/// Six steps. `diagnosis` is the one that the walk leads to.
pub fn walk(run: &Run, diagnosis: &Diagnosis) -> Vec<WalkStep> {
    let path = Hop::path(run);
    let guilty = path.iter().copied().find(|h| h.name == diagnosis.verdict.hop).or_else(|| path.first().copied());
    let mut steps = vec![symptom(run), ways(&path), time_split(&path)];
    if let Some(hop) = guilty {
        steps.push(counters(&hop, diagnosis));
    }
    steps.push(closely(diagnosis));
    steps.push(cause(diagnosis));
    steps
}

fn step(name: &str, looked_at: impl Into<String>, said: Vec<String>) -> WalkStep {
    WalkStep { step: name.to_string(), looked_at: looked_at.into(), said, ruled_out: Vec::new() }
}

fn symptom(run: &Run) -> WalkStep {
    let levels = [(Level::Below, "below the knee"), (Level::At, "as written"), (Level::Beyond, "beyond it")];
    let line = |(level, name): &(Level, &str)| {
        let trial = run.level(*level)?;
        let (result, plan) = (&trial.result, &trial.plan);
        let load = plan.rate.map_or(format!("{} connections", plan.connections), |rate| format!("{rate} asked"));
        let errors = result.error_share();
        let failed = if errors > 0.0 { format!(", {:.2} % failed", 100.0 * errors) } else { String::new() };
        Some(format!(
            "{name} ({load}): {:.0} good requests/s, p50 {:.2} ms, p99 {:.2} ms{failed}",
            result.good_per_s,
            result.latency.p50_us / 1e3,
            result.latency.p99_us / 1e3
        ))
    };
    let mut said: Vec<String> = levels.iter().filter_map(line).collect();
    if let Some(growth) = Hop::path(run).first().and_then(concurrency_elasticity) {
        // Rounded before it is written, so that a hair below 0 is no -0.00.
        let growth = (growth * 100.0).round() / 100.0 + 0.0;
        said.push(format!("throughput grows with connections by an elasticity of {growth}: 0 is a limit, 1 is none"));
    }
    step("symptom", "the load curve", said)
}

fn ways(path: &[Hop<'_>]) -> WalkStep {
    let line = |hop: &Hop<'_>| {
        let callers = hop.run.stack.callers(hop.name);
        let from = if callers.is_empty() { "clients".to_string() } else { callers.join(", ") };
        match hop.at(Level::At).and_then(|at| at.requests()) {
            Ok(rate) => format!("{}: {rate:.0} requests/s from {from}", hop.name),
            Err(gap) => format!("{}: from {from}; {gap}", hop.name),
        }
    };
    let beside = path.first().map(|hop| hop.run.stack.beside_path()).unwrap_or_default();
    let beside = beside.into_iter().map(|name| format!("{name}: beside the path, a neighbour: nobody on it calls it"));
    step("path", "who calls whom, and how often", path.iter().map(line).chain(beside).collect())
}

/// Where requests in flight are is where their time goes (Little 1961, "A proof for the queuing formula L = lambda W").
fn time_split(path: &[Hop<'_>]) -> WalkStep {
    let held: Vec<(&Hop<'_>, Result<Held, Gap>)> = path.iter().map(|hop| (hop, hop.held())).collect();
    let timed = held.iter().filter(|(_, held)| held.as_ref().is_ok_and(|h| h.split.is_ok())).count();
    let looked_at = if timed == 0 {
        "where requests in flight are, by the times of their sockets"
    } else if timed == held.len() {
        "when requests reach and leave each host, timed in the kernel at its sockets"
    } else {
        "when requests reach and leave a host, timed in the kernel at its sockets; else where those in flight are"
    };
    let mut said: Vec<String> = held.iter().map(|(hop, held)| stays(hop, held)).collect();
    said.extend(if timed == held.len() { between(path, &held) } else { sockets_show(path) });
    step("time split", looked_at, said)
}

fn stays(hop: &Hop<'_>, held: &Result<Held, Gap>) -> String {
    let held = match held {
        Ok(held) => held,
        Err(gap) => return format!("{}: {gap}", hop.name),
    };
    let (name, own_ms, percent) = (hop.name, held.own_ms, 100.0 * held.share);
    match &held.split {
        Ok(split) => {
            format!("{name}: {own_ms:.2} ms of each request, {percent:.0} % of its time: {}", how_split(split))
        }
        Err(gap) => {
            // Without a deep look there is one gap for all hosts, told elsewhere.
            let reason = if hop.items(&SPLIT_REQUESTS).is_empty() { "" } else { &format!("; {}", gap.reason) };
            format!("{name}: {own_ms:.2} ms of each request, {percent:.0} % of what clients wait{reason}")
        }
    }
}

fn how_split(split: &Split) -> String {
    let ms = |us: f64| format!("{:.2} ms", us / 1e3);
    let less = match split.peers.is_empty() {
        true => String::new(),
        false => format!(", less {} at {}", ms(split.downstream_us), split.peers.join(", ")),
    };
    let (whole, timed) = (ms(split.residence_us), 100.0 * split.covered);
    match split.queue_us {
        Some(queue_us) => {
            format!("{whole} from arrival to answer ({} until it is read){less}; {timed:.0} % timed", ms(queue_us))
        }
        None => format!("{whole} by its access log{less}; {timed:.0} % of its lines tell"),
    }
}

/// What no host holds, where every host was timed.
fn between(path: &[Hop<'_>], held: &[(&Hop<'_>, Result<Held, Gap>)]) -> Option<String> {
    let entry = path.first()?;
    let whole_ms = Split::of(entry).ok()?.residence_us / 1e3;
    let hosts_ms: f64 = held.iter().filter_map(|(_, held)| held.as_ref().ok()).map(|held| held.own_ms).sum();
    let clients = entry.inspect().filter(|look| look.result.latency_actual.mean_us > 0.0);
    let clients = clients.map(|look| format!("; clients saw {:.2} ms", look.result.latency_actual.mean_us / 1e3));
    Some(format!(
        "of {whole_ms:.2} ms from arrival at {} to its answer, {:.2} ms are between these hosts{}",
        entry.name,
        (whole_ms - hosts_ms).max(0.0),
        clients.unwrap_or_default()
    ))
}

fn sockets_show(path: &[Hop<'_>]) -> Option<String> {
    let at = path.first()?.at(Level::At).ok()?;
    let (all, seen) = (at.in_flight().ok()?, at.sum(&CONN_IN_BUSY).ok()?);
    Some(format!(
        "sockets show {:.0} of {all:.0} requests in flight: {:.0} % covered, the rest is shorter than a tick of the kernel's clock, \
         or in the network and at the clients",
        seen.min(all),
        100.0 * (seen / all).min(1.0)
    ))
}

/// In a fixed order, so that nothing is skipped because something else looked guilty: CPU, memory, disk, network, connections.
fn counters(hop: &Hop<'_>, diagnosis: &Diagnosis) -> WalkStep {
    let mut said = vec![told(hop, "CPU", cpu)];
    let mut figures = |name: &str, list: &[(&str, &'static prony_model::Metric, f64)]| {
        let line = |(label, metric, scale): &(&str, &'static prony_model::Metric, f64)| {
            let at = hop.at(Level::At).and_then(|at| at.sum(metric)).ok()?;
            Some(format!("{label} {}", figure(at * scale)))
        };
        let figures: Vec<String> = list.iter().filter_map(line).collect();
        let text = if figures.is_empty() { "not read".to_string() } else { figures.join(", ") };
        said.push(format!("{name}: {text}"));
    };
    figures("memory", &[("waits for memory, % of time", &PSI_MEMORY_SOME, 100.0)]);
    figures(
        "disk",
        &[("waits for disks, % of time", &PSI_IO_SOME, 100.0), ("disks busy, % of time", &DISK_BUSY, 100.0)],
    );
    figures(
        "network",
        &[
            ("Mbit/s out", &IF_TX_BYTES, 8e-6),
            ("packets/s in", &IF_RX_PACKETS, 1.0),
            ("out", &IF_TX_PACKETS, 1.0),
            ("segments/s sent again", &TCP_RETRANSMITS, 1.0),
        ],
    );
    figures(
        "connections",
        &[
            ("accepted/s", &TCP_PASSIVE_OPENS, 1.0),
            ("opened/s", &TCP_ACTIVE_OPENS, 1.0),
            ("waiting to be accepted", &LISTEN_QUEUE, 1.0),
            ("in TIME_WAIT", &SOCK_TIME_WAIT, 1.0),
        ],
    );
    let layers = [Layer::Cpu, Layer::Logs, Layer::Network, Layer::Connections, Layer::Upstream];
    let of = |layer: &Layer| {
        let ids = CAUSES.iter().filter(|c| c.layer == *layer).map(|c| c.id);
        ids.filter(|id| diagnosis.excluded.iter().any(|e| e.cause == *id)).map(str::to_string).collect::<Vec<_>>()
    };
    let ruled_out = layers.iter().flat_map(of).collect();
    WalkStep { ruled_out, ..step("counters", format!("every counter of {}, in a fixed order", hop.name), said) }
}

fn told(hop: &Hop<'_>, name: &str, read: impl Fn(&Reader<'_>) -> Result<String, Gap>) -> String {
    let calm = hop.at(Level::Below).and_then(|r| read(&r)).map(|calm| format!("; calm: {calm}")).unwrap_or_default();
    match hop.at(Level::At).and_then(|r| read(&r)) {
        Ok(text) => format!("{name}: {text}{calm}"),
        Err(gap) => format!("{name}: {gap}"),
    }
}

/// As `top` has it, of the CPUs that the hop may use.
fn cpu(at: &Reader<'_>) -> Result<String, Gap> {
    let time = at.cpu()?;
    let share = |cpus: f64| 100.0 * cpus / time.total().max(f64::MIN_POSITIVE);
    let cpus = at.hop.cpus()?;
    let waiting = cpus.iter().filter_map(|cpu| at.one(&CPU_IOWAIT, &cpu.to_string()).ok());
    let waiting = waiting.fold(0.0, |sum, cpus| sum + cpus);
    Ok(format!(
        "us {:.0}, sy {:.0}, si {:.0}, st {:.0}, wa {:.0}, id {:.0} %",
        share(time.user),
        share(time.system),
        share(time.interrupts),
        share(time.steal),
        share(waiting),
        share((time.idle - waiting).max(0.0))
    ))
}

fn closely(diagnosis: &Diagnosis) -> WalkStep {
    let said = diagnosis.evidence.iter().map(|e| {
        let calm = e.baseline.map_or(String::new(), |b| format!(", calm {}", figure(b)));
        let unit = if e.unit.is_empty() { String::new() } else { format!(" {}", e.unit) };
        format!("{}: {} of {} is {}{unit}{calm}", e.claim, e.metric, e.host, figure(e.value))
    });
    let said: Vec<String> = said.collect();
    let none = || vec!["nothing stood out".to_string()];
    step("closely", "what the counters pointed at", if said.is_empty() { none() } else { said })
}

fn cause(diagnosis: &Diagnosis) -> WalkStep {
    let mut said = vec![diagnosis.verdict.summary.clone()];
    let also =
        diagnosis.candidates.iter().filter(|c| c.cause != diagnosis.verdict.cause || c.hop != diagnosis.verdict.hop);
    said.extend(also.map(|c| format!("also at work: {} at {}, {:.0} %", c.cause, c.hop, 100.0 * c.score)));
    step("cause", "what explains most", said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose;
    use crate::testing::Lab;
    use prony_model::metric::{
        SPLIT_CALLS, SPLIT_CALLS_TIMED, SPLIT_QUEUE, SPLIT_RESIDENCE, SPLIT_TIMED, SPLIT_UPSTREAM,
    };

    #[test]
    fn the_walk_has_every_step_and_its_figures() {
        let run = Lab::healthy().run();
        let steps = walk(&run, &diagnose(&run));
        let names: Vec<&str> = steps.iter().map(|s| s.step.as_str()).collect();
        assert_eq!(names, ["symptom", "path", "time split", "counters", "closely", "cause"]);
        assert!(steps[0].said[1].contains("15300 good requests/s"), "{:?}", steps[0].said);
        assert_eq!(steps[1].said[0], "lb: 15300 requests/s from clients");
        assert!(steps[2].said[0].starts_with("lb: 3.79 ms of each request, 91 %"), "{:?}", steps[2].said);
        assert!(
            steps[2].said[3].contains("sockets show 60 of 64 requests in flight: 94 % covered"),
            "{:?}",
            steps[2].said
        );
        assert!(
            steps[3].said[0].starts_with("CPU: us 35, sy 35, si 27, st 0, wa 0, id 3 %; calm:"),
            "{:?}",
            steps[3].said
        );
        assert!(steps[3].ruled_out.contains(&"cpu-quota-throttled".to_string()), "{:?}", steps[3].ruled_out);
    }

    /// What the deep look times at a host: milliseconds from arrival to answer, and of waiting for a peer.
    fn split(lab: Lab, host: &str, residence_ms: f64, call: Option<(&str, f64, f64)>) -> Lab {
        let lab = lab
            .gauge(host, &SPLIT_REQUESTS, "80", 2_000.0)
            .gauge(host, &SPLIT_TIMED, "80", 0.99)
            .gauge(host, &SPLIT_QUEUE, "80", 50.0)
            .gauge(host, &SPLIT_RESIDENCE, "80", residence_ms * 1e3);
        let Some((peer, per_request, ms)) = call else { return lab };
        lab.gauge(host, &SPLIT_CALLS, peer, 2_000.0 * per_request).gauge(host, &SPLIT_CALLS_TIMED, peer, 1.0).gauge(
            host,
            &SPLIT_UPSTREAM,
            peer,
            ms * 1e3,
        )
    }

    #[test]
    fn times_of_the_deep_look_come_first() {
        let lab = split(Lab::chain(), "gw", 31.0, Some(("10.77.0.40:80", 1.0, 30.5)));
        let some = split(lab, "app", 30.2, Some(("10.77.0.30:5432", 2.0, 3.0)));
        let step = |lab: &Lab| walk(&lab.run(), &Diagnosis::default()).swap_remove(2);
        assert!(step(&some).looked_at.contains("else where those in flight are"), "the database was not timed");
        let muddled = split(some.clone(), "db", 2.8, None).gauge("db", &SPLIT_TIMED, "80", 0.2);
        let db = &step(&muddled).said[2];
        assert!(db.contains("of what clients wait; only 20 % of the requests at 80 could be timed"), "{db}");
        let all = step(&split(some, "db", 2.8, None));
        assert_eq!(all.looked_at, "when requests reach and leave each host, timed in the kernel at its sockets");
        expect_test::expect![[r#"
            gw: 0.50 ms of each request, 2 % of its time: 31.00 ms from arrival to answer (0.05 ms until it is read), less 30.50 ms at 10.77.0.40:80; 99 % timed
            app: 24.20 ms of each request, 78 % of its time: 30.20 ms from arrival to answer (0.05 ms until it is read), less 6.00 ms at 10.77.0.30:5432; 99 % timed
            db: 5.60 ms of each request, 18 % of its time: 2.80 ms from arrival to answer (0.05 ms until it is read); 99 % timed
            of 31.00 ms from arrival at gw to its answer, 0.70 ms are between these hosts; clients saw 32.00 ms"#]]
        .assert_eq(&all.said.join("\n"));
    }

    #[test]
    fn what_was_not_read_stands_as_a_gap() {
        let run =
            Lab::healthy().without("s1", &CONN_IN_BUSY).without("lb", &prony_model::metric::CONN_OUT_WAITING).run();
        let steps = walk(&run, &diagnose(&run));
        assert!(steps[2].said[1].starts_with("s1: conn.in_busy"), "{:?}", steps[2].said);
        let nothing = walk(&Run::default(), &Diagnosis::default());
        assert_eq!(nothing.len(), 5, "without a path there are no counters to read: {nothing:?}");
    }
}
