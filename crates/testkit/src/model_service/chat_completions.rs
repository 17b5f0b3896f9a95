//! Encodes replies as chunks of OpenAI's chat completions.

use serde_json::{Value, json};

use super::{ReplyEnd, ReplyPart, StreamEvent, halves, has_tool_calls};

pub(super) fn encode(parts: &[ReplyPart], stop_reason: ReplyEnd) -> Vec<StreamEvent> {
    let mut frames = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut calls = 0;
    for part in parts {
        match part {
            ReplyPart::Text(text) if stop_reason == ReplyEnd::Refusal => {
                frames.push(delta(json!({"refusal": text})));
            }
            ReplyPart::Text(text) => frames.push(delta(json!({"content": text}))),
            ReplyPart::Thinking(text) => frames.push(delta(json!({"reasoning_content": text}))),
            ReplyPart::ToolCall { id, tool, arguments } => {
                let [first, second] = halves(arguments);
                let function = json!({"name": tool, "arguments": ""});
                let call =
                    json!({"index": calls, "id": id, "type": "function", "function": function});
                frames.push(delta(json!({"tool_calls": [call]})));
                for half in [first, second] {
                    let more = json!({"index": calls, "function": {"arguments": half}});
                    frames.push(delta(json!({"tool_calls": [more]})));
                }
                calls += 1;
            }
            ReplyPart::Stall => frames.push(StreamEvent::Stall),
            ReplyPart::Disconnect => frames.push(StreamEvent::Disconnect),
            ReplyPart::Overloaded => {
                let error = json!({"type": "server_error", "code": "rate_limit_exceeded", "message": "Overloaded"});
                frames.push(event(json!({"error": error})));
            }
        }
    }
    let reason = match stop_reason {
        ReplyEnd::EndTurn if has_tool_calls(parts) => "tool_calls",
        ReplyEnd::EndTurn | ReplyEnd::Refusal => "stop",
        ReplyEnd::MaxTokens => "length",
        ReplyEnd::Missing => return frames,
    };
    let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
    frames.push(event(chunk(json!([choice]), Value::Null)));
    let usage = json!({
        "prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 30},
    });
    frames.push(event(chunk(json!([]), usage)));
    frames.push(StreamEvent::Event("data: [DONE]\n\n".to_owned()));
    frames
}

fn delta(delta: Value) -> StreamEvent {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    event(chunk(json!([choice]), Value::Null))
}

fn chunk(choices: Value, usage: Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
        "choices": choices, "usage": usage,
    })
}

fn event(value: Value) -> StreamEvent {
    StreamEvent::Event(format!("data: {value}\n\n"))
}
