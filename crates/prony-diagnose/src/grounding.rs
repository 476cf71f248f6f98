//! Whether a finding is grounded: structure, deviation, order in time, and the response to interventions.
//!
//! It tests findings and ranks nothing. Invariant: a test that could not be made does not hold, and says why.

use crate::cause::{Dose, FLAT, FULL_CPU, Finding, concurrency_elasticity, greatest_user, hosts_of, room_until_full};
use crate::facts::Hop;
use crate::verdict::figure;
use prony_model::diagnosis::GroundingTest;
use prony_model::limit::Bounded;
use prony_model::metric::CONN_CONNECTING;
use prony_model::stack::Role;
use prony_model::{Intervention, InterventionKind, Knob, Level, Run};

/// Elasticity from which throughput counts as following; 1 is expected of a sole bottleneck, 0 of a free resource
/// (methods.md). The middle between the measured controls (up to 0.12) and suspects (from 0.99) would be 0.55; an
/// interval may reach lower. A guess.
const FOLLOWS: f64 = 0.5;
/// Elasticity below which throughput does not follow. A guess; measured controls reached 0.12.
const STANDS_STILL: f64 = 0.35;
/// A control that moves by less than this part of the suspect, with intervals that do not touch, moved far less. A guess.
const FAR_LESS: f64 = 0.5;
/// With nothing turned, an effect that lies within this part of the suspect's for sure is none, though its interval may miss 0, as one in
/// twenty does by chance. A guess: 5 % for a dose of 20 %; intervals of trials with nothing turned were seen to reach 3.4 %.
const NOTHING: f64 = 0.25;
/// Elasticity of a suspect below which a wide interval speaks against it too. A guess; measured controls reached 0.12.
const HARDLY: f64 = 0.15;
/// A sole bottleneck has an elasticity of 1 (methods.md). An interval that ends below this shows one limit among others. A
/// guess: measured intervals of real limits are up to 0.25 wide to either side.
const SOLE: f64 = 0.75;
/// A host that uses less of full CPUs than this part of what the stack does is held against it all the same, and so is who has less room
/// to grow. A guess: a small user shows that they are full, not whose work fills them.
const PART_MIN: f64 = 0.5;
/// A host that uses so much of what the stack does on full CPUs fills them by itself. A guess.
const FILLS: f64 = 0.8;
/// A removal that brings less than this part of the predicted gain speaks against the cause. A guess.
const REMOVAL_PART: f64 = 0.25;
/// Part of the latency at p99 or p99.9 that a removal must take away at least, to count as what requests waited for. A guess: the p99 of
/// short trials differs by up to 30 % from one to the next on a shared machine, and its mean over 5 pairs by half of that.
const WAIT_GONE: f64 = 0.2;
/// The same where throughput falls for sure, though not by [`HARM`]. A guess: most of the wait.
const MOST_GONE: f64 = 0.5;
/// Above such a ratio the stack served next to nothing as found. A guess.
const FROM_NOTHING: f64 = 100.0;
/// A predicted gain below this is too small for its absence to speak against the cause. A guess: pairs detect about 5
/// %.
const GAIN_TO_SEE: f64 = 0.1;
/// A remedy that takes so much of the throughput for sure mends nothing, however little was predicted. A guess.
const HARM: f64 = 0.1;
/// The key fact must be so much greater at the knee than at half load. A guess.
const RISE: f64 = 1.05;
/// And must not fall by more than this beyond it.
const HOLDS_BEYOND: f64 = 0.7;

/// How the stack answered to an intervention on a finding.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// Throughput followed.
    Follows(String),
    /// Throughput did not follow: the finding is not the limit.
    Contradicts(String),
    /// Too wide to say, or the control moved too.
    Unclear(String),
    /// Not done, or cannot be done.
    NotTested(String),
}

