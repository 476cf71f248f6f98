//! Stack files that may be read, checked and changed: those of the folders that the server was given, and no others.
//!
//! Invariant: a file is replaced as a whole, and only by someone who has seen what it replaces. A base is read only from folders
//! that the server was given, so that no message tells what stands in other files.

use crate::api::{CheckMessage, Checked, StackFile, StackFiles, StackText};
use crate::experiments::toml_files;
use crate::refusal::Refusal;
use prony_model::{InputError, Stack};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Letters of the name of a new file. A guess.
const NAME_MAX: usize = 64;

/// Folders of stack files.
pub(crate) struct Stacks {
    /// As they were named.
    folders: Vec<PathBuf>,
    /// Folders that a base may be in, without symbolic links.
    bases: Vec<PathBuf>,
}

impl Stacks {
    /// `more`: folders that a base may be in as well.
    pub fn new(folders: Vec<PathBuf>, more: &[PathBuf]) -> Self {
        let bases = folders.iter().chain(more).filter_map(|folder| folder.canonicalize().ok()).collect();
        Self { folders, bases }
    }

    /// Whether there is any folder.
    pub fn can_edit(&self) -> bool {
        !self.folders.is_empty()
    }

    /// All of them.
    pub fn list(&self) -> StackFiles {
        let files = self.files().into_iter().map(|path| {
            let file = path.display().to_string();
            let checked = std::fs::read_to_string(&path).map(|text| self.parse(&file, &text));
            let (name, wrong) = match checked {
                Ok(Ok(stack)) => (stack.title().to_string(), None),
                Ok(Err(e)) => (String::new(), Some(e.to_string())),
                Err(e) => (String::new(), Some(format!("{file}: {e}"))),
            };
            StackFile { file, name, wrong }
        });
        let folders = self.folders.iter().map(|folder| folder.display().to_string()).collect();
        StackFiles { files: files.collect(), folders }
    }

    /// The text of one.
    pub fn read(&self, file: &str) -> Result<StackText, Refusal> {
        let path = self.find(file).ok_or_else(|| unknown(file))?;
        let text = std::fs::read_to_string(&path).map_err(|e| Refusal::failed(format!("{file}: {e}")))?;
        Ok(StackText { file: file.to_string(), version: version(&text), text })
    }

    /// Replaces one, or makes a new one; says what is wrong with it.
    pub fn write(&self, file: &str, text: &str, seen: &str) -> Result<Checked, Refusal> {
        let target = match self.find(file) {
            Some(path) => {
                let now = std::fs::read_to_string(&path).map_err(|e| Refusal::failed(format!("{file}: {e}")))?;
                if version(&now) != seen {
                    let text = format!("{file} was changed by someone else meanwhile: load it again, then change that");
                    return Err(Refusal::conflict(text));
                }
                // What a symbolic link leads to is replaced, not the link.
                path.canonicalize().map_err(|e| Refusal::failed(format!("{file}: {e}")))?
            }
            None if seen.is_empty() => self.fresh(file)?,
            None => return Err(unknown(file)),
        };
        replace(&target, text).map_err(|e| Refusal::failed(format!("cannot write {file}: {e}")))?;
        Ok(Checked { version: version(text), ..self.check(file, text) })
    }

