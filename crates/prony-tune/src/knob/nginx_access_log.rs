//! `nginx.access_log`: whether each request costs a write to the access log.
//!
//! Rewrites every access_log of the http block, also in included files; path, format and conditions stay.

use super::{Disruption, Effect, KnobInfo, Plan, expect_read, nginx, nginx_plan};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::edit::Edits;
use prony_model::metric::PROC_WRITES;
use prony_nginx::{Config, Directive};

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "nginx.access_log",
    value: "`off` or `buffer=SIZE` (with flush=1s), like `buffer=64k`",
    disruption: Disruption::Reload,
    risk: "`off` loses the log; a buffer loses up to a second of it when a worker is killed, and lines of workers mix in blocks.",
    effect: Effect { metric: &PROC_WRITES, how: "falls by one per request" },
    doc: "An unbuffered log costs a write per request, and many workers then wait for each other at the lock of the file. \
          Logs to syslog are left alone; a path with variables cannot be buffered.",
    read,
    plan,
    check,
};

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    Ok(present(&nginx(ctx)?.1))
}

fn check(ctx: &Context<'_>, _: &str, value: &str) -> Result<(), TuneError> {
    expect_read(KNOB.name, value, &read(ctx, "")?)
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    let buffer = buffer(value)?;
    let (master, config) = nginx(ctx)?;
    let edits = match buffer {
        None => turn_off(&config),
        Some(size) => {
            let default =
                if default_in_effect(&config).is_some() { Some(master.built_with("--http-log-path=")?) } else { None };
            buffered(&config, size, default.as_deref())?
        }
    };
    nginx_plan(KNOB.name, value, present(&config), (master, config), &edits)
}

