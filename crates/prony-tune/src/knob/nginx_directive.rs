//! `nginx.DIRECTIVE`: directives of one line that are knobs as they stand.
//!
//! A directive is set wherever it stands, also in included files, and once more for its whole block where that has none: then no
//! part of the configuration keeps another value. Whether a value makes sense is nginx's to say, by its own test.

use super::{Disruption, Effect, KnobInfo, Plan, expect_read, nginx, nginx_plan};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::edit::Edits;
use prony_model::metric::{
    ERROR_LOG_BODY_FILE, ERROR_LOG_LIMITING, ERROR_LOG_NO_DESCRIPTORS, ERROR_LOG_TEMP_FILE, ERROR_LOG_UPSTREAM_TIMEOUT,
    IF_TX_BYTES, PROC_RUN, TCP_ORIGINAL_SENT, TCP_PASSIVE_OPENS,
};
use prony_model::{Metric, NginxDirective};
use prony_nginx::{Config, Directive};
use std::collections::BTreeSet;

/// A directive that is a knob as it stands.
pub(super) struct Setting {
    pub(super) knob: KnobInfo,
    block: Block,
    unset: &'static str,
}

/// A directive of one line: where it may stand, and what nginx does without it.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) block: Block,
    /// What holds where it stands nowhere, by nginx's documentation.
    pub(super) unset: &'static str,
}

/// Where a directive may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Main,
    Events,
    /// The http block and what is within it.
    Http,
}

/// Longest value that is taken. A guess: every one that makes sense is shorter.
const VALUE_MAX: usize = 200;

/// What belongs to a directive.
pub(super) fn setting(directive: NginxDirective) -> &'static Setting {
    match directive {
        NginxDirective::AcceptMutex => &ACCEPT_MUTEX,
        NginxDirective::ClientBodyBufferSize => &CLIENT_BODY_BUFFER_SIZE,
        NginxDirective::Gzip => &GZIP,
        NginxDirective::GzipCompLevel => &GZIP_COMP_LEVEL,
        NginxDirective::KeepaliveRequests => &KEEPALIVE_REQUESTS,
        NginxDirective::KeepaliveTimeout => &KEEPALIVE_TIMEOUT,
        NginxDirective::LimitConnDryRun => &LIMIT_CONN_DRY_RUN,
        NginxDirective::LimitRate => &LIMIT_RATE,
        NginxDirective::LimitReqDryRun => &LIMIT_REQ_DRY_RUN,
        NginxDirective::ProxyBuffers => &PROXY_BUFFERS,
        NginxDirective::ProxyMaxTempFileSize => &PROXY_MAX_TEMP_FILE_SIZE,
        NginxDirective::ProxyNextUpstreamTries => &PROXY_NEXT_UPSTREAM_TRIES,
        NginxDirective::SslSessionCache => &SSL_SESSION_CACHE,
        NginxDirective::TcpNopush => &TCP_NOPUSH,
        NginxDirective::WorkerRlimitNofile => &WORKER_RLIMIT_NOFILE,
    }
}

const ACCEPT_MUTEX: Setting = entry(
    ("nginx.accept_mutex", "`on` or `off`"),
    (Block::Events, "off"),
    (&PROC_RUN, "is spread more evenly over the workers"),
    "A worker that is slow to take its turn delays new connections by up to accept_mutex_delay (500 ms).",
    "With `on`, workers take turns to accept, and one that is busy leaves its turn to others. It means nothing to a \
             listening socket with `reuseport`.",
);

const CLIENT_BODY_BUFFER_SIZE: Setting = entry(
    ("nginx.client_body_buffer_size", "a size, like `1m`"),
    (Block::Http, "16k"),
    (&ERROR_LOG_BODY_FILE, "stops growing"),
    "Each upload in flight may take so much memory; a shorter one takes what it needs.",
    "What of a request's body does not fit goes to a temporary file. Unset it is 16k on 64-bit systems.",
);

const GZIP: Setting = entry(
    ("nginx.gzip", "`on` or `off`"),
    (Block::Http, "off"),
    (&IF_TX_BYTES, "grows when it is switched off"),
    "Without compression answers are several times as long: the link may limit instead.",
    "Whether answers are compressed as they pass.",
);

