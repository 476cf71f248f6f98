//! Arrows between crates point upward only: each crate's own dependencies are held against the table of ARCHITECTURE.md.
//!
//! Dependencies of tests are not held: they are in no shipped binary.

use super::Violation;
use anyhow::Context as _;
use std::path::Path;

/// Each crate and the crates of ours that it may use. `None`: all of them.
const LAYERS: &[(&str, Option<&[&str]>)] = &[
    ("prony-model", Some(&[])),
    ("prony-tool", Some(&[])),
    ("prony-nginx", Some(&[])),
    ("prony-stats", Some(&["prony-model"])),
    ("prony-load", Some(&["prony-model", "prony-stats"])),
    ("prony-probe", Some(&["prony-model", "prony-nginx"])),
    ("prony-tune", Some(&["prony-model", "prony-nginx", "prony-tool"])),
    ("prony-record", Some(&["prony-model"])),
    ("prony-lab", Some(&["prony-model", "prony-tool"])),
    ("prony-diagnose", Some(&["prony-model", "prony-stats"])),
    ("prony-agent", Some(&["prony-model", "prony-stats", "prony-load", "prony-probe", "prony-tune", "prony-tool"])),
    ("prony-session", Some(&["prony-model", "prony-stats", "prony-diagnose", "prony-record", "prony-agent"])),
    ("prony-report", Some(&["prony-model", "prony-stats"])),
    ("prony-tui", Some(&["prony-model", "prony-stats", "prony-report"])),
    ("prony-web", Some(&["prony-model", "prony-tool", "prony-stats", "prony-record", "prony-report"])),
    ("prony", None),
];

/// Crates without IO and without a clock: they may not use a crate that has them.
pub(super) const PURE: &[&str] = &["prony-model", "prony-stats", "prony-diagnose"];

/// Crates of others that bring IO, a clock, threads or the kernel.
const IMPURE: &[&str] = &["libc", "nix", "rusqlite", "rustix", "tempfile", "tokio"];

/// Checks every `crates/*/Cargo.toml`.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<Violation>> {
    let folder = root.join("crates");
    let mut found = Vec::new();
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = path.join("Cargo.toml");
        let file = format!("crates/{name}/Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .with_context(|| format!("{file}: cannot read it; a folder in crates/ is a crate"))?;
        found.extend(check_manifest(&file, &name, &text)?);
    }
    Ok(found)
}

fn check_manifest(file: &str, name: &str, text: &str) -> anyhow::Result<Vec<Violation>> {
    let manifest: toml::Table = text.parse().with_context(|| format!("{file}: not TOML"))?;
    let Some((_, allowed)) = LAYERS.iter().find(|(known, _)| *known == name) else {
        let message = format!(
            "`{name}` has no row in the layer table: add one in xtask/src/tidy/layers.rs and say in ARCHITECTURE.md which invariant the crate holds"
        );
        return Ok(vec![Violation::new(file, 1, message)]);
    };
    let mut found = Vec::new();
    for used in dependencies(&manifest) {
        let line = text.lines().position(|l| l.starts_with(used.as_str())).map_or(1, |n| n + 1);
        let ours = used == "prony" || used.starts_with("prony-");
        if ours && allowed.is_some_and(|list| !list.contains(&used.as_str())) {
            let list = allowed.unwrap_or_default().join(", ");
            let list = if list.is_empty() { "none of ours".to_string() } else { list };
            let message = format!(
                "`{name}` may not use `{used}` (it may use {list}): move the shared type down into prony-model, or the caller up"
            );
            found.push(Violation::new(file, line, message));
        }
        if PURE.contains(&name) && IMPURE.contains(&used.as_str()) {
            let message =
                format!("`{name}` is pure and may not use `{used}`: read facts in a probe and pass them in as values");
            found.push(Violation::new(file, line, message));
        }
    }
    let inherits = manifest.get("lints").and_then(|l| l.get("workspace")).and_then(toml::Value::as_bool);
    if inherits != Some(true) {
        found.push(Violation::new(
            file,
            1,
            "the lints of the workspace are not taken: add `[lints]` with `workspace = true`",
        ));
    }
    Ok(found)
}

/// Names under `[dependencies]` and `[build-dependencies]`, also those for one target only.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = std::iter::once(manifest).chain(targets.into_iter().flatten().filter_map(|(_, t)| t.as_table()));
    tables
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .filter_map(|list| list.and_then(toml::Value::as_table))
        .flat_map(|list| list.keys().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(name: &str, dependencies: &str) -> Vec<String> {
        let text = format!("[lints]\nworkspace = true\n{dependencies}");
        check_manifest("Cargo.toml", name, &text).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_that_points_down_is_found() {
        let found = messages("prony-model", "[dependencies]\nprony-stats.workspace = true\n");
        assert!(
            found[0].starts_with("Cargo.toml:4: `prony-model` may not use `prony-stats` (it may use none of ours)")
        );
        assert_eq!(messages("prony-stats", "[dependencies]\nprony-model.workspace = true\n"), [""; 0]);
        assert_eq!(messages("prony", "[dependencies]\nprony-agent.workspace = true\n"), [""; 0]);
        let hidden = "[target.'cfg(unix)'.dependencies]\nprony-load = { path = \"../prony-load\" }\n";
        assert_eq!(messages("prony-report", hidden).len(), 1);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        assert_eq!(messages("prony-stats", "[dev-dependencies]\nprony-load.workspace = true\n"), [""; 0]);
    }

    #[test]
    fn pure_crates_stay_pure() {
        assert_eq!(messages("prony-diagnose", "[dependencies]\nlibc = \"0.2\"\n").len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_and_one_without_lints_are_found() {
        assert!(messages("prony-new", "")[0].contains("no row in the layer table"));
        assert_eq!(check_manifest("Cargo.toml", "prony-model", "").unwrap().len(), 1);
    }

    #[test]
    fn the_table_itself_points_upward() {
        for (row, (name, allowed)) in LAYERS.iter().enumerate() {
            for used in allowed.unwrap_or_default() {
                let there = LAYERS.iter().position(|(known, _)| known == used);
                assert!(there.is_some_and(|at| at < row), "{name} uses {used}, which must stand above it");
            }
        }
    }
}
