//! What a cause is: an id, a check on one hop, and a page of documentation that is the head of its own file.
//!
//! No cause stands here. Invariant: a check returns a finding, the fact that rules it out, or the gap that keeps it
//! open.

use crate::facts::{Fact, Hop};
use crate::sessions::carries_a_rate;
use prony_model::diagnosis::Remedy;
use prony_model::{Evidence, EvidenceVerdict, Gap, InterventionKind, Level, Run};

/// Part of the system that a cause lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Log files and disks.
    Logs,
    /// Connections, ports and kernel tables.
    Connections,
    /// Interfaces, queues, soft interrupts.
    Network,
    /// CPU time and who gets it.
    Cpu,
    /// A server or what it waits for.
    Upstream,
    /// The test itself.
    Rig,
}

/// Whether something is wrong, or something is simply full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something to mend.
    Fault,
    /// The honest end of a healthy stack: it stands only when no fault does.
    HonestLimit,
}

/// Where a cause is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// At every host that serves requests.
    Serving,
    /// At the host that sends the load.
    Generator,
}

/// A named bottleneck. One file each, one line in [`crate::CAUSES`].
pub struct Cause {
    /// Its name in verdicts, files and pages.
    pub id: &'static str,
    /// Where it lives.
    pub layer: Layer,
    /// What a person calls it.
    pub title: &'static str,
    /// Fault or honest limit.
    pub kind: Kind,
    /// Where it is looked for.
    pub scope: Scope,
    pub(crate) check: fn(&Hop<'_>) -> Result<Judgement, Gap>,
    pub(crate) source: &'static str,
}

/// What one check said at one host, whatever stands in the end: to see where thresholds lie.
#[derive(Clone, Debug)]
pub struct Check {
    /// Which cause.
    pub cause: &'static Cause,
    /// At which host.
    pub hop: String,
    /// Whether it fires.
    pub fires: bool,
    /// The fact that its threshold was held against.
    pub evidence: Evidence,
}

/// Every cause at every host of a run; those whose facts were not read are left out.
pub fn checks(run: &Run) -> Vec<Check> {
    let at = |cause: &'static Cause| {
        cause.hops(run).into_iter().filter_map(move |hop| {
            let (fires, evidence) = match (cause.check)(&hop).ok()? {
                Judgement::Fires(finding) => (true, finding.evidence.into_iter().next()?),
                Judgement::Silent(evidence) => (false, evidence),
            };
            Some(Check { cause, hop: hop.name.to_string(), fires, evidence })
        })
    };
    crate::CAUSES.iter().copied().flat_map(at).collect()
}