const GZIP_COMP_LEVEL: Setting = entry(
    ("nginx.gzip_comp_level", "a number from 1 to 9"),
    (Block::Http, "1"),
    (&PROC_RUN, "falls at a lower level"),
    "A lower level makes answers longer.",
    "Level 9 costs several times the CPU time of level 1 (measured by prony: 42 ns for each byte against 4) for answers that are \
     little shorter.",
);

const KEEPALIVE_REQUESTS: Setting = entry(
    ("nginx.keepalive_requests", "a number, like `100000`"),
    (Block::Http, "1000"),
    (&TCP_PASSIVE_OPENS, "grows less per request"),
    "What a connection has allocated is freed when it closes: with very many requests it holds more memory.",
    "After so many requests nginx closes a client's connection, and the client opens another one.",
);

const KEEPALIVE_TIMEOUT: Setting = entry(
    ("nginx.keepalive_timeout", "a time, like `75s`; `0` closes after each request"),
    (Block::Http, "75s"),
    (&TCP_PASSIVE_OPENS, "grows less per request"),
    "Idle connections take a slot and a descriptor of a worker for so long.",
    "How long a client's connection may be idle before nginx closes it.",
);

const LIMIT_CONN_DRY_RUN: Setting = entry(
    ("nginx.limit_conn_dry_run", "`on` or `off`; nginx 1.17.6 and newer"),
    (Block::Http, "off"),
    (&ERROR_LOG_LIMITING, "tells of limits that were not applied"),
    "With `on` the limit protects nothing: what stands behind it gets all the load.",
    "With `on`, limits of connections (limit_conn) are counted and logged, and not applied.",
);

const LIMIT_RATE: Setting = entry(
    ("nginx.limit_rate", "bytes per second, like `500k`; `0` for no limit"),
    (Block::Http, "0"),
    (&IF_TX_BYTES, "grows when the limit is lifted"),
    "Without a limit few clients may take the whole link.",
    "How fast an answer may be sent to one client.",
);

const LIMIT_REQ_DRY_RUN: Setting = entry(
    ("nginx.limit_req_dry_run", "`on` or `off`; nginx 1.17.1 and newer"),
    (Block::Http, "off"),
    (&ERROR_LOG_LIMITING, "tells of limits that were not applied"),
    "With `on` the limit protects nothing: what stands behind it gets all the load. nginx counts what it lets pass: switched off \
     again, a limit with a long `burst` holds everybody back for up to burst / rate.",
    "With `on`, limits of requests (limit_req) are counted and logged, and not applied.",
);

const PROXY_BUFFERS: Setting = entry(
    ("nginx.proxy_buffers", "number and size, like `16 32k`"),
    (Block::Http, "8 4k"),
    (&ERROR_LOG_TEMP_FILE, "stops growing"),
    "Each request in flight may take all of them: number times size times connections is the memory at worst.",
    "What of a server's answer does not fit goes to a temporary file.",
);

const PROXY_MAX_TEMP_FILE_SIZE: Setting = entry(
    ("nginx.proxy_max_temp_file_size", "a size, like `1024m`; `0` for no files"),
    (Block::Http, "1024m"),
    (&ERROR_LOG_TEMP_FILE, "stops growing with `0`"),
    "Without files a slow client keeps its server's connection busy until it has read its answer.",
    "How much of a server's answer may go to a temporary file when it does not fit into the buffers.",
);

const PROXY_NEXT_UPSTREAM_TRIES: Setting = entry(
    ("nginx.proxy_next_upstream_tries", "a number; `0` for no limit"),
    (Block::Http, "0"),
    (&ERROR_LOG_UPSTREAM_TIMEOUT, "grows by fewer lines per request"),
    "With fewer tries, more requests fail when one server of several is down.",
    "How many servers are tried for a request before the client gets the error.",
);

const SSL_SESSION_CACHE: Setting = entry(
    ("nginx.ssl_session_cache", "`off`, `none`, or `shared:NAME:SIZE`, like `shared:tls:10m`"),
    (Block::Http, "none"),
    (&PROC_RUN, "falls per connection, when clients come back"),
    "Sessions of TLS 1.2 that are kept weaken forward secrecy for as long as they are kept.",
    "Clients that come back resume a session instead of a full handshake; 1 MB keeps about 4000 sessions.",
);

