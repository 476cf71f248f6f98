//! What is asked of experiments and stack files, and of the server itself.
//!
//! It does nothing itself: files are in `experiments` and `stacks`, processes in `jobs`.

use crate::api::{About, CheckWanted, Checked, ExperimentList, Job, JobList, JobState, JobView, JobWanted};
use crate::api::{StackFiles, StackText, StackWanted};
use crate::jobs::Start;
use crate::live::Seen;
use crate::refusal::{Asked, Named, Refusal, Sent, aside};
use crate::{App, experiments};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;

/// What this server is.
pub(crate) async fn about(State(app): State<Arc<App>>) -> Json<About> {
    let folder = app.archive.folder();
    Json(About {
        version: env!("CARGO_PKG_VERSION").to_string(),
        runs_folder: std::path::absolute(folder).unwrap_or(folder.to_path_buf()).display().to_string(),
        can_start: !app.experiments.is_empty(),
        can_edit: app.stacks.can_edit(),
    })
}

/// Experiments that can be started.
pub(crate) async fn list(State(app): State<Arc<App>>) -> Result<Json<ExperimentList>, Refusal> {
    aside(move || {
        let experiments = experiments::list(&app.experiments).into_iter().map(|(_, experiment)| experiment).collect();
        Ok(Json(ExperimentList { experiments, running: app.jobs.running() }))
    })
    .await
}

/// Experiments that were started.
pub(crate) async fn jobs(State(app): State<Arc<App>>) -> Result<Json<JobList>, Refusal> {
    aside(move || Ok(Json(JobList { jobs: app.jobs.list() }))).await
}

/// Starts an experiment.
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    Sent(wanted): Sent<JobWanted>,
) -> Result<(StatusCode, Json<Job>), Refusal> {
    aside(move || {
        let found = experiments::list(&app.experiments).into_iter().find(|(_, known)| known.file == wanted.file);
        let Some((file, known)) = found else {
            return Err(Refusal::missing(format!("`{}` is no experiment of this server", wanted.file)));
        };
        if let Some(wrong) = known.wrong {
            return Err(Refusal::conflict(wrong));
        }
        let id = app.jobs.start(&Start { file, name: known.name, quick: wanted.quick })?;
        Ok((StatusCode::CREATED, Json(app.jobs.find(&id)?)))
    })
    .await
}

/// A started experiment.
pub(crate) async fn job(State(app): State<Arc<App>>, Named(id): Named) -> Result<Json<JobView>, Refusal> {
    aside(move || app.jobs.view(&id, &app.archive).map(Json)).await
}

/// Stops it.
pub(crate) async fn stop(State(app): State<Arc<App>>, Named(id): Named) -> Result<Json<Job>, Refusal> {
    aside(move || {
        app.jobs.find(&id)?;
        app.jobs.stop(&id)?;
        app.jobs.find(&id).map(Json)
    })
    .await
}

/// A started experiment while it runs.
pub(crate) async fn live(State(app): State<Arc<App>>, Named(id): Named) -> Result<Response, Refusal> {
    let first = Arc::clone(&app);
    let id = aside(move || first.jobs.find(&id).map(|job| job.id)).await?;
    let mut seen = String::new();
    let looked_at = Arc::clone(&app);
    app.streams.begin(move || {
        let Ok(view) = looked_at.jobs.view(&id, &looked_at.archive) else { return Seen::Over };
        let over = matches!(view.job.state, JobState::Ended | JobState::CutShort);
        let Ok(now) = serde_json::to_string(&view) else { return Seen::Over };
        if over {
            return Seen::Last(now);
        }
        if now == seen {
            return Seen::Same;
        }
        seen.clone_from(&now);
        Seen::Now(now)
    })
}

/// Which stack file is meant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfFile {
    file: String,
}

/// Stack files that can be edited.
pub(crate) async fn stacks(State(app): State<Arc<App>>) -> Result<Json<StackFiles>, Refusal> {
    aside(move || Ok(Json(app.stacks.list()))).await
}

/// The text of one.
pub(crate) async fn stack(
    State(app): State<Arc<App>>,
    Asked(asked): Asked<OfFile>,
) -> Result<Json<StackText>, Refusal> {
    aside(move || app.stacks.read(&asked.file).map(Json)).await
}

/// Replaces one.
pub(crate) async fn store(
    State(app): State<Arc<App>>,
    Asked(asked): Asked<OfFile>,
    Sent(wanted): Sent<StackWanted>,
) -> Result<Json<Checked>, Refusal> {
    aside(move || app.stacks.write(&asked.file, &wanted.text, &wanted.version).map(Json)).await
}

/// Checks a text.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    Sent(wanted): Sent<CheckWanted>,
) -> Result<Json<Checked>, Refusal> {
    aside(move || Ok(Json(app.stacks.check(&wanted.file, &wanted.text)))).await
}
