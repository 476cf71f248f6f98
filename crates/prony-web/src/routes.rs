//! Every route of the API as one table: the router and the document are both made of it, so that they cannot disagree.
//!
//! The pages use these routes and no others.

use crate::api::{
    About, CheckWanted, Checked, ExperimentList, Job, JobList, JobView, JobWanted, RunList, StackFiles, StackText,
    StackWanted, TagsWanted,
};
use crate::{App, document, metrics, pages, runs, work};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post, put};
use prony_report::typed::Typed;
use prony_report::view::{ComparedView, HistoryView, LiveView, ReportData, RunSummary};
use serde_json::Value;
use std::sync::Arc;

/// Largest body that is read: stack files are a few kilobytes. A guess.
pub(crate) const BODY_BYTES_MAX: usize = 256 * 1024;

/// A route and what its document says.
pub(crate) struct Route {
    pub method: &'static str,
    pub path: &'static str,
    /// Its name in the document.
    pub id: &'static str,
    pub about: &'static str,
    pub parameters: &'static [Parameter],
    /// Schema of the body; none: nothing is sent.
    pub body: Option<fn() -> Value>,
    pub answer: Answer,
    /// Codes that it may be refused with, besides those of every route.
    pub refused: &'static [u16],
    pub handler: fn() -> MethodRouter<Arc<App>>,
}

/// What comes back.
pub(crate) enum Answer {
    /// JSON of this schema.
    Json(fn() -> Value),
    /// The same, with code 201.
    Made(fn() -> Value),
    /// Events, each with JSON of this schema.
    Events(fn() -> Value),
    /// A text of this kind.
    Text(&'static str),
}

/// Where a parameter stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Path,
    Query,
}

/// A parameter.
pub(crate) struct Parameter {
    pub name: &'static str,
    pub place: Place,
    pub required: bool,
    pub about: &'static str,
    pub schema: ParameterSchema,
}

/// What a parameter can be.
pub(crate) enum ParameterSchema {
    Text,
    /// A text that this regular expression fits.
    Pattern(&'static str),
    /// A whole number up to this.
    Number(u32),
}

const RUN: &[Parameter] = &[in_path("id", "Id of a run.")];
const JOB: &[Parameter] = &[in_path("id", "Id of a started experiment.")];
const FILE: &[Parameter] =
    &[Parameter { required: true, ..in_query("file", "A stack file, as the list names it.", ParameterSchema::Text) }];
const STACK: &[Parameter] =
    &[Parameter { required: true, ..in_query("stack", "A stack: its name, or its entry.", ParameterSchema::Text) }];
const RUNS: &[Parameter] = &[Parameter {
    required: true,
    ..in_query(
        "runs",
        "Ids of 2 to 6 runs with commas between; the others are held against the first.",
        ParameterSchema::Pattern("^[A-Za-z0-9_.:-]+(,[A-Za-z0-9_.:-]+){1,5}$"),
    )
}];
const SEARCH: &[Parameter] = &[
    in_query("q", "Words that must all stand somewhere in what the list shows.", ParameterSchema::Text),
    in_query("tag", "Only runs with this tag.", ParameterSchema::Text),
    in_query("stack", "Only runs of this stack.", ParameterSchema::Text),
    in_query("from", "So many runs are left out, the newest first.", ParameterSchema::Number(u32::MAX)),
    in_query("limit", "At most so many runs; 50 unless said.", ParameterSchema::Number(500)),
];

const fn in_path(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, place: Place::Path, required: true, about, schema: ParameterSchema::Text }
}

const fn in_query(name: &'static str, about: &'static str, schema: ParameterSchema) -> Parameter {
    Parameter { name, place: Place::Query, required: false, about, schema }
}

