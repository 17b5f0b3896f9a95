//! Quirks of single responses and of the start. `transport::http_state` has the HTTP quirks,
//! `transport::process_quirks` those of processes.

use std::time::Duration;

use serde_json::{Value, json};

use super::client_channel::{ClientChannel, Frame};
use super::server_state::{RunMode, ServerState};
use crate::scripted::quirk::Quirk;
use crate::scripted::script::Script;

/// A placeholder for invalid UTF-8.
const INVALID_UTF8_MARK: &str = "\u{1}broken\u{1}";

/// Delimits the number of letters in a placeholder.
const REPEAT_MARK: &str = "\u{1}many\u{1}";

/// Delays a response, possibly forever.
pub async fn delay(script: &Script, method: &str) {
    if !script.quirks_apply_to(method) {
        return;
    }
    if script.has_quirk(&Quirk::NeverAnswers) {
        std::future::pending::<()>().await;
    }
    let delay_ms = script
        .find_quirk(|quirk| if let Quirk::AnswersLate { ms } = quirk { Some(*ms) } else { None });
    if let Some(ms) = delay_ms {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// A network server delays its first response instead of its start.
pub async fn delay_start(server: &ServerState) {
    match server.run_mode {
        RunMode::StdioProgram => {}
        RunMode::NetworkProgram | RunMode::InTest => {
            tokio::time::sleep(Duration::from_millis(server.script.start_delay_ms)).await;
        }
    }
}

/// How many `tools/list_changed` notifications to send when a client listens.
pub fn list_changed_count(script: &Script) -> usize {
    script
        .find_quirk(|quirk| if let Quirk::ListChangedStorm { n } = quirk { Some(*n) } else { None })
        .unwrap_or(0)
}

/// A text of this many letters. Long ones are a placeholder until they are written, because a JSON value of that size
/// is slow to serialize.
pub fn repeated_letters(letters: usize) -> String {
    match letters > 1_000_000 {
        true => format!("{REPEAT_MARK}{letters}{REPEAT_MARK}"),
        false => "x".repeat(letters),
    }
}

fn expand_letters(text: Vec<u8>) -> Vec<u8> {
    const MAX_TEMPLATE_BYTES: usize = 10_000;
    if text.len() > MAX_TEMPLATE_BYTES {
        return text;
    }
    let mark = json!(REPEAT_MARK).to_string();
    let mark = mark.trim_matches('"').as_bytes();
    let find = |from: usize| {
        let found = text[from..].windows(mark.len()).position(|it| it == mark);
        found.map(|offset| from + offset)
    };
    let Some(start) = find(0) else { return text };
    let Some(end) = find(start + mark.len()) else { return text };
    let number = std::str::from_utf8(&text[start + mark.len()..end]).unwrap_or_default();
    let letters = vec![b'x'; number.parse().unwrap_or_default()];
    [&text[..start], &letters, &text[end + mark.len()..]].concat()
}

/// Sends a response, changed by the quirks.
pub fn send_response(
    server: &ServerState,
    method: &str,
    mut response: Value,
    channel: &ClientChannel,
) {
    let script = &server.script;
    for number in 0..garbage_lines(server) {
        let line = format!("garbage {number}: [not {{ json");
        channel.send(Frame::Message(line.into_bytes()));
    }
    if !script.quirks_apply_to(method) {
        let bytes = expand_letters(response.to_string().into_bytes());
        return channel.send(Frame::Message(bytes));
    }
    pad(script, &mut response);
    if script.has_quirk(&Quirk::BadUtf8) {
        annotate(&mut response, "broken", json!(INVALID_UTF8_MARK));
    }
    if script.has_quirk(&Quirk::DuplicateIds) {
        let mut other = response.clone();
        other["id"] = different_id(&response["id"], -1);
        channel.send_message(&other);
    }
    if script.has_quirk(&Quirk::WrongIds) {
        response["id"] = different_id(&response["id"], 1000);
    }
    if script.has_quirk(&Quirk::AnswersInBatches) {
        response = json!([response]);
    }
    let mut bytes = expand_letters(response.to_string().into_bytes());
    if script.has_quirk(&Quirk::BadUtf8) {
        bytes = with_invalid_utf8(bytes);
    }
    if script.has_quirk(&Quirk::TruncatesAnswer) {
        channel.send(Frame::Truncated(bytes));
        return channel.send(Frame::Disconnect);
    }
    if script.has_quirk(&Quirk::ClosesStreamMidAnswer) {
        channel.send(Frame::Truncated(bytes));
        return channel.send(Frame::End);
    }
    if script.has_quirk(&Quirk::AnswersTwice) {
        channel.send(Frame::Message(bytes.clone()));
    }
    channel.send(Frame::Message(bytes));
}

fn garbage_lines(server: &ServerState) -> usize {
    let lines = server.script.find_quirk(|quirk| {
        if let Quirk::FloodsStdoutWithGarbage { lines } = quirk { Some(*lines) } else { None }
    });
    match server.run_mode {
        RunMode::StdioProgram if server.mark_responded() => 0,
        RunMode::StdioProgram | RunMode::NetworkProgram | RunMode::InTest => lines.unwrap_or(0),
    }
}

fn pad(script: &Script, response: &mut Value) {
    let padding_bytes =
        script.find_quirk(
            |quirk| {
                if let Quirk::HugeLine { bytes } = quirk { Some(*bytes) } else { None }
            },
        );
    if let Some(bytes) = padding_bytes {
        annotate(response, "padding", json!("x".repeat(bytes)));
    }
}

/// Sets a member in the `_meta` of a result or the data of an error.
fn annotate(response: &mut Value, member: &str, value: Value) {
    match response.get("result").is_some() {
        true => response["result"]["_meta"][member] = value,
        false => response["error"]["data"][member] = value,
    }
}

/// Another id.
fn different_id(id: &Value, distance: i64) -> Value {
    match id.as_i64() {
        Some(number) => json!(number + distance),
        None => json!(format!("{}-of-another-request", id.as_str().unwrap_or_default())),
    }
}

fn with_invalid_utf8(text: Vec<u8>) -> Vec<u8> {
    let placeholder = json!(INVALID_UTF8_MARK).to_string();
    let placeholder = placeholder.trim_matches('"').as_bytes();
    match text.windows(placeholder.len()).position(|it| it == placeholder) {
        None => text,
        Some(offset) => {
            let (front, back) = (&text[..offset], &text[offset + placeholder.len()..]);
            [front, b"\xff\xfe\x80", back].concat()
        }
    }
}

/// Adds unknown content to a tool's result.
pub fn add_unknown_content(server: &ServerState, result: &mut Value) {
    if server.script.has_quirk(&Quirk::UnknownContent) {
        if let Some(content) = result["content"].as_array_mut() {
            content.push(json!({"type": "hologram", "frames": [1, 2], "annotations": {"x": 1}}));
        }
        result["x-unknown"] = json!({"unknown": "member"});
    }
}
