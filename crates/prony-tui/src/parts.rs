//! Parts of a screen, and which of them are shown when there is not room for all.
//!
//! Knows nothing of what they show. Invariant: a part is shown whole or not at all, and the most important ones are shown.

use crate::look::Look;
use ratatui::Frame;
use ratatui::text::{Line, Span};

/// Columns of the names at the left of every screen, with the margin before them.
pub(crate) const LABEL: usize = 14;

/// A few rows that belong together.
pub(crate) struct Part {
    /// The higher, the longer it is kept when the screen is small. No two parts have the same.
    pub rank: u16,
    /// Whether an empty row before it would be good.
    pub gap: bool,
    pub rows: Vec<Line<'static>>,
}

impl Part {
    fn height(&self) -> usize {
        self.rows.len() + usize::from(self.gap)
    }

    fn into_rows(self) -> impl Iterator<Item = Line<'static>> {
        self.gap.then(Line::default).into_iter().chain(self.rows)
    }
}

/// Rows that all parts take together.
pub(crate) fn height(parts: &[Part]) -> usize {
    parts.iter().map(Part::height).sum()
}

/// The rows of those that fit: first the gaps go, from the top, then whole parts. The most important part chooses first.
pub(crate) fn fit(mut parts: Vec<Part>, room: usize) -> Vec<Line<'static>> {
    let mut needed = height(&parts);
    for part in parts.iter_mut().filter(|part| part.gap) {
        if needed > room {
            part.gap = false;
            needed -= 1;
        }
    }
    let mut ranks: Vec<u16> = parts.iter().map(|part| part.rank).collect();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    let mut room = room;
    for rank in ranks {
        parts.retain(|part| part.rank != rank || part.height() <= room);
        room -= parts.iter().filter(|part| part.rank == rank).map(Part::height).sum::<usize>();
    }
    parts.into_iter().flat_map(Part::into_rows).collect()
}

/// Draws rows over the whole frame, from the top.
pub(crate) fn draw(frame: &mut Frame<'_>, rows: &[Line<'static>]) {
    let area = frame.area();
    for (y, row) in (area.top()..area.bottom()).zip(rows) {
        frame.buffer_mut().set_line(area.x, y, row, area.width);
    }
}

/// The begin of a row: its name, which takes so many columns.
pub(crate) fn named(name: &str, columns: usize, look: Look) -> Line<'static> {
    let name = format!(" {name}");
    Line::from(Span::styled(format!("{name:<columns$}"), look.label()))
}

/// At most `columns` characters, with a mark where something is missing.
pub(crate) fn clip(text: &str, columns: usize, look: Look) -> String {
    if text.chars().count() <= columns {
        return text.to_string();
    }
    let mark = if look.blocks { "\u{2026}" } else { "..." };
    let kept = columns.saturating_sub(mark.chars().count());
    text.chars().take(kept).chain(mark.chars()).collect()
}

/// Flush right, by what a terminal shows.
pub(crate) fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(Span::raw(text).width())))
}
