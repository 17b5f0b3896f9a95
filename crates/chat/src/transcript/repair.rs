//! Makes a conversation that was cut off acceptable to models again: every tool use has a result, every result a tool use.

use crate::message::{ContentBlock, Message, Role, ToolResult};

/// What a model is told of a call whose result was never written down.
const RESULT_LOST: &str = "the program ended before the result came";

/// Models refuse a conversation in which a call has no result, or a result no call.
pub(crate) fn repaired(messages: Vec<Message>) -> Vec<Message> {
    let mut repaired_messages: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut open: Vec<String> = Vec::new();
    for mut message in messages {
        if message.role == Role::User {
            message.content.retain(|part| match part {
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
                let parts = open.drain(..).map(missing_result).collect();
                repaired_messages.push(Message { role: Role::User, content: parts });
            }
            open.extend(message.content.iter().filter_map(|part| match part {
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
        let parts = open.drain(..).map(missing_result).collect();
        repaired_messages.push(Message { role: Role::User, content: parts });
    }
    repaired_messages
}

fn missing_result(id: String) -> ContentBlock {
    let parts = vec![ContentBlock::Text { text: RESULT_LOST.to_owned() }];
    ContentBlock::ToolResult(ToolResult { id, content: parts, is_error: true })
}
