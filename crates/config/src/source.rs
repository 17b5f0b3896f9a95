//! The origin of a value: its source, and the line and column in it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::scope::Scope;

/// A file, argument or program that configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// Its scope.
    pub scope: Scope,
    /// The kind of source.
    pub kind: SourceKind,
}

/// The kind of a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// A file, by its path.
    File(PathBuf),
    /// The n-th inline JSON given on the command line, from 1.
    Inline(usize),
    /// The inline JSON of `--settings`.
    InlineSettings,
    /// An embedding program, by its own name.
    Program(String),
}

impl Source {
    /// Creates a source for a file.
    pub fn file(scope: Scope, path: impl Into<PathBuf>) -> Arc<Source> {
        Arc::new(Source { scope, kind: SourceKind::File(path.into()) })
    }

    /// Creates a source for inline JSON of the command line.
    pub fn inline(ordinal: usize) -> Arc<Source> {
        Arc::new(Source { scope: Scope::Dynamic, kind: SourceKind::Inline(ordinal) })
    }

    /// Creates a source for the inline JSON of `--settings`.
    pub fn inline_settings() -> Arc<Source> {
        Arc::new(Source { scope: Scope::Dynamic, kind: SourceKind::InlineSettings })
    }

    /// Creates a source for the entries of an embedding program.
    pub fn program(scope: Scope, name: &str) -> Arc<Source> {
        Arc::new(Source { scope, kind: SourceKind::Program(name.to_owned()) })
    }

    /// Returns a text that identifies the source, for keys in our own files.
    pub fn key(&self) -> String {
        match &self.kind {
            SourceKind::File(path) => path_key(path),
            SourceKind::Inline(_) | SourceKind::InlineSettings | SourceKind::Program(_) => {
                self.to_string()
            }
        }
    }

    /// Returns the path, if the source is a file.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            SourceKind::File(path) => Some(path),
            SourceKind::Inline(_) | SourceKind::InlineSettings | SourceKind::Program(_) => None,
        }
    }
}

/// Returns a text that identifies the path: the path itself, or its escaped bytes if it is not UTF-8.
pub fn path_key(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => format!("{path:?}"),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SourceKind::File(path) => write!(f, "{}", path.display()),
            SourceKind::Inline(ordinal) => write!(f, "--mcp-config #{ordinal}"),
            SourceKind::InlineSettings => f.write_str("--settings"),
            SourceKind::Program(name) => f.write_str(name),
        }
    }
}

/// A line and column, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A source and, if it is text, the position in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The source.
    pub source: Arc<Source>,
    /// The position in it.
    pub position: Option<Position>,
}

impl Origin {
    /// The scope of the source.
    pub fn scope(&self) -> Scope {
        self.source.scope
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(f, "{}:{}", self.source, position.line),
            None => write!(f, "{}", self.source),
        }
    }
}

/// The author of a list or rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// An administrator: managed settings.
    Administrator,
    /// The user: user and local settings.
    User,
}
