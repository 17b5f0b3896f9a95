//! Keeps every printed line below the size at which readers give up. What is cut is marked, and what a reader needs to
//! make sense of a frame stays.

use serde_json::{Map, Value as Json, json};

/// The most bytes of a line. Readers stop at 1 MiB.
pub(crate) const MAX_LINE_BYTES: usize = 1024 * 1024 - 64 * 1024;
/// The member of a result with the answer that matches the program's schema.
const OUTPUT: &str = "structured_output";
/// The member of a tool result with what its server says for programs.
const DETAILS: &str = "tool_use_result";
/// Room in a line for what is around the body of a request.
const ENVELOPE_BYTES: usize = 512;
/// Room in the line of a result for what is beside the structured output.
const RESULT_BYTES: usize = 128 * 1024;
/// The shortest text that is cut while the shape of a value stays.
const MIN_CUT_BYTES: usize = 1024;
/// What a text that was cut ends with, and what is in the place of what was left out.
pub(crate) const CUT_MARK: &str = "… [cut: too long for one frame]";
pub(crate) const TOO_LARGE: &str = "the answer is too large for one frame";
pub(crate) const OUTPUT_TOO_LARGE: &str = "the structured output is too large for one frame";

/// The line of a frame, with its line ending. Texts and pictures that do not fit are cut.
pub(crate) fn bounded_line(frame: &Json) -> String {
    let mut line = frame.to_string();
    if line.len() > MAX_LINE_BYTES {
        let short = match frame.get(OUTPUT).filter(|it| !it.is_null()) {
            Some(output) => with_whole_output(frame, output),
            None => shortened(&without_details(frame), MAX_LINE_BYTES),
        };
        line = short.to_string();
    }
    line.push('\n');
    line
}

/// Whether a structured output fits in the line of a result.
pub(crate) fn fits_result(output: &Json) -> bool {
    output.to_string().len() <= MAX_LINE_BYTES - RESULT_BYTES
}

/// Whether the body of an answer fits in one line.
pub(crate) fn fits_answer(body: &Json) -> bool {
    body.to_string().len() <= MAX_LINE_BYTES - ENVELOPE_BYTES
}

/// A part of what a server says for programs would be taken for the whole.
fn without_details(frame: &Json) -> Json {
    let mut frame = frame.clone();
    if let Some(members) = frame.as_object_mut() {
        members.remove(DETAILS);
    }
    frame
}

fn shortened(frame: &Json, most: usize) -> Json {
    match with_cut_texts(frame, most) {
        (cut, true) => cut,
        (cut, false) => thinned(cut, most),
    }
}

/// A result whose texts are cut, but not its structured output: a part of that would be taken for the whole.
fn with_whole_output(frame: &Json, output: &Json) -> Json {
    let mut rest = frame.clone();
    rest[OUTPUT] = Json::Null;
    if fits_result(output) {
        let mut result = shortened(&rest, RESULT_BYTES);
        result[OUTPUT] = output.clone();
        return result;
    }
    rest["is_error"] = true.into();
    rest["errors"] = json!([OUTPUT_TOO_LARGE]);
    shortened(&rest, MAX_LINE_BYTES)
}

/// The body of a request that fits in one line. Long texts and lists end with a mark.
pub(crate) fn fitted_request(body: &Json) -> Json {
    fitted(body, MAX_LINE_BYTES - ENVELOPE_BYTES, Remainder::Marked)
}

/// Whether a list says that its end was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remainder {
    /// It ends with a mark.
    Marked,
    /// It is only shorter: readers expect items of one shape.
    Dropped,
}

/// How much of a value is kept.
#[derive(Debug, Clone, Copy)]
struct Size {
    items: usize,
    depth: usize,
    text: usize,
}

/// From much to little. The last one keeps few enough values for any line.
const SIZES: [Size; 7] = [
    Size { items: 4096, depth: 60, text: MIN_CUT_BYTES },
    Size { items: 1024, depth: 24, text: MIN_CUT_BYTES },
    Size { items: 256, depth: 12, text: 512 },
    Size { items: 128, depth: 8, text: 256 },
    Size { items: 64, depth: 4, text: 256 },
    Size { items: 32, depth: 3, text: 128 },
    Size { items: 16, depth: 2, text: 128 },
];

