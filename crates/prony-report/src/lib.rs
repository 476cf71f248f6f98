//! What each metric, finding and verdict is called; HTML, Markdown, JSON, CSV.
