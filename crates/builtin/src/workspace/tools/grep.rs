//! `Grep`: looks for a regular expression in files, with ripgrep's libraries.

use std::fmt::Write;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::files::allowed_roots::ResolvedPath;
use crate::workspace::files::walk;
use crate::workspace::files::walk::{IgnoredFiles, WalkCoverage};
use crate::workspace::session::{FileAccess, WorkspaceSession};

/// How many results are shown unless told otherwise, and at most.
const DEFAULT_LIMIT: usize = 250;
const MAX_LIMIT: usize = 5000;
/// How much is shown in all, in bytes.
const MAX_OUTPUT_BYTES: usize = 200_000;
/// How many characters of a line are shown.
const MAX_LINE_LENGTH: usize = 500;
/// How many lines around a match are shown at most.
const MAX_CONTEXT_LINES: usize = 50;
/// Larger files are passed over.
const MAX_FILE_SIZE: i64 = 64 * 1024 * 1024;
/// What a search may take in memory.
const MAX_HEAP: usize = 128 * 1024 * 1024;
const MAX_REGEX_SIZE: usize = 10 * 1024 * 1024;

#[derive(Deserialize)]
struct GrepArguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(rename = "type")]
    file_type: Option<String>,
    #[serde(default)]
    output_mode: OutputMode,
    #[serde(default, alias = "-i")]
    ignore_case: bool,
    #[serde(default)]
    multiline: bool,
    #[serde(alias = "-B")]
    before: Option<usize>,
    #[serde(alias = "-A")]
    after: Option<usize>,
    #[serde(alias = "-C")]
    context: Option<usize>,
    head_limit: Option<usize>,
    include_ignored: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    Content,
    #[default]
    #[serde(alias = "files")]
    FilesWithMatches,
    Count,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let grep = move |context: HandlerContext, it: GrepArguments| {
        let session = session.clone();
        async move { session.run_blocking(context, move |access| grep(&access, &it)).await }
    };
    let description = "Looks for a regular expression (Rust's syntax, as ripgrep has it) in files. `output_mode` says what \
        is shown: the files, those that were changed last first; the lines; or how many lines each file has. What ignore \
        files name, `.git` and binary files are left out.";
    let around = json!({"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT_LINES});
    Tool::new("Grep", description, grep)
        .title("Search in files")
        .input_schema(
            json!({
                "pattern": {"type": "string", "description": "The regular expression."},
                "path": {"type": "string", "description": "The folder or file to look in; the first allowed folder otherwise."},
                "glob": {"type": "string", "description": "Only files that fit, such as `*.rs` or `src/**/*.ts`."},
                "type": {"type": "string", "description": "Only files of a kind that ripgrep knows, such as `rust`, `py` or `js`."},
                "output_mode": {"enum": ["files_with_matches", "content", "count"], "default": "files_with_matches"},
                "ignore_case": {"type": "boolean", "default": false},
                "multiline": {"type": "boolean", "default": false, "description": "Let a match go over several lines; `.` also means a line's end."},
                "before": around,
                "after": around,
                "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT_LINES, "description": "Lines to show before and after each match."},
                "head_limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT, "description": "How many files or lines to show."},
                "include_ignored": {"type": "boolean", "default": false, "description": "Also what ignore files name."},
            }),
            &["pattern"],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "mode": {"enum": ["files_with_matches", "content", "count"]},
                "files": {"type": "array", "items": {"type": "string"}},
                "counts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
                        "required": ["path", "count"],
                        "additionalProperties": false,
                    },
                },
                "lines": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "path": {"type": "string"},
                            "line": {"type": "integer", "minimum": 1},
                            "text": {"type": "string"},
                            "match": {"type": "boolean", "description": "Is it a match, or a line beside one?"},
                        },
                        "required": ["path", "line", "text", "match"],
                        "additionalProperties": false,
                    },
                },
                "truncated": {"type": "boolean", "description": "Is there more than is shown?"},
            },
            "required": ["mode", "truncated"],
            "additionalProperties": false,
        }))
        .read_only()
}

fn grep(access: &FileAccess, it: &GrepArguments) -> Result<ToolOutput, HandlerError> {
    let start = access.resolve_start(it.path.as_deref())?;
    let matcher = build_matcher(it)?;
    let is_folder = start.is_dir()?;
    let folder = match is_folder {
        true => start.path.as_path(),
        false => start.path.parent().unwrap_or(&start.path),
    };
    let filter = it.glob.as_deref().map(|glob| glob_filter(glob, folder)).transpose()?;
    let types = it.file_type.as_deref().map(file_types).transpose()?;
    let mut search = Search {
        arguments: it,
        access,
        matcher,
        searcher: build_searcher(it),
        limit: it.head_limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        results: SearchResults::default(),
    };
    let coverage = if is_folder {
        let ignored = IgnoredFiles::from_flag(it.include_ignored);
        walk::walk_files(access, &start, ignored, types, |entry| {
            let fits = filter
                .as_ref()
                .is_none_or(|it| it.is_match(walk::relative_to(entry.path(), folder)));
            match fits {
                true => search.search_path(entry.path()),
                false => ControlFlow::Continue(()),
            }
        })?
    } else {
        // Whoever names a file is told why it cannot be searched.
        start.open()?;
        match search.search_file(&start) {
            ControlFlow::Continue(()) => WalkCoverage::Complete,
            ControlFlow::Break(()) => WalkCoverage::StoppedByVisitor,
        }
    };
    Ok(search.into_output(coverage))
}

