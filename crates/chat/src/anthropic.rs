//! The messages of Anthropic: how a conversation is written, and how the events of an answer are read.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};

use crate::language_model::{Answered, Delta, ModelRequest, Stop, Usage};
use crate::model_client::{Hearing, Manner};
use crate::model_trouble::Trouble;
use crate::utterance::{CallWanted, Part, Speaker, Utterance};

/// The longest answer, unless told otherwise; the service wants to be told.
const USUAL_LENGTH: u64 = 16_000;
/// The most pieces of one answer.
const MOST_BLOCKS: u64 = 10_000;

/// A request.
pub(crate) fn body(request: &ModelRequest, manner: &Manner) -> Json {
    let thinking = manner.thinking.map(|it| it.max(1024));
    let length = manner.longest(request).unwrap_or(USUAL_LENGTH);
    // What is thought counts as part of the answer.
    let length = length.saturating_add(thinking.unwrap_or_default());
    let mut body = json!({
        "model": manner.model,
        "max_tokens": length,
        "stream": true,
        "messages": messages(&request.said, manner),
    });
    if !request.system.trim().is_empty() {
        body["system"] = json!([{"type": "text", "text": &*request.system}]);
        remember(&mut body["system"]);
    }
    if !request.tools.is_empty() {
        let tool = |it: &crate::language_model::ToolOffer| json!({"name": it.name, "description": it.description, "input_schema": it.schema});
        body["tools"] = request.tools.iter().map(tool).collect();
        remember(&mut body["tools"]);
    }
    if let Some(tokens) = thinking {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": tokens});
    }
    body
}

