//! The order of a session's commands, without hosts: a made-up world answers, and what matters is checked after every step.

use expect_test::{Expect, expect};
use prony_model::comparison::EarlierAa;
use prony_model::knob::ChangeState;
use prony_model::{
    Change, ErrorCounts, Knob, KnobId, Level, LoadPlan, LoadResult, Nanos, Run, RunEnd, Share, Stack, Trial, Window,
};
use prony_session::{Command, Effort, Goal, LimitGoal, Outcome, Precision, Remedy, Session};
use proptest::prelude::*;

const STACK: &str = r#"
entry = "http://10.0.0.2/"
[host.client]
role = "generator"
[host.lb]
role = "proxy"
calls = ["s1"]
[host.s1]
"#;

fn knob() -> Knob {
    Knob { host: "lb".into(), id: KnobId::NginxWorkerProcesses, value: "2".into() }
}

fn plan() -> LoadPlan {
    LoadPlan { connections: 8, seed: 7, ..LoadPlan::to("http://10.0.0.2/") }
}

/// A world in which every command works; the knob makes the stack `gain` times as fast.
struct World {
    session: Session,
    turned: bool,
    worse: bool,
    trials: u32,
    /// From then on the stack carries a third.
    fades_after: u32,
    gain: f64,
    /// By how much trials differ.
    noise: f64,
    log: Vec<String>,
}

impl World {
    fn new(goal: Goal, gain: f64) -> Self {
        let run = Run { stack: Stack::parse("stack.toml", STACK).expect("a good stack"), ..Run::default() };
        let session = Session::new(goal, Effort::quick(), plan(), run);
        Self {
            session,
            turned: false,
            worse: false,
            trials: 0,
            fades_after: u32::MAX,
            gain,
            noise: 0.006,
            log: Vec::new(),
        }
    }

    /// Plays to the end; `upset` may replace the outcome of step n.
    fn play(mut self, mut upset: impl FnMut(usize, &Command) -> Option<Outcome>) -> (Run, Vec<String>, bool) {
        let mut outcome = Outcome::Begin;
        for step in 0..2000 {
            let command = self.session.next(outcome);
            if command == Command::Finish {
                let changed = self.turned || self.worse;
                return (self.session.into_run(), self.log, changed);
            }
            outcome = match upset(step, &command) {
                Some(outcome) => outcome,
                None => self.answer(&command),
            };
        }
        panic!("the session did not end");
    }

    fn answer(&mut self, command: &Command) -> Outcome {
        match command {
            Command::Listen => Outcome::Listened(Window { from_ns: 0, to_ns: 1 }),
            Command::Survey => {
                self.log.push("survey".into());
                Outcome::Surveyed(vec![], vec![])
            }
            Command::Trial(order) => {
                let purpose = serde_json::to_value(&order.purpose).expect("a purpose is JSON");
                let name = purpose["kind"].as_str().unwrap_or_default().to_string();
                self.log.push(if self.turned { format!("{name}*") } else { name });
                self.trials += 1;
                let speed = if self.turned { self.gain } else { 1.0 } * if self.worse { 0.8 } else { 1.0 };
                // A little noise that is the same in every play.
                let noise = 1.0 + self.noise * f64::from(self.trials * 7919 % 13) / 12.0;
                let faded = if self.trials > self.fades_after { 1.0 / 3.0 } else { 1.0 };
                let rate = 1000.0 * speed * noise * faded;
                let result = LoadResult {
                    completed: 1000,
                    completed_per_s: rate,
                    good_per_s: rate,
                    duration_s: 1.0,
                    ..LoadResult::default()
                };
                let window = Window {
                    from_ns: u64::from(self.trials) * 2_000_000_000,
                    to_ns: u64::from(self.trials) * 2_000_000_000 + 1_000_000_000,
                };
                let trial =
                    Trial { id: self.trials, purpose: order.purpose.clone(), plan: order.plan.clone(), window, result };
                Outcome::Trial(Box::new(trial))
            }
            Command::Intervene { .. } => {
                assert!(!self.worse && !self.turned, "two changes at once");
                self.worse = true;
                Outcome::Done
            }
            Command::Turn(knob) => {
                assert!(!self.worse && !self.turned, "two changes at once");
                self.turned = true;
                let change = Change {
                    knob: knob.clone(),
                    before: "1".into(),
                    permanent: String::new(),
                    diff: String::new(),
                    state: ChangeState::Applied,
                };
                Outcome::Turned(Box::new(change))
            }
            Command::Restore => {
                (self.turned, self.worse) = (false, false);
                Outcome::Restored(ChangeState::Undone, "as before".into())
            }
            Command::Keep => {
                (self.turned, self.worse) = (false, false);
                self.log.push("keep".into());
                Outcome::Restored(ChangeState::Kept, "kept".into())
            }
            Command::Finish => Outcome::Done,
        }
    }
}

