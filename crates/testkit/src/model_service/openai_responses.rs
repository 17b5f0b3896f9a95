//! Encodes replies as events of OpenAI's responses API.

use serde_json::{Value, json};

use super::{ReplyEnd, ReplyPart, StreamEvent, halves};

pub(super) fn encode(parts: &[ReplyPart], stop_reason: ReplyEnd) -> Vec<StreamEvent> {
    let mut frames = vec![event(json!({"type": "response.created", "response": {"id": "resp_1"}}))];
    let mut pending_text = String::new();
    for part in parts {
        match part {
            ReplyPart::Text(text) => {
                pending_text.push_str(text);
                let kind = match stop_reason {
                    ReplyEnd::Refusal => "response.refusal.delta",
                    ReplyEnd::EndTurn | ReplyEnd::MaxTokens | ReplyEnd::Missing => {
                        "response.output_text.delta"
                    }
                };
                frames.push(event(json!({"type": kind, "output_index": 0, "delta": text})));
                continue;
            }
            ReplyPart::Stall => {
                frames.push(StreamEvent::Stall);
                continue;
            }
            ReplyPart::Thinking(_)
            | ReplyPart::ToolCall { .. }
            | ReplyPart::Disconnect
            | ReplyPart::Overloaded => {
                end_message(&mut pending_text, stop_reason, &mut frames);
            }
        }
        match part {
            ReplyPart::Thinking(text) => {
                for half in halves(text) {
                    let delta =
                        json!({"type": "response.reasoning_summary_text.delta", "delta": half});
                    frames.push(event(delta));
                }
                let summary = json!([{"type": "summary_text", "text": text}]);
                frames.push(output_item_done(json!({
                    "type": "reasoning", "id": "rs_1", "summary": summary,
                    "encrypted_content": "sealed-1", "status": "completed",
                })));
            }
            ReplyPart::ToolCall { id, tool, arguments } => {
                for half in halves(arguments) {
                    let delta =
                        json!({"type": "response.function_call_arguments.delta", "delta": half});
                    frames.push(event(delta));
                }
                frames.push(output_item_done(json!({
                    "type": "function_call", "id": "fc_1", "call_id": id, "name": tool,
                    "arguments": arguments, "status": "completed",
                })));
            }
            ReplyPart::Disconnect => frames.push(StreamEvent::Disconnect),
            ReplyPart::Overloaded => {
                let error = json!({"code": "rate_limit_exceeded", "message": "Overloaded"});
                let failed = json!({"type": "response.failed", "response": {"error": error}});
                frames.push(event(failed));
            }
            ReplyPart::Text(_) | ReplyPart::Stall => {}
        }
    }
    end_message(&mut pending_text, stop_reason, &mut frames);
    let usage = json!({
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 7,
    });
    let last = match stop_reason {
        ReplyEnd::Missing => return frames,
        ReplyEnd::EndTurn | ReplyEnd::Refusal => {
            json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}})
        }
        ReplyEnd::MaxTokens => json!({"type": "response.incomplete", "response": {
            "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": usage,
        }}),
    };
    frames.push(event(last));
    frames
}

fn end_message(pending_text: &mut String, stop_reason: ReplyEnd, frames: &mut Vec<StreamEvent>) {
    if pending_text.is_empty() {
        return;
    }
    let text = std::mem::take(pending_text);
    let content = match stop_reason {
        ReplyEnd::Refusal => json!({"type": "refusal", "refusal": text}),
        ReplyEnd::EndTurn | ReplyEnd::MaxTokens | ReplyEnd::Missing => {
            json!({"type": "output_text", "text": text, "annotations": []})
        }
    };
    frames.push(output_item_done(json!({
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [content],
    })));
}

fn output_item_done(item: Value) -> StreamEvent {
    event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}))
}

fn event(value: Value) -> StreamEvent {
    let name = value["type"].as_str().unwrap_or_default();
    StreamEvent::Event(format!("event: {name}\ndata: {value}\n\n"))
}
