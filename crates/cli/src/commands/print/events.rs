//! Conversation events as JSON lines.

use serde_json::{Value as Json, json};
use switchboard::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::conversation::event::{CallOutcome, ConversationEvent};
use switchboard_chat::model::language_model::Usage;

/// The first event: model, servers and tools.
pub(super) fn init_event(model: &str, snapshot: &Snapshot, pool: &Pool) -> Option<Json> {
    let servers = snapshot.servers.values().filter(|it| !it.is_connected_ide());
    let servers = servers.map(|it| json!({"name": it.name, "status": it.status.id()}));
    let tools = pool.tools().iter().map(|it| json!(it.exposed_name));
    Some(json!({
        "type": "init",
        "model": model,
        "servers": servers.collect::<Vec<_>>(),
        "tools": tools.collect::<Vec<_>>(),
    }))
}

/// Token usage as JSON.
pub(super) fn usage(usage: &Usage) -> Json {
    let Usage { input, cached, output } = usage;
    json!({"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output})
}

/// An event as JSON; `None` for events that programs do not need. The end of the turn is part of the result.
pub(super) fn event_json(event: &ConversationEvent) -> Option<Json> {
    let milliseconds = |it: &std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    Some(match event {
        ConversationEvent::MessagesAccepted { .. }
        | ConversationEvent::ChannelMessages(_)
        | ConversationEvent::ToolUseStarted { .. }
        | ConversationEvent::ToolInput(_)
        | ConversationEvent::BlockEnded(_)
        | ConversationEvent::TurnEnded(_) => {
            return None;
        }
        ConversationEvent::Text(text) => json!({"type": "text", "text": text}),
        ConversationEvent::Thinking(text) => json!({"type": "thought", "text": text}),
        ConversationEvent::ResponseEnded(_) => json!({"type": "answer_ended"}),
        ConversationEvent::CallStarted(call) => json!({
            "type": "call", "id": &*call.id, "tool": &*call.tool, "title": call.title,
            "arguments": call.arguments,
        }),
        ConversationEvent::CallProgress { id, progress, total, message } => json!({
            "type": "call_progress", "id": &**id, "done": progress, "of": total, "message": message,
        }),
        ConversationEvent::CallEnded { id, outcome, text, duration, .. } => json!({
            "type": "call_ended", "id": &**id, "outcome": call_outcome(*outcome), "text": text,
            "duration_ms": milliseconds(duration),
        }),
        ConversationEvent::StructuredOutput(output) => {
            json!({"type": "structured_output", "output": output})
        }
        ConversationEvent::Usage(it) => json!({"type": "usage", "usage": usage(it)}),
        ConversationEvent::Retrying { attempt, after, reason } => json!({
            "type": "retry", "attempt": attempt, "after_ms": milliseconds(after), "because": reason,
        }),
    })
}

fn call_outcome(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Done => "ok",
        CallOutcome::ToolError => "tool-error",
        CallOutcome::Failed => "failed",
        CallOutcome::Denied => "denied",
        CallOutcome::Interrupted => "cancelled",
    }
}
