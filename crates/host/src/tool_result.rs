//! Converts a server's result for a model or a script: truncates text, fits images, and saves other large or binary
//! content to files. Unrecognised content is passed on unchanged.
//!
//! The functions block and may be CPU-heavy: call them where blocking is allowed. Text from the server is passed on
//! as it is; the program that prints it must escape it.

mod block;
mod builder;
pub(crate) mod image_fit;
mod json_str;
mod mime;
pub(crate) mod note;
pub(crate) mod offload;
pub(crate) mod spill;
mod spill_page;

pub use image_fit::{ImageLimits, ImageRejection};
pub use note::{Note, READ_RESULT};
pub use spill::{InvalidResultId, ResultId, SpillError, SpillFile, SpillStore};

use std::path::PathBuf;

use switchboard_wire::jsonrpc::message::Payload;

use builder::OutputBuilder;

pub use spill_page::{LineRange, SpillPage, SpillPageError};

/// Limits on a result: how much is shown, and how much is saved to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// The maximum number of characters in all text blocks together.
    pub characters: usize,
    /// The maximum number of tokens, if the caller counts them; a token counts as four characters.
    pub tokens: Option<usize>,
    /// The maximum number of content blocks.
    pub blocks: usize,
    /// The maximum number of decoded images; further ones are saved to files.
    pub images: usize,
    /// The limits of a single image.
    pub image: ImageLimits,
    /// The maximum number of bytes that one result may save to disk.
    pub spill_bytes: u64,
    /// The maximum number of files that one result may save to disk.
    pub spill_files: usize,
}

/// The usual estimate for most languages and models.
const CHARACTERS_PER_TOKEN: usize = 4;

impl Default for OutputLimits {
    fn default() -> OutputLimits {
        OutputLimits {
            characters: 100_000,
            tokens: None,
            blocks: 10_000,
            images: 20,
            image: ImageLimits::default(),
            spill_bytes: 256 * 1024 * 1024,
            spill_files: 200,
        }
    }
}

impl OutputLimits {
    /// The tighter of the two text limits, in characters.
    pub fn max_characters(&self) -> usize {
        let by_tokens = self.tokens.map(|tokens| tokens.saturating_mul(CHARACTERS_PER_TOKEN));
        by_tokens.map_or(self.characters, |limit| limit.min(self.characters))
    }
}

/// A converted result.
#[derive(Debug)]
pub struct ToolOutput {
    /// The content, in order.
    pub blocks: Vec<ContentBlock>,
    /// Whether the tool reports an error.
    pub is_error: bool,
    /// `structuredContent`, byte for byte.
    pub structured: Option<Payload>,
    /// `_meta`, byte for byte.
    pub meta: Option<Payload>,
    /// The file with the whole text, if the blocks hold only a part.
    pub full_text: Option<SpillFile>,
    /// Notes on changes to the result and on anomalies in it.
    pub notes: Vec<Note>,
}

impl ToolOutput {
    /// All text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let text = |block: &ContentBlock| match block {
            ContentBlock::Text { text, .. } => Some(text.clone()),
            ContentBlock::Image { .. }
            | ContentBlock::Saved { .. }
            | ContentBlock::NotSaved { .. }
            | ContentBlock::Link { .. }
            | ContentBlock::Unknown { .. } => None,
        };
        self.blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n")
    }
}

/// A block of content. Its texts are the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentBlock {
    /// Text, truncated if the result has too much of it.
    Text {
        /// The text.
        text: String,
        /// The URI of the resource that the text comes from.
        from_uri: Option<String>,
    },
    /// An image that a model can read.
    Image {
        /// The type detected from the bytes, not the one the server claims.
        mime: &'static str,
        /// The image data.
        base64: String,
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// Content that was saved to a file.
    Saved {
        /// The file. We choose its name.
        path: PathBuf,
        /// The type detected from the bytes, otherwise the one the server claims.
        mime: Option<String>,
        /// The size in bytes.
        bytes: u64,
        /// The URI of the resource that the content comes from.
        from_uri: Option<String>,
    },
    /// Content that could not be saved; a note says why.
    NotSaved {
        /// The type that the server claims.
        mime: Option<String>,
        /// The URI of the resource that the content comes from.
        from_uri: Option<String>,
    },
    /// A link to a resource.
    Link {
        /// The URI of the resource.
        uri: String,
        /// The name of the resource.
        name: Option<String>,
        /// The type that the server claims.
        mime: Option<String>,
        /// The description of the resource.
        description: Option<String>,
        /// The whole block, as it came.
        raw: Payload,
    },
    /// A block of an unknown type, as it came.
    Unknown {
        /// Its `type`; empty if it has none.
        kind: String,
        /// The whole block.
        raw: Payload,
    },
}

/// Converts the result of `tools/call`.
pub fn from_tool_call(
    response: &Payload,
    server: &str,
    limits: &OutputLimits,
    spill: &SpillStore,
) -> ToolOutput {
    OutputBuilder::new(response, server, limits, spill).tool_call_output()
}

/// Converts the result of `resources/read`.
pub fn from_resource_read(
    response: &Payload,
    server: &str,
    limits: &OutputLimits,
    spill: &SpillStore,
) -> ToolOutput {
    OutputBuilder::new(response, server, limits, spill).resource_read_output()
}
