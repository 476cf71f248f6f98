//! Feeds: read from the text of a file, and kept so that a cell is found by two numbers.
//!
//! No file is opened here. Invariant: every row has a value for every column, or the feed is an error that names the line.

use crate::error::LoadError;
use prony_model::script::{Feed, FeedOrder};
use prony_model::stack::{FeedFormat, FeedSpec};
use serde_json::{Map, Value};

/// Reads the rows of a feed from the content of its file.
///
/// # Errors
/// [`LoadError::Plan`] that names the feed, the file and the line.
pub fn read_feed(name: &str, spec: &FeedSpec, content: &[u8]) -> Result<Feed, LoadError> {
    let wrong = |why: String| LoadError::Plan { item: format!("workload.feed.{name}"), why };
    let in_line = |(line, why): (u64, String)| wrong(format!("{} line {line} {why}", spec.file));
    let text = str::from_utf8(content).map_err(|error| {
        let line = content[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count() as u64 + 1;
        in_line((line, "is not UTF-8: save the file as UTF-8".to_string()))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(format) = spec.format.or_else(|| format_of(&spec.file)) else {
        let why = format!("{} is neither a .csv nor a .jsonl file: say which with `format = \"csv\"`", spec.file);
        return Err(wrong(why));
    };
    let (columns, rows) = match format {
        FeedFormat::Csv => csv(text, &spec.columns),
        FeedFormat::Jsonl => json_lines(text, &spec.columns),
    }
    .map_err(in_line)?;
    if rows.is_empty() {
        return Err(wrong(format!("{} has no rows: a template would have nothing to stand for", spec.file)));
    }
    let feed = Feed { columns, rows, order: spec.order };
    check_feed(&feed).map_err(|why| wrong(format!("{}: {why}", spec.file)))?;
    Ok(feed)
}

/// What is wrong with a feed, however it was made.
pub fn check_feed(feed: &Feed) -> Result<(), String> {
    for (index, name) in feed.columns.iter().enumerate() {
        if name.is_empty() || name.contains(['{', '}', '"', '\n']) {
            return Err(format!("column {} is called {name:?}, which no template can name", index + 1));
        }
        if feed.columns[..index].contains(name) {
            return Err(format!("two columns are called `{name}`: rename one"));
        }
    }
    match feed.rows.iter().position(|row| row.len() != feed.columns.len()) {
        Some(row) => Err(format!(
            "row {} has {} values, but there are {} columns",
            row + 1,
            feed.rows[row].len(),
            feed.columns.len()
        )),
        None => Ok(()),
    }
}

fn format_of(file: &str) -> Option<FeedFormat> {
    match file.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "csv" => Some(FeedFormat::Csv),
        "jsonl" | "ndjson" => Some(FeedFormat::Jsonl),
        _ => None,
    }
}

/// Columns and rows; or the line, and what is wrong with it.
type Read = Result<(Vec<String>, Vec<Vec<String>>), (u64, String)>;

/// `columns`: names for a file whose first line is data; empty: the first line names them.
fn csv(text: &str, columns: &[String]) -> Read {
    let wrong = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        if let csv::ErrorKind::UnequalLengths { expected_len, len, .. } = error.kind() {
            return (line, format!("has {len} values, the lines before it {expected_len}"));
        }
        (line, format!("cannot be read ({error})"))
    };
    let mut reader = csv::ReaderBuilder::new().has_headers(columns.is_empty()).from_reader(text.as_bytes());
    let names = match columns {
        [] => reader.headers().map_err(wrong)?.iter().map(|name| name.trim().to_string()).collect(),
        given => given.to_vec(),
    };
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        if record.len() != names.len() {
            return Err((1, format!("has {} values, but {} columns are named", record.len(), names.len())));
        }
        rows.push(record.iter().map(str::to_string).collect());
    }
    Ok((names, rows))
}

/// `columns`: keys to take; empty: those of the first line.
fn json_lines(text: &str, columns: &[String]) -> Read {
    let mut names = columns.to_vec();
    let mut rows = Vec::new();
    for (line, content) in (1..).zip(text.lines()).filter(|(_, content)| !content.trim().is_empty()) {
        let object: Map<String, Value> =
            serde_json::from_str(content).map_err(|error| (line, format!("is no JSON object ({error})")))?;
        if names.is_empty() {
            names = object.keys().cloned().collect();
        }
        let cell = |name: &String| match object.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Null) | None => Err((line, format!("has no `{name}`"))),
            Some(value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
                Ok(value.to_string())
            }
        };
        rows.push(names.iter().map(cell).collect::<Result<Vec<_>, _>>()?);
    }
    Ok((names, rows))
}

/// The rows of a feed in one text, which a processor's cache likes better than a box for each cell.
#[derive(Clone, Debug)]
pub struct Table {
    text: String,
    /// Where each cell ends, row by row.
    ends: Vec<usize>,
    columns: usize,
    rows: usize,
    order: FeedOrder,
}

impl Table {
    /// From a feed that [`check_feed`] passed.
    pub fn new(feed: &Feed) -> Self {
        let cells = || feed.rows.iter().flatten();
        let mut text = String::with_capacity(cells().map(String::len).sum());
        let ends = cells().map(|cell| {
            text.push_str(cell);
            text.len()
        });
        let ends = ends.collect();
        Self { text, ends, columns: feed.columns.len(), rows: feed.rows.len(), order: feed.order }
    }

    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// How they are given out.
    pub fn order(&self) -> FeedOrder {
        self.order
    }