    /// What is wrong with a text, were it this file.
    pub fn check(&self, file: &str, text: &str) -> Checked {
        match self.parse(file, text) {
            Ok(stack) => {
                Checked { right: true, messages: Vec::new(), summary: summary(&stack), version: String::new() }
            }
            Err(InputError { file: at, line, message }) => {
                let line = if line == 0 && at == file { line_of(text, &message) } else { line };
                let messages = vec![CheckMessage { file: at, line: line as u32, text: message }];
                Checked { right: false, messages, summary: String::new(), version: String::new() }
            }
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        self.folders.iter().flat_map(|folder| toml_files(folder)).collect()
    }

    fn find(&self, file: &str) -> Option<PathBuf> {
        self.files().into_iter().find(|path| path.display().to_string() == file)
    }

    /// A name for a new file in one of the folders.
    fn fresh(&self, file: &str) -> Result<PathBuf, Refusal> {
        let name = |folder: &PathBuf| {
            let name = file.strip_prefix(&folder.display().to_string())?.strip_prefix('/')?;
            let stem = name.strip_suffix(".toml")?;
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let right = (1..=NAME_MAX).contains(&stem.len()) && stem.chars().all(fits);
            right.then(|| folder.join(name))
        };
        let path = self.folders.iter().find_map(name);
        path.filter(|path| !path.exists()).ok_or_else(|| {
            let folders: Vec<String> = self.folders.iter().map(|f| format!("{}/NAME.toml", f.display())).collect();
            let example = if folders.is_empty() {
                "this server was started without --stacks DIR".to_string()
            } else {
                format!("write {}, the name of letters, digits, `-` and `_`", folders.join(" or "))
            };
            Refusal::missing(format!("`{file}` is no stack file of this server, and no name for a new one: {example}"))
        })
    }

    fn parse(&self, file: &str, text: &str) -> Result<Stack, InputError> {
        let layers = Stack::layers(file.to_string(), text.to_string(), |file, base| self.base(file, base))?;
        Stack::parse_layers(&layers)
    }

    /// Reads a base, if it is in a folder that the server was given.
    fn base(&self, file: &str, base: &str) -> Result<(String, String), InputError> {
        let path = Path::new(file).with_file_name(base);
        let wrong = |message: String| InputError::whole(file, message);
        // Whether a file elsewhere is there is not told either.
        let elsewhere = || {
            wrong(format!(
                "`base` names {base}, which is in none of the folders that this server may read: add --stacks DIR"
            ))
        };
        let real = path.canonicalize().map_err(|_| elsewhere())?;
        if !self.bases.iter().any(|folder| real.starts_with(folder)) || real.extension().is_none_or(|e| e != "toml") {
            return Err(elsewhere());
        }
        let text = std::fs::read_to_string(&real).map_err(|e| wrong(format!("`base` names {base}: {e}")))?;
        Ok((path.display().to_string(), text))
    }
}

fn unknown(file: &str) -> Refusal {
    Refusal::missing(format!("`{file}` is no stack file of this server"))
}

/// Tells texts apart; not a secret.
fn version(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut fresh = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    fresh.write_all(text.as_bytes())?;
    // Others may read what they could read before; a new file is the owner's alone.
    if let Ok(before) = std::fs::metadata(path) {
        fresh.as_file().set_permissions(before.permissions())?;
    }
    fresh.persist(path)?;
    Ok(())
}

/// `nginx proxy: lb, s1, s2; 128 connections to http://10.77.0.2/`.
fn summary(stack: &Stack) -> String {
    let hosts = stack.path().join(", ");
    let hosts = if hosts.is_empty() { String::new() } else { format!(": {hosts}") };
    let name = if stack.name.is_empty() { "stack" } else { &stack.name };
    format!("{name}{hosts}; {} connections to {}", stack.workload.connections, stack.entry)
}

/// Where a message that is about the whole file belongs: the line of the key that it names first, like `host.lb.calls`; 0 when
/// the file does not say it in so many words.
fn line_of(text: &str, message: &str) -> usize {
    let key = message.split('`').nth(1).unwrap_or_default();
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut now = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            now = line.split('#').next().unwrap_or(line).trim().trim_matches(['[', ']']);
        }
        let is_key = now == table && line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='));
        if !key.is_empty() && (is_key || (line.starts_with('[') && now == key)) {
            return number + 1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const STACK: &str = "entry = \"http://a/\"\n\n[host.lb]\ncalls = [\"s1\"]\n\n[host.s1]\n";

    fn stacks(folder: &Path) -> Stacks {
        std::fs::write(folder.join("shop.toml"), STACK).unwrap();
        Stacks::new(vec![folder.to_path_buf()], &[])
    }

    fn check(text: &str, want: Expect) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new.toml").display().to_string();
        let checked = stacks(folder.path()).check(&file, text);
        let messages = checked.messages.iter().map(|m| format!("{}: {}\n", m.line, m.text));
        want.assert_eq(&messages.collect::<String>().replace(&folder.path().display().to_string(), "DIR"));
    }

