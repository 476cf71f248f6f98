//! `nginx.upstream_down`: servers of an nginx proxy that get no requests.

use super::{Disruption, Effect, KnobInfo, Plan, nginx, nginx_plan};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::edit::Edits;
use prony_model::metric::ERROR_LOG_UPSTREAM;
use prony_nginx::{Config, Directive};
use std::collections::BTreeSet;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "nginx.upstream_down",
    value: "servers as the upstream blocks name them, like `10.0.0.3:80`, with blanks between several",
    disruption: Disruption::Reload,
    risk: "The other servers get its share of the requests, and what only this one has nobody can ask for.",
    effect: Effect { metric: &ERROR_LOG_UPSTREAM, how: "stops growing for that server" },
    doc: "Marks servers `down` in every upstream block that names them. Those that are down already stay so. The last server of a \
          block that is up is not taken out.",
    read,
    plan,
    check,
};

/// What stands for no server at all.
const NONE: &str = "none";
/// The port of a server that names none (nginx.org, ngx_http_upstream_module, `server`).
const PORT_DEFAULT: &str = ":80";

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    Ok(present(&nginx(ctx)?.1))
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    let (master, config) = nginx(ctx)?;
    let edits = edits(&config, value)?;
    nginx_plan(KNOB.name, value, present(&config), (master, config), &edits)
}

fn check(ctx: &Context<'_>, _: &str, value: &str) -> Result<(), TuneError> {
    let seen = read(ctx, "")?;
    let is_down = |wanted: &str| seen.split(' ').any(|down| is_same(down, wanted));
    if value.split_ascii_whitespace().all(is_down) {
        return Ok(());
    }
    Err(TuneError::NoEffect { knob: KNOB.name.to_string(), wanted: value.to_string(), seen })
}

/// The servers that are down, each once, in order of the alphabet.
fn present(config: &Config) -> String {
    let down: BTreeSet<&str> = upstreams(config).flat_map(servers).filter(|s| is_down(s)).filter_map(address).collect();
    if down.is_empty() { NONE.to_string() } else { down.into_iter().collect::<Vec<_>>().join(" ") }
}

fn edits(config: &Config, value: &str) -> Result<Edits, TuneError> {
    let wanted: BTreeSet<&str> = value.split_ascii_whitespace().collect();
    let known: BTreeSet<&str> = upstreams(config).flat_map(servers).filter_map(address).collect();
    let is_known = |wanted: &&str| known.iter().any(|known| is_same(known, wanted));
    if wanted.is_empty() || !wanted.iter().all(is_known) {
        let named = known.into_iter().collect::<Vec<_>>().join(", ");
        let want = if named.is_empty() {
            "a server: no upstream block names any".to_string()
        } else {
            format!("one of {named}")
        };
        return Err(TuneError::value(KNOB.name, value, want));
    }
    let mut edits = Edits::default();
    for upstream in upstreams(config) {
        let is_meant = |s: &&Directive| address(s).is_some_and(|a| wanted.iter().any(|wanted| is_same(a, wanted)));
        let up = || servers(upstream).filter(|s| !is_down(s));
        let meant: Vec<&Directive> = up().filter(is_meant).collect();
        if !meant.is_empty() && up().all(|s| is_meant(&s)) {
            let name = upstream.args.first().map_or("", String::as_str);
            return Err(TuneError::Denied {
                knob: KNOB.name.to_string(),
                value: value.to_string(),
                why: format!("nobody would be left in upstream {name}"),
            });
        }
        for server in meant {
            edits.set_args(server, &format!("{} down", server.args.join(" ")));
        }
    }
    Ok(edits)
}

fn upstreams(config: &Config) -> impl Iterator<Item = &Directive> {
    config.in_http("upstream").into_iter().map(|(_, upstream)| upstream)
}

fn servers(upstream: &Directive) -> impl Iterator<Item = &Directive> {
    upstream.named("server")
}

fn address(server: &Directive) -> Option<&str> {
    server.args.first().map(String::as_str)
}

fn is_down(server: &Directive) -> bool {
    server.args.iter().any(|arg| arg == "down")
}

/// Whether two addresses are one; a port that is not written is nginx's default.
fn is_same(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(|address| address.strip_suffix(PORT_DEFAULT).unwrap_or(address));
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "http {\n    upstream app {\n        server 10.0.0.3:80 weight=2;\n        server 10.0.0.4;\n    }\n    upstream one { server 10.0.0.5:81; }\n}\n";

    fn config(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        Config::read(&file).unwrap()
    }

    fn rewritten(text: &str, value: &str) -> Result<String, String> {
        let config = config(text);
        let edits = edits(&config, value).map_err(|e| e.to_string())?;
        Ok(String::from_utf8(edits.rewrite(&config).remove(0).new).unwrap())
    }

    #[test]
    fn a_server_is_marked_and_nothing_else_changes() {
        assert_eq!(present(&config(TWO)), "none");
        let new = rewritten(TWO, "10.0.0.3:80").unwrap();
        assert_eq!(new, TWO.replace("weight=2;", "weight=2 down;"));
        assert_eq!(present(&config(&new)), "10.0.0.3:80");
        let other = rewritten(TWO, "10.0.0.4:80").unwrap();
        assert_eq!(other, TWO.replace("10.0.0.4;", "10.0.0.4 down;"), "80 is the port that is not written");
        assert_eq!(present(&config(&other)), "10.0.0.4");
    }

    #[test]
    fn the_last_one_stays() {
        for value in ["10.0.0.5:81", "10.0.0.3 10.0.0.4"] {
            assert!(rewritten(TWO, value).unwrap_err().contains("nobody would be left in upstream"), "{value}");
        }
        let new = rewritten(TWO, "10.0.0.3").unwrap();
        assert!(rewritten(&new, "10.0.0.4").unwrap_err().contains("nobody would be left in upstream app"));
    }

    #[test]
    fn an_unknown_server_is_told_the_known_ones() {
        for value in ["10.0.0.9:80", "10.0.0.3 10.0.0.9", "10.0.0.3:8080", ""] {
            assert!(
                rewritten(TWO, value).unwrap_err().contains("one of 10.0.0.3:80, 10.0.0.4, 10.0.0.5:81"),
                "{value}"
            );
        }
    }
}
