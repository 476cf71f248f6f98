//! The web page with a run's data put in.
//!
//! The page is built from `web/` by `npm run build` and committed, so that cargo alone builds prony.
//! Invariant: no text of a run can end the script element that holds it, or open a tag.

/// The built page.
const PAGE: &str = include_str!("../assets/report.html");

/// What the data replaces. Stands once in the page.
const PLACEHOLDER: &str = "__PRONY_DATA__";

/// The page with `json` put in.
pub(crate) fn page(json: &str) -> String {
    PAGE.replacen(PLACEHOLDER, &escape(json), 1)
}

/// JSON that is safe inside `<script>`: `<`, `>` and `&` only occur inside JSON strings, where their `\u` forms mean the
/// same. The line separators are for readers that treat JSON as old JavaScript.
fn escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 16);
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placeholder_stands_once() {
        assert_eq!(PAGE.matches(PLACEHOLDER).count(), 1, "run `npm run build` in web/");
    }

    #[test]
    fn no_text_ends_the_script() {
        let json = serde_json::to_string("</script><img src=x onerror=alert(1)>&\u{2028}<!--").unwrap();
        let escaped = escape(&json);
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}']), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), serde_json::from_str::<String>(&json).unwrap());
    }
}
