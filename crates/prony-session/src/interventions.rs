//! The order of an intervention's trials, and what they add up to.
//!
//! Interventions come in rounds: the suspect and its control, then what their answer asks for next. Each pair of a round has one trial
//! as found and one for each of its interventions, in random order; so suspect and control share their baseline, and drift of the
//! machine hits all alike.

use crate::budget::{self, PAIRS_MIN};
use crate::disturbed;
use crate::effort::Effort;
use crate::levels::{chance, order, timed};
use crate::machine::Command;
use prony_model::limit::Bounded;
use prony_model::run::Arm;
use prony_model::{
    Effect, Gap, Intervention, InterventionKind, Level, LoadPlan, LoadResult, Nanos, Purpose, Rate, Run, Trial,
};
use prony_stats::elasticity::Pair;
use prony_stats::paired;
use prony_stats::random::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Interventions of a run at most. A guess: with a suspect, its control and two doses each time, three suspects.
const INTERVENTIONS_MAX: usize = 12;
/// Whether a run may make `more` interventions.
pub(crate) fn may_make(run: &Run, more: usize) -> bool {
    more > 0 && run.interventions.len() + more <= INTERVENTIONS_MAX
}

/// The interventions from `first` on are under way; some could not be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Round {
    first: usize,
    given_up: BTreeSet<usize>,
    /// Pairs that were disturbed were made again; that is done once.
    repeated: bool,
}

impl Round {
    /// The round of the interventions of `run` from `first` on.
    pub(crate) fn from(first: usize) -> Self {
        Self { first, given_up: BTreeSet::new(), repeated: false }
    }

    /// Its interventions.
    pub(crate) fn planned<'a>(&self, run: &'a Run) -> &'a [Intervention] {
        run.interventions.get(self.first..).unwrap_or_default()
    }

    /// The number of its first pair, once a trial with an intervention was made.
    pub(crate) fn first_pair(&self, run: &Run) -> Option<u32> {
        let of_round = |trial: &Trial| {
            let Purpose::Intervention { index, pair, arm: Arm::B } = trial.purpose else { return None };
            (index as usize >= self.first).then_some(pair)
        };
        run.trials.iter().filter_map(of_round).min()
    }

    /// Pairs of the round to be made again, as many as were disturbed and there is time for; not a second time. `kept` of that time is
    /// for what comes after, if enough pairs were undisturbed.
    pub(crate) fn pairs_again(&mut self, run: &Run, effort: &Effort, left: Nanos, kept: Nanos) -> u32 {
        let planned = self.planned(run);
        let lost: BTreeSet<u32> = self.disturbed(run).into_values().map(|(pair, _)| pair).collect();
        let repeats = !std::mem::replace(&mut self.repeated, true) && !planned.iter().all(|i| i.further);
        let lost = if repeats { lost.len() as u32 } else { 0 };
        let Some(first) = self.first_pair(run) else { return 0 };
        let took = budget::pair_took(run, first).unwrap_or_default();
        let undisturbed = (pairs_made(run) - first).saturating_sub(lost);
        lost.min(budget::fit_into(run, effort, planned, budget::spare(left, kept, undisturbed), took))
    }

    /// The trials of the round that were disturbed, by their ids: of which pair, and by what.
    fn disturbed(&self, run: &Run) -> BTreeMap<u32, (u32, String)> {
        let pair_and_index = |t: &Trial| {
            let Purpose::Intervention { index, pair, arm } = t.purpose else { return None };
            Some((pair, (arm == Arm::B).then_some(index as usize)))
        };
        let trials = || run.trials.iter().filter_map(|t| Some((t, pair_and_index(t)?)));
        let of_round = |index: &Option<usize>| index.is_some_and(|index| index >= self.first);
        let pairs: BTreeSet<u32> =
            trials().filter(|(_, (_, index))| of_round(index)).map(|(_, (pair, _))| pair).collect();
        let in_round = trials().filter(|(_, (pair, _))| pairs.contains(pair));
        let mends = |index: usize| run.interventions.get(index).is_some_and(|i| i.what.is_removal());
        let found = in_round.filter_map(|(trial, (pair, index))| {
            let why = match index {
                None => disturbed::as_found(run, trial),
                // With a remedy work may cost what it likes.
                Some(index) if mends(index) => None,
                Some(_) => disturbed::by_dear_work(run, trial),
            };
            Some((trial.id, (pair, why?)))
        });
        found.collect()
    }

    /// An intervention could not be done: its remaining trials are dropped.
    pub(crate) fn give_up(&mut self, index: usize, queue: &mut VecDeque<Command>) {
        self.given_up.insert(index);
        let mut skipping = true; // the trial and the restore that belong to the failed command come first
        queue.retain(|command| {
            let of_it = match command {
                Command::Intervene { index: i } => *i == index,
                Command::Trial(t) => {
                    matches!(t.purpose, Purpose::Intervention { index: i, arm: Arm::B, .. } if i as usize == index)
                }
                Command::Restore => skipping,
                Command::Listen | Command::Survey | Command::Turn(_) | Command::Keep | Command::Finish => false,
            };
            skipping = of_it;
            !of_it
        });
    }
}

