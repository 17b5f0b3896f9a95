//! What becomes of a server's answer before a model or a script sees it: texts are cut, pictures are fitted, and
//! everything else that is large or binary lies in a file. Nothing is guessed; what is not understood stays as it came.
//!
//! All of it is plain work without waiting, some of it heavy: call it where blocking is allowed. Texts of the server
//! are passed on as they are; whoever prints them escapes them.

mod block;
mod builder;
pub mod image_fit;
mod json_str;
mod mime;
pub mod note;
pub(crate) mod offload;
pub mod spill;
mod spill_page;

use std::path::PathBuf;

use switchboard_wire::jsonrpc::message::Payload;

use builder::OutputBuilder;
use image_fit::ImageLimits;
use note::Note;
use spill::{SpillFile, SpillStore};

pub use spill_page::{LineRange, SpillPage, SpillPageError};

/// How much of an answer is shown, and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// The most characters of text, all parts together.
    pub characters: usize,
    /// The most tokens of text, where the caller counts them; a token is taken for four characters.
    pub tokens: Option<usize>,
    /// The most parts.
    pub blocks: usize,
    /// The most pictures that are looked at; further ones are saved.
    pub images: usize,
    /// How a picture has to be.
    pub image: ImageLimits,
    /// The most bytes that one answer may leave on disk.
    pub spill_bytes: u64,
    /// The most files that one answer may leave on disk.
    pub spill_files: usize,
}

/// Four characters make about one token in most languages and models.
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
    /// The most characters, whichever limit is the tighter.
    pub fn max_characters(&self) -> usize {
        let by_tokens = self.tokens.map(|tokens| tokens.saturating_mul(CHARACTERS_PER_TOKEN));
        by_tokens.map_or(self.characters, |most| most.min(self.characters))
    }
}

/// What an answer yields.
#[derive(Debug)]
pub struct ToolOutput {
    /// Its content, in order.
    pub blocks: Vec<ContentBlock>,
    /// Does the tool say that it failed?
    pub is_error: bool,
    /// `structuredContent`, byte for byte.
    pub structured: Option<Payload>,
    /// `_meta`, byte for byte.
    pub meta: Option<Payload>,
    /// The whole text, where the parts hold only some of it.
    pub full_text: Option<SpillFile>,
    /// What was done to it, and what was odd about it.
    pub notes: Vec<Note>,
}

impl ToolOutput {
    /// Its texts, a line end between them.
    pub fn text(&self) -> String {
        let text = |part: &ContentBlock| match part {
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

/// One piece of an answer. Texts in it are the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentBlock {
    /// A text, cut if the answer held too much of it.
    Text {
        /// The text.
        text: String,
        /// The resource that it is the text of.
        from_uri: Option<String>,
    },
    /// A picture that a model can take.
    Image {
        /// What it is: found in its bytes, not what the server said.
        mime: &'static str,
        /// The picture.
        base64: String,
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// Something that lies in a file now.
    Saved {
        /// The file. Its name is ours.
        path: PathBuf,
        /// What it is: found in its bytes, else what the server said.
        mime: Option<String>,
        /// Its size.
        bytes: u64,
        /// The resource that it is the content of.
        from_uri: Option<String>,
    },
    /// Something that should lie in a file and could not be written; a remark says why.
    NotSaved {
        /// What the server says it is.
        mime: Option<String>,
        /// The resource that it is the content of.
        from_uri: Option<String>,
    },
    /// A resource that can be read.
    Link {
        /// What it is asked for by.
        uri: String,
        /// Its name.
        name: Option<String>,
        /// What the server says it is.
        mime: Option<String>,
        /// What it is about.
        description: Option<String>,
        /// All of it, as it came.
        raw: Payload,
    },
    /// Something that we do not know, as it came.
    Unknown {
        /// What it calls itself; empty if it does not say.
        kind: String,
        /// All of it.
        raw: Payload,
    },
}

/// Takes the answer to `tools/call`.
pub fn from_tool_call(
    response: &Payload,
    server: &str,
    limits: &OutputLimits,
    spill: &SpillStore,
) -> ToolOutput {
    OutputBuilder::new(response, server, limits, spill).from_tool_call()
}

/// Takes the answer to `resources/read`.
pub fn from_resource_read(
    response: &Payload,
    server: &str,
    limits: &OutputLimits,
    spill: &SpillStore,
) -> ToolOutput {
    OutputBuilder::new(response, server, limits, spill).from_resource_read()
}
