//! Repairs a conversation that was cut off: afterwards every tool use has a result, and every result a tool use.

use crate::message::{ContentBlock, Message, Role, ToolResult};

/// The result of a call whose real result was not written.
const RESULT_LOST: &str = "the program ended before the result came";

/// The messages with missing results added and unmatched ones removed: models reject a conversation otherwise.
pub(crate) fn repaired(messages: Vec<Message>) -> Vec<Message> {
    let mut repaired_messages: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut open: Vec<String> = Vec::new();
    for mut message in messages {
        if message.role == Role::User {
            message.content.retain(|block| match block {
                ContentBlock::ToolResult(result) => {
                    let position = open.iter().position(|id| *id == result.id);
                    position.map(|at| open.remove(at)).is_some()
                }
                ContentBlock::Text { .. }
                | ContentBlock::Image { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::ToolUse(_) => true,
            });
            let lost = open.drain(..).map(missing_result);
            message.content.splice(..0, lost);
        } else {
            if !open.is_empty() {
                let content = open.drain(..).map(missing_result).collect();
                repaired_messages.push(Message { role: Role::User, content });
            }
            open.extend(message.content.iter().filter_map(|block| match block {
                ContentBlock::ToolUse(call) => Some(call.id.clone()),
                ContentBlock::Text { .. }
                | ContentBlock::Image { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::ToolResult(_) => None,
            }));
        }
        if !message.content.is_empty() {
            repaired_messages.push(message);
        }
    }
    if !open.is_empty() {
        let content = open.drain(..).map(missing_result).collect();
        repaired_messages.push(Message { role: Role::User, content });
    }
    repaired_messages
}

fn missing_result(id: String) -> ContentBlock {
    let content = vec![ContentBlock::Text { text: RESULT_LOST.to_owned() }];
    ContentBlock::ToolResult(ToolResult { id, content, is_error: true })
}