/// All commands of a round. Its pairs are numbered on from those of earlier rounds.
pub(crate) fn plan(run: &Run, round: &Round, base: &LoadPlan, effort: &Effort, seed: u64) -> VecDeque<Command> {
    let made = pairs_made(run);
    let mut random = Random::new(seed.wrapping_add(round.first as u64) ^ u64::from(made));
    let mut queue = VecDeque::new();
    if run.interventions.len() <= round.first {
        return queue;
    }
    for pair in made..made + effort.pairs {
        let tried = (round.first..run.interventions.len()).filter(|index| !round.given_up.contains(index));
        let mut arms: Vec<Option<usize>> = std::iter::once(None).chain(tried.map(Some)).collect();
        random.shuffle(&mut arms);
        for arm in arms {
            queue.extend(trial(run, round, base, effort, pair, arm));
        }
    }
    queue
}

fn pairs_made(run: &Run) -> u32 {
    run.trials.iter().filter_map(|trial| budget::pair_of(&trial.purpose)).max().map_or(0, |last| last + 1)
}

/// The commands of one trial: as found (`None`), or with intervention `index`.
fn trial(run: &Run, round: &Round, base: &LoadPlan, effort: &Effort, pair: u32, index: Option<usize>) -> Vec<Command> {
    // The workload may have a rate. Throughput follows the slowest part only in a closed loop; how soon requests are answered, and
    // whether there is room for a higher rate, is asked at that rate.
    let keeps_rate = |i: &Intervention| i.at_rate || i.what == InterventionKind::Rate;
    let rate = base.rate.filter(|_| round.planned(run).iter().any(keeps_rate));
    let plan = chance(LoadPlan { rate, ..timed(base, effort.settle, effort.intervention) }, pair);
    let Some(index) = index else {
        return vec![order(
            Purpose::Intervention { index: 0, pair, arm: Arm::A },
            plan,
            &format!("pair {}: as found", pair + 1),
        )];
    };
    let planned = &run.interventions[index];
    let purpose = Purpose::Intervention { index: index as u32, pair, arm: Arm::B };
    let label = format!("pair {}: {}", pair + 1, what_is_done(&planned.what, &planned.target, planned.dose));
    match planned.what {
        InterventionKind::Concurrency => {
            let connections = (f64::from(plan.connections) * (1.0 + planned.dose)).round() as u32;
            vec![order(purpose, LoadPlan { connections, ..plan }, &label)]
        }
        InterventionKind::Rate => {
            let rate = plan.rate.map(|rate| Rate(rate.0 * (1.0 + planned.dose)));
            vec![order(purpose, LoadPlan { rate, ..plan }, &label)]
        }
        InterventionKind::LowerRate => {
            let rate = plan.rate.map(|rate| Rate(rate.0 * (1.0 - planned.dose)));
            vec![order(purpose, LoadPlan { rate, ..plan }, &label)]
        }
        InterventionKind::KeepAlive => {
            let kept = LoadPlan { keepalive: true, requests_per_connection: None, ..plan };
            vec![order(purpose, kept, &label)]
        }
        InterventionKind::Placebo => vec![order(purpose, plan, &label)],
        InterventionKind::Removal { .. } => {
            let plan = LoadPlan { warmup: Nanos(plan.warmup.0 * 2), ..plan };
            let mut commands = vec![Command::Intervene { index }, order(purpose, plan, &label)];
            commands.extend((0..changes(run, index)).map(|_| Command::Restore));
            commands
        }
        InterventionKind::Cpu | InterventionKind::LinkRate { .. } => {
            vec![Command::Intervene { index }, order(purpose, plan, &label), Command::Restore]
        }
    }
}

/// How many changes an intervention leaves to be put back.
pub(crate) fn changes(run: &Run, index: usize) -> usize {
    run.interventions.get(index).map_or(1, |planned| planned.what.knobs().len().max(1))
}