/// The interval of an intervention that was done.
pub struct Seen {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Seen {
    fn of(intervention: &Intervention) -> Option<Self> {
        Some(Self { value: intervention.elasticity?, low: intervention.low?, high: intervention.high? })
    }
    /// Whether throughput followed.
    fn follows(&self) -> bool {
        self.follows_as(1.0)
    }
    /// The same where not 1 is expected of a sole limit.
    fn follows_as(&self, expected: f64) -> bool {
        self.low > 0.0 && self.value >= FOLLOWS * expected
    }
    fn covers_zero(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
    /// Its size at the least: the end of the interval that is nearer to 0.
    fn least(&self) -> f64 {
        if self.covers_zero() { 0.0 } else { self.low.abs().min(self.high.abs()) }
    }
    fn text(&self) -> String {
        format!("{:.2} ({:.2} to {:.2})", self.value, self.low, self.high)
    }
}

/// The interventions that were done as tests; further looks at what throughput follows are none.
fn tests_done(run: &Run) -> impl DoubleEndedIterator<Item = &Intervention> {
    run.interventions.iter().filter(|i| i.elasticity.is_some() && !i.further)
}

/// Whether an intervention turned a remedy of a finding. By its name: how far it is turned may follow the load, which is not the
/// same from trial to trial.
fn turns_remedy(intervention: &Intervention, finding: &Finding) -> bool {
    if intervention.what == InterventionKind::KeepAlive {
        return finding.dose == Dose::KeepAlive;
    }
    let turned = intervention.what.knobs();
    let is_turned = |knob: &Knob| turned.iter().any(|t| t.id == knob.id && t.host == knob.host);
    finding.remedies.iter().filter_map(|r| r.knob.as_ref()).any(is_turned)
}

/// The last intervention done that tests a finding at a hop, control or not: a control that answers is evidence too.
fn test_of<'a>(hop: &Hop<'a>, finding: &Finding) -> Option<&'a Intervention> {
    let own_knob = |i: &Intervention| match &i.what {
        InterventionKind::Removal { .. } => turns_remedy(i, finding),
        InterventionKind::Cpu => finding.dose.cpu_host(hop) == Some(i.target.as_str()),
        InterventionKind::LinkRate { .. } => i.target == hop.name,
        InterventionKind::Concurrency | InterventionKind::LowerRate | InterventionKind::KeepAlive => true,
        InterventionKind::Rate | InterventionKind::Placebo => false,
    };
    let mut done = tests_done(hop.run).rev();
    done.find(|i| finding.dose.is_tested_by(&i.what) && own_knob(i))
}

/// How throughput answered.
pub fn response(hop: &Hop<'_>, finding: &Finding) -> Response {
    if let Dose::Untestable(why) = finding.dose {
        return Response::NotTested(format!("not tested: {why}"));
    }
    let Some((intervention, seen)) = test_of(hop, finding).and_then(|i| Some((i, Seen::of(i)?))) else {
        return Response::NotTested("no intervention was made".to_string());
    };
    if intervention.what.is_removal() {
        return removal(&seen, intervention, finding);
    }
    if intervention.what == InterventionKind::LowerRate {
        return lower_rate(&seen, intervention, finding);
    }
    if intervention.at_rate {
        return slowed_at_rate(&seen, intervention, finding);
    }
    if finding.dose == Dose::Queue {
        return queue(&seen);
    }
    let what = match intervention.what {
        InterventionKind::Cpu => format!("with {} given less CPU, throughput followed by", intervention.target),
        InterventionKind::LinkRate { .. } => {
            format!("with the link of {} made slower, throughput followed by", hop.name)
        }
        InterventionKind::Concurrency
        | InterventionKind::Rate
        | InterventionKind::LowerRate
        | InterventionKind::Removal { .. }
        | InterventionKind::KeepAlive
        | InterventionKind::Placebo => "with more connections, throughput followed by".to_string(),
    };
    let slowed = if intervention.what == InterventionKind::Cpu { Some(hop.other(&intervention.target)) } else { None };
    let is_growth = intervention.what == InterventionKind::Concurrency;
    let growth = if is_growth { growth_until_full(hop, intervention.dose) } else { 1.0 };
    let wanted = if growth < 1.0 { format!("{growth:.2} until a CPU is full") } else { "1".to_string() };
    let detail = format!("{what} {}, {wanted} is expected", seen.text());
    let expected = slowed.map_or(growth, |slowed| part_of_full_cpus(&slowed));
    if seen.follows_as(growth) {
        Response::Follows(detail)
    } else if slowed.is_some_and(|slowed| goes_by_the_clock(&slowed, &seen)) {
        Response::Unclear(format!("{detail}; but it fills its CPUs, and some of its work may go by the clock"))
    } else if slowed.is_some_and(|slowed| slowed.name != hop.name && is_dwarfed_by_generator(&slowed)) {
        Response::Unclear(format!("{detail}; but most of its CPUs' time goes to the generator"))
    } else if seen.high < FOLLOWS * expected || (seen.value < HARDLY && seen.high - seen.low < 1.0) {
        Response::Contradicts(detail)
    } else {
        Response::Unclear(detail)
    }
}

