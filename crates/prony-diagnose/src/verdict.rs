//! Which cause stands: checks every cause at every hop, ranks what fires, follows the interventions, and says what was
//! ruled out.
//!
//! It knows no cause by name. Invariant: a fault that explains something outranks an honest limit; a finding that an intervention
//! contradicts does not stand.

use crate::CAUSES;
use crate::cause::{
    Cause, FLAT, FULL_CPU, FULL_CPU_ORIGIN, Finding, Judgement, Kind, concurrency_elasticity, cpu_is_full,
    gain_of_share, gain_until_full, greatest_user, room_until_full,
};
use crate::facts::{Fact, Hop};
use crate::grounding::{self, Gain, Response, Seen, response};
use crate::sessions::{self, is_cpu_bound};
use crate::walk::walk;
use prony_model::diagnosis::{GroundingTest, Remedy, SCHEMA, told_change};
use prony_model::metric::TCP_IN_SEGMENTS;
use prony_model::stack::Role;
use prony_model::{
    Candidate, Confidence, Diagnosis, Evidence, EvidenceVerdict, Excluded, Gap, InterventionKind, Level, Run, Trial,
    Verdict,
};

/// A cause that fires at a hop.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    /// Which cause.
    pub cause: &'static Cause,
    /// Where.
    pub hop: Hop<'a>,
    /// What it found.
    pub finding: Finding,
}

/// What all checks together say.
struct Survey<'a> {
    standing: Vec<Standing<'a>>,
    excluded: Vec<Excluded>,
    gaps: Vec<Gap>,
}

/// Judges a run: what holds the stack back, why, and what was ruled out. Total: what is missing becomes a gap.
pub fn diagnose(run: &Run) -> Diagnosis {
    let survey = survey(run);
    let mut diagnosis = Diagnosis {
        schema: SCHEMA.to_string(),
        candidates: survey.standing.iter().map(candidate).collect(),
        excluded: survey.excluded,
        interventions: run.interventions.clone(),
        cost: run.cost.clone(),
        ..Diagnosis::default()
    };
    let blind = blindness(run);
    if let Some(gap) = blind.as_ref().filter(|_| survey.standing.is_empty()) {
        diagnosis.verdict = inconclusive(&gap.to_string());
    } else if let Some(evidence) = rate_is_held(run) {
        diagnosis.verdict = none(run, "the asked rate is held", &evidence);
        diagnosis.evidence = evidence;
        if let Some(most) = survey.standing.iter().find(|s| takes_the_time(s)) {
            diagnosis.verdict.summary += &format!(
                " Requests wait most for this: {} at {}, {:.0} % of their time; with an objective (`[slo]`) that they miss it is the verdict.",
                most.cause.title,
                most.hop.name,
                most.finding.score * 100.0
            );
            diagnosis.evidence.extend(most.finding.evidence.clone());
        }
    } else if let Some(named) = survey.standing.iter().position(|s| !says_little(s)) {
        let (top, others) = (&survey.standing[named], &survey.standing[named + 1..]);
        diagnosis.verdict = verdict_of(top, others);
        diagnosis.evidence = top.finding.evidence.clone();
        diagnosis.remedies = top.finding.remedies.clone();
    } else if let Some(most) = survey.standing.first() {
        let (title, share) = (most.cause.title, most.finding.score * 100.0);
        let most_is = format!("the most is {title} at {}, {share:.0} % of it, not confirmed", most.hop.name);
        diagnosis.verdict = inconclusive(&format!("nothing that was read explains the limit; {most_is}"));
        diagnosis.evidence = most.finding.evidence.clone();
    } else {
        let evidence = room(run);
        diagnosis.verdict =
            match unseen_limit(run).or_else(|| without_answer(run)).or_else(|| missed_for_no_reason(run)) {
                Some(why) => inconclusive(&why),
                None => none(run, "nothing is saturated", &evidence),
            };
        diagnosis.evidence = evidence;
    }
    diagnosis.verdict.summary += &failures(run);
    diagnosis.verdict.summary += &left_out(run, &diagnosis.verdict.hop);
    diagnosis.gaps = run.gaps.iter().cloned().chain(survey.gaps).chain(blind).collect();
    diagnosis.gaps.sort();
    diagnosis.gaps.dedup();
    diagnosis.walk = walk(run, &diagnosis);
    diagnosis
}

