//! The Messages API of Anthropic: writes requests, parses the events of a response.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::message::{ContentBlock, Message, Role, ToolUse};
use crate::model::attempt_error::AttemptError;
use crate::model::config::ThinkingSetting;
use crate::model::language_model::{ModelRequest, ModelResponse, ResponseDelta, StopReason, Usage};
use crate::model::provider::tool_arguments::arguments_from_text;
use crate::model::provider::{RequestSettings, ResponseParser};

/// The default of `max_tokens`, which the API requires.
const DEFAULT_MAX_TOKENS: u64 = 16_000;
/// The most content blocks per response.
const MAX_BLOCKS: u64 = 10_000;

/// The body of a request.
pub(crate) fn body(request: &ModelRequest, settings: &RequestSettings) -> Json {
    let budget = match settings.thinking {
        ThinkingSetting::Budget(tokens) => Some(tokens.max(1024)),
        ThinkingSetting::Off | ThinkingSetting::Adaptive => None,
    };
    let length = settings.max_output_tokens(request).unwrap_or(DEFAULT_MAX_TOKENS);
    // Thinking counts towards `max_tokens`.
    let length = length.saturating_add(budget.unwrap_or_default());
    let mut body = json!({
        "model": settings.model,
        "max_tokens": length,
        "stream": true,
        "messages": messages(&request.messages, settings),
    });
    if !request.system_prompt.trim().is_empty() {
        body["system"] = json!([{"type": "text", "text": &*request.system_prompt}]);
        mark_cacheable(&mut body["system"]);
    }
    if !request.tools.is_empty() {
        let tool = |it: &crate::model::language_model::ToolDefinition| json!({"name": it.name, "description": it.description, "input_schema": it.input_schema});
        body["tools"] = request.tools.iter().map(tool).collect();
        mark_cacheable(&mut body["tools"]);
    }
    match (settings.thinking, budget) {
        (ThinkingSetting::Budget(_), Some(tokens)) => {
            body["thinking"] = json!({"type": "enabled", "budget_tokens": tokens});
        }
        (ThinkingSetting::Adaptive, _) => body["thinking"] = json!({"type": "adaptive"}),
        (ThinkingSetting::Off | ThinkingSetting::Budget(_), _) => {}
    }
    if let Some(effort) = settings.effort {
        body["output_config"] = json!({"effort": effort.anthropic_id()});
    }
    body
}

