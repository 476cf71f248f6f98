//! An nginx configuration as a tree of directives, includes followed, each with its file and its bytes.
//!
//! Reads files, never writes. Invariant: every span lies within the text of its source.

use crate::sys;
use crate::token::{Kind, Token, meaning, tokens};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Blocks within blocks, and files within files. nginx's own nesting needs six; a guess with room.
const DEPTH_MAX: usize = 40;

/// Why a configuration is not known.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file of it could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unread {
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of it is not what nginx reads.
    #[error("{}:{line}: {message}", file.display())]
    Syntax {
        /// Which file.
        file: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// What is there.
        message: String,
    },
}

fn unread(path: &Path) -> impl FnOnce(io::Error) -> ConfigError {
    let path = path.to_path_buf();
    move |source| ConfigError::Unread { path, source }
}

/// A configuration: its files and its directives.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The main file first, then included ones in the order they were met; each file once.
    pub sources: Vec<Source>,
    /// Directives of the main context.
    pub root: Vec<Directive>,
}

/// One file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Without symbolic links, so that writing replaces the file and not the link.
    pub path: PathBuf,
    /// What is in it.
    pub text: Vec<u8>,
}

/// One directive. Those of an included file stand behind the `include` that named them, in the same list.
#[derive(Clone, Debug)]
pub struct Directive {
    /// Index of the file.
    pub source: usize,
    /// Its name.
    pub name: String,
    /// What its arguments mean, without quotes.
    pub args: Vec<String>,
    /// Bytes of the arguments, blanks between them included; empty and behind the name when there are none.
    pub args_span: Range<usize>,
    /// From the name to `;` or `}`, which is included.
    pub span: Range<usize>,
    /// Present when it ends in a block.
    pub block: Option<Block>,
}

/// What stands between `{` and `}`.
#[derive(Clone, Debug)]
pub struct Block {
    /// First byte behind `{`.
    pub open: usize,
    /// Its directives, included ones too.
    pub children: Vec<Directive>,
}

impl Directive {
    /// Directives of its block.
    pub fn children(&self) -> &[Self] {
        self.block.as_ref().map(|b| b.children.as_slice()).unwrap_or_default()
    }

    /// Directives of its block with a name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children().iter().filter(move |d| d.name == name)
    }
}

impl Config {
    /// Reads a configuration and all that it includes.
    pub fn read(main: &Path) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let dir = main.parent().unwrap_or(Path::new("/")).to_path_buf();
        config.root = config.file(main, &dir, 0)?;
        Ok(config)
    }

    /// Calls `visit` with every directive and the blocks around it, outermost first.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&[&'a Directive], &'a Directive)) {
        fn descend<'a>(
            list: &'a [Directive],
            around: &mut Vec<&'a Directive>,
            visit: &mut dyn FnMut(&[&'a Directive], &'a Directive),
        ) {
            for directive in list {
                visit(around, directive);
                around.push(directive);
                descend(directive.children(), around, visit);
                around.pop();
            }
        }
        descend(&self.root, &mut Vec::new(), visit);
    }

    /// Every directive of a name within the http block, with the blocks around it, outermost first.
    pub fn in_http(&self, name: &str) -> Vec<(Vec<&Directive>, &Directive)> {
        let mut found = Vec::new();
        self.walk(&mut |around, directive| {
            if directive.name == name && around.first().is_some_and(|top| top.name == "http") {
                found.push((around.to_vec(), directive));
            }
        });
        found
    }

    /// The file of a directive and its line, for messages.
    pub fn place(&self, directive: &Directive) -> (PathBuf, usize) {
        let source = &self.sources[directive.source];
        (source.path.clone(), line_of(&source.text, directive.span.start))
    }

    /// An error that points at a directive.
    pub fn error(&self, directive: &Directive, message: impl Into<String>) -> ConfigError {
        let (file, line) = self.place(directive);
        ConfigError::Syntax { file, line, message: message.into() }
    }

    fn file(&mut self, path: &Path, dir: &Path, depth: usize) -> Result<Vec<Directive>, ConfigError> {
        let path = fs::canonicalize(path).map_err(unread(path))?;
        let index = match self.sources.iter().position(|s| s.path == path) {
            Some(index) => index,
            None => {
                let text = fs::read(&path).map_err(unread(&path))?;
                self.sources.push(Source { path: path.clone(), text });
                self.sources.len() - 1
            }
        };
        let text = self.sources[index].text.clone();
        let mut parser = Parser { source: index, path: &path, text: &text, tokens: tokens(&text), next: 0 };
        let flat = parser.list(depth, false)?;
        self.follow(flat, dir, depth)
    }

    /// Puts the directives of included files behind each `include`.
    fn follow(&mut self, flat: Vec<Directive>, dir: &Path, depth: usize) -> Result<Vec<Directive>, ConfigError> {
        let mut list = Vec::with_capacity(flat.len());
        for mut directive in flat {
            if let Some(block) = directive.block.take() {
                let children = self.follow(block.children, dir, depth + 1)?;
                directive.block = Some(Block { children, ..block });
            }
            let pattern = (directive.name == "include").then(|| directive.args.first()).flatten().map(|p| dir.join(p));
            list.push(directive);
            let Some(pattern) = pattern else { continue };
            if depth >= DEPTH_MAX {
                let include = list.last().expect("it was just pushed");
                return Err(self.error(include, "files include each other without end"));
            }
            let is_glob = pattern.to_string_lossy().contains(['*', '?', '[']);
            let files = if is_glob { sys::glob(pattern.as_os_str()) } else { vec![pattern] };
            for file in files {
                list.extend(self.file(&file, dir, depth + 1)?);
            }
        }
        Ok(list)
    }
}