/// What so many more connections bring where requests wait, as an elasticity: 1, or what it takes until a CPU is full, at least
/// [`PART_MIN`].
fn growth_until_full(hop: &Hop<'_>, more: f64) -> f64 {
    room_until_full(hop).map_or(1.0, |room| (room.ln_1p() / more.ln_1p()).clamp(PART_MIN, 1.0))
}

/// What mending a finding brings, relative.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gain {
    /// By trial, if the remedy was tried; otherwise by the share that the finding explains.
    pub value: Option<f64>,
    /// 95 % interval, as far as an intervention tells it.
    pub interval: Option<(f64, f64)>,
    /// Pairs in which the remedy was tried.
    pub tried_in: Option<u32>,
    /// The wait that it took away then: at which percentile, and the relative change there.
    pub wait: Option<(&'static str, f64)>,
}

/// The gain of a finding. Where its remedy was not tried, the share that it explains takes the hop for the sole limit; where
/// throughput follows by an elasticity of e, freeing the same share brings (1 + gain)^e - 1. That interval is widened where needed,
/// so that it holds the prediction; how far the share that was freed is off it does not know. Where most requests fail, nothing is
/// predicted: what is busy is so with failures.
pub fn gain(hop: &Hop<'_>, finding: &Finding) -> Gain {
    let tries = hop.run.interventions.iter().rev().filter(|i| turns_remedy(i, finding));
    if let Some((intervention, seen)) = tries.filter_map(|i| Some((i, Seen::of(i)?))).next() {
        // From next to nothing a ratio says little.
        if seen.value > FROM_NOTHING {
            return Gain::default();
        }
        let (tried_in, wait) = (Some(intervention.pairs), wait_gone(intervention));
        let wait = wait.map(|(name, change)| (name, change.value));
        return Gain { value: Some(seen.value), interval: Some((seen.low, seen.high)), tried_in, wait };
    }
    let fails = hop.run.level(Level::At).is_some_and(|at| at.result.mostly_fails());
    let predicted = finding.gain.filter(|_| !fails);
    let interval = predicted.and_then(|gain| {
        let intervention = test_of(hop, finding)?;
        let slowed = matches!(intervention.what, InterventionKind::Cpu | InterventionKind::LinkRate { .. });
        let seen = Seen::of(intervention).filter(|_| slowed && !intervention.at_rate)?;
        let [low, high] = [seen.low, seen.high].map(|elasticity| (elasticity * gain.ln_1p()).exp_m1());
        (low.is_finite() && high.is_finite()).then(|| (low.min(gain), high.max(gain)))
    });
    Gain { value: predicted, interval, tried_in: None, wait: None }
}

/// What shows that a finding holds back only a part: throughput follows its CPU, but by far not in full.
pub fn only_a_part(hop: &Hop<'_>, finding: &Finding) -> Option<String> {
    let seen = cpu_seen(hop, finding)?;
    is_part(hop, &seen).then(|| {
        let growth = concurrency_elasticity(hop).filter(|e| *e >= FLAT);
        let growth = growth.map_or(String::new(), |e| format!(", and still grows with connections by {e:.2}"));
        format!("throughput follows its CPU only by {}{growth}: much of the time goes by elsewhere", seen.text())
    })
}

/// The least and the most of the limit that a host's CPU explains, by what throughput did when it was slowed; none where it did not follow.
pub fn cpu_share(hop: &Hop<'_>, finding: &Finding) -> Option<(f64, f64)> {
    let seen = cpu_seen(hop, finding)?;
    seen.follows().then(|| (seen.low.min(1.0), seen.high.min(1.0)))
}

/// What throughput did when the CPU that a finding is about was slowed.
fn cpu_seen(hop: &Hop<'_>, finding: &Finding) -> Option<Seen> {
    let is_cpu = |i: &&Intervention| finding.dose.cpu_host(hop).is_some() && !i.at_rate;
    test_of(hop, finding).filter(is_cpu).and_then(Seen::of)
}

/// The share of the limit that mending it took away at least, when it was tested by its remedy; none where that brought nothing for sure.
pub fn share_mended(hop: &Hop<'_>, finding: &Finding) -> Option<f64> {
    let seen = test_of(hop, finding).filter(|i| i.what.is_removal()).and_then(Seen::of)?;
    (seen.low > 0.0).then(|| seen.low / (1.0 + seen.low))
}

/// Whether an answer that is short of a sole limit's is weak as well, or throughput still grows with connections: a full
/// resource lets nothing grow.
fn is_part(hop: &Hop<'_>, seen: &Seen) -> bool {
    let grows = concurrency_elasticity(hop).is_some_and(|e| e >= FLAT);
    let expected = part_of_full_cpus(hop);
    !goes_by_the_clock(hop, seen) && seen.high < SOLE * expected && (seen.value < FOLLOWS * expected || grows)
}

