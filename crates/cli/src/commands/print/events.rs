//! What happens in a conversation, as lines of JSON for programs.

use serde_json::{Value as Json, json};
use switchboard::host::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::conversation::event::{CallOutcome, ConversationEvent};
use switchboard_chat::model::language_model::Usage;

/// What there is when it begins.
pub(super) fn init_event(model: &str, snapshot: &Snapshot, pool: &Pool) -> Option<Json> {
    let servers = snapshot.servers.values();
    let servers = servers.map(|it| json!({"name": it.name, "status": it.status.id()}));
    let tools = pool.tools().iter().map(|it| json!(it.exposed_name));
    Some(json!({
        "type": "init",
        "model": model,
        "servers": servers.collect::<Vec<_>>(),
        "tools": tools.collect::<Vec<_>>(),
    }))
}

/// What was used.
pub(super) fn usage(usage: &Usage) -> Json {
    let Usage { input, cached, output } = usage;
    json!({"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output})
}

/// A happening, where programs want to hear of it. The end is told with the result.
pub(super) fn event_json(event: &ConversationEvent) -> Option<Json> {
    let milliseconds = |it: &std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    Some(match event {
        ConversationEvent::MessagesAccepted { .. } | ConversationEvent::TurnEnded(_) => {
            return None;
        }
        ConversationEvent::Text(text) => json!({"type": "text", "text": text}),
        ConversationEvent::Thinking(text) => json!({"type": "thought", "text": text}),
        ConversationEvent::ResponseEnded => json!({"type": "answer_ended"}),
        ConversationEvent::CallStarted(seen) => json!({
            "type": "call", "id": &*seen.id, "tool": &*seen.tool, "title": seen.title,
            "arguments": seen.arguments,
        }),
        ConversationEvent::CallProgress { id, progress: done, total: of, message } => json!({
            "type": "call_progress", "id": &**id, "done": done, "of": of, "message": message,
        }),
        ConversationEvent::CallEnded { id, outcome: ended, text, duration: took } => json!({
            "type": "call_ended", "id": &**id, "outcome": call_outcome(*ended), "text": text,
            "duration_ms": milliseconds(took),
        }),
        ConversationEvent::Usage(used) => json!({"type": "usage", "usage": usage(used)}),
        ConversationEvent::Retrying { attempt, after, reason: because } => json!({
            "type": "retry", "attempt": attempt, "after_ms": milliseconds(after), "because": because,
        }),
    })
}

fn call_outcome(ended: CallOutcome) -> &'static str {
    match ended {
        CallOutcome::Done => "ok",
        CallOutcome::ToolError => "tool-error",
        CallOutcome::Failed => "failed",
        CallOutcome::Denied => "denied",
        CallOutcome::Interrupted => "cancelled",
    }
}
