//! From what a person names (a stack file, a lab, a URL) to a stack.

use crate::BadArgument;
use anyhow::{Context, Result};
use prony_model::Stack;
use std::path::Path;

/// Reads what `name` names: a URL, a file, or a lab that ships with prony.
pub(crate) fn stack(name: &str) -> Result<Stack> {
    if name.contains("://") {
        return Ok(Stack::from_url(name));
    }
    let path = Path::new(name);
    if path.exists() {
        let mut stack = Stack::parse_layers(&layers(path)?)?;
        anchor(&mut stack, path.parent().unwrap_or(Path::new("")))?;
        return Ok(stack);
    }
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(layers) = prony_lab::builtin(&stem) {
        return Ok(Stack::parse_layers(&layers)?);
    }
    let names: Vec<String> = prony_lab::builtin_names().into_iter().map(String::from).collect();
    let near = prony_model::input::nearest(&stem, names.iter().map(String::as_str));
    if near.is_none() && looks_like_an_address(name) {
        return Err(BadArgument::error(format!("`{name}` is no URL: write http://{name}, or https://{name}")));
    }
    let hint = near.map(|n| format!("; did you mean the lab `{n}`?")).unwrap_or_default();
    let text = format!("`{name}` is no file, no URL and no lab{hint}; the labs are: {}", names.join(", "));
    Err(BadArgument::error(text))
}

/// `localhost`, `web:8080`, `10.0.0.1/path`: what other tools take, or a person forgets the scheme of.
fn looks_like_an_address(name: &str) -> bool {
    let authority = name.split(['/', '?']).next().unwrap_or_default();
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let is_file = [".toml", ".json"].iter().any(|end| name.ends_with(end));
    let named = host == "localhost" || host.contains('.') || host.starts_with('[') || authority.contains(':');
    named && !is_file && !host.is_empty() && port.parse::<u16>().is_ok()
}

/// Files that a stack file names are named relative to it; from here on they are found from everywhere.
pub(crate) fn anchor(stack: &mut Stack, folder: &Path) -> Result<()> {
    let workload = &mut stack.workload;
    let tls = &mut workload.tls;
    let own = [&mut workload.body_file, &mut tls.ca_file, &mut tls.certificate_file, &mut tls.key_file];
    let feeds = workload.feed.values_mut().map(|feed| &mut feed.file);
    for file in own.into_iter().flatten().chain(feeds) {
        let path = std::path::absolute(folder.join(&*file)).with_context(|| format!("no folder holds {file}"))?;
        *file = path.display().to_string();
    }
    Ok(())
}

/// A stack file with the files it builds on, the base first.
fn layers(path: &Path) -> Result<Vec<(String, String)>> {
    let read = |path: &Path| -> Result<(String, String)> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path.display().to_string(), text))
    };
    let (file, text) = read(path)?;
    Stack::layers(file, text, |file, base| read(&Path::new(file).with_file_name(base)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_its_scheme_is_known() {
        for name in ["localhost", "127.0.0.1:8080", "web:80/path?a=b", "example.com", "[::1]:8080"] {
            let error = stack(name).unwrap_err().to_string();
            assert_eq!(error, format!("`{name}` is no URL: write http://{name}, or https://{name}"));
        }
        for name in ["stack.toml", "nothing", "proxi", "web:http"] {
            assert!(stack(name).unwrap_err().to_string().contains("the labs are: "), "{name}");
        }
    }

    #[test]
    fn files_are_named_relative_to_the_stack_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stack.toml");
        let text = "entry = \"http://127.0.0.1/\"\n[workload]\nbody_file = \"a/body\"\n\
                    [workload.feed.users]\nfile = \"users.csv\"\n[workload.tls]\nca_file = \"/etc/ca.pem\"\n";
        std::fs::write(&file, text).unwrap();
        let workload = stack(file.to_str().unwrap()).unwrap().workload;
        let at = |name: &str| folder.path().join(name).display().to_string();
        assert_eq!(workload.body_file, Some(at("a/body")));
        assert_eq!(workload.feed["users"].file, at("users.csv"));
        assert_eq!(workload.tls.ca_file.as_deref(), Some("/etc/ca.pem"));
    }
}