impl Cause {
    /// The hosts of a run that it is looked for at.
    pub(crate) fn hops<'a>(&self, run: &'a Run) -> Vec<Hop<'a>> {
        match self.scope {
            Scope::Serving => Hop::path(run),
            Scope::Generator => Hop::generator(run).into_iter().collect(),
        }
    }

    /// Its documentation in Markdown: the head of its file.
    pub fn page(&self) -> String {
        let lines = self.source.lines().map_while(|line| line.strip_prefix("//!"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }
}

impl std::fmt::Debug for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

/// What a check concludes about one hop.
pub enum Judgement {
    /// The cause is at work.
    Fires(Box<Finding>),
    /// It is not; the fact says why.
    Silent(Evidence),
}

/// How a finding can be tested by making things worse, or by removing it.
#[derive(Clone, Debug, PartialEq)]
pub enum Dose {
    /// The hop's CPU is made slower: throughput follows.
    Cpu,
    /// The CPU of another host, which pays for what this one does, is made slower: throughput follows.
    CpuOf(String),
    /// An interface of the hop is made slower: throughput follows.
    Link {
        /// Its name inside the host.
        interface: String,
        /// What passes now.
        bits_per_s: f64,
    },
    /// More connections: throughput follows when requests only wait.
    Concurrency,
    /// More connections: throughput stands still, because requests already queue for something that is all in use.
    Queue,
    /// The first remedy's knob is turned: throughput rises by what was predicted.
    Removal,
    /// The knobs of all remedies are turned together, because each alone only puts off what the others mend.
    RemovalByAll,
    /// Clients keep their connections, which the workload does not ask for: throughput rises by what was predicted.
    KeepAlive,
    /// Nothing can be turned; the sentence says why.
    Untestable(&'static str),
}

impl Dose {
    /// The host whose CPU a finding at `hop` turns on, if it turns on one.
    pub fn cpu_host<'h>(&'h self, hop: &Hop<'h>) -> Option<&'h str> {
        match self {
            Dose::Cpu => Some(hop.name),
            Dose::CpuOf(host) => Some(host),
            Dose::Link { .. }
            | Dose::Concurrency
            | Dose::Queue
            | Dose::Removal
            | Dose::RemovalByAll
            | Dose::KeepAlive
            | Dose::Untestable(_) => None,
        }
    }

    /// The host that a test of a finding at `hop` makes slower.
    pub fn tested_host<'h>(&'h self, hop: &Hop<'h>) -> &'h str {
        self.cpu_host(hop).unwrap_or(hop.name)
    }

    /// Whether an intervention of this kind tests a finding with this dose.
    pub fn is_tested_by(&self, what: &InterventionKind) -> bool {
        match what {
            InterventionKind::Cpu => matches!(self, Dose::Cpu | Dose::CpuOf(_)),
            InterventionKind::LinkRate { interface: slowed, .. } => {
                matches!(self, Dose::Link { interface, .. } if interface == slowed)
            }
            InterventionKind::Concurrency | InterventionKind::LowerRate => {
                matches!(self, Dose::Concurrency | Dose::Queue)
            }
            // It asks whether anything limits at all.
            InterventionKind::Rate | InterventionKind::Placebo => false,
            InterventionKind::Removal { .. } => matches!(self, Dose::Removal | Dose::RemovalByAll),
            InterventionKind::KeepAlive => matches!(self, Dose::KeepAlive),
        }
    }
}

/// A cause at work at one hop.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Share of request time, or of the capacity that limits, which it explains: 0 to 1.
    pub score: f64,
    /// The fact that carries it; its rise with the load is the order test.
    pub key: Fact,
    /// The chain of evidence, the deviation from its threshold first.
    pub evidence: Vec<Evidence>,
    /// What mends it, the best first.
    pub remedies: Vec<Remedy>,
    /// Predicted relative gain in throughput.
    pub gain: Option<f64>,
    /// How to test it.
    pub dose: Dose,
    /// One sentence for a person.
    pub summary: String,
    /// Siblings behind one caller share the wait: their scores add up.
    pub adds_up: bool,
    /// The siblings whose scores were added.
    pub with: Vec<String>,
    /// It tells where time passes, and not why: a fault of the same host that does goes first.
    pub only_where: bool,
    /// What would show the same, and could not be seen: with it in the dark nobody can be sure.
    pub lookalike: Option<&'static str>,
}

impl Finding {
    /// A finding whose deviation is `key` against `border`; the rest is filled in by the methods below.
    pub fn new(key: Fact, border: f64, origin: &str, claim: &str, score: f64) -> Self {
        let evidence = vec![key.evidence(claim, Some(border), origin, EvidenceVerdict::Supports)];
        Self {
            score: if score.is_finite() { score.clamp(0.0, 1.0) } else { 0.0 },
            key,
            evidence,
            remedies: Vec::new(),
            gain: None,
            dose: Dose::Cpu,
            summary: claim.to_string(),
            adds_up: false,
            with: Vec::new(),
            only_where: false,
            lookalike: None,
        }
    }

    /// Adds a fact that supports it, if it was read.
    pub fn and(mut self, fact: Result<Fact, Gap>, claim: &str) -> Self {
        if let Ok(fact) = fact {
            self.evidence.push(fact.evidence(claim, None, "plain fact", EvidenceVerdict::Supports));
        }
        self
    }

    /// Adds a way to mend it.
    pub fn mend(mut self, advice: impl Into<String>, knob: Option<prony_model::Knob>) -> Self {
        self.remedies.push(Remedy { advice: advice.into(), knob });
        self
    }

    /// Names the fact that must rise with the load, when the deviation itself is a ratio that stays the same.
    pub fn rising(mut self, key: Result<Fact, Gap>) -> Self {
        if let Ok(key) = key {
            self.key = key;
        }
        self
    }

    /// Sets how it is tested.
    pub fn tested_by(mut self, dose: Dose) -> Self {
        self.dose = dose;
        self
    }

    /// Sets the predicted gain.
    pub fn gaining(mut self, gain: Option<f64>) -> Self {
        self.gain = gain;
        self
    }

    /// Names what would show the same and was not seen.
    pub fn beside_unseen(mut self, lookalike: Option<&'static str>) -> Self {
        self.lookalike = lookalike;
        self
    }

    /// Its judgement.
    pub fn fires(self) -> Result<Judgement, Gap> {
        Ok(Judgement::Fires(Box::new(self)))
    }
}

/// The judgement that a fact rules the cause out.
pub fn ruled_out(fact: &Fact, border: f64, origin: &str, claim: &str) -> Result<Judgement, Gap> {
    Ok(Judgement::Silent(fact.evidence(claim, Some(border), origin, EvidenceVerdict::Refutes)))
}

/// The judgement that a cause cannot be at work at this hop at all.
pub fn does_not_apply(hop: &Hop<'_>, claim: &str) -> Result<Judgement, Gap> {
    Ok(Judgement::Silent(Evidence {
        claim: claim.to_string(),
        metric: "stack".to_string(),
        host: hop.name.to_string(),
        value: 0.0,
        unit: String::new(),
        baseline: None,
        threshold: None,
        origin: "stack file".to_string(),
        verdict: EvidenceVerdict::Refutes,
    }))
}

/// A knob of a hop.
pub fn knob(hop: &Hop<'_>, id: prony_model::KnobId, value: impl Into<String>) -> Option<prony_model::Knob> {
    Some(prony_model::Knob { host: hop.name.to_string(), id, value: value.into() })
}

/// A knob of a hop where nginx runs; none where it does not.
pub fn nginx_knob(hop: &Hop<'_>, id: prony_model::KnobId, value: impl Into<String>) -> Option<prony_model::Knob> {
    let is_nginx = hop.host().is_some_and(|host| host.software == Some(prony_model::Software::Nginx));
    is_nginx.then(|| knob(hop, id, value)).flatten()
}

/// By its first remedy where prony has a knob for it, else by another dose.
pub fn removal_or(remedy: Option<&prony_model::Knob>, other: Dose) -> Dose {
    if remedy.is_some() { Dose::Removal } else { other }
}

/// By its remedy, a setting that the machine has only once: from within a network namespace it cannot be turned, and `why` says so.
pub fn removal_by_machine(hop: &Hop<'_>, why: &'static str) -> Dose {
    let is_within = hop.host().is_some_and(|host| matches!(host.at, prony_model::Place::Netns(_)));
    if is_within { Dose::Untestable(why) } else { Dose::Removal }
}

/// By less CPU where the hop's CPUs are full; elsewhere it cannot be tested, and `why` says so.
pub fn cpu_or(hop: &Hop<'_>, why: &'static str) -> Result<Dose, Gap> {
    Ok(if cpu_is_full(hop)? { Dose::Cpu } else { Dose::Untestable(why) })
}

/// By less CPU what is work of the hop's CPUs: where they are full throughput tells, at a rate that is carried the time of requests.
/// Elsewhere it cannot be tested, and `why` says so.
pub fn cpu_work_or(hop: &Hop<'_>, why: &'static str) -> Result<Dose, Gap> {
    if carries_a_rate(hop) { Ok(Dose::Cpu) } else { cpu_or(hop, why) }
}

/// From which busy share on CPUs count as full: [ND] warns at 85 %.
pub const FULL_CPU: f64 = 0.85;
/// The same when more connections bring no more throughput. A guess: virtual CPUs lose time that no counter shows.
pub const FULL_CPU_WHEN_FLAT: f64 = 0.70;
/// Origin of [`FULL_CPU`].
pub const FULL_CPU_ORIGIN: &str = "cited: netdata health.d/cpu.conf warns at 85 %";
/// Below this elasticity of throughput to connections, throughput counts as flat. A guess.
pub const FLAT: f64 = 0.2;

/// How far throughput must lie apart for the cost of one more request to be told. A guess: CPU time is known to a few percent.
const APART: f64 = 1.3;
/// What one more request costs at least of what one costs in the mean. A guess: idle CPUs wake up for each, busy ones do not.
const LEAST_GROWTH: f64 = 0.5;
/// What a request costs on full CPUs, of what it costs on idle ones, which wake up for each. Measured: where a wait of servers, of a pool
/// and of lost packets was mended, throughput rose 2.0, 1.7 and 1.3 times as far as the cost on CPUs that were 6, 25 and 30 % busy told
/// (docs/diagnosis-score.md, two machines).
const COST_WHEN_FULL: f64 = 0.6;

/// Elasticity of throughput to connections, at equal speed of the machine; none in open loop. Of pairs with more of them, where their
/// interval lies on one side of [`FLAT`]; else between the levels at and beyond, one trial each.
pub fn concurrency_elasticity(hop: &Hop<'_>) -> Option<f64> {
    growth_between_levels(hop).map(|growth| growth_in_pairs(hop.run).unwrap_or(growth))
}

fn growth_in_pairs(run: &Run) -> Option<f64> {
    let pairs = run.interventions.iter().rev().find(|i| i.what == InterventionKind::Concurrency)?;
    let (low, high) = (pairs.low?, pairs.high?);
    pairs.elasticity.filter(|_| low >= FLAT || high < FLAT)
}

fn growth_between_levels(hop: &Hop<'_>) -> Option<f64> {
    let (at, beyond) = (hop.at(Level::At).ok()?, hop.at(Level::Beyond).ok()?);
    if at.trial.plan.rate.is_some() || beyond.trial.plan.rate.is_some() {
        return None;
    }
    let more = f64::from(beyond.trial.plan.connections) / f64::from(at.trial.plan.connections);
    if at.trial.result.completed == 0 && beyond.trial.result.completed == 0 {
        // More that clients give up is no more that is carried.
        return (more > 1.0).then_some(0.0);
    }
    let gain = beyond.throughput().ok()? / at.throughput().ok()? * slower_beyond(hop).unwrap_or(1.0);
    (more > 1.0).then(|| gain.ln() / more.ln())
}

/// How much longer the fullest CPUs of the path took for a piece of work beyond the limit than at it: throughput of full CPUs goes with
/// their speed, which shared machines change from trial to trial. None where no CPUs are full, so that throughput goes by something else.
fn slower_beyond(hop: &Hop<'_>) -> Option<f64> {
    let busy = |h: &Hop<'_>| h.at(Level::At).and_then(|r| r.cpu()).map_or(0.0, |cpu| cpu.busy_share());
    let full = Hop::path(hop.run).into_iter().filter(|h| busy(h) >= FULL_CPU);
    let fullest = full.max_by(|a, b| busy(a).total_cmp(&busy(b)))?;
    let piece_us = |level| hop.run.piece_us(fullest.name, hop.run.level(level)?.window);
    Some(piece_us(Level::Beyond)? / piece_us(Level::At)?)
}

/// Whether the hop's CPUs are full at the level `at`, by their counters, or because throughput followed when they were slowed.
/// Where it stood still instead, CPUs that are nearly full have room.
pub fn cpu_is_full(hop: &Hop<'_>) -> Result<bool, Gap> {
    let busy = hop.at(Level::At)?.cpu()?.busy_share();
    if crate::grounding::follows_cpu_of(hop) {
        return Ok(true);
    }
    let flat = concurrency_elasticity(hop).is_some_and(|e| e < FLAT);
    let nearly = flat && busy >= FULL_CPU_WHEN_FLAT && !crate::grounding::stands_still_without_cpu_of(hop);
    Ok(busy >= FULL_CPU || nearly)
}

/// Share of what limits that CPU work explains. With full CPUs: its share of their capacity, less the time that
/// requests stand still in timers. With idle CPUs: its share of the response time.
pub fn work_share(hop: &Hop<'_>, cost_us_per_request: f64) -> Result<f64, Gap> {
    let at = hop.at(Level::At)?;
    let cpus_used = cost_us_per_request * at.requests()? / 1e6;
    let share = if cpu_is_full(hop)? {
        cpus_used / at.cpu()?.total() * (1.0 - at.stalled_share())
    } else {
        cpus_used / at.in_flight()?
    };
    Ok(share.clamp(0.0, 1.0))
}

/// Of the hosts that share CPUs with the hop, the generator among them, the one that uses most; itself when that is it, or not known.
pub fn greatest_user<'a>(hop: &Hop<'a>) -> Hop<'a> {
    let own = |h: &Hop<'_>| h.at(Level::At).and_then(|r| r.own_cpu()).unwrap_or(0.0);
    let more = hosts_of(hop).filter(|o| o.name != hop.name && o.shares_cpu_with(hop) && own(o) > own(hop));
    more.max_by(|a, b| own(a).total_cmp(&own(b))).unwrap_or(*hop)
}