/// Whether throughput follows a host for sure, though not in full, that fills its CPUs by itself and lets nothing grow with connections.
/// Work that goes by the clock, as a wait that spins, takes no longer with less CPU; then an elasticity below 1 acquits nobody.
fn goes_by_the_clock(hop: &Hop<'_>, seen: &Seen) -> bool {
    let fills = has_full_cpus(hop) && part_of_full_cpus(hop) >= FILLS;
    fills && seen.low > HARDLY && concurrency_elasticity(hop).is_some_and(|e| e < FLAT)
}

/// Whether the generator uses more of a host's full CPUs than any server: such a host has slack in how it works that the rest has not, as
/// when it answers more requests per wake-up, so that standing still acquits nobody of what those CPUs do.
fn is_dwarfed_by_generator(hop: &Hop<'_>) -> bool {
    has_full_cpus(hop) && greatest_user(hop).host().is_some_and(|host| host.role == Role::Generator)
}

/// Whether the CPUs of a host are full at the limit.
pub fn has_full_cpus(hop: &Hop<'_>) -> bool {
    hop.at(Level::At).and_then(|r| r.cpu()).is_ok_and(|cpu| cpu.busy_share() >= FULL_CPU)
}

/// What the hop uses of full CPUs, over what all hosts of the stack use of them, at least [`PART_MIN`]: what it leaves when it is slowed,
/// these take. 1 where the CPUs have room, and where that is not known.
fn part_of_full_cpus(hop: &Hop<'_>) -> f64 {
    let own = |h: &Hop<'_>| h.at(Level::At).and_then(|r| r.own_cpu()).unwrap_or(0.0);
    let others = hosts_of(hop).filter(|o| o.name != hop.name && o.shares_cpu_with(hop));
    let beside: f64 = others.map(|o| own(&o)).sum();
    let of_it = own(hop);
    if has_full_cpus(hop) && of_it > 0.0 { (of_it / (of_it + beside)).max(PART_MIN) } else { 1.0 }
}

/// A queue for something that is all in use lets more requests at once wait longer, and no more be served.
fn queue(seen: &Seen) -> Response {
    let detail = format!("with more connections, throughput followed by {}, 0 is expected of a queue", seen.text());
    if seen.low > FOLLOWS {
        Response::Contradicts(detail)
    } else if seen.value < STANDS_STILL && seen.high < SOLE {
        Response::Follows(detail)
    } else {
        Response::Unclear(detail)
    }
}

/// With fewer requests those that queue for each other are answered sooner; what each waits for by itself takes as long as before. A
/// place that is held for long by each is taken less often, and the wait for its turn may be little: that it stays acquits no queue. Some waits
/// get longer: what was lost is missed late where little follows it.
fn lower_rate(seen: &Seen, intervention: &Intervention, finding: &Finding) -> Response {
    let queues = finding.dose == Dose::Queue;
    let expected =
        if queues { "more than 0 is expected of a queue" } else { "at most 0 is expected of a wait of its own" };
    let fewer = format!("with {:.0} % fewer requests asked for", 100.0 * intervention.dose);
    let detail = format!("{fewer}, the mean latency followed by {}, {expected}", seen.text());
    let (follows, contradicts) = match queues {
        // Where each takes longer for sure, none of them queued.
        true => (seen.low > 0.0 && seen.value >= STANDS_STILL, seen.high < 0.0),
        false => (seen.value < STANDS_STILL && seen.high < SOLE, seen.low > FOLLOWS),
    };
    match (follows, contradicts) {
        (true, _) => Response::Follows(detail),
        (false, true) => Response::Contradicts(detail),
        (false, false) => Response::Unclear(detail),
    }
}

/// With less CPU requests take longer by the part of their time that is its work. A quota is felt only by work that outlasts it: what
/// stays the same acquits nobody.
fn slowed_at_rate(seen: &Seen, intervention: &Intervention, finding: &Finding) -> Response {
    let detail = format!(
        "with {} given less CPU, the speed of answers followed by {}, {:.2} is expected",
        intervention.target,
        seen.text(),
        finding.score
    );
    if seen.follows_as(finding.score) { Response::Follows(detail) } else { Response::Unclear(detail) }
}