/// Line of a byte, counted from 1.
pub fn line_of(text: &[u8], at: usize) -> usize {
    1 + text[..at.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

struct Parser<'a> {
    source: usize,
    path: &'a Path,
    text: &'a [u8],
    tokens: Vec<Token>,
    next: usize,
}

impl Parser<'_> {
    fn advance(&mut self) -> Option<Token> {
        while let Some(token) = self.tokens.get(self.next) {
            self.next += 1;
            if !matches!(token.kind, Kind::Space | Kind::Comment) {
                return Some(token.clone());
            }
        }
        None
    }

    /// Directives up to the end of the file, or up to `}` when `within` a block.
    fn list(&mut self, depth: usize, within: bool) -> Result<Vec<Directive>, ConfigError> {
        let mut list = Vec::new();
        let mut words: Vec<Token> = Vec::new();
        while let Some(token) = self.advance() {
            match token.kind {
                Kind::Word => words.push(token),
                Kind::Semicolon => list.push(self.directive(std::mem::take(&mut words), &token)?),
                Kind::Open => {
                    let mut directive = self.directive(std::mem::take(&mut words), &token)?;
                    if depth >= DEPTH_MAX {
                        return Err(self.error(token.span.start, "blocks are nested too deep to be meant"));
                    }
                    let children = self.body(&directive.name, depth)?;
                    directive.span.end = self.tokens[self.next - 1].span.end;
                    directive.block = Some(Block { open: token.span.end, children });
                    list.push(directive);
                }
                Kind::Close if !within => return Err(self.error(token.span.start, "unexpected `}`")),
                Kind::Close if !words.is_empty() => {
                    return Err(self.error(token.span.start, "unexpected `}`: the directive before it has no `;`"));
                }
                Kind::Close => return Ok(list),
                Kind::Space | Kind::Comment => {}
            }
        }
        if within || !words.is_empty() {
            return Err(self.error(self.text.len(), "the file ends within a directive: `;` or `}` is missing"));
        }
        Ok(list)
    }

    /// What is within a block. Lua is not ours to read: its braces are counted and that is all.
    fn body(&mut self, name: &str, depth: usize) -> Result<Vec<Directive>, ConfigError> {
        if !name.ends_with("_by_lua_block") {
            return self.list(depth + 1, true);
        }
        let mut open = 1;
        while let Some(token) = self.advance() {
            open += i32::from(token.kind == Kind::Open) - i32::from(token.kind == Kind::Close);
            if open == 0 {
                return Ok(Vec::new());
            }
        }
        Err(self.error(self.text.len(), "the file ends within a Lua block"))
    }

    fn directive(&self, words: Vec<Token>, end: &Token) -> Result<Directive, ConfigError> {
        let Some((name, args)) = words.split_first() else {
            let seen = String::from_utf8_lossy(&self.text[end.span.clone()]).into_owned();
            return Err(self.error(end.span.start, format!("unexpected `{seen}`")));
        };
        let args_span = match (args.first(), args.last()) {
            (Some(first), Some(last)) => first.span.start..last.span.end,
            _ => name.span.end..name.span.end,
        };
        Ok(Directive {
            source: self.source,
            name: meaning(&self.text[name.span.clone()]),
            args: args.iter().map(|a| meaning(&self.text[a.span.clone()])).collect(),
            args_span,
            span: name.span.start..end.span.end,
            block: None,
        })
    }

    fn error(&self, at: usize, message: impl Into<String>) -> ConfigError {
        ConfigError::Syntax { file: self.path.to_path_buf(), line: line_of(self.text, at), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("nginx.conf"), text).unwrap();
        fs::create_dir(dir.path().join("conf.d")).unwrap();
        fs::write(dir.path().join("conf.d/b.conf"), "server { listen 82; }").unwrap();
        fs::write(dir.path().join("conf.d/a.conf"), "server { listen 81; }").unwrap();
        fs::write(dir.path().join("loop.conf"), "include loop.conf;").unwrap();
        Config::read(&dir.path().join("nginx.conf"))
    }

    fn check(text: &str, want: Expect) {
        match read(text) {
            Ok(config) => {
                let mut lines = String::new();
                config.walk(&mut |around, d| {
                    lines += &format!("{}{} {:?} @{}\n", "  ".repeat(around.len()), d.name, d.args, d.source);
                });
                want.assert_eq(&lines);
            }
            Err(ConfigError::Syntax { line, message, .. }) => want.assert_eq(&format!("line {line}: {message}")),
            Err(other) => want.assert_eq(&other.to_string().replace(std::env::temp_dir().to_str().unwrap(), "TMP")),
        }
    }

    #[test]
    fn reads_a_tree_and_follows_includes() {
        check(
            "user root;\nhttp { # c\n include conf.d/*.conf;\n map $a $b { default \"\"; ~*(x|y) z; }\n include none/*;\n}",
            expect![[r#"
                user ["root"] @0
                http [] @0
                  include ["conf.d/*.conf"] @0
                  server [] @1
                    listen ["81"] @1
                  server [] @2
                    listen ["82"] @2
                  map ["$a", "$b"] @0
                    default [""] @0
                    ~*(x|y) ["z"] @0
                  include ["none/*"] @0
            "#]],
        );
        check(
            "content_by_lua_block { if a then b = { 1 } end } x;",
            expect![[r#"
            content_by_lua_block [] @0
            x [] @0
        "#]],
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        check("http {\n}\n}", expect!["line 3: unexpected `}`"]);
        check("http {\n a b\n}", expect!["line 3: unexpected `}`: the directive before it has no `;`"]);
        check("http {\n a b;\n", expect!["line 3: the file ends within a directive: `;` or `}` is missing"]);
        check("\n;", expect!["line 2: unexpected `;`"]);
        check("include loop.conf;", expect!["line 1: files include each other without end"]);
        check(&"a{".repeat(5000), expect!["line 1: blocks are nested too deep to be meant"]);
    }

    #[test]
    fn reads_what_debian_installs() {
        let main = Path::new("/etc/nginx/nginx.conf");
        if !main.exists() {
            eprintln!("skipped: nginx is not installed");
            return;
        }
        let config = Config::read(main).unwrap();
        assert!(config.root.iter().any(|d| d.name == "http"));
        for source in &config.sources {
            let printed: Vec<u8> =
                tokens(&source.text).iter().flat_map(|t| source.text[t.span.clone()].to_vec()).collect();
            assert_eq!(printed, source.text, "{}", source.path.display());
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_spans_stay_inside(text in "([a-c]{1,3}|[;{}#\"'\\\\$ \n]){0,60}") {
            if let Ok(config) = read(&text) {
                config.walk(&mut |_, d| {
                    let whole = &config.sources[d.source].text;
                    assert!(d.span.end <= whole.len() && d.args_span.end <= d.span.end);
                    assert!(matches!(whole[d.span.end - 1], b';' | b'}'));
                });
            }
        }
    }
}
