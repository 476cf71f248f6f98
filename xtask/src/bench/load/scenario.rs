//! The scenario of `xtask/fixtures/scenario`, read as prony reads a stack file.
//!
//! It sends nothing. Invariant: what prony plays is what the file says; k6 has the same in its own words, beside it.

use anyhow::{Context as _, ensure};
use prony_model::Stack;
use prony_model::script::Script;
use std::path::Path;

/// What is played.
pub struct Scenario {
    /// Of both generators.
    pub connections: u32,
    /// Prony's, with the rows of its feeds.
    pub script: Script,
    /// k6's.
    pub k6_script: String,
}

impl Scenario {
    /// Reads `scenario.toml` and its feed.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let file = folder.join(name);
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        let workload = Stack::parse("scenario.toml", &read("scenario.toml")?)?.workload;
        let mut script = workload.script();
        for (name, feed) in &mut script.feeds {
            (feed.columns, feed.rows) = rows(&read(&workload.feed[name].file)?);
            ensure!(!feed.rows.is_empty(), "the feed {name} has no rows");
        }
        let k6_script = folder.join("k6.js").display().to_string();
        Ok(Self { connections: workload.connections, script, k6_script })
    }
}

/// Columns and rows of the plainest CSV: no quotes, no commas in values.
fn rows(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_string).collect());
    (lines.next().unwrap_or_default(), lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_the_one_in_the_file() {
        let scenario = Scenario::read(&crate::root().unwrap().join("xtask/fixtures/scenario")).unwrap();
        assert_eq!(scenario.script.steps.len(), 3);
        let users = &scenario.script.feeds["users"];
        assert_eq!((users.columns.as_slice(), users.rows.len()), (["user".to_string()].as_slice(), 200));
        assert_eq!(users.rows[199], ["user200"]);
        scenario.script.check().unwrap();
    }
}