fn what_is_done(what: &InterventionKind, target: &str, dose: f64) -> String {
    let percent = dose * 100.0;
    match what {
        InterventionKind::Cpu => format!("CPU of {target} {percent:.0} % slower"),
        InterventionKind::LinkRate { interface, .. } => format!("{interface} of {target} {percent:.0} % slower"),
        InterventionKind::Concurrency => format!("{percent:.0} % more connections"),
        InterventionKind::Rate => format!("{percent:.0} % more requests asked for"),
        InterventionKind::LowerRate => format!("{percent:.0} % fewer requests asked for"),
        InterventionKind::Removal { knob, also } => {
            let more = also.iter().map(|k| format!(", {} = {} at {}", k.id, k.value, k.host)).collect::<String>();
            format!("{} = {} at {}{more}", knob.id, knob.value, knob.host)
        }
        InterventionKind::KeepAlive => "connections kept".to_string(),
        InterventionKind::Placebo => "nothing turned".to_string(),
    }
}

/// Turns the pairs of a round into elasticities with intervals, and says which pairs were left out and why. An intervention that could
/// not be done stays without.
pub(crate) fn conclude(run: &mut Run, round: &Round) -> Option<Gap> {
    let disturbed = round.disturbed(run);
    let (mut made, mut counted) = (0, 0);
    let failing = run.level(Level::At).is_some_and(|at| at.result.mostly_fails());
    for index in round.first..run.interventions.len() {
        let of = match &run.interventions[index] {
            i if i.what == InterventionKind::LowerRate => mean_us,
            i if i.at_rate => LoadResult::soonness_per_s,
            i if failing && !i.what.shows_gain() => LoadResult::worked_for_per_s,
            _ => good_per_s,
        };
        let (all, mut left_out) = (pairs(run, index, of, &BTreeSet::new()), disturbed.keys().copied().collect());
        let mut pairs = pairs(run, index, of, &left_out);
        if pairs.len() < PAIRS_MIN as usize {
            // Without them nothing could be told.
            (pairs, left_out) = (all.clone(), BTreeSet::new());
        }
        (made, counted) = (made.max(all.len()), counted.max(pairs.len()));
        let p99 = tail(run, index, |result| result.latency.p99_us, &left_out);
        let p999 = tail(run, index, |result| result.latency.p999_us, &left_out);
        let planned = &mut run.interventions[index];
        planned.pairs = pairs.len() as u32;
        if round.given_up.contains(&index) {
            continue;
        }
        let found = match planned.what {
            InterventionKind::Cpu | InterventionKind::LinkRate { .. } | InterventionKind::LowerRate => {
                prony_stats::elasticity::estimate(&pairs, planned.dose).map(|e| (e.estimate, e.low, e.high, e.by_speed))
            }
            InterventionKind::Concurrency | InterventionKind::Rate => {
                prony_stats::elasticity::growth(&pairs, planned.dose).map(|e| (e.estimate, e.low, e.high, e.by_speed))
            }
            InterventionKind::Removal { .. } | InterventionKind::KeepAlive | InterventionKind::Placebo => {
                at_equal_speed("answer", &pairs).map(|e| (e.effect, e.low, e.high, e.by_speed))
            }
        };
        if let Some((estimate, low, high, by_speed)) = found {
            (planned.elasticity, planned.low, planned.high) = (Some(estimate), Some(low), Some(high));
            planned.by_speed = by_speed;
        }
        (planned.p99, planned.p999) = (p99, p999);
    }
    let (_, why) = disturbed.into_values().next()?;
    let count = match made - counted {
        0 => "too few pairs were undisturbed, so all count".to_string(),
        left_out => format!("{left_out} of {made} pairs were left out"),
    };
    Some(Gap::new("intervention", &run.interventions.get(round.first)?.target, format!("{count}: {why}")))
}

/// How a removal changed a latency, relative; none of other interventions.
fn tail(run: &Run, index: usize, latency_us: fn(&LoadResult) -> f64, left_out: &BTreeSet<u32>) -> Option<Bounded> {
    match run.interventions[index].what {
        InterventionKind::Removal { .. } | InterventionKind::KeepAlive => {
            let change = at_equal_speed("latency", &pairs(run, index, latency_us, left_out))?;
            Some(Bounded { value: Some(change.effect), low: Some(change.low), high: Some(change.high) })
        }
        InterventionKind::Cpu
        | InterventionKind::LinkRate { .. }
        | InterventionKind::Concurrency
        | InterventionKind::Rate
        | InterventionKind::LowerRate
        | InterventionKind::Placebo => None,
    }
}

/// Mean latency, from the time that a request was due, in microseconds.
fn mean_us(result: &LoadResult) -> f64 {
    result.latency.mean_us
}

/// Good requests per second. Where all fail there are none, and pairs need a ratio: then half a request in the whole trial, the
/// customary correction for counts of 0 (Haldane 1956, "The estimation and significance of the logarithm of a ratio of
/// frequencies").
fn good_per_s(result: &LoadResult) -> f64 {
    result.good_per_s.max(0.5 / result.duration_s.max(f64::MIN_POSITIVE))
}

