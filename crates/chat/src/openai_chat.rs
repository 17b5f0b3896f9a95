//! Chat completions as OpenAI has them and many others speak them: how a conversation is written, and how the chunks of
//! an answer are read. Others are not always exact, so what can be understood is.

use serde_json::{Map, Value as Json, json};

use crate::language_model::{Answered, Delta, ModelRequest, Stop, ToolOffer, Usage};
use crate::model_client::{Hearing, Manner};
use crate::model_trouble::Trouble;
use crate::utterance::{CallResult, CallWanted, Part, Speaker, Utterance};

/// The most calls of one answer that are taken.
const MOST_CALLS: usize = 256;

/// A request.
pub(crate) fn body(request: &ModelRequest, manner: &Manner) -> Json {
    let mut messages = Vec::new();
    if !request.system.trim().is_empty() {
        messages.push(json!({"role": "system", "content": &*request.system}));
    }
    for utterance in request.said.iter() {
        match utterance.speaker {
            Speaker::User => of_user(utterance, &mut messages),
            Speaker::Assistant => messages.extend(of_assistant(utterance)),
        }
    }
    let mut body = json!({
        "model": manner.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    if let Some(tokens) = manner.longest(request) {
        body["max_completion_tokens"] = json!(tokens);
    }
    body
}

fn tool(offer: &ToolOffer) -> Json {
    let ToolOffer { name, description, schema } = offer;
    // The service wants to see that nothing is taken.
    let mut schema = schema.clone();
    if schema["properties"].is_null() {
        schema["properties"] = json!({});
    }
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": schema}})
}

/// Results first, right behind the calls. They are texts; their pictures follow as the person's.
fn of_user(utterance: &Utterance, messages: &mut Vec<Json>) {
    let mut content = Vec::new();
    for part in &utterance.parts {
        match part {
            Part::Result(result) => messages.push(of_result(result)),
            Part::Text { text } => content.push(json!({"type": "text", "text": text})),
            Part::Picture { mime, base64 } => content.push(picture(mime, base64)),
            Part::Thought { .. } | Part::Call(_) => {}
        }
    }
    let shown: Vec<Json> = utterance.parts.iter().flat_map(pictures_of).collect();
    if !shown.is_empty() {
        let about = json!({"type": "text", "text": "[pictures of the results above]"});
        let pictures: Vec<Json> = std::iter::once(about).chain(shown).collect();
        content.splice(..0, pictures);
    }
    let is_text = |it: &Json| it["type"] == "text";
    match content.as_slice() {
        [] => {}
        // One text is sent as a text: not everybody takes lists.
        [only] if is_text(only) => messages.push(json!({"role": "user", "content": only["text"]})),
        _ => messages.push(json!({"role": "user", "content": content})),
    }
}

fn of_result(result: &CallResult) -> Json {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::Picture { mime, .. } => Some(format!("[a picture, {mime}, shown below]")),
        Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
    };
    let text = result.parts.iter().filter_map(text).collect::<Vec<_>>().join("\n");
    let text = if result.is_error { format!("error: {text}") } else { text };
    json!({"role": "tool", "tool_call_id": result.id, "content": text})
}

fn pictures_of(part: &Part) -> Vec<Json> {
    let Part::Result(result) = part else { return Vec::new() };
    let shown = |part: &Part| match part {
        Part::Picture { mime, base64 } => Some(picture(mime, base64)),
        Part::Text { .. } | Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
    };
    result.parts.iter().filter_map(shown).collect()
}

fn picture(mime: &str, base64: &str) -> Json {
    json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{base64}")}})
}

fn of_assistant(utterance: &Utterance) -> Option<Json> {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in &utterance.parts {
        match part {
            Part::Text { text: more } => text.push_str(more),
            Part::Call(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": {"name": call.tool, "arguments": as_text(&call.arguments)},
            })),
            Part::Picture { .. } | Part::Thought { .. } | Part::Result(_) => {}
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

/// Arguments travel as a text that holds JSON. What was none goes back as it came.
pub(crate) fn as_text(arguments: &Json) -> String {
    arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned)
}

/// Arguments of a text; an object where it is empty, and the text itself where it is no JSON.
pub(crate) fn of_text(text: &str) -> Json {
    match text.trim() {
        "" => Json::Object(Map::new()),
        text => serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned())),
    }
}

