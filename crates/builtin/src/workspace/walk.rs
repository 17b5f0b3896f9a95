//! Goes through the files below a folder as ripgrep does: what ignore files name is left out, and no link is
//! followed. It ends when nobody waits any more, or when there is too much.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder};

use super::grounds::Spot;
use super::workplace::Turn;
use crate::refusal::Stop;

/// How many entries are looked at.
const MOST: usize = 500_000;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest pattern.
const LONGEST_PATTERN: usize = 4096;

/// What becomes of files that ignore files name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ignored {
    LeftOut,
    Included,
}

impl Ignored {
    /// From the argument that tools have for it.
    pub(super) fn from_flag(include: Option<bool>) -> Ignored {
        match include {
            Some(true) => Ignored::Included,
            Some(false) | None => Ignored::LeftOut,
        }
    }
}

/// Whether everything was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// All of it.
    Everything,
    /// There was too much, or it took too long.
    Part,
    /// Whoever looked had enough.
    Enough,
}

/// Calls `each` for every regular file.
pub(super) fn files(
    turn: &Turn,
    start: &Spot,
    ignored: Ignored,
    types: Option<Types>,
    mut each: impl FnMut(&DirEntry) -> ControlFlow<()>,
) -> Result<Seen, Stop> {
    let leave_out = ignored == Ignored::LeftOut;
    let mut builder = WalkBuilder::new(&start.path);
    builder
        .standard_filters(leave_out)
        .hidden(false)
        // The person's own list is in their home, which is none of our business.
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| entry.file_name() != ".git");
    if let Some(types) = types {
        builder.types(types);
    }
    let deadline = Instant::now() + PATIENCE;
    for (count, entry) in builder.build().enumerate() {
        if turn.context.is_cancelled() {
            return Err(Stop::failed("nobody waits for it any more"));
        }
        if count >= MOST || Instant::now() >= deadline {
            return Ok(Seen::Part);
        }
        // A folder that may not be looked into is passed over.
        let Ok(entry) = entry else { continue };
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if is_file && each(&entry).is_break() {
            return Ok(Seen::Enough);
        }
    }
    Ok(Seen::Everything)
}

/// A pattern for paths below a folder. An absolute one is taken from there on.
pub(super) fn pattern(pattern: &str, start: &Path) -> Result<GlobMatcher, Stop> {
    if pattern.is_empty() || pattern.len() > LONGEST_PATTERN {
        return Err(Stop::failed(format!("a pattern has from 1 to {LONGEST_PATTERN} bytes")));
    }
    let from_start = start.to_str().and_then(|start| pattern.strip_prefix(start));
    let inside = from_start.map_or(pattern, |rest| rest.trim_start_matches('/'));
    let inside = inside.strip_prefix("./").unwrap_or(inside);
    let glob = GlobBuilder::new(inside).literal_separator(true).build();
    let glob =
        glob.map_err(|error| Stop::failed(format!("the pattern makes no sense: {error}")))?;
    Ok(glob.compile_matcher())
}

/// A path as it is from a folder on.
pub(super) fn below<'p>(path: &'p Path, start: &Path) -> &'p Path {
    path.strip_prefix(start).unwrap_or(path)
}
