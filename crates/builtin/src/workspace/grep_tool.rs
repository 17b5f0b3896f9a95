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

use super::grounds::Spot;
use super::walk::{self, Ignored, Seen};
use super::workplace::{Turn, Workplace};
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

/// How many results are shown unless told otherwise, and at most.
const USUAL: usize = 250;
const MOST: usize = 5000;
/// How much is shown in all, in bytes.
const LARGEST: usize = 200_000;
/// How many characters of a line are shown.
const LONGEST_LINE: usize = 500;
/// How many lines around a match are shown at most.
const MOST_AROUND: usize = 50;
/// Larger files are passed over.
const LARGEST_FILE: i64 = 64 * 1024 * 1024;
/// What a search may take in memory.
const HEAP: usize = 128 * 1024 * 1024;
const LARGEST_REGEX: usize = 10 * 1024 * 1024;

#[derive(Deserialize)]
struct Grep {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(rename = "type")]
    file_type: Option<String>,
    #[serde(default)]
    output_mode: Mode,
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
enum Mode {
    Content,
    #[default]
    #[serde(alias = "files")]
    FilesWithMatches,
    Count,
}

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let grep = move |context: Context, it: Grep| {
        let place = place.clone();
        async move { place.work(context, move |turn| grep(&turn, &it)).await }
    };
    let description = "Looks for a regular expression (Rust's syntax, as ripgrep has it) in files. `output_mode` says what \
        is shown: the files, those that were changed last first; the lines; or how many lines each file has. What ignore \
        files name, `.git` and binary files are left out.";
    let around = json!({"type": "integer", "minimum": 0, "maximum": MOST_AROUND});
    Tool::new("Grep", description, grep)
        .title("Search in files")
        .takes(
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
                "context": {"type": "integer", "minimum": 0, "maximum": MOST_AROUND, "description": "Lines to show before and after each match."},
                "head_limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL, "description": "How many files or lines to show."},
                "include_ignored": {"type": "boolean", "default": false, "description": "Also what ignore files name."},
            }),
            &["pattern"],
        )
        .gives(json!({
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
        .reads()
}

fn grep(turn: &Turn, it: &Grep) -> Result<Output, Stop> {
    let start = turn.find_start(it.path.as_deref())?;
    let matcher = matcher(it)?;
    let is_folder = start.is_folder()?;
    let folder = match is_folder {
        true => start.path.as_path(),
        false => start.path.parent().unwrap_or(&start.path),
    };
    let filter = it.glob.as_deref().map(|glob| filter(glob, folder)).transpose()?;
    let types = it.file_type.as_deref().map(types).transpose()?;
    let mut search = Search {
        it,
        turn,
        matcher,
        searcher: searcher(it),
        limit: it.head_limit.unwrap_or(USUAL).clamp(1, MOST),
        found: Found::default(),
    };
    let seen = if is_folder {
        let ignored = Ignored::from_flag(it.include_ignored);
        walk::files(turn, &start, ignored, types, |entry| {
            let fits =
                filter.as_ref().is_none_or(|it| it.is_match(walk::below(entry.path(), folder)));
            match fits {
                true => search.look_into(entry.path()),
                false => ControlFlow::Continue(()),
            }
        })?
    } else {
        // Whoever names a file is told why it cannot be searched.
        start.open()?;
        match search.look_at(&start) {
            ControlFlow::Continue(()) => Seen::Everything,
            ControlFlow::Break(()) => Seen::Enough,
        }
    };
    Ok(search.output(seen))
}

/// A pattern without a slash fits in any folder, as ripgrep has it.
fn filter(glob: &str, folder: &Path) -> Result<GlobMatcher, Stop> {
    match glob.contains('/') {
        true => walk::pattern(glob, folder),
        false => walk::pattern(&format!("**/{glob}"), folder),
    }
}

fn matcher(it: &Grep) -> Result<RegexMatcher, Stop> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(it.ignore_case)
        .multi_line(true)
        .size_limit(LARGEST_REGEX)
        .dfa_size_limit(LARGEST_REGEX);
    match it.multiline {
        true => builder.dot_matches_new_line(true),
        false => builder.crlf(true),
    };
    builder
        .build(&it.pattern)
        .map_err(|error| Stop::failed(format!("the regular expression makes no sense: {error}")))
}

fn searcher(it: &Grep) -> Searcher {
    let around = |own: Option<usize>| match it.output_mode {
        Mode::Content => own.or(it.context).unwrap_or(0).min(MOST_AROUND),
        Mode::FilesWithMatches | Mode::Count => 0,
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
        .heap_limit(Some(HEAP))
        .binary_detection(BinaryDetection::quit(0))
        .build()
}

fn types(name: &str) -> Result<Types, Stop> {
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
        Stop::failed(format!("there is no file type `{name}`{}", near.unwrap_or_default()))
    })
}

/// A search while it goes on.
struct Search<'a> {
    it: &'a Grep,
    turn: &'a Turn,
    matcher: RegexMatcher,
    searcher: Searcher,
    limit: usize,
    found: Found,
}

/// What was found so far.
#[derive(Default)]
struct Found {
    files: Vec<(SystemTime, String)>,
    counts: Vec<(String, u64)>,
    lines: Vec<Line>,
    /// What the lines take, in bytes.
    size: usize,
    is_cut: bool,
}

