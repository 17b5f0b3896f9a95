//! Encodes replies as events of the Anthropic messages API.

use serde_json::{Value, json};

use super::{ReplyEnd, ReplyPart, StreamEvent, halves, has_tool_calls};

pub(super) fn encode(parts: &[ReplyPart], stop_reason: ReplyEnd) -> Vec<StreamEvent> {
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
    let (mut index, mut text_index) = (0, None);
    for part in parts {
        // Consecutive texts belong to one block.
        if let (Some(open), false) =
            (text_index, matches!(part, ReplyPart::Text(_) | ReplyPart::Stall))
        {
            frames.push(block_stop(open));
            text_index = None;
        }
        match part {
            ReplyPart::Text(text) => {
                if text_index.is_none() {
                    frames.push(block_start(index, json!({"type": "text", "text": ""})));
                    text_index = Some(index);
                    index += 1;
                }
                let delta = json!({"type": "text_delta", "text": text});
                frames.push(block_delta(text_index.expect("the block is open"), delta));
            }
            ReplyPart::Thinking(text) => {
                frames.push(block_start(
                    index,
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                ));
                for half in halves(text) {
                    frames.push(block_delta(
                        index,
                        json!({"type": "thinking_delta", "thinking": half}),
                    ));
                }
                frames.push(block_delta(
                    index,
                    json!({"type": "signature_delta", "signature": "sealed-1"}),
                ));
                frames.push(block_stop(index));
                index += 1;
            }
            ReplyPart::ToolCall { id, tool, arguments } => {
                let block = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
                frames.push(block_start(index, block));
                for half in halves(arguments) {
                    frames.push(block_delta(
                        index,
                        json!({"type": "input_json_delta", "partial_json": half}),
                    ));
                }
                frames.push(block_stop(index));
                index += 1;
            }
            ReplyPart::Stall => frames.push(StreamEvent::Stall),
            ReplyPart::Disconnect => frames.push(StreamEvent::Disconnect),
            ReplyPart::Overloaded => {
                let error = json!({"type": "overloaded_error", "message": "Overloaded"});
                frames.push(event(json!({"type": "error", "error": error})));
            }
        }
    }
    frames.extend(text_index.map(block_stop));
    let reason = match stop_reason {
        ReplyEnd::EndTurn if has_tool_calls(parts) => "tool_use",
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

fn block_start(index: u64, block: Value) -> StreamEvent {
    event(json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn block_delta(index: u64, delta: Value) -> StreamEvent {
    event(json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn block_stop(index: u64) -> StreamEvent {
    event(json!({"type": "content_block_stop", "index": index}))
}
