//! The messages of a stored conversation as the updates that the editor shows it with. Pure.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{ContentChunk, SessionUpdate, ToolCallStatus};
use switchboard::pool::Pool;
use switchboard_chat::conversation::event::{CallOutcome, ToolCallView};
use switchboard_chat::message::{ContentBlock, Message, Role, ToolResult, ToolUse};

use crate::content;
use crate::tool_view::ToolViews;
use crate::updates;
use crate::updates::ShownChanges;

/// The updates of a conversation, in order.
pub(crate) fn replay(views: &ToolViews, pool: &Pool, history: &[Message]) -> Vec<SessionUpdate> {
    let mut updates = Vec::new();
    // A model may use an id again in a later response, and the editor must not show one call for both.
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for message in history {
        for block in &message.content {
            match block {
                ContentBlock::Text { .. } | ContentBlock::Image { .. } => {
                    let Some(content) = content::editor_block(block) else { continue };
                    let chunk = ContentChunk::new(content);
                    updates.push(match message.role {
                        Role::User => SessionUpdate::UserMessageChunk(chunk),
                        Role::Assistant => SessionUpdate::AgentMessageChunk(chunk),
                    });
                }
                ContentBlock::Thinking { text, .. } if text.is_empty() => {}
                ContentBlock::Thinking { text, .. } => updates.push(updates::agent_thought(text)),
                ContentBlock::ToolUse(ToolUse { id, tool, arguments }) => {
                    let count = uses.entry(id).and_modify(|it| *it += 1).or_insert(1);
                    let id = replayed_id(id, *count);
                    let view = ToolCallView::new(pool, &id, tool, arguments.clone());
                    updates.push(updates::call_started(views, pool, &view));
                    updates.push(updates::call_status(&id, ToolCallStatus::InProgress));
                }
                ContentBlock::ToolResult(result) => {
                    let count = uses.get(result.id.as_str()).copied().unwrap_or(1);
                    updates.push(call_ended(&replayed_id(&result.id, count), result));
                }
            }
        }
    }
    updates
}

fn replayed_id(id: &str, count: usize) -> String {
    match count {
        0 | 1 => id.to_owned(),
        count => format!("{id}#{count}"),
    }
}

fn call_ended(id: &str, result: &ToolResult) -> SessionUpdate {
    let outcome = if result.is_error { CallOutcome::ToolError } else { CallOutcome::Done };
    let text = updates::result_text(result);
    updates::call_ended(id, outcome, (&text, Some(result)), ShownChanges::None)
}
