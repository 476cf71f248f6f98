//! Pure: Run -> Diagnosis. One cause per file. No IO, no clock, cannot fail; missing facts become gaps.
//!
//! [`diagnose`] is total: it uses what the run holds (levels of load, close looks, interventions done so far) and
//! says what it could not see. [`plan_interventions`] says what to do next to test it. Invariant: every threshold in
//! the evidence names its origin.
//!
//! Reading order: `facts` (what a hop showed), `profile` (what its CPUs ran), `logs` (what it writes to its logs), `sessions` (what an application's
//! connections do), `split` (where a request's time goes), `cause` (what a cause is), `causes/*` (one each), `verdict` (which one
//! stands), `grounding` (four tests), `plan` (the next intervention).

mod against;
mod cause;
mod causes;
mod facts;
#[cfg(test)]
mod field_tests;
mod grounding;
mod host_facts;
mod link_queue;
mod logs;
mod plan;
mod profile;
mod sessions;
mod split;
#[cfg(test)]
#[macro_use]
mod testing;
mod verdict;
mod walk;

pub use against::moved;
pub use cause::{Cause, Check, Kind, Layer, Scope, checks};
pub use causes::CAUSES;
pub use host_facts::{has_work_for_one_cpu_each, worker_cpus};
pub use plan::{plan_interventions, remedy_to_come};
pub use sessions::is_carried;
pub use verdict::{diagnose, missed_latency};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_a_page_and_stands_once() {
        for (i, cause) in CAUSES.iter().enumerate() {
            let page = cause.page();
            for heading in ["# ", "What it sees", "Why it limits", "Evidence", "What it is not", "Fix", "References"]
                .iter()
                .skip(1)
            {
                assert!(page.contains(&format!("## {heading}")), "{} lacks {heading}", cause.id);
            }
            assert!(page.starts_with("# "), "{}", cause.id);
            assert!(CAUSES[i + 1..].iter().all(|c| c.id != cause.id), "{} stands twice", cause.id);
        }
    }
}