/// Share of the requests from which it is said that they fail. A guess: ten times what the objectives of the labs allow.
const FAILS: f64 = 0.01;

/// A sentence on what of the workload as written fails; empty when hardly anything does. Whatever limits a stack limits its failures too,
/// and then they are what is to be mended first.
fn failures(run: &Run) -> String {
    let Some(result) = run.level(Level::At).map(|at| &at.result).filter(|r| r.error_share() >= FAILS) else {
        return String::new();
    };
    let worst = result.statuses.iter().filter(|(code, _)| **code >= 400).max_by_key(|(_, count)| **count);
    let most = worst.filter(|(_, count)| 2 * **count >= result.errors.total());
    let how = most.map_or(String::new(), |(code, _)| format!(", most with status {code}"));
    format!(" {} % of the requests fail{how}.", figure(100.0 * result.error_share()))
}

/// A sentence on hosts that their callers leave out, unlike their siblings: taken for dead, drained, or kept as a spare. Whether that limits
/// is for the causes to say; who reads that another host is full should know. Not on the host that is named.
fn left_out(run: &Run, named: &str) -> String {
    /// Part of what the busiest sibling receives, below which a host is left out. A guess: a try every ten seconds is less.
    const PART: f64 = 0.01;
    let received = |hop: &Hop<'_>| hop.at(Level::At).and_then(|at| at.sum(&TCP_IN_SEGMENTS)).ok();
    let is_left_out = |hop: &Hop<'_>| {
        let most = hop.siblings().iter().filter_map(received).fold(0.0, f64::max);
        hop.name != named && received(hop).is_some_and(|own| own < PART * most)
    };
    let hosts: Vec<&str> = Hop::path(run).into_iter().filter(is_left_out).map(|hop| hop.name).collect();
    if hosts.is_empty() {
        return String::new();
    }
    format!(" Hardly anything reaches {}, unlike what stands beside it.", hosts.join(", "))
}

/// The causes that fire and that no intervention contradicts, the strongest first.
pub fn standing(run: &Run) -> Vec<Standing<'_>> {
    survey(run).standing
}

fn candidate(standing: &Standing<'_>) -> Candidate {
    Candidate {
        cause: standing.cause.id.to_string(),
        hop: standing.hop.name.to_string(),
        score: standing.finding.score,
    }
}

fn survey(run: &Run) -> Survey<'_> {
    let mut survey = Survey { standing: Vec::new(), excluded: Vec::new(), gaps: Vec::new() };
    for cause in CAUSES {
        let mut refuting = Vec::new();
        let mut open = Vec::new();
        let mut found = Vec::new();
        for hop in cause.hops(run) {
            match (cause.check)(&hop) {
                Ok(Judgement::Fires(finding)) => found.push(Standing { cause, hop, finding: *finding }),
                Ok(Judgement::Silent(evidence)) => refuting.push(evidence),
                Err(gap) => open.push(gap),
            }
        }
        if found.is_empty() && open.is_empty() && !refuting.is_empty() {
            survey.excluded.push(Excluded { cause: cause.id.to_string(), because: because(&refuting) });
        }
        survey.gaps.append(&mut open);
        add_up(&mut found);
        survey.standing.append(&mut found);
    }
    follow_interventions(run, &mut survey);
    leave_to_who_tells_why(&mut survey);
    survey.standing.sort_by(|a, b| {
        // Faults before honest limits, and before faults that hardly explain anything. Among faults the share explained decides, and
        // among equals what the interventions showed; among honest limits that comes first.
        let rank = |s: &Standing<'_>| {
            let is_limit = s.cause.kind == Kind::HonestLimit;
            let is_slight = !is_limit && s.finding.score < SLIGHT;
            let step = if is_limit { 0 } else { (s.finding.score / SAME_SCORE).round() as i64 };
            let answered = matches!(response(&s.hop, &s.finding), Response::Follows(_));
            (is_slight, is_limit, std::cmp::Reverse(step), !answered)
        };
        rank(a).cmp(&rank(b)).then(b.finding.score.total_cmp(&a.finding.score))
    });
    if let Some(top) = survey.standing.first_mut() {
        raise_to_what_mending_brought(top);
    }
    survey
}

