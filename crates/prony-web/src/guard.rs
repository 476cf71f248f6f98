//! Who may ask, and what every answer carries: the name of the server, the token, the page that sent the request.
//!
//! Invariant: no handler runs before this. A page of another site can neither read (no answer allows it), nor change anything
//! (it cannot send `X-Prony`), nor pretend to be this server by a name of its own (DNS rebinding).

use crate::App;
use crate::refusal::Refusal;
use crate::routes::BODY_BYTES_MAX;
use axum::extract::{Request, State};
use axum::http::header::{
    self, AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq as _;

/// How long a request may take, its body included. A guess: a history over a thousand runs is read in less.
const PATIENCE: Duration = Duration::from_secs(120);
/// A token that can be guessed keeps nobody out. 16 letters of 64 are 96 bits.
const TOKEN_MIN: usize = 16;

/// Headers of every answer. Scripts and styles come from the server alone; drawings that are saved are `data:` and `blob:`.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
];

/// A secret that whoever asks must know.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Reads a token file: one line that only its owner may read.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it holds no good token.
    pub fn read(path: &Path) -> Result<Self, crate::WebError> {
        use std::os::unix::fs::PermissionsExt as _;
        let wrong = |reason: String| crate::WebError::file(path, reason);
        let make = format!("make one: `(umask 077; openssl rand -base64 24 > {})`", path.display());
        let about = std::fs::metadata(path).map_err(|e| wrong(format!("{e}; {make}")))?;
        if about.permissions().mode() & 0o077 != 0 {
            return Err(wrong(format!("others may read the token: `chmod 600 {}`", path.display())));
        }
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let token = text.trim();
        if token.len() < TOKEN_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
            return Err(wrong(format!(
                "a token is {TOKEN_MIN} or more letters, digits and signs without blanks; {make}"
            )));
        }
        Ok(Self(token.to_string()))
    }

    /// Takes the same time for every wrong token of the right length; the length is no secret.
    fn is(&self, seen: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(seen).into()
    }
}

/// What a request must show.
pub(crate) struct Guard {
    token: Option<Token>,
    /// Names of this server besides IP addresses and `localhost`.
    names: Vec<String>,
    secure: bool,
    /// Answers by code.
    pub answers: Mutex<BTreeMap<u16, u64>>,
}

impl Guard {
    pub fn new(token: Option<Token>, names: Vec<String>, secure: bool) -> Self {
        Self { token, names, secure, answers: Mutex::default() }
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let headers = request.headers();
        let host = self.host(request)?;
        if self.token.as_ref().is_some_and(|token| presented(headers).is_none_or(|seen| !token.is(&seen))) {
            let text = "the token is missing or wrong: send `Authorization: Bearer TOKEN`, or any name with it as the password";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, text));
        }
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > BODY_BYTES_MAX) {
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("{BODY_BYTES_MAX} bytes are the most")));
        }
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
        if reads || self.is_our_page(headers, host) {
            return Ok(());
        }
        let text = "a change needs the header `X-Prony: 1`, and must not come from a page of another site";
        Err(Refusal::new(StatusCode::FORBIDDEN, text))
    }

    /// What the client calls this server. Another site can make a name of its own lead here, but no IP address.
    fn host<'a>(&self, request: &'a Request) -> Result<&'a str, Refusal> {
        let of_header = || request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(|authority| authority.as_str()).or_else(of_header).unwrap_or_default();
        let name = without_port(host);
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let known = self.names.iter().map(String::as_str).chain(["localhost"]);
        if is_address || known.into_iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Ok(host);
        }
        let text = format!("this server is not known as `{name}`: start it with --host {name} if it should be");
        Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, text))
    }

    fn is_our_page(&self, headers: &HeaderMap, host: &str) -> bool {
        let own = format!("{}://{host}", if self.secure { "https" } else { "http" });
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        text(HeaderName::from_static("x-prony")) == Some("1")
            && text(ORIGIN).is_none_or(|origin| origin.eq_ignore_ascii_case(&own))
            && text(HeaderName::from_static("sec-fetch-site"))
                .is_none_or(|site| ["same-origin", "none"].contains(&site))
    }
}

