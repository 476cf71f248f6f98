//! `prony report`: a recorded run as a page, as text, or as data.

use crate::Exit;
use crate::cli::{Format, ReportArgs};
use crate::home;
use crate::output::{is_stdout, print, write};
use anyhow::{Result, bail};
use prony_model::{Run, RunEnd};
use prony_report::calls;
use prony_report::text::{self, Style};
use std::path::{Path, PathBuf};

/// `prony report [RUN]`.
pub(crate) fn run(args: &ReportArgs) -> Result<Exit> {
    let Some(wanted) = &args.run else { return list() };
    let run = prony_record::read(&find(wanted)?)?;
    if let Some(function) = &args.calls {
        return say(args, &around(&run, function)?);
    }
    let Some(other) = &args.profile_from else {
        let format = args.format.unwrap_or(Format::Html);
        return hand_over(args, format, &whole(&run, format));
    };
    let before = prony_record::read(&find(other)?)?;
    if !run.stacks.iter().any(|seen| before.stacks.iter().any(|was| was.host == seen.host)) {
        eprintln!("prony: no host has call stacks in both runs: the deep look of `prony diagnose` takes them, as root");
    }
    match args.format {
        None | Some(Format::Text) => say(args, &calls::difference(&before, &run)),
        Some(Format::Html) => hand_over(args, Format::Html, &prony_report::html_after(&run, &before)),
        Some(Format::Json) => hand_over(args, Format::Json, &prony_report::json_after(&run, &before)),
        Some(Format::Md | Format::Csv | Format::Junit) => {
            bail!("the difference of two profiles is shown as text, html or json: leave --profile-from or --format out")
        }
    }
}

fn whole(run: &Run, format: Format) -> String {
    match format {
        Format::Html => prony_report::html(run),
        Format::Md => prony_report::markdown(run),
        Format::Json => prony_report::json(run),
        Format::Csv => prony_report::csv(run),
        Format::Junit => prony_report::junit(run),
        Format::Text => text::verdict(run, Style::Plain),
    }
}

/// A report: into a file, which a page always is, or to stdout.
fn hand_over(args: &ReportArgs, format: Format, text: &str) -> Result<Exit> {
    match args.output.clone().or((format == Format::Html).then(|| PathBuf::from("report.html"))) {
        Some(file) => {
            write(&file, text)?;
            if !is_stdout(&file) {
                print(&format!("report in {}", file.display()));
            }
        }
        None => print(text),
    }
    Ok(Exit::Done)
}

/// What was asked about the CPU samples alone.
fn say(args: &ReportArgs, text: &str) -> Result<Exit> {
    match &args.output {
        Some(file) => write(file, text)?,
        None => print(text),
    }
    Ok(Exit::Done)
}

/// The call paths through a function.
fn around(run: &Run, function: &str) -> Result<String> {
    if run.stacks.is_empty() {
        bail!("this run holds no call stacks: the deep look of `prony diagnose` takes them, as root");
    }
    let Some(text) = calls::around(run, function) else {
        let similar = calls::similar(run, function);
        let next = if similar.is_empty() { String::new() } else { format!("; seen were {}", similar.join(", ")) };
        bail!("no sample shows a function `{function}`{next}");
    };
    Ok(text)
}

fn list() -> Result<Exit> {
    let folder = home::runs()?;
    let prony_record::Listing { runs, unreadable } = prony_record::list(&folder)?;
    for file in unreadable {
        eprintln!("prony: {file}");
    }
    if runs.is_empty() {
        print(&format!("no runs in {}", folder.display()));
    }
    for run in runs {
        print(&format!("{}  {:<12} {}", run.id, end_word(&run.end), run.name));
    }
    Ok(Exit::Done)
}

/// A file, or the run whose id starts so.
pub(crate) fn find(wanted: &str) -> Result<PathBuf> {
    if Path::new(wanted).exists() {
        return Ok(PathBuf::from(wanted));
    }
    let folder = home::runs()?;
    let runs = prony_record::list(&folder)?.runs;
    let mut matching: Vec<_> = runs.into_iter().filter(|r| r.id.starts_with(wanted)).collect();
    match (matching.pop(), matching.len()) {
        (Some(run), 0) => Ok(run.path),
        (Some(_), more) => bail!("{} runs start with `{wanted}`: write more of the id", more + 1),
        (None, _) => bail!("`{wanted}` is no file and no run in {}; `prony report` lists the runs", folder.display()),
    }
}

fn end_word(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Open => "cut short",
        RunEnd::Done => "done",
        RunEnd::Interrupted => "interrupted",
        RunEnd::Failed { .. } => "failed",
    }
}
