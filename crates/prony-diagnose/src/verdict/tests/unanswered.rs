//! Stacks that leave requests without an answer.

use crate::diagnose;
use crate::facts::Hop;
use crate::testing::Lab;
use prony_model::{Level, Run};

#[test]
fn where_requests_get_no_answer_nothing_is_not_the_verdict() {
    let room = Lab { n: [2.0, 2.0, 4.0], x: [5_000.0, 10_000.0, 19_000.0], ..Lab::healthy().cpu("0", 0.2, 0.2, 0.1) };
    let mut run = room.own("lb", 0.4).run();
    assert_eq!(diagnose(&run).verdict.cause, "none", "{}", diagnose(&run).verdict.summary);
    for trial in &mut run.trials {
        trial.result.errors.timeout = trial.result.completed;
    }
    let verdict = diagnose(&run).verdict;
    assert_eq!(verdict.cause, "inconclusive");
    assert!(verdict.summary.contains("50 % of the requests get no answer"), "{}", verdict.summary);
}

#[test]
fn a_stack_that_answers_nothing_is_read_by_what_its_clients_give_up() {
    let mut run =
        Lab::healthy().cpu("0", 0.01, 0.01, 0.0).cpu("1", 0.01, 0.01, 0.0).own("lb", 0.01).own("s1", 0.01).run();
    let wait_ms = |run: &Run| Hop { run, name: "s1" }.at(Level::At).unwrap().throughput().map(|x| 64.0 / x * 1e3);
    for trial in &mut run.trials {
        let result = &mut trial.result;
        (result.completed, result.completed_per_s, result.good_per_s) = (0, 0.0, 0.0);
    }
    assert!(wait_ms(&run).is_err() && diagnose(&run).verdict.summary.contains("no request was completed"));
    for trial in &mut run.trials {
        trial.result.errors.timeout = (32.0 * trial.result.duration_s).round() as u64;
    }
    assert!((wait_ms(&run).unwrap() - 2_000.0).abs() < 1.0, "each stays until it is given up after 2 s");
    assert!(!diagnose(&run).verdict.summary.contains("no request was completed"));
}
