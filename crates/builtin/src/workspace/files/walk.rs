//! Goes through the files below a folder as ripgrep does: what ignore files name is left out, and no link is
//! followed. It ends when nobody waits any more, or when there is too much.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder};

use super::resolved_path::ResolvedPath;
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;

/// How many entries are looked at.
const MAX_ENTRIES: usize = 500_000;
/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest pattern.
const MAX_PATTERN_LENGTH: usize = 4096;

/// What becomes of files that ignore files name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoredFiles {
    Skipped,
    Included,
}

impl IgnoredFiles {
    /// From the argument that tools have for it.
    pub(crate) fn from_flag(include: Option<bool>) -> IgnoredFiles {
        match include {
            Some(true) => IgnoredFiles::Included,
            Some(false) | None => IgnoredFiles::Skipped,
        }
    }
}

/// Whether everything was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkCoverage {
    /// All of it.
    Complete,
    /// There was too much, or it took too long.
    LimitReached,
    /// Whoever looked had enough.
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
        // The person's own list is in their home, which is none of our business.
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
            return Err(HandlerError::failed("nobody waits for it any more"));
        }
        if count >= MAX_ENTRIES || Instant::now() >= deadline {
            return Ok(WalkCoverage::LimitReached);
        }
        // A folder that may not be looked into is passed over.
        let Ok(entry) = entry else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && visit(&entry).is_break() {
            return Ok(WalkCoverage::StoppedByVisitor);
        }
    }
    Ok(WalkCoverage::Complete)
}

/// A pattern for paths below a folder. An absolute one is taken from there on.
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
    let glob =
        glob.map_err(|error| HandlerError::failed(format!("the pattern makes no sense: {error}")))?;
    Ok(glob.compile_matcher())
}

/// A path as it is from a folder on.
pub(crate) fn relative_to<'p>(path: &'p Path, start: &Path) -> &'p Path {
    path.strip_prefix(start).unwrap_or(path)
}
