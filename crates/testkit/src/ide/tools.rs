//! The tools of an IDE, with the behaviour that a plugin of an editor was observed to have.

use serde_json::{Value, json};

use crate::ide::ide_state::{IdeState, OpenDiff, text_result};

type Outcome = Result<Value, Value>;

/// The listed tools. `close_tab` is not among them and can be called.
pub(super) fn definitions() -> Value {
    let tool = |name: &str, required: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            required.iter().map(|it| ((*it).to_owned(), json!({"type": "string"}))).collect();
        json!({
            "name": name,
            "description": format!("{name} of the editor"),
            "inputSchema": {"type": "object", "properties": properties, "required": required},
        })
    };
    json!([
        tool("openFile", &["filePath"]),
        tool("openDiff", &["old_file_path", "new_file_path", "new_file_contents", "tab_name"]),
        tool("closeAllDiffTabs", &[]),
        tool("getDiagnostics", &[]),
        tool("getCurrentSelection", &[]),
        tool("getOpenEditors", &[]),
        tool("getWorkspaceFolders", &[]),
        tool("saveDocument", &["filePath"]),
        tool("executeCode", &["code"]),
    ])
}

/// Calls a tool; `None` where the answer comes later.
pub(super) fn call(state: &mut IdeState, id: &Value, params: &Value) -> Option<Outcome> {
    let arguments = &params["arguments"];
    let text = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
    Some(match params["name"].as_str().unwrap_or_default() {
        "openDiff" => {
            let keys = ["old_file_path", "new_file_path", "new_file_contents", "tab_name"];
            if let Some(missing) = keys.iter().find(|key| !arguments[**key].is_string()) {
                return Some(Err(tool_error(&format!("missing {missing}"))));
            }
            let tab_name = text("tab_name");
            let diff = OpenDiff {
                tab_name: tab_name.clone(),
                path: text("new_file_path"),
                new_contents: text("new_file_contents"),
                request_id: id.clone(),
            };
            // The scratch buffer of the diff becomes the current one.
            let place = json!({"line": 0, "character": 0});
            let path = format!("{tab_name} (proposed)");
            let selection =
                json!({"start": place, "end": {"line": 0, "character": 3}, "isEmpty": false});
            state.notify_all(
                "selection_changed",
                &json!({"text": "abc", "filePath": path, "fileUrl": format!("file://{path}"), "selection": selection}),
            );
            state.diffs.push(diff);
            return None;
        }
        "close_tab" => close_tab(state, &text("tab_name")),
        "closeAllDiffTabs" => {
            let names: Vec<String> = state.diffs.iter().map(|it| it.tab_name.clone()).collect();
            for name in &names {
                state.finish_diff(name, &["DIFF_REJECTED", name]);
            }
            Ok(text_result(&[&format!("CLOSED_{}_DIFF_TABS", names.len())]))
        }
        "getDiagnostics" => {
            state.diagnostics_calls += 1;
            if let Some((number, later)) = state.later_diagnostics.take() {
                match state.diagnostics_calls >= number {
                    true => state.diagnostics = later,
                    false => state.later_diagnostics = Some((number, later)),
                }
            }
            let mut files = state.diagnostics.clone();
            if let (Some(uri), Some(files)) = (arguments["uri"].as_str(), files.as_array_mut()) {
                files.retain(|it| it["uri"] == uri);
            }
            Ok(text_result(&[&files.to_string()]))
        }
        "executeCode" => Ok(text_result(&["42"])),
        "getWorkspaceFolders" => Ok(text_result(&[r#"{"success":true,"folders":[]}"#])),
        "openFile" => Ok(text_result(&[&format!("Opened file: {}", text("filePath"))])),
        other => Err(tool_error(&format!("Tool not found: {other}"))),
    })
}

/// Closes a tab. A diff that is open there counts as rejected. A name of another form is answered with an error in the
/// place of the result, and the diff stays open.
fn close_tab(state: &mut IdeState, tab_name: &str) -> Outcome {
    let has_form = tab_name.starts_with("✻ [Claude Code] ") && tab_name.ends_with(") ⧉");
    if !has_form {
        return Ok(json!({"code": -32000, "message": "Tab not found", "data": tab_name}));
    }
    state.finish_diff(tab_name, &["DIFF_REJECTED", tab_name]);
    Ok(text_result(&["TAB_CLOSED"]))
}

fn tool_error(data: &str) -> Value {
    json!({"code": -32000, "message": "Tool execution failed", "data": data})
}