/// The size of the buffer; none for `off`.
fn buffer(value: &str) -> Result<Option<&str>, TuneError> {
    if value == "off" {
        return Ok(None);
    }
    let size = value.strip_prefix("buffer=");
    let digits = size.map(|s| s.trim_end_matches(['k', 'K', 'm', 'M'])).unwrap_or_default();
    let is_size = (1..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    match size.filter(|s| is_size && s.len() - digits.len() <= 1) {
        Some(size) => Ok(Some(size)),
        None => Err(TuneError::value(KNOB.name, value, "`off` or `buffer=SIZE` like `buffer=64k`")),
    }
}

/// How the logs that are on are written; `off` when none is.
fn present(config: &Config) -> String {
    let logs = config.in_http("access_log");
    let mut states: Vec<String> = logs.iter().filter(|(_, log)| is_file(log)).map(|(_, log)| state(log)).collect();
    if default_in_effect(config).is_some() {
        states.push("unbuffered".to_string());
    }
    states.sort();
    states.dedup();
    if states.is_empty() { "off".to_string() } else { states.join(" ") }
}

fn state(log: &Directive) -> String {
    let buffer = log.args.iter().find(|arg| arg.starts_with("buffer="));
    match buffer {
        Some(buffer) => buffer.clone(),
        None if log.args.iter().any(|arg| arg == "gzip" || arg.starts_with("gzip=")) => "buffer=64k".to_string(),
        None => "unbuffered".to_string(),
    }
}

/// Whether the log is on and goes to a file.
fn is_file(log: &Directive) -> bool {
    log.args.first().is_some_and(|path| path != "off" && !path.starts_with("syslog:"))
}

fn turn_off(config: &Config) -> Edits {
    let mut edits = Edits::default();
    for (_, log) in config.in_http("access_log").iter().filter(|(_, log)| is_file(log)) {
        edits.set_args(log, "off");
    }
    if let Some(http) = default_in_effect(config) {
        edits.insert_last(config, http, "access_log off;");
    }
    edits
}

fn buffered(config: &Config, size: &str, default: Option<&str>) -> Result<Edits, TuneError> {
    let mut edits = Edits::default();
    for (_, log) in config.in_http("access_log").iter().filter(|(_, log)| is_file(log)) {
        let path = log.args.first().map_or("", String::as_str);
        if path.contains('$') {
            let message = format!(
                "the path {path} has variables, and such a log cannot be buffered; turn it off, or name one file"
            );
            return Err(config.error(log, message).into());
        }
        let kept = log.args.iter().skip(2).filter(|arg| !arg.starts_with("buffer=") && !arg.starts_with("flush="));
        let format = log.args.get(1).map_or("combined", String::as_str);
        let words = [path, format].into_iter().chain(kept.map(String::as_str)).map(quoted);
        let words: Vec<String> = words.collect();
        edits.set_args(log, &format!("{} buffer={size} flush=1s", words.join(" ")));
    }
    if let (Some(http), Some(path)) = (default_in_effect(config), default) {
        edits.insert_last(config, http, &format!("access_log {path} combined buffer={size} flush=1s;"));
    }
    Ok(edits)
}

/// Quotes a word that needs it.
fn quoted(word: &str) -> String {
    if word.contains([' ', ';', '{', '"', '\'', '\\']) || word.is_empty() {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        word.to_string()
    }
}

/// The http block, when the log that nginx was built with is in effect somewhere: no access_log in http, and a server
/// without one.
fn default_in_effect(config: &Config) -> Option<&Directive> {
    let http = config.root.iter().find(|d| d.name == "http")?;
    let own = |block: &Directive| block.named("access_log").next().is_some();
    (!own(http) && http.named("server").any(|server| !own(server))).then_some(http)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, value: &str, want: Expect) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        let config = Config::read(&file).unwrap();
        let edits = match buffer(value).unwrap() {
            None => Ok(turn_off(&config)),
            Some(size) => buffered(&config, size, Some("/var/log/nginx/access.log")),
        };
        match edits {
            Ok(edits) => {
                let new = edits.rewrite(&config).remove(0).new;
                want.assert_eq(std::str::from_utf8(&new).unwrap());
                std::fs::write(&file, new).unwrap();
                assert_eq!(present(&Config::read(&file).unwrap()), value);
            }
            Err(e) => want.assert_eq(&e.to_string().replace(dir.path().to_str().unwrap(), "")),
        }
    }

    const TEXT: &str = "http {\n access_log /a.log;\n server { access_log /b main if=$x gzip=1 flush=9s; location / { access_log off; } }\n access_log syslog:server=u;\n}\n";

    #[test]
    fn rewrites_every_log_in_effect() {
        check(
            TEXT,
            "buffer=32k",
            expect![[r#"
                http {
                 access_log /a.log combined buffer=32k flush=1s;
                 server { access_log /b main if=$x gzip=1 buffer=32k flush=1s; location / { access_log off; } }
                 access_log syslog:server=u;
                }
            "#]],
        );
        check(
            TEXT,
            "off",
            expect![[r#"
                http {
                 access_log off;
                 server { access_log off; location / { access_log off; } }
                 access_log syslog:server=u;
                }
            "#]],
        );
    }

    #[test]
    fn the_log_that_nobody_wrote_down() {
        check(
            "http {\n server { listen 80; }\n}\n",
            "buffer=64k",
            expect![[r#"
                http {
                 server { listen 80; }
                 access_log /var/log/nginx/access.log combined buffer=64k flush=1s;
                }
            "#]],
        );
        check(
            "http { server { access_log off; } server { } }",
            "off",
            expect!["http { server { access_log off; } server { } access_log off; }"],
        );
    }

    #[test]
    fn a_path_with_variables_cannot_be_buffered() {
        check(
            "http { server {\n access_log \"/l/$host.log\" main; } }",
            "buffer=64k",
            expect![
                "/nginx.conf:2: the path /l/$host.log has variables, and such a log cannot be buffered; turn it off, or name one file"
            ],
        );
        check(
            "http { server {\n access_log \"/l/$host.log\" main; } }",
            "off",
            expect![[r#"
            http { server {
             access_log off; } }"#]],
        );
    }

    #[test]
    fn values() {
        for wrong in ["on", "buffer=", "buffer=64kk", "buffer=x", "buffer=1;", "64k"] {
            assert!(buffer(wrong).is_err(), "{wrong}");
        }
    }
}
