//! The notifications between the host and an IDE. Their methods have no `notifications/` prefix. Pure.

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_config::entry::server::TransportKind;

/// The longest selected text that is kept, in characters.
const MAX_SELECTED_CHARS: usize = 20_000;
/// The longest path that counts, in bytes.
const MAX_PATH_BYTES: usize = 4096;

/// Whether a server is inside an IDE.
pub(crate) fn is_ide(transport: TransportKind) -> bool {
    match transport {
        TransportKind::SseIde | TransportKind::WsIde => true,
        TransportKind::Stdio
        | TransportKind::Sse
        | TransportKind::Http
        | TransportKind::Ws
        | TransportKind::Sdk
        | TransportKind::ConnectorProxy => false,
    }
}

/// The notification that tells an IDE which process is connected: method and parameters.
pub(crate) fn ide_connected(pid: u32) -> (&'static str, Json) {
    ("ide_connected", json!({"pid": pid}))
}

/// A notification of an IDE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdeEvent {
    /// The selection changed; `None` where nothing is selected.
    SelectionChanged(Option<Selection>),
    /// The user mentions a file.
    Mentioned(Mention),
    /// An event for statistics. Its content is not kept.
    Logged,
}

/// A selected text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The path of the file. Not escaped.
    pub path: String,
    /// The text, up to a limit.
    pub text: String,
    /// The first line, from 1.
    pub first_line: u32,
    /// The last line.
    pub last_line: u32,
}

/// A mention of a file or of lines in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The path, which may be relative to a folder of the IDE. Not escaped.
    pub path: String,
    /// The first and the last line, from 1.
    pub lines: Option<(u32, u32)>,
}

/// A place in a file, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct LinePosition {
    /// The line.
    #[serde(default)]
    pub line: u32,
    /// The character in it.
    #[serde(default)]
    pub character: u32,
}

impl IdeEvent {
    /// Reads a notification; `None` for one that is not an IDE's or is invalid.
    pub(crate) fn parse(method: &str, params: &Json) -> Option<IdeEvent> {
        match method {
            "selection_changed" => Some(IdeEvent::SelectionChanged(parse_selection(params))),
            "at_mentioned" => parse_mention(params).map(IdeEvent::Mentioned),
            "log_event" => Some(IdeEvent::Logged),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectionParams {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    file_path: String,
    #[serde(default)]
    selection: Option<SelectionRange>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SelectionRange {
    #[serde(default)]
    start: LinePosition,
    #[serde(default)]
    end: LinePosition,
    #[serde(default)]
    is_empty: bool,
}

fn parse_selection(params: &Json) -> Option<Selection> {
    let params = SelectionParams::deserialize(params).ok()?;
    let range = params.selection?;
    let text = params.text.unwrap_or_default();
    let has_path = !params.file_path.is_empty() && params.file_path.len() <= MAX_PATH_BYTES;
    if range.is_empty || text.is_empty() || !has_path {
        return None;
    }
    let first_line = range.start.line.saturating_add(1);
    // A selection of whole lines ends before the first character of the next line.
    let ends_before = range.end.character == 0 && range.end.line > range.start.line;
    let last_line = match ends_before {
        true => range.end.line,
        false => range.end.line.saturating_add(1),
    };
    Some(Selection {
        path: params.file_path,
        text: text.chars().take(MAX_SELECTED_CHARS).collect(),
        first_line,
        last_line: last_line.max(first_line),
    })
}

fn parse_mention(params: &Json) -> Option<Mention> {
    let path = params["filePath"].as_str()?;
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return None;
    }
    let line = |key: &str| {
        let line = params[key].as_u64().and_then(|it| u32::try_from(it).ok());
        line.map(|it| it.saturating_add(1))
    };
    let first = line("lineStart");
    let lines = first.map(|first| (first, line("lineEnd").unwrap_or(first).max(first)));
    Some(Mention { path: path.to_owned(), lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(text: &str, path: &str, start: (u32, u32), end: (u32, u32)) -> Option<Selection> {
        let place = |(line, character): (u32, u32)| json!({"line": line, "character": character});
        let params = json!({
            "text": text, "filePath": path, "fileUrl": format!("file://{path}"),
            "selection": {"start": place(start), "end": place(end), "isEmpty": text.is_empty()},
        });
        match IdeEvent::parse("selection_changed", &params) {
            Some(IdeEvent::SelectionChanged(selection)) => selection,
            other => panic!("not a selection: {other:?}"),
        }
    }

    #[test]
    fn lines_of_a_selection_count_from_one() {
        let selection = selected("ab\nc", "/a", (0, 0), (1, 1)).expect("a selection");
        assert_eq!((selection.first_line, selection.last_line), (1, 2));
        let whole = selected("ab\n", "/a", (4, 0), (5, 0)).expect("a selection");
        assert_eq!((whole.first_line, whole.last_line), (5, 5));
    }

    #[test]
    fn an_empty_selection_or_one_without_a_path_selects_nothing() {
        assert_eq!(selected("", "/a", (0, 0), (0, 0)), None);
        assert_eq!(selected("x", "", (0, 0), (0, 1)), None);
        let invalid = IdeEvent::parse("selection_changed", &json!({"selection": 3}));
        assert_eq!(invalid, Some(IdeEvent::SelectionChanged(None)));
    }

    #[test]
    fn a_mention_has_lines_from_one_or_none() {
        let mention = |params: Json| match IdeEvent::parse("at_mentioned", &params) {
            Some(IdeEvent::Mentioned(mention)) => Some((mention.path, mention.lines)),
            Some(_) | None => None,
        };
        let path = || "b.py".to_owned();
        assert_eq!(
            mention(json!({"filePath": "b.py", "lineStart": 0, "lineEnd": 2})),
            Some((path(), Some((1, 3))))
        );
        assert_eq!(
            mention(json!({"filePath": "b.py", "lineStart": 4})),
            Some((path(), Some((5, 5))))
        );
        assert_eq!(mention(json!({"filePath": "b.py", "lineStart": null})), Some((path(), None)));
        assert_eq!(mention(json!({"filePath": ""})), None);
        assert_eq!(mention(json!({})), None);
    }

    #[test]
    fn a_long_selection_is_cut() {
        let selection = selected(&"é".repeat(30_000), "/a", (0, 0), (0, 9)).expect("a selection");
        assert_eq!(selection.text.chars().count(), MAX_SELECTED_CHARS);
    }
}