/// A finding that tells only where time passes goes, if a fault of the same host tells why.
fn leave_to_who_tells_why(survey: &mut Survey<'_>) {
    /// Part of what it explains that the other must. A guess.
    const HALF: f64 = 0.5;
    let is_why = |s: &&Standing<'_>| s.cause.kind == Kind::Fault && !s.finding.only_where;
    let whys = survey.standing.iter().filter(is_why).map(|s| (s.cause.title, s.hop.name, s.finding.score));
    let whys: Vec<_> = whys.collect();
    let excluded = &mut survey.excluded;
    survey.standing.retain(|s| {
        let tells = |&&(_, hop, score): &&(_, _, f64)| hop == s.hop.name && score >= HALF * s.finding.score;
        let why = s.finding.only_where.then(|| whys.iter().find(tells)).flatten();
        let because = why.map(|(title, hop, _)| format!("{title} tells why requests stay at {hop}"));
        excluded.extend(because.into_iter().map(|because| Excluded { cause: s.cause.id.to_string(), because }));
        why.is_none()
    });
}

/// A fault that takes most of the time of requests, where nobody said how long they may take.
fn takes_the_time(s: &Standing<'_>) -> bool {
    /// Share of their time. Definition.
    const MOST: f64 = 0.5;
    let has_objective = s.hop.run.stack.slo.as_ref().is_some_and(|slo| slo.p50.is_some() || slo.p99.is_some());
    !has_objective && s.cause.kind == Kind::Fault && s.finding.score >= MOST
}

/// What is named explains at least what its remedy took away. Only when it is named: a remedy that several causes share ranks none of them.
fn raise_to_what_mending_brought(top: &mut Standing<'_>) {
    let gain = grounding::gain(&top.hop, &top.finding);
    let least = gain.tried_in.and(gain.interval).map_or(0.0, |(low, _)| low / (1.0 + low));
    top.finding.score = top.finding.score.max(least);
}

/// A fault that explains less is named after an honest limit. Cited: catalogue row 2 lets 2 % of the time pass.
const SLIGHT: f64 = 0.02;
/// A fault that explains less, while others were tested and it was not, is no verdict: then an honest limit is, or nothing. A guess: a
/// healthy database on a noisy machine left a fault of 3 % when its honest limits could not be told.
const LITTLE: f64 = 0.05;
/// Scores in one step of this size are taken for equal. A guess: the same run again gives a score that differs by about as much.
pub(crate) const SAME_SCORE: f64 = 0.1;

/// Siblings share one wait: the strongest is named with the score of all of them, the others go.
fn add_up(found: &mut Vec<Standing<'_>>) {
    if found.len() < 2 || !found.iter().all(|s| s.finding.adds_up) {
        return;
    }
    found.sort_by(|a, b| b.finding.score.total_cmp(&a.finding.score));
    let siblings: Vec<String> = found[0].hop.siblings().iter().map(|h| h.name.to_string()).collect();
    let is_sibling = |s: &Standing<'_>| siblings.iter().any(|name| name == s.hop.name);
    let total: f64 = found.iter().filter(|s| is_sibling(s)).map(|s| s.finding.score).sum();
    let others = || found[1..].iter().filter(|s| is_sibling(s));
    let evidence: Vec<Evidence> = others().filter_map(|s| s.finding.evidence.first().cloned()).collect();
    // Mending one of them leaves the stack to wait for the others.
    let remedies = others().filter_map(|s| s.finding.remedies.first().filter(|r| r.knob.is_some()).cloned());
    let remedies: Vec<Remedy> = remedies.collect();
    let with: Vec<String> = others().map(|s| s.hop.name.to_string()).collect();
    let mut first = true;
    found.retain(|s| std::mem::take(&mut first) || !is_sibling(s));
    found[0].finding.score = total.min(1.0);
    found[0].finding.gain = Some(gain_of_share(total.min(1.0), gain_until_full(&found[0].hop)));
    found[0].finding.evidence.extend(evidence);
    found[0].finding.remedies.extend(remedies);
    found[0].finding.with = with;
}

