//! Where Jetty lies: Debian has no package of a version that is current, so `scripts/jetty.sh` fetches it from Maven Central.
//!
//! Nothing is fetched here. Invariant: the version that is looked for is the one that the script fetches and checks.

use crate::LabError;
use prony_model::lab::ServerKind;
use std::path::PathBuf;

/// Its version; the script has the same.
const VERSION: &str = "12.0.23";
/// What of it a server of files needs.
const JARS: [&str; 4] = ["jetty-server", "jetty-http", "jetty-io", "jetty-util"];
/// Names another folder.
const ENVIRONMENT: &str = "PRONY_JETTY";

/// Whether it is there, if a server of this kind needs it.
pub(crate) fn check(kind: ServerKind, wanted_by: &str) -> Result<(), LabError> {
    let folder = folder();
    let jar = |name: &&str| folder.join(format!("{name}-{VERSION}.jar"));
    match JARS.iter().map(jar).find(|jar| !jar.is_file()) {
        Some(looked) if kind == ServerKind::JettyFiles => Err(LabError::FilesMissing {
            what: format!("Jetty {VERSION}"),
            looked,
            wanted_by: wanted_by.to_string(),
            next: format!("run `scripts/jetty.sh` of prony's sources, or name its folder with {ENVIRONMENT}"),
        }),
        Some(_) | None => Ok(()),
    }
}

/// What `java -cp` wants: every jar of the folder.
pub(crate) fn class_path() -> PathBuf {
    folder().join("*")
}

fn folder() -> PathBuf {
    if let Some(named) = std::env::var_os(ENVIRONMENT) {
        return PathBuf::from(named);
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    cache.unwrap_or_else(|| home().join(".cache")).join(format!("prony/jetty-{VERSION}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_fetches_what_is_looked_for() {
        let script = include_str!("../../../scripts/jetty.sh");
        assert!(script.contains(&format!("\nVERSION={VERSION}\n")), "scripts/jetty.sh fetches another version");
        for jar in JARS {
            assert!(script.contains(&format!(" {jar}-$VERSION.jar\n")), "scripts/jetty.sh does not check {jar}");
        }
    }

    #[test]
    fn only_a_server_that_needs_it_misses_it() {
        check(ServerKind::JvmFiles, "host `s1`").unwrap();
        if let Err(missing) = check(ServerKind::JettyFiles, "host `s1`") {
            let text = missing.to_string();
            assert!(text.contains("host `s1` needs it: run `scripts/jetty.sh`"), "{text}");
        }
    }
}
