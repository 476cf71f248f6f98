//! The load at three levels: below, at and beyond the knee, and a few points of the load curve between.

use crate::effort::Effort;
use crate::machine::{Command, TrialOrder};
use prony_model::{Level, LoadPlan, Nanos, Purpose, Rate, Run};

/// Below the knee: half of what the stack carried, open loop, so that queues stay short.
const BELOW: f64 = 0.5;
/// Beyond the knee: twice the connections, or half as much again of an asked rate.
const BEYOND_CONNECTIONS: u32 = 2;
const BEYOND_RATE: f64 = 1.5;
/// Further points of the load curve, as shares of what the stack carried.
const CURVE: [f64; 3] = [0.25, 0.75, 0.9];

/// A load before everything else; it is not scored.
pub(crate) fn warmup(base: &LoadPlan, effort: &Effort) -> Command {
    order(Purpose::Warmup, timed(base, Nanos(0), effort.warmup), "warm-up")
}

/// The workload as it is written.
pub(crate) fn at(base: &LoadPlan, effort: &Effort) -> Command {
    order(Purpose::Level { level: Level::At }, timed(base, effort.settle, effort.level), "the workload as written")
}

/// The other levels and the curve, once it is known what the stack carried at the first.
pub(crate) fn others(run: &Run, base: &LoadPlan, effort: &Effort) -> Vec<Command> {
    let mut orders = vec![order(Purpose::Inspect, timed(base, effort.settle, effort.look), "a closer look")];
    let Some(at) = run.level(Level::At) else { return orders };
    let carried = at.result.good_per_s;
    // A rate that is asked for and not carried says nothing about the knee.
    let whole = base.rate.map_or(carried, |r| r.0.min(carried));
    let below = LoadPlan { rate: Some(Rate((whole * BELOW).max(1.0))), ..timed(base, effort.settle, effort.level) };
    let label = format!("below the knee, {:.0}/s", whole * BELOW);
    orders.push(order(Purpose::Level { level: Level::Below }, below, &label));
    orders.push(beyond(base, effort));
    for share in CURVE {
        let plan = LoadPlan { rate: Some(Rate((whole * share).max(1.0))), ..timed(base, effort.settle, effort.curve) };
        orders.push(order(Purpose::Curve, plan, &format!("load curve, {:.0} %", share * 100.0)));
    }
    orders
}

fn beyond(base: &LoadPlan, effort: &Effort) -> Command {
    let plan = timed(base, effort.settle, effort.level);
    let plan = match base.rate {
        Some(rate) => LoadPlan { rate: Some(Rate(rate.0 * BEYOND_RATE)), ..plan },
        None => LoadPlan { connections: base.connections.saturating_mul(BEYOND_CONNECTIONS), ..plan },
    };
    order(Purpose::Level { level: Level::Beyond }, plan, "beyond the knee")
}

/// The plan with other times.
pub(crate) fn timed(base: &LoadPlan, settle: Nanos, duration: Nanos) -> LoadPlan {
    LoadPlan { warmup: settle, duration, ..base.clone() }
}

/// A trial as a command.
pub(crate) fn order(purpose: Purpose, plan: LoadPlan, label: &str) -> Command {
    Command::Trial(Box::new(TrialOrder { purpose, plan, label: label.to_string() }))
}
