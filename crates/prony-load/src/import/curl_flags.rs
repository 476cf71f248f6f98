//! Flags of curl: what each means for a load.
//!
//! It applies none. Invariant: a flag is in the table once; one that is not there is an error, for it might change the
//! request.

use prony_model::input::nearest;

/// A flag of curl.
#[derive(Debug)]
pub(super) struct Flag {
    /// Without its dashes.
    pub long: &'static str,
    /// Its letter, if it has one.
    pub short: Option<u8>,
    /// Whether a value follows.
    pub takes_value: bool,
    /// What it means here.
    pub meaning: Meaning,
}

/// What a flag means for a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The URL.
    Url,
    /// One more part of the query.
    UrlQuery,
    /// The method.
    Method,
    /// HEAD.
    Head,
    /// Data go into the query.
    Get,
    /// A header, or a file of headers.
    Header,
    /// A part of the body.
    Data(Data),
    /// User and password.
    User,
    /// A token.
    Bearer,
    /// The `User-Agent`.
    Agent,
    /// The `Referer`.
    Referer,
    /// Cookies.
    Cookie,
    /// A range of bytes.
    Range,
    /// Ask for a compressed answer.
    Compressed,
    /// Braces and brackets in the URL stand for themselves.
    GlobOff,
    /// Any certificate will do.
    Insecure,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, in plain text by an upgrade.
    Http2,
    /// HTTP/2 from the first byte.
    Http2PriorKnowledge,
    /// Longest time of a request.
    MaxTime,
    /// Connect elsewhere.
    ConnectTo,
    /// An address for a name.
    Resolve,
    /// Connect to a Unix socket.
    UnixSocket,
    /// A file of certificates or keys.
    Tls(TlsFile),
    /// Concerns only curl's own output and waiting.
    Harmless,
    /// Left out, for this reason.
    LeftOut(&'static str),
    /// Cannot be left out, for this reason; with the next step.
    Refused(&'static str),
}

/// How a part of the body is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// A file loses its line ends.
    Text,
    /// Never a file.
    Raw,
    /// A file stays as it is.
    Binary,
    /// Written with %XX.
    Urlencoded,
    /// With the headers that go with JSON.
    Json,
}

/// What a file of PEM text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TlsFile {
    /// Certificates to trust.
    Authority,
    /// The client's certificate.
    Certificate,
    /// The client's key.
    Key,
}

use Meaning::{Harmless, LeftOut, Refused};

const fn flag(long: &'static str, short: &'static str, value: &'static str, meaning: Meaning) -> Flag {
    let short = if short.is_empty() { None } else { Some(short.as_bytes()[0]) };
    Flag { long, short, takes_value: !value.is_empty(), meaning }
}

const FORM: Meaning = Refused(
    "forms of several parts are not made here: send one with `curl --trace-ascii -`, save its body, and write \
     `--data-binary @FILE` with `-H 'Content-Type: multipart/form-data; boundary=...'`",
);
const PROXY: Meaning =
    Refused("a load goes to its target and not through a proxy: leave the flag out, or load the proxy itself");
const LOGIN: Meaning =
    Refused("this login takes several requests: log in by hand and write `-H 'Authorization: ...'` or `-b 'cookie'`");
const PASSWORD_FILE: Meaning = Refused("password files are not read: write `-u USER:PASSWORD`");
const CONDITION: Meaning =
    Refused("write the condition itself: `-H 'If-Modified-Since: ...'` or `-H 'If-None-Match: ...'`");
const TLS_DETAIL: Meaning = LeftOut("versions and ciphers of TLS are negotiated");
const REDIRECTS: Meaning = LeftOut("redirects are not followed: load the address that they lead to");
const ADDRESS_FAMILY: Meaning = LeftOut("the addresses of a name are used in the resolver's order");
const SLOWER: Meaning = LeftOut("a load has its own rate");
const LOCAL_END: Meaning =
    LeftOut("connections come from the kernel's choice of address and port, unless the load says otherwise");