/// The value with shorter texts and, where these are not what makes it long, with fewer items.
fn fitted(value: &Json, limit: usize, remainder: Remainder) -> Json {
    if value.to_string().len() <= limit {
        return value.clone();
    }
    let (mut value, is_cut_to_fit) = with_cut_texts(value, limit);
    if is_cut_to_fit {
        return value;
    }
    for size in SIZES {
        prune(&mut value, size, (0, remainder));
        if value.to_string().len() <= limit {
            break;
        }
    }
    value
}

/// The value with texts cut until it fits, and whether it does.
fn with_cut_texts(value: &Json, most: usize) -> (Json, bool) {
    let mut value = value.clone();
    let mut limit = most / 2;
    let mut is_fitting = false;
    while !is_fitting && limit >= MIN_CUT_BYTES {
        cut(&mut value, limit);
        is_fitting = value.to_string().len() <= most;
        limit /= 2;
    }
    (value, is_fitting)
}

/// A frame of many small values, without those that no reader needs to make sense of the frame.
fn thinned(mut frame: Json, most: usize) -> Json {
    if frame["type"] == "control_response" {
        let response = json!({"subtype": "error", "request_id": frame["response"]["request_id"],
            "error": TOO_LARGE});
        return json!({"type": "control_response", "response": response});
    }
    for list in ["/message/content", "/permission_denials"] {
        let items = frame.pointer_mut(list).and_then(Json::as_array_mut);
        for item in items.into_iter().flatten() {
            empty_input(item, "input");
            empty_input(item, "tool_input");
            if item["type"] == "tool_result" && !item["content"].is_string() {
                item["content"] = json!([{"type": "text", "text": CUT_MARK}]);
            }
        }
    }
    if let Some(block) = frame.pointer_mut("/event/content_block") {
        empty_input(block, "input");
    }
    fitted(&frame, most, Remainder::Dropped)
}

fn empty_input(owner: &mut Json, name: &str) {
    if let Some(input) = owner.get_mut(name).filter(|it| !it.is_null()) {
        *input = json!({});
    }
}

fn cut(value: &mut Json, limit: usize) {
    match value {
        Json::String(text) => cut_text(text, limit),
        // A part of a picture is none.
        Json::Object(object)
            if object.get("type").is_some_and(|it| it == "image")
                && object["source"]["data"].as_str().is_some_and(|it| it.len() > limit) =>
        {
            let kind = object["source"]["media_type"].as_str().unwrap_or("image");
            let text = format!("[{kind}, left out: too large for one frame]");
            *value = json!({"type": "text", "text": text});
        }
        Json::Object(object) => {
            if object.keys().any(|it| it.len() > limit) {
                cut_names(object, limit);
            }
            object.values_mut().for_each(|it| cut(it, limit));
        }
        Json::Array(items) => items.iter_mut().for_each(|it| cut(it, limit)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn cut_text(text: &mut String, limit: usize) {
    // A text that was cut before is not marked twice.
    let is_marked = text.ends_with(CUT_MARK);
    let own = text.len() - if is_marked { CUT_MARK.len() } else { 0 };
    if own > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push_str(CUT_MARK);
    }
}

fn cut_names(object: &mut Map<String, Json>, limit: usize) {
    let members = std::mem::take(object).into_iter().map(|(mut name, value)| {
        cut_text(&mut name, limit);
        (name, value)
    });
    *object = members.collect();
}

/// Shortens lists and objects. The members of the outermost object stay: they say what it is.
fn prune(value: &mut Json, size: Size, (depth, remainder): (usize, Remainder)) {
    match value {
        Json::Array(_) | Json::Object(_) if depth > size.depth => {
            *value = match (remainder, &value) {
                (Remainder::Marked, _) => CUT_MARK.into(),
                (Remainder::Dropped, Json::Array(_)) => json!([]),
                (Remainder::Dropped, _) => json!({}),
            };
        }
        Json::Array(items) => {
            if items.len() > size.items {
                items.truncate(size.items);
                if remainder == Remainder::Marked {
                    items.push(CUT_MARK.into());
                }
            }
            items.iter_mut().for_each(|it| prune(it, size, (depth + 1, remainder)));
        }
        Json::Object(object) => {
            if depth > 0 && object.len() > size.items {
                let kept = std::mem::take(object).into_iter().take(size.items);
                *object = kept.collect();
                if remainder == Remainder::Marked {
                    object.insert("…".to_owned(), CUT_MARK.into());
                }
            }
            if object.keys().any(|it| it.len() > size.text) {
                cut_names(object, size.text);
            }
            object.values_mut().for_each(|it| prune(it, size, (depth + 1, remainder)));
        }
        Json::String(text) => cut_text(text, size.text),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