/// A pattern without a slash fits in any folder, as ripgrep has it.
fn glob_filter(glob: &str, folder: &Path) -> Result<GlobMatcher, HandlerError> {
    match glob.contains('/') {
        true => walk::compile_glob(glob, folder),
        false => walk::compile_glob(&format!("**/{glob}"), folder),
    }
}

fn build_matcher(it: &GrepArguments) -> Result<RegexMatcher, HandlerError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(it.ignore_case)
        .multi_line(true)
        .size_limit(MAX_REGEX_SIZE)
        .dfa_size_limit(MAX_REGEX_SIZE);
    match it.multiline {
        true => builder.dot_matches_new_line(true),
        false => builder.crlf(true),
    };
    builder.build(&it.pattern).map_err(|error| {
        HandlerError::failed(format!("the regular expression makes no sense: {error}"))
    })
}

fn build_searcher(it: &GrepArguments) -> Searcher {
    let around = |own: Option<usize>| match it.output_mode {
        OutputMode::Content => own.or(it.context).unwrap_or(0).min(MAX_CONTEXT_LINES),
        OutputMode::FilesWithMatches | OutputMode::Count => 0,
    };
    let ends = match it.multiline {
        true => LineTerminator::byte(b'\n'),
        false => LineTerminator::crlf(),
    };
    SearcherBuilder::new()
        .line_terminator(ends)
        .line_number(true)
        .multi_line(it.multiline)
        .before_context(around(it.before))
        .after_context(around(it.after))
        .heap_limit(Some(MAX_HEAP))
        .binary_detection(BinaryDetection::quit(0))
        .build()
}

fn file_types(name: &str) -> Result<Types, HandlerError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder.build().map_err(|_| {
        let known: Vec<String> =
            builder.definitions().iter().map(|it| it.name().to_owned()).collect();
        let near = known
            .iter()
            .map(|it| (strsim::jaro_winkler(name, it), it))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, it)| format!("; did you mean `{it}`?"));
        HandlerError::failed(format!("there is no file type `{name}`{}", near.unwrap_or_default()))
    })
}

/// A search while it goes on.
struct Search<'a> {
    arguments: &'a GrepArguments,
    access: &'a FileAccess,
    matcher: RegexMatcher,
    searcher: Searcher,
    limit: usize,
    results: SearchResults,
}

/// What was found so far.
#[derive(Default)]
struct SearchResults {
    files: Vec<(SystemTime, String)>,
    counts: Vec<(String, u64)>,
    lines: Vec<MatchedLine>,
    /// What the lines take, in bytes.
    byte_count: usize,
    is_truncated: bool,
}

struct MatchedLine {
    path: Arc<str>,
    number: u64,
    text: String,
    is_match: bool,
    /// Is there a gap before it?
    follows_gap: bool,
}

impl Search<'_> {
    fn search_path(&mut self, path: &Path) -> ControlFlow<()> {
        let Some(Ok(resolved)) = path.to_str().map(|path| self.access.resolve(path)) else {
            return ControlFlow::Continue(());
        };
        self.search_file(&resolved)
    }

    /// Files that cannot be read are passed over.
    fn search_file(&mut self, resolved: &ResolvedPath) -> ControlFlow<()> {
        let Ok(opened) = resolved.open() else { return ControlFlow::Continue(()) };
        if opened.stat.st_size > MAX_FILE_SIZE {
            return ControlFlow::Continue(());
        }
        let path: Arc<str> = resolved.path.display().to_string().into();
        let mut sink = MatchCollector {
            mode: self.arguments.output_mode,
            path: path.clone(),
            limit: self.limit,
            results: &mut self.results,
            count: 0,
            follows_gap: false,
        };
        // One that cannot be read to its end has what was found until then.
        let _read_to_the_end = self.searcher.search_file(&self.matcher, &opened.file, &mut sink);
        let count = sink.count;
        if count > 0 {
            match self.arguments.output_mode {
                OutputMode::Content => {}
                OutputMode::Count => self.results.counts.push((path.to_string(), count)),
                OutputMode::FilesWithMatches => {
                    let changed = opened.file.metadata().ok().and_then(|it| it.modified().ok());
                    let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
                    self.results.files.push((changed, path.to_string()));
                }
            }
        }
        let is_full = match self.arguments.output_mode {
            OutputMode::Content => self.results.is_truncated,
            OutputMode::Count | OutputMode::FilesWithMatches => {
                self.results.counts.len() + self.results.files.len() >= 100_000
            }
        };
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn into_output(mut self, coverage: WalkCoverage) -> ToolOutput {
        let mut is_truncated = self.results.is_truncated || coverage != WalkCoverage::Complete;
        let (mut structured, mut text_output) = match self.arguments.output_mode {
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
            text_output.push_str("nothing was found\n");
        }
        if is_truncated {
            text_output.push_str("(there is more; narrow the search, or raise `head_limit`)\n");
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

    /// As ripgrep prints it: a colon behind the number of a match, a dash behind that of a line beside one.
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

/// Takes what a searcher finds in one file.
struct MatchCollector<'a> {
    mode: OutputMode,
    path: Arc<str>,
    limit: usize,
    results: &'a mut SearchResults,
    count: u64,
    follows_gap: bool,
}

impl MatchCollector<'_> {
    /// Is there room for more?
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
