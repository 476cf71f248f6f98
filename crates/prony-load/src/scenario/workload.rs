//! From the workload of a stack file to a script: what the person wrote, with the rows of its feeds.
//!
//! Pure but for the reader it is handed. Invariant: after this, no file is read.

use super::feed::read_feed;
use crate::error::LoadError;
use prony_model::script::Script;
use prony_model::stack::Workload;

/// Steps, feeds and prepare phase of a workload; none: it has none of them. `read_file` reads the files of the feeds.
///
/// # Errors
/// [`LoadError::Plan`] that names the feed, and the line of its file.
pub fn script_from(
    workload: &Workload,
    read_file: &dyn Fn(&str) -> std::io::Result<Vec<u8>>,
) -> Result<Option<Script>, LoadError> {
    let mut script = workload.script();
    for (name, spec) in &workload.feed {
        let bytes = read_file(&spec.file).map_err(|error| LoadError::Plan {
            item: format!("workload.feed.{name}.file"),
            why: format!("{} cannot be read ({error}): check the path, relative to the stack file", spec.file),
        })?;
        script.feeds.insert(name.clone(), read_feed(name, spec, &bytes)?);
    }
    Ok((script != Script::default()).then_some(script))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use prony_model::Stack;

    fn check(extra: &str, want: Expect) {
        let stack = Stack::parse("stack.toml", &format!("entry = \"http://10.0.0.1/\"\n{extra}")).unwrap();
        let read = |path: &str| match path {
            "users.csv" => Ok(b"name,password\nann,x\nbob,y\n".to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        want.assert_eq(&match script_from(&stack.workload, &read) {
            Ok(script) => format!("{:?}", script.map(|s| (s.steps.len(), s.feeds, s.prepare.is_some()))),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn reads_the_feeds_of_a_workload() {
        check("", expect!["None"]);
        check(
            "[workload.feed.users]\nfile = \"users.csv\"\norder = \"random\"\n[[workload.step]]\npath = \"/${users.name}\"",
            expect![[
                r#"Some((1, {"users": Feed { columns: ["name", "password"], rows: [["ann", "x"], ["bob", "y"]], order: Random }}, false))"#
            ]],
        );
        check(
            "[workload.feed.users]\nfile = \"gone.csv\"",
            expect![
                "`workload.feed.users.file`: gone.csv cannot be read (entity not found): check the path, relative to the stack file"
            ],
        );
    }
}
