//! The tools of an IDE that the host itself calls, and the results that they return. Pure.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;
use switchboard_config::entry::server::TransportKind;

use super::notification::is_ide;

/// The tools of an IDE that models may call.
pub(crate) const MODEL_TOOLS: [&str; 2] = ["executeCode", "getDiagnostics"];
/// How long an IDE may take for a tool that no person decides about.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a person may look at a diff.
const DECISION_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Whether a tool of a server is kept from models, because only the host may call it.
pub(crate) fn is_hidden_from_models(transport: TransportKind, tool: &str) -> bool {
    is_ide(transport) && !MODEL_TOOLS.contains(&tool)
}

/// A tool of an IDE that the host calls for itself. No permission rule applies to it, so this list is closed: each shows
/// something in the IDE or reads what the IDE knows, and none changes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdeTool {
    /// Shows a diff and waits for a person's decision.
    OpenDiff,
    /// Closes the tab of a diff.
    CloseTab,
    /// Closes the tabs of all diffs.
    CloseAllDiffTabs,
    /// Returns errors and warnings.
    GetDiagnostics,
    /// Shows a file.
    OpenFile,
    /// Returns the open folders.
    GetWorkspaceFolders,
}

impl IdeTool {
    /// The name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            IdeTool::OpenDiff => "openDiff",
            IdeTool::CloseTab => "close_tab",
            IdeTool::CloseAllDiffTabs => "closeAllDiffTabs",
            IdeTool::GetDiagnostics => "getDiagnostics",
            IdeTool::OpenFile => "openFile",
            IdeTool::GetWorkspaceFolders => "getWorkspaceFolders",
        }
    }

    /// How long a call may take.
    pub(crate) fn timeout(self) -> Duration {
        match self {
            IdeTool::OpenDiff => DECISION_TIMEOUT,
            IdeTool::CloseTab
            | IdeTool::CloseAllDiffTabs
            | IdeTool::GetDiagnostics
            | IdeTool::OpenFile
            | IdeTool::GetWorkspaceFolders => TIMEOUT,
        }
    }
}

/// The texts of a tool's result, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdeToolResult {
    /// The texts.
    pub texts: Vec<String>,
}

/// What a person decided about a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffOutcome {
    /// The change is accepted, with these contents of the file.
    Saved {
        /// The contents. The person may have edited them.
        contents: String,
    },
    /// The change is rejected.
    Rejected,
}

impl IdeToolResult {
    /// Reads a result of `tools/call`; `None` for one that has no `content` or is an error.
    pub(crate) fn from_json(result: &Json) -> Option<IdeToolResult> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CallResult {
            content: Vec<Json>,
            #[serde(default)]
            is_error: bool,
        }
        let decoded = CallResult::deserialize(result).ok().filter(|it| !it.is_error)?;
        let texts = decoded.content.into_iter().filter_map(|block| match block {
            Json::Object(mut members) => match members.remove("text") {
                Some(Json::String(text)) => Some(text),
                Some(_) | None => None,
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        });
        Some(IdeToolResult { texts: texts.collect() })
    }

    /// The first text as JSON, which most tools return.
    pub fn json(&self) -> Option<Json> {
        serde_json::from_str(self.texts.first()?).ok()
    }

    /// The decision, if this is the result of [`IdeTool::OpenDiff`].
    pub fn diff_outcome(&self) -> Option<DiffOutcome> {
        match (self.texts.first()?.as_str(), self.texts.get(1)) {
            ("FILE_SAVED", Some(contents)) => {
                Some(DiffOutcome::Saved { contents: contents.clone() })
            }
            ("DIFF_REJECTED", _) => Some(DiffOutcome::Rejected),
            (_, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(texts: &[&str]) -> IdeToolResult {
        let block = |text: &&str| json!({"type": "text", "text": text});
        let content: Vec<Json> = texts.iter().map(block).collect();
        IdeToolResult::from_json(&json!({"content": content})).expect("a result")
    }

    #[test]
    fn a_saved_diff_has_the_contents_in_its_second_block() {
        let saved = DiffOutcome::Saved { contents: "new\n".to_owned() };
        assert_eq!(result(&["FILE_SAVED", "new\n"]).diff_outcome(), Some(saved));
        let rejected = Some(DiffOutcome::Rejected);
        assert_eq!(result(&["DIFF_REJECTED", "tab"]).diff_outcome(), rejected);
    }

    #[test]
    fn a_saved_diff_without_contents_is_no_decision() {
        assert_eq!(result(&["FILE_SAVED"]).diff_outcome(), None);
        assert_eq!(result(&[]).diff_outcome(), None);
        assert_eq!(result(&["TAB_CLOSED"]).diff_outcome(), None);
    }

    #[test]
    fn an_error_in_the_place_of_a_result_is_a_failure() {
        let error = json!({"code": -32000, "message": "no such tab", "data": "x"});
        assert_eq!(IdeToolResult::from_json(&error), None);
        let failed = json!({"content": [], "isError": true});
        assert_eq!(IdeToolResult::from_json(&failed), None);
    }

    #[test]
    fn a_model_sees_two_tools_of_an_ide_and_all_of_other_servers() {
        for tool in ["openDiff", "close_tab", "saveDocument"] {
            assert!(is_hidden_from_models(TransportKind::WsIde, tool));
            assert!(is_hidden_from_models(TransportKind::SseIde, tool));
            assert!(!is_hidden_from_models(TransportKind::Http, tool));
        }
        assert!(!is_hidden_from_models(TransportKind::WsIde, "executeCode"));
        assert!(!is_hidden_from_models(TransportKind::WsIde, "getDiagnostics"));
    }
}
