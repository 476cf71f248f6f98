//! The load as plain lines, where there is no terminal to draw on: one line a second, for logs and for `| cat`.
//!
//! Pure. Invariant: a line holds what the screen holds at that moment, of the last second.

use crate::course::Course;
use crate::load_rows::{busy_thread, quantile_text};
use crate::look::Look;
use crate::texts;
use prony_model::LoadPlan;
use prony_report::number;

/// Control characters and other symbols stay out of logs.
const LOOK: Look = Look { colour: false, blocks: false };

/// What is loaded, and how.
pub(crate) fn first_line(plan: &LoadPlan) -> String {
    format!("{} {}: {}", texts::COMMAND, plan.url.escape_debug(), texts::plan(plan))
}

/// The last second of a load, without a line end.
pub(crate) fn line(plan: &LoadPlan, course: &Course) -> String {
    let latest = course.latest();
    let mut parts = vec![format!("{:>7.1} s", latest.elapsed.as_secs_f64())];
    if latest.warming_up {
        parts.push(texts::WARMING_UP.to_string());
    }
    if let Some(rates) = course.rates(plan) {
        let asked = rates.asked.map(|rate| (texts::ASKED, rate));
        let others = [(texts::SENT, rates.sent), (texts::DONE, rates.done), (texts::FAILED, rates.failed)];
        parts.extend(asked.into_iter().chain(others).map(|(name, rate)| format!("{name} {}/s", number::rate(rate))));
        let quantiles = texts::PERCENTILES.iter().filter(|(_, quantile)| [0.5, 0.99, 1.0].contains(quantile));
        parts.extend(quantiles.map(|(name, q)| format!("{name} {}", quantile_text(course.last_second(), *q, LOOK))));
    }
    if plan.is_open_loop() {
        parts.extend(latest.lag_us_p99.map(texts::lag));
        parts.extend(Some(course.waiting(plan)).filter(|waiting| *waiting > 0).map(texts::waiting));
    }
    let busiest = course.cpu().into_iter().reduce(f64::max);
    parts.extend(busy_thread(course).map(texts::generator_is_the_limit).or(busiest.map(texts::busiest)));
    let kinds: Vec<String> =
        texts::error_kinds(&latest.errors).iter().map(|(kind, n)| format!("{kind} {}", number::count(*n))).collect();
    parts.extend((!kinds.is_empty()).then(|| format!("{}: {}", texts::ERRORS, kinds.join(", "))));
    parts.join("  ")
}