    /// One cell.
    #[inline]
    pub fn cell(&self, row: usize, column: usize) -> &str {
        let index = row * self.columns + column;
        let from = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[from..self.ends[index]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn spec(file: &str, columns: &[&str]) -> FeedSpec {
        let columns = columns.iter().map(ToString::to_string).collect();
        FeedSpec { file: file.to_string(), format: None, order: FeedOrder::Unique, columns }
    }

    fn check(file: &str, columns: &[&str], content: impl AsRef<[u8]>, want: Expect) {
        want.assert_eq(&match read_feed("users", &spec(file, columns), content.as_ref()) {
            Ok(feed) => format!("{:?} {:?} {:?}", feed.columns, feed.rows, feed.order),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn reads_csv() {
        check(
            "u.csv",
            &[],
            "\u{feff}name, mail\r\nann,a@b\r\n\"b, \"\"b\"\"\",\r\n",
            expect![[r#"["name", "mail"] [["ann", "a@b"], ["b, \"b\"", ""]] Unique"#]],
        );
        check(
            "u.csv",
            &["domain"],
            "a.example\nb.example",
            expect![[r#"["domain"] [["a.example"], ["b.example"]] Unique"#]],
        );
    }

    #[test]
    fn reads_json_lines() {
        let lines = "{\"name\": \"ann\", \"id\": 7}\n\n{\"id\": 12345678901, \"name\": \"b\\nb\", \"more\": [1]}\n";
        check("u.jsonl", &[], lines, expect![[r#"["id", "name"] [["7", "ann"], ["12345678901", "b\nb"]] Unique"#]]);
        check("u.ndjson", &["name"], lines, expect![[r#"["name"] [["ann"], ["b\nb"]] Unique"#]]);
        check("u.jsonl", &["more"], lines, expect!["`workload.feed.users`: u.jsonl line 1 has no `more`"]);
    }

    #[test]
    fn names_the_line_that_is_wrong() {
        check(
            "u.csv",
            &[],
            "a,b\n1,2\n3\n",
            expect!["`workload.feed.users`: u.csv line 3 has 1 values, the lines before it 2"],
        );
        check(
            "u.csv",
            &["a", "b"],
            "1\n2\n",
            expect!["`workload.feed.users`: u.csv line 1 has 1 values, but 2 columns are named"],
        );
        check(
            "u.csv",
            &[],
            b"a\n1\n\xff\n",
            expect!["`workload.feed.users`: u.csv line 3 is not UTF-8: save the file as UTF-8"],
        );
        check(
            "u.csv",
            &[],
            "a,a\n1,2\n",
            expect!["`workload.feed.users`: u.csv: two columns are called `a`: rename one"],
        );
        check(
            "u.csv",
            &[],
            "a,\n1,2\n",
            expect![[r#"`workload.feed.users`: u.csv: column 2 is called "", which no template can name"#]],
        );
        check(
            "u.csv",
            &[],
            "a\n",
            expect!["`workload.feed.users`: u.csv has no rows: a template would have nothing to stand for"],
        );
        check(
            "u.txt",
            &[],
            "a\n1\n",
            expect![[
                r#"`workload.feed.users`: u.txt is neither a .csv nor a .jsonl file: say which with `format = "csv"`"#
            ]],
        );
        check(
            "u.jsonl",
            &[],
            "{\"a\": 1}\n[1]\n",
            expect![
                "`workload.feed.users`: u.jsonl line 2 is no JSON object (invalid type: sequence, expected a map at line 1 column 0)"
            ],
        );
        check(
            "u.jsonl",
            &[],
            "{\"a\": 1}\n{\"a\": null}\n",
            expect!["`workload.feed.users`: u.jsonl line 2 has no `a`"],
        );
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            rows in proptest::collection::vec(proptest::collection::vec("[a-c,\"\\n é]{0,6}", 3), 1..20),
        ) {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["a", "b", "c"]).unwrap();
            rows.iter().for_each(|row| writer.write_record(row).unwrap());
            let content = writer.into_inner().unwrap();
            let feed = read_feed("users", &spec("u.csv", &[]), &content).unwrap();
            prop_assert_eq!(&feed.rows, &rows);
            let table = Table::new(&feed);
            for (r, row) in rows.iter().enumerate() {
                for (c, cell) in row.iter().enumerate() {
                    prop_assert_eq!(table.cell(r, c), cell);
                }
            }
        }

        #[test]
        fn json_lines_are_read_back(cells in proptest::collection::vec("\\PC{0,8}", 1..20)) {
            let lines: String = cells.iter().map(|cell| serde_json::json!({ "a": cell }).to_string() + "\n").collect();
            let feed = read_feed("users", &spec("u.jsonl", &[]), lines.as_bytes()).unwrap();
            prop_assert_eq!(feed.rows.concat(), cells);
        }

        #[test]
        fn no_content_panics(content in proptest::collection::vec(any::<u8>(), 0..100), json in any::<bool>()) {
            let _ = read_feed("users", &spec(if json { "u.jsonl" } else { "u.csv" }, &[]), &content);
        }
    }
}
