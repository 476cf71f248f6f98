//! Draws a made-up run: `cargo run -p prony-report --example sample [whole|only_url|interrupted|no_proof|only_gaps|hostile] > x.html`,
//! with `--text`, `--markdown` or `--json` as second word for the other forms, and `--after` for the profile of an earlier run
//! beside its own.

#[path = "../tests/sample/mod.rs"]
mod sample;

use prony_report::text::{Style, verdict};
use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let run = match words.first().map_or("whole", String::as_str) {
        "only_url" => sample::only_url(),
        "interrupted" => sample::interrupted(),
        "no_proof" => sample::no_proof(),
        "only_gaps" => sample::only_gaps(),
        "hostile" => sample::hostile(),
        _ => sample::whole(),
    };
    let text = match words.get(1).map_or("--html", String::as_str) {
        "--text" => verdict(&run, Style::Ansi),
        "--markdown" => prony_report::markdown(&run),
        "--json" => prony_report::json(&run),
        "--after" => prony_report::html_after(&run, &sample::earlier()),
        _ => prony_report::html(&run),
    };
    std::io::stdout().write_all(text.as_bytes())
}
