//! The messages of a conversation, as they are stored on disk. Each provider writes them in its own format.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user; tool results count as the user's.
    User,
    /// The model.
    Assistant,
}

/// Text the agent loop adds as a user message where the user interrupted a response.
const INTERRUPTED_MARKER: &str = "[the user interrupted this response]";

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its author.
    #[serde(rename = "speaker")]
    pub role: Role,
    /// Its content, in order.
    #[serde(rename = "parts")]
    pub content: Vec<ContentBlock>,
}

impl Message {
    /// The user message that marks the response before it as interrupted.
    pub(crate) fn interrupted_marker() -> Message {
        let text = INTERRUPTED_MARKER.to_owned();
        Message { role: Role::User, content: vec![ContentBlock::Text { text }] }
    }

    /// Is this the message that [`Message::interrupted_marker`] makes?
    pub(crate) fn is_interrupted_marker(&self) -> bool {
        matches!(&self.content[..], [ContentBlock::Text { text }] if text == INTERRUPTED_MARKER)
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    #[serde(rename = "picture")]
    Image {
        /// Its MIME type.
        mime: String,
        /// Its bytes as base64.
        base64: String,
    },
    /// The model's thinking. It is sent back unchanged.
    #[serde(rename = "thought")]
    Thinking {
        /// The part that may be shown.
        text: String,
        /// The block that the provider expects back, unchanged.
        #[serde(rename = "proof")]
        provider_block: Option<Json>,
    },
    /// A tool call requested by the model.
    #[serde(rename = "call")]
    ToolUse(ToolUse),
    /// The result of a tool call.
    #[serde(rename = "result")]
    ToolResult(ToolResult),
}

/// A tool call requested by a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The id the model gave it.
    pub id: String,
    /// The tool's exposed name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Json,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// Text and images.
    #[serde(rename = "parts")]
    pub content: Vec<ContentBlock>,
    /// Did the call fail?
    pub is_error: bool,
}
