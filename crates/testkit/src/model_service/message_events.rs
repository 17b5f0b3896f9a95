//! An answer as the events of Anthropic's messages.

use serde_json::{Value, json};

use super::{Ending, Frame, Piece, halves, has_calls};

pub(super) fn frames(pieces: &[Piece], ending: Ending) -> Vec<Frame> {
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
        if let (Some(open), false) = (text_at, matches!(piece, Piece::Say(_) | Piece::Stall)) {
            frames.push(stop(open));
            text_at = None;
        }
        match piece {
            Piece::Say(text) => {
                if text_at.is_none() {
                    frames.push(start(at, json!({"type": "text", "text": ""})));
                    text_at = Some(at);
                    at += 1;
                }
                let delta = json!({"type": "text_delta", "text": text});
                frames.push(more(text_at.expect("just begun"), delta));
            }
            Piece::Think(text) => {
                frames
                    .push(start(at, json!({"type": "thinking", "thinking": "", "signature": ""})));
                for half in halves(text) {
                    frames.push(more(at, json!({"type": "thinking_delta", "thinking": half})));
                }
                frames.push(more(at, json!({"type": "signature_delta", "signature": "sealed-1"})));
                frames.push(stop(at));
                at += 1;
            }
            Piece::Call { id, tool, arguments } => {
                let block = json!({"type": "tool_use", "id": id, "name": tool, "input": {}});
                frames.push(start(at, block));
                for half in halves(arguments) {
                    frames
                        .push(more(at, json!({"type": "input_json_delta", "partial_json": half})));
                }
                frames.push(stop(at));
                at += 1;
            }
            Piece::Stall => frames.push(Frame::Stall),
            Piece::BreakOff => frames.push(Frame::BreakOff),
            Piece::Overloaded => {
                let error = json!({"type": "overloaded_error", "message": "Overloaded"});
                frames.push(event(json!({"type": "error", "error": error})));
            }
        }
    }
    frames.extend(text_at.map(stop));
    let reason = match ending {
        Ending::Done if has_calls(pieces) => "tool_use",
        Ending::Done => "end_turn",
        Ending::Length => "max_tokens",
        Ending::Refusal => "refusal",
        Ending::Silence => return frames,
    };
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    frames.push(event(
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}),
    ));
    frames.push(event(json!({"type": "message_stop"})));
    frames
}

fn event(value: Value) -> Frame {
    let name = value["type"].as_str().unwrap_or_default();
    Frame::Event(format!("event: {name}\ndata: {value}\n\n"))
}

fn start(at: u64, block: Value) -> Frame {
    event(json!({"type": "content_block_start", "index": at, "content_block": block}))
}

fn more(at: u64, delta: Value) -> Frame {
    event(json!({"type": "content_block_delta", "index": at, "delta": delta}))
}

fn stop(at: u64) -> Frame {
    event(json!({"type": "content_block_stop", "index": at}))
}
