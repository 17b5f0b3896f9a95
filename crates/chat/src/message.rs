//! What was said in a conversation, as it is kept on disk and sent to models. Each model client has its own way to write it.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, and what tools answered on the person's machine.
    User,
    /// The model.
    Assistant,
}

/// Text the agent loop adds as a user message where the user interrupted a response.
const INTERRUPTED_MARKER: &str = "[the person stopped the answer here]";

/// One side's turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Whose.
    #[serde(rename = "speaker")]
    pub role: Role,
    /// What, in order.
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

/// A piece of what is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Words.
    Text {
        /// Them.
        text: String,
    },
    /// A picture.
    #[serde(rename = "picture")]
    Image {
        /// Its MIME type.
        mime: String,
        /// Its bytes as base64.
        base64: String,
    },
    /// What the model thought before it spoke. Goes back to the model as it came.
    #[serde(rename = "thought")]
    Thinking {
        /// What may be shown of it.
        text: String,
        /// What the model's provider wants back, untouched.
        #[serde(rename = "proof")]
        provider_block: Option<Json>,
    },
    /// A call that the model wants made.
    #[serde(rename = "call")]
    ToolUse(ToolUse),
    /// What became of one.
    #[serde(rename = "result")]
    ToolResult(ToolResult),
}

/// A call that a model wants made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The model's name for it.
    pub id: String,
    /// The tool's exposed name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Json,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The model's name for the call.
    pub id: String,
    /// What the tool gave: words and pictures.
    #[serde(rename = "parts")]
    pub content: Vec<ContentBlock>,
    /// Did it fail?
    pub is_error: bool,
}
