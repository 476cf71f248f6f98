//! What is asked of recorded runs: the list, one run, its tags, several beside each other, a history, and one that goes on.
//!
//! It judges nothing: reports, comparisons and histories are those of the commands.

use crate::App;
use crate::api::{Counted, RunList, TagsWanted};
use crate::archive::{Archive, Known, Stamp, unreadable};
use crate::live::Seen;
use crate::refusal::{Asked, Named, Refusal, Sent, aside};
use crate::tags;
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use prony_model::{Run, RunEnd};
use prony_report::view::{ComparedView, HistoryView, LiveView, ReportData, RunSummary};
use prony_stats::compare::of_records;
use prony_stats::history::history;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Runs that the list gives unless asked for another number, and at most. Guesses: a few screens, and an answer of a megabyte.
const PAGE: u32 = 50;
const PAGE_MAX: u32 = 500;
/// Runs that can be compared at once. A guess: so many lines of one drawing can still be told apart.
const COMPARED_MAX: usize = 6;

/// What is asked of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Search {
    q: String,
    tag: String,
    stack: String,
    from: u32,
    limit: u32,
}

impl Default for Search {
    fn default() -> Self {
        Self { q: String::new(), tag: String::new(), stack: String::new(), from: 0, limit: PAGE }
    }
}

/// The list.
pub(crate) async fn list(State(app): State<Arc<App>>, Asked(search): Asked<Search>) -> Result<Json<RunList>, Refusal> {
    if search.limit > PAGE_MAX {
        return Err(Refusal::wrong(format!("limit is {}: {PAGE_MAX} is the most", search.limit)));
    }
    aside(move || {
        let listing = app.archive.runs()?;
        let all: Vec<&RunSummary> = listing.runs.iter().filter_map(|known| known.summary()).collect();
        let found: Vec<&RunSummary> = all.iter().copied().filter(|run| search.finds(run)).collect();
        let page = found.iter().skip(search.from as usize).take(search.limit as usize);
        Ok(Json(RunList {
            total: found.len() as u32,
            runs: page.map(|run| (*run).clone()).collect(),
            stacks: counted(all.iter().map(|run| run.stack.as_str())),
            tags: counted(all.iter().flat_map(|run| run.tags.iter().map(String::as_str))),
            unreadable: listing.unreadable,
        }))
    })
    .await
}

impl Search {
    /// Whether every word stands somewhere in what the list shows of a run.
    fn finds(&self, run: &RunSummary) -> bool {
        let fits = |wanted: &str, has: bool| wanted.is_empty() || has;
        let shown = [&run.id, &run.stack, &run.command, &run.sentence, &run.hop, &run.end, &run.started];
        let shown: Vec<String> =
            shown.into_iter().chain(&run.cause).chain(&run.tags).map(|text| text.to_lowercase()).collect();
        let words = self.q.to_lowercase();
        fits(&self.tag, run.tags.contains(&self.tag))
            && fits(&self.stack, run.stack == self.stack)
            && words.split_whitespace().all(|word| shown.iter().any(|text| text.contains(word)))
    }
}

fn counted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Counted> {
    let mut counts = BTreeMap::<&str, u32>::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts.into_iter().map(|(name, runs)| Counted { name: name.to_string(), runs }).collect()
}

fn read(archive: &Archive, id: &str) -> Result<Run, Refusal> {
    prony_record::read(&archive.find(id)?.path).map_err(|e| unreadable(&e))
}

/// One run: what its report shows.
pub(crate) async fn one(State(app): State<Arc<App>>, Named(id): Named) -> Result<Json<ReportData>, Refusal> {
    aside(move || Ok(Json(ReportData::of(&read(&app.archive, &id)?)))).await
}

/// One run as the list shows it.
pub(crate) async fn summary(State(app): State<Arc<App>>, Named(id): Named) -> Result<Json<RunSummary>, Refusal> {
    aside(move || shown(&app.archive, &id).map(Json)).await
}

fn shown(archive: &Archive, id: &str) -> Result<RunSummary, Refusal> {
    let summary = archive.find(id)?.summary().cloned();
    summary.ok_or_else(|| Refusal::failed(format!("run {id} cannot be read any more")))
}

/// Replaces the tags of a run.
pub(crate) async fn tag(
    State(app): State<Arc<App>>,
    Named(id): Named,
    Sent(wanted): Sent<TagsWanted>,
) -> Result<Json<RunSummary>, Refusal> {
    aside(move || {
        tags::write(&app.archive.find(&id)?.path, &wanted.tags.0)?;
        shown(&app.archive, &id).map(Json)
    })
    .await
}