/// Whether an intervention is expected to change nothing: then its answer is no measure for its control.
fn expects_nothing(intervention: &Intervention, finding: &Finding) -> bool {
    match intervention.what {
        InterventionKind::LowerRate => finding.dose == Dose::Concurrency,
        InterventionKind::Concurrency => finding.dose == Dose::Queue,
        InterventionKind::Cpu
        | InterventionKind::LinkRate { .. }
        | InterventionKind::Rate
        | InterventionKind::Removal { .. }
        | InterventionKind::KeepAlive
        | InterventionKind::Placebo => false,
    }
}

fn removal(seen: &Seen, intervention: &Intervention, finding: &Finding) -> Response {
    let predicted = finding.gain.unwrap_or(0.0);
    let mut knobs: Vec<String> = intervention.what.knobs().iter().map(|k| format!("{}={}", k.id, k.value)).collect();
    knobs.dedup();
    let done = if knobs.is_empty() { "connections kept".to_string() } else { knobs.join(" and ") };
    // Where next to nothing was served as found, no ratio says more than that.
    let changed = match seen.low {
        low if low > FROM_NOTHING => format!("rose from next to nothing, more than {low:.0} times"),
        _ => format!("changed by {}", seen.text()),
    };
    let what = if intervention.at_rate { "the speed of answers" } else { "throughput" };
    let mut detail = format!("with {done}, {what} {changed}; predicted {predicted:.2}");
    let wait = wait_gone(intervention);
    if let Some((name, wait)) = &wait {
        detail.push_str(&format!(", latency at {name} by {}", wait.text()));
    }
    // Who waited takes part again once nothing holds it: in a closed loop that may cost the others a little.
    let is_worth_it = |gone: &Seen| seen.high >= 0.0 || (gone.high < -MOST_GONE && seen.high >= -HARM);
    if seen.low > 0.0 || wait.is_some_and(|(_, gone)| is_worth_it(&gone)) {
        Response::Follows(detail)
    } else if (predicted >= GAIN_TO_SEE && seen.high < REMOVAL_PART * predicted) || seen.high < -HARM {
        Response::Contradicts(detail)
    } else {
        Response::Unclear(detail)
    }
}

/// The wait that an intervention took away: at which percentile, and by how much. Requests that wait for something rare are few:
/// what they wait shows at the tail, and hardly in throughput.
fn wait_gone(intervention: &Intervention) -> Option<(&'static str, Seen)> {
    let gone = |change: Option<Bounded>| {
        let change = change.and_then(|c| Some(Seen { value: c.value?, low: c.low?, high: c.high? }));
        change.filter(|wait| wait.high < -WAIT_GONE)
    };
    let tails = [("p99", gone(intervention.p99)), ("p99.9", gone(intervention.p999))];
    tails.into_iter().find_map(|(name, wait)| Some((name, wait?)))
}

/// The four tests of a finding.
pub fn tests(hop: &Hop<'_>, finding: &Finding) -> Vec<GroundingTest> {
    vec![structure(hop), deviation(finding), order(finding), answer(hop, finding)]
}

fn test(name: &str, holds: bool, detail: String) -> GroundingTest {
    GroundingTest { test: name.to_string(), holds, detail }
}

fn structure(hop: &Hop<'_>) -> GroundingTest {
    let path = hop.run.stack.path();
    let served = hop.at(Level::At).and_then(|r| r.requests());
    match (path.contains(&hop.name), served) {
        (true, Ok(rate)) => {
            let callers = hop.run.stack.callers(hop.name);
            let by = if callers.is_empty() { "clients".to_string() } else { callers.join(", ") };
            test(
                "structure",
                rate > 0.0,
                format!("{} is on the path, {rate:.0} requests/s come to it from {by}", hop.name),
            )
        }
        (true, Err(gap)) => match sought_by(hop) {
            Some((caller, count)) => test(
                "structure",
                true,
                format!("{} is on the path, {count:.0} connects of {caller} wait for it", hop.name),
            ),
            None => test("structure", false, gap.to_string()),
        },
        (false, _) => test("structure", true, format!("{} drives the load", hop.name)),
    }
}

/// A caller whose connects to it wait for an answer, and how many: nothing else is seen of a host that cannot be reached.
fn sought_by<'a>(hop: &Hop<'a>) -> Option<(&'a str, f64)> {
    let at = |caller| hop.other(caller).at(Level::At).ok()?.towards(&CONN_CONNECTING, hop).ok();
    let callers = hop.run.stack.callers(hop.name).into_iter();
    callers.filter_map(|caller| Some((caller, at(caller)?))).find(|(_, count)| *count > 0.0)
}

