//! Shows the messages of a continued conversation.

use std::time::Duration;

use switchboard_chat::channel::is_channel_text;
use switchboard_chat::conversation::event::{CallOutcome, ToolCallView};
use switchboard_chat::message::{ContentBlock, Message, Role};

use crate::state::screen_state::ScreenState;

impl ScreenState {
    /// Adds the messages of an earlier conversation to the transcript.
    pub fn restore(&mut self, history: &[Message]) {
        for message in history {
            for block in &message.content {
                self.restore_block(message.role, block);
            }
        }
        if !history.is_empty() {
            self.transcript.push_note("(end of the earlier conversation)");
        }
    }

    fn restore_block(&mut self, role: Role, block: &ContentBlock) {
        match (block, role) {
            (ContentBlock::Text { text }, Role::User) if is_channel_text(text) => {
                self.transcript.push_channel_message(text);
            }
            (ContentBlock::Text { text }, Role::User) => self.transcript.push_user(text),
            (ContentBlock::Text { text }, Role::Assistant) => self.transcript.push_response(text),
            (ContentBlock::Image { mime, .. }, _) => {
                self.transcript.push_note(&format!("[{mime}]"))
            }
            (ContentBlock::Thinking { text, .. }, _) => self.transcript.push_thinking(text),
            (ContentBlock::ToolUse(call), _) => {
                let arguments = call.arguments.clone();
                let view = ToolCallView::new(&self.pool, &call.id, &call.tool, arguments);
                self.transcript.push_call(view, self.now);
            }
            (ContentBlock::ToolResult(result), _) => {
                let texts: Vec<&str> = result.content.iter().filter_map(block_text).collect();
                let ended =
                    if result.is_error { CallOutcome::ToolError } else { CallOutcome::Done };
                self.transcript.finish_call(&result.id, ended, &texts.join("\n"), Duration::ZERO);
            }
        }
    }
}

fn block_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text { text } => Some(text),
        ContentBlock::Image { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => None,
    }
}
