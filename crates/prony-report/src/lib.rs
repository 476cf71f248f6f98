//! What each metric, finding and verdict is called; HTML, Markdown, JSON, CSV, JUnit and the texts of the terminal.
//!
//! Everything here turns a [`Run`] into text. It reads no file, opens no socket and decides nothing.
//! Invariant: the page, the JSON, the Markdown and the terminal show the same [`view::ReportData`].

pub mod calls;
pub mod comparison;
pub mod csv;
pub mod experiment;
pub mod history;
mod html;
mod junit;
pub mod load_output;
mod markdown;
pub mod names;
pub mod network;
pub mod number;
pub mod origin;
pub mod text;
pub mod typed;
pub mod view;

use prony_model::Run;
use typed::Types;

/// The report as one self-contained file: it needs no network and no other file.
pub fn html(run: &Run) -> String {
    html::page(&json(run))
}

/// The same, with the CPU profiles held against those of an earlier run.
pub fn html_after(run: &Run, before: &Run) -> String {
    html::page(&json_after(run, before))
}

/// The data of the report, `prony.report/1`, as one line of JSON.
pub fn json(run: &Run) -> String {
    written(&view::ReportData::of(run))
}

/// The same, with the CPU profiles held against those of an earlier run.
pub fn json_after(run: &Run, before: &Run) -> String {
    written(&view::ReportData::after(run, before))
}

fn written(data: &view::ReportData) -> String {
    serde_json::to_string(data).expect("the view holds only strings and finite numbers")
}

/// The report as Markdown.
pub fn markdown(run: &Run) -> String {
    markdown::document(&view::ReportData::of(run))
}

/// What a run had to hold, as a JUnit report for CI: its end, its objective, its validity, its proof.
pub fn junit(run: &Run) -> String {
    junit::of_run(run).xml()
}

/// Every series of the run, in long format: `at_s,host,metric,item,value`.
pub fn csv(run: &Run) -> String {
    csv::series(run)
}

/// The types of everything that pages show.
pub fn types() -> Types {
    let mut types = Types::default();
    view::declare(&mut types);
    types
}

/// The same in TypeScript: the text of `web/src/generated/types.ts`.
pub fn typescript() -> String {
    typed::file("crates/prony-report/src/view.rs", "", &types())
}