fn deviation(finding: &Finding) -> GroundingTest {
    let Some(first) = finding.evidence.first() else {
        return test("deviation", false, "no evidence".to_string());
    };
    let border = first.threshold.unwrap_or(0.0);
    test(
        "deviation",
        first.value >= border,
        format!("{} is {}, the border is {} ({})", first.metric, figure(first.value), figure(border), first.origin),
    )
}

fn order(finding: &Finding) -> GroundingTest {
    let key = &finding.key;
    let Some(below) = key.baseline else {
        return test("order", false, format!("{} was not read below the knee", key.name));
    };
    // What was beyond its border before the limit was reached came first, whether it rises or not: a table that stays full.
    let came_first = finding.evidence.first().is_some_and(|first| {
        first.baseline.zip(first.threshold).is_some_and(|(below, border)| border > 0.0 && below >= border)
    });
    let rises = came_first || key.value >= below * RISE;
    let holds_beyond = key.beyond.is_none_or(|beyond| beyond >= key.value * HOLDS_BEYOND);
    let beyond = key.beyond.map_or("not read".to_string(), figure);
    test(
        "order",
        rises && holds_beyond,
        format!("{} goes {}, {}, {beyond} below, at and beyond the knee", key.name, figure(below), figure(key.value)),
    )
}

/// What the test of a finding's own resource showed.
struct Suspect<'a> {
    /// Whether throughput followed its first dose.
    followed: bool,
    /// Whether nothing contradicts it, so that a further look may still tell.
    is_open: bool,
    /// The greater dose that throughput followed where the first was too wide to tell.
    by_more: Option<&'a Intervention>,
    /// What the dose that counts showed, which controls are held against.
    seen: Option<Seen>,
    /// Whether it was slowed, not mended.
    is_dosed: bool,
    /// How far that moved throughput, or the wait, as a logarithm.
    moved: f64,
    /// How far it did at the least.
    moved_surely: f64,
    detail: String,
}

impl<'a> Suspect<'a> {
    fn of(hop: &Hop<'a>, finding: &Finding) -> Self {
        let (followed, is_open, detail) = match response(hop, finding) {
            Response::Follows(detail) => (true, true, detail),
            Response::Unclear(detail) => (false, true, detail),
            Response::Contradicts(detail) | Response::NotTested(detail) => (false, false, detail),
        };
        let first = test_of(hop, finding).filter(|i| !expects_nothing(i, finding));
        let by_more =
            if is_open && !followed { first.and_then(|i| follows_when_slowed_more(hop.run, i)) } else { None };
        let counts = by_more.or(first);
        let seen = counts.and_then(Seen::of);
        // A remedy's effect is told as a gain, a dose's as an elasticity.
        let dose = counts.filter(|i| !i.what.is_removal()).map(|i| i.dose);
        let as_log = |effect: f64| dose.map_or(effect.ln_1p(), |dose| effect * dose);
        let moved = as_log(seen.as_ref().map_or(1.0, |s| s.value.abs()));
        let surely = as_log(seen.as_ref().map_or(0.0, Seen::least));
        // Where throughput did not rise, its remedy shows in the wait, and that is what its control must be far below.
        let by_wait = counts.filter(|i| i.low.is_some_and(|low| low <= 0.0)).and_then(wait_gone);
        let moved = by_wait.as_ref().map_or(moved, |(_, gone)| moved.max(-gone.value.ln_1p()));
        let moved_surely = by_wait.map_or(surely, |(_, gone)| surely.max(-gone.high.ln_1p()));
        Self { followed, is_open, by_more, seen, is_dosed: dose.is_some(), moved, moved_surely, detail }
    }

    /// Whether a control stood still beside it.
    fn leaves_still(&self, control: &Intervention, seen: &Seen) -> bool {
        match control.what {
            // A remedy's own placebo stands still like any control; the other one by what the suspect moved.
            InterventionKind::Placebo => {
                let is_still = !self.is_dosed && seen.covers_zero() && seen.value.abs() < STANDS_STILL;
                is_still || moves_far_less(seen, self.moved, self.moved_surely)
            }
            InterventionKind::Cpu
            | InterventionKind::LinkRate { .. }
            | InterventionKind::Concurrency
            | InterventionKind::Rate
            | InterventionKind::LowerRate
            | InterventionKind::KeepAlive
            | InterventionKind::Removal { .. } => stands_still(seen, self.seen.as_ref()),
        }
    }
}

