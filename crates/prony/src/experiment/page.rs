//! The result as a page of documents with its picture beside it, and where its figures come from.
//!
//! Nothing is measured here. Invariant: a page names the command, the machine and the time of its figures.

use crate::cli::RunArgs;
use crate::{origin, output};
use anyhow::Result;
use prony_model::Utc;
use prony_model::experiment::ExperimentResult;
use prony_report::experiment::{markdown, svg};
use prony_report::origin::Origin;
use std::path::Path;

/// Writes the page and its picture. `at_ms`: when the last of its figures was measured, in milliseconds since 1970.
pub(super) fn write(args: &RunArgs, result: &ExperimentResult, at_ms: u64, path: &Path) -> Result<()> {
    let picture = path.with_extension("svg");
    let drawn = svg(result);
    if let Some(svg) = &drawn {
        output::write(&picture, svg)?;
    }
    let name = picture.file_name().map(|name| name.to_string_lossy().into_owned());
    let origin = Origin { at: Utc::from_unix_ms(at_ms).to_string(), ..origin::of(command(args)) };
    output::write(path, &markdown(result, name.as_deref().filter(|_| drawn.is_some()), &origin))
}

/// As somebody would type it again, without where its cells and pages go.
fn command(args: &RunArgs) -> String {
    let mut command = format!("prony run {}", args.experiment.display());
    let flags = [("--stack", args.stack.clone()), ("--repeats", args.repeats.map(|n| n.to_string()))];
    for (flag, value) in flags {
        command.push_str(&value.map_or(String::new(), |value| format!(" {flag} {value}")));
    }
    if args.quick {
        command.push_str(" --quick");
    }
    command
}
