//! The outcome of a tool call as content for the model, and as text for the user.

use std::error::Error;

use serde_json::{Map, Value as Json};
use switchboard::tool_result::ToolOutput;
use switchboard::wire::jsonrpc::message::Payload;
use switchboard::{ToolCallError, tool_result};

use crate::message::ContentBlock;

/// The outcome of a tool call.
#[derive(Debug)]
pub(crate) struct ResultContent {
    /// For the model.
    pub(crate) content: Vec<ContentBlock>,
    /// For the user.
    pub(crate) text: String,
    /// Did the call fail?
    pub(crate) is_error: bool,
    /// For programs.
    pub(crate) details: Option<Json>,
}

/// The text of an empty result: models take an empty one for a mistake.
const EMPTY_RESULT: &str = "(the tool returned no content)";

/// The outcome of a call that returns text only.
pub(crate) fn from_text(text: String) -> ResultContent {
    ResultContent {
        content: vec![ContentBlock::Text { text: text.clone() }],
        text,
        is_error: false,
        details: None,
    }
}

/// The outcome of a call from the host's bounded output.
pub(crate) fn from_output(output: ToolOutput) -> ResultContent {
    let notes = output.notes.iter().map(|it| format!("[note: {it}]"));
    let notes: Vec<ContentBlock> = notes.map(|text| ContentBlock::Text { text }).collect();
    let (is_error, details) = (output.is_error, details(&output));
    let mut blocks: Vec<ContentBlock> = output.blocks.into_iter().map(content_block).collect();
    blocks.retain(|block| !matches!(block, ContentBlock::Text { text } if text.is_empty()));
    blocks.extend(notes);
    if blocks.is_empty() {
        blocks.push(ContentBlock::Text { text: EMPTY_RESULT.to_owned() });
    }
    let text = text_of(&blocks);
    ResultContent { content: blocks, text, is_error, details }
}

/// What a server says besides the content: `structuredContent` and `_meta`. Untrusted.
fn details(output: &ToolOutput) -> Option<Json> {
    let members = [("structuredContent", &output.structured), ("_meta", &output.meta)];
    let member = |(name, payload): (&str, &Option<Payload>)| {
        let value = payload.as_ref()?.decode::<Json>().ok()?;
        Some((name.to_owned(), value))
    };
    let details: Map<String, Json> = members.into_iter().filter_map(member).collect();
    (!details.is_empty()).then_some(Json::Object(details))
}

/// The content as text, with images named.
pub(crate) fn text_of(content: &[ContentBlock]) -> String {
    content.iter().filter_map(display_text).collect::<Vec<_>>().join("\n")
}

fn content_block(block: tool_result::ContentBlock) -> ContentBlock {
    use tool_result::ContentBlock as From;
    let mime = |mime: Option<String>| mime.unwrap_or_else(|| "data".to_owned());
    let of = |uri: Option<String>| uri.map(|uri| format!(" of {uri}")).unwrap_or_default();
    let text = match block {
        From::Image { mime, base64, .. } => {
            return ContentBlock::Image { mime: mime.to_owned(), base64 };
        }
        From::Text { text, from_uri: None } => text,
        From::Text { text, from_uri: Some(uri) } => format!("[{uri}]\n{text}"),
        From::Saved { path, mime: kind, bytes, from_uri } => {
            format!("[{}{}, {bytes} bytes, saved in {}]", mime(kind), of(from_uri), path.display())
        }
        From::NotSaved { mime: kind, from_uri } => {
            format!("[{}{}, not saved]", mime(kind), of(from_uri))
        }
        From::Link { uri, name, description, .. } => {
            let about = [name, description].into_iter().flatten().collect::<Vec<_>>().join(": ");
            format!("[resource {uri} {about}]")
        }
        From::Unknown { raw, .. } => String::from_utf8_lossy(raw.as_bytes()).into_owned(),
    };
    ContentBlock::Text { text }
}

fn display_text(block: &ContentBlock) -> Option<String> {
    match block {
        ContentBlock::Text { text } => Some(text.clone()),
        ContentBlock::Image { mime, base64 } => {
            Some(format!("[{mime}, {} KB]", base64.len() * 3 / 4 / 1024))
        }
        ContentBlock::Thinking { .. } | ContentBlock::ToolUse(_) | ContentBlock::ToolResult(_) => {
            None
        }
    }
}

/// The outcome of a failed call, with all causes, so that the model can react to it.
pub(crate) fn from_failure(failure: &ToolCallError) -> ResultContent {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    match failure {
        ToolCallError::UnknownTool { nearest, .. } if !nearest.is_empty() => {
            text.push_str(&format!("; the nearest are {}", nearest.join(", ")));
        }
        ToolCallError::InvalidArguments { faults, .. } => {
            for fault in faults {
                text.push_str(&format!("\n- {fault}"));
            }
        }
        ToolCallError::Denied { definition_diff: Some(diff), .. } => {
            text.push_str(&format!("\n{diff}"));
        }
        ToolCallError::UnknownTool { .. }
        | ToolCallError::Denied { definition_diff: None, .. }
        | ToolCallError::Unrecorded { .. }
        | ToolCallError::Request(_) => {}
    }
    let content = vec![ContentBlock::Text { text: text.clone() }];
    ResultContent { content, text, is_error: true, details: None }
}
