//! Dead files: Rust files that no `mod` leads to, so that nobody compiles them, and snapshots that are not there.
//!
//! It follows `mod NAME;`, `#[path]` and the `include` macros from each target's root. A module declared inside an inline
//! module of another name is looked for beside the file, where rustc would look one folder deeper; we have none.

use super::lexer::{line_of, words};
use super::{Source, Violation};
use anyhow::Context as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Folders in which cargo takes each file as a target of its own.
const TARGET_FOLDERS: &[&str] = &["src/bin", "tests", "benches", "examples"];

/// Finds dead files and missing snapshots in every package of the workspace.
pub(super) fn check(root: &Path, sources: &[Source]) -> anyhow::Result<Vec<Violation>> {
    let rust: BTreeMap<&str, &Source> = sources.iter().filter(|s| s.is_rust()).map(|s| (s.path.as_str(), s)).collect();
    let mut found = missing_snapshots(root, sources);
    let mut packages = Vec::new();
    for manifest in sources.iter().filter(|s| s.path.ends_with("/Cargo.toml")) {
        let package = manifest.path.trim_end_matches("/Cargo.toml");
        packages.push(format!("{package}/"));
        let table: toml::Table = manifest.text.parse().with_context(|| format!("{}: not TOML", manifest.path))?;
        let reached = reached(&rust, roots(package, &table, &rust));
        let ours = rust.keys().filter(|path| path.starts_with(&format!("{package}/")));
        found.extend(ours.filter(|path| !reached.contains(**path)).map(|path| {
            Violation::new(path, 1, "no `mod` leads to this file, so nobody compiles it: declare it or delete it")
        }));
    }
    Ok(found)
}

/// Files at which cargo begins: by convention, or by a `path` in the manifest.
fn roots(package: &str, manifest: &toml::Table, rust: &BTreeMap<&str, &Source>) -> Vec<String> {
    let mut roots: Vec<String> =
        ["src/lib.rs", "src/main.rs", "build.rs"].iter().map(|file| format!("{package}/{file}")).collect();
    for folder in TARGET_FOLDERS {
        let prefix = format!("{package}/{folder}/");
        let direct = |path: &str| {
            let rest = path.strip_prefix(&prefix);
            rest.is_some_and(|rest| {
                !rest.contains('/') || (rest.ends_with("/main.rs") && rest.matches('/').count() == 1)
            })
        };
        roots.extend(rust.keys().filter(|path| direct(path)).map(ToString::to_string));
    }
    let single = ["lib"].iter().filter_map(|kind| manifest.get(*kind));
    let many = ["bin", "test", "bench", "example"].iter().filter_map(|kind| manifest.get(*kind)?.as_array()).flatten();
    let paths = single.chain(many).filter_map(|target| target.get("path")?.as_str());
    roots.extend(paths.map(|path| format!("{package}/{path}")));
    roots
}

/// Everything that can be reached from `todo`.
fn reached(rust: &BTreeMap<&str, &Source>, mut todo: Vec<String>) -> BTreeSet<String> {
    let roots: BTreeSet<String> = todo.iter().cloned().collect();
    let mut seen = BTreeSet::new();
    while let Some(path) = todo.pop() {
        let Some(source) = rust.get(path.as_str()) else { continue };
        if seen.insert(path.clone()) {
            todo.extend(children(source, roots.contains(&path)));
        }
    }
    seen
}

/// Paths that a file may lead to, whether they exist or not.
fn children(source: &Source, is_root: bool) -> Vec<String> {
    let path = Path::new(&source.path);
    let beside = path.parent().unwrap_or(Path::new(""));
    let stem = path.file_stem().unwrap_or_default();
    let folder = if is_root || stem == "mod" { beside.to_path_buf() } else { beside.join(stem) };
    let code = &source.views.code;
    let mut found = Vec::new();
    for at in words(code, "mod ") {
        let name: String = code[at + 4..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !name.is_empty() && code[at + 4 + name.len()..].starts_with(';') {
            found.push(folder.join(format!("{name}.rs")));
            found.push(folder.join(&name).join("mod.rs"));
        }
    }
    for opener in ["#[path = \"", "include!(\"", "include_str!(\"", "include_bytes!(\""] {
        found.extend(source.text.match_indices(opener).filter_map(|(at, _)| {
            let rest = &source.text[at + opener.len()..];
            Some(beside.join(&rest[..rest.find('"')?]))
        }));
    }
    found.iter().map(|path| tidy_path(path)).collect()
}

/// Snapshot files that a test names must be there: a missing one would be written silently on the next update.
fn missing_snapshots(root: &Path, sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|s| s.is_rust()) {
        let beside = Path::new(&source.path).parent().unwrap_or(Path::new(""));
        for at in words(&source.views.code, "expect_file![\"") {
            let rest = &source.text[at + "expect_file![\"".len()..];
            let Some(name) = rest.find('"').map(|end| &rest[..end]) else { continue };
            let path = tidy_path(&beside.join(name));
            if !root.join(&path).exists() {
                let message = format!(
                    "snapshot `{path}` is not there: run the test with UPDATE_EXPECT=1 and read what it writes"
                );
                found.push(Violation::new(&source.path, line_of(&source.text, at), message));
            }
        }
    }
    found
}

/// A path without `.` and `..`.
fn tidy_path(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            other @ (Component::Normal(_) | Component::RootDir | Component::Prefix(_)) => parts.push(other),
        }
    }
    parts.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let mut sources = vec![Source::new("crates/a/Cargo.toml", "[[bench]]\nname = \"b\"\npath = \"odd/b.rs\"\n")];
        sources.extend(files.iter().map(|(path, text)| Source::new(&format!("crates/a/{path}"), text)));
        check(Path::new("/nowhere"), &sources).unwrap().into_iter().map(|v| v.file).collect()
    }

    #[test]
    fn a_file_that_no_mod_leads_to_is_dead() {
        let live = [
            ("src/lib.rs", "pub mod one;\n#[path = \"other/name.rs\"]\nmod two;\n"),
            ("src/one.rs", "mod deep;\nconst T: &str = include_str!(\"../text.rs\");\n"),
            ("src/one/deep.rs", ""),
            ("src/other/name.rs", ""),
            ("src/bin/tool.rs", ""),
            ("tests/all.rs", "mod lab;\n"),
            ("tests/lab/mod.rs", ""),
            ("odd/b.rs", ""),
            ("text.rs", ""),
        ];
        assert_eq!(dead(&live), [""; 0]);
        assert_eq!(dead(&[("src/lib.rs", "// mod gone;\n"), ("src/gone.rs", "")]), ["crates/a/src/gone.rs"]);
        assert_eq!(dead(&[("src/lib.rs", "mod one { }\n"), ("src/one.rs", "")]), ["crates/a/src/one.rs"]);
    }

    #[test]
    fn a_snapshot_that_is_not_there_is_found() {
        let text = "fn t() { expect_file![\"snap/one.txt\"].assert_eq(x) }\n";
        assert_eq!(dead(&[("src/lib.rs", text)]), ["crates/a/src/lib.rs"]);
    }
}
