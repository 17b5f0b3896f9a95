//! An answer as the events of OpenAI's responses.

use serde_json::{Value, json};

use super::{Ending, Frame, Piece, halves};

pub(super) fn frames(pieces: &[Piece], ending: Ending) -> Vec<Frame> {
    let mut frames = vec![event(json!({"type": "response.created", "response": {"id": "resp_1"}}))];
    let mut said = String::new();
    for piece in pieces {
        match piece {
            Piece::Say(text) => {
                said.push_str(text);
                let kind = match ending {
                    Ending::Refusal => "response.refusal.delta",
                    Ending::Done | Ending::Length | Ending::Silence => "response.output_text.delta",
                };
                frames.push(event(json!({"type": kind, "output_index": 0, "delta": text})));
                continue;
            }
            Piece::Stall => {
                frames.push(Frame::Stall);
                continue;
            }
            Piece::Think(_) | Piece::Call { .. } | Piece::BreakOff | Piece::Overloaded => {
                end_message(&mut said, ending, &mut frames);
            }
        }
        match piece {
            Piece::Think(text) => {
                for half in halves(text) {
                    let delta =
                        json!({"type": "response.reasoning_summary_text.delta", "delta": half});
                    frames.push(event(delta));
                }
                let summary = json!([{"type": "summary_text", "text": text}]);
                frames.push(done(json!({
                    "type": "reasoning", "id": "rs_1", "summary": summary,
                    "encrypted_content": "sealed-1", "status": "completed",
                })));
            }
            Piece::Call { id, tool, arguments } => {
                for half in halves(arguments) {
                    let delta =
                        json!({"type": "response.function_call_arguments.delta", "delta": half});
                    frames.push(event(delta));
                }
                frames.push(done(json!({
                    "type": "function_call", "id": "fc_1", "call_id": id, "name": tool,
                    "arguments": arguments, "status": "completed",
                })));
            }
            Piece::BreakOff => frames.push(Frame::BreakOff),
            Piece::Overloaded => {
                let error = json!({"code": "rate_limit_exceeded", "message": "Overloaded"});
                let failed = json!({"type": "response.failed", "response": {"error": error}});
                frames.push(event(failed));
            }
            Piece::Say(_) | Piece::Stall => {}
        }
    }
    end_message(&mut said, ending, &mut frames);
    let usage = json!({
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 7,
    });
    let last = match ending {
        Ending::Silence => return frames,
        Ending::Done | Ending::Refusal => {
            json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}})
        }
        Ending::Length => json!({"type": "response.incomplete", "response": {
            "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": usage,
        }}),
    };
    frames.push(event(last));
    frames
}

fn end_message(said: &mut String, ending: Ending, frames: &mut Vec<Frame>) {
    if said.is_empty() {
        return;
    }
    let text = std::mem::take(said);
    let content = match ending {
        Ending::Refusal => json!({"type": "refusal", "refusal": text}),
        Ending::Done | Ending::Length | Ending::Silence => {
            json!({"type": "output_text", "text": text, "annotations": []})
        }
    };
    frames.push(done(json!({
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [content],
    })));
}

fn done(item: Value) -> Frame {
    event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}))
}

fn event(value: Value) -> Frame {
    let name = value["type"].as_str().unwrap_or_default();
    Frame::Event(format!("event: {name}\ndata: {value}\n\n"))
}
