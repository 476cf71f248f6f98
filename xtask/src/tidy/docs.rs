//! The page of the stack file names every key, and every stack in the documents is one that prony would take.
//!
//! It does not check what the sentences say.

use super::Violation;
use crate::declarations::{Body, declarations};
use anyhow::Context as _;
use std::path::Path;

/// Where the keys of a stack file are declared: file of `prony-model`, and its structs that a person writes (empty: all).
const DECLARED: &[(&str, &[&str])] =
    &[("stack.rs", &[]), ("lab.rs", &[]), ("load.rs", &["RequestSpec"]), ("script.rs", &["Step", "Check"])];

const PAGE: &str = "docs/stack-file.md";

/// Checks that the page is complete.
pub(super) fn check(root: &Path) -> anyhow::Result<Vec<Violation>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let mut found = Vec::new();
    for (file, only) in DECLARED {
        let path = root.join("crates/prony-model/src").join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        found.extend(missing(&page, &text, only));
    }
    Ok(found)
}

/// Keys that the page does not name, as `` `key` `` or within an inline table.
fn missing(page: &str, declared: &str, only: &[&str]) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, declaration) in declarations(declared) {
        let Body::Struct(fields) = declaration.body else { continue };
        if !only.is_empty() && !only.contains(&name.as_str()) {
            continue;
        }
        for field in fields {
            if !page.contains(&format!("`{}`", field.name)) && !page.contains(&format!(" {} = ", field.name)) {
                let message = format!("the key `{}` of {name} is not described: {}", field.name, field.doc);
                found.push(Violation::new(PAGE, 1, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Stack;

    #[test]
    fn a_key_that_is_not_described_is_found() {
        let declared = "pub struct Slo {\n    /// Tail.\n    pub p99: u32,\n    pub p50: u32,\n}\n";
        let found = missing("| `p50` | median |", declared, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("`p99` of Slo is not described: Tail."));
        assert!(missing("{ p99 = 1, p50 = 2 }", declared, &[]).is_empty());
        assert!(missing("", declared, &["Other"]).is_empty());
    }

    /// Every block of TOML in a document that has an entry, or builds on a base.
    #[test]
    fn stacks_in_the_documents_are_right() {
        let root = crate::root().unwrap();
        let base = std::fs::read_to_string(root.join("labs/proxy.toml")).unwrap();
        let mut stacks = 0;
        for document in ["README.md", PAGE] {
            let text = std::fs::read_to_string(root.join(document)).unwrap();
            for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
                let mut layers = vec![(document.to_string(), block.to_string())];
                if block.contains("base = \"proxy.toml\"") {
                    layers.insert(0, ("proxy.toml".to_string(), base.clone()));
                }
                Stack::parse_layers(&layers).unwrap();
                stacks += 1;
            }
        }
        assert!(stacks >= 3, "{stacks} stacks were found");
    }
}