/// The refuting facts in one line: hosts with the same claim together, with the greatest figure among them. Hosts to
/// which the cause does not apply are left out when others are there.
fn because(refuting: &[Evidence]) -> String {
    let telling: Vec<&Evidence> = refuting.iter().filter(|e| e.metric != "stack").collect();
    if telling.is_empty() {
        return format!("{} {}", refuting[0].host, refuting[0].claim);
    }
    let mut claims: Vec<&str> = Vec::new();
    for evidence in &telling {
        if !claims.contains(&evidence.claim.as_str()) {
            claims.push(&evidence.claim);
        }
    }
    let line = |claim: &&str| {
        let same: Vec<&&Evidence> = telling.iter().filter(|e| e.claim == **claim).collect();
        let hosts: Vec<&str> = same.iter().map(|e| e.host.as_str()).collect();
        let most = same.iter().max_by(|a, b| a.value.total_cmp(&b.value)).map_or(String::new(), |e| with_figures(e));
        format!("{}: {claim} ({most})", hosts.join(", "))
    };
    claims.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn with_figures(e: &Evidence) -> String {
    let border = e.threshold.map_or(String::new(), |t| format!(", border {}", figure(t)));
    let unit = if e.unit.is_empty() { String::new() } else { format!(" {}", e.unit) };
    format!("{} {}{unit}{border}", e.metric, figure(e.value))
}

/// A number with three significant figures.
pub(crate) fn figure(value: f64) -> String {
    if value == 0.0 {
        // Also what fell to it from below.
        return "0".to_string();
    }
    if !value.is_finite() {
        return format!("{value}");
    }
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.decimals$}")
}

/// Takes away what the interventions contradict, and adds the honest limit that they showed instead.
fn follow_interventions<'a>(run: &'a Run, survey: &mut Survey<'a>) {
    let excluded = &mut survey.excluded;
    survey.standing.retain(|s| match response(&s.hop, &s.finding) {
        Response::Contradicts(detail) => {
            let because = format!("the limit does not follow {}: {detail}", s.hop.name);
            excluded.push(Excluded { cause: s.cause.id.to_string(), because });
            false
        }
        Response::NotTested(_) => true,
        Response::Follows(_) | Response::Unclear(_) => {
            // A fault may explain a part. A limit that is no fault is the limit, or it is none.
            let part =
                (s.cause.kind == Kind::HonestLimit).then(|| grounding::only_a_part(&s.hop, &s.finding)).flatten();
            let because = part.map(|detail| Excluded { cause: s.cause.id.to_string(), because: detail });
            excluded.extend(because.clone());
            because.is_none()
        }
    });
    for s in &mut survey.standing {
        let mended = grounding::share_mended(&s.hop, &s.finding).unwrap_or(0.0);
        s.finding.score = s.finding.score.max(mended);
    }
    let parts: Vec<f64> = survey.standing.iter().map(|s| part_of_cpu(s, &survey.standing)).collect();
    // How much of full CPUs a host uses says less about a limit than what slowing it did.
    for (s, part) in survey.standing.iter_mut().zip(parts).filter(|(s, _)| s.cause.kind == Kind::HonestLimit) {
        if let Some((least, most)) = grounding::cpu_share(&s.hop, &s.finding) {
            s.finding.score = s.finding.score.max(least * part).min(most);
        }
    }
    for (host, elasticity) in grounding::surprising_hosts(run) {
        // Who slows a small user of full CPUs sees that they are full, and not whose work fills them.
        let slowed = Hop { run, name: host };
        let greatest = if grounding::has_full_cpus(&slowed) { greatest_user(&slowed).name } else { host };
        let is_it = |of: Option<&str>| of.is_some_and(|of| of == host || of == greatest);
        let known = survey.standing.iter().any(|s| is_it(s.finding.dose.cpu_host(&s.hop)));
        if let Some(standing) = (!known).then(|| limit_shown_by_intervention(run, host, greatest, elasticity)).flatten()
        {
            survey.excluded.retain(|e| e.cause != standing.cause.id);
            survey.standing.push(standing);
        }
    }
}

/// How much of what a host's CPU explains is this finding's: its score over the greatest of the honest limits of the same CPU.
fn part_of_cpu(of: &Standing<'_>, all: &[Standing<'_>]) -> f64 {
    let host = of.finding.dose.cpu_host(&of.hop);
    let limits = all.iter().filter(|s| s.cause.kind == Kind::HonestLimit && s.finding.dose.cpu_host(&s.hop) == host);
    let greatest = limits.map(|s| s.finding.score).fold(of.finding.score, f64::max);
    if greatest > 0.0 { of.finding.score / greatest } else { 1.0 }
}

/// What mends a host that is honestly out of CPU.
const LESS_WORK: &str = "less work per request, or more CPU for this hop";

