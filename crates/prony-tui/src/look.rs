//! What the terminal can show, and the styles that follow from it.
//!
//! Colours are the terminal's own sixteen, so that they fit light and dark themes. Invariant: no meaning is in colour alone.

use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colours.
    pub colour: bool,
    /// Block characters; without them charts are made of ASCII.
    pub blocks: bool,
}

impl Look {
    /// From the environment: `NO_COLOR` (no-color.org) takes the colour, a locale that is not UTF-8 and the Linux console
    /// (its font has few block characters) take the blocks.
    pub fn of(environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        // The order in which the C library looks for the locale (setlocale(3)).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        let console = environment("TERM").is_some_and(|term| term == "linux");
        Self { colour: set("NO_COLOR").is_none(), blocks: utf8 && !console }
    }

    /// What stands where there is no number.
    pub(crate) fn dash(self) -> &'static str {
        if self.blocks { prony_report::number::NONE } else { "-" }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// Names of numbers, and everything that is not the news.
    pub(crate) fn label(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The numbers that people came for.
    pub(crate) fn number(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Charts and bars.
    pub(crate) fn chart(self) -> Style {
        self.coloured(Color::Cyan)
    }

    /// Something that deserves a look.
    pub(crate) fn warning(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Something that went wrong.
    pub(crate) fn error(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(environment: &[(&str, &str)]) -> (bool, bool) {
        let value = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_string());
        let look = Look::of(&value);
        (look.colour, look.blocks)
    }

    #[test]
    fn the_environment_says_what_the_terminal_can() {
        assert_eq!(look(&[]), (true, false), "no locale is the C locale");
        assert_eq!(look(&[("LANG", "de_DE.UTF-8")]), (true, true));
        assert_eq!(look(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]), (true, false));
        assert_eq!(look(&[("LANG", "C.utf8"), ("LC_ALL", ""), ("NO_COLOR", "1")]), (false, true));
        assert_eq!(look(&[("NO_COLOR", ""), ("LANG", "C.utf8"), ("TERM", "linux")]), (true, false));
    }
}
