//! How many pairs of an intervention there is time for: before a round by what a pair should take, then by what its pairs took.
//!
//! Invariant: a round stops between two pairs, so each trial with an intervention keeps the one as found that it is held against.

use crate::effort::Effort;
use crate::machine::Command;
use prony_model::{Intervention, Level, Nanos, Purpose, Run};
use std::collections::VecDeque;

/// Pairs of a removal: it reloads a server, which takes as long as a trial. A guess.
const REMOVAL_PAIRS: u32 = 6;
/// How much longer its trials are: what is removed may be waits of a second (a SYN sent again), and connections open anew. So it
/// takes as long as the more and shorter pairs of a dose.
const REMOVAL_LONGER: f64 = 2.5;

/// Fewer pairs say nothing: their interval is wider than any elasticity. A guess.
pub(crate) const PAIRS_MIN: u32 = 5;
/// Pairs of each further look: it decides nothing. A guess.
const FURTHER_PAIRS: u32 = 7;
/// What is kept of the budget for the end: putting back, judging, writing the record. A guess: with 3 s of 120, whole diagnoses took up
/// to 117 s.
const ENDING: Nanos = Nanos(8_000_000_000);
/// What a trial takes besides its load: turning something and putting it back, opening connections. A guess.
const TURNING: Nanos = Nanos(150_000_000);
/// Requests that are under way when a trial ends are waited for, so long at most; as the load engine does.
const DRAINING_MAX: Nanos = Nanos(500_000_000);
/// How many times an answer a trial lasts, so that what begins together and is answered together does not decide its count: the
/// borders of the trial then cut at most a quarter of it. A guess.
const OF_ANSWER: u64 = 4;
/// How many times longer than usual trials may begin and last for slow answers. A guess.
const LONGEST: u64 = 3;
/// What a removal takes besides: a server reloads twice, and its trial warms up for longer. A guess.
const RELOADING: Nanos = Nanos(900_000_000);

/// What a pair of these interventions takes.
fn pair_takes(run: &Run, effort: &Effort, planned: &[Intervention]) -> u64 {
    let waits = run.level(Level::At).map_or(0, |at| (at.result.latency.p99_us * 1e3) as u64).min(DRAINING_MAX.0);
    let trial = effort.settle.0 + effort.intervention.0 + TURNING.0 + waits;
    let reloads = planned.iter().filter(|i| !i.what.knobs().is_empty()).count() as u64;
    trial * (planned.len() as u64 + 1) + RELOADING.0 * reloads
}

/// What trying a remedy takes at the least.
pub(crate) fn remedy_takes(run: &Run, effort: &Effort, remedy: &Intervention) -> Nanos {
    let planned = std::slice::from_ref(remedy);
    Nanos(pair_takes(run, &effort_of(run, planned, effort), planned) * u64::from(PAIRS_MIN))
}

/// How many of these pairs fit into the time that is left, where those that were made took so long.
pub(crate) fn fit_into(run: &Run, effort: &Effort, planned: &[Intervention], left: Nanos, took: Nanos) -> u32 {
    let pairs = left.0.saturating_sub(ENDING.0) / pair_takes(run, effort, planned).max(took.0).max(1);
    u32::try_from(pairs).unwrap_or(u32::MAX)
}

/// How many pairs of these interventions fit into the time that is left; the error says how much would be needed.
pub(crate) fn within(run: &Run, effort: &Effort, planned: &[Intervention], left: Nanos) -> Result<u32, String> {
    let (round, count) = (pair_takes(run, effort, planned), planned.len());
    let fit = fit_into(run, effort, planned, left, Nanos(0)).min(effort.pairs);
    if fit >= PAIRS_MIN {
        return Ok(fit);
    }
    Err(format!(
        "{} of the budget are left, and {PAIRS_MIN} pairs of {count} interventions take {}; a greater --budget tests the verdict",
        left,
        Nanos(round * u64::from(PAIRS_MIN))
    ))
}

/// The same where `kept` of that time is for what comes after, if enough pairs fit beside it.
pub(crate) fn within_keeping(
    run: &Run,
    effort: &Effort,
    planned: &[Intervention],
    left: Nanos,
    kept: Nanos,
) -> Result<u32, String> {
    let spare = Nanos(left.0.saturating_sub(kept.0));
    within(run, effort, planned, spare).or_else(|_| within(run, effort, planned, left))
}

