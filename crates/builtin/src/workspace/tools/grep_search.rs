//! The search of `Grep`: collects matches from files and renders them as files, lines or counts.

use std::fmt::Write;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::kit::tool_output::ToolOutput;
use crate::workspace::file_access::FileAccess;
use crate::workspace::files::resolved_path::ResolvedPath;
use crate::workspace::files::walk::WalkCoverage;

/// The maximum size of the output, in bytes.
const MAX_OUTPUT_BYTES: usize = 200_000;
/// The maximum length of a shown line, in characters.
const MAX_LINE_LENGTH: usize = 500;
/// Larger files are skipped.
const MAX_FILE_SIZE: i64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputMode {
    Content,
    #[default]
    #[serde(alias = "files")]
    FilesWithMatches,
    Count,
}

/// A running search.
pub(super) struct Search<'a> {
    pub(super) mode: OutputMode,
    pub(super) access: &'a FileAccess,
    pub(super) matcher: RegexMatcher,
    pub(super) searcher: Searcher,
    pub(super) limit: usize,
    pub(super) results: SearchResults,
}

/// The results so far.
#[derive(Default)]
pub(super) struct SearchResults {
    files: Vec<(SystemTime, String)>,
    counts: Vec<(String, u64)>,
    lines: Vec<MatchedLine>,
    /// The size of the lines, in bytes.
    byte_count: usize,
    is_truncated: bool,
}

struct MatchedLine {
    path: Arc<str>,
    number: u64,
    text: String,
    is_match: bool,
    /// Whether there is a gap before the line.
    follows_gap: bool,
}

impl Search<'_> {
    pub(super) fn search_path(&mut self, path: &Path) -> ControlFlow<()> {
        let Some(Ok(resolved)) = path.to_str().map(|path| self.access.resolve(path)) else {
            return ControlFlow::Continue(());
        };
        self.search_file(&resolved)
    }

    /// Searches a file. Unreadable files are skipped.
    pub(super) fn search_file(&mut self, resolved: &ResolvedPath) -> ControlFlow<()> {
        let Ok(opened) = resolved.open() else { return ControlFlow::Continue(()) };
        if opened.stat.st_size > MAX_FILE_SIZE {
            return ControlFlow::Continue(());
        }
        let path: Arc<str> = resolved.path.display().to_string().into();
        let mut sink = MatchCollector {
            mode: self.mode,
            path: path.clone(),
            limit: self.limit,
            results: &mut self.results,
            count: 0,
            follows_gap: false,
        };
        // A file that fails midway keeps the matches found so far.
        let _read_to_the_end = self.searcher.search_file(&self.matcher, &opened.file, &mut sink);
        let count = sink.count;
        if count > 0 {
            match self.mode {
                OutputMode::Content => {}
                OutputMode::Count => self.results.counts.push((path.to_string(), count)),
                OutputMode::FilesWithMatches => {
                    let changed = opened.file.metadata().ok().and_then(|it| it.modified().ok());
                    let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
                    self.results.files.push((changed, path.to_string()));
                }
            }
        }
        let is_full = match self.mode {
            OutputMode::Content => self.results.is_truncated,
            OutputMode::Count | OutputMode::FilesWithMatches => {
                self.results.counts.len() + self.results.files.len() >= 100_000
            }
        };
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(super) fn into_output(mut self, coverage: WalkCoverage) -> ToolOutput {
        let mut is_truncated = self.results.is_truncated || coverage != WalkCoverage::Complete;
        let (mut structured, mut text_output) = match self.mode {
            OutputMode::Content => self.results.line_output(),
            OutputMode::Count => {
                is_truncated |= self.results.counts.len() > self.limit;
                self.results.counts.truncate(self.limit);
                self.results.count_output()
            }
            OutputMode::FilesWithMatches => {
                self.results.files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
                is_truncated |= self.results.files.len() > self.limit;
                self.results.files.truncate(self.limit);
                self.results.file_output()
            }
        };
        if text_output.is_empty() {
            text_output.push_str("no matches\n");
        }
        if is_truncated {
            text_output.push_str("(truncated; narrow the search, or raise `head_limit`)\n");
        }
        structured["truncated"] = json!(is_truncated);
        ToolOutput::structured(structured, text_output)
    }
}

impl SearchResults {
    fn file_output(&self) -> (Json, String) {
        let files: Vec<&str> = self.files.iter().map(|(_, path)| path.as_str()).collect();
        let text_output = files.iter().map(|file| format!("{file}\n")).collect();
        (json!({"mode": "files_with_matches", "files": files}), text_output)
    }

    fn count_output(&self) -> (Json, String) {
        let count = |(path, count): &(String, u64)| json!({"path": path, "count": count});
        let counts: Vec<Json> = self.counts.iter().map(count).collect();
        let text_output =
            self.counts.iter().map(|(path, count)| format!("{path}:{count}\n")).collect();
        (json!({"mode": "count", "counts": counts}), text_output)
    }

    /// Ripgrep's output format: a colon after the line number of a match, a dash after that of a context line.
    fn line_output(&self) -> (Json, String) {
        let mut text_output = String::new();
        for line in &self.lines {
            if line.follows_gap && !text_output.is_empty() {
                text_output.push_str("--\n");
            }
            let mark = if line.is_match { ':' } else { '-' };
            let _infallible =
                writeln!(text_output, "{}{mark}{}{mark}{}", line.path, line.number, line.text);
        }
        let line = |it: &MatchedLine| json!({"path": *it.path, "line": it.number, "text": it.text, "match": it.is_match});
        let lines: Vec<Json> = self.lines.iter().map(line).collect();
        (json!({"mode": "content", "lines": lines}), text_output)
    }
}

/// Collects the matches of one file.
struct MatchCollector<'a> {
    mode: OutputMode,
    path: Arc<str>,
    limit: usize,
    results: &'a mut SearchResults,
    count: u64,
    follows_gap: bool,
}

impl MatchCollector<'_> {
    /// Adds lines; `false` when a limit is reached.
    fn push_lines(&mut self, first: u64, bytes: &[u8], is_match: bool) -> bool {
        for (number, line) in (first..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let text = String::from_utf8_lossy(line);
            let text: String =
                text.trim_end_matches(['\n', '\r']).chars().take(MAX_LINE_LENGTH).collect();
            if self.results.lines.len() >= self.limit
                || self.results.byte_count + text.len() > MAX_OUTPUT_BYTES
            {
                self.results.is_truncated = true;
                return false;
            }
            self.results.byte_count += text.len() + self.path.len();
            let follows_gap = std::mem::take(&mut self.follows_gap);
            self.results.lines.push(MatchedLine {
                path: self.path.clone(),
                number,
                text,
                is_match,
                follows_gap,
            });
        }
        true
    }
}

impl Sink for MatchCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.count += 1;
        Ok(match self.mode {
            OutputMode::FilesWithMatches => false,
            OutputMode::Count => true,
            OutputMode::Content => {
                self.push_lines(found.line_number().unwrap_or(1), found.bytes(), true)
            }
        })
    }

    fn context(&mut self, _: &Searcher, beside: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.push_lines(beside.line_number().unwrap_or(1), beside.bytes(), false))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.follows_gap = true;
        Ok(true)
    }
}
