//! The Responses API of OpenAI: writes a conversation as items, parses the events of a response. Nothing is stored at the
//! service: its encrypted reasoning is sent back with each request.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};

use crate::message::{ContentBlock, Message, Role, ToolResult, ToolUse};
use crate::model::attempt_error::AttemptError;
use crate::model::language_model::{
    ModelRequest, ModelResponse, ResponseDelta, StopReason, ToolDefinition, Usage,
};
use crate::model::provider::tool_arguments::{arguments_from_text, arguments_to_text};
use crate::model::provider::{RequestSettings, ResponseParser};

/// The most items per response.
const MAX_ITEMS: usize = 10_000;

/// The body of a request.
pub(crate) fn body(request: &ModelRequest, settings: &RequestSettings) -> Json {
    let messages = request.messages.iter().enumerate();
    let input: Vec<Json> = messages.flat_map(|(at, it)| items(at, it, settings)).collect();
    let mut body = json!({
        "model": settings.model,
        "input": input,
        "stream": true,
        "store": false,
    });
    if settings.returns_encrypted_reasoning.load(Ordering::Relaxed) {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if !request.system_prompt.trim().is_empty() {
        body["instructions"] = json!(&*request.system_prompt);
    }
    if !request.tools.is_empty() {
        let tool = |it: &ToolDefinition| {
            let mut schema = it.input_schema.clone();
            if schema["properties"].is_null() {
                schema["properties"] = json!({});
            }
            json!({
                "type": "function", "name": it.name, "description": it.description,
                "parameters": schema, "strict": false,
            })
        };
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(tokens) = settings.max_output_tokens(request) {
        body["max_output_tokens"] = json!(tokens);
    }
    if let Some(effort) = settings.effort {
        body["reasoning"] = json!({"effort": effort.openai_id()});
    }
    body
}

/// The items of the message at a position of the conversation.
fn items(at: usize, source_message: &Message, settings: &RequestSettings) -> Vec<Json> {
    let mut items: Vec<Json> = Vec::new();
    for block in &source_message.content {
        let content = match (block, source_message.role) {
            (ContentBlock::Text { text }, Role::User) => {
                json!({"type": "input_text", "text": text})
            }
            (ContentBlock::Text { text }, Role::Assistant) => {
                json!({"type": "output_text", "text": text, "annotations": []})
            }
            (ContentBlock::Image { mime, base64 }, Role::User) => image_part(mime, base64),
            // The API has no images in messages of the assistant.
            (ContentBlock::Image { .. }, Role::Assistant) => continue,
            (ContentBlock::Thinking { provider_block, .. }, _) => {
                let provider_block =
                    provider_block.as_ref().filter(|it| it["by"] == *settings.model_id);
                items.extend(provider_block.map(|it| it["block"].clone()));
                continue;
            }
            (ContentBlock::ToolUse(call), _) => {
                items.push(json!({
                    "type": "function_call", "call_id": call.id, "name": call.tool,
                    "arguments": arguments_to_text(&call.arguments),
                }));
                continue;
            }
            (ContentBlock::ToolResult(result), _) => {
                items.push(json!({
                    "type": "function_call_output", "call_id": result.id, "output": function_output(result),
                }));
                continue;
            }
        };
        let part = items.len();
        match items.last_mut().filter(|it| it["type"] == "message") {
            Some(message) => {
                if let Some(list) = message["content"].as_array_mut() {
                    list.push(content);
                }
            }
            None => items.push(match source_message.role {
                Role::User => json!({"type": "message", "role": "user", "content": [content]}),
                // The API requires an id. The service keeps no items, so the id only has to be unique.
                Role::Assistant => json!({
                    "type": "message", "id": format!("msg_{at}_{part}"), "role": "assistant",
                    "status": "completed", "content": [content],
                }),
            }),
        }
    }
    items
}

fn image_part(mime: &str, base64: &str) -> Json {
    json!({"type": "input_image", "image_url": format!("data:{mime};base64,{base64}")})
}

/// The output of a call: a string where it is text only, which every compatible service accepts.
fn function_output(result: &ToolResult) -> Json {
    let failed = if result.is_error { "error: " } else { "" };
    let (mut text, mut content) = (failed.to_owned(), Vec::new());
    for block in &result.content {
        match block {
            ContentBlock::Text { text: more } => {
                if text.len() > failed.len() {
                    text.push('\n');
                }
                text.push_str(more);
            }
            ContentBlock::Image { mime, base64 } => content.push(image_part(mime, base64)),
            ContentBlock::Thinking { .. }
            | ContentBlock::ToolUse(_)
            | ContentBlock::ToolResult(_) => {}
        }
    }
    if content.is_empty() {
        return json!(text);
    }
    if !text.is_empty() {
        content.insert(0, json!({"type": "input_text", "text": text}));
    }
    Json::Array(content)
}

/// The response so far.
pub(crate) struct ResponsesParser {
    model_id: String,
    items: Vec<Json>,
    /// The text deltas of items that are not complete yet, by the number of the item.
    streamed: BTreeMap<usize, String>,
    end: Option<ResponseEnd>,
    usage: Usage,
}

/// How the response ended.
#[derive(Clone, Copy)]
enum ResponseEnd {
    Completed,
    CutShort,
    Filtered,
}

impl ResponsesParser {
    pub(crate) fn new(model_id: String) -> ResponsesParser {
        ResponsesParser {
            model_id,
            items: Vec::new(),
            streamed: BTreeMap::new(),
            end: None,
            usage: Usage::default(),
        }
    }

    /// The number of the item that an event is about; the next one where the service does not say it.
    fn item_number(&self, event: &Json) -> usize {
        let number = event["output_index"].as_u64().and_then(|it| usize::try_from(it).ok());
        number.unwrap_or(self.items.len())
    }

    fn add_text_delta(&mut self, event: &Json) -> Result<Vec<ResponseDelta>, AttemptError> {
        let piece = event["delta"].as_str().unwrap_or_default();
        let number = self.item_number(event);
        if self.streamed.len() >= MAX_ITEMS && !self.streamed.contains_key(&number) {
            return Err(too_many_parts());
        }
        self.streamed.entry(number).or_default().push_str(piece);
        Ok(vec![ResponseDelta::Text(piece.to_owned())])
    }

    /// Adds a complete item. Returns the text of it that came in no delta.
    fn add_item(&mut self, number: usize, item: &Json) -> Result<Vec<ResponseDelta>, AttemptError> {
        if self.items.len() >= MAX_ITEMS {
            return Err(too_many_parts());
        }
        self.items.push(item.clone());
        if item["type"] != "message" {
            return Ok(Vec::new());
        }
        let text: String = message_texts(item).map(|(_, text)| text).collect();
        let streamed = self.streamed.remove(&number).unwrap_or_default();
        let rest = text.strip_prefix(&streamed).filter(|it| !it.is_empty());
        Ok(rest.map(|it| ResponseDelta::Text(it.to_owned())).into_iter().collect())
    }

    fn complete(
        &mut self,
        response: &Json,
        end: ResponseEnd,
    ) -> Result<Vec<ResponseDelta>, AttemptError> {
        let number = |json: &Json| json.as_u64().unwrap_or_default();
        let usage = &response["usage"];
        self.usage = Usage {
            input: number(&usage["input_tokens"]),
            cached: number(&usage["input_tokens_details"]["cached_tokens"]),
            output: number(&usage["output_tokens"]),
        };
        self.end = Some(end);
        // Some services send items only with the end of the response.
        let items = response["output"].as_array().into_iter().flatten();
        let mut deltas = Vec::new();
        for (number, item) in items.enumerate().skip(self.items.len()) {
            deltas.extend(self.add_item(number, item)?);
        }
        Ok(deltas)
    }
}

impl ResponseParser for ResponsesParser {
    fn push_event(&mut self, event: &Json) -> Result<Vec<ResponseDelta>, AttemptError> {
        let piece = || event["delta"].as_str().unwrap_or_default().to_owned();
        let service_error = |error: &Json| {
            let text = |name: &str| error[name].as_str();
            let code = text("code").or(text("type")).unwrap_or_default();
            AttemptError::from_error_event(code, text("message").unwrap_or_default())
        };
        match event["type"].as_str() {
            Some("response.output_text.delta" | "response.refusal.delta") => {
                return self.add_text_delta(event);
            }
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                return Ok(vec![ResponseDelta::Thinking(piece())]);
            }
            Some("response.output_item.done") => {
                return self.add_item(self.item_number(event), &event["item"]);
            }
            Some("response.completed") => {
                return self.complete(&event["response"], ResponseEnd::Completed);
            }
            Some("response.incomplete") => {
                let reason = event["response"]["incomplete_details"]["reason"].as_str();
                let end = match reason {
                    Some("content_filter") => ResponseEnd::Filtered,
                    Some(_) | None => ResponseEnd::CutShort,
                };
                return self.complete(&event["response"], end);
            }
            Some("response.failed") => return Err(service_error(&event["response"]["error"])),
            Some("error") if event["error"].is_object() => {
                return Err(service_error(&event["error"]));
            }
            Some("error") => return Err(service_error(event)),
            // Events about items that come complete later.
            Some(_) | None => {}
        }
        Ok(Vec::new())
    }

    fn is_complete(&self) -> bool {
        self.end.is_some()
    }

    fn finish(self: Box<Self>) -> Result<ModelResponse, AttemptError> {
        let Some(end) = self.end else {
            return Err(AttemptError::stream_interrupted("the stream ended before the answer did"));
        };
        let (mut blocks, mut is_refusal) = (Vec::new(), false);
        for item in &self.items {
            match item["type"].as_str() {
                Some("message") => is_refusal |= push_message_text(item, &mut blocks),
                Some("function_call") => {
                    let text = |name: &str| item[name].as_str().unwrap_or_default();
                    let arguments = arguments_from_text(text("arguments"));
                    let is_whole = item["status"] != "incomplete";
                    if is_whole || arguments.is_object() {
                        let (id, tool) = (text("call_id").to_owned(), text("name").to_owned());
                        blocks.push(ContentBlock::ToolUse(ToolUse { id, tool, arguments }));
                    }
                }
                Some("reasoning") => blocks.push(thinking_block(item, &self.model_id)),
                Some(_) | None => {}
            }
        }
        // Text whose item never came complete.
        let texts = self.streamed.into_values().filter(|it| !it.is_empty());
        blocks.extend(texts.map(|text| ContentBlock::Text { text }));
        let has_tool_use = blocks.iter().any(|it| matches!(it, ContentBlock::ToolUse(_)));
        let stop = match end {
            ResponseEnd::CutShort => StopReason::MaxTokens,
            ResponseEnd::Filtered => StopReason::Refusal,
            ResponseEnd::Completed if is_refusal => StopReason::Refusal,
            ResponseEnd::Completed if has_tool_use => StopReason::ToolUse,
            ResponseEnd::Completed => StopReason::EndTurn,
        };
        Ok(ModelResponse { content: blocks, stop_reason: stop, usage: self.usage })
    }
}

/// Adds the text of a message. Returns whether it is a refusal.
fn push_message_text(item: &Json, blocks: &mut Vec<ContentBlock>) -> bool {
    let mut is_refusal = false;
    for (content, text) in message_texts(item) {
        is_refusal |= content["type"] == "refusal";
        if !text.is_empty() {
            blocks.push(ContentBlock::Text { text: text.to_owned() });
        }
    }
    is_refusal
}

/// The parts of a message with their text.
fn message_texts(item: &Json) -> impl Iterator<Item = (&Json, &str)> {
    let parts = item["content"].as_array().into_iter().flatten();
    parts.map(|it| (it, it["text"].as_str().or(it["refusal"].as_str()).unwrap_or_default()))
}

fn too_many_parts() -> AttemptError {
    AttemptError::invalid_response("a response with too many parts")
}

fn thinking_block(item: &Json, model_id: &str) -> ContentBlock {
    let pieces = item["summary"].as_array().into_iter().flatten();
    let texts: Vec<&str> = pieces.filter_map(|it| it["text"].as_str()).collect();
    // Reasoning without encrypted content is not stored anywhere, so it cannot be sent back.
    let is_encrypted = item["encrypted_content"].is_string();
    let provider_block = is_encrypted.then(|| {
        let mut block = item.clone();
        if let Some(members) = block.as_object_mut() {
            members.retain(|name, _| name != "status");
        }
        json!({"by": model_id, "block": block})
    });
    ContentBlock::Thinking { text: texts.join("\n\n"), provider_block }
}
