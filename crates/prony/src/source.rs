//! From what a person names (a stack file, a lab, a URL) to a stack.

use crate::BadArgument;
use anyhow::{Context, Result};
use prony_model::{InputError, Stack};
use std::path::Path;

/// A stack file may build on another, which may build on another; more than this is a loop.
const LAYERS_MAX: usize = 8;

/// Reads what `name` names: a URL, a file, or a lab that ships with prony.
pub(crate) fn stack(name: &str) -> Result<Stack> {
    if name.contains("://") {
        return Ok(Stack::from_url(name));
    }
    let path = Path::new(name);
    if path.exists() {
        return Ok(Stack::parse_layers(&layers(path)?)?);
    }
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(layers) = prony_lab::builtin(&stem) {
        return Ok(Stack::parse_layers(&layers)?);
    }
    let names: Vec<String> = prony_lab::builtin_names().into_iter().map(String::from).collect();
    let near = prony_model::input::nearest(&stem, names.iter().map(String::as_str));
    let hint = near.map(|n| format!("; did you mean the lab `{n}`?")).unwrap_or_default();
    let text = format!("`{name}` is no file, no URL and no lab{hint}; the labs are: {}", names.join(", "));
    Err(BadArgument::error(text))
}

/// A stack file with the files it builds on, the base first.
fn layers(path: &Path) -> Result<Vec<(String, String)>> {
    let mut layers = Vec::new();
    let mut next = Some(path.to_path_buf());
    while let Some(path) = next {
        if layers.len() == LAYERS_MAX {
            let message = format!("more than {LAYERS_MAX} files build on each other with `base`; is it a circle?");
            return Err(InputError::whole(&path.display().to_string(), message).into());
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.display().to_string();
        let base = Stack::base_of(&name, &text)?;
        next = base.map(|b| path.parent().map(|p| p.join(&b)).unwrap_or_else(|| b.into()));
        layers.push((name, text));
    }
    layers.reverse();
    Ok(layers)
}
