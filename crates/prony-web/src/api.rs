//! What the API sends and takes, besides what `prony-report` shows of runs.
//!
//! Declared here once: Rust, JSON, TypeScript and the schemas of the document follow. Invariant: what clients send has no
//! field that may be left out, and none that is not named here.

use crate::tags;
use prony_report::typed::{Typed, Types, view, words};
use prony_report::view::RunSummary;
use serde_json::{Value, json};

words! {
    /// How a started experiment is.
    pub enum JobState {
        /// It runs.
        Running = "running",
        /// It was asked to stop, and puts back what it changed.
        Stopping = "stopping",
        /// It came to an end of its own: its exit code tells which.
        Ended = "ended",
        /// The server ended before it, so nobody knows how it ended.
        CutShort = "cut-short",
    }
}

view! {
    /// Why something was not done, and what to do next.
    pub struct Problem {
        /// In a sentence.
        pub error: String,
    }

    /// What this server is.
    pub struct About {
        /// Version of prony.
        pub version: String,
        /// The folder of runs.
        pub runs_folder: String,
        /// Whether experiments can be started here.
        pub can_start: bool,
        /// Whether stack files can be edited here.
        pub can_edit: bool,
    }

    /// Runs that were asked for, the newest first.
    pub struct RunList {
        /// How many there are, shown or not.
        pub total: u32,
        /// Those that are shown.
        pub runs: Vec<RunSummary>,
        /// Stacks of all runs of the folder.
        pub stacks: Vec<Counted>,
        /// Tags of all runs of the folder.
        pub tags: Vec<Counted>,
        /// Files that could not be read, and why.
        pub unreadable: Vec<String>,
    }

    /// A name and how many runs have it.
    pub struct Counted {
        /// The name.
        pub name: String,
        /// Runs.
        pub runs: u32,
    }

    /// The tags that a run shall have.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TagsWanted {
        /// All of them; an empty list takes them away.
        pub tags: Tags,
    }

    /// Experiments that can be started here.
    pub struct ExperimentList {
        /// Those of the folders that the server was given.
        pub experiments: Vec<ExperimentFile>,
        /// The one that runs: there is never more than one, because two loads disturb each other.
        pub running: Option<String>,
    }

    /// An experiment as its file says.
    pub struct ExperimentFile {
        /// The file, as the server names it.
        pub file: String,
        /// What it is called.
        pub name: String,
        /// Where the question comes from.
        pub about: String,
        /// What is expected.
        pub expectation: String,
        /// What is asked of each cell.
        pub asks: String,
        /// Cells of each repeat.
        pub cells: u32,
        /// Repeats.
        pub repeats: u32,
        /// What is wrong with the file; none when it can be started.
        pub wrong: Option<String>,
    }

    /// An experiment that shall be started.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct JobWanted {
        /// The file, as the list names it.
        pub file: String,
        /// Shorter trials, three repeats at most: wider intervals.
        pub quick: bool,
    }

    /// Experiments that were started here, the newest first.
    pub struct JobList {
        /// All of them.
        pub jobs: Vec<Job>,
    }

    /// An experiment that was started here.
    pub struct Job {
        /// Its id, which is the name of its folder.
        pub id: String,
        /// The experiment's file.
        pub file: String,
        /// What the experiment is called.
        pub name: String,
        /// With shorter trials.
        pub quick: bool,
        /// Start, in UTC.
        pub started: String,
        /// Start in milliseconds since 1970.
        pub started_unix_ms: u64,
        /// How it is.
        pub state: JobState,
        /// Its exit code; none while it runs, and when a signal ended it.
        pub exit_code: Option<i32>,
    }

    /// A started experiment with what it said and recorded.
    pub struct JobView {
        /// Which.
        pub job: Job,
        /// Its progress, the newest line last.
        pub lines: Vec<String>,
        /// Its result; empty before its end.
        pub result: String,
        /// Its runs, the newest first.
        pub runs: Vec<RunSummary>,
    }

    /// Stack files that can be edited here.
    pub struct StackFiles {
        /// Those of the folders that the server was given.
        pub files: Vec<StackFile>,
        /// Folders in which a new one can be made.
        pub folders: Vec<String>,
    }

    /// A stack file.
    pub struct StackFile {
        /// The file, as the server names it.
        pub file: String,
        /// What the stack is called.
        pub name: String,
        /// What is wrong with it; none when it can be used.
        pub wrong: Option<String>,
    }

    /// The text of a stack file.
    pub struct StackText {
        /// The file.
        pub file: String,
        /// Its text.
        pub text: String,
        /// Which version this is: has to come back with a change.
        pub version: String,
    }

    /// A stack file as it shall be.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct StackWanted {
        /// Its text.
        pub text: String,
        /// The version that was changed; empty for a new file.
        pub version: String,
    }

    /// A text that shall be checked as if it were that file.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct CheckWanted {
        /// The file, as the server names it; any name for a text that is nowhere.
        pub file: String,
        /// The text.
        pub text: String,
    }

    /// What was found in a stack file.
    pub struct Checked {
        /// Whether prony would take it.
        pub right: bool,
        /// What is wrong; empty when nothing is.
        pub messages: Vec<CheckMessage>,
        /// What the stack is, in a line; empty when it is wrong.
        pub summary: String,
        /// The version that is stored; empty when nothing was stored.
        pub version: String,
    }

    /// A mistake.
    pub struct CheckMessage {
        /// The file that has it: this one, or one that it builds on.
        pub file: String,
        /// Line, from 1; 0 when the whole file is meant.
        pub line: u32,
        /// What is wrong and what would be right.
        pub text: String,
    }
}

/// A list of tags: the document says which texts can be one.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Tags(pub Vec<String>);

impl Typed for Tags {
    fn typescript() -> String {
        Vec::<String>::typescript()
    }

    fn schema() -> Value {
        json!({ "type": "array", "maxItems": tags::TAGS_MAX, "items": { "type": "string", "pattern": tags::PATTERN } })
    }
}

/// Every type above.
pub(crate) fn types() -> Types {
    let mut types = Types::default();
    declare_words(&mut types);
    declare_structs(&mut types);
    types
}
