//! Events of a conversation as updates of a session. Pure.

use agent_client_protocol_schema::v1::{
    ContentChunk, SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use serde_json::Value as Json;
use switchboard::pool::Pool;
use switchboard_chat::conversation::event::{CallOutcome, ToolCallView};
use switchboard_chat::message::{ContentBlock, ToolResult};

use crate::content;
use crate::tool_view::{CalledTool, ToolViews};

/// More text of the agent.
pub(crate) fn agent_text(text: impl Into<String>) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into().into()))
}

/// More of the agent's thinking.
pub(crate) fn agent_thought(text: impl Into<String>) -> SessionUpdate {
    SessionUpdate::AgentThoughtChunk(ContentChunk::new(text.into().into()))
}

/// A call that started.
pub(crate) fn call_started(views: &ToolViews, pool: &Pool, call: &ToolCallView) -> SessionUpdate {
    let tool = CalledTool::find(pool, &call.tool);
    let title = views.title(tool, &call.arguments, &call.title);
    let tool_call = ToolCall::new(call.id.clone(), title)
        .name(call.tool.to_string())
        .kind(views.kind(tool))
        .status(ToolCallStatus::Pending)
        .locations(views.locations(tool, &call.arguments))
        .raw_input(call.arguments.clone());
    SessionUpdate::ToolCall(tool_call)
}

/// A call that has this status now.
pub(crate) fn call_status(id: &str, status: ToolCallStatus) -> SessionUpdate {
    call_update(id, ToolCallUpdateFields::new().status(status))
}

/// The content of a call.
pub(crate) fn call_content(id: &str, content: Vec<ToolCallContent>) -> SessionUpdate {
    call_update(id, ToolCallUpdateFields::new().content(content))
}

/// The progress of a call, as its content.
pub(crate) fn call_progress(
    id: &str,
    (progress, total): (f64, Option<f64>),
    message: Option<&str>,
) -> SessionUpdate {
    let share = match total {
        Some(total) => format!("{progress} of {total}"),
        None => progress.to_string(),
    };
    let text = message.map_or_else(|| share.clone(), |message| format!("{message} ({share})"));
    let fields = ToolCallUpdateFields::new()
        .status(ToolCallStatus::InProgress)
        .content(vec![ToolCallContent::from(text)]);
    call_update(id, fields)
}

/// Whether the editor shows the changes to files that a call makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownChanges {
    /// It does, so they stay the content of a successful call.
    Shown,
    /// There are none.
    None,
}

/// A call that ended.
pub(crate) fn call_ended(
    id: &str,
    outcome: CallOutcome,
    (text, result): (&str, Option<&ToolResult>),
    changes: ShownChanges,
) -> SessionUpdate {
    let status = match outcome {
        CallOutcome::Done => ToolCallStatus::Completed,
        CallOutcome::ToolError
        | CallOutcome::Failed
        | CallOutcome::Denied
        | CallOutcome::Interrupted => ToolCallStatus::Failed,
    };
    let mut fields = ToolCallUpdateFields::new().status(status).raw_output(raw_output(text));
    if outcome != CallOutcome::Done || changes == ShownChanges::None {
        fields = fields.content(result_content(text, result));
    }
    call_update(id, fields)
}

fn call_update(id: &str, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields))
}

/// The text of a result, as JSON if it is an object or an array.
fn raw_output(text: &str) -> Json {
    let parsed = serde_json::from_str::<Json>(text).ok();
    parsed.filter(|it| it.is_object() || it.is_array()).unwrap_or_else(|| text.into())
}

fn result_content(text: &str, result: Option<&ToolResult>) -> Vec<ToolCallContent> {
    let blocks: Vec<ToolCallContent> = match result {
        Some(result) => {
            result.content.iter().filter_map(content::editor_block).map(Into::into).collect()
        }
        None => Vec::new(),
    };
    match blocks.is_empty() && !text.is_empty() {
        true => vec![ToolCallContent::from(text.to_owned())],
        false => blocks,
    }
}

/// The text of a result's blocks.
pub(crate) fn result_text(result: &ToolResult) -> String {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => Some(text.clone()),
        ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => None,
    };
    result.content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(update: SessionUpdate, expected: Json) {
        assert_eq!(serde_json::to_value(update).expect("JSON"), expected);
    }

    #[test]
    fn a_call_that_ended_carries_its_content_and_its_raw_output() {
        let content = vec![
            ContentBlock::Text { text: "{\"a\":1}".to_owned() },
            ContentBlock::Image { mime: "image/png".to_owned(), base64: "AAAA".to_owned() },
        ];
        let result = ToolResult { id: "1".to_owned(), content, is_error: false };
        let text = "{\"a\":1}";
        check(
            call_ended("1", CallOutcome::Done, (text, Some(&result)), ShownChanges::None),
            json!({
                "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed",
                "content": [
                    {"type": "content", "content": {"type": "text", "text": "{\"a\":1}"}},
                    {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "AAAA"}},
                ],
                "rawOutput": {"a": 1},
            }),
        );
    }

    #[test]
    fn the_changes_of_a_successful_edit_stay_and_those_of_a_failed_one_are_replaced() {
        check(
            call_ended("1", CallOutcome::Done, ("ok", None), ShownChanges::Shown),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "rawOutput": "ok"}),
        );
        check(
            call_ended("1", CallOutcome::Denied, ("no", None), ShownChanges::Shown),
            json!({
                "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "failed",
                "content": [{"type": "content", "content": {"type": "text", "text": "no"}}],
                "rawOutput": "no",
            }),
        );
    }

    #[test]
    fn progress_is_content_of_a_running_call() {
        check(
            call_progress("1", (1.0, Some(4.0)), Some("reading")),
            json!({
                "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress",
                "content": [{"type": "content", "content": {"type": "text", "text": "reading (1 of 4)"}}],
            }),
        );
    }
}