struct Line {
    path: Arc<str>,
    number: u64,
    text: String,
    is_match: bool,
    /// Is there a gap before it?
    follows_gap: bool,
}

impl Search<'_> {
    fn look_into(&mut self, path: &Path) -> ControlFlow<()> {
        let Some(Ok(spot)) = path.to_str().map(|path| self.turn.find(path)) else {
            return ControlFlow::Continue(());
        };
        self.look_at(&spot)
    }

    /// Files that cannot be read are passed over.
    fn look_at(&mut self, spot: &Spot) -> ControlFlow<()> {
        let Ok(opened) = spot.open() else { return ControlFlow::Continue(()) };
        if opened.status.st_size > LARGEST_FILE {
            return ControlFlow::Continue(());
        }
        let path: Arc<str> = spot.path.display().to_string().into();
        let mut sink = Collecting {
            mode: self.it.output_mode,
            path: path.clone(),
            limit: self.limit,
            found: &mut self.found,
            count: 0,
            follows_gap: false,
        };
        // One that cannot be read to its end has what was found until then.
        let _read_to_the_end = self.searcher.search_file(&self.matcher, &opened.file, &mut sink);
        let count = sink.count;
        if count > 0 {
            match self.it.output_mode {
                Mode::Content => {}
                Mode::Count => self.found.counts.push((path.to_string(), count)),
                Mode::FilesWithMatches => {
                    let changed = opened.file.metadata().ok().and_then(|it| it.modified().ok());
                    let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
                    self.found.files.push((changed, path.to_string()));
                }
            }
        }
        let is_full = match self.it.output_mode {
            Mode::Content => self.found.is_cut,
            Mode::Count | Mode::FilesWithMatches => {
                self.found.counts.len() + self.found.files.len() >= 100_000
            }
        };
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn output(mut self, seen: Seen) -> Output {
        let mut is_cut = self.found.is_cut || seen != Seen::Everything;
        let (mut about, mut words) = match self.it.output_mode {
            Mode::Content => self.found.shown_lines(),
            Mode::Count => {
                is_cut |= self.found.counts.len() > self.limit;
                self.found.counts.truncate(self.limit);
                self.found.shown_counts()
            }
            Mode::FilesWithMatches => {
                self.found.files.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
                is_cut |= self.found.files.len() > self.limit;
                self.found.files.truncate(self.limit);
                self.found.shown_files()
            }
        };
        if words.is_empty() {
            words.push_str("nothing was found\n");
        }
        if is_cut {
            words.push_str("(there is more; narrow the search, or raise `head_limit`)\n");
        }
        about["truncated"] = json!(is_cut);
        Output::value(about, words)
    }
}

impl Found {
    fn shown_files(&self) -> (Json, String) {
        let files: Vec<&str> = self.files.iter().map(|(_, path)| path.as_str()).collect();
        let words = files.iter().map(|file| format!("{file}\n")).collect();
        (json!({"mode": "files_with_matches", "files": files}), words)
    }

    fn shown_counts(&self) -> (Json, String) {
        let count = |(path, count): &(String, u64)| json!({"path": path, "count": count});
        let counts: Vec<Json> = self.counts.iter().map(count).collect();
        let words = self.counts.iter().map(|(path, count)| format!("{path}:{count}\n")).collect();
        (json!({"mode": "count", "counts": counts}), words)
    }

    /// As ripgrep prints it: a colon behind the number of a match, a dash behind that of a line beside one.
    fn shown_lines(&self) -> (Json, String) {
        let mut words = String::new();
        for line in &self.lines {
            if line.follows_gap && !words.is_empty() {
                words.push_str("--\n");
            }
            let mark = if line.is_match { ':' } else { '-' };
            let _infallible =
                writeln!(words, "{}{mark}{}{mark}{}", line.path, line.number, line.text);
        }
        let line = |it: &Line| json!({"path": *it.path, "line": it.number, "text": it.text, "match": it.is_match});
        let lines: Vec<Json> = self.lines.iter().map(line).collect();
        (json!({"mode": "content", "lines": lines}), words)
    }
}

/// Takes what a searcher finds in one file.
struct Collecting<'a> {
    mode: Mode,
    path: Arc<str>,
    limit: usize,
    found: &'a mut Found,
    count: u64,
    follows_gap: bool,
}

impl Collecting<'_> {
    /// Is there room for more?
    fn take(&mut self, first: u64, bytes: &[u8], is_match: bool) -> bool {
        for (number, line) in (first..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let text = String::from_utf8_lossy(line);
            let text: String =
                text.trim_end_matches(['\n', '\r']).chars().take(LONGEST_LINE).collect();
            if self.found.lines.len() >= self.limit || self.found.size + text.len() > LARGEST {
                self.found.is_cut = true;
                return false;
            }
            self.found.size += text.len() + self.path.len();
            let follows_gap = std::mem::take(&mut self.follows_gap);
            self.found.lines.push(Line {
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

impl Sink for Collecting<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.count += 1;
        Ok(match self.mode {
            Mode::FilesWithMatches => false,
            Mode::Count => true,
            Mode::Content => self.take(found.line_number().unwrap_or(1), found.bytes(), true),
        })
    }

    fn context(&mut self, _: &Searcher, beside: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.take(beside.line_number().unwrap_or(1), beside.bytes(), false))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.follows_gap = true;
        Ok(true)
    }
}