fn check(goal: Goal, gain: f64, want: Expect) {
    let (run, log, changed) = World::new(goal, gain).play(|_, _| None);
    assert!(!changed, "something was left changed");
    assert_eq!(run.end, RunEnd::Done);
    want.assert_eq(&log.join(" "));
}

fn chosen(keep: bool) -> Goal {
    Goal::Prove { remedy: Remedy::Chosen(knob()), keep, earlier: EarlierAa::default(), precision: Precision::default() }
}

#[test]
fn a_chosen_knob_is_proven_in_blocks() {
    let (run, log, _) = World::new(chosen(false), 1.5).play(|_, _| None);
    assert_eq!(log.iter().filter(|l| *l == "proof*").count(), log.iter().filter(|l| *l == "proof").count());
    let proof = run.proof.unwrap();
    assert_eq!(proof.verdict, prony_model::ProofVerdict::Better);
    assert!(proof.effect.low < 0.5 && 0.5 < proof.effect.high, "{:?}", proof.effect);
    assert_eq!(run.changes.len(), 1);
    assert_eq!(run.changes[0].state, ChangeState::Undone);
}

#[test]
fn a_proof_goes_on_until_pairs_differ_little_enough_or_time_is_up() {
    let blocks = |noise: f64, precision: Precision| {
        let goal =
            Goal::Prove { remedy: Remedy::Chosen(knob()), keep: false, earlier: EarlierAa::default(), precision };
        let (run, log, changed) = World { noise, ..World::new(goal, 1.0) }.play(|_, _| None);
        assert!(!changed && run.end == RunEnd::Done);
        let gaps = run.gaps.iter().filter(|gap| gap.fact == "proof").count();
        (log.iter().filter(|l| l.starts_with("proof")).count() / 4, gaps)
    };
    let usual = Precision::default();
    assert_eq!(blocks(0.006, usual), (3, 0), "as few as there are at least");
    let (more, gaps) = blocks(0.15, usual);
    assert!(more > 6 && gaps == 0, "{more} blocks");
    // A trial takes 2 s in this world.
    let short = Precision { budget: Nanos::from_millis(32_000), ..usual };
    assert_eq!(blocks(0.3, short), (4, 1), "what cannot be told is told");
    assert_eq!(blocks(0.3, Precision { detect: Share(f64::INFINITY), ..short }), (3, 0), "nothing is asked");
}

#[test]
fn a_proven_change_is_kept_only_on_request() {
    let (run, log, _) = World::new(chosen(true), 1.5).play(|_, _| None);
    assert_eq!(log.last().map(String::as_str), Some("keep"));
    assert_eq!(run.changes[0].state, ChangeState::Kept);
    let (run, log, _) = World::new(chosen(true), 0.8).play(|_, _| None);
    assert!(!log.contains(&"keep".to_string()), "what made it worse is not kept");
    assert_eq!(run.changes[0].state, ChangeState::Undone);
}

#[test]
fn nothing_compared_with_nothing_makes_no_difference() {
    let goal = Goal::Prove {
        remedy: Remedy::Nothing,
        keep: false,
        earlier: EarlierAa::default(),
        precision: Precision::default(),
    };
    let (run, _, _) = World::new(goal, 1.0).play(|_, _| None);
    assert_eq!(run.proof.unwrap().verdict, prony_model::ProofVerdict::NoDifference);
    assert!(run.changes.is_empty());
}

#[test]
fn a_diagnosis_loads_at_three_levels_first() {
    check(
        Goal::Diagnose { intervene: false, budget: prony_session::BUDGET },
        1.0,
        expect!["survey warmup level inspect level level curve curve curve"],
    );
}

/// A world in which every trial ends with these errors and without an answer.
#[test]
fn a_stack_that_soon_carries_a_third_is_diagnosed_in_that_state() {
    let goal = Goal::Diagnose { intervene: false, budget: prony_session::BUDGET };
    let mut world = World::new(goal, 1.0);
    world.fades_after = 2;
    let (run, log, _) = world.play(|_, _| None);
    assert_eq!(log.join(" "), "survey warmup level inspect level level level curve curve curve");
    let at = run.level(Level::At).unwrap();
    assert!((300.0..400.0).contains(&at.result.good_per_s));
    let below = run.level(Level::Below).unwrap().plan.rate.unwrap();
    assert!((150.0..200.0).contains(&below.0), "half of what it carries by now, not {below}");
    assert!(run.gaps.iter().any(|gap| gap.fact == "steady state"), "{:?}", run.gaps);
}

