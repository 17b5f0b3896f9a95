//! Lets servers ask the person's model: their way to ask is made into ours, and the answer into theirs. Whether they may
//! is decided before it comes here.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::counsel::{Model, Sampling};
use tokio::sync::mpsc;

use crate::language_model::{Delta, LanguageModel, ModelRequest, Stop};
use crate::utterance::{Part, Speaker, Utterance};

/// The most messages that a server may send along.
const MOST_MESSAGES: usize = 500;
/// The longest answer that a server may ask for, in tokens.
const LONGEST: u64 = 32_000;
/// How many pieces of an answer may wait to be thrown away.
const PIECES: usize = 16;

/// A model that servers may ask.
pub struct Sampler(Arc<dyn LanguageModel>);

impl Sampler {
    /// Servers ask this one.
    pub fn new(model: Arc<dyn LanguageModel>) -> Sampler {
        Sampler(model)
    }

    async fn answer(&self, params: &Json) -> Result<Json, String> {
        let request = read(params)?;
        let (say, mut heard) = mpsc::channel::<Delta>(PIECES);
        let answering = self.0.answer(request, say);
        // Nobody reads along.
        let unheard = async { while heard.recv().await.is_some() {} };
        let (answered, ()) = tokio::join!(answering, unheard);
        let answered = answered.map_err(|error| match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        })?;
        let reason = match answered.stop {
            Stop::End | Stop::Calls => "endTurn",
            Stop::Length => "maxTokens",
            Stop::Refusal => "refusal",
        };
        let text = |part: &Part| match part {
            Part::Text { text } => Some(text.as_str().to_owned()),
            Part::Picture { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
        };
        let text: String = answered.parts.iter().filter_map(text).collect();
        Ok(json!({
            "role": "assistant",
            "content": {"type": "text", "text": text},
            "model": self.0.name(),
            "stopReason": reason,
        }))
    }
}

impl Model for Sampler {
    fn sample<'a>(&'a self, params: Json) -> Sampling<'a> {
        Box::pin(async move { self.answer(&params).await })
    }
}

fn read(params: &Json) -> Result<ModelRequest, String> {
    let messages = params["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        return Err("there is nothing to answer".to_owned());
    }
    if messages.len() > MOST_MESSAGES {
        return Err(format!("at most {MOST_MESSAGES} messages are answered"));
    }
    let said: Vec<Utterance> = messages.iter().map(utterance).collect();
    let most = params["maxTokens"].as_u64().filter(|it| *it > 0).unwrap_or(LONGEST);
    Ok(ModelRequest {
        system: params["systemPrompt"].as_str().unwrap_or_default().into(),
        said: said.into(),
        tools: [].into(),
        max_tokens: Some(most.min(LONGEST)),
    })
}

fn utterance(message: &Json) -> Utterance {
    let speaker = match message["role"].as_str() {
        Some("assistant") => Speaker::Assistant,
        Some(_) | None => Speaker::User,
    };
    let content = &message["content"];
    let parts = match content.as_array() {
        Some(list) => list.iter().map(part).collect(),
        None => vec![part(content)],
    };
    Utterance { speaker, parts }
}

fn part(content: &Json) -> Part {
    let text = |name: &str| content[name].as_str().unwrap_or_default().to_owned();
    match content["type"].as_str() {
        Some("text") => Part::Text { text: text("text") },
        Some("image") => Part::Picture { mime: text("mimeType"), base64: text("data") },
        Some(other) => Part::Text { text: format!("[{other}, which cannot be shown]") },
        None => Part::Text { text: String::new() },
    }
}
