//! The Chat Completions API of OpenAI and compatible services: writes requests, parses the chunks of a response. Tolerates
//! deviations of compatible services.

use serde_json::{Value as Json, json};

use crate::message::{ContentBlock, Message, Role, ToolResult, ToolUse};
use crate::model::attempt_error::AttemptError;
use crate::model::language_model::{
    ModelRequest, ModelResponse, ResponseDelta, StopReason, ToolDefinition, Usage,
};
use crate::model::provider::tool_arguments::{arguments_from_text, arguments_to_text};
use crate::model::provider::{RequestSettings, ResponseParser};

/// The most tool calls per response.
const MAX_CALLS: usize = 256;

/// The body of a request.
pub(crate) fn body(request: &ModelRequest, settings: &RequestSettings) -> Json {
    let mut messages = Vec::new();
    if !request.system_prompt.trim().is_empty() {
        messages.push(json!({"role": "system", "content": &*request.system_prompt}));
    }
    for source_message in request.messages.iter() {
        match source_message.role {
            Role::User => push_user_messages(source_message, &mut messages),
            Role::Assistant => messages.extend(assistant_message(source_message)),
        }
    }
    let mut body = json!({
        "model": settings.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(tokens) = settings.max_output_tokens(request) {
        body["max_completion_tokens"] = json!(tokens);
    }
    if let Some(effort) = settings.effort {
        body["reasoning_effort"] = json!(effort.openai_id());
    }
    body
}

fn tool(definition: &ToolDefinition) -> Json {
    let ToolDefinition { name, description, input_schema: schema } = definition;
    // The API requires `properties`, even without any.
    let mut schema = schema.clone();
    if schema["properties"].is_null() {
        schema["properties"] = json!({});
    }
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
}

/// Adds tool results first, directly after the calls. Results are text only; their images follow in a user message.
fn push_user_messages(source_message: &Message, messages: &mut Vec<Json>) {
    let mut content = Vec::new();
    for block in &source_message.content {
        match block {
            ContentBlock::ToolResult(result) => messages.push(tool_message(result)),
            ContentBlock::Text { text } => content.push(json!({"type": "text", "text": text})),
            ContentBlock::Image { mime, base64 } => content.push(image_part(mime, base64)),
            ContentBlock::Thinking { .. } | ContentBlock::ToolUse(_) => {}
        }
    }
    let shown: Vec<Json> = source_message.content.iter().flat_map(result_images).collect();
    if !shown.is_empty() {
        let about = json!({"type": "text", "text": "[pictures of the results above]"});
        let pictures: Vec<Json> = std::iter::once(about).chain(shown).collect();
        content.splice(..0, pictures);
    }
    let is_text = |it: &Json| it["type"] == "text";
    match content.as_slice() {
        [] => {}
        // A single text is sent as a string: some services accept no lists.
        [only] if is_text(only) => messages.push(json!({"role": "user", "content": only["text"]})),
        _ => messages.push(json!({"role": "user", "content": content})),
    }
}

fn tool_message(result: &ToolResult) -> Json {
    let text = |block: &ContentBlock| match block {
        ContentBlock::Text { text } => Some(text.clone()),
        ContentBlock::Image { mime, .. } => Some(format!("[a picture, {mime}, shown below]")),
        ContentBlock::Thinking { .. } | ContentBlock::ToolUse(_) | ContentBlock::ToolResult(_) => {
            None
        }
    };
    let text = result.content.iter().filter_map(text).collect::<Vec<_>>().join("\n");
    let text = if result.is_error { format!("error: {text}") } else { text };
    json!({"role": "tool", "tool_call_id": result.id, "content": text})
}

fn result_images(block: &ContentBlock) -> Vec<Json> {
    let ContentBlock::ToolResult(result) = block else { return Vec::new() };
    let shown = |block: &ContentBlock| match block {
        ContentBlock::Image { mime, base64 } => Some(image_part(mime, base64)),
        ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => None,
    };
    result.content.iter().filter_map(shown).collect()
}

fn image_part(mime: &str, base64: &str) -> Json {
    json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{base64}")}})
}

fn assistant_message(source_message: &Message) -> Option<Json> {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in &source_message.content {
        match block {
            ContentBlock::Text { text: more } => text.push_str(more),
            ContentBlock::ToolUse(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": {"name": call.tool, "arguments": arguments_to_text(&call.arguments)},
            })),
            ContentBlock::Image { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::ToolResult(_) => {}
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Json::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = Json::Array(calls);
    }
    Some(message)
}

/// The response so far.
#[derive(Default)]
pub(crate) struct ChatCompletionsParser {
    text: String,
    thinking: String,
    is_refusal: bool,
    calls: Vec<PartialToolUse>,
    stop: Option<StopReason>,
    usage: Usage,
}

/// A tool call so far.
struct PartialToolUse {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl ChatCompletionsParser {
    fn add_call_delta(&mut self, position: usize, piece: &Json) -> Result<(), AttemptError> {
        let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
        let position = u64::try_from(position).unwrap_or(u64::MAX);
        let index = piece["index"].as_u64().unwrap_or(position);
        let (id, name) = (text(&piece["id"]), text(&piece["function"]["name"]));
        // Some services give every call the same index; a new id starts a new call.
        let is_full = self.calls.len() >= MAX_CALLS;
        let existing = self.calls.iter_mut().rev().find(|it| it.index == index);
        let existing = existing.filter(|it| id.is_empty() || it.id.is_empty() || it.id == id);
        let arguments = &piece["function"]["arguments"];
        let arguments =
            if arguments.is_null() { String::new() } else { arguments_to_text(arguments) };
        match existing {
            Some(partial) => {
                if partial.id.is_empty() {
                    partial.id = id;
                }
                if partial.name.is_empty() {
                    partial.name = name;
                }
                partial.arguments.push_str(&arguments);
            }
            None if is_full => {
                return Err(AttemptError::invalid_response("a response with too many tool calls"));
            }
            None => self.calls.push(PartialToolUse { index, id, name, arguments }),
        }
        Ok(())
    }
}

/// The text of a string, or of a list of parts, which some services send instead.
fn text_of(content: &Json) -> String {
    match content {
        Json::String(text) => text.clone(),
        Json::Array(parts) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => String::new(),
    }
}

impl ResponseParser for ChatCompletionsParser {
    fn push_event(&mut self, event: &Json) -> Result<Vec<ResponseDelta>, AttemptError> {
        let error = &event["error"];
        if !error.is_null() {
            let text = |name: &str| error[name].as_str();
            let code = text("code").or(text("type")).unwrap_or_default();
            return Err(AttemptError::from_error_event(code, text("message").unwrap_or_default()));
        }
        if let Some(usage) = Some(&event["usage"]).filter(|it| it.is_object()) {
            let number = |json: &Json| json.as_u64().unwrap_or_default();
            self.usage = Usage {
                input: number(&usage["prompt_tokens"]),
                cached: number(&usage["prompt_tokens_details"]["cached_tokens"]),
                output: number(&usage["completion_tokens"]),
            };
        }
        let (choice, mut deltas) = (&event["choices"][0], Vec::new());
        // Some services send the whole message at the end instead of deltas, or after them.
        let (delta, whole) = (&choice["delta"], &choice["message"]);
        for (message, is_whole) in [(delta, false), (whole, true)] {
            let piece = |name: &str| Some(text_of(&message[name])).filter(|it| !it.is_empty());
            let rest = |more: String, before: &str| match is_whole {
                false => Some(more),
                true => more.strip_prefix(before).filter(|it| !it.is_empty()).map(str::to_owned),
            };
            let thinking = piece("reasoning_content").or(piece("reasoning"));
            if let Some(more) = thinking.and_then(|it| rest(it, &self.thinking)) {
                self.thinking.push_str(&more);
                deltas.push(ResponseDelta::Thinking(more));
            }
            for name in ["content", "refusal"] {
                if let Some(more) = piece(name).and_then(|it| rest(it, &self.text)) {
                    self.is_refusal |= name == "refusal";
                    self.text.push_str(&more);
                    deltas.push(ResponseDelta::Text(more));
                }
            }
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let calls = calls.filter(|_| !is_whole || self.calls.is_empty()).collect::<Vec<_>>();
            for (position, call) in calls.into_iter().enumerate() {
                self.add_call_delta(position, call)?;
            }
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.stop = Some(match reason {
                "tool_calls" | "function_call" => StopReason::ToolUse,
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::Refusal,
                _ => StopReason::EndTurn,
            });
        }
        Ok(deltas)
    }

    /// Never: the usage comes after the last text, if at all.
    fn is_complete(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, AttemptError> {
        let Some(stop) = self.stop else {
            return Err(AttemptError::stream_interrupted("the stream ended before the answer did"));
        };
        let stop = match stop {
            StopReason::EndTurn if self.is_refusal => StopReason::Refusal,
            StopReason::EndTurn if !self.calls.is_empty() => StopReason::ToolUse,
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::MaxTokens
            | StopReason::Refusal => stop,
        };
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            blocks.push(ContentBlock::Thinking { text: self.thinking, provider_block: None });
        }
        if !self.text.is_empty() {
            blocks.push(ContentBlock::Text { text: self.text });
        }
        for PartialToolUse { id, name, arguments, .. } in self.calls {
            let arguments = arguments_from_text(&arguments);
            // A response that was cut short may end inside a call.
            if stop != StopReason::MaxTokens || arguments.is_object() {
                blocks.push(ContentBlock::ToolUse(ToolUse { id, tool: name, arguments }));
            }
        }
        Ok(ModelResponse { content: blocks, stop_reason: stop, usage: self.usage })
    }
}