const TCP_NOPUSH: Setting = entry(
    ("nginx.tcp_nopush", "`on` or `off`"),
    (Block::Http, "off"),
    (&TCP_ORIGINAL_SENT, "falls per request, for files"),
    "None known: nginx uncorks at the end of an answer.",
    "With `on` and sendfile, head and first bytes of a file leave in one packet.",
);

const WORKER_RLIMIT_NOFILE: Setting = entry(
    ("nginx.worker_rlimit_nofile", "a number, like `65536`"),
    (Block::Main, "what the master was started with"),
    (&ERROR_LOG_NO_DESCRIPTORS, "stops growing"),
    "More open files take more memory of the kernel.",
    "How many files and sockets a worker may have open. A proxy needs two for each request in flight.",
);

/// Name and values, block and default, the sign that it worked, the risk, and what it is for.
const fn entry(
    (name, value): (&'static str, &'static str),
    (block, unset): (Block, &'static str),
    (metric, how): (&'static Metric, &'static str),
    risk: &'static str,
    doc: &'static str,
) -> Setting {
    let effect = Effect { metric, how };
    Setting {
        knob: KnobInfo { name, value, disruption: Disruption::Reload, risk, effect, doc, read, plan, check },
        block,
        unset,
    }
}

fn read(ctx: &Context<'_>, name: &str) -> Result<String, TuneError> {
    Ok(line(named(name)?).present(&nginx(ctx)?.1))
}

fn plan(ctx: &Context<'_>, name: &str, value: &str) -> Result<Plan, TuneError> {
    let directive = named(name)?;
    let value = words(directive, value)?;
    let (master, config) = nginx(ctx)?;
    let line = line(directive);
    let (edits, before) = (line.edits(&config, &value), line.present(&config));
    nginx_plan(setting(directive).knob.name, &value, before, (master, config), &edits)
}

fn check(ctx: &Context<'_>, name: &str, value: &str) -> Result<(), TuneError> {
    let directive = named(name)?;
    expect_read(setting(directive).knob.name, &words(directive, value)?, &read(ctx, name)?)
}

fn named(name: &str) -> Result<NginxDirective, TuneError> {
    let known = || NginxDirective::ALL.map(NginxDirective::name).join(", ");
    NginxDirective::named(name).ok_or_else(|| TuneError::value("nginx.DIRECTIVE", name, known()))
}

/// The arguments of a directive with one blank between them. Nothing that could end the directive is taken.
fn words(directive: NginxDirective, value: &str) -> Result<String, TuneError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _.:/=-".contains(c);
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    if words.is_empty() || value.len() > VALUE_MAX || !value.chars().all(is_plain) {
        let KnobInfo { name, value: wanted, .. } = setting(directive).knob;
        return Err(TuneError::value(name, value, wanted));
    }
    Ok(words.join(" "))
}

fn line(directive: NginxDirective) -> Line {
    let Setting { block, unset, .. } = *setting(directive);
    Line { name: directive.name(), block, unset }
}