/// Whether all controls stood still beside a suspect, and what each did. None where there was none.
fn controls(hop: &Hop<'_>, finding: &Finding, suspect: &Suspect<'_>) -> (Option<bool>, String) {
    let tested = finding.dose.tested_host(hop);
    let others = tests_done(hop.run).filter(|i| i.target != hop.name && i.target != tested);
    let (mut all_still, mut detail) = (None, String::new());
    for (control, seen) in others.filter_map(|i| Some((i, Seen::of(i)?))) {
        let is_still = suspect.leaves_still(control, &seen);
        // A host that was suspected first and stood still is a control as good as any; one that moved was no control.
        let is_control = control.control || (is_still && control.what == InterventionKind::Cpu);
        if !is_control {
            continue;
        }
        let verdict = match is_still {
            true if seen.value < STANDS_STILL => "it stood still, as it should",
            true => "far less, as it should",
            false => "it should have stood still",
        };
        let what = if control.what == InterventionKind::Placebo { "nothing turned" } else { &control.target };
        detail.push_str(&format!("; control {what}: {}, {verdict}", seen.text()));
        let harder = if is_still { None } else { still_when_slowed_more(hop.run, control) };
        all_still = Some(all_still.unwrap_or(true) && (is_still || harder.is_some()));
        detail.extend(harder);
    }
    (all_still, detail)
}

fn answer(hop: &Hop<'_>, finding: &Finding) -> GroundingTest {
    let suspect = Suspect::of(hop, finding);
    let (all_still, of_controls) = controls(hop, finding, &suspect);
    let needs_control = finding.dose != Dose::Concurrency;
    let quiet = all_still.unwrap_or(!needs_control);
    let mut detail = suspect.detail + &of_controls;
    if all_still.is_none() && needs_control {
        detail.push_str("; no control was made");
    }
    let by_dose = (suspect.followed || suspect.by_more.is_some()) && quiet;
    if let (Some(harder), Some(seen)) = (suspect.by_more, &suspect.seen) {
        detail.push_str(&format!("; slowed by {:.0} % it followed by {}", harder.dose * 100.0, seen.text()));
    }
    let by_remedy = if suspect.is_open && !by_dose { remedy_alone(hop, finding, quiet) } else { None };
    let holds = by_dose || by_remedy.is_some();
    detail.extend(by_remedy);
    detail.extend(together(hop.run));
    test("response", holds, detail)
}

/// Whether trials with nothing turned moved throughput by far less than the suspect did, which was by the logarithm `moved`, and at the
/// least by `surely`: a stack that mostly fails is not the same twice, and by chance one interval in twenty misses 0.
fn moves_far_less(seen: &Seen, moved: f64, surely: f64) -> bool {
    let is_below = |border: f64, effect: f64| effect.ln_1p().abs() < border;
    let is_within = |border: f64| is_below(border, seen.low) && is_below(border, seen.high);
    let stays_apart = seen.covers_zero() || is_within(surely);
    is_within(NOTHING * moved) || (stays_apart && is_below(FAR_LESS * moved, seen.value))
}

/// Whether a host that was slowed as a control hardly mattered: less than a resource that does, or far less than the suspect.
fn stands_still(seen: &Seen, suspect: Option<&Seen>) -> bool {
    let value = suspect.map_or(1.0, |s| s.value.abs());
    // Whoever serves in the bursts of a limited neighbour matters a little; what counts is that the suspect matters much more.
    let is_far_less = suspect.is_some_and(|s| seen.high < s.low && seen.value.abs() < FAR_LESS * value);
    // A wide interval covers 0 easily, so the value itself must stay below the border as well.
    let is_still = seen.value < STANDS_STILL && seen.covers_zero();
    let hardly_moves = seen.value.abs() < STANDS_STILL && seen.value.abs() < FAR_LESS * value;
    is_still || hardly_moves || is_far_less
}

/// Where a suspect whose answer was too wide to tell was slowed by more, and throughput followed.
fn follows_when_slowed_more<'a>(run: &'a Run, suspect: &Intervention) -> Option<&'a Intervention> {
    slowed_more(run, suspect).filter(|(_, seen)| seen.follows()).map(|(harder, _)| harder)
}

/// The same thing slowed by more, as a further look.
fn slowed_more<'a>(run: &'a Run, than: &Intervention) -> Option<(&'a Intervention, Seen)> {
    let is_harder = |i: &&Intervention| {
        i.further && i.control == than.control && i.what == than.what && i.target == than.target && i.dose > than.dose
    };
    run.interventions.iter().filter(is_harder).find_map(|i| Some((i, Seen::of(i)?)))
}