/// The effort of these interventions.
pub(crate) fn effort_of(run: &Run, planned: &[Intervention], effort: &Effort) -> Effort {
    for_slow_answers(run, by_kind(planned, effort))
}

fn by_kind(planned: &[Intervention], effort: &Effort) -> Effort {
    if planned.iter().all(|i| i.further) {
        return Effort { pairs: effort.pairs.min(FURTHER_PAIRS), ..effort.clone() };
    }
    if !planned.iter().any(|i| i.what.is_removal()) {
        return effort.clone();
    }
    let longer = Nanos((effort.intervention.0 as f64 * REMOVAL_LONGER) as u64);
    Effort { pairs: effort.pairs.min(REMOVAL_PAIRS), intervention: longer, ..effort.clone() }
}

/// Where an answer takes about as long as a trial: trials that begin with the first answers and last longer, in fewer pairs, for the same
/// time of load. All clients ask at once when a trial begins. What a short trial counts is then how many ask, even at a queue.
fn for_slow_answers(run: &Run, effort: Effort) -> Effort {
    let answer_ns = run.level(Level::At).map_or(0, |at| (at.result.latency.p50_us * 1e3) as u64);
    let of_answers = |usual: Nanos, count: u64| Nanos((answer_ns * count).clamp(usual.0, usual.0 * LONGEST));
    let (settle, intervention) = (of_answers(effort.settle, 1), of_answers(effort.intervention, OF_ANSWER));
    let trial = |settle: Nanos, counted: Nanos| settle.0 + counted.0 + TURNING.0 + answer_ns.min(DRAINING_MAX.0);
    let (usual, longer) = (trial(effort.settle, effort.intervention), trial(settle, intervention));
    let pairs = (u64::from(effort.pairs) * usual).div_ceil(longer).max(u64::from(PAIRS_MIN.min(effort.pairs))) as u32;
    Effort { settle, intervention, pairs, ..effort }
}

/// The pair that a trial belongs to.
pub(crate) fn pair_of(purpose: &Purpose) -> Option<u32> {
    let Purpose::Intervention { pair, .. } = purpose else { return None };
    Some(*pair)
}

/// What a pair took since the trial before pair `first`, mean; none before one is over. Turning something may take longer than
/// thought: old workers of a server do not end while a connection of theirs waits for its first request.
pub(crate) fn pair_took(run: &Run, first: u32) -> Option<Nanos> {
    let of_round = |purpose: &Purpose| pair_of(purpose).is_some_and(|pair| pair >= first);
    let begins = run.trials.iter().position(|trial| of_round(&trial.purpose))?;
    let from_ns = begins.checked_sub(1).map_or(run.trials[begins].window.from_ns, |i| run.trials[i].window.to_ns);
    let last = run.trials.last().filter(|trial| of_round(&trial.purpose))?;
    let pairs = u64::from(pair_of(&last.purpose)? - first) + 1;
    Some(Nanos(last.window.to_ns.saturating_sub(from_ns) / pairs))
}

/// What may be spent of the time that is left: once so many pairs are made, not what is kept for what comes after.
pub(crate) fn spare(left: Nanos, kept: Nanos, pairs: u32) -> Nanos {
    if pairs >= PAIRS_MIN { Nanos(left.0.saturating_sub(kept.0)) } else { left }
}