    #[test]
    fn mistakes_stand_at_their_lines() {
        check(STACK, expect![""]);
        check(
            "entry = \"http://a/\"\n[slo]\np99 = \"10\"\n",
            expect![[r#"
            3: `10` is not a duration: write it with ns, us, ms, s, m or h, like `10ms`
        "#]],
        );
        check(
            &STACK.replace("\"s1\"", "\"s2\""),
            expect![[r#"
            4: `host.lb.calls` names `s2`, which is no host of this stack; did you mean `s1`?
        "#]],
        );
        check(
            "name = \"x\"\n",
            expect![[r#"
            0: `entry` is missing: the URL that clients ask for, like `http://10.77.0.2/`
        "#]],
        );
        check(
            "entry = \"http://a/\"\n[workload]\nconnections = 0\n",
            expect![[r#"
            3: `workload.connections` is 0: at least one connection is needed
        "#]],
        );
        check("base = \"shop.toml\"\n[host.lb]\ncpus = \"0\"\n", expect![""]);
        check(
            "name = \"x\"\nbase = \"/etc/passwd\"\n",
            expect![[r#"
            2: `base` names /etc/passwd, which is in none of the folders that this server may read: add --stacks DIR
        "#]],
        );
        check(
            "base = \"../nothing.toml\"\n",
            expect![[r#"
            1: `base` names ../nothing.toml, which is in none of the folders that this server may read: add --stacks DIR
        "#]],
        );
    }

    #[test]
    fn a_link_does_not_lead_out_of_the_folders() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = other.path().join("secret.toml");
        std::fs::write(&secret, "password = 1\n").unwrap();
        std::os::unix::fs::symlink(&secret, folder.path().join("link.toml")).unwrap();
        let stacks = stacks(folder.path());
        let file = folder.path().join("new.toml").display().to_string();
        let checked = stacks.check(&file, "base = \"link.toml\"\n");
        assert!(checked.messages[0].text.contains("in none of the folders"), "{:?}", checked.messages);
    }

    #[test]
    fn a_file_is_changed_only_by_who_has_seen_it() {
        let folder = tempfile::tempdir().unwrap();
        let stacks = stacks(folder.path());
        let file = folder.path().join("shop.toml").display().to_string();
        let first = stacks.read(&file).unwrap();
        assert_eq!(first.text, STACK);
        let changed = format!("name = \"shop\"\n{STACK}");
        let checked = stacks.write(&file, &changed, &first.version).unwrap();
        assert!(checked.right && checked.summary == "shop: lb, s1; 64 connections to http://a/", "{}", checked.summary);
        let refused = stacks.write(&file, STACK, &first.version).err().unwrap();
        assert!(refused.error.contains("changed by someone else"), "{}", refused.error);
        assert_eq!(stacks.read(&file).unwrap().version, checked.version);
        assert_eq!(stacks.list().files[0].name, "shop");
    }

    #[test]
    fn new_files_are_made_in_the_folders_alone() {
        let folder = tempfile::tempdir().unwrap();
        let stacks = stacks(folder.path());
        let named = |name: &str| format!("{}/{name}", folder.path().display());
        assert!(!stacks.write(&named("new.toml"), "entry = 1\n", "").unwrap().right, "a draft may be wrong");
        assert_eq!(stacks.list().files.len(), 2);
        for wrong in ["../x.toml", "a/b.toml", "x.sh", ".toml", "a b.toml", "x.toml/../y.toml", "\u{e4}.toml"] {
            let refused = stacks.write(&named(wrong), STACK, "").err().unwrap();
            assert!(refused.error.contains("no name for a new one: write "), "{wrong}: {}", refused.error);
        }
        assert!(stacks.write("/etc/new.toml", STACK, "").is_err());
        assert!(stacks.read("/etc/passwd").is_err());
        assert_eq!(stacks.read(&named("new.toml")).unwrap().text, "entry = 1\n");
    }
}
