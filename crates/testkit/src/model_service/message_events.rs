//! An answer as the events of Anthropic's messages.

use serde_json::{Value, json};

use super::{ReplyEnd, ReplyPart, StreamEvent, halves, has_tool_calls};

pub(super) fn encode(pieces: &[ReplyPart], ending: ReplyEnd) -> Vec<StreamEvent> {
    let usage = json!({
        "input_tokens": 60, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 30,
        "output_tokens": 1,
    });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "scripted",
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let mut frames = vec![event(json!({"type": "message_start", "message": message}))];
    frames.push(event(json!({"type": "ping"})));
    let (mut at, mut text_at) = (0, None);
    for piece in pieces {
        // Words that follow each other belong to one block.
        if let (Some(open), false) =
            (text_at, matches!(piece, ReplyPart::Text(_) | ReplyPart::Stall))
        {
            frames.push(block_stop(open));
            text_at = None;
        }
        match piece {
            ReplyPart::Text(text) => {
                if text_at.is_none() {
                    frames.push(block_start(at, json!({"type": "text", "text": ""})));
                    text_at = Some(at);
                    at += 1;
                }
                let delta = json!({"type": "text_delta", "text": text});
                frames.push(block_delta(text_at.expect("just begun"), delta));
            }
            ReplyPart::Thinking(text) => {
                frames.push(block_start(
                    at,
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                ));
                for half in halves(text) {
                    frames
                        .push(block_delta(at, json!({"type": "thinking_delta", "thinking": half})));
                }
                frames.push(block_delta(
                    at,
                    json!({"type": "signature_delta", "signature": "sealed-1"}),
                ));
                frames.push(block_stop(at));
                at += 1;
            }
            ReplyPart::ToolCall { id, tool, arguments } => {
                let block = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
                frames.push(block_start(at, block));
                for half in halves(arguments) {
                    frames.push(block_delta(
                        at,
                        json!({"type": "input_json_delta", "partial_json": half}),
                    ));
                }
                frames.push(block_stop(at));
                at += 1;
            }
            ReplyPart::Stall => frames.push(StreamEvent::Stall),
            ReplyPart::Disconnect => frames.push(StreamEvent::Disconnect),
            ReplyPart::Overloaded => {
                let error = json!({"type": "overloaded_error", "message": "Overloaded"});
                frames.push(event(json!({"type": "error", "error": error})));
            }
        }
    }
    frames.extend(text_at.map(block_stop));
    let reason = match ending {
        ReplyEnd::EndTurn if has_tool_calls(pieces) => "tool_use",
        ReplyEnd::EndTurn => "end_turn",
        ReplyEnd::MaxTokens => "max_tokens",
        ReplyEnd::Refusal => "refusal",
        ReplyEnd::Missing => return frames,
    };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    frames.push(event(
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}),
    ));
    frames.push(event(json!({"type": "message_stop"})));
    frames
}

fn event(value: Value) -> StreamEvent {
    let name = value["type"].as_str().unwrap_or_default();
    StreamEvent::Event(format!("event: {name}\ndata: {value}\n\n"))
}

fn block_start(at: u64, block: Value) -> StreamEvent {
    event(json!({"type": "content_block_start", "index": at, "content_block": block}))
}

fn block_delta(at: u64, delta: Value) -> StreamEvent {
    event(json!({"type": "content_block_delta", "index": at, "delta": delta}))
}

fn block_stop(at: u64) -> StreamEvent {
    event(json!({"type": "content_block_stop", "index": at}))
}