/// CPU saturation at a host whose CPU throughput followed, although its counters did not say so (a quota seen from
/// outside, a stolen CPU).
fn limit_shown_by_intervention<'a>(
    run: &'a Run,
    slowed: &str,
    greatest: &'a str,
    elasticity: f64,
) -> Option<Standing<'a>> {
    let hop = Hop { run, name: greatest };
    let kernel = hop.at(Level::At).and_then(|r| r.cpu()).map_or(0.0, |c| c.kernel_share());
    let sends = hop.host().is_some_and(|h| h.role == Role::Generator);
    let (id, remedy) = match (sends, kernel >= 0.5) {
        (true, _) => ("generator-saturated", "CPUs of its own for the generator; the rate is a lower bound until then"),
        (false, true) => ("cpu-saturated-kernel", LESS_WORK),
        (false, false) => ("cpu-saturated-user", LESS_WORK),
    };
    let cause = CAUSES.iter().copied().find(|c| c.id == id)?;
    let busy = hop
        .fact("busy share of the hop's CPUs", "share", |r| Ok(r.cpu()?.busy_share()))
        .unwrap_or(Fact::across_levels(&hop, "elasticity of throughput to CPU", elasticity));
    let shared = if slowed == greatest { String::new() } else { format!(", of which {greatest} uses more") };
    let claim = format!("throughput follows the CPU of {slowed}{shared} with an elasticity of {elasticity:.2}");
    let finding = Finding::new(busy, FULL_CPU, FULL_CPU_ORIGIN, &claim, elasticity.min(1.0)).mend(remedy, None);
    Some(Standing { cause, hop, finding })
}

/// A fault beside the strongest is named with it when it explains at least so much, and half of what the strongest does. A guess.
const BESIDE: f64 = 0.15;

/// The faults that hold the stack back together with the strongest, as a sentence.
fn beside(top: &Standing<'_>, others: &[Standing<'_>]) -> String {
    let border = BESIDE.max(top.finding.score / 2.0);
    let strong = |s: &&Standing<'_>| s.cause.kind == Kind::Fault && s.finding.score >= border;
    let named = |s: &Standing<'_>| format!("{} at {} ({:.0} %)", s.cause.title, s.hop.name, s.finding.score * 100.0);
    let list: Vec<String> = others.iter().filter(strong).map(named).collect();
    if list.is_empty() || top.cause.kind != Kind::Fault {
        return String::new();
    }
    format!(" Beside it: {}.", list.join(", "))
}

fn verdict_of(top: &Standing<'_>, others: &[Standing<'_>]) -> Verdict {
    let tests = grounding::tests(&top.hop, &top.finding);
    let at_rate = sessions::carries_a_rate(&top.hop);
    // What an honest limit leaves room for is throughput.
    let has_none = at_rate && top.cause.kind == Kind::HonestLimit;
    let gain = if has_none { Gain::default() } else { grounding::gain(&top.hop, &top.finding) };
    let whole = if at_rate { "time that requests take" } else { "limit" };
    let with =
        if top.finding.with.is_empty() { String::new() } else { format!("with {} ", top.finding.with.join(", ")) };
    let share = format!("{with}it explains {:.0} % of the {whole}", top.finding.score * 100.0);
    let (low, high) = gain.interval.unzip();
    let (unseen, most) = match top.finding.lookalike {
        Some(what) => (format!(" What would show the same was not read: {what}."), Confidence::Medium),
        None => (String::new(), Confidence::High),
    };
    Verdict {
        cause: top.cause.id.to_string(),
        hop: top.hop.name.to_string(),
        confidence: confidence(&tests).min(most),
        grounded: tests.iter().all(|t| t.holds),
        at_rate,
        predicted_gain: gain.value,
        predicted_gain_low: low,
        predicted_gain_high: high,
        summary: format!(
            "{}: {share}{}.{}{unseen}",
            top.finding.summary,
            in_words(&gain, at_rate),
            beside(top, others)
        ),
        grounding: tests,
    }
}