/// Every flag that is known, as of curl 8.11 (curl(1)), without those of other protocols than HTTP.
#[rustfmt::skip] // one flag per line reads as the table it is
pub(super) const FLAGS: &[Flag] = &[
    flag("url", "", "URL", Meaning::Url),
    flag("url-query", "", "DATA", Meaning::UrlQuery),
    flag("request", "X", "METHOD", Meaning::Method),
    flag("head", "I", "", Meaning::Head),
    flag("get", "G", "", Meaning::Get),
    flag("header", "H", "HEADER", Meaning::Header),
    flag("data", "d", "DATA", Meaning::Data(Data::Text)),
    flag("data-ascii", "", "DATA", Meaning::Data(Data::Text)),
    flag("data-raw", "", "DATA", Meaning::Data(Data::Raw)),
    flag("data-binary", "", "DATA", Meaning::Data(Data::Binary)),
    flag("data-urlencode", "", "DATA", Meaning::Data(Data::Urlencoded)),
    flag("json", "", "DATA", Meaning::Data(Data::Json)),
    flag("user", "u", "USER:PASSWORD", Meaning::User),
    flag("oauth2-bearer", "", "TOKEN", Meaning::Bearer),
    flag("user-agent", "A", "NAME", Meaning::Agent),
    flag("referer", "e", "URL", Meaning::Referer),
    flag("cookie", "b", "DATA", Meaning::Cookie),
    flag("range", "r", "RANGE", Meaning::Range),
    flag("compressed", "", "", Meaning::Compressed),
    flag("globoff", "g", "", Meaning::GlobOff),
    flag("insecure", "k", "", Meaning::Insecure),
    flag("http1.1", "", "", Meaning::Http1),
    flag("http2", "", "", Meaning::Http2),
    flag("http2-prior-knowledge", "", "", Meaning::Http2PriorKnowledge),
    flag("max-time", "m", "SECONDS", Meaning::MaxTime),
    flag("connect-to", "", "HOST1:PORT1:HOST2:PORT2", Meaning::ConnectTo),
    flag("resolve", "", "HOST:PORT:ADDRESS", Meaning::Resolve),
    flag("unix-socket", "", "PATH", Meaning::UnixSocket),
    flag("cacert", "", "FILE", Meaning::Tls(TlsFile::Authority)),
    flag("cert", "E", "FILE", Meaning::Tls(TlsFile::Certificate)),
    flag("key", "", "FILE", Meaning::Tls(TlsFile::Key)),
    // What would change the request and is not done.
    flag("form", "F", "NAME=CONTENT", FORM),
    flag("form-string", "", "NAME=STRING", FORM),
    flag("upload-file", "T", "FILE", Refused("write `-X PUT --data-binary @FILE` instead")),
    flag("next", ":", "", Refused("one command is one request: take them over one by one, or as a HAR file")),
    flag("config", "K", "FILE", Refused("configuration files of curl are not read: write its flags into the command")),
    flag("proxy", "x", "URL", PROXY),
    flag("preproxy", "", "URL", PROXY),
    flag("proxytunnel", "p", "", PROXY),
    flag("proxy-user", "U", "USER:PASSWORD", PROXY),
    flag("socks4", "", "HOST", PROXY),
    flag("socks4a", "", "HOST", PROXY),
    flag("socks5", "", "HOST", PROXY),
    flag("socks5-hostname", "", "HOST", PROXY),
    flag("anyauth", "", "", LOGIN),
    flag("digest", "", "", LOGIN),
    flag("negotiate", "", "", LOGIN),
    flag("ntlm", "", "", LOGIN),
    flag("aws-sigv4", "", "PROVIDER", Refused("signatures end after minutes and are not made here")),
    flag("netrc", "n", "", PASSWORD_FILE),
    flag("netrc-file", "", "FILE", PASSWORD_FILE),
    flag("netrc-optional", "", "", PASSWORD_FILE),
    flag("time-cond", "z", "TIME", CONDITION),
    flag("etag-compare", "", "FILE", CONDITION),
    flag("continue-at", "C", "OFFSET", Refused("write the range itself: `-r FROM-`")),
    flag("request-target", "", "PATH", Refused("write the path into the URL")),
    flag("http0.9", "", "", Refused("HTTP/0.9 is not spoken: write `--http1.1`")),
    flag("http1.0", "0", "", Refused("HTTP/1.0 is not spoken: write `--http1.1`")),
    flag("http3", "", "", Refused("HTTP/3 is not spoken: write `--http2`")),
    flag("http3-only", "", "", Refused("HTTP/3 is not spoken: write `--http2`")),
    flag("pass", "", "PHRASE", Refused("keys with a pass phrase are not read: remove it (`openssl pkey`)")),
    flag("abstract-unix-socket", "", "PATH", Refused("only sockets with a path are known: write `--unix-socket PATH`")),
    flag("haproxy-protocol", "", "", Refused("the PROXY protocol is not spoken: load a port that does not expect it")),
    flag("proto-default", "", "PROTOCOL", Refused("write the URL with `http://` or `https://`")),
    // What is left out, because a load has its own way.
    flag("location", "L", "", REDIRECTS),
    flag("location-trusted", "", "", REDIRECTS),
    flag("max-redirs", "", "N", REDIRECTS),
    flag("post301", "", "", REDIRECTS),
    flag("post302", "", "", REDIRECTS),
    flag("post303", "", "", REDIRECTS),
    flag("proto-redir", "", "PROTOCOLS", REDIRECTS),
    flag("cookie-jar", "c", "FILE", LeftOut("cookies of answers are not kept")),
    flag("ipv4", "4", "", ADDRESS_FAMILY),
    flag("ipv6", "6", "", ADDRESS_FAMILY),
    flag("dns-servers", "", "ADDRESSES", ADDRESS_FAMILY),
    flag("doh-url", "", "URL", ADDRESS_FAMILY),
    flag("happy-eyeballs-timeout-ms", "", "MS", ADDRESS_FAMILY),
    flag("interface", "", "NAME", LOCAL_END),
    flag("local-port", "", "PORTS", LOCAL_END),
    flag("limit-rate", "", "SPEED", SLOWER),
    flag("rate", "", "RATE", SLOWER),
    flag("tlsv1", "1", "", TLS_DETAIL),
    flag("tlsv1.0", "", "", TLS_DETAIL),
    flag("tlsv1.1", "", "", TLS_DETAIL),
    flag("tlsv1.2", "", "", TLS_DETAIL),
    flag("tlsv1.3", "", "", TLS_DETAIL),
    flag("tls-max", "", "VERSION", TLS_DETAIL),
    flag("ciphers", "", "LIST", TLS_DETAIL),
    flag("tls13-ciphers", "", "LIST", TLS_DETAIL),
    flag("curves", "", "LIST", TLS_DETAIL),
    flag("no-alpn", "", "", TLS_DETAIL),
    flag("no-sessionid", "", "", TLS_DETAIL),
    flag("false-start", "", "", TLS_DETAIL),
    flag("capath", "", "FOLDER", LeftOut("folders of certificates are not read: name a file with `--cacert`")),
    flag("connect-timeout", "", "SECONDS", LeftOut("the timeout of a request counts for its connection too")),
    flag("no-keepalive", "", "", LeftOut("connections are kept, unless the load says otherwise")),
    flag("tcp-fastopen", "", "", LeftOut("connections open in the usual way")),
    flag("alt-svc", "", "FILE", LeftOut("alternative services are not followed")),
    flag("hsts", "", "FILE", LeftOut("`http://` stays `http://`")),
    // What concerns only curl's own output and waiting.
    flag("silent", "s", "", Harmless),
    flag("show-error", "S", "", Harmless),
    flag("verbose", "v", "", Harmless),
    flag("include", "i", "", Harmless),
    flag("show-headers", "", "", Harmless),
    flag("fail", "f", "", Harmless),
    flag("fail-with-body", "", "", Harmless),
    flag("fail-early", "", "", Harmless),
    flag("output", "o", "FILE", Harmless),
    flag("output-dir", "", "FOLDER", Harmless),
    flag("remote-name", "O", "", Harmless),
    flag("remote-name-all", "", "", Harmless),
    flag("remote-header-name", "J", "", Harmless),
    flag("remote-time", "R", "", Harmless),
    flag("remove-on-error", "", "", Harmless),
    flag("create-dirs", "", "", Harmless),
    flag("no-clobber", "", "", Harmless),
    flag("write-out", "w", "FORMAT", Harmless),
    flag("dump-header", "D", "FILE", Harmless),
    flag("etag-save", "", "FILE", Harmless),
    flag("progress-bar", "#", "", Harmless),
    flag("no-progress-meter", "", "", Harmless),
    flag("no-buffer", "N", "", Harmless),
    flag("styled-output", "", "", Harmless),
    flag("no-styled-output", "", "", Harmless),
    flag("stderr", "", "FILE", Harmless),
    flag("trace", "", "FILE", Harmless),
    flag("trace-ascii", "", "FILE", Harmless),
    flag("trace-time", "", "", Harmless),
    flag("trace-ids", "", "", Harmless),
    flag("disable", "q", "", Harmless),
    flag("basic", "", "", Harmless),
    flag("junk-session-cookies", "j", "", Harmless),
    flag("parallel", "Z", "", Harmless),
    flag("parallel-immediate", "", "", Harmless),
    flag("parallel-max", "", "N", Harmless),
    flag("path-as-is", "", "", Harmless),
    flag("noproxy", "", "HOSTS", Harmless),
    flag("proto", "", "PROTOCOLS", Harmless),
    flag("tcp-nodelay", "", "", Harmless),
    flag("keepalive-time", "", "SECONDS", Harmless),
    flag("expect100-timeout", "", "SECONDS", Harmless),
    flag("max-filesize", "", "BYTES", Harmless),
    flag("raw", "", "", Harmless),
    flag("retry", "", "N", Harmless),
    flag("retry-all-errors", "", "", Harmless),
    flag("retry-connrefused", "", "", Harmless),
    flag("retry-delay", "", "SECONDS", Harmless),
    flag("retry-max-time", "", "SECONDS", Harmless),
    flag("speed-limit", "Y", "SPEED", Harmless),
    flag("speed-time", "y", "SECONDS", Harmless),
    flag("ssl-no-revoke", "", "", Harmless),
];

