//! The tool `Grep`: searches files for a regular expression, with ripgrep's libraries.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use globset::GlobMatcher;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::json;

use super::grep_search::{OutputMode, Search, SearchResults};
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::file_access::FileAccess;
use crate::workspace::files::walk;
use crate::workspace::files::walk::{IgnoredFiles, WalkCoverage};
use crate::workspace::session::WorkspaceSession;

/// The default and maximum number of results.
const DEFAULT_LIMIT: usize = 250;
const MAX_LIMIT: usize = 5000;
/// The maximum number of context lines.
const MAX_CONTEXT_LINES: usize = 50;
/// Memory limits of a search.
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
        mode: it.output_mode,
        access,
        matcher,
        searcher: build_searcher(it),
        limit: it.head_limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        results: SearchResults::default(),
    };
    let coverage = if is_folder {
        let ignored = IgnoredFiles::from_flag(it.include_ignored);
        walk::walk_files(&access.context, &start, ignored, types, |entry| {
            let fits = filter
                .as_ref()
                .is_none_or(|it| it.is_match(walk::relative_to(entry.path(), folder)));
            match fits {
                true => search.search_path(entry.path()),
                false => ControlFlow::Continue(()),
            }
        })?
    } else {
        // A file that was named explicitly gets an error message.
        start.open()?;
        match search.search_file(&start) {
            ControlFlow::Continue(()) => WalkCoverage::Complete,
            ControlFlow::Break(()) => WalkCoverage::StoppedByVisitor,
        }
    };
    Ok(search.into_output(coverage))
}

/// Compiles a glob. Without a slash it matches in any folder, as in ripgrep.
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
    builder
        .build(&it.pattern)
        .map_err(|error| HandlerError::failed(format!("invalid regular expression: {error}")))
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