/// A gain as what it does to throughput; at a rate that is carried, to the mean latency.
fn in_words(gain: &Gain, at_rate: bool) -> String {
    let percent = |share: f64| format!("{:+.0} %", 100.0 * share);
    let changes = |gain: f64| told_change(gain, at_rate);
    let what = if at_rate { "the mean latency" } else { "throughput" };
    match (gain.value, gain.interval, gain.tried_in) {
        (Some(value), Some((low, high)), Some(pairs)) => {
            let (low, high) = if at_rate { (changes(high), changes(low)) } else { (low, high) };
            let span = format!("({} to {})", percent(low), percent(high));
            let wait =
                gain.wait.map_or(String::new(), |(at, change)| format!(", latency at {at} by {}", percent(change)));
            format!(
                "; its remedy, tried in {pairs} pairs of short trials, changed {what} by {} {span}{wait}",
                percent(changes(value))
            )
        }
        (Some(value), _, _) if at_rate => {
            format!("; mending it is predicted to change {what} by {}", percent(changes(value)))
        }
        (Some(value), _, _) => format!("; mending it is predicted to bring {:.0} % more", value * 100.0),
        (None, _, _) => String::new(),
    }
}

fn confidence(tests: &[GroundingTest]) -> Confidence {
    let (response, others): (Vec<_>, Vec<_>) = tests.iter().partition(|t| t.test == "response");
    match (others.iter().all(|t| t.holds), response.iter().all(|t| t.holds)) {
        (true, true) => Confidence::High,
        (true, false) | (false, true) => Confidence::Medium,
        (false, false) => Confidence::Low,
    }
}

fn says_little(top: &Standing<'_>) -> bool {
    let passed_over = || matches!(response(&top.hop, &top.finding), Response::NotTested(_));
    let is_little = top.cause.kind == Kind::Fault && top.finding.score < LITTLE;
    is_little && !top.hop.run.interventions.is_empty() && passed_over()
}

fn inconclusive(why: &str) -> Verdict {
    Verdict { cause: "inconclusive".to_string(), summary: format!("Inconclusive: {why}."), ..Verdict::default() }
}

/// Nothing limits at this load: how much more it could be.
fn none(run: &Run, why: &str, evidence: &[Evidence]) -> Verdict {
    let is_full_of_others = |hop: &Hop<'_>| cpu_is_full(hop).unwrap_or(false) && !is_cpu_bound(hop).unwrap_or(true);
    let others_fill = Hop::path(run).iter().any(is_full_of_others);
    let headroom = Hop::path(run).first().and_then(room_until_full).filter(|_| !others_fill);
    let busiest =
        evidence.iter().filter(|e| e.metric.starts_with("busy share")).max_by(|a, b| a.value.total_cmp(&b.value));
    let place = busiest.map_or(String::new(), |e| {
        format!(": the busiest CPUs are those of {}, {:.0} % busy", e.host, e.value * 100.0)
    });
    let room = match headroom {
        Some(h) => format!("; about {:.0} % more would fill them", h * 100.0),
        None if others_fill => "; most of that is the work of others".to_string(),
        None => String::new(),
    };
    let mut tests = vec![
        GroundingTest {
            test: "structure".to_string(),
            holds: true,
            detail: "every host of the path was looked at".to_string(),
        },
        GroundingTest { test: "deviation".to_string(), holds: !evidence.is_empty(), detail: why.to_string() },
    ];
    let more = run.interventions.iter().rev().find_map(|i| {
        let what = match i.what {
            InterventionKind::Concurrency => "more connections",
            InterventionKind::Rate => "more requests asked for",
            InterventionKind::Cpu
            | InterventionKind::LinkRate { .. }
            | InterventionKind::LowerRate
            | InterventionKind::Removal { .. }
            | InterventionKind::KeepAlive
            | InterventionKind::Placebo => return None,
        };
        Some((what, i.elasticity?, i.low?, i.high?))
    });
    let (holds, detail) = match more {
        Some((what, e, low, high)) => (
            low > 0.0 && e >= FLAT,
            format!("with {what} throughput rose by an elasticity of {e:.2} ({low:.2} to {high:.2})"),
        ),
        None => (false, "no intervention was made".to_string()),
    };
    let elasticity = Hop::path(run).first().and_then(concurrency_elasticity);
    let order = elasticity.map_or((rate_is_held(run).is_some(), "open loop: the rate is held".to_string()), |e| {
        (e >= FLAT, format!("throughput grows with connections by an elasticity of {e:.2}"))
    });
    tests.push(GroundingTest { test: "order".to_string(), holds: order.0, detail: order.1 });
    tests.push(GroundingTest { test: "response".to_string(), holds, detail });
    // In a closed loop it is the clients that set the rate: they wait for each answer.
    let clients = Hop::generator(run).filter(|_| elasticity.is_some()).map_or(String::new(), |h| h.name.to_string());
    Verdict {
        cause: "none".to_string(),
        hop: clients,
        confidence: confidence(&tests),
        grounded: tests.iter().all(|t| t.holds),
        predicted_gain: headroom,
        summary: format!("Nothing limits at this load, {why}{place}{room}."),
        grounding: tests,
        ..Verdict::default()
    }
}