/// Where a pair from `first` on is over and there is no time for another one: drops the pairs that are still planned.
pub(crate) fn drop_late_pairs(run: &Run, first: u32, left: Nanos, kept: Nanos, queue: &mut VecDeque<Command>) {
    let Some(over) = run.trials.last().and_then(|trial| pair_of(&trial.purpose)) else { return };
    let pair_next = |command: &Command| {
        let Command::Trial(next) = command else { return None };
        pair_of(&next.purpose)
    };
    let Some(next) = queue.iter().position(|command| pair_next(command).is_some()) else { return };
    let is_over = pair_next(&queue[next]).is_some_and(|pair| pair > over);
    let Some(took) = pair_took(run, first).filter(|_| is_over) else { return };
    if spare(left, kept, over + 1 - first).0.saturating_sub(ENDING.0) < took.0 {
        let turns_before = next > 0 && matches!(queue[next - 1], Command::Intervene { .. });
        queue.truncate(if turns_before { next - 1 } else { next });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interventions::{Round, plan};
    use crate::testing::{MadeRun, plan as base, planned, removal, run};
    use prony_model::InterventionKind;
    use prony_model::run::Arm;

    #[test]
    fn pairs_fit_into_the_budget() {
        let effort = Effort::default();
        let seconds = |s: u64| Nanos(s * 1_000_000_000);
        let two = [planned(InterventionKind::Cpu, false), planned(InterventionKind::Cpu, true)];
        let run = run(Vec::new());
        let within = |planned: &[Intervention], left| within(&run, &effort, planned, left);
        assert_eq!(within(&two, seconds(90)), Ok(effort.pairs), "no more than are asked for");
        assert_eq!(within(&two, seconds(38)), Ok(7), "7 times 3 trials of 1.35 s, and the end");
        let reloading = [planned(removal(), false), planned(InterventionKind::Placebo, true)];
        assert_eq!(within(&reloading, seconds(38)), Ok(6), "reloads take time");
        let error = within(&two, seconds(10)).unwrap_err();
        assert!(error.starts_with("10s of the budget are left, and 5 pairs of 2 interventions take 20.25s"), "{error}");

        let mut slow = MadeRun { run: run.clone() }.trial(Purpose::Level { level: Level::At }, 100.0).run;
        slow.trials[0].result.latency.p99_us = 300_000.0;
        assert_eq!(super::within(&slow, &effort, &two, seconds(38)), Ok(6), "the last requests are waited for");
        for further in [true, false] {
            let remedy = [Intervention { further, ..reloading[0].clone() }];
            let left = Nanos(remedy_takes(&run, &effort, &remedy[0]).0 + ENDING.0);
            let its = effort_of(&run, &remedy, &effort);
            assert_eq!(super::within(&run, &its, &remedy, left), Ok(PAIRS_MIN), "just enough");
        }
    }

    #[test]
    fn pairs_are_given_up_for_what_comes_after_but_not_the_test_itself() {
        let (effort, run) = (Effort::default(), run(Vec::new()));
        let two = [planned(InterventionKind::Cpu, false), planned(InterventionKind::Cpu, true)];
        let kept = remedy_takes(&run, &effort, &planned(removal(), false));
        let fit = |s: u64, kept| within_keeping(&run, &effort, &two, Nanos(s * 1_000_000_000), kept);
        assert_eq!((fit(66, Nanos(0)), fit(66, kept)), (Ok(effort.pairs), Ok(6)));
        assert_eq!((fit(38, Nanos(0)), fit(38, kept)), (Ok(7), Ok(7)), "fewer would say nothing");
        assert!(fit(10, kept).is_err());
    }

    #[test]
    fn further_looks_have_fewer_pairs() {
        let further = Intervention { further: true, ..planned(InterventionKind::Cpu, false) };
        assert_eq!(by_kind(std::slice::from_ref(&further), &Effort::default()).pairs, FURTHER_PAIRS);
        let remedy = Intervention { further: true, ..planned(removal(), false) };
        assert_eq!(
            by_kind(&[remedy, further.clone()], &Effort::default()).intervention,
            Effort::default().intervention
        );
        let effort = by_kind(&[further, planned(InterventionKind::Cpu, true)], &Effort::default());
        assert_eq!(effort.pairs, Effort::default().pairs);
    }

    #[test]
    fn a_removal_has_few_pairs_of_long_trials() {
        let planned = vec![planned(removal(), false), planned(InterventionKind::Placebo, true)];
        let effort = by_kind(&planned, &Effort::default());
        assert_eq!((effort.pairs, effort.intervention), (REMOVAL_PAIRS, Nanos::from_millis(2000)));
        assert_eq!(by_kind(&planned[1..], &Effort::default()), Effort::default());
        let queue = plan(&run(planned), &Round::default(), &base(), &effort, 7);
        let turned = queue.iter().filter(|c| **c == Command::Intervene { index: 0 }).count();
        let trials = queue.iter().filter(|c| matches!(c, Command::Trial(_))).count();
        assert_eq!((turned, trials), (6, 18));
    }

    #[test]
    fn slow_answers_have_longer_trials_in_fewer_pairs() {
        let queue = [planned(InterventionKind::Concurrency, false), planned(InterventionKind::Cpu, true)];
        let usual = Effort::default();
        let at = |answer_ms: f64| {
            let mut made = MadeRun { run: run(Vec::new()) }.trial(Purpose::Level { level: Level::At }, 100.0);
            made.run.trials[0].result.latency.p50_us = answer_ms * 1e3;
            effort_of(&made.run, &queue, &usual)
        };
        assert_eq!((effort_of(&run(Vec::new()), &queue, &usual), at(20.0)), (usual.clone(), usual.clone()));
        let slow = at(500.0);
        assert_eq!((slow.settle, slow.intervention), (Nanos::from_millis(500), Nanos::from_millis(2000)));
        assert_eq!(slow.pairs, 9, "14 trials of 1.85 s are 26 s, and so are 9 of 3.15 s: rounded up");
        let timeout = at(30_000.0);
        assert_eq!((timeout.settle, timeout.intervention), (Nanos::from_millis(1200), Nanos::from_millis(2400)));
        assert_eq!((timeout.pairs, slow.level), (7, usual.level), "14 of 1.85 s are 6.1 of 4.25 s");
    }

    /// A removal and its control, two pairs made so that a pair took 6 s; the rest of five pairs is planned.
    fn under_way() -> (Run, VecDeque<Command>) {
        let mut made = MadeRun { run: run(vec![planned(removal(), false), planned(InterventionKind::Placebo, true)]) };
        made = made.trial(Purpose::Level { level: Level::At }, 100.0);
        let effort = Effort { pairs: 5, ..Effort::default() };
        let mut queue = plan(&made.run, &Round::default(), &base(), &effort, 7);
        for pair in 0..2 {
            for (index, arm) in [(0, Arm::A), (0, Arm::B), (1, Arm::B)] {
                made = made.trial(Purpose::Intervention { index, pair, arm }, 100.0);
            }
        }
        let of_two_pairs = 2 * 5; // three trials, a removal and its way back
        queue.drain(..of_two_pairs);
        (made.run, queue)
    }

    #[test]
    fn pairs_that_take_longer_than_thought_are_fewer() {
        let (run, planned) = under_way();
        let seconds = |s: u64| Nanos(s * 1_000_000_000);
        assert_eq!(pair_took(&run, 0), Some(seconds(6)), "a trial each 2 s");
        assert_eq!(pair_took(&run, 2), None, "a later round");
        let turned_first = || {
            let turns = |command: &Command| matches!(command, Command::Intervene { .. });
            planned.iter().skip_while(|command| !turns(command)).cloned().collect::<VecDeque<Command>>()
        };
        for planned in [planned.clone(), turned_first()] {
            let left_with = |left: Nanos| {
                let mut queue = planned.clone();
                drop_late_pairs(&run, 0, left, seconds(1), &mut queue);
                queue
            };
            assert_eq!(left_with(Nanos(ENDING.0 + 6_000_000_000)), planned, "there is time for one more");
            assert!(left_with(Nanos(ENDING.0 + 5_999_999_999)).is_empty(), "nothing is turned for nothing");
        }
        assert_eq!(fit_into(&run, &Effort::default(), &run.interventions, seconds(26), seconds(6)), 3);
        let spent = |pairs| spare(seconds(20), seconds(15), pairs);
        assert_eq!(
            (spent(PAIRS_MIN - 1), spent(PAIRS_MIN)),
            (seconds(20), seconds(5)),
            "with enough a remedy comes first"
        );
    }

    #[test]
    fn a_pair_that_has_begun_is_made_whole() {
        let (mut run, planned) = under_way();
        run.trials.pop();
        let last = crate::levels::order(
            Purpose::Intervention { index: 1, pair: 1, arm: Arm::B },
            base(),
            "pair 2: nothing turned",
        );
        let mut queue: VecDeque<Command> = [Command::Restore, last].into_iter().chain(planned).collect();
        let before = queue.clone();
        drop_late_pairs(&run, 0, Nanos(0), Nanos(0), &mut queue);
        assert_eq!(queue, before);
    }
}