fn silent(goal: Goal, errors: ErrorCounts) -> Run {
    let (run, _, _) = World::new(goal, 1.0).play(|_, command| {
        let Command::Trial(order) = command else { return None };
        let (purpose, plan) = (order.purpose.clone(), order.plan.clone());
        let result = LoadResult { errors, ..LoadResult::default() };
        Some(Outcome::Trial(Box::new(Trial { id: 0, purpose, plan, window: Window::default(), result })))
    });
    run
}

#[test]
fn a_stack_that_never_answers_fails_with_the_reason() {
    let refused = ErrorCounts { connect: 12, ..ErrorCounts::default() };
    for goal in [chosen(false), Goal::Diagnose { intervene: false, budget: prony_session::BUDGET }] {
        let RunEnd::Failed { reason } = silent(goal, refused).end else { panic!("it did not fail") };
        assert!(reason.contains("12 connections were refused or failed") && reason.contains("curl"), "{reason}");
    }
}

#[test]
fn a_stack_that_takes_connections_and_closes_them_is_diagnosed() {
    let closed = ErrorCounts { read: 12, ..ErrorCounts::default() };
    let run = silent(Goal::Diagnose { intervene: false, budget: prony_session::BUDGET }, closed);
    assert_eq!(run.end, RunEnd::Done);
    assert!(run.diagnosis.is_some());
    assert!(run.gaps.iter().any(|gap| gap.to_string().contains("12 connections were closed")), "{:?}", run.gaps);
}

#[test]
fn a_stack_that_takes_requests_and_leaves_them_lying_is_diagnosed() {
    let goal = || Goal::Diagnose { intervene: false, budget: prony_session::BUDGET };
    let hung = |sent: u64| {
        let (run, _, _) = World::new(goal(), 1.0).play(|_, command| {
            let Command::Trial(order) = command else { return None };
            let (purpose, plan) = (order.purpose.clone(), order.plan.clone());
            let result = LoadResult { sent, ..LoadResult::default() };
            Some(Outcome::Trial(Box::new(Trial { id: 0, purpose, plan, window: Window::default(), result })))
        });
        run
    };
    assert_eq!(hung(8).end, RunEnd::Done);
    assert!(matches!(hung(0).end, RunEnd::Failed { .. }), "nobody let it in: the address may be wrong");
}

fn workers() -> Goal {
    let vary = "workers=1..4".parse().ok();
    Goal::Limit(Box::new(LimitGoal { vary, budget: Nanos::from_millis(90_000), ..LimitGoal::default() }))
}

#[test]
fn workers_are_varied_and_put_back_after_each_trial() {
    let (run, log, changed) = World::new(workers(), 1.5).play(|_, _| None);
    assert!(!changed && run.end == RunEnd::Done, "{:?}", run.end);
    assert_eq!(log.iter().filter(|l| *l == "curve*").count(), 12, "four values, three times: {log:?}");
    assert!(run.changes.iter().all(|change| change.state == ChangeState::Undone), "{:?}", run.changes);
    assert_eq!(run.limit.unwrap().axis.unwrap().tried.len(), 4);
}

#[test]
fn a_search_that_is_cut_short_still_says_what_it_knows() {
    let goal = Goal::Limit(Box::new(LimitGoal { budget: Nanos::from_millis(90_000), ..LimitGoal::default() }));
    let (run, _, _) =
        World::new(goal, 1.0).play(|step, _| (step == 9).then(|| Outcome::Interrupted(Box::new(Outcome::Done))));
    let found = run.limit.unwrap();
    assert_eq!((run.end, found.verdict), (RunEnd::Interrupted, prony_model::LimitVerdict::Open));
    assert!(!found.curve.is_empty());
}

proptest! {
    /// Ctrl-C or an error at any step: everything is put back, and the run says how it ended.
    #[test]
    fn whatever_happens_everything_is_put_back(at in 0usize..80, fails in any::<bool>(), search in any::<bool>()) {
        let mut upset_at = None;
        let goal = if search { workers() } else { chosen(true) };
        let (run, _, changed) = World::new(goal, 1.5).play(|step, command| {
            // A restore that fails is another matter: the journal still holds it.
            (step == at && *command != Command::Restore).then(|| {
                upset_at = Some(step);
                if fails { Outcome::Failed("no".into()) } else { Outcome::Interrupted(Box::new(Outcome::Done)) }
            })
        });
        prop_assert!(!changed);
        if upset_at.is_some() {
            prop_assert_ne!(run.end, RunEnd::Done);
        }
    }
}