/// Which runs are compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compare {
    /// Their ids, with commas between.
    runs: String,
}

/// Several runs beside each other, each held against the first.
pub(crate) async fn compare(
    State(app): State<Arc<App>>,
    Asked(asked): Asked<Compare>,
) -> Result<Json<ComparedView>, Refusal> {
    let ids: Vec<String> = asked.runs.split(',').map(|id| id.trim().to_string()).filter(|id| !id.is_empty()).collect();
    if !(2..=COMPARED_MAX).contains(&ids.len()) {
        let text = format!("{} runs were named: 2 to {COMPARED_MAX} can be compared, like `runs=ID,ID`", ids.len());
        return Err(Refusal::wrong(text));
    }
    aside(move || compared(&app.archive, &ids).map(Json)).await
}

fn compared(archive: &Archive, ids: &[String]) -> Result<ComparedView, Refusal> {
    let (first, others) = ids.split_first().ok_or_else(|| Refusal::wrong("no run was named"))?;
    let first = read(archive, first)?;
    let mut view = ComparedView::of(&first);
    for id in others {
        let other = read(archive, id)?;
        view.add(&first, &other, &of_records(&first, &other, &[]));
    }
    Ok(view)
}

/// Whose history is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfStack {
    /// The stack: its name, or its entry.
    stack: String,
}

/// The history of a stack.
pub(crate) async fn past(
    State(app): State<Arc<App>>,
    Asked(asked): Asked<OfStack>,
) -> Result<Json<HistoryView>, Refusal> {
    aside(move || {
        let listing = app.archive.runs()?;
        let of_stack = |known: &&Arc<Known>| known.summary().is_some_and(|run| run.stack == asked.stack);
        let (mut runs, mut notes) = (Vec::new(), Vec::new());
        for known in listing.runs.iter().filter(of_stack) {
            match known.past() {
                Ok(run) => runs.push(run),
                Err(reason) => notes.push(format!("left out: {reason}")),
            }
        }
        if runs.is_empty() && notes.is_empty() {
            let folder = app.archive.folder().display();
            return Err(Refusal::missing(format!("no run of a stack `{}` is in {folder}", asked.stack)));
        }
        Ok(Json(HistoryView::of(&history(runs, notes))))
    })
    .await
}

/// A run while it goes on.
pub(crate) async fn live(State(app): State<Arc<App>>, Named(id): Named) -> Result<Response, Refusal> {
    let archive = Arc::clone(&app);
    let known = aside(move || archive.archive.find(&id)).await?;
    let mut seen = None;
    app.streams.begin(move || {
        let now = Stamp::of(&known.path);
        if now.is_none() {
            return Seen::Over;
        }
        if now == seen {
            return Seen::Same;
        }
        // What is being written this very moment can be read at the next look.
        let Ok((over, state)) = look(&known.path) else { return Seen::Same };
        seen = now;
        if over { Seen::Last(state) } else { Seen::Now(state) }
    })
}

/// Whether the run has come to its end, and its state as JSON.
fn look(record: &Path) -> Result<(bool, String), Refusal> {
    let run = prony_record::outline(record).map_err(|e| unreadable(&e))?;
    let events = prony_record::events(record).map_err(|e| unreadable(&e))?;
    let state = serde_json::to_string(&LiveView::of(&run, &events)).map_err(|e| Refusal::failed(e.to_string()))?;
    Ok((run.end != RunEnd::Open, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_words_in_any_order_and_any_case() {
        let stack = prony_model::Stack { name: "Shop of Ada".into(), ..prony_model::Stack::default() };
        let run =
            Run { id: "20261120-231501".into(), command: "prony prove shop.toml".into(), stack, ..Run::default() };
        let run = RunSummary::of(&run, vec!["nightly".into()]);
        let finds = |q: &str, tag: &str, stack: &str| {
            Search { q: q.into(), tag: tag.into(), stack: stack.into(), ..Search::default() }.finds(&run)
        };
        assert!(finds("", "", "") && finds("ADA prove", "", "") && finds("20261120 night", "nightly", "Shop of Ada"));
        assert!(!finds("ada limit", "", "") && !finds("", "night", "") && !finds("", "", "Shop"));
    }

    #[test]
    fn names_are_counted_in_order() {
        let counts: Vec<(String, u32)> =
            counted(["b", "a", "b"].into_iter()).into_iter().map(|c| (c.name, c.runs)).collect();
        assert_eq!(counts, [("a".to_string(), 1), ("b".to_string(), 2)]);
    }
}
