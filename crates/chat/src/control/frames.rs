//! The frames that a session prints. Pure: from values to JSON.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use crate::channel::ReceivedChannelMessage;
use crate::control::ids::new_uuid;
use crate::message::{ContentBlock, ToolResult};
use crate::model::language_model::{StopReason, Usage};

/// The version of the peer program whose protocol this is; SDKs look at its form.
pub const EMULATED_VERSION: &str = "2.1.325";

/// The details of a result that no server gave.
pub(crate) const NO_DETAILS: Option<&Json> = None;

/// The parts of frames that are the same for a whole session.
#[derive(Debug, Clone)]
pub(crate) struct FrameContext {
    pub(crate) session_id: String,
}

impl FrameContext {
    /// A frame with the members that every frame has.
    pub(crate) fn frame(&self, kind: &str, members: Json) -> Json {
        let mut frame = Map::new();
        frame.insert("type".to_owned(), kind.into());
        if let Json::Object(members) = members {
            frame.extend(members);
        }
        frame.insert("session_id".to_owned(), self.session_id.clone().into());
        frame.insert("uuid".to_owned(), new_uuid().into());
        Json::Object(frame)
    }

    pub(crate) fn system(&self, subtype: &str, members: Json) -> Json {
        let mut all = json!({"subtype": subtype});
        if let (Some(all), Json::Object(members)) = (all.as_object_mut(), members) {
            all.extend(members);
        }
        self.frame("system", all)
    }

    /// One block of a response.
    pub(crate) fn assistant(&self, message: &MessageHead, block: &ContentBlock) -> Option<Json> {
        let content = block_json(block)?;
        Some(self.frame("assistant", json!({
            "message": {
                "id": message.id, "type": "message", "role": "assistant", "model": message.model,
                "content": [content], "stop_reason": null, "stop_sequence": null,
                "usage": usage_json(&message.usage),
            },
            "parent_tool_use_id": null,
        })))
    }

    /// A message that no model wrote.
    pub(crate) fn synthetic(&self, text: &str, error: &str) -> Json {
        let id = format!("msg_{}", new_uuid());
        self.frame(
            "assistant",
            json!({
                "message": {
                    "id": id, "type": "message", "role": "assistant", "model": "<synthetic>",
                    "content": [{"type": "text", "text": text}], "stop_reason": "stop_sequence",
                    "stop_sequence": "", "usage": usage_json(&Usage::default()),
                },
                "parent_tool_use_id": null,
                "error": error,
            }),
        )
    }

    /// The result of a tool call, and what its server said besides.
    pub(crate) fn tool_result(&self, result: &ToolResult, details: Option<&Json>) -> Json {
        let content = result_content(result);
        let plain = match &content[..] {
            [only] if only["type"] == "text" => only["text"].clone(),
            _ => Json::Array(content),
        };
        let mut members = json!({
            "message": {"role": "user", "content": [{
                "type": "tool_result", "tool_use_id": result.id, "content": plain,
                "is_error": result.is_error,
            }]},
            "parent_tool_use_id": null,
        });
        if let Some(details) = details {
            members["tool_use_result"] = details.clone();
        }
        self.frame("user", members)
    }

    /// A text in the user's name that the session adds.
    pub(crate) fn user_text(&self, text: &str) -> Json {
        self.frame(
            "user",
            json!({
                "message": {"role": "user", "content": [{"type": "text", "text": text}]},
                "parent_tool_use_id": null,
            }),
        )
    }

    /// A message of a channel, which begins a turn or belongs to one.
    pub(crate) fn channel_message(&self, message: &ReceivedChannelMessage) -> Json {
        let meta: Map<String, Json> =
            message.meta.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        let members = json!({"server": message.server, "content": message.content, "meta": meta});
        self.system("channel_message", members)
    }

    /// An event of a response while it streams.
    pub(crate) fn stream_event(&self, event: Json) -> Json {
        self.frame("stream_event", json!({"event": event, "parent_tool_use_id": null}))
    }

    /// The state of the session, for programs that wait until nothing is left to do.
    pub(crate) fn state(&self, state: SessionState) -> Json {
        let members = json!({"state": state.id(), "sdk_host_only": true});
        self.system("session_state_changed", members)
    }
}

/// The message that a block belongs to.
#[derive(Debug, Clone)]
pub(crate) struct MessageHead {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) usage: Usage,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// A turn runs.
    Running,
    /// The program has to answer first.
    RequiresAction,
    /// Nothing is left to do.
    Idle,
}

impl SessionState {
    pub(crate) fn id(self) -> &'static str {
        match self {
            SessionState::Running => "running",
            SessionState::RequiresAction => "requires_action",
            SessionState::Idle => "idle",
        }
    }
}

/// A block as the Messages API has it; `None` for blocks that responses do not contain.
pub(crate) fn block_json(block: &ContentBlock) -> Option<Json> {
    Some(match block {
        ContentBlock::Text { text } => json!({"type": "text", "text": text}),
        ContentBlock::Thinking { text, .. } => {
            json!({"type": "thinking", "thinking": text, "signature": signature(block)})
        }
        ContentBlock::ToolUse(call) => {
            json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments})
        }
        ContentBlock::Image { mime, base64 } => image_json(mime, base64),
        ContentBlock::ToolResult(_) => return None,
    })
}

/// The signature of a thinking block; empty where its provider has none.
pub(crate) fn signature(block: &ContentBlock) -> &str {
    match block {
        ContentBlock::Thinking { provider_block: Some(provider), .. } => {
            provider["block"]["signature"].as_str().unwrap_or_default()
        }
        ContentBlock::Thinking { provider_block: None, .. }
        | ContentBlock::Text { .. }
        | ContentBlock::Image { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => "",
    }
}

fn image_json(mime: &str, base64: &str) -> Json {
    json!({"type": "image", "source": {"type": "base64", "media_type": mime, "data": base64}})
}

/// The content of a result as blocks of the Messages API.
pub(crate) fn result_content(result: &ToolResult) -> Vec<Json> {
    result.content.iter().filter_map(block_json).collect()
}

/// Used tokens as the Messages API counts them: input tokens without cached ones.
pub(crate) fn usage_json(usage: &Usage) -> Json {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

pub(crate) fn stop_reason_id(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
    }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
