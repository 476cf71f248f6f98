//! Tags of a run: a text file beside its record, a tag in each line. `ID.prony` has its tags in `ID.tags`.
//!
//! Invariant: the file is replaced as a whole, so that a reader sees the old tags or the new ones.

use crate::refusal::Refusal;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Tags of one run. A guess: more are no help for finding it.
pub(crate) const TAGS_MAX: usize = 16;
/// Letters of a tag. A guess.
const LETTERS_MAX: usize = 32;
/// The same as `is_tag`, for the document of the API.
pub(crate) const PATTERN: &str = "^[A-Za-z0-9_.:/-]{1,32}$";

/// Where the tags of a record stand.
pub(crate) fn file(record: &Path) -> PathBuf {
    record.with_extension("tags")
}

/// The tags of a record; none when there is no file. Lines that are no tag are left out.
pub(crate) fn read(record: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file(record)).unwrap_or_default();
    let tags: BTreeSet<&str> = text.lines().map(str::trim).filter(|line| is_tag(line)).collect();
    tags.into_iter().map(str::to_string).take(TAGS_MAX).collect()
}

/// Replaces the tags of a record.
pub(crate) fn write(record: &Path, tags: &[String]) -> Result<(), Refusal> {
    if let Some(wrong) = tags.iter().find(|tag| !is_tag(tag)) {
        return Err(Refusal::wrong(format!(
            "`{wrong}` is no tag: write 1 to {LETTERS_MAX} letters, digits, `-`, `_`, `.`, `:` or `/`"
        )));
    }
    if tags.len() > TAGS_MAX {
        return Err(Refusal::wrong(format!("{} tags are more than the {TAGS_MAX} that a run can have", tags.len())));
    }
    let tags: BTreeSet<&str> = tags.iter().map(String::as_str).collect();
    let file = file(record);
    let text: String = tags.iter().map(|tag| format!("{tag}\n")).collect();
    replace(&file, &text).map_err(|e| Refusal::failed(format!("cannot write {}: {e}", file.display())))
}

/// Puts a whole file in the place of another; an empty one takes it away.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    if text.is_empty() {
        return match std::fs::remove_file(file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        };
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    fresh.write_all(text.as_bytes())?;
    fresh.persist(file)?;
    Ok(())
}

fn is_tag(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    (1..=LETTERS_MAX).contains(&text.len()) && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_kept_beside_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("access-log.lb.prony");
        assert!(read(&record).is_empty());
        let tags = |list: &[&str]| list.iter().map(|tag| (*tag).to_string()).collect::<Vec<_>>();
        write(&record, &tags(&["nightly", "v1.2", "nightly"])).unwrap();
        assert_eq!(read(&record), ["nightly", "v1.2"]);
        assert!(folder.path().join("access-log.lb.tags").exists());
        write(&record, &[]).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
        write(&record, &[]).unwrap();
    }

    #[test]
    fn what_is_no_tag_is_refused_and_never_read() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("a.prony");
        for wrong in ["", "two words", "a\nb", "<b>", "\u{e4}", &"x".repeat(33)] {
            assert!(write(&record, &[wrong.to_string()]).is_err(), "{wrong:?}");
        }
        let many: Vec<String> = (0..17).map(|i| i.to_string()).collect();
        assert!(write(&record, &many).is_err());
        std::fs::write(file(&record), "good\n<bad>\n\n").unwrap();
        assert_eq!(read(&record), ["good"]);
    }
}