/// The flag `--long`.
///
/// # Errors
/// A sentence that names it, and the nearest known one.
pub(super) fn long(name: &str) -> Result<&'static Flag, String> {
    FLAGS.iter().find(|flag| flag.long == name).ok_or_else(|| {
        let meant = nearest(name, FLAGS.iter().map(|flag| flag.long));
        let next = match meant {
            Some(meant) => format!("did you mean `--{meant}`?"),
            None => "leave it out if it does not change the request".to_string(),
        };
        format!("`--{name}` is not known: {next}")
    })
}

/// The flag `-s`.
///
/// # Errors
/// A sentence that names it, and the nearest known one.
pub(super) fn short(letter: u8) -> Result<&'static Flag, String> {
    FLAGS.iter().find(|flag| flag.short == Some(letter)).ok_or_else(|| {
        let other_case =
            if letter.is_ascii_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        let meant = FLAGS.iter().find(|flag| flag.short == Some(other_case));
        let next = match meant {
            Some(meant) => format!("did you mean `-{}` (`--{}`)?", char::from(other_case), meant.long),
            None => "leave it out if it does not change the request".to_string(),
        };
        format!("`-{}` is not known: {next}", char::from(letter).escape_debug())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use std::collections::BTreeSet;

    #[test]
    fn each_flag_is_there_once() {
        let long: BTreeSet<_> = FLAGS.iter().map(|flag| flag.long).collect();
        let short: BTreeSet<_> = FLAGS.iter().filter_map(|flag| flag.short).collect();
        assert_eq!(long.len(), FLAGS.len());
        assert_eq!(short.len(), FLAGS.iter().filter(|flag| flag.short.is_some()).count());
    }

    fn check(seen: Result<&Flag, String>, want: Expect) {
        want.assert_eq(&match seen {
            Ok(flag) => flag.long.to_string(),
            Err(error) => error,
        });
    }

    #[test]
    fn names_the_nearest() {
        check(long("data-raw"), expect!["data-raw"]);
        check(long("data-rwa"), expect!["`--data-rwa` is not known: did you mean `--data-raw`?"]);
        check(long("mail-from"), expect!["`--mail-from` is not known: leave it out if it does not change the request"]);
        check(short(b'X'), expect!["request"]);
        check(short(b'h'), expect!["`-h` is not known: did you mean `-H` (`--header`)?"]);
        check(short(b'!'), expect!["`-!` is not known: leave it out if it does not change the request"]);
    }
}