/// What `of` reads from each complete pair, those of certain trials left out: (as found, with intervention).
fn pairs(run: &Run, index: usize, of: fn(&LoadResult) -> f64, left_out: &BTreeSet<u32>) -> Vec<Pair> {
    let answered = |t: &&Trial| t.result.completed + t.result.errors.total() > 0;
    let complete = |t: &&Trial| !t.result.interrupted && answered(t) && !left_out.contains(&t.id);
    let as_found = |pair: u32| {
        let purpose = Purpose::Intervention { index: 0, pair, arm: Arm::A };
        run.trials.iter().find(|t| t.purpose == purpose).filter(complete)
    };
    let with = run.trials.iter().filter(complete).filter_map(|t| {
        let Purpose::Intervention { index: intervened, pair, arm: Arm::B } = t.purpose else { return None };
        (intervened as usize == index).then_some((as_found(pair)?, t))
    });
    // Where clients only gave up, in both, the pair says nothing: not that it makes no difference either.
    let told = with.filter(|(found, with)| !(hangs(&found.result) && hangs(&with.result)));
    let piece_us = |trial: &Trial| run.piece_us(suspect(run, index)?, trial.window);
    let pair = |(found, with): (&Trial, &Trial)| Pair {
        x0: of(&found.result),
        xs: of(&with.result),
        pieces: piece_us(found).zip(piece_us(with)),
    };
    // Without an answer there is no latency.
    told.map(pair).filter(|pair| pair.x0.is_normal() && pair.xs.is_normal()).collect()
}

/// The host whose speed throughput is taken to follow while this intervention is made: its own target, or that of the suspect that it
/// is a control of; where there is none the first of the path.
fn suspect(run: &Run, index: usize) -> Option<&str> {
    let until = run.interventions.get(..=index)?.iter().rev();
    let suspect = until.filter(|i| !i.control).map(|i| i.target.as_str()).find(|target| !target.is_empty());
    suspect.or_else(|| run.stack.path().first().copied())
}

/// The relative change of what pairs compare, at equal speed of the machine where that can be told.
fn at_equal_speed(metric: &str, pairs: &[Pair]) -> Option<Effect> {
    let values: Vec<(f64, f64)> = pairs.iter().map(|pair| (pair.x0, pair.xs)).collect();
    let pieces: Option<Vec<(f64, f64)>> = pairs.iter().map(|pair| pair.pieces).collect();
    paired::compare_at_speed(metric, &values, &pieces.unwrap_or_default())
}

