//! Validates requests like the real services, as far as a conversation can be invalid.

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use serde_json::Value;

use super::{API_KEY, ModelApi};

/// Why a request is rejected: status and message.
pub(super) fn rejection(
    api: ModelApi,
    headers: &HeaderMap,
    body: Option<&Value>,
) -> Option<(u16, String)> {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_authorized = match api {
        ModelApi::Messages => header("x-api-key") == API_KEY,
        ModelApi::Completions | ModelApi::Responses => {
            header("authorization") == format!("Bearer {API_KEY}")
        }
    };
    if !is_authorized {
        let presented = format!("{}{}", header("x-api-key"), header("authorization"));
        return Some((401, format!("invalid key: {presented}")));
    }
    let Some(body) = body else { return Some((400, "the body is no JSON".to_owned())) };
    if body["stream"] != true {
        return Some((400, "only streaming is supported".to_owned()));
    }
    let wrong = match api {
        ModelApi::Messages => check_messages(headers, body),
        ModelApi::Completions => check_completions(body),
        ModelApi::Responses => check_responses(body),
    };
    wrong.map(|message| (400, message))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn ids<'a>(items: impl Iterator<Item = &'a Value>, kind: &str, name: &str) -> BTreeSet<String> {
    let of_kind = items.filter(|it| it["type"] == kind || it["role"] == kind);
    of_kind.map(|it| it[name].as_str().unwrap_or_default().to_owned()).collect()
}

fn check_messages(headers: &HeaderMap, body: &Value) -> Option<String> {
    if !headers.contains_key("anthropic-version") || !body["max_tokens"].is_u64() {
        return Some("anthropic-version and max_tokens are required".to_owned());
    }
    let all: Vec<&Value> = list(&body["messages"]).collect();
    if all.first().is_none_or(|it| it["role"] != "user") {
        return Some("the first message must be a user's".to_owned());
    }
    for pair in all.windows(2) {
        if pair[0]["role"] == pair[1]["role"] {
            return Some("roles must alternate".to_owned());
        }
    }
    let mut pending_calls = BTreeSet::new();
    for message in &all {
        let results = ids(list(&message["content"]), "tool_result", "tool_use_id");
        if results != pending_calls {
            return Some(format!("tool_use ids {pending_calls:?} have the results {results:?}"));
        }
        pending_calls = ids(list(&message["content"]), "tool_use", "id");
        let is_empty = |it: &Value| it["type"] == "text" && it["text"] == "";
        let inner = list(&message["content"]).flat_map(|it| list(&it["content"]));
        if list(&message["content"]).chain(inner).any(is_empty) {
            return Some("text content blocks must be non-empty".to_owned());
        }
        if list(&message["content"]).any(|it| it["type"] == "tool_use" && !it["input"].is_object())
        {
            return Some("input must be an object".to_owned());
        }
    }
    let cache_marks = body.to_string().matches("\"cache_control\"").count();
    (cache_marks > 4).then(|| "at most 4 blocks with cache_control".to_owned())
}

fn check_completions(body: &Value) -> Option<String> {
    let mut pending_calls: BTreeSet<String> = BTreeSet::new();
    for message in list(&body["messages"]) {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !pending_calls.remove(id) || !message["content"].is_string() {
                return Some(format!("`{id}` is the result of no call before it, or no text"));
            }
            continue;
        }
        if !pending_calls.is_empty() {
            return Some(format!("the calls {pending_calls:?} have no results"));
        }
        let calls = list(&message["tool_calls"]);
        pending_calls = calls.map(|it| it["id"].as_str().unwrap_or_default().to_owned()).collect();
    }
    (!pending_calls.is_empty()).then(|| format!("the calls {pending_calls:?} have no results"))
}

fn check_responses(body: &Value) -> Option<String> {
    if let Some(item) = list(&body["input"]).find(|it| !is_valid_message(it)) {
        return Some(format!("not a message of the responses API: {item}"));
    }
    let calls = ids(list(&body["input"]), "function_call", "call_id");
    let outputs = ids(list(&body["input"]), "function_call_output", "call_id");
    (calls != outputs).then(|| format!("the calls {calls:?} have the outputs {outputs:?}"))
}

/// Whether an item is no message, or a message as the official types define it. A message of the assistant needs an id,
/// a status, and parts with annotations.
fn is_valid_message(item: &Value) -> bool {
    if item["type"] != "message" {
        return true;
    }
    let is_kind =
        |it: &Value, kinds: &[&str]| it["type"].as_str().is_some_and(|kind| kinds.contains(&kind));
    match item["role"].as_str() {
        Some("assistant") => {
            let is_part = |it: &Value| {
                is_kind(it, &["output_text"])
                    && it["text"].is_string()
                    && it["annotations"].is_array()
            };
            item["id"].as_str().is_some_and(|it| it.starts_with("msg_") && it.len() <= 64)
                && is_valid_status(&item["status"])
                && list(&item["content"]).all(is_part)
        }
        Some("user") => list(&item["content"])
            .all(|it| is_kind(it, &["input_text", "input_image", "input_file"])),
        Some(_) | None => false,
    }
}

fn is_valid_status(status: &Value) -> bool {
    matches!(status.as_str(), Some("in_progress" | "completed" | "incomplete"))
}