/// `[::1]:80` is `[::1]`, `shop:80` is `shop`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => name,
        Some(_) | None => host,
    }
}

/// The token that a request shows: as it is, or as the password of any name.
fn presented(headers: &HeaderMap) -> Option<Vec<u8>> {
    let (scheme, value) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.trim().as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(value.trim()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// Stands before every handler.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match app.guard.check(&request) {
        Ok(()) => match tokio::time::timeout(PATIENCE, next.run(request)).await {
            Ok(response) => response,
            Err(_) => late().into_response(),
        },
        Err(refusal) => refusal.into_response(),
    };
    let status = response.status();
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // What was recorded may grow, and a token may be taken away: nothing is kept elsewhere.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"prony\", charset=\"UTF-8\""));
    }
    *app.guard.answers.lock().unwrap_or_else(PoisonError::into_inner).entry(status.as_u16()).or_default() += 1;
    response
}

fn late() -> Refusal {
    let text = format!("the request did not come to its end within {} s", PATIENCE.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const TOKEN: &str = "0123456789abcdef";

    fn check(guard: &Guard, method: &str, headers: &[(&str, &str)]) -> u16 {
        let request =
            headers.iter().fold(Request::builder().method(method).uri("/api/runs"), |r, (k, v)| r.header(*k, *v));
        guard.check(&request.body(Body::empty()).unwrap()).map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn a_name_that_leads_here_is_not_enough() {
        let guard = Guard::new(None, vec!["bench.example".to_string()], false);
        for host in ["127.0.0.1:7766", "localhost", "LOCALHOST:1", "[::1]:7766", "10.0.0.7", "bench.example:443"] {
            assert_eq!(check(&guard, "GET", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:7766", "", "[::1].evil"] {
            assert_eq!(check(&guard, "GET", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(check(&guard, "GET", &[]), 421);
    }

    #[test]
    fn a_token_comes_in_two_ways() {
        let guard = Guard::new(Some(Token(TOKEN.to_string())), Vec::new(), true);
        let asked = |value: &str| check(&guard, "GET", &[("host", "10.0.0.7"), ("authorization", value)]);
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        assert_eq!(asked(&format!("Bearer {TOKEN}")), 200);
        assert_eq!(asked(&basic(&format!("ada:{TOKEN}"))), 200);
        for wrong in
            ["", "Bearer", "Bearer 0123456789abcdeF", "Bearer 0", "Digest x", "Basic ???", &basic("ada"), &basic("a:b")]
        {
            assert_eq!(asked(wrong), 401, "{wrong}");
        }
        assert_eq!(check(&guard, "GET", &[("host", "10.0.0.7")]), 401);
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let guard = Guard::new(None, Vec::new(), false);
        let changed = |more: &[(&str, &str)]| check(&guard, "POST", &[&[("host", "127.0.0.1:7766")], more].concat());
        let own = ("origin", "http://127.0.0.1:7766");
        assert_eq!(changed(&[("x-prony", "1")]), 200);
        assert_eq!(changed(&[("x-prony", "1"), own, ("sec-fetch-site", "same-origin")]), 200);
        assert_eq!(changed(&[own]), 403);
        assert_eq!(changed(&[("x-prony", "0"), own]), 403);
        assert_eq!(changed(&[("x-prony", "1"), ("origin", "http://evil.example")]), 403);
        assert_eq!(changed(&[("x-prony", "1"), ("origin", "null")]), 403);
        assert_eq!(changed(&[("x-prony", "1"), ("origin", "http://127.0.0.1:80")]), 403);
        assert_eq!(changed(&[("x-prony", "1"), own, ("sec-fetch-site", "cross-site")]), 403);
    }

    #[test]
    fn a_token_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let said = |text: &str, mode: u32| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&file).err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert_eq!(said(&format!("{TOKEN}\n"), 0o600), "");
        assert!(said(TOKEN, 0o644).contains("others may read the token: `chmod 600 "));
        assert!(said("short", 0o600).contains("16 or more letters"));
        assert!(said("with a blank in it, long enough", 0o600).contains("without blanks"));
        assert!(Token::read(&folder.path().join("nothing")).err().unwrap().to_string().contains("openssl rand"));
    }
}