/// What was heard of an answer so far.
#[derive(Default)]
pub(crate) struct Heard {
    text: String,
    thought: String,
    is_refusal: bool,
    calls: Vec<Begun>,
    stop: Option<Stop>,
    usage: Usage,
}

/// A call as it grows.
struct Begun {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl Heard {
    fn call(&mut self, position: usize, piece: &Json) -> Result<(), Trouble> {
        let text = |json: &Json| json.as_str().unwrap_or_default().to_owned();
        let position = u64::try_from(position).unwrap_or(u64::MAX);
        let index = piece["index"].as_u64().unwrap_or(position);
        let (id, name) = (text(&piece["id"]), text(&piece["function"]["name"]));
        // Some give every call the same number; a second id begins a second call.
        let is_full = self.calls.len() >= MOST_CALLS;
        let known = self.calls.iter_mut().rev().find(|it| it.index == index);
        let known = known.filter(|it| id.is_empty() || it.id.is_empty() || it.id == id);
        let arguments = &piece["function"]["arguments"];
        let arguments = if arguments.is_null() { String::new() } else { as_text(arguments) };
        match known {
            Some(begun) => {
                if begun.id.is_empty() {
                    begun.id = id;
                }
                if begun.name.is_empty() {
                    begun.name = name;
                }
                begun.arguments.push_str(&arguments);
            }
            None if is_full => {
                return Err(Trouble::senseless("an answer of too many calls"));
            }
            None => self.calls.push(Begun { index, id, name, arguments }),
        }
        Ok(())
    }
}

impl Hearing for Heard {
    fn take(&mut self, event: &Json) -> Result<Vec<Delta>, Trouble> {
        let error = &event["error"];
        if !error.is_null() {
            let text = |name: &str| error[name].as_str();
            let word = text("code").or(text("type")).unwrap_or_default();
            return Err(Trouble::told(word, text("message").unwrap_or_default()));
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
        let delta = &choice["delta"];
        let piece = |name: &str| delta[name].as_str().filter(|it| !it.is_empty());
        if let Some(more) = piece("reasoning_content").or(piece("reasoning")) {
            self.thought.push_str(more);
            deltas.push(Delta::Thought(more.to_owned()));
        }
        for name in ["content", "refusal"] {
            if let Some(more) = piece(name) {
                self.is_refusal |= name == "refusal";
                self.text.push_str(more);
                deltas.push(Delta::Text(more.to_owned()));
            }
        }
        for (position, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            self.call(position, call)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.stop = Some(match reason {
                "tool_calls" | "function_call" => Stop::Calls,
                "length" => Stop::Length,
                "content_filter" => Stop::Refusal,
                _ => Stop::End,
            });
        }
        Ok(deltas)
    }

    /// What was used comes behind the last word, if it comes.
    fn is_over(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<Answered, Trouble> {
        let Some(stop) = self.stop else {
            return Err(Trouble::broken_off("the stream ended before the answer did"));
        };
        let stop = match stop {
            Stop::End if self.is_refusal => Stop::Refusal,
            Stop::End if !self.calls.is_empty() => Stop::Calls,
            Stop::End | Stop::Calls | Stop::Length | Stop::Refusal => stop,
        };
        let mut parts = Vec::new();
        if !self.thought.is_empty() {
            parts.push(Part::Thought { text: self.thought, proof: None });
        }
        if !self.text.is_empty() {
            parts.push(Part::Text { text: self.text });
        }
        for Begun { id, name, arguments, .. } in self.calls {
            let arguments = of_text(&arguments);
            // An answer that was cut may end in the middle of a call.
            if stop != Stop::Length || arguments.is_object() {
                parts.push(Part::Call(CallWanted { id, tool: name, arguments }));
            }
        }
        Ok(Answered { parts, stop, usage: self.usage })
    }
}
