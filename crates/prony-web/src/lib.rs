//! Web pages over recorded runs: the list, one run, several beside each other, a history, experiments and stack files.
//!
//! It reads the folder of runs and starts `prony run`; it measures nothing and never sees a host. The pages are built from
//! `web/` and use the API alone. Invariant: nothing is kept outside the folder of runs, but the stack files that are edited.

mod api;
mod archive;
mod document;
mod error;
mod experiments;
mod guard;
mod jobs;
mod live;
mod metrics;
mod pages;
mod patient;
mod refusal;
mod routes;
mod runs;
mod server;
mod stacks;
mod tags;
mod work;

pub use document::text as openapi;
pub use error::WebError;
pub use guard::Token;
pub use server::{Server, Settings, Tls};

use std::path::PathBuf;

/// What every handler sees.
struct App {
    archive: archive::Archive,
    /// Folders of experiments that may be started.
    experiments: Vec<PathBuf>,
    jobs: jobs::Jobs,
    stacks: stacks::Stacks,
    streams: live::Streams,
    guard: guard::Guard,
}

/// TypeScript types of the API: the text of `web/src/generated/api.ts`.
pub fn typescript() -> String {
    let imports = "import type { RunSummary } from \"./types\";\n\n";
    prony_report::typed::file("crates/prony-web/src/api.rs", imports, &api::types())
}