/// Nothing came back, and nothing was refused.
fn hangs(result: &LoadResult) -> bool {
    result.completed == 0 && result.errors.total() == result.errors.timeout
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MadeRun, plan as base, planned, removal, run};
    use expect_test::{Expect, expect};
    use prony_model::metric::{CGROUP_USAGE, YARDSTICK_PIECES, YARDSTICK_TIME};
    use prony_model::{ErrorCounts, Knob, KnobId, SeriesSet};

    /// The commands as words; behind a trial stands its pair.
    fn words(queue: &VecDeque<Command>) -> String {
        let word = |command: &Command| {
            if let Command::Intervene { index } = command {
                return format!("slow{index}");
            }
            let Command::Trial(order) = command else {
                assert_eq!(*command, Command::Restore);
                return "restore".to_string();
            };
            let Purpose::Intervention { index, pair, arm } = order.purpose else { panic!("{order:?}") };
            if arm == Arm::A { format!("as-found.{pair}") } else { format!("trial{index}.{pair}") }
        };
        queue.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    fn check(run: &Run, want: Expect) {
        let effort = Effort { pairs: 3, ..Effort::quick() };
        want.assert_eq(&words(&plan(run, &Round::default(), &base(), &effort, 7)));
    }

    #[test]
    fn every_pair_has_its_baseline_and_whatever_is_slowed_is_restored() {
        let run = run(vec![planned(InterventionKind::Cpu, false), planned(InterventionKind::Cpu, true)]);
        check(
            &run,
            expect![
                "slow1 trial1.0 restore as-found.0 slow0 trial0.0 restore as-found.1 slow0 trial0.1 restore slow1 trial1.1 restore slow1 trial1.2 restore as-found.2 slow0 trial0.2 restore"
            ],
        );
    }

    #[test]
    fn clients_that_keep_their_connections_turn_nothing() {
        let asked = LoadPlan { keepalive: false, requests_per_connection: Some(3), ..base() };
        let run = run(vec![planned(InterventionKind::KeepAlive, false)]);
        let effort = Effort { pairs: 1, ..Effort::quick() };
        let kept = |command: &Command| {
            let Command::Trial(order) = command else { panic!("{command:?}") };
            (order.plan.keepalive, order.plan.requests_per_connection)
        };
        let mut plans: Vec<_> = plan(&run, &Round::default(), &asked, &effort, 7).iter().map(kept).collect();
        plans.sort_unstable();
        assert_eq!(plans, [(false, Some(3)), (true, None)]);
    }

    #[test]
    fn a_later_round_has_its_own_baselines_and_leaves_the_earlier_alone() {
        let first = played(
            run(vec![planned(InterventionKind::Cpu, false), planned(InterventionKind::Cpu, true)]),
            &[0.8, 1.0],
            6,
        );
        let mut run = first.clone();
        conclude(&mut run, &Round::default());
        let earlier = run.interventions.clone();
        let round = Round::from(2);
        run.interventions.push(Intervention { dose: 0.4, further: true, ..planned(InterventionKind::Cpu, false) });
        let queue = plan(&run, &round, &base(), &Effort { pairs: 2, ..Effort::quick() }, 7);
        assert_eq!(words(&queue), "as-found.6 slow2 trial2.6 restore as-found.7 slow2 trial2.7 restore");
        for pair in 6..11 {
            let speed = |arm| if arm == Arm::A { 500.0 } else { 300.0 };
            for (index, arm) in [(0, Arm::A), (2, Arm::B)] {
                run = MadeRun { run }.trial(Purpose::Intervention { index, pair, arm }, speed(arm)).run;
            }
        }
        conclude(&mut run, &round);
        assert_eq!(run.interventions[..2], earlier, "half the speed by then is none of their business");
        let further = &run.interventions[2];
        assert!((further.elasticity.unwrap() - 1.0).abs() < 1e-9 && further.pairs == 5, "{further:?}");
    }

    #[test]
    fn there_are_twelve_at_most() {
        let of = |made: usize| run(vec![planned(InterventionKind::Cpu, false); made]);
        assert!(may_make(&of(0), 2) && may_make(&of(10), 2) && !may_make(&of(11), 2));
        assert!(!may_make(&of(0), 0), "nothing to do");
    }

    #[test]
    fn more_connections_change_no_host() {
        let run = run(vec![planned(InterventionKind::Concurrency, false)]);
        check(&run, expect!["trial0.0 as-found.0 trial0.1 as-found.1 as-found.2 trial0.2"]);
        let queue = plan(&run, &Round::default(), &base(), &Effort::quick(), 7);
        let with = queue.iter().filter(|c| matches!(c, Command::Trial(t) if t.plan.connections == 10)).count();
        assert_eq!(with, Effort::quick().pairs as usize, "8 connections and 20 % more, rounded");
    }

    #[test]
    fn room_for_a_higher_rate_is_looked_for_at_that_rate() {
        let run = run(vec![planned(InterventionKind::Rate, false)]);
        let asked = LoadPlan { rate: Some(Rate(1000.0)), ..base() };
        let queue = plan(&run, &Round::default(), &asked, &Effort { pairs: 2, ..Effort::quick() }, 7);
        let rates = queue.iter().map(|command| {
            let Command::Trial(order) = command else { panic!("{command:?}") };
            order.plan.rate.unwrap().0
        });
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_by(f64::total_cmp);
        assert_eq!(rates, [1000.0, 1000.0, 1200.0, 1200.0]);
    }

    #[test]
    fn what_is_asked_at_a_rate_keeps_it_and_tells_how_long_requests_take() {
        let kinds = [(InterventionKind::LowerRate, 0.5), (removal(), 1.0), (InterventionKind::Placebo, 0.0)];
        let planned = kinds.map(|(what, dose)| Intervention::planned("lb", what, false, dose).at_rate());
        let mut made = MadeRun { run: run(planned.to_vec()) };
        let asked = LoadPlan { rate: Some(Rate(1000.0)), ..base() };
        let queue = plan(&made.run, &Round::default(), &asked, &Effort { pairs: 6, ..Effort::quick() }, 7);
        for command in queue {
            let Command::Trial(order) = command else { continue };
            let Purpose::Intervention { index, arm, .. } = order.purpose else { panic!("{order:?}") };
            // Half of the time is a queue's, which goes with half of the rate; a remedy takes three quarters.
            let (rate, mean_us) = match (arm, index) {
                (Arm::B, 0) => (500.0, 4_000.0),
                (Arm::B, 1) => (1000.0, 2_000.0),
                (Arm::A | Arm::B, _) => (1000.0, 8_000.0),
            };
            assert_eq!(order.plan.rate, Some(Rate(rate)), "{order:?}");
            let latency = prony_model::Latency { mean_us, ..Default::default() };
            let (completed, good_per_s) = (rate as u64, rate);
            let result = LoadResult { good_per_s, completed, duration_s: 1.0, latency, ..LoadResult::default() };
            made.push(order.purpose.clone(), order.plan.clone(), result);
        }
        conclude(&mut made.run, &Round::default());
        let told = made.run.interventions.iter().map(|i| i.elasticity.unwrap());
        let wanted = [1.0, 3.0, 0.0];
        assert!(told.zip(wanted).all(|(told, wanted)| (told - wanted).abs() < 1e-9), "{:?}", made.run.interventions);
    }

    #[test]
    fn without_an_answer_there_is_no_latency() {
        let mut made = MadeRun { run: run(vec![planned(removal(), false).at_rate()]) };
        for pair in 0..6 {
            for arm in [Arm::A, Arm::B] {
                let mean_us = if pair == 0 { 0.0 } else { 8_000.0 };
                let latency = prony_model::Latency { mean_us, ..Default::default() };
                let result = LoadResult { latency, completed: 1, duration_s: 1.0, ..LoadResult::default() };
                made.push(Purpose::Intervention { index: 0, pair, arm }, base(), result);
            }
        }
        conclude(&mut made.run, &Round::default());
        assert_eq!((made.run.interventions[0].elasticity, made.run.interventions[0].pairs), (Some(0.0), 5));
    }

    #[test]
    fn siblings_with_the_same_fault_are_mended_together_and_all_put_back() {
        let at = |host: &str| Knob { host: host.into(), id: KnobId::NginxWorkerProcesses, value: "2".into() };
        let planned = planned(InterventionKind::Removal { knob: at("s1"), also: vec![at("s2")] }, false);
        let run = run(vec![planned]);
        let queue = plan(&run, &Round::default(), &base(), &Effort { pairs: 1, ..Effort::quick() }, 7);
        assert_eq!(words(&queue), "slow0 trial0.0 restore restore as-found.0");
        let mut left = queue;
        left.pop_front();
        Round::default().give_up(0, &mut left);
        assert_eq!(words(&left), "as-found.0", "nothing was turned, so nothing is put back");
    }

    #[test]
    fn what_all_fails_as_found_is_a_pair_too() {
        let mut run =
            played(run(vec![planned(removal(), false), planned(InterventionKind::Placebo, true)]), &[1.0, 1.0], 6);
        for trial in &mut run.trials {
            let mended = matches!(trial.purpose, Purpose::Intervention { index: 0, arm: Arm::B, .. });
            trial.result.good_per_s = if mended { 2000.0 } else { 0.0 };
            (trial.result.duration_s, trial.result.completed) = (2.0, 0);
            trial.result.errors.read = 15_000;
        }
        conclude(&mut run, &Round::default());
        let [removal, placebo] = &run.interventions[..] else { panic!("two were planned") };
        assert!(removal.low.unwrap() > 100.0, "{removal:?}");
        assert_eq!((placebo.elasticity, placebo.high), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn a_pair_in_which_everything_hangs_says_nothing() {
        let hung = |pair, arm, timeout, completed| {
            let errors = ErrorCounts { timeout, ..ErrorCounts::default() };
            let good_per_s = completed as f64;
            let result = LoadResult { completed, errors, good_per_s, duration_s: 1.0, ..LoadResult::default() };
            (Purpose::Intervention { index: 0, pair, arm }, result)
        };
        let made = |with: u64| {
            let mut made = MadeRun { run: run(vec![planned(removal(), false)]) };
            for pair in 0..6 {
                for (purpose, result) in [hung(pair, Arm::A, 64, 0), hung(pair, Arm::B, 64, with)] {
                    made.push(purpose, base(), result);
                }
            }
            conclude(&mut made.run, &Round::default());
            made.run.interventions[0].clone()
        };
        assert_eq!(made(0).elasticity, None, "neither that it helps nor that it does not");
        assert!(made(50).elasticity.unwrap() > 10.0, "with the remedy it answers");
    }

    #[test]
    fn a_stack_that_only_fails_is_slowed_like_any_other() {
        let level = Purpose::Level { level: Level::At };
        let run = run(vec![planned(InterventionKind::Cpu, false), planned(removal(), false)]);
        let mut run = played(MadeRun { run }.trial(level, 1000.0).run, &[0.8, 1.0], 6);
        run.trials.iter_mut().for_each(|trial| trial.result.good_per_s = 0.0);
        conclude(&mut run, &Round::default());
        assert!((run.interventions[0].elasticity.unwrap() - 1.0).abs() < 0.05, "{:?}", run.interventions[0]);
        assert_eq!(run.interventions[1].elasticity, Some(0.0), "a remedy must bring good answers");
    }

    #[test]
    fn the_order_is_random_but_of_the_seed() {
        let run = run(vec![planned(InterventionKind::Cpu, false)]);
        let order = |seed| words(&plan(&run, &Round::default(), &base(), &Effort::default(), seed));
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert!(plan(&self::run(vec![]), &Round::default(), &base(), &Effort::default(), 1).is_empty());
    }

    #[test]
    fn what_cannot_be_done_is_dropped_and_nothing_else() {
        let run = run(vec![planned(InterventionKind::Cpu, false), planned(InterventionKind::Cpu, true)]);
        let mut queue = plan(&run, &Round::default(), &base(), &Effort { pairs: 3, ..Effort::quick() }, 7);
        while queue.pop_front() != Some(Command::Intervene { index: 1 }) {}
        let mut round = Round::default();
        round.give_up(1, &mut queue);
        expect![
            "as-found.0 slow0 trial0.0 restore as-found.1 slow0 trial0.1 restore as-found.2 slow0 trial0.2 restore"
        ]
        .assert_eq(&words(&queue));
        let again = plan(&run, &round, &base(), &Effort { pairs: 1, ..Effort::quick() }, 7);
        assert!(!words(&again).contains("slow1"), "it is not tried again");
    }

    /// Pairs of a stack of 1,000 requests/s: intervention 0 makes it `effects[0]` times as fast, and so on.
    fn played(run: Run, effects: &[f64], pairs: u32) -> Run {
        let mut made = MadeRun { run };
        for pair in 0..pairs {
            let noise = 1.0 + 0.001 * f64::from(pair % 3);
            made = made.trial(Purpose::Intervention { index: 0, pair, arm: Arm::A }, 1000.0 * noise);
            for (index, effect) in effects.iter().enumerate() {
                let purpose = Purpose::Intervention { index: index as u32, pair, arm: Arm::B };
                made = made.trial(purpose, 1000.0 * effect / noise);
            }
        }
        made.run
    }

    fn concluded(mut run: Run, round: &Round) -> String {
        conclude(&mut run, round);
        let line = |i: &Intervention| match (i.elasticity, i.low, i.high) {
            (Some(e), Some(low), Some(high)) => format!("{}: {e:.2} [{low:.2}, {high:.2}] of {}\n", i.target, i.pairs),
            _ => format!("{}: not known, of {}\n", i.target, i.pairs),
        };
        run.interventions.iter().map(line).collect()
    }

    #[test]
    fn pairs_become_elasticities() {
        let kinds = [InterventionKind::Cpu, InterventionKind::Cpu, InterventionKind::Concurrency, removal()];
        let all = kinds.into_iter().enumerate().map(|(i, what)| planned(what, i == 1)).collect();
        let run = played(run(all), &[0.8, 1.0, 1.2, 1.5], 6);
        expect![[r#"
            lb: 1.01 [0.99, 1.03] of 6
            s1: 0.01 [-0.01, 0.03] of 6
            lb: 0.99 [0.97, 1.01] of 6
            lb: 0.50 [0.49, 0.50] of 6
        "#]]
        .assert_eq(&concluded(run.clone(), &Round::default()));
        let mut round = Round::default();
        round.give_up(1, &mut VecDeque::new());
        expect![[r#"
            lb: 1.01 [0.99, 1.03] of 6
            s1: not known, of 6
            lb: 0.99 [0.97, 1.01] of 6
            lb: 0.50 [0.49, 0.50] of 6
        "#]]
        .assert_eq(&concluded(run, &round));
    }

    #[test]
    fn a_removal_also_tells_what_became_of_long_waits() {
        let mut run = played(run(vec![planned(removal(), false)]), &[1.0], 6);
        for trial in &mut run.trials {
            let with = matches!(trial.purpose, Purpose::Intervention { arm: Arm::B, .. });
            trial.result.latency.p99_us = if with { 4e3 } else { 1e6 };
            trial.result.latency.p999_us = if with { 9e3 } else { 8e3 };
        }
        conclude(&mut run, &Round::default());
        let p99 = run.interventions[0].p99.unwrap();
        assert!((p99.value.unwrap() + 0.996).abs() < 1e-3 && p99.high.unwrap() < -0.9, "{p99:?}");
        assert!((run.interventions[0].p999.unwrap().value.unwrap() - 0.125).abs() < 1e-3);
        let mut slowed = played(self::run(vec![planned(InterventionKind::Cpu, false)]), &[0.8], 6);
        conclude(&mut slowed, &Round::default());
        assert_eq!(slowed.interventions[0].p99, None);
    }

    /// Pairs of a lab that a CPU of `lb` holds; in the first ones the work of `lb` was five times as dear.
    fn with_dear_pairs(dear: u32, pairs: u32) -> Run {
        let level = Purpose::Level { level: Level::At };
        let made = MadeRun { run: run(vec![planned(InterventionKind::Cpu, false)]) };
        let mut made = made.trial(level, 1000.0).shows(&CGROUP_USAGE, "", 0.2);
        for pair in 0..pairs {
            for (arm, speed) in [(Arm::A, 1000.0), (Arm::B, 800.0)] {
                let (speed, used) = if pair < dear { (500.0, 0.5) } else { (speed, speed * 0.2 / 1000.0) };
                made = made.trial(Purpose::Intervention { index: 0, pair, arm }, speed).shows(&CGROUP_USAGE, "", used);
            }
        }
        made.run
    }

    #[test]
    fn disturbed_pairs_are_left_out_and_made_again_once() {
        let mut run = with_dear_pairs(2, 7);
        let mut round = Round::default();
        let (effort, plenty) = (Effort::default(), Nanos(60_000_000_000));
        let again = |run: &Run, left: Nanos, kept| Round::default().pairs_again(run, &effort, left, kept);
        assert_eq!(again(&run, Nanos(0), Nanos(0)), 0, "there is no time");
        assert_eq!(again(&run, Nanos(11_900_000_000), Nanos(0)), 0, "8 s for the end, and a pair took 4 s");
        assert_eq!(again(&run, plenty, plenty), 0, "five are enough, and a remedy is to be tried");
        assert_eq!(again(&with_dear_pairs(3, 7), plenty, plenty), 3, "four are not");
        assert_eq!(round.pairs_again(&run, &effort, plenty, Nanos(0)), 2);
        assert_eq!(round.pairs_again(&run, &effort, plenty, Nanos(0)), 0, "what is disturbed again stays so");
        let gap = conclude(&mut run, &round).unwrap();
        assert_eq!(
            gap.to_string(),
            "intervention of lb: 2 of 7 pairs were left out: lb took 5.0 times the CPU time per request of the workload as written"
        );
        assert!((run.interventions[0].elasticity.unwrap() - 1.0).abs() < 1e-9, "{:?}", run.interventions[0]);
        assert_eq!(run.interventions[0].pairs, 5);
    }

    #[test]
    fn where_most_pairs_are_disturbed_all_count() {
        let mut run = with_dear_pairs(3, 7);
        let gap = conclude(&mut run, &Round::default()).unwrap();
        assert!(gap.reason.starts_with("too few pairs were undisturbed, so all count: lb took"), "{gap}");
        assert_eq!(run.interventions[0].pairs, 7);
        assert!(run.interventions[0].elasticity.unwrap() < 0.7);
    }

    #[test]
    fn a_machine_whose_speed_moves_hides_no_suspect() {
        let mut made = MadeRun { run: run(vec![planned(InterventionKind::Cpu, false)]) };
        // What a piece of work takes in A and B of each pair: a rate falls with it by as much.
        for (pair, pieces) in
            [(50.0, 40.0), (40.0, 56.0), (44.0, 40.0), (60.0, 41.0), (42.0, 49.0), (40.0, 52.0)].iter().enumerate()
        {
            for (arm, rate, us) in [(Arm::A, 1000.0, pieces.0), (Arm::B, 800.0, pieces.1)] {
                made = made.trial(Purpose::Intervention { index: 0, pair: pair as u32, arm }, rate * 40.0 / us);
                made = made.shows(&YARDSTICK_PIECES, "0", 80.0).shows(&YARDSTICK_TIME, "0", us * 80.0 / 1e6);
            }
        }
        let mut blind = made.run.clone();
        blind.series = SeriesSet::default();
        for (run, low, high) in [(&mut made.run, 0.99, 1.01), (&mut blind, -1.0, 3.0)] {
            conclude(run, &Round::default());
            let found = &run.interventions[0];
            let ends = (found.low.unwrap(), found.high.unwrap());
            assert_eq!(ends.0 > low && ends.1 < high, low > 0.0, "{found:?}");
            assert_eq!(found.by_speed.is_some_and(|share| share > 0.9), low > 0.0, "it is told: {found:?}");
        }
    }

    #[test]
    fn a_control_goes_by_the_speed_of_its_suspect() {
        let kinds = [("lb", false), ("", true), ("s1", false), ("lb", true)];
        let planned =
            |(target, control): (&str, bool)| Intervention::planned(target, InterventionKind::Cpu, control, 0.2);
        let of = run(kinds.map(planned).to_vec());
        assert_eq!([0, 1, 2, 3].map(|index| suspect(&of, index)), ["lb", "lb", "s1", "s1"].map(Some));
        assert_eq!(suspect(&run(vec![planned(("", true))]), 0), of.stack.path().first().copied());
    }

    #[test]
    fn a_pair_without_its_baseline_drops_only_itself() {
        let mut run = played(run(vec![planned(InterventionKind::Cpu, false)]), &[0.8], 6);
        run.trials[2].result.interrupted = true;
        run.trials[5].result.completed = 0;
        assert_eq!(pairs(&run, 0, good_per_s, &BTreeSet::new()).len(), 4);
    }
}
