//! A look at the pages in a real browser: every sample run must draw, also the hostile one; the report of a recorded run and
//! the pages of `prony serve` are used as a reader uses them (`web/e2e/`).
//!
//! It looks at the document after the scripts ran, not at pixels: that the page looks good is for a person to say.

use super::{Outcome, build, install, must, npm, succeeds};
use crate::bench::target;
use anyhow::{Context as _, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Samples of `crates/prony-report/examples/sample.rs`.
const SAMPLES: &[&str] = &["whole", "only_url", "interrupted", "no_proof", "only_gaps", "hostile"];

/// A recorded run that has every part that a reader uses: a walk, series of four hosts, flame graphs, interventions.
const RECORDED: &str = "testdata/runs/overlay-encapsulation.lb.prony";

/// A run of the same hosts, whose CPU profile it is held against.
const BEFORE: &str = "testdata/runs/offloads-off.lb.prony";

/// What the pages of `prony serve` are shown over.
const RUNS: &str = "testdata/runs";

/// Longest time for one page. A guess: a page takes about a second.
const BROWSER_SECONDS_MAX: &str = "60";

/// Draws every sample in chromium, then uses the report of a recorded run and the pages of `prony serve`.
pub(super) fn run(root: &Path) -> anyhow::Result<Outcome> {
    if !succeeds(Command::new("chromium").arg("--version")) {
        return Ok(Outcome::Noted("not looked at: there is no chromium; run scripts/setup.sh test".to_string()));
    }
    build(root)?;
    let folder = std::env::temp_dir().join(format!("prony-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let result = SAMPLES.iter().try_for_each(|sample| look(root, &folder, sample)).and_then(|()| used(root, &folder));
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    result.map(|()| Outcome::Passed)
}

fn look(root: &Path, folder: &Path, sample: &str) -> anyhow::Result<()> {
    let page = folder.join(format!("{sample}.html"));
    let file = std::fs::File::create(&page).with_context(|| format!("cannot write {}", page.display()))?;
    let mut make = Command::new(target(root).join("debug/examples/sample"));
    must(make.arg(sample).stdout(file), "repeat it without `> file`")?;
    let mut browser = Command::new("timeout");
    browser.args([BROWSER_SECONDS_MAX, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    browser.arg(format!("file://{}", page.display())).stderr(Stdio::null());
    let output = browser.output().context("cannot start chromium")?;
    if !output.status.success() {
        bail!("chromium did not show the sample `{sample}` ({})", output.status);
    }
    drawn(&String::from_utf8_lossy(&output.stdout)).with_context(|| format!("sample `{sample}`"))
}

/// Opens them, walks the chain, zooms, searches, saves, compares, starts an experiment and looks on, asks axe, prints.
fn used(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let page = folder.join("recorded.html");
    let mut make = Command::new(target(root).join("debug/prony"));
    make.current_dir(root).args(["report", RECORDED, "--profile-from", BEFORE, "--format", "html", "-o"]).arg(&page);
    must(make.stdout(Stdio::null()), "repeat it")?;
    let web = root.join("web");
    install(&web)?;
    let mut use_them = npm(&web);
    use_them.args(["run", "e2e"]).env("PRONY_PAGE", &page);
    use_them.env("PRONY_BIN", target(root).join("debug/prony")).env("PRONY_RUNS", root.join(RUNS));
    must(&mut use_them, "repeat it in web/ with PRONY_PAGE=report.html, PRONY_BIN and PRONY_RUNS")?;
    Ok(())
}

/// Whether the page's script ran to its end, and no text of the run ran as one.
fn drawn(document: &str) -> anyhow::Result<()> {
    let title = document.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).map_or("", |(t, _)| t);
    if !title.starts_with("prony: ") {
        bail!("the page has the title `{title}`: its script failed, or text of the run was run");
    }
    if !document.contains("<footer>Run ") {
        bail!("the page has no footer: its script stopped half-way");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_did_not_draw_is_found() {
        let page = |title: &str, foot: &str| format!("<head><title>{title}</title></head><main></main>{foot}");
        assert!(drawn(&page("prony: all is well", "<footer>Run 1, prony</footer>")).is_ok());
        assert!(drawn(&page("prony report", "<footer>Run 1</footer>")).is_err(), "the title of the empty page");
        assert!(drawn(&page("owned", "<footer>Run 1</footer>")).is_err(), "injected text ran");
        assert!(drawn(&page("prony: half", "")).is_err());
    }
}
