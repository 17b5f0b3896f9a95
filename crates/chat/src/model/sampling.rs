//! Answers servers' sampling requests with the user's model: converts the request and the response. Permission is decided
//! before.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::connection::{SamplingFuture, SamplingModel};
use tokio::sync::mpsc;

use crate::message::{ContentBlock, Message, Role};
use crate::model::language_model::{LanguageModel, ModelRequest, ResponseDelta, StopReason};

/// The most messages in a sampling request.
const MAX_MESSAGES: usize = 500;
/// The longest response that a server may request, in tokens.
const MAX_OUTPUT_TOKENS: u64 = 32_000;
/// The buffer for deltas, which are discarded.
const DELTA_BUFFER: usize = 16;

/// Answers sampling requests with a model.
pub struct Sampler(Arc<dyn LanguageModel>);

impl Sampler {
    /// A sampler for this model.
    pub fn new(model: Arc<dyn LanguageModel>) -> Sampler {
        Sampler(model)
    }

    async fn answer(&self, params: &Json) -> Result<Json, String> {
        let request = parse_request(params)?;
        let (deltas_in, mut deltas) = mpsc::channel::<ResponseDelta>(DELTA_BUFFER);
        let responding = self.0.respond(request, deltas_in);
        // Sampling has no streaming.
        let discard = async { while deltas.recv().await.is_some() {} };
        let (response, ()) = tokio::join!(responding, discard);
        let response = response.map_err(|error| match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        })?;
        let reason = match response.stop_reason {
            StopReason::EndTurn | StopReason::ToolUse => "endTurn",
            StopReason::MaxTokens => "maxTokens",
            StopReason::Refusal => "refusal",
        };
        let text = |block: &ContentBlock| match block {
            ContentBlock::Text { text } => Some(text.as_str().to_owned()),
            ContentBlock::Image { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::ToolUse(_)
            | ContentBlock::ToolResult(_) => None,
        };
        let text: String = response.content.iter().filter_map(text).collect();
        Ok(json!({
            "role": "assistant",
            "content": {"type": "text", "text": text},
            "model": self.0.name(),
            "stopReason": reason,
        }))
    }
}

impl SamplingModel for Sampler {
    fn create_message<'a>(&'a self, params: Json) -> SamplingFuture<'a> {
        Box::pin(async move { self.answer(&params).await })
    }
}

fn parse_request(params: &Json) -> Result<ModelRequest, String> {
    let messages = params["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        return Err("there is nothing to answer".to_owned());
    }
    if messages.len() > MAX_MESSAGES {
        return Err(format!("at most {MAX_MESSAGES} messages are answered"));
    }
    let history: Vec<Message> = messages.iter().map(parse_message).collect();
    let max_tokens = params["maxTokens"].as_u64().filter(|it| *it > 0).unwrap_or(MAX_OUTPUT_TOKENS);
    Ok(ModelRequest {
        system_prompt: params["systemPrompt"].as_str().unwrap_or_default().into(),
        messages: history.into(),
        tools: [].into(),
        max_tokens: Some(max_tokens.min(MAX_OUTPUT_TOKENS)),
    })
}

fn parse_message(message: &Json) -> Message {
    let role = match message["role"].as_str() {
        Some("assistant") => Role::Assistant,
        Some(_) | None => Role::User,
    };
    let content = &message["content"];
    let blocks = match content.as_array() {
        Some(list) => list.iter().map(parse_content).collect(),
        None => vec![parse_content(content)],
    };
    Message { role, content: blocks }
}

fn parse_content(content: &Json) -> ContentBlock {
    let text = |name: &str| content[name].as_str().unwrap_or_default().to_owned();
    match content["type"].as_str() {
        Some("text") => ContentBlock::Text { text: text("text") },
        Some("image") => ContentBlock::Image { mime: text("mimeType"), base64: text("data") },
        Some(other) => ContentBlock::Text { text: format!("[{other}, which cannot be shown]") },
        None => ContentBlock::Text { text: String::new() },
    }
}