/// Marks the last item of a list as the end of a cacheable prefix.
fn mark_cacheable(list: &mut Json) {
    if let Some(last) = list.as_array_mut().and_then(|it| it.last_mut()) {
        // Thinking blocks cannot be marked.
        let is_thought = matches!(last["type"].as_str(), Some("thinking" | "redacted_thinking"));
        if !is_thought {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
    }
}

fn messages(history: &[Message], settings: &RequestSettings) -> Json {
    let mut messages: Vec<(Role, Vec<Json>)> = Vec::new();
    for message in history {
        let content = message.content.iter().filter_map(|block| content(block, settings));
        match messages.last_mut() {
            Some((role, blocks)) if *role == message.role => blocks.extend(content),
            Some(_) | None => messages.push((message.role, content.collect())),
        }
    }
    messages.retain(|(_, blocks)| !blocks.is_empty());
    let message = |(role, blocks): (Role, Vec<Json>)| {
        let role = match role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        json!({"role": role, "content": blocks})
    };
    let mut messages: Vec<Json> = messages.into_iter().map(message).collect();
    if let Some(last) = messages.last_mut() {
        mark_cacheable(&mut last["content"]);
    }
    Json::Array(messages)
}

fn content(block: &ContentBlock, settings: &RequestSettings) -> Option<Json> {
    Some(match block {
        // The API rejects empty texts.
        ContentBlock::Text { text } if text.trim().is_empty() => return None,
        ContentBlock::Text { text } => json!({"type": "text", "text": text}),
        ContentBlock::Image { mime, base64 } => {
            let source = json!({"type": "base64", "media_type": mime, "data": base64});
            json!({"type": "image", "source": source})
        }
        ContentBlock::Thinking { provider_block, .. } => {
            let provider_block =
                provider_block.as_ref().filter(|it| it["by"] == *settings.model_id)?;
            provider_block["block"].clone()
        }
        ContentBlock::ToolUse(call) => {
            let input = match call.arguments.is_object() {
                true => call.arguments.clone(),
                // The API accepts objects only.
                false => json!({"arguments": call.arguments}),
            };
            json!({"type": "tool_use", "id": safe_id(&call.id), "name": call.tool, "input": input})
        }
        ContentBlock::ToolResult(result) => {
            let inner: Vec<Json> =
                result.content.iter().filter_map(|it| content(it, settings)).collect();
            json!({
                "type": "tool_result", "tool_use_id": safe_id(&result.id),
                "content": inner, "is_error": result.is_error,
            })
        }
    })
}

/// An id with the allowed characters only; ids of other providers may contain others.
fn safe_id(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    id.chars().map(plain).collect()
}

/// The response so far.
pub(crate) struct MessagesParser {
    model_id: String,
    blocks: BTreeMap<u64, PartialBlock>,
    stop: Option<StopReason>,
    usage: Usage,
    is_complete: bool,
}

/// A content block so far.
#[derive(Clone)]
enum PartialBlock {
    Text(String),
    Thinking { text: String, signature: String },
    Redacted(Json),
    ToolUse { id: String, name: String, input: Json, arguments: String },
    Other,
}

impl MessagesParser {
    pub(crate) fn new(model_id: String) -> MessagesParser {
        let (blocks, usage) = (BTreeMap::new(), Usage::default());
        MessagesParser { model_id, blocks, stop: None, usage, is_complete: false }
    }

    fn start_block(&mut self, at: u64, block: &Json) -> Result<Vec<ResponseDelta>, AttemptError> {
        if at > MAX_BLOCKS {
            return Err(AttemptError::invalid_response("a response with too many parts"));
        }
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let mut deltas = Vec::new();
        let partial = match block["type"].as_str() {
            Some("text") => {
                if !text("text").is_empty() {
                    deltas.push(ResponseDelta::Text(text("text")));
                }
                PartialBlock::Text(text("text"))
            }
            Some("thinking") => {
                PartialBlock::Thinking { text: text("thinking"), signature: text("signature") }
            }
            Some("redacted_thinking") => PartialBlock::Redacted(block.clone()),
            Some("tool_use") => {
                deltas.push(ResponseDelta::ToolUse { id: text("id"), tool: text("name") });
                PartialBlock::ToolUse {
                    id: text("id"),
                    name: text("name"),
                    input: block["input"].clone(),
                    arguments: String::new(),
                }
            }
            Some(_) | None => PartialBlock::Other,
        };
        self.blocks.insert(at, partial);
        Ok(deltas)
    }

    fn extend_block(&mut self, at: u64, delta: &Json) -> Vec<ResponseDelta> {
        let piece = |name: &str| delta[name].as_str().unwrap_or_default();
        match (self.blocks.get_mut(&at), delta["type"].as_str()) {
            (Some(PartialBlock::Text(text)), Some("text_delta")) => {
                text.push_str(piece("text"));
                vec![ResponseDelta::Text(piece("text").to_owned())]
            }
            (Some(PartialBlock::Thinking { text, .. }), Some("thinking_delta")) => {
                text.push_str(piece("thinking"));
                vec![ResponseDelta::Thinking(piece("thinking").to_owned())]
            }
            (Some(PartialBlock::Thinking { signature, .. }), Some("signature_delta")) => {
                signature.push_str(piece("signature"));
                Vec::new()
            }
            (Some(PartialBlock::ToolUse { arguments, .. }), Some("input_json_delta")) => {
                arguments.push_str(piece("partial_json"));
                vec![ResponseDelta::ToolInput(piece("partial_json").to_owned())]
            }
            // A text whose start was not sent.
            (None, Some("text_delta")) if at <= MAX_BLOCKS => {
                self.blocks.insert(at, PartialBlock::Text(piece("text").to_owned()));
                vec![ResponseDelta::Text(piece("text").to_owned())]
            }
            // Unknown deltas.
            (_, _) => Vec::new(),
        }
    }

    fn end_block(&mut self, at: u64) -> Vec<ResponseDelta> {
        let Some(block) = self.blocks.get(&at) else { return Vec::new() };
        // A tool call without valid arguments may have been cut short, which is known at the end of the response.
        let block = content_block(block.clone(), &self.model_id, StopReason::MaxTokens);
        block.map(ResponseDelta::BlockEnded).into_iter().collect()
    }

    fn add_usage(&mut self, usage: &Json) {
        let number = |name: &str| usage[name].as_u64();
        if let Some(fresh) = number("input_tokens") {
            let (read, written) =
                (number("cache_read_input_tokens"), number("cache_creation_input_tokens"));
            self.usage.cached = read.unwrap_or_default();
            let old = self.usage.cached.saturating_add(written.unwrap_or_default());
            self.usage.input = fresh.saturating_add(old);
        }
        if let Some(output) = number("output_tokens") {
            self.usage.output = output;
        }
    }
}

impl ResponseParser for MessagesParser {
    fn push_event(&mut self, event: &Json) -> Result<Vec<ResponseDelta>, AttemptError> {
        let at = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str() {
            Some("message_start") => {
                self.add_usage(&event["message"]["usage"]);
                // Usually empty; some services send the whole message here.
                let blocks = event["message"]["content"].as_array().into_iter().flatten();
                let mut deltas = Vec::new();
                for (at, block) in (0..=MAX_BLOCKS).zip(blocks) {
                    deltas.extend(self.start_block(at, block)?);
                }
                return Ok(deltas);
            }
            Some("content_block_start") => return self.start_block(at, &event["content_block"]),
            Some("content_block_delta") => return Ok(self.extend_block(at, &event["delta"])),
            Some("message_delta") => {
                self.add_usage(&event["usage"]);
                self.stop = event["delta"]["stop_reason"].as_str().map(stop_reason).or(self.stop);
            }
            Some("message_stop") => self.is_complete = true,
            Some("error") => {
                let error = &event["error"];
                let text = |name: &str| error[name].as_str().unwrap_or_default();
                return Err(AttemptError::from_error_event(text("type"), text("message")));
            }
            Some("content_block_stop") => return Ok(self.end_block(at)),
            // Pings and unknown events.
            Some(_) | None => {}
        }
        Ok(Vec::new())
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, AttemptError> {
        let Some(stop) = self.stop.filter(|_| self.is_complete) else {
            return Err(AttemptError::stream_interrupted("the stream ended before the answer did"));
        };
        let model_id = self.model_id;
        let block = |block: PartialBlock| content_block(block, &model_id, stop);
        let blocks = self.blocks.into_values().filter_map(block).collect();
        Ok(ModelResponse { content: blocks, stop_reason: stop, usage: self.usage })
    }
}

fn content_block(block: PartialBlock, model_id: &str, stop: StopReason) -> Option<ContentBlock> {
    Some(match block {
        PartialBlock::Text(text) if text.is_empty() => return None,
        PartialBlock::Text(text) => ContentBlock::Text { text },
        PartialBlock::Thinking { text, signature } => {
            let block = json!({"type": "thinking", "thinking": text, "signature": signature});
            ContentBlock::Thinking {
                text,
                provider_block: Some(json!({"by": model_id, "block": block})),
            }
        }
        PartialBlock::Redacted(block) => {
            let provider_block = Some(json!({"by": model_id, "block": block}));
            ContentBlock::Thinking { text: String::new(), provider_block }
        }
        PartialBlock::ToolUse { id, name, input, arguments } => {
            // Arguments come in deltas, or with the block, or not at all.
            let arguments = match arguments.trim().is_empty() && input.is_object() {
                true => input,
                false => arguments_from_text(&arguments),
            };
            // A response that was cut short may end inside a call.
            if stop == StopReason::MaxTokens && !arguments.is_object() {
                return None;
            }
            ContentBlock::ToolUse(ToolUse { id, tool: name, arguments })
        }
        PartialBlock::Other => return None,
    })
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}
