//! The responses of OpenAI: how a conversation is written as items, and how the events of an answer are read. Nothing is
//! left with the service: what it thought travels with us, sealed.

use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};

use crate::language_model::{Answered, Delta, ModelRequest, Stop, ToolOffer, Usage};
use crate::model_client::{Hearing, Manner};
use crate::model_trouble::Trouble;
use crate::openai_chat::{as_text, of_text};
use crate::utterance::{CallResult, CallWanted, Part, Speaker, Utterance};

/// The most items of one answer.
const MOST_ITEMS: usize = 10_000;

/// A request.
pub(crate) fn body(request: &ModelRequest, manner: &Manner) -> Json {
    let input: Vec<Json> = request.said.iter().flat_map(|it| items(it, manner)).collect();
    let mut body = json!({
        "model": manner.model,
        "input": input,
        "stream": true,
        "store": false,
    });
    if manner.gives_thoughts.load(Ordering::Relaxed) {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if !request.system.trim().is_empty() {
        body["instructions"] = json!(&*request.system);
    }
    if !request.tools.is_empty() {
        let tool = |it: &ToolOffer| {
            let mut schema = it.schema.clone();
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
    if let Some(tokens) = manner.longest(request) {
        body["max_output_tokens"] = json!(tokens);
    }
    body
}

fn items(utterance: &Utterance, manner: &Manner) -> Vec<Json> {
    let mut items: Vec<Json> = Vec::new();
    for part in &utterance.parts {
        let content = match part {
            Part::Text { text } => match utterance.speaker {
                Speaker::User => json!({"type": "input_text", "text": text}),
                Speaker::Assistant => json!({"type": "output_text", "text": text}),
            },
            Part::Picture { mime, base64 } => picture(mime, base64),
            Part::Thought { proof, .. } => {
                let proof = proof.as_ref().filter(|it| it["by"] == *manner.thinker);
                items.extend(proof.map(|it| it["block"].clone()));
                continue;
            }
            Part::Call(call) => {
                items.push(json!({
                    "type": "function_call", "call_id": call.id, "name": call.tool,
                    "arguments": as_text(&call.arguments),
                }));
                continue;
            }
            Part::Result(result) => {
                items.push(json!({
                    "type": "function_call_output", "call_id": result.id, "output": output(result),
                }));
                continue;
            }
        };
        let role = match utterance.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        match items.last_mut().filter(|it| it["type"] == "message") {
            Some(message) => {
                if let Some(list) = message["content"].as_array_mut() {
                    list.push(content);
                }
            }
            None => items.push(json!({"type": "message", "role": role, "content": [content]})),
        }
    }
    items
}

fn picture(mime: &str, base64: &str) -> Json {
    json!({"type": "input_image", "image_url": format!("data:{mime};base64,{base64}")})
}

/// A text where it is words alone, which everybody takes.
fn output(result: &CallResult) -> Json {
    let failed = if result.is_error { "error: " } else { "" };
    let (mut text, mut content) = (failed.to_owned(), Vec::new());
    for part in &result.parts {
        match part {
            Part::Text { text: more } => {
                if text.len() > failed.len() {
                    text.push('\n');
                }
                text.push_str(more);
            }
            Part::Picture { mime, base64 } => content.push(picture(mime, base64)),
            Part::Thought { .. } | Part::Call(_) | Part::Result(_) => {}
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

/// What was heard of an answer so far.
pub(crate) struct Heard {
    thinker: String,
    items: Vec<Json>,
    end: Option<End>,
    usage: Usage,
}

/// How the answer ended.
#[derive(Clone, Copy)]
enum End {
    Completed,
    CutShort,
    Filtered,
}

impl Heard {
    pub(crate) fn new(thinker: String) -> Heard {
        Heard { thinker, items: Vec::new(), end: None, usage: Usage::default() }
    }

    fn over(&mut self, response: &Json, end: End) {
        let number = |json: &Json| json.as_u64().unwrap_or_default();
        let usage = &response["usage"];
        self.usage = Usage {
            input: number(&usage["input_tokens"]),
            cached: number(&usage["input_tokens_details"]["cached_tokens"]),
            output: number(&usage["output_tokens"]),
        };
        if self.items.is_empty() {
            let items = response["output"].as_array().into_iter().flatten();
            self.items = items.take(MOST_ITEMS).cloned().collect();
        }
        self.end = Some(end);
    }
}

impl Hearing for Heard {
    fn take(&mut self, event: &Json) -> Result<Vec<Delta>, Trouble> {
        let piece = || event["delta"].as_str().unwrap_or_default().to_owned();
        let told = |error: &Json| {
            let text = |name: &str| error[name].as_str();
            let word = text("code").or(text("type")).unwrap_or_default();
            Trouble::told(word, text("message").unwrap_or_default())
        };
        match event["type"].as_str() {
            Some("response.output_text.delta" | "response.refusal.delta") => {
                return Ok(vec![Delta::Text(piece())]);
            }
            Some("response.reasoning_summary_text.delta" | "response.reasoning_text.delta") => {
                return Ok(vec![Delta::Thought(piece())]);
            }
            Some("response.output_item.done") => {
                if self.items.len() >= MOST_ITEMS {
                    return Err(Trouble::senseless("an answer of too many pieces"));
                }
                self.items.push(event["item"].clone());
            }
            Some("response.completed") => self.over(&event["response"], End::Completed),
            Some("response.incomplete") => {
                let reason = event["response"]["incomplete_details"]["reason"].as_str();
                let end = match reason {
                    Some("content_filter") => End::Filtered,
                    Some(_) | None => End::CutShort,
                };
                self.over(&event["response"], end);
            }
            Some("response.failed") => return Err(told(&event["response"]["error"])),
            Some("error") if event["error"].is_object() => return Err(told(&event["error"])),
            Some("error") => return Err(told(event)),
            // Beginnings, ends and pieces of what comes whole later.
            Some(_) | None => {}
        }
        Ok(Vec::new())
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Answered, Trouble> {
        let Some(end) = self.end else {
            return Err(Trouble::broken_off("the stream ended before the answer did"));
        };
        let (mut parts, mut is_refusal) = (Vec::new(), false);
        for item in &self.items {
            match item["type"].as_str() {
                Some("message") => is_refusal |= said(item, &mut parts),
                Some("function_call") => {
                    let text = |name: &str| item[name].as_str().unwrap_or_default();
                    let arguments = of_text(text("arguments"));
                    let is_whole = item["status"] != "incomplete";
                    if is_whole || arguments.is_object() {
                        let (id, tool) = (text("call_id").to_owned(), text("name").to_owned());
                        parts.push(Part::Call(CallWanted { id, tool, arguments }));
                    }
                }
                Some("reasoning") => parts.push(thought(item, &self.thinker)),
                Some(_) | None => {}
            }
        }
        let wants_calls = parts.iter().any(|it| matches!(it, Part::Call(_)));
        let stop = match end {
            End::CutShort => Stop::Length,
            End::Filtered => Stop::Refusal,
            End::Completed if is_refusal => Stop::Refusal,
            End::Completed if wants_calls => Stop::Calls,
            End::Completed => Stop::End,
        };
        Ok(Answered { parts, stop, usage: self.usage })
    }
}

/// The words of a message. Is there a refusal among them?
fn said(item: &Json, parts: &mut Vec<Part>) -> bool {
    let mut is_refusal = false;
    for content in item["content"].as_array().into_iter().flatten() {
        is_refusal |= content["type"] == "refusal";
        let text = content["text"].as_str().or(content["refusal"].as_str()).unwrap_or_default();
        if !text.is_empty() {
            parts.push(Part::Text { text: text.to_owned() });
        }
    }
    is_refusal
}

fn thought(item: &Json, thinker: &str) -> Part {
    let pieces = item["summary"].as_array().into_iter().flatten();
    let texts: Vec<&str> = pieces.filter_map(|it| it["text"].as_str()).collect();
    // What is not sealed lies with the service, which forgets it: it cannot be given back.
    let is_sealed = item["encrypted_content"].is_string();
    let proof = is_sealed.then(|| {
        let mut block = item.clone();
        if let Some(members) = block.as_object_mut() {
            members.retain(|name, _| name != "status");
        }
        json!({"by": thinker, "block": block})
    });
    Part::Thought { text: texts.join("\n\n"), proof }
}
