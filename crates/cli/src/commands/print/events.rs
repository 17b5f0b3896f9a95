//! What happens in a conversation, as lines of JSON for programs.

use serde_json::{Value as Json, json};
use switchboard::engine::Snapshot;
use switchboard::pool::Pool;
use switchboard_chat::happening::{CallEnd, Happening};
use switchboard_chat::language_model::Usage;

/// What there is when it begins.
pub(super) fn begun(model: &str, snapshot: &Snapshot, pool: &Pool) -> Option<Json> {
    let servers = snapshot.servers.values();
    let servers = servers.map(|it| json!({"name": it.name, "status": it.status.id()}));
    let tools = pool.tools().iter().map(|it| json!(it.exposed));
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
pub(super) fn of(happening: &Happening) -> Option<Json> {
    let milliseconds = |it: &std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    Some(match happening {
        Happening::TakenUp { .. } | Happening::TurnEnded(_) => return None,
        Happening::Text(text) => json!({"type": "text", "text": text}),
        Happening::Thought(text) => json!({"type": "thought", "text": text}),
        Happening::AnswerEnded => json!({"type": "answer_ended"}),
        Happening::CallBegan(seen) => json!({
            "type": "call", "id": &*seen.id, "tool": &*seen.tool, "title": seen.title,
            "arguments": seen.arguments,
        }),
        Happening::CallProgress { id, done, of, message } => json!({
            "type": "call_progress", "id": &**id, "done": done, "of": of, "message": message,
        }),
        Happening::CallEnded { id, ended, text, took } => json!({
            "type": "call_ended", "id": &**id, "outcome": outcome(*ended), "text": text,
            "duration_ms": milliseconds(took),
        }),
        Happening::Used(used) => json!({"type": "usage", "usage": usage(used)}),
        Happening::Again { attempt, after, because } => json!({
            "type": "retry", "attempt": attempt, "after_ms": milliseconds(after), "because": because,
        }),
    })
}

fn outcome(ended: CallEnd) -> &'static str {
    match ended {
        CallEnd::Done => "ok",
        CallEnd::ToolError => "tool-error",
        CallEnd::Failed => "failed",
        CallEnd::Denied => "denied",
        CallEnd::Interrupted => "cancelled",
    }
}