/// How much throughput could rise until CPUs elsewhere are full: the least room of hosts that share no CPU with `hop`, the
/// generator's included. None when no other CPU was read.
pub fn gain_until_next_limit(hop: &Hop<'_>) -> Option<f64> {
    hosts_of(hop).filter(|other| !other.shares_cpu_with(hop)).filter_map(|other| room_of(&other)).reduce(f64::min)
}

/// What ends the gain of mending a wait: the room on CPUs. At a rate that is carried nothing does, for it is requests that take less
/// time, and no more of them.
pub fn gain_until_full(hop: &Hop<'_>) -> Option<f64> {
    if carries_a_rate(hop) { Some(f64::INFINITY) } else { room_until_full(hop) }
}

/// How much throughput could rise until any CPU on the path, the hop's own included, is full, once what makes requests wait is mended:
/// the busier CPUs are, the less a request costs them.
pub fn room_until_full(hop: &Hop<'_>) -> Option<f64> {
    let room_when_busy = |other: Hop<'_>| {
        let busy = other.at(Level::At).ok()?.cpu().ok()?.busy_share();
        Some(room_of(&other)? / (busy + COST_WHEN_FULL * (1.0 - busy)))
    };
    hosts_of(hop).filter_map(room_when_busy).reduce(f64::min)
}