impl Line {
    /// The block in which it holds for everything, none of the main part; and each place where it stands.
    fn places<'a>(&self, config: &'a Config) -> (Option<&'a Directive>, Vec<&'a Directive>) {
        let block = |called: &str| config.root.iter().find(|d| d.name == called);
        let here = |list: &'a [Directive]| list.iter().filter(|d| d.name == self.name);
        match self.block {
            Block::Main => (None, here(&config.root).collect()),
            Block::Events => {
                let events = config.root.iter().filter(|d| d.name == "events");
                (block("events"), events.flat_map(|d| here(d.children())).collect())
            }
            Block::Http => (block("http"), config.in_http(self.name).into_iter().map(|(_, found)| found).collect()),
        }
    }

    /// Whether it stands where it holds for the whole block.
    fn holds_for_all(&self, block: Option<&Directive>, found: &[&Directive]) -> bool {
        block.map_or(!found.is_empty(), |block| block.named(self.name).next().is_some())
    }

    /// Every value that holds somewhere, in order of the alphabet.
    pub(super) fn present(&self, config: &Config) -> String {
        let (block, found) = self.places(config);
        let mut values: BTreeSet<String> = found.iter().map(|d| d.args.join(" ")).collect();
        if !self.holds_for_all(block, &found) {
            values.insert(self.unset.to_string());
        }
        values.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// Sets it wherever it stands, and once for the whole block where that has none.
    pub(super) fn edits(&self, config: &Config, value: &str) -> Edits {
        let mut edits = Edits::default();
        let (block, found) = self.places(config);
        for there in &found {
            edits.set_args(there, value);
        }
        if !self.holds_for_all(block, &found) {
            let text = format!("{} {value};", self.name);
            match (self.block, block, config.root.iter().find(|d| d.source == 0)) {
                (_, Some(block), _) => edits.insert_last(config, block, &text),
                (Block::Main, None, Some(first)) => edits.insert_before(config, first, &text),
                (Block::Main | Block::Events | Block::Http, None, _) => {}
            }
        }
        edits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(text: &str) -> Config {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        Config::read(&file).unwrap()
    }

    fn rewritten(text: &str, directive: NginxDirective, value: &str) -> String {
        let config = config(text);
        String::from_utf8(line(directive).edits(&config, value).rewrite(&config).remove(0).new).unwrap()
    }

    #[test]
    fn is_set_wherever_it_stands_and_for_the_rest() {
        let text = "events {}\nhttp {\n    server {\n        location / { gzip_comp_level 9; }\n    }\n}\n";
        assert_eq!(line(NginxDirective::GzipCompLevel).present(&config(text)), "1, 9");
        let new = rewritten(text, NginxDirective::GzipCompLevel, "2");
        assert!(new.contains("{ gzip_comp_level 2; }") && new.contains("    gzip_comp_level 2;\n}"), "{new}");
        assert_eq!(line(NginxDirective::GzipCompLevel).present(&config(&new)), "2");
    }

    #[test]
    fn what_holds_for_all_is_set_in_its_place() {
        let text = "events {}\nhttp { proxy_buffers  8   4k; server { } }\n";
        assert_eq!(line(NginxDirective::ProxyBuffers).present(&config(text)), "8 4k");
        let new = rewritten(text, NginxDirective::ProxyBuffers, "16 64k");
        assert_eq!(new, "events {}\nhttp { proxy_buffers  16 64k; server { } }\n");
    }

    #[test]
    fn each_goes_into_its_own_block() {
        let text = "# x\nevents {\n    worker_connections 64;\n}\nhttp {\n    sendfile on;\n}\n";
        for (directive, value, before, written) in [
            (NginxDirective::AcceptMutex, "on", "off", "    accept_mutex on;\n}\nhttp"),
            (
                NginxDirective::WorkerRlimitNofile,
                "9000",
                "what the master was started with",
                "# x\nworker_rlimit_nofile 9000;\n",
            ),
            (NginxDirective::TcpNopush, "on", "off", "sendfile on;\n    tcp_nopush on;\n}"),
        ] {
            assert_eq!(line(directive).present(&config(text)), before);
            let new = rewritten(text, directive, value);
            assert!(new.contains(written), "{new}");
            assert_eq!(line(directive).present(&config(&new)), value);
        }
    }

    #[test]
    fn values_that_end_a_directive_are_refused() {
        for bad in ["", " ", "1; user root", "1 }", "a#", "\"x\"", "$uri", "1\nuser root", &"9".repeat(201)] {
            assert!(words(NginxDirective::Gzip, bad).is_err(), "{bad}");
        }
        assert_eq!(words(NginxDirective::ProxyBuffers, " 16  64k ").unwrap(), "16 64k");
        assert!(named("proxy_pass").unwrap_err().to_string().contains("gzip_comp_level"));
    }

    #[test]
    fn names_are_those_of_the_catalogue() {
        for directive in NginxDirective::ALL {
            assert_eq!(setting(directive).knob.name, format!("nginx.{}", directive.name()));
        }
    }

    proptest! {
        #[test]
        fn what_is_set_is_what_is_read(number in 1u32..100_000, nested in any::<bool>()) {
            let inner = if nested { "keepalive_requests 5;" } else { "" };
            let text = format!("events {{}}\nhttp {{ server {{ {inner} location / {{}} }} }}\n");
            let new = rewritten(&text, NginxDirective::KeepaliveRequests, &number.to_string());
            prop_assert_eq!(line(NginxDirective::KeepaliveRequests).present(&config(&new)), number.to_string());
        }
    }
}