/// Marks the last of a list as the end of something that is worth remembering.
fn remember(list: &mut Json) {
    if let Some(last) = list.as_array_mut().and_then(|it| it.last_mut()) {
        // What was thought cannot be marked.
        let is_thought = matches!(last["type"].as_str(), Some("thinking" | "redacted_thinking"));
        if !is_thought {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
    }
}

fn messages(said: &[Utterance], manner: &Manner) -> Json {
    let mut messages: Vec<(Speaker, Vec<Json>)> = Vec::new();
    for utterance in said {
        let content = utterance.parts.iter().filter_map(|part| content(part, manner));
        match messages.last_mut() {
            Some((speaker, blocks)) if *speaker == utterance.speaker => blocks.extend(content),
            Some(_) | None => messages.push((utterance.speaker, content.collect())),
        }
    }
    messages.retain(|(_, blocks)| !blocks.is_empty());
    let message = |(speaker, blocks): (Speaker, Vec<Json>)| {
        let role = match speaker {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        json!({"role": role, "content": blocks})
    };
    let mut messages: Vec<Json> = messages.into_iter().map(message).collect();
    if let Some(last) = messages.last_mut() {
        remember(&mut last["content"]);
    }
    Json::Array(messages)
}

fn content(part: &Part, manner: &Manner) -> Option<Json> {
    Some(match part {
        // The service refuses empty texts.
        Part::Text { text } if text.trim().is_empty() => return None,
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Picture { mime, base64 } => {
            let source = json!({"type": "base64", "media_type": mime, "data": base64});
            json!({"type": "image", "source": source})
        }
        Part::Thought { proof, .. } => {
            let proof = proof.as_ref().filter(|it| it["by"] == *manner.thinker)?;
            proof["block"].clone()
        }
        Part::Call(call) => {
            let input = match call.arguments.is_object() {
                true => call.arguments.clone(),
                // What was no object cannot be said again as it was.
                false => json!({"arguments": call.arguments}),
            };
            json!({"type": "tool_use", "id": id(&call.id), "name": call.tool, "input": input})
        }
        Part::Result(result) => {
            let inner: Vec<Json> =
                result.parts.iter().filter_map(|it| content(it, manner)).collect();
            json!({
                "type": "tool_result", "tool_use_id": id(&result.id),
                "content": inner, "is_error": result.is_error,
            })
        }
    })
}

/// Names of calls that another model gave may have other characters in them.
fn id(id: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    id.chars().map(plain).collect()
}

/// What was heard of an answer so far.
pub(crate) struct Heard {
    thinker: String,
    blocks: BTreeMap<u64, Block>,
    stop: Option<Stop>,
    usage: Usage,
    is_over: bool,
}

/// A piece of an answer as it grows.
enum Block {
    Text(String),
    Thought { text: String, signature: String },
    Redacted(Json),
    Call { id: String, name: String, input: Json, arguments: String },
    Other,
}

impl Heard {
    pub(crate) fn new(thinker: String) -> Heard {
        let (blocks, usage) = (BTreeMap::new(), Usage::default());
        Heard { thinker, blocks, stop: None, usage, is_over: false }
    }

    fn begin(&mut self, at: u64, block: &Json) -> Result<Vec<Delta>, Trouble> {
        if at > MOST_BLOCKS {
            return Err(Trouble::senseless("an answer of too many pieces"));
        }
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let mut deltas = Vec::new();
        let begun = match block["type"].as_str() {
            Some("text") => {
                if !text("text").is_empty() {
                    deltas.push(Delta::Text(text("text")));
                }
                Block::Text(text("text"))
            }
            Some("thinking") => {
                Block::Thought { text: text("thinking"), signature: text("signature") }
            }
            Some("redacted_thinking") => Block::Redacted(block.clone()),
            Some("tool_use") => Block::Call {
                id: text("id"),
                name: text("name"),
                input: block["input"].clone(),
                arguments: String::new(),
            },
            Some(_) | None => Block::Other,
        };
        self.blocks.insert(at, begun);
        Ok(deltas)
    }

    fn more(&mut self, at: u64, delta: &Json) -> Vec<Delta> {
        let piece = |name: &str| delta[name].as_str().unwrap_or_default();
        match (self.blocks.get_mut(&at), delta["type"].as_str()) {
            (Some(Block::Text(text)), Some("text_delta")) => {
                text.push_str(piece("text"));
                vec![Delta::Text(piece("text").to_owned())]
            }
            (Some(Block::Thought { text, .. }), Some("thinking_delta")) => {
                text.push_str(piece("thinking"));
                vec![Delta::Thought(piece("thinking").to_owned())]
            }
            (Some(Block::Thought { signature, .. }), Some("signature_delta")) => {
                signature.push_str(piece("signature"));
                Vec::new()
            }
            (Some(Block::Call { arguments, .. }), Some("input_json_delta")) => {
                arguments.push_str(piece("partial_json"));
                Vec::new()
            }
            // What we do not know yet.
            (_, _) => Vec::new(),
        }
    }

    fn count(&mut self, usage: &Json) {
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

impl Hearing for Heard {
    fn take(&mut self, event: &Json) -> Result<Vec<Delta>, Trouble> {
        let at = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str() {
            Some("message_start") => self.count(&event["message"]["usage"]),
            Some("content_block_start") => return self.begin(at, &event["content_block"]),
            Some("content_block_delta") => return Ok(self.more(at, &event["delta"])),
            Some("message_delta") => {
                self.count(&event["usage"]);
                self.stop = event["delta"]["stop_reason"].as_str().map(stop).or(self.stop);
            }
            Some("message_stop") => self.is_over = true,
            Some("error") => {
                let error = &event["error"];
                let text = |name: &str| error[name].as_str().unwrap_or_default();
                return Err(Trouble::told(text("type"), text("message")));
            }
            // A sign of life, the end of a piece, or something new.
            Some(_) | None => {}
        }
        Ok(Vec::new())
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn finish(self: Box<Self>) -> Result<Answered, Trouble> {
        let Some(stop) = self.stop.filter(|_| self.is_over) else {
            return Err(Trouble::broken_off("the stream ended before the answer did"));
        };
        let thinker = self.thinker;
        let part = |block: Block| part(block, &thinker, stop);
        let parts = self.blocks.into_values().filter_map(part).collect();
        Ok(Answered { parts, stop, usage: self.usage })
    }
}

fn part(block: Block, thinker: &str, stop: Stop) -> Option<Part> {
    Some(match block {
        Block::Text(text) if text.is_empty() => return None,
        Block::Text(text) => Part::Text { text },
        Block::Thought { text, signature } => {
            let block = json!({"type": "thinking", "thinking": text, "signature": signature});
            Part::Thought { text, proof: Some(json!({"by": thinker, "block": block})) }
        }
        Block::Redacted(block) => {
            let proof = Some(json!({"by": thinker, "block": block}));
            Part::Thought { text: String::new(), proof }
        }
        Block::Call { id, name, input, arguments } => {
            let arguments = arguments_of(input, &arguments);
            // An answer that was cut may end in the middle of a call.
            if stop == Stop::Length && !arguments.is_object() {
                return None;
            }
            Part::Call(CallWanted { id, tool: name, arguments })
        }
        Block::Other => return None,
    })
}

/// Arguments come in pieces, or at once, or not at all where there are none.
fn arguments_of(input: Json, pieces: &str) -> Json {
    match pieces.trim() {
        "" if input.is_object() => input,
        "" => Json::Object(Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned())),
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "tool_use" => Stop::Calls,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refusal,
        _ => Stop::End,
    }
}
