//! A conversation that is gone on with, as it is shown again.

use std::time::Duration;

use switchboard::pool::Pool;
use switchboard_chat::happening::{CallEnd, CallSeen};
use switchboard_chat::utterance::{CallWanted, Part, Speaker, Utterance};

use super::Chat;

impl Chat {
    /// Shows what was said before.
    pub fn recall(&mut self, before: &[Utterance]) {
        for utterance in before {
            for part in &utterance.parts {
                self.recall_part(utterance.speaker, part);
            }
        }
        if !before.is_empty() {
            self.transcript.note("(from here on it is now)");
        }
    }

    fn recall_part(&mut self, speaker: Speaker, part: &Part) {
        match (part, speaker) {
            (Part::Text { text }, Speaker::User) => self.transcript.person(text),
            (Part::Text { text }, Speaker::Assistant) => self.transcript.answer(text),
            (Part::Picture { mime, .. }, _) => self.transcript.note(&format!("[{mime}]")),
            (Part::Thought { text, .. }, _) => self.transcript.thought(text),
            (Part::Call(call), _) => {
                let seen = seen(call, &self.pool);
                self.transcript.call(seen, self.now);
            }
            (Part::Result(result), _) => {
                let texts: Vec<&str> = result.parts.iter().filter_map(words).collect();
                let ended = if result.is_error { CallEnd::ToolError } else { CallEnd::Done };
                self.transcript.end_call(&result.id, ended, &texts.join("\n"), Duration::ZERO);
            }
        }
    }
}

fn seen(call: &CallWanted, pool: &Pool) -> CallSeen {
    let title = match pool.find(&call.tool) {
        Some(tool) if !tool.server.is_empty() => {
            format!("{}: {}", tool.server, tool.display_name())
        }
        Some(_) | None => call.tool.clone(),
    };
    CallSeen {
        id: call.id.as_str().into(),
        tool: call.tool.as_str().into(),
        title,
        arguments: call.arguments.clone(),
    }
}

fn words(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Picture { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
    }
}