/// How busy each serving host's CPUs are, as evidence that there is room.
fn room(run: &Run) -> Vec<Evidence> {
    let busy = |hop: Hop<'_>| hop.fact("busy share of the hop's CPUs", "share", |r| Ok(r.cpu()?.busy_share())).ok();
    let facts = Hop::path(run).into_iter().filter_map(busy);
    let claim = |fact: &Fact| match fact.value < FULL_CPU {
        true => "its CPUs have room",
        false => "its CPUs are nearly full, but throughput hardly follows them",
    };
    facts.map(|f| f.evidence(claim(&f), Some(FULL_CPU), FULL_CPU_ORIGIN, EvidenceVerdict::Supports)).collect()
}

/// In open loop: the evidence that the asked rate is served, within the objective if there is one, and with room on
/// every CPU.
fn rate_is_held(run: &Run) -> Option<Vec<Evidence>> {
    /// Failed requests when the objective names no share. A guess.
    const ERRORS: f64 = 0.001;
    let trial = run.level(Level::At)?;
    trial.plan.rate?;
    let result = &trial.result;
    let errors = run.stack.slo.as_ref().and_then(|slo| slo.errors);
    let held = sessions::carries_its_rate(run, |result| result.good_per_s)
        && result.error_share() <= errors.map_or(ERRORS, |s| s.0)
        && missed_latency(run, trial).is_none()
        && Hop::path(run).iter().all(|h| !cpu_is_full(h).unwrap_or(false));
    let evidence = Evidence {
        claim: "the asked rate is served within the objective".to_string(),
        metric: "good requests / requests due".to_string(),
        host: String::new(),
        value: result.good_per_s * result.duration_s / (result.intended as f64).max(1.0),
        unit: "share".to_string(),
        baseline: None,
        threshold: Some(sessions::CARRIED),
        origin: "cited: methods.md, validity gates".to_string(),
        verdict: EvidenceVerdict::Supports,
    };
    held.then(|| std::iter::once(evidence).chain(room(run)).collect())
}

/// The first latency of the objective that a trial misses, in words; none where it is held, or none is asked.
pub fn missed_latency(run: &Run, trial: &Trial) -> Option<String> {
    let (slo, seen) = (run.stack.slo.as_ref()?, &trial.result.latency);
    let asked = [("p50", slo.p50, seen.p50_us), ("p99", slo.p99, seen.p99_us)];
    asked.into_iter().find_map(|(name, limit, seen_us)| {
        let limit_us = limit?.as_us_f64();
        (seen_us > limit_us)
            .then(|| format!("{name} is {} ms, {} ms is asked", figure(seen_us / 1e3), figure(limit_us / 1e3)))
    })
}

/// A rate that is not carried or whose objective is missed, although no cause was found: something that was not seen takes the time.
fn missed_for_no_reason(run: &Run) -> Option<String> {
    let trial = run.level(Level::At)?;
    let rate = trial.plan.rate?;
    let too_few = || {
        let is_carried = sessions::carries_its_rate(run, |result| result.completed_per_s);
        let answered = figure(trial.result.completed_per_s);
        (!is_carried).then(|| format!("{answered} requests/s are answered, {rate} is asked"))
    };
    let missed = too_few().or_else(|| missed_latency(run, trial))?;
    let place = crowded_place(run).map_or(String::new(), |(name, share)| {
        format!("; requests spend {:.0} % of their time at {name}", 100.0 * share)
    });
    Some(format!("{missed}, but nothing that was read explains it{place}"))
}

/// Why nothing can be said, when that is so: no trial, no host, or CPUs of a serving host that were not read.
fn blindness(run: &Run) -> Option<Gap> {
    let Some(trial) = run.level(Level::At) else {
        return Some(Gap::new(
            "level at",
            "",
            "no trial ran with the workload as written, so there is nothing to judge",
        ));
    };
    if trial.result.completed == 0 && trial.result.errors.timeout == 0 {
        return Some(Gap::new("completed_per_s", "", "no request was completed"));
    }
    let path = Hop::path(run);
    if path.is_empty() {
        return Some(Gap::new(
            "hosts",
            "",
            "the stack names no serving host, so only the load was seen; add [host.NAME] sections",
        ));
    }
    path.iter().find_map(|hop| hop.at(Level::At).and_then(|r| r.cpu()).err())
}