/// A route that reads.
const fn read(
    path: &'static str,
    id: &'static str,
    about: &'static str,
    answer: Answer,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Route {
    Route { method: "get", path, id, about, parameters: &[], body: None, answer, refused: &[], handler }
}

/// A route that changes something.
const fn change(
    (method, path): (&'static str, &'static str),
    id: &'static str,
    about: &'static str,
    body: Option<fn() -> Value>,
    answer: Answer,
    handler: fn() -> MethodRouter<Arc<App>>,
) -> Route {
    Route { method, path, id, about, parameters: &[], body, answer, refused: &[403, 413, 415], handler }
}

/// All of them.
#[rustfmt::skip] // one route in a few lines reads as the table it is
pub(crate) static ROUTES: &[Route] = &[
    read("/api/about", "about", "What this server is.", Answer::Json(About::schema), || get(work::about)),
    Route { parameters: SEARCH, ..read("/api/runs", "listRuns", "Recorded runs, the newest first.",
        Answer::Json(RunList::schema), || get(runs::list)) },
    Route { parameters: RUN, refused: &[404], ..read("/api/runs/{id}", "readRun", "What the report of a run shows.",
        Answer::Json(ReportData::schema), || get(runs::one)) },
    Route { parameters: RUN, refused: &[404, 503], ..read("/api/runs/{id}/live", "watchRun",
        "A run while it goes on: the event `now` whenever it has changed, `last` at its end.",
        Answer::Events(LiveView::schema), || get(runs::live)) },
    Route { parameters: RUN, refused: &[404], ..read("/api/runs/{id}/tags", "readTags",
        "A run as the list shows it, with its tags.",
        Answer::Json(RunSummary::schema), || get(runs::summary)) },
    Route { parameters: RUN, refused: &[403, 404, 413, 415], ..change(("put", "/api/runs/{id}/tags"), "tagRun",
        "Gives a run other tags.",
        Some(TagsWanted::schema), Answer::Json(RunSummary::schema), || put(runs::tag)) },
    Route { parameters: RUNS, refused: &[404], ..read("/api/compare", "compareRuns", "Runs beside each other.",
        Answer::Json(ComparedView::schema), || get(runs::compare)) },
    Route { parameters: STACK, refused: &[404], ..read("/api/history", "readHistory",
        "Where the figures of a stack changed over its runs.",
        Answer::Json(HistoryView::schema), || get(runs::past)) },
    read("/api/experiments", "listExperiments", "Experiments that can be started.",
        Answer::Json(ExperimentList::schema), || get(work::list)),
    read("/api/jobs", "listJobs", "Experiments that were started, the newest first.",
        Answer::Json(JobList::schema), || get(work::jobs)),
    Route { refused: &[403, 404, 409, 413, 415], ..change(("post", "/api/jobs"), "startJob", "Starts an experiment.",
        Some(JobWanted::schema), Answer::Made(Job::schema), || post(work::start)) },
    Route { parameters: JOB, refused: &[404], ..read("/api/jobs/{id}", "readJob",
        "A started experiment, with what it said and recorded.",
        Answer::Json(JobView::schema), || get(work::job)) },
    Route { parameters: JOB, refused: &[404, 503], ..read("/api/jobs/{id}/live", "watchJob",
        "A started experiment while it runs: the event `now` whenever something has changed, `last` at its end.",
        Answer::Events(JobView::schema), || get(work::live)) },
    Route { parameters: JOB, refused: &[403, 404, 409], ..change(("post", "/api/jobs/{id}/stop"), "stopJob",
        "Asks an experiment to stop: it puts back what it changed, and keeps its finished cells.",
        None, Answer::Json(Job::schema), || post(work::stop)) },
    read("/api/stacks", "listStacks", "Stack files that can be edited.",
        Answer::Json(StackFiles::schema), || get(work::stacks)),
    Route { parameters: FILE, refused: &[404], ..read("/api/stack", "readStack", "The text of a stack file.",
        Answer::Json(StackText::schema), || get(work::stack)) },
    Route { parameters: FILE, refused: &[403, 404, 409, 413, 415], ..change(("put", "/api/stack"), "storeStack",
        "Replaces a stack file, or makes a new one, and says what is wrong with it.",
        Some(StackWanted::schema), Answer::Json(Checked::schema), || put(work::store)) },
    change(("post", "/api/check"), "checkStack", "Says what is wrong with the text of a stack file; stores nothing.",
        Some(CheckWanted::schema), Answer::Json(Checked::schema), || post(work::check)),
    read("/api/openapi.json", "readDocument", "This document.", Answer::Text("application/json"), || get(document::serve)),
    read("/metrics", "readMetrics", "Figures for Prometheus, in its text format.",
        Answer::Text(metrics::KIND), || get(metrics::serve)),
];

/// The API, and the pages beside it.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let api = ROUTES.iter().fold(Router::new(), |router, route| router.route(route.path, (route.handler)()));
    pages::router(api)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), crate::guard::guard))
        .with_state(Arc::clone(app))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_has_a_name_of_its_own_and_parameters_that_its_path_has() {
        let ids: BTreeSet<&str> = ROUTES.iter().map(|route| route.id).collect();
        assert_eq!(ids.len(), ROUTES.len());
        for route in ROUTES {
            let of_path = route.parameters.iter().filter(|p| p.place == Place::Path);
            assert_eq!(of_path.count(), route.path.matches('{').count(), "{}", route.path);
            assert!(route.parameters.iter().all(|p| p.place == Place::Query || p.required));
        }
    }
}
