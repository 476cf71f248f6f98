//! The pages: one document with a script and a style sheet, built from `web/` by `npm run build` and committed, so that cargo
//! alone builds prony.
//!
//! Which page is shown is decided by the script, from the address. Invariant: nothing is read from disk here.

use crate::App;
use crate::refusal::Refusal;
use axum::Router;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// A file of the pages.
struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const PAGE: Asset = Asset { path: "/", kind: "text/html; charset=utf-8", text: include_str!("../assets/serve.html") };
const SCRIPT: Asset = Asset {
    path: "/assets/serve.js",
    kind: "text/javascript; charset=utf-8",
    text: include_str!("../assets/serve.js"),
};
const STYLE: Asset =
    Asset { path: "/assets/serve.css", kind: "text/css; charset=utf-8", text: include_str!("../assets/serve.css") };

/// Addresses at which there is a page; `web/src/serve/main.ts` knows the same.
const PLACES: &[&str] = &["/", "/runs/{id}", "/compare", "/history", "/experiments", "/jobs/{id}", "/stacks"];

/// Adds the pages to the API.
pub(crate) fn router(api: Router<Arc<App>>) -> Router<Arc<App>> {
    let with_pages = PLACES.iter().fold(api, |router, place| router.route(place, get(page)));
    with_pages.route(SCRIPT.path, get(script)).route(STYLE.path, get(style)).fallback(nothing)
}

async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}

async fn script(headers: HeaderMap) -> Response {
    SCRIPT.answer(&headers)
}

async fn style(headers: HeaderMap) -> Response {
    STYLE.answer(&headers)
}

async fn nothing(request: Request) -> Refusal {
    Refusal::missing(format!(
        "there is nothing at {}; the pages begin at /, the API is described at /api/openapi.json",
        request.uri().path()
    ))
}

impl Asset {
    /// A browser that has it already is told so.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        let tag = format!("\"{:016x}\"", hasher.finish());
        let kept = headers.get(IF_NONE_MATCH).is_some_and(|seen| seen.as_bytes() == tag.as_bytes());
        let about = [(ETAG, tag), (CACHE_CONTROL, "no-cache".to_string()), (CONTENT_TYPE, self.kind.to_string())];
        if kept { (StatusCode::NOT_MODIFIED, about).into_response() } else { (about, self.text).into_response() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_no_script_and_asks_for_nothing_from_elsewhere() {
        assert!(PAGE.text.contains(&format!("src=\"{}\"", SCRIPT.path)), "run `npm run build` in web/");
        assert!(PAGE.text.contains(&format!("href=\"{}\"", STYLE.path)), "run `npm run build` in web/");
        assert_eq!(PAGE.text.matches("<script").count(), 1);
        for inside in ["<style", " style=\"", "onclick", "onload", "http://", "https://"] {
            assert!(!PAGE.text.contains(inside), "{inside} in the page");
        }
        for url in STYLE.text.match_indices("url(").map(|(at, _)| &STYLE.text[at..(at + 12).min(STYLE.text.len())]) {
            assert!(url.starts_with("url(data:") || url.starts_with("url(\"data:"), "{url}");
        }
    }
}
