//! Errors in what a person wrote: file, line, key, what was seen, the nearest valid name.

use std::fmt;

/// A mistake in a file that a person wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The file as the person named it.
    pub file: String,
    /// Line, counted from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and what would be right, as one sentence without a full stop.
    pub message: String,
}

impl InputError {
    /// An error that concerns the whole file.
    pub fn whole(file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_string(), line: 0, message: message.into() }
    }

    /// From a TOML error: turns its byte span into a line and adds the nearest valid key.
    pub fn from_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let message = error.message().trim().to_string();
        let message = match nearest_in(&message) {
            Some(nearest) => format!("{message}; did you mean `{nearest}`?"),
            None => message,
        };
        Self { file: file.to_string(), line, message }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}
impl std::error::Error for InputError {}

/// The name in `valid` that is closest to `seen`, if one is close enough to be meant.
pub fn nearest<'a>(seen: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    valid
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(seen, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len().max(seen.len()) / 3)
        .min()
        .map(|(_, name)| name)
}

/// serde says: unknown field `a`, expected one of `b`, `c`. This finds the nearest of the latter to the former.
fn nearest_in(message: &str) -> Option<&str> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown ") {
        return None;
    }
    let seen = quoted.next()?;
    nearest(seen, quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_key_that_was_meant() {
        assert_eq!(nearest("conections", ["connections", "requests"]), Some("connections"));
        assert_eq!(nearest("zzz", ["connections", "requests"]), None);
        let message = "unknown field `calls2`, expected one of `role`, `calls`";
        assert_eq!(nearest_in(message), Some("calls"));
    }
}
