//! What the suite wants to find, by name: read from `fixtures.json`, which is written next to this file.
//! What a fixture does when it is used lives in the files of its kind.

use std::sync::LazyLock;

use rmcp::model::{ContentBlock, Prompt, Resource, ResourceContents, ResourceTemplate, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

static FIXTURES: LazyLock<Fixtures> = LazyLock::new(|| {
    serde_json::from_str(include_str!("fixtures.json")).expect("the file is part of the program")
});

/// Everything that is listed, and what is used again and again.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fixtures {
    /// The tools, in the order of the list.
    pub tools: Vec<Tool>,
    /// The tool that comes and goes.
    pub changing_tool: Tool,
    /// The resources that have a fixed address.
    pub resources: Vec<Resource>,
    /// The resources that are made from a template.
    pub templates: Vec<ResourceTemplate>,
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// The prompt that comes and goes.
    pub changing_prompt: Prompt,
    /// What a person is asked to fill in.
    pub forms: Forms,
    /// A picture of one red dot, in base64.
    pub png: String,
    /// A millisecond of silence, in base64.
    pub wav: String,
}

/// Schemas of what a person is asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forms {
    /// A name and an address.
    pub user_name_and_email: Json,
    /// A default for every kind of field.
    pub defaults: Json,
    /// Every kind of choice.
    pub enums: Json,
}

/// The fixtures.
pub fn fixtures() -> &'static Fixtures {
    &FIXTURES
}

/// A value of the protocol from the JSON that it is on the wire.
pub fn from_json<T: DeserializeOwned>(json: Json) -> T {
    serde_json::from_value(json).expect("a fixture has the shape of its type")
}

/// The picture.
pub fn image_block() -> ContentBlock {
    ContentBlock::image(fixtures().png.clone(), "image/png")
}

/// A text that is a resource.
pub fn resource_text(uri: &str, mime_type: &str, text: &str) -> ResourceContents {
    ResourceContents::text(text, uri).with_mime_type(mime_type)
}
