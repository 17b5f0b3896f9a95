//! What a call gave, in words and pictures: for the model, and in one text for a person.

use std::error::Error;

use switchboard::calling::CallFailure;
use switchboard::yielded::{self, Yield};

use crate::utterance::Part;

/// What a call gave.
#[derive(Debug)]
pub(crate) struct Words {
    /// For the model.
    pub(crate) parts: Vec<Part>,
    /// For a person.
    pub(crate) text: String,
    /// Did it fail?
    pub(crate) is_error: bool,
}

/// What is said where a tool says nothing: models take an empty result for a mistake.
const NOTHING: &str = "(the tool gave nothing back)";

/// A result of words alone.
pub(crate) fn of_text(text: String) -> Words {
    Words { parts: vec![Part::Text { text: text.clone() }], text, is_error: false }
}

/// A result as it was bounded by the host.
pub(crate) fn of_yield(yielded: Yield) -> Words {
    let remarks = yielded.remarks.iter().map(|it| format!("[note: {it}]"));
    let remarks: Vec<Part> = remarks.map(|text| Part::Text { text }).collect();
    let is_error = yielded.is_error;
    let mut parts: Vec<Part> = yielded.parts.into_iter().map(part).collect();
    parts.retain(|part| !matches!(part, Part::Text { text } if text.is_empty()));
    parts.extend(remarks);
    if parts.is_empty() {
        parts.push(Part::Text { text: NOTHING.to_owned() });
    }
    let text = parts.iter().filter_map(shown).collect::<Vec<_>>().join("\n");
    Words { parts, text, is_error }
}

fn part(part: yielded::Part) -> Part {
    use yielded::Part as From;
    let mime = |mime: Option<String>| mime.unwrap_or_else(|| "data".to_owned());
    let of = |uri: Option<String>| uri.map(|uri| format!(" of {uri}")).unwrap_or_default();
    let text = match part {
        From::Image { mime, base64, .. } => {
            return Part::Picture { mime: mime.to_owned(), base64 };
        }
        From::Text { text, from_uri: None } => text,
        From::Text { text, from_uri: Some(uri) } => format!("[{uri}]\n{text}"),
        From::Saved { path, mime: kind, bytes, from_uri } => {
            format!("[{}{}, {bytes} bytes, saved in {}]", mime(kind), of(from_uri), path.display())
        }
        From::Unsaved { mime: kind, from_uri } => {
            format!("[{}{}, not saved]", mime(kind), of(from_uri))
        }
        From::Link { uri, name, description, .. } => {
            let about = [name, description].into_iter().flatten().collect::<Vec<_>>().join(": ");
            format!("[resource {uri} {about}]")
        }
        From::Unknown { raw, .. } => String::from_utf8_lossy(raw.as_bytes()).into_owned(),
    };
    Part::Text { text }
}

fn shown(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        Part::Picture { mime, base64 } => {
            Some(format!("[{mime}, {} KB]", base64.len() * 3 / 4 / 1024))
        }
        Part::Thought { .. } | Part::Call(_) | Part::Result(_) => None,
    }
}

/// Why there is no result, so that a model can make something of it.
pub(crate) fn of_failure(failure: &CallFailure) -> Words {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    match failure {
        CallFailure::NoTool { nearest, .. } if !nearest.is_empty() => {
            text.push_str(&format!("; the nearest are {}", nearest.join(", ")));
        }
        CallFailure::Arguments { faults, .. } => {
            for fault in faults {
                text.push_str(&format!("\n- {fault}"));
            }
        }
        CallFailure::NoTool { .. } | CallFailure::Denied { .. } | CallFailure::Ask(_) => {}
    }
    Words { parts: vec![Part::Text { text: text.clone() }], text, is_error: true }
}