/// All hosts of the stack that serve, and the generator.
pub fn hosts_of<'a>(hop: &Hop<'a>) -> impl Iterator<Item = Hop<'a>> + use<'a> {
    Hop::path(hop.run).into_iter().chain(Hop::generator(hop.run))
}

/// How much throughput could rise until the hop's CPUs are full: what is free of them, by what one more request costs.
/// The utilisation law (Denning, Buzen 1978) with the hypervisor's part left out; work that gives way (nice) is free.
fn room_of(hop: &Hop<'_>) -> Option<f64> {
    let at = hop.at(Level::At).ok()?;
    let (x, cpu) = (at.throughput().ok()?, at.cpu().ok()?);
    let wanted = cpu.demand() + cpu.nice + cpu.steal;
    let capacity = cpu.total() * (1.0 - cpu.steal / wanted.max(f64::MIN_POSITIVE));
    let (demand, least) = (cpu.demand(), LEAST_GROWTH * cpu.demand());
    let growth = cost_of_one_more(hop).map_or(demand, |cost| (cost * x).clamp(least, demand));
    Some(((capacity - demand) / growth.max(0.01 * cpu.total())).max(0.0))
}

/// CPU seconds that one more request costs the hop's CPUs, between the levels with the least and the most throughput: what they do
/// anyway is not counted. None where throughput hardly differs.
fn cost_of_one_more(hop: &Hop<'_>) -> Option<f64> {
    let at = |level| {
        let at = hop.at(level).ok()?;
        Some((at.throughput().ok()?, at.cpu().ok()?.demand()))
    };
    let levels: Vec<(f64, f64)> = [Level::Below, Level::At, Level::Beyond].into_iter().filter_map(at).collect();
    let least = levels.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let most = levels.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    (most.0 >= APART * least.0).then(|| (most.1 - least.1) / (most.0 - least.0))
}