/// What shows that a control whose answer was too wide to tell stands still: it did when it was slowed by more.
fn still_when_slowed_more(run: &Run, control: &Intervention) -> Option<String> {
    let (harder, seen) = slowed_more(run, control)?;
    let is_still = seen.value.abs() < STANDS_STILL && seen.low <= 0.0 && seen.high < FOLLOWS;
    is_still.then(|| format!(", and slowed by {:.0} % it stood still: {}", harder.dose * 100.0, seen.text()))
}

/// What shows that a finding limits although a dose, or the control of it, was too wide to tell: its remedy, tried beside trials with
/// nothing turned. Where there was no time for those, the controls of the dose must have stood still.
fn remedy_alone(hop: &Hop<'_>, finding: &Finding, controls_stood_still: bool) -> Option<String> {
    let further = || hop.run.interventions.iter().rev().filter(|i| i.further).filter_map(|i| Some((i, Seen::of(i)?)));
    let (remedy, seen) = further().find(|(i, _)| turns_remedy(i, finding))?;
    let Response::Follows(detail) = removal(&seen, remedy, finding) else { return None };
    match further().find(|(i, _)| i.what == InterventionKind::Placebo) {
        Some((_, nothing)) => moves_far_less(&nothing, seen.value.ln_1p(), seen.least().ln_1p())
            .then(|| format!("; {detail}, and with nothing turned by {}", nothing.text())),
        None => controls_stood_still.then(|| format!("; {detail}")),
    }
}

/// Whether throughput followed a finding and its controls stood still.
pub fn is_answered(hop: &Hop<'_>, finding: &Finding) -> bool {
    answer(hop, finding).holds
}

/// What the elasticities of all resources that were made slower add up to: 1 in a stack in which nothing else holds requests
/// (throughput is homogeneous of degree 1 in all rates, see `prony_stats::elasticity`). None for fewer than two.
fn together(run: &Run) -> Option<String> {
    let is_dose = |i: &Intervention| matches!(i.what, InterventionKind::Cpu | InterventionKind::LinkRate { .. });
    // At a rate queues grow with what is made slower, and the sum says nothing.
    let slowed = |i: &&Intervention| is_dose(i) && !i.at_rate;
    // Each resource once, as it was last tested.
    let mut last: Vec<(&str, Seen)> = Vec::new();
    for (target, seen) in tests_done(run).filter(slowed).filter_map(|i| Some((i.target.as_str(), Seen::of(i)?))) {
        last.retain(|(known, _)| *known != target);
        last.push((target, seen));
    }
    let (sum, half) =
        last.iter().fold((0.0, 0.0), |(sum, half), (_, s)| (sum + s.value, f64::hypot(half, (s.high - s.low) / 2.0)));
    let rest = if sum + half >= 1.0 { "nothing else need hold it" } else { "the rest lies in what was not slowed" };
    (last.len() > 1).then(|| format!("; the elasticities of {} resources add up to {sum:.2} of 1: {rest}", last.len()))
}

/// Whether throughput followed the CPU of this hop when it was slowed, by more than a part.
pub fn follows_cpu_of(hop: &Hop<'_>) -> bool {
    surprising_hosts(hop.run).iter().any(|(name, _)| *name == hop.name)
}

/// The tests that gave a host less CPU in a closed loop. At a rate they tell how long its work takes, not whether it is the limit.
fn cpus_slowed(run: &Run) -> impl DoubleEndedIterator<Item = &Intervention> {
    tests_done(run).filter(|i| i.what == InterventionKind::Cpu && !i.at_rate)
}

/// What throughput did when this hop was last given less CPU.
pub fn slowed(hop: &Hop<'_>) -> Option<Seen> {
    cpus_slowed(hop.run).rfind(|i| i.target == hop.name).and_then(Seen::of)
}

/// Whether throughput stood still for sure when this hop was last given less CPU.
pub fn stands_still_without_cpu_of(hop: &Hop<'_>) -> bool {
    slowed(hop).is_some_and(|seen| seen.high < STANDS_STILL)
}

/// Hosts whose CPU throughput followed by more than a part although nobody suspected it, with the elasticity.
pub fn surprising_hosts(run: &Run) -> Vec<(&str, f64)> {
    let seen = cpus_slowed(run).filter_map(|i| Some((Hop { run, name: &i.target }, Seen::of(i)?)));
    let followed = seen.filter(|(hop, s)| s.follows() && !is_part(hop, s));
    followed.map(|(hop, s)| (hop.name, s.value)).collect()
}
