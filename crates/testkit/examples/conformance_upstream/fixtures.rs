//! The fixtures that the suite expects, by name, read from `fixtures.json` beside this file. Other modules implement
//! their behaviour.

use std::sync::LazyLock;

use rmcp::model::{ContentBlock, Prompt, Resource, ResourceContents, ResourceTemplate, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

static FIXTURES: LazyLock<Fixtures> = LazyLock::new(|| {
    serde_json::from_str(include_str!("fixtures.json")).expect("the file is part of the program")
});

/// All listed items, and shared values.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fixtures {
    /// The tools, in list order.
    pub tools: Vec<Tool>,
    /// The tool that is added and removed.
    pub changing_tool: Tool,
    /// The resources with a fixed URI.
    pub resources: Vec<Resource>,
    /// The resource templates.
    pub templates: Vec<ResourceTemplate>,
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// The prompt that is added and removed.
    pub changing_prompt: Prompt,
    /// The forms for elicitations.
    pub forms: Forms,
    /// An image of one red dot, in base64.
    pub png: String,
    /// A millisecond of silence, in base64.
    pub wav: String,
}

/// Schemas for elicitations.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forms {
    /// A name and an e-mail address.
    pub user_name_and_email: Json,
    /// A default for every type of field.
    pub defaults: Json,
    /// Every kind of enum.
    pub enums: Json,
}

/// The fixtures.
pub fn fixtures() -> &'static Fixtures {
    &FIXTURES
}

/// Parses a protocol value from its JSON.
pub fn from_json<T: DeserializeOwned>(json: Json) -> T {
    serde_json::from_value(json).expect("a fixture has the shape of its type")
}

/// The image as a content block.
pub fn image_block() -> ContentBlock {
    ContentBlock::image(fixtures().png.clone(), "image/png")
}

/// Text contents of a resource.
pub fn resource_text(uri: &str, mime_type: &str, text: &str) -> ResourceContents {
    ResourceContents::text(text, uri).with_mime_type(mime_type)
}
