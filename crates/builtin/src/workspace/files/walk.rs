//! Walks the files below a folder like ripgrep: skips ignored files and follows no links. Stops when the call
//! is cancelled or a limit is reached.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder};

use super::resolved_path::ResolvedPath;
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;

/// The maximum number of entries.
const MAX_ENTRIES: usize = 500_000;
/// The timeout of a walk.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum length of a pattern.
const MAX_PATTERN_LENGTH: usize = 4096;

/// Whether files named by ignore files are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoredFiles {
    Skipped,
    Included,
}

impl IgnoredFiles {
    /// From the tools' argument.
    pub(crate) fn from_flag(include: Option<bool>) -> IgnoredFiles {
        match include {
            Some(true) => IgnoredFiles::Included,
            Some(false) | None => IgnoredFiles::Skipped,
        }
    }
}

/// Whether the walk visited everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkCoverage {
    /// All of it.
    Complete,
    /// A limit was reached.
    LimitReached,
    /// The visitor stopped the walk.
    StoppedByVisitor,
}

/// Calls `visit` for every regular file.
pub(crate) fn walk_files(
    context: &HandlerContext,
    start: &ResolvedPath,
    ignored: IgnoredFiles,
    types: Option<Types>,
    mut visit: impl FnMut(&DirEntry) -> ControlFlow<()>,
) -> Result<WalkCoverage, HandlerError> {
    let respect_ignore_files = ignored == IgnoredFiles::Skipped;
    let mut builder = WalkBuilder::new(&start.path);
    builder
        .standard_filters(respect_ignore_files)
        .hidden(false)
        // The user's global ignore file is in the home folder, which is not ours to read.
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| entry.file_name() != ".git");
    if let Some(types) = types {
        builder.types(types);
    }
    let deadline = Instant::now() + TIMEOUT;
    for (count, entry) in builder.build().enumerate() {
        if context.is_cancelled() {
            return Err(HandlerError::failed("the call was cancelled"));
        }
        if count >= MAX_ENTRIES || Instant::now() >= deadline {
            return Ok(WalkCoverage::LimitReached);
        }
        // Unreadable folders are skipped.
        let Ok(entry) = entry else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && visit(&entry).is_break() {
            return Ok(WalkCoverage::StoppedByVisitor);
        }
    }
    Ok(WalkCoverage::Complete)
}

/// Compiles a pattern for paths below a folder. An absolute pattern is made relative to it.
pub(crate) fn compile_glob(pattern: &str, start: &Path) -> Result<GlobMatcher, HandlerError> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN_LENGTH {
        return Err(HandlerError::failed(format!(
            "a pattern has from 1 to {MAX_PATTERN_LENGTH} bytes"
        )));
    }
    let from_start = start.to_str().and_then(|start| pattern.strip_prefix(start));
    let inside = from_start.map_or(pattern, |rest| rest.trim_start_matches('/'));
    let inside = inside.strip_prefix("./").unwrap_or(inside);
    let glob = GlobBuilder::new(inside).literal_separator(true).build();
    let glob = glob.map_err(|error| HandlerError::failed(format!("invalid pattern: {error}")))?;
    Ok(glob.compile_matcher())
}

/// A path relative to a folder.
pub(crate) fn relative_to<'p>(path: &'p Path, start: &Path) -> &'p Path {
    path.strip_prefix(start).unwrap_or(path)
}
