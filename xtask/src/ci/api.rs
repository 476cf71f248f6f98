//! Requests of all kinds to the API of `prony serve`, right and wrong ones, held against its document by schemathesis.
//!
//! That each route answers with the type that its document names is held by tests of `prony-web`; this looks for what nobody
//! thought of. It is left out, with a note, where schemathesis is not installed.

use super::{Outcome, build, must, succeeds};
use crate::bench::target;
use anyhow::{Context as _, bail};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// As `scripts/setup.sh test` installs it.
const VERSION: &str = "4.32.5";

/// Runs that it may ask for and tag.
const RECORDED: &[&str] = &["testdata/runs/upstream-keepalive-off.lb.prony", "testdata/runs/slow-upstream.s2.prony"];

/// Requests for each operation and kind. A guess: all of it takes less than a minute.
const EXAMPLES: &str = "30";

/// Streams of events never end by themselves; tests of `prony-web` read them.
const STREAMS: &[&str] = &["watchRun", "watchJob"];

/// Starts a server over copies of recorded runs and lets schemathesis ask it.
pub(super) fn run(root: &Path) -> anyhow::Result<Outcome> {
    let Some(program) = schemathesis() else {
        return Ok(Outcome::Noted("not tried: there is no schemathesis; run scripts/setup.sh test".to_string()));
    };
    build(root)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let (runs, stacks) = (folder.path().join("runs"), folder.path().join("stacks"));
    for path in [&runs, &stacks] {
        std::fs::create_dir(path).with_context(|| format!("cannot make {}", path.display()))?;
    }
    for record in RECORDED {
        let name = Path::new(record).file_name().context("a record has a name")?;
        std::fs::copy(root.join(record), runs.join(name)).with_context(|| format!("cannot copy {record}"))?;
    }
    std::fs::write(stacks.join("shop.toml"), "entry = \"http://127.0.0.1/\"\n").context("cannot write a stack file")?;
    let mut serve = Command::new(target(root).join("debug/prony"));
    serve.args(["serve", "--bind", "127.0.0.1:0", "--runs"]).arg(&runs).arg("--stacks").arg(&stacks);
    let mut server = Server(serve.stdout(Stdio::piped()).spawn().context("cannot start `prony serve`")?);
    let url = server.url()?;
    let mut ask = Command::new(program);
    ask.current_dir(folder.path()).args(["run", &format!("{url}api/openapi.json"), "--max-examples", EXAMPLES]);
    ask.args(["--generation-deterministic", "--request-timeout", "30", "--warnings", "off"]);
    ask.args(STREAMS.iter().flat_map(|id| ["--exclude-operation-id", id]));
    must(&mut ask, "each failure above says how to repeat it against `prony serve`")
}

/// Where setup.sh puts it, or where the PATH has it.
fn schemathesis() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let ours = cache.map(|cache| cache.join(format!("prony/schemathesis-{VERSION}/bin/schemathesis")));
    let places = ours.into_iter().chain([PathBuf::from("schemathesis")]);
    places.into_iter().find(|program| succeeds(Command::new(program).arg("--version")))
}

/// Ends with the step, also when that fails.
struct Server(Child);

impl Server {
    fn url(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let out = self.0.stdout.take().context("the server has no output")?;
        BufReader::new(out).read_line(&mut line).context("the server said nothing")?;
        match line.trim().strip_prefix("pages at ") {
            Some(url) => Ok(url.to_string()),
            None => bail!("`prony serve` did not start; it said: {line}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It started nothing and keeps nothing, so it may be killed.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
