//! The change log: `CHANGELOG.md` has an Unreleased section, and each `changelog.d/<slug>.md` is an entry that can go into it.
//!
//! Whether a change is one that a user sees is for the reviewer to say.

use super::Violation;
use anyhow::Context as _;
use std::path::Path;

/// How an entry may begin.
const KINDS: &[&str] = &["added: ", "changed: ", "fixed: ", "removed: "];

/// Checks the change log and its entries.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    let log = std::fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    found.extend(check_log(&log));
    let folder = root.join("changelog.d");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != "README.md" {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.extend(check_entry(&name, &text));
        }
    }
    Ok(found)
}

fn check_log(log: &str) -> Option<Violation> {
    let missing = !log.lines().any(|line| line.trim() == "## Unreleased");
    missing
        .then(|| Violation::new("CHANGELOG.md", 1, "there is no `## Unreleased` section: entries have nowhere to go"))
}

fn check_entry(name: &str, text: &str) -> Vec<Violation> {
    let file = format!("changelog.d/{name}");
    let mut found = Vec::new();
    let slug = name.strip_suffix(".md").unwrap_or_default();
    if slug.is_empty() || !slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        found.push(Violation::new(&file, 1, "an entry is named `<slug>.md`, the slug in lower case with hyphens"));
    }
    if !KINDS.iter().any(|kind| text.starts_with(kind)) {
        let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.trim()).collect();
        found.push(Violation::new(&file, 1, format!("an entry begins with one of {}", kinds.join(" "))));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_needs_a_place_for_entries() {
        assert!(check_log("# Changes\n\n## 0.1.0\n").is_some());
        assert!(check_log("# Changes\n\n## Unreleased\n").is_none());
    }

    #[test]
    fn entries_have_a_kind_and_a_slug() {
        assert_eq!(check_entry("prove.md", "added: `prony prove`.\n").len(), 0);
        assert_eq!(check_entry("prove.md", "`prony prove`.\n").len(), 1);
        assert_eq!(check_entry("Prove it.md", "added: x\n").len(), 1);
    }
}
