//! Where a value was written: the source it stands in, and the line and column there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::scope::Scope;

/// One file, argument or program that configuration was read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The scope it feeds.
    pub scope: Scope,
    /// What was read.
    pub kind: SourceKind,
}

/// What a source is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// A file, by the path it was found at.
    File(PathBuf),
    /// The n-th inline JSON given on the command line, from 1.
    Inline(usize),
    /// An embedding program, by the name it gave itself.
    Program(String),
}

impl Source {
    /// A file of the given scope.
    pub fn file(scope: Scope, path: impl Into<PathBuf>) -> Arc<Source> {
        Arc::new(Source { scope, kind: SourceKind::File(path.into()) })
    }

    /// Inline JSON from the command line.
    pub fn inline(ordinal: usize) -> Arc<Source> {
        Arc::new(Source { scope: Scope::Dynamic, kind: SourceKind::Inline(ordinal) })
    }

    /// Entries handed over by an embedding program.
    pub fn program(scope: Scope, name: &str) -> Arc<Source> {
        Arc::new(Source { scope, kind: SourceKind::Program(name.to_owned()) })
    }

    /// A text that names this source and no other, for keys in files of our own.
    pub fn key(&self) -> String {
        match &self.kind {
            SourceKind::File(path) => path_key(path),
            SourceKind::Inline(_) | SourceKind::Program(_) => self.to_string(),
        }
    }

    /// The file's path, where the source is a file.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            SourceKind::File(path) => Some(path),
            SourceKind::Inline(_) | SourceKind::Program(_) => None,
        }
    }
}

/// A text that names this path and no other: itself, or, where it is no text, its bytes escaped.
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

/// A source and, where it is text, the position in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// What was read.
    pub source: Arc<Source>,
    /// Where in it.
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

/// Whose word a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// Managed settings.
    Administrator,
    /// User and local settings.
    User,
}
