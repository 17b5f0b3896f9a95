//! The result of a tool: content blocks and structured content.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

/// The result of a tool.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    blocks: Vec<Json>,
    structured: Option<Json>,
    is_error: bool,
}

impl ToolOutput {
    /// A text block.
    pub fn text(text: impl Into<String>) -> ToolOutput {
        ToolOutput::default().with_text(text)
    }

    /// Structured content, and the same as text.
    pub fn structured(value: Json, text: impl Into<String>) -> ToolOutput {
        ToolOutput { structured: Some(value), ..ToolOutput::text(text) }
    }

    /// An image block.
    pub fn image(bytes: &[u8], mime_type: &str) -> ToolOutput {
        ToolOutput::default().with_image(bytes, mime_type)
    }

    /// Adds an image block.
    pub fn with_image(mut self, bytes: &[u8], mime_type: &str) -> ToolOutput {
        let data = STANDARD.encode(bytes);
        self.blocks.push(json!({"type": "image", "data": data, "mimeType": mime_type}));
        self
    }

    /// Adds a text block.
    pub fn with_text(mut self, text: impl Into<String>) -> ToolOutput {
        self.blocks.push(json!({"type": "text", "text": text.into()}));
        self
    }

    /// Adds a link to a resource of the same server.
    pub fn with_resource_link(mut self, uri: &str, name: &str) -> ToolOutput {
        self.blocks.push(json!({"type": "resource_link", "uri": uri, "name": name}));
        self
    }

    /// A failed call, with a message for the model.
    pub(crate) fn error(message: String) -> ToolOutput {
        ToolOutput { is_error: true, ..ToolOutput::text(message) }
    }

    pub(crate) fn into_json(self) -> Json {
        let mut result = json!({"content": self.blocks});
        if let Some(structured) = self.structured {
            result["structuredContent"] = structured;
        }
        if self.is_error {
            result["isError"] = json!(true);
        }
        result
    }
}