/// Throughput that does not grow with connections although nothing seen is full: something unseen limits.
fn unseen_limit(run: &Run) -> Option<String> {
    /// A stack with room carries with each connection about as much as with the one before. A guess: half of it.
    const GROWS: f64 = 0.5;
    /// A CPU that is busier has no room. A guess: two clients fill nine tenths of one, and four bring more.
    const BUSY_MAX: f64 = 0.97;
    let elasticity = Hop::path(run).first().and_then(concurrency_elasticity)?;
    let busy = |hop: Hop<'_>| Some(hop.at(Level::At).ok()?.cpu().ok()?.busy_share());
    let is_full = Hop::path(run).into_iter().filter_map(busy).any(|share| share > BUSY_MAX);
    if elasticity < FLAT {
        let full = fullness(run);
        return Some(format!(
            "throughput does not grow with connections (elasticity {elasticity:.2}), but {full}{}",
            crowd_in_words(run)
        ));
    }
    (is_full && elasticity < GROWS).then(|| {
        format!(
            "throughput grows little with connections (elasticity {elasticity:.2}), and {}{}",
            fullness(run),
            crowd_in_words(run)
        )
    })
}

/// Requests that get no answer although nothing seen keeps it from them: something unseen does.
fn without_answer(run: &Run) -> Option<String> {
    /// Share of the requests from which they are no accident. A guess: a stack of no fault loses none.
    const SHARE_MIN: f64 = 0.01;
    let result = &run.level(Level::At)?.result;
    let lost = result.errors.unanswered();
    let share = lost as f64 / (lost + result.completed).max(1) as f64;
    (share >= SHARE_MIN).then(|| {
        let place = crowd_in_words(run);
        format!("{:.0} % of the requests get no answer, but nothing that was read is full{place}", 100.0 * share)
    })
}

/// What is full although no cause could be made of it.
fn fullness(run: &Run) -> String {
    let full = Hop::path(run).into_iter().filter(|hop| cpu_is_full(hop).unwrap_or(false));
    let (idle, others): (Vec<_>, Vec<_>) = full.partition(grounding::stands_still_without_cpu_of);
    let (slowed, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|hop| grounding::slowed(hop).is_some());
    let names = |hops: &[Hop<'_>]| hops.iter().map(|hop| hop.name).collect::<Vec<_>>().join(", ");
    let idle_are = (!idle.is_empty()).then(|| {
        format!("the CPUs of {} are full, and throughput stood still when it was given less of them", names(&idle))
    });
    let followed = |hop: &Hop<'_>| {
        let Seen { value, low, high } = grounding::slowed(hop)?;
        let name = hop.name;
        Some(format!(
            "the CPUs of {name} are full, and throughput followed them by {value:.2} ({low:.2} to {high:.2}): too little to say"
        ))
    };
    let others_are = (!others.is_empty())
        .then(|| format!("the CPUs of {} are full of something else than any one host of the stack", names(&others)));
    let said: Vec<String> = idle_are.into_iter().chain(slowed.iter().filter_map(followed)).chain(others_are).collect();
    if said.is_empty() { "nothing that was read is full".to_string() } else { said.join("; ") }
}

/// Where most requests in flight stay, if they stay at one hop.
fn crowded_place(run: &Run) -> Option<(String, f64)> {
    let held = |hop: Hop<'_>| Some((hop.name.to_string(), hop.held().ok()?.share));
    let most = Hop::path(run).into_iter().filter_map(held).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 >= 0.5).then_some(most)
}

/// Where most requests in flight stay, in words after a full sentence; empty where they stay at no one host.
fn crowd_in_words(run: &Run) -> String {
    let words = || {
        let (name, share) = crowded_place(run)?;
        let all = Hop::path(run).first()?.at(Level::At).ok()?.in_flight().ok()?;
        Some(format!("; {:.0} of {all:.0} requests in flight stay at {name}", share * all))
    };
    words().unwrap_or_default()
}

#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod tests;