/// Gain from freeing a share of what limits: 1 / (1 - share) - 1, up to `cap`. Shares above 95 % are not believed.
pub fn gain_of_share(share: f64, cap: Option<f64>) -> f64 {
    let free = 1.0 / (1.0 - share.clamp(0.0, 0.95)) - 1.0;
    free.min(cap.unwrap_or(f64::INFINITY))
}

/// Predicted gain from freeing CPU work or waiting time at a hop.
pub fn predicted_gain(hop: &Hop<'_>, share: f64) -> Option<f64> {
    let full = cpu_is_full(hop).ok()?;
    Some(gain_of_share(share, if full { gain_until_next_limit(hop) } else { gain_until_full(hop) }))
}

/// Gain from freeing a share of a hop's full CPUs, where hosts on other CPUs are relieved of the same work: up to where those are full.
/// `freed` tells how many CPUs each host is freed of.
pub fn gain_with_relief(hop: &Hop<'_>, share: f64, freed: impl Fn(&Hop<'_>) -> Option<f64>) -> f64 {
    let room = |other: Hop<'_>| {
        let cpu = other.at(Level::At).ok()?.cpu().ok()?;
        let relief: f64 = hosts_of(hop).filter(|o| o.shares_cpu_with(&other)).filter_map(|o| freed(&o)).sum();
        let busy = (cpu.total() - cpu.idle - relief).max(0.01 * cpu.total());
        Some(cpu.total() / busy - 1.0)
    };
    let elsewhere = hosts_of(hop).filter(|other| !other.shares_cpu_with(hop));
    gain_of_share(share, elsewhere.filter_map(room).reduce(f64::min))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;
    use prony_model::Intervention;
    use prony_model::metric::{YARDSTICK_PIECES, YARDSTICK_TIME};

    #[test]
    fn a_machine_that_turns_faster_makes_no_room_for_more_connections() {
        let lab = Lab { x: [6_000.0, 12_000.0, 14_400.0], ..Lab::healthy().throughput(12_000.0) };
        let elasticity = |lab: &Lab| concurrency_elasticity(&Hop { run: &lab.run(), name: "s1" }).unwrap();
        assert!((elasticity(&lab) - 1.2f64.log2()).abs() < 1e-9, "not known how fast it was");
        let faster = lab.levels("lb", &YARDSTICK_PIECES, "0", [40.0, 40.0, 40.0]).levels(
            "lb",
            &YARDSTICK_TIME,
            "0",
            [60e-6 * 40.0, 60e-6 * 40.0, 50e-6 * 40.0],
        );
        assert!(elasticity(&faster).abs() < 1e-9, "1.2 times as fast, and as many requests: {}", elasticity(&faster));
        let idle = faster.cpu("0", 0.4, 0.2, 0.1).cpu("1", 0.4, 0.2, 0.1);
        assert!((elasticity(&idle) - 1.2f64.log2()).abs() < 1e-9, "a wait goes by no CPU's speed");
    }

    #[test]
    fn what_more_clients_give_up_is_no_growth() {
        let mut run = Lab { x: [6_000.0, 12_000.0, 24_000.0], ..Lab::healthy().throughput(12_000.0) }.run();
        for trial in &mut run.trials {
            (trial.result.errors.timeout, trial.result.completed) = (trial.result.completed, 0);
        }
        assert_eq!(concurrency_elasticity(&Hop { run: &run, name: "s1" }), Some(0.0));
    }

    #[test]
    fn pairs_with_more_connections_tell_growth_where_they_are_sure() {
        let growth = |elasticity: f64, low: f64, high: f64| {
            let mut run = Lab { x: [6_000.0, 12_000.0, 14_400.0], ..Lab::healthy().throughput(12_000.0) }.run();
            let mut pairs = Intervention::planned("", InterventionKind::Concurrency, false, 1.0);
            (pairs.elasticity, pairs.low, pairs.high) = (Some(elasticity), Some(low), Some(high));
            run.interventions = vec![pairs];
            concurrency_elasticity(&Hop { run: &run, name: "s1" }).unwrap()
        };
        let between_levels = 1.2f64.log2();
        assert_eq!(growth(0.02, -0.05, 0.09), 0.02, "flat for sure");
        assert_eq!(growth(0.9, 0.7, 1.1), 0.9, "growing for sure");
        assert!((growth(0.5, -0.25, 1.31) - between_levels).abs() < 1e-9, "they do not know");
    }

    #[test]
    fn gains_end_at_the_next_limit() {
        assert_eq!(gain_of_share(0.5, None), 1.0);
        assert_eq!(gain_of_share(0.5, Some(0.2)), 0.2);
        let run = Lab::healthy().run();
        let lb = Hop { run: &run, name: "lb" };
        let room = gain_until_next_limit(&lb).unwrap();
        assert!((1.0..1.03).contains(&room), "CPU 1 is half idle, and some of its work comes with no request: {room}");
        assert!(gain_until_full(&lb).unwrap() < 0.04, "CPU 0 is full");
        assert!(concurrency_elasticity(&lb).unwrap() < FLAT);
    }
}
